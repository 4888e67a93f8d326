"""Which rays serve which epsilons of one epoch of random allocation; what they prove is `proofs/random_allocation.py`.

    k - 1 of at least about 1, much noise absent   calls along a leaning ray, one for every factor 4,096 of k - 1
    all other k                                    puts along Re u = a with the a, of powers of 2, that makes e^{ak} psi(a) / a small

A ray serves every epsilon whose k belongs to it, and is kept.
"""

from __future__ import annotations

import dataclasses
import functools
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
from dp_edgeworth.proofs.lognormal_step import Rotation, step_law
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.proofs.random_allocation import Contour, Options, Ray, contour, log_cut, log_start, panel_errors
from dp_edgeworth.search.questions import DeltaAt, Question
from dp_edgeworth.sums.composition import Composition

_NODES = 32
_LEAN, _PUT_LEAN = 0.4, 0.2
_LARGEST_LEAN = 0.8  # times the shift: phi is summed with e^{lean^2 / (2 v^2)} times as much rounding
_LEANING_SHIFT = 0.45  # from which calls are integrated up to k - 1 = 0.35, and puts of any k
_FAR_CALL, _LEAST_CALL = 6.0, 0.35  # deviations of S, and k - 1, from which calls are integrated as such
_LARGEST_SHIFT, _SMALLEST_SHIFT = 5.0, 1e-6
_DIGITS = 40.0
_LONGEST_STEP = 3.8  # of log s in a panel
_FURTHER, _OCTAVES = 8.0, 24  # of k - 1 that one ray for calls serves
_MOST_PANELS, _FEW_PANELS, _FEW_CALL_PANELS = 500, 10, 40  # with few enough, no other lean is tried
_LARGEST_EXPONENT = 690.0
_FAR = 1e100
_LOG_LEAST = -744.0  # an upper bound is never 0
_LARGEST_RATE = 500.0  # a / t
_NEAREST, _PLACES = 1e-12, 800  # epsilons at which simple bounds look for the end
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
        """Whether the theorem is used; outside, only the simple bounds are."""
        return _SMALLEST_SHIFT <= self.shift <= _LARGEST_SHIFT

    @property
    def largest(self) -> float:
        """An epsilon at which delta is no float."""
        return 100.0 + self.shift * (self.shift + 45.0)

    @property
    def deviation(self) -> float:
        """Standard deviation of S."""
        return _deviation(self.shift, self.steps)

    def reach(self, log_least: float) -> float:
        """About the epsilon from which log delta is below that, by the simple lower bounds."""
        eps = np.geomspace(_NEAREST, self.largest, _PLACES)
        return float(eps[min(int(np.sum(self._simple_lower(eps) > log_least)), _PLACES - 1)])

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
        keys = _keys(self.shift, self.steps, excess)
        for key in set(keys):
            mine = np.flatnonzero([one == key for one in keys])
            ray = _contour(self.shift, self.steps, *key)
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


def _keys(shift: float, steps: int, excess: np.ndarray) -> list[tuple[bool, int]]:
    """For every k - 1: whether it is a call, and the binary exponent of a or of k - 1."""
    exponents, sizes = _abscissas(shift, steps)
    best = exponents[np.argmin(np.multiply.outer(excess, np.exp2(exponents)) + sizes, axis=1)]
    starts = _groups(shift, steps)
    groups = np.searchsorted(starts, excess, side="right") - 1
    return [(True, int(group)) if group >= 0 else (False, int(exponent)) for group, exponent in zip(groups, best, strict=True)]


@functools.lru_cache(maxsize=256)
def _groups(shift: float, steps: int) -> np.ndarray:
    """The k - 1 from which calls are integrated as such, and from which there is a next ray: one for a few deviations, where a ray
    must hardly lean, and one for every factor 2^24.
    """
    far = _FAR_CALL * _deviation(shift, steps)
    if shift >= _LEANING_SHIFT and far >= _LEAST_CALL:
        return _LEAST_CALL * np.exp2(_OCTAVES * np.arange(40))
    return far * np.append(1.0, _FURTHER * np.exp2(_OCTAVES * np.arange(40)))


def _deviation(shift: float, steps: int) -> float:
    """Standard deviation of S."""
    return math.sqrt(math.expm1(min(shift ** 2, 600.0)) / steps)


