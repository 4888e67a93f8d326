"""The best of a random number K of runs, K not released: hyper-parameter tuning.

(Liu, Talwar 2019; Papernot, Steinke 2022; profiles: Koskela, Redberg, Wang 2024.) Every run releases its output and a score that is
part of it; the best run is released. With phi the generating function of K and q(y) = P(a run is no better than y), ties broken by one
more uniform number, the output y has the density phi'(q(y)) dQ(y). Let q' be that of the other law. phi' grows, so from

    1 - q' <= e^e (1 - q) + delta'(e)                    (e >= 0 any, delta' of the runs in the opposite direction)

follows, at every y,

    Poisson, mean m:                                     phi'(q) / phi'(q') <= exp(m (e^e - 1) + m delta'(e))
    truncated negative binomial (shape eta, gamma):      phi'(q) / phi'(q') <= (e^e + delta'(e) (1 - gamma) / gamma)^{eta + 1}

With r the logarithm of that, delta_select(eps) <= int phi'(q) (dQ - e^{eps - r} dQ')_+ <= E[K] delta(eps - r): the best e is the one
with the smallest r, whatever eps. Shape 0 is the logarithmic law, 1 the geometric one, infinity Poisson's, which may have no run.

For many selections the Renyi curve is the smaller bound (Papernot, Steinke 2022, Theorems 2 and 6): with k that of a run and t =
log(1/gamma),

    negative binomial:    k'(c) = k(c) + log E[K] + c (1 + eta) min_b [k(b) + t] / (b + 1)
    Poisson, m >= 1:      k'(c) = k(c) + log m + c m d,        d = delta'(log(1 + 1/c))

Proof of the last one, which pays nothing for no run at all. With a and a' the probabilities of a better run, r = dQ'/dQ and
g = (c + 1) a - c a' + c d, e^{k'(c)} is e^-m + m e^{c m d} int r^-c e^{-m g} dQ, and int r^-c dQ is at most e^{k(c)}: it is to be shown
that F = int r^-c (1 - e^{-m g}) dQ is at least e^{-m g_1} / m, where g_0 = c d and g_1 = 1 + c d are g at a = 0 and at 1. By the choice
of d, g >= 0. Along a, uniform on [0, 1] under Q, the slope of g is c + 1 - c r, and r^-c is at least that: it is convex in the slope,
and at r = 1 it has the value 1 and the derivative 1. So F >= int (1 - e^{-m g}) dg = 1 - (e^{-m g_0} - e^{-m g_1}) / m, which is at
least e^{-m g_1} / m. (Where Q' has mass and Q none, g jumps down, which only makes room.)

From below: a constant score, which makes the selection one run where K >= 1, and one run with probability 1 - e^{-m} for Poisson's law.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.events.tree import leaves
from dp_edgeworth.losses.bracket import Bracket, Leaf
from dp_edgeworth.losses.mechanisms.registry import NO_LOSS, NON_PRIVATE, Directions, directions, register_mechanism
from dp_edgeworth.losses.operations import reverse
from dp_edgeworth.losses.renyi_curves import RenyiCurve, Tabulated
from dp_edgeworth.profiles.curve_pairs import Side, pair_of_curves, reach
from dp_edgeworth.profiles.inner_curves import ORDERS, Counts, Curve, TwoSided, both_directions, contents

_UP, _DOWN = 1.0 + 1e-13, 1.0 - 1e-13
_LARGEST_MEAN = 1e12

Growth = Callable[[np.ndarray, np.ndarray], np.ndarray]


@register_mechanism(dp_event.RepeatAndSelectDpEvent)
def _repeat_and_select(event: dp_event.RepeatAndSelectDpEvent, relation: NeighboringRelation) -> Leaf | Directions:
    mean = validation.finite("mean", event.mean)
    shape = validation.at_least_zero("shape", event.shape)
    if not 1.0 <= mean <= _LARGEST_MEAN:
        raise ValueError(f"`mean` must be in [1, {_LARGEST_MEAN:g}]. Found {validation.shown(event.mean)}.")
    if not isinstance(event.event, dp_event.DpEvent):
        raise ValueError(f"`event` must be a `DpEvent`. Found {validation.shown(event.event)}.")
    found = list(leaves(event.event))
    counts = contents((directions(leaf, relation), count) for leaf, count in found)
    if counts is None:
        return NON_PRIVATE
    if not counts:
        return NO_LOSS
    if mean == 1.0 and math.isfinite(shape) and len(counts) == 1 and counts[0][1] == 1:
        return counts[0][0]
    return _selected(mean, shape, counts)


@functools.lru_cache(maxsize=64)
@np.errstate(over="ignore")  # where a growth is no float others are smaller
def _selected(mean: float, shape: float, counts: Counts) -> Directions:
    remove, add = both_directions(counts)
    growth = _growth(mean, shape)
    curve = _renyi_curve(mean, shape, (remove, add))
    leaf = dataclasses.replace(_pair(mean, shape, growth, remove), curve=curve)
    if add.forward is remove.backward:
        return Directions(leaf, reverse(leaf))
    return Directions(leaf, dataclasses.replace(_pair(mean, shape, growth, add), curve=curve))


def _renyi_curve(mean: float, shape: float, curves: tuple[TwoSided, TwoSided]) -> RenyiCurve | None:
    """k' of the module's header at many orders, of the larger direction; None where a run has infinite losses."""
    sides = [side for both in curves for side in (both.forward, both.backward)]
    runs = [side.renyi for side in sides if side.renyi is not None]
    if len(runs) < len(sides):
        return None
    k = np.maximum.reduce([curve(ORDERS) for curve in runs])
    if math.isinf(shape):
        delta = np.maximum.reduce([side.upper(np.log1p(1.0 / ORDERS) * _DOWN) for side in sides])
        values = (k + math.log(mean) + ORDERS * mean * delta) * _UP + 1e-15
    else:
        log_gamma = math.log1p(_odds(mean, shape))
        more = (1.0 + shape) * np.min(np.append((k + log_gamma) / (ORDERS + 1.0), log_gamma))
        values = (k + math.log(mean) + ORDERS * more) * _UP
    known = np.isfinite(values)
    return Tabulated.of(ORDERS[known], values[known]) if known.any() else None


def _growth(mean: float, shape: float) -> Growth:
    """r as a function of e and delta'(e)."""
    if math.isinf(shape):
        return lambda e, delta: mean * (np.expm1(e) + delta)
    odds = _odds(mean, shape)
    return lambda e, delta: (shape + 1.0) * (e + np.log1p(odds * delta * np.exp(-e)))


