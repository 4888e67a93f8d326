"""One epoch of random allocation as a loss that is known by its certified curve alone, not by a rule.

Used once and alone it is asked for its curve (`search.random_allocation`). Among others it is replaced by a finite pair above that
curve and one below it (`profiles.random_allocation`).
"""

from __future__ import annotations

import dataclasses
from typing import NoReturn

from dp_edgeworth.losses.pllr import OnlyRules
from dp_edgeworth.losses.rules import Demand, RuleTooLargeError


@dataclasses.dataclass(frozen=True)
class RandomAllocationLoss(OnlyRules):
    """One epoch in one direction: log S under N(0, sigma^2 I), S the mean of log-normal variables, or its mirror image.

    S has every positive value: losses are finite, and neither a largest nor a smallest one exists.

    Attributes:
      shift: 1 / noise multiplier. steps: number of batches, at least 2. direction: "remove" or "add".
    """

    shift: float
    steps: int
    direction: str

    def rule(self, demand: Demand) -> NoReturn:
        raise RuleTooLargeError("an epoch of random allocation is known by its curve")

    @property
    def mirror_image(self) -> RandomAllocationLoss:
        """(Q, P): the other direction."""
        return dataclasses.replace(self, direction="add" if self.direction == "remove" else "remove")
