"""epsilon over a grid of sampling probability x noise multiplier x steps: many hyper-parameter configurations, quickly.

>>> result = sweep(sampling_probability=[0.01, 0.02], noise_multiplier=[0.8, 1.0], steps=1_000, target_delta=1e-5)
>>> result.epsilon.shape
(2, 2, 1)
>>> print(result.to_csv().splitlines()[0])
sampling_probability,noise_multiplier,steps,epsilon_lower,epsilon_estimate,epsilon_upper

Every point is certified, by the certified accountant alone: what else is in the grid does not matter. With `certified=False` they are
estimates, and no guarantee.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
import warnings
from typing import Any

import numpy as np
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.accountants.accountant import ApproximateEdgeworthAccountant, EdgeworthIntervalAccountant, NotAGuaranteeWarning
from dp_edgeworth.analysis import heat_map
from dp_edgeworth.analysis.planning import number_of_steps, sampling
from dp_edgeworth.analysis.progress import progress as progress_line
from dp_edgeworth.analysis.rendering import Answer, as_csv, html_table
from dp_edgeworth.events.description import rounded_up

_MOST_POINTS = 10_000_000  # of a grid, some hundred bytes each
_MOST_SHOWN = 12  # rows and columns of a table in a notebook
_ESTIMATES = ("`sweep(certified=False)` returns estimates, not privacy guarantees, some of them far too small. "
              "Leave `certified` out for proved bounds.")


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class SweepResult(Answer):
    """epsilon on a grid; arrays have one axis per parameter, in the order of the fields.

    Attributes:
      sampling_probability, noise_multiplier, steps: the axes. Where `epochs` were given they are the third axis, and `steps` has one
        row per sampling probability.
      target_delta, neighboring_relation: as asked.
      estimate: of epsilon. lower, upper: its proved bounds; None in a sweep of estimates.
    """

    sampling_probability: np.ndarray
    noise_multiplier: np.ndarray
    steps: np.ndarray
    target_delta: float
    neighboring_relation: NeighboringRelation
    estimate: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    epochs: np.ndarray | None = None

    @property
    def certified(self) -> bool:
        """Whether epsilon is proved."""
        return self.upper is not None

    @property
    def epsilon(self) -> np.ndarray:
        """The certified upper ends; the estimates in a sweep of estimates."""
        return self.estimate if self.upper is None else self.upper

    @property
    def title(self) -> str:
        points = " x ".join(map(str, self.epsilon.shape))
        kind = "certified upper ends" if self.certified else "estimates, not guarantees"
        return f"{points} points, epsilon at delta = {self.target_delta:g} ({self.neighboring_relation.name}; {kind})"

    def __str__(self) -> str:
        return f"{self.title}\n{self.to_csv().rstrip()}"

    @property
    def axes(self) -> dict[str, np.ndarray]:
        last = {"steps": self.steps} if self.epochs is None else {"epochs": self.epochs}
        return {"sampling_probability": self.sampling_probability, "noise_multiplier": self.noise_multiplier, **last}

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """What is known of epsilon, by side."""
        sides = {"lower": self.lower, "estimate": self.estimate, "upper": self.upper}
        return {side: values for side, values in sides.items() if values is not None}

    def plane(self, at: int = 0) -> heat_map.Plane:
        """The two longest axes; of the third one only the value of index `at`."""
        names = list(self.axes)
        fixed = names[2 - int(np.argmin(self.epsilon.shape[::-1]))]
        across, down = (name for name in names if name != fixed)
        if at not in range(-self.axes[fixed].size, self.axes[fixed].size):
            raise ValueError(f"`at` must be an index of the {self.axes[fixed].size} values of `{fixed}`. Found {validation.shown(at)}.")
        value, place = heat_map.number(self.axes[fixed][at]), names.index(fixed)
        more = f" (one of {self.axes[fixed].size} values; the others are not shown)" if self.axes[fixed].size > 1 else ""
        values = {side: np.take(column, at, axis=place).T for side, column in self.columns.items()}
        return heat_map.Plane(across, down, self.axes[across], self.axes[down], values, f"{fixed.replace('_', ' ')} = {value}{more}")

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {"target_delta": self.target_delta, "neighboring_relation": self.neighboring_relation.name, "certified": self.certified,
                **{name: axis.tolist() for name, axis in self.axes.items()},
                **{side: values.tolist() for side, values in self.columns.items()}}

    def to_csv(self, path: Any = None) -> str:
        """One line per grid point; also written to `path` if given."""
        columns = {f"epsilon_{side}": values for side, values in self.columns.items()}
        if self.epochs is not None:
            columns = {"steps": np.broadcast_to(self.steps[:, None, :], self.estimate.shape), **columns}
        points = itertools.product(*(axis.tolist() for axis in self.axes.values()))
        rows = zip(points, *(column.ravel().tolist() for column in columns.values()), strict=True)
        return as_csv([[*self.axes, *columns], *([*point, *values] for point, *values in rows)], path)

    def _repr_html_(self) -> str:
        """The first entries of both axes of the plane."""
        plane = self.plane()
        rows = [(f"{value:g}", *(rounded_up(float(epsilon), 4) for epsilon in row[:_MOST_SHOWN]))
                for value, row in zip(plane.y[:_MOST_SHOWN], plane.values["upper" if self.certified else "estimate"], strict=False)]
        more = "; the first of them" if max(len(plane.x), len(plane.y)) > _MOST_SHOWN else ""
        return (f"<p>{self.title}; {plane.fixed}; rows {plane.down}, columns {plane.across}{more}</p>"
                + html_table(rows, ["", *(f"{value:g}" for value in plane.x[:_MOST_SHOWN])], titled=True))

    def plot(self, axes: Any = None, *, at: int = 0) -> Any:
        """The plane of the two longest axes as a picture, the third one fixed at index `at`. Needs matplotlib; returns its axes."""
        return heat_map.heat_map(self.plane(at), f"epsilon at delta = {self.target_delta:g}", axes)


def sweep(*, noise_multiplier: Any, target_delta: float, sampling_probability: Any = None, steps: Any = None, batch_size: Any = None,
          dataset_size: int | None = None, epochs: Any = None,
          neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
          certified: bool = True, tolerance: float = 1e-6, progress: bool | None = None) -> SweepResult:
    """epsilon of Poisson-sampled Gaussian noise for every combination of the parameters.

    Args:
      sampling_probability, noise_multiplier, steps: numbers or one-dimensional sequences of them.
      target_delta: the delta at which epsilon is asked.
      batch_size, dataset_size: instead of `sampling_probability`: expected sizes of Poisson samples, of how many records.
      epochs: instead of `steps`: passes over the data; how many steps that is depends on the sampling probability.
      neighboring_relation: how neighbouring data sets differ.
      certified: proved intervals; otherwise the estimates of `ApproximateEdgeworthAccountant(tilted=True)`, with a
        `NotAGuaranteeWarning`.
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
    if not validation.flag("certified", certified):
        warnings.warn(_ESTIMATES, NotAGuaranteeWarning, stacklevel=2)
    answers = np.empty((3 if certified else 1, math.prod(shape)))
    points = ((p, noise, count) for p, row in zip(probabilities, counts, strict=True) for noise in noises for count in row)
    with progress_line("sweep", answers.shape[1], progress) as advance, warnings.catch_warnings():
        warnings.simplefilter("ignore", NotAGuaranteeWarning)  # said already
        for i, (p, noise, count) in enumerate(points):
            accountant = (EdgeworthIntervalAccountant(neighboring_relation, tolerance=tolerance) if certified
                          else ApproximateEdgeworthAccountant(neighboring_relation, tilted=True))
            accountant.compose(dp_event.PoissonSampledDpEvent(p, dp_event.GaussianDpEvent(noise)), count)
            answers[:, i] = accountant.get_epsilon_interval(delta) if certified else accountant.get_epsilon(delta)
            advance(1)
    lower, estimate, upper = answers.reshape(-1, *shape) if certified else (None, answers.reshape(shape), None)
    return SweepResult(np.array(probabilities), np.array(noises), np.array(third if epochs is None else counts), delta,
                       neighboring_relation, estimate, lower, upper, None if epochs is None else np.array(third))


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
