"""Exponential tails of both sums of a direction, for whole arrays of epsilon.

[EA] Section 4.5: for any tilt c, E_Q[e^{cL}] = e^{K(c)} gives, with C(c) = e^{K(c) - c eps},

    P(Y > eps) <= C(c), c >= 0;    P(Y <= eps) <= C(c), c <= 0;    e^eps P(X > eps) <= C(c), c >= -1.

This is Chernoff's bound of X and of Y. Theorem 4.5, its Lipschitz form and the Laplace proposition bound the same K from above, so none
of them can be smaller than it at its best c, and they are not evaluated.
"""

from __future__ import annotations

import dataclasses
import math
from typing import TypeVar

import numpy as np

from dp_edgeworth.losses.rules import EPSILON, RuleTooLargeError
from dp_edgeworth.paper.saddle_point import positive_tilt
from dp_edgeworth.sums.composition import Composition

_TILTS = 40
_Tail = TypeVar("_Tail", bound="Tail")


@dataclasses.dataclass(frozen=True)
class Tail:
    """K at some tilts in [-1, inf), rounded up."""

    tilts: np.ndarray
    log_mgf: np.ndarray

    @classmethod
    @np.errstate(over="ignore", invalid="ignore")
    def of(cls: type[_Tail], composition: Composition, least_delta: float) -> _Tail:
        """Tilts so dense that C is close to its best down to `least_delta`; only 0 where rules would be too large."""
        try:
            top = 1.2 * positive_tilt(composition, math.log(least_delta))
            spread = math.sqrt(max(float(composition.cgf([0.0])[2, 0]), 1e-300))
            below = np.linspace(-min(1.0, 12.0 / spread), 0.0, _TILTS)
            tilts = np.concatenate([below, np.linspace(0.0, top, _TILTS)[1:]])
            k = composition.cgf(tilts, composition.demand(-1.0, top))
        except RuleTooLargeError:
            return cls(np.zeros(1), np.array([composition.log_finite]))
        log_mgf = k[0] + k[3] + 1e-14 * np.abs(k[0]) + 1e-14
        return cls(tilts[np.isfinite(log_mgf)], log_mgf[np.isfinite(log_mgf)])

    def bound(self, epsilon: np.ndarray, low: float, high: float) -> np.ndarray:
        """C at the best tilt in [low, high]; K is convex, so the slopes between tilts find it. Any tilt is valid."""
        use = (self.tilts >= low) & (self.tilts <= high)
        tilts, log_mgf = self.tilts[use], self.log_mgf[use]
        best = np.searchsorted(np.diff(log_mgf) / np.diff(tilts), epsilon)
        product = tilts[best] * np.minimum(epsilon, 1e300)
        return np.exp(np.minimum(log_mgf[best] - product + 2.0 * EPSILON * np.abs(product), 700.0))
