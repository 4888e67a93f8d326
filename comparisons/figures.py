"""`figures`: the paper's Figures 2 to 5 and ours, PNG and SVG. Measuring writes `figures.csv`; drawing reads it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from comparisons import report
from comparisons.cases import CASES, DP_SGD
from comparisons.methods import ALIASES, METHODS, pick
from comparisons.report import Row
from comparisons.run import add_limits, run_cases
from comparisons.runner import Limits

_BOUNDS = ("EXACT", "EW_ADAPTIVE", "EW_UNIFORM", "EW_CERTIFIED", "EW_EST", "RDP", "FFT", "PLD_1e-4")
_GROWTH = CASES["growth-identical"].methods


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Limits, and what to leave out."""
    add_limits(parser, timeout=30.0)
    parser.add_argument("--only", nargs="+", metavar="FIGURE", help=f"some of: {', '.join(FIGURES)}")
    parser.add_argument("--plot-only", action="store_true", help="draw from figures.csv, measure nothing")


def run(arguments: argparse.Namespace) -> int:
    """Measures the cases of the figures asked for, then draws them from the CSV."""
    wanted = pick("METHOD", arguments.methods or [], METHODS, ALIASES)
    names = pick("FIGURE", arguments.only or list(FIGURES), FIGURES)
    path = report.prepare(arguments.out) / "figures.csv"
    if not arguments.plot_only:
        cases = dict.fromkeys(case for name in names for case in FIGURES[name][0])
        run_cases([CASES[case] for case in cases], wanted, Limits(arguments.timeout, arguments.memory), path,
                  resume=arguments.resume)  # fmt: skip
    elif not path.exists():
        raise ValueError(f"--plot-only needs the CSV of an earlier run. Found no `{path}`.")
    for picture in draw(report.read_rows(path), names, arguments.out):
        report.console().print(f"picture: {picture}")
    return 0


def draw(rows: Sequence[Row], names: Sequence[str], directory: Path) -> list[Path]:
    """Draws the figures whose cases have rows; returns the paths of the PNGs."""
    from comparisons import plots

    paths = []
    for name in names:
        cases, painter = FIGURES[name]
        mine = [row for row in rows if row.case in cases]
        if mine:
            paths.append(plots.save(painter(plots, mine), directory, name)[0])
    return paths


def _case(rows: Sequence[Row], name: str) -> list[Row]:
    return [row for row in rows if row.case == name]


def _figure_2(plots: Any, rows: Sequence[Row]) -> Any:
    figure, (axis,) = plots.panels(1, 4.8, 3.4)
    methods = ("EXACT", "EW_CERTIFIED", "EW_EST", "GDP", "RDP", "FFT", "PLD_1e-4")
    plots.epsilon_curves(axis, rows, methods, lambda row: row.delta)
    axis.set(xscale="log", xlabel="delta", ylabel="epsilon", title="1500 x Gaussian(80)")
    axis.legend(loc="lower left")
    return figure


def _figure_3(plots: Any, rows: Sequence[Row]) -> Any:
    """The paper's panels (its third is its second without RDP and GDP-E), and below each the distance to the exact value."""
    figure, axes = plots.panels(2, 4.4, 2.7, rows=2)
    methods = ("EXACT", "EW_CERTIFIED", "EW_EST", "EW_TILTED", "RDP", "GDP", "GDP-E", "FFT")
    titles = {"left": "p 0.01, noise 0.8, delta 0.015", "right": "p 0.05, noise 1, delta 1e-5"}
    for index, (side, title) in enumerate(titles.items()):
        mine = _case(rows, f"paper-figure-3-{side}")
        plots.epsilon_curves(axes[index], mine, methods, lambda row: row.size)
        plots.cut_above(axes[index], mine, "GDP-E", [method for method in methods if method != "GDP-E"])
        axes[index].set(ylabel="epsilon", title=title)
        plots.gap_curves(axes[index + 2], mine, methods[1:], lambda row: row.size, linear=1e-3)
        axes[index + 2].set_xlabel("number of compositions m")
    plots.legend(figure)
    return figure


