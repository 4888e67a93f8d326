"""Lemma: what a trapezoid sum with a period adds to the curve that it is meant for.

Poisson summation makes of a sum at equispaced frequencies with period p exactly sum_k e^{c k p} G(eps + k p), k in Z. With

    G(e) <= kappa(c') e^{K(c') - c' e},    kappa(c') = c'^c' / (1+c')^{1+c'} for c' > 0, and 1 for -1 <= c' <= 0

(c' > 0: maximise (1 - e^{-v}) e^{-c'v} over v = Y - e; c' <= 0: min(1, e^{-v}) <= e^{-c'v}) the copies on either side are geometric
series: those with k > 0 by any c' > c, those with k < 0 by any c' < c on the same side of 0, or by c' = 0 itself, where G <= 1:

    sum_{k > 0} <= kappa(c') e^{K(c') - c' eps} / (e^{|c' - c| p} - 1).
"""

from __future__ import annotations

import numpy as np

from dp_edgeworth.losses.rules import EPSILON


def log_kappa(tilt: np.ndarray) -> np.ndarray:
    """log sup_{v>0} (1 - e^{-v}) e^{-cv} for c > 0; 0 for -1 <= c <= 0 (sup of min(1, e^{-v}) e^{-cv})."""
    c = np.maximum(tilt, 1e-300)
    return np.where(tilt > 0, -c * np.log1p(1.0 / c) - np.log1p(c), 0.0)


class AliasBound:
    """log of a bound of sum_{k != 0} e^{ckp} G(eps + kp) / e^{K(c) - c eps}, by the best of G(e) <= e^{log_bounds - tilts e}."""

    def __init__(self, tilts: np.ndarray, log_bounds: np.ndarray, tilt: float, log_mgf: float, period: float):
        self._gap = tilts - tilt
        turns = np.abs(self._gap) * period
        with np.errstate(over="ignore", under="ignore"):
            geometric = np.where(turns > 40.0, turns - 1e-17, np.log(np.expm1(np.clip(turns, 1e-300, 40.0))))
        # For the rounding of these numbers themselves, which may be huge.
        self._logs = log_bounds - geometric - log_mgf + 1e-6 + 8.0 * EPSILON * (np.abs(log_bounds) + abs(log_mgf))
        self._logs = np.where(np.isnan(self._logs), np.inf, self._logs)
        self._right, self._left = self._gap > 0.0, self._gap < 0.0

    def __call__(self, epsilons: np.ndarray) -> np.ndarray:
        shifts = epsilons[:, None] * self._gap
        logs = self._logs - shifts + 8.0 * EPSILON * np.abs(shifts)
        return np.logaddexp(*(np.where(side, logs, np.inf).min(axis=1) for side in (self._right, self._left)))
