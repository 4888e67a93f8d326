"""Theorem: any losses, rounded to one lattice from above and from below, and composed there by FFT.

A leaf is cut into cells (`losses/cells.py`): sets of outcomes whose losses lie in [low, high], with their P- and Q-masses. By the
order of
`convolution.py` (H rises when mass at l is moved to a < l < b so that its P-mass and its Q-mass stay what they are, when mass is moved
upwards with its P-mass, and when mass is added; it falls when mass between two losses is put on one point with the same P-mass and
Q-mass, when mass is moved downwards with its P-mass, and when mass is dropped; and convolution keeps the order) its law may be
replaced by

    above   every cell goes to both its bounds, these to the two lattice points around them, P-mass and Q-mass kept each time. Cells
            without an upper bound are infinite: their Q-mass is added to the upper end, once per use.
    below   every cell is put on its mean, a loss l. Of those between the lattice points y_k and y_{k+1} let E_k, U_k and D_k be the
    sums
            of q e^{y_k - l}, q (e^{y_{k+1} - l} - 1) and q (1 - e^{y_k - l}). A share s_k of them goes to y_{k+1}, the rest to y_k. If

                s_k U_k <= (1 - s_{k+1}) D_{k+1}        for every k,

            the joint mean of what comes to y_{k+1} from both sides is at least y_{k+1}, and is lowered to it. With P-masses kept, that
            puts s_{k-1} e^{step} E_{k-1} + (1 - s_k) E_k on y_k. Any shares are made to obey by lowering them; good ones are those with
            equality, found from the tails towards the bulk.

Both are second order in the step. The lattice of every leaf has an offset of its own, at its bulk, so that what hardly varies is hardly
rounded. What is composed then is exact on its lattice: the theorem of `lattice.py`, whose characteristic functions are one FFT per leaf
here, off by (16 + 8 log2 n) ulp of their sum of moduli, which is 1 (every one of log2 n butterflies rounds by a few ulp of moduli).

Charged beside that: losses are moved outwards by 1e-14 of their size and of the offset's; masses: `Cells.mass_error` and (terms + 8)
ulp
per use, in the logarithm of both ends.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np
from scipy import fft

from dp_edgeworth.losses.cells import Cells
from dp_edgeworth.losses.gaussian_noise import GaussianShift
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import EPSILON
from dp_edgeworth.proofs.aliases import AliasBound
from dp_edgeworth.proofs.curve import Curve, LogBounds
from dp_edgeworth.proofs.lattice import LatticeContour, lattice_tables
from dp_edgeworth.sums.composition import Composition

_OUTWARD = 1e-14
_MOST_KINDS, _MOST_USES, _LARGEST_STEP = 64, 1e9, 1.0
_MOST_TURNS = 4  # of the period that one loss may take
_COARSE = 0.05  # deviations: cells that show where the losses are
_FINE, _CANDIDATES = 640, 16


class Rounded(NamedTuple):
    """The law of one leaf on offset + step * (first, first + 1, ...): Q-masses; what is infinite of it; relative error of the
    masses.
    """

    offset: float
    first: int
    masses: np.ndarray
    infinite: float
    error: float


@dataclasses.dataclass(frozen=True)
class RoundedLattice(Curve):
    """The composition from above and from below; log of the infinite mass and the error of the logarithm that are charged."""

    above: LatticeContour
    below: LatticeContour
    log_infinite: float
    log_error: float

    theorem = "rounded lattice"

    @property
    def tilt(self) -> float:  # type: ignore[override]
        return self.above.tilt

    @property
    def size(self) -> int:
        return 16

    def bounds(self, epsilons: np.ndarray) -> LogBounds:
        up, down = self.above.bounds(epsilons), self.below.bounds(epsilons)
        upper, lower = np.logaddexp(up.upper + self.log_error, self.log_infinite), down.lower - self.log_error
        with np.errstate(invalid="ignore"):
            middle = np.where(np.isfinite(down.estimate), 0.5 * (up.estimate + down.estimate), up.estimate)
        lower = np.minimum(lower, upper)
        return LogBounds(lower, np.clip(middle, lower, upper), upper, up.slope)


def rounded_lattice(composition: Composition, tilt: float, step: float, points: int, others: np.ndarray,
                    log_tail: float) -> RoundedLattice | None:
    """The theorem with a step, n points, a tilt c > 0 and tilts for the aliases; of every leaf up to e^{log_tail} may become infinite.

    None where a leaf has no cells, or too many.
    """
    _check(tilt, step, points, others)
    rounded = rounded_leaves(composition, step, points, log_tail)
    return None if rounded is None else sum_of_rounded(rounded, tilt, step, points, others)


class RoundedLeaves(NamedTuple):
    """All leaves with their counts, from above and from below; log of what is infinite and the error of logarithms in all."""

    above: list[tuple[Rounded, int]]
    below: list[tuple[Rounded, int]]
    log_infinite: float
    log_error: float


def _check(tilt: float, step: float, points: int, others: np.ndarray) -> None:
    if not (tilt > 0.0 and 0.0 < step < math.inf and points >= 16 and (others > 0.0).all()):
        raise ValueError(f"Rounding needs positive tilts, a step and 16 points. Found {tilt}, {others}, {step}, {points}.")


def sum_of_rounded(rounded: RoundedLeaves, tilt: float, step: float, points: int, others: np.ndarray) -> RoundedLattice:
    """The sum of leaves that were rounded to this step, with n points, a tilt c > 0 and tilts for the aliases."""
    _check(tilt, step, points, others)
    upper, lower = (lattice_sum(side, tilt, step, points, others) for side in (rounded.above, rounded.below))
    return RoundedLattice(upper, lower, rounded.log_infinite, rounded.log_error)


def rounded_leaves(composition: Composition, step: float, points: int, log_tail: float) -> RoundedLeaves | None:
    """Of every leaf up to e^{log_tail} may become infinite; None where a leaf has no cells, or too many."""
    parts = _leaves(composition)
    if len(parts) > _MOST_KINDS or composition.total > _MOST_USES or step > _LARGEST_STEP:
        return None
    above, below, infinite, log_error = [], [], 0.0, 0.0
    for pllr, count in parts:
        cells = _aligned(pllr, step, points, log_tail)
        sides = None if cells is None else _rounded(*cells, step, log_tail)
        if sides is None:
            return None
        above.append((sides[0], count))
        below.append((sides[1], count))
        infinite += count * sides[0].infinite
        log_error += count * max(side.error for side in sides)
    return RoundedLeaves(above, below, math.log(infinite * (1.0 + 1e-9)) if infinite > 0.0 else -math.inf, 1.01 * log_error)


def _leaves(composition: Composition) -> list[tuple[Pllr, int]]:
    """The leaves and their counts; Gaussians are one."""
    leaves = [(pllr, count) for pllr, count in composition.counts.items() if pllr.gaussian_variance is None]
    if composition.gaussian_variance > 0.0:
        leaves.append((GaussianShift(math.sqrt(composition.gaussian_variance)), 1))
    return leaves


def _aligned(pllr: Pllr, step: float, points: int, log_tail: float) -> tuple[Cells, float] | None:
    """Cells between the lattice points and the middles between them, and the offset: a loss in the bulk. None where there are too
    many.
    """
    coarse = pllr.cells(_COARSE, log_tail)
    if coarse is None:
        return None
    kept = _kept(coarse, log_tail)
    low, high = float(coarse.low[kept].min()), float(coarse.high[kept].max())
    if not (high - low) / step < _MOST_TURNS * points:
        return None
    offset = _bulk(pllr, float(coarse.mean[np.argmax(np.where(kept, coarse.q, -1.0))]), step, log_tail)
    first, last = math.floor(2.0 * (low - offset) / step), math.ceil(2.0 * (high - offset) / step)
    cells = pllr.cells(offset + 0.5 * step * np.arange(first, last + 1), log_tail)
    return None if cells is None else (cells, offset)


def _kept(cells: Cells, log_tail: float) -> np.ndarray:
    """Cells whose losses have bounds; not those at the top that have a Q-mass of at most e^{log_tail} in all."""
    order = np.argsort(-cells.high, kind="stable")
    top = np.empty(len(order))
    top[order] = np.cumsum(cells.q[order])
    return np.isfinite(cells.low) & np.isfinite(cells.high) & ((top > math.exp(log_tail)) | (cells.high <= 0.0))


def _bulk(pllr: Pllr, middle: float, step: float, log_tail: float) -> float:
    """The offset near the heaviest loss with which rounding down drops the least mass there. Any offset is valid."""
    fine = pllr.cells(middle + step * np.linspace(-8.0, 8.0, _FINE + 1), log_tail)
    if fine is None:
        return middle
    near = np.isfinite(fine.low) & np.isfinite(fine.high) & (np.abs(fine.mean - middle) < 8.0 * step) & (fine.q > 0.0)
    losses, masses, best = fine.mean[near], fine.q[near], middle
    for width in (0.5, 0.5 / _CANDIDATES) if near.any() else ():
        candidates = best + step * np.linspace(-width, width, _CANDIDATES)
        best = float(candidates[np.argmax([_below(losses, masses, float(offset), step)[1].sum() for offset in candidates])])
    return best


def _rounded(cells: Cells, offset: float, step: float, log_tail: float) -> tuple[Rounded, Rounded] | None:
    """A leaf from above and from below; None where nothing is left of it."""
    bounded = _kept(cells, log_tail)
    low, high, q = cells.low[bounded], cells.high[bounded], cells.q[bounded]
    if not len(q) or not q.sum() > 0.0:
        return None
    error = cells.mass_error + EPSILON * (len(q) + 8.0)
    mean = np.minimum((cells.mean + cells.error)[bounded], high)
    share = np.where(high > low, np.expm1(low - mean) / np.where(high > low, np.expm1(low - high), 1.0), 1.0)
    bottom = np.isinf(cells.low) & np.isfinite(cells.high)
    lifted = cells.p[bottom] * np.exp(np.minimum(cells.high[bottom], 700.0))
    infinite = float(cells.q[~bounded & ~bottom].sum())
    masses = np.concatenate([q * (1.0 - share), q * share, lifted])
    above = _above(np.concatenate([low, high, cells.high[bottom]]), masses, offset, step)
    below = _below(np.maximum((cells.mean - cells.error)[bounded], low), q, offset, step)
    return Rounded(offset, *above, infinite, error), Rounded(offset, *below, 0.0, error)


def _above(losses: np.ndarray, masses: np.ndarray, offset: float, step: float) -> tuple[int, np.ndarray]:
    """Losses on the two lattice points around them."""
    gaps = losses - offset + _OUTWARD * (np.abs(losses) + abs(offset))
    k = np.floor(gaps / step)
    inside = np.clip(gaps - k * step, 0.0, step)
    up = masses * np.minimum(-np.expm1(-inside) / -math.expm1(-step) * (1.0 + 4.0 * EPSILON), 1.0)
    first = int(k.min())
    place, count = (k - first).astype(np.int64), int(k.max()) - first + 2
    return first, np.bincount(place, masses - up, count) + np.bincount(place + 1, up, count)


def _below(losses: np.ndarray, masses: np.ndarray, offset: float, step: float) -> tuple[int, np.ndarray]:
    """Losses on the two lattice points around them, as the module's header has it."""
    gaps = losses - offset - _OUTWARD * (np.abs(losses) + abs(offset))
    k = np.floor(gaps / step)
    rest = np.clip(gaps - k * step, 0.0, step)
    first = int(k.min())
    place, count = (k - first).astype(np.int64), int(k.max()) - first + 1
    kept = np.bincount(place, masses * np.exp(-rest), count)
    up = np.bincount(place, masses * np.expm1(step - rest), count)
    down = np.bincount(place, masses * -np.expm1(-rest), count)
    shares = _shares(up, down, int(np.argmax(kept)))
    shares[-1] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        most = np.where(up[:-1] > 0.0, (1.0 - shares[1:]) * down[1:] / up[:-1], 1.0)
    shares[:-1] = np.minimum(shares[:-1], most * (1.0 - 4.0 * EPSILON * (len(losses) + 8.0)))
    return first, np.append((1.0 - shares) * kept, 0.0) + np.append(0.0, shares * kept * math.exp(step))


