"""The workloads of `speed`: each gives measured results with their targets, of those that are wanted. Imports ours lazily."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, cast

from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    ExplicitBracketInterval,
    GaussianDpEvent,
    PoissonSampledDpEvent,
    calibrate_dp_mechanism,
)
from dp_accounting.pld import PLDAccountant

from comparisons import curve_workloads, jobs, ordinary, timing
from comparisons.cases import distinct, dp_sgd
from comparisons.peers import UnrolledPldAccountant
from comparisons.runner import OK, Limits
from comparisons.speed_rows import speed_rows
from comparisons.table import exponent
from comparisons.timing import DELTA, Result, Wanted, Workload, asking, certified
from comparisons.workers import limited


def relative_width(event: DpEvent, delta: float) -> float:
    """Width of the certified interval, absolute below epsilon 1 and relative above."""
    lower, _, upper = certified().compose(event).get_epsilon_interval(delta)
    return (upper - lower) / max(1.0, upper)


def single(wanted: Wanted) -> Iterator[Result]:
    """One epsilon of every row against PLDAccountant, and the geometric mean over ordinary DP-SGD."""
    ratios = []
    for row in speed_rows():
        ours, peer = (asking(partial(factory, row.relation), row.delta) for factory in (certified, UnrolledPldAccountant))
        for result in timing.compared(f"epsilon: {row.name}", wanted, row.event, ours, peer, _least_ratio):
            if row.recipe and result.value is not None:
                ratios.append(result.value)
            yield result
    if ratios:
        yield Result("epsilon: geometric mean over DP-SGD", value=statistics.geometric_mean(ratios), target="at least 50")


def _least_ratio(peer: float) -> str:
    """The target of a single answer, by the peer's seconds."""
    return "at least 20" if peer >= 0.05 else "at least 3"


def size(wanted: Wanted) -> Iterator[Result]:
    """Time against m for identical leaves, 1e2 to 1e15."""
    if not wanted.has("time in m"):
        return
    sizes = [10**k for k in (2, 3, 4, 6, 8, 10, 12, 15)]
    times = {m: timing.median(asking(certified), dp_sgd(0.4 / math.sqrt(m), 0.8, m)) for m in sizes}
    yield Result("time in m: 1e12 against 1e4", times[10**12], times[10**4], times[10**12] / times[10**4], "at most 2")
    yield Result("time in m: exponent, 1e2 to 1e15", value=exponent(sizes, list(times.values())), target="at most 0.05")


def heterogeneous(wanted: Wanted) -> Iterator[Result]:
    """N distinct leaves: width, and the exponent of the time in N."""
    if wanted.has("N 10,000: width"):
        yield Result("N 10,000: width", value=relative_width(distinct(10_000), DELTA), target="at most 1e-6")
    # The first N of the first range are in the hard regime, which flattens the fit; the second range never is.
    sizes = [100, 300, 1000, 3000, 10_000, 30_000]
    for low, high in ((0.005, 0.02), (0.05, 0.1)):
        name = f"exponent of the time in N, 100 to 30,000, p {low:g} to {high:g}"
        if wanted.has(name):
            times = [timing.median(asking(certified), distinct(number, low, high)) for number in sizes]
            yield Result(name, value=exponent(sizes, times), target="at most 1.05")
    hard = distinct(100, 0.005, 0.015)
    yield from timing.compared("N 100 with m p about 1", wanted, hard, asking(certified), asking(PLDAccountant), "at least 1")


def calibration(wanted: Wanted) -> Iterator[Result]:
    """`calibrate_dp_mechanism` at p 0.01, m 1e4, delta 1e-6, target epsilon 2; a little more each time, so that nobody remembers."""

    def calibrate(factory: Callable[[], Any], target: float) -> float:
        return calibrate_dp_mechanism(
            factory, lambda noise: dp_sgd(0.01, noise, 10_000), target, 1e-6, ExplicitBracketInterval(0.5, 20.0)
        )

    if wanted.has("calibration of DP-SGD"):
        yield timing.compared_jobs("calibration of DP-SGD", wanted, calibrate, (certified, PLDAccountant), "at least 100")


