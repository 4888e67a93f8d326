"""Event classes that not every supported version of dp-accounting has, by name.

dp-accounting 0.4.3 (which tensorflow-privacy pins) lacks the five classes below. Where the installed version has no such class,
its name stands for a class of ours that no event is of: code can register a mechanism for it and test for it, and need not ask first.

>>> import dp_accounting as dpa
>>> RandomizedResponseDpEvent is getattr(dpa, "RandomizedResponseDpEvent", RandomizedResponseDpEvent)
True
"""

from __future__ import annotations

from typing import Any

from dp_accounting import dp_event


def _event_class(name: str) -> Any:
    """dp-accounting's class, or one that cannot be made."""
    found = getattr(dp_event, name, None)
    return type(name, (dp_event.DpEvent,), {"__init__": _refuse}) if found is None else found


def _refuse(event: dp_event.DpEvent, *arguments: Any, **keywords: Any) -> None:
    raise TypeError(f"`{type(event).__name__}` needs a newer dp-accounting than the one that is installed.")


DiscreteLaplaceDpEvent = _event_class("DiscreteLaplaceDpEvent")
MixtureOfGaussiansDpEvent = _event_class("MixtureOfGaussiansDpEvent")
RandomizedResponseDpEvent = _event_class("RandomizedResponseDpEvent")
TruncatedSubsampledGaussianDpEvent = _event_class("TruncatedSubsampledGaussianDpEvent")
ZCDpEvent = _event_class("ZCDpEvent")
