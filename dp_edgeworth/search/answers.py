"""From compositions to proved answers: the only door of this room.

Each direction is bounded from above by one composition and from below by another, the same one where its pairs are exact
(`Composition.dominated`); the answer is that of the larger direction ([EA] Lemma 3.3). A direction is not refined below what another
one has already reached: its floor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.search.methods import Problem, narrowed
from dp_edgeworth.search.questions import DeltaAt, EpsilonOf, Question
from dp_edgeworth.sums.composition import Composition

_NEAR_TOP = 1e-9


def epsilon_bounds(directions: Sequence[Composition], deltas: np.ndarray, tolerance: float) -> Proved:
    """Intervals of the smallest epsilon >= 0 with delta(epsilon) <= delta in all directions.

    Args:
      directions: what to take the supremum over.
      deltas: targets in [0, 1].
      tolerance: width aimed at, absolute below epsilon 1, relative above.
    """
    return _supremum(directions, EpsilonOf(deltas, tolerance)).falling(deltas)


def delta_bounds(directions: Sequence[Composition], epsilons: np.ndarray, tolerance: float) -> Proved:
    """Intervals of delta(epsilon), the larger of all directions."""
    targets = np.append(epsilons, _below_the_top(directions, epsilons))
    return _supremum(directions, DeltaAt(targets, tolerance)).falling(targets).at(slice(len(epsilons)))


def _below_the_top(directions: Sequence[Composition], epsilons: np.ndarray) -> list[float]:
    """Where to ask, too: at a largest loss, which is rounded, delta can be told less precisely than a little below."""
    tops = {composition.finite_supremum for composition in directions}
    least = [top * (1.0 - _NEAR_TOP) for top in tops if 0.0 < top < np.inf]
    return [low for low in least if ((epsilons > low) & (epsilons < low * (1.0 + 2.0 * _NEAR_TOP))).any()]


def _supremum(directions: Sequence[Composition], question: Question) -> Proved:
    result: Proved | None = None
    for composition in directions:
        floor = np.zeros(len(question.targets)) if result is None else result.lower
        own = _one(composition, question, floor)
        if composition.dominated is not composition:
            own = _one(composition.dominated, question, floor).between(own)
        result = own if result is None else result.larger(own)
    assert result is not None
    return result


def _one(composition: Composition, question: Question, floor: np.ndarray) -> Proved:
    found = question.begin(composition)
    if composition.log_finite == -math.inf or math.isinf(composition.gaussian_variance):  # nothing finite, or beyond all floats
        return found
    return narrowed(Problem(composition, composition), question, found, floor) if len(question.open(found, floor)) else found
