"""Theorem: the f-DP trade-off curve with its certified band, from certified bounds of delta(epsilon).

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

Where lower bounds l_i belong to one law, whose own curve is linear in t between the t_i (`Knots`), the chords of the l_i are a bound,
too, and the vertices are the points themselves.

Gaussian parameter. The smallest mu with G_mu <= f wherever both errors are at least some alpha_0 is the largest
Phi^-1(1 - alpha) - Phi^-1(f(alpha)), alpha_0 <= alpha <= f(alpha): both curves are symmetric. On a linear piece of the lower polygon,
polygon minus G_mu is concave (G_mu is convex), so for the upper end it is enough to compare at the ends of the pieces.

Rounding: g + t alpha is a sum of positive numbers, off by 4 ulp of itself; it is moved outwards by that, and what is left of 1 by one
float.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import special

from dp_edgeworth.intervals import Interval
from dp_edgeworth.sums.composition import Composition

DeltaIntervals = Callable[[np.ndarray], Any]
"""Certified intervals of delta for an array of epsilons: anything with `lower`, `estimate` and `upper` arrays."""
_EPS = float(np.finfo(float).eps)
_ROUNDING = 8.0 * _EPS
_LARGEST_EPSILON = 700.0
_AT_ONCE = 2_000_000


class Knots(NamedTuple):
    """Bounds of delta at epsilons between which the lower one is linear in e^eps, from 0 or below on; nothing is known of the rest."""

    epsilons: np.ndarray
    lower: np.ndarray
    upper: np.ndarray

    def band(self, alpha: np.ndarray) -> Interval:
        """The band at every alpha; beyond the last epsilon delta is at least 0."""
        t = np.exp(self.epsilons)
        upper, _ = _largest(alpha, np.append(t, t[-1]), np.append(self.lower, 0.0), 1.0)
        lower, _ = _largest(alpha, t, self.upper, -1.0)
        return _inside(alpha, lower, upper, 0.5 * (lower + upper))


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
        upper, best = _largest(alpha, vertices, floor, 1.0)
        lower, _ = _largest(alpha, t, self.upper, -1.0)
        estimate, _ = _largest(alpha, t, self.estimate, 0.0)
        return _inside(alpha, lower, upper, estimate), np.log(vertices[best])

    def separations(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """For those of the alphas that are at most f(alpha): they; lower and upper bounds of Phi^-1(1 - alpha) - Phi^-1(f(alpha)); and
        the epsilons whose refinement would narrow them.
        """
        band, epsilons = self.curves(alpha)
        relevant = alpha <= band.upper
        relevant[0] = True
        upper, lower = (np.maximum(_separation(alpha[relevant], np.asarray(end)[relevant]), 0.0) for end in (band.lower, band.upper))
        return alpha[relevant], lower * (1.0 - 1e-12), upper * (1.0 + 1e-12), epsilons[relevant]


def _inside(alpha: np.ndarray, lower: np.ndarray, upper: np.ndarray, estimate: np.ndarray) -> Interval:
    """0 <= f(alpha) <= 1 - alpha; the latter is rounded up, but from 1/2 on, where it is exact (Sterbenz)."""
    most = np.where(alpha < 0.5, np.minimum(np.nextafter(1.0 - alpha, 2.0), 1.0), 1.0 - alpha)
    lower, upper = np.clip(lower, 0.0, most), np.minimum(upper, most)
    upper = np.maximum(upper, lower)
    return Interval(lower, np.clip(estimate, lower, upper), upper)  # type: ignore[arg-type]


def _largest(alpha: np.ndarray, t: np.ndarray, g: np.ndarray, side: float) -> tuple[np.ndarray, np.ndarray]:
    """max over i of max(0, 1 - g_i - t_i alpha, (1 - g_i - alpha) / t_i), rounded to a side, and the i where it is attained."""
    values, best = np.zeros(len(alpha)), np.zeros(len(alpha), int)
    size, factor = max(1, _AT_ONCE // len(t)), 1.0 - 4.0 * side * _EPS
    for start in range(0, len(alpha), size):
        a = alpha[start:start + size, None]
        with np.errstate(over="ignore"):
            flat = np.nextafter(1.0 - (g + t * a) * factor, side * 2.0) if side else 1.0 - (g + t * a)
            steep = (np.nextafter(1.0 - (g + a) * factor, side * 2.0) if side else 1.0 - (g + a)) / (t * factor)
        both = np.maximum(flat, steep)
        best[start:start + size] = both.argmax(axis=1)
        values[start:start + size] = both.max(axis=1)
    return np.maximum(values, 0.0), best


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


def _separation(alpha: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """The mu with G_mu(alpha) = beta: Phi^-1(1 - alpha) - Phi^-1(beta)."""
    mu: np.ndarray = -special.ndtri(alpha) - special.ndtri(beta)
    return mu


def gaussian_mu(directions: Sequence[Composition]) -> float:
    """The parameter of a composition of Gaussians alone, whose trade-off curve is G_mu itself, rounded up; otherwise infinity."""
    if not directions or not all(composition.is_gaussian for composition in directions):
        return math.inf
    return max(math.sqrt(composition.gaussian_variance) for composition in directions) * (1.0 + 1e-14)
