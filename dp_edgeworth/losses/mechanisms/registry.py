"""The registry: one function per event class that gives its pair, and the one question that is asked of it, `directions`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.events import serialization
from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.bracket import Leaf
from dp_edgeworth.losses.operations import reverse
from dp_edgeworth.losses.pllr import Pllr

AR = NeighboringRelation.ADD_OR_REMOVE_ONE
RO = NeighboringRelation.REPLACE_ONE
RS = NeighboringRelation.REPLACE_SPECIAL


class UnsupportedLeafError(Exception):
    """An event that has no dominating pair here, or not under this neighboring relation."""

    def __init__(self, event: dp_event.DpEvent, message: str):
        super().__init__(message)
        self.event = event
        self.message = message


class Directions(NamedTuple):
    """The PLLRs of a leaf in both directions."""

    remove: Leaf
    add: Leaf


DISJOINT = Atoms((1.0, 0.0), (0.0, 1.0))
NO_LOSS = Directions(Atoms((1.0,), (1.0,)), Atoms((1.0,), (1.0,)))
NON_PRIVATE = Directions(DISJOINT, DISJOINT)

Mechanism = Callable[[Any, NeighboringRelation], "Leaf | Directions"]
_M = TypeVar("_M", bound=Mechanism)
_SAMPLABLE: set[type] = set()


@functools.singledispatch
def _pair(event: Any, relation: NeighboringRelation) -> Leaf | Directions:
    raise UnsupportedLeafError(event, f"`{type(event).__name__}` has no registered mechanism.")


def register_mechanism(event_class: type[dp_event.DpEvent], *, samplable: bool = False) -> Callable[[_M], _M]:
    """Registers the function that gives the pair of an event class.

    Args:
      event_class: the class; its instances must be hashable or have numbers as fields.
      samplable: whether the event may stand inside `PoissonSampledDpEvent`, that is, whether a record that is not sampled
        leaves the mechanism running on the other records, with P (of "add": Q) as the law of its output (true for additive noise).

    Returns:
      A decorator for a function (event, neighboring_relation) -> `Pllr` (its reverse is then the other direction) or
      `Directions`. It should raise ValueError for bad parameters.
    """
    if not (isinstance(event_class, type) and issubclass(event_class, dp_event.DpEvent)):
        raise ValueError(f"`event_class` must be a subclass of `DpEvent`. Found {validation.shown(event_class)}.")

    def register(function: _M) -> _M:
        _pair.register(event_class)(validation.of_kind("function", function, Callable, "a function"))
        (_SAMPLABLE.add if samplable else _SAMPLABLE.discard)(event_class)
        _cached_directions.cache_clear()
        if not event_class.__module__.startswith(("dp_accounting", "dp_edgeworth")):
            serialization.register_event(event_class.__name__, event_class)  # so that JSON documents can hold it
        return function

    return register


def register_if_known(name: str, *, samplable: bool = False) -> Callable[[_M], _M]:
    """The same for classes that only dp-accounting's main branch has, whose version number is that of the release."""
    event_class = getattr(dp_event, name, None)
    return (lambda function: function) if event_class is None else register_mechanism(event_class, samplable=samplable)


def directions(event: dp_event.DpEvent, relation: NeighboringRelation) -> Directions:
    """Both directions of one leaf.

    Raises:
      UnsupportedLeafError: the event type or relation is not supported.
      ValueError: a parameter of the event is out of range.
    """
    try:
        # The text tells 2 from 2.0, which are equal but not both legal everywhere.
        return _cached_directions(event, relation, validation.shown(event))
    except TypeError:  # an event with an unhashable field, such as a 0-d array
        return _directions(event, relation)


def _directions(event: dp_event.DpEvent, relation: NeighboringRelation) -> Directions:
    pair = _pair(event, relation)
    if not all(isinstance(one, Leaf) and _is_hashable(one) for one in (pair if isinstance(pair, Directions) else (pair,))):
        raise ValueError(f"The mechanism of `{type(event).__name__}` must return a hashable `Pllr`, or `Directions` of two. "
                         f"Found {validation.shown(pair)}.")
    return both(pair)


def both(pair: Leaf | Directions) -> Directions:
    return pair if isinstance(pair, Directions) else Directions(pair, reverse(pair))


def mirrored(pair: Leaf) -> Directions:
    """Both directions of a pair that is its own mirror image."""
    return Directions(pair, pair)


def _is_hashable(value: Any) -> bool:
    try:
        hash(value)
    except TypeError:
        return False
    return True


@functools.lru_cache(maxsize=16384)
def _cached_directions(event: dp_event.DpEvent, relation: NeighboringRelation, text: str) -> Directions:
    return _directions(event, relation)


def require(event: dp_event.DpEvent, relation: NeighboringRelation, *allowed: NeighboringRelation) -> None:
    if relation not in allowed:
        names = " or ".join(f"`{item.name}`" for item in allowed)
        raise UnsupportedLeafError(
            event, f"neighboring_relation must be {names} for `{type(event).__name__}`. Found `{relation.name}`.")


def refuse(event_class: type[dp_event.DpEvent], reason: str) -> None:
    """Says why an event class has no pair."""
    @_pair.register(event_class)
    def _refuse(event: Any, relation: NeighboringRelation) -> Pllr:
        raise UnsupportedLeafError(event, f"`{event_class.__name__}` has no dominating pair of PLLRs: {reason}")


def is_samplable(event: dp_event.DpEvent) -> bool:
    """Whether it was registered as one that may stand inside `PoissonSampledDpEvent`."""
    return type(event) in _SAMPLABLE
