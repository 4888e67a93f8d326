"""The hockey-stick of one leaf whose loss L increases in x, by quadrature of an integrand that does not cancel.

    E_Q[(1 - e^{eps - L})_+] = int_{x*}^inf q(x) (1 - e^{eps - L(x)}) dx,     L(x*) = eps,

with q a density that falls like a normal one beyond its largest shift. Gauss-Legendre panels of length at most 1/turn, on which L is
analytic far beyond a Bernstein ellipse of rho = 6, have 16 nodes: 6^-32 is below 1e-24.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dp_edgeworth.losses.gaussian_curve import legendre

Function = Callable[[np.ndarray], np.ndarray]
_NODES, _DIGITS = 16, 45.0
_LARGEST_TURN = 12.0
_ROOT_ACCURACY, _PARTS = 1e-11, 32


def is_smooth(turn: float) -> bool:
    """Whether the panels would be few enough."""
    return turn <= _LARGEST_TURN


def log_upper_integral(start: np.ndarray, log_density: Function, gap: Function, turn: float, shift: float) -> np.ndarray:
    """log int_start^inf e^{log_density(x)} (1 - e^{-gap(x)}) dx for every start, gap >= 0.

    The density falls at least as fast as a normal one beyond `shift`, so the integral ends after 9.5 deviations beyond it, or where
    e^{-u (start - shift)} is below e^{-45}.
    """
    excess = np.maximum(start - shift, 0.0)
    length = np.minimum(np.maximum(shift - start, 0.0) + 9.5, _DIGITS / np.maximum(excess, 1e-3))
    scale = np.minimum(min(0.7, 1.0 / turn), 2.0 / (1.0 + excess))
    count = int(np.max(np.ceil(length / scale), initial=1.0))
    x, w = legendre(_NODES)
    unit = ((np.arange(count)[:, None] + 0.5 * (1.0 + x)) / count).ravel()
    weights = np.tile(0.5 * w / count, count)
    nodes = start[..., None] + length[..., None] * unit
    with np.errstate(divide="ignore"):
        logs = log_density(nodes) + np.log(-np.expm1(-np.maximum(gap(nodes), 0.0)))
        peak = np.maximum(logs.max(axis=-1), -1e300)
        return peak + np.log((weights * np.exp(logs - peak[..., None])).sum(axis=-1)) + np.log(length)


def crossing(loss: Function, level: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    """The x in [low, high] with loss(x) = level, from above, to 1e-11 (1 + |x|): of equal parts in arsinh x that in which it lies.

    The payoff vanishes at x: an error h costs q L' h^2 / 2, relative to what is beyond x about h^2 (1 + x)^2 < 1e-15.
    """
    low, high = np.arcsinh(low), np.arcsinh(high)
    while np.max(high - low, initial=0.0) > _ROOT_ACCURACY:
        width = (high - low) / _PARTS
        inside = low[:, None] + width[:, None] * np.arange(1, _PARTS)
        part = (loss(np.sinh(inside)) < level[:, None]).sum(axis=1)
        low, high = low + width * part, np.where(part < _PARTS - 1, low + width * (part + 1), high)
    return np.sinh(high)
