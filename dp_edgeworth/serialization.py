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

import decimal
import json
import math
import numbers
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import attr
import numpy as np
from dp_accounting import dp_event
from dp_accounting.dp_event import DpEvent

from dp_edgeworth import events as our_events

FORMAT, VERSION = "dp-edgeworth-event", 1
MAX_BYTES = 16 * 2**20  # of text: about 200,000 leaves
MAX_NESTING = 1000  # JSON objects and arrays inside one another: 499 nested `ComposedDpEvent`s
MAX_DIGITS = 640  # of an integer: int() takes that many under any sys.set_int_max_str_digits

_INFINITIES = {"inf": math.inf, "-inf": -math.inf}
_RESERVED = {"type", "tuple"}  # keys that make an object an event or a tuple
_WHITE_SPACE = frozenset(" \t\n\r")
_PENDING: Any = object()
_Child = tuple[str, str, Any]  # text before it, path segment, value
_Kind = Callable[[Any], Any]  # checks a value and returns it with numpy numbers and arrays made plain


class EventFormatError(ValueError):
    """The event or the document is not one that the format allows; the message says where and why."""


class _Refusal(Exception):
    """A sentence, and the path to the offending value from the one being checked."""

    def __init__(self, sentence: str, *segments: str) -> None:
        super().__init__(sentence)
        self.segments = list(segments)

    def error(self, path: list[str]) -> EventFormatError:
        path = path + self.segments
        shown = path if len(path) <= 40 else [*path[:20], " ... ", *path[-20:]]
        return EventFormatError(f"${''.join(shown)}: {self}")


def _must_be(wanted: str, value: object, *segments: str) -> _Refusal:
    return _Refusal(f"must be {wanted}. Found {_shown(value)}.", *segments)


