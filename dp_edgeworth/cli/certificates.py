"""`dp-edgeworth certify`, `dp-edgeworth verify`, and the line that `--verify` adds to a statement."""

from __future__ import annotations

import argparse
import dataclasses
import pathlib
from typing import TYPE_CHECKING, Any

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth.analysis import certificates
from dp_edgeworth.analysis.statement import PrivacyStatement
from dp_edgeworth.analysis.statement_formats import line
from dp_edgeworth.analysis.subject import of_groups, subject_of
from dp_edgeworth.cli.inputs import subject, text
from dp_edgeworth.cli.output import ANSWERED, answer, code

if TYPE_CHECKING:
    from dp_edgeworth.checker import Verification


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
    result = certificates.verify(given)
    data, verdict = _checked(certificates.Certificate.from_json(given), result)
    answer(options, data, "\n".join([f"{verdict[0]}:{verdict[1]}", *(f"  {line}" for line in (*result.reasons, verdict[2]))]))
    return code(result.proved)


def state_verified(options: argparse.Namespace, statement: PrivacyStatement, asked: Any, before: str = "",
                   data: dict[str, Any] | None = None) -> int:
    """A statement with the line that `--verify` adds, and whether both ends are proved; `data` is what it is a part of."""
    event, relation = _asked(asked, options)
    certificate = certificates.certificate_of(event, relation, statement.quantity, statement.given, statement.interval, 5)
    result = certificates.verify(certificate)
    found, (claim, ends, checker) = _checked(certificate, result)
    reasons = () if result.proved else result.reasons
    lines = [line("verified", f"{claim}:{ends}; {checker}"), *(line("", reason) for reason in reasons)]
    plain = {**statement.to_dict(), "verification": found}
    answer(options, plain if data is None else {**data, "statement": plain}, "\n".join([f"{before}{statement}", *lines]))
    return code(statement.certified and result.proved)


def _asked(asked: Any, options: argparse.Namespace) -> tuple[dp_event.DpEvent, NeighboringRelation]:
    found = of_groups(subject_of(asked, options.neighboring_relation), getattr(options, "group_size", 1))
    return found.event, found.accountant.neighboring_relation


def claim_of(certificate: certificates.Certificate) -> dict[str, str]:
    names = ("quantity", "given", "lower", "upper", "neighboring_relation")
    return {f"{name}_end" if name in ("lower", "upper") else name: getattr(certificate, name) for name in names}


def in_words(certificate: certificates.Certificate) -> str:
    other = "delta" if certificate.quantity == "epsilon" else "epsilon"
    ends = f"{certificate.lower} <= {certificate.quantity} <= {certificate.upper}"
    return f"{ends} at {other} {certificate.given} ({certificate.neighboring_relation})"


def _checked(certificate: certificates.Certificate, result: Verification) -> tuple[dict[str, Any], tuple[str, str, str]]:
    """What a check found, as data; and in words: the claim, the verdict, and who checked it."""
    import flint

    from dp_edgeworth.checker import VERSION

    ends = " both ends proved" if result.proved else f" upper end {result.upper}, lower end {result.lower}"
    checker = f"ball arithmetic, checker {VERSION}, python-flint {flint.__version__}, {result.bits} bits, {result.seconds:.2f} s"
    data = {**claim_of(certificate), **dataclasses.asdict(result), "checker": {"checker": VERSION, "python-flint": flint.__version__}}
    return data, (in_words(certificate), ends, checker)
