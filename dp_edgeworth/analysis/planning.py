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

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.accountants.accountant import EdgeworthIntervalAccountant
from dp_edgeworth.analysis.budgets import Budget, BudgetError, budget_of
from dp_edgeworth.analysis.progress import progress as progress_line

__all__ = ["BudgetError", "calibrate_noise", "max_sampling_probability", "max_steps", "number_of_steps", "sampled_gaussian", "sampling"]

_RELATION = NeighboringRelation.ADD_OR_REMOVE_ONE
_MOST_STEPS = 10**15
_MOST_NOISE = 1e15


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


def calibrate_noise(*, target_epsilon: float | None = None, target_delta: float | None = None, target_advantage: float | None = None,
                    target_true_positive_rate: float | None = None, false_positive_rate: float | None = None,
                    sampling_probability: float | None = None, batch_size: int | None = None, dataset_size: int | None = None,
                    steps: int | None = None, epochs: float | None = None,
                    neighboring_relation: NeighboringRelation = _RELATION, tol: float = 1e-6) -> float:
    """The smallest noise multiplier, to `tol`, that is certified to stay within the budget.

    Args:
      target_epsilon, target_delta: the budget; or
      target_advantage: the largest 1 - false positive rate - false negative rate of any attack; or
      target_true_positive_rate, false_positive_rate: the largest rate of detected members at a rate of false alarms.
      sampling_probability: of Poisson sampling; or `batch_size` and `dataset_size` (batches are then taken to be Poisson samples of
        that expected size).
      steps: how many; or `epochs`, passes over the data.
      neighboring_relation: how neighbouring data sets differ.
      tol: how far the answer may be above the smallest one.
    """
    probability = sampling(sampling_probability, batch_size, dataset_size)
    count = number_of_steps(probability, steps, epochs)
    budget = budget_of(target_epsilon, target_delta, target_advantage, target_true_positive_rate, false_positive_rate)
    spent, tol = _spent(budget, neighboring_relation), validation.positive("tol", tol)
    if probability == 0.0:
        return 0.0

    def excess(noise: float) -> float:
        return spent(sampled_gaussian(probability, noise, count))

    if excess(0.0) <= 0.0:
        return 0.0
    with progress_line("calibrate_noise"):
        low, high = 0.0, 1.0
        at_low, at_high = math.inf, excess(high)
        while at_high > 0.0:
            low, high, at_low = high, 4.0 * high, at_high
            if high > _MOST_NOISE:
                raise BudgetError(f"No noise multiplier meets {budget}.")
            at_high = excess(high)
        return _least(excess, (low, at_low), (high, at_high), tol)


def _least(excess: Callable[[float], float], low: tuple[float, float], high: tuple[float, float], tol: float) -> float:
    """The end above, within `tol`, of where a decreasing function becomes <= 0; ends are points with their values.

    Secants in log x, where both values are finite and the last one at least halved the interval; else bisection.
    """
    halve = False
    while high[0] - low[0] > tol:
        gap, middle = high[0] - low[0], 0.5 * (low[0] + high[0])
        x = middle
        if not halve and low[0] > 0.0 and math.isfinite(low[1]) and math.isfinite(high[1]):
            share = low[1] / (low[1] - high[1]) if low[1] > high[1] else 0.5
            margin = min(0.4 * tol, 0.25 * gap)  # so that the other end follows once one is next to the root
            x = min(max(low[0] * (high[0] / low[0]) ** share, low[0] + margin), high[0] - margin)
        if not low[0] < x < high[0]:
            x = middle
        if not low[0] < x < high[0]:
            break
        point = x, excess(x)
        low, high = (point, high) if point[1] > 0.0 else (low, point)
        halve = high[0] - low[0] > 0.5 * gap
    return high[0]


def max_steps(*, noise_multiplier: float, target_epsilon: float | None = None, target_delta: float | None = None,
              target_advantage: float | None = None, target_true_positive_rate: float | None = None,
              false_positive_rate: float | None = None, sampling_probability: float | None = None, batch_size: int | None = None,
              dataset_size: int | None = None, neighboring_relation: NeighboringRelation = _RELATION) -> int:
    """The largest number of steps that is certified to stay within the budget; 0 where not even one does.

    Budget and sampling as for `calibrate_noise`.

    It plans a schedule. Stopping, or choosing noise, by looking at outputs is something else: docs/adaptive-choice.md.

    Raises:
      BudgetError: more than 1e15 steps do.
    """
    probability = sampling(sampling_probability, batch_size, dataset_size)
    budget = budget_of(target_epsilon, target_delta, target_advantage, target_true_positive_rate, false_positive_rate)
    spent = _spent(budget, neighboring_relation)
    noise = validation.at_least_zero("noise_multiplier", noise_multiplier)
    with progress_line("max_steps"):
        low, high = 0, 1
        while spent(sampled_gaussian(probability, noise, high)) <= 0.0:
            low, high = high, 4 * high
            if low >= _MOST_STEPS:
                raise BudgetError(f"The budget must be so small that {_MOST_STEPS:g} steps exceed it. Found {budget}.")
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if spent(sampled_gaussian(probability, noise, middle)) <= 0.0 else (low, middle)
    return low


def max_sampling_probability(*, noise_multiplier: float, steps: int, target_epsilon: float | None = None,
                             target_delta: float | None = None, target_advantage: float | None = None,
                             target_true_positive_rate: float | None = None, false_positive_rate: float | None = None,
                             neighboring_relation: NeighboringRelation = _RELATION, tol: float = 1e-6) -> float:
    """The largest sampling probability, to a relative `tol`, that is certified to stay within the budget.

    Budget as for `calibrate_noise`. Multiply by the size of the data set for the expected batch size.
    """
    noise = validation.at_least_zero("noise_multiplier", noise_multiplier)
    count, tol = validation.integer("steps", steps, 1), validation.positive("tol", tol)
    budget = budget_of(target_epsilon, target_delta, target_advantage, target_true_positive_rate, false_positive_rate)
    spent = _spent(budget, neighboring_relation)

    def within(probability: float) -> bool:
        return spent(sampled_gaussian(probability, noise, count)) <= 0.0

    with progress_line("max_sampling_probability"):
        return 1.0 if within(1.0) else _largest(within, tol)


def _largest(within: Callable[[float], bool], tol: float) -> float:
    """The largest probability that is within, to a relative `tol`, below 1."""
    low, high = 0.0, 1.0
    while low == 0.0 and high > 1e-12:
        if within(high / 4.0):
            low = high / 4.0
        else:
            high /= 4.0
    while high - low > tol * low and low > 0.0:
        middle = math.sqrt(low * high)
        if not low < middle < high:
            break
        low, high = (middle, high) if within(middle) else (low, middle)
    return low


def _spent(budget: Budget, neighboring_relation: NeighboringRelation) -> Callable[[dp_event.DpEvent], float]:
    """How far an event is beyond the budget: at most 0 where it is kept."""
    relation = validation.relation(neighboring_relation)
    return lambda event: budget.excess(EdgeworthIntervalAccountant(relation).compose(event))
