"""Saddle points of K: the tilts at which Chernoff's bounds are best, where expansions are made and contours are placed.

Nothing here is believed: every tilt is valid in every theorem, and these are good ones.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

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
