"""What may be spent: an (epsilon, delta), an attacker's advantage, or a true positive rate at a false positive rate.

A budget judges an accountant by proved bounds only.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, TypedDict

from dp_edgeworth import validation
from dp_edgeworth.accountants.accountant import EdgeworthIntervalAccountant
from dp_edgeworth.analysis import risk

if TYPE_CHECKING:
    from typing_extensions import Unpack


class BudgetError(ValueError):
    """No value of the parameter stays within the budget, or every one does."""


class Targets(TypedDict, total=False):
    """The keywords by which a budget is given: one of the three ways, complete."""

    target_epsilon: float | None
    target_delta: float | None
    target_advantage: float | None
    target_true_positive_rate: float | None
    false_positive_rate: float | None


@dataclasses.dataclass(frozen=True)
class Budget:
    """How much of what may be spent; `words` are the targets with their names."""

    words: str
    allowed: float
    spent: Callable[[EdgeworthIntervalAccountant], float]

    def excess(self, accountant: EdgeworthIntervalAccountant) -> float:
        """log of what is spent over what may be, about linear in log noise: at most 0 exactly where the budget is kept."""
        found = self.spent(accountant)
        usual = 0.0 < min(found, self.allowed) and max(found, self.allowed) < math.inf
        size = abs(math.log(found) - math.log(self.allowed)) if usual else math.inf
        return max(size, 5e-324) if found > self.allowed else -size

    def __str__(self) -> str:
        return self.words


def budget_of(**budget: Unpack[Targets]) -> Budget:
    """The one budget that was given.

    Raises:
      TypeError: a keyword is not one of `Targets`.
      ValueError: none or more than one was given, or a target is out of range.
      BudgetError: no mechanism at all keeps it.
    """
    for name in budget:
        if name not in Targets.__annotations__:
            raise TypeError(f"`{name}` must be one of the function's own keywords or of {', '.join(Targets.__annotations__)}.")
    target_epsilon, target_delta, target_advantage, true_rate, false_rate = map(budget.get, Targets.__annotations__)
    pairs = (target_epsilon, target_delta), (target_advantage,), (true_rate, false_rate)
    given = [any(value is not None for value in pair) for pair in pairs]
    if sum(given) != 1 or None in pairs[given.index(True)]:
        raise ValueError("Exactly one budget must be given: `target_epsilon` and `target_delta`, `target_advantage`, or "
                         "`target_true_positive_rate` and `false_positive_rate`.")
    if given[0]:
        epsilon = validation.at_least_zero("target_epsilon", target_epsilon)
        delta = validation.probability("target_delta", target_delta)
        return Budget(f"`target_epsilon` {epsilon:g} at `target_delta` {delta:g}", epsilon,
                      lambda accountant: accountant.get_epsilon(delta))
    if given[1]:
        advantage = validation.probability("target_advantage", target_advantage)
        return Budget(f"`target_advantage` {advantage:g}", advantage, lambda accountant: accountant.get_advantage())
    true = validation.probability("target_true_positive_rate", true_rate)
    false = validation.probability("false_positive_rate", false_rate)
    if true < false:
        raise BudgetError(f"`target_true_positive_rate` must be at least `false_positive_rate`, {false:g}: guessing has that. "
                          f"Found {true:g}.")
    return Budget(f"`target_true_positive_rate` {true:g} at `false_positive_rate` {false:g}", true,
                  lambda accountant: float(risk.true_positive_rates(accountant, false)))
