"""Theorem: upper ends from a Renyi curve of all that was composed, in both directions (`losses.renyi_curves` has the conversion).

    delta(eps) <= inf_c kappa(c) e^{k(c) - c eps},        k(c) >= log E_Q[e^{c L}] of the whole composition,  0 < c <= largest

Every c is valid, so the search for the best one is not part of the proof; k and the conversion are rounded up. Nothing is said from
below.
"""

from __future__ import annotations

import numpy as np

from dp_edgeworth.losses.renyi_curves import RenyiCurve, epsilon_of, log_profile
from dp_edgeworth.proofs.proved import Proved

_NAME = "Renyi curve"


def epsilon_bounds(curve: RenyiCurve, deltas: np.ndarray) -> Proved:
    """Of epsilon at these deltas."""
    with np.errstate(divide="ignore"):
        found = epsilon_of(curve, np.log(deltas))
    upper = np.where(deltas >= 1.0, 0.0, found)
    return Proved.of(np.zeros(len(deltas)), upper, upper, _NAME)


def delta_bounds(curve: RenyiCurve, epsilons: np.ndarray) -> Proved:
    """Of delta at these epsilons, which are not negative."""
    with np.errstate(under="ignore"):
        upper = np.minimum(np.maximum(np.exp(log_profile(curve, epsilons)) * (1.0 + 1e-15), 5e-324), 1.0)
    return Proved.of(np.zeros(len(epsilons)), upper, upper, _NAME)
