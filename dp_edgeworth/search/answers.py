"""From compositions to proved answers: the only door of this room.

Each direction is bounded from above by one composition and from below by another, the same one where its pairs are exact
(`Composition.dominated`); the answer is that of the larger direction ([EA] Lemma 3.3). A direction is not refined below what another
one has already reached: its floor.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

import numpy as np

from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.proofs.chernoff import Chernoff
from dp_edgeworth.proofs.closed_form import ClosedForm
from dp_edgeworth.proofs.contour import Contour
from dp_edgeworth.proofs.curve import Curve
from dp_edgeworth.proofs.ends import around, least_deltas, proved_deltas
from dp_edgeworth.proofs.mirror import Mirrored
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.proofs.rounded_lattice import RoundedLattice, table
from dp_edgeworth.proofs.tradeoff import Polygons
from dp_edgeworth.search.methods import narrowed
from dp_edgeworth.search.problem import Problem
from dp_edgeworth.search.questions import DeltaAt, EpsilonOf, Question
from dp_edgeworth.sums.composition import Composition

_NEAR_TOP, _UNSEEN = 1e-9, 7.0  # digits (base e) by which losses are rarer than a delta that they hardly matter for
_FEW_USES = 64  # a large loss of one of them carries delta: all other large ones are in the way
_COARSE = 5.0  # steps that are so much coarser than others say nothing new
_MOST_KNOTS, _MOST_CURVES, _MOST_SEARCHES, _MOST_FREQUENCIES, _FEW_LEAVES = 100_000, 12, 3, 5_000, 64


def reach(directions: Sequence[Composition], delta: float) -> float:
    """About the epsilon at which delta(epsilon) is `delta`, or larger; any number will do."""
    found = [0.0]
    for composition in directions:
        question, log_delta = EpsilonOf(np.array([delta]), 1.0), math.log(max(delta, 1e-300))
        few = composition.has_tail and composition.total <= _FEW_USES
        kept = composition.truncated(log_delta - _UNSEEN) if few else composition
        place, most = question.place(kept, composition, 0), float(question.begin(composition).upper[0])
        found.append(most if place is None else min(1.05 * place.epsilon + 1.0 / max(place.slope, 1.0), most))
    return max(found)


class Memory:
    """The curves that were made for some questions about the same losses, to be read again for the next ones.

    A curve is a theorem about a table of losses and counts, and about nothing else: that table is what it is kept by.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[frozenset[tuple[Pllr, int]], float], tuple[list[Curve], list[int]]] = {}

    def of(self, composition: Composition) -> list[Curve]:
        """What is known of this composition; may be added to."""
        return self._entry(composition)[0]

    def exhausted(self, composition: Composition) -> bool:
        """Whether new curves were searched for so often that another search would find the same; counts."""
        searches = self._entry(composition)[1]
        searches.append(len(searches))
        return len(searches) > _MOST_SEARCHES

    def _entry(self, composition: Composition) -> tuple[list[Curve], list[int]]:
        return self._known.setdefault(composition.identity, ([], []))


def epsilon_bounds(directions: Sequence[Composition], deltas: np.ndarray, tolerance: float, memory: Memory | None = None) -> Proved:
    """Intervals of the smallest epsilon >= 0 with delta(epsilon) <= delta in all directions.

    Args:
      directions: what to take the supremum over.
      deltas: targets in [0, 1].
      tolerance: width aimed at, absolute below epsilon 1, relative above.
      memory: curves of earlier questions.
    """
    return _supremum(directions, EpsilonOf(deltas, tolerance, hurried=memory is not None), memory).falling(deltas)


def delta_bounds(directions: Sequence[Composition], epsilons: np.ndarray, tolerance: float, memory: Memory | None = None) -> Proved:
    """Intervals of delta(epsilon), the larger of all directions."""
    targets = np.append(epsilons, _below_the_top(directions, epsilons))
    found = _supremum(directions, DeltaAt(targets, tolerance, hurried=memory is not None), memory)
    return found.falling(targets).at(slice(len(epsilons)))


