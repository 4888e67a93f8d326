"""From what an accountant has composed to proved answers: losses that are known by a curve become what they are in this composition.

    epochs of random allocation   alone the curve itself, otherwise pairs above and below it (`random_allocation`)
    classes of mechanisms         their Renyi curves in one pair, members of the classes from below (`worst_case`)
    everything else               as it is: straight to `search.answers`
"""

from __future__ import annotations

import numpy as np

from dp_edgeworth.losses.random_allocation import RandomAllocationLoss
from dp_edgeworth.profiles import random_allocation, worst_case
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.proofs.tradeoff import Knots
from dp_edgeworth.search import answers
from dp_edgeworth.search.answers import Memory
from dp_edgeworth.sums.composition import Composition
from dp_edgeworth.sums.pair_sums import PairSums


def epsilon_bounds(pairs: PairSums, deltas: np.ndarray, tolerance: float, memory: Memory | None = None) -> Proved:
    """Intervals of epsilon at these deltas."""
    return worst_case.epsilon_bounds(_known(pairs, exact=True), deltas, tolerance, memory)


def delta_bounds(pairs: PairSums, epsilons: np.ndarray, tolerance: float, memory: Memory | None = None) -> Proved:
    """Intervals of delta at these epsilons."""
    return worst_case.delta_bounds(_known(pairs, exact=True), epsilons, tolerance, memory)


def reach(pairs: PairSums, delta: float) -> float:
    """About the epsilon at a delta, to know how far to look."""
    return answers.reach(compositions(pairs, exact=False), delta)


def knots(pairs: PairSums, high: float, memory: Memory) -> list[Knots]:
    """Tables of bounds of delta up to an epsilon, from lattices that earlier questions left in the memory."""
    return [] if pairs.has_classes else answers.knots(_known(pairs, exact=True).directions(), high, memory)


def compositions(pairs: PairSums, *, exact: bool = True) -> list[Composition]:
    """One composition per direction, a single one where both are the same; `exact`: an epoch alone is left to its curve."""
    return _known(pairs, exact=exact).directions()


def _known(pairs: PairSums, *, exact: bool) -> PairSums:
    """The same with epochs of random allocation replaced by their pairs; where it is one epoch and nothing else, `exact` leaves it."""
    if not any(isinstance(loss, RandomAllocationLoss) for pair in pairs.counts for loss in pair):
        return pairs
    if exact and list(pairs.counts.values()) == [1]:
        return pairs
    found = PairSums()
    for (remove, add), count in pairs.counts.items():
        found.add(random_allocation.among_others(remove), random_allocation.among_others(add), count)
    return found
