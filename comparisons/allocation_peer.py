"""PLD-accounting 2.0 (Feldman, Shenfeld 2026) as a `PrivacyAccountant`: epochs of random allocation of Gaussians, nothing else."""

from __future__ import annotations

from typing import Any

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation, PrivacyAccountant

from dp_edgeworth.events.batch_events import RandomAllocationDpEvent
from dp_edgeworth.events.tree import leaves

_ALLOWED = (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_SPECIAL)


class AllocationAccountant(PrivacyAccountant):
    """One kind of epoch, as often as it was composed; `gaussian_allocation_epsilon_range` at its own default accuracy."""

    def __init__(self, neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE) -> None:
        super().__init__(neighboring_relation)
        self._epoch: Any = None
        self._count = 0

    def _maybe_compose(self, event: dp_event.DpEvent, count: int, do_compose: bool) -> Any:
        for leaf, repeats in leaves(event):
            plain = isinstance(leaf, RandomAllocationDpEvent) and isinstance(leaf.event, dp_event.GaussianDpEvent)
            if not plain or self.neighboring_relation not in _ALLOWED or self._epoch not in (None, leaf):
                return self.CompositionErrorDetails(
                    invalid_event=leaf, error_message="PLD-accounting composes epochs of one `RandomAllocationDpEvent` of Gaussians.")
            if do_compose:
                self._epoch, self._count = leaf, self._count + count * repeats
        return None

    def get_epsilon_interval(self, target_delta: float) -> tuple[float, float, float]:
        """Both ends of its bracket and their mean."""
        from PLD_accounting import gaussian_allocation_epsilon_range

        ends = sorted(gaussian_allocation_epsilon_range(
            delta=target_delta, sigma=self._epoch.event.noise_multiplier, num_steps=self._epoch.num_steps,
            num_selected=self._epoch.num_selected, num_epochs=self._count))
        return ends[0], 0.5 * (ends[0] + ends[1]), ends[1]

    def get_epsilon(self, target_delta: float) -> float:
        return self.get_epsilon_interval(target_delta)[2]

    def get_delta(self, target_epsilon: float) -> float:
        raise NotImplementedError("only epsilon is compared")
