"""Drawing from rows alone: nothing here computes an epsilon.

Colours are those of Okabe and Ito, told apart by every common kind of colour vision; lines differ in dash and marker
as well, so the figures survive grey. An answer that is `implausible` or `false` is drawn where it says it is, as a
cross; a method that gave no answer says so in the legend.
"""

from __future__ import annotations

import math
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from comparisons.cases import CASES
from comparisons.methods import METHODS
from comparisons.report import Row
from comparisons.runner import FALSE, IMPLAUSIBLE, OK

STYLE: dict[str, tuple[str, str, str]] = {
    "EXACT": ("#000000", "-", ""), "EW_CERTIFIED": ("#0072B2", "-", "o"), "EW_ADAPTIVE": ("#56B4E9", "--", "v"),
    "EW_UNIFORM": ("#56B4E9", ":", "^"), "EW_EST": ("#009E73", "-", "s"), "EW_EST_1": ("#009E73", ":", "1"),
    "EW_EST_3": ("#009E73", "-.", "2"), "EW_TILTED": ("#006D50", "--", "D"), "PLD_1e-4": ("#D55E00", "-", "P"),
    "PLD_1e-3": ("#D55E00", ":", "p"), "RDP": ("#CC79A7", "-", "X"), "FFT": ("#E69F00", "--", "<"),
    "FFT_FINE": ("#E69F00", "-", ">"), "GDP": ("#777777", "-", "h"), "GDP-E": ("#777777", "--", "*"),
    "AFA": ("#8A7A00", "-.", "d"),
}  # fmt: skip
_SETTINGS: Any = {
    "font.size": 9, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.alpha": 0.25,
    "grid.linewidth": 0.5, "legend.frameon": False, "legend.fontsize": 7.5, "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "figure.dpi": 150, "svg.fonttype": "none", "svg.hashsalt": "comparisons",
}  # fmt: skip
#: The paper's names.
_PAPER = {"EW_ADAPTIVE": "EW_LOW, EW_UPP", "FFT": "FFT_LOW, FFT_UPP", "EW_EST": "EW_EST"}
Coordinate = Callable[[Row], float]


def panels(count: int, width: float = 2.95, height: float = 3.4, rows: int = 1) -> tuple[Any, list[Axes]]:
    """A figure with `count` panels side by side, in one or more rows; the axes come row by row."""
    plt.rcParams.update(_SETTINGS)
    size = (width * count, height * rows)
    figure, axes = plt.subplots(rows, count, figsize=size, squeeze=False, layout="constrained")
    return figure, list(axes.ravel())


def legend(figure: Any) -> None:
    """One legend for all panels, below them; a method is listed once, with the fullest account of its troubles."""
    found: dict[str, tuple[Any, str]] = {}
    for axis in figure.axes:
        for handle, label in zip(*axis.get_legend_handles_labels(), strict=True):
            method = label.partition(" [")[0]
            if method not in found or len(label) > len(found[method][1]):
                found[method] = (handle, label)
    handles, labels = zip(*found.values(), strict=True)
    figure.legend(handles, labels, loc="outside lower center", ncols=_columns_that_fit(labels, figure.get_figwidth()))


def _columns_that_fit(labels: Sequence[str], inches: float) -> int:
    """The most columns of a legend, filled column by column, that a figure is wide enough for."""
    def width(columns: int) -> float:
        rows = math.ceil(len(labels) / columns)
        return sum(0.5 + 0.058 * max(map(len, labels[start : start + rows])) for start in range(0, len(labels), rows))

    return max((columns for columns in range(1, 5) if width(columns) <= inches), default=1)


def save(figure: Any, directory: Path, name: str) -> list[Path]:
    """PNG and SVG; returns the paths."""
    paths = [directory / f"{name}.{kind}" for kind in ("png", "svg")]
    figure.savefig(paths[0])
    figure.savefig(paths[1], metadata={"Date": None})
    plt.close(figure)
    return paths


def of(rows: Sequence[Row], method: str) -> list[Row]:
    return [row for row in rows if row.method == method]


def legend_label(rows: Sequence[Row], method: str) -> str:
    """What users call the method, with what became of it where that was not `ok`."""
    trouble = Counter(row.status for row in of(rows, method) if row.status != OK)
    trouble["infinite"] = sum(row.status == OK and row.value == math.inf for row in of(rows, method))
    remarks = [_PAPER[method]] if method in _PAPER else []
    remarks += [f"{n} {status}" for status, n in (+trouble).items()]
    return METHODS[method].shown + (f" [{'; '.join(remarks)}]" if remarks else "")


def _look(method: str) -> dict[str, Any]:
    """Colour, dash and marker; the certified interval is a ring, so that it shows around those it agrees with."""
    colour, dash, marker = STYLE[method]
    ring = method == "EW_CERTIFIED"
    return {"color": colour, "linestyle": dash, "marker": marker, "markersize": 6.5 if ring else 3.5,
            "markerfacecolor": "none" if ring else colour, "linewidth": 1.1}  # fmt: skip


