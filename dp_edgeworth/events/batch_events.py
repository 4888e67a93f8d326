"""Events for batches as people draw them: records dealt into batches, and shuffled data read in turn. Each is one epoch.

`RandomAllocationDpEvent` is dp-accounting's own where it has one (its main branch), otherwise a class with the same name and fields.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attr
from dp_accounting import dp_event

if TYPE_CHECKING or not hasattr(dp_event, "RandomAllocationDpEvent"):

    @attr.s(frozen=True, slots=True, auto_attribs=True)
    class RandomAllocationDpEvent(dp_event.DpEvent):
        """Every record takes part in `num_selected` of `num_steps` steps, chosen uniformly and independently of other records.

        With `num_selected` 1 also called balls-in-bins sampling: an epoch in which every record is dealt into one batch at random, so
        that batches have random sizes. Noise is added to sums, which are not divided by the size that came out.

        Attributes:
          event: what runs on the batch of each step.
          num_selected: in how many steps a record takes part.
          num_steps: number of steps.

        >>> import dp_accounting as dpa
        >>> RandomAllocationDpEvent(dpa.GaussianDpEvent(1.0), 1, 100)
        RandomAllocationDpEvent(event=GaussianDpEvent(noise_multiplier=1.0), num_selected=1, num_steps=100)
        """

        event: dp_event.DpEvent
        num_selected: int
        num_steps: int

else:
    RandomAllocationDpEvent = dp_event.RandomAllocationDpEvent


@attr.s(frozen=True, slots=True, auto_attribs=True)
class ShuffledBatchesDpEvent(dp_event.DpEvent):
    """One epoch over shuffled data: a fresh uniform permutation, cut into batches of one size, none of them dropped.

    What most data loaders do. No tight analysis is known: the interval is between no amplification at all and the loss that one choice
    of data has.

    Attributes:
      event: what runs on each batch.
      num_batches: number of batches of an epoch.

    >>> import dp_accounting as dpa
    >>> ShuffledBatchesDpEvent(dpa.GaussianDpEvent(1.0), 100)
    ShuffledBatchesDpEvent(event=GaussianDpEvent(noise_multiplier=1.0), num_batches=100)
    """

    event: dp_event.DpEvent
    num_batches: int
