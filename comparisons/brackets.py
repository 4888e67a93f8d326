"""A weaker truth, where the exact one is not known: the losses of every leaf rounded up and down by dp-accounting's PLD.

Both ends are true up to the rounding of PLD's FFT, an absolute error of delta below 1e-12 where it is used here: at most
1,000 uses of a leaf, delta >= 1e-8, epsilon < 600. Nothing here comes from dp_edgeworth. `count` is never left to PLD,
which ignores it for randomized response, and "connect the dots" is off: it has no lower end.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import Any

from dp_accounting import NeighboringRelation as Relation
from dp_accounting import dp_event as de
from dp_accounting.pld import privacy_loss_distribution as pld

SMALLEST_DELTA, MOST_USES = 1e-8, 1000
LARGEST_EPSILON = 600.0  # PLD sums e^-loss, which underflows: above 700 its lower end is not one
_ROUNDING = 1e-12  # of delta, by the FFT
_FINEST = 1e-9  # steps of the lattice: losses are rounded, too


def pld_bracket(event: de.DpEvent, delta: float, relation: Relation, cells: float = 1e5) -> tuple[float, float] | None:
    """(lower, upper) end of epsilon(delta), the largest loss in so many cells; None where PLD cannot answer or be trusted.

    >>> low, high = pld_bracket(de.GaussianDpEvent(1.0), 1e-5, Relation.ADD_OR_REMOVE_ONE)
    >>> low <= 4.3771780957 <= high
    True
    """
    parts = list(_parts(event, 1))
    if delta < SMALLEST_DELTA or not parts or any(count > MOST_USES for _, count in parts):
        return None
    interval = max(_FINEST, *(_largest_loss(leaf) / cells * max(1.0, count / 50) for leaf, count in parts))
    ends = []
    for pessimistic, target in ((False, delta + _ROUNDING), (True, delta - _ROUNDING)):
        losses = [_losses(leaf, relation, pessimistic, interval) for leaf, _ in parts]
        if None in losses:
            return None
        composed = [loss.self_compose(count) for loss, (_, count) in zip(losses, parts, strict=True)]
        ends.append(float(functools.reduce(lambda one, other: one.compose(other), composed).get_epsilon_for_delta(target)))
    return (ends[0], ends[1]) if max(ends) < LARGEST_EPSILON else None


def _parts(event: de.DpEvent, count: int) -> Iterator[tuple[de.DpEvent, int]]:
    """The leaves and how often each is used."""
    if isinstance(event, de.SelfComposedDpEvent):
        yield from _parts(event.event, count * int(event.count))
    elif isinstance(event, de.ComposedDpEvent):
        for part in event.events:
            yield from _parts(part, count)
    else:
        yield event, count


def _losses(leaf: de.DpEvent, relation: Relation, pessimistic: bool, interval: float) -> Any:
    """The loss distribution of one leaf, rounded up or down; None where dp-accounting has none."""
    options: dict[str, Any] = {"value_discretization_interval": interval, "pessimistic_estimate": pessimistic}
    p, inner = 1.0, leaf
    if isinstance(leaf, de.PoissonSampledDpEvent):
        p, inner = leaf.sampling_probability, leaf.event
    if isinstance(inner, de.GaussianDpEvent):
        return pld.from_gaussian_mechanism(inner.noise_multiplier, sampling_prob=p, neighboring_relation=relation,
                                           use_connect_dots=False, **options)  # fmt: skip
    if isinstance(inner, de.RandomizedResponseDpEvent) and p == 1 and relation is not Relation.ADD_OR_REMOVE_ONE:
        return pld.from_randomized_response(inner.noise_parameter, inner.num_buckets, neighboring_relation=relation, **options)
    if relation is Relation.REPLACE_ONE:
        return None
    if isinstance(inner, de.LaplaceDpEvent):
        return pld.from_laplace_mechanism(inner.noise_multiplier, sampling_prob=p, use_connect_dots=False, **options)
    if isinstance(inner, de.DiscreteLaplaceDpEvent):
        return pld.from_discrete_laplace_mechanism(inner.noise_parameter, inner.sensitivity, sampling_prob=p, **options)
    if isinstance(inner, de.MixtureOfGaussiansDpEvent):
        shifts, weights = list(inner.sensitivities), list(inner.sampling_probs)
        if p < 1:  # sampled: one shift more, by nothing
            shifts, weights = [0.0, *shifts], [1 - p, *(p * weight for weight in weights)]
        return pld.from_mixture_gaussian_mechanism(inner.standard_deviation, shifts, weights, use_connect_dots=False, **options)
    return None


def _largest_loss(leaf: de.DpEvent) -> float:
    """About the largest loss that matters, under sampling log(1 + p (e^loss - 1)); it decides the lattice, not the truth."""
    if isinstance(leaf, de.PoissonSampledDpEvent):
        loss, p = _largest_loss(leaf.event), leaf.sampling_probability
        return math.log1p(p * math.expm1(loss)) if loss < 700 else loss
    if isinstance(leaf, de.LaplaceDpEvent):
        return float(1 / leaf.noise_multiplier)
    if isinstance(leaf, de.DiscreteLaplaceDpEvent):
        return float(leaf.noise_parameter * leaf.sensitivity)
    if isinstance(leaf, de.RandomizedResponseDpEvent):
        return math.log1p(leaf.num_buckets * (1 / leaf.noise_parameter - 1))
    noise = getattr(leaf, "noise_multiplier", getattr(leaf, "standard_deviation", 1.0))
    return float(10 / noise + 1 / noise**2)
