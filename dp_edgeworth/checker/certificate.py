"""The certificate file, read strictly: what is claimed, and the leaves of the event tree.

    {"format": "dp-edgeworth-certificate", "version": 1, "event": {...}, "neighboring_relation": "ADD_OR_REMOVE_ONE",
     "quantity": "epsilon", "given": "1e-05", "lower": "10.053", "upper": "10.054", "hints": {...}, "made_by": {...}}

`given`, `lower` and `upper` are exact decimals in quotes. `hints` and `made_by` are believed by nobody. Numbers in an event are what
the format "dp-edgeworth-event" says they are: integers, and doubles, exactly.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .balls import InputError, UndecidedError

ANY = RELATIONS = ("ADD_OR_REMOVE_ONE", "REPLACE_ONE", "REPLACE_SPECIAL")
MOST_BYTES, MOST_DIGITS, MOST_USES, WHOLE = 16 * 2**20, 640, 10**18, 10**15
CLAIM = {"format", "version", "event", "neighboring_relation", "quantity", "given", "lower", "upper"}
MEMBERS = CLAIM | {"hints", "made_by"}
DECIMAL = re.compile(r"[+-]?([0-9]{1,400})(\.[0-9]{0,400})?([eE][+-]?[0-9]{1,4})?\Z")
Event = dict[str, Any]
Range = tuple[type, float, float]
Fields = dict[str, Range | list[Range] | None]  # a range, an array of numbers in it, or anything
SIZE, SHARE, COUNT, POSITIVE = (float, 0, math.inf), (float, 0, 1), (int, 0, WHOLE), (int, 1, WHOLE)


@dataclass(frozen=True)
class Claim:
    """`lower` <= quantity <= `upper` at `given`; an upper end None claims nothing."""

    event: Any
    relation: str
    quantity: str
    given: Fraction
    lower: Fraction
    upper: Fraction | None
    hints: dict[str, Any]


def read(text: str | bytes) -> Claim:
    """The claim of a certificate; InputError with a sentence for anything else."""
    if len(text) > MOST_BYTES:
        raise InputError(f"A certificate must have at most {MOST_BYTES} bytes. Found {len(text)}.")
    try:
        data = json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_float=_double, parse_constant=_double)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"A certificate must be JSON, not nested too deeply. Found: {str(error)[:100]}.") from None
    if not isinstance(data, dict) or (data.get("format"), repr(data.get("version"))) != ("dp-edgeworth-certificate", "1"):
        raise InputError("A certificate must have the format `dp-edgeworth-certificate` and the version 1.")
    if data.keys() - MEMBERS or CLAIM - data.keys():
        raise InputError(f"A certificate must have the members {', '.join(sorted(MEMBERS))}. Found {str(sorted(data))[:300]}.")
    relation, quantity, hints = data["neighboring_relation"], data["quantity"], data.get("hints")
    if relation not in RELATIONS or quantity not in ("epsilon", "delta"):
        raise InputError(f"`neighboring_relation` must be one of {', '.join(RELATIONS)}, and `quantity` epsilon or delta. Found "
                         f"{found(relation)}, {found(quantity)}.")
    given, lower = (_fraction(data[name], name) for name in ("given", "lower"))
    upper = None if data["upper"] == "inf" else _fraction(data["upper"], "upper")
    if min(given, lower, upper or 0) < 0 or (quantity == "epsilon" and given > 1):
        raise InputError("`given`, `lower` and `upper` must not be negative, and a delta must be at most 1.")
    return Claim(data["event"], relation, quantity, given, lower, upper, hints if isinstance(hints, dict) else {})


def found(value: object) -> str:
    return repr(value)[:60]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(dict(pairs)) != len(pairs):
        raise InputError(f"An object must have each member once. Found {sorted(name for name, _ in pairs)[:20]}.")
    return dict(pairs)


def _integer(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise InputError(f"An integer must have at most {MOST_DIGITS} digits. Found {len(text)}.")
    return int(text)


def _double(text: str) -> float:
    value = float(text)
    if len(text) > MOST_DIGITS or not math.isfinite(value) or (value == 0 and text.lstrip("-0.")[:1] not in ("", "e", "E")):
        raise InputError(f"A number must be in the range of a double. Found {text[:60]}.")
    return value


def _fraction(text: object, name: str) -> Fraction:
    if not isinstance(text, str) or not DECIMAL.match(text):
        raise InputError(f"`{name}` must be a decimal number in quotes. Found {found(text)}.")
    return Fraction(text)


# ---- the event tree ----


def values(event: Event, fields: Fields) -> list[Any]:
    """The fields of an event, which has no others, each in its range; a field without a range as it is."""
    unknown = sorted(event.keys() - {"type", *fields})
    if unknown:
        raise InputError(f"`{event['type']}` must have the fields {', '.join(fields)}. Found {found(unknown[0])}.")
    return [event.get(name) if limits is None
            else [number(event, name, limits[0], value) for value in listed(event, name)] if isinstance(limits, list)
            else number(event, name, limits, event.get(name)) for name, limits in fields.items()]


def number(event: Event, name: str, limits: Range, value: Any) -> Any:
    """A number within limits, an integer where that is its kind; "inf" is allowed where there is no largest one."""
    (kind, low, high), value = limits, math.inf if value == "inf" else value
    if isinstance(value, bool) or not isinstance(value, int if kind is int else (int, float)) or not low <= value <= high:
        words = "an integer" if kind is int else "a number"
        raise InputError(f"`{name}` of `{event['type']}` must be {words} in [{low}, {high}]. Found {found(value)}.")
    return value


def listed(event: Event, name: str) -> list[Any]:
    value = event.get(name)
    value = value["tuple"] if isinstance(value, dict) and set(value) == {"tuple"} else value
    if not isinstance(value, list):
        raise InputError(f"`{name}` of `{event['type']}` must be an array. Found {found(value)}.")
    return value


def leaves(tree: object) -> Iterator[tuple[Event, int]]:
    """The leaves of a tree with their counts, without recursion."""
    waiting = [(tree, 1)]
    while waiting:
        event, count = waiting.pop()
        if not isinstance(event, dict) or not isinstance(event.get("type"), str):
            raise InputError(f"An event must be an object with a `type`. Found {found(event)}.")
        if count > MOST_USES:
            raise UndecidedError(f"a leaf is used more than {MOST_USES} times")
        if event["type"] == "SelfComposedDpEvent":
            inner, times = values(event, {"event": None, "count": POSITIVE})
            waiting.append((inner, count * times))
        elif event["type"] == "ComposedDpEvent":
            values(event, {"events": None})
            waiting += [(part, count) for part in reversed(listed(event, "events"))]
        elif event["type"] != "NoOpDpEvent":
            yield event, count
