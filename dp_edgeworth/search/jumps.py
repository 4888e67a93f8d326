"""Where to cut off large losses, so that two of them hardly matter, and what to compose with one of them.

Losses are left out that together are about as rare as the square root of delta: two of them are as rare as a small part of it, and what
is left is so light-tailed that contours serve it well.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.proofs import reduction
from dp_edgeworth.proofs.curve import Curve
from dp_edgeworth.proofs.one_jump import OneJump, one_jump
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.search.contours import planned
from dp_edgeworth.search.ladder import Place, place_of_delta
from dp_edgeworth.search.problem import Problem
from dp_edgeworth.search.questions import DeltaAt, Question
from dp_edgeworth.sums.composition import Composition

_FIRST, _LEAST, _MOST = 12.0, 8.0, 24.0  # digits (base e) of delta that two large losses may cost
_LEVELS = (-5.0, -20.0, -80.0, -320.0)  # log G of what is composed with a large loss, where curves of it are placed
_FINE_REST = 1e-8  # width times slope of these curves
_ROUGH, _FINEST, _COARSEST = 300, 1e-3, 0.3  # cells while nothing is known; widths of cells, in scales of the curve
_NEAR = 6.0  # scales of the curve around its place within which cells are equally fine
_MOST_PASSES, _MOST_LEAVES, _MOST_CELLS, _MOST_TERMS = 4, 6, 6_000, 1_500_000  # the last: of one epsilon
_LONGEST_TAIL = -640.0  # beyond, normal tails are no floats


class _Guess(NamedTuple):
    """log delta; the epsilon around which cells are fine, and on which scale delta falls there; what two large losses may cost."""

    log_delta: float
    middle: float = 0.0
    scale: float = math.inf
    digits: float = _FIRST


def jump_at(problem: Problem, question: Question, found: Proved, floor: np.ndarray, number: int,
            reserve: float) -> tuple[Curve | None, Proved]:
    """Finer and finer cells around one target, until it is as narrow as asked or gets no narrower."""
    guess, curve, width = _Guess(question.log_delta(problem.whole, found, number)), None, math.inf
    if isinstance(question, DeltaAt):
        guess = guess._replace(log_delta=min(guess.log_delta, _alone(problem.rest, float(question.targets[number]))))
    if question.complement(problem.rest, number) or problem.rest.leaf_count > _MOST_LEAVES or not guess.log_delta > _LONGEST_TAIL:
        return None, found
    for _ in range(_MOST_PASSES):
        rest = reduction.truncated(problem.rest, 0.5 * (guess.log_delta - guess.digits)).rest
        place = question.place(rest, problem.whole, number)
        raw = None if place is None else _jump(place, guess, question.tolerance, reserve)
        if place is None or raw is None:
            break
        curve, start = problem.curve(raw), max(guess.middle, place.epsilon)
        found = found.met(question.read(curve, problem.whole, np.array([number]), start, found, floor), [number])
        last, width = width, float(found.upper[number] - found.lower[number])
        if number not in question.open(found, floor) or not width < 0.7 * last:
            break
        middle, log_delta = question.scale(found, number), question.log_delta(problem.whole, found, number)
        slope = max(abs(float(curve.bounds(np.array([middle])).slope[0])), 1e-300)
        digits = min(max(_LEAST, 4.0 - math.log(question.tolerance * max(1.0, middle) * slope)), _MOST)
        if isinstance(question, DeltaAt):  # what is known from above may be far too much
            log_delta = min(log_delta, max(place.log_g, math.log(max(float(found.lower[number]), 1e-300))))
        guess = _Guess(log_delta, middle, 1.0 / slope, digits)
    return curve, found


def _alone(composition: Composition, epsilon: float) -> float:
    """About the logarithm of the probability that one loss alone is as large as epsilon."""
    tails = np.arange(-1.0, _LONGEST_TAIL, -4.0)
    enough = (tail for tail in tails if any(pllr.largest_kept(float(tail)) >= epsilon for pllr in composition.counts))
    return float(next(enough, tails[-1])) + math.log(composition.total)


def _jump(place: Place, guess: _Guess, tolerance: float, reserve: float) -> OneJump | None:
    """The theorem for a composition without its largest losses, with contours and cells for a guess."""
    wanted = tolerance * max(1.0, guess.middle, place.epsilon)
    least = max(place.log_g, guess.log_delta - guess.digits)  # less is hidden behind two large losses
    none = planned(place._replace(log_g=least), wanted, place.slope, reserve)
    if none is None:
        return None
    large = [pllr for pllr in place.composition.counts if pllr.has_tail and pllr.gaussian_variance is None]
    rest = {pllr: _curves(place.composition, pllr, 0.5 * (guess.log_delta + guess.digits)) for pllr in large}
    most = min(_MOST_CELLS, _MOST_TERMS // max(sum(curve.size for curves in rest.values() for curve in curves), 1))
    step = min(max(math.sqrt(wanted / guess.scale), _FINEST), _COARSEST) * guess.scale if guess.scale < math.inf else math.inf
    cuts = _cuts(place.composition, guess.middle, guess.scale, step, most) if most >= _ROUGH else None
    return None if cuts is None else one_jump(place.composition, none, cuts, _LONGEST_TAIL, rest)


def _curves(composition: Composition, pllr: Pllr, least: float) -> list[Curve]:
    """Of everything but one use of a leaf, near epsilon 0 and further up, as far as G matters: to e^least."""
    counts = {other: count - (other is pllr) for other, count in composition.counts.items()}
    rest = Composition({other: count for other, count in counts.items() if count}, composition.log_tail)
    found: list[Curve] = []
    for level in (level for level in _LEVELS if rest.total and level > least):
        place = place_of_delta(rest, level, complement=False)
        curve = None if place is None else planned(place, _FINE_REST / place.slope, place.slope)
        if curve is not None:
            found.append(curve)
    return found


def _cuts(composition: Composition, middle: float, scale: float, step: float, most: int) -> np.ndarray | None:
    """Losses on all scales, while no place is known; then so far apart around it, and more where it is far away."""
    whole = [pllr.left_out(composition.log_tail, _LONGEST_TAIL, np.zeros(1)) for pllr in composition.counts]
    ends = [(float(cells.low.min()), float(cells.low.max())) for cells in whole if cells is not None]
    low, high = min((end[0] for end in ends), default=0.0), max((end[1] for end in ends), default=0.0)
    if not 0.0 < low < high < math.inf:
        return None
    if not step < math.inf:
        return np.geomspace(low, high, _ROUGH)
    near = _NEAR * scale
    below, above = (math.asinh(max(distance, 0.0) / near) * near for distance in (middle - low, high - middle))
    step = max(step, (below + above) / most)
    return middle + near * np.sinh(np.arange(-math.ceil(below / step), math.ceil(above / step) + 1) * (step / near))
