"""epsilon over two parameters as a picture: a line over one of them, numbers in the cells of a small grid, lines of equal epsilon on a
large one. Needs matplotlib.

The colours (cividis, light is private) differ in lightness, so they also work in grey and for the colour-blind; cells
where epsilon is infinite are grey.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dp_edgeworth.analysis.rendering import COLOURS, new_axes
from dp_edgeworth.events.description import rounded_up

_SMALL = 8  # most cells per axis that can hold a number each
_LEVELS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_INFINITE = "#BBBBBB"


class Plane(NamedTuple):
    """epsilon over two parameters.

    Attributes:
      across, down: their names. x, y: their values.
      values: by side ("lower", "estimate", "upper"), one row per value of y; an estimate alone is no guarantee.
      fixed: what was left out, in words.
    """

    across: str
    down: str
    x: np.ndarray
    y: np.ndarray
    values: dict[str, np.ndarray]
    fixed: str

    @property
    def epsilon(self) -> np.ndarray:
        return self.values.get("upper", self.values["estimate"])

    @property
    def quantity(self) -> str:
        return "epsilon" + ("" if "upper" in self.values else " (estimate)")


def heat_map(plane: Plane, title: str, axes: Any = None) -> Any:
    """Draws it and returns matplotlib's axes."""
    axes = new_axes(axes, 7.0, 4.8)
    fixed = plane.fixed
    if min(plane.epsilon.shape) == 1 and max(plane.epsilon.shape) > 1:
        name, value = (plane.down, plane.y[0]) if len(plane.y) == 1 else (plane.across, plane.x[0])
        fixed = f"{name.replace('_', ' ')} = {number(value)}, {fixed}"
        _curve(axes, plane)
    else:
        as_cells = max(plane.epsilon.shape) <= _SMALL or not np.all(np.isfinite([*plane.x, *plane.y]))
        _colour_bar(axes, (_cells if as_cells else _field)(axes, plane.x, plane.y, plane.epsilon), plane.quantity)
        axes.set(xlabel=plane.across.replace("_", " "), ylabel=plane.down.replace("_", " "))
    axes.set_title(f"{title}, {fixed}", fontsize=11, wrap=True)
    axes.figure.tight_layout()
    return axes


def _curve(axes: Any, plane: Plane) -> None:
    """One row or one column: a line, with the band of what is proved; where epsilon is infinite there is none."""
    name, x = (plane.across, plane.x) if len(plane.y) == 1 else (plane.down, plane.y)
    band = {side: np.where(np.isfinite(values.ravel()), values.ravel(), np.nan) for side, values in plane.values.items()}
    line = band.get("upper", band["estimate"])
    if "upper" in band:
        axes.fill_between(x, band["lower"], band["upper"], color=COLOURS[0], alpha=0.3, linewidth=0)
    axes.plot(x, line, color=COLOURS[0], marker="o", markersize=4)
    if np.all(np.isfinite(x)):
        _scale(axes.xaxis, axes.set_xscale, x)
    axes.set(xlabel=name.replace("_", " "), ylabel=plane.quantity)
    axes.grid(True, linewidth=0.3)


def number(value: float) -> str:
    """A value of a parameter, short."""
    return f"{value:,.0f}" if value >= 1_000 and float(value).is_integer() else f"{value:.4g}"


def _coloured(axes: Any, x: Any, y: Any, values: np.ndarray) -> Any:
    from matplotlib import colors

    finite = values[np.isfinite(values) & (values > 0)]
    scale = None
    if len(finite) and finite.max() > 10.0 * finite.min():
        scale = colors.LogNorm(max(float(finite.min()), float(finite.max()) * 1e-4), float(finite.max()), clip=True)
    axes.set_facecolor(_INFINITE)
    return axes.pcolormesh(x, y, np.ma.masked_invalid(values), cmap="cividis_r", norm=scale, shading="nearest")


def _cells(axes: Any, x: np.ndarray, y: np.ndarray, values: np.ndarray) -> Any:
    """Cells of one size with their numbers, as the axes of a small grid are rarely evenly spaced."""
    columns, rows = np.arange(len(x)), np.arange(len(y))
    mesh = _coloured(axes, columns, rows, values)
    shades = mesh.to_rgba(np.where(np.isfinite(values), values, 0.0))[..., :3].mean(axis=-1)
    for row, column in np.ndindex(values.shape):
        value = values[row, column]
        dark = np.isfinite(value) and shades[row, column] < 0.45
        axes.text(column, row, rounded_up(float(value), 3), ha="center", va="center", fontsize=9,
                  color="white" if dark else "black")
    axes.set_xticks(columns, [number(value) for value in x])
    axes.set_yticks(rows, [number(value) for value in y])
    return mesh


def _field(axes: Any, x: np.ndarray, y: np.ndarray, values: np.ndarray) -> Any:
    """Colours with lines of equal epsilon; scales first, as the places of the labels depend on them."""
    _scale(axes.xaxis, axes.set_xscale, x)
    _scale(axes.yaxis, axes.set_yscale, y)
    mesh = _coloured(axes, x, y, values)
    finite = values[np.isfinite(values)]
    levels = [e for e in _LEVELS if len(finite) and finite.min() < e < finite.max()]
    if levels:
        lines = axes.contour(x, y, np.nan_to_num(values, posinf=1e9), levels=levels, colors="black", linewidths=0.8)
        for text in axes.clabel(lines, fmt="%g", fontsize=8):
            text.set_bbox({"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.5})
    return mesh


def _scale(axis: Any, set_scale: Any, numbers: np.ndarray) -> None:
    """A logarithmic one where numbers reach over a decade."""
    if numbers.min() > 0 and numbers.max() >= 10.0 * numbers.min():
        set_scale("log")
        _plain_ticks(axis)


def _plain_ticks(axis: Any) -> None:
    """1, 2, 5 of every decade as plain numbers (only the decades where there are many)."""
    from matplotlib import ticker

    low, high = axis.get_data_interval() if np.all(np.isfinite(axis.get_data_interval())) else axis.get_view_interval()
    few = not low > 0 or high <= 1_000.0 * low
    axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: number(value)))
    axis.set_minor_formatter(ticker.NullFormatter())


def _colour_bar(axes: Any, mesh: Any, label: str) -> None:
    from matplotlib import colors

    bar = axes.figure.colorbar(mesh, ax=axes, label=label)
    if isinstance(mesh.norm, colors.LogNorm):
        _plain_ticks(bar.ax.yaxis)
