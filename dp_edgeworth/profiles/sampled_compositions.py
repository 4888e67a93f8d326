"""Poisson sampling of any composition: one sample, all the mechanisms inside run on it.

The sampled pair of a composition with laws (P, Q), Q with the record, is (P, (1-p) P + p Q): it depends on the law of the total loss
only, so on its curve. With x = e^eps >= 1, H the profile of (P, Q) and H' that of (Q, P),

    H_p(x) = p H(1 + (x - 1)/p),                    H'_p(x) = s H'(x p / s),   s = 1 - x (1 - p),  0 where s <= 0.

The certified curve inside becomes a certified curve of the sampled pair, and that a pair (`curve_pairs`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.events.tree import leaves
from dp_edgeworth.losses.bracket import Bracket, Leaf
from dp_edgeworth.losses.mechanisms import registry, sampled
from dp_edgeworth.losses.mechanisms.registry import NO_LOSS, NON_PRIVATE, Directions, UnsupportedLeafError
from dp_edgeworth.losses.operations import reverse
from dp_edgeworth.losses.rules import unsampled_loss
from dp_edgeworth.profiles.curve_pairs import Side, Upper, pair_of_curves
from dp_edgeworth.profiles.inner_curves import Counts, Curve, TwoSided, both_directions, contents

_UP, _DOWN, _TINY = 1.0 + 1e-14, 1.0 - 1e-14, 5e-324


@registry.register_mechanism(dp_event.PoissonSampledDpEvent)
def _poisson_sampled(event: dp_event.PoissonSampledDpEvent, relation: NeighboringRelation) -> Leaf | Directions:
    """One mechanism, or Gaussians, as they are; other compositions by their curve."""
    try:
        return sampled.poisson_sampled(event, relation)
    except UnsupportedLeafError:
        p, inner = sampled.flattened(event)
        found = list(leaves(inner))
        if relation is registry.RO:
            raise
    for leaf, _ in found:
        if not unsampled_output_is_defined(leaf):
            raise UnsupportedLeafError(event, "Subevents of `PoissonSampledDpEvent` must be additive noise, or other mechanisms that "
                                       f"run without a record as they do with it. Found {validation.shown(leaf)}.")
    counts = contents((registry.directions(leaf, relation), count) for leaf, count in found)
    if p == 0.0 or counts == ():
        return NO_LOSS
    return NON_PRIVATE if counts is None else _sampled_pairs(p, counts)


def unsampled_output_is_defined(event: dp_event.DpEvent) -> bool:
    """Whether the event says what is released about a record that was not sampled."""
    if isinstance(event, dp_event.RepeatAndSelectDpEvent | dp_event.PoissonSampledDpEvent):
        return all(unsampled_output_is_defined(leaf) for leaf, _ in leaves(event.event))
    return registry.is_samplable(event) or isinstance(event, dp_event.NonPrivateDpEvent | dp_event.SingleEpochTreeAggregationDpEvent)


@functools.lru_cache(maxsize=64)
def _sampled_pairs(p: float, counts: Counts) -> Directions:
    remove, add = both_directions(counts)
    pair = _sampled_pair(p, remove)
    if add.forward is remove.backward:
        return Directions(pair, reverse(pair))
    return Directions(pair, reverse(_sampled_pair(p, TwoSided(add.backward, add.forward))))


def _sampled_pair(p: float, curves: TwoSided) -> Bracket:
    """The pair in which the second law has the record: H_p and H'_p of the module's header."""
    def with_record(eps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return np.full(eps.shape, p), unsampled_loss(eps, p)

    def without_record(eps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """s = p (1 - (e^eps - 1) (1 - p) / p): beyond eps = -log(1 - p) there is nothing."""
        with np.errstate(over="ignore"):
            used = np.expm1(np.minimum(eps, 700.0)) / p * (1.0 - p)
        return p * (1.0 - used), eps - np.log1p(-np.where(used < 1.0, used, 0.0))

    return pair_of_curves(_scaled(with_record, curves.forward), _scaled(without_record, curves.backward))


def _scaled(scaling: Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]], curve: Curve) -> Side:
    """factor H(e^inside), 0 where the factor is not positive; `scaling` gives both.

    The curve falls: an epsilon that is smaller by 1e-14 of itself pays for their rounding from above, a larger one from below.
    """
    def bound(eps: np.ndarray, curve_at: Upper, rounding: float) -> np.ndarray:
        factor, inside = scaling(eps / rounding)
        found, used = np.zeros(eps.shape), np.flatnonzero(factor > 0.0)
        values = curve_at(inside[used] / rounding)
        least = np.minimum(values, _TINY) if rounding > 1.0 else 0.0  # a product that is no float is not 0
        found[used] = np.clip(factor[used] * values * rounding, least, 1.0)
        return found

    def bracket(eps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        return bound(eps, lambda at: curve.bracket(at)[0], _DOWN), bound(eps, lambda at: curve.bracket(at)[1], _UP)

    return Side(lambda eps: bound(eps, curve.upper, _UP), bracket, curve.exact)
