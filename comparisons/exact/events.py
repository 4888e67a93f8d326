"""From events to pairs and counts."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.fft
import scipy.special
import scipy.stats
from dp_accounting import NeighboringRelation as Relation
from dp_accounting import dp_event as de

from comparisons.exact.arithmetic import REAL, Law
from comparisons.exact.leaves import GaussianPair, LaplacePair, Lattice, SymmetricSubsample, Tagged, subsampled


class Use(NamedTuple):
    """A leaf in both directions and how often it is used."""

    remove: Law
    add: Law
    times: int


def uses_of(event: de.DpEvent, relation: Relation, count: int = 1) -> list[Use]:
    """The leaves of an event tree."""
    match event:
        case de.NoOpDpEvent():
            return []
        case de.SelfComposedDpEvent():
            return uses_of(event.event, relation, count * int(event.count))
        case de.ComposedDpEvent():
            return [use for part in event.events for use in uses_of(part, relation, count)]
        case de.RandomizedResponseDpEvent():
            return _randomized_response(event, relation, count)
        case de.TruncatedSubsampledGaussianDpEvent():
            return _truncated(event, relation, count)
        case de.SampledWithoutReplacementDpEvent():
            return _without_replacement(event, relation, count)
        case _:
            return _sampled(event, 1.0, relation, count)


def _sampled(event: de.DpEvent, p: float, relation: Relation, count: int) -> list[Use]:
    """Poisson sampling with probability p of an additive mechanism."""
    double = 2.0 if relation is Relation.REPLACE_ONE else 1.0
    square = _shift_squared(event, relation)
    law: Law
    if isinstance(event, de.PoissonSampledDpEvent):
        return _sampled(event.event, p * float(event.sampling_probability), relation, count)
    if p == 0 or isinstance(event, de.NoOpDpEvent):
        return []
    if relation is Relation.REPLACE_ONE and p < 1:
        if square is None:
            raise ValueError(f"REPLACE_ONE supports Poisson sampling of Gaussians only. Found `{event}`.")
        law = _replace_one(math.sqrt(square), p)
        return [Use(law, law, count)]
    if square is not None:
        law = subsampled((double * math.sqrt(square),), (REAL(1),), p)
    elif isinstance(event, de.MixtureOfGaussiansDpEvent):
        law = _mixture(event, p)
    elif isinstance(event, de.LaplaceDpEvent):
        law = LaplacePair(double / float(event.noise_multiplier), p)
    elif isinstance(event, de.DiscreteLaplaceDpEvent):
        law = _discrete_laplace(float(event.noise_parameter), int(double) * int(event.sensitivity), p)
    else:
        raise ValueError(f"Unsupported event. Found `{event}`.")
    return [Use(law, law.reverse(), count)]


def _shift_squared(event: de.DpEvent, relation: Relation) -> float | None:
    """mu^2 of (compositions of) Gaussians, None for anything else."""
    if isinstance(event, de.GaussianDpEvent):
        return float(event.noise_multiplier) ** -2
    if isinstance(event, de.SingleEpochTreeAggregationDpEvent):
        if relation is not Relation.REPLACE_SPECIAL:
            raise ValueError(f"Tree aggregation needs REPLACE_SPECIAL. Found {relation}.")
        depth = math.ceil(math.log2(np.max(event.step_counts) + 1))
        return depth * float(event.noise_multiplier) ** -2
    if isinstance(event, de.SelfComposedDpEvent):
        inner = _shift_squared(event.event, relation)
        return None if inner is None else inner * int(event.count)
    if isinstance(event, de.ComposedDpEvent):
        parts = [_shift_squared(part, relation) for part in event.events]
        return None if None in parts else math.fsum(parts)  # type: ignore[arg-type]
    return None


def _replace_one(mu: float, p: float) -> GaussianPair:
    """(1-p) N(0, 1) + p N(-mu, 1) against (1-p) N(0, 1) + p N(mu, 1)."""
    q = subsampled((mu,), (REAL(1),), p)
    return GaussianPair(tuple(-m for m in q.q_means), q.q_weights, q.q_means, q.q_weights)


def _mixture(event: de.MixtureOfGaussiansDpEvent, p: float) -> GaussianPair:
    weights = np.array(event.sampling_probs, REAL)
    means = [float(c) / float(event.standard_deviation) for c in event.sensitivities]
    return subsampled(means, tuple(weights / weights.sum()), p)


def _discrete_laplace(a: float, sensitivity: int, p: float) -> Lattice:
    """P(x) = e^{-a|x|} tanh(a/2), Q its shift by s: losses a (2k - s), k = 0..s, then subsampled."""
    k = np.arange(sensitivity + 1)
    g = REAL(a) * (2 * k - sensitivity).astype(REAL)
    inside = np.log(np.tanh(REAL(a) / 2)) - REAL(a) * k.astype(REAL)
    log_p = np.where(
        k == 0,
        -np.log1p(np.exp(-REAL(a))),
        np.where(k == sensitivity, -REAL(a) * sensitivity - np.log1p(np.exp(-REAL(a))), inside),
    )
    loss = g if p == 1 else np.log1p(REAL(p) * np.expm1(g))
    return Lattice(tuple(loss), tuple(log_p + loss))


def _randomized_response(event: de.RandomizedResponseDpEvent, relation: Relation, count: int) -> list[Use]:
    """R(x) outputs x with probability 1 - p + p/k and every other bucket with p/k."""
    p, k = REAL(event.noise_parameter), REAL(int(event.num_buckets))
    if k == 1 or p == 1:
        return []
    stay, other = 1 - p * (k - 1) / k, p / k
    if relation is Relation.REPLACE_ONE:
        e = np.log1p((1 - p) / other)  # stay / other - 1, to relative accuracy for weak responses
        masses = [(-e, np.log(other)), (e, np.log(stay))]
        if k > 2:
            masses.insert(1, (REAL(0), np.log((k - 2) * other)))
        law = Lattice(tuple(v for v, _ in masses), tuple(w for _, w in masses))
        return [Use(law, law, count)]
    if relation is not Relation.REPLACE_SPECIAL:
        raise ValueError(f"Randomized response needs REPLACE_ONE or REPLACE_SPECIAL. Found {relation}.")
    law = Lattice((np.log1p(p - 1), np.log1p((k - 1) * (1 - p))), (np.log((k - 1) * other), np.log(stay)))
    return [Use(law, law.reverse(), count)]


def _truncated(event: de.TruncatedSubsampledGaussianDpEvent, relation: Relation, count: int) -> list[Use]:
    """dp_accounting's tagged mixture of a REPLACE_ONE pair of sensitivity 2 and the ordinary pair."""
    n, p, size = int(event.dataset_size), float(event.sampling_probability), int(event.truncated_batch_size)
    if 0 in (n, p, size):
        return []
    plain = _sampled(de.GaussianDpEvent(event.noise_multiplier), p, relation, count)[0]
    truncation = float(scipy.stats.binom.sf(size - 1, n - 1, p))
    if truncation == 0:
        return [plain]
    conditional = float(scipy.stats.binom.sf(size, n, p) * size / truncation / n)
    double = _replace_one(2 / float(event.noise_multiplier), conditional)
    if truncation == 1:
        return [Use(double, double, count)]
    remove, add = (Tagged(truncation, double, law) for law in (plain.remove, plain.add))
    return [Use(remove, add, count)]


def _without_replacement(
    event: de.SampledWithoutReplacementDpEvent, relation: Relation, count: int
) -> list[Use]:
    if relation is not Relation.REPLACE_ONE:
        raise ValueError(f"Sampling without replacement needs REPLACE_ONE. Found {relation}.")
    square = _shift_squared(event.event, relation)
    if square is None:
        raise ValueError(f"Sampling without replacement supports Gaussians only. Found `{event}`.")
    q = int(event.sample_size) / int(event.source_dataset_size)
    if q == 1:
        return _sampled(event.event, 1.0, relation, count)
    law = SymmetricSubsample(2 * math.sqrt(square), q)
    return [Use(law, law, count)]