def epsilon_curves(
    axis: Axes, rows: Sequence[Row], methods: Sequence[str], x: Coordinate, floor: float = -math.inf
) -> None:
    """Epsilon of each method against x: both ends of an interval, or the one number there is."""
    for method in methods:
        mine = of(rows, method)
        label: str | None = legend_label(rows, method)
        for end in _ends(mine):
            points = [(x(row), max(floor, getattr(row, end)), row.status) for row in mine if _finite(getattr(row, end))]
            good = [point for point in points if point[2] == OK]
            if method == "EXACT":
                axis.plot(*_columns(good), color="black", linewidth=2.2, alpha=0.45, zorder=1, label=label)
            else:
                axis.plot(*_columns(good), **_look(method), zorder=2, label=label)
                _crosses(axis, points, method)
            label = None


def _ends(rows: Sequence[Row]) -> tuple[str, ...]:
    """Which numbers of a method's rows are drawn."""
    if not rows:
        return ()
    if rows[0].method == "EXACT":
        return ("estimate",)
    return ("lower", "upper") if rows[0].guarantee == "interval" else ("value",)


def _crosses(axis: Axes, points: Sequence[tuple[float, float, str]], method: str) -> None:
    """The answers that are false or implausible."""
    bad = [point for point in points if point[2] in (FALSE, IMPLAUSIBLE)]
    axis.plot(*_columns(bad), color=STYLE[method][0], linestyle="none", marker="x", markersize=6.5,
              markeredgewidth=1.6, zorder=3)  # fmt: skip


def gap_curves(axis: Axes, rows: Sequence[Row], methods: Sequence[str], x: Coordinate, linear: float = 1e-6) -> None:
    """Reported minus exact epsilon, on a scale that is linear up to `linear` and logarithmic beyond."""
    for method in methods:
        points = [(x(row), row.gap or 0.0, row.status) for row in of(rows, method) if _finite(row.gap)]
        axis.plot(*_columns(points), **_look(method), label=legend_label(rows, method))
        _crosses(axis, points, method)
    axis.axhline(0.0, color="black", linewidth=2.2, alpha=0.45)
    axis.set_yscale("symlog", linthresh=linear)
    axis.margins(y=0.1)
    axis.set_ylabel("reported - exact epsilon")


def time_curves(axis: Axes, rows: Sequence[Row], methods: Sequence[str]) -> None:
    """Seconds of each method against m; the legend says who gave up."""
    for method in methods:
        points = [(row.size, row.seconds) for row in of(rows, method) if row.seconds is not None]
        axis.plot(*_columns(points), **_look(method), label=legend_label(rows, method))
    axis.set(xscale="log", yscale="log", ylabel="CPU seconds")


#: guarantee -> the title and the y-axis of its panel.
_LOOSENESS = {
    "interval": ("Certified intervals", "width: upper - lower end"),
    "upper bound": ("Upper bounds", "bound - exact epsilon"),
    "estimate": ("Estimates: no guarantee", "|estimate - exact epsilon|"),
}
_RECIPES = ("o", "^", "s", "D")


def looseness_panels(rows: Sequence[Row]) -> Any:
    """Distance to the truth, possible or real, against seconds: a panel per guarantee, a colour per method, a marker per recipe."""
    recipes = list(dict.fromkeys(row.case for row in rows))
    figure, axes = panels(3, 3.3, 4.0)
    for axis, (guarantee, (title, label)) in zip(axes, _LOOSENESS.items(), strict=True):
        mine = [row for row in rows if row.guarantee == guarantee and row.method != "EXACT"]
        for method in dict.fromkeys(row.method for row in mine if row.method not in ("EW_EST_1", "EW_EST_3")):
            _method_points(axis, of(mine, method), method, recipes)
        axis.set(xscale="log", yscale="log", xlim=_limits(rows, "seconds", 3.0), ylim=_limits(rows, "looseness", 10.0))
        axis.set(title=title, ylabel=label, xlabel="CPU seconds, one epsilon")
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.2), fontsize=6.5, handletextpad=0.2)
    shapes = [Line2D([], [], color="black", linestyle="none", marker=marker, markersize=4.5) for marker in _RECIPES]
    names = [f"{CASES[recipe].line}, delta {CASES[recipe].deltas[0]:g}" for recipe in recipes]
    figure.legend(shapes, names, loc="outside lower center", ncols=2, fontsize=6.5)
    return figure


def _method_points(axis: Axes, rows: Sequence[Row], method: str, recipes: Sequence[str]) -> None:
    """One method: a point per recipe, its remarks in the legend."""
    colour = STYLE[method][0]
    infinite = sum(row.value == math.inf for row in rows)
    label = METHODS[method].shown + (f" ({infinite} infinite)" if infinite else "")
    face = "none" if method in ("EW_UNIFORM", "PLD_1e-3", "GDP-E") else colour  # where two have one colour
    axis.plot([], [], color=colour, linestyle="none", marker="o", markerfacecolor=face, markersize=5.5, label=label)
    for row in rows:
        loose = looseness(row)
        if loose is not None and row.seconds is not None:
            axis.plot([row.seconds], [max(loose, _LEAST)], color=colour, marker=_RECIPES[recipes.index(row.case) % 4], markersize=5.5,
                      markerfacecolor=face, alpha=0.85)  # fmt: skip


