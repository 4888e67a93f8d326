"""Reads JSON text as an event, for `serialization.from_json`. Imports nothing and calls no class but those it is given.

It does not recurse: open containers are on a stack, and only strings and numbers are left to the json module.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

import attr
from dp_accounting.dp_event import DpEvent

from dp_edgeworth.events.json_fields import (
    INFINITIES,
    MAX_DIGITS,
    RESERVED,
    Refusal,
    check_nesting,
    checked,
    instance,
    must_be,
    segment_of,
    shown,
    unicode_text,
    within,
)

_WHITE_SPACE = frozenset(" \t\n\r")
_PENDING: Any = object()


def decoded(text: str | bytes, max_bytes: int) -> str:
    if not isinstance(text, (str, bytes)):
        raise must_be("str or bytes", text)
    size = len(text)
    if size <= max_bytes and isinstance(text, str):
        size = len(unicode_text(text).encode())
    if size > max_bytes:
        raise Refusal(f"must be at most {max_bytes} bytes (`max_bytes`). Found {size}.")
    try:
        return text if isinstance(text, str) else text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise Refusal(f"must be UTF-8. Found an invalid byte at offset {error.start}.") from None


def _integer_literal(text: str) -> int:
    digits = len(text) - text.startswith("-")
    if digits > MAX_DIGITS:
        raise Refusal(f"must be a number of at most {MAX_DIGITS} digits. Found {digits}.")
    return int(text)


def _float_literal(text: str) -> float:
    """Refused where the nearest double is infinite, or is zero though the number is not."""
    if len(text) > MAX_DIGITS:
        raise Refusal(f"must be a number of at most {MAX_DIGITS} digits. Found {len(text)}.")
    value = float(text)
    if math.isinf(value) or (value == 0 and re.match("-?[0.]*[1-9]", text)):
        raise Refusal(f"must be in the range of a double. Found {text[:60]}.")
    return value


def _constant(text: str) -> float:
    raise Refusal(f'must be a number, "inf" or "-inf". Found {text}.')


_SCALARS = json.JSONDecoder(parse_int=_integer_literal, parse_float=_float_literal, parse_constant=_constant)


class Reader:
    """Reads JSON depth first, the open containers on a stack; an object becomes an event when it closes."""

    def __init__(self, classes: Mapping[str, type[DpEvent]], header: Mapping[str, str | int], extra_depth: int = 0) -> None:
        """`header` is what must stand in the outermost object; it may be `extra_depth` deeper than a document of one event."""
        self._text, self._at = "", 0
        self._header, self._extra_depth = header, extra_depth
        self._open: list[Any] = []  # dicts and lists
        self._keys: list[str | int | None] = []  # of what is being read in each
        self._known = classes

    def path(self) -> list[str]:
        return [segment_of(key) for key in self._keys if key is not None]

    def read(self, text: str) -> Any:
        self._text = text
        value = self._value()
        while self._open:
            value = self._value() if value is _PENDING else self._stored(value)
        if self._peek():
            raise self._syntax("Extra data")
        return value

    def _peek(self) -> str:
        """The next character that is not white space; empty at the end."""
        while (character := self._text[self._at : self._at + 1]) in _WHITE_SPACE:
            self._at += 1
        return character

    def _take(self, character: str) -> bool:
        if self._peek() != character:
            return False
        self._at += 1
        return True

    def _syntax(self, message: str) -> json.JSONDecodeError:
        return json.JSONDecodeError(message, self._text, self._at)

    def _scalar(self) -> Any:
        value, self._at = _SCALARS.raw_decode(self._text, self._at)
        return unicode_text(value) if isinstance(value, str) else value

    def _value(self) -> Any:
        """A scalar, an empty container, or `_PENDING` where a container opens."""
        character = self._peek()
        if character != "{" and character != "[":
            value = self._scalar()
            return INFINITIES.get(value, value) if isinstance(value, str) else value
        check_nesting(len(self._open) - self._extra_depth)
        self._at += 1
        self._open.append({} if character == "{" else [])
        self._keys.append(None)
        return self._closed() if self._take("}" if character == "{" else "]") else self._key()

    def _key(self) -> Any:
        container = self._open[-1]
        if isinstance(container, list):
            self._keys[-1] = len(container)
            return _PENDING
        self._keys[-1] = None
        if self._peek() != '"':
            raise self._syntax("Expecting a member name in double quotes")
        key = self._scalar()
        if key in container:
            raise Refusal(f"must have each member once. Found {shown(key)} twice.")
        if not self._take(":"):
            raise self._syntax("Expecting ':'")
        self._keys[-1] = key
        return _PENDING

    def _stored(self, value: Any) -> Any:
        container, key = self._open[-1], self._keys[-1]
        if len(self._open) == 1 and isinstance(key, str) and key in self._header:
            check_header(self._header[key], value)
        if isinstance(container, list):
            container.append(value)
        else:
            container[key] = value
        if self._take(","):
            return self._key()
        if not self._take("]" if isinstance(container, list) else "}"):
            raise self._syntax("Expecting ',' or the end of the object or array")
        return self._closed()

    def _closed(self) -> Any:
        """The container just read as what it stands for: a list, a dict, a tuple or an event."""
        self._keys.pop()
        value = self._open.pop()
        if isinstance(value, list) or not RESERVED & value.keys():
            return value
        if value.keys() == {"tuple"}:
            return tuple(within(".tuple", instance(list, "an array"), value["tuple"]))
        return self._event(value.pop("type", None), value)

    def _event(self, name: object, values: dict[str, Any]) -> DpEvent:
        cls = self._known.get(name) if isinstance(name, str) else None
        if cls is None or not isinstance(name, str):
            raise must_be("the name of a listed or registered event class", name, ".type")
        fields = {field.name: field for field in attr.fields(cls)}
        for key in values:
            if key not in fields:
                raise must_be(f"a field of `{name}`: {', '.join(fields) or 'none'}", key, segment_of(key))
        for key, field in fields.items():
            if field.default is attr.NOTHING and key not in values:
                raise Refusal(f"must have every field of `{name}`. Found no `{key}`.")
        return _made(name, cls, checked(name, values))


def check_header(wanted: str | int, value: Any) -> None:
    """Format and version, as soon as they are read: what follows may be of another version."""
    if type(value) is not type(wanted) or value != wanted:
        raise must_be(shown(wanted), value)


def _made(name: str, cls: type[DpEvent], values: dict[str, Any]) -> DpEvent:
    try:
        return cls(**values)
    except Exception as error:  # the constructor of a registered class may raise anything
        found = ascii(" ".join(str(error).split())[:200])
        raise Refusal(f"must be what `{name}` takes. Found {type(error).__name__} {found}.") from error
