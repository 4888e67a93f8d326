"""epsilon over a grid of sampling probability x noise multiplier x steps: many hyper-parameter configurations, quickly.

>>> result = sweep(sampling_probability=[0.01, 0.02], noise_multiplier=[0.8, 1.0], steps=1_000, target_delta=1e-5)
>>> result.epsilon.shape
(2, 2, 1)
>>> print(result.to_csv().splitlines()[0])
sampling_probability,noise_multiplier,steps,epsilon_estimate

An estimate (the tilted expansion, all points of the grid at once) unless `certified=True`, which accounts every point.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.accountants.accountant import ApproximateEdgeworthAccountant, EdgeworthIntervalAccountant
from dp_edgeworth.analysis import heat_map, sweep_table
from dp_edgeworth.analysis.planning import number_of_steps, sampling
from dp_edgeworth.analysis.progress import progress as progress_line

_MOST_POINTS = 10_000_000  # of a grid, some hundred bytes each
_FEWEST_SAMPLES = 0.1  # steps times probability, below which the estimates are off by an order of magnitude


@dataclasses.dataclass(frozen=True, eq=False)
class SweepResult:
    """epsilon on a grid; arrays have one axis per parameter, in the order of the fields.

    Attributes:
      sampling_probability, noise_multiplier, steps: the axes. Where `epochs` were given they are the third axis, and `steps` has one
        row per sampling probability.
      target_delta, neighboring_relation: as asked.
      certified: whether `lower` and `upper` are proved; otherwise they are the estimate.
    """

    sampling_probability: np.ndarray
    noise_multiplier: np.ndarray
    steps: np.ndarray
    target_delta: float
    neighboring_relation: NeighboringRelation
    certified: bool
    lower: np.ndarray
    estimate: np.ndarray
    upper: np.ndarray
    epochs: np.ndarray | None = None

    @property
    def epsilon(self) -> np.ndarray:
        """The certified upper ends, or the estimates."""
        return self.upper if self.certified else self.estimate

    @property
    def axes(self) -> dict[str, np.ndarray]:
        last = {"steps": self.steps} if self.epochs is None else {"epochs": self.epochs}
        return {"sampling_probability": self.sampling_probability, "noise_multiplier": self.noise_multiplier, **last}

    def to_csv(self, path: Any = None) -> str:
        """One line per grid point; also written to `path` if given."""
        columns = {"epsilon_lower": self.lower, "epsilon_estimate": self.estimate, "epsilon_upper": self.upper}
        if not self.certified:
            columns = {"epsilon_estimate": self.estimate}
        if self.epochs is not None:
            columns = {"steps": np.broadcast_to(self.steps[:, None, :], self.estimate.shape), **columns}
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow([*self.axes, *columns])
        for point, *values in zip(itertools.product(*(axis.tolist() for axis in self.axes.values())),
                                  *(column.ravel().tolist() for column in columns.values()), strict=True):
            writer.writerow([*point, *values])
        if path is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(stream.getvalue())
        return stream.getvalue()

    def _repr_html_(self) -> str:
        return sweep_table.as_html(self)

    def plot(self, axes: Any = None, *, at: int = 0) -> Any:
        """A heat map over the two longest axes, the third fixed at index `at`. Needs matplotlib; returns its axes."""
        return heat_map.heat_map(self, axes, at=at)


def sweep(*, noise_multiplier: Any, target_delta: float, sampling_probability: Any = None, steps: Any = None, batch_size: Any = None,
          dataset_size: int | None = None, epochs: Any = None,
          neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
          certified: bool = False, tolerance: float = 1e-6, progress: bool | None = None) -> SweepResult:
    """epsilon of Poisson-sampled Gaussian noise for every combination of the parameters.

    Args:
      sampling_probability, noise_multiplier, steps: numbers or one-dimensional sequences of them.
      target_delta: the delta at which epsilon is asked.
      batch_size, dataset_size: instead of `sampling_probability`: expected sizes of Poisson samples, of how many records.
      epochs: instead of `steps`: passes over the data; how many steps that is depends on the sampling probability.
      neighboring_relation: how neighbouring data sets differ.
      certified: proved intervals instead of estimates; more than ten times slower.
      tolerance: width of the certified intervals aimed at.
      progress: whether to show a line of progress after two seconds; by default on a terminal.
    """
    probabilities = _probabilities(sampling_probability, batch_size, dataset_size)
    noises = validation.axis("noise_multiplier", noise_multiplier, validation.at_least_zero)
    third, counts = _counts(probabilities, steps, epochs)
    delta, tolerance = validation.probability("target_delta", target_delta), validation.positive("tolerance", tolerance)
    neighboring_relation = validation.relation(neighboring_relation)
    shape = len(probabilities), len(noises), len(third)
    if math.prod(shape) > _MOST_POINTS:
        raise ValueError(f"The grid must have at most {_MOST_POINTS:,} points. Found {math.prod(shape):,}.")
    points = [(p, noise, count) for p, row in zip(probabilities, counts, strict=True) for noise in noises for count in row]
    with progress_line("sweep", len(points), progress) as advance:
        if certified:
            columns = _certified(points, delta, neighboring_relation, tolerance, advance)
        else:
            columns = [_estimates(points, delta, neighboring_relation, advance)] * 3
    lower, estimate, upper = (column.reshape(shape) for column in columns)
    return SweepResult(np.array(probabilities), np.array(noises), np.array(third if epochs is None else counts), delta,
                       neighboring_relation, certified, lower, estimate, upper, None if epochs is None else np.array(third))


def _probabilities(sampling_probability: Any, batch_size: Any, dataset_size: int | None) -> list[float]:
    if sampling_probability is not None and batch_size is None and dataset_size is None:
        return validation.axis("sampling_probability", sampling_probability, validation.probability)
    if sampling_probability is not None or batch_size is None:
        return [sampling(sampling_probability, batch_size, dataset_size)]  # says what is wrong
    return validation.axis("batch_size", batch_size, lambda name, value: sampling(None, value, dataset_size))


def _counts(probabilities: list[float], steps: Any, epochs: Any) -> tuple[list[Any], list[list[int]]]:
    """The third axis, and the numbers of steps of every sampling probability."""
    if (steps is None) == (epochs is None):
        raise ValueError("Exactly one of `steps` and `epochs` must be given.")
    if epochs is None:
        axis = validation.axis("steps", steps, lambda name, value: validation.integer(name, value, 1))
        return axis, [axis for _ in probabilities]
    passes = validation.axis("epochs", epochs, validation.positive)
    return passes, [[number_of_steps(p, None, epoch) for epoch in passes] for p in probabilities]


Point = tuple[float, float, int]


def _leaf(point: Point) -> dp_event.DpEvent:
    return dp_event.PoissonSampledDpEvent(point[0], dp_event.GaussianDpEvent(point[1]))


def _certified(points: list[Point], delta: float, relation: NeighboringRelation, tolerance: float,
               advance: Callable[[int], None]) -> list[np.ndarray]:
    """Proved intervals: lower end, estimate, upper end of every point."""
    result = np.empty((3, len(points)))
    for i, point in enumerate(points):
        result[:, i] = EdgeworthIntervalAccountant(relation, tolerance=tolerance).compose(_leaf(point),
        point[2]).get_epsilon_interval(delta)
        advance(1)
    return list(result)


def _estimates(points: list[Point], delta: float, relation: NeighboringRelation, advance: Callable[[int], None]) -> np.ndarray:
    """What `ApproximateEdgeworthAccountant(tilted=True)` says of every point."""
    result = np.empty(len(points))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, point in enumerate(points):
            result[i] = ApproximateEdgeworthAccountant(relation, tilted=True).compose(_leaf(point), point[2]).get_epsilon(delta)
            advance(1)
    return result
