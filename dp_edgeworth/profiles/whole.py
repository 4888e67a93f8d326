"""From what an accountant has composed to proved answers: losses that are known by a curve become what they are in this composition.

    epochs of random allocation   alone the curve itself, otherwise pairs above and below it (`random_allocation`)
    classes of mechanisms         intervals of the worst mechanism that the events allow (`bracket`)
    everything else               as it is: straight to `search.answers`

Upper ends with classes: with the pairs of these leaves; with their Renyi curves in one pair; and the conversion of one curve for
everything, to which leaves that have none add their own K(c) (at most what Renyi accounting proves). The smallest one holds.
Lower ends: mechanisms that the events allow; the largest one holds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from dp_edgeworth.losses.bracket import Bracket, Leaf, folded, members
from dp_edgeworth.losses.random_allocation import RandomAllocationLoss
from dp_edgeworth.losses.renyi_curves import RenyiCurve
from dp_edgeworth.profiles import random_allocation
from dp_edgeworth.profiles.inner_curves import renyi_curve
from dp_edgeworth.proofs import renyi_bounds
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.proofs.tradeoff import Polygons
from dp_edgeworth.search import answers
from dp_edgeworth.search.answers import Memory
from dp_edgeworth.sums.composition import Composition
from dp_edgeworth.sums.pair_sums import PairSums

Table = Mapping[Leaf, int]
_Ask = Callable[[list[Composition]], Proved]
_Convert = Callable[[RenyiCurve], Proved]


def epsilon_bounds(pairs: PairSums, deltas: np.ndarray, tolerance: float, memory: Memory | None = None) -> Proved:
    """Intervals of epsilon at these deltas."""
    return _bounds(pairs, lambda directions: answers.epsilon_bounds(directions, deltas, tolerance, memory),
                   lambda curve: renyi_bounds.epsilon_bounds(curve, deltas)).falling(deltas)


def delta_bounds(pairs: PairSums, epsilons: np.ndarray, tolerance: float, memory: Memory | None = None) -> Proved:
    """Intervals of delta at these epsilons, which are not negative."""
    return _bounds(pairs, lambda directions: answers.delta_bounds(directions, epsilons, tolerance, memory),
                   lambda curve: renyi_bounds.delta_bounds(curve, epsilons)).falling(epsilons)


def reach(pairs: PairSums, delta: float) -> float:
    """About the epsilon at a delta, to know how far to look."""
    return answers.reach(compositions(pairs, exact=False), delta)


def tables(pairs: PairSums, high: float, memory: Memory) -> Iterable[Polygons]:
    """Lower bounds of delta up to an epsilon, from what earlier questions left in the memory."""
    return [] if pairs.has_classes else answers.tables(_known(pairs, exact=True).directions(), high, memory)


def most(pairs: PairSums, epsilons: np.ndarray, memory: Memory) -> np.ndarray:
    """Upper bounds of delta, from what earlier questions left in the memory."""
    return answers.most(_known(pairs, exact=True).directions(), epsilons, memory)


def compositions(pairs: PairSums, *, exact: bool = True) -> list[Composition]:
    """One composition per direction, a single one where both are the same; `exact`: an epoch alone is left to its curve."""
    return _known(pairs, exact=exact).directions()


def _known(pairs: PairSums, *, exact: bool) -> PairSums:
    """The same with epochs of random allocation replaced by their pairs; where it is one epoch and nothing else, `exact` leaves it."""
    if not _allocates(pairs) or (exact and list(pairs.counts.values()) == [1]):
        return pairs
    return _replaced(pairs, random_allocation.among_others)


def _allocates(pairs: PairSums) -> bool:
    return RandomAllocationLoss in pairs.kinds


def _replaced(pairs: PairSums, replacement: Callable[[Leaf], Leaf]) -> PairSums:
    found = PairSums()
    for (remove, add), count in pairs.counts.items():
        found.add(replacement(remove), replacement(add), count)
    return found


def _bounds(pairs: PairSums, ask: _Ask, convert: _Convert) -> Proved:
    """Where the pairs of epochs say nothing, as of deltas that their losses beyond all nodes pass: what holds without amplification."""
    found = _with_pairs(_known(pairs, exact=True), ask, convert)
    endless = np.flatnonzero(np.isinf(found.upper))
    if not len(endless) or not _allocates(pairs):
        return found
    unamplified = _with_pairs(_replaced(pairs, random_allocation.unamplified), ask, convert)
    return found.met(unamplified.at_most().at(endless), endless)


def _with_pairs(pairs: PairSums, ask: _Ask, convert: _Convert) -> Proved:
    if not pairs.has_classes:
        return ask(pairs.directions())
    tables = pairs.tables()
    found = ask([composition for table in tables for composition in _directions(table)])
    if any(leaf.curve is not None and leaf.pair is not None for leaf in _brackets(tables[0])) and not _attained(tables[0]):
        found = ask([_of_worst(table, use_pairs=False) for table in tables]).met(found)
    curved = any(leaf.curve is not None for table in tables for leaf in _brackets(table))
    curves = [renyi_curve(table) for table in tables] if curved else []  # of both directions, whichever has classes
    if curves and None not in curves:
        ends = [convert(curve) for curve in curves if curve is not None]
        found = ends[0].larger(ends[-1]).met(found)
    return found.between(found)  # rounding may make the ends cross


def _directions(table: Table) -> list[Composition]:
    """The direction, and more compositions whose supremum is no larger: of other members of the classes."""
    if _attained(table):
        return [Composition(folded(table))]
    more = range(1, max((len(leaf.members) for leaf in _brackets(table)), default=1))
    return [_of_worst(table), *(Composition(members(table, number)) for number in more)]


def _of_worst(table: Table, use_pairs: bool = True) -> Composition:
    return Composition(folded(table, use_pairs), below=Composition(members(table)))


def _brackets(table: Table) -> list[Bracket]:
    return [leaf for leaf in table if isinstance(leaf, Bracket)]


def _attained(table: Table) -> bool:
    """Whether there is one use of one class, whose pair is its worst case at every epsilon."""
    (leaf, count), *others = table.items()
    return not others and count == 1 and isinstance(leaf, Bracket) and leaf.attained
