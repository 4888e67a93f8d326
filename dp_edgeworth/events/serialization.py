"""Events as JSON: `to_json(event)` and `from_json(text)`, for a fixed list of event classes and nothing else.

The format, version 1, is described in docs/event-json.md:

>>> from dp_accounting import dp_event
>>> text = to_json(dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(0.8)))
>>> text[:45]
'{"format": "dp-edgeworth-event", "version": 1'
>>> from_json(text)
PoissonSampledDpEvent(sampling_probability=0.01, event=GaussianDpEvent(noise_multiplier=0.8))

What `to_json` writes, `from_json` reads back equal, floats to the last bit; both apply the same checks.
`from_json` imports nothing and calls no class but those of the list. Whatever is wrong, both raise
`EventFormatError`: one sentence that starts with the path of the offending value. Neither recurses: open
containers are on explicit stacks, and only strings and numbers are left to the json module.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import attr
from dp_accounting import dp_event
from dp_accounting.dp_event import DpEvent
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.events import batch_events
from dp_edgeworth.events import own_events as our_events
from dp_edgeworth.events.json_fields import (
    EVENT,
    FORMAT,
    LISTED,
    MAX_BYTES,
    RESERVED,
    VERSION,
    EventFormatError,
    Refusal,
    instance,
    must_be,
    shown,
    within,
)
from dp_edgeworth.events.json_reader import Reader, check_header, decoded
from dp_edgeworth.events.json_writer import Writer

__all__ = ["FORMAT", "MAX_BYTES", "VERSION", "EventFormatError", "from_json", "register_event", "to_json"]

_HEADER: dict[str, str | int] = {"format": FORMAT, "version": VERSION}
_T = TypeVar("_T")
_registered: dict[str, type[DpEvent]] = {}


def _classes() -> dict[str, type[DpEvent]]:
    """The classes of the fixed list that are installed and the registered ones, by name."""
    modules = (our_events, batch_events, dp_event)
    listed = {name: getattr(module, name) for module in modules for name in LISTED if hasattr(module, name)}
    return {**_registered, **listed}


def register_event(name: str, cls: type[DpEvent]) -> None:
    """Lets documents hold events of a class of your own.

    Args:
      name: what stands as "type" in the document; with another name old documents become unreadable.
      cls: a subclass of `DpEvent` decorated with `attr.s`. Its fields may hold events, numbers, strings,
        booleans, None, and lists, tuples and dicts of these. They are left to its constructor to check.

    Raises:
      ValueError: the class cannot be written faithfully, or the name or the class is taken.
    """
    if not (isinstance(name, str) and name.isascii() and name.isprintable() and 0 < len(name) <= 200):
        raise ValueError(f"`name` must be 1 to 200 printable ASCII characters. Found {shown(name)}.")
    if not (isinstance(cls, type) and issubclass(cls, DpEvent) and "__attrs_attrs__" in vars(cls)):
        raise ValueError(f"`cls` must be a subclass of `DpEvent` decorated with `attr.s`. Found {cls!r}.")
    for field in attr.fields(cls):
        if field.name in RESERVED or field.name.startswith("_") or not field.init:
            raise ValueError(f"`{cls.__name__}` must have public init fields only. Found `{field.name}`.")
    for taken, other in _classes().items():
        # A notebook cell that is run again defines the same class anew.
        again = taken == name and taken in _registered and other.__qualname__ == cls.__qualname__
        if (taken == name) != (other is cls) and not again:
            raise ValueError(f"`{name}` must be new. Found `{taken}` for `{other.__name__}`.")
    _registered[name] = cls


def to_json(event: DpEvent, *, max_bytes: int = MAX_BYTES) -> str:
    """The JSON document of an event, at most `max_bytes` of ASCII; `from_json` gives the event back.

    Raises:
      EventFormatError: a class that is neither listed nor registered, a value that `from_json` would refuse
        or that JSON cannot hold exactly (NaN, Fraction(1, 3)), or an event that contains itself.
    """
    writer = Writer(_classes(), validation.integer("max_bytes", max_bytes, 1))
    try:
        within(".event", EVENT, event)
        return writer.written({**_HEADER, "event": event})
    except Refusal as refusal:
        raise refusal.error(writer.path) from None


def from_json(text: str | bytes, *, max_bytes: int = MAX_BYTES) -> DpEvent:
    """The event of a JSON document, written by `to_json` or by hand.

    Args:
      text: the document; bytes are UTF-8, with or without a byte order mark.
      max_bytes: a longer document is refused unread.

    Raises:
      EventFormatError: for example
        "$.event.events[3].event.noise_multiplier: must be a number >= 0. Found -1."
    """
    return _read(text, _HEADER, _event_of, validation.integer("max_bytes", max_bytes, 1))


def accountant_to_json(name: str, relation: NeighboringRelation, settings: Mapping[str, Any], ledger: DpEvent) -> str:
    """The JSON document of an accountant: its class, how it was made, and the document of its ledger."""
    head = {**_accountant_header(name), "neighboring_relation": relation.name, "settings": settings}
    return f'{json.dumps(head)[:-1]}, "ledger": {to_json(ledger)}}}'


def accountant_from_json(text: str | bytes, name: str) -> tuple[NeighboringRelation, dict[str, Any], DpEvent]:
    """Neighboring relation, settings and ledger of an accountant of the class `name`; EventFormatError if it is none."""
    header = _accountant_header(name)
    names = (*header, "neighboring_relation", "settings", "ledger")

    def parts(document: Any) -> tuple[NeighboringRelation, dict[str, Any], DpEvent]:
        relation, settings, ledger = (_with_members(names, document)[key] for key in names[-3:])
        return (within(".neighboring_relation", _relation, relation), within(".settings", instance(dict, "an object"), settings),
                within(".ledger", _event_of, ledger))

    return _read(text, header, parts, MAX_BYTES + 4096, 1)  # around the largest ledger


def _accountant_header(name: str) -> dict[str, str | int]:
    return {"format": "dp-edgeworth-accountant", "version": 1, "class": name}


def _relation(name: Any) -> NeighboringRelation:
    if not isinstance(name, str) or name not in NeighboringRelation.__members__:
        raise must_be(f"one of {', '.join(NeighboringRelation.__members__)}", name)
    return NeighboringRelation[name]


def _event_of(document: Any) -> DpEvent:
    members = _with_members((*_HEADER, "event"), document)
    for name, wanted in _HEADER.items():
        within(f".{name}", functools.partial(check_header, wanted), members[name])
    event: DpEvent = within(".event", EVENT, members["event"])
    return event


def _with_members(names: Sequence[str], document: Any) -> dict[str, Any]:
    if not isinstance(document, dict) or document.keys() != set(names):
        raise must_be(f"an object with the members {', '.join(names[:-1])} and {names[-1]}", document)
    return document


def _read(text: str | bytes, header: Mapping[str, str | int], kind: Callable[[Any], _T], max_bytes: int, extra_depth: int = 0) -> _T:
    """What `kind` makes of a document with this header."""
    reader = Reader(_classes(), header, extra_depth)
    try:
        return kind(reader.read(decoded(text, max_bytes)))
    except json.JSONDecodeError as error:
        found = f"{error.msg}, at line {error.lineno}, column {error.colno}"
        raise Refusal(f"must be valid JSON. Found: {found}.").error(reader.path()) from None
    except Refusal as refusal:
        raise refusal.error(reader.path()) from refusal.__cause__
