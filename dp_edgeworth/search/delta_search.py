"""Certified delta of epsilon for one direction, by contours: delta itself above the mean loss, 1 - delta below it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable

import numpy as np

from dp_edgeworth.intervals import Bounds
from dp_edgeworth.losses.rules import EPSILON, RuleTooLargeError
from dp_edgeworth.proofs import convolution, lattice, spectral, strata
from dp_edgeworth.search import tilts
from dp_edgeworth.search.epsilon_search import (
    FEW_PAIRS,
    FINEST,
    MANY_PAIRS,
    MANY_ROUNDS,
    MANY_TARGETS,
    MOST_PASSES,
    NEGLIGIBLE,
    RESERVE,
    SMALL,
    Contour,
    chi_square_delta,
)
from dp_edgeworth.sums.composition import Composition

_TINY = 5e-324
_WIDE = 1e-3  # relative


def deltas(composition: Composition, epsilons: np.ndarray, open_targets: np.ndarray, tolerance: float, floor: np.ndarray,
           result: Bounds) -> None:
    """Contours for one open target after the other, each tried on all that are still open on its side of the mean."""
    mean, rounds, known = tilts.mean_loss(composition), 0, False
    while len(open_targets):
        index = open_targets[len(open_targets) // 2]
        same_side = open_targets[(epsilons[open_targets] < mean) == (epsilons[index] < mean)]
        one = _one_complement if epsilons[index] < mean else _one_delta
        try:
            done = one(composition, epsilons, index, same_side, tolerance, floor, result)
        except RuleTooLargeError:
            bound = np.array([chi_square_delta(composition)])
            result.put(np.array([index]), np.zeros(1), bound, bound)
            done = np.array([index])
        if result.upper[index] > max(floor[index], (1.0 + _WIDE) * result.lower[index]):
            pairs = MANY_PAIRS / len(open_targets)
            _convolved(composition, float(epsilons[index]), index, tolerance, float(floor[index]), result, pairs, best=True)
        rounds += 1
        open_targets = np.setdiff1d(open_targets, done)
        if rounds == MANY_ROUNDS and len(open_targets) > MANY_TARGETS:
            known = _convolved_curve(composition, epsilons, open_targets, tolerance, result)
            open_targets = open_targets[result.upper[open_targets] > (1.0 + _WIDE) * result.lower[open_targets]]
        if known and rounds == 2 * MANY_ROUNDS:
            open_targets = open_targets[result.upper[open_targets] > (1.0 + _WIDE) * result.lower[open_targets]]
        if known and rounds == 4 * MANY_ROUNDS:  # what is left is as wide as the convolution
            break


def _convolved_curve(composition: Composition, epsilons: np.ndarray, targets: np.ndarray, tolerance: float, result: Bounds) -> bool:
    """One convolution for many targets, if there is one: for the smallest delta that is seen and for the smallest epsilon."""
    targets = targets[np.argsort(epsilons[targets])]
    found, step, guess = None, convolution.COARSEST, max(float(epsilons[targets[0]]), tolerance)
    log_delta, drop = 0.0, 20.0
    few = epsilons[targets[np.linspace(0, len(targets) - 1, 9).astype(int)]]
    for _ in range(MOST_PASSES):
        finer_found = convolution.convolved(composition, log_delta, guess, step, FEW_PAIRS)
        if finer_found is None:
            break
        found = finer_found
        b = found.bounds(few)
        if found.upper.infinite > 0.1 * math.exp(b.upper[-1]) and log_delta - drop > -600.0:
            log_delta, drop = log_delta - drop, 2.0 * drop
            continue
        with np.errstate(invalid="ignore"):
            worst = float(np.nanmax((b.upper - b.lower)[b.upper > log_delta - 5.0], initial=0.0)) / _WIDE
        finer = min(math.sqrt(1.5 * worst), 0.8 * math.sqrt(FEW_PAIRS / max(found.size, 1)), 3.0)
        if finer < 1.2:
            break
        step /= finer
    if found is not None:
        b = found.bounds(epsilons[targets])
        put_logs(result, targets, b.lower, b.estimate, b.upper, composition.infinite_mass)
    return found is not None


def _one_delta(composition: Composition, epsilons: np.ndarray, index: int, open_targets: np.ndarray, tolerance: float,
               floor: np.ndarray, result: Bounds) -> np.ndarray:
    """Settles one epsilon and whichever others its contour serves; returns their indices."""
    epsilon = float(epsilons[index])
    if _is_no_float(composition, epsilon):
        none = open_targets[epsilons[open_targets] >= epsilon]
        nothing = np.full(len(none), -math.inf)
        put_logs(result, none, nothing, nothing, nothing, composition.infinite_mass)
        return none
    tilt, guess = _start_delta(composition, epsilons, index, open_targets, result)
    contour: Contour | None = None
    if epsilon < SMALL * tolerance and not composition.atomic:
        contour = _convolved(composition, epsilon, index, tolerance, float(floor[index]), result, FEW_PAIRS)
    if contour is None:
        contour = _contours(composition, epsilons, index, open_targets, tilt, guess, tolerance, float(floor[index]), result)

    def put(targets: np.ndarray, logs: spectral.LogBounds) -> None:
        put_logs(result, targets, logs.lower, logs.estimate, logs.upper, composition.infinite_mass)

    served = _served(contour, epsilons, index, open_targets, tolerance, put)
    # Other targets may have been decided by another direction.
    return np.union1d(served, open_targets[result.upper[open_targets] <= floor[open_targets]])


def _contours(whole: Composition, epsilons: np.ndarray, index: int, open_targets: np.ndarray, tilt: float | None, guess: float,
              tolerance: float, floor: float, result: Bounds) -> Contour | None:
    """Contours until the interval at one epsilon is as narrow as it was asked for, or gets no narrower; the last of them."""
    me, epsilon, composition = np.array([index]), float(epsilons[index]), whole
    width, share = tolerance * max(1.0, epsilon), math.exp(-NEGLIGIBLE)
    contour: Contour | None = None
    reserve = RESERVE if len(open_targets) > 2 else 0.0
    cuts, lost, best, tried = whole.has_tail, tilt is None, math.inf, False
    last: float | None = None  # width after strata have failed
    for attempt, finer in enumerate((1.0, 1.0, *(1.0,) * 6) if cuts else (1.0, 1.0, 6.0)):
        if result.upper[index] <= max(floor, _TINY):
            return contour
        if cuts and not tried and (attempt >= 2 or lost or tilt is None):  # Rare losses hide it, see `epsilon_search`.
            tried, found = True, None
            if epsilon >= SMALL * tolerance or whole.atomic:
                found = _convolved(whole, epsilon, index, tolerance, floor, result, FEW_PAIRS)
            found = found or _stratified(whole, epsilon, me, tolerance, result)
            if found is not None:
                return found
        if cuts and (attempt >= 2 or lost):
            composition = whole.truncated(math.log(share) + math.log(max(result.upper[index] - whole.infinite_mass, 1e-300)))
            tilt, guess = _start_delta(composition, epsilons, index, open_targets, result)
            guess = min(guess, best)
        if tilt is None or tilts.at_the_top(composition, tilt):
            break
        try:
            contour = lattice.contour(composition, tilt, epsilon, guess, width, finer, reserve=reserve)
        except RuleTooLargeError:
            lost = True
            continue
        b = contour.bounds(epsilons[me])
        put_logs(result, me, b.lower, b.estimate, b.upper, whole.infinite_mass)
        own = float(b.upper[0] - b.lower[0])
        if own <= width * abs(b.slope[0]) or (last is not None and not own < 0.5 * last):
            break
        last = own if tried else None
        share = min(max(0.02 * width * abs(float(b.slope[0])), 1e-12), math.exp(-NEGLIGIBLE))
        if math.isfinite(float(b.lower[0])):
            best = float(b.estimate[0])
        guess = min(float(b.estimate[0]), guess + 1.0) if math.isfinite(float(b.estimate[0])) else guess - 5.0
    if not tried and contour is None:  # a bounded loss whose rules are too large
        contour = _stratified(whole, epsilon, me, tolerance, result)
    return contour


def _convolved(composition: Composition, epsilon: float, index: int, tolerance: float, floor: float, result: Bounds,
               most_pairs: float, *, best: bool = False) -> Contour | None:
    """Convolutions until the tolerance is met, and then the last of them; see `epsilon_search`."""
    me, step, width = np.array([index]), convolution.COARSEST, tolerance * max(1.0, epsilon)
    most = float(result.upper[index]) - composition.infinite_mass
    log_delta, drop = math.log(most) if most > 0.0 else -math.inf, 20.0
    for _ in range(MOST_PASSES):
        found = convolution.convolved(composition, log_delta, max(epsilon, tolerance), step, most_pairs)
        if found is None:
            return None
        b = found.bounds(np.array([epsilon]))
        put_logs(result, me, b.lower, b.estimate, b.upper, composition.infinite_mass)
        wanted, own = min(max(width * abs(float(b.slope[0])), 1e-15), _WIDE), float(b.upper[0]) - float(b.lower[0])
        if own <= wanted or b.upper[0] == -math.inf or result.upper[index] <= max(floor, _TINY):
            return found
        if found.upper.infinite > 0.1 * math.exp(b.upper[0]):  # what was charged for a larger delta hides this one
            log_delta, drop = float(b.upper[0]) - drop, 2.0 * drop
            continue
        known = math.log(result.upper[index]) - math.log(result.lower[index]) if result.lower[index] > 0.0 else math.inf
        finer = min(math.sqrt(1.5 * own / wanted), 0.8 * math.sqrt(most_pairs / max(found.size, 1)), 3.0)
        if known <= wanted or own * found.size / most_pairs > (0.5 * known if best else wanted) or finer < 1.2:
            return None
        log_delta, step = max(float(b.lower[0]), float(b.estimate[0]) - 10.0), step / finer
    return None


def _stratified(composition: Composition, epsilon: float, me: np.ndarray, tolerance: float, result: Bounds) -> Contour | None:
    """Strata that are narrow enough at this epsilon, or None; their bounds are put into the result in any case."""
    tolerance = max(tolerance, FINEST * min(epsilon, 1.0))
    width = tolerance * max(1.0, epsilon)
    log_delta: float | None = None
    slope: float | None = None
    try:
        for finer in (1.0, 1.0, 2.0):
            planner = strata.planner_at(composition, log_delta, epsilon, tolerance)
            if planner is None:
                return None
            contour = planner.contour(epsilon, slope or planner.slope(epsilon), width, finer)
            b = contour.bounds(np.array([epsilon]))
            put_logs(result, me, b.lower, b.estimate, b.upper, composition.infinite_mass)
            slope = abs(float(b.slope[0]))
            if b.upper[0] - b.lower[0] <= width * slope:
                return contour
            if not math.isfinite(float(b.estimate[0])):
                return None
            log_delta = float(b.estimate[0])
    except RuleTooLargeError:
        pass
    return None


def _served(contour: Contour | None, epsilons: np.ndarray, index: int, open_targets: np.ndarray, tolerance: float,
            put: Callable[[np.ndarray, spectral.LogBounds], None]) -> np.ndarray:
    """The index, and the other targets for which the contour is narrow enough, whose bounds are put into the result."""
    others = open_targets[open_targets != index]
    if contour is None or not len(others):
        return np.array([index])
    b = contour.bounds(epsilons[others])
    with np.errstate(invalid="ignore"):
        good = b.upper - b.lower <= tolerance * np.maximum(1.0, epsilons[others]) * np.abs(b.slope)
    put(others[good], spectral.LogBounds(b.lower[good], b.estimate[good], b.upper[good], b.slope[good]))
    return np.append(others[good], index)


def _is_no_float(composition: Composition, epsilon: float) -> bool:
    """Whether delta less the infinite mass is below the floats, by the Chernoff bound at one tilt."""
    tilt = 1600.0 / max(epsilon, 1e-300)
    try:
        k = composition.cgf([tilt])[:, 0]
    except RuleTooLargeError:
        return False
    return bool(k[0] + k[3] - 1600.0 < -750.0)


def _start_delta(composition: Composition, epsilons: np.ndarray, index: int, open_targets: np.ndarray,
                 result: Bounds) -> tuple[float | None, float]:
    """The saddle point, with its Chernoff bounds put into the result, and a guess of log G; no tilt where no rule is fine enough."""
    try:
        tilt = tilts.saddle_tilt(composition, float(epsilons[index]))
        k = composition.cgf([tilt])[:, 0]
    except RuleTooLargeError:
        return None, 0.0
    log_kappa = float(spectral.log_kappa(np.array(tilt)))
    rounding = float(k[3]) + 8.0 * EPSILON * (abs(float(k[0])) + tilt * np.abs(epsilons[open_targets]) - log_kappa)
    chernoffs = np.logaddexp(float(k[0]) + log_kappa - tilt * epsilons[open_targets] + rounding, composition.log_dropped)
    put_logs(result, open_targets, np.full(len(chernoffs), -math.inf), chernoffs, chernoffs, composition.infinite_mass)
    log_size = float(k[0]) - tilt * float(epsilons[index])
    spread = tilt * (tilt + 1.0) * math.sqrt(2.0 * math.pi * float(k[2]))
    return tilt, log_size + min(log_kappa, -math.log1p(spread))


def _one_complement(composition: Composition, epsilons: np.ndarray, index: int, open_targets: np.ndarray, tolerance: float,
                    floor: np.ndarray, result: Bounds) -> np.ndarray:
    """The same for an epsilon below the mean loss: 1 - delta is the small one there."""
    me, epsilon = np.array([index]), float(epsilons[index])
    tilt = tilts.negative_tilt(composition, epsilon)
    k = composition.cgf([tilt], composition.demand(-1.0, 0.0))[:, 0]
    guess = float(k[0]) - tilt * epsilon - math.log1p(-tilt * (tilt + 1.0) * math.sqrt(2.0 * math.pi * float(k[2])))
    width, contour = tolerance * max(1.0, epsilon), None
    for finer in (1.0, 1.0, 6.0):
        try:
            contour = lattice.contour(composition, tilt, epsilon, guess, width, finer,
                                      reserve=RESERVE if len(open_targets) > 2 else 0.0)
        except RuleTooLargeError:
            break
        b = contour.bounds(epsilons[me])
        _put_complements(result, me, b)
        if b.upper[0] - b.lower[0] <= width * abs(b.slope[0]):
            break
        guess = float(b.estimate[0]) if math.isfinite(float(b.estimate[0])) else guess - 5.0
    return _served(contour, epsilons, index, open_targets, tolerance, functools.partial(_put_complements, result))


def around(infinite: float) -> tuple[float, float]:
    """Bounds of an infinite mass that is known to 1e-14."""
    return max(infinite * (1.0 - 1e-14) - _TINY, 0.0), min(infinite * (1.0 + 1e-14) + _TINY, 1.0) if infinite else 0.0


def _put_complements(result: Bounds, index: np.ndarray, logs: spectral.LogBounds) -> None:
    """Stores 1 - e^logs, rounded outwards."""
    low, middle, high = (-np.expm1(np.minimum(part, 0.0)) for part in (logs.upper, logs.estimate, logs.lower))
    result.put(index, low * (1.0 - 2.0 * EPSILON), middle, np.minimum(high * (1.0 + 2.0 * EPSILON), 1.0))


def put_logs(result: Bounds, index: np.ndarray, lower: np.ndarray, estimate: np.ndarray, upper: np.ndarray,
              infinite: float) -> None:
    """Adds the infinite mass to e^logs and stores them, moved outwards by what rounding can do: by one float where floats are sparse.

    So an upper end that would underflow is the smallest positive float.
    """
    with np.errstate(under="ignore"):
        low, middle, high = (np.exp(np.minimum(part, 0.0)) for part in (lower, estimate, upper))
    least, most = around(infinite)
    result.put(index, np.maximum(least + (low * (1.0 - 2e-15) - _TINY), 0.0), infinite + middle,
               np.minimum(most + (high * (1.0 + 2e-15) + _TINY), 1.0))
