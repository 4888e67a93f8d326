"""Theorem: the curve of the other direction of a pair, and so of a composition of pairs, without infinite losses on either side.

    delta_(Q,P)(eps) = 1 - e^eps + e^eps delta_(P,Q)(-eps)

Proof. With x = e^eps, sup_S [P(S) - x Q(S)] = sup_S [1 - x - (P(S') - x Q(S'))] = 1 - x + x sup_S' [Q(S') - P(S') / x], S' the
complement of S.

Assumes that the composition asked about is the mirror image of the one that the curve is of (`Composition.mirrored`), and that nothing
is infinite, so that G is delta. Charged: 8 ulp of 1 and of e^eps, which are subtracted from each other.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from dp_edgeworth.losses.rules import EPSILON
from dp_edgeworth.proofs.curve import Curve, LogBounds

_LARGEST = 30.0  # beyond, nothing is left


@dataclasses.dataclass(frozen=True)
class Mirrored(Curve):
    """The other direction of a curve of delta (not of 1 - delta)."""

    curve: Curve

    @property
    def theorem(self) -> str:  # type: ignore[override]
        return self.curve.theorem

    @property
    def tilt(self) -> float:  # type: ignore[override]
        return self.curve.tilt

    def bounds(self, epsilons: np.ndarray) -> LogBounds:
        eps = np.atleast_1d(np.asarray(epsilons, float))
        if self.curve.complement:
            raise ValueError(f"A mirrored curve must be one of delta. Found a tilt of {self.curve.tilt}.")
        found, small = self.curve.bounds(-eps), np.minimum(eps, _LARGEST)
        off = 8.0 * EPSILON * (1.0 + np.exp(small))
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            lower, middle, upper = (np.log(np.maximum(np.exp(small + np.minimum(part, 0.0)) - np.expm1(small) + side * off, 0.0))
                                    for side, part in ((-1.0, found.lower), (0.0, found.estimate), (1.0, found.upper)))
            slope = np.exp(small - middle) * (np.exp(np.minimum(found.estimate, 0.0)) * (1.0 - found.slope) - 1.0)
        upper, lower = np.where(eps > _LARGEST, 0.0, upper), np.where(eps > _LARGEST, -np.inf, lower)
        return LogBounds(lower, np.clip(middle, lower, upper), upper, np.where(np.isfinite(slope) & (slope < 0.0), slope, -self.tilt))
