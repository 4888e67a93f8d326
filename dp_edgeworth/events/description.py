"""Events in words: a short label, the parameters, and what the accounting assumes about them.

>>> import dp_accounting as dpa
>>> label(dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(0.8)), 10_000))
'10,000 x PoissonSampled(0.01, Gaussian(0.8))'
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import attr
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth.events import available
from dp_edgeworth.events.batch_events import RandomAllocationDpEvent, ShuffledBatchesDpEvent
from dp_edgeworth.events.json_fields import plain
from dp_edgeworth.events.tree import leaves

_LONGEST = 72
_DEEPEST = 6
# Guarantees that many mechanisms have; the interval is then that of the worst one.
_CLASSES = {"ZCDpEvent", "RenyiDpEvent", "ProfileDpEvent", "EpsilonDeltaDpEvent", "ExponentialMechanismDpEvent",
            "PermuteAndFlipDpEvent", "RepeatAndSelectDpEvent", "PllrMomentsDpEvent"}
_WORST = "the worst mechanism that the event allows; one of them may have less loss"
_ITSELF = "the mechanism itself"
_MOST_PARTS = 8
_RELATIONS = {
    NeighboringRelation.ADD_OR_REMOVE_ONE: "one record added or removed",
    NeighboringRelation.REPLACE_ONE: "one record replaced by another",
    NeighboringRelation.REPLACE_SPECIAL: "one record replaced by a special one that has no effect (zeroed out)",
}
_POISSON = ("every batch is a fresh Poisson sample: each record enters it independently with the sampling probability "
            "(dp-edgeworth sampling compares other ways to draw batches)")
_FIXED = "every batch is a fresh uniform sample without replacement, of the size given"
_TRUNCATED = "every batch is a fresh Poisson sample, cut at random to the truncated batch size"
_ALLOCATED = "every epoch deals each record at random, independently of the others, into as many of the batches as the event says"
_SHUFFLED_EPOCHS = ("every epoch shuffles all records anew and takes batches of one size in turn, none dropped: no tight analysis is "
                    "known, the interval reaches from the loss for one choice of data to no amplification at all")
_NO_SAMPLING = "no amplification by sampling is claimed: every mechanism sees all the data"
_SHUFFLED = ("batches that are taken in turn from shuffled data, as most data loaders do: for them this is no "
             "guarantee, and their true epsilon can be larger")
_ALWAYS_EXCLUDED = (
    "anything released that is not in the event (metrics, hyper-parameters tuned on the data, the data set's size)",
    "losses of more than one record per person, unless the event was written for groups",
    "faults of an implementation: a weak generator, floating-point side channels, a sensitivity not enforced",
)


def label(event: dp_event.DpEvent, depth: int = 0) -> str:
    """One short line: class name without its ending, parameters in order."""
    if isinstance(event, dp_event.SelfComposedDpEvent) and depth < _DEEPEST:
        return _shortened(f"{_number(event.count)} x {label(event.event, depth + 1)}")
    if isinstance(event, dp_event.ComposedDpEvent):
        return f"Composed({len(event.events)} events)"
    shown = [_value(value, depth) for value in parameters(event).values()]
    name = "zCDP" if kind(event) == "ZCDpEvent" else kind(event).removesuffix("DpEvent")
    return _shortened(name + (f"({', '.join(shown)})" if shown else ""))


def parts(event: dp_event.DpEvent) -> list[str]:
    """The mechanisms of a tree with how often they run, one line each; the last line says how many more there are."""
    lines: list[str] = []
    for leaf, count in leaves(event):
        if len(lines) < _MOST_PARTS:
            lines.append(label(dp_event.SelfComposedDpEvent(leaf, count)) if count > 1 else label(leaf))
        else:
            more = sum(1 for _ in leaves(event)) - _MOST_PARTS
            return [*lines, f"... and {more:,} more"]
    return lines or [label(event)]


def kind(event: dp_event.DpEvent) -> str:
    """The name of the event's class."""
    return type(event).__name__


