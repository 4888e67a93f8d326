"""Exact delta(epsilon) and epsilon(delta) of composed DP events: what the other methods are compared with.

Nothing here comes from dp_edgeworth. Every answer is computed twice, with different contours, periods and
quadrature nodes, in 80-bit arithmetic; `accuracy` is ten times the relative disagreement, and
`InaccurateError` is raised where it exceeds 1e-8.

One direction of one leaf is a pair (P, Q); L = log dQ/dP; K(z) = sum_i m_i log E_{Q_i}[e^{z L_i}]. Methods:

* one leaf used once (all plain Gaussians count as one leaf): closed form in 60 digits (`single`);
* only point masses (randomised response, discrete Laplace): tilted FFT in 80 bits, exact sums (`Atoms`);
* everything else: delta(eps) = 1/(2 pi i) int e^{K(z) - z eps} / (z (z+1)) dz over Re z = c, by the
  trapezoid rule of period 2 pi / h (`Contour`). The leaf transforms are quadratures along complex paths on
  which e^{iyL} decays (Im L > 0), so that a few hundred nodes serve every frequency y:
  E_Q[e^{zL}] = sum_q w_q e^{z L_q}. Where the integrand does not die out (atoms, few compositions) the part
  made of atoms only is taken out and summed exactly, and the rest is multiplied by erfc((y - Y/2)/w)/2,
  w = Y/13: a mollifier in epsilon of width about 1/Y with all moments zero, whose answer is accepted once
  doubling Y changes nothing.

Not covered (`InaccurateError`): a few uses of a leaf sampled with probability of about 1e-5 or less, whose
losses spread over many orders of magnitude at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

import mpmath
import numpy as np
import scipy.fft
import scipy.special
import scipy.stats
from dp_accounting import NeighboringRelation as Relation
from dp_accounting import dp_event as de
from scipy.optimize import brentq

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


# --------------------------------------------------------------------------- complex special functions


def _expm1(z: np.ndarray) -> np.ndarray:
    """e^z - 1 to relative accuracy for complex z."""
    s, scale = np.sin(z.imag / 2), np.exp(z.real)
    return np.expm1(z.real) - 2 * scale * s * s + 1j * (scale * np.sin(z.imag))


def _log1p(u: np.ndarray) -> np.ndarray:
    """log(1 + u), principal branch, to relative accuracy for complex u."""
    small = np.abs(u) < 0.5
    near = np.log1p(np.where(small, 2 * u.real + u.real**2 + u.imag**2, 0)) / 2
    return np.where(small, near, np.log(np.abs(1 + u))) + 1j * np.arctan2(u.imag, 1 + u.real)


def _log_mixture(x: np.ndarray, means: Sequence[float], weights: Sequence[np.longdouble]) -> np.ndarray:
    """log sum_i w_i e^{m_i x - m_i^2/2}: the density ratio of a Gaussian mixture to N(0, 1)."""
    exponents = [REAL(m) * x - REAL(m) ** 2 / 2 for m in means]
    if len(means) == 1:
        return exponents[0]
    top = np.maximum.reduce([e.real for e in exponents])
    direct = top < 100
    u = sum(w * _expm1(np.where(direct, e, 0)) for w, e in zip(weights, exponents, strict=True))
    total = sum(w * np.exp(np.where(direct, 0, e - top)) for w, e in zip(weights, exponents, strict=True))
    return np.where(direct, _log1p(u), top + np.log(total))


def _mixture_tail(x: mpmath.mpf, means: Iterable[float], weights: Iterable[np.longdouble]) -> mpmath.mpf:
    """P(X > x) under a mixture of unit Gaussians, 50 digits."""
    return sum(
        _mp(w) * mpmath.erfc((x - _mp(m)) / mpmath.sqrt(2)) / 2 for m, w in zip(means, weights, strict=True)
    )


def _mp(x: float | np.longdouble) -> mpmath.mpf:
    """An 80-bit number as an mpf, exactly."""
    high = float(x)
    return mpmath.mpf(high) + mpmath.mpf(float(REAL(x) - REAL(high)))


def _legendre(lo: np.ndarray, hi: np.ndarray, count: int = 26) -> tuple[np.ndarray, np.ndarray]:
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


def _kept(rule: Rule, tilts: Sequence[float]) -> Rule:
    """Drops nodes that carry less than e^-60 of the law at all these tilts."""
    keep = np.zeros(rule.loss.size, bool)
    for tilt in tilts:
        size = (rule.log_weight + tilt * rule.loss).real
        keep |= size > size.max() - 60
    return Rule(rule.loss[keep], rule.log_weight[keep])


def _joined(rules: Sequence[Rule]) -> Rule:
    return Rule(np.concatenate([r.loss for r in rules]), np.concatenate([r.log_weight for r in rules]))


def _point_masses(
    values: Sequence[float | np.longdouble], log_masses: Sequence[float | np.longdouble]
) -> Rule:
    return Rule(np.array(values, REAL).astype(COMPLEX), np.array(log_masses, REAL).astype(COMPLEX))


NO_ATOMS = _point_masses((), ())


# --------------------------------------------------------------------------- leaves


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
        return _log_mixture(x, self.p_means, self.p_weights), _log_mixture(x, self.q_means, self.q_weights)

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
        return _mixture_tail(root, *q) - mpmath.exp(epsilon) * _mixture_tail(root, *p)


def _mp_log_mixture(x: mpmath.mpf, means: Sequence[float], weights: Sequence[np.longdouble]) -> mpmath.mpf:
    """log sum_i w_i e^{m_i x - m_i^2/2} in multiple precision."""
    return mpmath.log(
        sum(_mp(w) * mpmath.exp(_mp(m) * x - _mp(m) ** 2 / 2) for m, w in zip(means, weights, strict=True))
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
        return _joined(
            [Rule(one.loss, one.log_weight + np.log(t)), Rule(two.loss, two.log_weight + np.log1p(-t))]
        )

    def atoms(self) -> Rule:
        return NO_ATOMS

    def single(self, epsilon: mpmath.mpf) -> mpmath.mpf:
        t = _mp(self.probability)
        return t * self.first.single(epsilon) + (1 - t) * self.second.single(epsilon)


def _graded(start: np.longdouble, rise: complex) -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre on start -> start + rise; panels halve towards `start`: e^{-yt} for all y."""
    cuts = np.append(REAL(0), REAL(2) ** np.arange(-28, 1))
    points = COMPLEX(start) + cuts * COMPLEX(rise)
    return _legendre(points[:-1], points[1:])


