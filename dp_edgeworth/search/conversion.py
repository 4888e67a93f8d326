"""From certified bounds of one direction to intervals of epsilon and delta, for whole arrays of targets.

An upper end of epsilon is returned only where the upper bound of delta was evaluated and found <= the target, a lower end only
where the lower bound was found > the target, otherwise inf and 0: delta(eps) is non-increasing, so both are proved. In order:

    closed form   `closed_forms.py`
    negligible    `negligible.py`: leaves whose losses all together are below the tolerance, or that are in the way of the others
    spectral      `epsilon_search.py`, `delta_search.py` with the contours of `spectral.py`, `lattice.py` and `strata.py`
    convolution   `convolution.py`, in the same searches: where epsilon is tiny, and where contours remain wide
    Chernoff      where the spectral bound would need more work than allowed; the largest possible loss; the curve without sampling
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from dp_edgeworth.intervals import Bounds
from dp_edgeworth.proofs import chernoff, closed_forms, negligible
from dp_edgeworth.search import delta_search, epsilon_search
from dp_edgeworth.sums.composition import Composition
from dp_edgeworth.sums.direction import Direction

_TINY = 5e-324
_CHEAP = 0.05  # of the tolerance may go to leaves that need not be composed then
_WIDE = 1e-3  # relative, where the search has failed
_LOG_LEAST = -700.0
_FAR_LOG_DELTA, _NEGLIGIBLE = -30.0, 1e-8
_EXCESSES = (1e-4, 20.0, 1e3, 1e5, 0.05, 0.05)  # of the tolerance: at first to find out how large epsilon is


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


def _epsilons(composition: Composition, deltas: np.ndarray, tolerance: float, floor: np.ndarray) -> Bounds:
    if math.isinf(composition.gaussian_variance):  # beyond all floats
        unknown = np.where(deltas >= 1.0, 0.0, math.inf)
        return Bounds(np.zeros(deltas.shape), unknown, unknown)
    most = max(_moved(composition.supremum, composition.supremum_error), 0.0)
    finite_most = max(_moved(composition.finite_supremum, composition.supremum_error), 0.0)
    result = Bounds(np.zeros(deltas.shape), np.full(deltas.shape, most), np.full(deltas.shape, most))
    trivial = deltas >= 1.0
    result.put(trivial, np.array(0.0), np.array(0.0), np.array(0.0))
    margin = composition.infinite_mass_margin
    hopeless = (deltas < composition.infinite_mass + margin) | ((deltas == 0.0) & math.isinf(most))
    if math.isinf(most):
        result.lower[hopeless & ((deltas < composition.infinite_mass - margin) | (deltas == 0.0))] = math.inf
    pure = (deltas == 0.0) & ~hopeless
    least_top = max(_moved(composition.supremum, -composition.supremum_error), 0.0)
    result.put(pure, np.array(least_top), np.array(composition.supremum), np.array(most))
    rest = np.flatnonzero(~(trivial | hopeless | pure))
    result.upper[rest] = finite_most
    result.estimate[rest] = np.minimum(result.estimate[rest], finite_most)
    rest = rest[floor[rest] < finite_most]
    if composition.log_top_mass > -700.0:  # delta(eps) >= P(Y = top) (1 - e^{eps - top})
        top = math.exp(composition.log_top_mass) * (1.0 - 1e-12)
        with np.errstate(divide="ignore", invalid="ignore"):
            least = least_top + np.log1p(-deltas[rest] / top)
        result.lower[rest] = np.where(deltas[rest] < top, np.maximum(least, 0.0), 0.0)
        done = result.upper[rest] - result.lower[rest] <= tolerance * np.maximum(1.0, result.lower[rest])
        result.estimate[rest[done]] = 0.5 * (result.lower[rest[done]] + result.upper[rest[done]])
        rest = rest[~done]
    closed = closed_forms.closed_form(composition) if len(rest) else None
    if closed is not None:
        known = np.full(len(rest), True)
        if closed.start > 0.0:
            with np.errstate(divide="ignore"):
                known = np.log(deltas[rest]) < closed.log_delta(np.array(closed.start)) - 1e-9
        result.put(rest[known], *closed_forms.closed_epsilons(closed, deltas[rest[known]], finite_most))
        rest = rest[~known]
    rest = _far_epsilons(composition, deltas, rest, tolerance, finite_most, result)
    if len(rest):
        rest = _without_negligible(composition, deltas, rest, tolerance, _CHEAP * tolerance, floor, result)
    if len(rest):
        epsilon_search.epsilons(composition, deltas, rest, tolerance, floor, result)
        rest = _wide(result, rest, tolerance)
    if len(rest):
        _put_simple_bounds(composition, deltas, rest, result)
        rest = _wide(result, rest, tolerance)
    if len(rest):
        _without_negligible(composition, deltas, rest, tolerance, 0.5 * _WIDE * float(result.upper[rest].min()), floor, result)
    return Bounds(*(np.maximum(part, 0.0) for part in result))


def _wide(result: Bounds, targets: np.ndarray, tolerance: float) -> np.ndarray:
    """The targets whose intervals are."""
    lower = result.lower[targets]
    return targets[result.upper[targets] - lower > _WIDE * np.maximum(lower, tolerance / _WIDE)]


def _put_simple_bounds(composition: Composition, deltas: np.ndarray, targets: np.ndarray, result: Bounds) -> None:
    """Chernoff bounds on both sides, and the curve without sampling: for counts so large that no contour is of use."""
    asked = deltas[targets]
    if composition.log_finite < 0.0:
        return
    steeper = max(1e-9 * float(asked.min()), 1e-300)  # larger tilts than without the rounding of K
    lower, upper = chernoff.Tail.of(composition, steeper).epsilons(asked)
    whole = negligible.without_sampling(composition) if np.isinf(result.upper[targets]).any() else None
    if whole is not None:
        upper = np.minimum(upper, _epsilons(whole.rest, asked, 1.0, np.zeros(len(asked))).upper + whole.shift)
    result.put(targets, lower, 0.5 * (lower + upper), upper)


def _without_negligible(composition: Composition, deltas: np.ndarray, targets: np.ndarray, tolerance: float, budget: float,
                        floor: np.ndarray, result: Bounds) -> np.ndarray:
    """Intersects with the bounds of `negligible.py`; returns the targets that are left, all of them if no leaf is negligible."""
    least = float(deltas[targets].min())
    if least < 1e-290 or not math.isfinite(budget):  # delta less q must differ from delta
        return targets
    split = negligible.split(composition, budget, math.log(least) + math.log(negligible.SHARE))
    if split is None:
        return targets
    asked = deltas[targets]
    smaller = asked if split.log_mass == -math.inf else np.maximum(asked * (1.0 - 2.0 * negligible.SHARE), 0.0)
    below = _epsilons(split.rest, asked, tolerance, floor[targets])
    above = below if smaller is asked else _epsilons(split.rest, smaller, tolerance, floor[targets])
    result.put(targets, below.lower, np.minimum(below.estimate, above.upper), (above.upper + split.shift) * (1.0 + 4e-16))
    return targets[:0]


def _deltas(composition: Composition, epsilons: np.ndarray, tolerance: float, floor: np.ndarray) -> Bounds:
    if math.isinf(composition.gaussian_variance):  # beyond all floats
        return Bounds(np.zeros(epsilons.shape), np.ones(epsilons.shape), np.ones(epsilons.shape))
    infinite = composition.infinite_mass
    least, most = delta_search.around(infinite)
    result = Bounds(np.full(epsilons.shape, least), np.ones(epsilons.shape), np.ones(epsilons.shape))
    beyond = (epsilons >= _moved(composition.finite_supremum, composition.supremum_error)) | np.isinf(epsilons)
    result.estimate[beyond], result.upper[beyond] = infinite, most
    if not math.isfinite(composition.finite_supremum):
        result.upper[beyond] = max(most, _TINY)
    without = (epsilons >= _moved(composition.supremum, composition.supremum_error)) & (infinite == 0.0)  # even at an infinite epsilon
    result.lower[without], result.estimate[without], result.upper[without] = 0.0, 0.0, 0.0
    rest = np.flatnonzero(~beyond)
    if composition.log_finite == -math.inf or not len(rest):
        return Bounds(np.where(without, 0.0, result.lower), result.estimate, result.upper)
    closed = closed_forms.closed_form(composition)
    if closed is not None:
        known = rest[epsilons[rest] >= closed.start * (1.0 + 1e-12)]
        delta_search.put_logs(result, known, *closed.log_bounds(epsilons[known]), 0.0)
        rest = np.setdiff1d(rest, known)
    rest = _far_deltas(composition, epsilons, rest, tolerance, result)
    split = negligible.split(composition, _CHEAP * tolerance, _LOG_LEAST) if len(rest) else None
    if split is not None:
        known = rest[epsilons[rest] >= split.shift]
        at = np.concatenate([epsilons[known], np.maximum(epsilons[known] - split.shift, 0.0) * (1.0 - 4e-16)])
        found = _deltas(split.rest, at, tolerance, np.zeros(len(at)))
        half = len(known)
        result.put(known, found.lower[:half], found.estimate[:half],
                   np.minimum(found.upper[half:] * (1.0 + 4e-16) + math.exp(_LOG_LEAST), 1.0))
        rest = np.setdiff1d(rest, known)
    delta_search.deltas(composition, epsilons, rest, tolerance, floor, result)
    return result


def _far_epsilons(composition: Composition, deltas: np.ndarray, rest: np.ndarray, tolerance: float, most: float,
                  result: Bounds) -> np.ndarray:
    """Sums over hidden coins, with a small excess and then with one that suits epsilon; returns what is still open."""
    for share in _EXCESSES:
        if not len(rest):
            break
        excess = share * tolerance * max(1.0, float(result.lower[rest].min()))
        smallest = float(np.minimum(deltas[rest], 1.0 - deltas[rest]).min())
        form = closed_forms.far_form(composition, math.log(smallest), excess)
        if form is not None:
            result.put(rest, *closed_forms.closed_epsilons(form, deltas[rest], most))
            rest = rest[result.upper[rest] - result.lower[rest] > tolerance * np.maximum(1.0, result.lower[rest])]
            if max(form.dropped) < _NEGLIGIBLE * smallest:  # then fewer exceptions would be no help
                break
    return rest


def _far_deltas(composition: Composition, epsilons: np.ndarray, rest: np.ndarray, tolerance: float, result: Bounds) -> np.ndarray:
    """The same for delta, at first for deltas of e^-30 or more and then for the smallest that was found."""
    log_delta = _FAR_LOG_DELTA
    for share in _EXCESSES:
        if not len(rest):
            break
        width = tolerance * np.maximum(1.0, epsilons[rest])
        form = closed_forms.far_form(composition, log_delta, share * float(width.min()))
        if form is not None:
            lower, middle, upper = form.log_bounds(epsilons[rest])
            delta_search.put_logs(result, rest, lower, middle, upper, 0.0)
            with np.errstate(invalid="ignore"):
                steep = np.fmax(form.log_delta(epsilons[rest] - width) - form.log_delta(epsilons[rest] + width), 1e-9)
            rest = rest[~(upper - lower <= steep)]
            log_delta = max(float(middle[np.isfinite(middle)].min(initial=0.0)), -650.0) - 1.0
    return rest


def _moved(value: float, error: float) -> float:
    """A number moved by a relative error."""
    return value if math.isinf(value) else value + error * abs(value)
