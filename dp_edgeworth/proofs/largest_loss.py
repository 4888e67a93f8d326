"""Theorem: what the largest possible loss says, at once and for every composition.

Let t be the largest finite loss (possibly infinite), d the probability of an infinite one. Since 1 - e^{eps - Y} <= 1 - e^{eps - t},

    delta(eps) <= d + (1 - e^{eps - t})_+ ,      delta(eps) = d for eps >= t,      epsilon(delta) <= t for delta > d.

If t is attained with probability q > 0 and nothing is infinite, delta(eps) >= q (1 - e^{eps - t}) and so, for delta < q,
epsilon(delta) >= t + log(1 - delta / q). delta(eps) <= 1, and epsilon(delta) = 0 for delta = 1, infinite for delta < d.
t is a sum of positive numbers, rounded by `Composition.supremum_error`; it is moved outwards by that.
"""

from __future__ import annotations

import math

import numpy as np

from dp_edgeworth.proofs.ends import around
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.sums.composition import Composition

_NAME = "largest loss"
_TINY = 5e-324
_LEAST_LOG = -700.0  # masses below are no floats
_MASS_ERROR = 1e-12


def epsilon_bounds(composition: Composition, deltas: np.ndarray) -> Proved:
    """Of epsilon(delta)."""
    count = len(deltas)
    if math.isinf(composition.gaussian_variance):  # beyond all floats
        unknown = np.where(deltas >= 1.0, 0.0, math.inf)
        return Proved.of(np.zeros(count), unknown, unknown, _NAME)
    if composition.finite_supremum == math.inf and not composition.infinite_mass and ((deltas > 0.0) & (deltas < 1.0)).all():
        return Proved.of(np.zeros(count), np.full(count, math.inf), np.full(count, math.inf), _NAME)
    infinite, margin = composition.infinite_mass, composition.infinite_mass_margin
    most, finite_most = (max(_moved(t, composition.supremum_error), 0.0) for t in (composition.supremum, composition.finite_supremum))
    least = max(_moved(composition.supremum, -composition.supremum_error), 0.0)
    hopeless = (deltas < infinite + margin) | ((deltas == 0.0) & math.isinf(most))
    lower, upper = np.zeros(count), np.where(hopeless, most, finite_most)
    if math.isinf(most):
        lower[hopeless & ((deltas < infinite - margin) | (deltas == 0.0))] = math.inf
    lower[(deltas == 0.0) & ~hopeless] = least
    upper[(deltas == 0.0) & ~hopeless] = most
    if composition.log_top_mass > _LEAST_LOG:
        top = math.exp(composition.log_top_mass) * (1.0 - _MASS_ERROR)
        with np.errstate(divide="ignore", invalid="ignore"):
            lower = np.where(deltas < top, np.maximum(lower, least + np.log1p(-deltas / top)), lower)
    lower[deltas >= 1.0] = upper[deltas >= 1.0] = 0.0
    return Proved.of(lower, 0.5 * (lower + np.minimum(upper, 1e300)) if math.isfinite(most) else upper, upper, _NAME)


def delta_bounds(composition: Composition, epsilons: np.ndarray) -> Proved:
    """Of delta(epsilon), epsilon of either sign."""
    count, infinite = len(epsilons), composition.infinite_mass
    if math.isinf(composition.gaussian_variance):
        return Proved.of(np.zeros(count), np.ones(count), np.ones(count), _NAME)
    least, most = around(infinite)
    top = _moved(composition.finite_supremum, composition.supremum_error)
    with np.errstate(invalid="ignore", over="ignore"):
        gap = np.where(np.isinf(epsilons), 0.0, -np.expm1(np.minimum(epsilons - top, 0.0))) if math.isfinite(top) else np.ones(count)
    upper = np.minimum(most + gap * (1.0 + 1e-14) + np.where(gap > 0.0, _TINY, 0.0), 1.0)
    lower = np.full(count, least)
    if math.isinf(top):
        upper = np.where(np.isinf(epsilons) & (epsilons > 0.0), max(most, _TINY), 1.0)
    elif composition.log_top_mass > _LEAST_LOG:
        floor = _moved(composition.supremum, -composition.supremum_error)
        mass = math.exp(composition.log_top_mass) * (1.0 - _MASS_ERROR)
        with np.errstate(over="ignore"):
            lower = np.maximum(lower, mass * -np.expm1(np.minimum(epsilons - floor, 0.0)) * (1.0 - 1e-14))
    if math.isinf(composition.supremum) and not infinite:  # no largest loss
        return Proved.of(lower, upper, upper, _NAME)
    without = (epsilons >= _moved(composition.supremum, composition.supremum_error)) & (infinite == 0.0)  # even at an infinite epsilon
    lower[without] = upper[without] = 0.0
    return Proved.of(np.minimum(lower, upper), upper, upper, _NAME)


def _moved(value: float, error: float) -> float:
    """A number moved by a relative error."""
    return value if math.isinf(value) else value + error * abs(value)
