"""The face of dp-accounting's `PrivacyLossDistribution` over certified compositions, for code that uses it and not an accountant.

    from dp_edgeworth import pld as privacy_loss_distribution     # instead of: from dp_accounting.pld import privacy_loss_distribution

>>> training = from_gaussian_mechanism(1.0, sampling_prob=0.01).self_compose(1_000)
>>> round(training.compose(from_laplace_mechanism(2.0)).get_epsilon_for_delta(1e-5), 4)
2.2439

Numbers are proved upper bounds, and with `pessimistic_estimate=False` proved lower ones. What only makes sense for a grid of losses
(`value_discretization_interval`, `use_connect_dots`, truncation bounds) is taken and ignored. Losses of different neighboring relations
are refused, which dp-accounting composes without a word.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any, overload

import attr
import numpy as np
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation, UnsupportedEventError

from dp_edgeworth import validation
from dp_edgeworth.accountants.accountant import EdgeworthIntervalAccountant
from dp_edgeworth.events import available
from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.mechanisms import Directions, register_mechanism
from dp_edgeworth.losses.operations import reverse
from dp_edgeworth.losses.pllr import Pllr

AR, RO = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE
_LEAST_LOG = -700.0  # of a mass that is a float with all its digits


@dataclasses.dataclass(frozen=True)
class PrivacyLossDistribution:
    """A composition of privacy losses.

    Attributes:
      parts: (event, count), in the order in which they were composed.
      neighboring_relation: of all of them; None where nothing was composed yet.
      pessimistic_estimate: whether answers are upper bounds, or lower ones.
    """

    parts: tuple[tuple[dp_event.DpEvent, int], ...] = ()
    neighboring_relation: NeighboringRelation | None = None
    pessimistic_estimate: bool = True

    def compose(self, privacy_loss_distribution: PrivacyLossDistribution, tail_mass_truncation: float = 0.0) -> PrivacyLossDistribution:
        """Both after one another."""
        other = privacy_loss_distribution
        self.validate_composable(other)
        return PrivacyLossDistribution(self.parts + other.parts, self.neighboring_relation or other.neighboring_relation,
                                       self.pessimistic_estimate)

    def self_compose(self, num_times: int, tail_mass_truncation: float = 0.0) -> PrivacyLossDistribution:
        """The same `num_times`."""
        times = validation.integer("num_times", num_times, 1)
        return dataclasses.replace(self, parts=tuple((event, count * times) for event, count in self.parts))

    def validate_composable(self, privacy_loss_distribution: PrivacyLossDistribution) -> None:
        """Raises ValueError where two cannot be composed."""
        other = privacy_loss_distribution
        if not isinstance(other, PrivacyLossDistribution):
            raise ValueError("`privacy_loss_distribution` must be made by `dp_edgeworth.pld`. "
                             f"Found a `{type(other).__name__}`.")
        relations = {self.neighboring_relation, other.neighboring_relation} - {None}
        if len(relations) > 1:
            raise ValueError("`privacy_loss_distribution` must have the neighboring relation "
                             f"{self.neighboring_relation.name}. "  # type: ignore[union-attr]
                             f"Found {other.neighboring_relation.name}.")  # type: ignore[union-attr]
        if self.pessimistic_estimate != other.pessimistic_estimate:
            raise ValueError("`privacy_loss_distribution` must have `pessimistic_estimate` "
                             f"{self.pessimistic_estimate}. Found {other.pessimistic_estimate}.")

    @overload
    def get_epsilon_for_delta(self, delta: float) -> float: ...

    @overload
    def get_epsilon_for_delta(self, delta: np.ndarray | Sequence[float]) -> np.ndarray: ...

    def get_epsilon_for_delta(self, delta: Any) -> Any:
        """epsilon at `delta`: a proved upper bound, or lower with `pessimistic_estimate=False`; an array for an array."""
        interval = self.accountant().get_epsilon_interval(delta)
        return interval.upper if self.pessimistic_estimate else interval.lower

    @overload
    def get_delta_for_epsilon(self, epsilon: float) -> float: ...

    @overload
    def get_delta_for_epsilon(self, epsilon: np.ndarray | Sequence[float]) -> np.ndarray: ...

    def get_delta_for_epsilon(self, epsilon: Any) -> Any:
        """delta at `epsilon`, on the same side; an array for an array. `epsilon` must be at least 0."""
        interval = self.accountant().get_delta_interval(validation.array_in("epsilon", epsilon, 0.0, math.inf))
        return interval.upper if self.pessimistic_estimate else interval.lower

    def get_delta_for_epsilon_for_composed_pld(self, privacy_loss_distribution: PrivacyLossDistribution, epsilon: Any) -> Any:
        """`compose` and `get_delta_for_epsilon` in one."""
        return self.compose(privacy_loss_distribution).get_delta_for_epsilon(epsilon)

    def accountant(self) -> EdgeworthIntervalAccountant:
        """The accountant behind it: for intervals, statements and reports."""
        accountant = EdgeworthIntervalAccountant(self.neighboring_relation or AR)
        for event, count in self.parts:
            accountant.compose(event, count)
        return accountant


def identity(value_discretization_interval: float = 1e-4, pessimistic_estimate: bool = True) -> PrivacyLossDistribution:
    """Nothing is lost; composes with anything."""
    return PrivacyLossDistribution(pessimistic_estimate=pessimistic_estimate)


def from_gaussian_mechanism(standard_deviation: float, sensitivity: float = 1, pessimistic_estimate: bool = True,
                            value_discretization_interval: float = 1e-4, log_mass_truncation_bound: float = -50,
                            sampling_prob: float = 1.0, use_connect_dots: bool = True,
                            neighboring_relation: NeighboringRelation = AR) -> PrivacyLossDistribution:
    """Gaussian noise of this standard deviation, on Poisson samples where `sampling_prob` is below 1."""
    noise = _noise("standard_deviation", standard_deviation, sensitivity)
    return _sampled(dp_event.GaussianDpEvent(noise), sampling_prob, neighboring_relation, pessimistic_estimate)


def from_laplace_mechanism(parameter: float, sensitivity: float = 1, pessimistic_estimate: bool = True,
                           value_discretization_interval: float = 1e-4, sampling_prob: float = 1.0,
                           use_connect_dots: bool = True) -> PrivacyLossDistribution:
    """Laplace noise of scale `parameter`."""
    noise = _noise("parameter", parameter, sensitivity)
    return _sampled(dp_event.LaplaceDpEvent(noise), sampling_prob, AR, pessimistic_estimate)


def from_discrete_laplace_mechanism(parameter: float, sensitivity: int = 1, pessimistic_estimate: bool = True,
                                    value_discretization_interval: float = 1e-4, sampling_prob: float = 1.0,
                                    use_connect_dots: bool = False) -> PrivacyLossDistribution:
    """Noise on the integers with probabilities proportional to exp(-parameter |x|)."""
    event = available.DiscreteLaplaceDpEvent(validation.positive("parameter", parameter), sensitivity)
    return _sampled(event, sampling_prob, AR, pessimistic_estimate)


def from_discrete_gaussian_mechanism(sigma: float, sensitivity: int = 1, truncation_bound: int | None = None,
                                     pessimistic_estimate: bool = True, value_discretization_interval: float = 1e-4,
                                     sampling_prob: float = 1.0, use_connect_dots: bool = False) -> PrivacyLossDistribution:
    """Noise on the integers with probabilities proportional to exp(-x^2 / (2 sigma^2)); a truncation bound is ignored."""
    event_class = getattr(dp_event, "DiscreteGaussianDpEvent", None)
    if event_class is None:
        raise UnsupportedEventError("`DiscreteGaussianDpEvent` needs a newer dp-accounting than the one that is installed.")
    return _sampled(event_class(validation.positive("sigma", sigma), sensitivity), sampling_prob, AR, pessimistic_estimate)


def from_mixture_gaussian_mechanism(standard_deviation: float, sensitivities: Sequence[float], sampling_probs: Sequence[float],
                                    pessimistic_estimate: bool = True, value_discretization_interval: float = 1e-4,
                                    log_mass_truncation_bound: float = -50, use_connect_dots: bool = True) -> PrivacyLossDistribution:
    """Gaussian noise around a random sensitivity."""
    event = available.MixtureOfGaussiansDpEvent(standard_deviation, list(sensitivities), list(sampling_probs))
    return _of(event, AR, pessimistic_estimate)


def from_truncated_subsampled_gaussian_mechanism(
        dataset_size: int, sampling_probability: float, truncated_batch_size: int, noise_multiplier: float,
        value_discretization_interval: float = 1e-4, log_mass_truncation_bound: float = -50, use_connect_dots: bool = True,
        neighboring_relation: NeighboringRelation = AR) -> PrivacyLossDistribution:
    """Gaussian noise on Poisson samples that are cut to a largest size."""
    event = available.TruncatedSubsampledGaussianDpEvent(dataset_size, sampling_probability, truncated_batch_size, noise_multiplier)
    return _of(event, neighboring_relation, True)


def from_randomized_response(noise_parameter: float, num_buckets: int, pessimistic_estimate: bool = True,
                             value_discretization_interval: float = 1e-4,
                             neighboring_relation: NeighboringRelation = RO) -> PrivacyLossDistribution:
    """The record's bucket, or with probability `noise_parameter` a uniform one."""
    event = available.RandomizedResponseDpEvent(noise_parameter, num_buckets)
    return _of(event, neighboring_relation, pessimistic_estimate)


