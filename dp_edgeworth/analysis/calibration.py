"""Where a budget ends: the one solver of everything that is calibrated, and calibration of any family with one free parameter.

>>> import dp_accounting as dpa
>>> def make_event(scale):
...     return dpa.ComposedDpEvent([dpa.LaplaceDpEvent(scale), dpa.GaussianDpEvent(5.0)])
>>> round(calibrate_mechanism(make_event, bracket=(0.1, 100.0), target_epsilon=2.0, target_delta=1e-6), 4)
0.8359
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.accountants.accountant import EdgeworthIntervalAccountant
from dp_edgeworth.analysis.budgets import BudgetError, Targets, budget_of
from dp_edgeworth.analysis.progress import progress as progress_line

if TYPE_CHECKING:
    from typing_extensions import Unpack

Excess = Callable[[Any], float]
"""How far a parameter is beyond the budget: at most 0 where it is kept."""


class Point(NamedTuple):
    """A parameter, and how far it is beyond the budget."""

    parameter: float
    excess: float

    @property
    def kept(self) -> bool:
        return self.excess <= 0.0


def bracket_from(excess: Excess, start: Point, factor: float, last: float) -> tuple[Point, Point] | None:
    """Neighbours of start, start factor, start factor^2, ... of which one keeps the budget, the other not; None up to `last`."""
    here = start
    while (here.parameter - last) * (factor - 1.0) < 0.0:
        parameter = type(start.parameter)(here.parameter * factor)
        before, here = here, Point(parameter, excess(parameter))
        if here.kept != start.kept:
            return before, here
    return None


def end_of_budget(excess: Excess, one: Point, other: Point, *, absolute: float = 0.0, relative: float = 0.0,
                  whole: bool = False) -> Any:
    """The parameter that keeps the budget and is so near to one that does not; of the two that are given one does.

    Secants where both excesses are finite, the excess of an end that stays being halved (the Illinois method), every fourth time and
    elsewhere bisection; in logarithms of parameters where both are positive. `whole`: only integers.
    """
    kept, beyond = (one, other) if one.kept else (other, one)
    weight, steps = 0.0, 0  # of the end that stays: how often it did
    while True:
        low, high = sorted((kept.parameter, beyond.parameter))
        tolerance = 1.0 if whole else max(absolute, relative * max(abs(low), abs(high)))
        if high - low <= tolerance:
            return kept.parameter
        between = _between(kept, beyond, weight, bisect=steps % 4 == 3)
        # So far from both ends that the other one follows once one is next to the root.
        margin = 1 if whole else min(0.4 * tolerance, 0.25 * (high - low))
        between = min(max(round(between) if whole else between, low + margin), high - margin)
        if not low < between < high:
            between = 0.5 * (low + high)
        if not low < between < high:
            return kept.parameter
        found, steps = Point(between, excess(between)), steps + 1
        if found.kept:
            kept, weight = found, max(weight, 0.0) + 1.0
        else:
            beyond, weight = found, min(weight, 0.0) - 1.0


def _between(kept: Point, beyond: Point, weight: float, bisect: bool) -> float:
    """The next parameter to try; `weight`: how often the end beyond the budget stayed, or, negative, the other one."""
    share = 0.5
    if not bisect and math.isfinite(kept.excess) and math.isfinite(beyond.excess):
        inside, outside = kept.excess * 0.5 ** max(-weight - 1.0, 0.0), beyond.excess * 0.5 ** max(weight - 1.0, 0.0)
        share = inside / (inside - outside) if inside < outside else 0.5
    if min(kept.parameter, beyond.parameter) > 0.0:
        return kept.parameter * (beyond.parameter / kept.parameter) ** share
    return kept.parameter + share * (beyond.parameter - kept.parameter)


def calibrate_mechanism(make_event: Callable[[Any], dp_event.DpEvent], *, bracket: tuple[float, float], discrete: bool = False,
                        tol: float = 1e-6, neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
                        progress: bool | None = None, **budget: Unpack[Targets]) -> float:
    """The parameter nearest to the end of the budget that is certified to stay within it.

    The loss must grow, or fall, with the parameter over the whole bracket; which of both is found out. Where it does neither, the
    answer is still certified, but need not be the nearest one.

    Args:
      make_event: the event of a parameter.
      bracket: two parameters, one within the budget and one beyond it.
      discrete: whether parameters are integers; then the answer is one.
      tol: how far the answer may be from the end of the budget, relative to the parameter.
      neighboring_relation: how neighbouring data sets differ.
      progress: whether to show a line of progress after two seconds; by default on a terminal.
      **budget: `target_epsilon` and `target_delta`, or `target_advantage`, or `target_true_positive_rate` and `false_positive_rate`,
        as for `calibrate_noise`.

    Raises:
      BudgetError: both ends of the bracket are within the budget, or neither is.
    """
    low, high = (validation.finite(f"bracket[{i}]", end) for i, end in enumerate(validation.sequence("bracket", bracket, length=2)))
    if not low < high:
        raise ValueError(f"`bracket` must be two increasing numbers. Found {validation.shown(bracket)}.")
    validation.of_kind("make_event", make_event, Callable, "a function of the parameter")
    allowed = budget_of(**budget)
    relation, tol = validation.relation(neighboring_relation), validation.positive("tol", tol)
    if validation.flag("discrete", discrete):
        low, high = math.ceil(low), math.floor(high)

    with progress_line("calibrate_mechanism", wanted=progress) as advance:
        def excess(parameter: float) -> float:
            advance(1)
            return allowed.excess(EdgeworthIntervalAccountant(relation).compose(make_event(parameter)))

        ends = Point(low, excess(low)), Point(high, excess(high))
        if ends[0].kept == ends[1].kept:
            where = "within" if ends[0].kept else "beyond"
            raise BudgetError(f"`bracket` must have one end within {allowed} and one beyond it. "
                              f"Found both {where}: {low:g} and {high:g}.")
        found: float = end_of_budget(excess, *ends, relative=tol, whole=discrete)
        return found
