"""The verdict on one case: our intervals beside what is known of the exact values.

  ok          the intervals contain the exact values, widened by the oracle's own accuracy
  bracket     the oracle has no answer; the interval of epsilon meets the bracket of PLD (`brackets`)
  no oracle   neither; order, width and time are still judged
  VIOLATION   an interval does not contain the exact value or misses the bracket; or it is NaN, or out of order
  error, timeout, out of memory   the accountant itself
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from dp_accounting import dp_event as de

from comparisons.runner import OK, Outcome
from comparisons.truth_cases import TOLERANCE, TruthCase
from comparisons.truth_oracle import Stored

VIOLATION, BRACKET, NO_ORACLE = "VIOLATION", "bracket", "no oracle"
JUDGED = (OK, BRACKET, NO_ORACLE, VIOLATION)
_ULP = 2.3e-16
_QUICK = 0.05  # seconds: an answer that took less is timed twice
Interval = tuple[float, ...]  # lower, estimate, upper
Bracket = tuple[float, float] | None


@dataclass(frozen=True)
class TruthRow:
    """A judged case: `epsilon_*` at delta, `delta_*` at `at_epsilon`."""

    index: int
    regime: str
    event: str
    relation: str
    delta: float
    tolerance: float
    status: str
    epsilon_exact: float | None
    epsilon_accuracy: float | None
    epsilon_lower: float | None
    epsilon_upper: float | None
    at_epsilon: float | None
    delta_exact: float | None
    delta_accuracy: float | None
    delta_lower: float | None
    delta_upper: float | None
    wide: str
    seconds: float | None
    note: str

    @property
    def width(self) -> float | None:
        """Of the epsilon interval, relative above 1."""
        if self.epsilon_lower is None or self.epsilon_upper is None:
            return None
        if self.epsilon_lower == self.epsilon_upper:
            return 0.0
        return (self.epsilon_upper - self.epsilon_lower) / max(1.0, self.epsilon_lower)

    def is_of(self, stored: Stored) -> bool:
        """Whether these exact values were the judges."""
        mine = self.epsilon_exact, self.epsilon_accuracy, self.delta_exact, self.delta_accuracy
        return mine == (stored.epsilon, stored.epsilon_accuracy, stored.delta, stored.delta_accuracy)


class Answer(NamedTuple):
    """What our accountant says, and the CPU seconds of composing and the epsilon interval."""

    epsilon: Interval
    at_epsilon: float
    delta: Interval
    seconds: float


@functools.cache
def _warm() -> None:
    """Lazy imports are no case's own: once per process, before the clock runs."""
    from dp_edgeworth import EdgeworthIntervalAccountant

    parts = [de.PoissonSampledDpEvent(0.1, de.GaussianDpEvent(1.0)), de.LaplaceDpEvent(1.0), de.DiscreteLaplaceDpEvent(0.5, 1)]
    for event in (*parts, de.ComposedDpEvent(parts)):
        EdgeworthIntervalAccountant().compose(event, 10).get_epsilon_interval(1e-5)


def ask(case: TruthCase, at_epsilon: float | None) -> Answer:
    """Both intervals; where no epsilon is given to ask for delta at, near the one just found."""
    from dp_edgeworth import EdgeworthIntervalAccountant

    _warm()
    spent: list[float] = []
    while len(spent) < 2 and sum(spent) < _QUICK:
        start = time.process_time()
        accountant = EdgeworthIntervalAccountant(case.relation, tolerance=case.tolerance).compose(case.event)
        epsilon = accountant.get_epsilon_interval(case.delta)
        spent.append(time.process_time() - start)
    at = case.at_epsilon(epsilon.estimate) if at_epsilon is None else at_epsilon
    return Answer(tuple(epsilon), at, tuple(accountant.get_delta_interval(at)), min(spent))


def contains(interval: Interval, exact: float, accuracy: float) -> str:
    """Empty if lower <= exact <= upper up to the accuracy of `exact` and its last digit; otherwise what is wrong.

    >>> contains((1.0, 1.5, 2.0), 2.0 + 1e-12, 1e-11)
    ''
    >>> contains((1.0, 1.5, 2.0), 2.5, 1e-11)
    'upper 2 < exact 2.5'
    """
    if disorder(interval):
        return disorder(interval)
    lower, _, upper = interval
    slack = max(accuracy, _ULP) * abs(exact)
    if exact == math.inf:
        return "" if upper == math.inf else f"upper {upper:.17g} < exact inf"
    if upper < exact - slack:
        return f"upper {upper:.17g} < exact {exact:.17g}"
    return f"lower {lower:.17g} > exact {exact:.17g}" if lower > exact + slack else ""


