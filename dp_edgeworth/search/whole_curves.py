"""Many targets at once: all leaves rounded to one lattice, composed at a few tilts, every target read off each of them."""

from __future__ import annotations

import math

import numpy as np

from dp_edgeworth.losses.rules import RuleTooLargeError
from dp_edgeworth.proofs.curve import Curve
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.proofs.rounded_lattice import RoundedLeaves, rounded_leaves, sum_of_rounded
from dp_edgeworth.search.ladder import Place
from dp_edgeworth.search.questions import Question
from dp_edgeworth.sums.composition import Composition

_FIRST_POINTS, _MOST_POINTS, _MOST_PASSES = 1 << 12, 1 << 17, 3
_LEAST_TILT = 2.0  # in units of one over the deviation
_RATIO = 2.0  # of neighbouring tilts
_TURNS = 45.0  # tilt times period: copies of the curve are e^-45 of it
_LIGHT = 1e-7  # of the smallest delta may go to cells without a largest loss
_MOST_TILTS = 14


def tilts_for(composition: Composition, steepest: Place) -> np.ndarray | None:
    """Tilts from the bulk to the steepest target, each good for the epsilons around its own saddle point."""
    variance = float(composition.rungs(np.zeros(1)).variance[0])
    if not 1e-280 < variance < 1e280:
        return None
    least = _LEAST_TILT / math.sqrt(variance)
    most = max(1.5 * float(steepest.rungs.tilts[steepest.best]), least)
    count = min(max(math.ceil(math.log(most / least) / math.log(_RATIO)) + 1, 2), _MOST_TILTS)
    return np.geomspace(least, most, count)


def read_all(problem_curve, composition: Composition, whole: Composition, question: Question, found: Proved, floor: np.ndarray,  # type: ignore[no-untyped-def]
             steepest: Place) -> Proved:
    """Lattices on finer and finer steps until all targets are narrow, or as fine as is allowed.

    `problem_curve` makes a curve of the whole from one of `composition`.
    """
    tilts = tilts_for(composition, steepest)
    if tilts is None:
        return found
    log_tail = steepest.log_g + math.log(_LIGHT) - math.log(max(composition.total, 1.0))
    period = max(_TURNS / float(tilts[0]), 1.5 * steepest.epsilon)
    points = _FIRST_POINTS
    for _ in range(_MOST_PASSES):
        try:
            rounded = rounded_leaves(composition, period / points, points, log_tail)
        except RuleTooLargeError:
            rounded = None
        if rounded is None:
            break
        found, worst = _pass(problem_curve, rounded, whole, question, found, floor, tilts, period, points)
        if not len(question.open(found, floor)) or not 1.2 < worst:
            break
        if points >= _MOST_POINTS:
            break
        points = min(1 << math.ceil(math.log2(points * min(max(worst, 2.0), 16.0))), _MOST_POINTS)
    return found


def _pass(problem_curve, rounded: RoundedLeaves, whole: Composition, question: Question, found: Proved, floor: np.ndarray,  # type: ignore[no-untyped-def]
          tilts: np.ndarray, period: float, points: int) -> tuple[Proved, float]:
    """All tilts once; and by how much finer the step must be for the targets that are still open: widths fall with its square."""
    for number, tilt in enumerate(tilts):
        left = question.open(found, floor)
        if not len(left):
            break
        others = np.unique(np.append(tilts[max(number - 1, 0):number + 2], 0.7 * tilt))
        curve: Curve = problem_curve(sum_of_rounded(rounded, float(tilt), period / points, points, others[others != tilt]))
        middle = int(left[len(left) // 2])
        found = found.met(question.read(curve, whole, left, float(np.clip(found.estimate[middle], 0.0, 1e300)), found, floor, middle), left)
    left = question.open(found, floor)
    with np.errstate(invalid="ignore", over="ignore"):
        ratios = [(float(found.upper[i] - found.lower[i])) / max(question.wanted(found, int(i)), 1e-300) for i in left]
    finite = [ratio for ratio in ratios if math.isfinite(ratio)]
    return found, math.sqrt(2.0 * max(finite)) if finite else math.inf
