"""Rendering of an `EventReport`: text, HTML and plain data. Only what is displayed is accounted.

Chains of nodes with one child each (a `SelfComposedDpEvent` and what it repeats) share one line. The nodes with the
largest shares are displayed, always below a displayed parent; the rest of a parent's children is folded into one line. Where they are
many and no few of them have half of the loss, they are displayed by ranges instead: so many consecutive children per line.
"""

from __future__ import annotations

import dataclasses
import heapq
import itertools
import math
import operator
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dp_edgeworth.analysis.rendering import COLOURS, cell
from dp_edgeworth.events import description
from dp_edgeworth.events.description import rounded_down, rounded_up

if TYPE_CHECKING:
    from dp_edgeworth.analysis.explanation import Cumulants, EventReport, Node

_BAR = 12
_WIDEST = 66
_HEADERS = ("share", "epsilon", "alone", "without", "count", "dir.", "skew", "kurt.")
_FOLDED_COLOUR = "#BBBBBB"
_RANGES = 10  # of one parent
_NUMBER = re.compile(r"(?<![\w.])[\d,]+(?:\.\d+)?(?:e[+-]?\d+)?")


@dataclasses.dataclass(frozen=True)
class Row:
    """A displayed line: a node with the last one of its chain, or several children, which are a range or `folded`."""

    depth: int
    branch: str
    label: str
    share: float
    node: Node | None
    members: tuple[int, ...] = ()
    folded: int = 0


def _chain_end(report: EventReport, index: int) -> int:
    while len(report.tree.children[index]) == 1:
        index = report.tree.children[index][0]
    return index


def _in_ranges(report: EventReport, end: int) -> bool:
    """Whether the children of a node are displayed by ranges: many, of which no few have half of the share."""
    children = report.tree.children[end]
    if not report.by_range or len(children) <= max(2 * _RANGES, report.limit):
        return False
    largest = heapq.nlargest(report.limit - 1, (_known(float(report.shares[i])) for i in children))
    return math.fsum(largest) < 0.5 * _known(float(report.shares[end]))


def _displayed(report: EventReport) -> set[int]:
    """The heads of the chains with the largest shares, parents included."""
    shown: set[int] = set()
    heap = [(-math.inf, 0)]
    while heap and len(shown) < report.limit:
        _, head = heapq.heappop(heap)
        shown.add(head)
        end = _chain_end(report, head)
        for child in [] if _in_ranges(report, end) else report.tree.children[end]:
            heapq.heappush(heap, (-_known(float(report.shares[child])), child))
    return shown


def rows(report: EventReport) -> list[Row]:
    """What is displayed, from top to bottom, largest shares first and ranges in order."""
    shown, result = _displayed(report), []
    stack: list[tuple[list[int], str, str, int]] = [([0], "", "", 0)]
    while stack:
        members, branch, below, depth = stack.pop()
        head = members[0]
        if head not in shown:
            result.append(_several(report, members, branch, depth))
            continue
        result.append(Row(depth, branch, _label(report, head), float(report.shares[head]), report.nodes[head]))
        entries = _entries(report, _chain_end(report, head), shown)
        for position, entry in reversed(list(enumerate(entries, 1))):
            last = position == len(entries)
            stack.append((entry, below + ("└─ " if last else "├─ "), below + ("   " if last else "│  "), depth + 1))
    return result


def _entries(report: EventReport, end: int, shown: set[int]) -> list[list[int]]:
    """What stands below a node: a displayed child, or several that are not."""
    children = report.tree.children[end]
    if _in_ranges(report, end):
        return _ranges(children, [_NUMBER.sub("#", _label(report, child)) for child in children])
    visible = sorted((i for i in children if i in shown), key=lambda i: (-_known(float(report.shares[i])), i))
    hidden = [i for i in children if i not in shown]
    return [[i] for i in visible] + ([hidden] if hidden else [])


