"""The pairs of distributions of leaves, with transforms along complex paths on which e^{iyL} decays."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import mpmath
import numpy as np

from comparisons.exact.arithmetic import (
    COMPLEX,
    LOG_SQRT_2PI,
    NO_ATOMS,
    REAL,
    Law,
    Rule,
    expm1,
    joined,
    legendre,
    log1p,
    log_mixture,
    mixture_tail,
    mp,
    point_masses,
)


def _height(reach: float, limit: float, c: float, p_reach: float) -> float:
    """Largest a <= limit, 0.45 pi / reach whose growth (2a)^2/2 + c log sec(p_reach a) is <= 6."""
    a = min(limit, 0.45 * math.pi / reach) if reach > 0 else limit
    while 2 * a * a - max(c, 0.0) * math.log(math.cos(p_reach * a)) > 6:
        a *= 0.8
    return a


@dataclass(frozen=True)
class GaussianPair:
    """P = sum p_i N(a_i, 1), Q = sum q_i N(b_i, 1), with L monotone."""

    p_means: tuple[float, ...]
    p_weights: tuple[np.longdouble, ...]
    q_means: tuple[float, ...]
    q_weights: tuple[np.longdouble, ...]

    @property
    def rising(self) -> bool:
        """Whether L increases with x."""
        return max(self.q_means) > max(self.p_means) or min(self.q_means) > min(self.p_means)

    def reverse(self) -> GaussianPair:
        return GaussianPair(self.q_means, self.q_weights, self.p_means, self.p_weights)

    def shift_squared(self) -> float | None:
        """mu^2 for a plain Gaussian mechanism N(0, 1) against N(mu, 1), otherwise None."""
        plain = len(self.p_means) == len(self.q_means) == 1
        return (self.q_means[0] - self.p_means[0]) ** 2 if plain else None

    def _logs(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return log_mixture(x, self.p_means, self.p_weights), log_mixture(x, self.q_means, self.q_weights)

    def _float_logs(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The same on the real line in double precision: only to find out where the mass is."""
        sides = ((self.p_means, self.p_weights), (self.q_means, self.q_weights))
        p, q = (
            np.logaddexp.reduce([np.log(float(w)) + m * x - m * m / 2 for m, w in zip(*side, strict=True)])
            for side in sides
        )
        return p, q

    def _lattice(self, c: float, step: float) -> np.ndarray:
        """Multiples of `step` where Q^{c+1} P^{-c}, P or Q is not negligible."""
        spots = np.array([[(c + 1) * b - c * a, a, b] for a in self.p_means for b in self.q_means]).ravel()
        near = np.add.outer(spots, np.linspace(-12.5, 12.5, 101)).ravel()
        grid = np.unique(np.append(near, np.linspace(spots.min() - 12.5, spots.max() + 12.5, 4001)))
        p, q = self._float_logs(grid)
        sizes = [(t + 1) * q - t * p - grid**2 / 2 for t in (c, 0.0, -1.0)]
        keep = np.logical_or.reduce([s > s.max() - 60 for s in sizes])
        keep |= np.append(keep[1:], False) | np.append(False, keep[:-1])
        edges = np.flatnonzero(np.diff(np.concatenate(([0], keep.view(np.int8), [0]))))
        runs = [
            np.arange(math.floor(grid[a] / step), math.ceil(grid[b - 1] / step) + 1)
            for a, b in zip(edges[::2], edges[1::2], strict=True)
        ]
        return np.unique(np.concatenate(runs)).astype(REAL) * REAL(step)

    def rule(self, c: float, variant: int) -> Rule:
        """Trapezoid rule on Im x = +-a; its error is e^{-2 pi a / step} times the growth at 0 and 2a."""
        p_reach, q_reach = (max(m) - min(m) for m in (self.p_means, self.q_means))
        a = _height(max(p_reach, q_reach), (1.0, 0.8)[variant], c, p_reach)
        step = 2 * math.pi * a / (54 + 3 * variant)
        x = self._lattice(c, step) + COMPLEX(1j if self.rising else -1j) * REAL(a)
        p, q = self._logs(x)
        return Rule(q - p, q - x * x / 2 - LOG_SQRT_2PI + np.log(REAL(step)))

    def atoms(self) -> Rule:
        return NO_ATOMS

    def single(self, epsilon: mpmath.mpf) -> mpmath.mpf:
        """Q(L > eps) - e^eps P(L > eps), by the root of L = eps."""
        sign = 1 if self.rising else -1
        q = [sign * m for m in self.q_means], self.q_weights
        p = [sign * m for m in self.p_means], self.p_weights
        root = _crossing(lambda x: _mp_log_mixture(x, *q) - _mp_log_mixture(x, *p) - epsilon)
        if root is None:
            return mpmath.mpf(0)
        return mixture_tail(root, *q) - mpmath.exp(epsilon) * mixture_tail(root, *p)


