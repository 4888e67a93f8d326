"""Which theorem, in which order: one table.

    method                     when                                         cost
    random allocation          one epoch and nothing else                   some milliseconds
    closed form                Gaussians, a leaf, few atoms, Laplace's top  a tenth of a millisecond
    at the floor               another direction has an answer already      one ladder, one short contour
    lattices, few uses         up to 64 uses of up to 3 kinds, not atoms    3 to 50 ms, the same for a whole curve
    convolution, atoms         atoms on no common lattice                   as the small convolution below
    contour, short             always                                       a millisecond, up to 20 ms
    ..., rare losses out       losses without a largest one                 as above
    lattices                   what is not few uses                         10 to 200 ms
    one large loss             normal noise with rare large losses          0.1 to 1 s
    convolution, small         few kinds of leaves, up to a million uses    up to 1e7 pairs of points, 0.2 s
    contour                    always                                       up to 0.3 s
    ..., rare losses out       losses without a largest one                 as above
    convolution, large         as the small one                             up to 4e7 pairs
    negligible leaves out      leaves that shift epsilon by less than 1e-3  all of the above, of the rest
    Chernoff                   always                                       two ladders
    without sampling           no upper end yet                             closed form

Every row is asked only for targets that are still open, and can only narrow them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dp_edgeworth.losses.random_allocation import RandomAllocationLoss
from dp_edgeworth.losses.rules import RuleTooLargeError
from dp_edgeworth.proofs import chernoff, closed_form, convolution, reduction
from dp_edgeworth.proofs.contour import contour
from dp_edgeworth.proofs.curve import Curve
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.search.contours import planned
from dp_edgeworth.search.jumps import jump_at
from dp_edgeworth.search.ladder import rough_tilts
from dp_edgeworth.search.lattices import read_off_lattices
from dp_edgeworth.search.problem import Problem, without_rare
from dp_edgeworth.search.questions import DeltaAt, Question
from dp_edgeworth.search.random_allocation import read_epoch
from dp_edgeworth.sums.composition import Composition

_RESERVE = 14.0  # digits (base e) that a curve has to spare where it is to serve many targets
_FINER = (1.0, 1.0, 6.0, 36.0)
_RARE = 8.0  # losses of probability e^-8 delta in all, or less, are left out where they are in the way
_FEW_PAIRS, _MANY_PAIRS, _MOST_PASSES = 1e7, 4e7, 8
_MANY_TERMS, _NEIGHBOURS = 2_000, 12  # asking a large curve is dear: it serves a few neighbours only
_MOST_FAILURES = 3
_FEW_USES, _FEW_KINDS = 64, 3
_FEW_TARGETS = 8


class Method(NamedTuple):
    """A row of the table: its name, whether it applies, what it makes of the answers so far, and whether it takes long."""

    name: str
    applies: Callable[[Problem, Question, Proved], bool]
    run: Callable[[Problem, Question, Proved, np.ndarray], Proved]
    dear: bool = False


def _closed(problem: Problem, question: Question, found: Proved, floor: np.ndarray) -> Proved:
    """Both forms for every target: near delta = 1 that of 1 - delta is the better one."""
    forms = closed_form.closed_forms(problem.rest)
    if forms is None:
        return found
    left = question.open(found, floor)
    for form, part in zip(forms, question.halves(left), strict=True):
        part = question.within(form, problem.whole, part)
        if len(part):
            found = found.met(question.read(problem.curve(form), problem.whole, part, 0.0, found, floor), part)
    return found


def _at_the_floor(problem: Problem, question: Question, found: Proved, floor: np.ndarray) -> Proved:
    """Whether this direction stays below what another one has reached: by the Chernoff bound, or by the contour that that one has.

    These are told to mirror images only, whose tilts must be exact (`search.ladder`).
    """
    left = question.open(found, floor)
    middle = int(left[len(left) // 2])
    log_g, epsilon = question.expected(problem.whole, middle, floor)
    tilts = rough_tilts(problem.rest, log_g, epsilon)
    if tilts is None:
        return found
    curve: Curve = problem.curve(chernoff.chernoff(problem.rest, tilts))
    found = found.met(question.below(curve, problem.whole, left, floor), left)
    left, other = question.open(found, floor), problem.other
    if other is None or not (0 < len(left) <= _FEW_TARGETS and (1.0 + other.tilt) - 1.0 == other.tilt > 0.0 and tilts.min() > 0.0):
        return found
    curve = problem.curve(contour(problem.rest, other.tilt, other.period, other.size - 1, other.tau2, tilts))
    return found.met(question.below(curve, problem.whole, left, floor), left)


def _one_by_one(refine: Callable[..., tuple[Curve | None, Proved]]) -> Callable[[Problem, Question, Proved, np.ndarray], Proved]:
    """Curves for one open target after the other, each read for all that are still open; given up after a few without success."""

    def run(problem: Problem, question: Question, found: Proved, floor: np.ndarray) -> Proved:
        tried: list[int] = []
        failures, left = 0, question.open(found, floor)
        while failures < _MOST_FAILURES and len(left):
            number = int(left[len(left) // 2])
            tried.append(number)
            try:
                curve, found = refine(problem, question, found, floor, number, _RESERVE if len(left) > 2 else 0.0)
            except RuleTooLargeError:
                curve = None
            if curve is not None and len(left) > 1:
                found = _served(problem, question, curve, found, floor, left[left != number], number)
            left = question.open(found, floor)
            failures += number in left
            left = np.setdiff1d(left, tried) if len(left) else left
        return found

    return run


def _served(problem: Problem, question: Question, curve: Curve, found: Proved, floor: np.ndarray, others: np.ndarray,
            number: int) -> Proved:
    """What a curve made for one target says about the others: a large one only about a few neighbours, unless it serves these well."""
    order = np.argsort(np.abs(others - number), kind="stable")
    block = len(others) if curve.size < _MANY_TERMS else _NEIGHBOURS
    start = float(found.estimate[number])
    for part in np.split(others[order], range(block, len(others), max(block, 1))):
        if not len(part):
            break
        found = found.met(question.read(curve, problem.whole, part, start, found, floor, number), part)
        if 2 * len(np.intersect1d(part, question.open(found, floor))) > len(part):
            break
    return found


def _contours(*, short: bool = False, truncated: bool = False) -> Callable[[Problem, Question, Proved, np.ndarray], Proved]:
    """Contours until the interval of one target is as narrow as it was asked for, or gets no narrower."""

    def refine(problem: Problem, question: Question, found: Proved, floor: np.ndarray, number: int,
               reserve: float) -> tuple[Curve | None, Proved]:
        if truncated and question.complement(problem.rest, number):
            return None, found
        current = without_rare(problem, question, found, number, -_RARE) if truncated else problem
        place, curve, width = question.place(current.rest, problem.whole, number), None, math.inf
        for finer in _FINER:
            if place is None:
                break
            wanted = question.tolerance * max(1.0, abs(place.epsilon))
            raw = planned(place, wanted, place.slope, reserve, finer, short=short)
            if raw is None:
                break
            curve = current.curve(raw)
            found = found.met(question.read(curve, problem.whole, np.array([number]), place.epsilon, found, floor), [number])
            last, width = width, float(found.upper[number] - found.lower[number])
            if number not in question.open(found, floor) or not width < 0.7 * last:
                break
            place = question.closer(place, curve, found, number)
            if truncated:
                share = math.log(min(max(0.02 * wanted * place.slope, 1e-12), math.exp(-_RARE)))
                current = without_rare(problem, question, found, number, share)
                new = question.place(current.rest, problem.whole, number)
                place = None if new is None else new._replace(epsilon=place.epsilon, slope=place.slope)
        return curve, found

    return _one_by_one(refine)


def _convolutions(most_pairs: float, *, best: bool = False) -> Callable[[Problem, Question, Proved, np.ndarray], Proved]:
    """Convolutions on finer and finer grids, where the tolerance can be met with so many pairs of points; the last of them.

    Widths fall with the square of the step, and pairs grow with it. `best`: as fine as the pairs allow even if the tolerance cannot be
    met, if only that is finer than what is known.
    """

    def refine(problem: Problem, question: Question, found: Proved, floor: np.ndarray, number: int,
               reserve: float) -> tuple[Curve | None, Proved]:
        curve, step, drop = None, convolution.COARSEST, 20.0
        log_delta, guess = question.log_delta(problem.whole, found, number), question.scale(found, number)
        for _ in range(_MOST_PASSES):
            raw = convolution.convolved(problem.rest, log_delta, max(guess, question.tolerance), step, most_pairs)
            if raw is None:
                break
            curve = problem.curve(raw)
            own = question.read(curve, problem.whole, np.array([number]), guess, found, floor)
            found = found.met(own, [number])
            if number not in question.open(found, floor):
                break
            hidden = isinstance(question, DeltaAt) and raw.upper.infinite > 0.1 * max(float(own.upper[0]), 1e-300)
            if hidden and log_delta - drop > convolution.LEAST_LOG_DELTA:
                log_delta, drop = log_delta - drop, 2.0 * drop  # what was charged for a larger delta hides this one
                continue
            wanted, width = float(question.wanted(found, np.array([number]))[0]), float(own.upper[0] - own.lower[0])
            new = question.scale(found, number)  # what was made for another epsilon says nothing of what is possible
            possible = width * raw.size / most_pairs if math.isfinite(width) and 0.5 * guess < new < 2.0 * guess else 0.0
            known = float(found.upper[number] - found.lower[number])
            finer = min(math.sqrt(1.5 * width / wanted) if width > 0.0 else 3.0, 0.8 * math.sqrt(most_pairs / max(raw.size, 1)), 3.0)
            if possible > (0.5 * known if best else wanted) or not finer >= 1.2:
                break
            guess, step = new, step / finer
            log_delta = question.log_delta(problem.whole, found, number)
        return curve, found

    return _one_by_one(refine)


def _without_negligible(problem: Problem, question: Question, found: Proved, floor: np.ndarray) -> Proved:
    """All of the table for the composition without the leaves that hardly matter."""
    left = question.open(found, floor)
    budget, log_mass = question.budget(problem.whole, found, left)
    step = reduction.without_negligible(problem.rest, budget, log_mass) if math.isfinite(log_mass) else None
    return found if step is None else narrowed(problem.reduced(step), question, found, floor, TABLE[:_NARROWING])


def _chernoff(problem: Problem, question: Question, found: Proved, floor: np.ndarray) -> Proved:
    """Exponential tails on both sides, at tilts around both saddle points."""
    left = question.open(found, floor)
    spread = math.sqrt(max(float(problem.rest.rungs(np.zeros(1)).variance[0]), 1e-300))
    tilts = [-np.geomspace(1.0, 1e-3, 24) * min(0.999, 12.0 / spread), np.geomspace(1e-3, 1.0, 24) * 12.0 / spread]
    place = question.place(problem.rest, problem.whole, int(left[0]))
    if place is not None and not place.complement:
        tilts.append(place.rungs.tilts[max(place.best - 2, 0)] * np.geomspace(0.3, 4.0, 24))
    alone = Composition(problem.rest.counts, problem.rest.log_tail)
    curve = problem.curve(chernoff.chernoff(alone, np.concatenate(tilts)))
    return found.met(question.between(curve, problem.whole, left, found), left)


def _without_sampling(problem: Problem, question: Question, found: Proved, floor: np.ndarray) -> Proved:
    step = reduction.without_sampling(problem.rest)
    return found if step is None else _closed(problem.reduced(step), question, found, floor)


def _always(problem: Problem, question: Question, found: Proved) -> bool:
    return True


def _has_tail(problem: Problem, question: Question, found: Proved) -> bool:
    return problem.rest.has_tail


def _is_epoch(problem: Problem, question: Question, found: Proved) -> bool:
    return isinstance(problem.rest.single, RandomAllocationLoss)


def _is_few(problem: Problem, *_: object) -> bool:
    """Few uses of few kinds of leaves, none of them Gaussian: characteristic functions hardly fall, and rounding hardly hurts."""
    rest = problem.rest
    return rest.total <= _FEW_USES and rest.leaf_count <= _FEW_KINDS and rest.gaussian_variance == 0.0 and not rest.atomic


def _is_apart(problem: Problem, *_: object) -> bool:
    """Atoms on no common lattice, which rounding to one blurs at first order, and which a convolution keeps as they are."""
    return problem.rest.atomic and problem.rest.spacing is None


TABLE = (
    Method("random allocation", _is_epoch, lambda problem, *rest: read_epoch(problem.whole, *rest)),
    Method("closed form", _always, _closed),
    Method("lattices, few uses", _is_few, read_off_lattices),
    Method("convolution, atoms", _is_apart, _convolutions(_FEW_PAIRS)),
    Method("contour, short", lambda problem, question, found: not (question.hurried and _is_few(problem)), _contours(short=True)),
    Method("contour, short, rare losses out", _has_tail, _contours(short=True, truncated=True), dear=True),
    Method("lattices", lambda problem, *_: not _is_few(problem), read_off_lattices),
    Method("one large loss", _has_tail, _one_by_one(jump_at), dear=True),
    Method("convolution, small", _always, _convolutions(_FEW_PAIRS), dear=True),
    Method("contour", _always, _contours(), dear=True),
    Method("contour, rare losses out", _has_tail, _contours(truncated=True), dear=True),
    Method("convolution, large", _always, _convolutions(_MANY_PAIRS, best=True), dear=True),
    Method("negligible leaves out", lambda problem, *_: problem.rest.leaf_count > 1, _without_negligible, dear=True),
    Method("Chernoff", _always, _chernoff, dear=True),
    Method("without sampling", lambda problem, question, found: bool(np.isinf(found.upper).any()), _without_sampling),
)
_NARROWING = 12  # the first rows, which negligible leaves may have been in the way of


def narrowed(problem: Problem, question: Question, found: Proved, floor: np.ndarray, table: tuple[Method, ...] = TABLE) -> Proved:
    """Row after row, as long as a target is open; a row that needs too large a rule proves nothing."""
    if floor.any():
        table = (Method("at the floor", _always, _at_the_floor), *table)
    for method in table:
        if method.applies(problem, question, found) and (not method.dear or question.worth_waiting(found, floor)):
            before = found
            try:
                found = method.run(problem, question, found, floor)
            except RuleTooLargeError:
                continue
            if found is not before and not len(question.open(found, floor)):
                break
    return found
