"""The event of a group of k records, all added or all removed: privacy of users who have up to k records each.

    Gaussian, Laplace, log-concave noise    k times the sensitivity
    Poisson-sampled Gaussians               a mixture of Gaussians with sensitivities 0, ..., k and binomial weights (Ganesh 2024)
    exponential mechanism, permute-and-flip the range, k times as long
    rho-zCDP                                k^2 rho
    a profile, (epsilon, delta)-DP          delta_k(k eps) <= (1 + e^eps + ... + e^{(k-1) eps}) delta(eps)
    a selection                             of the runs of the group

Everything else is refused with a sentence. Numbers are rounded to the safe side.
"""

from __future__ import annotations

import fractions
import math
import sys
from collections.abc import Callable
from typing import Any

import attr
from dp_accounting import dp_event

from dp_edgeworth import validation
from dp_edgeworth.events import available
from dp_edgeworth.events.tree import leaves

_LARGEST_SAMPLED_GROUP = 1000


def for_groups(event: dp_event.DpEvent, size: int) -> dp_event.DpEvent:
    """The event for groups of `size` records under ADD_OR_REMOVE_ONE.

    Args:
      event: of one record.
      size: how many records a group has, all of them added or all removed; groups of fewer records are covered, too.

    Raises:
      ValueError: nothing is known here about groups for one of the mechanisms.

    >>> import dp_accounting as dpa
    >>> for_groups(dpa.SelfComposedDpEvent(dpa.ZCDpEvent(0.01), 3), 2)
    SelfComposedDpEvent(event=ZCDpEvent(rho=0.04, xi=0.0), count=3)
    """
    k = validation.integer("size", size, 1)
    validation.of_kind("event", event, dp_event.DpEvent, "a `DpEvent`")
    return event if k == 1 else _grouped(event, k)


def _grouped(event: Any, k: int) -> dp_event.DpEvent:
    if isinstance(event, dp_event.ComposedDpEvent):
        return dp_event.ComposedDpEvent([_grouped(part, k) for part in event.events])
    name = type(event).__name__
    if isinstance(event, dp_event.SelfComposedDpEvent | dp_event.RepeatAndSelectDpEvent):
        return attr.evolve(event, event=_grouped(event.event, k))
    if name not in _RULES:
        raise ValueError(f"`event` must consist of mechanisms whose loss for groups is known (see `for_groups`). Found `{name}`.")
    return _RULES[name](event, k)


def _times(value: float, factor: int) -> float:
    """The product of a number >= 0, rounded up."""
    if math.isinf(value):
        return value
    exact = fractions.Fraction(value) * factor
    if exact > sys.float_info.max:
        return math.inf
    return float(exact) if float(exact) >= exact else math.nextafter(float(exact), math.inf)


def _less_noise(event: Any, k: int) -> dp_event.DpEvent:
    noise = validation.at_least_zero("noise_multiplier", event.noise_multiplier) / k
    return attr.evolve(event, noise_multiplier=math.nextafter(noise, 0.0) if math.isfinite(noise) else noise)


def _more_sensitive(event: Any, k: int) -> dp_event.DpEvent:
    whole = isinstance(event.sensitivity, int)
    return attr.evolve(event, sensitivity=event.sensitivity * k if whole else _times(float(event.sensitivity), k))


def _longer_range(event: Any, k: int) -> dp_event.DpEvent:
    return attr.evolve(event, epsilon=_times(validation.at_least_zero("epsilon", event.epsilon), k))


def _zcdp(event: dp_event.ZCDpEvent, k: int) -> dp_event.DpEvent:
    if event.xi:
        raise ValueError(f"`xi` must be 0 for groups: nothing is known here otherwise. Found {validation.shown(event.xi)}.")
    return attr.evolve(event, rho=_times(validation.at_least_zero("rho", event.rho), k * k))


