"""Grids for the trapezoid rule on the line: how far they reach, how fine they are, where the largest losses may be cut off."""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from dp_edgeworth.losses.gaussian_curve import LOG_SQRT_2PI
from dp_edgeworth.losses.rules import Demand, check_size, subsampled_loss

_HEIGHTS = np.linspace(0.25, 1.0, 13)


def reach_of(demand: Demand) -> float:
    """Standard deviations after which a normal tail is below e^{-digits}."""
    return math.sqrt(2.0 * (demand.digits + 1.0)) + 0.5


def trapezoid_step(demand: Demand, mu: np.ndarray, strip: float, secants: float, turns: np.ndarray | float,
                    highest: float = math.inf) -> np.ndarray:
    """Largest step whose error is below e^{-digits}, one per row of mu (shape (members, 1)).

    For an integrand that is analytic for |Im x| < strip / mu and at height a at most
    exp(a^2/2 + turns frequency mu a + secants log sec(pi mu a / (2 strip))) times its size on the real line, the
    trapezoid rule with step d is off by at most 2 exp(... - 2 pi a / d) / (1 - e^{-2 pi a / d}). With posterior odds of at
    most turns < 1 the modulus shrinks by at most 1 - turns (1 - cos(mu a)) instead. Heights above `highest` are not used.
    """
    digits = demand.digits + 1.0
    with np.errstate(over="ignore"):
        heights = np.minimum(min(math.sqrt(2.0 * digits), highest), 0.98 * strip / mu) * _HEIGHTS
    secant = -np.log(np.cos(0.5 * math.pi / strip * mu * heights))
    if np.min(turns) < 0.5:
        shrink = np.minimum(2.0 * np.sin(0.5 * mu * heights) ** 2 * turns, 0.999)
        secant = np.minimum(secant, -np.log1p(-shrink))
    secant = secants * secant
    need = turns * demand.frequency * mu + heights / 2.0 + (digits + secant) / heights
    return 2.0 * math.pi / need.min(axis=1, keepdims=True)


def equispaced(low: np.ndarray, high: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Equispaced nodes per row, the same number in each, and the steps that gives.

    They are multiples of the step and one remainder, so that a small x is rounded by units in its own last place, however far the
    grid reaches: the rule is as good for any remainder, but not for nodes that are off.
    """
    nodes = check_size(float(((high - low) / step).max()) + 2.0)
    step = (high - low) / (nodes - 1)
    first = np.round(low / step)
    return step * (first + np.arange(nodes)) + (low - step * first), step


def sampled_grid(demand: Demand, mu: np.ndarray, p: np.ndarray, low: np.ndarray, high: np.ndarray, step: np.ndarray,
                  secants: float, turning: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends and step for known sampling probabilities, over a few heights of the shifted contour the ones with fewest nodes.

    Below 0 the loss is at least log(1-p), so e^{sL} adds at most max(-s, 0) |log(1-p)| to the normal log-density. Above 0
    the integral beyond x_k is at most sum_{j >= k} (x_{j+1} - x_j) exp(-x_j^2/2 + s L(x_{j+1}) + turning), because L and the
    posterior odds r increase; at height a <= pi / (2 mu) the argument of 1 - p + p e^L is at most min(1, r) mu a. All of it is
    compared with E e^{sL} >= 1, which holds for s <= 0 and s >= 1, or with its lower bound between.
    """
    digits = demand.digits + 3.0
    if demand.low < 1.0:  # between 0 and 1, E e^{sL} is at least e^{-mu^2/8} and at least 1 - p
        digits += float(np.minimum(mu * mu / 8.0, -np.log1p(-p)).max())
    with np.errstate(all="ignore"):
        below = np.maximum(low, -np.sqrt(2.0 * (digits + max(-demand.low, 0.0) * -np.log1p(-p))) - 0.5)
        grid = np.geomspace(1.0, np.maximum(high, 2.0), 400, axis=0)[..., 0].T
        odds = np.minimum(1.0, np.exp(np.minimum(np.log(p) - np.log1p(-p) + mu * (grid - 0.5 * mu), 1.0)))
        loss = np.maximum(subsampled_loss(mu * (grid - 0.5 * mu), p), 0.0)
        pieces = np.log(np.diff(grid, axis=1)) - 0.5 * grid[:, :-1] ** 2 + max(demand.high, 0.0) * loss[:, 1:]
    for highest in math.sqrt(2.0 * digits) * 0.3 ** np.arange(6):
        height = np.minimum(highest, 0.5 * math.pi / mu)
        turned = pieces + odds[:, 1:] * turning * demand.frequency * mu * height + max(-demand.low, 0.0) * np.minimum(
            0.35, 4.0 * odds[:, 1:] * np.sin(0.5 * mu * height) ** 2)
        tails = np.logaddexp.accumulate(np.nan_to_num(turned[:, ::-1], nan=np.inf), axis=1)[:, ::-1]
        enough = tails <= -digits
        first = np.where(enough.any(axis=1), np.argmax(enough, axis=1), grid.shape[1] - 1)[:, None]
        end = np.minimum(np.take_along_axis(grid, first, axis=1) + 0.5, high)
        turns = np.take_along_axis(odds, np.minimum(first + 1, grid.shape[1] - 1), axis=1)
        turns = np.where(end < high, np.maximum(turns, np.exp(np.minimum(
            np.log(p) - np.log1p(-p) + mu * (end - 0.5 * mu), 0.0))), 1.0)
        finer = trapezoid_step(demand, mu, 0.5 * math.pi, secants, turning * turns, highest)
        if ((end - below) / finer).max() < ((high - low) / step).max():
            low, high, step = below, end, finer
    return low, high, step


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


def sampled_shifts(mu: float, p: float) -> tuple[np.ndarray, np.ndarray]:
    return np.array([0.0, mu]), np.array([max(1.0 - p, 1e-300), p])


def log_odds(x: np.ndarray, mu: float, p: float) -> np.ndarray:
    """log of the odds that the record was sampled, given x."""
    return math.log(p) - math.log1p(-p) + mu * (x - 0.5 * mu)


def posterior(x: np.ndarray, mu: float, p: float) -> np.ndarray:
    """Probability that the record was sampled, given x."""
    return special.expit(log_odds(x, mu, p))
