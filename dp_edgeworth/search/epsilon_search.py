"""Certified epsilon of delta for one direction, by contours: one after the other, each serving all targets that it serves well.

Where the guess of epsilon is not to be trusted (a few rare large losses beside many small ones), or the first contours give a wide
interval, the composition is convolved on a geometric grid (`convolution.py`), every number of large losses gets a contour of its own
(`strata.py`), or the largest losses are left out of the composition (`Composition.truncated`): their probability is part of the upper
end.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dp_edgeworth.intervals import Bounds
from dp_edgeworth.losses.rules import EPSILON, RuleTooLargeError
from dp_edgeworth.proofs import convolution, lattice, spectral, strata
from dp_edgeworth.search import tilts
from dp_edgeworth.sums.composition import Composition

NEGLIGIBLE = 8.0  # losses of probability e^-8 delta in all, or less, are left out where they are in the way
RESERVE = 14.0  # digits (base e) that a contour has to spare where it is to serve a whole curve
_MANY_FREQUENCIES = 100_000  # a contour with more than this is not tried again with a finer one
FINEST = 1e-8  # relative width that strata aim at, at most
_WIDE = 1e-3  # relative
_MANY_TERMS, _BLOCK = 1_000, 12
MANY_ROUNDS, MANY_TARGETS = 6, 8  # a curve that needs so many contours, and more, is convolved as a whole
SMALL = 3e3  # in units of the tolerance: an epsilon that convolutions find quickly
_FINE = 2e-4  # relative width that convolutions aim at where epsilon is small
_TINY = 5e-324
FEW_PAIRS, MANY_PAIRS, MOST_PASSES = 1e7, 4e7, 8  # of points of a convolution; a million take about 25 ms
Contour = spectral.Contour | lattice.LatticeContour | strata.Strata | convolution.Convolution


def epsilons(composition: Composition, deltas: np.ndarray, open_targets: np.ndarray, tolerance: float,
             floor: np.ndarray, result: Bounds) -> None:
    """Contours for one open target after the other, each tried on all that are still open."""
    none = open_targets[deltas[open_targets] >= chi_square_delta(composition)]
    result.put(none, *np.zeros((3, len(none))))
    open_targets = np.setdiff1d(open_targets, none)
    rounds, known = 0, False
    while len(open_targets):
        index = open_targets[len(open_targets) // 2]
        try:
            done = _one_epsilon(composition, deltas, index, open_targets, tolerance, floor, result)
        except RuleTooLargeError:
            done = np.array([index])
        wide = _is_wide(result, index, tolerance)
        if (wide or result.upper[index] > (1.0 + _WIDE) * result.lower[index]) and result.upper[index] > floor[index]:
            goal = _goal(composition, deltas, index, tolerance, float(floor[index]))
            if not goal.complement:
                _convolved(composition, goal, result, (MANY_PAIRS if wide else FEW_PAIRS) / len(open_targets), best=True)
        rounds += 1
        open_targets = np.setdiff1d(open_targets, done)
        if rounds == MANY_ROUNDS and len(open_targets) > MANY_TARGETS:
            known = _convolved_curve(composition, deltas, open_targets, tolerance, result)
            open_targets = open_targets[[_is_wide(result, i, tolerance) for i in open_targets]]
        if known and rounds == 2 * MANY_ROUNDS:
            open_targets = open_targets[result.upper[open_targets] > (1.0 + _WIDE) * result.lower[open_targets]]
        if known and rounds == 4 * MANY_ROUNDS:  # what is left is as wide as the convolution
            break


def _convolved_curve(composition: Composition, deltas: np.ndarray, targets: np.ndarray, tolerance: float, result: Bounds) -> bool:
    """One convolution for many targets, if there is one: for the smallest delta and for the smallest epsilon."""
    goal = _goal(composition, np.minimum(deltas, 0.5), int(targets[0]), tolerance, 0.0)
    targets = targets[(deltas[targets] <= 0.5) & np.isfinite(goal.targets[targets])]
    targets = targets[np.argsort(goal.targets[targets])]
    if not len(targets):
        return False
    found, step, guess = None, convolution.COARSEST, tolerance
    few = targets[np.linspace(0, len(targets) - 1, 9).astype(int)]
    for _ in range(MOST_PASSES):
        finer_found = convolution.convolved(composition, float(goal.targets[targets[0]]), guess, step, FEW_PAIRS)
        if finer_found is None:
            break
        found = finer_found
        ends = np.array([found.crossing(float(goal.targets[i]), float(goal.slack[i])) for i in few])
        with np.errstate(invalid="ignore"):
            wanted = np.maximum(tolerance * np.maximum(1.0, ends[:, 0]), _FINE * ends[:, 0])
            worst = float(np.nanmax((ends[:, 2] - ends[:, 0]) / wanted))
        finer = min(math.sqrt(1.5 * worst), 0.8 * math.sqrt(FEW_PAIRS / max(found.size, 1)), 3.0)
        if finer < 1.2:
            break
        guess, step = max(float(ends[ends[:, 1] > 0.0, 1].min(initial=1.0)), tolerance), step / finer
    if found is None:
        return False
    for i in targets:
        low, middle, high = found.crossing(float(goal.targets[i]), float(goal.slack[i]))
        result.put(np.array([i]), np.array([low]), np.array([middle]), np.array([high]))
    return True


def chi_square_delta(composition: Composition) -> float:
    """delta(eps) <= delta(0) <= sqrt(e^{K(1)} - 1) / 2, the chi-square bound of total variation (no infinite losses)."""
    if composition.log_finite < 0.0:
        return 1.0
    try:
        k = composition.cgf([1.0])[:, 0]
    except RuleTooLargeError:
        return 1.0
    return min(1.0, 0.5 * math.sqrt(math.expm1(min(max(float(k[0] + k[3]), 0.0), 10.0))) * (1.0 + 1e-12) + _TINY)


def _one_epsilon(composition: Composition, deltas: np.ndarray, index: int, open_targets: np.ndarray, tolerance: float,
                 floor: np.ndarray, result: Bounds) -> np.ndarray:
    """Settles one target and whichever others its contour serves; returns their indices."""
    me = np.array([index])
    margin = composition.infinite_mass_margin
    finite = deltas - composition.infinite_mass
    if finite[index] <= margin:
        return me
    log_delta, whole = math.log(finite[index]), composition
    goal = _goal(composition, deltas, index, tolerance, float(floor[index]))
    targets, slack, complement = goal.targets, goal.slack, goal.complement
    contour, cuts = None, not complement and whole.has_tail
    for cut in (False, True) if cuts else (False,):
        if cut:  # Rare losses far above the target hide it.
            contour = _convolved(whole, goal, result, FEW_PAIRS) or contour
            if _is_fine(result, index, tolerance) or result.upper[index] <= floor[index]:
                break
            contour = _stratified(whole, goal._replace(reserve=0.0), log_delta, result) or contour
            if not _is_wide(result, index, tolerance):
                break
            # Without them everything happens on one scale.
            composition = whole.truncated(log_delta - NEGLIGIBLE)
        start = _start(composition, log_delta, open_targets, finite - margin, result)
        if result.upper[index] <= floor[index]:  # so do the other targets that another direction has decided
            return open_targets[result.upper[open_targets] <= floor[open_targets]]
        if start.tilt is None or (cuts and not cut and not start.sure):
            continue
        if tilts.at_the_top(composition, start.tilt):
            return me
        if not (complement or cuts) and (not start.sure or (result.upper[index] < SMALL * tolerance and not whole.atomic)):
            contour = _convolved(whole, goal, result, FEW_PAIRS)
            if _is_fine(result, index, tolerance) or result.upper[index] <= floor[index]:
                break
        goal = goal._replace(reserve=RESERVE if len(open_targets) > 2 else 0.0)
        if not complement and start.guess < 0.97 * floor[index]:
            decided = _below_floor(composition, start.tilt, goal, open_targets, floor, result)
            if index in decided:
                return decided
        contour = _refined(composition, whole, start, goal, log_delta, result) or contour
        if not _is_wide(result, index, tolerance):
            break
    if not (cuts or complement) and _is_wide(result, index, tolerance):
        contour = _stratified(whole, goal._replace(reserve=0.0), log_delta, result) or contour
    others = open_targets[(open_targets != index) & ((deltas[open_targets] > 0.5) == complement)]
    if contour is None or not len(others):
        return me
    guess, served = float(result.estimate[index]), [me]
    others = others[np.argsort(np.abs(targets[others] - targets[index]))]
    block = len(others) if contour.size < _MANY_TERMS else _BLOCK  # a large contour serves a few neighbours, and asking it is expensive
    for block_of in np.split(others, range(block, len(others), block)):
        starts = np.maximum(guess + (targets[index] - targets[block_of]) / contour.tilt, 0.0)
        *found, _ = solve(contour, targets[block_of], slack[block_of], np.minimum(starts, 2.0 * guess + 10.0))
        good = found[2] - found[0] <= tolerance * np.maximum(1.0, found[0])
        result.put(block_of[good], *(part[good] for part in found))
        served.append(block_of[good])
        if 2 * good.sum() < len(good):
            break
    return np.concatenate(served)


class _Start(NamedTuple):
    """Where to begin: the Chernoff tilt (None where no rule is fine enough), a guess of epsilon, whether it is a good one."""

    tilt: float | None
    guess: float
    sure: bool


class _Goal(NamedTuple):
    """The target to be met: its number, log G and their errors for all targets, and what is wanted of the contour."""

    number: int
    targets: np.ndarray
    slack: np.ndarray
    tolerance: float
    reserve: float
    complement: bool  # G is 1 - delta
    floor: float  # the epsilon that another direction has reached


def _goal(composition: Composition, deltas: np.ndarray, index: int, tolerance: float, floor: float) -> _Goal:
    """What is asked of the finite losses: delta less the infinite mass, or 1 - delta where that is the smaller one."""
    complement, finite = bool(deltas[index] > 0.5), deltas - composition.infinite_mass
    margin = composition.infinite_mass_margin
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        targets = np.log1p(-deltas) if complement else np.log(np.maximum(finite, 0.0))
        # how far the targets themselves are rounded
        share = np.zeros(len(deltas)) if complement else np.minimum(margin / np.maximum(finite, _TINY), 1.0)
        slack = 4.0 * EPSILON * np.abs(targets) - np.log1p(-share)
    return _Goal(index, targets, slack, tolerance, 0.0, complement, floor)


def _is_wide(result: Bounds, index: int, tolerance: float) -> bool:
    return bool(result.upper[index] - result.lower[index] > tolerance * max(1.0, result.lower[index]))


def _fine(epsilon: float, tolerance: float) -> float:
    """The width that convolutions aim at: relative where epsilon is small."""
    return min(tolerance * max(1.0, epsilon), _FINE * max(epsilon, tolerance))


def _is_fine(result: Bounds, index: int, tolerance: float) -> bool:
    return bool(result.upper[index] - result.lower[index] <= _fine(float(result.lower[index]), tolerance))


def _refined(composition: Composition, whole: Composition, start: _Start, goal: _Goal, log_delta: float,
             result: Bounds) -> Contour | None:
    """Contours until the interval of one target is as narrow as it was asked for, or gets no narrower; the last of them."""
    me, target, tilt, guess = np.array([goal.number]), float(goal.targets[goal.number]), start.tilt, start.guess
    assert tilt is not None
    if goal.complement:
        tilt = tilts.negative_tilt(composition, guess)
    contour, slope = None, abs(tilt)
    try:
        if not start.sure:  # a rough pass first: a contour made for the wrong epsilon is expensive and wide
            width = max(goal.tolerance * max(1.0, guess), 0.05 * (guess or 1.0 / abs(tilt)))
            rough = lattice.contour(composition, tilt, guess, target, width)
            guess, slope = (float(part[0]) for part in _newton(rough, goal.targets[me], np.array([guess])))
        if composition is not whole:  # leave out no more than the tolerance allows
            dropped = min(max(0.02 * goal.tolerance * max(1.0, guess) * slope, 1e-12), math.exp(-NEGLIGIBLE))
            composition = whole.truncated(log_delta + math.log(dropped))
            tilt = spectral.positive_tilt(composition, log_delta)
        for finer in (1.0, 1.0, 6.0, 36.0):
            contour = lattice.contour(composition, tilt, guess, target, goal.tolerance * max(1.0, guess), finer, slope, goal.reserve)
            *found, slopes = solve(contour, goal.targets[me], goal.slack[me], np.array([guess]))
            result.put(me, *found)
            guess, slope = float(found[1][0]), float(slopes[0])
            narrow = result.upper[me[0]] - result.lower[me[0]] <= goal.tolerance * max(1.0, result.lower[me[0]])
            if narrow or contour.size > _MANY_FREQUENCIES:
                break
    except RuleTooLargeError:
        pass
    return contour


def _convolved(composition: Composition, goal: _Goal, result: Bounds, most_pairs: float, *, best: bool = False) -> Contour | None:
    """Convolutions on finer and finer grids, where the tolerance can be met with so many pairs of points; the last of them.

    Widths fall with the square of the step, and pairs grow with it. `best`: as fine as the pairs allow even if the tolerance cannot be
    met, if only that is finer than what is known.
    """
    number, me, contour, step = goal.number, np.array([goal.number]), None, convolution.COARSEST
    log_delta, most = float(goal.targets[number]), float(result.upper[number])
    guess = 0.3 * most if most < math.inf else 1.0
    for _ in range(MOST_PASSES):
        found = convolution.convolved(composition, log_delta, max(guess, goal.tolerance), step, most_pairs)
        if found is None:
            break
        contour, used = found, guess
        low, guess, high = found.crossing(log_delta, float(goal.slack[number]))
        result.put(me, np.array([low]), np.array([guess]), np.array([high]))
        known = float(result.upper[number] - result.lower[number])
        wanted = _fine(low, goal.tolerance)
        possible = (high - low) * found.size / most_pairs if 0.5 * used < guess < 2.0 * used else 0.0
        if known <= wanted or result.upper[number] <= goal.floor:
            break
        if possible > (0.5 * known if best else wanted):
            break
        finer = min(math.sqrt(1.5 * (high - low) / wanted), 0.8 * math.sqrt(most_pairs / max(found.size, 1)), 3.0)
        if finer < 1.2:
            break
        step /= finer
    return contour


def _stratified(composition: Composition, goal: _Goal, log_delta: float, result: Bounds) -> Contour | None:
    """Strata until the interval of one target is as narrow as it was asked for; the last of them."""
    number, me, contour = goal.number, np.array([goal.number]), None
    found_plan = strata.planner(composition, log_delta, float(result.lower[number]), 3.0 * float(result.upper[number]),
                                goal.tolerance)  # its tables should reach beyond epsilon
    if found_plan is None:
        return None
    planner, guess = found_plan
    slope = planner.slope(guess)
    try:
        for finer in (1.0, 1.0, 2.0, 6.0):
            width = max(goal.tolerance * max(1.0, guess), FINEST * guess)
            contour = planner.contour(guess, slope, width, finer)
            *found, slopes = solve(contour, goal.targets[me], goal.slack[me], np.array([guess]))
            result.put(me, *found)
            guess, slope = max(float(found[1][0]), 0.5 * goal.tolerance), float(slopes[0])
            if result.upper[number] - result.lower[number] <= width or contour.size > _MANY_FREQUENCIES:
                break
    except RuleTooLargeError:
        pass
    return contour


def _start(composition: Composition, log_delta: float, open_targets: np.ndarray, finite: np.ndarray,
           result: Bounds) -> _Start:
    """The Chernoff tilt, whose bounds are put into the result, and a guess of epsilon."""
    try:
        tilt = spectral.positive_tilt(composition, log_delta)
        with np.errstate(divide="ignore", invalid="ignore"):
            bounds = np.maximum(spectral.chernoff_epsilon(composition, tilt, np.log(finite[open_targets])), 0.0)
        bounds = np.where(np.isnan(bounds), math.inf, bounds)
        result.put(open_targets, np.zeros(len(bounds)), bounds, bounds)
        most = float(bounds[np.argmin(np.abs(np.log(finite[open_targets]) - log_delta))])
        return _Start(tilt, *tilts.saddle_guess(composition, tilt, log_delta, most))
    except RuleTooLargeError:
        return _Start(None, 0.0, False)


def _below_floor(composition: Composition, tilt: float, goal: _Goal, open_targets: np.ndarray, floor: np.ndarray,
                 result: Bounds) -> np.ndarray:
    """Targets whose epsilon is proved, by one coarse contour, not to exceed what another direction has reached: their floor."""
    least = float(floor[goal.number])
    try:
        contour = lattice.contour(composition, tilt, least, float(goal.targets[goal.number]), 1e-3 * max(1.0, least), slope=tilt)
    except RuleTooLargeError:
        return open_targets[:0]
    proved = contour.bounds(floor[open_targets]).upper <= goal.targets[open_targets] - goal.slack[open_targets]
    done = open_targets[proved]
    result.put(done, np.zeros(len(done)), floor[done], floor[done])
    return done


def _newton(contour: Contour, targets: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Where the estimate of log G crosses the targets, eps >= 0, and how steeply; G falls for c > 0 and rises for c < 0.

    Newton's method; a step that leaves the bracket of the points seen so far (log G has corners on a lattice) is halved into it.
    """
    rising = contour.tilt < 0
    epsilons, moving = starts.copy(), np.ones(len(starts), bool)
    slopes, low, high = np.empty(len(starts)), np.zeros(len(starts)), np.full(len(starts), math.inf)
    for _ in range(60):
        here = epsilons[moving]
        bound = contour.bounds(here)
        usable = np.isfinite(bound.slope) & (bound.slope != 0) & ((bound.slope > 0) == rising)
        slope = np.where(usable, bound.slope, -contour.tilt)
        with np.errstate(invalid="ignore", over="ignore"):
            excess = np.nan_to_num(targets[moving] - bound.estimate, nan=contour.tilt, posinf=1e300, neginf=-1e300)
            beyond = (excess > 0) != rising
            low[moving], high[moving] = np.where(beyond, low[moving], here), np.where(beyond, here, high[moving])
            step = np.clip(excess / slope, -2.0 - 0.5 * here, 2.0 + 0.5 * here)
        new = np.maximum(here + step, 0.0)
        outside = ((new <= low[moving]) | (new >= high[moving])) & np.isfinite(high[moving]) & (new != here)
        new = np.where(outside, 0.5 * (low[moving] + high[moving]), new)
        # Newton squares what is left
        still = np.abs(new - here) > 1e-7 * np.maximum(np.minimum(1e-3, 0.1 / abs(contour.tilt)), new)
        slopes[moving], epsilons[moving] = np.abs(slope), new
        moving[moving] = still
        if not moving.any():
            break
    return epsilons, slopes


