"""From certified bounds of one direction to intervals of epsilon and delta, for whole arrays of targets.

An upper end of epsilon is returned only where the upper bound of delta was evaluated and found <= the target, a lower end only
where the lower bound was found > the target, otherwise inf and 0: delta(eps) is non-increasing, so both are proved. In order:

    closed form   compositions of Gaussians; a single leaf whose hockey-stick is known
    spectral      `spectral.py`, with the tilt at the Chernoff optimum; one contour serves all targets that it serves well
    Chernoff      where the spectral bound would need more work than allowed; and the largest possible loss
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import optimize

from dp_edgeworth import gaussian, lattice, spectral
from dp_edgeworth.composition import EPSILON, Composition
from dp_edgeworth.pllr import RuleTooLargeError

_TINY = 5e-324
_CLOSED_FORM_ERROR = 4e-12  # relative error allowed for the closed forms
_MANY_FREQUENCIES = 100_000  # a contour with more than this is not tried again with a finer one
_STEEPEST = 1e8
_NEGLIGIBLE = 8.0  # losses of probability e^-8 delta in all, or less, are left out where they are in the way
_RESERVE = 14.0  # digits (base e) that a contour has to spare where it is to serve a whole curve
LogFunction = Callable[[np.ndarray], np.ndarray]
Contour = spectral.Contour | lattice.LatticeContour


class Interval(NamedTuple):
    """A certified interval and the best estimate inside it: floats, or arrays of one shape."""

    lower: float
    estimate: float
    upper: float


class Bounds(NamedTuple):
    """An interval for every target."""

    lower: np.ndarray
    estimate: np.ndarray
    upper: np.ndarray

    def put(self, index: np.ndarray, lower: np.ndarray, estimate: np.ndarray, upper: np.ndarray) -> None:
        """Intersects with another valid interval; the estimate is the newer one, kept inside."""
        self.lower[index] = np.maximum(self.lower[index], lower)
        self.upper[index] = np.minimum(self.upper[index], upper)
        self.estimate[index] = np.clip(estimate, self.lower[index], self.upper[index])

    def largest(self, other: Bounds) -> Bounds:
        """The interval of the larger of two quantities."""
        return Bounds(*(np.maximum(a, b) for a, b in zip(self, other, strict=True)))


class Direction(NamedTuple):
    """One direction of a composition.

    Attributes:
      upper: the composition itself, or one with at least as much loss.
      lower: one with at most as much loss; the same object where the pairs are exact.
    """

    upper: Composition
    lower: Composition


def epsilon_bounds(directions: Sequence[Direction], deltas: np.ndarray, tolerance: float) -> Bounds:
    """Intervals of the smallest epsilon >= 0 with delta(epsilon) <= delta in all directions ([EA] Lemma 3.3).

    Args:
      directions: what to take the supremum over.
      deltas: targets in [0, 1].
      tolerance: width aimed at, absolute below epsilon 1, relative above.
    """
    return _supremum(directions, lambda c, floor: _epsilons(c, deltas, tolerance, floor), deltas)


def delta_bounds(directions: Sequence[Direction], epsilons: np.ndarray, tolerance: float) -> Bounds:
    """Intervals of delta(epsilon), epsilon >= 0, the larger of all directions."""
    return _supremum(directions, lambda c, floor: _deltas(c, epsilons, tolerance, floor), epsilons)


def _supremum(directions: Sequence[Direction], bounds: Callable[[Composition, np.ndarray], Bounds],
              targets: np.ndarray) -> Bounds:
    """The larger interval; a direction is not refined below what another one has already reached (its floor)."""
    zero = np.zeros(targets.shape)
    result = Bounds(zero, zero, zero)
    for upper, lower in directions:
        above = bounds(upper, result.lower)
        if lower is not upper:
            below = bounds(lower, result.lower)
            with np.errstate(invalid="ignore"):
                middle = np.where(np.isfinite(above.estimate), 0.5 * (below.estimate + above.estimate), above.estimate)
            low = np.minimum(below.lower, above.upper)
            above = Bounds(low, np.clip(middle, low, above.upper), above.upper)
        result = result.largest(above)
    return result


# epsilon of delta ----------------------------------------------------------------------------------------------------


def _epsilons(composition: Composition, deltas: np.ndarray, tolerance: float, floor: np.ndarray) -> Bounds:
    if math.isinf(composition.gaussian_variance):  # beyond all floats
        unknown = np.where(deltas >= 1.0, 0.0, math.inf)
        return Bounds(np.zeros(deltas.shape), unknown, unknown)
    most = max(_outward(composition.supremum), 0.0)
    finite_most = max(_outward(composition.finite_supremum), 0.0)
    result = Bounds(np.zeros(deltas.shape), np.full(deltas.shape, most), np.full(deltas.shape, most))
    trivial = deltas >= 1.0
    result.put(trivial, np.array(0.0), np.array(0.0), np.array(0.0))
    margin = composition.infinite_mass * composition.infinite_mass_error
    hopeless = (deltas < composition.infinite_mass + margin) | ((deltas == 0.0) & math.isinf(most))
    if math.isinf(most):
        result.lower[hopeless & ((deltas < composition.infinite_mass - margin) | (deltas == 0.0))] = math.inf
    pure = (deltas == 0.0) & ~hopeless
    result.put(pure, np.array(max(_inward(composition.supremum), 0.0)), np.array(composition.supremum), np.array(most))
    rest = np.flatnonzero(~(trivial | hopeless | pure))
    result.upper[rest] = finite_most
    result.estimate[rest] = np.minimum(result.estimate[rest], finite_most)
    rest = rest[floor[rest] < finite_most]
    if composition.log_top_mass > -700.0:  # delta(eps) >= P(Y = top) (1 - e^{eps - top})
        top = math.exp(composition.log_top_mass) * (1.0 - 1e-12)
        with np.errstate(divide="ignore", invalid="ignore"):
            least = _inward(composition.supremum) + np.log1p(-deltas[rest] / top)
        result.lower[rest] = np.where(deltas[rest] < top, np.maximum(least, 0.0), 0.0)
        done = result.upper[rest] - result.lower[rest] <= tolerance * np.maximum(1.0, result.lower[rest])
        result.estimate[rest[done]] = 0.5 * (result.lower[rest[done]] + result.upper[rest[done]])
        rest = rest[~done]
    if len(rest):
        closed = _closed_form(composition)
        if closed is not None:
            result.put(rest, *_closed_epsilons(*closed, deltas[rest], finite_most))
        else:
            _spectral_epsilons(composition, deltas, rest, tolerance, floor, result)
    return Bounds(*(np.maximum(part, 0.0) for part in result))


def _closed_form(composition: Composition) -> tuple[LogFunction, LogFunction, float] | None:
    """(log delta, log(1 - delta), size of the losses) where log delta is a known function of epsilon."""
    if composition.is_gaussian:
        mu = math.sqrt(composition.gaussian_variance)
        return (lambda e: gaussian.log_delta(e, mu)), (lambda e: gaussian.log_complement(e, mu)), mu * mu
    single = composition.single
    if single is None or single.log_hockey_stick(np.zeros(1)) is None:
        return None

    def log_delta(epsilon: np.ndarray) -> np.ndarray:
        return np.minimum(np.asarray(single.log_hockey_stick(epsilon)), 0.0)

    def log_complement(epsilon: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(log_delta(epsilon)))

    return log_delta, log_complement, single.loss_scale


def _closed_epsilons(log_delta: LogFunction, log_complement: LogFunction, scale: float, deltas: np.ndarray,
                     most: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bisection, with the closed form's error added on either side, in whichever of delta and 1 - delta is small.

    Rounding inside the closed form is a shift of epsilon by units in the last place of epsilon and of the scale.
    """
    large = deltas > 0.5
    with np.errstate(divide="ignore"):
        targets = np.where(large, np.log1p(-deltas), np.log(deltas))
    # What is known of delta near 1 is 1 - delta to a few units in the last place of 1.
    margins = np.array([-1.0, 0.0, 1.0])[:, None] * (_CLOSED_FORM_ERROR + np.where(large, 32.0 * EPSILON * np.exp(-targets), 0.0))

    def above(epsilons: np.ndarray) -> np.ndarray:
        """Whether delta(epsilon), margin included, is above its target."""
        return np.where(large, log_complement(epsilons) - margins < targets, log_delta(epsilons) + margins > targets)

    low, high = _last_true(above, (3, len(deltas)), most)
    shift = _closed_shift(low[1], scale)
    return np.where(low[0] > 0, np.maximum(low[0] - shift, 0.0), 0.0), low[1], np.where(high[2] > 0, high[2] + shift, 0.0)


