"""Pairs at every scale that a float can have: parameters whose squares or products are no floats are rounded up, never down.

A pair that was rounded is known between two others (`bracket.Bracket`): one with more loss, which bounds from above, and one with less.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import NamedTuple

from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth.losses import additive_noise
from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.bracket import Leaf, between
from dp_edgeworth.losses.gaussian_noise import GaussianShift, NormalMixture
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.mechanisms.registry import DISJOINT, NO_LOSS, NON_PRIVATE, RO, Directions, mirrored
from dp_edgeworth.losses.noise_shift import noise_pair
from dp_edgeworth.losses.operations import mixed, subsample
from dp_edgeworth.losses.sampled_gaussian import SampledReplacement, SampledWithoutReplacement

_LARGEST = sys.float_info.max
_SMALLEST_PROBABILITY = sys.float_info.min  # below, products lose their digits, and then everything


class Scale(NamedTuple):
    """Which shifts a kind of pair can have: from `smallest` to `largest`; `safe` is below those beyond, 0 where nothing is."""

    smallest: float
    largest: float
    safe: float = 0.0


_NORMAL = Scale(1e-140, 1e150, 1e60)  # so that squares are floats; below, so that moments are
_LAPLACE = Scale(1e-140, 1e100, 1e60)  # so that sums of losses stay floats
_NOISE = Scale(1e-7, 1e6)  # in units of the scale of the noise: below, differences of its tails would be lost in rounding


def ratio(sensitivity: float, noise: float) -> float:
    """Their ratio; 0 or infinite only where a factor is, otherwise the nearest positive float."""
    if noise == 0.0 or math.isinf(sensitivity):
        return math.inf if sensitivity > 0.0 else 0.0
    return positive(sensitivity / noise) if sensitivity > 0.0 and noise < math.inf else 0.0


def shift_of(noise_multiplier: float, relation: NeighboringRelation) -> float:
    """Sensitivity over noise: 1 / noise, twice that where a record is replaced; infinite without noise."""
    return ratio(2.0 if relation is RO else 1.0, noise_multiplier)


def positive(value: float) -> float:
    """What was positive and finite before rounding."""
    return min(max(value, 5e-324), _LARGEST)


def _at_scale(make: Callable[[float], Leaf], shift: float, scale: Scale) -> Leaf:
    """The pair of a shift 0 < shift < inf, rounded up where it has no such pair."""
    if shift < scale.smallest:
        return between(make(scale.smallest), NO_LOSS.remove)
    if shift <= scale.largest:
        return make(shift)
    return between(DISJOINT, make(scale.safe) if scale.safe else NO_LOSS.remove)


def _shifted(make: Callable[[float], Leaf], shift: float, scale: Scale) -> Directions:
    """Both directions of a pair that is its own mirror image, at every scale that a float can have."""
    if shift == 0.0:
        return NO_LOSS
    return NON_PRIVATE if math.isinf(shift) else mirrored(_at_scale(make, shift, scale))


def normal(mu: float) -> Leaf:
    """The pair of a shift 0 < mu < inf by mu standard deviations."""
    return _at_scale(GaussianShift, mu, _NORMAL)


def gaussian(mu: float) -> Directions:
    return _shifted(GaussianShift, mu, _NORMAL)


def laplace(mu: float) -> Directions:
    return _shifted(LaplaceShift, mu, _LAPLACE)


def noise_shift(noise: additive_noise.AdditiveNoise, shift: float) -> Directions:
    """Either sign of the shift, so the same pair in both directions."""
    return _shifted(lambda size: noise_pair(noise, size), shift, _NOISE)


def mixture(noise: float, shifts: list[float], weights: tuple[float, ...]) -> Leaf | Directions:
    """Shifts in units of the noise with their probabilities, equal ones merged; rounded up and down where these are no floats."""
    above: dict[float, float] = {}
    below: dict[float, float] = {}
    for shift, weight in zip(shifts, weights, strict=True):
        mu = ratio(shift, noise)
        if weight > 0 and math.isinf(mu):
            return NON_PRIVATE
        if weight > 0:
            down, up = _sides(mu)
            least = _least_probability(mu) if mu > 0.0 else 0.0
            down = down if weight >= least else 0.0
            above[up] = above.get(up, 0.0) + max(weight, least)
            below[down] = below.get(down, 0.0) + weight
    if max(above) == 0.0:
        return NO_LOSS
    return between(_normals(above), _normals(below))


def _sides(mu: float) -> tuple[float, float]:
    """A shift, rounded down and up where its square is no float."""
    if 0.0 < mu < _NORMAL.smallest:
        return 0.0, _NORMAL.smallest
    return (mu, mu) if mu <= _NORMAL.largest else (_NORMAL.safe, _LARGEST)


def _normals(weights: dict[float, float]) -> Leaf:
    """N(0, 1) against a mixture of shifts, of which those beyond `_NORMAL.largest` are a public coin; one shift is plain sampling."""
    moving = sorted(mu for mu in weights if mu > 0.0)
    if not moving:
        return NO_LOSS.remove
    if len(moving) == 1:
        return _sampled_normal(moving[0], min(weights[moving[0]], 1.0))
    if moving[-1] > _NORMAL.largest:
        near = {mu: weight for mu, weight in weights.items() if mu <= _NORMAL.largest}
        total = math.fsum(near.values())
        return mixed((total, weights[moving[-1]]), (_normals({mu: weight / total for mu, weight in near.items()}), DISJOINT))
    return NormalMixture(tuple(sorted(weights)), tuple(weights[mu] for mu in sorted(weights)))


def _least_probability(scale: float) -> float:
    """Below, a sampling probability times losses of this scale is no float with all its digits."""
    return min(_SMALLEST_PROBABILITY / min(max(scale, _NORMAL.smallest), 1.0), 1.0)


def sampled(leaf: Leaf, p: float, scale: float) -> Leaf:
    """`subsample`; more samples have more loss, so p is rounded up where that is needed."""
    least = _least_probability(scale)
    return subsample(leaf, p) if p >= least else between(subsample(leaf, least), NO_LOSS.remove)


def _sampled_normal(mu: float, p: float) -> Leaf:
    return sampled(normal(mu), p, mu)


def symmetric(kind: type[SampledReplacement | SampledWithoutReplacement], mu: float, p: float) -> Leaf:
    """A pair of these classes, rounded up where mu^2 or p mu is no float: at last an infinite loss with probability p."""
    least = _least_probability(mu)
    more = max(p, least)
    above = Atoms((0.0, 1.0 - more, more), (more, 1.0 - more, 0.0)) if mu > _NORMAL.largest else kind(max(mu, _NORMAL.smallest), more)
    below = kind(mu if mu <= _NORMAL.largest else _NORMAL.safe, p) if mu >= _NORMAL.smallest and p >= least else NO_LOSS.remove
    return between(above, below)


def sampled_gaussian(mu: float, p: float, relation: NeighboringRelation) -> Leaf | Directions:
    """Poisson sampling of Gaussian noise; `mu` is the shift of one record (not doubled under REPLACE_ONE)."""
    if p == 0.0 or mu == 0.0:
        return NO_LOSS
    if math.isinf(mu):
        return NON_PRIVATE
    if relation is not RO:
        return _sampled_normal(mu, p)
    return normal(positive(2.0 * mu)) if p == 1.0 else symmetric(SampledReplacement, mu, p)
