"""Certified intervals of epsilon for many sampled Gaussians at one delta, each repeated: the points of a sweep.

The bounds are those of `spectral.py`, at the tilt and near the epsilon that the tilted estimates of all points
(`tilted_batch.py`) suggest, so that one contour per point will do. A wrong suggestion makes an interval wide, never
false: an upper end is returned only where the upper bound of delta was evaluated and found <= delta, a lower end only
where the lower bound was found > delta. Points whose interval is too wide go to `conversion.epsilon_bounds`.

The direction that decides is nearly always "remove". For "add" it is enough to prove delta(epsilon) <= delta at the
lower end of "remove", which takes the Chernoff bound or one coarse contour.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from dp_edgeworth.intervals import Interval
from dp_edgeworth.losses.mechanisms import Directions
from dp_edgeworth.losses.rules import EPSILON, RuleTooLargeError
from dp_edgeworth.paper import tilted_batch
from dp_edgeworth.proofs import spectral
from dp_edgeworth.search import conversion
from dp_edgeworth.sums.composition import Composition
from dp_edgeworth.sums.direction import Direction

_COARSE = 1e-4  # in epsilon: how well a direction that does not decide is resolved
_HALF_WIDTHS = np.geomspace(1e-3, 0.49, 12)  # of the interval, in units of its tolerance


def intervals(pairs: Sequence[Directions], counts: np.ndarray, delta: float, tolerance: float,
              advance: Callable[[int], None] = lambda done: None) -> list[Interval]:
    """One interval per point.

    Args:
      pairs: exact pairs of sampled Gaussians, those with a `tilted_batch.shift`.
      counts: how often each is composed.
      delta: in (0, 1).
      tolerance: width aimed at, absolute below epsilon 1, relative above.
      advance: called with the number of points that were just finished.
    """
    removals = tilted_batch.saddles([pair.remove for pair in pairs], counts, delta)
    mirrored = all(pair.remove == pair.add for pair in pairs)
    additions = removals if mirrored else tilted_batch.saddles([pair.add for pair in pairs], counts, delta)
    result = []
    for i, pair in enumerate(pairs):
        guess, tilt = removals[:, i]
        remove = _interval(Composition({pair.remove: int(counts[i])}), guess, tilt, delta, tolerance)
        if pair.add != pair.remove:
            remove = _with_add(remove, Composition({pair.add: int(counts[i])}), additions[1, i], delta, tolerance)
        result.append(remove)
        advance(1)
    return result


def _interval(composition: Composition, guess: float, tilt: float, delta: float, tolerance: float) -> Interval:
    """epsilon of one direction, by one contour where that is narrow enough."""
    try:
        if tilt > 0.0:  # and not NaN
            found = _near(composition, guess, tilt, math.log(delta), tolerance)
            if found.upper - found.lower <= tolerance * max(1.0, found.lower):
                return found
    except RuleTooLargeError:
        pass
    bounds = conversion.epsilon_bounds([Direction(composition, composition)], np.array([delta]), tolerance)
    return Interval(*(float(part[0]) for part in bounds))


def _near(composition: Composition, guess: float, tilt: float, target: float, tolerance: float) -> Interval:
    """The interval that a contour made for `guess` proves, (0, estimate, inf) where it proves nothing."""
    contour = spectral.contour(composition, tilt, guess, target, tolerance * max(1.0, guess), slope=tilt)
    epsilon = _crossing(contour, guess, target)
    distances = tolerance * max(1.0, epsilon) * _HALF_WIDTHS
    points = np.maximum(np.concatenate([epsilon - distances, epsilon + distances]), 0.0)
    bounds, slack = contour.bounds(points), _rounding(target)
    lower = points[bounds.lower > target + slack].max(initial=0.0)
    upper = points[bounds.upper <= target - slack].min(initial=math.inf)
    return Interval(float(lower), min(max(epsilon, float(lower)), float(upper)), float(upper))


def _rounding(target: float) -> float:
    """Of the logarithm of delta."""
    return 4.0 * EPSILON * abs(target)


def _crossing(contour: spectral.Contour, start: float, target: float) -> float:
    """Where the contour's estimate of log delta is about the target, by Newton's method; where it fails, anything."""
    epsilon = start
    for _ in range(12):
        bound = contour.bounds(np.array([epsilon]))
        slope = float(bound.slope[0])
        step = (target - float(bound.estimate[0])) / slope if slope < 0.0 else math.nan
        if not math.isfinite(step):
            break
        epsilon = max(epsilon + min(max(step, -2.0 - 0.5 * epsilon), 2.0 + 0.5 * epsilon), 0.0)
        if abs(step) <= 1e-8 * max(epsilon, 1e-3):
            break
    return epsilon


def _with_add(remove: Interval, add: Composition, tilt: float, delta: float, tolerance: float) -> Interval:
    """The larger of both directions."""
    if _stays_below(add, remove.lower, tilt, math.log(delta)):
        return remove
    bounds = conversion.epsilon_bounds([Direction(add, add)], np.array([delta]), tolerance)
    return Interval(*(max(side, float(part[0])) for side, part in zip(remove, bounds, strict=True)))


def _stays_below(composition: Composition, epsilon: float, tilt: float, target: float) -> bool:
    """Whether log delta(epsilon) <= target is proved."""
    if not tilt > 0.0:
        return False
    target -= _rounding(target)
    try:
        if spectral.chernoff_epsilon(composition, tilt, np.array([target]))[0] <= epsilon:
            return True
        contour = spectral.contour(composition, tilt, epsilon, target, _COARSE * max(1.0, epsilon), slope=tilt)
    except RuleTooLargeError:
        return False
    return bool(contour.bounds(np.array([epsilon])).upper[0] <= target)
