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

Where lower bounds l_i belong to one law, whose own curve is linear in t between the t_i (`Polygons.of_law`), the chords of the l_i are
a bound, too, and the vertices are the points themselves. Of t that are rounded to the same float the lowest g counts.

Which vertex. The largest of 1 - l_v - t_v alpha, and of (1 - alpha - l_v) / t_v, is at a vertex of the lower convex hull: where the
falls (l_v - l_w) / (t_w - t_v) from one vertex to the next pass alpha, and where the intercepts l_v + t_v (l_v - l_w) / (t_w - t_v)
pass 1 - alpha. Falls and intercepts are rounded by 6 ulp: whatever vertex follows is then at most 8 ulp of l_v + t_v alpha, or of
1 - alpha, from the largest. By how much, relative, the hull that was found is above one of the points, which rounding may do, is
measured, and all l_v are lowered by that. For the lower curve any vertex will do.

Gaussian parameter. The smallest mu with G_mu <= f wherever both errors are at least some alpha_0 is the largest
Phi^-1(1 - alpha) - Phi^-1(f(alpha)), alpha_0 <= alpha <= f(alpha): both curves are symmetric. On a linear piece of the lower polygon,
polygon minus G_mu is concave (G_mu is convex), so for the upper end it is enough to compare at the ends of the pieces.

Rounding: g + t alpha is a sum of positive numbers, off by 4 ulp of itself; it is moved outwards by that and what choosing the vertex
costs, and what is left of 1 by one float.
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
_CHOICE = 16.0 * _EPS
_LARGEST_EPSILON = 700.0


