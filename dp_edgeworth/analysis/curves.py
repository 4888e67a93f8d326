"""The two pictures of one guarantee: delta as a function of epsilon, and the trade-off between an attacker's errors."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation, PrivacyAccountant

from dp_edgeworth import validation
from dp_edgeworth.analysis import curve_tables
from dp_edgeworth.analysis.subject import subject_of
from dp_edgeworth.events.description import rounded_up
from dp_edgeworth.intervals import Interval
from dp_edgeworth.search import whole_curve

_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#777777"


@dataclasses.dataclass(frozen=True, eq=False)
class PrivacyCurves:
    """Certified delta(epsilon) and beta(alpha) on grids.

    Attributes:
      epsilon, delta: the privacy profile. alpha, beta: the trade-off of type I and type II errors.
      advantage: the largest 1 - alpha - beta of any attacker, an upper bound.
      gdp_mu: the smallest mu of Gaussian differential privacy with the same protection, an upper bound.
    """

    epsilon: np.ndarray
    delta: Interval
    alpha: np.ndarray
    beta: Interval
    advantage: float
    gdp_mu: float

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        bands = {name: {side: np.asarray(value).tolist() for side, value in band._asdict().items()}
                 for name, band in (("delta", self.delta), ("beta", self.beta))}
        return {"epsilon": self.epsilon.tolist(), "delta": bands["delta"], "alpha": self.alpha.tolist(),
                "beta": bands["beta"], "advantage": self.advantage, "gdp_mu": self.gdp_mu}

    def __str__(self) -> str:
        """A short table of both curves."""
        return curve_tables.as_text(self)

    def _repr_html_(self) -> str:
        return curve_tables.as_html(self)

    def plot(self, axes: Any = None) -> Any:
        """Both curves side by side; needs matplotlib. `axes` may be a pair of its axes; returns the pair."""
        from matplotlib import pyplot

        left, right = pyplot.subplots(1, 2, figsize=(9.0, 4.0))[1] if axes is None else axes
        left.fill_between(self.epsilon, self.delta.lower, self.delta.upper, color=_BLUE, alpha=0.3, linewidth=0)
        left.plot(self.epsilon, self.delta.upper, color=_BLUE)
        if np.any(np.asarray(self.delta.upper) > 0):
            left.set_yscale("log")
        else:  # nothing is lost
            left.axhline(0.0, color=_BLUE)
            left.set_ylim(-0.02, 1.0)
        left.set(xlabel="epsilon", ylabel="delta (proved upper bound)", xlim=(0.0, float(self.epsilon[-1]) or 1.0))
        left.set_title("Privacy profile", fontsize=11)
        right.plot([0, 1], [1, 0], color=_GREY, linestyle=":", label="blind guessing")
        right.fill_between(self.alpha, self.beta.lower, self.beta.upper, color=_ORANGE, alpha=0.3, linewidth=0)
        right.plot(self.alpha, self.beta.lower, color=_ORANGE, label="best attack (proved)")
        right.set(xlabel="false positive rate alpha", ylabel="false negative rate beta", xlim=(0, 1), ylim=(0, 1))
        right.set_aspect("equal")
        right.set_title(f"Trade-off: advantage {rounded_up(self.advantage, 3)}, mu {rounded_up(self.gdp_mu, 3)}", fontsize=11)
        right.legend(fontsize=9, frameon=False)
        left.grid(True, linewidth=0.3)
        right.grid(True, linewidth=0.3)
        left.figure.tight_layout()
        return left, right


def curves(event: dp_event.DpEvent | PrivacyAccountant, neighboring_relation: NeighboringRelation | None = None,
           *, points: int = 101, smallest_delta: float = 1e-10, tolerance: float | None = None) -> PrivacyCurves:
    """Both curves of an event or of an accountant, epsilon up to where delta is `smallest_delta`."""
    points = validation.integer("points", points, 2)
    accountant = subject_of(event, neighboring_relation, tolerance).accountant
    last = accountant.get_epsilon(validation.probability("smallest_delta", smallest_delta))
    epsilon = np.linspace(0.0, last if np.isfinite(last) else 100.0, points)
    alpha = np.linspace(0.0, 1.0, points)
    whole = accountant.whole_curve()
    return PrivacyCurves(epsilon, whole.deltas(epsilon), alpha, whole_curve.tradeoff(alpha, whole, 1e-5),
                         whole_curve.advantage(whole).upper, whole_curve.gdp_mu(whole).upper)
