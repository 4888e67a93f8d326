"""Where to put the contour: saddle points of K, and first guesses of epsilon from normal approximations there."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

from scipy import optimize

from dp_edgeworth.losses import gaussian_curve
from dp_edgeworth.losses.rules import RuleTooLargeError
from dp_edgeworth.proofs import spectral
from dp_edgeworth.sums.composition import Composition

_STEEPEST = 1e8


def at_the_top(composition: Composition, tilt: float) -> bool:
    """Whether the tilt is so steep that only the largest losses count: the Chernoff bound is then as good as it gets.

    Not on a lattice, where every point is resolved.
    """
    bounded = math.isfinite(composition.largest_loss) and composition.spacing is None
    return bounded and tilt * abs(composition.largest_loss) > _STEEPEST


def mean_loss(composition: Composition) -> float:
    """The mean loss, about where delta is 1/2; 0 where no rule is fine enough."""
    try:
        return float(composition.cgf([0.0])[1, 0])
    except RuleTooLargeError:
        return 0.0


def saddle_tilt(composition: Composition, epsilon: float) -> float:
    """The c > 0 that minimises K(c) + log kappa(c) - c eps: K'(c) - log(1 + 1/c) = eps, increasing in c."""
    k = composition.cgf([0.0], rough=True)[:, 0]
    spread = math.sqrt(max(float(k[2]), 1e-300))
    start = max(epsilon - float(k[1]), spread) / spread**2
    return spectral.increasing_root(
        composition, start, lambda c, k: (k[1] - math.log1p(1.0 / c) - epsilon, c * k[2] + 1.0 / (1.0 + c)),
        epsilon + spread + 1.0)


def negative_tilt(composition: Composition, epsilon: float) -> float:
    """The saddle -1 < c < 0 of 1 - delta, kept away from the ends: from 0 by a small part of 1 / deviation."""
    demand = composition.demand(-1.0, 0.0)
    spread = math.sqrt(max(float(composition.cgf([0.0], demand)[2, 0]), 1.0))
    low, high = 1e-3 / spread, 999.0  # odds -c / (1 + c)
    for _ in range(12 + math.ceil(math.log2(1.0 + math.log(spread)))):
        middle = math.sqrt(low * high)
        slope = composition.cgf([-middle / (1.0 + middle)], demand)[1, 0]
        low, high = (low, middle) if slope < epsilon else (middle, high)
    return -middle / (1.0 + middle)


def saddle_guess(composition: Composition, tilt: float, log_delta: float, most: float) -> tuple[float, bool]:
    """Where delta is about e^{log_delta}, by normal approximations at the Chernoff tilt and at half of it.

    They agree where the tilted law is nearly normal. Where they do not (a few rare large losses beside many small ones), the
    smaller one is returned and marked as unsure: a contour planned for too small an epsilon is dear, but not wide.
    """
    guesses = []
    at = (0.5 * tilt, tilt)
    for k, c in zip(composition.cgf(at, composition.demand(-1.0, 1.5 * tilt), rough=True).T, at, strict=True):
        law = (c, float(k[0]), float(k[1]), math.sqrt(max(float(k[2]), 1e-300)))
        guesses.append(_decreasing_root(functools.partial(_normal_excess, law=law, log_delta=log_delta), most))
    # Further below the Chernoff bound than this nothing could be resolved in double precision anyway.
    least = most - 25.0 / tilt
    low, high = (max(guess, least) for guess in (min(guesses), max(guesses)))
    return low, min(guesses) >= least and high - low <= 0.1 * max(high, 1.0 / tilt)


def _normal_excess(epsilon: float, *, law: tuple[float, float, float, float], log_delta: float) -> float:
    return _normal_log_delta(epsilon, *law) - log_delta


def _normal_log_delta(epsilon: float, tilt: float, log_mgf: float, mean: float, spread: float) -> float:
    """log delta if the tilted law were normal: e^{K - c eps} phi(x) [R(x + c sd) - R(x + (c+1) sd)], R Mills' ratio."""
    x = (epsilon - mean) / spread
    if x + tilt * spread < -30.0:
        return 0.0
    gap = float(gaussian_curve.mills(x + tilt * spread) - gaussian_curve.mills(x + (tilt + 1.0) * spread))
    if not 0.0 < gap < math.inf:
        return 0.0
    return log_mgf - tilt * epsilon - 0.5 * x * x - gaussian_curve.LOG_SQRT_2PI + math.log(gap)


def _decreasing_root(function: Callable[[float], float], most: float) -> float:
    """A root in [0, most] of a decreasing function, roughly."""
    if most <= 0.0 or function(0.0) <= 0.0:
        return 0.0
    if function(most) >= 0.0:
        return most
    return float(optimize.brentq(function, 0.0, most, rtol=1e-4, xtol=1e-4 * most))
