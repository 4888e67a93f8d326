"""Makers of certified accountants with the signatures of dp-accounting's own classes.

Libraries that construct accountants themselves (jax_privacy, flwr, tensorflow-privacy) pass `value_discretization_interval=` or
`orders=`, which mean nothing here: there is no grid and no set of orders. These factories take them, in the same places, and ignore
them.

>>> pld_accountant(value_discretization_interval=1e-3)
<EdgeworthIntervalAccountant ADD_OR_REMOVE_ONE, bound='spectral', order=1, tolerance=1e-06: NoOp>
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth.accountants.accountant import EdgeworthIntervalAccountant


def pld_accountant(neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
                   value_discretization_interval: float | None = None, **settings: Any) -> EdgeworthIntervalAccountant:
    """In the place of `dp_accounting.pld.PLDAccountant`; `value_discretization_interval` is ignored."""
    return EdgeworthIntervalAccountant(neighboring_relation, **settings)


def rdp_accountant(orders: Sequence[float] | None = None,
                   neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE,
                   **settings: Any) -> EdgeworthIntervalAccountant:
    """In the place of `dp_accounting.rdp.RdpAccountant`; `orders` are ignored."""
    return EdgeworthIntervalAccountant(neighboring_relation, **settings)
