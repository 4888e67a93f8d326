"""The rows that `speed` asks single answers and whole curves of, against PLDAccountant."""

from __future__ import annotations

from typing import NamedTuple

from dp_accounting import DpEvent, GaussianDpEvent, LaplaceDpEvent, NeighboringRelation, PoissonSampledDpEvent, SelfComposedDpEvent
from dp_accounting.dp_event import DiscreteLaplaceDpEvent, RandomizedResponseDpEvent

from comparisons.cases import AR, RO, dp_sgd

#: (p, noise, steps, delta): the DP-SGD rows of tests/golden/exact_epsilon.json.
_DP_SGD = (
    (0.01, 0.8, 100, 1e-5), (0.01, 0.8, 1000, 1e-5), (0.01, 0.8, 10**4, 1e-5), (0.01, 0.8, 10**5, 1e-5),
    (0.01, 0.8, 10**6, 1e-5), (0.001, 0.6, 1000, 1e-5), (0.001, 0.6, 10**4, 1e-5), (0.001, 0.6, 10**5, 1e-5),
    (0.001, 0.6, 10**6, 1e-5), (0.05, 1.0, 200, 1e-5), (0.05, 1.0, 1000, 1e-5), (0.05, 1.0, 10**4, 1e-5),
    (0.05, 1.0, 10**5, 1e-5), (0.02, 2.0, 10**4, 1e-5), (0.004, 0.8, 10**4, 0.1), (0.0004, 0.8, 10**6, 0.1),
    (0.05, 1.0, 200, 1e-14),
)  # fmt: skip
#: (p, scale, steps): its Laplace rows, delta 1e-5, and one of rare samples; p = 1 is plain.
_LAPLACE = (
    (1.0, 1.0, 10), (1.0, 1.0, 1000), (1.0, 5.0, 10), (1.0, 5.0, 1000), (1.0, 20.0, 10), (1.0, 20.0, 1000),
    (0.01, 0.5, 1000), (0.1, 1.0, 1000), (0.01, 1.0, 10),
)  # fmt: skip
#: (p, noise, steps): so few samples that some runs see none.
_HARD = ((0.01, 0.5, 10), (0.01, 0.5, 100), (0.01, 0.6, 10))


class SpeedRow(NamedTuple):
    """An event that is asked at one delta. `recipe`: an ordinary run of DP-SGD."""

    name: str
    event: DpEvent
    delta: float = 1e-5
    relation: NeighboringRelation = AR
    recipe: bool = False


def _plain_or_sampled(p: float, event: DpEvent) -> DpEvent:
    return event if p == 1.0 else PoissonSampledDpEvent(p, event)


def speed_rows() -> list[SpeedRow]:
    """DP-SGD, Laplace noise, few samples, few uses, atoms."""
    rows = [SpeedRow(f"p {p:g}, noise {s:g}, m {m:g}, delta {d:g}", dp_sgd(p, s, m), d, recipe=True) for p, s, m, d in _DP_SGD]
    rows += [SpeedRow(f"Laplace({b:g}), p {p:g}, m {m:g}", SelfComposedDpEvent(_plain_or_sampled(p, LaplaceDpEvent(b)), m))
             for p, b, m in _LAPLACE]  # fmt: skip
    rows += [SpeedRow(f"hard regime, p {p:g}, noise {s:g}, m {m:g}", dp_sgd(p, s, m)) for p, s, m in _HARD]
    return [
        *rows,
        SpeedRow("1500 x Gaussian(80)", SelfComposedDpEvent(GaussianDpEvent(80.0), 1500)),
        SpeedRow("few uses, 3 x Laplace(1)", SelfComposedDpEvent(LaplaceDpEvent(1.0), 3)),
        SpeedRow("few uses, p 0.05, noise 1, m 3", dp_sgd(0.05, 1.0, 3)),
        SpeedRow("atoms, 10 x RandomizedResponse(0.5, 2)", SelfComposedDpEvent(RandomizedResponseDpEvent(0.5, 2), 10), relation=RO),
        SpeedRow("atoms, 100 x RandomizedResponse(0.9, 5)", SelfComposedDpEvent(RandomizedResponseDpEvent(0.9, 5), 100), relation=RO),
        SpeedRow("atoms, 100 x DiscreteLaplace(0.1)", SelfComposedDpEvent(DiscreteLaplaceDpEvent(0.1, 1), 100)),
    ]