def from_privacy_parameters(privacy_parameters: Any, value_discretization_interval: float = 1e-4) -> PrivacyLossDistribution:
    """The worst of what is known by an (epsilon, delta) only: `privacy_parameters` has both as attributes."""
    epsilon = validation.at_least_zero("epsilon", privacy_parameters.epsilon)
    delta = validation.probability("delta", privacy_parameters.delta)
    if math.isinf(epsilon) or delta == 1.0:
        return _of(dp_event.NonPrivateDpEvent(), AR, True)
    high = (1.0 - delta) / (1.0 + math.exp(-epsilon))
    low = (1.0 - delta) * math.exp(-epsilon) / (1.0 + math.exp(-epsilon))
    masses = (0.0, low, high, delta)
    return _of_masses(masses, masses[::-1], True, True, (math.inf, epsilon, -epsilon, -math.inf))


def from_two_probability_mass_functions(
        log_probability_mass_function_lower: Mapping[Any, float], log_probability_mass_function_upper: Mapping[Any, float],
        pessimistic_estimate: bool = True, value_discretization_interval: float = 1e-4,
        log_mass_truncation_bound: float = -math.inf, symmetric: bool = True) -> PrivacyLossDistribution:
    """Two laws on the same outcomes, as logarithms of probabilities.

    `symmetric`: both directions have the loss of upper against lower; otherwise they are the two orders of the laws.
    """
    lower, upper = log_probability_mass_function_lower, log_probability_mass_function_upper
    outcomes = list(dict.fromkeys([*lower, *upper]))
    logs = [[float(law.get(outcome, -math.inf)) for outcome in outcomes] for law in (lower, upper)]
    masses = [tuple(math.exp(log) for log in law) for law in logs]
    losses = None
    if any(-math.inf < log < _LEAST_LOG for law in logs for log in law):  # a mass that is no float is not 0
        losses = tuple(0.0 if below == above else above - below for below, above in zip(*logs, strict=True))
    return _of_masses(masses[0], masses[1], symmetric, pessimistic_estimate, losses)


