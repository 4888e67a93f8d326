"""Workloads that ask one event for many points: in single answers of the same event, and against PLDAccountant's points.

PLDAccountant composes and gives as many points of its curve as we do: deltas, in one call or one by one, whichever takes it less. That
is kind to it: epsilons at given deltas take it longer, and a trade-off curve or mu would have to be read off its points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np

from comparisons import timing
from comparisons.peers import UnrolledPldAccountant
from comparisons.speed_rows import SpeedRow, speed_rows
from comparisons.timing import Result, Wanted

DELTAS = np.geomspace(1e-12, 1e-2, 200)
ALPHAS = np.geomspace(1e-6, 1.0, 101)
_MOST_SINGLES = "at most 20"
Question = tuple[Callable[[Any], Any], tuple[Callable[[Any], Any], ...]]


def _deltas(number: int) -> tuple[Callable[[Any], Any], ...]:
    """PLDAccountant's deltas at so many epsilons, in one call and one by one: which is quicker differs from curve to curve."""
    epsilons = np.linspace(0.0, 20.0, number)
    return lambda pld: pld.get_delta(epsilons), lambda pld: [pld.get_delta(float(epsilon)) for epsilon in epsilons]


#: What is asked of an accountant that has composed: ours, and the peer's ways.
QUESTIONS: dict[str, Question] = {
    "200 epsilons": (lambda ours: ours.get_epsilon(DELTAS), _deltas(200)),
    "200 deltas": (lambda ours: ours.get_delta(np.linspace(0.0, 20.0, 200)), _deltas(200)),
    "101 alphas": (lambda ours: ours.get_tradeoff(ALPHAS), _deltas(101)),
    "get_gdp_mu": (lambda ours: ours.get_gdp_mu(), _deltas(101)),
    "advantage": (lambda ours: ours.get_advantage(), (lambda pld: pld.get_delta(0.0),)),
}


def curves(wanted: Wanted) -> Iterator[Result]:
    """Every question of every row."""
    for row in speed_rows():
        single = None
        for name, question in QUESTIONS.items():
            title = f"{row.name}: {name}"
            if wanted.has(title):
                single = single or timing.median(timing.asking(partial(timing.certified, row.relation), row.delta), row.event)
                yield from _curve(title, row, question, single, wanted)


def _curve(title: str, row: SpeedRow, question: Question, single: float, wanted: Wanted) -> Iterator[Result]:
    """One question: in single answers, and the peer's time over ours."""
    ours, ways = question
    peer = _quickest(ways, row) if wanted.peers and len(ways) > 1 else ways[0]
    for result in timing.compared(
        title, wanted, row.event, lambda event: ours(timing.certified(row.relation).compose(event)),
        lambda event: peer(UnrolledPldAccountant(row.relation).compose(event)), "at least 1",
    ):  # fmt: skip
        if result.ours is not None:
            target = _MOST_SINGLES if row.recipe else ""
            yield timing.in_units_of(single, f"{title}, in single answers", result.ours, target)
        if result.peer is not None or result.ours is None:
            yield result


def _quickest(ways: tuple[Callable[[Any], Any], ...], row: SpeedRow) -> Callable[[Any], Any]:
    """The way that takes the peer the least time, once composed."""
    composed = UnrolledPldAccountant(row.relation).compose(row.event)
    return min(ways, key=lambda way: timing.cpu_seconds(lambda: way(composed)))
