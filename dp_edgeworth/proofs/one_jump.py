"""Theorem: rare large losses, one at a time.

Where the probability of a loss falls ever more slowly, no tilt makes one large loss likely without making two of them likelier still:
no contour, and no lattice, sees a delta that one large loss decides. So let the largest cells of every leaf (`cells.py`) be taken
apart: R_i with Q-mass q_i, q = sum_i m_i q_i. With N the number of uses whose loss is in R, G_0 the curve of N = 0 (of the
composition without these cells), H_i that of the same composition with one use of leaf i less,

    G_0(eps) + S  <=  G(eps)  <=  G_0(eps) + S + q^2 / 2,        S = sum_i m_i int_{R_i} H_i(eps - l) Q_i(dl).

N = 0 and N = 1 are exact, and the payoff is at most 1 where N >= 2, which has at most q^2 / 2. All terms are positive.

S       Putting a cell on both its bounds with its P-mass and its Q-mass raises S, putting it on its mean loss lowers it
        (`rounding.py`): second order in the width of cells, nothing where H_i is linear in e^{-l}. A cell without a bound counts as
        infinite from above, as its lower bound from below.
H_i     lies within any of its curves (rounded lattices of the cells that are left), below the Q-mass A <= 1 of its law, above A' - e^u
        (where A' is a lower bound of A and the P-mass is at most 1), and is convex in v = e^u: with any v_j >= v,
        H(v) <= A - v (A - H(v_j)) / v_j, the chord to v = 0.
errors  losses are moved outwards by 1e-14 of their size and of epsilon; masses: `Cells.q_error`, 1e-290 per cell for what is no
        float, of all uses together once more for those that were rounded, 4e-12 for logarithms (a dozen roundings of numbers below
        1500) and 4 (n + 8) ulp for sums of n terms, which are not added up as logarithms; 1e-15 for differences from A. A use that is
        finite is in R_i with probability q_i / (1 - infinite mass).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dp_edgeworth.losses.cells import Cells
from dp_edgeworth.losses.rules import EPSILON
from dp_edgeworth.proofs.curve import Curve, LogBounds
from dp_edgeworth.proofs.rounded_lattice import RoundedLattice, rounded_lattice
from dp_edgeworth.proofs.rounding import RoundedLeaves
from dp_edgeworth.sums.composition import Composition

_OUTWARD, _NO_FLOAT, _DIFFERENCE, _LOGS = 1e-14, 1e-290, 1e-15, 4e-12
_FAR = 40.0  # below epsilon 0, over the tilt of a curve: there the chord and A' - e^u are as good
Parameters = tuple[float, int]  # the tilt and the number of points of a lattice


class Points(NamedTuple):
    """Losses in increasing order and the logarithms of their Q-masses, those of all uses of a leaf."""

    losses: np.ndarray
    log_masses: np.ndarray


class Jumps(NamedTuple):
    """The large losses of one leaf, from above and from below, and curves of what is composed with one of them."""

    above: Points
    below: Points
    rest: Sequence[RoundedLattice]


@dataclasses.dataclass(frozen=True)
class OneJump(Curve):
    """The theorem of the header. `log_more`: of q^2 / 2; `log_error`: of all masses; `log_least`: of A'."""

    none: RoundedLattice
    jumps: tuple[Jumps, ...]
    log_more: float
    log_error: float
    log_least: float

    theorem = "one jump"

    @property
    def tilt(self) -> float:  # type: ignore[override]
        return self.none.tilt

    @property
    def size(self) -> int:
        return sum(len(each.above.losses) * (1 + len(each.rest)) for each in self.jumps)

    def bounds(self, epsilons: np.ndarray) -> LogBounds:
        eps = np.atleast_1d(np.asarray(epsilons, float))
        b, parts = self.none.bounds(eps), [self._sums(jumps, eps) for jumps in self.jumps]
        with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
            upper = np.logaddexp.reduce([b.upper, np.full(len(eps), self.log_more), *(part[1] for part in parts)]) + self.log_error
            lower = np.logaddexp.reduce([b.lower, *(part[0] for part in parts)]) - self.log_error
            middles = [b.estimate, *(np.logaddexp(low + math.log(2.0 / 3.0), high - math.log(3.0)) for low, high, _ in parts)]
            middle = np.logaddexp.reduce(middles)
            rates = zip(middles, [b.slope, *(part[2] for part in parts)], strict=True)
            slope = np.sum([np.where(np.isfinite(log), np.exp(log - middle) * rate, 0.0) for log, rate in rates], axis=0)
        lower = np.minimum(np.where(np.isnan(lower), -np.inf, lower), upper)
        return LogBounds(lower, np.clip(np.nan_to_num(middle, nan=-1.0), lower, upper), upper,
                         np.where(np.isfinite(slope) & (slope < 0.0), slope, -self.tilt))

    def _sums(self, jumps: Jumps, eps: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log S of one leaf from below and from above, and about d log S / d eps."""
        (low, masses), (high, more) = jumps.below, jumps.above
        off = _OUTWARD * (np.abs(eps)[:, None] + np.abs(low))
        lower, slopes = self._least(jumps, eps[:, None] - low + off)
        finite = np.where(np.isfinite(high), np.abs(high), 0.0)
        u = eps[:, None] - high - _OUTWARD * (np.abs(eps)[:, None] + finite)
        with np.errstate(invalid="ignore", divide="ignore"):
            log_low, log_high = _log_sum(masses + lower), _log_sum(more + self._most(jumps, u))
            rates = np.nansum(np.exp(masses + lower - log_low[:, None]) * slopes, axis=1)
        return log_low, log_high, rates

    def _least(self, jumps: Jumps, u: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log of a lower bound of H, and about its slope."""
        lower, slopes = np.full(u.shape, -np.inf), np.zeros(u.shape)
        for curve in jumps.rest:
            near = u > -_FAR / curve.tilt
            b = curve.bounds(u[near])
            better = b.lower > lower[near]
            lower[near], slopes[near] = np.where(better, b.lower, lower[near]), np.where(better, b.slope, slopes[near])
        with np.errstate(divide="ignore", over="ignore", under="ignore"):
            v = np.exp(np.minimum(u, 1.0))
            plain = np.log(np.maximum(math.exp(self.log_least) - v - _DIFFERENCE, 0.0))
            rates = np.where(plain > lower, -v * np.exp(-np.maximum(plain, -700.0)), slopes)
        return np.maximum(lower, plain), rates

    def _most(self, jumps: Jumps, u: np.ndarray) -> np.ndarray:
        """log of an upper bound of H at u, which falls along the second axis."""
        logs = np.zeros(u.shape)
        for curve in jumps.rest:
            near = u > -_FAR / curve.tilt
            logs[near] = np.minimum(logs[near], curve.bounds(u[near]).upper)
        with np.errstate(divide="ignore", invalid="ignore", under="ignore", over="ignore"):
            v = np.exp(np.minimum(u, 1.0))
            rates = np.where((v > 1e-300) & (u < 1.0), -np.expm1(logs) / v, 0.0)
            chord = np.log1p(-np.minimum(v * np.maximum.accumulate(rates, axis=1) * (1.0 - 8.0 * EPSILON), 1.0) + _DIFFERENCE)
        return np.minimum(logs, np.minimum(chord, 0.0))


def one_jump(composition: Composition, leaves: RoundedLeaves, none: Parameters, rest: Sequence[Parameters]) -> OneJump | None:
    """The theorem for a composition and its rounded leaves, of which some have large cells that were not rounded.

    Args:
      none: the tilt and the number of points of the lattice for N = 0.
      rest: those of lattices for one use less.

    None where there are no large cells, or hardly any float among their masses.
    """
    jumps, total, share, terms = [], 0.0, 0.0, 1
    for cells, count, place, finite in leaves.large:
        if not cells.q.sum() > 1e10 * _NO_FLOAT or not rest:
            return None
        less = leaves.without_one(place)
        curves = [rounded_lattice(less, *parameters) for parameters in rest] if less.above else []
        jumps.append(Jumps(_above(cells, count), _below(cells, count), curves))
        most = (float((cells.q + cells.q_error).sum()) + _NO_FLOAT * len(cells.q)) * (1.0 + 1e-9)
        total, share = total + count * most, share + count * most / max(finite, 5e-324)
        terms = max(terms, 2 * len(cells.q))
    if not jumps or not share < 1.0:
        return None
    lost = _NO_FLOAT * sum(len(part.masses) * count for part, count in leaves.above)
    log_error = 1.01 * (_LOGS + 4.0 * EPSILON * (terms + 8.0))
    return OneJump(rounded_lattice(leaves, *none), tuple(jumps), math.log(0.5 * total * total + lost) + 1e-9, log_error,
                   composition.log_finite + math.log1p(-share) - 1e-15)


def _log_sum(logs: np.ndarray) -> np.ndarray:
    """log sum e^x along the second axis; the sum is one of numbers: `logaddexp.reduce` rounds a logarithm at every step."""
    peak = np.maximum(logs.max(axis=1, keepdims=True), -1e300)
    with np.errstate(under="ignore", divide="ignore"):
        return np.asarray(np.log(np.exp(logs - peak).sum(axis=1)) + peak[:, 0])


def _above(cells: Cells, count: int) -> Points:
    """Every cell on both its bounds, with its P-mass and its Q-mass; unbounded ones on their upper bound, which may be infinite."""
    low, high, q = cells.low, cells.high, cells.q + cells.q_error + _NO_FLOAT
    bounded = np.isfinite(low) & np.isfinite(high)
    with np.errstate(invalid="ignore", over="ignore"):
        mean = np.minimum(cells.mean + cells.error, high)
        share = np.where(bounded & (high > low), np.expm1(low - mean) / np.where(high > low, np.expm1(low - high), 1.0), 1.0)
    losses, masses = np.concatenate([low, high]), np.concatenate([q * (1.0 - share), q * share])
    order = np.argsort(losses, kind="stable")
    return _points(losses[order], masses[order], count)


def _below(cells: Cells, count: int) -> Points:
    """Every cell on its mean loss, unbounded ones on their lower bound; what has none, or is hardly a float, is left away."""
    q, low = cells.q - cells.q_error, np.where(np.isfinite(cells.high), np.maximum(cells.mean - cells.error, cells.low), cells.low)
    return _points(low, np.where((q > _NO_FLOAT) & np.isfinite(low), q, 0.0), count)


def _points(losses: np.ndarray, masses: np.ndarray, count: int) -> Points:
    used = masses > 0.0
    if not used.any():
        return Points(np.full(1, np.inf), np.full(1, -np.inf))
    return Points(losses[used], np.log(masses[used]) + math.log(count))
