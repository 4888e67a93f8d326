"""Grids for the trapezoid rule on the line: how far they reach, how fine they are, where the largest losses may be cut off."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from dp_edgeworth.losses.gaussian_curve import LOG_SQRT_2PI
from dp_edgeworth.losses.rules import Demand, check_size

_HEIGHTS = np.linspace(0.25, 1.0, 13)


def reach_of(demand: Demand) -> float:
    """Standard deviations after which a normal tail is below e^{-digits}."""
    return math.sqrt(2.0 * (demand.digits + 1.0)) + 0.5


def largest_step(demand: Demand, mu: np.ndarray, strip: float, secants: float) -> np.ndarray:
    """Largest step whose error is below e^{-digits}, one per row of mu (shape (members, 1)).

    For an integrand that is analytic for |Im x| < strip / mu and at height a at most
    exp(a^2/2 + frequency mu a + secants log sec(pi mu a / (2 strip))) times its size on the real line, the
    trapezoid rule with step d is off by at most 2 exp(... - 2 pi a / d) / (1 - e^{-2 pi a / d}).
    """
    digits = demand.digits + 1.0
    with np.errstate(over="ignore"):
        heights = np.minimum(math.sqrt(2.0 * digits), 0.98 * strip / mu) * _HEIGHTS
    secant = -secants * np.log(np.cos(0.5 * math.pi / strip * mu * heights))
    need = demand.frequency * mu + heights / 2.0 + (digits + secant) / heights
    return 2.0 * math.pi / need.min(axis=1, keepdims=True)


def equispaced(low: np.ndarray, high: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Equispaced nodes per row, the same number in each, and the steps that gives.

    They are multiples of the step and one remainder, so that a small x is rounded by units in its own last place, however far the
    grid reaches: the rule is as good for any remainder, but not for nodes that are off.
    """
    nodes = check_size(float(((high - low) / step).max()) + 2.0)
    step = (high - low) / (nodes - 1)
    first = np.rint(low / step)
    return step * (first + np.arange(nodes)) + (low - step * first), step


def log_normal_floor(x: np.ndarray) -> np.ndarray:
    """Lower bound of log phi between neighbouring nodes."""
    return -0.5 * np.maximum(np.abs(x[:, :-1]), np.abs(x[:, 1:])) ** 2 - LOG_SQRT_2PI


def log_normal_weights(x: np.ndarray, step: np.ndarray) -> np.ndarray:
    return np.log(step) - 0.5 * x * x - LOG_SQRT_2PI


def cut_point(demand: Demand, shifts: np.ndarray, weights: np.ndarray) -> float:
    """The x beyond which sum_k w_k N(c_k, 1) has at most the mass that the demand lets go; infinity where it wants all."""
    if demand.log_tail == -math.inf or demand.low < 0.0 or demand.high < 1.0:
        return math.inf
    return float(np.max(shifts - special.ndtri_exp(np.minimum(demand.log_tail - np.log(len(shifts) * weights), -1e-9))))
