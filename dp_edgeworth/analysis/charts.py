"""Line charts with bands: as SVG text (no library, no script, the same on a screen, on paper and on a phone), or with matplotlib."""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

WIDTH, HEIGHT = 440, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 12, 30, 46
_DECADES = 7  # most ticks of a logarithmic axis
_DASHES = ' stroke-dasharray="3 3"'


@dataclasses.dataclass(frozen=True, eq=False)
class Band:
    """A line with a band around it; points that are not finite, or not positive on a logarithmic axis, are left out."""

    x: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    line: np.ndarray
    label: str
    colour: str
    dashed: bool = False

    def visible(self, logarithmic: bool) -> Band:
        keep = np.isfinite(self.line) & np.isfinite(self.x) & ((self.line > 0.0) | (not logarithmic))
        lower = np.maximum(self.lower[keep], 5e-324) if logarithmic else self.lower[keep]
        return dataclasses.replace(self, x=self.x[keep], lower=lower, upper=self.upper[keep], line=self.line[keep])


@dataclasses.dataclass(frozen=True)
class Chart:
    """What is drawn; a logarithmic chart without a positive value is drawn on a linear axis."""

    bands: Sequence[Band]
    title: str
    x_label: str
    y_label: str
    logarithmic: bool = False

    def _shown(self) -> tuple[list[Band], bool]:
        logarithmic = self.logarithmic and any(np.any(band.line > 0.0) for band in self.bands)
        return [band.visible(logarithmic) for band in self.bands], logarithmic

    def svg(self) -> str:
        """One picture with axes, a legend, and a text for readers that show none."""
        shown, logarithmic = self._shown()
        x = _linear_axis(np.concatenate([band.x for band in shown]), _LEFT, WIDTH - _RIGHT)
        y = (_log_axis if logarithmic else _linear_axis)(np.concatenate([band.line for band in shown]), HEIGHT - _BOTTOM, _TOP)
        parts = [*_frame(x, y, self.x_label, self.y_label), *(_drawn(band, x, y) for band in shown if len(band.x)), *_legend(shown)]
        title = html.escape(self.title)
        return (f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" style="max-width:100%;height:auto" role="img" '
                f'aria-label="{title}" xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="12">'
                f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>'
                f'<text x="{WIDTH / 2}" y="18" text-anchor="middle" font-size="14">{title}</text>{"".join(parts)}</svg>')

    def draw(self, axes: Any) -> None:
        """The same on matplotlib's axes."""
        shown, logarithmic = self._shown()
        for band in shown:
            axes.fill_between(band.x, band.lower, band.upper, color=band.colour, alpha=0.3, linewidth=0)
            axes.plot(band.x, band.line, color=band.colour, linestyle=":" if band.dashed else "-", label=band.label)
        axes.set_yscale("log" if logarithmic else "linear")
        axes.set(xlabel=self.x_label, ylabel=self.y_label)
        axes.set_xlim(0.0, max((float(band.x[-1]) for band in shown if len(band.x)), default=1.0) or 1.0)
        axes.set_title(self.title, fontsize=11)
        axes.legend(fontsize=9, frameon=False)
        axes.grid(True, linewidth=0.3)


@dataclasses.dataclass(frozen=True)
class _Axis:
    low: float
    high: float
    ticks: tuple[float, ...]
    place: Callable[[float], float]


def _linear_axis(values: np.ndarray, start: float, end: float) -> _Axis:
    high = float(values.max()) if len(values) else 1.0
    high = high if high > 0.0 else 1.0
    step = 10.0 ** math.floor(math.log10(high / 4.0))
    step *= next(factor for factor in (1, 2, 5, 10) if high / (factor * step) <= 6.0)
    ticks = tuple(step * i for i in range(int(high / step * (1 + 1e-9)) + 1))
    return _Axis(0.0, high, ticks, lambda value: start + (end - start) * min(max(value / high, 0.0), 1.0))


def _log_axis(values: np.ndarray, start: float, end: float) -> _Axis:
    low, high = (math.log10(float(value)) for value in (values.min(), values.max()))
    first, last = math.floor(low), max(math.ceil(high), math.floor(low) + 1)
    every = math.ceil((last - first) / _DECADES)
    ticks = tuple(float(f"1e{k}") for k in range(last, first - 1, -every))

    def place(value: float) -> float:
        share = (math.log10(value) - first) / (last - first) if value > 0.0 else 0.0
        return start + (end - start) * min(max(share, 0.0), 1.0)

    return _Axis(10.0**first if first > -300 else 5e-324, 10.0**last, ticks, place)


def _frame(x: _Axis, y: _Axis, x_label: str, y_label: str) -> list[str]:
    bottom, right = HEIGHT - _BOTTOM, WIDTH - _RIGHT
    parts = [f'<g stroke="#dddddd">{"".join(_line(x.place(t), _TOP, x.place(t), bottom) for t in x.ticks)}'
             f'{"".join(_line(_LEFT, y.place(t), right, y.place(t)) for t in y.ticks)}</g>']
    parts += [f'<text x="{x.place(t):.1f}" y="{bottom + 16}" text-anchor="middle">{t:g}</text>' for t in x.ticks]
    parts += [f'<text x="{_LEFT - 6}" y="{y.place(t) + 4:.1f}" text-anchor="end">{t:g}</text>' for t in y.ticks]
    middle = (_TOP + bottom) / 2
    parts.append(f'<text x="{(_LEFT + right) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{html.escape(x_label)}</text>')
    parts.append(f'<text x="14" y="{middle}" text-anchor="middle" transform="rotate(-90 14 {middle})">{html.escape(y_label)}</text>')
    return parts


def _line(x1: float, y1: float, x2: float, y2: float) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _drawn(band: Band, x: _Axis, y: _Axis) -> str:
    def points(values: np.ndarray) -> list[str]:
        return [f"{x.place(float(a)):.2f},{y.place(float(b)):.2f}" for a, b in zip(band.x, values, strict=True)]

    around = " ".join(points(band.upper) + points(band.lower)[::-1])
    dash = _DASHES if band.dashed else ""
    return (f'<polygon points="{around}" fill="{band.colour}" fill-opacity="0.3"/>'
            f'<polyline points="{" ".join(points(band.line))}" fill="none" stroke="{band.colour}" stroke-width="1.6"{dash}/>')


def _legend(bands: Sequence[Band]) -> list[str]:
    parts = []
    for i, band in enumerate(bands):
        y = _TOP + 14 + 16 * i
        dash = _DASHES if band.dashed else ""
        parts.append(f'<g stroke="{band.colour}" stroke-width="2"{dash}>{_line(WIDTH - 206, y - 4, WIDTH - 186, y - 4)}</g>'
                     f'<text x="{WIDTH - 180}" y="{y}">{html.escape(band.label)}</text>')
    return parts