def _growth(eps: float, k: int) -> float:
    """1 + e^eps + ... + e^{(k-1) eps} = (e^{k eps} - 1) / (e^eps - 1), rounded up."""
    whole = _times(eps, k)  # the last bit of an exponent of 700 is 1e-13 of the power
    if whole > 700.0:
        return math.inf
    return (k if eps == 0.0 else math.expm1(whole) / math.expm1(eps)) * (1.0 + 1e-15)


def _grown(delta: float, eps: float, k: int) -> float:
    return min(math.nextafter(delta * _growth(eps, k), math.inf), 1.0) if delta else 0.0


def _epsilon_delta(event: Any, k: int) -> dp_event.DpEvent:
    eps, delta = validation.at_least_zero("epsilon", event.epsilon), validation.probability("delta", event.delta)
    return attr.evolve(event, epsilon=_times(eps, k), delta=_grown(delta, eps, k))


def _profile(event: Any, k: int) -> dp_event.DpEvent:
    points = [(eps, delta) for eps, delta in zip(event.epsilons, event.deltas, strict=True) if eps >= 0.0]
    if not points:
        raise ValueError(f"`epsilons` must have one that is not negative for groups. Found {validation.shown(event.epsilons)}.")
    return type(event)([_times(eps, k) for eps, _ in points], [_grown(delta, eps, k) for eps, delta in points])


def _sampled(event: dp_event.PoissonSampledDpEvent, k: int) -> dp_event.DpEvent:
    """Gaussians of combined noise; every record of the group enters the sample by itself."""
    share, inner = fractions.Fraction(1), event
    while isinstance(inner, dp_event.PoissonSampledDpEvent):
        share *= fractions.Fraction(validation.probability("sampling_probability", inner.sampling_probability))
        inner = inner.event
    if share == 1:
        return _grouped(inner, k)
    precision = fractions.Fraction(0)
    for leaf, count in leaves(inner):
        if not isinstance(leaf, dp_event.GaussianDpEvent) or not 0.0 < leaf.noise_multiplier < math.inf:
            raise ValueError("`PoissonSampledDpEvent` must have Gaussians inside for groups, with positive and finite noise. "
                             f"Found {validation.shown(leaf)}.")
        precision += count / fractions.Fraction(float(leaf.noise_multiplier)) ** 2
    if k > _LARGEST_SAMPLED_GROUP:
        raise ValueError(f"`size` must be at most {_LARGEST_SAMPLED_GROUP} where records are sampled. Found {k}.")
    if not precision or not share:
        return dp_event.NoOpDpEvent()
    noise = _inverse_root(precision)
    weights = [float(math.comb(k, j) * share**j * (1 - share) ** (k - j)) for j in range(k + 1)]
    return available.MixtureOfGaussiansDpEvent(noise, [float(j) for j in range(k + 1)], weights)


def _inverse_root(number: fractions.Fraction) -> float:
    """1 / sqrt(number), rounded down, from 64 of its bits; `number` itself need be no float."""
    bits = 64 + (number.numerator.bit_length() - number.denominator.bit_length()) // 2
    return math.nextafter(math.ldexp(math.isqrt(math.floor(fractions.Fraction(4) ** bits / number)), -bits), 0.0)


def _same(event: Any, k: int) -> dp_event.DpEvent:
    return event


_RULES: dict[str, Callable[[Any, int], dp_event.DpEvent]] = {
    "NoOpDpEvent": _same, "NonPrivateDpEvent": _same,
    "GaussianDpEvent": _less_noise, "LaplaceDpEvent": _less_noise,
    "DiscreteLaplaceDpEvent": _more_sensitive, "DiscreteGaussianDpEvent": _more_sensitive, "AdditiveNoiseDpEvent": _more_sensitive,
    "ExponentialMechanismDpEvent": _longer_range, "PermuteAndFlipDpEvent": _longer_range,
    "ZCDpEvent": _zcdp, "EpsilonDeltaDpEvent": _epsilon_delta, "ProfileDpEvent": _profile, "PoissonSampledDpEvent": _sampled,
}