class Points(NamedTuple):
    """Points (t, g), t increasing, and the lower convex hull of them: which they are, falls and intercepts between neighbours, and by
    how much, relative, it is above some point, because of rounding.
    """

    t: np.ndarray
    g: np.ndarray
    number: np.ndarray
    falls: np.ndarray
    intercepts: np.ndarray
    above: float

    @classmethod
    def of(cls, t: np.ndarray, g: np.ndarray) -> Points:
        single = np.flatnonzero(np.diff(t, prepend=-np.inf) > 0.0)
        t, g = t[single], np.minimum.reduceat(g, single)  # of equal t the lowest
        number, last = np.arange(len(t)), len(t) - 1
        if last > 1:  # what lies above the tangents from both ends goes at once
            left, right = int(np.argmax((g[:1] - g[1:]) / (t[1:] - t[:1]))) + 1, int(np.argmin((g[:-1] - g[-1:]) / (t[-1:] - t[:-1])))
            number = np.concatenate([[0], np.arange(max(left, 1), min(right, last - 1) + 1), [last]])
        while True:
            falls = -np.diff(g[number]) / np.diff(t[number])
            concave = np.flatnonzero(falls[1:] > falls[:-1]) + 1
            if not len(concave):
                break
            number = np.delete(number, concave)
        intercepts = np.minimum.accumulate(g[number[:-1]] + falls * t[number[:-1]])
        return cls(t, g, number, falls, intercepts, _excess(t, g, number))

    def nearest(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The points where g + t alpha is smallest, and where (1 - alpha - g) / t is largest."""
        return (self.number[np.searchsorted(-self.falls, -alpha, side="left")],
                self.number[np.searchsorted(-self.intercepts, alpha - 1.0, side="right")])

    def largest(self, alpha: np.ndarray, side: float) -> tuple[np.ndarray, np.ndarray]:
        """max over i of max(0, 1 - g_i - t_i alpha, (1 - g_i - alpha) / t_i), rounded to a side, and the t_i where it is attained."""
        lowered = 1.0 - max(side, 0.0) * self.above
        t, g = self.t, self.g * lowered
        flat, steep = self._replace(falls=self.falls * lowered, intercepts=self.intercepts * lowered).nearest(alpha)
        factor, choice = 1.0 - 4.0 * side * _EPS, max(side, 0.0) * _CHOICE
        with np.errstate(over="ignore"):
            values = np.nextafter(1.0 - (g[flat] + t[flat] * alpha) * (factor - choice), side * 2.0)
            others = np.nextafter(1.0 - (g[steep] + alpha) * factor, side * 2.0) + choice * (1.0 - alpha)
            others /= t[steep] * factor
        return np.maximum(np.maximum(values, others), 0.0), t[np.where(values > others, flat, steep)]


def _excess(t: np.ndarray, g: np.ndarray, number: np.ndarray) -> float:
    """By how much the polygon through some points, the first and the last among them, is above any of the others, relative."""
    if len(number) < 2:
        return _ROUNDING
    right = np.clip(np.searchsorted(t[number], t), 1, len(number) - 1)
    low, high = number[right - 1], number[right]
    chord = (g[low] * (t[high] - t) + g[high] * (t - t[low])) / (t[high] - t[low])
    return max(float(np.max((chord - g) / np.maximum(chord, 1e-300))), 0.0) + _ROUNDING


class Polygons(NamedTuple):
    """Lower bounds of g at the vertices of a bound of g on all of [1, inf), and upper bounds of g at some t; both do not rise."""

    below: Points
    above: Points

    def band(self, alpha: np.ndarray) -> tuple[Interval, np.ndarray]:
        """The band at every alpha, and the epsilon of the vertex that its upper end comes from."""
        upper, at = self.below.largest(alpha, 1.0)
        lower, _ = self.above.largest(alpha, -1.0)
        return _inside(alpha, lower, upper), np.log(at)

    def corners(self) -> np.ndarray:
        """The corners of the lower polygon above the diagonal, and where its lines cross the diagonal."""
        t, up = self.above.t[self.above.number], self.above.g[self.above.number]
        return np.concatenate([self.above.falls, (1.0 - up) / (1.0 + t)])

    def separations(self, alpha: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """For the first alpha, and those that are at most f(alpha): they; lower and upper bounds of Phi^-1(1 - alpha) -
        Phi^-1(f(alpha)); and the epsilons whose refinement would narrow them.
        """
        band, epsilons = self.band(alpha)
        relevant = alpha <= band.upper
        relevant[0] = True
        upper, lower = (np.maximum(_separation(alpha[relevant], np.asarray(end)[relevant]), 0.0) for end in (band.lower, band.upper))
        return alpha[relevant], lower * (1.0 - 1e-12), upper * (1.0 + 1e-12), epsilons[relevant]

    def beside(self, alpha: np.ndarray) -> np.ndarray:
        """The epsilons of the vertices that decide for these alphas, on either line: where upper bounds of g narrow the band."""
        return np.log(self.below.t[np.unique(np.concatenate(self.below.nearest(alpha)))])

    def with_upper(self, epsilons: np.ndarray, upper: np.ndarray) -> Polygons:
        """With upper bounds of g at increasing epsilons."""
        return Polygons(self.below, Points.of(np.exp(epsilons), np.minimum.accumulate(upper)))

    @classmethod
    def of_law(cls, epsilons: np.ndarray, lower: np.ndarray, floor: float) -> Polygons:
        """From lower bounds of g at epsilons, the first at 0 or below, between which the curve that they bound is linear in e^eps, and
        a bound of all g; of g from above nothing is known yet.

        Beyond the last t the slope is at least -1 / t there: that is -P(S), and t P(S) <= Q(S) <= 1.
        """
        t, below = np.exp(epsilons), np.maximum.accumulate(np.append(lower, floor)[::-1])[::-1]
        end = t[-1] * (1.0 + (below[-2] - floor) * (1.0 - _ROUNDING))
        return cls(Points.of(np.append(t, end), below), Points.of(t[:1], np.ones(1)))


class Sandwich:
    """Certified bounds of g at some t, and the polygons below and above f that follow from them."""

    def __init__(self, deltas: DeltaIntervals, epsilons: np.ndarray):
        self._deltas = deltas
        end = deltas(np.array([math.inf]))
        self._floor = max(float(np.asarray(end.lower)[0]), 0.0)
        self.epsilons = self.lower = self.upper = np.zeros(0)
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
        pairs = (self.epsilons, wanted), (self.lower, found.lower), (self.upper, found.upper)
        columns = [np.concatenate(pair) for pair in pairs]
        order = np.argsort(columns[0])
        self.epsilons, self.lower, self.upper = (column[order] for column in columns)
        # g is non-increasing: a bound at one t serves the others
        self.upper = np.minimum.accumulate(self.upper)
        self.lower = np.maximum.accumulate(self.lower[::-1])[::-1]

    def polygons(self) -> Polygons:
        """The vertices (t_v, l_v) of a lower bound of g on [1, inf), and the (t_i, u_i)."""
        t = np.exp(self.epsilons)
        single = np.diff(t, append=np.inf) > 0.0
        t, low, up = t[single], self.lower[single], self.upper[single]
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
        vertices, floor = np.concatenate([t, cross, [min(last, 1e300)]]), np.concatenate([low, value, [self._floor]])
        order = np.argsort(vertices, kind="stable")
        return Polygons(Points.of(vertices[order], np.maximum(floor[order], self._floor)), Points.of(t, up))


def _inside(alpha: np.ndarray, lower: np.ndarray, upper: np.ndarray) -> Interval:
    """0 <= f(alpha) <= 1 - alpha; the latter is rounded up, but from 1/2 on, where it is exact (Sterbenz)."""
    most = np.where(alpha < 0.5, np.minimum(np.nextafter(1.0 - alpha, 2.0), 1.0), 1.0 - alpha)
    lower, upper = np.clip(lower, 0.0, most), np.minimum(upper, most)
    upper = np.maximum(upper, lower)
    return Interval(lower, 0.5 * (lower + upper), upper)  # type: ignore[arg-type]


def _separation(alpha: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """The mu with G_mu(alpha) = beta: Phi^-1(1 - alpha) - Phi^-1(beta)."""
    mu: np.ndarray = -special.ndtri(alpha) - special.ndtri(beta)
    return mu


def gaussian_mu(directions: Sequence[Composition]) -> float:
    """The parameter of a composition of Gaussians alone, whose trade-off curve is G_mu itself, rounded up; otherwise infinity."""
    if not directions or not all(composition.is_gaussian for composition in directions):
        return math.inf
    return max(math.sqrt(composition.gaussian_variance) for composition in directions) * (1.0 + 1e-14)