def _mp_log_mixture(x: mpmath.mpf, means: Sequence[float], weights: Sequence[np.longdouble]) -> mpmath.mpf:
    """log sum_i w_i e^{m_i x - m_i^2/2} in multiple precision."""
    return mpmath.log(
        sum(mp(w) * mpmath.exp(mp(m) * x - mp(m) ** 2 / 2) for m, w in zip(means, weights, strict=True))
    )


def _crossing(f: Callable[[mpmath.mpf], mpmath.mpf]) -> mpmath.mpf | None:
    """Root of an increasing function by bisection and secants; None if it is negative up to 1e5."""
    lo, hi = mpmath.mpf(-1), mpmath.mpf(1)
    while f(lo) > 0 and lo > -1e5:
        lo *= 2
    while f(hi) < 0:
        hi *= 2
        if hi > 1e5:
            return None
    for _ in range(40):
        middle = (lo + hi) / 2
        lo, hi = (lo, middle) if f(middle) > 0 else (middle, hi)
    at_lo, at_hi = f(lo), f(hi)
    for _ in range(8):
        if at_lo == at_hi:
            break
        lo, hi, at_lo = hi, hi - at_hi * (hi - lo) / (at_hi - at_lo), at_hi
        at_hi = f(hi)
    return hi


@dataclass(frozen=True)
class Tagged:
    """With probability `probability` the first pair, otherwise the second, and the output says which."""

    probability: float
    first: Law
    second: Law

    def rule(self, c: float, variant: int) -> Rule:
        one, two = self.first.rule(c, variant), self.second.rule(c, variant)
        t = REAL(self.probability)
        return joined(
            [Rule(one.loss, one.log_weight + np.log(t)), Rule(two.loss, two.log_weight + np.log1p(-t))]
        )

    def atoms(self) -> Rule:
        return NO_ATOMS

    def single(self, epsilon: mpmath.mpf) -> mpmath.mpf:
        t = mp(self.probability)
        return t * self.first.single(epsilon) + (1 - t) * self.second.single(epsilon)


def _graded(start: np.longdouble, rise: complex) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre on start -> start + rise; panels halve towards `start`: e^{-yt} for all y."""
    cuts = np.append(REAL(0), REAL(2) ** np.arange(-28, 1))
    points = COMPLEX(start) + cuts * COMPLEX(rise)
    return legendre(points[:-1], points[1:])


def _path(lo: np.ndarray, hi: np.ndarray, rise: complex, closed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights from lo[0] up by `rise`, along [lo, hi] + rise, and down again if `closed`."""
    legs = [_graded(lo[0], rise), legendre(lo + COMPLEX(rise), hi + COMPLEX(rise))]
    if closed:
        x, w = _graded(hi[-1], rise)
        legs.append((x, -w))
    return np.concatenate([x for x, _ in legs]), np.concatenate([w for _, w in legs])


@dataclass(frozen=True)
class LaplacePair:
    """P = Lap(0, 1), Q = (1-p) Lap(0, 1) + p Lap(mu, 1), or the reverse.

    With g = 2x - mu for 0 < x < mu (P-density e^{-x}/2) and g = -mu, mu with P-mass 1/2, e^{-mu}/2, the log
    ratio is l(g) = log(1 - p + p e^g).
    """

    shift: float
    probability: float
    reversed: bool = False

    def reverse(self) -> LaplacePair:
        return LaplacePair(self.shift, self.probability, not self.reversed)

    def _law(self, g: np.ndarray, log_p: np.ndarray) -> Rule:
        l = g if self.probability == 1 else log1p(REAL(self.probability) * expm1(g))
        return Rule(-l, log_p + 0 * l) if self.reversed else Rule(l, log_p + l)

    def slope(self) -> float:
        """The largest dl/dx."""
        top = self.probability * math.exp(min(self.shift, 600.0))
        return 2 * top / (1 - self.probability + top)

    def atoms(self) -> Rule:
        mu, half = REAL(self.shift), np.log(REAL(0.5))
        return self._law(np.array([-mu, mu], COMPLEX), np.array([half, half - mu], COMPLEX))

    def rule(self, c: float, variant: int) -> Rule:
        """The two atoms and Gauss-Legendre along a path around the segment 0 < x < mu."""
        a = _height(2.0, (0.6, 0.45)[variant], abs(c) * self.slope() / 2, 2.0 * self.reversed)
        a = min(a, 8 / (abs(c) * self.slope() + 1))
        cells = np.linspace(REAL(0), REAL(self.shift), max(1, math.ceil(2 * self.shift / a)) + 1)
        x, w = _path(cells[:-1], cells[1:], complex(0, -a if self.reversed else a), closed=True)
        middle = self._law(2 * x - REAL(self.shift), np.log(w / 2) - x)
        return joined([self.atoms(), middle])

    def single(self, epsilon: mpmath.mpf) -> mpmath.mpf:
        """Q(L > eps) - e^eps P(L > eps) for the pair or its reverse."""
        p, mu, one = mp(self.probability), mp(self.shift), mpmath.mpf(1)
        ratio = (mpmath.exp(-epsilon if self.reversed else epsilon) - 1 + p) / p
        g = mpmath.log(ratio) if ratio > 0 else -mpmath.inf
        upper = 0 if g >= mu else one if g < -mu else mpmath.exp(-(mu + g) / 2) / 2
        shifted = 0 if g >= mu else one if g < -mu else 1 - mpmath.exp(-(mu - g) / 2) / 2
        mixed = (1 - p) * upper + p * shifted
        if not self.reversed:
            return mixed - mpmath.exp(epsilon) * upper
        below, mixed_below = (one, one) if g > mu else (1 - upper, 1 - mixed)
        if g <= -mu:
            below, mixed_below = mpmath.mpf(0), mpmath.mpf(0)
        return below - mpmath.exp(epsilon) * mixed_below


