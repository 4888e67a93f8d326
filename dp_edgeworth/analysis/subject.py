"""What a question is about: an event under a neighboring relation, or an accountant, which knows its own.

An accountant brings its relation and its settings along, so that a statement can never be about another relation than the number
that the accountant gives.
"""

from __future__ import annotations

from typing import NamedTuple

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation, PrivacyAccountant

from dp_edgeworth import validation
from dp_edgeworth.accountants.accountant import ApproximateEdgeworthAccountant, EdgeworthIntervalAccountant
from dp_edgeworth.events import serialization
from dp_edgeworth.events.groups import for_groups

DEFAULT_RELATION = NeighboringRelation.ADD_OR_REMOVE_ONE
DEFAULT_TOLERANCE = 1e-6


class Subject(NamedTuple):
    """An event, and the certified accountant that has composed it."""

    event: dp_event.DpEvent
    accountant: EdgeworthIntervalAccountant


def subject_of(event: dp_event.DpEvent | PrivacyAccountant, neighboring_relation: NeighboringRelation | None = None,
               tolerance: float | None = None) -> Subject:
    """The event and the accountant to ask.

    Args:
      event: an event, or an accountant. Of an `EdgeworthIntervalAccountant` the bound, the order and the tolerance are kept; of any
        other accountant of dp-accounting only the ledger and the relation, and the answer is certified anew.
      neighboring_relation: by default the accountant's, and ADD_OR_REMOVE_ONE for an event.
      tolerance: by default the accountant's, and 1e-6 for an event.

    Raises:
      ValueError: the relation is not the accountant's.
    """
    if not isinstance(event, PrivacyAccountant):
        relation = DEFAULT_RELATION if neighboring_relation is None else neighboring_relation
        accountant = EdgeworthIntervalAccountant(relation, tolerance=DEFAULT_TOLERANCE if tolerance is None else tolerance)
        return Subject(event, accountant.compose(event))
    relation = event.neighboring_relation
    if neighboring_relation is not None and validation.relation(neighboring_relation) is not relation:
        raise ValueError(f"`neighboring_relation` must be the accountant's, {relation.name}. Found {neighboring_relation.name}.")
    if isinstance(event, EdgeworthIntervalAccountant) and tolerance in (None, event._settings["tolerance"]):
        return Subject(event.ledger, event)
    settings = event._settings if isinstance(event, EdgeworthIntervalAccountant) else {}
    settings = {**settings, **({} if tolerance is None else {"tolerance": tolerance})}
    return Subject(event.ledger, EdgeworthIntervalAccountant(relation, **settings).compose(event.ledger))


def of_groups(subject: Subject, size: int) -> Subject:
    """The same for groups of up to `size` records, all added or all removed.

    Raises:
      ValueError: groups are not defined under the relation, or nothing is known about them for a mechanism.
    """
    if validation.integer("group_size", size, 1) == 1:
        return subject
    relation = subject.accountant.neighboring_relation
    if relation is not NeighboringRelation.ADD_OR_REMOVE_ONE:
        raise ValueError(f"`group_size` must be 1 unless the relation is `ADD_OR_REMOVE_ONE`. Found {size} and `{relation.name}`.")
    event = for_groups(subject.event, size)
    return Subject(event, EdgeworthIntervalAccountant(relation, **subject.accountant._settings).compose(event))


def event_or_accountant(text: str | bytes) -> dp_event.DpEvent | EdgeworthIntervalAccountant:
    """What a document holds; of an accountant that estimates, a certified one with its ledger and its relation.

    Raises:
      EventFormatError: `text` is neither document.
    """
    written = text if isinstance(text, bytes) else text.encode("utf-8", "replace")
    if b'"dp-edgeworth-accountant"' not in written[:4096]:
        return serialization.from_json(text)
    if b'"ApproximateEdgeworthAccountant"' not in written[:4096]:
        accountant: EdgeworthIntervalAccountant = EdgeworthIntervalAccountant.from_json(text)
        return accountant
    relation, _, ledger = serialization.accountant_from_json(text, ApproximateEdgeworthAccountant.__name__)
    return EdgeworthIntervalAccountant(relation).compose(ledger)