def _figure_4(plots: Any, rows: Sequence[Row]) -> Any:
    figure, axes = plots.panels(3, height=3.2)
    titles = ("p = 0.4 / sqrt m", "p = 1 / sqrt(m log m)", "p = 0.1 sqrt(log m / m)")
    for axis, side, title in zip(axes, ("left", "middle", "right"), titles, strict=True):
        mine = _case(rows, f"paper-figure-4-{side}")
        plots.epsilon_curves(axis, mine, _BOUNDS, lambda row: row.size)
        axis.set(xscale="log", xlabel="number of compositions m", ylabel="epsilon", title=title, ylim=(0.0, 2.0))
    plots.legend(figure)
    return figure


def _figure_5(plots: Any, rows: Sequence[Row]) -> Any:
    figure, axes = plots.panels(2, 4.2, 3.6)
    for axis, floor, title in ((axes[0], -1e9, "as returned"), (axes[1], 0.0, "cut off below 0")):
        plots.epsilon_curves(axis, rows, _BOUNDS, lambda row: 11 * row.size, floor)
        axis.set(xscale="log", xlabel="m = m1 + m2", ylabel="epsilon", title=title)
    axes[1].set_ylim(-0.1, 2.0)
    plots.legend(figure)
    return figure


def _width_time(plots: Any, rows: Sequence[Row]) -> Any:
    return plots.looseness_panels(rows)


def _growth(label: str) -> Callable[[Any, Sequence[Row]], Any]:
    def painter(plots: Any, rows: Sequence[Row]) -> Any:
        figure, (axis,) = plots.panels(1, 8.4, 4.6)
        plots.time_curves(axis, rows, _GROWTH)
        axis.set(xlabel=label, title="Compose and one epsilon, delta 1e-5")
        plots.legend(figure)
        return figure

    return painter


def _delta(plots: Any, rows: Sequence[Row]) -> Any:
    """Left what can be told apart from the exact curve; right how far everything is from it."""
    figure, (left, right) = plots.panels(2, 4.6, 3.8)
    methods = ("EW_CERTIFIED", "EW_TILTED", "EW_EST", "PLD_1e-4", "PLD_1e-3", "RDP", "FFT", "GDP")
    apart, on_the_line = plots.split_by_distance(rows, methods)
    plots.epsilon_curves(left, rows, ("EXACT", *apart), lambda row: row.delta)
    names = "\n".join(METHODS[name].shown for name in on_the_line)
    left.annotate(f"within 5 % of the exact line:\n{names}", (0.03, 0.03), xycoords="axes fraction", fontsize=7)
    plots.gap_curves(right, rows, methods, lambda row: row.delta)
    ticks = [10.0**-k for k in range(0, 21, 4)]
    left.set(xscale="log", xlabel="delta", ylabel="epsilon", xticks=ticks, title="p 0.05, noise 1, 200 steps")
    right.set(xscale="log", xlabel="delta", xticks=ticks, title="A bound below 0 is false")
    plots.legend(figure)
    return figure


FIGURES: dict[str, tuple[tuple[str, ...], Callable[[Any, Sequence[Row]], Any]]] = {
    "paper-figure-2": (("paper-figure-2",), _figure_2),
    "paper-figure-3": (("paper-figure-3-left", "paper-figure-3-right"), _figure_3),
    "paper-figure-4": (("paper-figure-4-left", "paper-figure-4-middle", "paper-figure-4-right"), _figure_4),
    "paper-figure-5": (("paper-figure-5",), _figure_5),
    "width-against-time": (DP_SGD, _width_time),
    "time-against-m": (("growth-identical",), _growth("number of identical compositions m")),
    "time-against-leaves": (("growth-distinct",), _growth("number of distinct leaves")),
    "epsilon-against-delta": (("tiny-delta",), _delta),
}
