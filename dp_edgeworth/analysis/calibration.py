"""Calibration of any family of events with one free parameter.

>>> import dp_accounting as dpa
>>> def make_event(scale):
...     return dpa.ComposedDpEvent([dpa.LaplaceDpEvent(scale), dpa.GaussianDpEvent(5.0)])
>>> round(calibrate_mechanism(make_event, bracket=(0.1, 100.0), target_epsilon=2.0, target_delta=1e-6), 4)
0.8359
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.accountants.accountant import EdgeworthIntervalAccountant
from dp_edgeworth.analysis.budgets import Budget, BudgetError, budget_of
from dp_edgeworth.analysis.progress import progress as progress_line


class _Point(NamedTuple):
    parameter: float
    excess: float


def calibrate_mechanism(make_event: Callable[[float], dp_event.DpEvent], *, bracket: tuple[float, float],
                        target_epsilon: float | None = None, target_delta: float | None = None,
                        target_advantage: float | None = None, target_true_positive_rate: float | None = None,
                        false_positive_rate: float | None = None, discrete: bool = False, tol: float = 1e-6,
                        neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
                        progress: bool | None = None) -> float:
    """The parameter nearest to the end of the budget that is certified to stay within it.

    The loss must grow, or fall, with the parameter over the whole bracket; which of both is found out. Where it does neither, the
    answer is still certified, but need not be the nearest one.

    Args:
      make_event: the event of a parameter.
      bracket: two parameters, one within the budget and one beyond it.
      target_epsilon, target_delta, target_advantage, target_true_positive_rate, false_positive_rate: the budget, as for
        `calibrate_noise`.
      discrete: whether parameters are integers; then the answer is one.
      tol: how far the answer may be from the end of the budget, relative to the parameter.
      neighboring_relation: how neighbouring data sets differ.
      progress: whether to show a line of progress after two seconds; by default on a terminal.

    Raises:
      BudgetError: both ends of the bracket are within the budget, or neither is.
    """
    low, high = (validation.finite(f"bracket[{i}]", end) for i, end in enumerate(bracket))
    if not low < high:
        raise ValueError(f"`bracket` must be two increasing numbers. Found {validation.shown(bracket)}.")
    budget = budget_of(target_epsilon, target_delta, target_advantage, target_true_positive_rate, false_positive_rate)
    relation, tol = validation.relation(neighboring_relation), validation.positive("tol", tol)
    if discrete:
        low, high = math.ceil(low), math.floor(high)

    with progress_line("calibrate_mechanism", wanted=progress) as advance:
        def point(parameter: float) -> _Point:
            advance(1)
            return _Point(parameter, budget.excess(EdgeworthIntervalAccountant(relation).compose(make_event(parameter))))

        kept, beyond = _ends(point(low), point(high), budget)
        return (_integer_end if discrete else _end)(point, kept, beyond, tol)


def _ends(low: _Point, high: _Point, budget: Budget) -> tuple[_Point, _Point]:
    """The end that keeps the budget, and the other one."""
    if (low.excess <= 0.0) == (high.excess <= 0.0):
        where = "within" if low.excess <= 0.0 else "beyond"
        raise BudgetError(f"`bracket` must have one end within {budget} and one beyond it. "
                          f"Found both {where}: {low.parameter:g} and {high.parameter:g}.")
    return (low, high) if low.excess <= 0.0 else (high, low)


def _end(point: Callable[[float], _Point], kept: _Point, beyond: _Point, tol: float) -> float:
    """Secants where both values are finite and the last one at least halved the interval, else bisection."""
    halve = False
    while abs(kept.parameter - beyond.parameter) > tol * max(abs(kept.parameter), abs(beyond.parameter), 1e-300):
        width = beyond.parameter - kept.parameter
        share = 0.5
        if not halve and math.isfinite(kept.excess) and math.isfinite(beyond.excess):
            share = kept.excess / (kept.excess - beyond.excess)
            margin = min(0.4 * tol * abs(kept.parameter / width), 0.25)  # so that the other end follows
            share = min(max(share, margin), 1.0 - margin)
        middle = kept.parameter + share * width
        if middle in (kept.parameter, beyond.parameter):
            break
        found = point(middle)
        kept, beyond = (found, beyond) if found.excess <= 0.0 else (kept, found)
        halve = abs(beyond.parameter - kept.parameter) > 0.5 * abs(width)
    return kept.parameter


def _integer_end(point: Callable[[float], _Point], kept: _Point, beyond: _Point, tol: float) -> int:
    while abs(kept.parameter - beyond.parameter) > 1:
        found = point(int(kept.parameter + beyond.parameter) // 2)
        kept, beyond = (found, beyond) if found.excess <= 0.0 else (kept, found)
    return int(kept.parameter)
