"""The workloads of `speed`: each returns measured results with their targets. Imports ours lazily."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    ExplicitBracketInterval,
    GaussianDpEvent,
    LaplaceDpEvent,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    calibrate_dp_mechanism,
)
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

from comparisons.cases import AR, distinct, dp_sgd
from comparisons.methods import DEFAULT
from comparisons.runner import OK, Limits, limited, measure, peak_mb
from comparisons.table import exponent

DELTA = 1e-5
#: (p, noise, steps, delta): the DP-SGD rows of tests/golden/exact_epsilon.json.
DP_SGD_ROWS = (
    (0.01, 0.8, 100, 1e-5), (0.01, 0.8, 1000, 1e-5), (0.01, 0.8, 10**4, 1e-5), (0.01, 0.8, 10**5, 1e-5),
    (0.01, 0.8, 10**6, 1e-5), (0.001, 0.6, 1000, 1e-5), (0.001, 0.6, 10**4, 1e-5), (0.001, 0.6, 10**5, 1e-5),
    (0.001, 0.6, 10**6, 1e-5), (0.05, 1.0, 200, 1e-5), (0.05, 1.0, 1000, 1e-5), (0.05, 1.0, 10**4, 1e-5),
    (0.05, 1.0, 10**5, 1e-5), (0.02, 2.0, 10**4, 1e-5), (0.004, 0.8, 10**4, 0.1), (0.0004, 0.8, 10**6, 0.1),
    (0.05, 1.0, 200, 1e-14),
)  # fmt: skip
#: (p, scale, steps): its Laplace rows, delta 1e-5; p = 1 is plain.
LAPLACE_ROWS = (
    (1.0, 1.0, 10), (1.0, 1.0, 1000), (1.0, 5.0, 10), (1.0, 5.0, 1000), (1.0, 20.0, 10), (1.0, 20.0, 1000),
    (0.01, 0.5, 1000), (0.1, 1.0, 1000),
)  # fmt: skip


class Result(NamedTuple):
    """A measured number with its target, for example "at least 100"; the seconds are ours and the peer's."""

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


def clock(seconds: float | None) -> str:
    """Seconds in a readable unit."""
    if seconds is None:
        return ""
    return f"{seconds * 1e3:.3g} ms" if seconds < 1.0 else f"{seconds:.3g} s"


def median(action: Callable[[], Any], budget: float = 1.0, least: int = 1) -> float:
    """Median seconds of an action: repeated until the budget is spent, first run not counted where it is quick."""
    start = time.perf_counter()
    action()
    first = time.perf_counter() - start
    times: list[float] = []
    while len(times) < least or (sum(times) < budget and len(times) < 25):
        if first > budget and not times:
            return first
        start = time.perf_counter()
        action()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def certified() -> Any:
    from dp_edgeworth import EdgeworthIntervalAccountant

    return EdgeworthIntervalAccountant()


def tilted() -> Any:
    from dp_edgeworth import ApproximateEdgeworthAccountant

    return ApproximateEdgeworthAccountant(tilted=True)


def ask(factory: Callable[[], Any], event: DpEvent, delta: float = DELTA) -> float:
    """Compose and get epsilon: what is timed."""
    return factory().compose(event).get_epsilon(delta)


def relative_width(event: DpEvent, delta: float) -> float:
    """Width of the certified interval, absolute below epsilon 1 and relative above."""
    lower, _, upper = certified().compose(event).get_epsilon_interval(delta)
    return (upper - lower) / max(1.0, upper)


def _against(name: str, event: DpEvent, peer: Callable[[], Any], delta: float, target: str = "") -> Result:
    ours, theirs = median(partial(ask, certified, event, delta)), median(partial(ask, peer, event, delta))
    return Result(name, ours, theirs, theirs / ours, target)


def peers() -> list[Result]:
    """Every method at p 0.01, noise 0.8, m 1e4, delta 1e-5, against the certified interval."""
    event = dp_sgd(0.01, 0.8, 10_000)
    ours = measure("EW_CERTIFIED", event, DELTA, AR)[1]
    results = []
    for name in (*DEFAULT, "FFT_FINE"):
        if name == "EW_CERTIFIED":
            continue
        try:
            theirs = measure(name, event, DELTA, AR)[1]
        except Exception as error:
            results.append(Result(f"base setting: {name}", ours, note=f"{type(error).__name__}: {error}"[:120]))
            continue
        target = "at least 100" if name == "PLD_1e-4" else ""
        results.append(Result(f"base setting: {name}", ours, theirs, theirs / ours, target))
    return [*results, Result("base setting: width", value=relative_width(event, DELTA), target="at most 1e-6")]


