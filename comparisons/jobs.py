"""Workloads that are one long job of a user: many distinct leaves, a noise schedule, truncated batches, a coarse tolerance, a grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    ExplicitBracketInterval,
    GaussianDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
    TruncatedSubsampledGaussianDpEvent,
    calibrate_dp_mechanism,
)
from dp_accounting.pld import PLDAccountant

from comparisons import timing
from comparisons.cases import AR, RO, distinct, dp_sgd
from comparisons.curve_workloads import ALPHAS
from comparisons.runner import OK, Limits, peak_mb
from comparisons.timing import DELTA, Result, Wanted
from comparisons.workers import limited

_COARSE = 1e-3  # PLDAccountant's interval in jax_privacy's calibration
#: (records, p, batch, noise).
_TRUNCATED = ((60_000, 256 / 60_000, 320, 1.0), (10_000, 0.01, 130, 0.8), (1_000_000, 1e-3, 1100, 0.7))


def rare_leaves(size: int = 1000) -> DpEvent:
    """Distinct leaves, p 1e-4 to 1e-2 (in ratios) and noise 0.7 to 1.5: about two of them see a given record."""
    pairs = zip(np.geomspace(1e-4, 1e-2, size), np.linspace(0.7, 1.5, size), strict=True)
    return ComposedDpEvent([PoissonSampledDpEvent(float(p), GaussianDpEvent(float(noise))) for p, noise in pairs])


def schedule(steps: int = 1000) -> DpEvent:
    """A noise schedule: every step its own noise, 1 to 2, at p 0.01."""
    return ComposedDpEvent([PoissonSampledDpEvent(0.01, GaussianDpEvent(float(noise))) for noise in np.linspace(1.0, 2.0, steps)])


def thousand_leaves(wanted: Wanted) -> Iterator[Result]:
    """One epsilon of 1,000 distinct leaves with rare samples, in a process of its own."""
    name = "1,000 distinct leaves, p 1e-4 to 1e-2"
    if wanted.has(name):
        outcome = limited(answer_and_peak, (rare_leaves(),), Limits(seconds=300.0, gigabytes=8.0))
        seconds, peak = outcome.value if outcome.status == OK else (None, None)
        yield Result(f"{name}: CPU seconds", seconds, value=seconds, target="at most 2", note=outcome.note)
        yield Result(f"{name}: peak MB of the process", value=peak, target="at most 500", note=outcome.note)


def answer_and_peak(event: DpEvent) -> tuple[float, float]:
    """(CPU seconds of one certified epsilon, peak MB of this process)."""
    timing.warm_up()
    return timing.cpu_seconds(lambda: timing.asking(timing.certified)(event)), peak_mb()


def noise_schedule(wanted: Wanted) -> Iterator[Result]:
    """What is asked of a schedule of 1,000 steps."""
    from dp_edgeworth import explain

    jobs: dict[str, tuple[Callable[[DpEvent], Any], str]] = {
        "one epsilon": (timing.asking(timing.certified), ""),
        "101 alphas": (lambda event: timing.certified().compose(event).get_tradeoff(ALPHAS), "at most 1"),
        "explain": (lambda event: explain(event, target_delta=DELTA), "at most 1"),
    }
    for name, (job, target) in jobs.items():
        if wanted.has(f"a schedule of 1,000 steps: {name}"):
            seconds = timing.median(job, schedule())
            yield Result(f"a schedule of 1,000 steps: {name}, CPU seconds", seconds, value=seconds, target=target)


def tolerance(wanted: Wanted) -> Iterator[Result]:
    """The default tolerance, 1e-6, against 1e-2, where the default is slow."""
    events = {"p 0.01, noise 0.5, m 10": dp_sgd(0.01, 0.5, 10), "p 0.01, noise 0.8, m 100": dp_sgd(0.01, 0.8, 100),
              "100 distinct leaves, m p about 1": distinct(100, 0.005, 0.015), "1,000 distinct leaves, p 1e-4 to 1e-2": rare_leaves(),
              "truncated batches, m 8": _truncated(*_TRUNCATED[0])}  # fmt: skip
    for name, event in events.items():
        if wanted.has(name):
            coarse, fine = (timing.median(timing.asking(partial(timing.certified, tolerance=width)), event) for width in (1e-2, 1e-6))
            yield Result(f"tolerance 1e-2 against 1e-6: {name}", coarse, fine, coarse / fine, "at most 1")


def _truncated(records: int, p: float, batch: int, noise: float, steps: int = 8) -> DpEvent:
    return SelfComposedDpEvent(TruncatedSubsampledGaussianDpEvent(records, p, batch, noise), steps)


def truncated(wanted: Wanted) -> Iterator[Result]:
    """Truncated batches with few steps, and calibrating their noise, against PLDAccountant at the interval that jax_privacy takes."""
    note = f"PLDAccountant at {_COARSE:g}"
    for records, p, batch, noise in _TRUNCATED:
        for relation in (AR, RO):
            name = f"truncated batches, {records:,} records, p {p:.3g}, m 8, {relation.name}"
            ours, peer = (timing.asking(partial(factory, relation)) for factory in (timing.certified, _coarse_pld))
            yield from timing.compared(name, wanted, _truncated(records, p, batch, noise), ours, peer, "at least 1", note)
    name = "calibration over truncated batches, m 8, to epsilon 2"
    if wanted.has(name):
        yield timing.compared_jobs(name, wanted, _calibrate, (timing.certified, _coarse_pld), "at least 1", note)


def _coarse_pld(relation: NeighboringRelation = AR) -> PLDAccountant:
    return PLDAccountant(relation, value_discretization_interval=_COARSE)


def _calibrate(factory: Callable[[], Any], epsilon: float) -> float:
    records, p, batch, _ = _TRUNCATED[0]
    return calibrate_dp_mechanism(factory, lambda noise: _truncated(records, p, batch, noise), epsilon, DELTA,
                                  ExplicitBracketInterval(0.3, 3.0), tol=1e-3)  # fmt: skip


def grid(wanted: Wanted) -> Iterator[Result]:
    """`sweep` over ordinary DP-SGD grids, per point."""
    from dp_edgeworth import sweep

    grids: dict[str, dict[str, Any]] = {
        "20 x 20 x 1": {"sampling_probability": np.geomspace(0.002, 0.05, 20), "noise_multiplier": np.linspace(0.7, 3.0, 20),
                        "steps": 5000},
        "10 x 10 x 10": {"sampling_probability": np.geomspace(0.002, 0.05, 10), "noise_multiplier": np.linspace(0.7, 3.0, 10),
                         "steps": [int(steps) for steps in np.geomspace(200, 20_000, 10)]},
    }  # fmt: skip
    for name, axes in grids.items():
        for certified, target in ((True, "at most 1"), (False, "")):
            def job(factor: float, axes: dict[str, Any] = axes, certified: bool = certified) -> Any:
                noises = axes["noise_multiplier"] * factor
                return sweep(**{**axes, "noise_multiplier": noises}, target_delta=DELTA, certified=certified, progress=False)

            title = f"sweep, {name} points, {'certified' if certified else 'estimates'}: milliseconds per point"
            if wanted.has(title):
                seconds = timing.median_of(job, lambda number: 1.0 + 1e-7 * number, 0.1)
                size = np.prod([np.size(axis) for axis in axes.values()])
                yield Result(title, seconds, value=1e3 * seconds / size, target=target)
