"""What the fields of events may hold in JSON: the fixed list of classes, the checks, and how a refusal is worded.

A check takes a value and returns it with numpy numbers and arrays made plain, or raises a `Refusal`: a sentence and the
path to the offending value. `json_writer.py` and `json_reader.py` apply the same checks.
"""

from __future__ import annotations

import decimal
import json
import math
import numbers
import sys
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from dp_accounting.dp_event import DpEvent

FORMAT, VERSION = "dp-edgeworth-event", 1
MAX_BYTES = 16 * 2**20  # of text: about 200,000 leaves
MAX_NESTING = 1000  # JSON objects and arrays inside one another: 499 nested `ComposedDpEvent`s
MAX_DIGITS = 640  # of an integer: int() takes that many under any sys.set_int_max_str_digits

INFINITIES = {"inf": math.inf, "-inf": -math.inf}
RESERVED = {"type", "tuple"}  # keys that make an object an event or a tuple
Kind = Callable[[Any], Any]  # checks a value and returns it with numpy numbers and arrays made plain


class EventFormatError(ValueError):
    """The event or the document is not one that the format allows; the message says where and why."""


class Refusal(Exception):
    """A sentence, and the path to the offending value from the one being checked."""

    def __init__(self, sentence: str, *segments: str) -> None:
        super().__init__(sentence)
        self.segments = list(segments)

    def error(self, path: list[str]) -> EventFormatError:
        path = path + self.segments
        steps = path if len(path) <= 40 else [*path[:20], " ... ", *path[-20:]]
        return EventFormatError(f"${''.join(steps)}: {self}")


def must_be(wanted: str, value: object, *segments: str) -> Refusal:
    return Refusal(f"must be {wanted}. Found {shown(value)}.", *segments)


def shown(value: object) -> str:
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


def segment_of(key: str | int) -> str:
    plain = isinstance(key, str) and key.isascii() and key.isidentifier() and len(key) <= 60
    return f".{key}" if plain else f"[{shown(key)}]"


def within(segment: str, kind: Kind, value: Any) -> Any:
    try:
        return kind(value)
    except Refusal as refusal:
        refusal.segments.insert(0, segment)
        raise


def _each(kind: Kind, items: Iterable[tuple[Any, Any]]) -> dict[Any, Any]:
    return {key: within(segment_of(key), kind, value) for key, value in items}


def plain(value: Any) -> Any:
    """Numpy scalars and 0-d arrays as Python numbers, other arrays as lists."""
    value = value.tolist() if isinstance(value, np.ndarray) else value
    return value.item() if isinstance(value, np.generic) else value


def real(value: Any) -> int | float | None:
    """The int or the double that equals a real number; None for NaN, 1/3 and what is no number."""
    if isinstance(value, numbers.Integral):
        return None if isinstance(value, bool) else int(value)
    if not isinstance(value, (numbers.Real, decimal.Decimal)):
        return None
    try:
        return float(value) if float(value) == value else None
    except (ArithmeticError, ValueError):
        return None


def _number(wanted: str, low: float = -math.inf, high: float = math.inf, types: Any = (int, float)) -> Kind:
    def check(value: Any) -> int | float:
        number = real(plain(value))
        if not isinstance(number, types) or not low <= number <= high:
            raise must_be(wanted, plain(value))
        return number

    return check


def _sequence(kind: Kind, wanted: str, right_size: Callable[[int], bool]) -> Kind:
    def check(value: Any) -> list[Any] | tuple[Any, ...]:
        value = plain(value)
        if not isinstance(value, (list, tuple)):
            raise must_be(wanted, value)
        if not right_size(len(value)):
            raise Refusal(f"must be {wanted}. Found {len(value)} entries.")
        entries = _each(kind, enumerate(value)).values()
        return list(entries) if isinstance(value, list) else tuple(entries)

    return check


def instance(cls: type, wanted: str) -> Kind:
    def check(value: Any) -> Any:
        if not isinstance(value, cls):
            raise must_be(wanted, value)
        return value

    return check


def _optional(kind: Kind) -> Kind:
    return lambda value: None if value is None else kind(value)


def _steps(value: Any) -> Any:
    return _STEP_LIST(value) if isinstance(plain(value), (list, tuple)) else _NATURAL(value)


def _parameters(value: Any) -> dict[str, Any]:
    """Distribution parameters: (name, value) pairs in the event, an object in the document."""
    if isinstance(value, tuple):
        pairs = [pair for pair in value if isinstance(pair, tuple) and len(pair) == 2]
        names = {name for name, _ in pairs if isinstance(name, str)}
        value = dict(value) if len(names) == len(value) else value
    return _each(_NUMBER, instance(dict, "an object of numbers, each name once")(value).items())


_NUMBER = _number("a number")
_NON_NEGATIVE = _number("a number >= 0", 0)
_PROBABILITY = _number("a number in [0, 1]", 0, 1)
_NATURAL = _number("an integer >= 0", 0, types=int)
_POSITIVE = _number("an integer >= 1", 1, types=int)
EVENT = instance(DpEvent, 'an event, an object with a "type"')
_STEP_LIST = _sequence(_NATURAL, "an integer >= 0 or a non-empty array of them", bool)
_FOUR = _sequence(_NUMBER, "an array of 4 numbers", lambda size: size == 4)
_FINITE = _number("a finite number", -sys.float_info.max, sys.float_info.max)
_FINITE_LIST = _sequence(_FINITE, "a non-empty array of finite numbers", bool)
_PROBABILITY_LIST = _sequence(_PROBABILITY, "a non-empty array of probabilities", bool)
_NON_NEGATIVE_LIST = _sequence(_NON_NEGATIVE, "a non-empty array of numbers >= 0", bool)

