"""Questions in one call: how much noise, how many steps, how large a batch, within a budget of (epsilon, delta) or of risk.

>>> round(calibrate_noise(target_epsilon=2.0, target_delta=1e-6, batch_size=256, dataset_size=60_000, epochs=10), 4)
0.8357
>>> round(calibrate_noise(target_true_positive_rate=0.1, false_positive_rate=0.01, sampling_probability=0.01, steps=1_000), 3)
0.633
>>> max_steps(target_epsilon=2.0, target_delta=1e-6, noise_multiplier=1.0, sampling_probability=0.01)
874
>>> round(max_sampling_probability(target_epsilon=2.0, target_delta=1e-6, noise_multiplier=1.0, steps=2_000), 5)
0.00696

Every answer is checked with the certified accountant: at the value returned, the proved upper bound of what is spent is within
the budget.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.accountants.accountant import EdgeworthIntervalAccountant
from dp_edgeworth.analysis.budgets import BudgetError, Targets, budget_of
from dp_edgeworth.analysis.calibration import Point, bracket_from, end_of_budget
from dp_edgeworth.analysis.progress import progress as progress_line

if TYPE_CHECKING:
    from typing_extensions import Unpack

__all__ = ["BudgetError", "calibrate_noise", "max_sampling_probability", "max_steps", "number_of_steps", "sampled_gaussian", "sampling"]

_RELATION = NeighboringRelation.ADD_OR_REMOVE_ONE
_MOST_STEPS = 10**15
_MOST_NOISE = 1e15
_LEAST_PROBABILITY = 1e-12


def sampled_gaussian(sampling_probability: float, noise_multiplier: float, steps: int) -> dp_event.DpEvent:
    """`steps` runs of Gaussian noise on Poisson samples; the usual event of DP-SGD."""
    leaf: dp_event.DpEvent = dp_event.GaussianDpEvent(noise_multiplier)
    if sampling_probability != 1.0:
        leaf = dp_event.PoissonSampledDpEvent(sampling_probability, leaf)
    return dp_event.SelfComposedDpEvent(leaf, steps)


def sampling(sampling_probability: float | None = None, batch_size: int | None = None,
             dataset_size: int | None = None) -> float:
    """The sampling probability, or `batch_size` / `dataset_size`."""
    if sampling_probability is not None:
        if batch_size is not None or dataset_size is not None:
            raise ValueError("`sampling_probability` must not be given together with `batch_size` and `dataset_size`.")
        return validation.probability("sampling_probability", sampling_probability)
    if batch_size is None or dataset_size is None:
        raise ValueError("`sampling_probability`, or both `batch_size` and `dataset_size`, must be given.")
    size = validation.integer("dataset_size", dataset_size, 1)
    batch = validation.integer("batch_size", batch_size, 1)
    if batch > size:
        raise ValueError(f"`batch_size` must be at most `dataset_size`, {size}. Found {batch}.")
    return batch / size


def number_of_steps(probability: float, steps: int | None = None, epochs: float | None = None) -> int:
    """`steps`, or as many as `epochs` passes over the data take."""
    if (steps is None) == (epochs is None):
        raise ValueError("Exactly one of `steps` and `epochs` must be given.")
    if steps is not None:
        return validation.integer("steps", steps, 1)
    if probability == 0.0:
        raise ValueError("`epochs` must not be given where `sampling_probability` is 0; give `steps`.")
    count = validation.positive("epochs", epochs) / probability
    if count > validation.LARGEST:
        raise ValueError(f"`epochs` must take at most 1e300 steps. Found {validation.shown(epochs)}.")
    return max(1, math.ceil(count - 1e-9))


def calibrate_noise(*, sampling_probability: float | None = None, batch_size: int | None = None, dataset_size: int | None = None,
                    steps: int | None = None, epochs: float | None = None,
                    neighboring_relation: NeighboringRelation = _RELATION, tol: float = 1e-6, **budget: Unpack[Targets]) -> float:
    """The smallest noise multiplier, to `tol`, that is certified to stay within the budget.

    Args:
      sampling_probability: of Poisson sampling; or `batch_size` and `dataset_size` (batches are then taken to be Poisson samples of
        that expected size).
      steps: how many; or `epochs`, passes over the data.
      neighboring_relation: how neighbouring data sets differ.
      tol: how far the answer may be above the smallest one.
      **budget: `target_epsilon` and `target_delta`; or `target_advantage`, the largest 1 - false positive rate - false negative rate
        of any attack; or `target_true_positive_rate` and `false_positive_rate`, the largest rate of detected members at a rate of
        false alarms.
    """
    probability = sampling(sampling_probability, batch_size, dataset_size)
    count = number_of_steps(probability, steps, epochs)
    spent, tol = _spent(budget, neighboring_relation), validation.positive("tol", tol)

    def excess(noise: float) -> float:
        return spent(probability, noise, count)

    if probability == 0.0 or excess(0.0) <= 0.0:
        return 0.0
    with progress_line("calibrate_noise"):
        start = Point(1.0, excess(1.0))
        ends = (Point(0.0, math.inf), start) if start.kept else bracket_from(excess, start, 4.0, _MOST_NOISE)
        if ends is None:
            raise BudgetError(f"No noise multiplier meets {budget_of(**budget)}.")
        found: float = end_of_budget(excess, *ends, absolute=tol)
        return found


def max_steps(*, noise_multiplier: float, sampling_probability: float | None = None, batch_size: int | None = None,
              dataset_size: int | None = None, neighboring_relation: NeighboringRelation = _RELATION, **budget: Unpack[Targets]) -> int:
    """The largest number of steps that is certified to stay within the budget; 0 where not even one does.

    Budget and sampling as for `calibrate_noise`.

    It plans a schedule. Stopping, or choosing noise, by looking at outputs is something else: docs/adaptive-choice.md.

    Raises:
      BudgetError: more than 1e15 steps do.
    """
    probability = sampling(sampling_probability, batch_size, dataset_size)
    spent = _spent(budget, neighboring_relation)
    noise = validation.at_least_zero("noise_multiplier", noise_multiplier)

    def excess(steps: int) -> float:
        return spent(probability, noise, steps)

    with progress_line("max_steps"):
        start = Point(1, excess(1))
        ends = bracket_from(excess, start, 4, _MOST_STEPS) if start.kept else (Point(0, -math.inf), start)
        if ends is None:
            raise BudgetError(f"The budget must be so small that {_MOST_STEPS:g} steps exceed it. Found {budget_of(**budget)}.")
        return int(end_of_budget(excess, *ends, whole=True))


def max_sampling_probability(*, noise_multiplier: float, steps: int, neighboring_relation: NeighboringRelation = _RELATION,
                             tol: float = 1e-6, **budget: Unpack[Targets]) -> float:
    """The largest sampling probability, to a relative `tol`, that is certified to stay within the budget.

    Budget as for `calibrate_noise`. Multiply by the size of the data set for the expected batch size.
    """
    noise = validation.at_least_zero("noise_multiplier", noise_multiplier)
    count, tol = validation.integer("steps", steps, 1), validation.positive("tol", tol)
    spent = _spent(budget, neighboring_relation)

    def excess(probability: float) -> float:
        return spent(probability, noise, count)

    with progress_line("max_sampling_probability"):
        start = Point(1.0, excess(1.0))
        if start.kept:
            return 1.0
        ends = bracket_from(excess, start, 0.25, _LEAST_PROBABILITY)
        return 0.0 if ends is None else float(end_of_budget(excess, *ends, relative=tol))


def _spent(budget: Targets, neighboring_relation: NeighboringRelation) -> Callable[[float, float, int], float]:
    """How far sampling probability, noise multiplier and steps are beyond the budget: at most 0 where it is kept."""
    relation, allowed = validation.relation(neighboring_relation), budget_of(**budget)
    return lambda *recipe: allowed.excess(EdgeworthIntervalAccountant(relation).compose(sampled_gaussian(*recipe)))
