"""Saddle points of K: the tilts at which Chernoff's bounds are best, where expansions are made and contours are placed.

Nothing here is believed: every tilt is valid in every theorem, and these are good ones.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np
from scipy import optimize

from dp_edgeworth.losses import gaussian_curve
from dp_edgeworth.losses.rules import RuleTooLargeError
from dp_edgeworth.sums.composition import Composition

_MOST_TIMES = 4.0  # the rule for a tilt serves up to so many times it, which the next steps may ask for


def positive_tilt(composition: Composition, log_delta: float) -> float:
    """The c > 0 that minimises the Chernoff bound of epsilon, [K(c) + log kappa(c) - log delta] / c.

    Its derivative vanishes where R(c) = c K'(c) - K(c) + log(1+c) + log delta = 0, and R is increasing.
    """
    variance = max(float(composition.cgf([0.0], rough=True)[2, 0]), 1e-300)
    start = math.sqrt(-2.0 * min(log_delta, -1e-3) / variance)
    if 0.0 < composition.largest_loss < math.inf:  # far beyond this c K' - K is rounding
        start = min(start, 1e3 / composition.largest_loss)
    return increasing_root(
        composition, start,
        lambda c, k: (c * k[1] - k[0] + math.log1p(c) + log_delta, c * c * k[2] + c / (1.0 + c)), -log_delta + 3.0)


def chernoff_epsilon(composition: Composition, tilt: float, log_delta: float) -> float:
    """What Chernoff's bound of delta says of epsilon, [K(c) + log kappa(c) - log delta] / c, kappa(c) = sup_v (1 - e^{-v}) e^{-cv}."""
    log_kappa = -tilt * math.log1p(1.0 / tilt) - math.log1p(tilt)
    return (float(composition.cgf([tilt])[0, 0]) + log_kappa - log_delta) / tilt


def increasing_root(composition: Composition, start: float, equation: Callable[[float, np.ndarray], tuple[float, float]],
                    coarse: float) -> float:
    """Newton's method in log c for an increasing function, safeguarded by a bracket; 0.1 % is accurate enough."""
    low, high, c = 0.0, math.inf, min(max(start, 1e-150), 1e150)
    for _ in range(200):
        try:
            value, rate = equation(c, composition.cgf([c], composition.demand(-1.0, _MOST_TIMES * c), rough=True)[:, 0])
        except RuleTooLargeError:  # far too large a tilt, or no rule at any
            if c < 1e-6:
                raise
            high, c = c, 0.03 * c
            continue
        if value > 0:
            high = c
        else:
            low = c
        step = -value / rate if rate > 0 and math.isfinite(value) and math.isfinite(rate) else -math.inf
        if value > 4.0 * coarse or not math.isfinite(value):
            step = -math.log(4.0)
        new = c * math.exp(min(max(step, -2.0), 2.0))
        if not low < new < high:
            new = 4.0 * low if math.isinf(high) else math.sqrt(low * high) if low > 0 else 0.25 * c
        if abs(math.log(new / c)) < 1e-3 or new < 1e-140 or new > 1e140:
            return new
        c = new
    return c


def saddle_tilt(composition: Composition, epsilon: float) -> float:
    """The c > 0 that minimises K(c) + log kappa(c) - c eps: K'(c) - log(1 + 1/c) = eps, increasing in c."""
    k = composition.cgf([0.0], rough=True)[:, 0]
    spread = math.sqrt(max(float(k[2]), 1e-300))
    start = max(epsilon - float(k[1]), spread) / spread**2
    return increasing_root(
        composition, start, lambda c, k: (k[1] - math.log1p(1.0 / c) - epsilon, c * k[2] + 1.0 / (1.0 + c)),
        epsilon + spread + 1.0)


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
