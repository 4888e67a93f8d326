"""One planner for all contours: tilt, period, number of frequencies and smoothing, read off K on a ladder.

    period       so long that the copies of the curve (`proofs/aliases.py`) are below what was asked for
    frequencies  as many as the envelope of the characteristic function needs to fall that far
    tau^2        where it does not fall: smoothing as strong as the tolerance allows, more where there would be too many frequencies

Nothing here is believed: a bad plan makes a wide interval. Where losses live on a lattice, the period is a number of points.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np

from dp_edgeworth.losses.rules import RuleTooLargeError
from dp_edgeworth.proofs.contour import contour
from dp_edgeworth.proofs.curve import Curve
from dp_edgeworth.proofs.lattice import lattice_contour
from dp_edgeworth.search.ladder import Place
from dp_edgeworth.sums.envelope import FIRST, LAST, RATIO, Envelope, sup_sinc

_FINEST, _COARSEST = 1e-12, 1e-4  # relative accuracy of G that is aimed at
# Digits (base e) by which the cut-off is below what was asked for: envelopes depend on how leaves are grouped, answers should not.
_SPARE, _LEAST_SPARE = 9.0, 2.0
_FEW, _SOME, _SHORT, _MOST = 256, 640, 1 << 14, 1 << 18  # frequencies
_MOST_POINTS = 1 << 18  # of a lattice
_MOST_LOSS = 34.0  # log A / G: beyond, nothing is left of 16 digits
_CANCELLED = 14.0  # from here on digits lost to cancellation are dear
_LARGEST_SMOOTHING, _LEAST_SMOOTHING = 16.0, 1e-40
_LOWEST, _HIGHEST = -120, 330  # frequencies RATIO ** n that `sufficient_frequency` looks at


class Plan(NamedTuple):
    """A tilt, a period, tilts for the aliases, log(A / G), the relative accuracy aimed at, the spread of the bulk."""

    tilt: float
    period: float
    others: np.ndarray
    loss: float
    log_relative: float
    bulk: float


def plan(place: Place, width: float, slope: float, reserve: float) -> Plan | None:
    """The tilt and period that need the fewest frequencies for G(epsilon) to a relative accuracy of 1 % of width times slope."""
    tilts, log_mgf, variance, bounds = (place.rungs.tilts, place.rungs.log_mgf, place.rungs.variance, place.log_bounds)
    usable = np.full(len(tilts), True) if place.complement else np.arange(len(tilts)) <= place.best + 1
    log_relative = math.log(min(max(0.01 * width * slope, _FINEST), _COARSEST)) - reserve
    free = np.array([0.0, -1.0]) if place.complement else np.zeros(1)
    others, other_bounds = np.concatenate([tilts, free]), np.concatenate([bounds, np.zeros(len(free))])
    reach = np.maximum(other_bounds - others * place.epsilon - (place.log_g + log_relative), 0.0) + 0.7
    gap = others - tilts[:, None]
    loss = log_mgf - tilts * place.epsilon - place.log_g
    bulk = np.maximum(np.minimum(variance, variance[0]), 1e-300)  # rare large losses add to the variance, but not to the decay
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        periods = reach / np.abs(gap)
        period = np.maximum(np.where(gap > 0, periods, np.inf).min(axis=1), np.where(gap < 0, periods, np.inf).min(axis=1))
        cost = np.log(period * np.sqrt((np.maximum(loss - log_relative, 1.0) + _SPARE) / bulk)) + np.maximum(loss - _CANCELLED, 0.0)
    cost = np.where(usable & np.isfinite(cost), cost, np.inf)
    at = int(cost.argmin())
    if not (math.isfinite(cost[at]) and loss[at] <= _MOST_LOSS):
        return None
    rounded = 2.0 ** (math.ceil(2.0 * math.log2(float(period[at]))) / 2.0)
    return Plan(float(tilts[at]), rounded, tilts, float(loss[at]), log_relative, float(bulk[at]))


def planned(place: Place, width: float, slope: float, reserve: float = 0.0, finer: float = 1.0, *, short: bool = False) -> Curve | None:
    """A curve whose interval at the place is about `width` of epsilon wide, or wider; None where there is none.

    Args:
      slope: about |d log G / d epsilon| at the place.
      reserve: digits (base e) to spare, for a curve that will be used away from the place.
      finer: smoothing is by tau / finer.
      short: rather None than a long sum.
    """
    choice = plan(place, width, slope, reserve)
    if choice is None:
        return None
    spacing = place.composition.spacing
    if spacing is not None:
        points = math.ceil(choice.period / spacing) + 2
        if points <= _MOST_POINTS:
            found = lattice_contour(place.composition, choice.tilt, max(points, 16), choice.others)
            if found.shift <= 0.05 * width:
                return found
    return _contour(place, choice, width, slope, finer, short)


def _contour(place: Place, choice: Plan, width: float, slope: float, finer: float, short: bool) -> Curve | None:
    """With as many frequencies as the envelope asks for, smoothed where these would be too many."""
    composition, turns = place.composition, choice.period / (2.0 * math.pi)
    need = choice.loss - choice.log_relative
    guess = 2.0 * math.sqrt(2.0 * (max(need, 1.0) + _SPARE) / choice.bulk) * turns
    last = min(8 * math.ceil(min(max(guess, 8.0), 1e6) / 8.0), _FEW)
    try:
        envelope = composition.spectral(choice.tilt, choice.period, last).envelope
    except RuleTooLargeError:
        last = 8
        try:
            envelope = composition.spectral(choice.tilt, choice.period, last).envelope
        except RuleTooLargeError:
            return None
    if sufficient_frequency(envelope, need + _LEAST_SPARE) * turns > last:
        needed = sufficient_frequency(envelope, need + _SPARE) * turns
        last = max(last, 8 * math.ceil(needed / 8.0)) if needed <= _SOME else 0
    if last:
        return contour(composition, choice.tilt, choice.period, last, 0.0, choice.others)
    return _smoothed(place, choice, envelope, width, slope, finer, short)


def _smoothed(place: Place, choice: Plan, envelope: Envelope, width: float, slope: float, finer: float, short: bool) -> Curve | None:
    turns, need = choice.period / (2.0 * math.pi), choice.loss - choice.log_relative
    price = math.log(max(1.0, slope * (slope + 1.0)))
    tolerated = min(0.4 * width / (slope + 1.0), 0.1 / (slope * (slope + 1.0)), 1.0) if slope > 0.0 else 1.0
    tau2 = max(tolerated / finer**2, _LEAST_SMOOTHING)
    alone = sufficient_frequency(envelope, need) * turns
    while tau2 <= _LARGEST_SMOOTHING:
        frequencies = sufficient_frequency(envelope.smoothed(tau2), need + price) * turns
        if alone <= min(1.5 * frequencies, _MOST):
            tau2, frequencies = 0.0, alone
        if short and frequencies > _SHORT:
            return None
        if frequencies <= _MOST:
            try:
                return contour(place.composition, choice.tilt, choice.period, max(math.ceil(frequencies), 3), tau2, choice.others)
            except RuleTooLargeError:  # smoother, so that lower frequencies will do
                alone, tau2 = math.inf, 2.0 * max(tau2, tolerated)
        tau2 = max(4.0 * tau2, _LEAST_SMOOTHING)
    return None


def sufficient_frequency(envelope: Envelope, need: float) -> float:
    """About the smallest y with exponent(y) + log y >= need; infinite where there is none.

    Lengths and frequencies are powers of one ratio, so the sums for all frequencies together are one convolution.
    """
    used = np.flatnonzero(envelope.masses)
    logs = np.arange(_LOWEST, _HIGHEST) * np.log(RATIO)
    fall = 0.5 * envelope.variance * np.exp(2.0 * logs) + logs - need
    if len(used):
        first, last = int(used[0]), int(used[-1]) + 1
        fall = fall + np.correlate(_decays()[first:first + len(logs) + last - first - 1], envelope.masses[first:last], "valid")
    enough = fall >= 0.0
    at = int(enough.argmax())
    if not enough[at]:
        return math.inf
    share = fall[at] / (fall[at] - fall[at - 1]) if at > 0 else 0.0
    return float(np.exp(logs[at] - share * np.log(RATIO)))


@functools.lru_cache(maxsize=1)
def _decays() -> np.ndarray:
    """1 - S(RATIO^i / 2) for all i that a sum of a length's and a frequency's number can be."""
    return 1.0 - sup_sinc(0.5 * RATIO ** np.arange(float(FIRST + _LOWEST), LAST + _HIGHEST))
