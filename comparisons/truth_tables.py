"""What a truth campaign found: a table by regime and lists of what deserves a look, on the screen or as a Markdown page."""

from __future__ import annotations

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from rich.markup import escape
from rich.table import Table

from comparisons import report
from comparisons.runner import OK
from comparisons.summary import markdown
from comparisons.truth_cases import REGIMES, TOLERANCE
from comparisons.truth_judge import BRACKET, JUDGED, NO_ORACLE, VIOLATION, TruthRow

TITLES = ("regime", "cases", "violations", "bracket", "no oracle", "failed", "too wide", "median width", "largest width",
          "median ms", "largest ms")  # fmt: skip
_LEGEND = """Random events of every regime, both questions, one case in four with a tolerance of 1e-11, against exact values in more
than double precision. `bracket`: the oracle has no answer, and the interval of epsilon meets the bracket of PLD. `no oracle`:
neither, only order and width were judged. `failed`: no answer within the limits. `too wide`: wider than 1e-6 (1e-3 relative
where atoms or few compositions decide). Widths (absolute below epsilon 1) and CPU times are those of the default tolerance.
"""


def by_regime(rows: list[TruthRow]) -> list[list[str]]:
    """The lines under `TITLES`."""
    parts = {regime: [row for row in rows if row.regime == regime] for regime in REGIMES} | {"all": rows}
    return [_line(regime, part) for regime, part in parts.items() if part]


def _line(regime: str, part: list[TruthRow]) -> list[str]:
    count = Counter(row.status for row in part)
    plain = [row for row in part if row.tolerance == TOLERANCE]
    widths = [row.width for row in plain if row.width is not None]
    times = [1e3 * row.seconds for row in plain if row.seconds is not None]
    numbers = (len(part), count[VIOLATION], count[BRACKET], count[NO_ORACLE], len(failed(part)), sum(bool(r.wide) for r in part))
    return [regime, *map(str, numbers), *(f"{value:.2g}" for value in (*_spread(widths), *_spread(times)))]


def _spread(values: list[float]) -> tuple[float, float]:
    return (statistics.median(values), max(values)) if values else (math.nan, math.nan)


def failed(rows: list[TruthRow]) -> list[TruthRow]:
    """Those that the accountant did not answer."""
    return [row for row in rows if row.status not in JUDGED]


class Listing(NamedTuple):
    """Rows that deserve a look, with the columns that say why."""

    title: str
    rows: list[TruthRow]
    columns: dict[str, Callable[[TruthRow], str]]


def listings(rows: list[TruthRow], slowest: int = 10) -> list[Listing]:
    """Violations, failures, intervals that are too wide and the slowest; without those that are empty."""
    bad = [row for row in rows if row.status == VIOLATION]
    wide = sorted((row for row in rows if row.wide), key=lambda row: -(row.width or 0))
    slow = sorted((row for row in rows if row.seconds), key=lambda row: -(row.seconds or 0))[:slowest]
    found = [
        Listing("violations", bad, {"what": lambda row: row.note}),
        Listing("failed", failed(rows), {"status": lambda row: f"{row.status} {row.note}"}),
        Listing("too wide", wide, {
            "limit": lambda row: row.wide,
            "lower": lambda row: f"{row.epsilon_lower:.9g}",
            "upper": lambda row: f"{row.epsilon_upper:.9g}",
        }),
        Listing("slowest", slow, {"CPU ms": lambda row: f"{1e3 * (row.seconds or 0):.0f}"}),
    ]  # fmt: skip
    return [listing for listing in found if listing.rows]


def question(row: TruthRow) -> str:
    """In full, to reproduce it."""
    return f"{row.event} {row.relation} delta={row.delta:.17g} tolerance={row.tolerance:g}".replace("DpEvent", "")


def short(row: TruthRow) -> str:
    """The event for a glance: four digits, no names of fields; the index says the rest."""
    text = re.sub(r"\w+=", "", row.event.replace("DpEvent", ""))
    text = re.sub(r"\d+\.\d+(e[+-]?\d+)?|\d+e[+-]?\d+", lambda number: f"{float(number[0]):.4g}", text)
    text = text if len(text) <= 160 else text[:157] + "..."
    return f"{text}, {row.relation}, delta {row.delta:.2g}"


def show(rows: list[TruthRow]) -> None:
    """Lists and table on the screen."""
    screen = report.console()
    for listing in listings(rows):
        names = ("case", "regime", *listing.columns, "event")
        lines = [[str(r.index), r.regime, *(cell(r) for cell in listing.columns.values()), question(r)] for r in listing.rows[:25]]
        screen.print(_table(listing.title, names, lines))
    violations = sum(row.status == VIOLATION for row in rows)
    screen.print(_table(f"{len(rows)} cases, {violations} violations", TITLES, by_regime(rows), numeric=True))


def _table(title: str, names: tuple[str, ...], lines: list[list[str]], numeric: bool = False) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold")
    for name in names:
        table.add_column(name, justify="right" if numeric and name != "regime" else "left", no_wrap=numeric)
    for line in lines:
        table.add_row(*map(escape, line))
    return table


def page(rows: list[TruthRow], command: str) -> str:
    """The Markdown page: the same table and lists, the command that wrote it, and what it was measured with."""
    count = Counter(row.status for row in rows)
    parts = [
        "# Truth campaign\n",
        f"Written by `{command}`. Do not edit.\n",
        f"{len(rows)} cases: {count[VIOLATION]} violations, {count[OK]} judged by exact values, {count[BRACKET]} by a bracket, "
        f"{count[NO_ORACLE]} without either, {len(failed(rows))} without an answer of ours.\n",
        _LEGEND,
        *markdown(TITLES, by_regime(rows)),
    ]
    for listing in listings(rows, slowest=0):
        titles = ("case", "regime", *listing.columns, "event")
        lines = ([str(r.index), r.regime, *(cell(r) for cell in listing.columns.values()), short(r)] for r in listing.rows)
        parts += [f"## {listing.title.capitalize()}\n", *markdown(titles, lines)]
    return "\n".join([*parts, "## Measured with\n", f"{report.measured_with()}.\n"])
