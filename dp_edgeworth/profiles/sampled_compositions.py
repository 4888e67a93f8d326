"""Poisson sampling of any composition: one sample, all the mechanisms inside run on it.

The sampled pair of a composition with laws (P, Q), Q with the record, is (P, (1-p) P + p Q): it depends on the law of the total loss
only, so on its curve. With x = e^eps >= 1, H the profile of (P, Q) and H' that of (Q, P),

    H_p(x) = p H(1 + (x - 1)/p),                    H'_p(x) = s H'(x p / s),   s = 1 - x (1 - p),  0 where s <= 0.

The certified curve inside becomes a certified curve of the sampled pair, and that a pair (`curve_pairs`).
"""

from __future__ import annotations

import functools

import numpy as np
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.events.tree import leaves
from dp_edgeworth.losses.lattice_pair import LatticePair
from dp_edgeworth.losses.mechanisms import registry, sampled
from dp_edgeworth.losses.mechanisms.registry import NO_LOSS, NON_PRIVATE, Directions, UnsupportedLeafError
from dp_edgeworth.losses.operations import reverse
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import unsampled_loss
from dp_edgeworth.profiles.curve_pairs import Side, pair_of_curves
from dp_edgeworth.profiles.inner_curves import Counts, Curve, TwoSided, both_directions, contents

_UP, _DOWN = 1.0 + 1e-14, 1.0 - 1e-14


@registry.register_mechanism(dp_event.PoissonSampledDpEvent)
def _poisson_sampled(event: dp_event.PoissonSampledDpEvent, relation: NeighboringRelation) -> Pllr | Directions:
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


def _sampled_pair(p: float, curves: TwoSided) -> LatticePair:
    """The pair in which the second law has the record."""
    return pair_of_curves(_with_record(p, curves.forward), _without_record(p, curves.backward))


def _with_record(p: float, curve: Curve) -> Side:
    """H_p of the module's header; the epsilon inside is rounded so that the bound holds."""
    def upper(eps: np.ndarray) -> np.ndarray:
        return np.minimum(p * curve.upper(unsampled_loss(eps, p) * _DOWN) * _UP, 1.0)

    def bracket(eps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        at = unsampled_loss(eps, p)
        lower, _ = curve.bracket(at * _UP)
        _, above = curve.bracket(at * _DOWN)
        return p * lower * _DOWN, np.minimum(p * above * _UP, 1.0)

    return Side(upper, bracket, curve.exact)


def _without_record(p: float, curve: Curve) -> Side:
    """H'_p: s = p (1 - odds (e^eps - 1)) with odds = (1 - p) / p; beyond -log(1 - p) there is nothing."""
    odds = (1.0 - p) / p

    def rest(eps: np.ndarray) -> np.ndarray:
        with np.errstate(over="ignore"):
            return 1.0 - odds * np.expm1(np.minimum(eps, 700.0)) if odds > 0.0 else np.ones(eps.shape)

    def scaled(eps: np.ndarray, values: np.ndarray, at: np.ndarray, factor: float) -> np.ndarray:
        result = np.zeros(eps.shape)
        result[at] = np.minimum(p * rest(eps)[at] * values * factor, 1.0)
        return result

    def inside(eps: np.ndarray, at: np.ndarray) -> np.ndarray:
        return eps[at] - np.log1p(-odds * np.expm1(eps[at]))

    def upper(eps: np.ndarray) -> np.ndarray:
        earlier = np.maximum(eps * (1.0 - 1e-14), 0.0)  # the curve falls: a smaller epsilon pays for the rounding of s
        at = np.flatnonzero((rest(earlier) > 0.0) & np.isfinite(eps))
        return scaled(earlier, curve.upper(np.maximum(inside(earlier, at) * _DOWN, 0.0)), at, _UP)

    def bracket(eps: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        later = eps * (1.0 + 1e-14)
        at = np.flatnonzero((rest(later) > 0.0) & np.isfinite(eps))
        lower, _ = curve.bracket(inside(later, at) * _UP)
        earlier = np.maximum(eps * (1.0 - 1e-14), 0.0)
        wide = np.flatnonzero((rest(earlier) > 0.0) & np.isfinite(eps))
        _, above = curve.bracket(np.maximum(inside(earlier, wide) * _DOWN, 0.0))
        return scaled(later, lower, at, _DOWN), scaled(earlier, above, wide, _UP)

    return Side(upper, bracket, curve.exact)
