"""Sums over all leaves of a composition, for both directions at once, that are extended by new leaves only.

With M(s) = log E_P[e^{sL}] summed over the leaves, K of the direction "remove" at z is M(z + 1). The pair of "add" is (Q, P), so its K
at z is M(-z): what "remove" has at -1 - z. One rule per leaf therefore serves both directions, and their characteristic functions
differ by the tilt and a conjugation.

Everything that `quick` looks at is a vector with one sum over the leaves in every entry, linear in the counts:

    Start      K, K', K'' at the tilt 0: how wide the sum is
    Ladder     the same at tilts 2^{k/3}: to place a contour
    Spectrum   the characteristic functions on one contour, their envelopes and error bounds

Which ladder and which contour is chosen depends on the sums alone and comes from fixed grids (powers of 2), so that it does not depend
on the order of composition, and rarely changes with one more leaf: a vector is then extended by what was composed since. Vectors of a
leaf are kept, too (`_row`), so a leaf that is composed again and again is evaluated once.

Rounding: entries are added up with their errors (`_two_sum`), which leaves one unit in the last place of the sum, however many leaves
there are; products with counts are paid for in `characteristic.log_characteristic` and `Block.cgf`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Hashable, Iterable, Mapping
from typing import NamedTuple, Protocol

import numpy as np

from dp_edgeworth.losses.operations import Reversed
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import EPSILON, Demand, RuleTooLargeError
from dp_edgeworth.sums.characteristic import log_characteristic
from dp_edgeworth.sums.composition import Block, blocks, grouped
from dp_edgeworth.sums.envelope import nested_uniforms

_FEW_LEAVES, _MOST_NODES = 16, 4_000
_MOST_TALLIES = 8
STEPS_PER_OCTAVE = 3  # of the ladder of tilts
# Lengths of the uniform laws of an envelope, in units of the period. Of shorter ones only the sum of squares is kept.
LENGTHS = 1.12 ** np.arange(-60.0, 1.0)
_ENVELOPE = len(LENGTHS) + 1


class Sum(Hashable, Protocol):
    """What is added up: hashable parameters, and the vector of some leaves."""

    @property
    def demand(self) -> Demand: ...

    def vector(self, leaves: Iterable[Block], variance: float) -> np.ndarray:
        """Of the leaves in the blocks and of Gaussians of this squared shift, counts included."""
        ...


def _cgf(leaves: Iterable[Block], variance: float, tilts: np.ndarray) -> np.ndarray:
    """Rows K, K', K'' and the rounding bound of K of "remove"; RuleTooLargeError where many leaves need many nodes each."""
    result = np.zeros((4, len(tilts)))
    if variance > 0.0:
        result[0] = 0.5 * variance * tilts * (tilts + 1.0)
        result[1] = variance * (tilts + 0.5)
        result[2] = variance
        result[3] = 4.0 * EPSILON * np.abs(result[0])
    for block in leaves:
        members, nodes = block.rule.values.shape
        if members > 1 and nodes > _MOST_NODES:  # tilts that far up are rarely those that count
            raise RuleTooLargeError(f"{members} rules of {nodes} nodes")
        result += block.cgf(tilts)
    return result


@dataclasses.dataclass(frozen=True)
class Start:
    """Mean and variance of either direction, and the variance of its Gaussians alone."""

    demand: Demand

    def vector(self, leaves: Iterable[Block], variance: float) -> np.ndarray:
        return np.append(_cgf(leaves, variance, np.array([0.0, -1.0])).ravel(), variance)


@dataclasses.dataclass(frozen=True)
class Ladder:
    """K, K', K'' and the rounding bound of K at tilts 2^{k/3}, first <= k <= last, of one or both directions.

    Tilts c are rounded to those with 1 + c a float, so that neither c + 1 nor -1 - c is rounded: K of "add" at c is that of "remove"
    at -1 - c, where an error of e^-36 would count beside a small c.
    """

    first: int
    last: int
    both: bool
    demand: Demand

    @property
    def tilts(self) -> np.ndarray:
        return (1.0 + np.exp2(np.arange(self.first, self.last + 1) / STEPS_PER_OCTAVE)) - 1.0

    def vector(self, leaves: Iterable[Block], variance: float) -> np.ndarray:
        c = self.tilts
        return _cgf(leaves, variance, np.append(c, -1.0 - c) if self.both else c).ravel()

    def read(self, vector: np.ndarray) -> np.ndarray:
        """Shape (4, directions, tilts); K' has the sign of its direction."""
        rows = vector.reshape(4, 2 if self.both else 1, -1)
        return rows * np.array([1.0, -1.0])[:, None] ** (np.arange(4) == 1)[:, None, None] if self.both else rows


class Spectral(NamedTuple):
    """One direction of a `Spectrum`: K(c) with its error, masses of uniform laws by length, log phi(y_j) with their errors.

    masses[0] is the sum of mass times length^2, in periods, of the laws shorter than `LENGTHS`.
    """

    log_mgf: float
    log_mgf_error: float
    masses: np.ndarray
    log_terms: np.ndarray
    errors: np.ndarray


