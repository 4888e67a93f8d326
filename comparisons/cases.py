"""The cases: named events, each with the sizes and the deltas at which it is asked.

A case builds its event from a size m, which is the number of steps, or of distinct leaves where the case says so.
`paper-*` are the settings of the paper by figure ([EA] section Experiments); the sizes are ours where it gives none.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import attr
import numpy as np
from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    RandomizedResponseDpEvent,
    SelfComposedDpEvent,
)

from dp_edgeworth.events.batch_events import RandomAllocationDpEvent

AR, RO = NeighboringRelation.ADD_OR_REMOVE_ONE, NeighboringRelation.REPLACE_ONE


@dataclass(frozen=True)
class Case:
    """A named family of events. `methods` narrows the default methods; empty means all of them."""

    name: str
    line: str
    build: Callable[[int], DpEvent]
    sizes: tuple[int, ...]
    deltas: tuple[float, ...]
    relation: NeighboringRelation = AR
    methods: tuple[str, ...] = ()


def dp_sgd(sampling_probability: float, noise_multiplier: float, steps: int) -> DpEvent:
    """`steps` Poisson-sampled Gaussian steps."""
    step = PoissonSampledDpEvent(sampling_probability, GaussianDpEvent(noise_multiplier))
    return SelfComposedDpEvent(step, steps)


#: Attributes of events that are an amount of noise, or of loss.
_AMOUNTS = {"noise_multiplier", "noise_parameter", "standard_deviation", "rho", "epsilon", "epsilons", "values"}


def nudged(event: DpEvent, times: int) -> DpEvent:
    """The same event with every noise larger by `times` parts in 1e7: a question that no cache has seen."""
    factor = 1.0 + 1e-7 * times

    def moved(name: str, value: Any) -> Any:
        if isinstance(value, DpEvent):
            return nudged(value, times)
        if isinstance(value, list | tuple) and any(isinstance(item, DpEvent) for item in value):
            return [moved(name, item) for item in value]
        if name == "parameters":
            return tuple((key, number * factor if key == "scale" else number) for key, number in value)
        if name in _AMOUNTS:
            return tuple(number * factor for number in value) if isinstance(value, tuple) else value * factor
        return value

    fields = {field.name: getattr(event, field.name) for field in attr.fields(type(event))}
    changes = {name: new for name, value in fields.items() if (new := moved(name, value)) is not value}
    return attr.evolve(event, **changes) if times else event


def distinct(size: int, low: float = 0.005, high: float = 0.02) -> DpEvent:
    """`size` different Poisson-sampled Gaussians: p from `low` to `high`, noise 0.8 to 1.5, each once."""
    steps = zip(np.linspace(low, high, size), np.linspace(0.8, 1.5, size)[::-1], strict=True)
    return ComposedDpEvent([PoissonSampledDpEvent(float(p), GaussianDpEvent(float(s))) for p, s in steps])


def _two_groups(size: int) -> DpEvent:
    """Figure 5: m1 steps at p1 = 0.35 / sqrt m1 and m2 = 10 m1 steps at p2 = 0.02 / sqrt m2."""
    second = 10 * size
    return ComposedDpEvent([dp_sgd(0.35 / math.sqrt(size), 0.8, size), dp_sgd(0.02 / math.sqrt(second), 0.8, second)])


def _analytics(size: int) -> DpEvent:
    """Counts and sums with Gaussian, Laplace and sampled Gaussian noise, every one with its own noise."""
    events: list[DpEvent] = []
    for index, scale in enumerate(np.geomspace(20.0, 60.0, size)):
        kinds = (
            GaussianDpEvent(float(scale)),
            LaplaceDpEvent(float(2.0 * scale)),
            PoissonSampledDpEvent(0.1, GaussianDpEvent(float(scale / 10.0))),
        )
        events.append(kinds[index % 3])
    return ComposedDpEvent(events)


def _mixed(size: int) -> DpEvent:
    """A training run, a few noisy counts and a noisy histogram, nested."""
    counts = SelfComposedDpEvent(LaplaceDpEvent(10.0), 20)
    return ComposedDpEvent([dp_sgd(0.01, 1.0, size), ComposedDpEvent([counts, GaussianDpEvent(8.0)])])


def _scaled(rule: Callable[[int], float]) -> Callable[[int], DpEvent]:
    """Figure 4: noise 0.8 and a sampling probability that falls with m."""
    return lambda m: dp_sgd(rule(m), 0.8, m)


_ESTIMATES = ("EW_EST", "EW_EST_1", "EW_EST_3", "EW_TILTED")
_FIGURE_3 = ("EW_CERTIFIED", *_ESTIMATES, "RDP", "GDP", "GDP-E", "FFT", "PLD_1e-4")
_FIGURE_4 = ("EW_CERTIFIED", "EW_ADAPTIVE", "EW_UNIFORM", "EW_EST", "RDP", "FFT", "PLD_1e-4")
_FIGURE_4_SIZES = (300, 1000, 3000, 10_000, 30_000, 100_000, 300_000, 1_000_000)
_OURS = ("EW_CERTIFIED", "EW_ADAPTIVE", "EW_EST", "EW_TILTED")
_GROWTH = (*_OURS, "PLD_1e-4", "PLD_1e-3", "RDP", "FFT", "GDP", "GDP-E", "AFA")

_ALL = (
    Case("paper-figure-2", "1500 x Gaussian(80), exact in closed form, against delta",
         lambda m: SelfComposedDpEvent(GaussianDpEvent(80.0), m), (1500,),
         tuple(10.0**-k for k in range(2, 21, 2)),
         methods=("EW_CERTIFIED", "EW_EST", "GDP", "RDP", "FFT", "PLD_1e-4")),
    Case("paper-figure-3-left", "p 0.01, noise 0.8, delta 0.015", lambda m: dp_sgd(0.01, 0.8, m),
         (100, 200, 400, 700, 1000, 1500, 2000, 3000, 4000, 5000), (0.015,), methods=_FIGURE_3),
    Case("paper-figure-3-right", "p 0.05, noise 1, delta 1e-5: ten epochs of federated learning",
         lambda m: dp_sgd(0.05, 1.0, m), tuple(range(20, 201, 20)), (1e-5,), methods=_FIGURE_3),
    Case("paper-figure-4-left", "noise 0.8, delta 0.1, p = 0.4 / sqrt m", _scaled(lambda m: 0.4 / math.sqrt(m)),
         _FIGURE_4_SIZES, (0.1,), methods=_FIGURE_4),
    Case("paper-figure-4-middle", "noise 0.8, delta 0.1, p = 1 / sqrt(m log m)",
         _scaled(lambda m: 1.0 / math.sqrt(m * math.log(m))), _FIGURE_4_SIZES, (0.1,), methods=_FIGURE_4),
    Case("paper-figure-4-right", "noise 0.8, delta 0.1, p = 0.1 sqrt(log m / m)",
         _scaled(lambda m: 0.1 * math.sqrt(math.log(m) / m)), _FIGURE_4_SIZES, (0.1,), methods=_FIGURE_4),
    Case("paper-figure-5", "two groups, p1 = 0.35 / sqrt m1, p2 = 0.02 / sqrt m2, m2 = 10 m1, delta 0.1; m is m1",
         _two_groups, (100, 1000, 10_000, 30_000, 100_000, 300_000, 1_000_000), (0.1,), methods=_FIGURE_4),
    Case("dp-sgd-base", "p 0.01, noise 0.8, 10,000 steps", lambda m: dp_sgd(0.01, 0.8, m), (10_000,), (1e-5,)),
    Case("dp-sgd-mnist", "60,000 images, batch 256, noise 1.1, 15 epochs",
         lambda m: dp_sgd(256 / 60_000, 1.1, m), (3516,), (1e-5,)),
    Case("dp-sgd-cifar10", "50,000 images, batch 4096, noise 3, 200 epochs",
         lambda m: dp_sgd(4096 / 50_000, 3.0, m), (2442,), (1e-5,)),
    Case("dp-sgd-language-model", "500,000 texts, batch 1024, noise 0.6, 3 epochs of fine-tuning",
         lambda m: dp_sgd(1024 / 500_000, 0.6, m), (1465,), (1e-6,)),
    Case("random-allocation", "records dealt into 1,000 batches per epoch, noise 1; m is the number of epochs",
         lambda m: SelfComposedDpEvent(RandomAllocationDpEvent(GaussianDpEvent(1.0), 1, 1000), m), (1, 10), (1e-6,),
         methods=("EW_CERTIFIED", "PLD_ALLOCATION")),
    Case("federated-analytics", "distinct Gaussian, Laplace and sampled Gaussian releases; m is their number",
         _analytics, (300,), (1e-6,)),
    Case("distinct-noise-levels", "m different Poisson-sampled Gaussians, p 0.005 to 0.02, noise 0.8 to 1.5",
         distinct, (100,), (1e-5,)),
    Case("laplace", "plain Laplace of scale 5", lambda m: SelfComposedDpEvent(LaplaceDpEvent(5.0), m),
         (10, 1000), (1e-5,)),
    Case("laplace-sampled", "Poisson-sampled Laplace, p 0.1, scale 1",
         lambda m: SelfComposedDpEvent(PoissonSampledDpEvent(0.1, LaplaceDpEvent(1.0)), m), (1000,), (1e-5,)),
    Case("randomized-response", "RR(0.5, 2 buckets) under REPLACE_ONE; PLDAccountant itself would ignore the count",
         lambda m: SelfComposedDpEvent(RandomizedResponseDpEvent(0.5, 2), m), (10,), (1e-6,), relation=RO),
    Case("mixed-tree", "a training run, Laplace counts and a Gaussian histogram, nested", _mixed, (1000,), (1e-6,)),
    Case("tiny-delta", "p 0.05, noise 1, 200 steps, delta down to 1e-20", lambda m: dp_sgd(0.05, 1.0, m), (200,),
         tuple(10.0**-k for k in range(2, 21, 2)),
         methods=("EW_CERTIFIED", "EW_TILTED", "EW_EST", "PLD_1e-4", "PLD_1e-3", "RDP", "FFT", "GDP")),
    Case("huge-m", "p 1e-6, noise 0.8, a thousand million steps and more", lambda m: dp_sgd(1e-6, 0.8, m),
         (10**9, 10**12), (1e-6,)),
    Case("hard-regime", "m p about 1: p 0.01, noise 0.5", lambda m: dp_sgd(0.01, 0.5, m), (10, 100), (1e-5,)),
    Case("growth-identical", "time against m: p 0.4 / sqrt m, noise 0.8", _scaled(lambda m: 0.4 / math.sqrt(m)),
         tuple(10**k for k in (2, 3, 4, 5, 6, 8, 10, 12, 15)), (1e-5,), methods=_GROWTH),
    Case("growth-distinct", "time against m distinct leaves: p 0.3 / sqrt m to 1.2 / sqrt m, noise 0.8 to 1.5",
         lambda m: distinct(m, 0.3 / math.sqrt(m), 1.2 / math.sqrt(m)), (3, 10, 30, 100, 300, 1000, 3000, 10_000), (1e-5,),
         methods=_GROWTH),
)  # fmt: skip
CASES: dict[str, Case] = {case.name: case for case in _ALL}
DP_SGD = ("dp-sgd-base", "dp-sgd-mnist", "dp-sgd-cifar10", "dp-sgd-language-model")


def adhoc(sampling_probability: float, noise_multiplier: float, steps: int, deltas: tuple[float, ...]) -> Case:
    """DP-SGD with parameters from the command line."""
    if not 0.0 < sampling_probability <= 1.0:
        raise ValueError(f"sampling_probability must be above 0 and at most 1. Found {sampling_probability}.")
    if not 0.0 < noise_multiplier < math.inf:
        raise ValueError(f"noise_multiplier must be positive and finite. Found {noise_multiplier}.")
    if steps < 1:
        raise ValueError(f"steps must be at least 1. Found {steps}.")
    line = f"p {sampling_probability:g}, noise {noise_multiplier:g}, {steps:,} steps"
    return Case("command-line", line, lambda m: dp_sgd(sampling_probability, noise_multiplier, m), (steps,), deltas)


def from_file(path: Path, deltas: tuple[float, ...], relation: NeighboringRelation) -> Case:
    """The event of a JSON file (docs/event-json.md); its size is the number of compositions in it."""
    from dp_edgeworth import from_json
    from dp_edgeworth.events.tree import leaves

    try:
        event = from_json(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text in UTF-8"
        raise ValueError(f"The event file must be readable. Found `{path}`: {reason}.") from error
    size = sum(count for _, count in leaves(event))
    return Case(path.stem, f"the event of {path}, {relation.name}", lambda m: event, (size,), deltas, relation)