def _ranges(children: list[int], kinds: Sequence[str]) -> list[list[int]]:
    """Consecutive children of one kind; where they are of too many kinds, of any."""
    groups = itertools.groupby(zip(children, kinds, strict=True), key=operator.itemgetter(1))
    runs = [[child for child, _ in group] for _, group in groups]
    parts = [np.array_split(run, max(1, _RANGES * len(run) // len(children))) for run in (runs if len(runs) <= _RANGES else [children])]
    return [part.tolist() for run in parts for part in run]


def _several(report: EventReport, members: list[int], branch: str, depth: int) -> Row:
    share = math.fsum(float(report.shares[i]) for i in members)
    if not _in_ranges(report, report.tree.parents[members[0]]):
        return Row(depth, branch, f"... {len(members):,} more", share, None, tuple(members), len(members))
    ends = [report.tree.segments[i].removeprefix(".events[").removesuffix("]") for i in (members[0], members[-1])]
    return Row(depth, branch, f"[{'-'.join(ends)}] {_common([_label(report, i) for i in members])}", share, None, tuple(members))


def _common(labels: Sequence[str]) -> str:
    """One label for all: numbers that differ as "least to largest"; how many there are where they are of several kinds."""
    forms = {_NUMBER.sub("{}", label.replace("{", "").replace("}", "")) for label in labels}
    if len(forms) > 1:
        return f"{len(labels):,} events"
    spans = []
    for numbers in zip(*(_NUMBER.findall(label) for label in labels), strict=True):
        values = [float(number.replace(",", "")) for number in numbers]
        spans.append(numbers[0] if len(set(numbers)) == 1 else f"{min(values):.4g} to {max(values):.4g}")
    return forms.pop().format(*spans)


def _label(report: EventReport, head: int) -> str:
    end = _chain_end(report, head)
    above = report.tree.counts[head]
    times = report.tree.counts[end] // above
    text = description.label(report.tree.events[end])
    return f"{times:,} x {text}" if times > 1 else text


def _cells(report: EventReport, row: Row) -> tuple[str, ...]:
    share = _or_unknown(f"{100.0 * row.share:.2f}%")
    if row.folded:
        return (share, "", "", "", "", "", "", "")
    if row.node is None:
        counts = sum(report.tree.counts[_chain_end(report, i)] for i in row.members)
        return (share, _or_unknown(rounded_up(row.share * report.epsilon, 5)), "", "", _short(counts), "",
                *_shape(report.cumulants_of(row.members)))
    node = row.node
    epsilons = (_or_unknown(rounded_up(value, 5)) for value in (node.contribution, node.epsilon_alone, node.epsilon_without))
    count = report.tree.counts[_chain_end(report, node.index)]
    return (share, *epsilons, _short(count), node.direction, *_shape(node.cumulants))


def _shape(law: Cumulants) -> tuple[str, str]:
    return _or_unknown(f"{law.skewness:.2g}"), _or_unknown(f"{law.excess_kurtosis:.2g}")


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
    return (f"epsilon = {rounded_up(interval.upper)} at delta = {report.target_delta:g} "
            f"({report.neighboring_relation.name}; {certified}; {decided})")


def text(report: EventReport) -> str:
    """The tree with bars, for a terminal."""
    lines = rows(report)
    names = [_fit(row.branch + row.label) for row in lines]
    table = [_HEADERS, *(_cells(report, row) for row in lines)]
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
    right = 'style="text-align:right;padding:2px 6px"'
    lines = ["<tr><th></th><th></th>" + "".join(cell(name, "th", right) for name in _HEADERS) + "</tr>"]
    for row in rows(report):
        colour = _FOLDED_COLOUR if row.folded else COLOURS[0]
        bar = f'<div style="background:{colour};height:0.8em;width:{100.0 * _known(row.share):.1f}px"></div>'
        name = cell(row.label, attributes=f'style="text-align:left;padding-left:{1.2 * row.depth:.1f}em"')
        cells = "".join(cell(text, attributes=right) for text in _cells(report, row))
        lines.append(f'<tr>{name}<td style="min-width:100px">{bar}</td>{cells}</tr>')
    return cell(headline(report), "p", "") + "<table>" + "\n".join(lines) + "</table>"


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
