"""The two pictures of one guarantee: delta as a function of epsilon, and the trade-off between an attacker's errors."""

from __future__ import annotations

import dataclasses
import html
import math
from typing import Any

import numpy as np
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation, PrivacyAccountant

from dp_edgeworth import validation
from dp_edgeworth.analysis.charts import Band, Chart
from dp_edgeworth.analysis.rendering import COLOURS, Answer, new_axes
from dp_edgeworth.analysis.risk import LEAST_ALPHA
from dp_edgeworth.analysis.subject import subject_of
from dp_edgeworth.events.description import rounded_down, rounded_up
from dp_edgeworth.intervals import Interval
from dp_edgeworth.search import whole_curve

_ROWS = 11  # of the table


def mu_in_words(mu: float) -> str:
    """The bound, with the error rates that it is for; where there is none, why."""
    rates = f"for error rates of at least {LEAST_ALPHA:g}"
    if math.isinf(mu):
        return f"Gaussian mu is infinite {rates}: at some of these false positive rates no false negative rate above 0 is proved"
    return f"Gaussian mu <= {rounded_up(mu)} {rates}"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class PrivacyCurves(Answer):
    """Certified delta(epsilon) and beta(alpha) on grids.

    Attributes:
      epsilon, delta: the privacy profile. alpha, beta: the trade-off of type I and type II errors.
      advantage: the largest 1 - alpha - beta of any attacker, an upper bound.
      gdp_mu: the smallest mu of Gaussian differential privacy with the same protection for error rates of at least 1e-10, an upper
        bound.
    """

    epsilon: np.ndarray
    delta: Interval
    alpha: np.ndarray
    beta: Interval
    advantage: float
    gdp_mu: float

    @property
    def title(self) -> str:
        risk = f"advantage <= {rounded_up(self.advantage, 4)}"
        return f"{len(self.epsilon)} points, epsilon up to {rounded_up(float(self.epsilon[-1]), 4)}, {risk}"

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers."""
        bands = {name: {side: np.asarray(value).tolist() for side, value in band._asdict().items()}
                 for name, band in (("delta", self.delta), ("beta", self.beta))}
        return {"epsilon": self.epsilon.tolist(), "delta": bands["delta"], "alpha": self.alpha.tolist(),
                "beta": bands["beta"], "advantage": self.advantage, "gdp_mu": self.gdp_mu, "gdp_mu_least_error_rate": LEAST_ALPHA}

    def __str__(self) -> str:
        """Eleven points of each curve, every number rounded so that each printed pair is still proved, and the two numbers."""
        lines = [f"{'epsilon':>12}  {'delta <=':>12}      {'alpha':>8}  {'beta >=':>12}"]
        delta, beta = np.asarray(self.delta.upper), np.asarray(self.beta.lower)
        for i in np.unique(np.linspace(0, len(self.epsilon) - 1, _ROWS).round().astype(int)):
            lines.append(f"{rounded_up(float(self.epsilon[i])):>12}  {rounded_up(float(delta[i])):>12}      "
                         f"{rounded_down(float(self.alpha[i]), 4):>8}  {rounded_down(float(beta[i])):>12}")
        return "\n".join([*lines, "", f"advantage (total variation) <= {rounded_up(self.advantage)}", mu_in_words(self.gdp_mu)])

    def charts(self) -> tuple[Chart, Chart]:
        """delta(epsilon) and beta(alpha), with their bands."""
        (d_low, d_high), (b_low, b_high) = ((np.asarray(band.lower, float), np.asarray(band.upper, float))
                                            for band in (self.delta, self.beta))
        ends = np.array([0.0, 1.0])
        guess = Band(ends, 1.0 - ends, 1.0 - ends, 1.0 - ends, "blind guessing", "#777777", dashed=True)
        return (Chart([Band(self.epsilon, d_low, d_high, d_high, "delta: proved upper bound", COLOURS[0])],
                      "Privacy profile", "epsilon", "delta", logarithmic=True),
                Chart([Band(self.alpha, b_low, b_high, b_low, "best attack: proved", COLOURS[5]), guess],
                      "Trade-off of an attacker's errors", "false positive rate", "false negative rate"))

    def _repr_html_(self) -> str:
        pictures = "".join(chart.svg() for chart in self.charts())
        words = html.escape(f"advantage (total variation) <= {rounded_up(self.advantage)}; {mu_in_words(self.gdp_mu)}")
        return f'<div style="display:flex;flex-wrap:wrap;gap:1em">{pictures}</div><p>{words}</p>'

    def plot(self, axes: Any = None) -> Any:
        """Both curves side by side; needs matplotlib. `axes` may be a pair of its axes; returns the pair."""
        left, right = new_axes(axes, 9.0, 4.0, columns=2)
        for chart, axis in zip(self.charts(), (left, right), strict=True):
            chart.draw(axis)
        right.set(ylim=(0, 1), aspect="equal")
        mu = f"mu {rounded_up(self.gdp_mu, 3)} for error rates of at least {LEAST_ALPHA:g}"
        right.set_title(f"Trade-off: advantage {rounded_up(self.advantage, 3)},\n{mu}", fontsize=11)
        left.figure.tight_layout()
        return left, right


def curves(event: dp_event.DpEvent | PrivacyAccountant, neighboring_relation: NeighboringRelation | None = None,
           *, points: int = 101, smallest_delta: float = 1e-10, tolerance: float | None = None) -> PrivacyCurves:
    """Both curves of an event or of an accountant, epsilon up to where delta is `smallest_delta`."""
    points = validation.integer("points", points, 2)
    accountant = subject_of(event, neighboring_relation, tolerance).accountant
    last = accountant.get_epsilon(validation.probability("smallest_delta", smallest_delta))
    epsilon = np.linspace(0.0, (last or 1.0) if np.isfinite(last) else 100.0, points)
    alpha = np.linspace(0.0, 1.0, points)
    whole = accountant.whole_curve()
    return PrivacyCurves(epsilon, whole.deltas(epsilon), alpha, whole_curve.tradeoff(alpha, whole, 1e-5),
                         whole_curve.advantage(whole).upper, accountant.get_gdp_mu(LEAST_ALPHA))
