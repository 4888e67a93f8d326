"""The two estimates of epsilon and delta: the paper's AEA, and the expansion at the saddle point.

    plain   [EA] Definitions 4.1, 4.6: expansions of X and Y at their means. One set of cumulants serves every epsilon.
    tilted  the expansion of Y under the law tilted to K'(c) = epsilon: a relative error at every epsilon.

Losses that are infinite with probability d are left out of the expansion and added afterwards. Where no rule is small enough to
expand with, the Chernoff bound is the estimate, and infinity (a delta of 1) where there is none of that either: never 0.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize

from dp_edgeworth.losses import gaussian_curve
from dp_edgeworth.losses.rules import Demand, RuleTooLargeError
from dp_edgeworth.paper import expansion
from dp_edgeworth.paper.cumulants import cumulants, derivatives
from dp_edgeworth.paper.finite_sample import first_below
from dp_edgeworth.paper.saddle_point import chernoff_epsilon, positive_tilt, saddle_tilt
from dp_edgeworth.sums.composition import Composition

_GRID = 1_025
_STEEPEST = 1e7  # largest tilt, in units of one over the largest loss of a leaf, that is still expanded
_ROUGH = 3.0  # third standardised cumulant beyond which an expansion is worthless
_NEGLIGIBLE = 12.0  # losses of probability e^-12 delta in all may be left out
_FEW_LEAVES = 512


def deltas(compositions: Sequence[Composition], epsilons: np.ndarray, order: int, tilted: bool) -> np.ndarray:
    """Estimates of delta, the larger of all directions."""
    single = _tilted_deltas if tilted else _plain_deltas
    return np.max([single(composition, epsilons, order) for composition in compositions], axis=0)


def epsilons(compositions: Sequence[Composition], target_deltas: np.ndarray, order: int, tilted: bool) -> np.ndarray:
    """Estimates of epsilon, the larger of all directions."""
    single = _tilted_epsilon if tilted else _plain_epsilon
    return np.array([max(single(composition, float(delta), order) for composition in compositions)
                     for delta in target_deltas])


def _plain_deltas(composition: Composition, epsilon: np.ndarray, order: int) -> np.ndarray:
    law = _plain_law(composition, order)
    return np.ones(len(epsilon)) if law is None else law.curve(epsilon)


class _PlainLaw(NamedTuple):
    """delta(eps) = d + (1-d)(1 - G_Y(eps)) - e^eps (1-d')(1 - G_X(eps)), clipped to [0, 1].

    d and d' are the masses of infinite losses under Q and P; shifting eps and both means by log((1-d')/(1-d)) turns the
    weighted difference into the plain one.
    """

    x: np.ndarray  # cumulants, shifted
    y: np.ndarray
    shift: float
    infinite: float
    finite: float
    order: int

    def curve(self, epsilon: np.ndarray) -> np.ndarray:
        if self.finite == 0.0 or self.shift == -math.inf:
            return np.full(np.shape(epsilon), self.infinite)
        values = np.asarray(expansion.plain_delta(np.asarray(epsilon) + self.shift, self.x, self.y, self.order))
        return np.clip(self.infinite + self.finite * values, 0.0, 1.0)


def _plain_law(composition: Composition, order: int) -> _PlainLaw | None:
    """None where nothing is finite, or no rule is small enough."""
    if composition.log_finite == -math.inf or math.isinf(composition.gaussian_variance):
        return None
    try:
        x, y = cumulants(composition, order + 2, -1.0), cumulants(composition, order + 2, 0.0)
    except RuleTooLargeError:
        return None
    shift = composition.log_kept - composition.log_finite
    first = np.arange(order + 2) == 0
    return _PlainLaw(np.where(first, x + shift, x), np.where(first, y + shift, y), shift, composition.infinite_mass,
                     math.exp(composition.log_finite), order)


def _plain_epsilon(composition: Composition, delta: float, order: int) -> float:
    """The largest root of delta(eps) = delta, by a scan from beyond which both normal tails are below delta."""
    if delta >= 1.0:
        return 0.0
    law = _plain_law(composition, order)
    if law is None or delta <= composition.infinite_mass:
        return math.inf
    depth = -math.log(delta - composition.infinite_mass) + 60.0 + 12.0 * order
    (x_mean, x_variance), (y_mean, y_variance) = map(float, law.x[:2]), map(float, law.y[:2])
    beyond_y = y_mean + math.sqrt(2.0 * depth) * math.sqrt(y_variance)
    # eps - (eps - x0)^2 / (2 x1) < -depth beyond the larger root of a quadratic
    beyond_x = x_mean + x_variance + math.sqrt(x_variance) * math.sqrt(max(x_variance + 2.0 * x_mean + 2.0 * depth, 0.0))
    downwards = -np.linspace(0.0, max(beyond_x - law.shift, beyond_y - law.shift, 0.0), _GRID)[::-1]
    found = float(first_below(downwards, lambda eps: -law.curve(-eps), -law.curve(-downwards), np.array([-delta]))[0])
    if math.isinf(found):  # below delta everywhere
        return 0.0
    return math.inf if found == downwards[0] < 0.0 else -found


def _tilted_log_delta(composition: Composition, epsilon: float, tilt: float, log_mgf: float, cumulants: np.ndarray,
                      order: int) -> float:
    """log of the finite part of delta(eps), expanded at a tilt."""
    if composition.log_finite < 0.0 and tilt <= 0.0:  # the formula for c <= 0 needs a law of total mass 1
        whole = expansion.tilted_log_delta(epsilon, tilt, log_mgf - composition.log_finite, cumulants, order)
        return float(whole) + composition.log_finite
    return float(expansion.tilted_log_delta(epsilon, tilt, log_mgf, cumulants, order))


def saddle(composition: Composition, epsilon: float, last: float = 1e100) -> float:
    """The tilt c > -1 with K'(c) = epsilon >= 0; about the last one where there is none."""
    def slope(tilt: float) -> float:
        return float(composition.cgf([tilt])[1, 0]) - epsilon

    if slope(0.0) >= 0:
        low, high = -1.0, 0.0
    else:
        low, variance = 0.0, float(composition.cgf([0.0])[2, 0])
        high = min(max(epsilon / max(variance, 1e-300), 1e-6), last)
        for _ in range(400):
            if slope(high) > 0 or high >= last:
                break
            low, high = high, min(2.0 * high, last)
    if slope(high) <= 0 or slope(low) >= 0:
        return high
    return float(optimize.brentq(slope, low, high, xtol=1e-14, rtol=1e-12))


