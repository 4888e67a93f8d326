"""E[(1 - e^{D - T})_+] of the sum D of n deficits of Laplace noise, each 0 or Exp(1/2) with probability 1/2: what `far.py` adds up.

Few of them. Exp(1/2) is a geometric number of Exp(1) stages, so a deficit is a number M ~ Geometric(1/2) from 0 of them, the sum
over n leaves is a negative binomial number M_n, and with one more stage for the payoff

    E[(1 - e^{D - T})_+] = Pr[D + Exp(1) <= T] = Pr[M_n < N_T] = sum_j Pr[N_T = j] Pr[M_n < j],    N_T ~ Poisson(T),

in which all terms are positive. The probabilities are Stirling's formula with its error (Loader, "Fast and accurate computation of
binomial probabilities", 2000); M_n = m has n / (n + m) times the probability of n heads among n + m coins.

Many of them. The loss -D has K(z) = n log E[e^{-zD}] = n log((1 + z) / (1 + 2z)), Re z > -1/2, in closed form, so the theorem of
`spectral.py` applies with an envelope that is the characteristic function itself: at the tilt c its modulus squared is

    ((1 + c)^2 + y^2) / ((1 + 2c)^2 + 4 y^2), over its value at y = 0, to the power n,

which falls as y grows because (1 + 2c)^2 < 4 (1 + c)^2. The saddle point K'(c) = -T is (sqrt(1 + 8n/T) - 3) / 4, and the number of
frequencies depends on the digits alone. Rounding is charged with units in the last place of the four logarithms and angles of which a
term is made, times n.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import special

from dp_edgeworth.losses.rules import EPSILON
from dp_edgeworth.proofs.spectral import Contour, log_kappa

_MANY = 20.0  # deficits per digit: then the characteristic function falls far enough
_LEAST = 3.0  # of a tilt, in units of 1 / deviation: away from the pole at 0
_LOWEST = -0.25  # tilt: K ends at -1/2
_OTHERS = np.array([0.0, 0.5, 1.5, 2.0])  # tilts for the aliases, in units of the tilt
_SPARE = 5.0
_PROBABILITY_ERROR = 4e-13  # relative, of a term of at least e^-700: exponents of up to 700 are rounded


class Payoff(NamedTuple):
    """A lower bound, an estimate and an upper bound."""

    lower: float
    estimate: float
    upper: float


def payoff(gap: float, deficits: float, digits: float) -> Payoff:
    """E[(1 - e^{D - gap})_+] of so many deficits, up to e^-digits."""
    if gap <= 0.0:
        return Payoff(0.0, 0.0, 0.0)
    if deficits < _MANY * digits:
        return _sum(gap, deficits, digits)
    tilt = _tilt(gap, deficits)
    amplitude = float(_log_mgf(tilt, deficits)) + tilt * gap
    if amplitude < -digits - _SPARE:  # Chernoff: delta, or 1 - delta, is less than that
        return Payoff(*(float(tilt < 0.0),) * 3)
    bound = _contour(tilt, gap, deficits, digits).bounds(np.array([-gap]))
    ends = [float(np.exp(np.minimum(log[0], 0.0))) for log in (bound.lower, bound.estimate, bound.upper)]
    return Payoff(*ends) if tilt > 0.0 else Payoff(*(1.0 - end for end in reversed(ends)))


def divergence(k: np.ndarray | float, mean: np.ndarray | float) -> np.ndarray:
    """k log(k / mean) + mean - k >= 0, to a few units in the last place of |k - mean|."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        off = (k - mean) / mean
        near = mean * ((1.0 + off) * np.log1p(np.maximum(off, -1.0)) - off)
        return np.where(k > 4.0 * mean, k * (np.log(k) - np.log(mean)) + mean - k, np.where(k > 0, near, mean))


