"""Theorem: delta(epsilon) by convolution on a grid that is fine near the bulk and geometric in the tails.

Contours resolve a composition with one step for all losses. A few uses of rarely sampled noise have losses of 1e-8 and of 10 that
matter alike; a geometric grid holds them all in a thousand points, and all terms are positive, so nothing cancels.

By the order of `rounding.py` cells (`cells.py`) become points, points are convolved and put back on a grid after every step, once
rounded up and once rounded down. On a bin [a, b] with Q-mass q, where V is the sum of its masses times 1 - e^{a - l}, P-mass and Q-mass
stay the same if one puts

    up      V / (1 - e^{a - b}) of it at b, the rest at a;
    down    all of it at a - log(1 - V/q).

Both are off by the second order of the width of a bin, the upper one twice as far, which is what `estimate` makes use of. Charged:

    tails      cells without a bound of their loss, and pairs of points too light to be looked at: their Q-mass on the upper side.
    rounding   every loss is moved outwards by 1e-14, 8 ulp per unit of arsinh (how far the number of its bin is off) and, for sums of n
               terms, 4 n ulp of a bin, relative to all that was subtracted; masses: (1 + n ulp) for sums of n terms, and
               `Cells.q_error` and `p_error` on each side. All that `up` needs, whose H adds multiples of q and V;
               for `down` V/q is lowered by 2 (n + 4) ulp first, as 1 - V/q cancels in wide bins.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from dp_edgeworth.losses.cells import Cells
from dp_edgeworth.losses.gaussian_noise import GaussianShift
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.proofs.curve import Curve, LogBounds
from dp_edgeworth.sums.composition import Composition

COARSEST, _FINEST = 0.08, 1e-3
_MOST_BINS = 500_000
_AT_ONCE = 500_000
_MOST_USES, _MOST_KINDS = 10**6, 6
LEAST_LOG_DELTA = -600.0
_NEAR = 0.02  # of epsilon: losses that need not be told apart, once they are all added up
_LIGHT = 1e-7  # of delta may go to pairs that are not looked at, and as much to unbounded cells
_DEEP, _LONGER = 2.0, 4.0
_ULP = 2.3e-16
_MOST_RANGE = 600.0  # of losses whose exponentials are floats


class Points(NamedTuple):
    """A measure: losses, their Q-masses, Q-mass that was moved to infinity, the largest number of terms in one mass."""

    losses: np.ndarray
    masses: np.ndarray
    infinite: float = 0.0
    terms: int = 1


@dataclasses.dataclass(frozen=True)
class Convolution(Curve):
    """A composition rounded up and rounded down. `log_error`: of all masses."""

    upper: Points
    lower: Points
    log_error: float
    tilt: float
    pairs: int

    theorem = "convolution"

    @property
    def size(self) -> int:
        return self.pairs

    @functools.cached_property
    def _tables(self) -> tuple[HockeyStick, HockeyStick]:
        return HockeyStick(self.upper), HockeyStick(self.lower)

    def bounds(self, epsilons: np.ndarray) -> LogBounds:
        """log H at every epsilon; the estimate weights both ends so that their errors of second order cancel."""
        eps = np.atleast_1d(np.asarray(epsilons, float))
        (above, _), (below, slope) = (table(eps) for table in self._tables)
        with np.errstate(divide="ignore", invalid="ignore"):
            upper, lower = np.log(above) + self.log_error, np.log(below) - self.log_error
            middle = np.log((2.0 * below + above) / 3.0)
            rate = np.where(below > 0.0, -slope / below, -self.tilt)
        return LogBounds(lower, np.clip(middle, lower, upper), upper, np.where(rate < 0.0, rate, -self.tilt))


class HockeyStick:
    """H(eps) of a measure at any eps, from sums of positive terms over sorted losses l_1 < l_2 < ...

    With M_k the mass from l_k on, H(eps) = int_eps^inf e^{eps - l} M(l) dl: between two losses M is constant, so

        e^{-eps} H(eps) = M_k (e^{-eps} - e^{-l_k}) + sum_{j > k} M_j (e^{-l_{j-1}} - e^{-l_j}),      l_{k-1} <= eps < l_k.

    Where losses are more than 600 apart, so that these would be no floats, H is added up term by term.
    """

    def __init__(self, points: Points):
        order = np.argsort(points.losses)
        losses, masses = points.losses[order], points.masses[order]
        self._infinite, self._losses, self._masses, self._top = points.infinite, losses, masses, float(losses[-1])
        self._mass = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
        self._sums: np.ndarray | None = None
        if self._top - losses[0] <= _MOST_RANGE:
            terms = self._mass[1:-1] * np.exp(self._top - losses[1:]) * np.expm1(np.diff(losses))
            self._sums = np.concatenate([np.cumsum(terms[::-1])[::-1], [0.0, 0.0]])

    def __call__(self, eps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """H and -H' at every epsilon."""
        k = np.searchsorted(self._losses, eps, side="right")
        inside = k < len(self._losses)
        gap = np.where(inside, self._losses[np.minimum(k, len(self._losses) - 1)] - eps, 0.0)
        if self._sums is None:
            finite = np.array([float(-(self._masses @ np.expm1(np.minimum(e - self._losses, 0.0)))) for e in eps])
        else:
            with np.errstate(under="ignore"):
                rest = self._sums[k] * np.exp(np.minimum(eps - self._top, 0.0))
            finite = np.minimum(self._mass[k] * -np.expm1(-gap) + np.where(inside, rest, 0.0), self._mass[k])
        return finite + self._infinite, np.maximum(self._mass[k] - finite, 0.0)


