"""Closed forms for the Gaussian mechanism, to full relative accuracy at every scale."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
from scipy import special

LOG_SQRT_2PI = 0.5 * math.log(2.0 * math.pi)


@functools.lru_cache(maxsize=64)
def legendre(nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on [-1, 1]."""
    return np.polynomial.legendre.leggauss(nodes)


def log_delta(epsilon: np.ndarray | float, mu: float) -> np.ndarray:
    """log[Phi(-a) - e^eps Phi(-b)], a = eps/mu - mu/2, b = a + mu: [EA] Fact 2.4 with Fact 2.1.

    It is log phi(a) + log[R(a) - R(b)] with Mills' ratio R; for small mu the difference is the integral of -R'(x) = 1 - x R(x) from a
    to b, so that nothing cancels. -R' is the Laplace transform of s e^{-s^2/2}, so at a >= -1/2 its 2n-th derivative is below
    2^n n! e^{sqrt n} times itself, and n = 4 + ceil(5 mu) Gauss-Legendre nodes err by less than 2e-15 of the integral.
    """
    eps = np.asarray(epsilon, float)
    if mu >= 1.0:
        return log_delta_of_large(eps, mu)
    with np.errstate(all="ignore"):
        a = np.abs(eps) / mu - 0.5 * mu
        x, w = legendre(4 + math.ceil(5.0 * mu))
        gap = 0.5 * mu * (_minus_mills_slope(a[..., None] + 0.5 * mu * (1.0 + x)) * w).sum(axis=-1)
        return _mirrored(eps, np.minimum(-0.5 * a * a - LOG_SQRT_2PI + np.log(gap), 0.0))


def log_delta_of_large(eps: np.ndarray, mu: np.ndarray | float) -> np.ndarray:
    """The same where every mu is at least 1 and the difference does not cancel."""
    with np.errstate(all="ignore"):
        a = np.abs(eps) / mu - 0.5 * mu
        b = a + mu
        body = np.log1p(-np.exp(np.minimum(_log_other_tail(a, b) - special.log_ndtr(-a), 0.0)))
        tail = np.log(np.maximum(mills(np.maximum(a, -2.0)) - mills(b), 0.0)) - 0.5 * a * a - LOG_SQRT_2PI
        return _mirrored(eps, np.minimum(np.where(a < 0.0, body + special.log_ndtr(-a), tail), 0.0))


def _mirrored(eps: np.ndarray, logs: np.ndarray) -> np.ndarray:
    """From log delta(|eps|); delta(eps) = 1 - e^eps + e^eps delta(-eps) for negative eps, where Mills' ratio would overflow."""
    below = np.minimum(eps, 0.0)
    return np.where(eps < 0.0, np.log(np.exp(below + logs) - np.expm1(below)), logs)


def log_complement(epsilon: np.ndarray | float, mu: float) -> np.ndarray:
    """log(1 - delta) = log[Phi(a) + e^eps Phi(-b)]."""
    eps = np.asarray(epsilon, float)
    with np.errstate(all="ignore"):
        a = eps / mu - 0.5 * mu
        return np.minimum(np.logaddexp(special.log_ndtr(a), _log_other_tail(a, a + mu)), 0.0)


def _log_other_tail(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """log[e^eps Phi(-b)] = log[phi(a) R(b)]: eps and log Phi(-b), both about mu^2 / 2, would cancel."""
    return -0.5 * a * a - LOG_SQRT_2PI + np.log(mills(b))


def mills(x: Any) -> Any:
    """(1 - Phi(x)) / phi(x)."""
    return math.sqrt(0.5 * math.pi) * special.erfcx(x / math.sqrt(2.0))


def _minus_mills_slope(x: np.ndarray) -> np.ndarray:
    """1 - x R(x), by the asymptotic series where the difference would cancel."""
    square = np.maximum(x, 50.0) ** -2.0
    series = square * (1.0 - 3.0 * square * (1.0 - 5.0 * square * (1.0 - 7.0 * square * (1.0 - 9.0 * square))))
    near = np.minimum(x, 50.0)
    return np.where(x > 50.0, series, 1.0 - near * mills(near))
