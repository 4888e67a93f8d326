"""`list`: cases and methods, one line each."""

from __future__ import annotations

import argparse

from rich.table import Table

from comparisons import report
from comparisons.cases import CASES
from comparisons.methods import METHODS


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """`list` takes no arguments."""


def run(arguments: argparse.Namespace) -> int:
    """Two tables."""
    screen = report.console()
    methods = Table("method", "guarantee", "", title="Methods", title_justify="left")
    for method in METHODS.values():
        methods.add_row(method.name, method.guarantee, method.line)
    cases = Table("case", "m", "delta", "", title="Cases", title_justify="left")
    for case in CASES.values():
        cases.add_row(case.name, _span(case.sizes), _span(case.deltas), case.line)
    screen.print(methods, cases)
    return 0


def _span(values: tuple[float, ...]) -> str:
    """One value, or the first and the last."""
    shown = [f"{value:g}" if value < 1 or value >= 1e6 else f"{value:,.0f}" for value in (values[0], values[-1])]
    return shown[0] if len(values) == 1 else " .. ".join(shown)
