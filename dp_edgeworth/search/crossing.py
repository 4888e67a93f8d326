"""Candidates for the ends of epsilon: where a curve crosses a delta. `proofs/ends.py` says which of them are proved."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from dp_edgeworth.proofs.closed_form import ClosedForm
from dp_edgeworth.proofs.curve import Curve
from dp_edgeworth.proofs.ends import log_targets, proved_epsilons
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.proofs.rounded_lattice import RoundedLattice
from dp_edgeworth.sums.composition import Composition

_UNIT = 1e-13  # relative distance of candidates from where the curve itself would put them
_MOST_STEPS = 24
_CLOSE, _LAST_STEP = 1e-4, 1e-6  # of log G; Newton squares what is left
_MOST_LIGHT = 24
_ROUGH = 1e-6  # relative width of an interval from which on its ends are worth a bracket of their own


def near(curve: Curve, composition: Composition, deltas: np.ndarray, starts: np.ndarray) -> Proved:
    """Newton's method on the estimate from `starts`, then ends as far away as the curve's bounds say, and further where that fails.

    The last step is made from the bounds themselves.
    """
    targets, slack = log_targets(composition, deltas, complement=curve.complement, whole=curve.whole)
    if isinstance(curve, ClosedForm) and curve.inverse is not None:
        epsilons = curve.inverse(targets)
    else:
        epsilons = _light(curve, float(targets[0]), float(starts[0])) if len(deltas) == 1 else _newton(curve, targets, starts)
    b = curve.bounds(epsilons)
    slopes = np.where(np.isfinite(b.slope) & (b.slope != 0.0), np.abs(b.slope), abs(curve.tilt))
    high, low = (-b.lower, -b.upper) if curve.complement else (b.upper, b.lower)
    goal = -targets if curve.complement else targets
    with np.errstate(invalid="ignore", over="ignore"):
        step = (-b.estimate if curve.complement else b.estimate) - goal
        step = np.where(np.abs(step) < _LAST_STEP, step, 0.0)
        before, epsilons, unit = epsilons, np.maximum(epsilons + step / slopes, 0.0), _UNIT * np.maximum(epsilons, 1e-2)
        lift, drop = (high - goal + slack) / slopes - (epsilons - before), (goal + slack - low) / slopes + (epsilons - before)
        lift, drop = (np.where(np.isfinite(away), np.maximum(away, 0.0), 1e-6) * 1.001 + unit for away in (lift, drop))
    lift = np.where((epsilons == 0.0) & (lift <= 2.0 * unit), 0.0, lift)  # where the estimate is 0, 0 itself is the first candidate
    found = proved_epsilons(curve, composition, deltas, epsilons - drop, epsilons, epsilons + lift)
    for _ in range(_MOST_STEPS):
        again = np.isinf(found.upper) | ((found.lower == 0.0) & (epsilons - drop > 0.0))
        if not again.any():
            break
        grow = np.where(np.maximum(lift, drop) > 1e-9, 2.0, 8.0)
        lift, drop = (np.where(again, np.maximum(distance, unit) * grow, distance) for distance in (lift, drop))
        more = proved_epsilons(curve, composition, deltas[again], (epsilons - drop)[again], epsilons[again], (epsilons + lift)[again])
        found = found.met(more, again)
    return found


def tabled(curve: RoundedLattice, composition: Composition, deltas: np.ndarray, high: float) -> Proved:
    """Many targets off a lattice: G is linear in e^eps between its points, so both bounds are inverted there, up to `high`."""
    targets, slack = log_targets(composition, deltas, complement=False)
    epsilons = np.append(0.0, curve.points(0.0, high))
    bounds = curve.bounds(epsilons)
    low = _inverse(epsilons, bounds.lower, targets + slack, falling=False)
    middle, up = _inverse(epsilons, bounds.estimate, targets), _inverse(epsilons, bounds.upper, targets - slack)
    unit = _UNIT * np.maximum(middle, 1e-2)
    return proved_epsilons(curve, composition, deltas, low - unit, middle, up + unit)


def _inverse(epsilons: np.ndarray, logs: np.ndarray, targets: np.ndarray, *, falling: bool = True) -> np.ndarray:
    """Where a table crosses the targets, read as linear in e^eps: a bound from above serves all larger epsilons, one from below (not
    `falling`) all smaller ones, however bad it is there itself.
    """
    with np.errstate(under="ignore", invalid="ignore", divide="ignore"):
        values, goals = np.exp(np.minimum(logs, 0.0)), np.exp(np.minimum(targets, 0.0))
        values = np.minimum.accumulate(values) if falling else np.maximum.accumulate(values[::-1])[::-1]
        right = np.clip(np.searchsorted(-values, -goals, side="left"), 1, len(values) - 1)
        share = (values[right - 1] - goals) / (values[right - 1] - values[right])
        share = np.clip(np.nan_to_num(share, nan=1.0), 0.0, 1.0)
        return np.asarray(epsilons[right - 1] + np.log1p(share * np.expm1(epsilons[right] - epsilons[right - 1])))


def _light(curve: Curve, target: float, start: float) -> np.ndarray:
    """Newton's method for one target, without error bounds where the curve has that; halved into the bracket where G is 0 or 1."""
    epsilon, low, high = start, 0.0, math.inf
    for _ in range(_MOST_LIGHT):
        value, slope = curve.light(epsilon)
        if -math.inf in (value, slope):
            low, high = (epsilon, high) if curve.complement else (low, epsilon)
            epsilon = 0.5 * (low + high) if high < math.inf else 2.0 * epsilon + 1.0
            continue
        if not (slope > 0.0) == curve.complement or slope == 0.0 or not math.isfinite(value):
            break
        low, high = (epsilon, high) if (value > target) != curve.complement else (low, epsilon)
        step = min(max((target - value) / slope, -2.0 - 0.5 * epsilon), 2.0 + 0.5 * epsilon)
        new = max(epsilon + step, 0.0)
        if not low <= new <= high:
            new = 0.5 * (low + high)
        moved, epsilon = abs(new - epsilon), new
        if abs(value - target) <= _CLOSE or moved <= 1e-10 * max(min(1e-3, 0.1 / abs(curve.tilt)), epsilon):
            return np.array([epsilon])
    return _newton(curve, np.array([target]), np.array([start]))