def reference() -> list[Result]:
    """The reference rows against PLDAccountant: geometric mean over DP-SGD, worst over all."""
    rows = [(f"p {p:g}, noise {s:g}, m {m:g}, delta {d:g}", dp_sgd(p, s, m), d) for p, s, m, d in DP_SGD_ROWS]
    results = [_against(name, event, PLDAccountant, delta) for name, event, delta in rows]
    mean = math.exp(statistics.fmean(math.log(result.value or math.nan) for result in results))
    for p, scale, steps in LAPLACE_ROWS:
        leaf = LaplaceDpEvent(scale) if p == 1.0 else PoissonSampledDpEvent(p, LaplaceDpEvent(scale))
        name = f"Laplace({scale:g}), p {p:g}, m {steps:g}"
        results.append(_against(name, SelfComposedDpEvent(leaf, steps), PLDAccountant, DELTA))
    results.append(
        _against("1500 x Gaussian(80)", SelfComposedDpEvent(GaussianDpEvent(80.0), 1500), PLDAccountant, DELTA)
    )
    for steps in (10, 100):
        results.append(
            _against(f"hard regime, p 0.01, noise 0.5, m {steps}", dp_sgd(0.01, 0.5, steps), PLDAccountant, DELTA)
        )
    worst = min(results, key=lambda result: result.value or math.inf)
    return [
        *results,
        Result("reference: geometric mean over DP-SGD", value=mean, target="at least 50"),
        Result("reference: worst row", worst.ours, worst.peer, worst.value, "at least 1", worst.measured),
    ]


def size() -> list[Result]:
    """Time against m for identical leaves, 1e2 to 1e15."""
    sizes = [10**k for k in (2, 3, 4, 6, 8, 10, 12, 15)]
    times = [median(partial(ask, certified, dp_sgd(0.4 / math.sqrt(m), 0.8, m))) for m in sizes]
    ratio = times[sizes.index(10**12)] / times[sizes.index(10**4)]
    return [
        Result("m 1e12 against m 1e4", times[sizes.index(10**12)], times[sizes.index(10**4)], ratio, "at most 2"),
        Result("exponent of the time in m, 1e2 to 1e15", value=exponent(sizes, times), target="at most 0.05"),
    ]


def curve() -> list[Result]:
    """200 points of each curve against one single answer."""
    event = dp_sgd(0.01, 0.8, 10_000)
    deltas, epsilons = np.geomspace(1e-12, 1e-2, 200), np.linspace(0.5, 20.0, 200)
    questions = {"epsilon": (deltas, DELTA), "delta": (epsilons, 10.0)}
    results = []
    for name in ("get_epsilon", "get_epsilon_interval", "get_delta", "get_delta_interval"):
        many, one = questions[name.split("_")[1]]
        whole, single = (median(partial(_answer, name, event, points)) for points in (many, one))
        results.append(Result(f"{name}: 200 points, in single answers", whole, single, whole / single, "at most 10"))
    return results


def _answer(name: str, event: DpEvent, points: Any) -> Any:
    """Compose and ask one of the four `get_` methods."""
    return getattr(certified().compose(event), name)(points)


def heterogeneous() -> list[Result]:
    """N distinct leaves: per leaf against PLD and RDP at N = 100, and the exponent in N."""
    few = distinct(100)
    pld, rdp = (median(partial(ask, factory, few)) / 100 for factory in (PLDAccountant, RdpAccountant))
    results = []
    for number in (1000, 10_000):
        event = distinct(number)
        ours, estimate = (median(partial(ask, factory, event)) / number for factory in (certified, tilted))
        results += [
            Result(f"N {number:,}: width", value=relative_width(event, DELTA), target="at most 1e-6"),
            Result(f"N {number:,}: per leaf against PLD", ours, pld, pld / ours, "at least 300"),
            Result(f"N {number:,}: per leaf against RDP", ours, rdp, rdp / ours, "at least 10"),
            Result(f"N {number:,}: tilted, per leaf against RDP", estimate, rdp, rdp / estimate, "at least 50"),
        ]
    # The first N of the first range are in the hard regime, which flattens the fit; the second range never is.
    sizes = [100, 300, 1000, 3000, 10_000, 30_000]
    for low, high in ((0.005, 0.02), (0.05, 0.1)):
        times = [median(partial(ask, certified, distinct(number, low, high))) for number in sizes]
        name = f"exponent of the time in N, 100 to 30,000, p {low:g} to {high:g}"
        results.append(Result(name, value=exponent(sizes, times), target="at most 1.05"))
    hard = distinct(100, 0.005, 0.015)
    return [*results, _against("N 100 with m p about 1", hard, PLDAccountant, DELTA, "at least 1")]


