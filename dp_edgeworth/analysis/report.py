"""Rendering of an `EventReport`: text, HTML and plain data. Only what is displayed is accounted.

Chains of nodes with one child each (a `SelfComposedDpEvent` and what it repeats) share one line. The nodes with the
largest shares are displayed, always below a displayed parent; the rest of a parent's children is folded into one line.
"""

from __future__ import annotations

import dataclasses
import heapq
import html as html_escape
import math
from typing import TYPE_CHECKING, Any

from dp_edgeworth.events import description
from dp_edgeworth.events.description import rounded_down, rounded_up

if TYPE_CHECKING:
    from dp_edgeworth.analysis.explanation import EventReport, Node

_BAR = 12
_WIDEST = 58
_HEADERS = ("share", "epsilon", "alone", "without", "count", "dir.", "skew", "kurt.")
_COLOUR = "#0072B2"
_FOLDED_COLOUR = "#BBBBBB"


@dataclasses.dataclass(frozen=True)
class Row:
    """A displayed line: a node with the last one of its chain, or `folded` children."""

    depth: int
    branch: str
    label: str
    share: float
    node: Node | None
    folded: int = 0


def _chain_end(report: EventReport, index: int) -> int:
    while len(report.tree.children[index]) == 1:
        index = report.tree.children[index][0]
    return index


def _displayed(report: EventReport) -> set[int]:
    """The heads of the chains with the largest shares, parents included."""
    shown: set[int] = set()
    heap = [(-math.inf, 0)]
    while heap and len(shown) < report.limit:
        _, head = heapq.heappop(heap)
        shown.add(head)
        for child in report.tree.children[_chain_end(report, head)]:
            heapq.heappush(heap, (-_known(float(report.shares[child])), child))
    return shown


def rows(report: EventReport) -> list[Row]:
    """What is displayed, from top to bottom, largest shares first."""
    shown, result = _displayed(report), []
    stack: list[tuple[int, str, str, int, list[int]]] = [(0, "", "", 0, [])]
    while stack:
        head, branch, below, depth, folded = stack.pop()
        if folded:
            share = math.fsum(float(report.shares[i]) for i in folded)
            result.append(Row(depth, branch, f"... {len(folded):,} more", share, None, len(folded)))
            continue
        result.append(Row(depth, branch, _label(report, head), float(report.shares[head]), _node(report, head)))
        children = report.tree.children[_chain_end(report, head)]
        visible = sorted((i for i in children if i in shown), key=lambda i: (-_known(float(report.shares[i])), i))
        hidden = [i for i in children if i not in shown]
        entries: list[tuple[int, list[int]]] = [(i, []) for i in visible] + ([(-1, hidden)] if hidden else [])
        for position in range(len(entries) - 1, -1, -1):
            last = position == len(entries) - 1
            stack.append((entries[position][0], below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "),
                          depth + 1, entries[position][1]))
    return result


def _node(report: EventReport, index: int) -> Node:
    from dp_edgeworth.analysis.explanation import Node

    return Node(report, index)


def _label(report: EventReport, head: int) -> str:
    end = _chain_end(report, head)
    above = report.tree.counts[head]
    times = report.tree.counts[end] // above
    text = description.label(report.tree.events[end])
    return f"{times:,} x {text}" if times > 1 else text


def _cells(row: Row) -> tuple[str, ...]:
    share = _or_unknown(f"{100.0 * row.share:.2f}%")
    if row.node is None:
        return (share, "", "", "", "", "", "", "")
    node = row.node
    end = _chain_end(node.report, node.index)
    law = node.cumulants
    epsilons = (_or_unknown(rounded_up(value, 5)) for value in (node.contribution, node.epsilon_alone, node.epsilon_without))
    return (share, *epsilons, _short(node.report.tree.counts[end]), node.direction,
            _or_unknown(f"{law.skewness:.2g}"), _or_unknown(f"{law.excess_kurtosis:.2g}"))


def _or_unknown(number: str) -> str:
    return "?" if number.startswith("nan") else number


def _known(share: float) -> float:
    """A share to sort and to draw by: one that is unknown is 0."""
    return 0.0 if math.isnan(share) else min(max(share, 0.0), 1.0)


