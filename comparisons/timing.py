"""How `speed` measures: CPU seconds of a question that nobody was asked before, ours and the peer's in one process.

Every repetition asks about a slightly different event (every noise times 1 + k 1e-7, k counted over the whole process), so that neither
side answers from what it remembers.
"""

from __future__ import annotations

import functools
import itertools
import logging
import math
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, TypeVar

from dp_accounting import DpEvent, NeighboringRelation
from dp_accounting.pld import PLDAccountant

from comparisons.cases import AR, dp_sgd, nudged

DELTA = 1e-5
T = TypeVar("T")
_numbers = itertools.count(1)


class Result(NamedTuple):
    """A measured number with its target, for example "at least 100"; the CPU seconds are ours and the peer's."""

    measured: str
    ours: float | None = None
    peer: float | None = None
    value: float | None = None
    target: str = ""
    note: str = ""

    def rounded(self) -> Result:
        """Numbers to four digits: more would be noise."""
        return Result._make(float(f"{field:.4g}") if isinstance(field, float) else field for field in self)

    @property
    def met(self) -> str:
        """yes, no, or nothing where there is no target."""
        if not self.target:
            return ""
        if self.value is None or math.isnan(self.value):
            return "no"
        side, _, bound = self.target.rpartition(" ")
        return "yes" if (self.value >= float(bound) if side == "at least" else self.value <= float(bound)) else "no"


class Wanted(NamedTuple):
    """Which results are asked for: those whose name contains one of the `texts`, any if there is none; and whether peers run."""

    texts: tuple[str, ...] = ()
    peers: bool = True

    def has(self, name: str) -> bool:
        return not self.texts or any(text.lower() in name.lower() for text in self.texts)


Workload = Callable[[Wanted], Iterator[Result]]


def clock(seconds: float | None) -> str:
    """Seconds in a readable unit."""
    if seconds is None:
        return ""
    return f"{seconds * 1e3:.3g} ms" if seconds < 1.0 else f"{seconds:.3g} s"


def cpu_seconds(action: Callable[[], object]) -> float:
    """CPU seconds of this process, all threads, so that other programs do not count."""
    start = time.process_time()
    action()
    return time.process_time() - start


def median_of(job: Callable[[T], object], question: Callable[[int], T], budget: float = 0.5, least: int = 1) -> float:
    """Median CPU seconds of a job over new questions, `question(number)`, until the budget is spent; a quick first is not counted."""
    warm_up()
    first = _once(job, question)
    times: list[float] = []
    while len(times) < least or (sum(times) < budget and len(times) < 15):
        if first > budget and not times:
            return first
        times.append(_once(job, question))
    return statistics.median(times)


def _once(job: Callable[[T], object], question: Callable[[int], T]) -> float:
    asked = question(next(_numbers))
    return cpu_seconds(lambda: job(asked))


def median(job: Callable[[DpEvent], object], event: DpEvent, budget: float = 0.5, least: int = 1) -> float:
    """Median CPU seconds of a job on events next to this one."""
    return median_of(job, functools.partial(nudged, event), budget, least)


def certified(relation: NeighboringRelation = AR, **settings: Any) -> Any:
    from dp_edgeworth import EdgeworthIntervalAccountant

    return EdgeworthIntervalAccountant(relation, **settings)


def tilted(relation: NeighboringRelation = AR) -> Any:
    from dp_edgeworth import ApproximateEdgeworthAccountant

    return ApproximateEdgeworthAccountant(relation, tilted=True)


def asking(factory: Callable[[], Any], delta: float = DELTA) -> Callable[[DpEvent], float]:
    """The job of making an accountant, composing an event and asking for epsilon."""
    return lambda event: factory().compose(event).get_epsilon(delta)


@functools.cache
def warm_up() -> None:
    """What only the first answer of a process pays for: imports, tables. The methods of rare samples have theirs, too."""
    warnings.simplefilter("ignore")
    logging.getLogger("absl").setLevel(logging.ERROR)  # RDP logs every order that it leaves out
    for event in (dp_sgd(0.01, 0.8, 1000), dp_sgd(0.01, 0.8, 30)):
        asking(certified)(event)
        asking(PLDAccountant)(event)


def compared(
    name: str,
    wanted: Wanted,
    event: DpEvent,
    ours: Callable[[DpEvent], object],
    peer: Callable[[DpEvent], object],
    target: str | Callable[[float], str] = "",
    note: str = "",
) -> Iterator[Result]:
    """One row, the peer's time over ours; the target may depend on the peer's seconds. What fails is a row that says so."""
    if not wanted.has(name):
        return
    try:
        mine = median(ours, event)
        theirs = median(peer, event, 0.2) if wanted.peers else None
    except Exception as error:
        yield Result(name, target="to finish", note=f"{type(error).__name__}: {error}"[:200])
        return
    if theirs is None:
        yield Result(name, mine, note=note)
    else:
        yield Result(name, mine, theirs, theirs / mine, target(theirs) if callable(target) else target, note)


def compared_jobs(
    name: str,
    wanted: Wanted,
    job: Callable[[Callable[[], Any], float], object],
    factories: tuple[Callable[[], Any], Callable[[], Any]],
    target: str,
    note: str = "",
) -> Result:
    """One row of a job that calibrates to an epsilon next to 2, by an accountant of ours and by a peer's."""
    ours, peer = (median_of(functools.partial(job, factory), _targets, 0.2) if factory is factories[0] or wanted.peers else None
                  for factory in factories)  # fmt: skip
    ratio = peer / ours if ours and peer else None
    return Result(name, ours, peer, ratio, target if ratio else "", note)


def _targets(number: int) -> float:
    """An epsilon that was not asked for before."""
    return 2.0 + 1e-6 * number


def in_units_of(unit: float, name: str, seconds: float, target: str) -> Result:
    """One of our times over another one of ours."""
    return Result(name, seconds, unit, seconds / unit, target)