def loop(wanted: Wanted) -> Iterator[Result]:
    """10,000 steps of one leaf with an answer after each; the peer's time is that of 20 steps, scaled."""

    def steps(factory: Callable[[], Any], start: int, number: int, noise: float) -> None:
        leaf = PoissonSampledDpEvent(0.01, GaussianDpEvent(noise))
        accountant = factory()
        if start:
            accountant.compose(leaf, start)
        for _ in range(number):
            accountant.compose(leaf).get_epsilon(DELTA)

    if wanted.peers and wanted.has("10,000 steps, epsilon after each"):
        ours = timing.median_of(partial(steps, certified, 0, 10_000), _noise, 0.1)
        theirs = 500.0 * timing.median_of(partial(steps, PLDAccountant, 5000, 20), _noise, 0.1)
        yield Result("10,000 steps, epsilon after each", ours, theirs, theirs / ours, "at least 50")


def _noise(number: int) -> float:
    """A noise next to 0.8 that was not asked for before."""
    return 0.8 * (1.0 + 1e-7 * number)


def incremental(wanted: Wanted) -> Iterator[Result]:
    """Distinct leaves one at a time with an answer after each: seconds of one more step after 200 and 2,000 leaves.

    Ten times the leaves may not cost more: an answer grows by the new leaves only. Sampling probabilities are 0.05 to
    0.1, so that neither is in the hard regime, which would hide the growth.
    """
    name = "distinct leaves one at a time with an answer after each"
    if not wanted.has(name):
        return
    early, late = (_one_more(certified, number) for number in (200, 2000))
    yield Result(f"{name}: 2,000 leaves against 200", late, early, late / early, "at most 2")
    if wanted.peers:
        peer = _one_more(PLDAccountant, 10, steps=3)
        yield Result(f"{name}: at 200 leaves, against PLD at 10", early, peer, peer / early, "at least 1")
        yield Result(f"{name}: at 2,000 leaves, against PLD at 10", late, peer, peer / late, "at least 1")


def _one_more(factory: Callable[[], Any], number: int, steps: int = 10) -> float:
    """Median seconds of composing one more distinct leaf and asking, after `number` of them."""
    timing.warm_up()
    events = cast(ComposedDpEvent, distinct(number + steps, 0.05, 0.1)).events
    accountant = factory().compose(ComposedDpEvent(events[:number]))
    accountant.get_epsilon(DELTA)
    times = []
    for event in events[number:]:
        times.append(timing.cpu_seconds(lambda event=event: accountant.compose(event).get_epsilon(DELTA)))  # type: ignore[misc]
    return statistics.median(times)


def memory(wanted: Wanted) -> Iterator[Result]:
    """100,000 distinct leaves in a child process: its peak in MB, interpreter and event tree included."""
    name = "100,000 distinct leaves: peak MB of the process"
    if wanted.has(name):
        outcome = limited(jobs.answer_and_peak, (distinct(100_000),), Limits(seconds=300.0, gigabytes=8.0))
        seconds, peak = outcome.value if outcome.status == OK else (None, None)
        yield Result(name, seconds, None, peak, "at most 1024", outcome.note)


def finite_sample(wanted: Wanted) -> Iterator[Result]:
    """The paper's finite-sample bounds: their growth, and Figure 4 against its authors' code."""
    from comparisons import growth

    yield from growth.finite_sample(wanted)


WORKLOADS: dict[str, Workload] = {
    "single": single, "curves": curve_workloads.curves, "ordinary": ordinary.ordinary, "thousand-leaves": jobs.thousand_leaves,
    "schedule": jobs.noise_schedule, "sweep": jobs.grid, "tolerance": jobs.tolerance, "truncated": jobs.truncated,
    "calibration": calibration, "size": size, "heterogeneous": heterogeneous, "loop": loop, "incremental": incremental,
    "memory": memory, "finite-sample": finite_sample,
}  # fmt: skip
