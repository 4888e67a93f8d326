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

from dp_edgeworth import certificates
from dp_edgeworth.statement import PrivacyStatement

if TYPE_CHECKING:
    from dp_edgeworth.checker import Verification

PROVED, NOT_PROVED = 0, 1
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


def certify(event: dp_event.DpEvent, relation: NeighboringRelation, options: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Writes the certificate to `--out` and says what it claims; without `--out` the text is the certificate."""
    certificate = certificates.certify(
        event,
        target_delta=options.target_delta,
        target_epsilon=options.target_epsilon,
        neighboring_relation=relation,
        digits=options.digits,
    )
    claim = claim_of(certificate)
    if options.out is None:
        return claim, certificate.to_json()
    pathlib.Path(options.out).write_text(certificate.to_json() + "\n", encoding="ascii")
    return {**claim, "written_to": options.out}, f"{in_words(certificate)}, written to {options.out}"


def verify(text: bytes) -> tuple[dict[str, Any], str, int]:
    """Data, text and exit code of a check."""
    certificate = certificates.Certificate.from_json(text)
    result = certificates.verify(text, progress())
    lines = [f"{in_words(certificate)}: {verdict(result)}", *(f"  {reason}" for reason in result.reasons), f"  {by(result)}"]
    return (
        {**claim_of(certificate), **dataclasses.asdict(result), "checker": _versions()},
        "\n".join(lines),
        PROVED if result.proved else NOT_PROVED,
    )


def verified(answer: PrivacyStatement, event: dp_event.DpEvent, relation: NeighboringRelation) -> tuple[dict[str, Any], str, bool]:
    """The data and the line that `--verify` adds to a statement, and whether both ends are proved."""
    certificate = certificates.certificate_of(event, relation, answer.quantity, answer.given, answer.interval, 5)
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
