"""Theorem: the f-DP trade-off curve with its certified band, from certified intervals of delta(epsilon).

With t = e^epsilon >= 1 let g(t) = delta(log t), the larger of both directions. A mechanism is (epsilon, g)-DP for all
epsilon exactly if it is f-DP for (Dong, Roth and Su, "Gaussian Differential Privacy", Proposition 2.12)

    f(alpha) = sup_{t >= 1} max(0, 1 - g(t) - t alpha, (1 - g(t) - alpha) / t).

Each g is a supremum over events S of Q(S) - t P(S), hence convex and non-increasing in t, with slope -P(S) >= -1.

Lower curve. A supremum over fewer t, with g replaced by upper bounds u_i >= g(t_i), is at most f.

Upper curve. A lower bound l <= g on ALL of [1, inf) is needed. Let l_i <= g(t_i) <= u_i. For t >= t_i and j < i
convexity puts g above the chord through t_j and t_i, extended:

    g(t) >= g(t_i) + (g(t_i) - g(t_j)) r >= l_i (1 + r) - u_j r,        r = (t - t_i) / (t_i - t_j) >= 0,

and likewise to the left of two points further right. Left of t_2 the chord from the left is replaced by the slope -1,
right of the last point the chord from the right by the constant g(inf). As g is non-increasing also l(t) >= l_{i+1} on
[t_i, t_{i+1}]. On each such interval l is the larger of two lines, so convex and piecewise linear, and both
1 - l(t) - t alpha and (1 - alpha - l(t)) / t are largest at an end of a linear piece: the first is linear there, the
second monotone. So

    f(alpha) <= max over the vertices (t_v, l_v) of l of max(0, 1 - l_v - t_v alpha, (1 - l_v - alpha) / t_v).

The gap shrinks like the square of the distance between the t_i (a sandwich algorithm): the vertex that decides the
upper curve at some alpha is the next t at which delta is asked.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import special

from dp_edgeworth import validation
from dp_edgeworth.intervals import Interval

DeltaIntervals = Callable[[np.ndarray], Any]
"""Certified intervals of delta for an array of epsilons: anything with `lower`, `estimate` and `upper` arrays."""
EpsilonUppers = Callable[[np.ndarray], np.ndarray]
_ROUNDING = 8.0 * np.finfo(float).eps
_LARGEST_EPSILON = 700.0
_MOST_POINTS = 2_000


class Sandwich:
    """Certified bounds of g at some t, and the polygons below and above f that follow from them."""

    def __init__(self, deltas: DeltaIntervals, epsilons: np.ndarray):
        self._deltas = deltas
        end = deltas(np.array([math.inf]))
        self._floor = max(float(np.asarray(end.lower)[0]), 0.0)
        self.epsilons = self.lower = self.estimate = self.upper = np.zeros(0)
        self.add(np.append(epsilons, 0.0))

    def add(self, epsilons: np.ndarray) -> None:
        """Asks for delta at more epsilons; those that are known already are skipped."""
        wanted = np.unique(np.clip(epsilons, 0.0, _LARGEST_EPSILON))
        if len(self.epsilons):
            near = self.epsilons[np.clip(np.searchsorted(self.epsilons, wanted), 1, len(self.epsilons) - 1)]
            before = self.epsilons[np.clip(np.searchsorted(self.epsilons, wanted) - 1, 0, None)]
            distance = np.minimum(np.abs(near - wanted), np.abs(before - wanted))
            wanted = wanted[distance > 1e-9 * (1.0 + wanted)]
        if not len(wanted):
            return
        found = self._deltas(wanted)
        pairs = ((self.epsilons, wanted), (self.lower, found.lower), (self.estimate, found.estimate),
                 (self.upper, found.upper))
        columns = [np.concatenate(pair) for pair in pairs]
        order = np.argsort(columns[0])
        self.epsilons, self.lower, self.estimate, self.upper = (column[order] for column in columns)
        # g is non-increasing: a bound at one t serves the others
        self.upper = np.minimum.accumulate(self.upper)
        self.lower = np.maximum.accumulate(self.lower[::-1])[::-1]

    def vertices(self) -> tuple[np.ndarray, np.ndarray]:
        """The vertices (t_v, l_v) of a lower bound of g on [1, inf)."""
        t, low, up = np.exp(self.epsilons), self.lower, self.upper
        with np.errstate(all="ignore"):
            step = np.diff(t)
            # slopes of the chords: lower bounds where they are extended to the right, upper bounds to the left
            slack = _ROUNDING * (up[1:] + up[:-1] + t[1:] * np.abs(up[1:] - up[:-1]) / step) / step
            from_left = np.concatenate([[-1.0], np.maximum((low[1:] - up[:-1]) / step - slack, -1.0)])
            from_right = np.append(np.minimum((up[1:] - low[:-1]) / step + slack, 0.0)[1:], 0.0)
            start, stop = t[:-1], t[1:]
            rising, falling = from_left[:-1], from_right
            # g >= low_i + rising (t - t_i) and g >= low_{i+1} + falling (t - t_{i+1}); where they cross
            cross = (low[1:] - falling * stop - low[:-1] + rising * start) / (rising - falling)
            cross = np.clip(np.where(np.isfinite(cross), cross, start), start, stop)
            value = np.maximum(low[:-1] + rising * (cross - start), low[1:] + falling * (cross - stop))
            last = t[-1] + max(low[-1] - self._floor, 0.0) / max(-from_left[-1], 1e-300)
        return (np.concatenate([t, cross, [min(last, 1e300)]]),
                np.maximum(np.concatenate([low, value, [self._floor]]), self._floor))

    def corners(self) -> np.ndarray:
        """The corners of the lower polygon above the diagonal, and where its lines cross the diagonal.

        Lines of points above the convex hull of the (t_i, u_i) are nowhere the largest.
        """
        t, up = np.exp(self.epsilons), self.upper
        hull = _hull(t.tolist(), up.tolist())
        t, up = t[hull], up[hull]
        return np.concatenate([(up[:-1] - up[1:]) / np.diff(t), (1.0 - up) / (1.0 + t)])

    def curves(self, alpha: np.ndarray) -> tuple[Interval, np.ndarray]:
        """The band at every alpha, and the epsilon whose refinement would narrow it there."""
        t = np.exp(self.epsilons)
        vertices, floor = self.vertices()
        upper, best = _largest(alpha, vertices, floor)
        lower, _ = _largest(alpha, t, self.upper)
        estimate, _ = _largest(alpha, t, self.estimate)
        lower = np.maximum(lower - _ROUNDING, 0.0)
        upper = np.minimum(upper + _ROUNDING, 1.0 - alpha)
        band = Interval(lower, np.clip(estimate, lower, upper), np.maximum(upper, lower))  # type: ignore[arg-type]
        return band, np.log(vertices[best])


def _largest(alpha: np.ndarray, t: np.ndarray, g: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """max over i of max(0, 1 - g_i - t_i alpha, (1 - g_i - alpha) / t_i), and the i where it is attained."""
    a, rest = alpha[:, None], 1.0 - g
    with np.errstate(over="ignore"):
        values = np.maximum(rest - t * a, (rest - a) / t)
    best = values.argmax(axis=1)
    return np.maximum(values[np.arange(len(alpha)), best], 0.0), best


def _hull(t: list[float], g: list[float]) -> list[int]:
    """Indices of the lower convex hull of points with increasing t."""
    hull: list[int] = []
    for i in range(len(t)):
        while len(hull) > 1:
            a, b = hull[-2], hull[-1]
            if (g[b] - g[a]) * (t[i] - t[b]) < (g[i] - g[b]) * (t[b] - t[a]):
                break
            hull.pop()
        hull.append(i)
    return hull


def sandwich(alphas: np.ndarray, deltas: DeltaIntervals, epsilons: EpsilonUppers, tolerance: float = 1e-6) -> Sandwich:
    """Refines until the band at every alpha is narrower than `tolerance`, or as narrow as delta's intervals allow."""
    smallest = max(min(float(alphas[alphas > 0].min(initial=0.5)), 0.1) * 1e-2, 1e-300)
    targets = np.concatenate([np.linspace(0.95, 0.05, 10), np.geomspace(0.03, smallest, 24)])
    start = epsilons(targets)
    result = Sandwich(deltas, start[np.isfinite(start)])
    for _ in range(12):
        band, next_epsilons = result.curves(alphas)
        wide = np.asarray(band.upper) - np.asarray(band.lower) > tolerance
        known = len(result.epsilons)
        if not wide.any():
            break
        result.add(next_epsilons[wide])
        if len(result.epsilons) == known:
            break
    return result


