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
from dp_accounting.privacy_accountant import NeighboringRelation, PrivacyAccountant

from dp_edgeworth import validation
from dp_edgeworth.analysis import statement_formats
from dp_edgeworth.analysis.provenance import Provenance
from dp_edgeworth.analysis.rendering import Answer
from dp_edgeworth.analysis.subject import Subject, of_groups, subject_of
from dp_edgeworth.events import description
from dp_edgeworth.events.description import rounded_down, rounded_up
from dp_edgeworth.intervals import Interval


@dataclasses.dataclass(frozen=True, repr=False)
class PrivacyStatement(Answer):
    """What was accounted, under which assumptions, with which result.

    Attributes:
      quantity: "epsilon" or "delta", the one that was asked; `given` is the other one.
      accounted: the event in words, one line per mechanism. neighbors: the relation in words.
      provenance: tool, version, date and a hash of the event, so that the number can be reproduced.
    """

    quantity: str
    given: float
    interval: Interval
    accounted: tuple[str, ...]
    neighboring_relation: str
    neighbors: str
    sampling: tuple[str, ...]
    not_covered: tuple[str, ...]
    provenance: Provenance
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
            "subject": self.subject, "group_size": self.group_size, "provenance": self.provenance.to_dict(),
        }

    def to_markdown(self) -> str:
        """The claim, and a table of what it rests on."""
        return statement_formats.as_markdown(self.claim, self.lines)

    def to_latex(self) -> str:
        """A paragraph and a description list, without packages."""
        return statement_formats.as_latex(self.claim, self.lines)

    def _repr_html_(self) -> str:
        return statement_formats.claim_as_html(self.claim) + statement_formats.as_html(self.lines)

    @property
    def claim(self) -> str:
        """The first line: the pair, and whether it is certified."""
        ending = "certified" if self.certified else "NOT certified"
        if self.certified and not self.private:
            ending = "which is no privacy at all: certified"
        pair = f"(epsilon = {rounded_up(self.epsilon)}, delta = {rounded_up(self.delta)})"
        return f"{pair}-differential privacy, {ending}"

    title = claim

    @property
    def lines(self) -> dict[str, tuple[str, ...]]:
        """What the claim rests on, by title."""
        digest = self.provenance.event_sha256
        return {
            "accounted": self.accounted,
            "neighbors": (f"{self.neighbors} ({self.neighboring_relation})",),
            "sampling": self.sampling,
            "interval": (self._interval_in_words,),
            "of": (self.subject,),
            "guarantee": (self.guarantee,),
            "not covered": self.not_covered,
            "computed by": (str(self.provenance),),
            "event": (f"sha256 {digest}" if digest else "has no JSON document, so no hash",),
        }

    def __str__(self) -> str:
        return statement_formats.as_text(self.claim, self.lines)


def epsilon_statement(event: dp_event.DpEvent | PrivacyAccountant, target_delta: float,
                      neighboring_relation: NeighboringRelation | None = None, *,
                      tolerance: float | None = None, group_size: int = 1) -> PrivacyStatement:
    """The statement for epsilon at `target_delta`.

    Args:
      event: an event, or an accountant: then its ledger, under its relation, with its settings.
      target_delta: the delta at which epsilon is asked.
      neighboring_relation: how neighbouring data sets differ; by default the accountant's, or ADD_OR_REMOVE_ONE.
      tolerance: width of the certified interval aimed at; by default the accountant's, or 1e-6.
      group_size: the statement is for groups of up to so many records, all added or all removed (`for_groups`).
    """
    given = validation.probability("target_delta", target_delta)
    return _statement("epsilon", given, subject_of(event, neighboring_relation, tolerance), group_size)


def delta_statement(event: dp_event.DpEvent | PrivacyAccountant, target_epsilon: float,
                    neighboring_relation: NeighboringRelation | None = None, *,
                    tolerance: float | None = None, group_size: int = 1) -> PrivacyStatement:
    """The statement for delta at `target_epsilon`; arguments as for `epsilon_statement`."""
    given = validation.at_least_zero("target_epsilon", target_epsilon)
    return _statement("delta", given, subject_of(event, neighboring_relation, tolerance), group_size)


def statement(event: dp_event.DpEvent | PrivacyAccountant, *, target_delta: float | None = None, target_epsilon: float | None = None,
              **settings: Any) -> PrivacyStatement:
    """The statement for whichever of epsilon and delta was not given; settings as for `epsilon_statement`."""
    if target_delta is not None and target_epsilon is None:
        return epsilon_statement(event, target_delta, **settings)
    if target_epsilon is not None and target_delta is None:
        return delta_statement(event, target_epsilon, **settings)
    raise ValueError("Exactly one of `target_delta` and `target_epsilon` must be given.")


def _statement(quantity: str, given: float, subject: Subject, group_size: int) -> PrivacyStatement:
    accountant = of_groups(subject, group_size).accountant
    interval = (accountant.get_epsilon_interval if quantity == "epsilon" else accountant.get_delta_interval)(given)
    event, relation = subject.event, accountant.neighboring_relation
    neighbors = description.relation_in_words(relation)
    if group_size > 1:
        neighbors = f"up to {group_size:,} records, all added or all removed"
    return PrivacyStatement(quantity, given, interval, tuple(description.parts(event)), relation.name, neighbors,
                            tuple(description.sampling_assumptions(event)), tuple(description.not_covered(event, group_size)),
                            Provenance.of(event, subject.accountant._settings), description.subject(event), group_size)