def _closed_shift(epsilons: np.ndarray, scale: float) -> np.ndarray:
    return 32.0 * EPSILON * (np.abs(epsilons) + scale)


def _last_true(condition: Callable[[np.ndarray], np.ndarray], shape: tuple[int, ...], most: float) -> tuple[np.ndarray, np.ndarray]:
    """Neighbouring floats (a, b) >= 0 with condition(a) and not condition(b); (0, 0) where it is false at 0."""
    never = ~condition(np.zeros(shape))
    exponents_low, exponents_high = np.full(shape, -1075.0), np.full(shape, 1024.0)
    for _ in range(12):  # the binary exponent first, so that every scale costs the same
        middle = np.round(0.5 * (exponents_low + exponents_high))
        true = condition(np.minimum(np.exp2(np.minimum(middle, 1023.0)), most))
        exponents_low, exponents_high = np.where(true, middle, exponents_low), np.where(true, exponents_high, middle)
    low = np.where(exponents_low > -1075.0, np.exp2(np.minimum(exponents_low, 1023.0)), 0.0)
    high = np.exp2(np.minimum(exponents_high, 1023.0))
    high = np.where(exponents_high >= 1024.0, math.inf, high)
    low, high = np.minimum(low, most), np.minimum(high, most)
    for _ in range(56):
        middle = low + 0.5 * (np.where(np.isfinite(high), high, low) - low)
        true = condition(middle)
        low, high = np.where(true, middle, low), np.where(true, high, middle)
    return np.where(never, 0.0, low), np.where(never, 0.0, high)


