"""`quickstart`: one case through all methods, table and picture, in under a minute."""

from __future__ import annotations

import argparse

from comparisons import report
from comparisons.cases import CASES
from comparisons.methods import ALIASES, METHODS, pick
from comparisons.run import add_limits, run_cases
from comparisons.runner import Limits

CASE = "dp-sgd-base"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The limits; rows are few enough for a short one."""
    add_limits(parser, timeout=15.0)


def run(arguments: argparse.Namespace) -> int:
    """The table, `quickstart.csv` and the picture that is drawn from it."""
    from comparisons import plots

    wanted = pick("METHOD", arguments.methods or [], METHODS, ALIASES)
    directory = report.prepare(arguments.out)
    path = directory / "quickstart.csv"
    case = CASES[CASE]
    limits = Limits(arguments.timeout, arguments.memory)
    run_cases([case], wanted, limits, path, show=report.console().print, resume=arguments.resume)
    title = f"{case.line}, delta {case.deltas[0]:g}"
    for picture in plots.save(plots.overview(report.read_rows(path), title), directory, "quickstart"):
        report.console().print(f"picture: {picture}")
    return 0
