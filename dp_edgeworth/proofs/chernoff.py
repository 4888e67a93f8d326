"""An interval of epsilon from exponential tails (`sums.exponential_tail`): a few deviations of Y, narrow beside a huge mean.

From above with kappa of `spectral.py`; from below by 1 - delta(eps) = E[min(1, e^{eps - Y})] <= C(c), -1 <= c < 0.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from dp_edgeworth.proofs import spectral
from dp_edgeworth.sums import exponential_tail


@dataclasses.dataclass(frozen=True)
class Tail(exponential_tail.Tail):
    """K at some tilts in [-1, inf), rounded up."""

    @np.errstate(divide="ignore", invalid="ignore")
    def epsilons(self, deltas: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of epsilon from below, at least 0, and from above, where no loss is infinite."""
        down, up = self.tilts < 0.0, self.tilts > 0.0
        least = ((np.log1p(-deltas)[:, None] - self.log_mgf[down]) / -self.tilts[down]).max(axis=1, initial=0.0)
        bounds = self.log_mgf[up] + spectral.log_kappa(self.tilts[up])
        most = ((bounds - np.log(deltas)[:, None]) / self.tilts[up]).min(axis=1, initial=math.inf)
        above = np.maximum(most, 0.0)
        return least * (1.0 - 1e-14), above * (1.0 + 1e-14)