@attr.s(frozen=True, slots=True, auto_attribs=True)
class MassFunctionsDpEvent(dp_event.DpEvent):
    """Two laws on finitely many outcomes."""

    lower: tuple[float, ...]
    upper: tuple[float, ...]
    symmetric: bool
    losses: tuple[float, ...] | None = None


@register_mechanism(MassFunctionsDpEvent)
def _mass_functions(event: MassFunctionsDpEvent, relation: NeighboringRelation) -> Directions:
    pair: Pllr = Atoms(event.lower, event.upper) if event.losses is None else Atoms(event.lower, event.upper, losses=event.losses)
    return Directions(pair, pair if event.symmetric else reverse(pair))


def _of_masses(lower: tuple[float, ...], upper: tuple[float, ...], symmetric: bool, pessimistic: bool,
               losses: tuple[float, ...] | None = None) -> PrivacyLossDistribution:
    return _of(MassFunctionsDpEvent(lower, upper, symmetric, losses), AR, pessimistic)


def _noise(name: str, value: float, sensitivity: float) -> float:
    return validation.positive(name, value) / validation.positive("sensitivity", sensitivity)


def _of(event: dp_event.DpEvent, relation: NeighboringRelation, pessimistic: bool) -> PrivacyLossDistribution:
    return PrivacyLossDistribution(((event, 1),), validation.relation(relation), pessimistic)


def _sampled(event: dp_event.DpEvent, probability: float, relation: NeighboringRelation, pessimistic: bool) -> PrivacyLossDistribution:
    if validation.probability("sampling_prob", probability) < 1.0:
        event = dp_event.PoissonSampledDpEvent(probability, event)
    return _of(event, relation, pessimistic)
