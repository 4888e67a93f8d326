"""The two curves of a guarantee as a table of text, and as pictures in HTML."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dp_edgeworth.analysis import charts
from dp_edgeworth.events.description import rounded_down, rounded_up

if TYPE_CHECKING:
    from dp_edgeworth.analysis.curves import PrivacyCurves

_ROWS = 11


def as_text(curves: PrivacyCurves) -> str:
    """Eleven points of each curve, every number rounded so that each printed pair is still proved, and the two numbers."""
    lines = [f"{'epsilon':>12}  {'delta <=':>12}      {'alpha':>8}  {'beta >=':>12}"]
    rows = np.unique(np.linspace(0, len(curves.epsilon) - 1, _ROWS).round().astype(int))
    delta, beta = np.asarray(curves.delta.upper), np.asarray(curves.beta.lower)
    for i in rows:
        lines.append(f"{rounded_up(float(curves.epsilon[i])):>12}  {rounded_up(float(delta[i])):>12}      "
                     f"{rounded_down(float(curves.alpha[i]), 4):>8}  {rounded_down(float(beta[i])):>12}")
    return "\n".join([*lines, "", f"advantage (total variation) <= {rounded_up(curves.advantage)}",
                      f"Gaussian mu <= {rounded_up(curves.gdp_mu)}"])


def as_html(curves: PrivacyCurves) -> str:
    """Both pictures side by side, and the two numbers."""
    return (f'<div style="display:flex;flex-wrap:wrap;gap:1em">{profile(curves)}{trade_off(curves)}</div>'
            f"<p>advantage (total variation) &le; {rounded_up(curves.advantage)}; Gaussian mu &le; {rounded_up(curves.gdp_mu)}</p>")


def profile(curves: PrivacyCurves) -> str:
    """delta(epsilon) with its band, as SVG."""
    lower, upper = (np.asarray(end, float) for end in (curves.delta.lower, curves.delta.upper))
    band = charts.Band(curves.epsilon, lower, upper, upper, "delta: proved upper bound", "#0072B2")
    return charts.chart([band], "Privacy profile", "epsilon", "delta", logarithmic=True)


def trade_off(curves: PrivacyCurves) -> str:
    """beta(alpha) with its band, as SVG."""
    lower, upper = (np.asarray(end, float) for end in (curves.beta.lower, curves.beta.upper))
    ends = np.array([0.0, 1.0])
    guess = charts.Band(ends, 1.0 - ends, 1.0 - ends, 1.0 - ends, "blind guessing", "#777777", dashed=True)
    best = charts.Band(curves.alpha, lower, upper, lower, "best attack: proved", "#D55E00")
    return charts.chart([best, guess], "Trade-off of an attacker's errors", "false positive rate", "false negative rate")
