"""Intervals for compositions with leaves whose event allows many mechanisms (`class_leaf`): of the worst mechanism allowed.

Upper ends: with the pairs of these leaves, with their Renyi curves in one pair, and, where there is nothing else, the conversion of
the summed curve itself; the smallest one holds. Lower ends: mechanisms that the events allow; the largest one holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from dp_edgeworth.losses.class_leaf import ClassLeaf, classes, folded, members
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.renyi_curves import SumOfCurves, epsilon_of, log_profile
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.search import answers
from dp_edgeworth.sums.composition import Composition

Tables = tuple[Mapping[Pllr, int], Mapping[Pllr, int]]
_Ask = Callable[[list[Composition]], Proved]


def epsilon_bounds(tables: Tables, deltas: np.ndarray, tolerance: float) -> Proved:
    """Intervals of epsilon at these deltas."""
    found = _bounds(tables, lambda directions: answers.epsilon_bounds(directions, deltas, tolerance))
    curve = _only_curves(tables[0])
    if curve is None:
        return found
    with np.errstate(divide="ignore"):
        return _below(found, np.where(deltas >= 1.0, 0.0, epsilon_of(curve, np.log(deltas))))


def delta_bounds(tables: Tables, epsilons: np.ndarray, tolerance: float) -> Proved:
    """Intervals of delta at these epsilons, which are not negative."""
    found = _bounds(tables, lambda directions: answers.delta_bounds(directions, epsilons, tolerance))
    curve = _only_curves(tables[0])
    return found if curve is None else _below(found, np.maximum(np.exp(log_profile(curve, epsilons)) * (1.0 + 1e-15), 5e-324))


def _bounds(tables: Tables, ask: _Ask) -> Proved:
    result = ask(_directions(tables, True))
    if any(leaf.curve is not None and leaf.pair is not None for leaf in classes(tables[0])) and not _attained(tables[0]):
        result = result.met(ask([bounded(folded(table, False), members(table)) for table in _distinct(tables)]))
    return result


def bounded(above: Mapping[Pllr, int], below: Mapping[Pllr, int]) -> Composition:
    """The composition `above`; its lower ends are those of `below`."""
    composition = Composition(above)
    composition.dominated = composition if below == above else Composition(below)
    return composition


def compositions(tables: Tables) -> list[Composition]:
    """One per direction, with all curves in one pair; a single one where both are the same."""
    return [bounded(folded(table), members(table)) for table in _distinct(tables)]


def _directions(tables: Tables, use_pairs: bool) -> list[Composition]:
    """The directions, and more of them whose supremum is no larger: compositions of other members of the classes."""
    found: list[Composition] = []
    for table in _distinct(tables):
        upper = folded(table, use_pairs)
        found.append(bounded(upper, upper if _attained(table) else members(table)))
        for number in range(1, 1 if _attained(table) else max(len(leaf.members) for leaf in classes(table))):
            one = members(table, number)
            found.append(bounded(one, one))
    return found


def _attained(table: Mapping[Pllr, int]) -> bool:
    """Whether there is one use of one class, whose pair is its worst case at every epsilon."""
    (leaf, count), *others = table.items()
    return not others and count == 1 and isinstance(leaf, ClassLeaf) and leaf.attained


def _distinct(tables: Tables) -> list[Mapping[Pllr, int]]:
    return [tables[0]] if tables[0] == tables[1] else list(tables)


def _only_curves(table: Mapping[Pllr, int]) -> SumOfCurves | None:
    """The summed curve, where every leaf has one."""
    curves = {leaf: leaf.curve for leaf in classes(table) if leaf.curve is not None}
    if len(curves) < len(table):
        return None
    counts: dict = {}
    for leaf, curve in curves.items():
        counts[curve] = counts.get(curve, 0) + table[leaf]
    return SumOfCurves.of(counts)


def _below(found: Proved, upper: np.ndarray) -> Proved:
    """The same with another valid upper end."""
    joined = found.met(Proved.of(np.zeros(upper.shape), upper, upper, "Renyi divergences"))
    return joined.between(joined)  # where rounding makes the ends cross
