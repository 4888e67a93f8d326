"""Theorem: any loss, rounded to a lattice from above and from below.

A finite part of a law is a positive measure M on losses l (its mass under Q; under P it is e^{-l} M(dl)), with

    H_M(eps) = int (1 - e^{eps - l})_+ M(dl).

Theorem (order). H rises for every eps when mass at l is moved to a < l < b so that its P-mass and its Q-mass stay what they are, when
mass is moved upwards with its P-mass or with its Q-mass, and when mass is added; it falls when mass between two losses is put on one
point with the same P-mass and Q-mass, when mass is moved downwards with its P-mass or with its Q-mass, and when mass is dropped. If
H_M <= H_N for every eps, then H_{M * R} <= H_{N * R} for every R.
Proof. H_M(eps) = E_P[(W - e^eps)_+] with W = e^L, a convex increasing function of W: Jensen's inequality in both directions. And
H_{M * R}(eps) = int H_M(eps - r) R(dr).

A leaf is cut into cells (`losses/cells.py`): sets of outcomes whose losses lie in [low, high], with their P- and Q-masses. By the
order its law may be replaced by

    above   every cell goes to both its bounds, these to the two lattice points around them, P-mass and Q-mass kept each time. Cells
            without an upper bound are infinite: their Q-mass is added to the upper end, once per use; not that of losses that are
            infinite themselves, which G does not have. Cells without a lower bound, or below a floor, go to their upper bound,
            Q-mass kept.
    below   every cell is put on its mean, a loss l. Of those in the lower half between y_k and y_{k+1} a share r_k goes to y_{k+1},
            of those in the upper half a share s_k, the rest to y_k. With P-masses kept, q at l becomes q e^{y - l} at y. Let X_k and
            U_k be the sums of q (e^{y_{k+1} - l} - 1) over the lower and the upper half, V_k and W_k those of q (1 - e^{y_k - l}). If

                r_k X_k + s_k U_k <= (1 - r_{k+1}) V_{k+1} + (1 - s_{k+1}) W_{k+1}        for every k,

            the joint mean of what comes to y_{k+1} from both sides is at least y_{k+1}, and is lowered to it. Any shares are made to
            obey by lowering each pair to what its neighbours' first guesses leave, which lowering the neighbours only makes more.

Both are second order in the step. The lattice of every leaf has an offset of its own, at its bulk, so that what hardly varies is hardly
rounded.

Charged beside that: losses are moved outwards by 1e-14 of their size, of the offset's and of the step, Q-mass kept; masses:
`Cells.q_error`, added above and taken away below, and (terms + 8) ulp per use, terms being the most that are added up on one lattice
point, in the logarithm of both ends.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from dp_edgeworth.losses.cells import Cells
from dp_edgeworth.losses.gaussian_noise import GaussianShift
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import EPSILON
from dp_edgeworth.sums.composition import Composition

_OUTWARD = 1e-14
_MOST_KINDS, _MOST_USES, _LARGEST_STEP = 64, 1e9, 1.0
_MOST_CELLS = 1 << 19
_COARSE = 0.05  # deviations: cells that show where the losses are
_SWEEPS = 12  # contractions by about 3 each
_FINE, _NEAR, _FAR = 20.0, 3.0, 30.0  # cells per step, steps they reach, also where the losses end
_CANDIDATES, _HAIR = 12, 1e-9  # offsets tried at once; of a step


class Rounded(NamedTuple):
    """The law of one leaf on offset + step * (first, first + 1, ...): Q-masses, what is infinite, relative error of the masses."""

    offset: float
    first: int
    masses: np.ndarray
    infinite: float
    error: float


class Large(NamedTuple):
    """Cells of a leaf that were not rounded; its count, its place among the leaves, its Q-mass of finite losses."""

    cells: Cells
    uses: int
    place: int
    finite: float


class RoundedLeaves(NamedTuple):
    """All leaves with their counts, from above and from below; log of what is infinite and the error of logarithms in all; cells that
    were not rounded.
    """

    step: float
    above: list[tuple[Rounded, int]]
    below: list[tuple[Rounded, int]]
    log_infinite: float
    log_error: float
    large: tuple[Large, ...] = ()

    def without_one(self, place: int) -> RoundedLeaves:
        """One use of a leaf less."""
        above, below = ([(part, count - (i == place)) for i, (part, count) in enumerate(parts)] for parts in (self.above, self.below))
        return self._replace(above=[part for part in above if part[1]], below=[part for part in below if part[1]])


def rounded_leaves(composition: Composition, step: float, log_tail: float, floor: float = -math.inf,
                   large: np.ndarray | None = None) -> RoundedLeaves | None:
    """Of every leaf up to e^{log_tail} may become infinite, and losses below the floor become one.

    `large` are increasing losses: from about the first one on a leaf is not rounded, but cut at about these.

    None where a leaf has no cells, or too many.
    """
    if not 0.0 < step < math.inf:
        raise ValueError(f"`step` must be positive and finite. Found {step!r}.")
    parts = _leaves(composition)
    if len(parts) > _MOST_KINDS or composition.total > _MOST_USES or step > _LARGEST_STEP:
        return None
    above, below, infinite, log_error, apart = [], [], 0.0, 0.0, []
    for place, (pllr, count) in enumerate(parts):
        aligned = _aligned(pllr, step, log_tail, floor, large)
        if aligned is None:
            return None
        cells, offset = aligned
        jumps = np.zeros(len(cells.q), bool) if large is None else (cells.mean >= large[0]) & (cells.low < math.inf)
        if jumps.any():
            apart.append(Large(cells.chosen(jumps), count, place, 1.0 - pllr.infinite_mass))
        sides = _rounded(cells.chosen(~jumps), offset, step, -math.inf if jumps.any() else log_tail, floor)
        if sides is None:
            return None
        above.append((sides[0], count))
        below.append((sides[1], count))
        infinite += count * sides[0].infinite
        log_error += count * max(side.error for side in sides)
    log_infinite = math.log(infinite * (1.0 + 1e-9)) + log_error if infinite > 0.0 else -math.inf
    return RoundedLeaves(step, above, below, log_infinite, 1.01 * log_error, tuple(apart))


def _leaves(composition: Composition) -> list[tuple[Pllr, int]]:
    """The leaves and their counts; Gaussians are one."""
    leaves = [(pllr, count) for pllr, count in composition.counts.items() if pllr.gaussian_variance is None]
    if composition.gaussian_variance > 0.0:
        leaves.append((GaussianShift(math.sqrt(composition.gaussian_variance)), 1))
    return leaves


@functools.lru_cache(maxsize=256)
def _extent(pllr: Pllr, log_tail: float) -> tuple[float, float, float] | None:
    """The smallest and the largest loss that are kept, and about the heaviest one; None where there are no cells."""
    coarse = pllr.cells(_COARSE, log_tail)
    if coarse is None:
        return None
    kept = _kept(coarse, log_tail)
    if not kept.any():
        return None
    heaviest = int(np.argmax(np.where(kept, coarse.q, -1.0)))
    return float(coarse.low[kept].min()), float(coarse.high[kept].max()), float(coarse.mean[heaviest])


def _aligned(pllr: Pllr, step: float, log_tail: float, floor: float = -math.inf,
             large: np.ndarray | None = None) -> tuple[Cells, float] | None:
    """Cells between the lattice points and the middles between them; the offset, a loss in the bulk. None for too many cells."""
    extent = _extent(pllr, log_tail)
    if extent is None:
        return None
    low, high, middle = max(extent[0], min(floor, extent[2] - _NEAR * step)), *extent[1:]
    start = math.inf if large is None else float(large[0])
    cut = high > start
    if cut:
        high = max(start, middle)
    if not 2.0 * (high - low) / step < _MOST_CELLS:
        return None
    offset = _between_atoms(pllr, step)
    if offset is None:
        offset = _bulk(pllr, middle, (low, high), step, log_tail)
    first, last = math.floor(2.0 * (low - offset) / step), math.ceil(2.0 * (high - offset) / step)
    cuts = offset + 0.5 * step * np.arange(first, last + 1)
    if large is not None and cut:
        cuts = np.concatenate([cuts[cuts < start], large])
    cells = pllr.cells(cuts, log_tail)
    return None if cells is None else (cells, offset)


def _between_atoms(pllr: Pllr, step: float) -> float | None:
    """The offset with which the smallest and the largest loss are lattice points, where both are atoms and the step allows it."""
    if not (pllr.top_mass > 0.0 and pllr.bottom_mass > 0.0 and math.isfinite(pllr.supremum - pllr.infimum)):
        return None
    steps = (pllr.supremum - pllr.infimum) / step
    return _below_it(pllr.infimum, step) if abs(steps - round(steps)) < 0.01 * _HAIR else None


def _below_it(loss: float, step: float) -> float:
    """A hair below a loss, so that rounding down leaves it where it is."""
    return loss - _HAIR * step - 4.0 * _OUTWARD * abs(loss)


def _kept(cells: Cells, log_tail: float, floor: float = -math.inf) -> np.ndarray:
    """Cells whose losses have bounds; not those at the top that have a Q-mass of at most e^{log_tail} in all, or below the floor."""
    order = np.argsort(-cells.high, kind="stable")
    top = np.empty(len(order))
    top[order] = np.cumsum(_finite_masses(cells)[order])
    return np.isfinite(cells.low) & np.isfinite(cells.high) & (cells.high > floor) & ((top > math.exp(log_tail)) | (cells.high <= 0.0))


def _finite_masses(cells: Cells) -> np.ndarray:
    """Q-masses; losses that are infinite themselves are not in G: delta has them beside it."""
    return np.where(cells.low < math.inf, cells.q + cells.q_error, 0.0)


def _bulk(pllr: Pllr, middle: float, ends: tuple[float, float], step: float, log_tail: float) -> float:
    """The offset near the heaviest loss with which rounding down drops the least mass there. Any offset is valid."""
    low, high = (end if abs(end - middle) < _FAR * step else middle + side * _NEAR * step
                 for end, side in zip(ends, (-1.0, 1.0), strict=True))
    fine = pllr.cells(np.arange(low - step, high + step, step / _FINE), log_tail)
    if fine is None:
        return middle
    near = np.isfinite(fine.low) & np.isfinite(fine.high) & (fine.mean >= low) & (fine.mean <= high) & (fine.q > 0.0)
    losses, masses, best = fine.mean[near], fine.q[near], _below_it(middle, step)
    whole = low == ends[0], high == ends[1]
    for width in 0.5 / _CANDIDATES ** np.arange(3.0) if near.any() else ():
        candidates = np.append(best, best + step * np.linspace(-width, width, _CANDIDATES))
        best = float(candidates[np.argmin(_dropped(losses, masses, candidates, step, whole))])
    return best


def _dropped(losses: np.ndarray, masses: np.ndarray, offsets: np.ndarray, step: float, whole: tuple[bool, bool]) -> np.ndarray:
    """About the Q-mass that rounding down drops with these offsets; at an end of the losses where they really end there."""
    place = (losses - offsets[:, None]) / step
    k = np.floor(place)
    rest = step * (place - k)
    first = k.min(axis=1)
    count = int((k.max(axis=1) - first).max()) + 2
    half = (2 * (count * np.arange(len(offsets))[:, None] + (k - first[:, None]).astype(np.int64)) + (rest > 0.5 * step)).ravel()
    lifts, drops = (np.bincount(half, (masses * part).ravel(), 2 * count * len(offsets)).reshape(len(offsets), count, 2).T
                    for part in (step - rest, rest))
    shares = _shares(lifts, drops)
    dropped = ((1.0 - shares) * drops).sum(axis=0)
    dropped[1:] = np.abs(dropped[1:] - (shares * lifts).sum(axis=0)[:-1])
    return np.asarray(dropped[0 if whole[0] else 1:].sum(axis=0) if whole[1] else dropped[0 if whole[0] else 1:-2].sum(axis=0))


def _rounded(cells: Cells, offset: float, step: float, log_tail: float, floor: float = -math.inf) -> tuple[Rounded, Rounded] | None:
    """A leaf from above and from below; None where nothing is left of it."""
    bounded = _kept(cells, log_tail, floor)
    low, high, q, off = cells.low[bounded], cells.high[bounded], cells.q[bounded], cells.q_error[bounded]
    if not len(q) or not q.sum() > 0.0:
        return None
    mean = np.minimum((cells.mean + cells.error)[bounded], high)
    share = np.where(high > low, np.expm1(low - mean) / np.where(high > low, np.expm1(low - high), 1.0), 1.0)
    bottom = np.isfinite(cells.high) & (np.isinf(cells.low) | (cells.high <= floor))
    infinite = float(_finite_masses(cells)[~bounded & ~bottom].sum())
    lifted = np.maximum(cells.high[bottom], floor)
    losses, more = np.concatenate([low, high, lifted]), q + off
    masses = np.concatenate([more * (1.0 - share), more * share, (cells.q + cells.q_error)[bottom]])
    if not (losses.max() - min(losses.min(), offset)) / step < 2.0 * _MOST_CELLS:
        return None
    above = _above(losses, masses, offset, step)
    below = _below(np.maximum((cells.mean - cells.error)[bounded], low), np.maximum(q - off, 0.0), offset, step)
    return (Rounded(offset, *above[:2], infinite, EPSILON * (above[2] + 8.0)),
            Rounded(offset, *below[:2], 0.0, EPSILON * (below[2] + 8.0)))


def _above(losses: np.ndarray, masses: np.ndarray, offset: float, step: float) -> tuple[int, np.ndarray, int]:
    """Losses on the two lattice points around them: the number of the first point, masses, the most terms on one point."""
    gaps = losses - offset + _OUTWARD * (np.abs(losses) + abs(offset) + step)
    k = np.floor(gaps / step)
    inside = np.clip(gaps - k * step, 0.0, step)
    up = masses * np.minimum(-np.expm1(-inside) / -math.expm1(-step) * (1.0 + 4.0 * EPSILON), 1.0)
    first = int(k.min())
    place, count = (k - first).astype(np.int64), int(k.max()) - first + 2
    return first, np.bincount(place, masses - up, count) + np.bincount(place + 1, up, count), 2 * int(np.bincount(place).max())


def _below(losses: np.ndarray, masses: np.ndarray, offset: float, step: float) -> tuple[int, np.ndarray, int]:
    """The same from below, as the module's header has it."""
    gaps = losses - offset - _OUTWARD * (np.abs(losses) + abs(offset) + step)
    k = np.floor(gaps / step)
    rest = np.clip(gaps - k * step, 0.0, step)
    first = int(k.min())
    place, count = (k - first).astype(np.int64), int(k.max()) - first + 2
    half = 2 * place + (rest > 0.5 * step)  # lower halves are even

    def sums(values: np.ndarray) -> np.ndarray:
        return np.bincount(half, masses * values, 2 * count).reshape(count, 2).T

    lifts, drops, kept = sums(np.expm1(step - rest)), sums(-np.expm1(-rest)), sums(np.exp(-rest))
    terms = int(np.bincount(place).max())
    shares = _shares(lifts, drops)
    wanted = (shares * lifts).sum(axis=0)[:-1]
    allowed = ((1.0 - shares) * drops).sum(axis=0)[1:] * (1.0 - 4.0 * EPSILON * (terms + 8.0))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        shares[:, :-1] *= np.where(wanted > allowed, allowed / wanted, 1.0)
    lifted = (shares * kept).sum(axis=0)[:-1]
    result = kept.sum(axis=0)
    result[:-1] -= lifted
    result[1:] += lifted * math.exp(step) * (1.0 - 4.0 * EPSILON)
    return first, np.maximum(result, 0.0), 2 * terms