def _path(lo: np.ndarray, hi: np.ndarray, rise: complex, closed: bool) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights from lo[0] up by `rise`, along [lo, hi] + rise, and down again if `closed`."""
    legs = [_graded(lo[0], rise), _legendre(lo + COMPLEX(rise), hi + COMPLEX(rise))]
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
        l = g if self.probability == 1 else _log1p(REAL(self.probability) * _expm1(g))
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
        return _joined([self.atoms(), middle])

    def single(self, epsilon: mpmath.mpf) -> mpmath.mpf:
        """Q(L > eps) - e^eps P(L > eps) for the pair or its reverse."""
        p, mu, one = _mp(self.probability), _mp(self.shift), mpmath.mpf(1)
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
        return _point_masses(self.losses, self.log_masses)

    def rule(self, c: float, variant: int) -> Rule:
        return self.atoms()

    def single(self, epsilon: mpmath.mpf) -> mpmath.mpf:
        terms = zip(self.losses, self.log_masses, strict=True)
        return sum(mpmath.exp(_mp(w)) * max(mpmath.mpf(0), -mpmath.expm1(epsilon - _mp(v))) for v, w in terms)


@dataclass(frozen=True)
class SymmetricSubsample:
    """The symmetric pair of q-subsampling N(0, 1) against N(mu, 1) without replacement.

    delta(eps) = max(remove, add) for all eps: above 0 the law of L under Q is that of the remove pair, below
    0 it is the reflected law under P, and the rest of the mass, (1 - q)(1 - 2 Phi(-mu/2)), sits at 0.
    """

    shift: float
    probability: float

    def _remove(self) -> GaussianPair:
        return _subsampled((self.shift,), (REAL(1),), self.probability)

    def reverse(self) -> SymmetricSubsample:
        return self

    def atoms(self) -> Rule:
        mass = (1 - _mp(self.probability)) * mpmath.erf(_mp(self.shift) / 2 / mpmath.sqrt(2))
        return _point_masses((0.0,), (_to_real(mpmath.log(mass)),))

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
        l = _log1p(REAL(q) * _expm1(REAL(mu) * x - REAL(mu) ** 2 / 2))
        log_p = np.log(w) - x * x / 2 - LOG_SQRT_2PI
        return Rule(l, log_p + l) if positive else Rule(-l, log_p)

    def rule(self, c: float, variant: int) -> Rule:
        halves = [self._half(c, variant, True), self._half(c, variant, False)]
        return _joined([self.atoms(), *halves])

    def single(self, epsilon: mpmath.mpf) -> mpmath.mpf:
        remove = self._remove()
        return (remove if epsilon >= 0 else remove.reverse()).single(epsilon)


def _to_real(x: mpmath.mpf) -> np.longdouble:
    """An mpf as an 80-bit number."""
    high = float(x)
    return REAL(high) + REAL(float(x - mpmath.mpf(high)))


def _subsampled(means: Sequence[float], weights: Sequence[np.longdouble], p: float) -> GaussianPair:
    """N(0, 1) against (1-p) N(0, 1) + p sum_i w_i N(m_i, 1)."""
    law: dict[float, np.longdouble] = {0.0: 1 - REAL(p)} if p < 1 else {}
    for m, w in zip(means, weights, strict=True):
        law[m] = law.get(m, REAL(0)) + REAL(p) * w
    return GaussianPair((0.0,), (REAL(1),), tuple(law), tuple(law.values()))


# --------------------------------------------------------------------------- events


class Use(NamedTuple):
    """A leaf in both directions and how often it is used."""

    remove: Law
    add: Law
    times: int


def _uses(event: de.DpEvent, relation: Relation, count: int = 1) -> list[Use]:
    """The leaves of an event tree."""
    match event:
        case de.NoOpDpEvent():
            return []
        case de.SelfComposedDpEvent():
            return _uses(event.event, relation, count * int(event.count))
        case de.ComposedDpEvent():
            return [use for part in event.events for use in _uses(part, relation, count)]
        case de.RandomizedResponseDpEvent():
            return _randomized_response(event, relation, count)
        case de.TruncatedSubsampledGaussianDpEvent():
            return _truncated(event, relation, count)
        case de.SampledWithoutReplacementDpEvent():
            return _without_replacement(event, relation, count)
        case _:
            return _sampled(event, 1.0, relation, count)


def _sampled(event: de.DpEvent, p: float, relation: Relation, count: int) -> list[Use]:
    """Poisson sampling with probability p of an additive mechanism."""
    double = 2.0 if relation is Relation.REPLACE_ONE else 1.0
    square = _shift_squared(event, relation)
    law: Law
    if isinstance(event, de.PoissonSampledDpEvent):
        return _sampled(event.event, p * float(event.sampling_probability), relation, count)
    if p == 0 or isinstance(event, de.NoOpDpEvent):
        return []
    if relation is Relation.REPLACE_ONE and p < 1:
        if square is None:
            raise ValueError(f"REPLACE_ONE supports Poisson sampling of Gaussians only. Found `{event}`.")
        law = _replace_one(math.sqrt(square), p)
        return [Use(law, law, count)]
    if square is not None:
        law = _subsampled((double * math.sqrt(square),), (REAL(1),), p)
    elif isinstance(event, de.MixtureOfGaussiansDpEvent):
        law = _mixture(event, p)
    elif isinstance(event, de.LaplaceDpEvent):
        law = LaplacePair(double / float(event.noise_multiplier), p)
    elif isinstance(event, de.DiscreteLaplaceDpEvent):
        law = _discrete_laplace(float(event.noise_parameter), int(double) * int(event.sensitivity), p)
    else:
        raise ValueError(f"Unsupported event. Found `{event}`.")
    return [Use(law, law.reverse(), count)]


def _shift_squared(event: de.DpEvent, relation: Relation) -> float | None:
    """mu^2 of (compositions of) Gaussians, None for anything else."""
    if isinstance(event, de.GaussianDpEvent):
        return float(event.noise_multiplier) ** -2
    if isinstance(event, de.SingleEpochTreeAggregationDpEvent):
        if relation is not Relation.REPLACE_SPECIAL:
            raise ValueError(f"Tree aggregation needs REPLACE_SPECIAL. Found {relation}.")
        depth = math.ceil(math.log2(np.max(event.step_counts) + 1))
        return depth * float(event.noise_multiplier) ** -2
    if isinstance(event, de.SelfComposedDpEvent):
        inner = _shift_squared(event.event, relation)
        return None if inner is None else inner * int(event.count)
    if isinstance(event, de.ComposedDpEvent):
        parts = [_shift_squared(part, relation) for part in event.events]
        return None if None in parts else math.fsum(parts)  # type: ignore[arg-type]
    return None


def _replace_one(mu: float, p: float) -> GaussianPair:
    """(1-p) N(0, 1) + p N(-mu, 1) against (1-p) N(0, 1) + p N(mu, 1)."""
    q = _subsampled((mu,), (REAL(1),), p)
    return GaussianPair(tuple(-m for m in q.q_means), q.q_weights, q.q_means, q.q_weights)


def _mixture(event: de.MixtureOfGaussiansDpEvent, p: float) -> GaussianPair:
    weights = np.array(event.sampling_probs, REAL)
    means = [float(c) / float(event.standard_deviation) for c in event.sensitivities]
    return _subsampled(means, tuple(weights / weights.sum()), p)


def _discrete_laplace(a: float, sensitivity: int, p: float) -> Lattice:
    """P(x) = e^{-a|x|} tanh(a/2), Q its shift by s: losses a (2k - s), k = 0..s, then subsampled."""
    k = np.arange(sensitivity + 1)
    g = REAL(a) * (2 * k - sensitivity).astype(REAL)
    inside = np.log(np.tanh(REAL(a) / 2)) - REAL(a) * k.astype(REAL)
    log_p = np.where(
        k == 0,
        -np.log1p(np.exp(-REAL(a))),
        np.where(k == sensitivity, -REAL(a) * sensitivity - np.log1p(np.exp(-REAL(a))), inside),
    )
    loss = g if p == 1 else np.log1p(REAL(p) * np.expm1(g))
    return Lattice(tuple(loss), tuple(log_p + loss))


def _randomized_response(event: de.RandomizedResponseDpEvent, relation: Relation, count: int) -> list[Use]:
    """R(x) outputs x with probability 1 - p + p/k and every other bucket with p/k."""
    p, k = REAL(event.noise_parameter), REAL(int(event.num_buckets))
    if k == 1 or p == 1:
        return []
    stay, other = 1 - p * (k - 1) / k, p / k
    if relation is Relation.REPLACE_ONE:
        e = np.log1p((1 - p) / other)  # stay / other - 1, to relative accuracy for weak responses
        masses = [(-e, np.log(other)), (e, np.log(stay))]
        if k > 2:
            masses.insert(1, (REAL(0), np.log((k - 2) * other)))
        law = Lattice(tuple(v for v, _ in masses), tuple(w for _, w in masses))
        return [Use(law, law, count)]
    if relation is not Relation.REPLACE_SPECIAL:
        raise ValueError(f"Randomized response needs REPLACE_ONE or REPLACE_SPECIAL. Found {relation}.")
    law = Lattice((np.log1p(p - 1), np.log1p((k - 1) * (1 - p))), (np.log((k - 1) * other), np.log(stay)))
    return [Use(law, law.reverse(), count)]


def _truncated(event: de.TruncatedSubsampledGaussianDpEvent, relation: Relation, count: int) -> list[Use]:
    """dp_accounting's tagged mixture of a REPLACE_ONE pair of sensitivity 2 and the ordinary pair."""
    n, p, size = int(event.dataset_size), float(event.sampling_probability), int(event.truncated_batch_size)
    if 0 in (n, p, size):
        return []
    plain = _sampled(de.GaussianDpEvent(event.noise_multiplier), p, relation, count)[0]
    truncation = float(scipy.stats.binom.sf(size - 1, n - 1, p))
    if truncation == 0:
        return [plain]
    conditional = float(scipy.stats.binom.sf(size, n, p) * size / truncation / n)
    double = _replace_one(2 / float(event.noise_multiplier), conditional)
    if truncation == 1:
        return [Use(double, double, count)]
    remove, add = (Tagged(truncation, double, law) for law in (plain.remove, plain.add))
    return [Use(remove, add, count)]