@dataclasses.dataclass(frozen=True)
class Spectrum:
    """Characteristic functions at the frequencies j 2 pi / period, j <= last, of laws tilted by one tilt per direction (1: "add").

    Gaussian leaves are left out: they are known in closed form.
    """

    directions: tuple[int, ...]
    tilts: tuple[float, ...]
    period: float
    last: int
    demand: Demand

    def vector(self, leaves: Iterable[Block], variance: float) -> np.ndarray:
        total = np.zeros((len(self.tilts), 2 + _ENVELOPE + 3 * (self.last + 1)))
        signed = np.array([-1.0 - c if added else c for added, c in zip(self.directions, self.tilts, strict=True)])  # of "remove"
        for block in leaves:
            transform = block.transforms(signed)
            logs, errors = log_characteristic(block, transform, 2.0 * math.pi / self.period, self.last, uniform=True)
            scalars = np.stack([block.total(transform.log_mgf), block.total(transform.rounding)], axis=1)
            masses = self._masses(nested_uniforms(block, transform.log_mgf, signed))
            total += np.concatenate([scalars, masses, logs.real, logs.imag, errors], axis=1)
        return total.ravel()

    def _masses(self, laws: tuple[np.ndarray, np.ndarray] | None) -> np.ndarray:
        """Masses of uniform laws by length, rounded down to `LENGTHS` periods."""
        rows = len(self.tilts)
        if laws is None:
            return np.zeros((rows, _ENVELOPE))
        masses, lengths = laws[0], laws[1] / self.period
        place = np.searchsorted(LENGTHS, lengths, side="right")
        masses = np.where(place > 0, masses, masses * lengths * lengths)
        place += _ENVELOPE * np.arange(rows)[:, None]
        return np.bincount(place.ravel(), weights=masses.ravel(), minlength=rows * _ENVELOPE).reshape(rows, _ENVELOPE)

    def read(self, vector: np.ndarray) -> list[Spectral]:
        found = []
        for added, row in zip(self.directions, vector.reshape(len(self.tilts), -1), strict=True):
            masses, (modulus, angle, errors) = row[2:2 + _ENVELOPE], row[2 + _ENVELOPE:].reshape(3, -1)
            found.append(Spectral(float(row[0]), float(row[1]) + EPSILON * abs(float(row[0])), masses,
                                  modulus + 1j * (-angle if added else angle),
                                  errors + EPSILON * (np.abs(modulus) + np.abs(angle))))
        return found


@functools.lru_cache(maxsize=256)
def _row(leaf: Pllr, key: Sum) -> np.ndarray:
    """The vector of one leaf, once."""
    variance = leaf.gaussian_variance
    leaves = [Block(np.ones(1), type(leaf).rules([leaf], key.demand))] if variance is None else []
    vector = key.vector(leaves, variance or 0.0)
    vector.flags.writeable = False
    return vector


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


class LeafSums:
    """What has been composed, as sums. State, to be held by an accountant; answers do not depend on who asked before.

    Args:
      counts: how often every loss of the direction "remove" occurs; shared with the accountant, which changes it.

    Attributes:
      usable: whether every leaf is exact, has finite losses only, and is the mirror image of its other direction.
      both: whether some leaf differs from its mirror image, so that there are two directions.
    """

    def __init__(self, counts: Mapping[Pllr, int]):
        self.counts = counts
        self.usable, self.both, self.smooth, self.total = True, False, False, 0
        self._generations: list[dict[Pllr, int]] = []
        self._read = 0  # generations that some tally may have seen, and that must not change any more
        self._tallies: dict[Sum, _Tally] = {}

    def add(self, remove: Pllr, add: Pllr, count: int) -> None:
        """To be called before the counts are changed."""
        if remove not in self.counts:
            mirrored = add is remove
            self.both |= not mirrored
            self.smooth |= not remove.atomic
            self.usable &= ((mirrored or (isinstance(add, Reversed) and add.inner is remove)) and remove.dominated is remove
                            and not (remove.infinite_mass or remove.lost_mass or remove.moments_only))
        self.total += count
        if self._read == len(self._generations):
            self._generations.append({})
        new = self._generations[-1]
        new[remove] = new.get(remove, 0) + count

    def of(self, key: Sum) -> np.ndarray:
        """The vector of everything that was composed."""
        if len(self.counts) > _FEW_LEAVES:
            tally = self._extended(key)
            return tally.high + tally.low
        leaves = [(float(count), _row(leaf, key)) for leaf, count in self.counts.items()]
        high, low = leaves[0][0] * leaves[0][1], np.zeros(len(leaves[0][1]))
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
        for stale in list(self._tallies)[:1 - _MOST_TALLIES]:
            self._tallies.pop(stale, None)
        self._tallies[key] = tally
        return tally
