"""`run` and `quickstart`: cases through methods, row by row."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from dp_accounting import NeighboringRelation

from comparisons import report
from comparisons.cases import AR, CASES, Case, adhoc, from_file
from comparisons.methods import ALIASES, DEFAULT, EXACT, METHODS, Ends, pick
from comparisons.report import Row
from comparisons.runner import MEMORY, OK, TIMEOUT, Limits, Outcome, judge, measure
from comparisons.workers import limited

Key = tuple[str, int, str, str]
_NOTHING: Mapping[Key, Row] = {}
_AD_HOC = ("sampling_probability", "noise_multiplier", "steps")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Arguments of `run`."""
    parser.add_argument("case", nargs="*", help="names of cases, see `list`; none: every dp-sgd-* case")
    parser.add_argument("--delta", type=_probability, nargs="+", help="instead of the case's own")
    parser.add_argument("--sampling-probability", type=float, help="with the next two: DP-SGD of your own")
    parser.add_argument("--noise-multiplier", type=float, help="of the Gaussian noise")
    parser.add_argument("--steps", type=int, help="number of steps")
    parser.add_argument("--event", type=Path, metavar="FILE", help="an event tree as JSON (docs/event-json.md)")
    parser.add_argument("--neighboring-relation", choices=[relation.name for relation in NeighboringRelation],
                        metavar="RELATION", help="of an event of your own: ADD_OR_REMOVE_ONE (default), REPLACE_ONE or "
                        "REPLACE_SPECIAL")  # fmt: skip
    add_limits(parser)


def add_limits(parser: argparse.ArgumentParser, timeout: float = 60.0) -> None:
    """Arguments that every measuring command has."""
    parser.add_argument("--methods", nargs="+", metavar="METHOD", help="see `list`; default: the case's own, or all")
    parser.add_argument(
        "--out", type=Path, default=Path("out"), metavar="DIR", help="for CSV and pictures (default: out)"
    )
    parser.add_argument(
        "--timeout", type=positive, default=timeout, metavar="S", help=f"seconds per row (default: {timeout:g})"
    )
    parser.add_argument("--memory", type=positive, default=4.0, metavar="GB", help="gigabytes per row (default: 4)")
    parser.add_argument("--resume", action="store_true", help="keep the rows of DIR's CSV, measure only what is missing")


def positive(text: str) -> float:
    """A limit from the command line."""
    value = float(text)
    if not 0.0 < value < math.inf:
        raise argparse.ArgumentTypeError(f"a limit must be positive and finite. Found {text}")
    return value


def _probability(text: str) -> float:
    value = float(text)
    if not 0.0 < value < 1.0:
        raise argparse.ArgumentTypeError(f"delta must be between 0 and 1. Found {text}")
    return value


def chosen_cases(arguments: argparse.Namespace) -> list[Case]:
    """The cases that the arguments of `run` ask for."""
    own = [getattr(arguments, name) for name in _AD_HOC]
    if arguments.event is not None or any(value is not None for value in own):
        return [_own_case(arguments, own)]
    if arguments.neighboring_relation is not None:
        raise ValueError("--neighboring-relation is for an event of your own: a named case has its relation.")
    names = pick("CASE", arguments.case, CASES) or [name for name in CASES if name.startswith("dp-sgd-")]
    cases = [CASES[name] for name in names]
    return [replace(case, deltas=tuple(arguments.delta)) for case in cases] if arguments.delta else cases


def _own_case(arguments: argparse.Namespace, own: list[Any]) -> Case:
    """The event of a file, or DP-SGD with parameters from the command line."""
    flags = ", ".join("--" + name.replace("_", "-") for name in _AD_HOC)
    relation = NeighboringRelation[arguments.neighboring_relation or AR.name]
    if arguments.event is not None:
        if any(value is not None for value in own) or arguments.case or not arguments.delta:
            raise ValueError(f"--event takes --delta, and neither a case name nor {flags}.")
        return from_file(arguments.event, tuple(arguments.delta), relation)
    if None in own or not arguments.delta or arguments.case:
        raise ValueError(f"A case of your own takes {flags} and --delta together, and no case name.")
    return replace(adhoc(own[0], own[1], own[2], tuple(arguments.delta)), relation=relation)


