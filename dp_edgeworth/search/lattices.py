"""Any number of targets off a few lattices: every leaf rounded to one step, composed at tilts good for some level of delta each.

Tilt and period follow from the tails at a coarse step, the step from how wide the coarser lattice was: widths fall with its square.
Where losses have atoms at both their ends, the step divides the distance between these, so that neither of them is rounded.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import fft

from dp_edgeworth.losses.rules import RuleTooLargeError
from dp_edgeworth.proofs import reduction
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.proofs.rounded_lattice import RoundedLattice, Tail, Tilted, rounded_lattice, tail
from dp_edgeworth.proofs.rounding import Rounded, RoundedLeaves, rounded_leaves
from dp_edgeworth.search.ladder import Place, place_of_delta
from dp_edgeworth.search.problem import Problem
from dp_edgeworth.search.questions import Question
from dp_edgeworth.sums.composition import Composition

_FIRST_POINTS, _FEW_POINTS, _MOST_POINTS, _MOST_PASSES = 1 << 12, 1 << 14, 1 << 18, 5
_LEVELS_APART = 10.0  # digits (base e) of delta that one tilt serves
_RESERVE = 5.0  # of them to spare where one tilt serves more than one target
_LARGE_LEVELS = (-0.7, -2.0, -4.0, -6.0, -9.0, -13.0, -18.0)
_LIGHT = 1e-7  # of the smallest delta may go to losses without a bound
_FINEST, _COARSEST = 1e-12, 1e-5  # relative accuracy of G that periods are made for
_MOST_FINER, _BLIND, _SPARE = 64.0, 4.0, 1.2  # by how much a step is divided; where widths say nothing; a little more than they say
_LONGEST = _MOST_POINTS / 1.1
_RUNGS = np.exp2(np.array([0.0, 1.0, 2.0, 3.0, 4.0, -1.0, -2.0, -3.0, -4.0]) / 1.5)  # tilts that are tried, in units of the best one
_MOST_LOSS = 13.0  # log A / G
_LITTLE_LOSS, _MUCH_LONGER = 13.0, 2.0  # with which a tilt may serve other targets, too
_LONGER = 1.15 ** np.arange(24)
_NEAR_POINTS = 64
_PROBES = 5  # targets whose places are looked at
_LIGHTER = 3.0  # digits (base e) by which tails must be lighter to be looked at again
_STUCK = 0.9  # what finer steps must gain at least
_LEAST_LOG, _LEAST_LOG_OF_MANY = -1500.0, -70.0  # deltas below are not read off lattices
_MOST_GUESSES = 5
_COARSE = 4.0  # steps times tilt: beyond, rounding up is more than twice the truth


class _Tilted(NamedTuple):
    """What a tilt does to a sum of rounded leaves: log of its moment, the sum of its heaviest losses, its tail."""

    tilt: float
    log_mgf: float
    centre: float
    tail: Tail

    def loss(self, place: Place) -> float:
        """log of what the table is made of, over what is looked for."""
        return self.log_mgf - self.tilt * place.epsilon - place.log_g

    def period(self, place: Place, log_relative: float) -> float:
        """About the shortest one with which copies from both sides are as small as asked."""
        periods = _LONGER * (-place.log_g - log_relative) / self.tilt
        enough = self.tail.log_beyond(place.epsilon - self.centre + periods) <= log_relative - self.loss(place)
        period = float(periods[int(enough.argmax())] if enough.any() else 10.0 * periods[-1])
        return period * (1.0 + 2.0 / _NEAR_POINTS)  # largest losses are off by half of that


class Level(NamedTuple):
    """About the epsilon of some level of delta; tilt and period for it, and for others that they serve, too."""

    place: Place
    tilted: _Tilted
    period: float

    @property
    def tilt(self) -> float:
        return self.tilted.tilt

    def lengthened(self, place: Place, log_relative: float) -> Level | None:
        """So that it serves another place, too; None where a tilt of its own is better."""
        period = self.tilted.period(place, log_relative)
        return self._replace(period=max(period, self.period)) if (
            self.tilted.loss(place) <= _LITTLE_LOSS and period <= _MUCH_LONGER * self.period) else None


def read_off_lattices(problem: Problem, question: Question, found: Proved, floor: np.ndarray) -> Proved:
    """Finer and finer lattices until all targets are narrow, or as fine as is allowed."""
    left = question.worthy(found, floor)
    places = _places(problem, question, found, left) if len(left) else []
    if not places:
        return found
    log_tail = _log_tail(problem, question, found, floor, places)
    reserve = _RESERVE if len(question.targets) > 1 else 0.0
    step = _start(problem, question, found, floor, places)
    finer, levels = math.inf, None

    def rounded(step: float) -> RoundedLeaves | None:
        return _leaves(problem.rest, _aligned(problem.rest, step), log_tail, min(map(floor_of_losses, places)))

    def planned(leaves: RoundedLeaves) -> list[Level]:
        return levels_at(leaves, places, question.tolerance, reserve)

    for _ in range(_MOST_PASSES):
        leaves = rounded(step)
        if leaves is None:
            break
        levels = levels or planned(leaves)
        last, (found, finer) = finer, _pass(problem, question, found, floor, levels, leaves)
        if not 1.0 < finer < _STUCK * last:
            break
        places = [_closer(problem, question, found, floor, place) for place in places]
        enough, log_tail = log_tail, _log_tail(problem, question, found, floor, places)
        if log_tail < enough - _LIGHTER:  # delta had not been where it was looked for
            leaves = rounded(leaves.step)
            if leaves is None:
                break
            if finer <= _BLIND:  # that was it, and not the step
                step, finer, levels = leaves.step, math.inf, None
                continue
        levels = planned(leaves)  # neither how long periods must be nor where losses are depends on the step
        lengths = [leaves.step * len(part.masses) for part, _ in leaves.above] + [level.period for level in levels]
        step = max(leaves.step / (_SPARE * finer), max(lengths) / _LONGEST)  # alignment and periods take a little
        if step > leaves.step / _SPARE:
            break
    return found


def _start(problem: Problem, question: Question, found: Proved, floor: np.ndarray, places: list[Place]) -> float:
    """The step to begin with: by the losses, or finer than one that another question had, if its answers are nearly narrow here."""
    step = max(_first_step(place, question.tolerance) for place in places)
    known, finer = [curve.leaves.step for curve in problem.made if isinstance(curve, RoundedLattice)], _finer(question, found, floor)
    return min(step, min(known) / max(_SPARE * finer, 1.0)) if known and finer < _BLIND else step


def _log_tail(problem: Problem, question: Question, found: Proved, floor: np.ndarray, places: list[Place]) -> float:
    """log of what of every leaf may become infinite: a little of the smallest delta that is guessed, or known to be open."""
    known = question.log_deltas(problem.whole, found, question.worthy(found, floor))
    smallest = max(min(float(known.min(initial=0.0)), *(place.log_g for place in places)), _least_log(question))
    return smallest + math.log(_LIGHT) - math.log(problem.rest.total)


def floor_of_losses(place: Place) -> float:
    """Below such a loss of one leaf all others together are too small to matter, by Chernoff's bound of what they exceed."""
    needed = (place.log_bounds - place.log_g - math.log(_LIGHT)) / place.rungs.tilts
    return place.epsilon - float(needed.min())


