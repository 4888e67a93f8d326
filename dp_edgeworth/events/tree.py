"""The walk over an event tree: its leaves, and how often each runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from dp_accounting import dp_event

from dp_edgeworth import validation


def leaves(event: dp_event.DpEvent, count: int = 1) -> Iterator[tuple[dp_event.DpEvent, int]]:
    """All leaves of an event tree with the number of times they run, from left to right.

    >>> import dp_accounting as dpa
    >>> list(leaves(dpa.SelfComposedDpEvent(dpa.ComposedDpEvent([dpa.GaussianDpEvent(1.0), dpa.NoOpDpEvent()]), 3)))
    [(GaussianDpEvent(noise_multiplier=1.0), 3)]
    """
    stack = [(event, count)]
    while stack:
        node, times = stack.pop()
        if isinstance(node, dp_event.SelfComposedDpEvent):
            stack.append((node.event, times * validation.integer("count", node.count, 1)))
        elif isinstance(node, dp_event.ComposedDpEvent):
            stack.extend((child, times) for child in reversed(_children(node)))
        elif not isinstance(node, dp_event.NoOpDpEvent):
            yield node, times


def _children(event: dp_event.ComposedDpEvent) -> list[dp_event.DpEvent]:
    events = event.events
    if isinstance(events, str | bytes | Mapping) or not isinstance(events, Iterable) or getattr(events, "ndim", 1) == 0:
        raise ValueError(f"`events` must be a sequence of `DpEvent`s. Found {validation.shown(events)}.")
    return list(events)
