"""Event trees in JSON (format "dp-edgeworth-event", version 1): fields, checked strictly, and leaves with their counts.

Numbers in an event are what the format says they are: integers, and doubles, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from .balls import InputError, UndecidedError

MOST_USES = 10**18
Event = dict[str, Any]
FIELDS: dict[str, tuple[str, ...]] = {
    "NoOpDpEvent": (), "NonPrivateDpEvent": (), "SelfComposedDpEvent": ("event", "count"), "ComposedDpEvent": ("events",),
    "GaussianDpEvent": ("noise_multiplier",), "LaplaceDpEvent": ("noise_multiplier",), "PermuteAndFlipDpEvent": ("epsilon",),
    "DiscreteLaplaceDpEvent": ("noise_parameter", "sensitivity"), "RandomizedResponseDpEvent": ("noise_parameter", "num_buckets"),
    "EpsilonDeltaDpEvent": ("epsilon", "delta"), "PoissonSampledDpEvent": ("sampling_probability", "event"),
    "MixtureOfGaussiansDpEvent": ("standard_deviation", "sensitivities", "sampling_probs"),
    "SingleEpochTreeAggregationDpEvent": ("noise_multiplier", "step_counts"),
    "SampledWithoutReplacementDpEvent": ("source_dataset_size", "sample_size", "event"),
    "TruncatedSubsampledGaussianDpEvent": ("dataset_size", "sampling_probability", "truncated_batch_size", "noise_multiplier")}


def _found(value: object) -> str:
    return repr(value)[:60]


def field(event: Event, name: str, low: float, high: float = math.inf, whole: bool = False) -> Any:
    """A number in [low, high], an integer where `whole`; "inf" is allowed where high is infinite."""
    value = event.get(name)
    value = math.inf if value == "inf" else value
    if isinstance(value, bool) or not isinstance(value, int if whole else (int, float)) or not low <= value <= high:
        kind = "an integer" if whole else "a number"
        raise InputError(f"`{name}` of `{event.get('type')}` must be {kind} in [{low}, {high}]. Found {_found(value)}.")
    return value


def listed(event: Event, name: str) -> list[Any]:
    value = event.get(name)
    value = value["tuple"] if isinstance(value, dict) and set(value) == {"tuple"} else value
    if not isinstance(value, list):
        raise InputError(f"`{name}` of `{event.get('type')}` must be an array. Found {_found(value)}.")
    return value


def checked_event(value: object) -> Event:
    if not isinstance(value, dict) or not isinstance(value.get("type"), str):
        raise InputError(f"An event must be an object with a `type`. Found {_found(value)}.")
    unknown = sorted(value.keys() - {"type"} - set(FIELDS.get(value["type"], value)))
    if unknown:
        raise InputError(f"`{value['type']}` must have no other fields than {FIELDS[value['type']]}. Found {_found(unknown[0])}.")
    return value


def walk(tree: object) -> Iterator[tuple[Event, int]]:
    """The leaves of a tree with their counts, without recursion."""
    waiting = [(tree, 1)]
    while waiting:
        node, count = waiting.pop()
        event = checked_event(node)
        if count > MOST_USES:
            raise UndecidedError(f"a leaf is used more than {MOST_USES} times")
        if event["type"] == "SelfComposedDpEvent":
            waiting.append((event.get("event"), count * field(event, "count", 1, 10**15, whole=True)))
        elif event["type"] == "ComposedDpEvent":
            waiting += [(part, count) for part in reversed(listed(event, "events"))]
        elif event["type"] != "NoOpDpEvent":
            yield event, count