def _closer(problem: Problem, question: Question, found: Proved, floor: np.ndarray, place: Place) -> Place:
    """The same place with what has been found of the open target next to it: the first epsilon, or delta, was a guess."""
    number = _nearest(problem, question, found, question.open(found, floor), place)
    if not np.isfinite(found.upper[number]):
        return place
    return place._replace(epsilon=question.scale(found, number), log_g=min(question.log_delta(problem.whole, found, number), -1e-9))


def _nearest(problem: Problem, question: Question, found: Proved, left: np.ndarray, place: Place) -> int:
    return int(left[np.argmin(np.abs(question.log_deltas(problem.whole, found, left) - place.log_g))])


def _first_step(place: Place, tolerance: float) -> float:
    """Where all losses vary, both roundings of m of them are a^2 / 4 m apart in variance, c + 1 times an eighth of a^2 m in epsilon; a
    coarse step where that would be too many points: most losses may hardly vary.
    """
    tilt, (variance, total) = float(place.rungs.tilts[place.best]), (float(place.rungs.variance[0]), place.composition.total)
    period = (16.0 - place.log_g) / tilt
    fine = math.sqrt(8.0 * tolerance * max(1.0, place.epsilon) / (total * (tilt + 1.0)))
    fine /= _SPARE
    return min(fine if period / fine < _FEW_POINTS else period / _FIRST_POINTS, math.sqrt(12.0 * variance / total) + fine)


