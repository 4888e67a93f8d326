"""Writes an event as JSON text, for `serialization.to_json`. It does not recurse: open containers are on a stack."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
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
    must_be,
    plain,
    real,
    segment_of,
    shown,
    unicode_text,
)

_Child = tuple[str, str, Any]  # text before it, path segment, value


class Writer:
    """Writes a value depth first, the open containers on a stack."""

    def __init__(self, classes: Mapping[str, type[DpEvent]], max_bytes: int) -> None:
        self.path: list[str] = []
        self._max_bytes = max_bytes
        self._size = 0
        self._pieces: list[str] = []
        self._open: dict[int, tuple[Any, Iterator[_Child], str]] = {}  # by id, innermost last
        self._names = {cls: name for name, cls in classes.items()}

    def written(self, root: object) -> str:
        self._begin(root)
        while self._open:
            container, children, closing = next(reversed(self._open.values()))
            child = next(children, None)
            if child is None:
                self._emit(closing)
                del self._open[id(container)]
                self.path.pop()
            else:
                prefix, self.path[-1], value = child
                self._emit(prefix)
                self._begin(value)
        return "".join(self._pieces)

    def _emit(self, piece: str) -> None:
        self._size += len(piece)
        if self._size > self._max_bytes:
            raise Refusal(f"must take at most {self._max_bytes} bytes (`max_bytes`). Found more.")
        self._pieces.append(piece)

    def _begin(self, value: Any) -> None:
        value = plain(value)
        if not isinstance(value, (list, tuple, dict, DpEvent)):
            return self._emit(_scalar(value))
        if id(value) in self._open:
            raise Refusal(f"must not contain itself. Found the same `{type(value).__name__}` further up.")
        check_nesting(len(self._open))
        opening, children, closing = self._parts(value)
        self._emit(opening)
        self._open[id(value)] = (value, children, closing)
        self.path.append("")

    def _parts(self, value: Any) -> tuple[str, Iterator[_Child], str]:
        """What opens a container, its children, what closes it."""
        if isinstance(value, list):
            return "[", ((", " * (i > 0), f"[{i}]", entry) for i, entry in enumerate(value)), "]"
        if isinstance(value, tuple):
            return "{", _members({"tuple": list(value)}), "}"
        if isinstance(value, dict):
            for key in value:
                if not isinstance(key, str) or key in RESERVED:
                    raise Refusal(f'must have strings but "type" and "tuple" as keys. Found {shown(key)}.')
            return "{", _members(value), "}"
        name = self._names.get(type(value))
        if name is None:
            raise must_be("of a class that is listed or registered with `register_event`", value)
        values = {field.name: getattr(value, field.name) for field in attr.fields(type(value))}
        return "{", _members({"type": name, **checked(name, values)}), "}"


def _members(values: dict[str, Any]) -> Iterator[_Child]:
    separator = ""
    for key, value in values.items():
        yield f"{separator}{json.dumps(unicode_text(key))}: ", segment_of(key), value
        separator = ", "


def _scalar(value: Any) -> str:
    if isinstance(value, str) and value not in INFINITIES:
        return json.dumps(unicode_text(value))
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    number = real(value)
    if number is None or (isinstance(number, int) and abs(number) >= 10**MAX_DIGITS):
        raise must_be("a value that JSON can hold exactly", value)
    return f'"{number}"' if number in (math.inf, -math.inf) else repr(number)
