"""Stand-ins for the events that only dp-accounting's main branch has: same names, same fields, registered with the same functions."""

from __future__ import annotations

import attr
from dp_accounting import dp_event

from dp_edgeworth.losses.mechanisms import curves, discrete
from dp_edgeworth.losses.mechanisms.registry import register_mechanism


def _event(name: str, function: object, **fields: object) -> type:
    if hasattr(dp_event, name):
        return getattr(dp_event, name)
    made = attr.make_class(name, {field: attr.ib(default=default) for field, default in fields.items()},
                           bases=(dp_event.DpEvent,), frozen=True)
    made.__module__ = "dp_accounting.dp_event"
    register_mechanism(made, samplable=True)(function)
    return made


EpsilonDelta = _event("EpsilonDeltaDpEvent", discrete._epsilon_delta_event, epsilon=attr.NOTHING, delta=attr.NOTHING)
Exponential = _event("ExponentialMechanismDpEvent", curves._exponential, epsilon=attr.NOTHING)
PermuteAndFlip = _event("PermuteAndFlipDpEvent", curves._permute_and_flip, epsilon=attr.NOTHING)
DiscreteGaussian = _event("DiscreteGaussianDpEvent", curves._discrete_gaussian, sigma=attr.NOTHING, sensitivity=1.0, dimension=None)
