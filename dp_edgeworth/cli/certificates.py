"""`dp-edgeworth certify`, `dp-edgeworth verify`, and the line that `--verify` adds to a statement."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth.analysis import certificates
from dp_edgeworth.analysis.statement import PrivacyStatement
from dp_edgeworth.analysis.subject import of_groups, subject_of
from dp_edgeworth.cli.inputs import subject, text
from dp_edgeworth.cli.output import ANSWERED, NOT_CERTIFIED, answer

if TYPE_CHECKING:
    from dp_edgeworth.checker import Verification

_FEW_SECONDS = 3.0


def progress() -> Callable[[str], None]:
    """Writes to standard error, once a second, after the first few seconds."""
    start, last = time.monotonic(), [0.0]

    def tell(text: str) -> None:
        now = time.monotonic()
        if now - start > _FEW_SECONDS and now - last[0] > 1.0 and sys.stderr is not None:
            last[0] = now
            print(f"{now - start:6.0f} s  {text}", file=sys.stderr, flush=True)

    return tell


def certify(options: argparse.Namespace) -> int:
    """Writes the certificate to `--out` and says what it claims; without `--out` the text is the certificate."""
    event, relation = _asked(subject(options), options)
    certificate = certificates.certify(event, target_delta=options.target_delta, target_epsilon=options.target_epsilon,
                                       neighboring_relation=relation, digits=options.digits)
    claim = claim_of(certificate)
    if options.out is None:
        answer(options, claim, certificate.to_json())
        return ANSWERED
    pathlib.Path(options.out).write_text(certificate.to_json() + "\n", encoding="ascii")
    answer(options, {**claim, "written_to": options.out}, f"{in_words(certificate)}, written to {options.out}")
    return ANSWERED


def verify(options: argparse.Namespace) -> int:
    """What a check of the certificate says."""
    given = text(options.certificate)
    certificate = certificates.Certificate.from_json(given)
    result = certificates.verify(given, progress())
    lines = [f"{in_words(certificate)}: {verdict(result)}", *(f"  {reason}" for reason in result.reasons), f"  {by(result)}"]
    answer(options, {**claim_of(certificate), **dataclasses.asdict(result), "checker": _versions()}, "\n".join(lines))
    return ANSWERED if result.proved else NOT_CERTIFIED


def state_verified(options: argparse.Namespace, statement: PrivacyStatement, asked: Any, before: str = "",
                   data: dict[str, Any] | None = None) -> int:
    """A statement with the line that `--verify` adds; `data` is what it is a part of."""
    event, relation = _asked(asked, options)
    found, line, proved = verified(statement, event, relation)
    plain = {**statement.to_dict(), "verification": found}
    answer(options, plain if data is None else {**data, "statement": plain}, f"{before}{statement}\n{line}")
    return ANSWERED if statement.certified and proved else NOT_CERTIFIED


def _asked(asked: Any, options: argparse.Namespace) -> tuple[dp_event.DpEvent, NeighboringRelation]:
    found = of_groups(subject_of(asked, options.neighboring_relation), getattr(options, "group_size", 1))
    return found.event, found.accountant.neighboring_relation


def verified(statement: PrivacyStatement, event: dp_event.DpEvent, relation: NeighboringRelation) -> tuple[dict[str, Any], str, bool]:
    """The data and the line that `--verify` adds to a statement, and whether both ends are proved."""
    certificate = certificates.certificate_of(event, relation, statement.quantity, statement.given, statement.interval, 5)
    result = certificates.verify(certificate, progress())
    line = f"  verified       {in_words(certificate)}: {verdict(result)}; {by(result)}"
    if not result.proved:
        line += "".join(f"\n{'':17}{reason}" for reason in result.reasons)
    return {**claim_of(certificate), **dataclasses.asdict(result), "checker": _versions()}, line, result.proved


def claim_of(certificate: certificates.Certificate) -> dict[str, str]:
    names = ("quantity", "given", "lower", "upper", "neighboring_relation")
    return {f"{name}_end" if name in ("lower", "upper") else name: getattr(certificate, name) for name in names}


def in_words(certificate: certificates.Certificate) -> str:
    other = "delta" if certificate.quantity == "epsilon" else "epsilon"
    ends = f"{certificate.lower} <= {certificate.quantity} <= {certificate.upper}"
    return f"{ends} at {other} {certificate.given} ({certificate.neighboring_relation})"


def verdict(result: Verification) -> str:
    return "both ends proved" if result.proved else f"upper end {result.upper}, lower end {result.lower}"


def by(result: Verification) -> str:
    version = _versions()
    names = f"checker {version['checker']}, python-flint {version['python-flint']}"
    return f"ball arithmetic, {names}, {result.bits} bits, {result.seconds:.2f} s"


def _versions() -> dict[str, str]:
    import flint

    from dp_edgeworth.checker import VERSION

    return {"checker": VERSION, "python-flint": flint.__version__}
