"""`verified`: certificates for the stored cases of a truth campaign, checked in ball arithmetic.

Every case asks for epsilon at its delta. Our certified interval, rounded outward to a few digits, becomes a certificate; the
checker proves or refuses each end. A row is in the CSV as soon as it is finished, so that a run can be stopped and continued.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from comparisons import report, truth_oracle
from comparisons.runner import OK, Limits
from comparisons.truth_cases import REGIMES, TruthCase, truth_cases
from comparisons.truth_oracle import Stored
from comparisons.workers import outcomes

BOTH, ONE, REFUTED, WIDE, UNDECIDED = "both ends proved", "one end proved", "refuted", "proved, but wide", "undecided"
STATUSES = (BOTH, WIDE, ONE, UNDECIDED, REFUTED)


@dataclass(frozen=True)
class VerifiedRow:
    """One case: the claim, the verdict on both ends, CPU seconds of both halves, and how, or why not."""

    index: int
    regime: str
    exact: bool
    lower_end: str
    upper_end: str
    upper: str
    lower: str
    status: str
    certify_seconds: float
    verify_seconds: float
    note: str


def verified(case: TruthCase, digits: int, seconds: float) -> tuple[str, str, str, str, float, float, str]:
    """Ends, verdicts, CPU seconds and reasons of one case."""
    import time

    from dp_edgeworth.analysis import certificates

    start = time.process_time()
    certificate = certificates.certify(case.event, target_delta=case.delta, neighboring_relation=case.relation, digits=digits)
    middle = time.process_time()
    result = certificates.verify(certificate, most_seconds=seconds)
    return (
        certificate.lower,
        certificate.upper,
        result.upper,
        result.lower,
        middle - start,
        time.process_time() - middle,
        " ".join(result.reasons),
    )


def judged(case: TruthCase, stored: Stored, outcome: object, digits: int) -> VerifiedRow:
    """The row of a case; an exact value outside a proved end would be a refutation of the checker."""
    if getattr(outcome, "status", None) != OK:
        words = f"{getattr(outcome, 'status', '')}: {getattr(outcome, 'note', '')}"
        return VerifiedRow(
            case.index, case.regime, stored.epsilon is not None, "", "", UNDECIDED, UNDECIDED, UNDECIDED, 0.0, 0.0, words[:300]
        )
    low, high, upper, lower, first, second, note = outcome.value  # type: ignore[attr-defined]
    proved = (upper == "proved") + (lower == "proved")
    status = REFUTED if "refuted" in (upper, lower) else (UNDECIDED, ONE, BOTH)[proved]
    if status == BOTH and not (float(high) - float(low) <= 3.0 * 10.0 ** (1 - digits) * float(high)):
        status = WIDE
    if stored.epsilon is not None and not _contains(low, high, upper, lower, stored):
        raise ValueError(
            f"A proved end must be on its side of the exact value, {stored.epsilon!r}. Found case {case.index}: {low}, {high}."
        )
    return VerifiedRow(case.index, case.regime, stored.epsilon is not None, low, high, upper, lower, status, first, second, note[:300])


def _contains(low: str, high: str, upper: str, lower: str, stored: Stored) -> bool:
    """Proved ends on the right sides of the exact value, within its accuracy."""
    value = stored.epsilon or 0.0
    slack = 10.0 * max(value, 1e-12) * max(stored.epsilon_accuracy or 0.0, 1e-12)
    return (upper != "proved" or value <= float(high) + slack) and (lower != "proved" or float(low) <= value + slack)


def reason(note: str) -> str:
    """The first reason for being undecided, without its numbers."""
    found = re.search(r"undecided, as (.*?)\.(?: add:|$)", note)
    return re.sub(r"\d[\d.e+-]*", "N", found.group(1) if found else note)[:110]


def page(rows: list[VerifiedRow], command: str) -> str:
    """The tables as Markdown."""
    lines = [
        "# Verified answers: the truth campaign in ball arithmetic",
        "",
        f"`{command}`: our certified interval of epsilon, rounded outward, proved or refused by `dp_edgeworth.checker`.",
        "",
        f"{len(rows)} cases. " + ", ".join(f"{status}: {sum(row.status == status for row in rows)}" for status in STATUSES) + ".",
        "",
        *_regime_table("All cases", rows, lambda row: True),
        "",
        *_regime_table("Cases without an exact value", rows, lambda row: not row.exact),
        "",
        "## Why not",
        "",
        "| cases | reason |",
        "|---|---|",
    ]
    reasons = Counter(reason(row.note) for row in rows if row.status in (ONE, UNDECIDED))
    lines += [f"| {count} | {words} |" for words, count in reasons.most_common()]
    return "\n".join(lines) + "\n"


def _regime_table(title: str, rows: Iterable[VerifiedRow], chosen: Callable[[VerifiedRow], bool]) -> list[str]:
    rows = [row for row in rows if chosen(row)]
    lines = [
        f"## {title}",
        "",
        "| regime | cases | " + " | ".join(STATUSES) + " | median CPU seconds to verify |",
        "|---" * (len(STATUSES) + 3) + "|",
    ]
    for regime in REGIMES:
        some = [row for row in rows if row.regime == regime]
        if some:
            counts = " | ".join(str(sum(row.status == status for row in some)) for status in STATUSES)
            median = sorted(row.verify_seconds for row in some)[len(some) // 2]
            lines.append(f"| {regime} | {len(some)} | {counts} | {median:.3f} |")
    return lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Which cases, how many digits, and limits."""
    parser.add_argument("--cases", type=int, default=5000, metavar="N", help="how many (default: 5000)")
    parser.add_argument("--seed", type=int, default=11, metavar="S", help="which sequence of cases (default: 11)")
    parser.add_argument("--every", type=int, default=1, metavar="K", help="only one case in K of each regime (default: all)")
    parser.add_argument("--unknown", action="store_true", help="only cases without an exact value")
    parser.add_argument("--digits", type=int, default=4, metavar="D", help="significant digits of the ends (default: 4)")
    parser.add_argument("--seconds", type=float, default=30.0, metavar="S", help="per check (default: 30)")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="cases at a time (default: 1)")
    parser.add_argument(
        "--regime", nargs="+", default=[], choices=list(REGIMES), metavar="NAME", help=f"only these of: {', '.join(REGIMES)}"
    )
    parser.add_argument("--out", type=Path, default=None, metavar="FILE", help="CSV (default: out/verified-SEED.csv)")
    parser.add_argument("--markdown", type=Path, default=None, metavar="FILE", help="write the tables as Markdown, too")


