"""Events that sample records before they run: Poisson, without replacement, and truncated batches."""

from __future__ import annotations

import itertools
import math
import sys

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation
from scipy import stats

from dp_edgeworth import validation
from dp_edgeworth.events import available
from dp_edgeworth.events.tree import leaves
from dp_edgeworth.losses.bracket import Leaf, above, between
from dp_edgeworth.losses.mechanisms import registry, rounded_pairs
from dp_edgeworth.losses.mechanisms.additive import mixture_parameters
from dp_edgeworth.losses.mechanisms.registry import AR, NO_LOSS, NON_PRIVATE, RO, RS, Directions
from dp_edgeworth.losses.operations import mixed, reverse
from dp_edgeworth.losses.sampled_gaussian import SampledWithoutReplacement


def combined_shift(event: dp_event.DpEvent, inside: dp_event.DpEvent, message: str) -> float:
    """Shift of the one Gaussian that a composition of Gaussians is."""
    total, without_noise = 0.0, False
    for leaf, count in leaves(inside):
        if isinstance(leaf, dp_event.NonPrivateDpEvent):
            return math.inf
        if not isinstance(leaf, dp_event.GaussianDpEvent):
            raise registry.UnsupportedLeafError(event, f"{message} Found {validation.shown(leaf)}.")
        noise = validation.at_least_zero("noise_multiplier", leaf.noise_multiplier)
        without_noise |= noise == 0.0
        total = min(math.hypot(total, math.sqrt(count) * rounded_pairs.shift_of(noise, AR)), sys.float_info.max)
    return math.inf if without_noise else total


def flattened(event: dp_event.PoissonSampledDpEvent) -> tuple[float, dp_event.DpEvent]:
    """The probability of all nested samplings, which multiply, and what is inside them."""
    p, inner = 1.0, event
    while isinstance(inner, dp_event.PoissonSampledDpEvent):
        share = validation.probability("sampling_probability", inner.sampling_probability)
        p, inner = rounded_pairs.positive(p * share) if p > 0.0 and share > 0.0 else 0.0, inner.event
        if not isinstance(inner, dp_event.DpEvent):
            raise ValueError(f"`event` must be a `DpEvent`. Found {validation.shown(inner)}.")
        contents = list(itertools.islice(leaves(inner), 2))
        if len(contents) == 1 and contents[0][1] == 1:
            inner = contents[0][0]
    return p, inner


@registry.register_mechanism(dp_event.PoissonSampledDpEvent)
def poisson_sampled(event: dp_event.PoissonSampledDpEvent, relation: NeighboringRelation) -> Leaf | Directions:
    """One additive noise, or Gaussians of combined shift."""
    p, inner = flattened(event)
    contents = list(leaves(inner))
    message = ("Subevent of `PoissonSampledDpEvent` must be one additive noise mechanism, or a composition of "
               "`GaussianDpEvent`s.")
    if all(isinstance(leaf, dp_event.GaussianDpEvent | dp_event.NonPrivateDpEvent) for leaf, _ in contents):
        return rounded_pairs.sampled_gaussian(combined_shift(event, inner, message), p, relation)
    leaf, count = contents[0]
    if len(contents) > 1 or count > 1 or not registry.is_samplable(leaf):
        raise registry.UnsupportedLeafError(event, f"{message} Found {validation.shown(inner)}.")
    registry.require(event, relation, AR, RS)
    base = registry.directions(leaf, relation)
    if p == 0.0:
        return NO_LOSS
    if base is NO_LOSS or base is NON_PRIVATE:
        return base
    if isinstance(leaf, available.MixtureOfGaussiansDpEvent):
        noise, shifts, weights = mixture_parameters(leaf)
        shares = (rounded_pairs.positive(p * weight) if weight > 0 else 0.0 for weight in weights)
        return rounded_pairs.mixture(noise, [0.0, *shifts], (1.0 - p, *shares))
    return _sampled_directions(base, p)


def _sampled_directions(base: Directions, p: float) -> Leaf | Directions:
    """Of both: without the record it is P of "remove", and Q of "add", that the record is mixed into."""
    (remove, with_record), scales = (base.remove, reverse(base.add)), [above(pair).loss_scale or 1.0 for pair in base]
    if remove == with_record:
        return rounded_pairs.sampled(remove, p, scales[0])
    return Directions(rounded_pairs.sampled(remove, p, scales[0]), reverse(rounded_pairs.sampled(with_record, p, scales[1])))


@registry.register_mechanism(dp_event.SampledWithoutReplacementDpEvent)
def _without_replacement(event: dp_event.SampledWithoutReplacementDpEvent, relation: NeighboringRelation) -> Leaf | Directions:
    """Each step is dominated only by the symmetric curve min(f_p, f_p^-1)**, with twice the sensitivity."""
    registry.require(event, relation, RO)
    size = validation.integer("source_dataset_size", event.source_dataset_size, 1)
    sample = validation.integer("sample_size", event.sample_size, 0)
    if sample > size:
        raise ValueError(f"`sample_size` must be at most `source_dataset_size`, {size}. Found {sample}.")
    shift = combined_shift(event, event.event, "Subevent of `SampledWithoutReplacementDpEvent` must be a "
                            "`GaussianDpEvent` or a composition of them.")
    if sample == 0 or shift == 0.0:
        return NO_LOSS
    if math.isinf(shift):
        return NON_PRIVATE
    mu, p = rounded_pairs.positive(2.0 * shift), sample / size
    if sample == size:
        return rounded_pairs.normal(mu)
    if p == 1.0:  # rounded up
        return between(rounded_pairs.normal(mu), rounded_pairs.symmetric(SampledWithoutReplacement, mu, math.nextafter(1.0, 0.0)))
    return rounded_pairs.symmetric(SampledWithoutReplacement, mu, p)


@registry.register_mechanism(available.TruncatedSubsampledGaussianDpEvent)
def _truncated(event: dp_event.TruncatedSubsampledGaussianDpEvent, relation: NeighboringRelation) -> Leaf | Directions:
    """Whether the batch is full without the record is a public coin (arXiv:2508.15089).

    If it is, the record displaces another one: a replacement of twice the sensitivity with the conditional probability of
    being in the batch; otherwise plain Poisson sampling. The same pair as dp-accounting's, in every relation. The probabilities are
    scipy's, within about 4e-12 of themselves, which is not part of the interval.
    """
    size = validation.integer("dataset_size", event.dataset_size, 0)
    p = validation.probability("sampling_probability", event.sampling_probability)
    batch = validation.integer("truncated_batch_size", event.truncated_batch_size, 0)
    noise = validation.at_least_zero("noise_multiplier", event.noise_multiplier)
    if p == 0.0 or batch == 0 or size == 0 or math.isinf(noise):
        return NO_LOSS
    if noise == 0.0:
        return NON_PRIVATE
    plain = rounded_pairs.sampled_gaussian(rounded_pairs.shift_of(noise, AR), p, relation)
    full = float(stats.binom.sf(float(batch - 1), float(size - 1), p))
    if full == 0.0:
        return plain
    conditional = min(1.0, rounded_pairs.positive(float(stats.binom.sf(float(batch), float(size), p)) * batch / full / size))
    displaced = rounded_pairs.sampled_gaussian(rounded_pairs.positive(2.0 * rounded_pairs.shift_of(noise, AR)), conditional, RO)
    return Directions(*(mixed((full, 1.0 - full), pairs) for pairs in zip(registry.both(displaced), registry.both(plain), strict=True)))