def _tilted_deltas(composition: Composition, epsilon: np.ndarray, order: int) -> np.ndarray:
    if composition.is_gaussian:  # every order is exact
        return _gaussian_deltas(composition.gaussian_variance, epsilon)
    infinite, result = composition.infinite_mass, np.empty(len(epsilon))
    for i, eps in enumerate(epsilon):
        if eps >= composition.finite_supremum or math.isinf(eps) or composition.log_finite == -math.inf:
            result[i] = infinite
            continue
        value = _smoothest(composition, functools.partial(_expanded_log_delta, epsilon=float(eps), order=order), lambda value: value)
        result[i] = min(1.0, infinite + math.exp(value) if value > -745.0 else infinite + 5e-324)
    return result


def _gaussian_deltas(variance: float, epsilon: np.ndarray) -> np.ndarray:
    if variance == 0.0 or math.isinf(variance):
        return np.full(len(epsilon), 0.0 if variance == 0.0 else 1.0)
    return np.exp(gaussian_curve.log_delta(np.minimum(epsilon, 1e300), math.sqrt(variance)))


def _gaussian_epsilon(variance: float, delta: float) -> float:
    """The root of log delta(eps) = log delta between 0 and mu^2/2 + mu a, e^{-a^2/2} = delta, where Phi(-a) is already below delta."""
    mu, target = math.sqrt(variance), math.log(delta)

    def excess(epsilon: float) -> float:
        return float(gaussian_curve.log_delta(epsilon, mu)) - target

    if mu == 0.0 or excess(0.0) <= 0.0:
        return 0.0
    high = mu * (0.5 * mu + math.sqrt(-2.0 * target))
    return high if excess(high) >= 0.0 else float(optimize.brentq(excess, 0.0, high, xtol=1e-300, rtol=1e-14, maxiter=500))


def _expanded_log_delta(composition: Composition, epsilon: float, order: int) -> tuple[float, float]:
    """log delta expanded at the saddle point of epsilon, and the third standardised cumulant there."""
    try:
        tilt = saddle(composition, epsilon)
        log_mgf, kappa = derivatives(composition, max(order + 2, 3), tilt, _demand(composition, tilt, order))
        value = _tilted_log_delta(composition, epsilon, tilt, log_mgf, kappa[:order + 2], order)
        return value, _skewness(kappa)
    except RuleTooLargeError:
        return _chernoff_log_delta(composition, epsilon), math.inf