def tables(directions: Sequence[Composition], high: float, memory: Memory) -> Iterator[Polygons]:
    """What curves that were made for earlier questions prove of delta from below, all from 0 to `high`: of one direction each."""
    for composition in directions:
        known = [curve for curve in memory.of(composition) if isinstance(curve, RoundedLattice)]
        forms = [curve for curve in memory.of(composition) if isinstance(curve, ClosedForm) and curve.kinks is not None]
        if composition.dominated is not composition or not (known or forms):
            continue
        if forms:
            epsilons, asked = forms[0].table(high)
            lower = proved_deltas(forms[0], composition, asked).lower
        else:
            leaves = min((curve.leaves for curve in known), key=lambda each: each.step)
            if not high / leaves.step < _MOST_KNOTS:
                continue
            epsilons, logs = table([curve for curve in known if curve.leaves is leaves], 0.0, high)
            lower = least_deltas(logs, composition)
        yield Polygons.of_law(epsilons, lower, around(composition.infinite_mass)[0])


def _of_atoms(curve: Curve) -> bool:
    return isinstance(curve, ClosedForm) and curve.kinks is not None


def most(directions: Sequence[Composition], epsilons: np.ndarray, memory: Memory) -> np.ndarray:
    """Upper bounds of delta, by the quick curves that were made for earlier questions."""
    return np.asarray(np.max([_upper(each, epsilons, memory) for each in directions], axis=0))


def _upper(composition: Composition, epsilons: np.ndarray, memory: Memory) -> np.ndarray:
    """The smallest upper bound of delta that the quick curves of a direction know."""
    curves = [curve for curve in memory.of(composition) if isinstance(curve, RoundedLattice | Chernoff | Mirrored) or _of_atoms(curve)]
    finest = min((curve.leaves.step for curve in curves if isinstance(curve, RoundedLattice)), default=0.0)
    curves = [curve for curve in curves if not (isinstance(curve, RoundedLattice) and curve.leaves.step > _COARSE * finest)]
    bounds = [proved_deltas(curve, composition, epsilons).upper for curve in curves[-_MOST_CURVES:]]
    return np.min([*bounds, DeltaAt(epsilons, 1.0).begin(composition).upper], axis=0)


def _below_the_top(directions: Sequence[Composition], epsilons: np.ndarray) -> list[float]:
    """Where to ask, too: at a largest loss, which is rounded, delta can be told less precisely than a little below."""
    tops = {composition.finite_supremum for composition in directions}
    least = [top * (1.0 - _NEAR_TOP) for top in tops if 0.0 < top < np.inf]
    return [low for low in least if ((epsilons > low) & (epsilons < low * (1.0 + 2.0 * _NEAR_TOP))).any()]


def _supremum(directions: Sequence[Composition], question: Question, memory: Memory | None) -> Proved:
    if memory is None and len(directions) > 1 and directions[0].leaf_count <= _FEW_LEAVES:
        memory = Memory()  # for what one direction says of the other
    result: Proved | None = None
    other: Contour | None = None
    for composition in directions:
        floor = np.zeros(len(question.targets)) if result is None else result.lower
        if composition.mirrored and memory is not None:
            _mirror(directions[0], composition, memory)
            other = next((curve for curve in reversed(memory.of(directions[0])) if isinstance(curve, Contour)), None)
        own = _one(composition, question, floor, memory, other)
        if composition.dominated is not composition:
            own = _one(composition.dominated, question, floor, memory).between(own)
        result = own if result is None else result.larger(own)
    assert result is not None
    return result


def _mirror(first: Composition, composition: Composition, memory: Memory) -> None:
    """What is known of the first direction says something of its mirror image, near epsilon 0."""
    mine = memory.of(composition)
    known = {id(curve.curve) for curve in mine if isinstance(curve, Mirrored)}
    mine += [Mirrored(curve) for curve in memory.of(first) if isinstance(curve, RoundedLattice) and id(curve) not in known]


def _one(composition: Composition, question: Question, floor: np.ndarray, memory: Memory | None,
         other: Contour | None = None) -> Proved:
    found = question.begin(composition)
    if composition.log_finite == -math.inf or math.isinf(composition.gaussian_variance):  # nothing finite, or beyond all floats
        return found
    curves = [] if memory is None else memory.of(composition)
    for curve in curves:
        left = question.open(found, floor)
        if not len(left):
            return found
        if curve.theorem == Contour.theorem and curve.size > _MOST_FREQUENCIES and np.isfinite(found.upper[left]).all():
            continue
        found = found.met(question.again(curve, composition, left, found, floor), left)
    left = question.open(found, floor)
    if not len(left) or (memory is not None and memory.exhausted(composition) and np.isfinite(found.upper[left]).all()):
        return found
    return narrowed(Problem(composition, composition, made=curves, other=other), question, found, floor)