def stirling_error(k: np.ndarray | float) -> np.ndarray:
    """log k! - log(sqrt(2 pi k) (k/e)^k), for k = 0: log 0! without the square root."""
    k = np.asarray(k, float)
    with np.errstate(divide="ignore", invalid="ignore"):
        small = special.gammaln(k + 1.0) - (k + 0.5) * np.log(np.maximum(k, 1.0)) + k - 0.5 * math.log(2.0 * math.pi)
        square = np.maximum(k, 1.0) ** -2.0
        series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / np.maximum(k, 1.0)
    return np.where(k > 15, series, np.where(k > 0, small, 0.0))


def _sum(gap: float, deficits: float, digits: float) -> Payoff:
    """The sum over j. N_T deviates by t upwards with probability at most e^{-t^2 / (2 (T + t))}, downwards e^{-t^2 / (2 T)}."""
    reach = math.sqrt(2.0 * digits * gap)
    j = np.arange(max(1.0, math.floor(gap - reach)), gap + reach + 2.0 * digits + 1.0)
    poisson = np.exp(-divergence(j, gap) - stirling_error(j) - 0.5 * np.log(2.0 * math.pi * j))
    m = np.arange(1.0, j[-1])
    coins = deficits + m
    logs = stirling_error(coins) - stirling_error(deficits) - stirling_error(m) - divergence(deficits, 0.5 * coins) - divergence(
        m, 0.5 * coins) + 0.5 * np.log(deficits / (2.0 * math.pi * m * coins))
    below = np.cumsum(np.append(math.exp(-deficits * math.log(2.0)), np.exp(logs)))  # Pr[M_n < j], j = 1, 2, ...
    value = float(poisson @ below[-len(j):])
    error = _PROBABILITY_ERROR + EPSILON * (len(below) + len(j))  # of additions one after the other
    return Payoff(value * (1.0 - error), value, value * (1.0 + error))


def _log_mgf(tilt: np.ndarray | float, deficits: float) -> np.ndarray:
    return deficits * np.log1p(-np.asarray(tilt) / (1.0 + 2.0 * np.asarray(tilt)))


def _tilt(gap: float, deficits: float) -> float:
    """The saddle point, but not too near to 0: positive below the mean, where delta is the smaller one, negative above."""
    least = _LEAST / math.sqrt(3.0 * deficits)
    saddle = 0.25 * (math.sqrt(1.0 + 8.0 * deficits / gap) - 3.0)
    return max(saddle, least) if gap < deficits else max(min(saddle, -least), _LOWEST)


def _contour(tilt: float, gap: float, deficits: float, digits: float) -> Contour:
    """The contour for epsilon = -gap."""
    log_mgf, others = float(_log_mgf(tilt, deficits)), tilt * _OTHERS
    known = _log_mgf(others, deficits)
    log_bounds = log_kappa(others) + known + 16.0 * EPSILON * np.abs(known)
    need = digits + _SPARE + max(log_mgf + tilt * gap, 0.0)
    period = (digits + _SPARE + max(float(log_bounds[-1] + others[-1] * gap), 0.0)) / abs(tilt)
    inner, outer = 1.0 + tilt, 0.5 + tilt  # 1 + 2z = 2 (1/2 + z)
    fallen = -math.expm1(-2.0 * need / deficits)
    last = inner * outer * math.sqrt(fallen / (inner**2 * (1.0 - fallen) - outer**2))
    step = 2.0 * math.pi / period
    y = step * np.arange(math.ceil(last / step) + 2)
    parts = [0.5 * np.log1p((y / side) ** 2) + 1j * np.arctan(y / side) for side in (inner, outer)]
    log_terms = deficits * (parts[0] - parts[1])
    errors = deficits * EPSILON * sum(8.0 * np.abs(part.real) + 4.0 * np.abs(part.imag) for part in parts)
    log_cut = float(log_terms[-1].real + errors[-1])
    return Contour(tilt, log_mgf, 16.0 * EPSILON * abs(log_mgf), step, log_terms, errors, log_cut, 0.0, others, log_bounds)
