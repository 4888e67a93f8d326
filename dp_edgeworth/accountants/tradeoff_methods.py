"""Methods of the certified accountant in terms of attacks: everything that follows from its intervals of delta."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

from dp_edgeworth.intervals import Interval
from dp_edgeworth.proofs import tradeoff
from dp_edgeworth.search.answers import Memory


class WholeCurve(NamedTuple):
    """Certified intervals of delta for an array of epsilons, upper ends of epsilon for an array of deltas."""

    deltas: tradeoff.DeltaIntervals
    epsilons: tradeoff.EpsilonUppers


class TradeoffMethods(abc.ABC):
    """Trade-off curve, advantage and Gaussian parameter of an accountant with certified intervals."""

    _tolerance: float

    @abc.abstractmethod
    def _epsilons(self, target_delta: Any, memory: Memory | None = None) -> Any:
        """Bounds of epsilon."""

    @abc.abstractmethod
    def _deltas(self, target_epsilon: Any, memory: Memory | None = None) -> Any:
        """Bounds of delta."""

    def whole_curve(self) -> WholeCurve:
        """Certified delta and epsilon of what is composed now, for many questions: what one of them has built serves the next."""
        memory = Memory()
        return WholeCurve(lambda epsilons: self._deltas(epsilons, memory), lambda deltas: self._epsilons(deltas, memory).upper)

    def get_tradeoff(self, alpha: Any) -> Interval:
        """Certified band of the smallest type II error of any attack with type I error `alpha`; arrays for an array."""
        return tradeoff.tradeoff(alpha, *self.whole_curve(), self._tolerance)

    def get_advantage(self) -> float:
        """A proved upper bound of the total variation, the largest 1 - alpha - beta of any attack."""
        return tradeoff.advantage(self._deltas).upper

    def get_gdp_mu(self, min_alpha: float = 1e-10) -> float:
        """A proved upper bound of the smallest mu whose Gaussian trade-off lies below the curve; see `tradeoff.gdp_mu`."""
        return tradeoff.gdp_mu(*self.whole_curve(), min_alpha).upper
