"""Sums over all leaves of one direction that are extended by new leaves only, and that serve the other direction too.

With M(s) = log E_P[e^{sL}] summed over the leaves, K of the direction "remove" at z is M(z + 1). The pair of "add" is (Q, P), so its K
at z is M(-z): what "remove" has at -1 - z. One rule per leaf therefore serves both directions, and their characteristic functions
differ by the tilt and a conjugation (`Composition.mirrored`).

Everything that a contour looks at is a vector with one sum over the leaves in every entry, linear in the counts:

    Cgf        K, K', K'' and the rounding bound of K at some tilts
    Spectrum   the characteristic function on one contour, its envelope and its error bounds

Tilts and contours come from fixed grids, so that they do not depend on the order of composition and rarely change with one more leaf: a
vector is then extended by what was composed since. Vectors of a leaf are kept, too (`_row`): a leaf that is composed again and again
is evaluated once.

Rounding: entries are added up with their errors (`_two_sum`), which leaves one unit in the last place of the sum, however many leaves
there are; products with counts are paid for in `characteristic.log_characteristic` and `Block.cgf`.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Hashable, Iterable, Mapping
from typing import Any, NamedTuple, Protocol

import numpy as np

from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import EPSILON, Demand, RuleTooLargeError
from dp_edgeworth.sums.blocks import Block, blocks, grouped
from dp_edgeworth.sums.characteristic import log_characteristic
from dp_edgeworth.sums.envelope import LENGTHS, Envelope, nested_uniforms

_FEW_LEAVES, _MOST_NODES = 16, 4_000
_MOST_TALLIES, _KEPT_SIZE = 8, 5_000
_PLAIN_LOG_COUNT = 28.0  # up to e^28 compositions K without a control variate is good enough to plan with


class Sum(Hashable, Protocol):
    """What is added up: hashable parameters, and the vector of some leaves."""

    @property
    def demand(self) -> Demand: ...

    @property
    def size(self) -> int: ...

    def vector(self, leaves: Iterable[Block], variance: float) -> np.ndarray:
        """Of the leaves in the blocks and of Gaussians of this squared shift, counts included."""
        ...


@dataclasses.dataclass(frozen=True)
class Cgf:
    """Rows K, K', K'' and the rounding bound of K of "remove" at some tilts."""

    tilts: tuple[float, ...]
    demand: Demand

    @property
    def size(self) -> int:
        return 4 * len(self.tilts)

    def vector(self, leaves: Iterable[Block], variance: float) -> np.ndarray:
        tilts = np.array(self.tilts)
        result = np.zeros((4, len(tilts)))
        if variance > 0.0:
            result[0], result[1], result[2] = 0.5 * variance * tilts * (tilts + 1.0), variance * (tilts + 0.5), variance
            result[3] = 4.0 * EPSILON * np.abs(result[0])
        for block in leaves:
            members, nodes = block.rule.values.shape
            if members > 1 and nodes > _MOST_NODES:  # tilts that far up are rarely those that count
                raise RuleTooLargeError(f"{members} rules of {nodes} nodes")
            result += block.cgf(tilts) if self.demand.log_count <= _PLAIN_LOG_COUNT else block.accurate_cgf(tilts)
        return result.ravel()


class Spectral(NamedTuple):
    """K(c) with its error, the envelope, log phi(y_j) of all leaves but the Gaussians with their errors."""

    log_mgf: float
    log_mgf_error: float
    envelope: Envelope
    log_terms: np.ndarray
    errors: np.ndarray


