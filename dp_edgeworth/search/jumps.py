"""Where to cut off large losses, so that two of them hardly matter, and what to compose with one of them.

Losses are left out that together are about as rare as the square root of delta: two of them are as rare as a small part of it, and what
is left is so light-tailed that contours serve it well.
"""

from __future__ import annotations

import math

import numpy as np

from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.proofs import reduction
from dp_edgeworth.proofs.curve import Curve
from dp_edgeworth.proofs.one_jump import one_jump
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.search.contours import planned
from dp_edgeworth.search.ladder import place_of_delta
from dp_edgeworth.search.problem import Problem
from dp_edgeworth.search.questions import DeltaAt, Question
from dp_edgeworth.sums.composition import Composition

_FIRST, _LEAST, _MOST = 12.0, 8.0, 24.0  # digits (base e) of delta that two large losses may cost
_LEVELS = (-5.0, -20.0, -80.0, -320.0)  # log G of what is composed with a large loss, where curves of it are placed
_FINE_REST = 1e-8  # width times slope of these curves
_ROUGH = 300  # cells while nothing is known
_NEAR = 6.0  # scales of the curve around its place within which cells are equally fine
_MOST_PASSES, _MOST_LEAVES, _MOST_CELLS = 4, 6, 6_000
_MOST_TERMS = 10_000_000  # of one epsilon
_LONGEST_TAIL = -640.0  # beyond, normal tails are no floats


def jump_at(problem: Problem, question: Question, found: Proved, floor: np.ndarray, number: int,
            reserve: float) -> tuple[Curve | None, Proved]:
    """Finer and finer cells around one target, until it is as narrow as asked or gets no narrower."""
    log_delta = question.log_delta(problem.whole, found, number)
    if question.complement(problem.rest, number) or problem.rest.leaf_count > _MOST_LEAVES or not log_delta > _LONGEST_TAIL:
        return None, found
    curve, width, digits = None, math.inf, _FIRST
    middle, scale = 0.0, math.inf  # where cells are to be fine, and on which scale the curve falls there
    for _ in range(_MOST_PASSES):
        log_mass = 0.5 * (log_delta - digits)
        step = reduction.truncated(problem.rest, log_mass)
        place = question.place(step.rest, problem.whole, number)
        if place is None:
            break
        wanted = question.tolerance * max(1.0, middle, place.epsilon)
        least = max(place.log_g, log_delta - digits)  # less is hidden behind two large losses
        none = planned(place._replace(log_g=least), wanted, place.slope, reserve)
        cells = min(max(math.sqrt(wanted / scale), 1e-3), 0.3) * scale if scale < math.inf else math.inf
        cuts = _cuts(step.rest, middle, scale, cells)
        if none is None or cuts is None:
            break
        large = [pllr for pllr in step.rest.counts if pllr.has_tail and pllr.gaussian_variance is None]
        rest = {pllr: _curves(step.rest, pllr, log_delta - log_mass) for pllr in large}
        raw = one_jump(step.rest, none, cuts, _LONGEST_TAIL, rest)
        if raw is None or raw.size > _MOST_TERMS:
            break
        curve = problem.curve(raw)
        start = max(middle, place.epsilon)
        found = found.met(question.read(curve, problem.whole, np.array([number]), start, found, floor), [number])
        last, width = width, float(found.upper[number] - found.lower[number])
        if number not in question.open(found, floor) or not width < 0.7 * last:
            break
        middle = question.scale(found, number)
        slope = abs(float(curve.bounds(np.array([middle])).slope[0]))
        scale = 1.0 / max(slope, 1e-300)
        digits = min(max(_LEAST, 4.0 - math.log(wanted * slope)), _MOST)
        log_delta = question.log_delta(problem.whole, found, number)
        if isinstance(question, DeltaAt):  # what is known from above may be far too much
            log_delta = min(log_delta, max(place.log_g, math.log(max(float(found.lower[number]), 1e-300))))
    return curve, found


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


def _cuts(composition: Composition, middle: float, scale: float, step: float) -> np.ndarray | None:
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
    step = max(step, (below + above) / _MOST_CELLS)
    return middle + near * np.sinh(np.arange(-math.ceil(below / step), math.ceil(above / step) + 1) * (step / near))