def _leaves(composition: Composition, step: float, log_tail: float, floor: float) -> RoundedLeaves | None:
    try:
        return rounded_leaves(composition, step, log_tail, floor)
    except RuleTooLargeError:
        return None


def _places(problem: Problem, question: Question, found: Proved, left: np.ndarray) -> list[Place]:
    """From the smallest delta that is open to the largest."""
    hardest = left[np.lexsort((-question.targets[left], question.log_deltas(problem.whole, found, left)))[0]]
    current = _without_rarest(problem, question, found, int(hardest)) if problem.rest.has_tail else problem
    some = {int(left[i]) for i in np.linspace(0, len(left) - 1, _PROBES).astype(int)} | {int(hardest)}
    ends = [_place(question, problem, current, found, i) for i in some]
    known = [place for place in ends if place is not None and place.log_g > _least_log(question)]
    if not known:
        return []
    logs = [place.log_g for place in known]
    count = math.ceil((max(logs) - min(logs)) / _LEVELS_APART) + 1
    more = [place_of_delta(current.rest, level, complement=False) for level in np.linspace(min(logs), max(logs), count)[1:]]
    return [min(known, key=lambda place: place.log_g), *(place for place in more if place is not None)]


def _least_log(question: Question) -> float:
    return _LEAST_LOG if len(question.targets) == 1 else _LEAST_LOG_OF_MANY


def _without_rarest(problem: Problem, question: Question, found: Proved, number: int) -> Problem:
    """Without losses whose probability is a little of the delta of a target. Where that is not known, at an epsilon, what is left of a
    first guess says it better: all losses, those that were left out too, are an upper bound of it.
    """
    level = question.log_delta(problem.whole, found, number)
    for _ in range(_MOST_GUESSES):
        current = problem.reduced(reduction.truncated(problem.rest, level + math.log(_LIGHT)))
        place = question.place(current.rest, problem.whole, number)
        better = level if place is None or place.complement else max(place.log_g, level + math.log(_LIGHT), _LEAST_LOG) + math.log(2.0)
        if better > level - _LIGHTER:
            break
        level = better
    return current


def _place(question: Question, problem: Problem, current: Problem, found: Proved, number: int) -> Place | None:
    """Where a target is; one of 1 - delta is served by the largest level of delta that there is at an epsilon above 0."""
    place = question.place(current.rest, problem.whole, number)
    if place is None or not place.complement:
        return place
    most = question.log_delta(problem.whole, found, number)
    for level in (min(most, _LARGE_LEVELS[0]), *(level for level in _LARGE_LEVELS[1:] if level < most)):
        place = place_of_delta(current.rest, level, complement=False)
        if place is not None and place.epsilon > 0.0:
            return place
    return None


def levels_at(leaves: RoundedLeaves, places: list[Place], tolerance: float, reserve: float) -> list[Level]:
    """Tilts and periods that serve all places."""
    rough, levels = _rough(leaves), list[Level]()
    for place in places:
        log_relative = _log_relative(place, tolerance) - reserve
        last = levels[-1].lengthened(place, log_relative) if levels else None
        levels = [*levels[:-1], last] if last is not None else [*levels, _level(rough, leaves.step, place, log_relative)]
    return levels


def _log_relative(place: Place, tolerance: float) -> float:
    """The accuracy of G that periods are made for."""
    return math.log(min(max(0.02 * tolerance * max(1.0, place.epsilon) * place.slope, _FINEST), _COARSEST))