def run(arguments: argparse.Namespace) -> int:
    """All cases and the tables; exit code 1 if an end is refuted."""
    cases = truth_cases(arguments.seed, arguments.cases, tuple(arguments.regime))
    stored = truth_oracle.stored_values(truth_oracle.default_path(arguments.seed), cases)
    chosen = [
        case
        for case in cases
        if case.index in stored
        and (case.index // len(REGIMES)) % arguments.every == 0
        and not (arguments.unknown and stored[case.index].epsilon is not None)
    ]
    path = arguments.out or Path("out") / f"verified-{arguments.seed}.csv"
    report.prepare(path.parent)
    resume = report.of_this_version(path)
    done = {row.index: row for row in read_rows(path)} if resume else {}
    tasks = [(case, arguments.digits, arguments.seconds) for case in chosen if case.index not in done]
    limits = Limits(4.0 * arguments.seconds + 60.0)
    with (
        report.table_file(path, [field.name for field in fields(VerifiedRow)], resume) as write,
        report.progress(len(tasks)) as (tell, advance),
    ):
        for (case, _, _), outcome in outcomes(verified, tasks, limits, max(1, arguments.jobs)):
            row = judged(case, stored[case.index], outcome, arguments.digits)
            done[row.index] = row
            write(asdict(row))
            tell(f"refuted: {sum(one.status == REFUTED for one in done.values())}  {row.regime}")
            advance()
    rows = [done[case.index] for case in chosen]
    words = f"python -m comparisons verified --seed {arguments.seed} --cases {arguments.cases} --digits {arguments.digits}"
    words += f" --seconds {arguments.seconds:g}"
    words += f" --every {arguments.every}" * (arguments.every > 1) + " --unknown" * arguments.unknown
    text = page(rows, words)
    report.console().print(text, markup=False)
    if arguments.markdown:
        report.prepare(arguments.markdown.parent)
        arguments.markdown.write_text(text, encoding="utf-8")
    return 1 if any(row.status == REFUTED for row in rows) else 0


def read_rows(path: Path) -> list[VerifiedRow]:
    """The rows of a CSV that `run` wrote."""
    kinds = {field.name: str(field.type) for field in fields(VerifiedRow)}
    lines = [line for line in report.read_table(path) if None not in line.values()]
    rows = [{name: report.parsed(line[name], kind) for name, kind in kinds.items()} for line in lines]
    return [VerifiedRow(**{**row, "exact": str(row["exact"]) == "True"}) for row in rows]
