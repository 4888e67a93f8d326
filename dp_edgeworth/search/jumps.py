"""Where to cut off large losses, so that two of them hardly matter, and what to compose with one of them.

Losses are taken apart that together are about as rare as the square root of delta: two of them are as rare as a small part of it, and
what is left is so light-tailed that lattices under a tilt serve it well.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import fft

from dp_edgeworth.losses.rules import RuleTooLargeError
from dp_edgeworth.proofs import reduction
from dp_edgeworth.proofs.curve import Curve
from dp_edgeworth.proofs.one_jump import OneJump, Parameters, one_jump
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.proofs.rounding import RoundedLeaves, rounded_leaves
from dp_edgeworth.search import lattices
from dp_edgeworth.search.ladder import Place, place_of_delta
from dp_edgeworth.search.problem import Problem
from dp_edgeworth.search.questions import DeltaAt, Question
from dp_edgeworth.sums.composition import Composition

_FIRST, _LEAST, _MORE = 12.0, 8.0, 4.0  # digits (base e) of delta that two large losses may cost, and more of them the next time
_LEVELS = (-2.0, -15.0, -75.0, -315.0)  # of log G(0) of what is composed with a large loss: where lattices for it are placed
_LEFT = 5.0  # deviations below epsilon 0: further down a chord is as good
_ROUGH, _FINEST, _COARSEST = 1_000, 1e-3, 0.3  # cells while nothing is known; widths of cells, in scales of the curve
_NEAR, _SHARE = 6.0, 0.3  # scales of the curve around its place within which cells are equally fine, or more with so many of all
_MOST_PASSES, _MOST_LEAVES, _MOST_CELLS = 6, 6, 20_000
_LONGEST_TAIL = -640.0  # beyond, normal tails are no floats
_UNSEEN = 40.0  # digits of delta below which losses may be infinite
_COARSE = 0.05  # deviations: cells that show where the losses are
_MOST_POINTS = 1 << 18  # of what is rounded
_FIRST_POINTS = 1 << 14
_MOST_FINER, _SPARE, _COARSER = 32.0, 1.5, (1.0, 1.5, 2.2, 3.3, 5.0)  # how much finer next time; coarser where there are too many cells


class _Guess(NamedTuple):
    """log delta; the epsilon around which cells are fine, and on which scale delta falls there; what two large losses may cost; the
    step of the lattice."""

    log_delta: float
    middle: float = 0.0
    scale: float = math.inf
    digits: float = _FIRST
    step: float = math.inf


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
        leaves = None if place is None else _leaves(problem.rest, place, guess, question.tolerance)
        raw = None if place is None or leaves is None else _jump(problem.rest, place, leaves, guess, question.tolerance, reserve)
        if place is None or leaves is None or raw is None:
            break
        curve, start = problem.curve(raw), max(guess.middle, place.epsilon)
        own = question.read(curve, problem.whole, np.array([number]), start, found, floor)
        found = found.met(own, [number])
        last, width = width, float(own.upper[0] - own.lower[0])
        if number not in question.open(found, floor) or not width < 0.7 * last:
            break
        middle, log_delta = question.scale(found, number), question.log_delta(problem.whole, found, number)
        slope = max(abs(float(curve.bounds(np.array([middle])).slope[0])), 1e-300)
        digits = min(max(_LEAST, 4.0 - math.log(question.tolerance * max(1.0, middle) * slope)), guess.digits + _MORE)
        if isinstance(question, DeltaAt):  # what is known from above may be far too much
            log_delta = min(log_delta, max(place.log_g, math.log(max(float(found.lower[number]), 1e-300))))
        wanted = max(float(question.wanted(found, np.array([number]))[0]), 1e-300)
        finer = min(max(_SPARE * math.sqrt(width / wanted), 1.0), _MOST_FINER)
        guess = _Guess(log_delta, middle, 1.0 / slope, digits, leaves.step / finer)
    return curve, found


def _alone(composition: Composition, epsilon: float) -> float:
    """About the logarithm of the probability that one loss alone is as large as epsilon."""
    tails = np.arange(-1.0, _LONGEST_TAIL, -4.0)
    enough = (tail for tail in tails if any(pllr.largest_kept(float(tail)) >= epsilon for pllr in composition.counts))
    return float(next(enough, tails[-1])) + math.log(composition.total)


def _leaves(composition: Composition, place: Place, guess: _Guess, tolerance: float) -> RoundedLeaves | None:
    """Rounded up to about the loss beyond which two uses hardly ever are, and cut from there on."""
    log_tail = max(guess.log_delta - _UNSEEN - math.log(composition.total), _LONGEST_TAIL)
    ends = _ends(composition, 0.5 * (guess.log_delta - guess.digits), log_tail)
    if ends is None:
        return None
    wanted = tolerance * max(1.0, guess.middle, place.epsilon)
    step = min(max(math.sqrt(wanted / guess.scale), _FINEST), _COARSEST) * guess.scale if guess.scale < math.inf else math.inf
    large = _cuts(*ends, guess.middle, guess.scale, step)
    floor = lattices.floor_of_losses(place)
    finest = (ends[0] - max(floor, -ends[0])) / _MOST_POINTS
    step = max(min(ends[0] / _FIRST_POINTS, guess.step), finest)
    for coarser in _COARSER:
        try:
            leaves = rounded_leaves(composition, coarser * step, log_tail, floor, large)
        except RuleTooLargeError:
            return None
        if leaves is not None:
            break
    return leaves


def _jump(composition: Composition, place: Place, leaves: RoundedLeaves, guess: _Guess, tolerance: float,
          reserve: float) -> OneJump | None:
    """The theorem with lattices for no large loss, and for what is composed with one: from where G hardly differs from 1 - e^epsilon,
    below epsilon 0, as far up as that matters."""
    least = max(place.log_g, guess.log_delta - guess.digits)  # less is hidden behind two large losses
    deviation = max(math.sqrt(max(float(place.rungs.variance[0]), 0.0)), 1e-300)
    start = min(math.log(deviation) - 1.0, -3.0)
    levels = [start + level for level in _LEVELS if level == _LEVELS[0] or start + level > 0.5 * (guess.log_delta + guess.digits)]
    places = [found for level in levels if (found := place_of_delta(place.composition, level, complement=False)) is not None]
    left, longest = _LEFT * deviation, 2 * _MOST_POINTS * leaves.step
    below = [each._replace(epsilon=-left, log_g=math.log(-math.expm1(-left))) for each in places[:1]]
    some = [level for level in lattices.levels_at(leaves, below + places, 0.01 * tolerance, 0.0) if level.period <= longest]
    rest = [_parameters(leaves, level) for level in some]
    here = place._replace(epsilon=max(place.epsilon, guess.middle), log_g=least)
    return one_jump(composition, leaves, _parameters(leaves, lattices.levels_at(leaves, [here], tolerance, reserve)[0]), rest)


def _parameters(leaves: RoundedLeaves, level: lattices.Level) -> Parameters:
    return level.tilt, fft.next_fast_len(min(max(math.ceil(level.period / leaves.step), 32), 2 * _MOST_POINTS), real=True)


def _ends(composition: Composition, log_mass: float, log_tail: float) -> tuple[float, float] | None:
    """Between which losses uses are that have about this Q-mass in all, and not less than the tail; None where there are none."""
    coarse = [(pllr.cells(_COARSE, log_tail), count) for pllr, count in composition.counts.items()]
    losses = np.concatenate([cells.low for cells, _ in coarse if cells is not None] or [np.zeros(0)])
    masses = np.concatenate([count * cells.q for cells, count in coarse if cells is not None] or [np.zeros(0)])
    usable = np.isfinite(losses) & (losses > 0.0)
    order = np.argsort(-losses[usable], kind="stable")
    rare = np.flatnonzero(np.cumsum(masses[usable][order]) <= math.exp(log_mass))
    if not len(rare):
        return None
    kept = losses[usable][order]
    return (float(kept[rare[-1]]), float(kept[0])) if kept[0] > kept[rare[-1]] else None


def _cuts(low: float, high: float, middle: float, scale: float, step: float) -> np.ndarray:
    """Losses on all scales, while no place is known; then so far apart around it, and more where it is far away."""
    if not step < math.inf:
        return np.geomspace(low, high, _ROUGH)
    near = max(_NEAR * scale, min(middle - low, _SHARE * _MOST_CELLS * step))
    below, above = (math.asinh(max(distance, 0.0) / near) * near for distance in (middle - low, high - middle))
    step = max(step, (below + above) / _MOST_CELLS)
    cuts = middle + near * np.sinh(np.arange(-math.ceil(below / step), math.ceil(above / step) + 1) * (step / near))
    return np.append(low, cuts[cuts > low * (1.0 + 1e-9)])
