"""Events of additive noise: Gaussian, mixtures of Gaussians, trees of Gaussians, Laplace, and noise named as in scipy.stats."""

from __future__ import annotations

import math
import sys

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.events import available
from dp_edgeworth.events.own_events import AdditiveNoiseDpEvent
from dp_edgeworth.losses import additive_noise
from dp_edgeworth.losses.bracket import Leaf
from dp_edgeworth.losses.mechanisms.registry import AR, NO_LOSS, RO, RS, Directions, register_mechanism, require
from dp_edgeworth.losses.mechanisms.rounded_pairs import gaussian, laplace, mixture, noise_shift, positive, ratio, shift_of


@register_mechanism(dp_event.GaussianDpEvent, samplable=True)
def _gaussian_event(event: dp_event.GaussianDpEvent, relation: NeighboringRelation) -> Directions:
    return gaussian(shift_of(validation.at_least_zero("noise_multiplier", event.noise_multiplier), relation))


@register_mechanism(available.MixtureOfGaussiansDpEvent, samplable=True)
def _mixture_event(event: dp_event.MixtureOfGaussiansDpEvent, relation: NeighboringRelation) -> Leaf | Directions:
    require(event, relation, AR, RS)
    return mixture(*mixture_parameters(event))


def mixture_parameters(event: dp_event.MixtureOfGaussiansDpEvent) -> tuple[float, list[float], tuple[float, ...]]:
    noise = validation.at_least_zero("standard_deviation", event.standard_deviation)
    shifts = [validation.at_least_zero(f"sensitivities[{i}]", s)
              for i, s in enumerate(validation.sequence("sensitivities", event.sensitivities))]
    weights = validation.mixture("sampling_probs", event.sampling_probs)
    if len(shifts) != len(weights):
        raise ValueError(f"`sampling_probs` must have as many entries as `sensitivities`, {len(shifts)}. "
                         f"Found {len(weights)}.")
    return noise, shifts, weights


@register_mechanism(dp_event.SingleEpochTreeAggregationDpEvent)
def _tree_aggregation(event: dp_event.SingleEpochTreeAggregationDpEvent, relation: NeighboringRelation) -> Directions:
    """A record touches one path of at most ceil(log2(steps + 1)) nodes: a Gaussian of that squared sensitivity."""
    require(event, relation, RS)
    noise = validation.at_least_zero("noise_multiplier", event.noise_multiplier)
    counts = event.step_counts
    single = not hasattr(counts, "__len__") or getattr(counts, "ndim", 1) == 0
    listed = [counts] if single else validation.sequence("step_counts", counts)
    steps = [validation.integer("step_counts", count, 0) for count in listed]
    if max(steps) == 0:
        return NO_LOSS
    shift = shift_of(noise, relation)
    return gaussian(min(math.sqrt(max(steps).bit_length()) * shift, math.inf if noise == 0.0 else sys.float_info.max))


@register_mechanism(dp_event.LaplaceDpEvent, samplable=True)
def _laplace_event(event: dp_event.LaplaceDpEvent, relation: NeighboringRelation) -> Directions:
    return laplace(shift_of(validation.at_least_zero("noise_multiplier", event.noise_multiplier), relation))


@register_mechanism(AdditiveNoiseDpEvent, samplable=True)
def _additive_noise(event: AdditiveNoiseDpEvent, relation: NeighboringRelation) -> Directions:
    noise, scale = additive_noise.validated(event.distribution, event.parameters)
    shift = ratio(validation.at_least_zero("sensitivity", event.sensitivity), scale)
    factor = (2.0 if relation is RO else 1.0) / (noise.gaussian_scale or 1.0)
    shift = positive(factor * shift) if 0.0 < shift < math.inf else shift
    if noise.gaussian_scale is not None:
        return gaussian(shift)
    return laplace(shift) if noise.is_laplace else noise_shift(noise, shift)
