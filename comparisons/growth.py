"""The paper's finite-sample bounds, "uniform" and "adaptive": time against m and against the number of distinct leaves.

Constant in m for identical leaves, linear in N for N distinct ones; and Figure 4 of the paper against its authors' code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING

from dp_accounting import DpEvent

from comparisons import timing
from comparisons.cases import distinct, dp_sgd
from comparisons.table import exponent
from comparisons.timing import Result, Wanted

if TYPE_CHECKING:
    from dp_edgeworth.intervals import Interval

DELTA = 0.1
COUNTS = [10**k for k in (2, 3, 4, 6, 8, 10, 12)]
SIZES = [100, 300, 1000, 3000]
#: m -> (lower, upper, seconds) of the authors' code at delta 0.1, noise 0.8, p = 0.4/sqrt m.
AUTHORS = {10**4: (0.288, 1.030, 4.0), 10**5: (0.572, 0.997, 4.0), 10**6: (0.683, 0.778, 4.0)}


def _identical(count: int) -> DpEvent:
    return dp_sgd(0.4 / math.sqrt(count), 0.8, count)


def _interval(bound: str, event: DpEvent) -> Interval:
    return timing.certified(bound=bound).compose(event).get_epsilon_interval(DELTA)


def _seconds(bound: str, make: Callable[[int], DpEvent], size: int) -> float:
    return timing.median(partial(_interval, bound), make(size))


def _identical_leaves(bound: str) -> Iterator[Result]:
    times = [_seconds(bound, _identical, count) for count in COUNTS]
    ratio = times[-1] / times[COUNTS.index(10**4)]
    yield Result(f"{bound}: m 1e12 against m 1e4", times[-1], times[COUNTS.index(10**4)], ratio, "at most 3")
    yield Result(f"{bound}: exponent in m, 1e2 to 1e12", value=exponent(COUNTS, times), target="at most 0.05")


def _distinct_leaves(bound: str) -> Iterator[Result]:
    """The exponent over the larger sizes, where what does not depend on N no longer counts."""
    times = [_seconds(bound, distinct, size) for size in SIZES]
    per_leaf = 1e3 * times[-1] / SIZES[-1]
    yield Result(f"{bound}: exponent in N, 300 to 3,000", value=exponent(SIZES[1:], times[1:]), target="at most 1.05")
    yield Result(f"{bound}: milliseconds per leaf, N 3,000", times[-1], value=per_leaf, target="at most 1")


def _figure_4(count: int) -> Iterator[Result]:
    """Ours is inside the authors' interval, and how much narrower and faster it is."""
    lower, upper, theirs = AUTHORS[count]
    found = _interval("adaptive", _identical(count))
    ours = _seconds("adaptive", _identical, count)
    ratio = (found.upper - found.lower) / (upper - lower) if lower <= found.lower and found.upper <= upper else math.inf
    name, note = f"Figure 4, m {count:.0e}", f"[{found.lower:.4f}, {found.upper:.4f}] in [{lower}, {upper}]"
    yield Result(f"{name}: width over the authors'", value=ratio, target="at most 1", note=note)
    yield Result(f"{name}: time against the authors' 4 s or more", ours, theirs, theirs / ours, "at least 100")


def finite_sample(wanted: Wanted) -> Iterator[Result]:
    """The workload of `python -m comparisons speed`."""
    for bound in ("uniform", "adaptive"):
        if wanted.has(bound):
            yield from _identical_leaves(bound)
            yield from _distinct_leaves(bound)
    for count in AUTHORS:
        if wanted.has(f"Figure 4, m {count:.0e}"):
            yield from _figure_4(count)
