"""Certified curves of the composition that runs inside another event."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping

import numpy as np

from dp_edgeworth.losses.bracket import Bracket, Leaf, folded, members, split
from dp_edgeworth.losses.mechanisms.registry import NO_LOSS, NON_PRIVATE, Directions
from dp_edgeworth.losses.operations import reverse
from dp_edgeworth.losses.renyi_curves import RenyiCurve, SumOfCurves, Tabulated
from dp_edgeworth.profiles.random_allocation import composable
from dp_edgeworth.search import answers
from dp_edgeworth.search.answers import Memory
from dp_edgeworth.sums.composition import Composition

_USUAL = np.concatenate([np.arange(1, 100) / 10.0, np.arange(10.0, 63.0), [127.0, 255.0, 511.0, 1023.0]])  # as RdpAccountant's
ORDERS = np.union1d(np.geomspace(0.01, 2000.0, 300), _USUAL)  # every order is valid; with these, none of its bounds is smaller
_TOLERANCE = 1e-6


def certified_deltas(composition: Composition, epsilons: np.ndarray, memory: Memory | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Lower and upper bounds of delta at epsilons >= 0, of a composition that is taken for exact."""
    if not len(epsilons):
        return np.zeros(0), np.zeros(0)
    found = answers.delta_bounds([composition], epsilons, _TOLERANCE, memory)
    return found.lower, found.upper


@dataclasses.dataclass(frozen=True)
class Curve:
    """delta(eps), eps >= 0, of a composition in one order of its laws.

    Attributes:
      above: compositions that dominate the true one, each.
      below: a composition that the true one dominates.
      renyi: an upper bound of its K, and of that of its reverse; None where losses are infinite.
      memory: what questions about them leave for the next ones.
    """

    above: tuple[Composition, ...]
    below: Composition
    renyi: RenyiCurve | None
    memory: Memory = dataclasses.field(default_factory=Memory, compare=False, repr=False)

    @property
    def exact(self) -> bool:
        return self.above == (self.below,)

    def upper(self, epsilons: np.ndarray) -> np.ndarray:
        """Upper bounds."""
        return np.minimum.reduce([certified_deltas(one, epsilons, self.memory)[1] for one in self.above])

    def bracket(self, epsilons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of `below`."""
        return certified_deltas(self.below, epsilons, self.memory)


@dataclasses.dataclass(frozen=True)
class TwoSided:
    """Both orders of the laws of one direction: the given one, and the reversed one, which is its curve at negative epsilons."""

    forward: Curve
    backward: Curve


Counts = tuple[tuple[Directions, int], ...]


def both_directions(counts: Counts) -> tuple[TwoSided, TwoSided]:
    """The curves of "remove" and of "add"; one object for both where these are each other's mirror image."""
    remove, add = ({}, {})  # type: tuple[dict[Leaf, int], dict[Leaf, int]]
    for pairs, count in counts:
        for table, pair in zip((remove, add), pairs, strict=True):
            table[pair] = table.get(pair, 0) + count
    if {reverse(pair): count for pair, count in remove.items()} == add:
        both = _two_sided(remove)
        return both, TwoSided(both.backward, both.forward)
    return _two_sided(remove), _two_sided(add)


def _two_sided(table: dict[Leaf, int]) -> TwoSided:
    return TwoSided(_curve(table), _curve({reverse(pair): count for pair, count in table.items()}))


def _curve(table: dict[Leaf, int]) -> Curve:
    table = composable(table)
    either = any(isinstance(leaf, Bracket) and leaf.curve is not None and leaf.pair is not None for leaf in table)
    uppers = tuple(Composition(folded(table, use_pairs)) for use_pairs in ((True, False) if either else (True,)))
    below = members(table)
    return Curve(uppers, uppers[0] if below == uppers[0].counts else Composition(below), renyi_curve(table))


def renyi_curve(table: Mapping[Leaf, int]) -> RenyiCurve | None:
    """One curve for everything, leaves that have none by their own K; None where these have infinite losses."""
    rest, curves = split(table, use_pairs=False)
    if any(leaf.infinite_mass for leaf in rest):
        return None
    if rest:
        found = Composition(rest).cgf(ORDERS)
        curves[Tabulated.of(ORDERS, found[0] + found[3])] = 1
    return SumOfCurves.of(curves)


def contents(found: Iterable[tuple[Directions, int]]) -> Counts | None:
    """Equal leaves merged, those without loss left out, in an order of their own; None where one is not private."""
    counts: dict[Directions, int] = {}
    for pairs, count in found:
        if pairs is NON_PRIVATE:
            return None
        if pairs is not NO_LOSS:
            counts[pairs] = counts.get(pairs, 0) + count
    return tuple(sorted(counts.items(), key=repr))