def _chernoff_log_delta(composition: Composition, epsilon: float) -> float:
    """K(c) - c epsilon at the best c > 0 that has a rule; 0 where none has."""
    try:
        tilt = saddle_tilt(composition, epsilon)
        return min(float(composition.cgf([tilt])[0, 0]) - tilt * epsilon, 0.0)
    except RuleTooLargeError:
        return 0.0


def _tilted_epsilon(composition: Composition, delta: float, order: int) -> float:
    """The epsilon K'(c) at which the expansion at its own saddle point is delta."""
    if delta >= 1.0:
        return 0.0
    if delta <= composition.infinite_mass:
        return composition.finite_supremum if delta == composition.infinite_mass else math.inf
    if math.isinf(composition.gaussian_variance):
        return math.inf
    if composition.is_gaussian:  # every order is exact
        return _gaussian_epsilon(composition.gaussian_variance, delta)
    target = math.log(delta - composition.infinite_mass)
    return _smoothest(composition, lambda part: _expanded_epsilon(part, target, order), lambda epsilon: target)


def _smoothest(composition: Composition, expanded: Callable[[Composition], tuple[float, float]],
               log_level: Callable[[float], float]) -> float:
    """What is expanded, given with how rough the law is there; `log_level`: about log delta of it.

    The saddle point of all losses is spoilt by some that are too rare to matter; without them it may be a good one.
    """
    value, roughness = expanded(composition)
    if roughness > _ROUGH and math.isinf(composition.finite_supremum) and composition.leaf_count <= _FEW_LEAVES:
        cut, smoother = expanded(composition.truncated(log_level(value) - _NEGLIGIBLE))
        value = cut if smoother < roughness else value
    return value


def _expanded_epsilon(composition: Composition, target: float, order: int) -> tuple[float, float]:
    """The epsilon at which the expansion is e^target, and its third standardised cumulant: how far it is to be trusted."""
    most = chernoff = max(composition.finite_supremum, 0.0)
    try:
        start = positive_tilt(composition, target)
        chernoff = min(max(chernoff_epsilon(composition, start, target), 0.0), most)
        if math.isfinite(most) and start * composition.largest_loss > _STEEPEST:  # at the very top nothing is left to expand
            return chernoff, 0.0
        tilt = _tilted_root(composition, start, target, order)
        kappa = derivatives(composition, 3, tilt, _demand(composition, tilt, 3))[1]
        return min(max(float(kappa[0]), 0.0), most), _skewness(kappa)
    except RuleTooLargeError:
        return chernoff, math.inf


def _skewness(kappa: np.ndarray) -> float:
    """|kappa_3| / kappa_2^(3/2); 0 where nothing varies."""
    deviation = math.sqrt(max(float(kappa[1]), 0.0))
    return abs(float(kappa[2])) / deviation / deviation / deviation if deviation > 1e-100 else 0.0


def _demand(composition: Composition, tilt: float, order: int) -> Demand:
    """L^order grows like e^{order x} where the sampled loss bends, so the nodes reach further; not where losses were left out."""
    low = tilt - order - 2.0 if composition.log_tail == -math.inf else -1.0
    return composition.demand(low, tilt + order + 2.0)


def _tilted_root(composition: Composition, start: float, target: float, order: int) -> float:
    """The tilt whose own expansion gives log delta = target; the one of epsilon 0 where that is already below.

    Newton's method from the Chernoff tilt, with d log delta / d c = -c K''(c) at saddle points; bisection if it fails.
    """
    low = -order - 3.0 if composition.log_tail == -math.inf else -1.0
    demand = composition.demand(low, 1.5 * start + order + 2.0)

    def excess(tilt: float) -> tuple[float, float, float]:
        here = demand if tilt <= 1.5 * start else _demand(composition, tilt, order)
        log_mgf, kappa = derivatives(composition, order + 2, tilt, here)
        value = _tilted_log_delta(composition, float(kappa[0]), tilt, log_mgf, kappa, order)
        return value - target, float(kappa[0]), float(kappa[1])

    tilt = start
    for _ in range(12):
        value, epsilon, variance = excess(tilt)
        new = tilt + value / (tilt * variance + 1.0 / (1.0 + tilt))
        if epsilon <= 0.0 or not 0.05 * start < new < 4.0 * start:
            break
        if abs(new - tilt) <= 1e-10 * tilt:
            return new
        tilt = new
    zero, high = saddle(composition, 0.0), start
    if excess(zero)[0] <= 0.0:
        return zero
    while excess(high)[0] > 0.0 and high < 1e100:
        high *= 2.0
    return float(optimize.brentq(lambda c: excess(c)[0], zero, high, xtol=1e-14, rtol=1e-10, maxiter=200))
