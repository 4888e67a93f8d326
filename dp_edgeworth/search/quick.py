"""Certified epsilon of one delta, or of a curve, by one contour per direction, where that is enough; `conversion` does the rest.

The theorem and all error terms are those of `spectral.Contour`. What is different is how the contour is found: K is known on a ladder
of tilts (`leaf_sums`), so the saddle point, a guess of epsilon, the aliases of every period and the cheapest tilt are read off arrays.
Both directions have the same period. Where the characteristic function decays too slowly, where the target lies outside the ladder or
the interval is not as narrow as it was asked for, the answer is None.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from dp_edgeworth.intervals import Bounds, Interval
from dp_edgeworth.losses import gaussian_curve
from dp_edgeworth.losses.rules import EPSILON, Demand, RuleTooLargeError
from dp_edgeworth.proofs.spectral import Contour, log_kappa, rule_error
from dp_edgeworth.search.epsilon_search import RESERVE, solve
from dp_edgeworth.sums.envelope import sup_sinc
from dp_edgeworth.sums.leaf_sums import LENGTHS, STEPS_PER_OCTAVE, Ladder, LeafSums, Spectral, Spectrum, Start

_BELOW, _ABOVE = 13, 3  # steps of the ladder on either side of where a normal law would have its saddle point
_MOST_FREQUENCIES = 256
# Digits (base e) by which the cut-off is below what was asked for: envelopes depend on how leaves are grouped, answers should not.
_SPARE = 9.0
_MOST_CONTOURS = 4  # for a curve
_LARGEST_COUNT = 1e12  # K is planned with to 0.01
_LARGEST_DELTA, _SMALLEST_DELTA = 0.4, 1e-290
_SMALLEST_TILT = 1e-12  # tilts are multiples of 2^-52
_ZERO = np.zeros(1)


def epsilon(sums: LeafSums, delta: float, tolerance: float) -> Interval | None:
    """The certified interval of the smallest epsilon with delta(epsilon) <= delta in both directions, or None."""
    if not (sums.usable and sums.smooth and 1 < sums.total <= _LARGEST_COUNT and _SMALLEST_DELTA <= delta <= _LARGEST_DELTA):
        return None
    target = math.log(delta)
    slack = 4.0 * EPSILON * abs(target)
    try:
        plan = _plan(sums, target, tolerance)
        contours = _contours(sums, plan) if plan is not None else None
    except RuleTooLargeError:
        return None
    if plan is None or contours is None:
        return None
    found = _interval(contours[0], target, slack, plan.epsilon, tolerance)
    for contour in contours[1:]:
        if found is not None and not contour.bounds(np.array([found.lower])).upper[0] <= target - slack:
            other = _interval(contour, target, slack, plan.epsilon, tolerance)
            found = None if other is None else Interval(*map(max, found, other))
    return found if found is not None and _elsewhere(plan, np.array([target]))[0] <= found.lower else None


def epsilons(sums: LeafSums, deltas: np.ndarray, tolerance: float) -> Bounds | None:
    """The same for a curve: contours with digits to spare, each made for one target and used for all that it serves well."""
    within = bool(((deltas >= _SMALLEST_DELTA) & (deltas <= _LARGEST_DELTA)).all())
    if not (within and sums.usable and sums.smooth and 1 < sums.total <= _LARGEST_COUNT):
        return None
    targets, result = np.log(deltas), Bounds(*(np.zeros(len(deltas)) for _ in range(3)))
    slack, left = 4.0 * EPSILON * np.abs(targets), np.argsort(deltas)
    for _ in range(_MOST_CONTOURS):
        middle = float(targets[left[len(left) // 2]])
        try:
            plan = _plan(sums, middle, tolerance, RESERVE)
            contours = _contours(sums, plan) if plan is not None else None
        except RuleTooLargeError:
            return None
        if plan is None or contours is None:
            return None
        starts = np.clip(plan.epsilon + (middle - targets[left]) / contours[0].tilt, 0.1 * plan.epsilon, 2.0 * plan.epsilon + 10.0)
        lower, estimate, upper, _ = solve(contours[0], targets[left], slack[left], starts)
        good = (lower > 0.0) & (upper - lower <= tolerance * np.maximum(1.0, lower))
        good &= _elsewhere(plan, targets[left]) <= lower
        for contour in contours[1:]:
            good[good] = contour.bounds(lower[good]).upper <= (targets - slack)[left[good]]
        if not good.any():
            return None
        for part, found in zip(result, (lower, estimate, upper), strict=True):
            part[left[good]] = found[good]
        left = left[~good]
        if not len(left):
            return result
    return None


def _demand(sums: LeafSums, remove: float, add: float, frequency: float = 0.0) -> Demand:
    """Of a rule for tilts up to `remove` and `add` in these directions; the number of compositions is rounded up to powers of e^4."""
    return Demand(-add, remove + 1.0, frequency, 4.0 * math.ceil(math.log(sums.total) / 4.0))


class _Plan(NamedTuple):
    """Where to put the contours; arrays have one entry per direction that needs one, the one with the larger epsilon first.

    Attributes:
      epsilon: about where the larger epsilon is.
      elsewhere: log-bounds of the directions that need no contour, on the ladder.
      directions: 0 is "remove", 1 is "add". gaussian_variance: of the unsampled Gaussian leaves.
      tilts, need: of the contours, and how far their terms have to fall, as a logarithm.
      period, highest: of both, and the highest frequency that a normal law would need.
      others, log_bounds: tilts and log-bounds for the aliases.
    """

    epsilon: float
    elsewhere: np.ndarray
    directions: tuple[int, ...]
    gaussian_variance: float
    tilts: tuple[float, ...] = ()
    need: np.ndarray = _ZERO
    period: float = math.inf
    highest: float = math.inf
    others: np.ndarray = _ZERO
    log_bounds: np.ndarray = _ZERO


class _Rungs(NamedTuple):
    """K of some directions on the ladder: arrays have the shape (directions, tilts)."""

    tilts: np.ndarray
    log_mgf: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    log_bounds: np.ndarray  # log of kappa(c) e^{K(c)}, errors included

    def of(self, directions: list[int]) -> _Rungs:
        return _Rungs(self.tilts, *(part[directions] for part in self[1:]))


@np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore")
def _plan(sums: LeafSums, log_delta: float, tolerance: float, reserve: float = 0.0) -> _Plan | None:
    """Reads everything off K on a ladder of tilts around the saddle point that a normal law would have.

    `reserve`: digits (base e) by which all errors are to be smaller than one target asks for.
    """
    start = sums.of(Start(_demand(sums, 0.0, 0.0)))
    variance, gaussian_variance = float(start[4]), float(start[-1])  # K''(0) of "remove"
    if not (1e-200 < variance < 1e200 and gaussian_variance < variance):
        return None
    middle = STEPS_PER_OCTAVE * round(0.5 * math.log2(-2.0 * log_delta / variance))
    top = 2.0 ** ((middle + _ABOVE) / STEPS_PER_OCTAVE)
    ladder = Ladder(middle - _BELOW, middle + _ABOVE, sums.both, _demand(sums, 1.001 * top, 1.001 * top if sums.both else 0.0))
    tilts = ladder.tilts
    if not tilts[0] > _SMALLEST_TILT:
        return None
    k = ladder.read(sums.of(ladder))
    if not np.isfinite(k).all():
        return None
    rungs = _Rungs(tilts, k[0], k[1], k[2], log_kappa(tilts) + k[0] + k[3] + rule_error(tilts))
    chernoff = _chernoff(rungs.log_bounds, tilts, log_delta)
    places, guesses = _guesses(rungs, log_delta)
    first = int(guesses[-1] > guesses[0])
    best, epsilon, last = chernoff.argmin(axis=1), guesses[first], len(tilts) - 1
    if not (epsilon > 0.0 and 0 < best[first] < last and 0.0 < places[first] < last):
        return None
    # A direction whose Chernoff bound is clearly below needs no contour.
    least = chernoff.min(axis=1)
    used = [first, *(d for d in range(len(guesses)) if d != first and least[d] >= 0.999 * epsilon)]
    elsewhere = rungs.log_bounds[[d for d in range(len(guesses)) if d not in used]]
    slope = float(np.interp(places[first], np.arange(len(tilts)), tilts))
    log_relative = math.log(min(max(0.01 * tolerance * max(1.0, epsilon) * slope, 1e-12), 1e-4)) - reserve
    return _placed(rungs.of(used), _Plan(epsilon, elsewhere, tuple(used), gaussian_variance), best[used], log_delta, log_relative)


def _chernoff(log_bounds: np.ndarray, tilts: np.ndarray, log_delta: float | np.ndarray) -> np.ndarray:
    """Proved bounds of epsilon, one per tilt."""
    return (log_bounds - log_delta + 8.0 * EPSILON * np.abs(log_bounds)) / tilts * (1.0 + 8.0 * EPSILON)


def _elsewhere(plan: _Plan, log_deltas: np.ndarray) -> np.ndarray:
    """Proved bounds of epsilon in the directions that have no contour; 0 where there are none."""
    found = [_chernoff(row, plan.others[1:], log_deltas[:, None]).min(axis=1) for row in plan.elsewhere]
    return np.max(found, axis=0) if found else np.zeros(len(log_deltas))


def _guesses(rungs: _Rungs, log_delta: float) -> tuple[list[float], list[float]]:
    """Places on the ladder, and epsilon there, where delta would be reached if the tilted laws were normal."""
    tilts, spread, steps = rungs.tilts, np.sqrt(rungs.variance), np.arange(len(rungs.tilts))
    # log delta(K'(c)) if the law tilted by c were normal, which decreases along the ladder
    normal = rungs.log_mgf - tilts * rungs.mean - gaussian_curve.LOG_SQRT_2PI + np.log(
        gaussian_curve.mills(tilts * spread) - gaussian_curve.mills((tilts + 1.0) * spread))
    falling = np.minimum.accumulate(normal, axis=1)
    places = [float(np.interp(-log_delta, -row, steps)) for row in falling]
    return places, [float(np.interp(place, steps, row)) for place, row in zip(places, rungs.mean, strict=True)]


def _placed(rungs: _Rungs, plan: _Plan, best: np.ndarray, log_delta: float, log_relative: float) -> _Plan | None:
    """The plan with the tilts and the period that need the fewest frequencies; None where there are none."""
    tilts, epsilon, steps = rungs.tilts, plan.epsilon, np.arange(len(rungs.tilts))
    others = np.concatenate([_ZERO, tilts])
    log_bounds = np.concatenate([np.zeros((len(best), 1)), rungs.log_bounds], axis=1)
    # How far apart the copies must be for their bounds at the other tilts, on either side, to be small enough.
    reach = np.maximum(log_bounds - others * epsilon - (log_delta + log_relative), 0.0) + 0.7
    gap = others - tilts[:, None]
    periods = reach[:, None, :] / np.abs(gap)
    period = np.maximum(np.where(gap > 0, periods, np.inf).min(axis=2), np.where(gap < 0, periods, np.inf).min(axis=2))
    loss = rungs.log_mgf - tilts * epsilon - log_delta
    # The cf decays with the spread of the bulk; rare large losses add to the variance but not to that.
    fall, bulk = np.maximum(loss - log_relative, 1.0) + _SPARE, np.minimum(rungs.variance, rungs.variance[:, :1])
    cost = period * np.sqrt(fall / bulk) * np.exp(np.maximum(loss - 14.0, 0.0))  # the last factor: digits lost to cancellation
    chosen = np.where(steps <= best[:, None] + 1, cost, np.inf).argmin(axis=1)
    at = (np.arange(len(chosen)), chosen)
    longest = float(period[at].max())
    if not math.isfinite(longest):
        return None
    return plan._replace(tilts=tuple(tilts[chosen].tolist()), need=loss[at] - log_relative + _SPARE,
                         period=2.0 ** (math.ceil(2.0 * math.log2(longest)) / 2.0),
                         highest=math.sqrt(2.0 * float((fall / bulk)[at].max())), others=others, log_bounds=log_bounds)


def _contours(sums: LeafSums, plan: _Plan) -> list[Contour] | None:
    """The contours of the plan, with as many frequencies as their envelopes ask for; None where that is too many."""
    last, needed = 0, 2.0 * plan.highest * plan.period / (2.0 * math.pi)
    while last < needed <= _MOST_FREQUENCIES:
        last = 8 * math.ceil(needed / 8.0)
        reach = {number: tilt for number, tilt in zip(plan.directions, plan.tilts, strict=True)}
        demand = _demand(sums, reach.get(0, 0.0), reach.get(1, 0.0), 2.0 * math.pi / plan.period * last)
        spectrum = Spectrum(plan.directions, plan.tilts, plan.period, last, demand)
        parts = spectrum.read(sums.of(spectrum))
        exponents = [_exponents(plan, part) for part in parts]
        lengths = [_length(plan, exponent, need) for exponent, need in zip(exponents, plan.need, strict=True)]
        needed = max(lengths)
    if not last >= needed:
        return None
    return [_contour(plan, *parts_of) for parts_of in zip(plan.tilts, plan.log_bounds, parts, exponents, lengths, strict=True)]


def _exponents(plan: _Plan, part: Spectral) -> np.ndarray:
    """E(y_j) with |prod phi(y)| <= e^{-E(y)} (`envelope`) at all frequencies that may be used, Gaussian leaves included."""
    y = _turns() * (2.0 / plan.period)
    return (_decays() @ part.masses) * (1.0 - 1e-9) + 0.5 * plan.gaussian_variance * y * y


@functools.lru_cache(maxsize=1)
def _turns() -> np.ndarray:
    """y_j times half a period."""
    return math.pi * np.arange(_MOST_FREQUENCIES + 1)


@functools.lru_cache(maxsize=1)
def _decays() -> np.ndarray:
    """1 - S(y_j l / 2), S = sup sinc, for the lengths l of `LENGTHS`; first, for shorter ones, per l^2: 1 - S(u) >= u^2/6 - u^4/120."""
    u = _turns()[:, None] * LENGTHS
    short = _turns()[:, None] ** 2 / 6.0 * (1.0 - u[:, :1] ** 2 / 20.0)
    return np.concatenate([np.maximum(short, 0.0), 1.0 - sup_sinc(u)], axis=1)


def _length(plan: _Plan, exponents: np.ndarray, need: float) -> float:
    """The last frequency, at least the fourth, after which what is cut off is small enough; infinite where none is."""
    enough = exponents[4:] + np.log(_turns()[4:] * (2.0 / plan.period)) >= need
    first = int(enough.argmax())
    return 4.0 + first if enough[first] else math.inf


def _contour(plan: _Plan, c: float, log_bounds: np.ndarray, part: Spectral, exponents: np.ndarray, length: float) -> Contour:
    """The contour of one direction."""
    last, step, variance = int(length), 2.0 * math.pi / plan.period, plan.gaussian_variance
    log_terms, errors = part.log_terms[:last + 1], part.errors[:last + 1]
    log_mgf, log_mgf_error = part.log_mgf, part.log_mgf_error + rule_error(c)
    if variance > 0.0:
        y = step * np.arange(last + 1)
        normal = -0.5 * variance * y * y + 1j * y * variance * (c + 0.5)
        log_terms, errors = log_terms + normal, errors + 4.0 * EPSILON * np.abs(normal)
        log_mgf += 0.5 * variance * c * (c + 1.0)
        log_mgf_error += 2.0 * EPSILON * variance * c * (c + 1.0)
    return Contour(c, log_mgf, log_mgf_error, step, log_terms, errors, -float(exponents[last]), 0.0, plan.others, log_bounds)


def _interval(contour: Contour, target: float, slack: float, start: float, tolerance: float) -> Interval | None:
    """The interval of epsilon with log G(epsilon) = target, if it is proved and as narrow as it was asked for.

    Newton's method on the estimate; then both ends, as far away as the error bounds say, are proved or not.
    """
    eps = start
    for _ in range(12):
        total, rate = contour.light(eps)
        if not (total > 0.0 and rate < 0.0):
            return None
        step = (target - (contour.log_mgf - contour.tilt * eps + math.log(total))) / rate
        eps += step
        if not 0.0 < eps < 2.0 * start + 10.0:
            return None
        if abs(step) <= 1e-4 * tolerance * max(1.0, eps):
            break
    above, below = contour.margins(eps, total)
    unit = 1e-13 * max(eps, 1e-2)
    upper, lower = eps + 1.01 * (above + slack) / -rate + unit, eps - 1.01 * (below + slack) / -rate - unit
    if not (lower > 0.0 and upper - lower <= tolerance * max(1.0, lower)):
        return None
    proof = contour.bounds(np.array([lower, upper]))
    if proof.lower[0] > target + slack and proof.upper[1] <= target - slack:
        return Interval(lower, eps, upper)
    return None
