"""An `EventReport` as an icicle: one row per level from the root down, widths are shares. Needs matplotlib.

Colours (Okabe and Ito's) follow the top-level parts. A bar too narrow for its label has a number, explained below.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dp_edgeworth.analysis.rendering import COLOURS, new_axes
from dp_edgeworth.analysis.report import Row, rows
from dp_edgeworth.events.description import rounded_up

if TYPE_CHECKING:
    from dp_edgeworth.analysis.explanation import EventReport

_ROOT_COLOUR, _FOLDED_COLOUR = "#DDDDDD", "#BBBBBB"
_CHARACTERS = 100  # of the labels' size, over the whole width
_NARROWEST = 0.012  # share that has room for a number


def icicle(report: EventReport, axes: Any = None) -> Any:
    """Draws the displayed rows and returns matplotlib's axes."""
    lines = [row for row in rows(report) if row.share > 0.0 or row.depth == 0]
    levels = 1 + max(row.depth for row in lines)
    keyed = [row for row in lines if not _fits(row) and row.depth > 0]
    axes = new_axes(axes, 9.0, 1.2 + 0.75 * levels + 0.17 * len(keyed))
    lefts, part = {0: 0.0}, -1
    for row in lines:
        part += row.depth == 1
        left = lefts[row.depth]
        lefts[row.depth], lefts[row.depth + 1] = left + row.share, left
        axes.barh(row.depth, row.share, left=left, height=1.0, color=_colour(row, part), edgecolor="white",
                  linewidth=1.5, alpha=0.7 if row.depth <= 1 else 0.45)
        _write(axes, row, left, keyed.index(row) + 1 if row in keyed else 0)
    axes.set(xlim=(0.0, 1.0), ylim=(levels - 0.5, -0.5), xlabel="share of epsilon", ylabel="level of the tree",
             yticks=range(levels))
    key = "\n".join(f"{number}  {row.label}  {100.0 * row.share:.1f}%" for number, row in enumerate(keyed, 1))
    axes.annotate(key, (0.0, 0.0), (0.0, -34.0), "axes fraction", "offset points", va="top", fontsize=9,
                  parse_math=False)
    axes.set_title(f"epsilon = {rounded_up(report.epsilon, 5)} at delta = {report.target_delta:g}", fontsize=11)
    axes.figure.tight_layout()
    return axes


def _colour(row: Row, part: int) -> str:
    if row.depth == 0:
        return _ROOT_COLOUR
    return _FOLDED_COLOUR if row.folded else COLOURS[part % len(COLOURS)]


def _fits(row: Row) -> bool:
    return len(row.label) <= row.share * _CHARACTERS


def _write(axes: Any, row: Row, left: float, number: int) -> None:
    text = str(number) if number else f"{row.label}\n{100.0 * row.share:.1f}%"
    if row.share >= _NARROWEST or not number:
        axes.text(left + 0.5 * row.share, row.depth, text, ha="center", va="center", fontsize=8, color="black",
                  parse_math=False)
