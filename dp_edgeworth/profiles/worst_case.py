"""Intervals for compositions with leaves whose event allows many mechanisms (`class_leaf`): of the worst mechanism allowed.

Upper ends: with the pairs of these leaves; with their Renyi curves in one pair; and the conversion of one curve for everything, to
which leaves that have none add their own K(c) (at most what Renyi accounting proves). The smallest one holds. Lower ends: mechanisms
that the events allow; the largest one holds.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping

import numpy as np

from dp_edgeworth.intervals import Bounds
from dp_edgeworth.losses.class_leaf import ClassLeaf, classes, folded, members
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.renyi_curves import RenyiCurve, SumOfCurves, Tabulated, epsilon_of, log_profile
from dp_edgeworth.profiles import asking
from dp_edgeworth.sums.composition import Composition

Tables = tuple[Mapping[Pllr, int], Mapping[Pllr, int]]
_ORDERS = np.geomspace(0.01, 2000.0, 300)  # every order is valid
_Ask = Callable[[list[asking.Sides]], Bounds]


def epsilon_bounds(tables: Tables, deltas: np.ndarray, tolerance: float) -> Bounds:
    """Intervals of epsilon at these deltas."""
    found = _bounds(tables, lambda directions: asking.epsilons(directions, deltas, tolerance))
    with np.errstate(divide="ignore"):
        logs = np.log(deltas)
    ends = (_converted(table, lambda curve: epsilon_of(curve, logs), math.inf) for table in _distinct(tables))
    upper = functools.reduce(np.maximum, ends)
    return _below(found, np.where(deltas >= 1.0, 0.0, upper))


def delta_bounds(tables: Tables, epsilons: np.ndarray, tolerance: float) -> Bounds:
    """Intervals of delta at these epsilons, which are not negative."""
    found = _bounds(tables, lambda directions: asking.deltas(directions, epsilons, tolerance))

    def converted(curve: RenyiCurve) -> np.ndarray:
        return np.maximum(np.exp(log_profile(curve, epsilons)) * (1.0 + 1e-15), 5e-324)

    return _below(found, functools.reduce(np.maximum, (_converted(table, converted, 1.0) for table in _distinct(tables))))


def _converted(table: Mapping[Pllr, int], convert: Callable[[RenyiCurve], np.ndarray], otherwise: float) -> np.ndarray:
    """The conversion of one curve for everything; `otherwise` where there is none."""
    curves: dict[RenyiCurve, int] = {}
    rest: dict[Pllr, int] = {}
    for leaf, count in table.items():
        if isinstance(leaf, ClassLeaf) and leaf.curve is not None:
            curves[leaf.curve] = curves.get(leaf.curve, 0) + count
        else:
            one = leaf.above if isinstance(leaf, ClassLeaf) else leaf
            rest[one] = rest.get(one, 0) + count
    if not curves or any(leaf.infinite_mass for leaf in rest):
        return np.array(otherwise)
    if rest:
        composition = Composition(rest)
        found = composition.cgf(_ORDERS)
        curves[Tabulated.of(_ORDERS, found[0] + found[3])] = 1
    return convert(SumOfCurves.of(curves))


def _bounds(tables: Tables, ask: _Ask) -> Bounds:
    result = ask(_directions(tables, True))
    if any(leaf.curve is not None and leaf.pair is not None for leaf in classes(tables[0])) and not _attained(tables[0]):
        other = ask([(Composition(folded(table, False)), Composition(members(table))) for table in _distinct(tables)])
        result = Bounds(np.maximum(result.lower, other.lower), result.estimate, np.minimum(result.upper, other.upper))
        result = Bounds(result.lower, np.clip(result.estimate, result.lower, result.upper), result.upper)
    return result


def _directions(tables: Tables, use_pairs: bool) -> list[asking.Sides]:
    """The directions, and more of them whose supremum is no larger: compositions of other members of the classes."""
    found: list[asking.Sides] = []
    for table in _distinct(tables):
        upper = Composition(folded(table, use_pairs))
        found.append((upper, upper if _attained(table) else Composition(members(table))))
        for number in range(1, 1 if _attained(table) else max(len(leaf.members) for leaf in classes(table))):
            one = Composition(members(table, number))
            found.append((one, one))
    return found


def _attained(table: Mapping[Pllr, int]) -> bool:
    """Whether there is one use of one class, whose pair is its worst case at every epsilon."""
    (leaf, count), *others = table.items()
    return not others and count == 1 and isinstance(leaf, ClassLeaf) and leaf.attained


def _distinct(tables: Tables) -> list[Mapping[Pllr, int]]:
    return [tables[0]] if tables[0] == tables[1] else list(tables)


def _below(found: Bounds, upper: np.ndarray) -> Bounds:
    """The same with another valid upper end."""
    smaller = np.maximum(np.minimum(found.upper, upper), found.lower)
    return Bounds(found.lower, np.minimum(found.estimate, smaller), smaller)