def _level(rough: list[tuple[Rounded, int]], step: float, place: Place, log_relative: float) -> Level:
    """With the tilt that needs the shortest period for copies from both sides to be as small as asked."""
    found, least = None, math.inf
    for tilt in map(float, place.rungs.tilts[place.best] * _RUNGS):
        parts = [(Tilted.of(part, tilt, step), count) for part, count in rough]
        log_mgf = math.fsum(count * part.log_moment for part, count in parts)
        loss, shortest = log_mgf - tilt * place.epsilon - place.log_g, (-place.log_g - log_relative) / tilt
        if found is not None and (loss > _MOST_LOSS or math.log(shortest) + 0.02 * max(loss, 0.0) >= least or (
                tilt > found.tilt and _too_coarse(rough, step, tilt))):
            continue
        tilted = _Tilted(tilt, log_mgf, math.fsum(count * part.centre for part, count in parts), tail(parts, tilt, step))
        period = tilted.period(place, log_relative)
        score = math.log(period) + 0.02 * max(loss, 0.0)
        if score < least:
            found, least = Level(place, tilted, period), score
    assert found is not None
    return found


def _too_coarse(parts: list[tuple[Rounded, int]], step: float, tilt: float) -> bool:
    """Whether rounding up may be more than twice the truth."""
    return step * (tilt + 1.0) * math.sqrt(sum(count for _, count in parts)) >= _COARSE


def _rough(leaves: RoundedLeaves) -> list[tuple[Rounded, int]]:
    """Leaves with a few hundred points: all that are near the heaviest one, further away one of many, on a logarithmic scale."""
    parts = []
    for part, count in leaves.below:
        distances = np.arange(float(len(part.masses))) - float(part.masses.argmax())
        groups = np.where(np.abs(distances) < _NEAR_POINTS, distances, np.sign(distances) * np.floor(
            _NEAR_POINTS * (1.0 + np.log(np.maximum(np.abs(distances), 1.0) / _NEAR_POINTS))))
        starts = np.append(0, np.flatnonzero(np.diff(groups)) + 1)
        masses = np.zeros(len(part.masses))
        masses[(starts + np.append(starts[1:], len(masses)) - 1) // 2] = np.add.reduceat(part.masses, starts)
        parts.append((part._replace(masses=masses), count))
    return parts


def _aligned(composition: Composition, step: float) -> float:
    """The next smaller step of which the distance between two atoms is a multiple."""
    gaps = [pllr.finite_supremum - pllr.infimum for pllr in composition.counts if pllr.top_mass > 0.0 and pllr.bottom_mass > 0.0]
    longest = max(gaps, default=0.0)
    return longest / math.ceil(longest / step) if 0.0 < longest < math.inf and longest / step < _MOST_POINTS else step


def _pass(problem: Problem, question: Question, found: Proved, floor: np.ndarray, levels: list[Level],
          leaves: RoundedLeaves) -> tuple[Proved, float]:
    """All levels once, but for those of which too long periods or too steep tilts make nothing; and by how much finer the step must be
    for the targets that are still open.
    """
    for level in levels:
        if level.period > _MOST_POINTS * leaves.step or _too_coarse(leaves.above, leaves.step, level.tilt):
            continue
        left = question.open(found, floor)
        if not len(left):
            return found, 0.0
        raw = rounded_lattice(leaves, level.tilt, fft.next_fast_len(max(math.ceil(level.period / leaves.step), 32), real=True))
        nearest = _nearest(problem, question, found, left, level.place)
        found = found.met(question.read(problem.curve(raw), problem.whole, left, level.place.epsilon, found, floor, nearest), left)
    return found, _finer(question, found, floor)


def _finer(question: Question, found: Proved, floor: np.ndarray) -> float:
    """By how much finer the step must be for the targets that are open: widths fall with its square."""
    left = question.worthy(found, floor)
    ratios = (found.upper[left] - found.lower[left]) / np.maximum(question.wanted(found, left), 1e-300)
    known = np.isfinite(ratios) & (found.lower[left] > 0.0)
    finer = math.sqrt(float(ratios[known].max())) if known.any() else 0.0
    return min(max(finer, 0.0 if known.all() else _BLIND), _MOST_FINER)