def _without_replacement(
    event: de.SampledWithoutReplacementDpEvent, relation: Relation, count: int
) -> list[Use]:
    if relation is not Relation.REPLACE_ONE:
        raise ValueError(f"Sampling without replacement needs REPLACE_ONE. Found {relation}.")
    square = _shift_squared(event.event, relation)
    if square is None:
        raise ValueError(f"Sampling without replacement supports Gaussians only. Found `{event}`.")
    q = int(event.sample_size) / int(event.source_dataset_size)
    if q == 1:
        return _sampled(event.event, 1.0, relation, count)
    law = SymmetricSubsample(2 * math.sqrt(square), q)
    return [Use(law, law, count)]


# --------------------------------------------------------------------------- compositions


def _log_kappa(c: np.ndarray) -> np.ndarray:
    """log of c^c / (1+c)^{1+c}: delta(eps) <= kappa(c) e^{K(c) - c eps}."""
    return c * np.log(c) - (1 + c) * np.log1p(c)


def _tilted_sum(rule: Rule, c: float) -> tuple[np.longdouble, np.ndarray]:
    """log of the real sum_q e^{log_weight + c loss}, and the normalised (complex) tilted weights."""
    exponent = rule.log_weight + REAL(c) * rule.loss
    top = exponent.real.max()
    weights = np.exp(exponent - top)
    total = weights.sum().real
    return top + np.log(total), weights / total


