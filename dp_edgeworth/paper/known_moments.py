"""A loss of which nothing else is known than its first four cumulants, and two absolute moments: only the paper's bounds take it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from dp_accounting.privacy_accountant import NeighboringRelation

from dp_edgeworth import validation
from dp_edgeworth.events.own_events import PllrMomentsDpEvent
from dp_edgeworth.losses.mechanisms.registry import Directions, register_mechanism
from dp_edgeworth.losses.pllr import OnlyRules
from dp_edgeworth.losses.rules import Demand, Rule


@dataclasses.dataclass(frozen=True)
class PllrMoments(OnlyRules):
    """A pair known by mean, variance, third and fourth cumulant of X and Y, and E|X - E X|^3, E|Y - E Y|^3 or None."""

    x_cumulants: tuple[float, float, float, float]
    y_cumulants: tuple[float, float, float, float]
    x_absolute_third: float | None = None
    y_absolute_third: float | None = None

    @classmethod
    def validated(cls, event: Any) -> PllrMoments:
        """From a `PllrMomentsDpEvent`. ValueError where no law has these moments."""
        x, y = (_cumulants(name, getattr(event, name)) for name in ("x_cumulants", "y_cumulants"))
        thirds = (_absolute_third(f"{side}_absolute_third", getattr(event, f"{side}_absolute_third"), kappa)
                  for side, kappa in (("x", x), ("y", y)))
        return cls(x, y, *thirds)

    def reversed(self) -> PllrMoments:
        """(Q, P): kappa_r(-Y) = (-1)^r kappa_r(Y) is the cumulant of the new X, and the other way round."""
        x, y = ((-a, b, -c, d) for a, b, c, d in (self.y_cumulants, self.x_cumulants))
        return PllrMoments(x, y, self.y_absolute_third, self.x_absolute_third)

    def cumulants(self, order: int, tilt: float) -> np.ndarray:
        """Cumulants 1..order, at most 4, of X (tilt -1) or Y (tilt 0)."""
        if order > 4 or tilt not in (-1.0, 0.0):
            raise ValueError("a `PllrMomentsDpEvent` has four cumulants of X and of Y; nothing else is known of it. "
                             f"Found order {order} at tilt {tilt:g}.")
        return np.array((self.x_cumulants if tilt == -1.0 else self.y_cumulants)[:order])

    def rule(self, demand: Demand) -> Rule:
        return self.rules([self], demand)

    @classmethod
    def rules(cls, members: Sequence[Any], demand: Demand, sampled: np.ndarray | None = None) -> Rule:
        raise ValueError("a `PllrMomentsDpEvent` is known by four cumulants only, which give no quadrature rule. "
                         f"Found {members[0]!r}.")


@register_mechanism(PllrMomentsDpEvent)
def _pllr_moments(event: PllrMomentsDpEvent, relation: NeighboringRelation) -> Directions:
    """X and Y of one direction; the other one is (-Y, -X)."""
    pair = PllrMoments.validated(event)
    return Directions(pair, pair.reversed())


def standardised(moment: float, deviation: float, order: int) -> float:
    """moment / deviation^order, one division at a time: no power leaves the floats."""
    for _ in range(order):
        moment /= deviation
    return moment


def _cumulants(name: str, values: Any) -> tuple[float, float, float, float]:
    """Four finite cumulants with kappa_2 > 0 and E c^4 >= 1 + (E c^3)^2 for the standardised c."""
    kappa = [validation.finite(f"{name}[{i}]", value) for i, value in enumerate(validation.sequence(name, values))]
    if len(kappa) != 4:
        raise ValueError(f"`{name}` must be mean, variance, third and fourth cumulant. Found {values!r}.")
    sd = math.sqrt(validation.positive(f"{name}[1]", kappa[1]))
    skewness = standardised(kappa[2], sd, 3)
    if standardised(kappa[3], sd, 4) + 2.0 < (1.0 - 1e-9) * skewness * skewness - 1e-9:
        raise ValueError(f"`{name}` must satisfy kappa_4/kappa_2^2 + 2 >= kappa_3^2/kappa_2^3, as for every law. "
                         f"Found {values!r}.")
    return kappa[0], kappa[1], kappa[2], kappa[3]


def _absolute_third(name: str, value: Any, kappa: tuple[float, float, float, float]) -> float | None:
    """None, or a number between max(|kappa_3|, sd^3) and sqrt(E c^2 E c^4) for the centred c."""
    if value is None:
        return None
    result, sd = validation.finite(name, value), math.sqrt(kappa[1])
    low, high = max(abs(standardised(kappa[2], sd, 3)), 1.0), math.sqrt(max(standardised(kappa[3], sd, 4) + 3.0, 1.0))
    if not low * (1.0 - 1e-9) <= standardised(result, sd, 3) <= high * (1.0 + 1e-9):
        span = f"in [{low * sd * sd * sd:g}, {high * sd * sd * sd:g}]"
        raise ValueError(f"`{name}` must be {span}, given the cumulants. Found {validation.shown(value)}.")
    return result
