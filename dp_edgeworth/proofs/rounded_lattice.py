"""Theorem: a sum of losses on one lattice, composed by FFT under a tilt; from there delta at every epsilon.

The losses of every leaf lie on a lattice of its own offset and one common step a (`rounding.py`), so Y lies on y_j = origin + j a. With
a tilt c > 0, K(c) = log E_Q[e^{cY}], w_j = e^{c y_j - K} Q(Y = y_j) (the tilted law), n points and the period T = n a,

    G(y_j) = e^{K - c y_j} sum_{i > 0} k_i w_{j+i},      k_i = e^{-c i a} (1 - e^{-i a}).

What an FFT of n points knows is w modulo n. Put in the place of w it gives, all terms being >= 0,

    e^{K - c y_j} S_j = sum_{r in Z} (what belongs to r) >= G(y_j),    S_j = sum_{i > 0} k_i sum_{r} w_{j+i+rn},

and too much by at most

    r < 0   1 / (e^{cT} - 1):  k_i <= e^{-c i a}, so Y = y_j + (i + rn) a counts at most e^{c r T} Q(Y) e^{c y_j - K}; add up over r.
    r > 0   e^{K - c y_j} (kappa(c) + 1 / (T c (c+1))) P_c(Y >= y_j + T):  k(v) = e^{-cv} (1 - e^{-v}) rises to kappa(c) and falls, so
            its values T apart add up to at most its maximum and a T-th of its integral.

The tilted tail is bounded by cutting every leaf at a height b above its centre z: for all b and all s > 0

    P_c(Y >= y) <= sum_i m_i P_c(L_i - z_i > b) + exp(sum_i m_i log E_c[e^{s (L_i - z_i)}; L_i - z_i <= b] - s (y - origin)),

and 0 beyond the sum of the largest losses. S is one product of characteristic functions with the transform of k,

    1 / (e^{ca + i theta} - 1) - 1 / (e^{(c+1) a + i theta} - 1),

and one FFT. Between lattice points G is linear in e^eps (no loss lies between them), so it is known everywhere.

Rounding. The computed characteristic function phi~ of a leaf is off by at most eta = (16 + 8 log2 n) ulp (every butterfly rounds by a
few ulp of the sum of moduli, which is 1) and what its weights are off by. Both it and the true one are below r = |phi~| + eta, so that
phi~^m, by repeated squaring, is off by at most 1.1 m (eta + 8 ulp) r^{m-1}, and a product of leaves by the sum of these, each times the
r^m of the others. The last FFT and the kernel add (32 + 8 log2 n) ulp of the sum of the moduli, and 1e-250 pays for what underflows:
all of the kernel, where the tilt times the step is 745 or more.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import fft

from dp_edgeworth.losses.rules import EPSILON
from dp_edgeworth.proofs.aliases import log_kappa
from dp_edgeworth.proofs.curve import Curve, LogBounds
from dp_edgeworth.proofs.lattice import geometric
from dp_edgeworth.proofs.rounding import Rounded, RoundedLeaves

_HEIGHTS, _RATES = np.linspace(0.1, 1.0, 10), np.array([0.25, 0.5, 1.0, 2.0, 4.0])  # of the largest loss; of the tilt
_ROOM = 1e-9  # rounding of the bounds of tails and copies, generously
_GRID, _FURTHEST = 64, 1e13  # heights; steps
_LARGEST_COUNT = 1e12  # m (eta + 8 ulp) is far below 1
_UNDERFLOW = 1e-250  # far more than what is lost where kernels, powers and weights are no floats


class Tail(NamedTuple):
    """P_c(Y >= y) <= min over rows of mass + e^{log_moment - rate (y - origin)}, and 0 for y - origin > largest."""

    masses: np.ndarray
    log_moments: np.ndarray
    rates: np.ndarray
    largest: float

    def log_beyond(self, heights: np.ndarray) -> np.ndarray:
        """log of the bound at y - origin, at most 0. It falls: of many heights those on a grid will do, each for all above it."""
        if len(heights) > 2 * _GRID:
            grid = np.linspace(float(heights.min()), float(heights.max()), _GRID)
            return self.log_beyond(grid)[np.maximum(np.searchsorted(grid, heights, side="right") - 1, 0)]
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            rows = np.logaddexp(np.log(self.masses), self.log_moments - heights[:, None, None] * self.rates[:, None])
        return np.where(heights > self.largest, -np.inf, np.minimum(np.nanmin(rows, axis=(1, 2)) + _ROOM, 0.0))


@dataclasses.dataclass(frozen=True)
class Tilted:
    """One leaf under the tilt: its weights at the multiples `numbers` of the step from its heaviest point, which is `centre`."""

    log_weights: np.ndarray
    numbers: np.ndarray
    centre: float
    log_moment: float
    blur: float  # what all weights together are off by
    size: float  # of the numbers that `centre` is made of

    @functools.cached_property
    def weights(self) -> np.ndarray:
        return np.exp(self.log_weights)

    @classmethod
    def of(cls, part: Rounded, tilt: float, step: float) -> Tilted:
        used = part.masses > 0.0
        numbers = part.first + np.flatnonzero(used)
        log_masses, moved = np.log(part.masses[used]), tilt * (part.offset + step * numbers)
        joint = log_masses + moved
        peak = float(joint.max())
        weights = np.exp(joint - peak)
        log_moment = peak + math.log(float(weights.sum()))
        heaviest = int(numbers[np.argmax(weights)])
        sizes = np.abs(log_masses) + 3.0 * np.abs(moved) + abs(log_moment) + 20.0
        blur = 2.0 * EPSILON * float(weights @ sizes) / float(weights.sum())
        return cls(joint - log_moment, numbers - heaviest, part.offset + step * heaviest, log_moment, blur,
                   abs(part.offset) + step * abs(heaviest))


@dataclasses.dataclass(frozen=True)
class LatticeSum:
    """One side of a composition under one tilt: the table of S with its error, and the tail that copies from above come from.

    `shift` is what the origin and the place of an epsilon are off by, in all, but for the rounding of epsilon itself.
    """

    tilt: float
    step: float
    origin: float
    shift: float
    log_mgf: float
    log_mgf_error: float
    table: np.ndarray
    error: float
    tail: Tail | None

    @np.errstate(over="ignore", invalid="ignore")  # where no float is a lattice point
    def upper(self, epsilons: np.ndarray) -> np.ndarray:
        """The theorem at every epsilon."""
        known, value, *_ = self._at(epsilons - self._off(epsilons), self._most)
        return np.where(known, value, np.inf)

    @np.errstate(over="ignore", invalid="ignore")
    def lower(self, epsilons: np.ndarray) -> np.ndarray:
        """The theorem from below, which needs a tail."""
        known, value, *_ = self._at(epsilons + self._off(epsilons), self.least)
        return np.where(known, value, -np.inf)

    def estimate(self, epsilons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """What the table says without errors; d log G / d eps."""
        _, value, here, there, theta = self._at(epsilons, self._middle)
        with np.errstate(invalid="ignore", over="ignore"):
            slope = np.exp(theta) / math.expm1(self.step) * (np.exp(there - value) - np.exp(here - value))
        return value, np.where(np.isfinite(slope) & (slope < 0.0), slope, -self.tilt)

    def _off(self, epsilons: np.ndarray) -> np.ndarray:
        return np.asarray(self.shift + 8.0 * EPSILON * (np.abs(epsilons) + abs(self.origin)))

    def light(self, epsilon: float) -> tuple[float, float]:
        """About log G and its slope; NaN where the table is not positive."""
        place = (epsilon - self.origin) / self.step
        if not abs(place) < _FURTHEST:
            return math.nan, math.nan
        number = math.floor(place)
        here, there = (float(self.table[(number + i) % len(self.table)]) for i in (0, 1))
        there *= math.exp(-self.tilt * self.step)
        theta = (place - number) * self.step
        share = math.expm1(theta) / math.expm1(self.step)
        total = here + share * (there - here)
        if not total > 0.0:
            return math.nan, math.nan
        base = self.log_mgf - self.tilt * (self.origin + self.step * number)
        return base + math.log(total), math.exp(theta) / math.expm1(self.step) * (there - here) / total

    def _at(self, epsilons: np.ndarray, knots: Callable[[np.ndarray], np.ndarray]) -> tuple[np.ndarray, ...]:
        """Where floats are lattice points; log G, linear in e^eps between its knots there; these two, and how far from the first."""
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            place = (epsilons - self.origin) / self.step
            known = np.abs(place) < _FURTHEST  # beyond, floats are no lattice points any more: nothing is proved
            number = np.floor(np.where(known, place, 0.0))
            theta = np.clip(np.where(known, epsilons - (self.origin + self.step * number), 0.0), 0.0, self.step)
            here, there = knots(number), knots(number + 1.0)
            mine = np.log(-np.expm1(theta - self.step)) - math.log(-math.expm1(-self.step))
            theirs = np.log(np.expm1(theta)) - math.log(math.expm1(self.step))
            return known, np.logaddexp(here + mine, there + theirs), here, there, theta

    def _values(self, numbers: np.ndarray) -> np.ndarray:
        """The table at the lattice points with these numbers."""
        return self.table[np.mod(numbers, len(self.table)).astype(np.int64)]

    def _base(self, numbers: np.ndarray) -> np.ndarray:
        return np.asarray(self.log_mgf - self.tilt * (self.origin + self.step * numbers))

    def _error(self, numbers: np.ndarray) -> np.ndarray:
        """Of the base."""
        far = abs(self.origin) + np.abs(self.step * numbers)
        return np.asarray(self.log_mgf_error + 4.0 * EPSILON * (abs(self.log_mgf) + self.tilt * far))

    def _middle(self, numbers: np.ndarray) -> np.ndarray:
        return np.asarray(self._base(numbers) + np.log(np.maximum(self._values(numbers), 0.0)))

    def _most(self, numbers: np.ndarray) -> np.ndarray:
        """A table that is negative beyond its error has one that was not charged: then nothing is proved."""
        values = self._values(numbers)
        upper = self._base(numbers) + self._error(numbers) + np.log(np.maximum(values + self.error, 0.0))
        return np.where(values >= -self.error, upper, np.inf)

    def least(self, numbers: np.ndarray) -> np.ndarray:
        """Less what copies add from both sides."""
        if self.tail is None:
            return np.full(len(numbers), -np.inf)
        values, period = self._values(numbers), self.step * len(self.table)
        copies = math.log(-math.expm1(-max(self.tilt * period, 1e-300)))
        with np.errstate(under="ignore"):
            most = math.exp(float(log_kappa(np.array(self.tilt)))) + 1.0 / (period * self.tilt * (self.tilt + 1.0))
            right = most * np.exp(self.tail.log_beyond(self.step * numbers + period)) * (1.0 + _ROOM)
            lower = self._base(numbers) - self._error(numbers) + np.log(np.maximum(values - self.error - right, 0.0))
            lower = lower + np.log1p(-np.exp(np.minimum(-self.tilt * period - copies + _ROOM - lower, 0.0)))
        return np.where(np.isnan(lower) | (values < -self.error), -np.inf, lower)


@dataclasses.dataclass(frozen=True)
class RoundedLattice(Curve):
    """The composition from above and from below, and the rounded leaves that both are sums of."""

    leaves: RoundedLeaves
    above: LatticeSum
    below: LatticeSum

    theorem = "rounded lattice"

    @property
    def tilt(self) -> float:  # type: ignore[override]
        return self.above.tilt

    @property
    def size(self) -> int:
        return 16

    def bounds(self, epsilons: np.ndarray) -> LogBounds:
        eps = np.atleast_1d(np.asarray(epsilons, float))
        off, log_infinite = self.leaves.log_error, self.leaves.log_infinite
        upper, lower = np.logaddexp(self.above.upper(eps) + off, log_infinite), self.below.lower(eps) - off
        (up, slope), (down, _) = self.above.estimate(eps), self.below.estimate(eps)
        with np.errstate(invalid="ignore"):
            # rounding up spreads a loss by a^2 / 6, rounding down takes a^2 / 12 away
            middle = np.where(np.isfinite(down), (up + 2.0 * down) / 3.0, up)
        lower = np.minimum(lower, upper)
        return LogBounds(lower, np.clip(np.nan_to_num(middle, nan=-1.0), lower, upper), upper, slope)

    def points(self, low: float, high: float) -> np.ndarray:
        """The lattice points of the law below between two epsilons."""
        law = self.below
        first, last = ((end - law.origin) / law.step for end in (low, high))
        return law.origin + law.step * np.arange(math.floor(first) + 1.0, math.ceil(last) + 1.0)

    def light(self, epsilon: float) -> tuple[float, float]:
        (above, slope), (below, _) = self.above.light(epsilon), self.below.light(epsilon)
        return (above + 2.0 * below) / 3.0 if math.isfinite(below) else above, slope


@np.errstate(divide="ignore", over="ignore", invalid="ignore")
def table(curves: list[RoundedLattice], low: float, high: float) -> tuple[np.ndarray, np.ndarray]:
    """Epsilons from low to high between which a bound from below of one law is linear in e^eps, and log of it there: the best of
    several tilts of that law.

    The law below, moved down to a little below its lattice points, with Q-masses kept, lives on these epsilons exactly, and so its
    curve is linear between them. It has at least what the law itself has at epsilons that are larger by what all were moved, and that
    is a little of what the law has at the next lattice point, and the rest of what it has at this one.
    """
    laws = [curve.below for curve in curves]
    law = laws[0]
    numbers = np.arange(math.floor((low - law.origin) / law.step), math.ceil((high - law.origin) / law.step) + 2.0)
    points, logs, off = law.origin + law.step * numbers, np.full(len(numbers), -np.inf), 0.0
    for each in laws:
        away = round((law.origin - each.origin) / law.step)
        apart = abs(each.origin + law.step * away - law.origin)
        off = max(off, 2.0 * (each.shift + apart) + 16.0 * EPSILON * (float(np.abs(points).max()) + abs(each.origin) + law.step))
        logs = np.maximum(logs, each.least(numbers + away))
    share = math.expm1(min(8.0 * off, law.step)) / math.expm1(law.step)
    moved = np.logaddexp(logs[:-1] + np.log1p(-share), logs[1:] + np.log(share))
    moved = np.where(np.isfinite(moved), moved - 4.0 * EPSILON * (1.0 + np.abs(moved)), -np.inf)
    return points[:-1] - 2.0 * off, moved - curves[0].leaves.log_error


def rounded_lattice(leaves: RoundedLeaves, tilt: float, points: int) -> RoundedLattice:
    """The theorem with a tilt c > 0 and n points, for the sum of leaves that were rounded to one step."""
    if not (0.0 < tilt < math.inf and points >= 16):
        raise ValueError(f"A rounded lattice needs a positive tilt and 16 points. Found {tilt}, {points}.")
    above = lattice_sum([(Tilted.of(part, tilt, leaves.step), count) for part, count in leaves.above], tilt, leaves.step, points)
    below = [(Tilted.of(part, tilt, leaves.step), count) for part, count in leaves.below]
    lower = dataclasses.replace(lattice_sum(below, tilt, leaves.step, points), tail=tail(below, tilt, leaves.step))
    return RoundedLattice(leaves, above, lower)


@np.errstate(over="ignore", invalid="ignore")  # of errors that are so large that nothing is proved
def lattice_sum(parts: list[tuple[Tilted, int]], tilt: float, step: float, points: int) -> LatticeSum:
    """The table of S for the sum of leaves with these counts; without a tail."""
    if max(count for _, count in parts) > _LARGEST_COUNT:
        raise ValueError(f"A lattice sum takes counts up to {_LARGEST_COUNT:g}. Found {max(count for _, count in parts)}.")
    product, bound, error = np.ones(points // 2 + 1, complex), np.ones(points // 2 + 1), np.zeros(points // 2 + 1)
    transform_error = EPSILON * (16.0 + 8.0 * math.log2(points))
    for part, count in parts:
        phi = fft.rfft(np.bincount(part.numbers % points, part.weights, points))
        eta = transform_error + part.blur
        most = np.abs(phi) + eta
        rest, power = _power(most, count - 1), _power(phi, count)
        error = error * (rest * most) + bound * rest * (1.1 * count * (eta + 8.0 * EPSILON))
        bound, product = bound * (rest * most), product * power
    kernel = _kernel(tilt * step, step, points)
    terms = product * kernel
    off = float((2.0 / points) * (error @ np.abs(kernel) + (transform_error + 16.0 * EPSILON) * np.abs(terms).sum()))
    off = math.inf if math.isnan(off) else off
    log_mgf = math.fsum(count * part.log_moment for part, count in parts)
    log_mgf_error = math.fsum(count * (part.blur + EPSILON * (20.0 + abs(part.log_moment))) for part, count in parts)
    shift = 4.0 * EPSILON * math.fsum(count * part.size for part, count in parts)
    return LatticeSum(tilt, step, math.fsum(count * part.centre for part, count in parts), shift, log_mgf, log_mgf_error + tilt * shift,
                      fft.irfft(terms, points), 1.01 * off + _UNDERFLOW, None)


def tail(parts: list[tuple[Tilted, int]], tilt: float, step: float) -> Tail:
    """The bound of the module's header, at some heights and rates."""
    most = max(float(part.numbers[-1]) for part, _ in parts) * step
    heights, rates = most * _HEIGHTS, tilt * _RATES
    masses, log_moments = np.zeros(len(heights)), np.zeros((len(rates), len(heights)))
    for part, count in parts:
        z = step * part.numbers
        place = np.searchsorted(z, heights, side="right")
        masses += count * np.append(np.cumsum(part.weights[::-1])[::-1], 0.0)[place]
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            moments = np.cumsum(np.exp(part.log_weights + rates[:, None] * z), axis=1)
            log_moments += count * np.log(moments[:, place - 1])
    with np.errstate(over="ignore"):
        masses = masses * (1.0 + _ROOM)
    uses = float(sum(count for _, count in parts))
    largest = math.fsum(count * float(part.numbers[-1]) for part, count in parts) * step
    rounding = uses * (1e-12 + 8.0 * EPSILON * rates[:, None] * most) + 1e-12 * np.abs(log_moments)  # exponents up to rate times loss
    return Tail(masses, log_moments + rounding, rates, largest * (1.0 + 1e-12))


def _power(base: np.ndarray, exponent: int) -> np.ndarray:
    """By repeated squaring."""
    result = np.ones_like(base)
    while exponent:
        if exponent & 1:
            result = result * base
        exponent >>= 1
        if exponent:
            base = base * base
    return result


@functools.lru_cache(maxsize=4)
def _kernel(x: float, step: float, points: int) -> np.ndarray:
    """sum_{i > 0} k_i e^{i theta_l i} at theta_l = 2 pi l / n, x = c a."""
    angle = 2.0 * math.pi / points * np.arange(points // 2 + 1)
    both: np.ndarray = np.conj(geometric(x, angle) * geometric(x + step, angle))
    kernel: np.ndarray = -math.expm1(-step) * math.exp(-x) * np.exp(1j * angle) * both
    return kernel