def _split(law: Law, count: int, c: float, variant: int) -> tuple[Rule, Rule]:
    """The continuous part and the atoms of a law, as rules (the atoms come first in `rule`)."""
    rule, n = law.rule(c, variant), law.atoms().loss.size
    smooth = Rule(rule.loss[n:], rule.log_weight[n:])
    if smooth.loss.size:
        smooth = _kept(smooth, (c, 0.0, -1.0) if count > LARGE_COUNT else (c,))
    return smooth, law.atoms()


def _block_transform(
    rule: Rule, c: float, scale: np.longdouble, h: np.longdouble, j0: int, n: int
) -> np.ndarray:
    """sum_q e^{log_weight + (c + i j h) loss - scale} for j0 <= j < j0 + n; e^{i(b+k)h} = e^{ibh} e^{ikh}."""
    if rule.loss.size == 0:
        return np.zeros(n, COMPLEX)
    width = 128
    steps = np.exp(1j * h * np.arange(width).astype(REAL) * rule.loss[:, None])
    rotation = 1j * rule.loss
    fixed = rule.log_weight + REAL(c) * rule.loss - scale
    starts = j0 + width * np.arange(-(-n // width))
    rows = max(1, 1_000_000 // rule.loss.size)
    parts = [
        np.exp(fixed + (h * starts[k : k + rows].astype(REAL))[:, None] * rotation) @ steps
        for k in range(0, starts.size, rows)
    ]
    return np.concatenate(parts).ravel()[:n]


def _accurate_log(rule: Rule, z: np.ndarray) -> np.ndarray:
    """log E_Q[e^{zL}] to relative accuracy: E_Q[e^{zL}] - 1 = E_Q[e^{zL} - 1 - z (1 - e^{-L})]."""
    weights, slope = np.exp(rule.log_weight), _expm1(-rule.loss)
    rows = max(1, 300_000 // rule.loss.size)
    sums = [
        (_expm1(part[:, None] * rule.loss) + part[:, None] * slope) @ weights
        for part in np.array_split(z, max(1, z.size // rows))
    ]
    return _log1p(np.concatenate(sums))


def _accurate_block(rule: Rule, c: float, h: np.longdouble, j0: int, n: int) -> np.ndarray:
    """`_accurate_log` at z = c + i j h, j0 <= j < j0 + n, by one matrix product.

    With A = e^{z_b L} - 1, B = e^{ikhL} - 1, s = e^{-L} - 1 and z = z_b + ikh the summand is
    (A + z_b s) + (B + ikh s) + A B: every term is of second order in L.
    """
    width = 128
    weights, slope = np.exp(rule.log_weight), _expm1(-rule.loss)
    inner = 1j * h * np.arange(width).astype(REAL)
    steps = _expm1(inner * rule.loss[:, None])
    step_sums = weights @ (steps + inner * slope[:, None])
    starts = c + 1j * h * (j0 + width * np.arange(-(-n // width))).astype(REAL)
    rows = max(1, 500_000 // rule.loss.size)
    parts = []
    for k in range(0, starts.size, rows):
        z = starts[k : k + rows, None]
        base = _expm1(z * rule.loss)
        parts.append(((base + z * slope) @ weights)[:, None] + step_sums + (base * weights) @ steps)
    return _log1p(np.concatenate(parts).ravel()[:n])


@dataclass
class Composition:
    """All leaves of one direction: plain Gaussians merged (shift^2 = `square`), the others with counts."""

    square: float
    laws: tuple[tuple[Law, int], ...]
    table: dict[float, float] = field(default_factory=dict)

    @staticmethod
    def of(uses: Sequence[tuple[Law, int]]) -> Composition:
        square = 0.0
        laws: dict[Law, int] = {}
        for law, count in uses:
            mu2 = law.shift_squared() if isinstance(law, GaussianPair) else None
            if mu2 is not None:
                square += count * mu2
            else:
                laws[law] = laws.get(law, 0) + count
        return Composition(square, tuple(laws.items()))

    def log_mgf(self, c: float) -> float:
        """K(c) for real c."""
        if c not in self.table:
            logs = [count * _log_of_rule(law.rule(c, 0), c, count) for law, count in self.laws]
            self.table[c] = float(sum(logs, REAL(self.square) * (c * c + c) / 2))
        return self.table[c]

    def top(self) -> float:
        """The largest possible loss."""
        return math.inf if self.square else sum(count * _top(law) for law, count in self.laws)

    def single(self) -> Law | None:
        """The only leaf, if it is used once."""
        if not self.laws and self.square:
            return GaussianPair((0.0,), (REAL(1),), (math.sqrt(self.square),), (REAL(1),))
        lone = self.square == 0 and len(self.laws) == 1 and self.laws[0][1] == 1
        return self.laws[0][0] if lone else None

    def top_tilt(self) -> float:
        """Largest c for which the quadrature rules stay small."""
        limits = [1e7]
        for law, _ in self.laws:
            if isinstance(law, GaussianPair | Tagged | SymmetricSubsample):
                limits.append(1e5)
            elif isinstance(law, LaplacePair):
                limits.append(6000 / law.shift / law.slope())
        return min(limits)


def _top(law: Law) -> float:
    """sup L: finite for point masses, Laplace, and where P has the same outermost Gaussian as Q."""
    if isinstance(law, Lattice | LaplacePair):
        return float(law.atoms().loss.real.max())
    if isinstance(law, Tagged):
        return max(_top(law.first), _top(law.second))
    if isinstance(law, GaussianPair):
        pick = max if law.rising else min
        p, q = pick(law.p_means), pick(law.q_means)
        ratio = law.q_weights[law.q_means.index(q)] / law.p_weights[law.p_means.index(p)]
        return float(np.log(ratio)) if p == q else math.inf
    return math.inf


def _log_top_mass(law: Law) -> float:
    """log of the Q-mass of the atom at sup L, -inf if there is none."""
    atoms = law.atoms() if isinstance(law, Lattice | LaplacePair) else NO_ATOMS
    return float(atoms.log_weight[np.argmax(atoms.loss.real)].real) if atoms.loss.size else -math.inf


def _log_of_rule(rule: Rule, c: float, count: int) -> np.longdouble:
    """log E_Q[e^{cL}], through the control variate for large counts."""
    if _delicate(rule, c, count):
        return _accurate_log(rule, np.array([c], COMPLEX))[0].real
    return _tilted_sum(rule, c)[0]


def _delicate(rule: Rule, c: float, count: int) -> bool:
    """Whether log E_Q[e^{zL}] must be accurate relative to itself (and e^{cL} does not overflow)."""
    return count > LARGE_COUNT and float(np.abs(c * rule.loss.real).max()) < 5000


def _chernoff_table(
    comp: Composition, log_delta: float | None, epsilon: float | None
) -> tuple[np.ndarray, ...]:
    """Arrays of c and K(c), from c = 1e-3 to well beyond the best Chernoff order for delta or epsilon."""
    cs, values, scores = [], [], []
    c = 1e-3
    while c < comp.top_tilt():
        k = comp.log_mgf(c)
        score = (
            (k + float(_log_kappa(np.array(c))) - (log_delta or 0.0)) / c
            if epsilon is None
            else k - c * epsilon
        )
        cs.append(c)
        values.append(k)
        scores.append(score)
        best = min(scores)
        room = 3 * best if epsilon is None else best + 60 + 2 * abs(best)
        if score > room and c > 4 * cs[int(np.argmin(scores))]:
            break
        c *= 1.2
    return np.array(cs), np.array(values)


# --------------------------------------------------------------------------- point masses only


@dataclass
class Atoms:
    """A sum of independent point-mass laws tilted by c: losses, tilted masses, and the log of their total."""

    c: float
    losses: np.ndarray
    masses: np.ndarray
    log_total: np.longdouble

    def log_delta(self, epsilon: float) -> tuple[np.longdouble, np.longdouble]:
        """(log scale, S) with delta = e^{scale} S, S = sum_{l > eps} w_l e^{-c(l-eps)} (1 - e^{-(l-eps)})."""
        u = self.losses - REAL(epsilon)
        part = u > 0
        terms = self.masses[part] * np.exp(-REAL(self.c) * u[part]) * -np.expm1(-u[part])
        return self.log_total - REAL(self.c) * REAL(epsilon), terms.sum()


def _power(rule: Rule, count: int, c: float) -> Atoms | None:
    """The count-fold sum of a point-mass law: FFT if its losses are equally spaced, enumeration otherwise."""
    losses = rule.loss.real
    log_total, weights = _tilted_sum(rule, c)
    weights = weights.real
    if count == 1 or losses.size == 1:
        return Atoms(
            c,
            losses * count,
            np.ones(losses.size, REAL) * weights**count if losses.size == 1 else weights,
            count * log_total,
        )
    gaps = np.diff(losses)
    if np.ptp(gaps) > 1e-17 * np.abs(losses).max() * losses.size:
        return _enumerated(losses, weights, count, c, log_total)
    k = np.arange(losses.size).astype(REAL)
    mean = float(count * (weights * k).sum())
    sd = math.sqrt(float(count * ((weights * k**2).sum() - (weights * k).sum() ** 2)) + 1)
    size = 1 << math.ceil(math.log2(min(count * (losses.size - 1) + 1, 40 * sd + 200)))
    first = 0 if size > count * (losses.size - 1) else max(0, round(mean) - size // 2)
    padded = np.zeros(size, REAL)
    padded[: losses.size] = weights
    power = scipy.fft.ifft(scipy.fft.fft(padded.astype(COMPLEX)) ** count).real  # numpy's has 64 bits before 2.0
    where = first + np.arange(size)
    where = where[where <= count * (losses.size - 1)]
    masses = power[where % size]
    keep = masses > 1e-18 * masses.max() * (1e-6 if where.size < 1000 else 1)
    step = (losses[-1] - losses[0]) / (losses.size - 1)
    values = count * losses[0] + where[keep].astype(REAL) * step
    return Atoms(c, values, masses[keep], count * log_total)


def _enumerated(
    losses: np.ndarray, weights: np.ndarray, count: int, c: float, log_total: np.longdouble
) -> Atoms | None:
    """All multisets of `count` losses with multinomial masses, dropping those below 1e-24."""
    values, logs, left = np.zeros(1, REAL), np.zeros(1, REAL), np.array([count])
    table = np.append(REAL(0), np.cumsum(np.log(np.arange(1, count + 1).astype(REAL))))
    for loss, weight in zip(losses[:-1], weights[:-1], strict=True):
        if left.sum() + left.size > MAX_ATOMS:
            return None
        owner = np.repeat(np.arange(left.size), left + 1)
        used = np.arange(owner.size) - np.repeat(np.cumsum(left + 1) - left - 1, left + 1)
        values = values[owner] + used * loss
        logs = logs[owner] + used * np.log(weight + REAL("1e-4000")) - table[used]
        left = left[owner] - used
    logs = table[count] + logs + left * np.log(weights[-1] + REAL("1e-4000")) - table[left]
    values = values + left * losses[-1]
    keep = logs > logs.max() - 60
    return Atoms(c, values[keep], np.exp(logs[keep]), count * log_total)


def _atomic_part(comp: Composition, c: float) -> Atoms | None:
    """The part of the composition in which every leaf lands on an atom; None if empty or too large."""
    if comp.square:
        return None
    total = Atoms(c, np.zeros(1, REAL), np.ones(1, REAL), REAL(0))
    for law, count in comp.laws:
        rule = law.atoms()
        part = _power(rule, count, c) if rule.loss.size else None
        if part is None or total.losses.size * part.losses.size > MAX_ATOMS:
            return None
        losses = np.add.outer(total.losses, part.losses).ravel()
        masses = np.multiply.outer(total.masses, part.masses).ravel()
        keep = masses > 1e-24 * masses.max()
        total = Atoms(c, losses[keep], masses[keep], total.log_total + part.log_total)
    return total


# --------------------------------------------------------------------------- the contour integral


@dataclass
class Contour:
    """e^{K(z) - K(c)} / (z (z+1)) at z = c + i j h without the atomic part, mollified if need be."""

    c: float
    h: np.longdouble
    log_scale: np.longdouble
    values: np.ndarray
    atoms: Atoms | None
    settled: float

    def log_delta(self, epsilon: float) -> float:
        """log of e^{K(c) - c eps} (h/pi) sum'_j Re[values_j e^{-i j h eps}] + the atomic part."""
        total = _fourier_sum(self.values, self.h, epsilon)
        scale = self.log_scale - REAL(self.c) * REAL(epsilon)
        if self.atoms is not None:
            atom_scale, part = self.atoms.log_delta(epsilon)
            total = total + np.exp(atom_scale - scale) * part
        return float(scale + np.log(total)) if total > 0 else -1e9


def _fourier_sum(values: np.ndarray, h: np.longdouble, epsilon: float) -> np.longdouble:
    """(h/pi) sum'_j Re[values_j e^{-i j h eps}], the first term halved."""
    width = 512
    padded = np.concatenate([values, np.zeros(-values.size % width, COMPLEX)]).reshape(-1, width)
    angle = -1j * h * REAL(epsilon)
    inner = padded @ np.exp(angle * np.arange(width).astype(REAL))
    outer = np.exp(angle * width * np.arange(padded.shape[0]).astype(REAL))
    return h / PI * ((inner * outer).sum().real - values[0].real / 2)


def _mollifier(n: int, full: int) -> np.ndarray:
    """erfc((y - Y/2)/w)/2 with w = Y/13 on the first n nodes, Y at node n; zero up to `full`."""
    t = (np.arange(n) / n - 0.5) * 13
    return np.concatenate([scipy.special.erfc(t) / 2, np.zeros(full - n)]).astype(REAL)


class _Transform:
    """e^{K(z) - K(c)}, its atomic part and an envelope of the difference, block by block."""

    def __init__(self, comp: Composition, c: float, h: np.longdouble, variant: int, atoms: bool) -> None:
        self.comp, self.c, self.h, self.atoms = comp, c, h, atoms
        self.parts = [_split(law, count, c, variant) for law, count in comp.laws]
        whole = [_joined(parts) for parts in self.parts]
        self.scales = [_tilted_sum(rule, c)[0] for rule in whole]
        self.whole = whole
        logs = [n * _log_of_rule(r, c, n) for r, (_, n) in zip(whole, comp.laws, strict=True)]
        self.log_scale = sum(logs, REAL(comp.square) * (REAL(c) ** 2 + REAL(c)) / 2)

    def variance(self) -> float:
        """K''(c)."""
        total = self.comp.square
        for rule, (_, count) in zip(self.whole, self.comp.laws, strict=True):
            weights = _tilted_sum(rule, self.c)[1]
            mean = (weights * rule.loss).sum()
            total += count * float((weights * (rule.loss - mean) ** 2).sum().real)
        return total

    def resonance(self) -> float:
        """2 pi / the smallest gap between atoms, where |E e^{iyL}| may come back; 0 without atoms."""
        gaps = [np.diff(atoms.loss.real).min() for _, atoms in self.parts if atoms.loss.size > 1]
        return float(2 * PI / min(gaps)) if gaps else 0.0

    def block(self, j0: int, n: int) -> tuple[np.ndarray, np.ndarray]:
        """Integrand and envelope for j0 <= j < j0 + n."""
        y = self.h * np.arange(j0, j0 + n).astype(REAL)
        z = self.c + 1j * y
        log_all = REAL(self.comp.square) * (1j * y * (2 * self.c + 1) - y * y) / 2
        log_atoms, log_envelope, log_atom_envelope = np.zeros(n, COMPLEX), log_all.real.copy(), REAL(0)
        for k, (_, count) in enumerate(self.comp.laws):
            smooth, atoms, log_law = self._law(k, count, j0, n)
            log_all = log_all + count * log_law
            if self.atoms:
                log_atoms = log_atoms + count * np.log(atoms + REAL("1e-4000"))
            mass = np.exp(
                self.parts[k][1].log_weight.real + self.c * self.parts[k][1].loss.real - self.scales[k]
            ).sum()
            log_envelope = log_envelope + count * np.log(
                np.minimum(1, mass + np.abs(smooth)) + REAL("1e-4000")
            )
            log_atom_envelope = log_atom_envelope + count * np.log(mass + REAL("1e-4000"))
        value, envelope = np.exp(log_all), np.exp(log_envelope)
        if self.atoms:
            value, envelope = value - np.exp(log_atoms), envelope - np.exp(log_atom_envelope)
        kernel = z * (z + 1)
        return value / kernel, np.abs(envelope) / np.abs(kernel)

    def _law(self, k: int, count: int, j0: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Continuous part, atoms and log of one leaf's transform over its value at c."""
        whole, (smooth_rule, atom_rule) = self.whole[k], self.parts[k]
        arguments = (self.c, self.scales[k], self.h, j0, n)
        atoms = _block_transform(atom_rule, *arguments)
        if not _delicate(whole, self.c, count):
            smooth = _block_transform(smooth_rule, *arguments)
            return smooth, atoms, np.log(smooth + atoms + REAL("1e-4000"))
        log_law = _accurate_block(whole, self.c, self.h, j0, n) - _log_of_rule(whole, self.c, count)
        return np.exp(log_law) - atoms, atoms, log_law


def _contour(
    comp: Composition, c: float, period: float, variant: int, epsilon: float, tolerance: float
) -> Contour:
    """Extends the integral until its envelope is negligible or doubling the mollifier changes nothing."""
    h = 2 * PI / REAL(period)
    atoms = _atomic_part(comp, c)
    transform = _Transform(comp, c, h, variant, atoms is not None)
    reach = (14, 11)[variant] / math.sqrt(transform.variance())
    n = max(256, math.ceil(reach / float(h)))
    points = 20 + sum(rule.loss.size for rule in transform.whole)
    if n * points > MAX_WORK:
        raise InaccurateError(f"The losses spread over too many scales: {n} nodes to start with.")
    values, envelope = transform.block(0, n)
    history: list[float] = []
    while True:
        size = abs(_fourier_sum(values, h, epsilon)) * PI / h
        if atoms is not None:
            scale, part = atoms.log_delta(epsilon)
            size += abs(part) * np.exp(scale - transform.log_scale + c * REAL(epsilon)) * PI / h
        if envelope[values.size // 2 :].sum() < 1e-15 * size:
            return Contour(c, h, transform.log_scale, values, atoms, 0.0)
        now = Contour(c, h, transform.log_scale, values * _mollifier(values.size, values.size), atoms, 0.0)
        history.append(now.log_delta(epsilon))
        change = max(abs(history[-1] - v) for v in history[-3:-1]) if len(history) > 2 else math.inf
        if change < tolerance and values.size * float(h) > 6 * transform.resonance():
            now.settled = change
            return now
        if 2 * values.size * points > MAX_WORK:
            now.settled = change
            return now
        more, more_envelope = transform.block(values.size, values.size)
        values, envelope = np.concatenate([values, more]), np.concatenate([envelope, more_envelope])


def _parameters(comp: Composition, epsilon: float, log_delta: float, variant: int) -> tuple[float, float]:
    """c and the period: aliases below e^-tolerance delta, e^{K(c) - c eps} not far above delta.

    The trapezoid sum is sum_k e^{ckp} delta(eps + kp); delta <= 1 on the left, Chernoff's bound on the right.
    """
    c, k = _chernoff_table(comp, None, epsilon)
    tolerance, limit = ((30, 10), (34, 7))[variant]
    left = (tolerance - log_delta) / c
    gap = c[None, :] - c[:, None]
    bound = (k + _log_kappa(c) - c * epsilon - log_delta + tolerance)[None, :]
    right = np.where(gap > 0, bound / np.where(gap > 0, gap, 1), np.inf).min(axis=1)
    period = np.maximum(np.maximum(left, right), 1e-12)
    loss = k - c * epsilon - log_delta - np.log(c * (c + 1))
    allowed = (loss <= max(limit, loss.min() + 3)) & np.isfinite(period)
    if not allowed.any():
        raise InaccurateError(f"No contour for epsilon {epsilon}, log delta {log_delta}.")
    best = int(np.flatnonzero(allowed)[np.argmin(period[allowed])])
    return float(c[best]), float(period[best]) * (1.05, 1.3)[variant]


# --------------------------------------------------------------------------- answers


def _chernoff_epsilon(comp: Composition, log_delta: float) -> tuple[float, float]:
    """The Chernoff bound on epsilon(delta) and its order c."""
    c, k = _chernoff_table(comp, log_delta, None)
    bounds = (k + _log_kappa(c) - log_delta) / c
    best = int(np.argmin(bounds))
    return max(float(bounds[best]), 0.0), float(c[best])


def _chernoff_log_delta(comp: Composition, epsilon: float) -> float:
    c, k = _chernoff_table(comp, None, epsilon)
    return min(0.0, float((k + _log_kappa(c) - c * epsilon).min()))


def _solver(
    comp: Composition, epsilon: float, log_delta: float, variant: int, tolerance: float
) -> Contour | Atoms:
    """Whatever evaluates log delta near epsilon."""
    c, period = _parameters(comp, epsilon, log_delta, variant)
    if all(isinstance(law, Lattice) for law, _ in comp.laws) and not comp.square:
        atoms = _atomic_part(comp, c)
        if atoms is not None:
            return atoms
    return _contour(comp, c, period, variant, epsilon, max(tolerance, 1e-11))


def _log_delta(solver: Contour | Atoms, epsilon: float) -> float:
    if isinstance(solver, Contour):
        return solver.log_delta(epsilon)
    scale, part = solver.log_delta(epsilon)
    return float(scale + np.log(part)) if part > 0 else -1e9


def _root(f: Callable[[float], float], guess: float, step: float) -> float:
    """Zero of a decreasing f on [0, inf), 0 if f(0) <= 0."""
    lo = hi = guess
    while f(hi) > 0:
        lo, hi, step = hi, hi + step, 2 * step
    while lo > 0 and f(lo) <= 0:
        hi, lo, step = lo, max(0.0, lo - step), 2 * step
    if lo == 0 and f(0.0) <= 0:
        return 0.0
    return float(brentq(f, lo, hi, xtol=1e-300, rtol=1e-15, maxiter=200))


def _epsilon_of(comp: Composition, delta: float) -> Exact:
    """epsilon(delta) of one direction."""
    log_delta = math.log(delta)
    law = comp.single()
    if law is not None:
        return Exact(_single_epsilon(law, delta), 1e-15)
    if _total_variation_below(comp, delta):
        return Exact(0.0, 0.0)
    if (near_top := _epsilon_near_top(comp, log_delta)) is not None:
        return near_top
    _check_exponents(comp)
    guess, c = _chernoff_epsilon(comp, log_delta)  # d log delta / d epsilon is about -c
    answers, unsettled = [], 0.0
    for variant, rough in ((0, True), (0, False), (1, False)):
        solver = _solver(comp, guess, log_delta, variant, 1e-7 * c * guess if rough else 1e-11 * c * guess)
        guess = _root(lambda e: _log_delta(solver, e) - log_delta, guess, 0.5 / c)  # noqa: B023
        answers.append(guess)
        if not rough and guess > 0:
            unsettled = max(unsettled, _unsettled(solver, comp) / min(c * guess, 1e6))
    return _agreed(answers[1], answers[2], unsettled)


def _epsilon_near_top(comp: Composition, log_delta: float) -> Exact | None:
    """M (1 - e^{eps-t}) <= delta(eps) <= 1 - e^{eps-t}, t the largest loss, M its mass; None if not tight."""
    top = comp.top()
    log_mass = sum(count * _log_top_mass(law) for law, count in comp.laws)
    if not math.isfinite(top) or log_delta > log_mass - 1:
        return None
    low, high = (top + math.log1p(-math.exp(log_delta - shift)) for shift in (log_mass, 0.0))
    accuracy = max((high - low) / high, 1e-15)
    return Exact((low + high) / 2, accuracy) if accuracy < 1e-13 else None


def _check_exponents(comp: Composition) -> None:
    """A few point masses of huge losses are multiplied by e^loss, which must be a float of 80 bits."""
    largest = max((count * _top(law) for law, count in comp.laws if isinstance(law, Lattice) and _top(law) > 1_000.0), default=0.0)
    if largest > 11_000.0:
        raise InaccurateError(f"Point masses with losses of up to {largest:g} are beyond the exponents of 80 bits.")


def _delta_of(comp: Composition, epsilon: float) -> Exact:
    """delta(epsilon) of one direction."""
    law = comp.single()
    if law is not None:
        with mpmath.workdps(60):
            return Exact(float(law.single(mpmath.mpf(epsilon))), 1e-15)
    if epsilon >= comp.top() * (1 - 1e-15):
        return Exact(0.0, 0.0)
    _check_exponents(comp)
    guess = _chernoff_log_delta(comp, epsilon) - 2
    answers, unsettled = [], 0.0
    for variant, rough in ((0, True), (0, False), (1, False)):
        solver = _solver(comp, epsilon, guess, variant, 1e-6 if rough else 1e-11)
        guess = min(_log_delta(solver, epsilon), 0.0)
        answers.append(guess)
        unsettled = unsettled if rough else max(unsettled, _unsettled(solver, comp))
    return _agreed(math.exp(answers[1]), math.exp(answers[2]), unsettled)


def _total_variation_below(comp: Composition, delta: float) -> bool:
    """Whether delta(0) <= delta follows from sum_i m_i delta_i(0) or from Pinsker: epsilon is 0 then."""
    gauss = math.erf(math.sqrt(comp.square / 8))
    with mpmath.workdps(40):
        parts = [count * float(law.single(mpmath.mpf(0))) for law, count in comp.laws]
    if gauss + sum(parts) < delta * (1 - 1e-6):
        return True
    tiny, count = 1e-6, sum(count for _, count in comp.laws)
    divergence = comp.log_mgf(tiny) / tiny  # with 80 bits good to about 1e-19 count / tiny
    return 1e-12 * count < delta**2 and divergence < 2 * delta**2 * (1 - 1e-3)


def _single_epsilon(law: Law, delta: float) -> float:
    """Bisection and secants on the closed form in 60 digits."""
    with mpmath.workdps(60):
        if law.single(mpmath.mpf(0)) <= delta:
            return 0.0
        target = mpmath.log(mpmath.mpf(delta))
        lo, hi = mpmath.mpf(0), mpmath.mpf(1)
        while (value := law.single(hi)) > delta:
            lo, hi = hi, 2 * hi
        for _ in range(70):
            middle = (lo + hi) / 2
            value = law.single(middle)
            lo, hi = (middle, hi) if value > 0 and mpmath.log(value) > target else (lo, middle)
        return float((lo + hi) / 2)


def _unsettled(solver: Contour | Atoms, comp: Composition) -> float:
    """By how much log delta still changed at the last doubling of the mollifier; what m-th powers round by for point masses.

    Point masses that share no lattice have structure at every scale, so that two equal answers prove little: 1e-7 at best.
    """
    if not isinstance(solver, Contour):
        return 1e-17 * sum(count for _, count in comp.laws)
    only_points = not comp.square and all(isinstance(law, Lattice) for law, _ in comp.laws)
    return max(solver.settled, 1e-7 if only_points else 0.0)


def _agreed(one: float, two: float, unsettled: float) -> Exact:
    """The first value; its accuracy is ten times the disagreement (both may err alike), or the unsettled rest if that is larger."""
    difference = 0.0 if one == two else abs(one - two) / max(abs(one), 1e-320)
    accuracy = max(10.0 * difference, unsettled, 1e-15)
    if not accuracy <= TARGET_ACCURACY:
        raise InaccurateError(f"Two computations gave {one!r} and {two!r}, unsettled by {unsettled:.1e}.")
    return Exact(one, accuracy)


def _directions(event: de.DpEvent, relation: Relation) -> list[Composition]:
    """The remove and the add composition, once if they are the same."""
    uses = _uses(event, relation)
    remove = Composition.of([(u.remove, u.times) for u in uses])
    add = Composition.of([(u.add, u.times) for u in uses])
    symmetric = all(u.remove == u.add or getattr(u.remove, "probability", 0) == 1 for u in uses)
    if not remove.laws and not remove.square:
        return []
    return [remove] if symmetric or not remove.laws else [remove, add]


def exact_delta(
    event: de.DpEvent, epsilon: float, neighboring_relation: Relation = Relation.ADD_OR_REMOVE_ONE
) -> Exact:
    """delta(eps) = max over directions of E_Q[(1 - e^{eps - L})_+], with its relative accuracy.

    >>> round(exact_delta(de.GaussianDpEvent(1.0), 1.0).value, 12)
    0.126936737507
    """
    answers = [_delta_of(comp, float(epsilon)) for comp in _directions(event, neighboring_relation)]
    return max(answers, default=Exact(0.0, 0.0))


def exact_epsilon(
    event: de.DpEvent, delta: float, neighboring_relation: Relation = Relation.ADD_OR_REMOVE_ONE
) -> Exact:
    """epsilon(delta) = max over directions of inf{eps >= 0: delta(eps) <= delta}, with its relative accuracy.

    >>> round(exact_epsilon(de.GaussianDpEvent(1.0), 1e-5).value, 10)
    4.3771780957
    """
    if not 0 < delta < 1:
        raise ValueError(f"delta must be strictly between 0 and 1. Found {delta}.")
    best = Exact(0.0, 0.0)
    for comp in _directions(event, neighboring_relation):
        if best.value > 0 and _chernoff_log_delta(comp, best.value) < math.log(delta):
            continue
        best = max(best, _epsilon_of(comp, float(delta)))
    return best