class TooManyPairsError(Exception):
    """The step is too fine for the work, or the memory, that is allowed."""


class NothingLeftError(Exception):
    """All losses are infinite, or all pairs of points are light."""


class _Side:
    """One of the two roundings of a composition, at one step. Counts what it costs."""

    def __init__(self, *, up: bool, step: float, epsilon: float, uses: int, light: float, most_pairs: float):
        """`light`: the Q-mass that each of all uses may lose to pairs that are not looked at."""
        self.up, self.step, self.epsilon, self.uses, self.light, self.most_pairs = up, step, epsilon, uses, light, most_pairs
        self.pairs, self.log_error = 0, 0.0

    def points(self, leaf: Cells) -> Points:
        """The cells as points: at both their bounds, or at their means."""
        bounded = np.isfinite(leaf.low) & np.isfinite(leaf.high)
        low, high, off = leaf.low[bounded], leaf.high[bounded], leaf.q_error[bounded]
        q = leaf.q[bounded] + off if self.up else np.maximum(leaf.q[bounded] - off, 0.0)
        if not self.up:
            return self._regridded(Points(np.maximum((leaf.mean - leaf.error)[bounded], low), q))
        mean = np.minimum((leaf.mean + leaf.error)[bounded], high)
        share = np.where(high > low, np.expm1(low - mean) / np.where(high > low, np.expm1(low - high), 1.0), 1.0)
        bottom = np.isinf(leaf.low) & np.isfinite(leaf.high)
        lifted = (leaf.p + leaf.p_error)[bottom] * np.exp(np.minimum(leaf.high[bottom], 700.0))
        infinite = float((leaf.q + leaf.q_error)[np.isinf(leaf.high) & np.isfinite(leaf.low)].sum())
        return self._regridded(Points(np.concatenate([low, high, leaf.high[bottom]]),
                                      np.concatenate([q * (1.0 - share), q * share, lifted]), infinite))

    def composed(self, parts: list[tuple[Cells, int]]) -> Points:
        """All leaves, each with its count."""
        total, done = None, 0
        for leaf, count in parts:
            own, done = self.power(self.points(leaf), count), done + count
            total = own if total is None else self.product(total, own, done)
        assert total is not None
        return total

    def power(self, base: Points, count: int) -> Points:
        """`count` convolutions of a measure with itself, by repeated squaring."""
        result, done, size = None, 0, 1
        while True:
            if count & size:
                done += size
                result = base if result is None else self.product(result, base, done)
            if 2 * size > count:
                assert result is not None
                return result
            size *= 2
            base = self.product(base, base, size)

    def product(self, a: Points, b: Points, uses: int) -> Points:
        """a * b, back on a grid; pairs of points that are too light go to infinity, or away."""
        order = np.argsort(-b.masses)
        losses, masses = b.losses[order], b.masses[order]
        mine, weights = (losses, masses) if a is b else (a.losses, a.masses)
        counts, ignored = _heavy_pairs(weights, masses, self.light * uses)
        first = np.arange(len(counts)) if a is b else np.zeros(len(counts), np.int64)  # a square: every pair once
        if a is b:  # what is ignored is what is not kept, whichever of the two orders rounding has found light
            rest = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
            ignored = float(masses @ (2.0 * rest[np.maximum(counts, first + 1)] + np.where(counts <= first, masses, 0.0)))
        counts = np.maximum(counts - first, 0)
        ends = np.cumsum(counts)
        self.pairs += int(ends[-1])
        if self.pairs > self.most_pairs:
            raise TooManyPairsError

        def sums() -> Iterator[tuple[np.ndarray, np.ndarray]]:
            for rows in np.split(np.arange(len(counts)), np.searchsorted(ends, np.arange(_AT_ONCE, int(ends[-1]), _AT_ONCE))):
                if not len(rows):
                    continue
                number, begin = counts[rows], first[rows]
                i = np.repeat(rows, number)
                j = np.arange(len(i)) - np.repeat(np.cumsum(number) - number - begin, number)
                joint = weights[i] * masses[j]
                yield mine[i] + losses[j], np.where(i == j, joint, 2.0 * joint) if a is b else joint

        infinite = a.infinite * (b.masses.sum() + b.infinite) + b.infinite * a.masses.sum() + ignored
        span = mine.min() + losses.min(), mine.max() + losses.max()
        return self._on_grid(sums(), span, _middle(a) + _middle(b), uses, max(a.terms, b.terms),
                             infinite * (1.0 + 1e-12) if self.up else 0.0)

    def _on_grid(self, chunks: Iterable[tuple[np.ndarray, np.ndarray]], span: tuple[float, float], middle: np.ndarray, uses: int,
                 terms: int, infinite: float) -> Points:
        """Losses and masses on the bins between centre + scale sinh(step k) (`_bins`), as the theorem has it."""
        centre = float(middle[0])  # and bins there that are wider than its rounding
        scale = max(math.sqrt(middle[1]), _NEAR * self.epsilon * math.sqrt(uses / self.uses), 1e-13 / self.step * abs(centre), 1e-290)
        ends = np.array(span)
        blur = 1e-14 + _ULP * (4.0 * terms * self.step + 8.0 * float(np.abs(np.arcsinh((ends - centre) / scale)).max()))
        ends = ends + np.array([-1.0, 1.0]) * blur * (np.abs(ends) + (abs(centre) + scale))
        first, last = (math.floor(end) for end in _bins(ends, centre, scale, self.step))
        first, count = first - 1, last - first + 3
        if count > _MOST_BINS:
            raise TooManyPairsError
        edges = _edges(np.arange(first, first + count + 1), centre, scale, self.step)
        q, v, numbers = np.zeros(count), np.zeros(count), np.zeros(count, np.int64)
        for losses, masses in chunks:
            shift = blur * (np.abs(losses) + (abs(centre) + scale))
            losses = losses + shift if self.up else losses - shift
            bins = np.floor(_bins(losses, centre, scale, self.step)).astype(np.int64) - first
            numbers += np.bincount(bins, minlength=count)
            q += np.bincount(bins, masses, count)
            v += np.bincount(bins, masses * -np.expm1(np.minimum(edges[bins] - losses, 0.0)), count)
        if not q.any():
            raise NothingLeftError
        terms = int(numbers.max())
        self.log_error += 2.0 * _ULP * (terms + 4) * self.uses / uses
        if self.up:
            share = np.minimum(v / -np.expm1(edges[:-1] - edges[1:]), q)
            masses = np.append(q - share, 0.0) + np.append(0.0, share)
            return Points(edges[masses > 0.0], masses[masses > 0.0], infinite, terms)
        kept = q > 0.0
        shares = v[kept] / q[kept] * (1.0 - 2.0 * _ULP * (numbers[kept] + 4))
        means = edges[:-1][kept] - np.log1p(-np.minimum(shares, 1.0 - 1e-15))
        return Points(np.minimum(means, edges[1:][kept]), q[kept], 0.0, terms)

    def _regridded(self, points: Points) -> Points:
        if not len(points.losses):
            raise NothingLeftError
        span = float(points.losses.min()), float(points.losses.max())
        return self._on_grid([(points.losses, points.masses)], span, _middle(points), 1, 1, points.infinite)


