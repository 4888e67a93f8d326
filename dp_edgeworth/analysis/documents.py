"""Reading what a question is about from JSON: an event's document, or an accountant's, which brings its relation along."""

from __future__ import annotations

from dp_accounting import dp_event

from dp_edgeworth.accountants.accountant import ApproximateEdgeworthAccountant, EdgeworthIntervalAccountant
from dp_edgeworth.events import serialization


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