def _short(count: int) -> str:
    return f"{count:,}" if count < 10**7 else f"{count:.5g}"


def headline(report: EventReport) -> str:
    """One sentence above the tree."""
    interval = report.interval
    decided = "both directions alike" if report.direction == "both" else f'direction "{report.direction}" decides'
    certified = f"certified in [{rounded_down(interval.lower, 9)}, {rounded_up(interval.upper, 9)}]"
    return (f"epsilon = {rounded_up(interval.upper, 5)} at delta = {report.target_delta:g} "
            f"({report.neighboring_relation.name}; {certified}; {decided})")


def text(report: EventReport) -> str:
    """The tree with bars, for a terminal."""
    lines = rows(report)
    names = [_fit(row.branch + row.label) for row in lines]
    table = [_HEADERS, *(_cells(row) for row in lines)]
    widths = [max(len(cells[i]) for cells in table) for i in range(len(_HEADERS))]
    left = max(map(len, names))
    bars = [" " * (_BAR + 2), *(f" {_bar(row.share)} " for row in lines)]
    body = [name.ljust(left) + bar + "  ".join(cell.rjust(width) for cell, width in zip(cells, widths, strict=True))
            for name, bar, cells in zip(["", *names], bars, table, strict=True)]
    return "\n".join([headline(report), "", *(line.rstrip() for line in body)])


def _fit(name: str) -> str:
    return name if len(name) <= _WIDEST else name[: _WIDEST - 3] + "..."


def _bar(share: float) -> str:
    filled = round(_BAR * _known(share))
    return "█" * filled + "·" * (_BAR - filled)


def html(report: EventReport) -> str:
    """The same tree as an HTML table, for a notebook."""
    style = 'style="text-align:right;padding:2px 8px"'
    head = "".join(f"<th {style}>{name}</th>" for name in _HEADERS)
    lines = [f"<p>{html_escape.escape(headline(report))}</p><table><tr><th></th><th></th>{head}</tr>"]
    for row in rows(report):
        colour = _FOLDED_COLOUR if row.node is None else _COLOUR
        width = 100.0 * _known(row.share)
        bar = f'<div style="background:{colour};height:0.8em;width:{width:.1f}px"></div>'
        name = f'<td style="text-align:left;padding-left:{1.2 * row.depth:.1f}em">{html_escape.escape(row.label)}</td>'
        cells = "".join(f"<td {style}>{html_escape.escape(cell)}</td>" for cell in _cells(row))
        lines.append(f'<tr>{name}<td style="min-width:100px">{bar}</td>{cells}</tr>')
    return "\n".join([*lines, "</table>"])


def as_dict(report: EventReport, complete: bool) -> dict[str, Any]:
    """All nodes in order, parents before children."""
    shown = {row.node.index for row in rows(report) if row.node is not None}
    interval = report.interval
    return {
        "target_delta": report.target_delta, "neighboring_relation": report.neighboring_relation.name,
        "epsilon": {"lower": interval.lower, "estimate": interval.estimate, "upper": interval.upper},
        "direction": report.direction, "tilt": report.tilt,
        "nodes": [_node_dict(node, complete or node.index in shown) for node in report.nodes],
    }


def _node_dict(node: Node, costs: bool) -> dict[str, Any]:
    parameters = {name: value if isinstance(value, int | float | str | list | tuple) else str(value)
                  for name, value in node.parameters.items()}
    return {
        "path": node.path, "kind": node.kind, "parameters": parameters, "count": node.count, "share": node.share,
        "contribution": node.contribution, "cumulants": dataclasses.asdict(node.cumulants),
        "tilted_cumulants": dataclasses.asdict(node.tilted_cumulants),
        "direction": node.direction if costs else None,
        "epsilon_alone": node.epsilon_alone if costs else None,
        "epsilon_without": node.epsilon_without if costs else None,
    }


def finite(value: Any) -> Any:
    """Infinities as strings, so that the result is JSON; anything unknown as a string."""
    if isinstance(value, dict):
        return {str(key): finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)
