"""Theorem: exponential tails of both sides of a direction, at any tilts.

With C(c) = e^{K(c) - c eps} for any tilt c ([EA] Section 4.5; Y the sum of the losses under Q, kappa as in `aliases.py`),

    G(eps) <= kappa(c) C(c), c > 0;      1 - delta(eps) = E[min(1, e^{eps - Y})] <= C(c), -1 <= c < 0.

The width of the interval is a few deviations of Y, which is narrow beside a mean loss of 1e6 deviations.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from dp_edgeworth.losses.rules import EPSILON
from dp_edgeworth.proofs.aliases import log_kappa
from dp_edgeworth.proofs.curve import Curve, LogBounds
from dp_edgeworth.sums.composition import Composition


@dataclasses.dataclass(frozen=True)
class Chernoff(Curve):
    """log of kappa(c) e^{K(c)} at tilts c > 0 and of e^{K(c)} at tilts c < 0, rounded up; the Q-mass of finite losses, rounded down."""

    above: np.ndarray
    log_above: np.ndarray
    below: np.ndarray
    log_below: np.ndarray
    finite: float

    theorem = "Chernoff"
    tilt = 1.0

    def bounds(self, epsilons: np.ndarray) -> LogBounds:
        eps = np.atleast_1d(np.asarray(epsilons, float))[:, None]
        upper = _least(self.log_above, self.above, eps)
        with np.errstate(divide="ignore", over="ignore"):
            most = np.exp(np.minimum(_least(self.log_below, self.below, eps), 1.0)) * (1.0 + 1e-14)  # of 1 - delta
            lower = np.log(np.maximum(self.finite - most, 0.0))
        return LogBounds(lower, np.where(lower > -1.0, lower, upper), np.minimum(upper, 0.0), np.full(len(eps), -self.tilt))


def _least(logs: np.ndarray, tilts: np.ndarray, eps: np.ndarray) -> np.ndarray:
    """min over the tilts of log - c eps, rounded up; 0 is always a bound."""
    with np.errstate(invalid="ignore", over="ignore"):
        products = tilts * eps
        found = logs - products + 8.0 * EPSILON * (np.abs(logs) + np.abs(products))
    return np.where(np.isnan(found), 0.0, found).min(axis=1, initial=0.0)


def chernoff(composition: Composition, tilts: np.ndarray) -> Chernoff:
    """At any tilts above -1, in increasing order or not; those at which K is no float are of no use."""
    rungs = composition.rungs(tilts)
    logs = rungs.log_mgf + rungs.error
    used = np.isfinite(logs)
    up, down = used & (tilts > 0.0), used & (tilts < 0.0) & (tilts >= -1.0)
    finite = math.exp(composition.log_finite) * (1.0 - 1e-12) if composition.log_finite < 0.0 else 1.0 - 1e-14
    if composition.log_tail > -math.inf:  # what is left out is neither in K nor in the payoff
        finite = max(finite - math.exp(min(composition.log_dropped, 0.0)) * (1.0 + 1e-12), 0.0)
    return Chernoff(tilts[up], (logs + log_kappa(tilts))[up], tilts[down], logs[down], finite)
