"""Ledgers larger than one machine: a `CombineFn` for Apache Beam (extra `beam`).

    events | beam.CombineGlobally(AccountantCombineFn(EdgeworthIntervalAccountant))

A PCollection of events, or of (event, count) pairs, becomes one accountant. The accumulator is a table of distinct events with
counts, so its size is the number of distinct events, wherever they were produced and however often.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from dp_accounting import dp_event

from dp_edgeworth import validation
from dp_edgeworth.events import serialization

with validation.needs("apache_beam", "beam"):
    import apache_beam

_Table = dict[str, int]


class AccountantCombineFn(apache_beam.CombineFn):
    """Aggregates events into an accountant.

    Args:
      make_accountant: a function without arguments that returns a fresh accountant, for example the class itself.
    """

    def __init__(self, make_accountant: Callable[[], Any]):
        self._make_accountant = make_accountant

    def create_accumulator(self) -> _Table:
        return {}

    def add_input(self, accumulator: _Table, element: Any) -> _Table:
        """Events are kept as JSON: equal text is the same event, on every machine."""
        event, count = element if isinstance(element, tuple) else (element, 1)
        if not isinstance(event, dp_event.DpEvent):
            raise TypeError(f"Elements must be events or (event, count) pairs. Found {element!r}.")
        key = serialization.to_json(event)
        accumulator[key] = accumulator.get(key, 0) + count
        return accumulator

    def merge_accumulators(self, accumulators: Iterable[_Table]) -> _Table:
        total: _Table = {}
        for table in accumulators:
            for key, count in table.items():
                total[key] = total.get(key, 0) + count
        return total

    def extract_output(self, accumulator: _Table) -> Any:
        accountant = self._make_accountant()
        for key in sorted(accumulator):
            accountant.compose(serialization.from_json(key), accumulator[key])
        return accountant
