"""Methods of the certified accountant in terms of attacks: everything that follows from its intervals of delta."""

from __future__ import annotations

import abc
from typing import Any

from dp_edgeworth.intervals import Interval
from dp_edgeworth.proofs.tradeoff import Knots
from dp_edgeworth.search import whole_curve
from dp_edgeworth.search.answers import Memory


class TradeoffMethods(abc.ABC):
    """Trade-off curve, advantage and Gaussian parameter of an accountant with certified intervals."""

    _tolerance: float

    @abc.abstractmethod
    def _reach(self, delta: float) -> float:
        """About the epsilon at a delta."""

    @abc.abstractmethod
    def _deltas(self, target_epsilon: Any, memory: Memory | None = None) -> Any:
        """Bounds of delta."""

    @abc.abstractmethod
    def _knots(self, high: float, memory: Memory) -> list[Knots]:
        """Tables of delta up to an epsilon."""

    def whole_curve(self) -> whole_curve.WholeCurve:
        """Certified delta of what is composed now, for many questions: what one of them has built serves the next."""
        memory = Memory()
        return whole_curve.WholeCurve(lambda epsilons: self._deltas(epsilons, memory), self._reach,
                                      lambda high: self._knots(high, memory))

    def get_tradeoff(self, alpha: Any) -> Interval:
        """Certified band of the smallest type II error of any attack with type I error `alpha`; arrays for an array."""
        return whole_curve.tradeoff(alpha, self.whole_curve(), self._tolerance)

    def get_advantage(self) -> float:
        """A proved upper bound of the total variation, the largest 1 - alpha - beta of any attack."""
        return whole_curve.advantage(self.whole_curve()).upper

    def get_gdp_mu(self, min_alpha: float = 1e-10) -> float:
        """A proved upper bound of the smallest mu whose Gaussian trade-off lies below the curve; see `search.whole_curve.gdp_mu`."""
        return whole_curve.gdp_mu(self.whole_curve(), min_alpha).upper
