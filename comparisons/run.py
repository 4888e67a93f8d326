"""`run` and `quickstart`: cases through methods, row by row."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from comparisons import report
from comparisons.cases import CASES, Case, adhoc
from comparisons.methods import ALIASES, DEFAULT, EXACT, METHODS, Ends, pick
from comparisons.report import Row
from comparisons.runner import MEMORY, OK, TIMEOUT, Limits, Outcome, judge, limited, measure

_AD_HOC = ("sampling_probability", "noise_multiplier", "steps")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `run`."""
    parser.add_argument("case", nargs="*", help="names of cases, see `list`; none: every dp-sgd-* case")
    parser.add_argument("--delta", type=_probability, nargs="+", help="instead of the case's own")
    parser.add_argument("--sampling-probability", type=float, help="with the next two: DP-SGD of your own")
    parser.add_argument("--noise-multiplier", type=float)
    parser.add_argument("--steps", type=int)
    add_limits(parser)


def add_limits(parser: argparse.ArgumentParser, timeout: float = 60.0) -> None:
    """Arguments that every measuring command has."""
    parser.add_argument("--methods", nargs="+", metavar="METHOD", help="see `list`; default: the case's own, or all")
    parser.add_argument(
        "--out", type=Path, default=Path("out"), metavar="DIR", help="for CSV and pictures (default: out)"
    )
    parser.add_argument(
        "--timeout", type=float, default=timeout, metavar="S", help=f"seconds per row (default: {timeout:g})"
    )
    parser.add_argument("--memory", type=float, default=4.0, metavar="GB", help="gigabytes per row (default: 4)")


def _probability(text: str) -> float:
    value = float(text)
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"delta must be between 0 and 1. Found {text}")
    return value


def chosen_cases(arguments: argparse.Namespace) -> list[Case]:
    """The cases that the arguments of `run` ask for."""
    own = [getattr(arguments, name) for name in _AD_HOC]
    if any(value is not None for value in own):
        if None in own or not arguments.delta or arguments.case:
            flags = ", ".join("--" + name.replace("_", "-") for name in _AD_HOC)
            raise ValueError(f"A case of your own takes {flags} and --delta together, and no case name.")
        return [replace(adhoc(own[0], own[1], own[2], arguments.delta[0]), deltas=tuple(arguments.delta))]
    names = pick("CASE", arguments.case, CASES) or [name for name in CASES if name.startswith("dp-sgd-")]
    cases = [CASES[name] for name in names]
    return [replace(case, deltas=tuple(arguments.delta)) for case in cases] if arguments.delta else cases


def run(arguments: argparse.Namespace) -> int:
    """Tables and `run.csv`."""
    cases = chosen_cases(arguments)
    wanted = pick("METHOD", arguments.methods or [], METHODS, ALIASES)
    directory = report.prepare(arguments.out)
    limits = Limits(arguments.timeout, arguments.memory)
    run_cases(cases, wanted, limits, directory / "run.csv", show=report.console().print)
    return 0


def case_methods(case: Case, wanted: list[str]) -> list[str]:
    """The truth first, then the methods asked for, or the case's own, or all."""
    names = wanted or list(case.methods) or list(DEFAULT)
    return [EXACT.name, *(name for name in names if name != EXACT.name)]


def run_cases(
    cases: list[Case], wanted: list[str], limits: Limits, path: Path, show: Callable[..., None] | None = None
) -> list[Row]:
    """Measures everything, keeps each row in the CSV at once, shows a table after each case."""
    screen = report.console(stderr=True)
    total = sum(len(case.sizes) * len(case.deltas) * len(case_methods(case, wanted)) for case in cases)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    everything: list[Row] = []
    with (
        report.table_file(path, report.row_columns()) as write,
        Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as progress,
    ):
        task = progress.add_task("", total=total)
        for case in cases:
            rows = []
            for row in case_rows(case, wanted, limits, lambda text: progress.update(task, description=text)):
                write(report.row_cells(row))
                progress.advance(task)
                rows.append(row)
            if show:
                title = f"{case.name}: {case.line}" + ("" if _several(case) else f", delta {case.deltas[0]:g}")
                show(report.case_table(title, rows, _several(case)), *report.notes(rows), "", sep="\n")
            everything.extend(rows)
    report.console().print(f"rows: {path}")
    return everything


def _several(case: Case) -> bool:
    return len(case.sizes) * len(case.deltas) > 1


def case_rows(case: Case, wanted: list[str], limits: Limits, tell: Callable[[str], None]) -> Iterator[Row]:
    """The rows of one case. A method that ran out of time or memory at two sizes keeps that status beyond, untried."""
    gave_up: dict[tuple[str, float], list[Row]] = {}
    for size in sorted(case.sizes):
        event = case.build(size)
        for delta in case.deltas:
            exact: Ends | None = None
            for name in case_methods(case, wanted):
                tell(f"{case.name} m={size:,} {name}")
                failed = gave_up.setdefault((name, delta), [])
                if len(failed) >= 2:
                    note = f"not tried: {failed[-1].status} at m = {failed[-1].size:,}"
                    outcome = Outcome(failed[-1].status, note=note)
                else:
                    outcome = limited(measure, (name, event, delta, case.relation), limits)
                row = _row(case, size, delta, name, outcome, exact)
                if name == EXACT.name and outcome.status == OK:
                    exact = outcome.value[0]
                if row.status in (TIMEOUT, MEMORY) and len(failed) < 2:
                    failed.append(row)
                yield row


def _row(case: Case, size: int, delta: float, name: str, outcome: Outcome, exact: Ends | None) -> Row:
    """An outcome as a row, judged."""
    guarantee = METHODS[name].guarantee
    ends, seconds = outcome.value if outcome.status == OK else ((None, None, None), None)
    status, note = judge(ends, guarantee, exact) if outcome.status == OK else (outcome.status, outcome.note)
    peak = outcome.peak_mb if outcome.status == OK else None
    truth = exact[1] if exact else (ends[1] if name == EXACT.name else None)
    lower, estimate, upper = ends
    return Row(
        case.name, size, delta, name, guarantee, lower, estimate, upper, truth, seconds, peak, status, note
    )  # fmt: skip