_LEAST = 1e-11  # what is closer is drawn here


def _limits(rows: Sequence[Row], kind: str, margin: float) -> tuple[float, float]:
    """The same limits for all panels."""
    good = [row for row in rows if row.method != "EXACT" and looseness(row) is not None]
    values = [max(looseness(row) or 0.0, _LEAST) if kind == "looseness" else (row.seconds or 0.0) for row in good]
    return (min(values) / margin, max(values) * margin) if values else (1e-3, 1.0)


def looseness(row: Row) -> float | None:
    """Width of an interval; |value - exact| of anything else; None where it is unknown or infinite."""
    if row.status != OK or row.seconds is None:
        return None
    if row.width is not None:
        return row.width if math.isfinite(row.width) else None
    value = row.value
    return None if row.exact is None or not _finite(value) or value is None else abs(value - row.exact)


def split_by_distance(rows: Sequence[Row], methods: Sequence[str], share: float = 0.05) -> tuple[list[str], list[str]]:
    """(methods that a plot of epsilon tells apart from the exact line, those on it), by the median of |reported - exact| / exact."""
    apart: list[str] = []
    on_the_line: list[str] = []
    for method in methods:
        gaps = [abs(row.gap / row.exact) for row in of(rows, method) if row.exact and row.gap is not None and math.isfinite(row.gap)]
        (apart if not gaps or statistics.median(gaps) > share else on_the_line).append(method)
    return apart, on_the_line


def cut_above(axis: Axes, rows: Sequence[Row], method: str, others: Sequence[str]) -> None:
    """Ends the y-axis above the other methods, and says how far the one method goes."""
    highest = {name: max((row.value for row in of(rows, name) if row.value is not None and _finite(row.value)), default=0.0)
               for name in (method, *others)}  # fmt: skip
    top = 1.15 * max(highest[name] for name in others)
    if highest[method] > top:
        axis.set_ylim(top=top)
        axis.annotate(f"{method}: up to {highest[method]:.3g}", (0.03, 0.97), xycoords="axes fraction", va="top", fontsize=7.5,
                      color=STYLE[method][0])  # fmt: skip


def overview(rows: Sequence[Row], title: str) -> Any:
    """One case: every method's answer, or why there is none, on the left, its time on the right."""
    figure, (left, right) = panels(2, 5.2, 4.2)
    methods = [row for row in rows if row.method != "EXACT"][::-1]
    exact = next((row.estimate for row in rows if row.method == "EXACT" and row.status == OK), None)
    if exact is not None:
        left.axvline(exact, color="black", linewidth=2.2, alpha=0.45)
    for height, row in enumerate(methods):
        _answer(left, row, height)
        _cost(right, row, height)
    line = "" if exact is None else f"   (grey line: the exact value, {exact:.6f})"
    left.set(title=title, xlabel="epsilon" + line, yticks=range(len(methods)), ylim=(-0.7, len(methods) - 0.3))
    left.set_yticklabels([f"{METHODS[row.method].shown}  [{row.guarantee}]" for row in methods], fontsize=7.5)
    right.set(title="What it costs", xlabel="CPU seconds (compose and one epsilon)", xscale="log")
    right.set(yticks=range(len(methods)), yticklabels=[], ylim=left.get_ylim())
    return figure


def _answer(axis: Axes, row: Row, height: int) -> None:
    """One method's interval or number; an arrow where the upper end is infinite; the reason where there is no answer."""
    colour, _, marker = STYLE[row.method]
    ends = [end for end in (row.lower, row.estimate, row.upper) if end is not None and math.isfinite(end)]
    if row.status != OK or not ends:
        remark = row.status if row.status != OK else "infinite"
        axis.annotate(remark, (0.03, height), color=colour, fontsize=8, xycoords=("axes fraction", "data"), va="center")
    if not ends:
        return
    axis.plot([min(ends), max(ends)], [height, height], color=colour, linewidth=3, solid_capstyle="butt")
    if row.upper == math.inf:
        axis.annotate("", (1.0, height), (ends[-1], height), xycoords=("axes fraction", "data"), textcoords="data",
                      arrowprops={"arrowstyle": "->", "color": colour, "linewidth": 2})  # fmt: skip
        axis.annotate("infinite ", (1.0, height + 0.28), color=colour, fontsize=7.5, xycoords=("axes fraction", "data"), ha="right")
    else:
        axis.plot(ends[-1], height, color=colour, marker=marker if row.status == OK else "x", markersize=6)


def _cost(axis: Axes, row: Row, height: int) -> None:
    """One method's seconds, where it has an answer."""
    colour, _, marker = STYLE[row.method]
    if row.seconds is not None:
        axis.plot([row.seconds], [height], color=colour, marker=marker, markersize=6)


def _finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _columns(points: Sequence[tuple[Any, ...]]) -> tuple[list[Any], list[Any]]:
    return [point[0] for point in points], [point[1] for point in points]
