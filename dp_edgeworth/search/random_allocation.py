"""One epoch of random allocation: its certified curve, and the epsilons at which it is a target."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from dp_edgeworth.losses.random_allocation import RandomAllocationLoss
from dp_edgeworth.losses.rules import EPSILON
from dp_edgeworth.proofs import allocation_tails
from dp_edgeworth.proofs.curve import Curve, LogBounds
from dp_edgeworth.proofs.ends import proved_epsilons
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.proofs.random_allocation import Contour, Options
from dp_edgeworth.search.allocation_rays import deviation, keys, ray_contour
from dp_edgeworth.search.questions import DeltaAt, Question
from dp_edgeworth.sums.composition import Composition

_SMALLEST_SHIFT = 1e-6
_SURE = 3.0  # standard deviations of log A under Q: from there on one A_i is nearly all of S
_LARGEST_EXPONENT = 690.0
_FAR = 1e100
_LOG_LEAST = -744.0  # an upper bound is never 0
_NEAREST, _PLACES = 1e-12, 800  # epsilons at which simple bounds look for the end
_FURTHER_OUT = np.geomspace(1.0, 3000.0, 80)  # of the end
_NEARLY = 7.0  # of its log delta
_ROOM = 8.0 * EPSILON  # of log delta, which is negative, between a bound and the target
_NARROW, _WIDE = 1e-8, 1e-3  # intervals of log delta that need no contour, and for which the simple bounds are tried
_FEW_LARGE = 3.0  # shifts from which these come first


class _LogBound(NamedTuple):
    """log delta at one epsilon: lower bound, estimate, upper bound."""

    lower: float
    estimate: float
    upper: float


@dataclasses.dataclass(frozen=True)
class RandomAllocationCurve(Curve):
    """delta(epsilon) of one epoch in one direction, "remove" or "add", for epsilons of either sign.

    Attributes:
      shift: 1 / noise multiplier. steps: number of batches t, at least 2.
    """

    shift: float
    steps: int
    direction: str

    theorem = "random allocation"
    tilt = 1.0
    whole = True

    @property
    def is_direct(self) -> bool:
        """Whether the theorem is used; outside, only the simple bounds are. Under Q the changed log A is normal around v^2/2."""
        return self.shift >= _SMALLEST_SHIFT and 0.5 * self.shift - math.log(self.steps) / self.shift <= _SURE

    @property
    def largest(self) -> float:
        """An epsilon at which delta is no float."""
        return 100.0 + self.shift * (self.shift + 45.0)

    @property
    def deviation(self) -> float:
        """Standard deviation of S."""
        return deviation(self.shift, self.steps)

    def reach(self, log_least: float) -> float:
        """An epsilon from which log delta is about below that: where the simple lower bounds say so, or further out."""
        eps = np.geomspace(_NEAREST, self.largest, _PLACES)
        first = float(eps[min(int(np.sum(self._simple_lower(eps) > log_least)), _PLACES - 1)])
        best, least = first, math.inf
        for end in first * _FURTHER_OUT:  # one at a time: another end may need another ray
            upper = float(self.bounds(np.array([end])).upper[0])
            best, least = (float(end), upper) if upper < least else (best, least)
            if upper <= log_least + _NEARLY:
                break
        return best

    def _simple_lower(self, eps: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            found = [bound(self.shift, float(self.steps), eps) for bound in allocation_tails.LOWER[self.direction]]
            return np.maximum.reduce([np.log(np.maximum(-np.expm1(eps), 0.0)) - 1e-15, *found])

    def bounds(self, epsilons: np.ndarray) -> LogBounds:
        """Certified bounds of log delta, and the estimate."""
        eps, law = np.minimum(epsilons, _FAR), (self.shift, float(self.steps))
        with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
            upper, lower = allocation_tails.log_unsampled(self.shift, eps), self._simple_lower(eps)
            estimate = upper.copy()
            for bound in allocation_tails.UPPER[self.direction] if self.shift >= _FEW_LARGE else ():
                upper = np.minimum(upper, bound(*law, eps))
            left = np.flatnonzero(~(upper - lower < _NARROW) & (eps < self.largest))
            if self.is_direct and len(left):
                direct = self._direct(eps[left])
                lower[left], upper[left] = np.maximum(lower[left], direct.lower), np.minimum(upper[left], direct.upper)
                estimate[left] = direct.estimate
            left = np.flatnonzero(~(upper - lower < _WIDE))
            for bound in allocation_tails.UPPER[self.direction] if len(left) else ():
                upper[left] = np.minimum(upper[left], bound(*law, eps[left]))
        upper = np.maximum(upper, _LOG_LEAST)
        lower = np.where(epsilons > _FAR, -np.inf, np.minimum(lower, upper))
        estimate = np.where(upper - lower > 1.0, upper, np.clip(estimate, lower, upper))  # of wide ones nothing is known
        return LogBounds(lower, estimate, upper, np.full(eps.shape, np.nan))

    def epsilons(self, deltas: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Candidates for both ends of the smallest epsilon >= 0 with delta(epsilon) <= delta, 0 < delta < 1, and estimates between.

        The bounds at the candidates prove their sides, with as much room as `proofs.ends` asks for; inf or 0 where none was found.
        """
        found = [self._epsilon(math.log(delta)) for delta in np.asarray(deltas, float).tolist()]
        lower, estimate, upper = np.array(found).reshape(-1, 3).T
        return lower, estimate, upper

    def _epsilon(self, target: float) -> tuple[float, float, float]:
        """The estimate crosses the target by bisection and secants from the normal approximation on; then both bounds are walked to."""
        def at(epsilon: float) -> _LogBound:
            found = self.bounds(np.array([epsilon]))
            return _LogBound(float(found.lower[0]), float(found.estimate[0]), float(found.upper[0]))

        low, high = 0.0, max(self._guess(target), 1e-12)
        at_low, at_high = at(0.0).estimate - target, at(high).estimate - target
        if at_low <= 0.0:
            return 0.0, 0.0, 0.0 if at(0.0).upper <= target * (1.0 + _ROOM) else self._walk(at, target, 0.0, 1e-12, self.largest)
        while at_high > 0.0 and high < self.largest:
            low, at_low, high = high, at_high, 1.3 * high
            at_high = at(high).estimate - target
        for step in range(60):
            if high - low <= 1e-14 * high:
                break
            share = at_low / (at_low - at_high) if step % 3 < 2 and math.isfinite(at_high) else 0.5
            middle = low + min(max(share, 0.02), 0.98) * (high - low)
            value = at(middle).estimate - target
            if abs(value) <= 1e-15 * abs(target):
                low = high = middle
            elif value > 0.0:
                low, at_low = middle, value
            else:
                high, at_high = middle, value
        root, bounds = high, at(high)
        slope = max((at(high * 0.999).estimate - at(high * 1.001).estimate) / (0.002 * high), 1e-9)
        upper = self._walk(at, target, root, min((bounds.upper - target) / slope, root), self.largest)
        return self._walk(at, target, root, min((target - bounds.lower) / slope, root), 0.0), root, upper

    @staticmethod
    def _walk(at: Callable[[float], _LogBound], target: float, start: float, distance: float, largest: float) -> float:
        """Steps up from the estimate, or down where `largest` is 0, until the bound proves its side; inf or 0 where it never does."""
        upward = largest > 0.0
        distance = max(1.01 * distance, 1e-14 * start, 1e-300)
        for _ in range(80):
            epsilon = start + (distance if upward else -distance)
            if epsilon <= 0.0 or (upward and epsilon > largest):
                break
            bounds = at(epsilon)
            if (bounds.upper <= target * (1.0 + _ROOM)) if upward else (bounds.lower > target * (1.0 - _ROOM)):
                return epsilon
            distance *= 1.5 if distance > 1e-9 * start else 4.0
        return math.inf if upward else 0.0

    def _guess(self, target: float) -> float:
        """Of epsilon: the larger of the normal approximation and of the one large term."""
        normal = min(self.deviation, 1.0) * -float(special.ndtri(max(math.exp(target), 1e-300)))
        low, high = 0.0, self.largest
        for _ in range(30 if self.direction == "remove" else 0):
            middle = 0.5 * (low + high)
            above = float(allocation_tails.log_one_term(self.shift, self.steps, np.array(middle))) > target
            low, high = (middle, high) if above else (low, middle)
        return max(normal, low)

    def _direct(self, eps: np.ndarray) -> LogBounds:
        sign = 1.0 if self.direction == "remove" else -1.0
        excess = np.expm1(np.minimum(sign * eps, _LARGEST_EXPONENT))
        parts = np.full((3, len(eps)), np.nan)
        owners = keys(self.shift, self.steps, excess)
        for key in set(owners):
            mine = np.flatnonzero([one == key for one in owners])
            ray = ray_contour(self.shift, self.steps, *key)
            if ray is None:
                continue
            parts[:, mine] = _deltas(ray, ray.options(excess[mine]), excess[mine], sign)
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log(np.maximum(parts, 0.0)) + (0.0 if sign > 0 else eps)
        slack = 1e-15 * (1.0 + np.abs(eps) + np.nan_to_num(np.abs(logs[2]), nan=0.0, posinf=0.0))
        lower, estimate, upper = (np.where(np.isnan(logs[i]), unknown, logs[i]) for i, unknown in ((0, -np.inf), (1, 0.0), (2, np.inf)))
        lower = np.where(sign * eps > _LARGEST_EXPONENT, -np.inf, lower)  # e^eps was cut
        return LogBounds(lower - slack, estimate, np.maximum(upper + slack, _LOG_LEAST), logs[1])


