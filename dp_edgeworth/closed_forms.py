"""Compositions whose delta is a known function of epsilon: Gaussians, and a single leaf whose hockey-stick is known."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dp_edgeworth import gaussian
from dp_edgeworth.composition import EPSILON, Composition

CLOSED_FORM_ERROR = 4e-12  # relative error allowed for the closed forms
LogFunction = Callable[[np.ndarray], np.ndarray]


def closed_form(composition: Composition) -> tuple[LogFunction, LogFunction, float] | None:
    """(log delta, log(1 - delta), size of the losses) where log delta is a known function of epsilon."""
    if composition.is_gaussian:
        mu = math.sqrt(composition.gaussian_variance)
        return (lambda e: gaussian.log_delta(e, mu)), (lambda e: gaussian.log_complement(e, mu)), mu * mu
    single = composition.single
    if single is None or single.log_hockey_stick(np.zeros(1)) is None:
        return None

    def log_delta(epsilon: np.ndarray) -> np.ndarray:
        return np.minimum(np.asarray(single.log_hockey_stick(epsilon)), 0.0)

    def log_complement(epsilon: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(log_delta(epsilon)))

    return log_delta, log_complement, single.loss_scale


def closed_epsilons(log_delta: LogFunction, log_complement: LogFunction, scale: float, deltas: np.ndarray,
                     most: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bisection, with the closed form's error added on either side, in whichever of delta and 1 - delta is small.

    Rounding inside the closed form is a shift of epsilon by units in the last place of epsilon and of the scale.
    """
    large = deltas > 0.5
    with np.errstate(divide="ignore"):
        targets = np.where(large, np.log1p(-deltas), np.log(deltas))
    # What is known of delta near 1 is 1 - delta to a few units in the last place of 1.
    margins = np.array([-1.0, 0.0, 1.0])[:, None] * (CLOSED_FORM_ERROR + np.where(large, 32.0 * EPSILON * np.exp(-targets), 0.0))

    def above(epsilons: np.ndarray) -> np.ndarray:
        """Whether delta(epsilon), margin included, is above its target."""
        return np.where(large, log_complement(epsilons) - margins < targets, log_delta(epsilons) + margins > targets)

    low, high = _last_true(above, (3, len(deltas)), most)
    shift = closed_shift(low[1], scale)
    return np.where(low[0] > 0, np.maximum(low[0] - shift, 0.0), 0.0), low[1], np.where(high[2] > 0, high[2] + shift, 0.0)


def closed_shift(epsilons: np.ndarray, scale: float) -> np.ndarray:
    return 32.0 * EPSILON * (np.abs(epsilons) + scale)


def _last_true(condition: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...], most: float) -> tuple[np.ndarray, np.ndarray]:
    """Neighbouring floats (a, b) >= 0 with condition(a) and not condition(b); (0, 0) where it is false at 0."""
    never = ~condition(np.zeros(shape))
    exponents_low, exponents_high = np.full(shape, -1075.0), np.full(shape, 1024.0)
    for _ in range(12):  # the binary exponent first, so that every scale costs the same
        middle = np.round(0.5 * (exponents_low + exponents_high))
        true = condition(np.minimum(np.exp2(np.minimum(middle, 1023.0)), most))
        exponents_low, exponents_high = np.where(true, middle, exponents_low), np.where(true, exponents_high, middle)
    low = np.where(exponents_low > -1075.0, np.exp2(np.minimum(exponents_low, 1023.0)), 0.0)
    high = np.exp2(np.minimum(exponents_high, 1023.0))
    high = np.where(exponents_high >= 1024.0, math.inf, high)
    low, high = np.minimum(low, most), np.minimum(high, most)
    for _ in range(56):
        middle = low + 0.5 * (np.where(np.isfinite(high), high, low) - low)
        true = condition(middle)
        low, high = np.where(true, middle, low), np.where(true, high, middle)
    return np.where(never, 0.0, low), np.where(never, 0.0, high)
