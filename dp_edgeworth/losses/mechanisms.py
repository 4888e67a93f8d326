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
import sys
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation
from scipy import special, stats

from dp_edgeworth import validation
from dp_edgeworth.events import available
from dp_edgeworth.events.own_events import AdditiveNoiseDpEvent, PllrMomentsDpEvent
from dp_edgeworth.losses import additive_noise
from dp_edgeworth.losses.base_pairs import (
    Atoms,
    GaussianShift,
    LaplaceShift,
    NormalMixture,
    SampledReplacement,
    SampledWithoutReplacement,
)
from dp_edgeworth.losses.noise_shift import NoiseShift
from dp_edgeworth.losses.pllr import Mixed, Pllr, RoundedUp, reverse, subsample
from dp_edgeworth.paper.moments import PllrMoments
from dp_edgeworth.sums.composition import leaves

AR = NeighboringRelation.ADD_OR_REMOVE_ONE
RO = NeighboringRelation.REPLACE_ONE
RS = NeighboringRelation.REPLACE_SPECIAL

_SMALLEST_SHIFT = 1e-140
_LARGEST_SHIFT = 1e150  # so that its square is a float
_SAFE_SHIFT = 1e60  # a lower bound of what is beyond, with moments that are floats
_LARGEST = sys.float_info.max
_SMALLEST_PROBABILITY = sys.float_info.min  # below, products lose their digits, and then everything
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
        leaves the mechanism running on the other records, with P (of "add": Q) as the law of its output (true for additive noise).

    Returns:
      A decorator for a function (event, neighboring_relation) -> `Pllr` (its reverse is then the other direction) or
      `Directions`. It should raise ValueError for bad parameters.
    """
    from dp_edgeworth.events import serialization  # the JSON format knows user events by their class name

    def register(function: _M) -> _M:
        _pair.register(event_class)(function)
        (_SAMPLABLE.add if samplable else _SAMPLABLE.discard)(event_class)
        _cached_directions.cache_clear()
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
        return _cached_directions(event, relation, validation.shown(event))
    except TypeError:  # an event with an unhashable field, such as a 0-d array
        return _directions(event, relation)


def _directions(event: dp_event.DpEvent, relation: NeighboringRelation) -> Directions:
    pair = _pair(event, relation)
    both = pair if isinstance(pair, Directions) else (pair,)
    if not all(isinstance(one, Pllr) and _is_hashable(one) for one in both):
        raise ValueError(f"The mechanism of `{type(event).__name__}` must return a hashable `Pllr`, or `Directions` of two. "
                         f"Found {validation.shown(pair)}.")
    return _both(pair)


def _both(pair: Pllr | Directions) -> Directions:
    return pair if isinstance(pair, Directions) else Directions(pair, reverse(pair))


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


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
    return NON_PRIVATE if math.isinf(mu) else _mirrored(_normal(mu))


def _normal(mu: float) -> Pllr:
    """The pair of a shift 0 < mu < inf; where its square is no float it is rounded up."""
    if mu < _SMALLEST_SHIFT:
        return _rounded_up(GaussianShift(_SMALLEST_SHIFT), NO_LOSS.remove)
    return GaussianShift(mu) if mu <= _LARGEST_SHIFT else _rounded_up(DISJOINT, GaussianShift(_SAFE_SHIFT))


def _rounded_up(above: Pllr, below: Pllr) -> RoundedUp:
    """A pair that is known between two others."""
    return RoundedUp((1.0, 0.0), (above, below))


def _shift(noise_multiplier: float, relation: NeighboringRelation) -> float:
    """Sensitivity over noise: 1 / noise, twice that where a record is replaced; infinite without noise."""
    return _ratio(2.0 if relation is RO else 1.0, noise_multiplier)


def _ratio(sensitivity: float, noise: float) -> float:
    """Their ratio; 0 or infinite only where a factor is, otherwise the nearest positive float."""
    if noise == 0.0 or math.isinf(sensitivity):
        return math.inf if sensitivity > 0.0 else 0.0
    return _positive(sensitivity / noise) if sensitivity > 0.0 and noise < math.inf else 0.0


def _positive(value: float) -> float:
    """What was positive and finite before rounding."""
    return min(max(value, 5e-324), _LARGEST)


@_pair.register(dp_event.NoOpDpEvent)
def _no_op(event: dp_event.NoOpDpEvent, relation: NeighboringRelation) -> Directions:
    return NO_LOSS


@_pair.register(dp_event.NonPrivateDpEvent)
def _non_private(event: dp_event.NonPrivateDpEvent, relation: NeighboringRelation) -> Directions:
    return NON_PRIVATE


@register_mechanism(dp_event.GaussianDpEvent, samplable=True)
def _gaussian_event(event: dp_event.GaussianDpEvent, relation: NeighboringRelation) -> Directions:
    return _gaussian(_shift(validation.at_least_zero("noise_multiplier", event.noise_multiplier), relation))


def _mirrored(pair: Pllr) -> Directions:
    """Both directions of a pair that is its own mirror image."""
    return Directions(pair, pair)


@register_mechanism(dp_event.LaplaceDpEvent, samplable=True)
def _laplace_event(event: dp_event.LaplaceDpEvent, relation: NeighboringRelation) -> Directions:
    return _laplace(_shift(validation.at_least_zero("noise_multiplier", event.noise_multiplier), relation))


def _laplace(mu: float) -> Directions:
    if math.isinf(mu):
        return NON_PRIVATE
    if mu == 0.0:
        return NO_LOSS
    if mu < _SMALLEST_SHIFT:  # nothing is known from below
        return _mirrored(_rounded_up(LaplaceShift(_SMALLEST_SHIFT), NO_LOSS.remove))
    if mu > _LARGEST_LAPLACE_SHIFT:  # so that sums of losses stay floats
        return _mirrored(_rounded_up(DISJOINT, LaplaceShift(_SAFE_SHIFT)))
    return _mirrored(LaplaceShift(mu))


@register_mechanism(available.DiscreteLaplaceDpEvent, samplable=True)
def _discrete_laplace(event: dp_event.DiscreteLaplaceDpEvent, relation: NeighboringRelation) -> Pllr | Directions:
    """L = a (|x| - |x - s|): -a s for x <= 0, a s for x >= s, a (2k - s) at x = k between."""
    _require(event, relation, AR, RS)
    a = validation.at_least_zero("noise_parameter", event.noise_parameter)
    s = validation.integer("sensitivity", event.sensitivity, 1)
    if a == 0.0 or math.isinf(a):
        return NON_PRIVATE
    if s > _MOST_ATOMS:
        raise UnsupportedLeafError(event, f"`sensitivity` must be at most {_MOST_ATOMS}. Found {s}.")
    side = 1.0 / (1.0 + math.exp(-a))
    middle = [math.tanh(a / 2.0) * math.exp(-a * k) for k in range(1, s)]
    masses = (side, *middle, math.exp(-a * s) * side)
    return _mirrored(Atoms(masses, masses[::-1], losses=tuple(a * (2 * k - s) for k in range(s + 1))))


@register_mechanism(available.RandomizedResponseDpEvent)
def _randomized_response(event: dp_event.RandomizedResponseDpEvent, relation: NeighboringRelation) -> Pllr | Directions:
    """Three outcomes (own bucket, the neighbour's, the others); against the uniform law under REPLACE_SPECIAL."""
    _require(event, relation, RO, RS)
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
    return _mirrored(Atoms((other, own, (k - 2) * other), (own, other, (k - 2) * other), losses=(loss, -loss, 0.0)))


@register_mechanism(available.MixtureOfGaussiansDpEvent, samplable=True)
def _mixture_event(event: dp_event.MixtureOfGaussiansDpEvent, relation: NeighboringRelation) -> Pllr | Directions:
    _require(event, relation, AR, RS)
    return _mixture(*_mixture_parameters(event))


def _mixture_parameters(event: dp_event.MixtureOfGaussiansDpEvent) -> tuple[float, list[float], tuple[float, ...]]:
    noise = validation.at_least_zero("standard_deviation", event.standard_deviation)
    shifts = [validation.at_least_zero(f"sensitivities[{i}]", s)
              for i, s in enumerate(validation.sequence("sensitivities", event.sensitivities))]
    weights = validation.mixture("sampling_probs", event.sampling_probs)
    if len(shifts) != len(weights):
        raise ValueError(f"`sampling_probs` must have as many entries as `sensitivities`, {len(shifts)}. "
                         f"Found {len(weights)}.")
    return noise, shifts, weights


def _mixture(noise: float, shifts: list[float], weights: tuple[float, ...]) -> Pllr | Directions:
    """Shifts in units of the noise with their probabilities, equal ones merged; rounded up and down where these are no floats."""
    above: dict[float, float] = {}
    below: dict[float, float] = {}
    for shift, weight in zip(shifts, weights, strict=True):
        mu = _ratio(shift, noise)
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
    return _normals(above) if above == below else _rounded_up(_normals(above), _normals(below))


def _sides(mu: float) -> tuple[float, float]:
    """A shift, rounded down and up where its square is no float."""
    if 0.0 < mu < _SMALLEST_SHIFT:
        return 0.0, _SMALLEST_SHIFT
    return (mu, mu) if mu <= _LARGEST_SHIFT else (_SAFE_SHIFT, _LARGEST)


def _normals(weights: dict[float, float]) -> Pllr:
    """N(0, 1) against a mixture of shifts, of which those beyond `_LARGEST_SHIFT` are a public coin; one shift is plain sampling."""
    moving = sorted(mu for mu in weights if mu > 0.0)
    if not moving:
        return NO_LOSS.remove
    if len(moving) == 1:
        return _sampled_normal(moving[0], min(weights[moving[0]], 1.0))
    if moving[-1] > _LARGEST_SHIFT:
        near = {mu: weight for mu, weight in weights.items() if mu <= _LARGEST_SHIFT}
        total = math.fsum(near.values())
        return Mixed((total, weights[moving[-1]]), (_normals({mu: weight / total for mu, weight in near.items()}), DISJOINT))
    return NormalMixture(tuple(sorted(weights)), tuple(weights[mu] for mu in sorted(weights)))


def _least_probability(scale: float) -> float:
    """Below, a sampling probability times losses of this scale is no float with all its digits."""
    return min(_SMALLEST_PROBABILITY / min(max(scale, _SMALLEST_SHIFT), 1.0), 1.0)


def _sampled(pair: Pllr, p: float, scale: float) -> Pllr:
    """`subsample`; more samples have more loss, so p is rounded up where that is needed."""
    least = _least_probability(scale)
    return subsample(pair, p) if p >= least else _rounded_up(subsample(pair, least), NO_LOSS.remove)


def _sampled_normal(mu: float, p: float) -> Pllr:
    return _sampled(_normal(mu), p, mu)


def _symmetric(kind: type[SampledReplacement | SampledWithoutReplacement], mu: float, p: float) -> Pllr:
    """A pair of these classes, rounded up where mu^2 or p mu is no float: at last an infinite loss with probability p."""
    least = _least_probability(mu)
    more = max(p, least)
    above = Atoms((0.0, 1.0 - more, more), (more, 1.0 - more, 0.0)) if mu > _LARGEST_SHIFT else kind(max(mu, _SMALLEST_SHIFT), more)
    below = kind(mu if mu <= _LARGEST_SHIFT else _SAFE_SHIFT, p) if mu >= _SMALLEST_SHIFT and p >= least else NO_LOSS.remove
    return above if above == below else _rounded_up(above, below)


def _sampled_gaussian(mu: float, p: float, relation: NeighboringRelation) -> Pllr | Directions:
    """Poisson sampling of Gaussian noise; `mu` is the shift of one record (not doubled under REPLACE_ONE)."""
    if p == 0.0 or mu == 0.0:
        return NO_LOSS
    if math.isinf(mu):
        return NON_PRIVATE
    if relation is not RO:
        return _sampled_normal(mu, p)
    return _normal(_positive(2.0 * mu)) if p == 1.0 else _symmetric(SampledReplacement, mu, p)


def _combined_shift(event: dp_event.DpEvent, inside: dp_event.DpEvent, message: str) -> float:
    """Shift of the one Gaussian that a composition of Gaussians is."""
    total, without_noise = 0.0, False
    for leaf, count in leaves(inside):
        if isinstance(leaf, dp_event.NonPrivateDpEvent):
            return math.inf
        if not isinstance(leaf, dp_event.GaussianDpEvent):
            raise UnsupportedLeafError(event, f"{message} Found {validation.shown(leaf)}.")
        noise = validation.at_least_zero("noise_multiplier", leaf.noise_multiplier)
        without_noise |= noise == 0.0
        total = min(math.hypot(total, math.sqrt(count) * _shift(noise, AR)), _LARGEST)
    return math.inf if without_noise else total


@register_mechanism(dp_event.PoissonSampledDpEvent)
def _poisson_sampled(event: dp_event.PoissonSampledDpEvent, relation: NeighboringRelation) -> Pllr | Directions:
    """Probabilities of nested samplings multiply; then one additive noise, or Gaussians of combined shift."""
    p, inner = 1.0, event
    while isinstance(inner, dp_event.PoissonSampledDpEvent):
        share = validation.probability("sampling_probability", inner.sampling_probability)
        p, inner = _positive(p * share) if p > 0.0 and share > 0.0 else 0.0, inner.event
    if not isinstance(inner, dp_event.DpEvent):
        raise ValueError(f"`event` must be a `DpEvent`. Found {validation.shown(inner)}.")
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
        raise UnsupportedLeafError(event, f"{message} Found {validation.shown(inner)}.")
    _require(event, relation, AR, RS)
    base = directions(leaf, relation)
    if p == 0.0:
        return NO_LOSS
    if base is NO_LOSS or base is NON_PRIVATE:
        return base
    if isinstance(leaf, available.MixtureOfGaussiansDpEvent):
        noise, shifts, weights = _mixture_parameters(leaf)
        return _mixture(noise, [0.0, *shifts], (1.0 - p, *(_positive(p * weight) if weight > 0 else 0.0 for weight in weights)))
    return _sampled_directions(base, p)


def _sampled_directions(base: Directions, p: float) -> Pllr | Directions:
    """Of both: without the record it is P of "remove", and Q of "add", that the record is mixed into."""
    (remove, with_record), scales = (base.remove, reverse(base.add)), [pair.loss_scale or 1.0 for pair in base]
    if remove == with_record:
        return _sampled(remove, p, scales[0])
    return Directions(_sampled(remove, p, scales[0]), reverse(_sampled(with_record, p, scales[1])))


@register_mechanism(dp_event.SampledWithoutReplacementDpEvent)
def _without_replacement(event: dp_event.SampledWithoutReplacementDpEvent, relation: NeighboringRelation) -> Pllr | Directions:
    """Each step is dominated only by the symmetric curve min(f_p, f_p^-1)**, with twice the sensitivity."""
    _require(event, relation, RO)
    size = validation.integer("source_dataset_size", event.source_dataset_size, 1)
    sample = validation.integer("sample_size", event.sample_size, 0)
    if sample > size:
        raise ValueError(f"`sample_size` must be at most `source_dataset_size`, {size}. Found {sample}.")
    shift = _combined_shift(event, event.event, "Subevent of `SampledWithoutReplacementDpEvent` must be a "
                            "`GaussianDpEvent` or a composition of them.")
    if sample == 0 or shift == 0.0:
        return NO_LOSS
    if math.isinf(shift):
        return NON_PRIVATE
    mu, p = _positive(2.0 * shift), sample / size
    if sample == size:
        return _normal(mu)
    if p == 1.0:  # rounded up
        return _rounded_up(_normal(mu), _symmetric(SampledWithoutReplacement, mu, math.nextafter(1.0, 0.0)).dominated)
    return _symmetric(SampledWithoutReplacement, mu, p)


@register_mechanism(dp_event.SingleEpochTreeAggregationDpEvent)
def _tree_aggregation(event: dp_event.SingleEpochTreeAggregationDpEvent, relation: NeighboringRelation) -> Directions:
    """A record touches one path of at most ceil(log2(steps + 1)) nodes: a Gaussian of that squared sensitivity."""
    _require(event, relation, RS)
    noise = validation.at_least_zero("noise_multiplier", event.noise_multiplier)
    counts = event.step_counts
    single = not hasattr(counts, "__len__") or getattr(counts, "ndim", 1) == 0
    listed = [counts] if single else validation.sequence("step_counts", counts)
    steps = [validation.integer("step_counts", count, 0) for count in listed]
    if max(steps) == 0:
        raise ValueError(f"`step_counts` must have a positive entry. Found {validation.shown(counts)}.")
    shift = _shift(noise, relation)
    return _gaussian(min(math.sqrt(max(steps).bit_length()) * shift, math.inf if noise == 0.0 else _LARGEST))


@register_mechanism(available.TruncatedSubsampledGaussianDpEvent)
def _truncated(event: dp_event.TruncatedSubsampledGaussianDpEvent, relation: NeighboringRelation) -> Pllr | Directions:
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
    plain = _sampled_gaussian(_shift(noise, AR), p, relation)
    full = float(stats.binom.sf(float(batch - 1), float(size - 1), p))
    if full == 0.0:
        return plain
    conditional = min(1.0, _positive(float(stats.binom.sf(float(batch), float(size), p)) * batch / full / size))
    displaced = _sampled_gaussian(_positive(2.0 * _shift(noise, AR)), conditional, RO)
    return Directions(*(Mixed((full, 1.0 - full), (a, b)) for a, b in zip(_both(displaced), _both(plain), strict=True)))


@register_mechanism(AdditiveNoiseDpEvent, samplable=True)
def _additive_noise(event: AdditiveNoiseDpEvent, relation: NeighboringRelation) -> Directions:
    noise, scale = additive_noise.validated(event.distribution, event.parameters)
    shift = _ratio(validation.at_least_zero("sensitivity", event.sensitivity), scale)
    factor = (2.0 if relation is RO else 1.0) / (noise.gaussian_scale or 1.0)
    shift = _positive(factor * shift) if 0.0 < shift < math.inf else shift
    if noise.gaussian_scale is not None:
        return _gaussian(shift)
    return _laplace(shift) if noise.is_laplace else _noise_shift(noise, shift)


def _noise_shift(noise: additive_noise.AdditiveNoise, shift: float) -> Directions:
    """Either sign of the shift, so the same pair in both directions; tiny and huge shifts are rounded up."""
    if shift == 0.0:
        return NO_LOSS
    if math.isinf(shift):
        return NON_PRIVATE
    pair: Pllr = NoiseShift(noise, shift)
    if shift < _SMALLEST_NOISE_SHIFT:
        pair = _rounded_up(NoiseShift(noise, _SMALLEST_NOISE_SHIFT), NO_LOSS.remove)
    elif shift > _LARGEST_NOISE_SHIFT:
        pair = _rounded_up(DISJOINT, NO_LOSS.remove)
    return _mirrored(pair)


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
    return _epsilon_delta(validation.at_least_zero("epsilon", event.epsilon), validation.probability("delta", event.delta))


def _exponential_event(event: Any, relation: NeighboringRelation) -> Pllr | Directions:
    return _epsilon_delta(validation.at_least_zero("epsilon", event.epsilon), 0.0)


def _permute_and_flip_event(event: Any, relation: NeighboringRelation) -> Directions:
    return _laplace(validation.at_least_zero("epsilon", event.epsilon))


def _discrete_gaussian_event(event: Any, relation: NeighboringRelation) -> Pllr | Directions:
    """P(x) proportional to e^{-x^2 / (2 sigma^2)} on the integers, Q shifted by the sensitivity."""
    _require(event, relation, AR, RS)
    sigma = validation.at_least_zero("sigma", event.sigma)
    s = validation.integer("sensitivity", event.sensitivity, 0)
    if validation.integer("dimension", getattr(event, "dimension", 1), 1) != 1:
        raise UnsupportedLeafError(event, f"`dimension` must be 1. Found {validation.shown(event.dimension)}.")
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


_without_pair(available.ZCDpEvent, "a zCDP guarantee is a family of Renyi bounds, which no single pair attains.")
_without_pair(dp_event.RepeatAndSelectDpEvent,
              "it is known by Renyi bounds of the selection only, which no single pair attains.")
_without_pair(dp_event.SampledWithReplacementDpEvent,
              "how often a record is drawn is random, and its worst case differs from epsilon to epsilon.")
