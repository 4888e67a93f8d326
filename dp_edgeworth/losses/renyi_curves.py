"""Mechanisms known by an upper bound k(c) of K(c) = log E_Q[e^{c L}], c > 0, in both directions: Renyi curves.

    Renyi DP of order alpha    k(c) = c RDP(alpha), c = alpha - 1
    (xi, rho)-zCDP             k(c) = c (xi + rho (c + 1))
    bounded range eps_0        k(c) = (c+1) g((c+1) eps_0 / 2) - c g(c eps_0 / 2) - g(eps_0 / 2),   g(y) = log(sinh(y) / y)

The last one is the largest K(c) of the two-atom losses {t, t - eps_0} over t (Dong, Durfee, Rogers 2020), written so that nothing of
first order is left to cancel; at most c (c + 1) eps_0^2 / 8 and at most c eps_0.

Curves of an adaptive composition add up at common c. From a curve to a profile:

    delta(eps) <= U(eps) = inf_c kappa(c) e^{k(c) - c eps},        kappa(c) = c^c / (1 + c)^{1 + c},        eps >= 0,

because (1 - e^{eps - y})_+ <= kappa(c) e^{c (y - eps)} for every y (the best conversion of a single order: Asoodeh, Liao, Calmon,
Kosut, Sankar 2021; Canonne, Kamath, Steinke 2020). Every c gives a valid bound, so the search for the best one needs no proof.
All k here are convex, so log kappa(c) + k(c) - c eps is convex in c and has one minimum.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Mapping

import numpy as np

from dp_edgeworth.losses.profile_hull import plane_hull

_LEAST_ORDER, _LARGEST_ORDER = 1e-12, 1e15
_GOLDEN = 0.5 * (math.sqrt(5.0) - 1.0)
_STEPS = 80
_EPSILON = float(np.finfo(float).eps)


class RenyiCurve:
    """An upper bound k(c) of K(c) for 0 < c <= largest, both directions. Subclasses are frozen, hashable values."""

    largest: float = _LARGEST_ORDER

    def __call__(self, c: np.ndarray) -> np.ndarray:
        """k(c), rounded up."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class ZeroConcentrated(RenyiCurve):
    """k(c) = c (xi + rho (c + 1))."""

    rho: float
    xi: float = 0.0

    def __call__(self, c: np.ndarray) -> np.ndarray:
        return c * (self.xi + self.rho * (c + 1.0)) * (1.0 + 4.0 * _EPSILON)


@dataclasses.dataclass(frozen=True)
class BoundedRangeCurve(RenyiCurve):
    """The largest K(c) of any mechanism of bounded range."""

    epsilon: float

    def __call__(self, c: np.ndarray) -> np.ndarray:
        half = 0.5 * self.epsilon
        large, small, one = log_sinhc((c + 1.0) * half), log_sinhc(c * half), float(log_sinhc(np.array(half)))
        found = (c + 1.0) * large - c * small - one
        found = found + 16.0 * _EPSILON * ((c + 1.0) * large + c * small + one)
        return np.minimum(found, np.minimum(0.5 * half * half * c * (c + 1.0), c * self.epsilon) * (1.0 + 8.0 * _EPSILON))


@dataclasses.dataclass(frozen=True)
class Tabulated(RenyiCurve):
    """Chords of a table of k, from k(0) = 0 on: K is convex, so it is below them. Never continued beyond the last entry."""

    orders: tuple[float, ...]  # c, increasing
    values: tuple[float, ...]

    @property
    def largest(self) -> float:  # type: ignore[override]
        return self.orders[-1]

    def __call__(self, c: np.ndarray) -> np.ndarray:
        orders, values = np.array([0.0, *self.orders]), np.array([0.0, *self.values])
        return np.where(c <= self.orders[-1], np.interp(c, orders, values) * (1.0 + 8.0 * _EPSILON), math.inf)

    @classmethod
    def of(cls, orders: np.ndarray, values: np.ndarray) -> Tabulated:
        """The lower convex hull of a table with (0, 0): what is above a chord of others says nothing."""
        x, y = plane_hull(np.append(0.0, orders), np.append(0.0, values))
        return cls(tuple(x[1:].tolist()), tuple(y[1:].tolist()))