def _newton(curve: Curve, targets: np.ndarray, starts: np.ndarray) -> np.ndarray:
    """Where the estimate of log G crosses the targets, eps >= 0; G falls for c > 0 and rises for c < 0.

    A step that leaves the bracket of the points seen so far (log G has corners on a lattice) is halved into it.
    """
    rising = curve.complement
    epsilons, moving = starts.astype(float), np.ones(len(starts), bool)
    low, high = np.zeros(len(starts)), np.full(len(starts), math.inf)
    for _ in range(60):
        here = epsilons[moving]
        bound = curve.bounds(here)
        usable = np.isfinite(bound.slope) & (bound.slope != 0) & ((bound.slope > 0) == rising)
        slope = np.where(usable, bound.slope, -curve.tilt)
        with np.errstate(invalid="ignore", over="ignore"):
            excess = np.nan_to_num(targets[moving] - bound.estimate, nan=curve.tilt, posinf=1e300, neginf=-1e300)
            beyond = (excess > 0) != rising
            low[moving], high[moving] = np.where(beyond, low[moving], here), np.where(beyond, here, high[moving])
            step = np.clip(excess / slope, -2.0 - 0.5 * here, 2.0 + 0.5 * here)
        new = np.maximum(here + step, 0.0)
        outside = ((new <= low[moving]) | (new >= high[moving])) & np.isfinite(high[moving]) & (new != here)
        new = np.where(outside, 0.5 * (low[moving] + high[moving]), new)
        # Newton squares what is left
        still = np.abs(new - here) > 1e-7 * np.maximum(np.minimum(1e-3, 0.1 / abs(curve.tilt)), new)
        epsilons[moving] = new
        moving[moving] = still
        if not moving.any():
            break
    return epsilons