def _shares(up: np.ndarray, down: np.ndarray, bulk: int) -> np.ndarray:
    """Shares with equality as far as they lie in [0, 1]: from above down to the bulk, and from below up to it."""
    rise, fall, count = up.tolist(), down.tolist(), len(up)
    shares = [0.0] * count
    for k in range(count - 2, bulk - 1, -1):
        most = (1.0 - shares[k + 1]) * fall[k + 1]
        shares[k] = 1.0 if most >= rise[k] else most / rise[k]
    share = 1.0
    for k in range(bulk):
        lowered = share * rise[k - 1] if k > 0 else 0.0
        share = 1.0 - lowered / fall[k] if lowered < fall[k] else 0.0
        shares[k] = share
    return np.array(shares)


def lattice_sum(parts: list[tuple[Rounded, int]], tilt: float, step: float, points: int, others: np.ndarray) -> LatticeContour:
    """The theorem of `lattice.py` for the sum of laws that are lattice laws to the last bit."""
    log_terms, errors = np.zeros(points // 2 + 1, complex), np.zeros(points // 2 + 1)
    log_mgf, log_mgf_error, origin, size = 0.0, 0.0, 0.0, 0.0
    other_logs = np.zeros(len(others))
    rounding = EPSILON * (16.0 + 8.0 * math.log2(points))
    for part, count in parts:
        numbers = part.first + np.arange(len(part.masses))
        used = part.masses > 0.0
        numbers, log_masses = numbers[used], np.log(part.masses[used])
        losses = part.offset + step * numbers
        for i, c in enumerate(others):
            other_logs[i] += count * _log_sum(log_masses + c * losses)
        joint = log_masses + tilt * losses
        own = _log_sum(joint)
        weights = np.exp(joint - own)
        centre = int(numbers[np.argmax(weights)])
        phi = np.conj(fft.rfft(np.bincount((numbers - centre) % points, weights, points)))
        modulus = np.minimum(np.log(np.maximum(np.abs(phi), rounding)), 0.0)
        log_terms += count * (modulus + 1j * np.angle(phi))
        # of the FFT, of the weights (exponents are rounded by their size), of the products with the count
        blur = rounding + 4.0 * EPSILON * float(weights @ (np.abs(joint) + np.abs(own) + 4.0))
        errors += count * (2.0 * blur * np.exp(-modulus) + 8.0 * EPSILON)
        log_mgf += count * own
        log_mgf_error += count * (blur + 8.0 * EPSILON * (1.0 + abs(own)))
        origin += count * (part.offset + step * centre)
        size += count * float(np.abs(losses).max() + abs(part.offset))
    shift = 8.0 * EPSILON * size
    tables = lattice_tables(log_terms, errors + 2.0 * tilt * shift, tilt, step, points)
    tilts, log_bounds = np.append(others, 0.0), np.append(other_logs + others * shift + 1e-9 * (1.0 + np.abs(other_logs)), 1e-9)
    aliases = AliasBound(tilts, log_bounds, tilt, log_mgf, step * points)
    return LatticeContour(tilt, log_mgf, log_mgf_error + tilt * shift, step, origin, shift, *tables, aliases)


def _log_sum(logs: np.ndarray) -> float:
    peak = float(logs.max())
    return peak + math.log(float(np.exp(logs - peak).sum()))
