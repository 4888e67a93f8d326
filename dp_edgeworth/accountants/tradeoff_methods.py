"""Methods of the certified accountant in terms of attacks: everything that follows from its intervals of delta."""

from __future__ import annotations

import abc
from typing import Any

import numpy as np

from dp_edgeworth import validation
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
        """A proved upper bound of the smallest mu whose Gaussian trade-off lies below the curve; see `tradeoff.gdp_mu`."""
        return tradeoff.gdp_mu(self.get_delta_interval, self.get_epsilon, min_alpha).upper

    def get_true_positive_rates(self, false_positive_rates: Any, deltas: Any = None) -> Any:
        """Proved upper bounds of the true positive rate of any attack with these false positive rates; a float for a float.

        `deltas` is accepted for `PLDAccountant`'s sake and not needed: no curve is sampled.
        """
        return 1.0 - np.asarray(self.get_tradeoff(false_positive_rates).lower) if np.ndim(false_positive_rates) else (
            1.0 - self.get_tradeoff(false_positive_rates).lower)

    def get_gdp_parameter_estimate(self, false_positive_rates: Any = None, deltas: Any = None) -> float:
        """The smallest mu whose Gaussian trade-off allows the true positive rates at these false positive rates, a proved upper bound.

        At all rates from 1e-10 on where none are given, see `get_gdp_mu`. `deltas` is accepted and not needed.
        """
        if false_positive_rates is None:
            return self.get_gdp_mu()
        rates = np.atleast_1d(validation.array_in("false_positive_rates", false_positive_rates, 0.0, 1.0))
        return tradeoff.largest_gaussian_shift(rates, np.atleast_1d(self.get_tradeoff(rates).lower))
