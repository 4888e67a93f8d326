"""Random allocation and shuffled batches as events: which pair, at every scale, and when they are refused.

`RandomAllocationDpEvent(event, k, t)`, ADD_OR_REMOVE_ONE and REPLACE_SPECIAL: the curve of `random_allocation` for k = 1. For k > 1 a
random partition of the steps into k groups of floor(t/k) or ceil(t/k), and one step of every group, is a uniform choice of k steps; who
knows the partition sees a composition of k rounds of 1 of that many (Feldman, Shenfeld 2025): an upper end. From below: the sum
of all t outputs, a Gaussian mechanism of shift k / (sigma sqrt t).

`ShuffledBatchesDpEvent`: `losses.shuffled_batches`, REPLACE_SPECIAL only.
"""

from __future__ import annotations

import dataclasses
import functools
import math

from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.events.batch_events import RandomAllocationDpEvent, ShuffledBatchesDpEvent
from dp_edgeworth.losses.bracket import Bracket, below, between
from dp_edgeworth.losses.mechanisms.registry import (
    AR,
    NO_LOSS,
    NON_PRIVATE,
    RS,
    Directions,
    UnsupportedLeafError,
    mirrored,
    register_mechanism,
    require,
)
from dp_edgeworth.losses.mechanisms.rounded_pairs import gaussian, normal, positive
from dp_edgeworth.losses.mechanisms.sampled import combined_shift
from dp_edgeworth.losses.random_allocation import RandomAllocationLoss
from dp_edgeworth.losses.shuffled_batches import epoch
from dp_edgeworth.profiles.curve_pairs import Side, pair_of_curves
from dp_edgeworth.profiles.inner_curves import Counts, TwoSided, both_directions

_MOST_BATCHES = 10**9
_SMALLEST_SHUFFLED, _LARGEST_SHUFFLED = 1e-3, 30.0  # shifts for which the pair below is made; beyond, nothing is claimed from below


@register_mechanism(RandomAllocationDpEvent)
def _random_allocation(event: RandomAllocationDpEvent, relation: NeighboringRelation) -> Directions:
    require(event, relation, AR, RS)
    steps = validation.integer("num_steps", event.num_steps, 1)
    selected = validation.integer("num_selected", event.num_selected, 0)
    if selected > steps:
        raise ValueError(f"`num_selected` must be at most `num_steps`, {steps}. Found {selected}.")
    shift = combined_shift(event, event.event, "Subevent of `RandomAllocationDpEvent` must be a `GaussianDpEvent` or a composition of "
                           "them.")
    if selected == 0 or shift == 0.0:
        return NO_LOSS
    if math.isinf(shift):
        return NON_PRIVATE
    if selected == 1:
        return one_of(shift, steps)
    if selected == steps:
        return gaussian(positive(min(shift * math.sqrt(steps), 1e300)))
    return _several_of(shift, selected, steps)


def one_of(shift: float, steps: int) -> Directions:
    """A record in one of the steps; `shift` is 1 / noise multiplier."""
    if steps == 1:
        return gaussian(shift)
    return Directions(*(RandomAllocationLoss(shift, steps, direction) for direction in ("remove", "add")))


@functools.lru_cache(maxsize=64)
def _several_of(shift: float, selected: int, steps: int) -> Directions:
    """k rounds as one pair above, the Gaussian of the sum below."""
    size, larger = divmod(steps, selected)
    rounds = [(one_of(shift, size), selected - larger), (one_of(shift, size + 1), larger)]
    counts: Counts = tuple((pairs, count) for pairs, count in rounds if count)
    lower = below(gaussian(positive(shift * selected / math.sqrt(steps) * (1.0 - 1e-14))).remove)
    return Directions(*(dataclasses.replace(_composed(curves), members=(lower,)) for curves in both_directions(counts)))


def _composed(curves: TwoSided) -> Bracket:
    """Between pairs, of which the one above dominates the composition."""
    return pair_of_curves(Side(curves.forward.upper, curves.forward.bracket), Side(curves.backward.upper, curves.backward.bracket))


@register_mechanism(ShuffledBatchesDpEvent)
def _shuffled_batches(event: ShuffledBatchesDpEvent, relation: NeighboringRelation) -> Directions:
    if relation is not RS:
        raise UnsupportedLeafError(event, "neighboring_relation must be `REPLACE_SPECIAL` for `ShuffledBatchesDpEvent`: with a record "
                                   "more or less, the shuffled batches of neighbours differ in number or size. "
                                   f"Found `{relation.name}`.")
    batches = validation.integer("num_batches", event.num_batches, 1)
    shift = combined_shift(event, event.event, "Subevent of `ShuffledBatchesDpEvent` must be a `GaussianDpEvent` or a composition of "
                           "them.")
    if batches == 1 or shift == 0.0 or math.isinf(shift):
        return gaussian(shift)
    if not _SMALLEST_SHUFFLED <= shift <= _LARGEST_SHUFFLED or batches > _MOST_BATCHES:
        return mirrored(between(normal(shift), NO_LOSS.remove))
    return Directions(*epoch(shift, batches))