def solve(contour: Contour, targets: np.ndarray, slack: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, ...]:
    """Lower ends, estimates, upper ends and slopes: the epsilons >= 0 where the bounds of log G cross the targets.

    `slack` is the error of the targets.
    """
    rising = contour.tilt < 0
    epsilons, slopes = _newton(contour, targets, starts)
    bound = contour.bounds(epsilons)
    sign = -1.0 if rising else 1.0
    high, low = (bound.lower, bound.upper) if rising else (bound.upper, bound.lower)
    above, below = targets - sign * slack, targets + sign * slack
    lift, drop = np.maximum(sign * (high - above), 0.0) / slopes, np.maximum(sign * (below - low), 0.0) / slopes
    upper = _walk(contour, above, epsilons, lift, upward=True)
    lower = _walk(contour, below, epsilons, drop, upward=False)
    return lower, np.clip(epsilons, lower, upper), upper, slopes


def _walk(contour: Contour, targets: np.ndarray, epsilons: np.ndarray, distances: np.ndarray, *,
          upward: bool) -> np.ndarray:
    """Steps away from the estimates until the bound proves its side; inf or 0 where it never does."""
    result = np.full(len(epsilons), math.inf if upward else 0.0)
    unit = 1e-13 * np.maximum(epsilons, 1e-2)
    distance = np.where(np.isfinite(distances), distances, 1e-6) * 1.001 + unit
    if upward:  # where the estimate is 0, 0 itself is the first candidate
        distance = np.where((epsilons == 0.0) & (distances <= unit), 0.0, distance)
    active = np.arange(len(epsilons))
    for _ in range(40):
        points = epsilons[active] + (distance[active] if upward else -distance[active])
        if not upward:
            active, points = active[points > 0.0], points[points > 0.0]
        if not len(active):
            break
        b = contour.bounds(points)
        if contour.tilt < 0:
            proved = b.lower >= targets[active] if upward else b.upper < targets[active]
        else:
            proved = b.upper <= targets[active] if upward else b.lower > targets[active]
        result[active[proved]] = points[proved]
        active = active[~proved]
        distance[active] = np.maximum(distance[active], unit[active]) * np.where(distance[active] > 1e-9, 2.0, 8.0)
    return result
