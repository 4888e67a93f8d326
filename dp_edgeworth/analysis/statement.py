"""The privacy statement: a number together with what it is a guarantee of, and of what it is not.

>>> import dp_accounting as dpa
>>> event = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(0.8)), 10_000)
>>> print(str(epsilon_statement(event, 1e-5)).splitlines()[0])
(epsilon = 10.0537, delta = 1e-05)-differential privacy, certified
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.accountants.accountant import EdgeworthIntervalAccountant
from dp_edgeworth.events import description, groups
from dp_edgeworth.events.description import rounded_down, rounded_up
from dp_edgeworth.intervals import Interval


@dataclasses.dataclass(frozen=True)
class PrivacyStatement:
    """What was accounted, under which assumptions, with which result.

    Attributes:
      quantity: "epsilon" or "delta", the one that was asked; `given` is the other one.
      accounted: the event in words, one line per mechanism. neighbors: the relation in words.
    """

    quantity: str
    given: float
    interval: Interval
    accounted: tuple[str, ...]
    neighboring_relation: str
    neighbors: str
    sampling: tuple[str, ...]
    not_covered: tuple[str, ...]
    subject: str = "the mechanism itself"
    group_size: int = 1

    @property
    def certified(self) -> bool:
        """Whether the upper end says anything: an infinite epsilon, or a delta of 1, must be known to be one."""
        vacuous = math.inf if self.quantity == "epsilon" else 1.0
        return self.interval.upper < vacuous or self.interval.lower >= vacuous

    @property
    def private(self) -> bool:
        """Whether epsilon is finite and delta below 1; any mechanism at all has the others."""
        return math.isfinite(self.epsilon) and self.delta < 1.0

    @property
    def guarantee(self) -> str:
        """The kind of guarantee."""
        if not self.certified:
            return "none: the bound could not be certified within the work allowed"
        if not self.private:
            return "none: the event is not differentially private at this delta"
        name = "pure" if self.delta == 0.0 else "approximate"
        return f"{name} differential privacy; the upper end is a proved bound of the exact value"

    @property
    def epsilon(self) -> float:
        return self.interval.upper if self.quantity == "epsilon" else self.given

    @property
    def delta(self) -> float:
        return self.interval.upper if self.quantity == "delta" else self.given

    @property
    def has_lower_end(self) -> bool:
        """Whether anything is known from below: of some guarantees no mechanism is known that needs them."""
        return self.subject == "the mechanism itself" or self.interval.lower > 0.0 or self.interval.upper == 0.0

    @property
    def _interval_in_words(self) -> str:
        if not self.has_lower_end:
            return f"{self.quantity} <= {rounded_up(self.interval.upper, 10)} (no lower end is known)"
        return f"{rounded_down(self.interval.lower, 10)} <= {self.quantity} <= {rounded_up(self.interval.upper, 10)}"

    def to_dict(self) -> dict[str, Any]:
        """Plain data."""
        lower, estimate, upper = self.interval
        return {
            "epsilon": self.epsilon, "delta": self.delta, "quantity": self.quantity,
            "interval": {"lower": lower, "estimate": estimate, "upper": upper}, "certified": self.certified,
            "guarantee": self.guarantee, "accounted": list(self.accounted),
            "neighboring_relation": self.neighboring_relation, "neighbors": self.neighbors,
            "sampling": list(self.sampling), "not_covered": list(self.not_covered),
            "subject": self.subject, "group_size": self.group_size,
        }

    def __str__(self) -> str:
        ending = "certified" if self.certified else "NOT certified"
        if self.certified and not self.private:
            ending = "which is no privacy at all: certified"
        pair = f"(epsilon = {rounded_up(self.epsilon)}, delta = {rounded_up(self.delta)})"
        lines = [f"{pair}-differential privacy, {ending}",
                 *_listed("accounted", self.accounted),
                 f"  neighbors      {self.neighbors} ({self.neighboring_relation})",
                 *_listed("sampling", self.sampling),
                 f"  interval       {self._interval_in_words}",
                 f"  of             {self.subject}",
                 f"  guarantee      {self.guarantee}",
                 *_listed("not covered", self.not_covered)]
        return "\n".join(lines)


def _listed(title: str, items: tuple[str, ...]) -> list[str]:
    return [f"  {title if i == 0 else '':<14} {item}" for i, item in enumerate(items)]


def epsilon_statement(event: dp_event.DpEvent, target_delta: float,
                      neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE, *,
                      tolerance: float = 1e-6, group_size: int = 1) -> PrivacyStatement:
    """The statement for epsilon at `target_delta`, for groups of up to `group_size` records (`for_groups`)."""
    given = validation.probability("target_delta", target_delta)
    grouped = _for_groups(event, group_size, neighboring_relation)
    accountant = EdgeworthIntervalAccountant(neighboring_relation, tolerance=tolerance).compose(grouped)
    interval = accountant.get_epsilon_interval(given)
    return _statement("epsilon", given, interval, event, neighboring_relation, group_size)


def delta_statement(event: dp_event.DpEvent, target_epsilon: float,
                    neighboring_relation: NeighboringRelation = NeighboringRelation.ADD_OR_REMOVE_ONE, *,
                    tolerance: float = 1e-6, group_size: int = 1) -> PrivacyStatement:
    """The statement for delta at `target_epsilon`, for groups of up to `group_size` records (`for_groups`)."""
    given = validation.at_least_zero("target_epsilon", target_epsilon)
    grouped = _for_groups(event, group_size, neighboring_relation)
    accountant = EdgeworthIntervalAccountant(neighboring_relation, tolerance=tolerance).compose(grouped)
    interval = accountant.get_delta_interval(given)
    return _statement("delta", given, interval, event, neighboring_relation, group_size)


def _for_groups(event: dp_event.DpEvent, size: int, relation: NeighboringRelation) -> dp_event.DpEvent:
    if validation.integer("group_size", size, 1) > 1 and relation is not NeighboringRelation.ADD_OR_REMOVE_ONE:
        raise ValueError(f"`group_size` must be 1 unless the relation is `ADD_OR_REMOVE_ONE`. Found {size} and `{relation.name}`.")
    return groups.for_groups(event, size)


def _statement(quantity: str, given: float, interval: Interval, event: dp_event.DpEvent,
               relation: NeighboringRelation, group_size: int) -> PrivacyStatement:
    neighbors = description.relation_in_words(relation)
    if group_size > 1:
        neighbors = f"up to {group_size:,} records, all added or all removed"
    return PrivacyStatement(quantity, given, interval, tuple(description.parts(event)), relation.name, neighbors,
                            tuple(description.sampling_assumptions(event)), tuple(description.not_covered(event, group_size)),
                            description.subject(event), group_size)
