"""Additive noise and its shift by s as a finite pair just above, or just below, the true one.

Which pair. Noise with density f, answers that one record can move by at most s, up or down: the two laws are f and f(. - t),
|t| <= s, in either order. For a log-concave f the ratio f(x - t) / f(x) increases in x for t > 0, so every hockey-stick

    H_A(u) = int (f(x - t) - u f(x))_+ dx = max_x [ F'(x - t) - u F'(x) ],     F' the upper tail of f, u = e^epsilon,

grows with t (move t and x together) and t = s is the worst. Moving down by s is the reversed pair A^R. Which of A and A^R occurs may
change from step to step and depend on what was seen before, so neither composed alone is enough unless f is symmetric (then A^R = A).
Both are dominated by the pair S with H_S(u) = max(H_A(u), H_{A^R}(u)), which exists: H is the hockey-stick of a pair if and only if it
is convex and non-increasing with H(0) = 1 and H(u) >= (1 - u)_+, and a maximum of two such functions is one (Zhu, Dong, Wang,
arXiv:2106.08567, Proposition 10). Domination survives adaptive composition (their Theorem 9) and Poisson sampling, whose hockey-stick
p H(1 + (u - 1)/p) increases with H. So S serves both directions of every neighboring relation, with twice the shift under REPLACE_ONE.
As H_{A^R}(u) = 1 - u + u H_A(1/u), S is its own mirror image, and H_S on u >= 1 is all there is to know. Used once, S is attained by
one of the signs; the interval of a composition is that of S composed, as for sampling without replacement, and no data need attain it.

Rounding. On u >= 1, with knots u_j = f(x_j - s) / f(x_j):

    Upper pair: the chords of H_S between knots u_j, where H_A(u_j) = F'(x_j - s) - u_j F'(x_j). Above H_S, because it is convex;
      with fewer knots too, so knots may be dropped at will. Chords of the maximum lie above the maximum of the chords.
    Lower pair: the largest of the lines F'(x_j - s) - u F'(x_j). Below H_S, because each of them is below H_A or H_{A^R}.

Both are piecewise linear, so finite pairs: P has the mass H'(u+) - H'(u-) at a kink u, Q has u times that. They differ by the
second order in the distance of the knots, which are densest where any tilted law of the loss has its mass.

Rounding errors. Tails are taken to be off by a relative 1e-13 at most, log-densities by 8 units in the last place. A knot is moved
up by its own error xi, so that the true maximiser lies at or beyond x_j and F'(x_j - s) - u_j F'(x_j) falls short of the maximum by at
most 2 xi u_j F'(x_j). This and 1e-12 (F'(x_j - s) + u_j F'(x_j)) is added to every height of the upper pair (subtracted from the lines
of the lower one), which also covers the arithmetic that follows: sums over the masses return the heights to within a few thousand units
in the last place of the tails. The price is relative 1e-12 / (spread of the loss), whatever the count. Where P has less than e^{-650}
beyond x_j, its tail is bounded by integrals of the density (`additive_noise.Tail.log_mass`). Above the largest loss of all knots, its
error included, H_A is at most Q's tail beyond the last knot: that is the last height of the upper pair, and its infinite mass.
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np

from dp_edgeworth.losses.additive_noise import AdditiveNoise, Tail
from dp_edgeworth.losses.bracket import Leaf, between
from dp_edgeworth.losses.node_pair import NodePair
from dp_edgeworth.losses.noise_knots import LARGEST_LOSS, knots, thinned
from dp_edgeworth.losses.profile_hull import balanced
from dp_edgeworth.losses.profile_pair import dominating_pair
from dp_edgeworth.losses.rules import EPSILON, Demand, Rule

_MARGIN = 1e-12


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class NoisePair(NodePair):
    """The symmetric pair S of a log-concave noise and its shift, from above or from below (see the module's header).

    Atoms, but so many that they count as smooth.
    """

    cuttable, atomic = True, False

    def _cut(self, log_tail: float) -> int:
        """How many of the largest losses, of Q-mass e^{log_tail} in all, may be left out; one positive loss stays."""
        positive = self._atoms[0] > 0.0
        if log_tail == -math.inf or not positive.any():
            return 0
        dropped = np.searchsorted(np.cumsum(self._atoms[1][::-1]), math.exp(log_tail) * (1.0 - 1e-9), side="right")
        return min(int(dropped), int(positive.sum()) - 1)

    def largest_kept(self, log_tail: float) -> float:
        return float(self._log_finite[1][-1 - self._cut(log_tail)])

    def rule(self, demand: Demand) -> Rule:
        """Only the largest losses may be left out."""
        whole, cut = super().rule(demand), self._cut(demand.log_tail)
        if not cut:
            return whole
        losses, q_masses = (part[-cut:] for part in self._atoms)
        missing = np.array([[np.sum(q_masses * np.exp(-losses))], [np.sum(q_masses)]])
        return dataclasses.replace(whole, values=whole.values[:, :-cut], log_weights=whole.log_weights[:, :-cut], missing=missing)

    @property
    def top_mass(self) -> float:  # type: ignore[override]
        return 0.0 if self.infinite_mass else float(self._atoms[1][-1])

    bottom_mass = top_mass


@functools.lru_cache(maxsize=256)
def noise_pair(noise: AdditiveNoise, shift: float) -> Leaf:
    """The upper pair and the lower one; the shift is in units of the scale of the noise."""
    if shift >= noise.width:
        return NoisePair(np.zeros(1), np.zeros(1), 1.0, 1.0)
    curves = [_curve(tail, shift) for tail in (noise.right, noise.left)]
    losses = thinned(np.concatenate([curve.losses for curve in curves]))
    below = _lower_pair(curves, losses)
    last = max(float(curve.losses[-1]) for curve in curves)
    losses = np.append(losses[losses < last], last)
    heights = np.maximum(*(curve.upper(losses) for curve in curves))
    above = dominating_pair((losses, losses), heights, heights)
    return between(NoisePair(above.losses, above.masses, above.lost_mass, above.infinite_mass), below)


@dataclasses.dataclass(frozen=True)
class _Curve:
    """Knots of the hockey-stick of one order of the pair: losses from 0 up, the curve's heights from above, and its tangents.

    Beyond the last knot the curve is below the last height. Tangents are lines q_tail - u p_tail below the curve, and so is
    `infinite`, the Q-mass where P has none.
    """

    losses: np.ndarray
    heights: np.ndarray
    log_p_tails: np.ndarray
    q_tails: np.ndarray
    infinite: float

    def upper(self, losses: np.ndarray) -> np.ndarray:
        """Chords between the heights."""
        index = np.searchsorted(self.losses, losses, side="right") - 1
        gaps = np.append(np.diff(self.losses), 1.0)
        slopes = np.append(-np.diff(self.heights), 0.0) / np.expm1(np.minimum(gaps, 700.0))
        # Over a gap of more than 700 the chord stays above the height on the left until 700 before its right end.
        beyond = np.minimum(losses - self.losses[index], gaps[index]) - np.maximum(gaps[index] - 700.0, 0.0)
        return self.heights[index] - slopes[index] * np.expm1(np.maximum(beyond, 0.0))

    def tangents(self, losses: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The higher of the tangents at both ends of a chord: its value, log p_tail and q_tail."""
        low = np.minimum(np.searchsorted(self.losses, losses, side="right") - 1, len(self.q_tails) - 1)
        index = np.stack([low, np.minimum(low + 1, len(self.q_tails) - 1)])
        with np.errstate(over="ignore"):
            values = self.q_tails[index] - np.exp(losses + self.log_p_tails[index])
        best = np.take_along_axis(index, np.argmax(values, axis=0)[None], axis=0)[0]
        return values.max(axis=0), self.log_p_tails[best], self.q_tails[best]


@np.errstate(all="ignore")
def _curve(tail: Tail, shift: float) -> _Curve:
    """H_A for the shift away from a tail that falls to the right."""
    x = knots(tail, shift)
    log_p, log_q = tail.log_density(x), tail.log_density(x - shift)
    error = 8.0 * EPSILON * (1.0 + np.abs(log_p) + np.abs(log_q))
    loss = log_q - log_p + error
    loss[0] = 0.0
    (log_p_tail, most), q_tail = tail.log_mass(x), tail.mass(x - shift)
    top, rest = float(np.max(loss + 2.0 * error)), float(q_tail[-1]) * (1.0 + _MARGIN) + tail.absolute_error
    rising = loss > np.concatenate([[-1.0], np.maximum.accumulate(loss + 2.0 * error)[:-1]])
    keep = rising & (loss < min(shift * tail.rate, LARGEST_LOSS))
    loss, error, log_p_tail, most, q_tail = (part[keep] for part in (loss, error, log_p_tail, most, q_tail))
    scaled = np.exp(loss + log_p_tail)
    margin = _MARGIN + 2.0 * error + 8.0 * EPSILON * (loss + np.where(scaled > 0, np.abs(log_p_tail), 0.0))
    sure = margin < 1e-3  # otherwise nothing is known but H <= Q-tail
    heights = np.where(sure, q_tail - scaled + margin * (q_tail + scaled), (1.0 + _MARGIN) * q_tail) + tail.absolute_error
    heights = np.clip(heights, 0.0, 1.0)
    heights[0] = min(heights[0] + _MARGIN, 1.0)  # x_0 itself is known to a rounding error of both
    lines = sure if sure.any() else np.arange(len(sure)) < 1
    log_p_tails = (most + np.minimum(margin, 1e-3))[lines]
    q_tails = np.maximum(q_tail * (1.0 - np.minimum(margin, 1e-3)) - tail.absolute_error, 0.0)[lines]
    infinite = max(float(tail.mass(tail.end - shift)) * (1.0 - _MARGIN) - tail.absolute_error, 0.0)
    if math.isfinite(tail.rate):
        loss, heights = np.append(loss, shift * tail.rate * (1.0 + 4.0 * EPSILON)), np.append(heights, 0.0)
    elif loss[-1] < top < LARGEST_LOSS:  # above the loss at the last x only the tail beyond it is left
        loss, heights = np.append(loss, top), np.append(heights, min(float(heights[-1]), rest))
    return _Curve(loss, heights, log_p_tails, q_tails, infinite)


@np.errstate(all="ignore")
def _lower_pair(curves: list[_Curve], losses: np.ndarray) -> NoisePair:
    """The largest of all tangents at the knots; each kink is where one takes over from the next."""
    # Both have the same height at loss 0; the flatter one goes on.
    (value, log_p, q_tails), other = sorted((curve.tangents(losses) for curve in curves), key=lambda part: float(part[1][0]))
    better = other[0] > value
    better[0] = False
    log_p, q_tails = np.where(better, other[1], log_p), np.where(better, other[2], q_tails)
    fresh = np.append(True, log_p[1:] != log_p[:-1])
    log_p, q_tails = np.append(log_p[fresh], -np.inf), np.append(q_tails[fresh], max(curve.infinite for curve in curves))
    while True:
        q_masses, kinks = -np.diff(q_tails), _kinks(log_p, q_tails)
        good = (q_masses > 0) & (kinks > np.append(0.0, kinks[:-1]))
        if good.all():
            break
        good[:-1] |= ~good[1:]  # not two neighbours at a time
        log_p, q_tails = log_p[np.append(good, True)], q_tails[np.append(good, True)]
    fit = min(1.0, 1.0 / (math.exp(log_p[0]) + float(q_tails[0])))  # rounding must not make more than a law
    masses, infinite = fit * q_masses, fit * float(q_tails[-1])
    losses, masses = np.concatenate([-kinks[::-1], [0.0], kinks]), np.concatenate([masses[::-1], [0.0], masses])
    return balanced(NoisePair(losses, masses, infinite, infinite))


def _kinks(log_p: np.ndarray, q_tails: np.ndarray) -> np.ndarray:
    """log(q/p) of the masses between neighbouring tails, from their difference where that is small."""
    p_masses, q_masses = -np.diff(np.exp(log_p)), -np.diff(q_tails)
    far = np.log(q_masses) - log_p[:-1] - np.log(-np.expm1(np.diff(log_p)))
    return np.where(np.abs(q_masses - p_masses) < 0.5 * p_masses, np.log1p((q_masses - p_masses) / p_masses), far)