def read_epoch(composition: Composition, question: Question, found: Proved, floor: np.ndarray) -> Proved:
    """What the curve of an epoch that is used alone says about all targets that are open."""
    loss = composition.single
    if not isinstance(loss, RandomAllocationLoss):
        return found
    curve = RandomAllocationCurve(loss.shift, loss.steps, loss.direction)
    left = question.open(found, floor)
    if isinstance(question, DeltaAt):
        return found.met(question.read(curve, composition, left, 0.0, found, floor), left)
    if floor[left].any():  # it is enough that the other direction is larger
        found = found.met(question.below(curve, composition, left, floor), left)
        left = question.open(found, floor)
    deltas = question.targets[left]
    low, estimate, high = curve.epsilons(deltas)
    return found.met(proved_epsilons(curve, composition, deltas, low, estimate, np.where(np.isinf(high), 0.0, high)), left)


def _deltas(ray: Contour, found: Options, excess: np.ndarray, sign: float) -> np.ndarray:
    """Calls for "remove" and puts for "add", by parity where the ray has the other ones; rounded outwards."""
    other = ray.is_call != (sign > 0)
    moved = (excess if ray.is_call else -excess) if other else np.zeros(len(excess))
    slack = 4e-16 * np.abs(moved) * 2.0
    return np.array([np.maximum(found.lower + moved - slack, 0.0), np.maximum(found.estimate + moved, 0.0), found.upper + moved +
    slack])