@dataclasses.dataclass(frozen=True)
class SumOfCurves(RenyiCurve):
    """Curves with counts: what is composed has the sum."""

    parts: tuple[tuple[RenyiCurve, int], ...]

    @property
    def largest(self) -> float:  # type: ignore[override]
        return min(curve.largest for curve, _ in self.parts)

    def __call__(self, c: np.ndarray) -> np.ndarray:
        total = np.zeros(np.shape(c))
        for curve, count in self.parts:
            total = total + float(count) * curve(c)
        return total * (1.0 + 2.0 * _EPSILON * (1.0 + len(self.parts)))

    @classmethod
    def of(cls, counts: Mapping[RenyiCurve, int]) -> SumOfCurves:
        """In an order of their own, so that rounding does not depend on how they came."""
        return cls(tuple(sorted(counts.items(), key=lambda item: repr(item[0]))))


def log_sinhc(y: np.ndarray) -> np.ndarray:
    """log(sinh(y) / y), y >= 0, to relative accuracy: a series below 0.1 (the next term is below 1e-17 of the first)."""
    small, large = np.minimum(y, 0.1), np.maximum(y, 0.1)
    square = small * small
    series = square * (1 / 6 + square * (-1 / 180 + square * (1 / 2835 + square * (-1 / 37800 + square * (
        1 / 467775 + square * (-691 / 3831077250 + square * (2 / 127702575)))))))
    return np.where(y < 0.1, series, large + np.log1p(-np.exp(-2.0 * large)) - np.log(2.0 * large))


def log_kappa(c: np.ndarray) -> np.ndarray:
    """c log c - (1 + c) log(1 + c) = -c log(1 + 1/c) - log(1 + c)."""
    return -c * np.log1p(1.0 / c) - np.log1p(c)


def log_profile(curve: RenyiCurve, epsilons: np.ndarray) -> np.ndarray:
    """log U(eps), rounded up, at eps >= 0; at most 0."""
    eps = np.asarray(epsilons, float)

    def exponent(c: np.ndarray) -> np.ndarray:
        return log_kappa(c) + curve(c) - c * eps

    with np.errstate(over="ignore", invalid="ignore"):
        best = _smallest(exponent, eps.shape, curve.largest)
        k = curve(best)
        rounding = 16.0 * _EPSILON * (1.0 + k + best * eps + np.abs(log_kappa(best)))
        found = np.where(np.isinf(eps) & np.isfinite(k), -math.inf, exponent(best) + rounding)
    return np.where(np.isnan(found), 0.0, np.minimum(found, 0.0))


def epsilon_of(curve: RenyiCurve, log_deltas: np.ndarray) -> np.ndarray:
    """The smallest eps >= 0 with kappa(c) e^{k(c) - c eps} <= delta for some c, rounded up."""
    target = np.asarray(log_deltas, float)

    def needed(c: np.ndarray) -> np.ndarray:
        return (log_kappa(c) + curve(c) - target) / c

    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        best = _smallest(needed, target.shape, curve.largest)
        rounding = 16.0 * _EPSILON * (1.0 + curve(best) + np.abs(log_kappa(best)) + np.abs(target)) / best
        found = needed(best) + rounding
    return np.where(np.isnan(found), math.inf, np.maximum(found, 0.0))


def _smallest(function: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...], largest: float) -> np.ndarray:
    """Where a function with one minimum is smallest, by golden section in log c, for every entry, or the end of the range."""
    f = function
    low, high = np.full(shape, math.log(_LEAST_ORDER)), np.full(shape, math.log(min(largest, _LARGEST_ORDER)))
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left, at_right = f(np.exp(left)), f(np.exp(right))
    for _ in range(_STEPS):
        go_left = ~(at_left > at_right) | np.isnan(at_right)
        high, low = np.where(go_left, right, high), np.where(go_left, low, left)
        left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
        at_left, at_right = f(np.exp(left)), f(np.exp(right))
    middle, end = np.exp(0.5 * (low + high)), np.full(shape, min(largest, _LARGEST_ORDER))
    return np.where(f(end) < f(middle), end, np.minimum(middle, end))