def parameters(event: dp_event.DpEvent) -> dict[str, Any]:
    """The fields of an event by name, in order; the parts of a composition are not among them."""
    if not attr.has(type(event)):
        return {}
    fields = {field.name: plain(getattr(event, field.name)) for field in attr.fields(type(event))}
    if isinstance(event, dp_event.SelfComposedDpEvent | dp_event.ComposedDpEvent):
        fields = {name: value for name, value in fields.items() if name not in ("event", "events")}
    return fields


def _value(value: Any, depth: int) -> str:
    if isinstance(value, dp_event.DpEvent):
        return label(value, depth + 1) if depth < _DEEPEST else "..."
    return _number(value) if isinstance(value, int | float) else str(value)


def _number(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else f"{value:.6g}"


def _shortened(text: str) -> str:
    """Of bounded length and on one line: a string of the event must not write lines of a statement."""
    text = "".join(character if character.isprintable() else "?" for character in text[: _LONGEST + 1])
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."


def rounded_up(value: float, digits: int = 6) -> str:
    """A few significant digits, never below the value: what is printed may be published.

    >>> rounded_up(10.0536348), rounded_up(1e-05), rounded_up(99999.97), rounded_up(0.0)
    ('10.0537', '1e-05', '100000', '0')
    """
    return _rounded(value, digits, 1.0)


def rounded_down(value: float, digits: int = 6) -> str:
    """The same, never above the value, for the lower end of an interval."""
    return _rounded(value, digits, -1.0)


def _rounded(value: float, digits: int, side: float) -> str:
    text = f"{value:.{digits}g}"
    if value <= 0.0 or not math.isfinite(value) or side * float(text) >= side * value:
        return text
    exponent = int(f"{value:e}".partition("e")[2]) - digits + 1
    return f"{float(text) + side * 10.0**exponent:.{digits}g}"


def relation_in_words(relation: NeighboringRelation) -> str:
    """What neighbouring data sets are."""
    return _RELATIONS.get(relation, relation.name)


def sampling_assumptions(event: dp_event.DpEvent) -> list[str]:
    """What the guarantee assumes about how batches were drawn."""
    kinds = _leaf_classes(event)
    pairs: Iterable[tuple[type, str]] = (
        (dp_event.PoissonSampledDpEvent, _POISSON), (dp_event.SampledWithoutReplacementDpEvent, _FIXED),
        (available.TruncatedSubsampledGaussianDpEvent, _TRUNCATED), (RandomAllocationDpEvent, _ALLOCATED),
        (ShuffledBatchesDpEvent, _SHUFFLED_EPOCHS))
    return [words for event_class, words in pairs if event_class in kinds] or [_NO_SAMPLING]


def not_covered(event: dp_event.DpEvent, group_size: int = 1) -> list[str]:
    """What the guarantee says nothing about."""
    sampled = not {_NO_SAMPLING, _SHUFFLED_EPOCHS} & set(sampling_assumptions(event))
    excluded = list(_ALWAYS_EXCLUDED)
    if group_size > 1:
        excluded[1] = f"losses of more than {group_size:,} records per person"
    return [*([_SHUFFLED] if sampled else []), *excluded]


def allows_many_mechanisms(event: dp_event.DpEvent) -> bool:
    """Whether some event in the tree is a guarantee that many mechanisms have, rather than one mechanism."""
    for leaf, _ in leaves(event):
        if kind(leaf) in _CLASSES or (kind(leaf) == "DiscreteGaussianDpEvent" and not _is_one_dimensional(leaf)):
            return True
        inner = getattr(leaf, "event", None)
        if isinstance(inner, dp_event.DpEvent) and allows_many_mechanisms(inner):
            return True
    return False


def _is_one_dimensional(event: dp_event.DpEvent) -> bool:
    fields = parameters(event)
    return fields.get("dimension") == 1 and float(fields.get("sensitivity", 1.0)).is_integer()


def subject(event: dp_event.DpEvent) -> str:
    """What an interval of the event is of."""
    return _WORST if allows_many_mechanisms(event) else _ITSELF


def _leaf_classes(event: dp_event.DpEvent) -> set[type]:
    return {type(leaf) for leaf, _ in leaves(event)}
