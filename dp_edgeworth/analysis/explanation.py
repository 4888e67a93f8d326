"""Event-tree analysis: where the privacy loss of a tree comes from, and what its parts cost.

>>> import dp_accounting as dpa
>>> training = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.0)), 1_000)
>>> report = explain(dpa.ComposedDpEvent([training, dpa.LaplaceDpEvent(2.0)]), target_delta=1e-5)
>>> [(node.path, round(node.share, 3)) for node in report.root.children]
[('$.events[0]', 0.782), ('$.events[1]', 0.218)]
>>> round(report["$.events[1]"].epsilon_without, 4)
1.8282

`print(report)` draws the tree with bars; `docs/event-tree-analysis.md` says how to read it.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation, PrivacyAccountant

from dp_edgeworth import validation
from dp_edgeworth.accountants.accountant import EdgeworthIntervalAccountant
from dp_edgeworth.analysis import attribution, icicle, report
from dp_edgeworth.analysis.attribution import Tree
from dp_edgeworth.analysis.rendering import as_json
from dp_edgeworth.analysis.subject import subject_of
from dp_edgeworth.events import description
from dp_edgeworth.intervals import Interval
from dp_edgeworth.losses import mechanisms
from dp_edgeworth.losses.bracket import above
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.profiles import whole
from dp_edgeworth.profiles.random_allocation import among_others
from dp_edgeworth.search import answers


@dataclasses.dataclass(frozen=True)
class Cumulants:
    """Mean, standard deviation, skewness and excess kurtosis of a sum of losses: its standardised cumulants.

    An Edgeworth estimate is to be trusted where skewness and kurtosis are small.
    """

    mean: float
    standard_deviation: float
    skewness: float
    excess_kurtosis: float

    @classmethod
    def of(cls, kappa: np.ndarray) -> Cumulants:
        mean, variance, third, fourth = map(float, kappa)
        if variance <= 0.0:
            return cls(mean, 0.0, 0.0, 0.0)
        deviation = math.sqrt(variance)
        # One division at a time: no power of the deviation underflows.
        skewness, kurtosis = third / deviation / deviation / deviation, fourth / variance / variance
        return cls(mean, deviation, skewness, kurtosis)


@dataclasses.dataclass(frozen=True)
class Node:
    """One node of the tree, with what its whole subtree contributes, repetitions included."""

    report: EventReport = dataclasses.field(repr=False)
    index: int

    @property
    def path(self) -> str:
        return self.report.tree.path(self.index)

    @property
    def event(self) -> dp_event.DpEvent:
        return self.report.tree.events[self.index]

    @property
    def kind(self) -> str:
        return description.kind(self.event)

    @property
    def parameters(self) -> dict[str, Any]:
        return description.parameters(self.event)

    @property
    def count(self) -> int:
        """How often the node runs: the product of the repetitions above it."""
        return self.report.tree.counts[self.index]

    @property
    def children(self) -> list[Node]:
        return [self.report.nodes[index] for index in self.report.tree.children[self.index]]

    @property
    def share(self) -> float:
        """Of the whole epsilon: siblings add up to their parent, the root is 1 (0 where nothing is lost at all); NaN if unknown."""
        return float(self.report.shares[self.index])

    @property
    def contribution(self) -> float:
        """share times epsilon."""
        return self.share * self.report.epsilon if self.share else 0.0

    @property
    def cumulants(self) -> Cumulants:
        """Of the loss Y of this subtree in the dominating direction."""
        return Cumulants.of(self.report.kappa[self.index])

    @property
    def tilted_cumulants(self) -> Cumulants:
        """The same at the saddle point, where the tilted estimate expands."""
        return Cumulants.of(self.report.tilted_kappa[self.index])

    @property
    def epsilon_alone(self) -> float:
        """What this subtree would cost by itself, certified; computed when first asked for."""
        return self._alone[0].upper

    @property
    def direction(self) -> str:
        """"remove", "add" or "both": which direction decides `epsilon_alone`."""
        return self._alone[1]

    @functools.cached_property
    def epsilon_without(self) -> float:
        """What the rest of the tree would cost, certified; computed when first asked for."""
        tree, report = self.report.tree, self.report
        rest = ((tree.events[i], tree.counts[i]) for i in tree.leaf_indices if not self.index <= i < tree.ends[self.index])
        return float(_composed(rest, report).get_epsilon_interval(report.target_delta).upper)

    @functools.cached_property
    def _alone(self) -> tuple[Interval, str]:
        report = self.report
        if self.index == 0:
            return report.interval, report.direction
        return _by_direction(_composed([(self.event, self.count)], report), report.target_delta, report.tolerance)


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class EventReport:
    """The answer of `explain`; `report.root`, `report["$.events[0]"]` and `report.nodes` give its nodes.

    Attributes:
      tree: the nodes, flattened.
      target_delta, neighboring_relation, tolerance: as asked.
      interval: certified epsilon of the whole tree. direction: the direction that decides it.
      tilt: the saddle point c at which the shares were taken; inf where they are those of the largest losses, NaN where unknown.
      shares: one per node. kappa, tilted_kappa: cumulants 1 to 4 of every subtree's loss, at tilts 0 and c.
      limit: how many nodes are displayed. by_range: whether many children of similar shares are displayed by ranges.
    """

    tree: Tree
    target_delta: float
    neighboring_relation: NeighboringRelation
    tolerance: float
    limit: int
    by_range: bool
    interval: Interval
    direction: str
    tilt: float
    shares: np.ndarray
    kappa: np.ndarray
    tilted_kappa: np.ndarray

    @property
    def epsilon(self) -> float:
        """The certified upper end."""
        return self.interval.upper

    @functools.cached_property
    def nodes(self) -> list[Node]:
        """All nodes, parents before children."""
        return [Node(self, index) for index in range(len(self.tree.events))]

    def node(self, index: int) -> Node:
        return self.nodes[index]

    @property
    def root(self) -> Node:
        return self.nodes[0]

    def __getitem__(self, path: str) -> Node:
        for index, segment in enumerate(self.tree.segments):
            if str(path).endswith(segment) and self.tree.path(index) == path:
                return self.nodes[index]
        raise KeyError(path)

    def cumulants_of(self, indices: Sequence[int]) -> Cumulants:
        """Of the loss of several subtrees together."""
        return Cumulants.of(self.kappa[list(indices)].sum(axis=0))

    def __repr__(self) -> str:
        return f"<EventReport: {report.headline(self)}>"

    def __str__(self) -> str:
        return report.text(self)

    def _repr_html_(self) -> str:
        return report.html(self)

    def to_dict(self, complete: bool = False) -> dict[str, Any]:
        """Plain data; `epsilon_alone` and `epsilon_without` for displayed nodes only, unless `complete`."""
        return report.as_dict(self, complete)

    def to_json(self, complete: bool = False) -> str:
        """`to_dict` as JSON; infinities are strings."""
        return as_json(self.to_dict(complete))

    def plot(self, axes: Any = None) -> Any:
        """An icicle: one row per level, widths are shares. Needs matplotlib; returns its axes."""
        return icicle.icicle(self, axes)


def explain(event: dp_event.DpEvent | PrivacyAccountant, *, target_delta: float,
            neighboring_relation: NeighboringRelation | None = None,
            tolerance: float | None = None, limit: int | None = None) -> EventReport:
    """Splits the epsilon of an event tree over its nodes.

    Args:
      event: the tree, or an accountant: then its ledger, under its relation.
      target_delta: the delta at which epsilon is asked.
      neighboring_relation: how neighbouring data sets differ; by default the accountant's, or ADD_OR_REMOVE_ONE.
      tolerance: width of the certified intervals aimed at; by default the accountant's, or 1e-6.
      limit: how many nodes to display, largest shares first; the others are folded. By default 12, and 6 for more than
        2,000 leaves, as each displayed node costs one accounting of the rest of the tree; and where no few of many children have
        half of the loss, ranges of them, which cost nothing.

    Raises:
      ValueError: a parameter is out of range.
      UnsupportedEventError: a leaf has no certified accounting here.
    """
    delta = validation.probability("target_delta", target_delta)
    event, accountant = subject_of(event, neighboring_relation, tolerance)
    neighboring_relation, tolerance = accountant.neighboring_relation, _spectral_tolerance(accountant)
    tree, (interval, direction) = Tree.of(event), _by_direction(accountant, delta, tolerance)
    by_range, few = limit is None, 12 if len(tree.leaf_indices) <= 2_000 else 6
    limit = few if limit is None else validation.integer("limit", limit, 1)
    # In the deciding direction; where only the curve of a pair is known, of a pair that has cumulants.
    side = 1 if direction == "add" else 0
    pllrs = [above(among_others(mechanisms.directions(tree.events[i], neighboring_relation)[side])) for i in tree.leaf_indices]
    counts: Counter[Pllr] = Counter()
    for pllr, i in zip(pllrs, tree.leaf_indices, strict=True):
        counts[pllr] += tree.counts[i]
    weights, tilt = attribution.weights(counts, interval.upper, delta)
    values = np.zeros((len(tree.events), 1 + 2 * attribution.CUMULANTS))
    values[tree.leaf_indices] = _leaf_values(pllrs, weights, tilt)
    values *= np.array(tree.counts, float)[:, None]
    sums = tree.sums(values)
    shares = sums[:, 0] if sums[0, 0] == 0.0 else sums[:, 0] / sums[0, 0]
    shares[0] = float(sums[0, 0] != 0.0)  # also where the others are unknown
    return EventReport(tree, delta, neighboring_relation, tolerance, limit, by_range, interval, direction, tilt, shares,
                       sums[:, 1:1 + attribution.CUMULANTS], sums[:, 1 + attribution.CUMULANTS:])


def _spectral_tolerance(accountant: EdgeworthIntervalAccountant) -> float:
    """Shares are those of the certified inversion."""
    settings = accountant._settings
    if settings["bound"] != "spectral":
        raise ValueError(f"`event` must not be an accountant with another `bound` than 'spectral'. Found {settings['bound']!r}.")
    return float(settings["tolerance"])


def _leaf_values(pllrs: list[Pllr], weights: dict[Pllr, float], tilt: float) -> np.ndarray:
    """One row per leaf: weight, four cumulants, four tilted ones (those at tilt 0 where no tilt is finite)."""
    if not pllrs:
        return np.zeros((0, 1 + 2 * attribution.CUMULANTS))
    distinct = list(weights)
    plain = attribution.leaf_cumulants(distinct, 0.0)
    tilted = attribution.leaf_cumulants(distinct, tilt) if math.isfinite(tilt) else plain
    table = np.concatenate([[list(weights.values())], plain, tilted]).T
    position = {pllr: i for i, pllr in enumerate(distinct)}
    return table[[position[pllr] for pllr in pllrs]]


def _by_direction(accountant: EdgeworthIntervalAccountant, delta: float, tolerance: float) -> tuple[Interval, str]:
    """Certified epsilon, and the direction that decides it; "both" where they are the same or both are infinite."""
    answer = accountant.get_epsilon_interval(delta)
    directions = [] if accountant._non_private else whole.compositions(accountant._pairs)
    if len(directions) < 2 or math.isinf(answer.estimate):
        return answer, "both"
    remove = answers.epsilon_bounds(directions[:1], np.array([delta]), tolerance).estimate[0]
    slack = 0.1 * tolerance * max(1.0, answer.estimate)
    if remove >= answer.estimate - slack:
        return answer, "remove"
    add = answers.epsilon_bounds(directions[1:], np.array([delta]), tolerance).estimate[0]  # the whole may be known better
    return answer, "remove" if remove >= add - slack else "add"


def _composed(parts: Iterable[tuple[dp_event.DpEvent, int]], settings: EventReport) -> EdgeworthIntervalAccountant:
    accountant = EdgeworthIntervalAccountant(settings.neighboring_relation, tolerance=settings.tolerance)
    for event, count in parts:
        accountant.compose(event, count)
    return accountant
