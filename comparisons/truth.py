"""`truth`: random events of every regime, the certified interval against the exact value.

Two stages. The exact values (`truth_oracle`) are slow and do not depend on our code: they are computed once and stored.
The judgement (`truth_judge`) is quick, and repeated after every change of the code. Both can be stopped and continued:
a row is in its CSV as soon as it is finished. Judged rows are used again while sources, versions, machine and
exact values are the same; after a change of the judges themselves delete `out/truth-SEED.csv`.
"""

from __future__ import annotations

import argparse
import shlex
from dataclasses import asdict, fields
from pathlib import Path

from comparisons import report, truth_oracle, truth_tables
from comparisons.brackets import pld_bracket
from comparisons.runner import Limits
from comparisons.truth_cases import REGIMES, TruthCase, truth_cases
from comparisons.truth_judge import VIOLATION, Bracket, TruthRow, ask, judge
from comparisons.truth_oracle import Stored
from comparisons.workers import outcomes

LIMITS = Limits(60.0)
_BRACKET_SECONDS = 10.0


def exact_values(
    cases: list[TruthCase], path: Path, limits: Limits = LIMITS, jobs: int = 1, retry: bool = False
) -> dict[int, Stored]:
    """The first stage: what is stored, and what had to be computed. `retry`: ask again where time or memory was too short."""
    found = truth_oracle.stored_values(path, cases)
    again = {i for i, row in found.items() if retry and row.delta is None and not row.hopeless}
    missing = [case for case in cases if case.index not in found or case.index in again]
    if missing:
        report.prepare(path.parent)
    with report.progress(len(missing)) as (tell, advance):
        for row in truth_oracle.compute(missing, path, limits, jobs) if missing else ():
            found[row.index] = row
            tell(f"exact values: {row.note or 'known'}")
            advance()
    return found


def judged(
    cases: list[TruthCase], exact: dict[int, Stored], path: Path, limits: Limits = LIMITS, jobs: int = 1
) -> list[TruthRow]:
    """The second stage: a row for every case, in the order of the cases."""
    resume = report.of_this_version(path)
    kept = {row.index: row for row in read_rows(path)} if resume else {}
    done = {i: row for i, row in kept.items() if i in exact and row.is_of(exact[i])}
    left = {case.index: case for case in cases if case.index not in done}
    brackets = _brackets([case for case in left.values() if exact[case.index].epsilon is None], limits, jobs)
    tasks = [(case, exact[case.index].at_epsilon) for case in left.values()]
    with (
        report.table_file(path, [field.name for field in fields(TruthRow)], resume) as write,
        report.progress(len(tasks)) as (tell, advance),
    ):
        for (case, _), outcome in outcomes(ask, tasks, limits, jobs):
            row = judge(case, outcome, exact[case.index], brackets.get(case.index))
            done[row.index] = row
            write({name: repr(cell) if isinstance(cell, float) else cell for name, cell in asdict(row).items()})
            tell(f"violations: {sum(row.status == VIOLATION for row in done.values())}  {row.regime}")
            advance()
    return [done[case.index] for case in cases]


def _brackets(cases: list[TruthCase], limits: Limits, jobs: int) -> dict[int, Bracket]:
    """PLD's brackets, where it has one within the limits."""
    short = Limits(min(limits.seconds, _BRACKET_SECONDS), limits.gigabytes)
    found: dict[int, Bracket] = {}
    with report.progress(len(cases)) as (tell, advance):
        tell("brackets of PLD")
        for (case,), outcome in outcomes(bracket, [(case,) for case in cases], short, jobs):
            found[case.index] = outcome.value  # None where it failed, too
            advance()
    return found


def bracket(case: TruthCase) -> Bracket:
    """PLD's bracket of epsilon(delta)."""
    return pld_bracket(case.event, case.delta, case.relation)


def read_rows(path: Path) -> list[TruthRow]:
    """The rows of a CSV that `judged` wrote."""
    return report.read_as(TruthRow, path)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """How many cases, which, where the exact values are, and limits for each answer."""
    parser.add_argument("--cases", type=int, default=500, metavar="N", help="how many (default: 500)")
    parser.add_argument("--seed", type=int, default=0, metavar="S", help="which sequence of cases (default: 0)")
    parser.add_argument("--out", type=Path, default=None, metavar="FILE", help="CSV (default: out/truth-SEED.csv)")
    parser.add_argument(
        "--oracle", type=Path, default=None, metavar="FILE",
        help="CSV of exact values, continued (default: comparisons/results/truth-oracle-SEED.csv, else out/)",
    )  # fmt: skip
    stages = parser.add_mutually_exclusive_group()
    stages.add_argument("--stored-only", action="store_true", help="only cases whose exact values are stored")
    stages.add_argument("--oracle-only", action="store_true", help="compute exact values, judge nothing")
    parser.add_argument("--retry", action="store_true", help="ask the oracle again where it ran into a limit")
    parser.add_argument("--markdown", type=Path, default=None, metavar="FILE", help="write the summary as Markdown, too")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="cases at a time (default: 1)")
    parser.add_argument("--timeout", type=float, default=60.0, metavar="S", help="seconds per case (default: 60)")
    parser.add_argument("--memory", type=float, default=4.0, metavar="GB", help="gigabytes per case (default: 4)")
    parser.add_argument(
        "--regime", nargs="+", default=[], choices=list(REGIMES), metavar="NAME", help=f"only these of: {', '.join(REGIMES)}"
    )


def run(arguments: argparse.Namespace) -> int:
    """Both stages and the tables; exit code 1 if there is a violation."""
    limits, jobs = Limits(arguments.timeout, arguments.memory), max(1, arguments.jobs)
    path = arguments.out or Path("out") / f"truth-{arguments.seed}.csv"
    oracle = arguments.oracle or truth_oracle.default_path(arguments.seed)
    cases = truth_cases(arguments.seed, arguments.cases, tuple(arguments.regime))
    screen = report.console()
    if arguments.stored_only:
        exact = truth_oracle.stored_values(oracle, cases)
        screen.print(f"stored: {len(exact)} of {len(cases)} cases")
        cases = [case for case in cases if case.index in exact]
    else:
        exact = exact_values(cases, oracle, limits, jobs, arguments.retry)
    screen.print(f"exact values: {oracle}")
    if arguments.oracle_only:
        return 0
    report.prepare(path.parent)
    rows = judged(cases, exact, path, limits, jobs)
    truth_tables.show(rows)
    screen.print(f"rows: {path}")
    if arguments.markdown:
        report.prepare(arguments.markdown.parent)
        arguments.markdown.write_text(truth_tables.page(rows, command(arguments)), encoding="utf-8")
        screen.print(f"page: {arguments.markdown}")
    return 1 if any(row.status == VIOLATION for row in rows) else 0


def command(arguments: argparse.Namespace) -> str:
    """The command line of these arguments, as far as they decide what is judged."""
    words = ["python", "-m", "comparisons", "truth", "--cases", str(arguments.cases), "--seed", str(arguments.seed)]
    words += ["--oracle", str(arguments.oracle)] if arguments.oracle else []
    words += ["--stored-only"] if arguments.stored_only else []
    words += ["--regime", *arguments.regime] if arguments.regime else []
    words += ["--markdown", str(arguments.markdown)] if arguments.markdown else []
    return shlex.join(words)
