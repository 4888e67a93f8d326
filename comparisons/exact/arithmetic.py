"""Quadrature rules and complex special functions in 80 bits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

import mpmath
import numpy as np

REAL, COMPLEX = np.longdouble, np.clongdouble
PI = REAL("3.14159265358979323846264338327950288")
LOG_SQRT_2PI = REAL("0.918938533204672741780329736405617640")
TARGET_ACCURACY = 1e-8
MAX_WORK = 5e8  # nodes times quadrature points of one trapezoid sum
MAX_ATOMS = 4_000_000
LARGE_COUNT = 300


class InaccurateError(ArithmeticError):
    """Two computations with different parameters disagree by more than 1e-9."""


class Exact(NamedTuple):
    """A value and its relative accuracy, from the disagreement of two computations of it."""

    value: float
    accuracy: float


class Rule(NamedTuple):
    """Nodes with E_Q[e^{zL}] = sum_q e^{log_weight_q + z loss_q} for Im z >= 0, at its Re z."""

    loss: np.ndarray
    log_weight: np.ndarray


class Law(Protocol):
    """One direction of one leaf."""

    def rule(self, c: float, variant: int) -> Rule: ...
    def atoms(self) -> Rule: ...
    def single(self, epsilon: mpmath.mpf) -> mpmath.mpf: ...


def expm1(z: np.ndarray) -> np.ndarray:
    """e^z - 1 to relative accuracy for complex z."""
    s, scale = np.sin(z.imag / 2), np.exp(z.real)
    return np.expm1(z.real) - 2 * scale * s * s + 1j * (scale * np.sin(z.imag))


def log1p(u: np.ndarray) -> np.ndarray:
    """log(1 + u), principal branch, to relative accuracy for complex u."""
    small = np.abs(u) < 0.5
    near = np.log1p(np.where(small, 2 * u.real + u.real**2 + u.imag**2, 0)) / 2
    return np.where(small, near, np.log(np.abs(1 + u))) + 1j * np.arctan2(u.imag, 1 + u.real)


def log_mixture(x: np.ndarray, means: Sequence[float], weights: Sequence[np.longdouble]) -> np.ndarray:
    """log sum_i w_i e^{m_i x - m_i^2/2}: the density ratio of a Gaussian mixture to N(0, 1)."""
    exponents = [REAL(m) * x - REAL(m) ** 2 / 2 for m in means]
    if len(means) == 1:
        return exponents[0]
    top = np.maximum.reduce([e.real for e in exponents])
    direct = top < 100
    u = sum(w * expm1(np.where(direct, e, 0)) for w, e in zip(weights, exponents, strict=True))
    total = sum(w * np.exp(np.where(direct, 0, e - top)) for w, e in zip(weights, exponents, strict=True))
    return np.where(direct, log1p(u), top + np.log(total))


def mixture_tail(x: mpmath.mpf, means: Iterable[float], weights: Iterable[np.longdouble]) -> mpmath.mpf:
    """P(X > x) under a mixture of unit Gaussians, 50 digits."""
    return sum(
        mp(w) * mpmath.erfc((x - mp(m)) / mpmath.sqrt(2)) / 2 for m, w in zip(means, weights, strict=True)
    )


def mp(x: float | np.longdouble) -> mpmath.mpf:
    """An 80-bit number as an mpf, exactly."""
    high = float(x)
    return mpmath.mpf(high) + mpmath.mpf(float(REAL(x) - REAL(high)))


def legendre(lo: np.ndarray, hi: np.ndarray, count: int = 26) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre nodes and weights on the (complex) panels [lo, hi], in 80 bits."""
    t, w = _legendre_reference(count)
    half = (hi - lo)[:, None] / 2
    return ((lo + hi)[:, None] / 2 + half * t).ravel(), (half * w).ravel()


_LEGENDRE: dict[int, tuple[np.ndarray, np.ndarray]] = {}


def _legendre_reference(n: int) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre on [-1, 1]: double-precision roots, two Newton steps in 80 bits."""
    if n not in _LEGENDRE:
        t: np.ndarray = np.polynomial.legendre.leggauss(n)[0].astype(REAL)
        for _ in range(3):
            before, value = np.ones_like(t), t
            for k in range(2, n + 1):
                before, value = value, ((2 * k - 1) * t * value - (k - 1) * before) / k
            slope = n * (t * value - before) / (t * t - 1)
            t = t - value / slope
        _LEGENDRE[n] = t, 2 / ((1 - t * t) * slope * slope)
    return _LEGENDRE[n]


def kept(rule: Rule, tilts: Sequence[float]) -> Rule:
    """Drops nodes that carry less than e^-60 of the law at all these tilts."""
    keep = np.zeros(rule.loss.size, bool)
    for tilt in tilts:
        size = (rule.log_weight + tilt * rule.loss).real
        keep |= size > size.max() - 60
    return Rule(rule.loss[keep], rule.log_weight[keep])


def joined(rules: Sequence[Rule]) -> Rule:
    return Rule(np.concatenate([r.loss for r in rules]), np.concatenate([r.log_weight for r in rules]))


def point_masses(
    values: Sequence[float | np.longdouble], log_masses: Sequence[float | np.longdouble]
) -> Rule:
    return Rule(np.array(values, REAL).astype(COMPLEX), np.array(log_masses, REAL).astype(COMPLEX))


NO_ATOMS = point_masses((), ())