def tradeoff(alpha: Any, deltas: DeltaIntervals, epsilons: EpsilonUppers, tolerance: float = 1e-6) -> Interval:
    """The certified band of the trade-off curve: the smallest type II error beta of any attack with type I error alpha.

    Args:
      alpha: a number in [0, 1] or an array of them.
      deltas: certified intervals of delta for an array of epsilons, such as `accountant.get_delta_interval`.
      epsilons: upper bounds of epsilon for an array of deltas, such as `accountant.get_epsilon`.
      tolerance: width of the band aimed at.

    >>> import dp_accounting as dpa, numpy as np
    >>> from dp_edgeworth import EdgeworthIntervalAccountant
    >>> accountant = EdgeworthIntervalAccountant().compose(dpa.GaussianDpEvent(1.0))
    >>> band = tradeoff(0.05, accountant.get_delta_interval, accountant.get_epsilon)
    >>> band.lower <= 0.740488977 <= band.upper < band.lower + 1e-5   # Phi(Phi^-1(0.95) - 1)
    True
    """
    values = validation.array_in("alpha", alpha, 0.0, 1.0)
    tolerance = validation.positive("tolerance", tolerance)
    flat = values.ravel()
    band, _ = sandwich(flat, deltas, epsilons, tolerance).curves(flat)
    parts = [np.asarray(part).reshape(values.shape) for part in band]
    return Interval(*(float(part) if part.ndim == 0 else part for part in parts))  # type: ignore[arg-type]