def bisected(curve: Curve, composition: Composition, deltas: np.ndarray, most: float) -> Proved:
    """Ends where the curve's own bounds cross the deltas, on any scale: for curves without a usable slope.

    The estimate is bracketed first, and ends are proposed from how far the bounds are away there; where that fails, each bound is
    bracketed for itself.
    """
    targets, slack = log_targets(composition, deltas, complement=curve.complement, whole=curve.whole)
    sign = -1.0 if curve.complement else 1.0
    middle = _bracketed(lambda eps: _excess(curve, eps, 1, sign, targets, np.zeros(len(slack))), (1, len(deltas)), most)[0][0]
    wider = middle * (1.0 + 1e-5) + 1e-300
    here, there = curve.bounds(middle), curve.bounds(wider)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        slope = np.abs((there.estimate - here.estimate) / (wider - middle))
        up, down = (here.upper - here.estimate, here.estimate - here.lower)[::-1 if curve.complement else 1]
        lift, drop = (1.5 * (gap + slack) / slope + _UNIT * middle for gap in (up, down))
        lift, drop = (np.where(np.isfinite(distance), distance, 0.0) for distance in (lift, drop))
    found = proved_epsilons(curve, composition, deltas, middle - drop, middle, middle + lift)
    left = np.isinf(found.upper) | ((found.lower == 0.0) & (middle > 0.0)) | (lift + drop > _ROUGH * middle)
    if left.any():
        shape = (3, int(left.sum()))
        goals, slacks = np.broadcast_to(targets[left], shape), np.stack([slack[left], np.zeros(shape[1]), -slack[left]])
        low, high = _bracketed(lambda eps: _excess(curve, eps, None, sign, goals, slacks), shape, most)
        found = found.met(proved_epsilons(curve, composition, deltas[left], low[0], low[1], high[2]), left)
    return found


def _excess(curve: Curve, epsilons: np.ndarray, row: int | None, sign: float, targets: np.ndarray, slack: np.ndarray) -> np.ndarray:
    """Bounds of delta less what they must be compared with, decreasing: one row of (lower, estimate, upper), or all three, each at
    epsilons of its own.
    """
    b = curve.bounds(epsilons.ravel())
    each = (b.upper, b.estimate, b.lower) if curve.complement else (b.lower, b.estimate, b.upper)
    with np.errstate(invalid="ignore"):
        if row is not None:
            found = sign * each[row].reshape(epsilons.shape) - (sign * targets + slack)
        else:
            found = np.stack([sign * part.reshape(epsilons.shape)[i] for i, part in enumerate(each)]) - (sign * targets + slack)
    return np.nan_to_num(found, nan=-1.0, posinf=1e300, neginf=-1e300)


def _bracketed(excess: Callable[[np.ndarray], np.ndarray], shape: tuple[int, int], most: float) -> tuple[np.ndarray, np.ndarray]:
    """Ends a < b, equal to 1e-13, of where a decreasing function is > 0 at a and <= 0 at b; (0, 0) where it never is positive."""
    never = excess(np.zeros(shape)) <= 0.0
    exponents_low, exponents_high = np.full(shape, -1075.0), np.full(shape, 1024.0)
    for _ in range(12):  # the binary exponent first, so that every scale costs the same
        middle = np.round(0.5 * (exponents_low + exponents_high))
        positive = excess(np.minimum(np.exp2(np.minimum(middle, 1023.0)), most)) > 0.0
        exponents_low, exponents_high = np.where(positive, middle, exponents_low), np.where(positive, exponents_high, middle)
    low = np.where(exponents_low > -1075.0, np.exp2(np.minimum(exponents_low, 1023.0)), 0.0)
    high = np.where(exponents_high >= 1024.0, math.inf, np.exp2(np.minimum(exponents_high, 1023.0)))
    low, high = _narrowed(excess, np.minimum(low, most), np.minimum(high, most))
    return np.where(never, 0.0, low), np.where(never, 0.0, high)


def _narrowed(excess: Callable[[np.ndarray], np.ndarray], low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Illinois method, with a bisection every third time for the functions that it does not like."""
    at_low, at_high = excess(low), excess(np.where(np.isfinite(high), high, low))
    for step in range(120):
        wide = high - low > _UNIT * low
        if not np.any(wide & np.isfinite(high)):
            break
        gap = at_low - at_high
        share = np.clip(np.where(gap > 0.0, at_low / np.where(gap > 0.0, gap, 1.0), 0.5), 1e-3, 1.0 - 1e-3)
        x = low + np.where(np.isfinite(high), (0.5 if step % 3 == 2 else share) * (high - low), 0.0)
        value = excess(x)
        up, down = (value > 0.0) & wide, (value <= 0.0) & wide
        # the end that stays gets half its weight
        at_low = np.where(up, value, np.where(down, 0.5, 1.0) * at_low)
        at_high = np.where(down, value, np.where(up, 0.5, 1.0) * at_high)
        low, high = np.where(up, x, low), np.where(down, x, high)
    return low, high
