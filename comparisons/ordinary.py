"""Sixty ordinary inputs, every kind of leaf in every relation that takes it: none of them may be slow.

Ordinary: parameters that somebody would choose on purpose, a delta of 1e-5, few uses and many.
"""

from __future__ import annotations

from collections.abc import Iterator

from dp_accounting import (
    ComposedDpEvent,
    DpEvent,
    GaussianDpEvent,
    LaplaceDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    SampledWithoutReplacementDpEvent,
    SelfComposedDpEvent,
    SingleEpochTreeAggregationDpEvent,
)
from dp_accounting.dp_event import (
    DiscreteLaplaceDpEvent,
    MixtureOfGaussiansDpEvent,
    RandomizedResponseDpEvent,
    RepeatAndSelectDpEvent,
    TruncatedSubsampledGaussianDpEvent,
    ZCDpEvent,
)

from comparisons import timing
from comparisons.cases import dp_sgd
from comparisons.timing import Result, Wanted
from dp_edgeworth import AdditiveNoiseDpEvent, ProfileDpEvent, RandomAllocationDpEvent, RenyiDpEvent, ShuffledBatchesDpEvent

_MOST_SECONDS = 0.3
AR, RO, RS = (NeighboringRelation[name] for name in ("ADD_OR_REMOVE_ONE", "REPLACE_ONE", "REPLACE_SPECIAL"))


def _sampled(p: float, event: DpEvent, steps: int) -> DpEvent:
    return SelfComposedDpEvent(PoissonSampledDpEvent(p, event), steps)


def _laplace_and_training() -> DpEvent:
    return ComposedDpEvent([dp_sgd(0.01, 1.0, 1000), SelfComposedDpEvent(LaplaceDpEvent(10.0), 20), GaussianDpEvent(8.0)])


_LOGISTIC = AdditiveNoiseDpEvent("logistic", {"scale": 4.0})
_MIXTURE = MixtureOfGaussiansDpEvent(1.5, [0.0, 1.0, 2.0], [0.5, 0.3, 0.2])
_TRUNCATED = TruncatedSubsampledGaussianDpEvent(60_000, 256 / 60_000, 320, 1.0)
_PROFILE = ProfileDpEvent([0.1, 0.5, 1.0], [1e-2, 1e-4, 1e-7])
_WITHOUT = SampledWithoutReplacementDpEvent(60_000, 256, GaussianDpEvent(2.0))