@np.errstate(over="ignore")  # of thresholds for weights that are hardly floats
def _heavy_pairs(weights: np.ndarray, masses: np.ndarray, light: float) -> tuple[np.ndarray, float]:
    """How many of the masses, which fall, to pair with each weight so that all other pairs weigh `light` at most; what they weigh."""
    rest = np.append(np.cumsum(masses[::-1])[::-1], 0.0)
    threshold, factor = light / (float(len(weights)) * len(masses)), 1e4  # surely light enough
    counts = np.searchsorted(-masses, -threshold / weights, side="right")
    while factor > 3.0:
        more = np.searchsorted(-masses, -threshold * factor / weights, side="right")
        if more.any() and float(weights @ rest[more]) <= light:
            threshold, counts = threshold * factor, more
        else:
            factor = math.sqrt(factor)
    return counts, float(weights @ rest[counts])


def _bins(losses: np.ndarray, centre: float, scale: float, step: float) -> np.ndarray:
    """Numbers of bins, not rounded down: (loss - centre) / scale = sinh(step number), far below the centre with longer steps."""
    numbers = np.arcsinh((losses - centre) / scale)
    return np.where(numbers < -_DEEP, (numbers + _DEEP) / _LONGER - _DEEP, numbers) / step


def _edges(numbers: np.ndarray, centre: float, scale: float, step: float) -> np.ndarray:
    """The inverse."""
    steps = step * numbers
    return centre + scale * np.sinh(np.where(steps < -_DEEP, (steps + _DEEP) * _LONGER - _DEEP, steps))