def _odds(mean: float, shape: float) -> float:
    """(1 - gamma) / gamma, rounded up, of the truncated negative binomial law with this mean.

    With t = log(1/gamma): E[K] = shape (e^t - 1) / (1 - e^{-shape t}), for shape 0 (e^t - 1) / t, growing in t from 1.
    """
    def mean_of(t: float) -> float:
        return math.expm1(t) / t if shape * t < 1e-12 else shape * math.expm1(t) / -math.expm1(-shape * t)

    if mean == 1.0:
        return 0.0
    low, high = 0.0, 1.0
    while mean_of(high) < mean * _UP:
        high *= 2.0
    for _ in range(200):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if mean_of(middle) < mean * _UP else (low, middle)
    return math.expm1(high) * _UP


def _pair(mean: float, shape: float, growth: Growth, curves: TwoSided) -> Bracket:
    least = 1.0 if math.isfinite(shape) else -math.expm1(-mean) * _DOWN
    right = _side(mean, _smallest_growth(growth, curves.backward), least, curves.forward, curves.backward)
    left = _side(mean, _smallest_growth(growth, curves.forward), least, curves.backward, curves.forward)
    return pair_of_curves(right, left)


def _smallest_growth(growth: Growth, opposite: Curve) -> float:
    """The smallest r over e: every e is valid, so two rounds of a grid will do."""
    end = reach(opposite.upper, 1.0, 1e-30)
    points = np.append(0.0, np.geomspace(1e-6 * end, end, 400))
    for _ in range(2):
        found = growth(points, opposite.upper(points))
        best = int(np.argmin(found))
        smallest = float(found[best])
        points = np.linspace(points[max(best - 1, 0)], points[min(best + 1, len(points) - 1)], 400)
    return smallest * _UP


def _side(mean: float, growth: float, least: float, curve: Curve, opposite: Curve) -> Side:
    def upper(eps: np.ndarray) -> np.ndarray:
        inside = np.asarray(eps, float) * _DOWN - growth
        values, negative = np.zeros(inside.shape), inside < 0.0
        values[~negative] = curve.upper(inside[~negative])
        low = inside[negative]
        values[negative] = np.exp(low) * opposite.upper(-low * _DOWN) - np.expm1(low)
        return np.minimum(mean * values * _UP, 1.0)

    def bracket(eps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        lower, above = curve.bracket(eps)
        return least * lower * _DOWN, np.minimum(least * above * _UP, 1.0)

    return Side(upper, bracket)
