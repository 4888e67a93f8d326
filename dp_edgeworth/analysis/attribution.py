"""How the loss of a tree splits over its nodes.

At the saddle point K'(c) = epsilon of the dominating direction the loss is additive over the leaves,

    epsilon = sum_i m_i K_i'(c),        share of leaf i = m_i K_i'(c) / sum_j m_j K_j'(c),

and a node's share is the sum of its children's. K_i'(c) is the mean loss of the leaf among the outcomes that decide
epsilon. Where the saddle is elsewhere:

    epsilon below the mean loss (c < 0)      c = 0, the mean losses: K_i' could be negative otherwise
    delta = 0, bounded losses (c = inf)      the largest losses
    epsilon or a loss surely infinite        the leaves that make it so: probabilities of an infinite loss, else counts
    no quadrature rule is small enough       the largest losses; NaN where these are infinite, but for one leaf alone

All leaves are evaluated in batches. Pure functions: accountants are asked in `explanation.py`.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from dp_accounting import dp_event

from dp_edgeworth import validation
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import RuleTooLargeError
from dp_edgeworth.paper.cumulants import tilted_cumulants
from dp_edgeworth.paper.estimate import saddle
from dp_edgeworth.sums.composition import Composition

CUMULANTS = 4
_LAST_TILT = 300.0  # in units of 1 / standard deviation of the whole loss


@dataclasses.dataclass(frozen=True)
class Tree:
    """All nodes of an event tree, parents before children and siblings in order.

    Attributes:
      events: the event at each node.
      parents: index of each node's parent; -1 for the root.
      counts: how often each node runs, its ancestors' repetitions included.
      segments: the step from the parent, as in the JSON format: ".event" or ".events[3]".
    """

    events: list[dp_event.DpEvent]
    parents: list[int]
    counts: list[int]
    segments: list[str]

    @classmethod
    def of(cls, event: dp_event.DpEvent) -> Tree:
        tree = cls([], [], [], [])
        stack = [(event, -1, 1, "$")]
        while stack:
            node, parent, count, segment = stack.pop()
            index = len(tree.events)
            tree.events.append(node)
            tree.parents.append(parent)
            tree.counts.append(count)
            tree.segments.append(segment)
            if isinstance(node, dp_event.SelfComposedDpEvent):
                stack.append((node.event, index, count * validation.integer("count", node.count, 1), ".event"))
            elif isinstance(node, dp_event.ComposedDpEvent):
                children = list(enumerate(node.events))
                stack.extend((child, index, count, f".events[{i}]") for i, child in reversed(children))
        return tree

    @functools.cached_property
    def children(self) -> list[list[int]]:
        result: list[list[int]] = [[] for _ in self.events]
        for index, parent in enumerate(self.parents[1:], start=1):
            result[parent].append(index)
        return result

    @functools.cached_property
    def ends(self) -> list[int]:
        """One past the last descendant of each node: a subtree is a range of indices."""
        ends = list(range(1, len(self.events) + 1))
        for index in range(len(self.events) - 1, 0, -1):
            ends[self.parents[index]] = max(ends[self.parents[index]], ends[index])
        return ends

    @functools.cached_property
    def leaf_indices(self) -> list[int]:
        """Nodes that are a mechanism: no composition, no `NoOpDpEvent`."""
        inner = dp_event.SelfComposedDpEvent | dp_event.ComposedDpEvent | dp_event.NoOpDpEvent
        return [index for index, event in enumerate(self.events) if not isinstance(event, inner)]

    def path(self, index: int) -> str:
        """Where a node is: "$.events[3].event"."""
        segments = []
        while index >= 0:
            segments.append(self.segments[index])
            index = self.parents[index]
        return "".join(reversed(segments))

    def sums(self, leaf_values: np.ndarray) -> np.ndarray:
        """Values of leaves, shape (nodes, ...) and 0 elsewhere, added up over every subtree."""
        totals = leaf_values.copy()
        for index in range(len(totals) - 1, 0, -1):
            totals[self.parents[index]] += totals[index]
        return totals


def leaf_cumulants(pllrs: Sequence[Pllr], tilt: float, log_count: float = 0.0) -> np.ndarray:
    """Cumulants 1 to 4 of each loss (given that it is finite) under the law tilted by `tilt`, one column per loss.

    NaN where a rule would be too large (noise multipliers of 1e-4 or so).
    """
    result = np.zeros((CUMULANTS, len(pllrs)))
    groups: dict[tuple[type, ...], list[int]] = {}
    for index, pllr in enumerate(pllrs):
        if pllr.gaussian_variance is not None:
            result[:2, index] = pllr.gaussian_variance * (tilt + 0.5), pllr.gaussian_variance
        elif pllr.infinite_mass < 1.0:
            groups.setdefault(pllr.kind, []).append(index)
    for members in groups.values():
        result[:, members] = _group_cumulants([pllrs[index] for index in members], tilt, log_count)
    return result


def _group_cumulants(pllrs: list[Pllr], tilt: float, log_count: float) -> np.ndarray:
    """The same for losses of one kind, in one array; in halves where one that needs too large a rule spoils it for the others."""
    group = Composition(dict.fromkeys(pllrs, 1))  # one kind: its blocks keep the order
    demand = dataclasses.replace(group.demand(tilt - CUMULANTS, tilt + CUMULANTS), log_count=log_count)
    try:
        return np.concatenate([tilted_cumulants(block, block.transform(tilt), CUMULANTS) for block in group.blocks(demand)], axis=1)
    except RuleTooLargeError:
        if len(pllrs) == 1:
            return np.full((CUMULANTS, 1), math.nan)
    half = len(pllrs) // 2
    return np.concatenate([_group_cumulants(part, tilt, log_count) for part in (pllrs[:half], pllrs[half:])], axis=1)


def saddle_tilt(composition: Composition, epsilon: float) -> float:
    """The tilt c >= 0 with K'(c) = epsilon; 0 where K'(0) is above it, the largest that works where there is none."""
    mean, variance = map(float, composition.cgf([0.0])[1:3, 0])
    if mean >= epsilon or variance <= 0.0:
        return 0.0
    # Beyond the last tilt the mean loss is next to the largest one, and rules only become larger.
    return saddle(composition, epsilon, _LAST_TILT / math.sqrt(variance))


def weights(counts: Mapping[Pllr, int], epsilon: float, target_delta: float) -> tuple[dict[Pllr, float], float]:
    """What one run of each loss weighs in epsilon (see the module's header), and the tilt used."""
    pllrs = list(counts)
    if math.isinf(epsilon) or any(pllr.infinite_mass >= 1.0 for pllr in pllrs):
        return dict(zip(pllrs, _infinite_weights(pllrs), strict=True)), math.inf
    largest = {pllr: max(pllr.supremum, 0.0) for pllr in pllrs}
    if target_delta == 0.0:
        return largest, math.inf
    composition = Composition(counts)
    try:
        tilt = saddle_tilt(composition, epsilon)
        means = leaf_cumulants(pllrs, tilt, math.log(max(composition.total, 1.0)))[0]
    except RuleTooLargeError:
        means = np.full(len(pllrs), math.nan)
    if np.isnan(means).any():
        if all(map(math.isfinite, largest.values())):
            return largest, math.inf
        return dict.fromkeys(pllrs, 1.0 if len(pllrs) == 1 else math.nan), math.nan
    return dict(zip(pllrs, np.maximum(means, 0.0).tolist(), strict=True)), tilt


def _infinite_weights(pllrs: Sequence[Pllr]) -> list[float]:
    masses = [pllr.infinite_mass for pllr in pllrs]
    if max(masses, default=0.0) >= 1.0:
        return [float(mass >= 1.0) for mass in masses]
    if any(masses):
        return [-math.log1p(-mass) for mass in masses]
    return [float(math.isinf(pllr.supremum)) for pllr in pllrs]
