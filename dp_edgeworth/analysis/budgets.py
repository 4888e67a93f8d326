"""What may be spent: an (epsilon, delta), an attacker's advantage, or a true positive rate at a false positive rate.

A budget judges an accountant by proved bounds only. `excess` is the logarithm of what is spent over what may be, so that it is about
linear in the logarithm of noise; it is at most 0 exactly where the budget is kept.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Protocol

from dp_edgeworth import validation
from dp_edgeworth.accountants.accountant import EdgeworthIntervalAccountant
from dp_edgeworth.analysis import risk


class BudgetError(ValueError):
    """No value of the parameter stays within the budget, or every one does."""


class Budget(Protocol):
    """What `planning` asks of a budget."""

    def excess(self, accountant: EdgeworthIntervalAccountant) -> float:
        """At most 0 exactly where the budget is kept."""

    def __str__(self) -> str:
        """For messages: the targets with their names."""


@dataclasses.dataclass(frozen=True)
class EpsilonBudget:
    """epsilon at delta."""

    epsilon: float
    delta: float

    def excess(self, accountant: EdgeworthIntervalAccountant) -> float:
        return _log_ratio(accountant.get_epsilon(self.delta), self.epsilon)

    def __str__(self) -> str:
        return f"`target_epsilon` {self.epsilon:g} at `target_delta` {self.delta:g}"


@dataclasses.dataclass(frozen=True)
class AdvantageBudget:
    """The largest 1 - alpha - beta of any attack: delta at epsilon 0."""

    advantage: float

    def excess(self, accountant: EdgeworthIntervalAccountant) -> float:
        return _log_ratio(accountant.get_advantage(), self.advantage)

    def __str__(self) -> str:
        return f"`target_advantage` {self.advantage:g}"


@dataclasses.dataclass(frozen=True)
class DetectionBudget:
    """The largest true positive rate of any attack with a false positive rate."""

    true_positive_rate: float
    false_positive_rate: float

    def excess(self, accountant: EdgeworthIntervalAccountant) -> float:
        return _log_ratio(risk.true_positive_rates(accountant, self.false_positive_rate), self.true_positive_rate)

    def __str__(self) -> str:
        return f"`target_true_positive_rate` {self.true_positive_rate:g} at `false_positive_rate` {self.false_positive_rate:g}"


def budget_of(target_epsilon: float | None = None, target_delta: float | None = None, target_advantage: float | None = None,
              target_true_positive_rate: float | None = None, false_positive_rate: float | None = None) -> Budget:
    """The one budget that was given.

    Raises:
      ValueError: none or more than one was given, or a target is out of range.
      BudgetError: no mechanism at all keeps it.
    """
    pairs = (target_epsilon, target_delta), (target_advantage,), (target_true_positive_rate, false_positive_rate)
    given = [any(value is not None for value in pair) for pair in pairs]
    if sum(given) != 1 or None in pairs[given.index(True)]:
        raise ValueError("Exactly one budget must be given: `target_epsilon` and `target_delta`, `target_advantage`, or "
                         "`target_true_positive_rate` and `false_positive_rate`.")
    if given[0]:
        return EpsilonBudget(validation.at_least_zero("target_epsilon", target_epsilon),
                             validation.probability("target_delta", target_delta))
    if given[1]:
        return AdvantageBudget(validation.probability("target_advantage", target_advantage))
    true = validation.probability("target_true_positive_rate", target_true_positive_rate)
    false = validation.probability("false_positive_rate", false_positive_rate)
    if true < false:
        raise BudgetError(f"`target_true_positive_rate` must be at least `false_positive_rate`, {false:g}: guessing has that. "
                          f"Found {true:g}.")
    return DetectionBudget(true, false)


def _log_ratio(found: float, target: float) -> float:
    """log of found over target where both are positive and finite; its sign is right always."""
    usual = 0.0 < min(found, target) and max(found, target) < math.inf
    size = abs(math.log(found) - math.log(target)) if usual else math.inf
    return max(size, 5e-324) if found > target else -size
