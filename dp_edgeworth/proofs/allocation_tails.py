"""Simple bounds of one epoch of random allocation, for every noise and number of steps; `random_allocation.py` is sharper.

With S = (A_1 + ... + A_t)/t as there, B = (A_2 + ... + A_t)/t, and delta_G the hockey-stick of the Gaussian mechanism without sampling:

    both     delta <= delta_G(eps): the hockey-stick is convex, and the pair is a mixture of t Gaussian mechanisms
    remove   delta >= delta_G(eps + log t): (sum a_i - k)_+ >= sum (a_i - k)_+ for a_i, k >= 0, and t E[(A/t - k)_+] is that
    remove   delta <= delta_G(log(t (e^eps - b))) + P(B > b),  0 <= b < e^eps:  under Q, S = x + B with x = A_1/t alone changed, and
             1 - k/(x + b) <= 1 - (k - b)/x  where x >= k - b
    remove   delta <= e^{-z e^eps} E[e^{zA/t}; A <= c]^t / (e z) + Q_1(A > c) + (t-1) P(A > c) for z > 0 and every c:
             x_+ <= e^{zx} / (e z), and E[S; some A_i > c] = Q(some A_i > c)
    add      delta <= delta_G(eps - log t) P(A <= t e^-eps)^{t-1}:  S is at least any A_i/t
    add      delta >= (1 - e^eps c) P(A <= c)^t  for every c:  S <= c where no A_i is larger

    both     delta >= delta_G'(eps), with v/sqrt t for v: the sum of all outputs is a post-processing; its ratio is E[S | sum]
    both     delta <= delta_G'(eps) + max(1, e^eps) v^2 e^{v^2/2} / sqrt(8 t):  (x + d - k)_+ <= (x - k)_+ + d_+, where the mean of
             d = S - E[S | sum] is 0, so E d_+ = E|d| / 2, and E d^2 = var S - var E[S | sum] <= v^4 e^{v^2} / (2 t)

The rest B is as large as its largest term allows, or by Chernoff's bound with the terms cut at c:

    P(B > b) <= (t-1) P(A > c) + (0 where (t-1) c <= t b, else e^{-zb} E[e^{zA/t}; A <= c]^{t-1}).

z = f t / c with a few factors f, so that one table serves every scale.

Where there is little noise one A_i is nearly all of S, and both sides nearly meet.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from scipy import special

from dp_edgeworth.losses import gaussian_curve
from dp_edgeworth.proofs.lognormal_step import step_law
from dp_edgeworth.sums.composition import EPSILON

_EVERY = 6  # edges of bins between two values of c
_FACTORS = np.geomspace(1e-4, 60.0, 24)  # f
_LARGEST_TRANSFORM = 25.0  # shifts beyond have bins that are no floats
_RESTS, _BEYOND = 160, (-1, 0, 1, 2, 3, 5, 8, 13, 21, 34)  # sizes b in a table, and which of them from the meeting point on are tried
_CLOSED_FORM_ERROR = 4e-12


def log_unsampled(shift: float, epsilon: np.ndarray) -> np.ndarray:
    """Upper bounds of log delta_G."""
    return np.minimum(gaussian_curve.log_delta(epsilon - 64.0 * EPSILON * (np.abs(epsilon) + shift * shift), shift)
                      + _CLOSED_FORM_ERROR, 0.0)


def log_one_term(shift: float, steps: float, epsilon: np.ndarray) -> np.ndarray:
    """Lower bounds of log delta of "remove"."""
    moved = epsilon + math.log(steps)
    return gaussian_curve.log_delta(moved + 64.0 * EPSILON * (np.abs(moved) + shift * shift), shift) - _CLOSED_FORM_ERROR


def log_one_changed(shift: float, steps: float, epsilon: np.ndarray) -> np.ndarray:
    """Upper bounds of log delta of "remove", for the best b of a part of a table; +inf where there is none.

    The first term grows with b, the second one falls: where they meet their sum is at most twice the smallest one, which is not far
    beyond.
    """
    rest = _rest(shift, steps)

    def terms(chosen: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        with np.errstate(over="ignore", under="ignore", invalid="ignore", divide="ignore"):
            share = np.exp(-epsilon) * rest.sizes[chosen]
            doubt = 8.0 * EPSILON * (1.0 + np.abs(epsilon)) / (1.0 - share)
            moved = epsilon + math.log(steps) + np.log1p(-share) - doubt
            changed = log_unsampled(shift, np.where(share < 1.0, moved, 0.0))
        return np.where(share < 1.0 - 1e-9, changed, np.inf), rest.log_tails[chosen]

    low, high = np.zeros(len(epsilon), int), np.full(len(epsilon), _RESTS - 1)
    for _ in range(_RESTS.bit_length()):
        middle = (low + high) // 2
        met = np.greater_equal(*terms(middle))
        low, high = np.where(met, low, np.minimum(middle + 1, high)), np.where(met, middle, high)
    return np.minimum.reduce([np.logaddexp(*terms(np.clip(high + step, 0, _RESTS - 1))) for step in _BEYOND])


def log_none_large(shift: float, steps: float, epsilon: np.ndarray) -> np.ndarray:
    """Upper bounds of log delta of "add"."""
    return log_unsampled(shift, epsilon - math.log(steps)) + (steps - 1.0) * _log_below(shift, math.log(steps) - epsilon, 1.0)


def log_all_small(shift: float, steps: float, epsilon: np.ndarray) -> np.ndarray:
    """Lower bounds of log delta of "add", for the best c of a few."""
    gaps = np.geomspace(1e-3, 30.0, 30)  # e^eps c = e^-gap
    found = np.log(-np.expm1(-gaps)) + steps * _log_below(shift, -epsilon[..., None] - gaps, -1.0)
    return found.max(axis=-1) - _CLOSED_FORM_ERROR


def log_of_sum(shift: float, steps: float, epsilon: np.ndarray) -> np.ndarray:
    """Lower bounds of log delta in either direction: one Gaussian."""
    mu = shift / math.sqrt(steps) * (1.0 - 1e-14)
    return gaussian_curve.log_delta(epsilon + 64.0 * EPSILON * (np.abs(epsilon) + mu * mu), mu) - _CLOSED_FORM_ERROR


def log_near_sum(shift: float, steps: float, epsilon: np.ndarray) -> np.ndarray:
    """Upper bounds of log delta in either direction, useful for much noise."""
    rest = 2.0 * math.log(shift) + 0.5 * shift * shift - 0.5 * math.log(8.0 * steps) + 1e-13
    return np.logaddexp(log_unsampled(shift / math.sqrt(steps) * (1.0 + 1e-14), epsilon), rest + np.maximum(epsilon, 0.0))


def _log_below(shift: float, log_c: np.ndarray, side: float) -> np.ndarray:
    """log P(A <= c), rounded up where side is 1, down where it is -1."""
    at = log_c / shift + 0.5 * shift
    found = special.log_ndtr(at + side * 8.0 * EPSILON * (np.abs(at) + shift))
    return np.minimum(found * (1.0 - side * 1e-13), 0.0)


class _Rest(NamedTuple):
    """b, and upper bounds of log P(B > b)."""

    sizes: np.ndarray
    log_tails: np.ndarray


@functools.lru_cache(maxsize=64)
def _rest(shift: float, steps: float) -> _Rest:
    mean, largest = 1.0 - 1.0 / steps, 1e200
    narrow = shift <= _LARGEST_TRANSFORM
    if narrow:
        largest = float(step_law(shift).edges[-1])
    spread = min(math.sqrt(math.expm1(min(shift * shift, 1.0)) / steps), 1.0)
    sizes = mean + np.geomspace(0.05 * spread, largest, _RESTS)
    at = (np.log(sizes) - math.log(mean)) / shift + 0.5 * shift
    tails = math.log(steps - 1.0) + special.log_ndtr(-at * (1.0 - 1e-14))
    if narrow:
        cut = _cut(shift, steps, steps - 1.0)
        tails = np.minimum(tails, [np.logaddexp(cut.logs - cut.rates * (size * (1.0 - 1e-14)), cut.log_tails).min() for size in sizes])
    return _Rest(sizes, tails)


class _Cut(NamedTuple):
    """For z in rows and c in columns: log E[e^{zA/t}; A <= c]^power, z, and log t P(A > c) for every c, with these c."""

    logs: np.ndarray
    rates: np.ndarray
    log_tails: np.ndarray
    limits: np.ndarray


@functools.lru_cache(maxsize=64)
def _cut(shift: float, steps: float, power: float) -> _Cut:
    law = step_law(shift)
    cuts = np.arange(_EVERY, len(law.edges), _EVERY)
    logs, factors = np.empty((len(_FACTORS), len(cuts))), np.multiply.outer(_FACTORS, 1.0 / law.edges[cuts])
    for column, cut in enumerate(cuts):
        sizes = np.exp(np.multiply.outer(factors[:, column], law.edges[:cut + 1]))
        kept = sizes @ law.weights[:cut + 1] + law.least * sizes[:, 0]
        logs[:, column] = power * (np.log(kept + 1e-300) + 1e-11)
    return _Cut(logs, factors * steps, math.log(steps) + law.log_tail[cuts] + 1e-11, law.edges[cuts])


def log_chernoff(shift: float, steps: float, epsilon: np.ndarray) -> np.ndarray:
    """Upper bounds of log delta of "remove", for the best z and c of a table; useful where many terms are large together."""
    if shift > _LARGEST_TRANSFORM:
        return np.zeros(len(epsilon))
    cut = _cut(shift, steps, steps)
    rest = np.logaddexp(special.log_ndtr(0.5 * shift - np.log(cut.limits) / shift) + 1e-11, cut.log_tails)
    logs, strikes = cut.logs - np.log(cut.rates) - 1.0, np.exp(np.minimum(epsilon, 690.0)) * (1.0 - 1e-14)
    best = [np.logaddexp((logs - cut.rates * strike).min(axis=0), rest).min() for strike in strikes]
    return np.minimum(np.array(best) + 1e-11, 0.0)


UPPER = {"remove": (log_one_changed, log_chernoff, log_near_sum), "add": (log_none_large, log_near_sum)}  # beside that without sampling
LOWER = {"remove": (log_one_term, log_of_sum), "add": (log_all_small, log_of_sum)}