@functools.lru_cache(maxsize=256)
def _abscissas(shift: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Binary exponents of a, and log(e^a psi(a) / a)."""
    exponents = np.arange(-30.0, 80.0)
    exponents = exponents[np.exp2(exponents) <= (_LARGEST_RATE if shift < _LEANING_SHIFT else _LARGEST_RATE ** 3) * steps]
    rates = np.exp2(exponents)
    return exponents, rates + steps * step_law(shift).log_laplace(rates / steps) - np.log(rates)


def _served(shift: float, steps: int, exponent: int) -> np.ndarray:
    """The least and the largest k - 1 for which this a is the best: where its neighbours are as good, or hardly anything is left."""
    exponents, sizes = _abscissas(shift, steps)
    rates, at = np.exp2(exponents), int(np.flatnonzero(exponents == exponent)[0])
    edges = (sizes[:-1] - sizes[1:]) / (rates[1:] - rates[:-1])  # k - 1, decreasing in a
    least = -min(1.0, 15.0 * math.sqrt(math.expm1(min(shift * shift, 600.0)) / steps))
    low, high = float(edges[at]) if at < len(edges) else -1.0, float(edges[at - 1]) if at else 1e6
    return np.array([min(max(low, least), high), high])


@functools.lru_cache(maxsize=512)
def _contour(shift: float, steps: int, is_call: bool, exponent: int) -> Contour | None:
    """The contour for one key with the fewest panels, None where it would be too long."""
    lean = _LEAN if is_call else _PUT_LEAN
    leans = [min(lean, _LARGEST_LEAN * shift), min(lean, 3.0 * shift / math.sqrt(steps)) if is_call else 0.0]
    make, best = _call_ray if is_call else _put_ray, None
    for lean in leans:
        ray = make(shift, steps, exponent, lean)
        if best is None or (ray is not None and len(ray.points) < len(best.points)):
            best = ray
        if best is not None and len(best.points) <= (_FEW_CALL_PANELS if is_call else _FEW_PANELS):
            break
    return None if best is None else contour(best)


def _put_ray(shift: float, steps: int, exponent: int, lean: float) -> Ray | None:
    a, served = 2.0 ** exponent, _served(shift, steps, exponent)
    exponents, sizes = _abscissas(shift, steps)
    wanted = float(sizes[exponents == exponent][0]) + a * served - _DIGITS
    empty = Ray(shift, float(steps), a, lean, np.zeros(1), np.zeros(1), _NODES, _rotation(shift, steps, a, lean))
    length = _length(empty, 0.5 * a, float(wanted[0]), served[0])
    return _refined(empty._replace(points=_growing(0.0, length, a, math.inf)), served, wanted)


def _call_ray(shift: float, steps: int, group: int, lean: float) -> Ray | None:
    """The ellipse that is best at both ends of what a ray serves need not be good between."""
    served = np.geomspace(*_groups(shift, steps)[group:group + 2], 17)
    log_deviation = min(math.log(_deviation(shift, steps)), 0.0)
    wanted = np.full(len(served), log_deviation - _DIGITS)
    empty = Ray(shift, float(steps), 0.0, lean, np.zeros(1), np.zeros(1), _NODES, _rotation(shift, steps, 0.0, lean))
    first = math.exp(max(float(wanted[0]) - max(log_start(empty._replace(points=np.ones(1))), 1.0), -_LARGEST_EXPONENT))
    start = min(1.0 / served[0], math.exp(-log_deviation))
    length = max(_length(empty, start, float(wanted[0]), served[0]), math.e * first)
    ray = empty._replace(points=np.geomspace(first, length, 1 + math.ceil(math.log(length / first) / _LONGEST_STEP)))
    end = 1.0 / served[0]
    while served[0] * (ray.corner.real - end) - math.log(end) > wanted[0]:
        end *= 1.5
    return _refined(ray._replace(turned=_growing(0.0, end, ray.corner.imag, 20.0 / served[0])), served, wanted)


def _growing(start: float, end: float, distance: float, longest: float) -> np.ndarray:
    """Panels as long as the pole at this distance from the start allows."""
    points = [start]
    while points[-1] < end and len(points) < _MOST_PANELS:
        points.append(points[-1] + min(0.9 * math.hypot(distance, points[-1]), longest))
    return np.array(points)


def _refined(ray: Ray, served: np.ndarray, wanted: np.ndarray) -> Ray | None:
    """Panels halved until the errors of all of them are as small as wanted; None if that are too many."""
    for _ in range(20):
        wide = np.any(panel_errors(ray).logs(served) > wanted, axis=-1)
        if not wide.any():
            return ray
        if len(wide) + wide.sum() > _MOST_PANELS:
            return None
        along = len(ray.points) - 1
        ray = ray._replace(points=_halved(ray.points, wide[:along]), turned=_halved(ray.turned, wide[along:]))
    return None


def _halved(points: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """The chosen panels in two, long ones in proportion to the distance from 0."""
    low, high = points[:-1][chosen], points[1:][chosen]
    return np.sort(np.concatenate([points, np.where((low > 0.0) & (high > 3.0 * low), np.sqrt(low * high), 0.5 * (low + high))]))


def _length(ray: Ray, start: float, wanted: float, excess: float) -> float:
    """Where the log of the rest of psi is small enough."""
    length = start
    for _ in range(400):
        longer = ray._replace(points=np.array([0.0, length]))
        if log_cut(longer) + excess * longer.corner.real <= wanted:
            break
        length *= 1.5
    return length


def _rotation(shift: float, steps: int, abscissa: float, lean: float) -> Rotation:
    """phi(q) is summed to so many digits after its first one."""
    strip = min(0.5 * (0.5 * math.pi - lean), shift) * (1.0 - 1e-12)
    angle, digits = strip + lean, _DIGITS - float(step_law(shift).log_laplace(np.array(abscissa / steps)))
    step = 2.0 * math.pi * strip / (digits + math.log(steps) + 0.5 * ((angle + strip) / shift) ** 2)
    return Rotation(angle, strip, step, math.sqrt(2.0 * digits + 10.0))

