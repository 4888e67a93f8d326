"""Where a number comes from: which tool in which version, when, from which event.

>>> import dp_accounting as dpa
>>> event_hash(dpa.GaussianDpEvent(1.0))[:16]
'eadd28e9aa34a2dc'
"""

from __future__ import annotations

import dataclasses
import datetime
import hashlib
from collections.abc import Mapping
from typing import Any

import dp_accounting
from dp_accounting import dp_event

from dp_edgeworth.events import serialization
from dp_edgeworth.version import __version__

TOOL = "dp_edgeworth"


def event_hash(event: dp_event.DpEvent) -> str:
    """SHA-256, in hexadecimal, of the JSON document of an event (docs/event-json.md).

    An event and the ledger of an accountant that has composed it have the same hash.

    Raises:
      EventFormatError: the event cannot be written as JSON.
    """
    builder = dp_accounting.DpEventBuilder()
    builder.compose(event)
    return hashlib.sha256(serialization.to_json(builder.build()).encode()).hexdigest()


@dataclasses.dataclass(frozen=True)
class Provenance:
    """What is needed to compute a number again.

    Attributes:
      tool, version: what computed it. date: the day, UTC, as 2024-12-31.
      event_sha256: `event_hash` of the event; "" where the event has no JSON document.
      settings: of the accountant, by name.
    """

    tool: str
    version: str
    date: str
    event_sha256: str
    settings: tuple[tuple[str, Any], ...]

    @classmethod
    def of(cls, event: dp_event.DpEvent, settings: Mapping[str, Any]) -> Provenance:
        try:
            digest = event_hash(event)
        except serialization.EventFormatError:
            digest = ""
        today = datetime.datetime.now(datetime.timezone.utc).date().isoformat()
        return cls(TOOL, __version__, today, digest, tuple(settings.items()))

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        return {**dataclasses.asdict(self), "settings": dict(self.settings)}

    def __str__(self) -> str:
        shown = ", ".join(f"{name} {value}" for name, value in self.settings)
        return f"{self.tool} {self.version} on {self.date} ({shown})"