#: name -> (event, relations).
INPUTS: dict[str, tuple[DpEvent, tuple[NeighboringRelation, ...]]] = {
    "Gaussian(1)": (GaussianDpEvent(1.0), (AR, RO)),
    "100 x Gaussian(20)": (SelfComposedDpEvent(GaussianDpEvent(20.0), 100), (AR,)),
    "Laplace(1)": (LaplaceDpEvent(1.0), (AR, RO)),
    "10 x Laplace(20)": (SelfComposedDpEvent(LaplaceDpEvent(20.0), 10), (AR, RO)),
    "1,000 x Laplace(50)": (SelfComposedDpEvent(LaplaceDpEvent(50.0), 1000), (AR,)),
    "DP-SGD, 1 step": (dp_sgd(0.05, 1.0, 1), (AR,)),
    "DP-SGD, 3 steps": (dp_sgd(0.05, 1.0, 3), (AR, RO)),
    "DP-SGD, 30 steps": (dp_sgd(0.01, 0.8, 30), (AR, RO)),
    "DP-SGD, 300 steps": (dp_sgd(0.01, 0.8, 300), (AR, RO, RS)),
    "DP-SGD, 10,000 steps": (dp_sgd(0.01, 0.8, 10_000), (AR, RO)),
    "DP-SGD, MNIST": (dp_sgd(256 / 60_000, 1.1, 3516), (AR, RO)),
    "DP-SGD, fine-tuning": (dp_sgd(1e-3, 0.6, 1000), (AR, RO)),
    "DP-SGD, little noise, 10 steps": (dp_sgd(0.01, 0.6, 10), (AR, RO)),
    "DP-SGD, little noise, 100 steps": (dp_sgd(0.01, 0.5, 100), (AR,)),
    "sampled Laplace(1), 10 steps": (_sampled(0.01, LaplaceDpEvent(1.0), 10), (AR,)),
    "sampled Laplace(1), 1,000 steps": (_sampled(0.1, LaplaceDpEvent(1.0), 1000), (AR,)),
    "10 x randomized response (1/2 of 2)": (SelfComposedDpEvent(RandomizedResponseDpEvent(0.5, 2), 10), (RO, RS)),
    "100 x randomized response (0.9 of 5)": (SelfComposedDpEvent(RandomizedResponseDpEvent(0.9, 5), 100), (RO,)),
    "DiscreteLaplace(0.7)": (DiscreteLaplaceDpEvent(0.7, 1), (AR,)),
    "100 x DiscreteLaplace(0.1)": (SelfComposedDpEvent(DiscreteLaplaceDpEvent(0.1, 1), 100), (AR,)),
    "sampled DiscreteLaplace(0.7), 50 steps": (_sampled(0.1, DiscreteLaplaceDpEvent(0.7, 2), 50), (AR,)),
    "mixture of Gaussians": (_MIXTURE, (AR,)),
    "100 x mixture of Gaussians": (SelfComposedDpEvent(_MIXTURE, 100), (AR, RS)),
    "truncated batches, 8 steps": (SelfComposedDpEvent(_TRUNCATED, 8), (AR, RO)),
    "truncated batches, 3,000 steps": (SelfComposedDpEvent(_TRUNCATED, 3000), (AR, RO)),
    "tree aggregation": (SingleEpochTreeAggregationDpEvent(4.0, [7, 8]), (RS,)),
    "without replacement, 1 step": (_WITHOUT, (RO,)),
    "without replacement, 1,000 steps": (SelfComposedDpEvent(_WITHOUT, 1000), (RO,)),
    "10 x logistic noise": (SelfComposedDpEvent(_LOGISTIC, 10), (AR, RO)),
    "sampled logistic noise, 500 steps": (_sampled(0.05, _LOGISTIC, 500), (AR,)),
    "zCDP": (ZCDpEvent(0.1), (AR, RO)),
    "10 x zCDP": (SelfComposedDpEvent(ZCDpEvent(0.01), 10), (AR,)),
    "profile": (_PROFILE, (AR,)),
    "10 x profile": (SelfComposedDpEvent(_PROFILE, 10), (AR, RO)),
    "20 x Renyi curve": (SelfComposedDpEvent(RenyiDpEvent([2.0, 4.0, 8.0, 16.0], [0.01, 0.02, 0.04, 0.08]), 20), (AR,)),
    "repeat and select": (RepeatAndSelectDpEvent(GaussianDpEvent(5.0), 10.0, 1.0), (AR,)),
    "random allocation, an epoch": (RandomAllocationDpEvent(GaussianDpEvent(1.0), 1, 1000), (AR,)),
    "random allocation, 10 epochs": (SelfComposedDpEvent(RandomAllocationDpEvent(GaussianDpEvent(1.0), 1, 1000), 10), (AR,)),
    "shuffled batches, 10 epochs": (SelfComposedDpEvent(ShuffledBatchesDpEvent(GaussianDpEvent(2.0), 100), 10), (RS,)),
    "sampled composition": (_sampled(0.05, ComposedDpEvent([GaussianDpEvent(2.0), GaussianDpEvent(3.0)]), 100), (AR,)),
    "a training run, counts and a histogram": (_laplace_and_training(), (AR, RO)),
}  # fmt: skip


def ordinary(wanted: Wanted) -> Iterator[Result]:
    """CPU seconds of one epsilon at delta 1e-5 of each, ours alone."""
    found = []
    for name, (event, relations) in INPUTS.items():
        for relation in relations:
            title = f"ordinary: {name}, {relation.name}"
            if wanted.has(title):
                result = _answer(title, event, relation)
                found.append(result)
                yield result
    if len(found) > 1:
        slowest = max(found, key=lambda result: result.ours or float("inf"))
        yield slowest._replace(measured=f"ordinary: the slowest of {len(found)}", note=slowest.measured)


def _answer(title: str, event: DpEvent, relation: NeighboringRelation) -> Result:
    try:
        seconds = timing.median(timing.asking(lambda: timing.certified(relation)), event, 0.2)
    except Exception as error:
        return Result(title, target=f"at most {_MOST_SECONDS:g}", note=f"{type(error).__name__}: {error}"[:200])
    return Result(title, seconds, value=seconds, target=f"at most {_MOST_SECONDS:g}")