def _shares(lifts: np.ndarray, drops: np.ndarray) -> np.ndarray:
    """Proposed (r, s): first with equality if those of neighbours were the same; in the heaviest interval nearest neighbours; then,
    outwards from there, s of k + 1 from what k lifts, and r of k from what k + 1 drops: contractions, iterated for all k at once.
    """
    (x, u), (v, w) = lifts[:, :-1], drops[:, 1:]  # of k, and of k + 1
    number, heaviest = np.arange(lifts.shape[1]).reshape(-1, *[1] * (lifts.ndim - 2)), np.argmax(drops.sum(axis=0), axis=0)
    r, s = np.zeros_like(lifts[0]), np.ones_like(lifts[0])
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        r[:-1], s[:-1] = np.where(v > u, (v - u) / (x + v), 0.0), np.where(v > u, 1.0, (v + w) / (u + w))
        r, s = (np.where(number == heaviest, middle, _finite(part)) for part, middle in ((r, 0.0), (s, 1.0)))
        after, before = number[1:] > heaviest, number[:-1] < heaviest
        s_const, s_rate = 1.0 - (r[:-1] * x - (1.0 - r[1:]) * v) / w, u / w
        r_const, r_rate = (v + (1.0 - s[1:]) * w - s[:-1] * u) / x, v / x
    s_const, r_const = np.where(after, _finite(s_const), s[1:]), np.where(before, _finite(r_const), r[:-1])
    s_rate, r_rate = (np.where(where, _finite(part), 0.0) for part, where in ((s_rate, after), (r_rate, before)))
    for _ in range(_SWEEPS):
        s[1:] = np.minimum(np.maximum(s_const - s_rate * s[:-1], 0.0), 1.0)
        r[:-1] = np.minimum(np.maximum(r_const - r_rate * r[1:], 0.0), 1.0)
    shares = np.stack([r, s])
    shares[:, -1] = 0.0
    return shares


def _finite(values: np.ndarray) -> np.ndarray:
    return np.nan_to_num(values, nan=0.0, posinf=1e99, neginf=-1e99)
