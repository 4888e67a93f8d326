"""What a certified accountant can be asked beside its numbers: attacks, and the questions of the room `analysis`, so that its relation
and its settings are never dropped.

Each method of `analysis` imports its function when it is called, by name: accountants know nothing else of the room above them.
"""

from __future__ import annotations

import abc
import math
import os
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from dp_accounting import privacy_accountant

from dp_edgeworth.intervals import Bounds, Interval
from dp_edgeworth.proofs.tradeoff import Polygons, gaussian_mu
from dp_edgeworth.search import whole_curve
from dp_edgeworth.search.answers import Memory
from dp_edgeworth.sums.composition import Composition

if TYPE_CHECKING:
    from dp_edgeworth.analysis.certificates import Certificate
    from dp_edgeworth.analysis.curves import PrivacyCurves
    from dp_edgeworth.analysis.explanation import EventReport
    from dp_edgeworth.analysis.statement import PrivacyStatement


class AnalysisMethods(privacy_accountant.PrivacyAccountant):
    """What a certified accountant can be asked beside its numbers."""

    _tolerance: float

    @abc.abstractmethod
    def _deltas(self, target_epsilon: Any, memory: Memory | None = None) -> Bounds:
        """Bounds of delta."""

    @abc.abstractmethod
    def _reach(self, delta: float) -> float:
        """About the epsilon at a delta."""

    @abc.abstractmethod
    def _tables(self, high: float, memory: Memory) -> Iterable[Polygons]:
        """Lower bounds of delta up to an epsilon, by what is in the memory."""

    @abc.abstractmethod
    def _most(self, epsilons: np.ndarray, memory: Memory) -> np.ndarray:
        """Upper bounds of delta, by what is in the memory."""

    @abc.abstractmethod
    def _compositions(self) -> list[Composition]:
        """One composition per direction."""

    @property
    def _settings(self) -> dict[str, Any]:
        """The keyword arguments that make an accountant like this one."""
        return {}

    def statement(self, *, target_delta: float | None = None, target_epsilon: float | None = None) -> PrivacyStatement:
        """The privacy statement of what was composed: epsilon at `target_delta`, or delta at `target_epsilon`."""
        from dp_edgeworth.analysis.statement import statement

        return statement(self, target_delta=target_delta, target_epsilon=target_epsilon)

    def certificate(self, target_delta: float, digits: int = 5) -> Certificate:
        """A certificate of epsilon at `target_delta`, its ends of so many digits, which `dp_edgeworth.verify` proves or refuses."""
        from dp_edgeworth.analysis.certificates import certify

        return certify(self.ledger, target_delta=target_delta, neighboring_relation=self.neighboring_relation, digits=digits)

    def explain(self, *, target_delta: float, limit: int | None = None) -> EventReport:
        """How the epsilon at `target_delta` splits over what was composed; see `dp_edgeworth.explain`."""
        from dp_edgeworth.analysis.explanation import explain

        return explain(self, target_delta=target_delta, limit=limit)

    def curves(self, *, points: int = 101, smallest_delta: float = 1e-10) -> PrivacyCurves:
        """delta(epsilon) and the trade-off curve, with certified bands; see `dp_edgeworth.curves`."""
        from dp_edgeworth.analysis.curves import curves

        return curves(self, points=points, smallest_delta=smallest_delta)

    def report(self, path: str | os.PathLike[str], *, target_delta: float = 1e-5) -> str:
        """Writes a self-contained HTML page about what was composed, and returns it; see `dp_edgeworth.html_report`."""
        from dp_edgeworth.analysis.html_report import html_report

        return html_report(self, path, target_delta=target_delta)

    def whole_curve(self) -> whole_curve.WholeCurve:
        """Certified delta of what is composed now, for many questions: what one of them has built serves the next."""
        memory = Memory()
        return whole_curve.WholeCurve(lambda epsilons: self._deltas(epsilons, memory), self._reach,
                                      lambda high: self._tables(high, memory), lambda epsilons: self._most(epsilons, memory))

    def get_tradeoff(self, alpha: Any) -> Interval:
        """Certified band of the smallest type II error of any attack with type I error `alpha`; arrays for an array."""
        return whole_curve.tradeoff(alpha, self.whole_curve(), self._tolerance)

    def get_advantage(self) -> float:
        """A proved upper bound of the total variation, the largest 1 - alpha - beta of any attack."""
        return whole_curve.advantage(self.whole_curve()).upper

    def get_gdp_mu(self, min_alpha: float = 1e-10) -> float:
        """A proved upper bound of the smallest mu whose Gaussian trade-off is below the curve for error rates of at least `min_alpha`.

        It says nothing about attacks with a smaller error rate of either kind; of Gaussian noise alone it is mu itself. Infinite where
        at some of these false positive rates no false negative rate above 0 is proved: the mechanism may be exposed with a probability
        as large as that, or its losses are so large that the curve is below the resolution of floats. See `search.whole_curve`.
        """
        least = whole_curve.checked_min_alpha(min_alpha)
        mu = gaussian_mu(self._compositions())
        return mu if mu < math.inf else whole_curve.gdp_mu(self.whole_curve(), least).upper

    @overload
    def get_true_positive_rates(self, false_positive_rates: float, deltas: Any = None) -> float: ...

    @overload
    def get_true_positive_rates(self, false_positive_rates: np.ndarray | Sequence[float], deltas: Any = None) -> np.ndarray: ...

    def get_true_positive_rates(self, false_positive_rates: Any, deltas: Any = None) -> float | np.ndarray:
        """A proved upper bound of the true positive rate of any attack, at these false positive rates: 1 - beta(alpha).

        The name and the arguments of dp-accounting's PLD accountant; `deltas` is ignored, as the bound needs no grid.
        """
        from dp_edgeworth.analysis.risk import true_positive_rates

        return true_positive_rates(self, false_positive_rates)

    def get_gdp_parameter_estimate(self, false_positive_rates: Any = None, deltas: Any = None) -> float:
        """`get_gdp_mu` under the name that dp-accounting's PLD accountant has for it: here it is a bound.

        It is for error rates of at least the smallest of `false_positive_rates`, 1e-10 by default; `deltas` is ignored.
        """
        from dp_edgeworth.analysis.risk import gdp_parameter

        return gdp_parameter(self, false_positive_rates)

    def get_bayes_risk(self, prior: float = 0.5) -> float:
        """A proved lower bound of the error probability of any attacker who believes in the record with probability `prior`."""
        from dp_edgeworth.analysis.risk import bayes_risk

        return bayes_risk(self, prior)
