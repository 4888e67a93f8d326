"""One epoch of shuffled batches of fixed size with Gaussian noise: a pair above and a pair below.

Above: given the permutation a record is in one batch, so an epoch is at most one Gaussian mechanism with the same noise.

Below (Chua, Ghazi, Kamath, Kumar, Manurangsi, Sinha, Zhang, "How Private are DP-SGD Implementations?", 2024): one record has the
gradient +1, all others -1. Up to a shift an epoch of T batches releases (1/T) sum_i N(2 e_i, sigma^2 I) with the record and
(1/T) sum_i N(e_i, sigma^2 I) where it is zeroed. Its largest coordinate has the distribution functions

    F_m(c) = Phi((c - m)/sigma) Phi(c/sigma)^{T-1},      m = 2 with the record, m = 1 without,

and in which of the intervals between thresholds c_0 < c_1 < ... it falls is a post-processing. Masses of intervals are known to their
rounding, so delta of that finite pair is known between two sums of positive parts, from which `profile_pair.dominated_pair` makes a
pair that is dominated.
"""

from __future__ import annotations

import functools
import math

import numpy as np
from scipy import special

from dp_edgeworth.losses.bracket import Leaf, between
from dp_edgeworth.losses.gaussian_noise import GaussianShift
from dp_edgeworth.losses.node_pair import NodePair
from dp_edgeworth.losses.profile_pair import dominated_pair, subdivided
from dp_edgeworth.losses.rules import EPSILON

_THRESHOLDS = 1200
_NODES, _FINER = 1500, 2
_LEAST = 1e-290
_ROUNDING = 2e-14  # of a distribution function, relative to it and to its logarithm
Interval = tuple[np.ndarray, np.ndarray]


def epoch(shift: float, batches: int) -> tuple[Leaf, Leaf]:
    """Both directions of one epoch of at least 2 batches: "remove", in which the record is in Q, and "add"."""
    remove, add = (between(GaussianShift(shift), largest_coordinate_pair(shift, batches, is_reversed)) for is_reversed in (False, True))
    return remove, add


def interval_masses(shift: float, batches: int, mean: float) -> Interval:
    """Lower and upper bounds of the masses of the intervals between thresholds, in units of sigma, from the smaller of both tails."""
    c = thresholds(shift, batches)
    with np.errstate(divide="ignore"):
        logs = special.log_ndtr(c - mean * shift) + (batches - 1.0) * special.log_ndtr(c)
    below, above = np.exp(logs), -np.expm1(logs)
    doubt, far = _ROUNDING * (1.0 + np.abs(logs)), np.maximum(np.abs(c), np.abs(c - mean * shift))
    tail = EPSILON * far * (2.0 * far + mean * shift)  # of a normal tail, as in `cells`; of a logarithm it is in the doubt
    doubt_below, doubt_above = doubt * below, (doubt + tail) * above
    low = np.concatenate([[0.0], below, [1.0]])
    high = np.concatenate([[1.0], above, [0.0]])
    off_low, off_high = np.concatenate([[0.0], doubt_below, [0.0]]), np.concatenate([[0.0], doubt_above, [0.0]])
    upper = high[:-1] < 0.5
    masses = np.where(upper, -np.diff(high), np.diff(low))
    doubt = np.where(upper, off_high[:-1] + off_high[1:], off_low[:-1] + off_low[1:])
    return np.maximum(masses - doubt, 0.0), masses + doubt


def thresholds(shift: float, batches: int) -> np.ndarray:
    """From where no coordinate of either law is, to where none is beyond."""
    low = float(special.ndtri(math.exp(-40.0 / batches))) if batches > 1 else -9.0
    return np.linspace(min(low, shift - 9.0), 2.0 * shift + max(9.0, -float(special.ndtri(1e-20 / batches))), _THRESHOLDS)


def sticks(p: Interval, q: Interval, epsilons: np.ndarray) -> Interval:
    """Lower and upper bounds of sum (q - e^eps p)_+."""
    ratios = np.exp(np.minimum(epsilons, 700.0))
    lower, upper = _stick(p[1], q[0], ratios, 0.0), _stick(p[0], q[1], ratios, 1.0)
    return lower * (1.0 - 1e-12), np.minimum(upper * (1.0 + 1e-12), 1.0)


def _stick(p: np.ndarray, q: np.ndarray, x: np.ndarray, share: float) -> np.ndarray:
    """sum (q - x p)_+ = sum (r - x)_+ p with r = q/p: H(r_j) = H(r_{j+1}) + (r_{j+1} - r_j) P(R > r_j), all terms positive.

    Where p is too small for a ratio, `share` of q counts.
    """
    usual = p > _LEAST
    r, mass = q[usual].astype(np.longdouble) / p[usual], p[usual].astype(np.longdouble)
    order = np.argsort(r, kind="stable")
    r, tail = r[order], np.cumsum(mass[order][::-1])[::-1]
    at_kinks = np.append(np.cumsum((np.diff(r) * tail[1:])[::-1])[::-1], np.longdouble(0.0))
    following = np.minimum(np.searchsorted(r, x.astype(np.longdouble), side="right"), len(r) - 1)
    found = np.where(x < r[-1], at_kinks[following] + np.maximum(r[following] - x, 0.0) * tail[following], np.longdouble(0.0))
    return (found + share * q[~usual].sum()).astype(float)


@functools.lru_cache(maxsize=64)
def largest_coordinate_pair(shift: float, batches: int, is_reversed: bool, without: float = 1.0) -> NodePair:
    """The dominated pair of the module's header; the record is in Q, or in P where it is reversed. `without`: m where it is not."""
    p, q = interval_masses(shift, batches, without), interval_masses(shift, batches, without + 1.0)
    if is_reversed:
        p, q = q, p
    with np.errstate(divide="ignore"):
        ends = [min(float(np.max(np.log(a[1][a[0] > 1e-30]) - np.log(b[0][a[0] > 1e-30] + 1e-300), initial=1e-6)), 600.0)
                for a, b in ((q, p), (p, q))]
    spacing = 2.0 ** math.floor(math.log2(max(max(ends), 1e-250) / _NODES))
    right, left = (spacing * np.arange(min(math.ceil(max(end, spacing) / spacing), 4 * _NODES) + 2) for end in ends)
    return dominated_pair((right, left), sticks(p, q, subdivided(right, _FINER)), sticks(q, p, subdivided(left, _FINER)), _FINER)