def _middle(points: Points) -> np.ndarray:
    """The median and the square of the distance between two quantiles, which add up like means and variances, roughly."""
    order = np.argsort(points.losses)
    sums = np.cumsum(points.masses[order])
    low, middle, high = points.losses[order][np.searchsorted(sums, np.array([0.05, 0.5, 0.95]) * sums[-1])]
    return np.array([middle, (high - low) ** 2])


def _leaves(composition: Composition) -> Iterator[tuple[Pllr, int]]:
    """The leaves and their counts; Gaussians are one."""
    if composition.gaussian_variance > 0.0:
        yield GaussianShift(math.sqrt(composition.gaussian_variance)), 1
    for pllr, count in composition.counts.items():
        if pllr.gaussian_variance is None:
            yield pllr, count


def convolved(composition: Composition, log_delta: float, epsilon: float, step: float, most_pairs: float) -> Convolution | None:
    """Both roundings at one step, for deltas of about e^{log_delta} and epsilons not much below `epsilon`.

    None where a leaf has no cells, there are too many, or they would be more than `most_pairs` pairs of points, or nothing is finite.
    """
    leaves = list(_leaves(composition))
    uses = sum(count for _, count in leaves)
    if not 0 < uses <= _MOST_USES or len(leaves) > _MOST_KINDS or log_delta < LEAST_LOG_DELTA or step < _FINEST:
        return None
    log_tail = log_delta + math.log(_LIGHT / (4.0 * uses))
    steps = 2.0 * sum(count.bit_length() for _, count in leaves)
    parts: list[tuple[Cells, int]] = []
    for pllr, count in leaves:
        part = pllr.cells(step, log_tail)
        if part is None:
            return None
        parts.append((part, count))
    sides = [_Side(up=up, step=step, epsilon=epsilon, uses=uses, light=math.exp(log_delta) * _LIGHT / (steps * uses),
                   most_pairs=most_pairs) for up in (True, False)]
    try:
        upper, lower = (side.composed(parts) for side in sides)
    except (TooManyPairsError, NothingLeftError):
        return None
    log_error = max(side.log_error for side in sides)
    log_error += 4.0 * _ULP * (8 + len(upper.losses) + len(lower.losses))  # of H itself
    return Convolution(upper, lower, 1.01 * log_error, 1.0 / max(epsilon, 1e-300), sum(side.pairs for side in sides))