def run(arguments: argparse.Namespace) -> int:
    """Tables and `run.csv`."""
    cases = chosen_cases(arguments)
    wanted = pick("METHOD", arguments.methods or [], METHODS, ALIASES)
    directory = report.prepare(arguments.out)
    limits = Limits(arguments.timeout, arguments.memory)
    show = report.console().print
    run_cases(cases, wanted, limits, directory / "run.csv", show=show, resume=arguments.resume)
    return 0


def case_methods(case: Case, wanted: list[str]) -> list[str]:
    """The truth first, then the methods asked for, or the case's own, or all."""
    names = wanted or list(case.methods) or list(DEFAULT)
    return [EXACT.name, *(name for name in names if name != EXACT.name)]


def key(case: str, size: int, delta: float, method: str) -> Key:
    """What was measured; delta as the CSV holds it. A row is measured once per file."""
    return case, size, f"{delta:.12g}", method


def _key(row: Row) -> Key:
    return key(row.case, row.size, row.delta, row.method)


def run_cases(
    cases: list[Case],
    wanted: list[str],
    limits: Limits,
    path: Path,
    show: Callable[..., None] | None = None,
    resume: bool = False,
) -> list[Row]:
    """Measures everything, keeps each row in the CSV at once, shows a table after each case."""
    total = sum(len(case.sizes) * len(case.deltas) * len(case_methods(case, wanted)) for case in cases)
    done = {_key(row): row for row in (report.read_rows(path) if resume else ())}
    everything: list[Row] = []
    with (
        report.table_file(path, report.row_columns(), resume) as write,
        report.progress(total) as (tell, advance),
    ):
        for case in cases:
            rows = []
            for row in case_rows(case, wanted, limits, tell, done):
                if _key(row) not in done:
                    write(report.row_cells(row))
                advance()
                rows.append(row)
            if show:
                title = f"{case.name}: {case.line}" + ("" if _several(case) else f", delta {case.deltas[0]:g}")
                show(report.case_table(title, rows, _several(case), report.console().width), *report.notes(rows), "", sep="\n")
            everything.extend(rows)
    report.console().print(f"rows: {path}")
    return everything


def _several(case: Case) -> bool:
    return len(case.sizes) * len(case.deltas) > 1


def case_rows(
    case: Case, wanted: list[str], limits: Limits, tell: Callable[[str], None], done: Mapping[Key, Row] = _NOTHING
) -> Iterator[Row]:
    """The rows of one case, those of `done` as they are.

    A method that ran out of time or memory at two sizes keeps that status beyond, untried.
    """
    gave_up: dict[tuple[str, float], list[Row]] = {}
    for size in sorted(case.sizes):
        event = case.build(size)
        for delta in case.deltas:
            exact: Ends | None = None
            for name in case_methods(case, wanted):
                tell(f"{case.name} m={size:,} {name}")
                failed = gave_up.setdefault((name, delta), [])
                row = done.get(key(case.name, size, delta, name))
                if row is None:
                    outcome = _given_up(failed) or limited(measure, (name, event, delta, case.relation), limits)
                    row = _row(case, size, delta, name, outcome, exact)
                if name == EXACT.name and row.status == OK:
                    exact = row.lower, row.estimate, row.upper
                if row.status in (TIMEOUT, MEMORY):
                    failed.append(row)
                yield row


def _given_up(failed: list[Row]) -> Outcome | None:
    """The status of a method that failed twice by its limits, at smaller sizes."""
    if len(failed) < 2:
        return None
    return Outcome(failed[1].status, note=f"not tried: {failed[1].status} at m = {failed[1].size:,}")


def _row(case: Case, size: int, delta: float, name: str, outcome: Outcome, exact: Ends | None) -> Row:
    """An outcome as a row, judged."""
    guarantee = METHODS[name].guarantee
    ends, seconds = outcome.value if outcome.status == OK else ((None, None, None), None)
    status, note = judge(ends, guarantee, exact) if outcome.status == OK else (outcome.status, outcome.note)
    seconds = None if seconds is None else float(f"{seconds:.4g}")
    peak = round(outcome.peak_mb, 1) if outcome.status == OK else None
    truth = exact[1] if exact else (ends[1] if name == EXACT.name else None)
    lower, estimate, upper = ends
    return Row(case.name, size, delta, name, guarantee, lower, estimate, upper, truth, seconds, peak, status, note)
