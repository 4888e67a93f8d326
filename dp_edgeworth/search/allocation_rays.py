"""Which rays serve which epsilons of one epoch of random allocation; what they prove is `proofs/random_allocation.py`.

    k - 1 of at least 0.35, or of some deviations of S    calls along a leaning ray, one for every factor 2^24 of k - 1
    all other k                                           puts along Re u = a, or leaning from there, with the a, of powers of 4,
                                                          that makes e^{ak} psi(a) / a small

A ray serves every epsilon whose k belongs to it, and is kept.
"""

from __future__ import annotations

import functools
import math

import numpy as np

from dp_edgeworth.proofs.lognormal_step import Rotation, step_law
from dp_edgeworth.proofs.random_allocation import Contour, Ray, contour, log_cut, log_start, panel_errors

_NODES = 32
_LEAN, _PUT_LEAN = 0.4, 0.2
_LARGEST_LEAN = 0.8  # times the shift: phi is summed with e^{lean^2 / (2 v^2)} times as much rounding
_LEANING_SHIFT = 0.45  # from which calls are integrated up to k - 1 = 0.35, and puts of any k
_FAR_CALL, _LEAST_CALL = 6.0, 0.35  # deviations of S, and k - 1, from which calls are integrated as such
_DIGITS = 40.0
_LONGEST_STEP = 3.8  # of log s in a panel
_FURTHER, _OCTAVES = 8.0, 24  # of k - 1 that one ray for calls serves
_MOST_PANELS, _FEW_PANELS, _FEW_CALL_PANELS = 500, 10, 40  # with few enough, no other lean is tried
_LARGEST_EXPONENT = 690.0
_LARGEST_RATE = 500.0  # a / t


def keys(shift: float, steps: int, excess: np.ndarray) -> list[tuple[bool, int]]:
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
    far = _FAR_CALL * deviation(shift, steps)
    if shift >= _LEANING_SHIFT and far >= _LEAST_CALL:
        return _LEAST_CALL * np.exp2(_OCTAVES * np.arange(40))
    return far * np.append(1.0, _FURTHER * np.exp2(_OCTAVES * np.arange(40)))


def deviation(shift: float, steps: int) -> float:
    """Standard deviation of S."""
    return math.sqrt(math.expm1(min(shift ** 2, 600.0)) / steps)


@functools.lru_cache(maxsize=256)
def _abscissas(shift: float, steps: int) -> tuple[np.ndarray, np.ndarray]:
    """Binary exponents of a, and log(e^a psi(a) / a)."""
    exponents = np.arange(-30.0, 80.0, 2.0)  # every power of 4
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
def ray_contour(shift: float, steps: int, is_call: bool, exponent: int) -> Contour | None:
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
    starts = _groups(shift, steps)
    served = np.geomspace(starts[group], starts[group + 1], 17)
    log_spread = min(math.log(deviation(shift, steps)), 0.0)
    wanted = np.full(len(served), log_spread - _DIGITS)
    empty = Ray(shift, float(steps), 0.0, lean, np.zeros(1), np.zeros(1), _NODES, _rotation(shift, steps, 0.0, lean))
    first = math.exp(max(float(wanted[0]) - max(log_start(empty._replace(points=np.ones(1))), 1.0), -_LARGEST_EXPONENT))
    start = min(1.0 / served[0], math.exp(-log_spread))
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
    """phi(q) is summed to so many digits after its first one; of calls all q have the same argument, which leaves twice the strip."""
    widest = 0.5 * (0.5 * math.pi - lean) if abscissa > 0.0 else 0.5 * math.pi
    strip = min(widest, shift) * (1.0 - 1e-12)
    angle, digits = strip + lean, _DIGITS - float(step_law(shift).log_laplace(np.array(abscissa / steps)))
    step = 2.0 * math.pi * strip / (digits + math.log(steps) + 0.5 * ((angle + strip) / shift) ** 2)
    return Rotation(angle, strip, step, math.sqrt(2.0 * digits + 10.0))

