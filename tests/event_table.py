"""Which event is known by what under which neighboring relation: a table made by asking the registry."""

from __future__ import annotations

from collections.abc import Iterable

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth.events import description
from dp_edgeworth.events.tree import leaves
from dp_edgeworth.losses.bracket import Bracket, Leaf, above
from dp_edgeworth.losses.mechanisms import UnsupportedLeafError, directions
from dp_edgeworth.losses.node_pair import NodePair
from dp_edgeworth.paper.known_moments import PllrMoments

RELATIONS = (NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_SPECIAL, NeighboringRelation.REPLACE_ONE)


def known_by(event: dp_event.DpEvent, relation: NeighboringRelation) -> str:
    """What the first leaf of an event is known by: "pair", "profile", "Renyi curve", two of these, "moments", or "refused: why"."""
    try:
        found = [directions(leaf, relation).remove for leaf, _ in leaves(event)]
    except UnsupportedLeafError as error:
        return f"refused: {error.message}"
    return _in_words(found[0]) if found else "no loss"


def _in_words(leaf: Leaf) -> str:
    if isinstance(leaf, Bracket) and leaf.is_class:
        ways = ["pair" if leaf.attained else "profile"] if leaf.pair is not None else []
        return " and ".join(ways + (["Renyi curve"] if leaf.curve is not None else []))
    if isinstance(leaf, PllrMoments):
        return "moments"
    return "profile" if isinstance(above(leaf), NodePair) else "pair"


def event_table(samples: Iterable[dp_event.DpEvent]) -> str:
    """A table in Markdown: one line per event, one column per relation; reasons of refusals below it.

    >>> import dp_accounting as dpa
    >>> print(event_table([dpa.ZCDpEvent(0.1)]).splitlines()[2])
    | `zCDP(0.1, 0)` | Renyi curve | Renyi curve | Renyi curve | the worst mechanism allowed |
    """
    lines = ["| event | " + " | ".join(f"`{relation.name}`" for relation in RELATIONS) + " | interval of |", "|---|---|---|---|---|"]
    reasons: dict[str, int] = {}
    for sample in samples:
        cells = []
        for relation in RELATIONS:
            answer, refused, reason = known_by(sample, relation).partition("refused: ")
            reason = reason.partition(" Found ")[0]
            cells.append(f"refused ({reasons.setdefault(reason, len(reasons) + 1)})" if refused else answer)
        subject = "the worst mechanism allowed" if description.allows_many_mechanisms(sample) else "the mechanism itself"
        lines.append(f"| `{description.label(sample)}` | {' | '.join(cells)} | {subject} |")
    notes = [f"({number}) {reason}" for reason, number in reasons.items()]
    return "\n".join([*lines, "", *notes]).rstrip() + "\n"
