"""A sweep as a heat map: numbers in the cells of a small grid, lines of equal epsilon on a large one. Needs matplotlib.

The colours (cividis, light is private) differ in lightness, so they also work in grey and for the colour-blind; cells
where epsilon is infinite are grey.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dp_edgeworth.events.description import rounded_up

if TYPE_CHECKING:
    from dp_edgeworth.analysis.sweeps import SweepResult

_SMALL = 8  # most cells per axis that can hold a number each
_LEVELS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)
_INFINITE = "#BBBBBB"


def heat_map(result: SweepResult, axes: Any = None, *, at: int = 0) -> Any:
    """Over the two longest axes, the third fixed at index `at`; returns matplotlib's axes."""
    from matplotlib import pyplot

    if axes is None:
        _, axes = pyplot.subplots(figsize=(7.0, 4.8))
    names = list(result.axes)
    fixed = names[2 - int(np.argmin(result.epsilon.shape[::-1]))]
    x_name, y_name = (name for name in names if name != fixed)
    x, y = result.axes[x_name], result.axes[y_name]
    values = np.take(result.epsilon, at, axis=names.index(fixed)).T
    as_cells = max(values.shape) <= _SMALL or not np.all(np.isfinite([*x, *y]))
    mesh = (_cells if as_cells else _field)(axes, x, y, values)
    _colour_bar(axes, mesh, "epsilon" + ("" if result.certified else " (estimate)"))
    held = f"{fixed.replace('_', ' ')} = {_number(result.axes[fixed][at])}"
    axes.set(xlabel=x_name.replace("_", " "), ylabel=y_name.replace("_", " "))
    axes.set_title(f"epsilon at delta = {result.target_delta:g}, {held}", fontsize=11)
    axes.figure.tight_layout()
    return axes


def _number(value: float) -> str:
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
    axes.set_xticks(columns, [_number(value) for value in x])
    axes.set_yticks(rows, [_number(value) for value in y])
    return mesh


def _field(axes: Any, x: np.ndarray, y: np.ndarray, values: np.ndarray) -> Any:
    """Colours with lines of equal epsilon; scales first, as the places of the labels depend on them."""
    for axis, scale, numbers in ((axes.xaxis, axes.set_xscale, x), (axes.yaxis, axes.set_yscale, y)):
        if numbers.min() > 0 and numbers.max() >= 10.0 * numbers.min():
            scale("log")
            _plain_ticks(axis)
    mesh = _coloured(axes, x, y, values)
    finite = values[np.isfinite(values)]
    levels = [e for e in _LEVELS if len(finite) and finite.min() < e < finite.max()]
    if levels and min(values.shape) > 1:
        lines = axes.contour(x, y, np.nan_to_num(values, posinf=1e9), levels=levels, colors="black", linewidths=0.8)
        for text in axes.clabel(lines, fmt="%g", fontsize=8):
            text.set_bbox({"facecolor": "white", "alpha": 0.7, "edgecolor": "none", "pad": 0.5})
    return mesh


def _plain_ticks(axis: Any) -> None:
    """1, 2, 5 of every decade as plain numbers (only the decades where there are many)."""
    from matplotlib import ticker

    low, high = axis.get_data_interval() if np.all(np.isfinite(axis.get_data_interval())) else axis.get_view_interval()
    few = not low > 0 or high <= 1_000.0 * low
    axis.set_major_locator(ticker.LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
    axis.set_major_formatter(ticker.FuncFormatter(lambda value, _: _number(value)))
    axis.set_minor_formatter(ticker.NullFormatter())


def _colour_bar(axes: Any, mesh: Any, label: str) -> None:
    from matplotlib import colors

    bar = axes.figure.colorbar(mesh, ax=axes, label=label)
    if isinstance(mesh.norm, colors.LogNorm):
        _plain_ticks(bar.ax.yaxis)
