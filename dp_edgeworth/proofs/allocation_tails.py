"""Simple bounds of one epoch of random allocation, for every noise and number of steps; `random_allocation.py` is far sharper.

With S = (A_1 + ... + A_t)/t as there, and delta_G the hockey-stick of the Gaussian mechanism without sampling:

    both      delta <= delta_G(eps): the hockey-stick is convex, and the pair is a mixture of t Gaussian mechanisms
    remove    delta >= delta_G(eps + log t): (sum a_i - k)_+ >= sum (a_i - k)_+ for a_i, k >= 0, and t E[(A/t - k)_+] is that
    remove    delta <= e^{-zk} E[e^{zA/t}; A <= c]^t / (e z) + Q_1(A > c) + (t - 1) P_1(A > c) for z > 0 and every c:
              x_+ <= e^{zx} / (e z), and E[S; some A_i > c] = Q(some A_i > c)
"""

from __future__ import annotations

import math

import numpy as np
from scipy import special

from dp_edgeworth.losses import gaussian_curve
from dp_edgeworth.proofs.lognormal_step import step_law

_EVERY = 6  # edges of bins between two values of c
_CLOSED_FORM_ERROR = 4e-12


def log_unsampled(shift: float, epsilon: np.ndarray) -> np.ndarray:
    """Upper bounds of log delta in either direction: no amplification."""
    return np.minimum(gaussian_curve.log_delta(epsilon - 64.0 * np.finfo(float).eps * (np.abs(epsilon) + shift * shift), shift)
                      + _CLOSED_FORM_ERROR, 0.0)


def log_one_term(shift: float, steps: float, epsilon: np.ndarray) -> np.ndarray:
    """Lower bounds of log delta of "remove"."""
    moved = epsilon + math.log(steps)
    return gaussian_curve.log_delta(moved + 64.0 * np.finfo(float).eps * (np.abs(moved) + shift * shift), shift) - _CLOSED_FORM_ERROR


def log_chernoff(shift: float, steps: float, epsilon: np.ndarray, rates: np.ndarray) -> np.ndarray:
    """Upper bounds of log delta of "remove", the least over z in `rates` and some c; +inf where there is none."""
    law = step_law(shift)
    cuts = np.arange(0, len(law.edges), _EVERY)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        powers = np.multiply.outer(rates / steps, law.edges)
        kept = np.cumsum(np.exp(np.minimum(powers, 690.0)) * law.weights, axis=1) + law.least
        logs = np.where(powers < 690.0, steps * (np.log(kept) + 1e-11), np.inf)[:, cuts] - (np.log(rates) + 1.0)[:, None]
        at_q = np.log(law.edges[cuts]) / shift - 0.5 * shift
        rest = np.logaddexp(special.log_ndtr(-at_q), math.log(steps) + law.log_tail[cuts]) + 1e-11
        k = np.exp(np.minimum(epsilon, 690.0))
        found = [np.logaddexp(logs - (one * (1.0 - 1e-14) * rates)[:, None], rest).min() for one in k]
    return np.minimum(np.array(found, float), 0.0) + 1e-11