def advantage(deltas: DeltaIntervals) -> Interval:
    """max over attacks of 1 - alpha - beta: the total variation, delta(0)."""
    at_zero = deltas(np.zeros(1))
    return Interval(*(float(part[0]) for part in at_zero))


def gdp_mu(deltas: DeltaIntervals, epsilons: EpsilonUppers, min_alpha: float = 1e-10) -> Interval:
    """Certified bounds of the smallest mu whose Gaussian trade-off lies below the curve.

        mu = sup { Phi^-1(1 - alpha) - Phi^-1(f(alpha)) : min_alpha <= alpha <= f(alpha) }

    Both curves are symmetric, so alpha <= f(alpha) suffices: the curve is then above G_mu wherever both errors are at
    least `min_alpha`. (Taken literally up to alpha = 1, the same inequality would be that for alpha -> 0.)

    Upper end: on a linear piece of the lower polygon, polygon minus G_mu is concave (G_mu is convex), so it is enough
    to compare at the ends of the pieces. Lower end: any alpha will do, with the upper curve.
    """
    least = validation.number("min_alpha", min_alpha)
    if not 0.0 < least < 0.5:
        raise ValueError(f"`min_alpha` must be in (0, 0.5). Found {min_alpha!r}.")
    if advantage(deltas).upper == 0.0:  # f(alpha) = 1 - alpha
        return Interval(0.0, 0.0, 0.0)
    grid = np.geomspace(least, 0.5, 60)
    polygons, result = sandwich(grid, deltas, epsilons, 1e-5), Interval(0.0, 0.0, math.inf)
    for _ in range(8):
        alphas = np.union1d(grid, np.clip(polygons.corners(), least, 0.5))
        band, next_epsilons = polygons.curves(alphas)
        relevant = alphas <= band.upper
        relevant[0] = True
        ends = np.asarray(band.lower), np.minimum(np.asarray(band.upper) + _ROUNDING, 1.0)  # 1 - alpha was rounded
        separations = [np.maximum(_separation(alphas[relevant], beta[relevant]), 0.0) for beta in ends]
        upper, lower = float(separations[0].max()), float(separations[1].max()) * (1.0 - 1e-12)
        result = Interval(max(lower, result.lower), lower, min(upper, result.upper))
        known = len(polygons.epsilons)
        polygons.add(next_epsilons[relevant][separations[0] > lower + 1e-5 * max(1.0, lower)])
        if not known < len(polygons.epsilons) <= _MOST_POINTS or not math.isfinite(upper):
            break
    return Interval(result.lower, min(max(result.estimate, result.lower), result.upper), result.upper * (1.0 + 1e-12))


def _separation(alpha: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """The mu with G_mu(alpha) = beta: Phi^-1(1 - alpha) - Phi^-1(beta)."""
    mu: np.ndarray = -special.ndtri(alpha) - special.ndtri(beta)
    return mu
