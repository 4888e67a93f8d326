"""The certificate file: what is claimed, read strictly.

    {"format": "dp-edgeworth-certificate", "version": 1, "event": {...}, "neighboring_relation": "ADD_OR_REMOVE_ONE",
     "quantity": "epsilon", "given": "1e-05", "lower": "10.053", "upper": "10.054", "hints": {...}, "made_by": {...}}

`given`, `lower` and `upper` are exact decimals in quotes. `hints` and `made_by` are believed by nobody.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from .balls import InputError, fraction_of

RELATIONS = ("ADD_OR_REMOVE_ONE", "REPLACE_ONE", "REPLACE_SPECIAL")
MOST_BYTES = 16 * 2**20
MOST_DIGITS = 640
_MEMBERS = {"format", "version", "event", "neighboring_relation", "quantity", "given", "lower", "upper", "hints", "made_by"}


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
        data = json.loads(text, object_pairs_hook=_object, parse_int=_integer, parse_float=_double, parse_constant=_constant)
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(f"A certificate must be JSON, not nested too deeply. Found: {str(error)[:100]}.") from None
    return _claim(data)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise InputError(f"An object must have each member once. Found {sorted(name for name, _ in pairs)[:20]}.")
    return found


def _integer(text: str) -> int:
    if len(text) > MOST_DIGITS:
        raise InputError(f"An integer must have at most {MOST_DIGITS} digits. Found {len(text)}.")
    return int(text)


def _double(text: str) -> float:
    value = float(text)
    if len(text) > MOST_DIGITS or math.isinf(value) or (value == 0 and text.lstrip("-0.")[:1] not in ("", "e", "E")):
        raise InputError(f"A number must be in the range of a double. Found {text[:60]}.")
    return value


def _constant(text: str) -> float:
    raise InputError(f"A number must be finite. Found {text}.")


def _claim(data: object) -> Claim:
    if not isinstance(data, dict) or (data.get("format"), repr(data.get("version"))) != ("dp-edgeworth-certificate", "1"):
        raise InputError("A certificate must have the format `dp-edgeworth-certificate` and the version 1.")
    if data.keys() - _MEMBERS or (_MEMBERS - {"hints", "made_by"}) - data.keys():
        raise InputError(f"A certificate must have the members {', '.join(sorted(_MEMBERS))}. Found {str(sorted(data))[:300]}.")
    relation, quantity, hints = data["neighboring_relation"], data["quantity"], data.get("hints", {})
    if relation not in RELATIONS:
        raise InputError(f"`neighboring_relation` must be one of {', '.join(RELATIONS)}. Found {str(relation)[:60]!r}.")
    if quantity not in ("epsilon", "delta"):
        raise InputError(f"`quantity` must be epsilon or delta. Found {str(quantity)[:60]!r}.")
    given, lower = (fraction_of(data[name], name) for name in ("given", "lower"))
    upper = None if data["upper"] == "inf" else fraction_of(data["upper"], "upper")
    if given < 0 or lower < 0 or (quantity == "epsilon" and given > 1):
        raise InputError("`given` and `lower` must not be negative, and a delta must be at most 1.")
    return Claim(data["event"], relation, quantity, given, lower, upper, hints if isinstance(hints, dict) else {})
