"""Methods of the certified accountant in terms of attacks: everything that follows from its intervals of delta."""

from __future__ import annotations

import abc
from typing import Any

from dp_edgeworth.intervals import Interval
from dp_edgeworth.proofs import tradeoff


class TradeoffMethods(abc.ABC):
    """Trade-off curve, advantage and Gaussian parameter of an accountant with certified intervals."""

    _tolerance: float

    @abc.abstractmethod
    def get_epsilon(self, target_delta: Any) -> Any:
        """A proved upper bound of epsilon."""

    @abc.abstractmethod
    def get_delta_interval(self, target_epsilon: Any) -> Interval:
        """Certified lower and upper bounds of delta."""

    def get_tradeoff(self, alpha: Any) -> Interval:
        """Certified band of the smallest type II error of any attack with type I error `alpha`; arrays for an array."""
        return tradeoff.tradeoff(alpha, self.get_delta_interval, self.get_epsilon, self._tolerance)

    def get_advantage(self) -> float:
        """A proved upper bound of the total variation, the largest 1 - alpha - beta of any attack."""
        return tradeoff.advantage(self.get_delta_interval).upper

    def get_gdp_mu(self, min_alpha: float = 1e-10) -> float:
        """A proved upper bound of the smallest mu whose Gaussian trade-off is below the curve for error rates of at least `min_alpha`.

        It says nothing about attacks with a smaller error rate of either kind. Infinite where at some of these false positive rates
        no false negative rate above 0 is proved: the mechanism may be exposed with a probability as large as that, or its losses are
        so large that the curve is below the resolution of floats. See `tradeoff.gdp_mu`.
        """
        return tradeoff.gdp_mu(self.get_delta_interval, self.get_epsilon, min_alpha).upper
