"""Events with finitely many outcomes, or known by a guarantee that such an event attains."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation
from scipy import special

from dp_edgeworth import validation
from dp_edgeworth.events import available
from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.bracket import Leaf, below, between
from dp_edgeworth.losses.mechanisms import registry
from dp_edgeworth.losses.mechanisms.registry import NO_LOSS, NON_PRIVATE, RO, RS, Directions, both

MOST_ATOMS = 2_000_000  # lattices with more points are refused
_BEYOND = 1e-318
_LARGEST = 1e100  # losses, so that sums of them are floats


@registry.register_mechanism(dp_event.NoOpDpEvent)
def _no_op(event: dp_event.NoOpDpEvent, relation: NeighboringRelation) -> Directions:
    return NO_LOSS


@registry.register_mechanism(dp_event.NonPrivateDpEvent)
def _non_private(event: dp_event.NonPrivateDpEvent, relation: NeighboringRelation) -> Directions:
    return NON_PRIVATE


@registry.register_mechanism(available.DiscreteLaplaceDpEvent, samplable=True)
def _discrete_laplace(event: dp_event.DiscreteLaplaceDpEvent, relation: NeighboringRelation) -> Leaf | Directions:
    """L = a (|x| - |x - s|): -a s for x <= 0, a s for x >= s, a (2k - s) at x = k between; s doubles under REPLACE_ONE."""
    a = validation.at_least_zero("noise_parameter", event.noise_parameter)
    s = validation.integer("sensitivity", event.sensitivity, 0) * (2 if relation is RO else 1)
    if s == 0:
        return NO_LOSS
    if a == 0.0 or math.isinf(a):
        return NON_PRIVATE
    if a > _LARGEST:  # which hardly ever adds anything
        return registry.mirrored(between(NON_PRIVATE.remove, NO_LOSS.remove))
    if s > MOST_ATOMS:
        raise registry.UnsupportedLeafError(event, f"`sensitivity` must be at most {MOST_ATOMS}. Found {s}.")
    side = 1.0 / (1.0 + math.exp(-a))
    middle = [math.tanh(a / 2.0) * math.exp(-a * k) for k in range(1, s)]
    masses = (side, *middle, math.exp(-a * s) * side)
    return registry.mirrored(Atoms(masses, masses[::-1], losses=tuple(a * (2 * k - s) for k in range(s + 1))))


@registry.register_mechanism(available.RandomizedResponseDpEvent)
def _randomized_response(event: dp_event.RandomizedResponseDpEvent, relation: NeighboringRelation) -> Leaf | Directions:
    """Three outcomes (own bucket, the neighbour's, the others); against the uniform law under REPLACE_SPECIAL."""
    registry.require(event, relation, RO, RS)
    noise = validation.probability("noise_parameter", event.noise_parameter)
    k = validation.integer("num_buckets", event.num_buckets, 1)
    if k == 1 or noise == 1.0:
        return NO_LOSS
    if noise == 0.0:
        return NON_PRIVATE
    other = noise / k
    own = 1.0 - noise + other
    if relation is RS:
        return Atoms((1.0 / k, (k - 1) / k), (own, (k - 1) * other), losses=(math.log1p((k - 1) * (1.0 - noise)), math.log(noise)))
    ratio = (1.0 - noise) * k / noise
    loss = math.log1p(ratio) if ratio < math.inf else math.log((1.0 - noise) * k + noise) - math.log(noise)
    return registry.mirrored(Atoms((other, own, (k - 2) * other), (own, other, (k - 2) * other), losses=(loss, -loss, 0.0)))


def epsilon_delta(epsilon: float, delta: float) -> Leaf | Directions:
    """Infinite loss with probability delta, otherwise +-epsilon as randomised response: dominates any (epsilon, delta)-DP."""
    if delta == 1.0 or math.isinf(epsilon):
        return NON_PRIVATE
    if epsilon > _LARGEST:
        return registry.mirrored(between(NON_PRIVATE.remove, below(both(epsilon_delta(_LARGEST, delta)).remove)))
    high, low = (1.0 - delta) * special.expit(epsilon), (1.0 - delta) * special.expit(-epsilon)
    if epsilon == 0.0 and delta == 0.0:
        return NO_LOSS
    return registry.mirrored(Atoms((0.0, low, high, delta), (delta, high, low, 0.0), losses=(math.inf, epsilon, -epsilon, -math.inf)))


@registry.register_if_known("EpsilonDeltaDpEvent", samplable=True)
def _epsilon_delta_event(event: Any, relation: NeighboringRelation) -> Leaf | Directions:
    return epsilon_delta(validation.at_least_zero("epsilon", event.epsilon), validation.probability("delta", event.delta))


def discrete_gaussian(sigma: float, sensitivity: int) -> Leaf:
    """Masses of the discrete Gaussian and of its shift, to the smallest positive float; what is beyond counts as infinite loss.

    Beyond 39 deviations there is less than 1e-318 in all for every sigma of at most `MOST_ATOMS` points.
    """
    reach = math.ceil(39.0 * sigma) + 1
    x = np.arange(-reach, reach + sensitivity + 1, dtype=float)
    with np.errstate(under="ignore", over="ignore"):
        p, q = np.exp(-0.5 * (x / sigma) ** 2), np.exp(-0.5 * ((x - sensitivity) / sigma) ** 2)
        total = math.fsum(np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2))
    masses, shifted = tuple((p / total).tolist()), tuple((q / total).tolist())
    losses = tuple((sensitivity * (x - 0.5 * sensitivity) / sigma / sigma).tolist())
    known = Atoms(masses, shifted, losses=losses)
    return between(Atoms((0.0, *masses, _BEYOND), (_BEYOND, *shifted, 0.0), (math.inf, *losses, -math.inf)), known)


registry.refuse(dp_event.SampledWithReplacementDpEvent,
       "how often a record is drawn is random, and its worst case differs from epsilon to epsilon.")
