"""From what an accountant has composed to proved answers: losses that are known by a curve become what they are in this composition.

    epochs of random allocation   alone the curve itself, otherwise pairs above and below it (`random_allocation`)
    classes of mechanisms         their Renyi curves in one pair, members of the classes from below (`worst_case`)
    everything else               as it is: straight to `search.answers`
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dp_edgeworth.losses.class_leaf import ClassLeaf
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.random_allocation import RandomAllocationLoss
from dp_edgeworth.profiles import random_allocation, worst_case
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.search import answers
from dp_edgeworth.sums.composition import Composition
from dp_edgeworth.sums.pair_sums import PairSums


def epsilon_bounds(pairs: PairSums, deltas: np.ndarray, tolerance: float) -> Proved:
    """Intervals of epsilon at these deltas."""
    if _has(pairs, ClassLeaf):
        return worst_case.epsilon_bounds(_tables(pairs), deltas, tolerance)
    return answers.epsilon_bounds(compositions(pairs), deltas, tolerance)


def delta_bounds(pairs: PairSums, epsilons: np.ndarray, tolerance: float) -> Proved:
    """Intervals of delta at these epsilons."""
    if _has(pairs, ClassLeaf):
        return worst_case.delta_bounds(_tables(pairs), epsilons, tolerance)
    return answers.delta_bounds(compositions(pairs), epsilons, tolerance)


def compositions(pairs: PairSums, *, exact: bool = True) -> list[Composition]:
    """One composition per direction, a single one where both are the same; `exact`: an epoch alone is left to its curve."""
    if not _has(pairs, (ClassLeaf, RandomAllocationLoss)):
        return pairs.directions()
    alone = list(pairs.counts.values()) == [1] and not _has(pairs, ClassLeaf)
    return pairs.directions() if exact and alone else worst_case.compositions(_tables(pairs))


def _has(pairs: PairSums, kind: type | tuple[type, ...]) -> bool:
    return any(isinstance(loss, kind) for pair in pairs.counts for loss in pair)


def _tables(pairs: PairSums) -> worst_case.Tables:
    """What was composed in both directions, epochs replaced by their pairs."""
    def table(side: int) -> dict[Pllr, int]:
        return random_allocation.replaced(_merged((pair[side], count) for pair, count in pairs.counts.items()))

    return table(0), table(1)


def _merged(items: Iterable[tuple[Pllr, int]]) -> dict[Pllr, int]:
    counts: dict[Pllr, int] = {}
    for loss, count in items:
        counts[loss] = counts.get(loss, 0) + count
    return counts
