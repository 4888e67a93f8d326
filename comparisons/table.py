"""`table`: the paper's Table 1, measured: guarantee, tightness, and how the time grows with m."""

from __future__ import annotations

import argparse
import math
import statistics
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.table import Table

from comparisons import report
from comparisons.cases import DP_SGD
from comparisons.methods import METHODS
from comparisons.report import Row
from comparisons.runner import OK

IDENTICAL, DISTINCT = "growth-identical", "growth-distinct"
PAPER = {
    "GDP": "no; m^0, m^1", "GDP-E": "no; m^0, m^1", "RDP": "upper; m^0, m^1", "FFT": "yes; m^0.5, m^2.5",
    "EW_ADAPTIVE": "yes; m^0, m^1", "EW_EST": "yes; m^0, m^1",
}  # fmt: skip
COLUMNS = [
    "method", "guarantee", "not_ok", "distance", "relative", "identical", "largest_identical", "distinct", "largest_distinct",
    "paper",
]  # fmt: skip
TITLES = (
    "method", "guarantee", "not ok", "distance to exact", "relative", "identical: m^", "up to m", "distinct: m^", "up to m",
    "paper says",
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the rows of `figures` are."""
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="of figures.csv and for table.csv (default: out)")


def run(arguments: argparse.Namespace) -> int:
    """Reads the rows, fits, prints, writes `table.csv`."""
    source = arguments.out / "figures.csv"
    if not source.exists():
        raise ValueError(f"`table` reads the CSV that `figures` writes. Found no `{source}`.")
    lines = summary(report.read_rows(source))
    (arguments.out / "table.csv").unlink(missing_ok=True)  # made from the rows: nothing is lost
    with report.table_file(arguments.out / "table.csv", COLUMNS) as write:
        for line in lines:
            write(dict(zip(COLUMNS, line, strict=True)))
    screen = report.console()
    screen.print(_printed(lines))
    screen.print(f"table: {arguments.out / 'table.csv'}")
    return 0


def summary(rows: Sequence[Row]) -> list[tuple[str, ...]]:
    """One line per method that has rows."""
    lines: list[tuple[str, ...]] = []
    for name, method in METHODS.items():
        mine = [row for row in rows if row.method == name]
        if name == "EXACT" or not mine:
            continue
        recipes = [row for row in mine if row.case in DP_SGD]
        fits = [_growth([row for row in mine if row.case == case]) for case in (IDENTICAL, DISTINCT)]
        lines.append((name, method.guarantee, _failures(mine), *_distance(recipes), *fits[0], *fits[1], PAPER.get(name, "")))
    return lines


def _failures(rows: Sequence[Row]) -> str:
    """How many rows ended in each status other than ok, and how many bounds are infinite."""
    found = Counter(row.status if row.status != OK else "infinite" for row in rows if row.status != OK or row.value == math.inf)
    return ", ".join(f"{n} {status}" for status, n in found.items())


def _distance(rows: Sequence[Row]) -> tuple[str, str]:
    """Median |reported - exact| over the DP-SGD recipes, absolute and relative."""
    pairs = [(abs(row.gap), row.exact) for row in rows if row.status == OK and row.gap is not None and row.exact]
    if not pairs:
        return "", ""
    return f"{statistics.median(gap for gap, _ in pairs):.1e}", f"{statistics.median(gap / e for gap, e in pairs):.1e}"


def exponent(sizes: Sequence[int], seconds: Sequence[float]) -> float:
    """Least-squares slope of log seconds against log size."""
    return float(np.polyfit(np.log(sizes), np.log(seconds), 1)[0])


def _growth(rows: Sequence[Row]) -> tuple[str, str]:
    """The exponent fitted on the larger half of the sizes, where fixed costs count least; the largest size reached."""
    good = sorted((row.size, row.seconds) for row in rows if row.status != "error" and row.seconds is not None)
    if len(good) < 3:
        return "", f"{good[-1][0]:.0e}" if good else "none" if rows else "not measured"
    upper = good[-max(3, math.ceil(len(good) / 2)) :]
    return f"{exponent(*zip(*upper, strict=True)):.2f}", f"{good[-1][0]:.0e}"


def _printed(lines: Sequence[tuple[str, ...]]) -> Table:
    table = Table(title="Table 1, measured (medians over four DP-SGD recipes; fitted growth of the time)", title_justify="left")
    for title in TITLES:
        table.add_column(title, no_wrap=title in ("method", "guarantee"), overflow="fold")
    for line in lines:
        table.add_row(*line)
    return table