def _shown(value: object) -> str:
    """A value in a message: short, ASCII, never recursive."""
    if isinstance(value, str):
        return json.dumps(value[:60] + "..." * (len(value) > 60))
    if isinstance(value, int) and value.bit_length() > 200:
        return f"an integer of {value.bit_length()} bits"
    if type(value) in (int, float):
        return repr(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    return f"a `{type(value).__name__[:60]}`"


def _segment(key: str | int) -> str:
    plain = isinstance(key, str) and key.isascii() and key.isidentifier() and len(key) <= 60
    return f".{key}" if plain else f"[{_shown(key)}]"


def _within(segment: str, kind: _Kind, value: Any) -> Any:
    try:
        return kind(value)
    except _Refusal as refusal:
        refusal.segments.insert(0, segment)
        raise


def _each(kind: _Kind, items: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    return {key: _within(_segment(key), kind, value) for key, value in items}


def _plain(value: Any) -> Any:
    """Numpy scalars and 0-d arrays as Python numbers, other arrays as lists."""
    value = value.tolist() if isinstance(value, np.ndarray) else value
    return value.item() if isinstance(value, np.generic) else value


def _real(value: Any) -> int | float | None:
    """The int or the double that equals a real number; None for NaN, 1/3 and what is no number."""
    if isinstance(value, numbers.Integral):
        return None if isinstance(value, bool) else int(value)
    if not isinstance(value, (numbers.Real, decimal.Decimal)):
        return None
    try:
        return float(value) if float(value) == value else None
    except (ArithmeticError, ValueError):
        return None


def _number(wanted: str, low: float = -math.inf, high: float = math.inf, types: Any = (int, float)) -> _Kind:
    def check(value: Any) -> int | float:
        number = _real(_plain(value))
        if not isinstance(number, types) or not low <= number <= high:
            raise _must_be(wanted, _plain(value))
        return number

    return check


def _sequence(kind: _Kind, wanted: str, right_size: Callable[[int], bool]) -> _Kind:
    def check(value: Any) -> list[Any] | tuple[Any, ...]:
        value = _plain(value)
        if not isinstance(value, (list, tuple)):
            raise _must_be(wanted, value)
        if not right_size(len(value)):
            raise _Refusal(f"must be {wanted}. Found {len(value)} entries.")
        entries = _each(kind, enumerate(value)).values()
        return list(entries) if isinstance(value, list) else tuple(entries)

    return check


def _instance(cls: type, wanted: str) -> _Kind:
    def check(value: Any) -> Any:
        if not isinstance(value, cls):
            raise _must_be(wanted, value)
        return value

    return check


def _optional(kind: _Kind) -> _Kind:
    return lambda value: None if value is None else kind(value)


def _steps(value: Any) -> Any:
    return _STEP_LIST(value) if isinstance(_plain(value), (list, tuple)) else _NATURAL(value)


def _parameters(value: Any) -> dict[str, Any]:
    """Distribution parameters: (name, value) pairs in the event, an object in the document."""
    if isinstance(value, tuple):
        pairs = [pair for pair in value if isinstance(pair, tuple) and len(pair) == 2]
        names = {name for name, _ in pairs if isinstance(name, str)}
        value = dict(value) if len(names) == len(value) else value
    return _each(_NUMBER, _instance(dict, "an object of numbers, each name once")(value).items())


_NUMBER = _number("a number")
_NON_NEGATIVE = _number("a number >= 0", 0)
_PROBABILITY = _number("a number in [0, 1]", 0, 1)
_NATURAL = _number("an integer >= 0", 0, types=int)
_POSITIVE = _number("an integer >= 1", 1, types=int)
_EVENT = _instance(DpEvent, 'an event, an object with a "type"')
_STEP_LIST = _sequence(_NATURAL, "an integer >= 0 or a non-empty array of them", bool)
_FOUR = _sequence(_NUMBER, "an array of 4 numbers", lambda size: size == 4)

# The fixed list. Classes that the installed dp-accounting lacks are unknown types.
_LISTED = """DpEvent NoOpDpEvent NonPrivateDpEvent UnsupportedDpEvent GaussianDpEvent LaplaceDpEvent
    DiscreteLaplaceDpEvent DiscreteGaussianDpEvent RandomizedResponseDpEvent EpsilonDeltaDpEvent ZCDpEvent
    ExponentialMechanismDpEvent PermuteAndFlipDpEvent MixtureOfGaussiansDpEvent SelfComposedDpEvent
    ComposedDpEvent
    PoissonSampledDpEvent SampledWithReplacementDpEvent SampledWithoutReplacementDpEvent
    RandomAllocationDpEvent TruncatedSubsampledGaussianDpEvent SingleEpochTreeAggregationDpEvent
    RepeatAndSelectDpEvent AdditiveNoiseDpEvent PllrMomentsDpEvent""".split()

# What the fields of these classes may hold, by name; by class and name where one name means two things.
# Fields that a later dp-accounting adds are kept, unchecked.
_KINDS: dict[str, _Kind] = {
    **dict.fromkeys(("noise_multiplier", "noise_parameter", "sigma", "standard_deviation"), _NON_NEGATIVE),
    **dict.fromkeys(("sensitivity", "epsilon", "rho", "xi", "shape"), _NON_NEGATIVE),
    **dict.fromkeys(("sampling_probability", "delta"), _PROBABILITY),
    **dict.fromkeys(("count", "num_buckets", "num_steps", "source_dataset_size"), _POSITIVE),
    **dict.fromkeys(("sample_size", "num_selected", "dataset_size", "truncated_batch_size"), _NATURAL),
    **dict.fromkeys(("x_absolute_third", "y_absolute_third"), _optional(_NON_NEGATIVE)),
    **dict.fromkeys(("x_cumulants", "y_cumulants"), lambda value: list(_FOUR(value))),
    "RandomizedResponseDpEvent.noise_parameter": _PROBABILITY,
    "DiscreteLaplaceDpEvent.sensitivity": _NATURAL,
    "dimension": _optional(_POSITIVE),
    "mean": _number("a number >= 1", 1),
    "event": _EVENT,
    "events": _sequence(_EVENT, "an array of events", lambda size: True),
    "step_counts": _steps,
    "sensitivities": _sequence(_NUMBER, "a non-empty array of numbers", bool),
    "sampling_probs": _sequence(_PROBABILITY, "a non-empty array of probabilities", bool),
    "distribution": _instance(str, "a string"),
    "parameters": _parameters,
}
_AT_MOST = {
    "SampledWithoutReplacementDpEvent": ("sample_size", "source_dataset_size"),
    "RandomAllocationDpEvent": ("num_selected", "num_steps"),
}


def _checked(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """The fields of an event of the class written as `name`, checked one by one and then together."""
    listed = name in _LISTED
    for key, value in values.items():
        kind = _KINDS.get(f"{name}.{key}", _KINDS.get(key, _plain)) if listed else _plain
        values[key] = _within(_segment(key), kind, value)
    if name == "MixtureOfGaussiansDpEvent":
        _check_mixture(values["sensitivities"], values["sampling_probs"])
    if name in _AT_MOST:
        _check_at_most(values, *_AT_MOST[name])
    return values


def _check_at_most(values: dict[str, Any], smaller: str, larger: str) -> None:
    if values[smaller] > values[larger]:
        raise _must_be(f"at most `{larger}`, {_shown(values[larger])}", values[smaller], f".{smaller}")


def _check_mixture(sensitivities: list[float], probabilities: list[float]) -> None:
    if len(probabilities) != len(sensitivities):
        found = f"{len(probabilities)} and {len(sensitivities)}"
        raise _Refusal(f"must be as many as `sensitivities`. Found {found}.", ".sampling_probs")
    if not math.isclose(math.fsum(probabilities), 1, rel_tol=1e-8):
        raise _Refusal(f"must sum to 1. Found {math.fsum(probabilities)!r}.", ".sampling_probs")
    for index, sensitivity in enumerate(sensitivities):
        if sensitivity < 0 < probabilities[index]:
            raise _must_be("a number >= 0", sensitivity, f".sensitivities[{index}]")


_registered: dict[str, type[DpEvent]] = {}


def _classes() -> dict[str, type[DpEvent]]:
    """The classes of the fixed list that are installed and the registered ones, by name."""
    modules = (our_events, dp_event)
    listed = {name: getattr(module, name) for module in modules for name in _LISTED if hasattr(module, name)}
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
        raise ValueError(f"`name` must be 1 to 200 printable ASCII characters. Found {_shown(name)}.")
    if not (isinstance(cls, type) and issubclass(cls, DpEvent) and "__attrs_attrs__" in vars(cls)):
        raise ValueError(f"`cls` must be a subclass of `DpEvent` decorated with `attr.s`. Found {cls!r}.")
    for field in attr.fields(cls):
        if field.name in _RESERVED or field.name.startswith("_") or not field.init:
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
    writer = _Writer(max_bytes)
    try:
        _within(".event", _EVENT, event)
        return writer.written({"format": FORMAT, "version": VERSION, "event": event})
    except _Refusal as refusal:
        raise refusal.error(writer.path) from None


class _Writer:
    """Writes a value depth first, the open containers on a stack."""

    def __init__(self, max_bytes: int) -> None:
        self.path: list[str] = []
        self._max_bytes = max_bytes
        self._size = 0
        self._pieces: list[str] = []
        self._open: dict[int, tuple[Any, Iterator[_Child], str]] = {}  # by id, innermost last
        self._names = {cls: name for name, cls in _classes().items()}

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
            raise _Refusal(f"must take at most {self._max_bytes} bytes (`max_bytes`). Found more.")
        self._pieces.append(piece)

    def _begin(self, value: Any) -> None:
        value = _plain(value)
        if not isinstance(value, (list, tuple, dict, DpEvent)):
            return self._emit(_scalar(value))
        if id(value) in self._open:
            raise _Refusal(f"must not contain itself. Found the same `{type(value).__name__}` further up.")
        _check_nesting(len(self._open))
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
                if not isinstance(key, str) or key in _RESERVED:
                    raise _Refusal(f'must have strings but "type" and "tuple" as keys. Found {_shown(key)}.')
            return "{", _members(value), "}"
        name = self._names.get(type(value))
        if name is None:
            raise _must_be("of a class that is listed or registered with `register_event`", value)
        values = {field.name: getattr(value, field.name) for field in attr.fields(type(value))}
        return "{", _members({"type": name, **_checked(name, values)}), "}"


def _members(values: dict[str, Any]) -> Iterator[_Child]:
    separator = ""
    for key, value in values.items():
        yield f"{separator}{json.dumps(_unicode(key))}: ", _segment(key), value
        separator = ", "


def _scalar(value: Any) -> str:
    if isinstance(value, str) and value not in _INFINITIES:
        return json.dumps(_unicode(value))
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    number = _real(value)
    if number is None or (isinstance(number, int) and abs(number) >= 10**MAX_DIGITS):
        raise _must_be("a value that JSON can hold exactly", value)
    return f'"{number}"' if number in (math.inf, -math.inf) else repr(number)


def _unicode(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _must_be("Unicode text without lone surrogates", text) from None
    return text


def _check_nesting(depth: int) -> None:
    if depth >= MAX_NESTING:
        raise _Refusal(f"must be nested at most {MAX_NESTING} deep. Found more.")


def from_json(text: str | bytes, *, max_bytes: int = MAX_BYTES) -> DpEvent:
    """The event of a JSON document, written by `to_json` or by hand.

    Args:
      text: the document; bytes are UTF-8, with or without a byte order mark.
      max_bytes: a longer document is refused unread.

    Raises:
      EventFormatError: for example
        "$.event.events[3].event.noise_multiplier: must be a number >= 0. Found -1."
    """
    reader = _Reader()
    try:
        document = reader.read(_decoded(text, max_bytes))
        if not isinstance(document, dict) or document.keys() != {"format", "version", "event"}:
            raise _must_be("an object with the members format, version and event", document)
        event: DpEvent = _within(".event", _EVENT, document["event"])
        return event
    except json.JSONDecodeError as error:
        found = f"{error.msg}, at line {error.lineno}, column {error.colno}"
        raise _Refusal(f"must be valid JSON. Found: {found}.").error(reader.path()) from None
    except _Refusal as refusal:
        raise refusal.error(reader.path()) from refusal.__cause__


def _decoded(text: str | bytes, max_bytes: int) -> str:
    if not isinstance(text, (str, bytes)):
        raise _must_be("str or bytes", text)
    size = len(text)
    if size <= max_bytes and isinstance(text, str):
        size = len(_unicode(text).encode())
    if size > max_bytes:
        raise _Refusal(f"must be at most {max_bytes} bytes (`max_bytes`). Found {size}.")
    try:
        return text if isinstance(text, str) else text.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _Refusal(f"must be UTF-8. Found an invalid byte at offset {error.start}.") from None


def _integer_literal(text: str) -> int:
    digits = len(text) - text.startswith("-")
    if digits > MAX_DIGITS:
        raise _Refusal(f"must be a number of at most {MAX_DIGITS} digits. Found {digits}.")
    return int(text)


def _float_literal(text: str) -> float:
    """Refused where the nearest double is infinite, or is zero though the number is not."""
    if len(text) > MAX_DIGITS:
        raise _Refusal(f"must be a number of at most {MAX_DIGITS} digits. Found {len(text)}.")
    value = float(text)
    if math.isinf(value) or (value == 0 and re.match("-?[0.]*[1-9]", text)):
        raise _Refusal(f"must be in the range of a double. Found {text[:60]}.")
    return value


def _constant(text: str) -> float:
    raise _Refusal(f'must be a number, "inf" or "-inf". Found {text}.')


_SCALARS = json.JSONDecoder(parse_int=_integer_literal, parse_float=_float_literal, parse_constant=_constant)


class _Reader:
    """Reads JSON depth first, the open containers on a stack; an object becomes an event when it closes."""

    def __init__(self) -> None:
        self._text, self._at = "", 0
        self._open: list[Any] = []  # dicts and lists
        self._keys: list[str | int | None] = []  # of what is being read in each
        self._known = _classes()

    def path(self) -> list[str]:
        return [_segment(key) for key in self._keys if key is not None]

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
        return _unicode(value) if isinstance(value, str) else value

    def _value(self) -> Any:
        """A scalar, an empty container, or `_PENDING` where a container opens."""
        character = self._peek()
        if character != "{" and character != "[":
            value = self._scalar()
            return _INFINITIES.get(value, value) if isinstance(value, str) else value
        _check_nesting(len(self._open))
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
            raise _Refusal(f"must have each member once. Found {_shown(key)} twice.")
        if not self._take(":"):
            raise self._syntax("Expecting ':'")
        self._keys[-1] = key
        return _PENDING

    def _stored(self, value: Any) -> Any:
        container, key = self._open[-1], self._keys[-1]
        if len(self._open) == 1:
            _check_header(key, value)
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
        if isinstance(value, list) or not _RESERVED & value.keys():
            return value
        if value.keys() == {"tuple"}:
            return tuple(_within(".tuple", _instance(list, "an array"), value["tuple"]))
        return self._event(value.pop("type", None), value)

    def _event(self, name: object, values: dict[str, Any]) -> DpEvent:
        cls = self._known.get(name) if isinstance(name, str) else None
        if cls is None or not isinstance(name, str):
            raise _must_be("the name of a listed or registered event class", name, ".type")
        fields = {field.name: field for field in attr.fields(cls)}
        for key in values:
            if key not in fields:
                raise _must_be(f"a field of `{name}`: {', '.join(fields) or 'none'}", key, _segment(key))
        for key, field in fields.items():
            if field.default is attr.NOTHING and key not in values:
                raise _Refusal(f"must have every field of `{name}`. Found no `{key}`.")
        return _made(name, cls, _checked(name, values))


def _check_header(key: object, value: Any) -> None:
    """Format and version, as soon as they are read: what follows may be of another version."""
    for name, wanted in (("format", FORMAT), ("version", VERSION)):
        if key == name and (type(value) is not type(wanted) or value != wanted):
            raise _must_be(_shown(wanted), value)


def _made(name: str, cls: type[DpEvent], values: dict[str, Any]) -> DpEvent:
    try:
        return cls(**values)
    except Exception as error:  # the constructor of a registered class may raise anything
        found = ascii(" ".join(str(error).split())[:200])
        raise _Refusal(f"must be what `{name}` takes. Found {type(error).__name__} {found}.") from error
