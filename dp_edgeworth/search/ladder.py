"""Where things happen: K on a ladder of tilts around the saddle point, and first guesses of epsilon and delta read off it.

A ladder has 17 tilts c = 2^{k/3} (of 1 - delta: odds -c / (1 + c) = 2^{k/3}), moved until what is looked for lies inside. Tilts come
from
this fixed grid and are rounded so that neither c + 1 nor -1 - c is: K of a mirrored direction at c is K of the other one at -1 - c.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dp_edgeworth.losses import gaussian_curve
from dp_edgeworth.losses.rules import RuleTooLargeError
from dp_edgeworth.proofs.aliases import log_kappa
from dp_edgeworth.sums.composition import Composition, Rungs

_STEPS_PER_OCTAVE, _BELOW, _ABOVE, _MOVE = 3, 13, 3, 10
_MOST_MOVES = 14
_FINEST_SHARED_TILT = 1e-11  # smaller ones are lost in c + 1
_STEEPEST_SHARED_TILT = 256.0  # rules for both directions at once are longer than those for each alone
_GRAIN = 2.0**52
_SHARP, _INSERTED, _MOST_SHARPENED = 6.0, 8, 5
_LEAST_LOG, _STEEP, _FEW_LEAVES = -700.0, 16.0, 64
_FAR, _REACHED_DOWN = 8.0, 16.0  # guesses from here on are probed at lower tilts first; how far down a ladder reaches
_STEEPEST = 1e8  # times the largest loss: beyond, only the largest losses count


class Place(NamedTuple):
    """About where G(epsilon) = e^log_g: epsilon, log G, -d log G / d epsilon; K on the ladder there, the rung of the Chernoff bound."""

    composition: Composition
    rungs: Rungs
    log_bounds: np.ndarray  # kappa(c) e^{K(c)}, errors included
    best: int
    epsilon: float
    log_g: float
    slope: float

    @property
    def complement(self) -> bool:
        return bool(self.rungs.tilts[0] < 0.0)


def place_of_delta(composition: Composition, log_g: float, *, complement: bool) -> Place | None:
    """Where log G is `log_g`; None where no ladder has it: at the largest losses, or where rules would be too large."""
    start = composition.rungs(np.zeros(1))
    variance = float(start.variance[0])
    if not 1e-290 < variance < 1e290:
        return None
    first = 1.0 / (1.0 + math.sqrt(variance)) if complement else _probed(composition, _normal_tilt(composition, variance, log_g), log_g)

    def move(rungs: Rungs) -> int:
        values = normal_logs(rungs) if complement else _log_bounds(rungs)
        if complement:
            inside = values - log_g
            return -_MOVE if inside[0] < 0.0 else _MOVE if inside[-1] > 0.0 else 0
        best = int(((values - log_g) / rungs.tilts).argmin())
        return -_MOVE if best == 0 else _MOVE if best == len(values) - 1 else 0

    found = _moved_ladder(composition, first, complement, move)
    if found is None:
        return None
    composition, rungs = found
    if not complement:
        rungs = _sharpened(composition, rungs, lambda r: (_log_bounds(r) - log_g) / r.tilts, in_epsilon=True)
    log_bounds = _log_bounds(rungs)
    down = np.minimum.accumulate(normal_logs(rungs))
    where = float(np.interp(-log_g, -down, np.arange(len(down))))
    at, share = min(int(where), len(down) - 2), where - min(int(where), len(down) - 2)
    epsilon, slope = (float(part[at] + share * (part[at + 1] - part[at])) for part in (rungs.mean, rungs.tilts))
    best, epsilon = round(where), max(epsilon, 0.0)
    if not complement:
        ends = (log_bounds - log_g) / rungs.tilts
        best = int(ends.argmin())
        epsilon = min(epsilon, max(float(ends[best]), 0.0))
    return Place(composition, rungs, log_bounds, best, epsilon, log_g, abs(slope))


def place_at_epsilon(composition: Composition, epsilon: float) -> Place | None:
    """The same for an epsilon: delta above the mean loss, 1 - delta below it."""
    start = composition.rungs(np.zeros(1))
    mean, variance = float(start.mean[0]), float(start.variance[0])
    if not (1e-290 < variance < 1e290 and math.isfinite(mean)):
        return None
    spread, complement = math.sqrt(variance), epsilon < mean
    if complement:
        first = min(max((mean - epsilon) / variance, 1e-3 / (1.0 + spread)), 1e3)
    else:
        first = _lowered(composition, max(epsilon - mean, spread) / variance, epsilon)

    def move(rungs: Rungs) -> int:
        means = rungs.mean if complement else rungs.mean - np.log1p(1.0 / rungs.tilts)
        if complement:  # means fall along the ladder
            return -_MOVE if means[0] < epsilon else _MOVE if means[-1] > epsilon else 0
        return -_MOVE if means[0] > epsilon else _MOVE if means[-1] < epsilon else 0

    found = _moved_ladder(composition, first, complement, move)
    if found is None:
        return None
    composition, rungs = found
    if not complement:
        rungs = _sharpened(composition, rungs, lambda r: _log_bounds(r) - r.tilts * epsilon)
    log_bounds = _log_bounds(rungs)
    best = int((log_bounds - rungs.tilts * epsilon).argmin())
    tilt, log_g = float(rungs.tilts[best]), float(log_bounds[best] - rungs.tilts[best] * epsilon)
    if not complement:  # as if the tilted law were normal there
        spread = tilt * (tilt + 1.0) * math.sqrt(2.0 * math.pi * max(float(rungs.variance[best]), 0.0))
        log_g = min(log_g, float(rungs.log_mgf[best]) - tilt * epsilon - math.log1p(spread))
    return Place(composition, rungs, log_bounds, best, epsilon, min(log_g, -1e-9), max(abs(tilt), 1e-300))


def rough_tilts(composition: Composition, log_g: float, epsilon: float) -> np.ndarray | None:
    """One ladder, where a normal law of the same mean and variance would have its saddle point; good enough for a Chernoff bound.

    Of a mirror image that of the other direction, at which K is known already.
    """
    asked = composition.reflected or composition
    start = asked.rungs(np.zeros(1))
    mean, variance = float(start.mean[0]), float(start.variance[0])
    if not (1e-20 < variance < 1e20 and math.isfinite(mean) and math.isfinite(log_g)):  # delta may be the infinite mass itself
        return None
    tilt = _probed(asked, _normal_tilt(asked, variance, log_g), log_g)
    if asked is composition:
        tilt = max(tilt, _not_too_steep(composition, (epsilon - mean) / variance, log_g))
    return _positive(_STEPS_PER_OCTAVE * round(math.log2(tilt)))


def _normal_tilt(composition: Composition, variance: float, log_g: float) -> float:
    """The saddle point of a normal law of this variance, if that is not too steep."""
    return _not_too_steep(composition, math.sqrt(-2.0 * min(log_g, -1e-3) / variance), log_g)


def _not_too_steep(composition: Composition, tilt: float, log_g: float) -> float:
    """A steep tilt, or that of a normal loss as large as the largest one of few leaves, times 4, which a ladder reaches down from: few
    uses of what rarely loses much have a small variance and yet a small saddle point, and rules for steep tilts are dear.
    """
    if tilt < _STEEP or composition.leaf_count > _FEW_LEAVES:
        return tilt
    most = max(pllr.largest_kept(max(min(log_g, -1.0), _LEAST_LOG)) for pllr in composition.counts)
    return min(tilt, -8.0 * min(log_g, -1e-3) / most) if 0.0 < most < math.inf else tilt


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def _probed(composition: Composition, first: float, log_g: float) -> float:
    """The guess `first`, or a lower one where tilted laws turn out to be wider: rules for steep tilts are dear, and for lower ones not.

    Where log G(K'(a)) is known, d log G / dc = -c K'' puts the saddle point at about c^2 = a^2 + 2 (log G(K'(a)) - log_g) / K''(a).
    """
    if first < _FAR:
        return first
    probes = 2.0 ** (round(math.log2(first)) + np.array([-4.0, -2.0]))
    try:
        rungs = composition.rungs(probes)
    except RuleTooLargeError:
        return first
    logs = normal_logs(rungs) - log_g
    at = int(logs[1] > 0.0)
    guess = float(np.sqrt(probes[at] ** 2 + 2.0 * np.maximum(logs[at], 0.0) / rungs.variance[at]))
    return min(guess, first if at else float(probes[1])) if guess > 0.0 else first


def _lowered(composition: Composition, first: float, epsilon: float) -> float:
    """The guess `first` of the tilt whose law has its mean at epsilon, or a lower one where rare large losses get it there earlier.

    Bracketed from below: rules for steep tilts are dear.
    """
    low = 1.0 / max(epsilon, 1e-280)
    while first > max(_FAR, _REACHED_DOWN * low):
        probe = 2.0 ** round(0.5 * (math.log2(first) + math.log2(low)))
        try:
            beyond = float(composition.rungs(np.array([probe])).mean[0]) > epsilon
        except RuleTooLargeError:
            beyond = True
        low, first = (low, probe) if beyond else (probe, first)
    return first


def _moved_ladder(composition: Composition, first: float, complement: bool,
                  move: Callable[[Rungs], int]) -> tuple[Composition, Rungs] | None:
    """The ladder around `first` (a tilt, or odds), moved as `move` says until that is 0; below rules that would be too large."""
    middle, least, most = _STEPS_PER_OCTAVE * round(math.log2(min(max(first, 1e-280), 1e280))), -3_000, 3_000
    for _ in range(_MOST_MOVES):
        tilts = _negative(middle) if complement else _positive(middle)
        if composition.paired and (np.abs(tilts).min() < _FINEST_SHARED_TILT or tilts.max() > _STEEPEST_SHARED_TILT):
            composition = Composition(composition.counts, composition.log_tail)
        if not composition.paired and not complement:
            tilts = np.exp2(np.arange(middle - _BELOW, middle + _ABOVE + 1) / _STEPS_PER_OCTAVE)
        try:
            rungs = composition.rungs(tilts)
        except RuleTooLargeError:
            middle, most = middle - _MOVE, middle - 1
            continue
        if not np.isfinite(rungs.log_mgf).all():
            middle, most = middle - _MOVE, middle - 1
            continue
        step = move(rungs)
        if step == 0 or not least < middle + step <= most:
            return composition, rungs
        steepness = tilts[-1] * abs(composition.largest_loss)
        if not complement and step > 0 and _STEEPEST < steepness < math.inf and composition.spacing is None:
            return None
        least, most = (middle, most) if step > 0 else (least, middle - 1)
        middle += step
    return None


def _sharpened(composition: Composition, rungs: Rungs, score: Callable[[Rungs], np.ndarray], *, in_epsilon: bool = False) -> Rungs:
    """More rungs around the best one, where K turns so sharply that its neighbours are of no use.

    That is, their scores, which bound log G, or epsilon, are larger by more than 6, or 6 / c.
    """
    for _ in range(_MOST_SHARPENED):
        scores, tilts = score(rungs), rungs.tilts
        best = int(scores.argmin())
        loss = (tilts[best] if in_epsilon else 1.0) * (scores - scores[best])
        low, high = max(best - 1, 0), min(best + 1, len(tilts) - 1)
        if max(loss[low], loss[high]) <= _SHARP or tilts[high] - tilts[low] < 1e-9 * tilts[best]:
            break
        near = np.linspace(tilts[low], tilts[high], _INSERTED + 2)[1:-1]
        if tilts[low] >= _FINEST_SHARED_TILT:
            near = (1.0 + near) - 1.0
        rungs = composition.joined(rungs.tilts, np.setdiff1d(near, tilts))
    return rungs


def _positive(middle: int) -> np.ndarray:
    return (1.0 + np.exp2(np.arange(middle - _BELOW, middle + _ABOVE + 1) / _STEPS_PER_OCTAVE)) - 1.0


def _negative(middle: int) -> np.ndarray:
    """c = s - 1 with s = 1 / (1 + odds) a multiple of 2^-52, 0 < s < 1."""
    odds = np.exp2(np.arange(middle - 8, middle + 9) / _STEPS_PER_OCTAVE)
    return np.unique(np.clip(np.rint(_GRAIN / (1.0 + odds)), 1.0, _GRAIN - 1.0))[::-1] / _GRAIN - 1.0


def _log_bounds(rungs: Rungs) -> np.ndarray:
    return log_kappa(rungs.tilts) + rungs.log_mgf + rungs.error


@np.errstate(divide="ignore", invalid="ignore", over="ignore")
def normal_logs(rungs: Rungs) -> np.ndarray:
    """log G(K'(c)) if the law tilted by c were normal: e^{K - c K'} phi(0) [R(c sd) - R((c+1) sd)], R Mills' ratio; a sum for c < 0."""
    spread, mills = np.sqrt(np.maximum(rungs.variance, 1e-300)), gaussian_curve.mills
    base = rungs.log_mgf - rungs.tilts * rungs.mean - gaussian_curve.LOG_SQRT_2PI
    if rungs.tilts[0] < 0.0:
        return np.minimum(base + np.log(mills(-rungs.tilts * spread) + mills((1.0 + rungs.tilts) * spread)), 0.0)
    gap = mills(rungs.tilts * spread) - mills((rungs.tilts + 1.0) * spread)
    return base + np.log(np.maximum(gap, 1e-300))