def _spectral_epsilons(composition: Composition, deltas: np.ndarray, open_targets: np.ndarray, tolerance: float,
                       floor: np.ndarray, result: Bounds) -> None:
    """Contours for one open target after the other, each tried on all that are still open."""
    none = open_targets[deltas[open_targets] >= _chi_square_delta(composition)]
    result.put(none, *np.zeros((3, len(none))))
    open_targets = np.setdiff1d(open_targets, none)
    while len(open_targets):
        index = open_targets[len(open_targets) // 2]
        try:
            done = _one_epsilon(composition, deltas, index, open_targets, tolerance, floor, result)
        except RuleTooLargeError:
            done = np.array([index])
        open_targets = np.setdiff1d(open_targets, done)


def _one_epsilon(composition: Composition, deltas: np.ndarray, index: int, open_targets: np.ndarray, tolerance: float,
                 floor: np.ndarray, result: Bounds) -> np.ndarray:
    """Settles one target and whichever others its contour serves; returns their indices."""
    me = np.array([index])
    margin = composition.infinite_mass * composition.infinite_mass_error
    finite = deltas - composition.infinite_mass
    if finite[index] <= margin:
        return me
    log_delta, whole = math.log(finite[index]), composition
    complement = bool(deltas[index] > 0.5)
    with np.errstate(divide="ignore", invalid="ignore"):
        targets = np.log1p(-deltas) if complement else np.log(np.maximum(finite, 0.0))
        # how far the targets themselves are rounded
        share = np.zeros(len(deltas)) if complement else np.minimum(margin / np.maximum(finite, _TINY), 1.0)
        slack = 4.0 * EPSILON * np.abs(targets) - np.log1p(-share)
    contour, cuts = None, not complement and math.isinf(whole.finite_supremum)
    for cut in (False, True) if cuts else (False,):
        if cut:  # Rare losses far above the target hide it: without them everything happens on one scale.
            composition = whole.truncated(log_delta - _NEGLIGIBLE)
        start = _start(composition, log_delta, open_targets, finite - margin, result)
        if result.upper[index] <= floor[index]:  # so do the other targets that another direction has decided
            return open_targets[result.upper[open_targets] <= floor[open_targets]]
        if start.tilt is None or (cuts and not cut and not start.sure):
            continue
        if _at_the_top(composition, start.tilt):
            return me
        goal = _Goal(index, targets, slack, tolerance, _RESERVE if len(open_targets) > 2 else 0.0, complement)
        contour = _refined(composition, whole, start, goal, log_delta, result) or contour
        if result.upper[index] - result.lower[index] <= tolerance * max(1.0, result.lower[index]):
            break
    others = open_targets[(open_targets != index) & ((deltas[open_targets] > 0.5) == complement)]
    if contour is None or not len(others):
        return me
    guess = float(result.estimate[index])
    starts = np.maximum(guess + (targets[index] - targets[others]) / contour.tilt, 0.0)
    *found, _ = _solve(contour, targets[others], slack[others], np.minimum(starts, 2.0 * guess + 10.0))
    good = found[2] - found[0] <= tolerance * np.maximum(1.0, found[0])
    result.put(others[good], *(part[good] for part in found))
    return np.append(others[good], index)


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


def _refined(composition: Composition, whole: Composition, start: _Start, goal: _Goal, log_delta: float,
             result: Bounds) -> Contour | None:
    """Contours until the interval of one target is as narrow as it was asked for, or gets no narrower; the last of them."""
    me, target, tilt, guess = np.array([goal.number]), float(goal.targets[goal.number]), start.tilt, start.guess
    assert tilt is not None
    if goal.complement:
        tilt = _negative_tilt(composition, guess)
    contour, slope = None, abs(tilt)
    try:
        if not start.sure:  # a rough pass first: a contour made for the wrong epsilon is expensive and wide
            width = max(goal.tolerance * max(1.0, guess), 0.05 * (guess or 1.0 / abs(tilt)))
            rough = lattice.contour(composition, tilt, guess, target, width)
            guess, slope = (float(part[0]) for part in _newton(rough, goal.targets[me], np.array([guess])))
            if composition is not whole:
                dropped = min(max(0.02 * goal.tolerance * max(1.0, guess) * slope, 1e-12), math.exp(-_NEGLIGIBLE))
                composition = whole.truncated(log_delta + math.log(dropped))
                tilt = spectral.positive_tilt(composition, log_delta)
        for finer in (1.0, 1.0, 6.0, 36.0):
            contour = lattice.contour(composition, tilt, guess, target, goal.tolerance * max(1.0, guess), finer, slope, goal.reserve)
            *found, slopes = _solve(contour, goal.targets[me], goal.slack[me], np.array([guess]))
            result.put(me, *found)
            guess, slope = float(found[1][0]), float(slopes[0])
            narrow = result.upper[me[0]] - result.lower[me[0]] <= goal.tolerance * max(1.0, result.lower[me[0]])
            if narrow or contour.size > _MANY_FREQUENCIES:
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
        most = float(spectral.chernoff_epsilon(composition, tilt, np.array([log_delta]))[0])
        return _Start(tilt, *_saddle_guess(composition, tilt, log_delta, max(most, 0.0)))
    except RuleTooLargeError:
        return _Start(None, 0.0, False)


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
        with np.errstate(invalid="ignore"):
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


def _solve(contour: Contour, targets: np.ndarray, slack: np.ndarray, starts: np.ndarray) -> tuple[np.ndarray, ...]:
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


# delta of epsilon ----------------------------------------------------------------------------------------------------


def _deltas(composition: Composition, epsilons: np.ndarray, tolerance: float, floor: np.ndarray) -> Bounds:
    if math.isinf(composition.gaussian_variance):  # beyond all floats
        return Bounds(np.zeros(epsilons.shape), np.ones(epsilons.shape), np.ones(epsilons.shape))
    infinite = composition.infinite_mass
    most = min(1.0, infinite * (1.0 + 1e-14))
    result = Bounds(np.full(epsilons.shape, infinite * (1.0 - 1e-14)), np.ones(epsilons.shape), np.ones(epsilons.shape))
    beyond = (epsilons >= _outward(composition.finite_supremum)) | np.isinf(epsilons)
    result.estimate[beyond], result.upper[beyond] = infinite, most
    if not math.isfinite(composition.finite_supremum):
        result.upper[beyond] = max(most, _TINY)
    without = epsilons >= _outward(composition.supremum)
    result.lower[without], result.estimate[without], result.upper[without] = 0.0, 0.0, 0.0
    rest = np.flatnonzero(~beyond)
    if composition.log_finite == -math.inf or not len(rest):
        return Bounds(np.where(without, 0.0, result.lower), result.estimate, result.upper)
    closed = _closed_form(composition)
    if closed is not None:
        log_delta, _, scale = closed
        shift = _closed_shift(epsilons[rest], scale)
        below, above = log_delta(epsilons[rest] + shift), log_delta(np.maximum(epsilons[rest] - shift, 0.0))
        _put_logs(result, rest, below - _CLOSED_FORM_ERROR, log_delta(epsilons[rest]), above + _CLOSED_FORM_ERROR, 0.0)
        return result
    mean = _mean(composition)
    while len(rest):
        index = rest[len(rest) // 2]
        same_side = rest[(epsilons[rest] < mean) == (epsilons[index] < mean)]
        one = _one_complement if epsilons[index] < mean else _one_delta
        try:
            done = one(composition, epsilons, index, same_side, tolerance, floor, result)
        except RuleTooLargeError:
            bound = np.array([_chi_square_delta(composition)])
            result.put(np.array([index]), np.zeros(1), bound, bound)
            done = np.array([index])
        rest = np.setdiff1d(rest, done)
    return result


def _one_delta(composition: Composition, epsilons: np.ndarray, index: int, open_targets: np.ndarray, tolerance: float,
               floor: np.ndarray, result: Bounds) -> np.ndarray:
    """Settles one epsilon and whichever others its contour serves; returns their indices."""
    me, epsilon, whole = np.array([index]), float(epsilons[index]), composition
    width, share = tolerance * max(1.0, epsilon), math.exp(-_NEGLIGIBLE)
    tilt, guess = _start_delta(composition, epsilons, index, open_targets, result)
    contour = None
    reserve = _RESERVE if len(open_targets) > 2 else 0.0
    for attempt, finer in enumerate((1.0, 1.0, 6.0, 1.0, 1.0, 1.0)):
        if result.upper[index] <= floor[index]:  # so do the other targets that another direction has decided
            return open_targets[result.upper[open_targets] <= floor[open_targets]]
        if attempt >= 3 or tilt is None:
            if math.isfinite(whole.finite_supremum):
                break
            # Rare losses far above epsilon hide it, see `_one_epsilon`.
            composition = whole.truncated(math.log(share) + math.log(max(result.upper[index] - whole.infinite_mass, 1e-300)))
            tilt, guess = _start_delta(composition, epsilons, index, open_targets, result)
        if tilt is None or _at_the_top(composition, tilt):
            break
        try:
            contour = lattice.contour(composition, tilt, epsilon, guess, width, finer, reserve=reserve)
        except RuleTooLargeError:
            tilt = None
            continue
        b = contour.bounds(epsilons[me])
        _put_logs(result, me, b.lower, b.estimate, b.upper, whole.infinite_mass)
        if b.upper[0] - b.lower[0] <= width * abs(b.slope[0]):
            break
        share = min(max(0.02 * width * abs(float(b.slope[0])), 1e-12), math.exp(-_NEGLIGIBLE))
        guess = min(float(b.estimate[0]), guess + 1.0) if math.isfinite(float(b.estimate[0])) else guess - 5.0
    others = open_targets[open_targets != index]
    if contour is None or not len(others):
        return me
    b = contour.bounds(epsilons[others])
    with np.errstate(invalid="ignore"):
        good = b.upper - b.lower <= tolerance * np.maximum(1.0, epsilons[others]) * np.abs(b.slope)
    _put_logs(result, others[good], b.lower[good], b.estimate[good], b.upper[good], whole.infinite_mass)
    return np.append(others[good], index)


def _mean(composition: Composition) -> float:
    """The mean loss, about where delta is 1/2; 0 where no rule is fine enough."""
    try:
        return float(composition.cgf([0.0])[1, 0])
    except RuleTooLargeError:
        return 0.0


def _one_complement(composition: Composition, epsilons: np.ndarray, index: int, open_targets: np.ndarray, tolerance: float,
                    floor: np.ndarray, result: Bounds) -> np.ndarray:
    """The same for an epsilon below the mean loss: 1 - delta is the small one there."""
    me, epsilon = np.array([index]), float(epsilons[index])
    tilt = _negative_tilt(composition, epsilon)
    k = composition.cgf([tilt], composition.demand(-1.0, 0.0))[:, 0]
    guess = float(k[0]) - tilt * epsilon - math.log1p(-tilt * (tilt + 1.0) * math.sqrt(2.0 * math.pi * float(k[2])))
    width, contour = tolerance * max(1.0, epsilon), None
    for finer in (1.0, 1.0, 6.0):
        try:
            contour = lattice.contour(composition, tilt, epsilon, guess, width, finer,
                                      reserve=_RESERVE if len(open_targets) > 2 else 0.0)
        except RuleTooLargeError:
            break
        b = contour.bounds(epsilons[me])
        _put_complements(result, me, b)
        if b.upper[0] - b.lower[0] <= width * abs(b.slope[0]):
            break
        guess = float(b.estimate[0]) if math.isfinite(float(b.estimate[0])) else guess - 5.0
    others = open_targets[open_targets != index]
    if contour is None or not len(others):
        return me
    b = contour.bounds(epsilons[others])
    with np.errstate(invalid="ignore"):
        good = b.upper - b.lower <= tolerance * np.maximum(1.0, epsilons[others]) * np.abs(b.slope)
    _put_complements(result, others[good], spectral.LogBounds(*(part[good] for part in (b.lower, b.estimate, b.upper, b.slope))))
    return np.append(others[good], index)


def _put_complements(result: Bounds, index: np.ndarray, logs: spectral.LogBounds) -> None:
    """Stores 1 - e^logs, rounded outwards."""
    low, middle, high = (-np.expm1(np.minimum(part, 0.0)) for part in (logs.upper, logs.estimate, logs.lower))
    result.put(index, low * (1.0 - 2.0 * EPSILON), middle, np.minimum(high * (1.0 + 2.0 * EPSILON), 1.0))


def _start_delta(composition: Composition, epsilons: np.ndarray, index: int, open_targets: np.ndarray,
                 result: Bounds) -> tuple[float | None, float]:
    """The saddle point, with its Chernoff bounds put into the result, and a guess of log G; no tilt where no rule is fine enough."""
    try:
        tilt = _saddle_tilt(composition, float(epsilons[index]))
        k = composition.cgf([tilt])[:, 0]
    except RuleTooLargeError:
        return None, 0.0
    log_kappa = float(spectral.log_kappa(np.array(tilt)))
    rounding = float(k[3]) + 8.0 * EPSILON * (abs(float(k[0])) + tilt * np.abs(epsilons[open_targets]) - log_kappa)
    chernoffs = np.logaddexp(float(k[0]) + log_kappa - tilt * epsilons[open_targets] + rounding, composition.log_dropped)
    _put_logs(result, open_targets, np.full(len(chernoffs), -math.inf), chernoffs, chernoffs, composition.infinite_mass)
    log_size = float(k[0]) - tilt * float(epsilons[index])
    spread = tilt * (tilt + 1.0) * math.sqrt(2.0 * math.pi * float(k[2]))
    return tilt, log_size + min(log_kappa, -math.log1p(spread))


def _put_logs(result: Bounds, index: np.ndarray, lower: np.ndarray, estimate: np.ndarray, upper: np.ndarray,
              infinite: float) -> None:
    """Adds the infinite mass to e^logs and stores them; an upper end that would underflow is the smallest positive float."""
    with np.errstate(under="ignore"):
        low, middle, high = (np.exp(np.minimum(part, 0.0)) for part in (lower, estimate, upper))
    result.put(index, infinite * (1.0 - 1e-14) + low * (1.0 - 2e-15), infinite + middle,
               np.minimum(np.maximum(infinite * (1.0 + 1e-14) + high * (1.0 + 2e-15), _TINY), 1.0))


# tilts and small helpers ---------------------------------------------------------------------------------------------


def _at_the_top(composition: Composition, tilt: float) -> bool:
    """Whether the tilt is so steep that only the largest losses count: the Chernoff bound is then as good as it gets.

    Not on a lattice, where every point is resolved.
    """
    bounded = math.isfinite(composition.finite_supremum) and composition.spacing is None
    return bounded and tilt * abs(composition.finite_supremum) > _STEEPEST


def _chi_square_delta(composition: Composition) -> float:
    """delta(eps) <= delta(0) <= sqrt(e^{K(1)} - 1) / 2, the chi-square bound of total variation (no infinite losses)."""
    if composition.log_finite < 0.0:
        return 1.0
    try:
        k = composition.cgf([1.0])[:, 0]
    except RuleTooLargeError:
        return 1.0
    return min(1.0, 0.5 * math.sqrt(math.expm1(min(max(float(k[0] + k[3]), 0.0), 10.0))) * (1.0 + 1e-12) + _TINY)


def _outward(value: float) -> float:
    return value if math.isinf(value) else value + 4e-15 * abs(value)


def _inward(value: float) -> float:
    return value if math.isinf(value) else value - 4e-15 * abs(value)


def _saddle_guess(composition: Composition, tilt: float, log_delta: float, most: float) -> tuple[float, bool]:
    """Where delta is about e^{log_delta}, by normal approximations at the Chernoff tilt and at half of it.

    They agree where the tilted law is nearly normal. Where they do not (a few rare large losses beside many small ones), the
    smaller one is returned and marked as unsure: a contour planned for too small an epsilon is dear, but not wide.
    """
    guesses = []
    for k, c in zip(composition.cgf([0.5 * tilt, tilt], composition.demand(-1.0, 1.5 * tilt)).T, (0.5 * tilt, tilt), strict=True):
        law = (c, float(k[0]), float(k[1]), math.sqrt(max(float(k[2]), 1e-300)))
        guesses.append(_decreasing_root(functools.partial(_normal_excess, law=law, log_delta=log_delta), most))
    # Further below the Chernoff bound than this nothing could be resolved in double precision anyway.
    least = most - 25.0 / tilt
    low, high = (max(guess, least) for guess in (min(guesses), max(guesses)))
    return low, min(guesses) >= least and high - low <= 0.1 * max(high, 1.0 / tilt)


def _normal_excess(epsilon: float, *, law: tuple[float, float, float, float], log_delta: float) -> float:
    return _normal_log_delta(epsilon, *law) - log_delta


def _normal_log_delta(epsilon: float, tilt: float, log_mgf: float, mean: float, spread: float) -> float:
    """log delta if the tilted law were normal: e^{K - c eps} phi(x) [R(x + c sd) - R(x + (c+1) sd)], R Mills' ratio."""
    x = (epsilon - mean) / spread
    if x + tilt * spread < -30.0:
        return 0.0
    gap = float(gaussian.mills(x + tilt * spread) - gaussian.mills(x + (tilt + 1.0) * spread))
    if not 0.0 < gap < math.inf:
        return 0.0
    return log_mgf - tilt * epsilon - 0.5 * x * x - gaussian.LOG_SQRT_2PI + math.log(gap)


def _decreasing_root(function: Callable[[float], float], most: float) -> float:
    """A root in [0, most] of a decreasing function, roughly."""
    if most <= 0.0 or function(0.0) <= 0.0:
        return 0.0
    if function(most) >= 0.0:
        return most
    return float(optimize.brentq(function, 0.0, most, rtol=1e-4, xtol=1e-4 * most))


def _saddle_tilt(composition: Composition, epsilon: float) -> float:
    """The c > 0 that minimises K(c) + log kappa(c) - c eps: K'(c) - log(1 + 1/c) = eps, increasing in c."""
    k = composition.cgf([0.0])[:, 0]
    spread = math.sqrt(max(float(k[2]), 1e-300))
    start = max(epsilon - float(k[1]), spread) / spread**2
    return spectral.increasing_root(
        composition, start, lambda c, k: (k[1] - math.log1p(1.0 / c) - epsilon, c * k[2] + 1.0 / (1.0 + c)),
        epsilon + spread + 1.0)


def _negative_tilt(composition: Composition, epsilon: float) -> float:
    """The saddle -1 < c < 0 of 1 - delta, kept away from the ends."""
    low, high = -0.999, -1e-3
    demand = composition.demand(-1.0, 0.0)
    for _ in range(12):
        middle = 0.5 * (low + high)
        slope = composition.cgf([middle], demand)[1, 0]
        low, high = (middle, high) if slope < epsilon else (low, middle)
    return 0.5 * (low + high)
