"""Certified accounting for jax_privacy (extra `jax_privacy`).

Its execution plans take an accountant, and `EdgeworthIntervalAccountant(relation)` is one; newer ones take a function that makes it,
and the class is one. Its training accountants take a configuration, which is here:

    config = dp_edgeworth.jax_privacy.EdgeworthAccountantConfig()
    accountant = jax_privacy.accounting.analysis.DpsgdTrainingAccountant(dp_accountant_config=config)

Where its own configurations construct an accountant with `value_discretization_interval=` or `orders=`, use `dp_edgeworth.factories`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.accountants.accountant import EdgeworthIntervalAccountant

with validation.needs("jax_privacy", "jax_privacy"):
    from jax_privacy.accounting import accountants


@dataclasses.dataclass(kw_only=True)
class EdgeworthAccountantConfig(accountants.PldAccountantConfig):
    """Makes certified accountants where jax_privacy expects the configuration of a PLD or RDP accountant.

    A subclass of jax_privacy's PLD configuration, because some of its checks ask for that class.

    Attributes:
      value_discretization_interval, orders: ignored.
      neighboring_relation, tolerance: of the accountant.
    """

    value_discretization_interval: float = 1e-4
    orders: Sequence[float] | None = None
    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE
    tolerance: float = 1e-6

    def create_accountant(self) -> EdgeworthIntervalAccountant:
        """A new accountant that has composed nothing."""
        return EdgeworthIntervalAccountant(self.neighboring_relation, tolerance=self.tolerance)
