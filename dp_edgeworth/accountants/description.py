"""An accountant in words: its class, its relation, its settings and the beginning of its ledger."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth.events import description

_FEW = 3


def described(name: str, relation: NeighboringRelation, settings: Mapping[str, Any], ledger: dp_event.DpEvent) -> str:
    """One line.

    >>> import dp_accounting as dpa
    >>> described("Accountant", NeighboringRelation.REPLACE_ONE, {"order": 2}, dpa.GaussianDpEvent(1.0))
    '<Accountant REPLACE_ONE, order=2: Gaussian(1)>'
    """
    given = ", ".join([relation.name, *(f"{key}={value!r}" for key, value in settings.items())])
    parts = description.parts(ledger)
    shown = [*parts[:_FEW], *(["..."] if len(parts) > _FEW else [])]
    return f"<{name} {given}: {'; '.join(shown)}>"


def as_html(name: str, relation: NeighboringRelation, settings: Mapping[str, Any], ledger: dp_event.DpEvent) -> str:
    """A small table, for a notebook."""
    rows = {"neighbors": [f"{description.relation_in_words(relation)} ({relation.name})"],
            "settings": [", ".join(f"{key} = {value}" for key, value in settings.items())],
            "ledger": description.parts(ledger)}
    cells = "".join(f'<tr><th style="text-align:left;vertical-align:top">{title}</th><td style="text-align:left">'
                    f'{"<br>".join(map(html.escape, items))}</td></tr>' for title, items in rows.items())
    return f"<p><b>{html.escape(name)}</b></p><table>{cells}</table>"