def calibration() -> list[Result]:
    """`calibrate_dp_mechanism` at p 0.01, m 1e4, delta 1e-6, target epsilon 2; a little more each time, so that nobody remembers."""
    nudges = itertools.count()

    def calibrate(factory: Callable[[], Any]) -> float:
        bracket, target = ExplicitBracketInterval(0.5, 20.0), 2.0 + 1e-5 * next(nudges)
        return calibrate_dp_mechanism(factory, lambda noise: dp_sgd(0.01, noise, 10_000), target, 1e-6, bracket)

    ours, theirs = median(partial(calibrate, certified)), median(partial(calibrate, PLDAccountant), budget=0.1)
    note = f"noise {calibrate(certified):.6f}"
    return [Result("calibration", ours, theirs, theirs / ours, "at least 100", note)]


def loop() -> list[Result]:
    """10,000 steps of one leaf with an answer after each; the peer's time is that of 20 steps, scaled."""
    leaf = PoissonSampledDpEvent(0.01, GaussianDpEvent(0.8))

    def steps(factory: Callable[[], Any], start: int, number: int) -> None:
        accountant = factory()
        if start:
            accountant.compose(leaf, start)
        for _ in range(number):
            accountant.compose(leaf).get_epsilon(DELTA)

    ours = median(lambda: steps(certified, 0, 10_000), budget=0.1)
    theirs = 500.0 * median(lambda: steps(PLDAccountant, 5000, 20), budget=0.1)
    return [Result("10,000 steps, epsilon after each", ours, theirs, theirs / ours, "at least 50")]


def incremental() -> list[Result]:
    """Distinct leaves one at a time with an answer after each: seconds of one more step after 200 and 2,000 leaves.

    Ten times the leaves may not cost more: an answer grows by the new leaves only. Sampling probabilities are 0.05 to
    0.1, so that neither is in the hard regime, which would hide the growth.
    """
    early, late = (_one_more(certified, number) for number in (200, 2000))
    peer = _one_more(PLDAccountant, 10, steps=3)
    name = "distinct leaves one at a time with an answer after each"
    return [
        Result(f"{name}: 2,000 leaves against 200", late, early, late / early, "at most 2"),
        Result(f"{name}: at 200 leaves, against PLD at 10", early, peer, peer / early, "at least 1"),
        Result(f"{name}: at 2,000 leaves, against PLD at 10", late, peer, peer / late, "at least 1"),
    ]


def _one_more(factory: Callable[[], Any], number: int, steps: int = 10) -> float:
    """Median seconds of composing one more distinct leaf and asking, after `number` of them."""
    events = cast(ComposedDpEvent, distinct(number + steps, 0.05, 0.1)).events
    accountant = factory().compose(ComposedDpEvent(events[:number]))
    accountant.get_epsilon(DELTA)
    times = []
    for event in events[number:]:
        start = time.perf_counter()
        accountant.compose(event).get_epsilon(DELTA)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def grid() -> list[Result]:
    """10,000 grid points of `sweep`, in single answers of PLDAccountant at the base setting."""
    from dp_edgeworth import sweep

    axes: dict[str, Any] = {
        "sampling_probability": np.geomspace(0.001, 0.05, 20),
        "noise_multiplier": np.linspace(0.7, 3.0, 25),
        "steps": [int(steps) for steps in np.geomspace(200, 20_000, 20)],
    }
    peer = median(partial(ask, PLDAccountant, dp_sgd(0.01, 0.8, 10_000)))
    results = []
    for certify, target in ((False, "at most 20"), (True, "at most 200")):
        action = partial(sweep, **axes, target_delta=DELTA, certified=certify, progress=False)
        ours = median(action, budget=0.1)
        name = f"sweep of 10,000 points, {'certified' if certify else 'estimate'}, in PLD answers"
        results.append(Result(name, ours, peer, ours / peer, target))
    return results


def memory() -> list[Result]:
    """100,000 distinct leaves in a child process: its peak in MB, interpreter and event tree included."""
    outcome = limited(_hundred_thousand, (), Limits(seconds=300.0, gigabytes=8.0))
    seconds, peak = outcome.value if outcome.status == OK else (None, None)
    name = "100,000 distinct leaves: peak MB of the process"
    return [Result(name, seconds, None, peak, "at most 1024", outcome.note)]


def _hundred_thousand() -> tuple[float, float]:
    """(seconds, peak MB) of one certified answer."""
    event = distinct(100_000)
    start = time.perf_counter()
    ask(certified, event)
    return time.perf_counter() - start, peak_mb()


def finite_sample() -> list[Result]:
    """The paper's finite-sample bounds: their growth, and Figure 4 against its authors' code."""
    from comparisons import growth

    return growth.finite_sample()


def slowest() -> Callable[[], object]:
    """The workload that `--profile` takes apart: 10,000 distinct leaves."""
    return partial(ask, certified, distinct(10_000))


WORKLOADS: dict[str, Callable[[], list[Result]]] = {
    "peers": peers, "reference": reference, "size": size, "curve": curve, "heterogeneous": heterogeneous,
    "calibration": calibration, "loop": loop, "incremental": incremental, "sweep": grid, "memory": memory,
    "finite-sample": finite_sample,
}  # fmt: skip