def disorder(interval: Interval) -> str:
    """Empty if 0 <= lower <= estimate <= upper, which also rules out NaN."""
    lower, estimate, upper = interval
    return "" if 0 <= lower <= estimate <= upper else f"not an interval: {lower!r}, {estimate!r}, {upper!r}"


def misses(interval: Interval, bracket: Bracket) -> str:
    """Empty if the interval and the bracket have a point in common."""
    if bracket is None or (interval[0] <= bracket[1] and bracket[0] <= interval[2]):
        return ""
    return f"[{interval[0]:.17g}, {interval[2]:.17g}] misses the bracket of PLD [{bracket[0]:.17g}, {bracket[1]:.17g}]"


def judge(case: TruthCase, answer: Outcome, stored: Stored, bracket: Bracket = None) -> TruthRow:
    """The row of a case: how the accountant ended (`value`: its Answer), and what is known."""
    known: dict[str, Any] = {
        "index": case.index,
        "regime": case.regime,
        "event": repr(case.event),
        "relation": case.relation.name,
        "delta": case.delta,
        "tolerance": case.tolerance,
        "epsilon_exact": stored.epsilon,
        "epsilon_accuracy": stored.epsilon_accuracy,
        "at_epsilon": stored.at_epsilon,
        "delta_exact": stored.delta,
        "delta_accuracy": stored.delta_accuracy,
    }
    if answer.status != OK:
        ends = dict.fromkeys(("epsilon_lower", "epsilon_upper", "delta_lower", "delta_upper", "seconds"))
        return TruthRow(**known, **ends, wide="", status=answer.status, note=answer.note)  # type: ignore[arg-type]
    epsilon, at, delta, seconds = answer.value
    known |= {
        "epsilon_lower": epsilon[0],
        "epsilon_upper": epsilon[2],
        "at_epsilon": at,
        "delta_lower": delta[0],
        "delta_upper": delta[2],
        "wide": too_wide(case, epsilon),
        "seconds": seconds,
    }
    wrong = _faults(epsilon, delta, stored, bracket)
    unknown = BRACKET if bracket is not None else NO_ORACLE
    status = VIOLATION if wrong else OK if stored.epsilon is not None else unknown
    oracle = f"oracle: {stored.note}" if stored.note else ""
    return TruthRow(**known, status=status, note="; ".join(filter(None, (wrong, oracle))))


def _faults(epsilon: Interval, delta: Interval, stored: Stored, bracket: Bracket) -> str:
    """What is wrong with either interval."""
    if stored.epsilon is None:
        first = disorder(epsilon) or misses(epsilon, bracket)
    else:
        first = contains(epsilon, stored.epsilon, stored.epsilon_accuracy or 0.0)
    if stored.delta is None:
        second = disorder(delta)
    else:
        second = contains(delta, stored.delta, stored.delta_accuracy or 0.0)
    return "; ".join(f"{name} {fault}" for name, fault in (("epsilon", first), ("delta", second)) if fault)


def too_wide(case: TruthCase, epsilon: Interval) -> str:
    """What the interval should have been narrower than, where it is not (default tolerance only).

    1e-6 (relative above 1) where a leaf without atoms is used 50 times or expected to sample 5; otherwise 1e-3 relative.
    """
    lower, _, upper = epsilon
    if case.tolerance != TOLERANCE or lower == upper:
        return ""
    uses = list(_uses(case.event, 1, 1.0))
    smooth = any(not atoms and (count >= 50 or count * p >= 5) for count, p, atoms in uses)
    if smooth:
        return "" if upper - lower <= 1e-6 * max(1.0, lower) else "1e-6"
    return "" if upper - lower <= max(1e-3 * lower, 1e-6) else "1e-3"


def _uses(event: de.DpEvent, count: int, p: float) -> Iterator[tuple[int, float, bool]]:
    """(count, sampling probability, whether the loss has atoms) of every leaf."""
    if isinstance(event, de.SelfComposedDpEvent):
        yield from _uses(event.event, count * int(event.count), p)
    elif isinstance(event, de.ComposedDpEvent):
        for part in event.events:
            yield from _uses(part, count, p)
    elif isinstance(event, de.PoissonSampledDpEvent):
        yield from _uses(event.event, count, p * event.sampling_probability)
    elif isinstance(event, de.SampledWithoutReplacementDpEvent):
        yield count, p * event.sample_size / event.source_dataset_size, True
    elif isinstance(event, de.TruncatedSubsampledGaussianDpEvent):
        yield count, p * event.sampling_probability, False
    else:
        smooth = (de.GaussianDpEvent, de.MixtureOfGaussiansDpEvent, de.SingleEpochTreeAggregationDpEvent)
        yield count, p, not isinstance(event, smooth)
