"""Leaf events to ordered pairs of PLLRs, one registered function per event class.

`directions(event, neighboring_relation)` answers with the losses of both directions ([EA] Lemma 3.3 takes the larger):
"remove" (the data set with the record is Q) and "add" (it is P). For replacement relations the two directions are the two
orders of the neighbours. What a mechanism is asked never depends on how often it runs: counts are applied by the composition.

Under REPLACE_ONE a record can move an additive query by twice its sensitivity, so the shift doubles (RDP in dp-accounting
omits this factor, google/differential-privacy#378).

To add an event class of your own, register a function that returns its pair:

>>> import attr, dp_accounting as dpa
>>> import dp_edgeworth
>>> @attr.s(frozen=True, auto_attribs=True)
... class CoinDpEvent(dpa.DpEvent):
...     bias: float
>>> @dp_edgeworth.register_mechanism(CoinDpEvent)
... def coin(event, neighboring_relation):
...     return dp_edgeworth.Atoms((event.bias, 1 - event.bias), (1 - event.bias, event.bias))
>>> round(dp_edgeworth.EdgeworthIntervalAccountant().compose(CoinDpEvent(0.25)).get_epsilon(0), 9)  # log 3
1.098612289
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation
from scipy import special, stats

from dp_edgeworth import _validate, additive_noise
from dp_edgeworth.composition import leaves
from dp_edgeworth.events import AdditiveNoiseDpEvent, PllrMomentsDpEvent
from dp_edgeworth.moments import PllrMoments
from dp_edgeworth.noise import (
    Atoms,
    GaussianShift,
    LaplaceShift,
    NormalMixture,
    SampledReplacement,
    SampledWithoutReplacement,
)
from dp_edgeworth.noise_shift import NoiseShift
from dp_edgeworth.pllr import Mixed, Pllr, RoundedUp, reverse, subsample

AR = NeighboringRelation.ADD_OR_REMOVE_ONE
RO = NeighboringRelation.REPLACE_ONE
RS = NeighboringRelation.REPLACE_SPECIAL

_SMALLEST_SHIFT = 1e-140
_LARGEST_LAPLACE_SHIFT = 1e100
# In units of the scale of a noise from scipy.stats: below, differences of its tails would be lost in rounding.
_SMALLEST_NOISE_SHIFT = 1e-7
_LARGEST_NOISE_SHIFT = 1e6
# Lattices with more points than this are refused.
_MOST_ATOMS = 2_000_000


class UnsupportedLeafError(Exception):
    """An event that has no dominating pair here, or not under this neighboring relation."""

    def __init__(self, event: dp_event.DpEvent, message: str):
        super().__init__(message)
        self.event = event
        self.message = message


class Directions(NamedTuple):
    """The PLLRs of a leaf in both directions."""

    remove: Pllr
    add: Pllr


DISJOINT = Atoms((1.0, 0.0), (0.0, 1.0))
NO_LOSS = Directions(Atoms((1.0,), (1.0,)), Atoms((1.0,), (1.0,)))
NON_PRIVATE = Directions(DISJOINT, DISJOINT)

Mechanism = Callable[[Any, NeighboringRelation], "Pllr | Directions"]
_M = TypeVar("_M", bound=Mechanism)
_SAMPLABLE: set[type] = set()


@functools.singledispatch
def _pair(event: Any, relation: NeighboringRelation) -> Pllr | Directions:
    raise UnsupportedLeafError(event, f"`{type(event).__name__}` has no registered mechanism.")


def register_mechanism(event_class: type[dp_event.DpEvent], *, samplable: bool = False) -> Callable[[_M], _M]:
    """Registers the function that gives the pair of an event class.

    Args:
      event_class: the class; its instances must be hashable or have numbers as fields.
      samplable: whether the event may stand inside `PoissonSampledDpEvent`, that is, whether a record that is not sampled
        leaves the mechanism running on the other records, with P as the law of its output (true for additive noise).

    Returns:
      A decorator for a function (event, neighboring_relation) -> `Pllr` (its reverse is then the other direction) or
      `Directions`. It should raise ValueError for bad parameters.
    """
    from dp_edgeworth import serialization  # the JSON format knows user events by their class name

    def register(function: _M) -> _M:
        _pair.register(event_class)(function)
        if samplable:
            _SAMPLABLE.add(event_class)
        if not event_class.__module__.startswith(("dp_accounting", "dp_edgeworth")):
            serialization.register_event(event_class.__name__, event_class)
        return function

    return register


def directions(event: dp_event.DpEvent, relation: NeighboringRelation) -> Directions:
    """Both directions of one leaf.

    Raises:
      UnsupportedLeafError: the event type or relation is not supported.
      ValueError: a parameter of the event is out of range.
    """
    try:
        # The text tells 2 from 2.0, which are equal but not both legal everywhere.
        return _cached_directions(event, relation, repr(event))
    except TypeError:  # an event with an unhashable field, such as a 0-d array
        return _directions(event, relation)


def _directions(event: dp_event.DpEvent, relation: NeighboringRelation) -> Directions:
    pair = _pair(event, relation)
    return pair if isinstance(pair, Directions) else Directions(pair, reverse(pair))


@functools.lru_cache(maxsize=16384)
def _cached_directions(event: dp_event.DpEvent, relation: NeighboringRelation, text: str) -> Directions:
    return _directions(event, relation)


def _require(event: dp_event.DpEvent, relation: NeighboringRelation, *allowed: NeighboringRelation) -> None:
    if relation not in allowed:
        names = " or ".join(f"`{item.name}`" for item in allowed)
        raise UnsupportedLeafError(
            event, f"neighboring_relation must be {names} for `{type(event).__name__}`. Found `{relation.name}`.")


def _gaussian(mu: float) -> Directions:
    """Both directions of a shift by mu standard deviations, at every scale that a float can have."""
    if mu == 0.0:
        return NO_LOSS
    if not math.isfinite(mu * mu):
        return NON_PRIVATE if math.isinf(mu) else Directions(DISJOINT, DISJOINT)
    if mu < _SMALLEST_SHIFT:  # rounded up, as its square would underflow; nothing is known from below
        tiny = RoundedUp((1.0, 0.0), (GaussianShift(_SMALLEST_SHIFT), NO_LOSS.remove))
        return Directions(tiny, tiny)
    pair = GaussianShift(mu)
    return Directions(pair, pair)


def _shift(noise_multiplier: float, relation: NeighboringRelation) -> float:
    """Sensitivity over noise: 1 / noise, twice that where a record is replaced; infinite without noise."""
    if noise_multiplier == 0.0:
        return math.inf
    return (2.0 if relation is RO else 1.0) / noise_multiplier


@_pair.register(dp_event.NoOpDpEvent)
def _no_op(event: dp_event.NoOpDpEvent, relation: NeighboringRelation) -> Directions:
    return NO_LOSS


@_pair.register(dp_event.NonPrivateDpEvent)
def _non_private(event: dp_event.NonPrivateDpEvent, relation: NeighboringRelation) -> Directions:
    return NON_PRIVATE


@register_mechanism(dp_event.GaussianDpEvent, samplable=True)
def _gaussian_event(event: dp_event.GaussianDpEvent, relation: NeighboringRelation) -> Directions:
    return _gaussian(_shift(_validate.at_least_zero("noise_multiplier", event.noise_multiplier), relation))


def _mirrored(pair: Pllr) -> Directions:
    """Both directions of a pair that is its own mirror image."""
    return Directions(pair, pair)


@register_mechanism(dp_event.LaplaceDpEvent, samplable=True)
def _laplace_event(event: dp_event.LaplaceDpEvent, relation: NeighboringRelation) -> Directions:
    return _laplace(_shift(_validate.at_least_zero("noise_multiplier", event.noise_multiplier), relation))


def _laplace(mu: float) -> Directions:
    if math.isinf(mu):
        return NON_PRIVATE
    if mu == 0.0:
        return NO_LOSS
    if mu < _SMALLEST_SHIFT:  # rounded up; nothing is known from below
        tiny = RoundedUp((1.0, 0.0), (LaplaceShift(_SMALLEST_SHIFT), NO_LOSS.remove))
        return Directions(tiny, tiny)
    if mu > _LARGEST_LAPLACE_SHIFT:  # rounded up, so that sums of losses stay floats; nothing is known from below
        return _mirrored(RoundedUp((1.0, 0.0), (DISJOINT, NO_LOSS.remove)))
    return _mirrored(LaplaceShift(mu))


@register_mechanism(dp_event.DiscreteLaplaceDpEvent, samplable=True)
def _discrete_laplace(event: dp_event.DiscreteLaplaceDpEvent, relation: NeighboringRelation) -> Pllr | Directions:
    """L = a (|x| - |x - s|): -a s for x <= 0, a s for x >= s, a (2k - s) at x = k between."""
    _require(event, relation, AR, RS)
    a = _validate.at_least_zero("noise_parameter", event.noise_parameter)
    s = _validate.integer("sensitivity", event.sensitivity, 1)
    if a == 0.0 or math.isinf(a):
        return NON_PRIVATE
    if s > _MOST_ATOMS:
        raise UnsupportedLeafError(event, f"`sensitivity` must be at most {_MOST_ATOMS}. Found {s}.")
    side = 1.0 / (1.0 + math.exp(-a))
    middle = [math.tanh(a / 2.0) * math.exp(-a * k) for k in range(1, s)]
    masses = (side, *middle, math.exp(-a * s) * side)
    return _mirrored(Atoms(masses, masses[::-1], losses=tuple(a * (2 * k - s) for k in range(s + 1))))


@register_mechanism(dp_event.RandomizedResponseDpEvent)
def _randomized_response(event: dp_event.RandomizedResponseDpEvent, relation: NeighboringRelation) -> Pllr | Directions:
    """Three outcomes (own bucket, the neighbour's, the others); against the uniform law under REPLACE_SPECIAL."""
    _require(event, relation, RO, RS)
    noise = _validate.probability("noise_parameter", event.noise_parameter)
    k = _validate.integer("num_buckets", event.num_buckets, 1)
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
    return _mirrored(Atoms((other, own, (k - 2) * other), (own, other, (k - 2) * other), losses=(loss, -loss, 0.0)))


@register_mechanism(dp_event.MixtureOfGaussiansDpEvent, samplable=True)
def _mixture_event(event: dp_event.MixtureOfGaussiansDpEvent, relation: NeighboringRelation) -> Pllr | Directions:
    _require(event, relation, AR, RS)
    return _mixture(*_mixture_parameters(event))


def _mixture_parameters(event: dp_event.MixtureOfGaussiansDpEvent) -> tuple[float, list[float], tuple[float, ...]]:
    noise = _validate.at_least_zero("standard_deviation", event.standard_deviation)
    shifts = [_validate.at_least_zero(f"sensitivities[{i}]", s)
              for i, s in enumerate(_validate.sequence("sensitivities", event.sensitivities))]
    weights = _validate.mixture("sampling_probs", event.sampling_probs)
    if len(shifts) != len(weights):
        raise ValueError(f"`sampling_probs` must have as many entries as `sensitivities`, {len(shifts)}. "
                         f"Found {len(weights)}.")
    return noise, shifts, weights


def _mixture(noise: float, shifts: list[float], weights: tuple[float, ...]) -> Pllr | Directions:
    """Shifts in units of the noise with their probabilities, equal ones merged; one positive shift is plain sampling."""
    if all(shift == 0.0 for shift, weight in zip(shifts, weights, strict=True) if weight > 0):
        return NO_LOSS
    if noise == 0.0:
        return NON_PRIVATE
    merged: dict[float, float] = {}
    for shift, weight in zip(shifts, weights, strict=True):
        mu = shift / noise
        if weight > 0:
            merged[mu] = merged.get(mu, 0.0) + weight
    moving = sorted(mu for mu in merged if mu > 0)
    if not moving:  # infinite noise
        return NO_LOSS
    if len(moving) == 1:
        return _sampled_gaussian(moving[0], min(merged[moving[0]], 1.0), AR)
    chosen = sorted(merged)
    if not math.isfinite(chosen[-1] ** 2):
        return NON_PRIVATE
    return NormalMixture(tuple(chosen), tuple(merged[mu] for mu in chosen))


def _sampled_gaussian(mu: float, p: float, relation: NeighboringRelation) -> Pllr | Directions:
    """Poisson sampling of Gaussian noise; `mu` is the shift of one record (not doubled under REPLACE_ONE)."""
    if p == 0.0 or mu == 0.0:
        return NO_LOSS
    if not math.isfinite(mu * mu):
        return NON_PRIVATE
    if relation is RO:
        return _gaussian(2.0 * mu) if p == 1.0 else SampledReplacement(mu, p)
    if p == 1.0 or mu < _SMALLEST_SHIFT:
        return _gaussian(mu)
    return subsample(GaussianShift(mu), p)


def _combined_shift(event: dp_event.DpEvent, inside: dp_event.DpEvent, message: str) -> float:
    """Shift of the one Gaussian that a composition of Gaussians is."""
    total = 0.0
    for leaf, count in leaves(inside):
        if isinstance(leaf, dp_event.NonPrivateDpEvent):
            return math.inf
        if not isinstance(leaf, dp_event.GaussianDpEvent):
            raise UnsupportedLeafError(event, f"{message} Found {leaf}.")
        noise = _validate.at_least_zero("noise_multiplier", leaf.noise_multiplier)
        total = math.hypot(total, math.sqrt(count) * _shift(noise, AR))
    return total


@register_mechanism(dp_event.PoissonSampledDpEvent)
def _poisson_sampled(event: dp_event.PoissonSampledDpEvent, relation: NeighboringRelation) -> Pllr | Directions:
    """Probabilities of nested samplings multiply; then one additive noise, or Gaussians of combined shift."""
    p, inner = 1.0, event
    while isinstance(inner, dp_event.PoissonSampledDpEvent):
        p *= _validate.probability("sampling_probability", inner.sampling_probability)
        inner = inner.event
    if not isinstance(inner, dp_event.DpEvent):
        raise ValueError(f"`event` must be a `DpEvent`. Found {inner!r}.")
    contents = list(leaves(inner))
    if len(contents) == 1 and contents[0][1] == 1 and isinstance(contents[0][0], dp_event.PoissonSampledDpEvent):
        nested = dp_event.PoissonSampledDpEvent(p, contents[0][0])
        return _poisson_sampled(nested, relation)
    message = ("Subevent of `PoissonSampledDpEvent` must be one additive noise mechanism, or a composition of "
               "`GaussianDpEvent`s.")
    if all(isinstance(leaf, dp_event.GaussianDpEvent | dp_event.NonPrivateDpEvent) for leaf, _ in contents):
        return _sampled_gaussian(_combined_shift(event, inner, message), p, relation)
    leaf, count = contents[0]
    if len(contents) > 1 or count > 1 or type(leaf) not in _SAMPLABLE:
        raise UnsupportedLeafError(event, f"{message} Found {inner}.")
    _require(event, relation, AR, RS)
    base = directions(leaf, relation)
    if p == 0.0:
        return NO_LOSS
    if base in (NO_LOSS, NON_PRIVATE):
        return base
    if isinstance(leaf, dp_event.MixtureOfGaussiansDpEvent):
        noise, shifts, weights = _mixture_parameters(leaf)
        return _mixture(noise, [0.0, *shifts], (1.0 - p, *(p * weight for weight in weights)))
    return subsample(base.remove, p)


@register_mechanism(dp_event.SampledWithoutReplacementDpEvent)
def _without_replacement(event: dp_event.SampledWithoutReplacementDpEvent, relation: NeighboringRelation) -> Pllr | Directions:
    """Each step is dominated only by the symmetric curve min(f_p, f_p^-1)**, with twice the sensitivity."""
    _require(event, relation, RO)
    size = _validate.integer("source_dataset_size", event.source_dataset_size, 1)
    sample = _validate.integer("sample_size", event.sample_size, 0)
    if sample > size:
        raise ValueError(f"`sample_size` must be at most `source_dataset_size`, {size}. Found {sample}.")
    mu = 2.0 * _combined_shift(event, event.event, "Subevent of `SampledWithoutReplacementDpEvent` must be a "
                               "`GaussianDpEvent` or a composition of them.")
    if sample == 0 or mu == 0.0:
        return NO_LOSS
    if math.isinf(mu):
        return NON_PRIVATE
    if sample == size:
        return _gaussian(mu)
    p = sample / size
    return SampledWithoutReplacement(mu, p) if math.isfinite(mu * mu) else NON_PRIVATE


@register_mechanism(dp_event.SingleEpochTreeAggregationDpEvent)
def _tree_aggregation(event: dp_event.SingleEpochTreeAggregationDpEvent, relation: NeighboringRelation) -> Directions:
    """A record touches one path of at most ceil(log2(steps + 1)) nodes: a Gaussian of that squared sensitivity."""
    _require(event, relation, RS)
    noise = _validate.at_least_zero("noise_multiplier", event.noise_multiplier)
    counts = event.step_counts
    single = not hasattr(counts, "__len__") or getattr(counts, "ndim", 1) == 0
    listed = [counts] if single else _validate.sequence("step_counts", counts)
    steps = [_validate.integer("step_counts", count, 0) for count in listed]
    if max(steps) == 0:
        raise ValueError(f"`step_counts` must have a positive entry. Found {counts!r}.")
    return _gaussian(math.sqrt(max(steps).bit_length()) * _shift(noise, relation))


@register_mechanism(dp_event.TruncatedSubsampledGaussianDpEvent)
def _truncated(event: dp_event.TruncatedSubsampledGaussianDpEvent, relation: NeighboringRelation) -> Pllr | Directions:
    """Whether the batch is full without the record is a public coin (arXiv:2508.15089).

    If it is, the record displaces another one: a replacement of twice the sensitivity with the conditional probability of
    being in the batch; otherwise plain Poisson sampling. The same pair as dp-accounting's, in every relation.
    """
    size = _validate.integer("dataset_size", event.dataset_size, 0)
    p = _validate.probability("sampling_probability", event.sampling_probability)
    batch = _validate.integer("truncated_batch_size", event.truncated_batch_size, 0)
    noise = _validate.at_least_zero("noise_multiplier", event.noise_multiplier)
    if p == 0.0 or batch == 0 or size == 0 or math.isinf(noise):
        return NO_LOSS
    if noise == 0.0:
        return NON_PRIVATE
    plain = _sampled_gaussian(_shift(noise, AR), p, relation)
    full = float(stats.binom.sf(float(batch - 1), float(size - 1), p))
    if full == 0.0:
        return plain
    conditional = min(1.0, float(stats.binom.sf(float(batch), float(size), p)) * batch / full / size)
    displaced = _sampled_gaussian(2.0 * _shift(noise, AR), conditional, RO)
    pairs = [pair if isinstance(pair, Directions) else Directions(pair, reverse(pair)) for pair in (displaced, plain)]
    return Directions(*(Mixed((full, 1.0 - full), (a, b)) for a, b in zip(*pairs, strict=True)))


@register_mechanism(AdditiveNoiseDpEvent, samplable=True)
def _additive_noise(event: AdditiveNoiseDpEvent, relation: NeighboringRelation) -> Directions:
    noise, scale = additive_noise.validated(event.distribution, event.parameters)
    sensitivity = _validate.at_least_zero("sensitivity", event.sensitivity) * (2.0 if relation is RO else 1.0)
    if noise.gaussian_scale is not None:
        return _gaussian(sensitivity / (scale * noise.gaussian_scale))
    if noise.is_laplace:
        return _laplace(sensitivity / scale)
    return _noise_shift(noise, sensitivity / scale)


def _noise_shift(noise: additive_noise.AdditiveNoise, shift: float) -> Directions:
    """Either sign of the shift, so the same pair in both directions; tiny and huge shifts are rounded up."""
    if shift == 0.0:
        return NO_LOSS
    if math.isinf(shift):
        return NON_PRIVATE
    pair: Pllr = NoiseShift(noise, shift)
    if shift < _SMALLEST_NOISE_SHIFT:
        pair = RoundedUp((1.0, 0.0), (NoiseShift(noise, _SMALLEST_NOISE_SHIFT), NO_LOSS.remove))
    elif shift > _LARGEST_NOISE_SHIFT:
        pair = RoundedUp((1.0, 0.0), (DISJOINT, NO_LOSS.remove))
    return Directions(pair, pair)


@register_mechanism(PllrMomentsDpEvent)
def _pllr_moments(event: PllrMomentsDpEvent, relation: NeighboringRelation) -> Directions:
    """X and Y of one direction; the other one is (-Y, -X)."""
    pair = PllrMoments.validated(event)
    return Directions(pair, pair.reversed())


def _epsilon_delta(epsilon: float, delta: float) -> Pllr | Directions:
    """Infinite loss with probability delta, otherwise +-epsilon as randomised response: dominates any (epsilon, delta)-DP."""
    if delta == 1.0 or math.isinf(epsilon):
        return NON_PRIVATE
    high, low = (1.0 - delta) * special.expit(epsilon), (1.0 - delta) * special.expit(-epsilon)
    if epsilon == 0.0 and delta == 0.0:
        return NO_LOSS
    return _mirrored(Atoms((0.0, low, high, delta), (delta, high, low, 0.0), losses=(math.inf, epsilon, -epsilon, -math.inf)))


def _epsilon_delta_event(event: Any, relation: NeighboringRelation) -> Pllr | Directions:
    return _epsilon_delta(_validate.at_least_zero("epsilon", event.epsilon), _validate.probability("delta", event.delta))


def _exponential_event(event: Any, relation: NeighboringRelation) -> Pllr | Directions:
    return _epsilon_delta(_validate.at_least_zero("epsilon", event.epsilon), 0.0)


def _permute_and_flip_event(event: Any, relation: NeighboringRelation) -> Directions:
    return _laplace(_validate.at_least_zero("epsilon", event.epsilon))


def _discrete_gaussian_event(event: Any, relation: NeighboringRelation) -> Pllr | Directions:
    """P(x) proportional to e^{-x^2 / (2 sigma^2)} on the integers, Q shifted by the sensitivity."""
    _require(event, relation, AR, RS)
    sigma = _validate.at_least_zero("sigma", event.sigma)
    s = _validate.integer("sensitivity", event.sensitivity, 0)
    if _validate.integer("dimension", getattr(event, "dimension", 1), 1) != 1:
        raise UnsupportedLeafError(event, f"`dimension` must be 1. Found {event.dimension!r}.")
    if s == 0:
        return NO_LOSS
    if sigma == 0.0:
        return NON_PRIVATE
    return additive_noise.discrete_gaussian(event, sigma, s, _MOST_ATOMS)


for _name, _function, _additive in (
    ("EpsilonDeltaDpEvent", _epsilon_delta_event, False),
    ("ExponentialMechanismDpEvent", _exponential_event, False),
    ("PermuteAndFlipDpEvent", _permute_and_flip_event, False),
    ("DiscreteGaussianDpEvent", _discrete_gaussian_event, True),
):
    if hasattr(dp_event, _name):  # only on dp-accounting's main branch, which has the same version number
        register_mechanism(getattr(dp_event, _name), samplable=_additive)(_function)


def _without_pair(event_class: type[dp_event.DpEvent], reason: str) -> None:
    @_pair.register(event_class)
    def _refuse(event: Any, relation: NeighboringRelation) -> Pllr:
        raise UnsupportedLeafError(event, f"`{event_class.__name__}` has no dominating pair of PLLRs: {reason}")


_without_pair(dp_event.ZCDpEvent, "a zCDP guarantee is a family of Renyi bounds, which no single pair attains.")
_without_pair(dp_event.RepeatAndSelectDpEvent,
              "it is known by Renyi bounds of the selection only, which no single pair attains.")
_without_pair(dp_event.SampledWithReplacementDpEvent,
              "how often a record is drawn is random, and its worst case differs from epsilon to epsilon.")