# The fixed list. Classes that the installed dp-accounting lacks are unknown types.
LISTED = """DpEvent NoOpDpEvent NonPrivateDpEvent UnsupportedDpEvent GaussianDpEvent LaplaceDpEvent
    DiscreteLaplaceDpEvent DiscreteGaussianDpEvent RandomizedResponseDpEvent EpsilonDeltaDpEvent ZCDpEvent
    ExponentialMechanismDpEvent PermuteAndFlipDpEvent MixtureOfGaussiansDpEvent SelfComposedDpEvent
    ComposedDpEvent
    PoissonSampledDpEvent SampledWithReplacementDpEvent SampledWithoutReplacementDpEvent
    RandomAllocationDpEvent TruncatedSubsampledGaussianDpEvent SingleEpochTreeAggregationDpEvent
    RepeatAndSelectDpEvent ShuffledBatchesDpEvent AdditiveNoiseDpEvent PllrMomentsDpEvent ProfileDpEvent RenyiDpEvent""".split()

# What the fields of these classes may hold, by name; by class and name where one name means two things.
# Fields that a later dp-accounting adds are kept, unchecked.
KINDS: dict[str, Kind] = {
    **dict.fromkeys(("noise_multiplier", "noise_parameter", "sigma", "standard_deviation"), _NON_NEGATIVE),
    **dict.fromkeys(("sensitivity", "epsilon", "rho", "xi", "shape"), _NON_NEGATIVE),
    **dict.fromkeys(("sampling_probability", "delta"), _PROBABILITY),
    **dict.fromkeys(("count", "num_buckets", "num_steps", "num_batches", "source_dataset_size"), _POSITIVE),
    **dict.fromkeys(("sample_size", "num_selected", "dataset_size", "truncated_batch_size"), _NATURAL),
    **dict.fromkeys(("x_absolute_third", "y_absolute_third"), _optional(_NON_NEGATIVE)),
    **dict.fromkeys(("x_cumulants", "y_cumulants"), lambda value: list(_FOUR(value))),
    "RandomizedResponseDpEvent.noise_parameter": _PROBABILITY,
    "DiscreteLaplaceDpEvent.sensitivity": _NATURAL,
    "dimension": _optional(_POSITIVE),
    "mean": _number("a number >= 1", 1),
    "event": EVENT,
    "events": _sequence(EVENT, "an array of events", lambda size: True),
    "step_counts": _steps,
    "sensitivities": _sequence(_NUMBER, "a non-empty array of numbers", bool),
    "sampling_probs": _sequence(_PROBABILITY, "a non-empty array of probabilities", bool),
    "epsilons": lambda value: list(_FINITE_LIST(value)),
    "deltas": lambda value: list(_PROBABILITY_LIST(value)),
    "lower_deltas": _optional(lambda value: list(_PROBABILITY_LIST(value))),
    "orders": lambda value: list(_FINITE_LIST(value)),
    "values": lambda value: list(_NON_NEGATIVE_LIST(value)),
    "distribution": instance(str, "a string"),
    "parameters": _parameters,
}
_AT_MOST = {
    "SampledWithoutReplacementDpEvent": ("sample_size", "source_dataset_size"),
    "RandomAllocationDpEvent": ("num_selected", "num_steps"),
}


def checked(name: str, values: dict[str, Any]) -> dict[str, Any]:
    """The fields of an event of the class written as `name`, checked one by one and then together."""
    listed = name in LISTED
    for key, value in values.items():
        kind = KINDS.get(f"{name}.{key}", KINDS.get(key, plain)) if listed else plain
        values[key] = within(segment_of(key), kind, value)
    if name == "MixtureOfGaussiansDpEvent":
        _check_mixture(values["sensitivities"], values["sampling_probs"])
    if name in _AT_MOST:
        _check_at_most(values, *_AT_MOST[name])
    return values


def _check_at_most(values: dict[str, Any], smaller: str, larger: str) -> None:
    if values[smaller] > values[larger]:
        raise must_be(f"at most `{larger}`, {shown(values[larger])}", values[smaller], f".{smaller}")


def _check_mixture(sensitivities: list[float], probabilities: list[float]) -> None:
    if len(probabilities) != len(sensitivities):
        found = f"{len(probabilities)} and {len(sensitivities)}"
        raise Refusal(f"must be as many as `sensitivities`. Found {found}.", ".sampling_probs")
    if not math.isclose(math.fsum(probabilities), 1, rel_tol=1e-8):
        raise Refusal(f"must sum to 1. Found {math.fsum(probabilities)!r}.", ".sampling_probs")
    for index, sensitivity in enumerate(sensitivities):
        if sensitivity < 0 < probabilities[index]:
            raise must_be("a number >= 0", sensitivity, f".sensitivities[{index}]")


def unicode_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise must_be("Unicode text without lone surrogates", text) from None
    return text


def check_nesting(depth: int) -> None:
    if depth >= MAX_NESTING:
        raise Refusal(f"must be nested at most {MAX_NESTING} deep. Found more.")
