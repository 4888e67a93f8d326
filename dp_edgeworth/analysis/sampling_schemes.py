"""The ways to draw batches: which event each of them is for one recipe, and what a program must do to be that event."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.analysis import planning
from dp_edgeworth.events.batch_events import RandomAllocationDpEvent, ShuffledBatchesDpEvent

AR = NeighboringRelation.ADD_OR_REMOVE_ONE
RO = NeighboringRelation.REPLACE_ONE
RS = NeighboringRelation.REPLACE_SPECIAL
_SPARE = 6.0  # standard deviations of a batch's size that a truncated batch has room for, where its size is not given


@dataclasses.dataclass(frozen=True)
class Recipe:
    """How a model is trained: what all schemes have in common.

    Attributes:
      batch_size: records per batch, or its expectation.
      dataset_size: records in all.
      epochs: passes over the data.
      truncated_batch_size: the largest batch that truncated Poisson sampling keeps.
    """

    batch_size: int
    dataset_size: int
    epochs: float
    truncated_batch_size: int

    @classmethod
    def of(cls, batch_size: int, dataset_size: int, epochs: float, truncated_batch_size: int | None = None) -> Recipe:
        """Checked; a truncated batch has room for six standard deviations more than the mean by default."""
        probability = planning.sampling(None, batch_size, dataset_size)
        size, batch, passes = int(dataset_size), int(batch_size), validation.positive("epochs", epochs)
        if truncated_batch_size is None:
            room = batch + _SPARE * math.sqrt(batch * (1.0 - probability))
            return cls(batch, size, passes, min(math.ceil(room), size))
        return cls(batch, size, passes, validation.integer("truncated_batch_size", truncated_batch_size, 1))

    @property
    def probability(self) -> float:
        return self.batch_size / self.dataset_size

    @property
    def steps(self) -> int:
        """Batches in all where each of them is drawn anew."""
        return planning.number_of_steps(self.probability, None, self.epochs)

    @property
    def batches(self) -> int:
        """Batches of one epoch where every record is in one of them: rounded down, which is the side with more loss."""
        return max(self.dataset_size // self.batch_size, 1)

    @property
    def passes(self) -> int:
        """Whole epochs."""
        return math.ceil(self.epochs - 1e-9)


@dataclasses.dataclass(frozen=True)
class Scheme:
    """One way to draw batches.

    Attributes:
      name: in words. relation: under which it is accounted.
      requirement: what a program must do.
      event: the event of a recipe with a noise multiplier.
      tight: whether the interval is of the scheme itself; otherwise it is what is known of it.
    """

    name: str
    relation: NeighboringRelation
    requirement: str
    event: Callable[[Recipe, float], dp_event.DpEvent]
    tight: bool = True


def _poisson(recipe: Recipe, noise: float) -> dp_event.DpEvent:
    return planning.sampled_gaussian(recipe.probability, noise, recipe.steps)


def _steps(leaf: Callable[[Recipe, dp_event.GaussianDpEvent], dp_event.DpEvent]) -> Callable[[Recipe, float], dp_event.DpEvent]:
    """Every batch drawn anew."""
    return lambda recipe, noise: dp_event.SelfComposedDpEvent(leaf(recipe, dp_event.GaussianDpEvent(noise)), recipe.steps)


def _epochs(leaf: Callable[[Recipe, dp_event.GaussianDpEvent], dp_event.DpEvent]) -> Callable[[Recipe, float], dp_event.DpEvent]:
    """Every epoch dealt out anew."""
    return lambda recipe, noise: dp_event.SelfComposedDpEvent(leaf(recipe, dp_event.GaussianDpEvent(noise)), recipe.passes)


_truncated = _steps(lambda recipe, gaussian: dp_event.TruncatedSubsampledGaussianDpEvent(
    recipe.dataset_size, recipe.probability, recipe.truncated_batch_size, gaussian.noise_multiplier))
_fixed_size = _steps(lambda recipe, gaussian: dp_event.SampledWithoutReplacementDpEvent(
    recipe.dataset_size, recipe.batch_size, gaussian))
_everything = _steps(lambda recipe, gaussian: gaussian)
_allocation = _epochs(lambda recipe, gaussian: RandomAllocationDpEvent(gaussian, 1, recipe.batches))
_shuffled = _epochs(lambda recipe, gaussian: ShuffledBatchesDpEvent(gaussian, recipe.batches))
_DRAWN = "at every step, put each record into the batch independently with probability batch_size / dataset_size"
SCHEMES = (
    Scheme("Poisson", AR, f"{_DRAWN}; batches then have random sizes, and sums are divided by a fixed number", _poisson),
    Scheme("truncated Poisson", AR, f"{_DRAWN}; if more than truncated_batch_size were drawn, keep that many at random", _truncated),
    Scheme("random allocation", AR, "at the start of every epoch, put each record into one of the batches at random, independently of "
           "the others (balls in bins); batches then have random sizes, and sums are divided by a fixed number", _allocation),
    Scheme("every record, every step", AR, "nothing: no sampling is claimed, batches may be chosen in any way", _everything),
    Scheme("shuffled batches", RS, "shuffle all records anew in every epoch and take batches in turn; batch_size divides dataset_size, "
           "no batch is dropped. The exact value is not known", _shuffled, tight=False),
    Scheme("Poisson, record replaced", RO, _DRAWN, _poisson),
    Scheme("fixed size", RO, "at every step, draw batch_size different records uniformly, anew", _fixed_size),
)