@dataclasses.dataclass(frozen=True)
class Spectrum:
    """The characteristic functions at the frequencies j 2 pi / period, j <= last, of the laws tilted by `tilts` (of "remove").

    Gaussian leaves are left out: they are known in closed form.
    """

    tilts: tuple[float, ...]
    period: float
    last: int
    demand: Demand

    @property
    def size(self) -> int:
        return len(self.tilts) * (2 + len(LENGTHS) + 3 * (self.last + 1))

    def vector(self, leaves: Iterable[Block], variance: float) -> np.ndarray:
        tilts = np.array(self.tilts)
        total = np.zeros((len(tilts), self.size // len(tilts)))
        for block in leaves:
            transform = block.transforms(tilts)
            logs, errors = log_characteristic(block, transform, 2.0 * math.pi / self.period, self.last)
            scalars = [block.total(transform.log_mgf)[:, None], block.total(transform.rounding)[:, None]]
            uniforms = nested_uniforms(block, transform.log_mgf, tilts)
            total += np.concatenate([*scalars, uniforms, logs.real.T, logs.imag.T, errors.T], axis=1)
        return total.ravel()

    def read(self, vector: np.ndarray, variance: float, *, mirrored: bool) -> Spectral:
        """Of the first law or, mirrored, of the last one, whose characteristic function is conjugated."""
        vector = vector.reshape(len(self.tilts), -1)[-1 if mirrored else 0]
        masses, (modulus, angle, errors) = vector[2:2 + len(LENGTHS)], vector[2 + len(LENGTHS):].reshape(3, -1)
        return Spectral(float(vector[0]), float(vector[1]) + EPSILON * abs(float(vector[0])), Envelope(masses, variance),
                        modulus + 1j * (-angle if mirrored else angle), errors + EPSILON * (np.abs(modulus) + np.abs(angle)))


@functools.lru_cache(maxsize=64)
def _block(leaf: Pllr, demand: Demand) -> Block:
    return Block(np.ones(1), type(leaf).rules([leaf], demand))


def _evaluated(leaf: Pllr, key: Sum) -> np.ndarray:
    """The vector of one use of one leaf."""
    variance = leaf.gaussian_variance
    vector = key.vector([_block(leaf, key.demand)] if variance is None else [], variance or 0.0)
    vector.flags.writeable = False
    return vector


_kept = functools.lru_cache(maxsize=256)(_evaluated)


def _row(leaf: Pllr, key: Sum) -> np.ndarray:
    """The same, once, where it is not too long to be kept."""
    return _kept(leaf, key) if key.size <= _KEPT_SIZE else _evaluated(leaf, key)


def _two_sum(high: np.ndarray, low: np.ndarray, new: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """high + low + new with the rounding error of high + new kept in low (Knuth)."""
    total = high + new
    part = total - high
    return total, low + ((high - (total - part)) + (new - part))


class _Tally(NamedTuple):
    """A sum so far: the generations that are in it, and the two parts of its value."""

    generations: int
    high: np.ndarray
    low: np.ndarray


class LossSums:
    """How often every loss of one direction was composed, and sums over them. Answers do not depend on who asked before.

    >>> from dp_edgeworth.losses.gaussian_noise import GaussianShift
    >>> sums = LossSums()
    >>> sums.add(GaussianShift(0.5), 3)
    >>> sums.counts, sums.total
    ({GaussianShift(mu=0.5): 3}, 3)
    """

    def __init__(self, counts: Mapping[Pllr, int] | None = None):
        self.counts: dict[Pllr, int] = dict(counts or {})
        self.total = sum(self.counts.values())
        self._generations: list[dict[Pllr, int]] = [dict(self.counts)] if self.counts else []
        self._gaussians = {loss: count for loss, count in self.counts.items() if loss.gaussian_variance is not None}
        self._read = 0  # generations that some tally may have seen, and that must not change any more
        self._tallies: dict[Sum, _Tally] = {}
        self._each: dict[str, list[Any]] = {}

    def add(self, loss: Pllr, count: int) -> None:
        self.counts[loss] = self.counts.get(loss, 0) + count
        self.total += count
        if loss.gaussian_variance is not None:
            self._gaussians[loss] = self.counts[loss]
        if self._read == len(self._generations):
            self._generations.append({})
        new = self._generations[-1]
        new[loss] = new.get(loss, 0) + count

    def each(self, name: str) -> list[Any]:
        """A property of every loss, in the order of `counts`; looked up for new ones only."""
        known = self._each.setdefault(name, [])
        if len(known) < len(self.counts):
            known += [getattr(loss, name) for loss in itertools.islice(self.counts, len(known), None)]
        return known

    @property
    def all_gaussian(self) -> bool:
        """Whether there are unsampled Gaussians only."""
        return len(self._gaussians) == len(self.counts)

    @property
    def gaussian_variance(self) -> float:
        """The squared shift of all unsampled Gaussians together."""
        return math.fsum(count * (loss.gaussian_variance or 0.0) for loss, count in self._gaussians.items())

    def of(self, key: Sum) -> np.ndarray:
        """The vector of everything that was composed."""
        if len(self.counts) > _FEW_LEAVES:
            tally = self._extended(key)
            return tally.high + tally.low
        leaves = [(float(count), _row(leaf, key)) for leaf, count in self.counts.items()]
        high = leaves[0][0] * leaves[0][1]
        if len(leaves) == 1:
            return high
        low = np.zeros(len(high))
        for count, row in leaves[1:]:
            high, low = _two_sum(high, low, count * row)
        return high + low

    def _extended(self, key: Sum) -> _Tally:
        self._read = len(self._generations)
        old = self._tallies.get(key)
        if old is not None and old.generations == self._read:
            return old
        new: dict[Pllr, int] = {}
        for generation in self._generations[0 if old is None else old.generations:self._read]:
            for leaf, count in generation.items():
                new[leaf] = new.get(leaf, 0) + count
        if len(new) == 1:
            (leaf, count), = new.items()
            vector = float(count) * _row(leaf, key)
        else:
            variance, groups = grouped(new)
            vector = key.vector(blocks(groups, key.demand), variance)
        tally = _Tally(self._read, vector, np.zeros(len(vector))) if old is None else _Tally(
            self._read, *_two_sum(old.high, old.low, vector))
        if key.size <= _KEPT_SIZE:
            for stale in list(self._tallies)[:1 - _MOST_TALLIES]:
                self._tallies.pop(stale, None)
            self._tallies[key] = tally
        return tally