@dataclass(frozen=True)
class Lattice:
    """Point masses: losses and their log-probabilities under Q."""

    losses: tuple[np.longdouble, ...]
    log_masses: tuple[np.longdouble, ...]

    def reverse(self) -> Lattice:
        pairs = sorted((-v, w - v) for v, w in zip(self.losses, self.log_masses, strict=True))
        return Lattice(tuple(v for v, _ in pairs), tuple(w for _, w in pairs))

    def atoms(self) -> Rule:
        return point_masses(self.losses, self.log_masses)

    def rule(self, c: float, variant: int) -> Rule:
        return self.atoms()

    def single(self, epsilon: mpmath.mpf) -> mpmath.mpf:
        terms = zip(self.losses, self.log_masses, strict=True)
        return sum(mpmath.exp(mp(w)) * max(mpmath.mpf(0), -mpmath.expm1(epsilon - mp(v))) for v, w in terms)


@dataclass(frozen=True)
class SymmetricSubsample:
    """The symmetric pair of q-subsampling N(0, 1) against N(mu, 1) without replacement.

    delta(eps) = max(remove, add) for all eps: above 0 the law of L under Q is that of the remove pair, below
    0 it is the reflected law under P, and the rest of the mass, (1 - q)(1 - 2 Phi(-mu/2)), sits at 0.
    """

    shift: float
    probability: float

    def _remove(self) -> GaussianPair:
        return subsampled((self.shift,), (REAL(1),), self.probability)

    def reverse(self) -> SymmetricSubsample:
        return self

    def atoms(self) -> Rule:
        mass = (1 - mp(self.probability)) * mpmath.erf(mp(self.shift) / 2 / mpmath.sqrt(2))
        return point_masses((0.0,), (_to_real(mpmath.log(mass)),))

    def _half(self, c: float, variant: int, positive: bool) -> Rule:
        """int Q e^{zl} dx (L > 0) or int P e^{-zl} dx (L < 0) over x > mu/2."""
        mu, q, pair = self.shift, self.probability, self._remove()
        a = _height(mu, (0.6, 0.45)[variant], 0 if positive else 3 * q * abs(c), mu)
        a = a if positive else min(a, 8 / (mu * (q * abs(c) + 1)))
        left = (pair if positive else pair.reverse())._lattice(c, a / 2)
        left = np.append(REAL(mu) / 2, left[left > mu / 2])
        x, w = _path(
            left, np.append(left[1:], left[-1] + REAL(a / 2)), complex(0, a if positive else -a), closed=False
        )
        l = log1p(REAL(q) * expm1(REAL(mu) * x - REAL(mu) ** 2 / 2))
        log_p = np.log(w) - x * x / 2 - LOG_SQRT_2PI
        return Rule(l, log_p + l) if positive else Rule(-l, log_p)

    def rule(self, c: float, variant: int) -> Rule:
        halves = [self._half(c, variant, True), self._half(c, variant, False)]
        return joined([self.atoms(), *halves])

    def single(self, epsilon: mpmath.mpf) -> mpmath.mpf:
        remove = self._remove()
        return (remove if epsilon >= 0 else remove.reverse()).single(epsilon)


def _to_real(x: mpmath.mpf) -> np.longdouble:
    """An mpf as an 80-bit number."""
    high = float(x)
    return REAL(high) + REAL(float(x - mpmath.mpf(high)))


def subsampled(means: Sequence[float], weights: Sequence[np.longdouble], p: float) -> GaussianPair:
    """N(0, 1) against (1-p) N(0, 1) + p sum_i w_i N(m_i, 1)."""
    law: dict[float, np.longdouble] = {0.0: 1 - REAL(p)} if p < 1 else {}
    for m, w in zip(means, weights, strict=True):
        law[m] = law.get(m, REAL(0)) + REAL(p) * w
    return GaussianPair((0.0,), (REAL(1),), tuple(law), tuple(law.values()))
