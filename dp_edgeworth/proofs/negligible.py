"""Leaves whose losses are too small to matter, beside others that decide: bounds without composing them.

Let Y = R + S under Q, S the sum of the losses of some leaves, none of them infinite, and R that of the rest. With the payoff
h_eps(y) = (1 - e^{eps - y})_+, which lies in [0, 1], increases in y and obeys h_eps(y + s) = h_{eps - s}(y),

    delta_R(eps)  <=  delta(eps)  <=  delta_R(eps - a) + Q(S > a)         for every a >= 0.

Right: where S <= a, h_eps(R + S) <= h_eps(R + a) = h_{eps - a}(R); elsewhere the payoff is at most 1. Left: forgetting the answers of
some leaves is post-processing (or Jensen, as E_Q[e^{-S}] <= 1 and h is convex and increasing in -e^{-y}). For eps(delta) therefore

    eps_R(delta)  <=  eps(delta)  <=  eps_R(delta - q) + a,               q >= Q(S > a).

Three bounds of S, the smallest of which counts:

    every |L_i| <= b_i:   S <= sum b_i surely, so q = 0.
    |L_i| <= b_i, or Gaussian with mu_i = b_i:   with V = sum b_i^2, Q(S > V/2 + sqrt(2 V log(1/q))) <= q. For a Gaussian exactly so.
                          Otherwise E_Q[L] <= b tanh(b/2) <= b^2/2 (randomised response has the largest divergence), and by
                          Hoeffding's lemma L less its mean is sub-Gaussian with variance proxy b^2.
    any other leaf:       L_i <= what is left of it when its largest losses, of probability q / (2 count), are left out
                          (`Pllr.largest_kept`); added to either of the other two.

On the right a leaf may be replaced by one that dominates it, and (P, (1-p) P + p Q) and its reverse are dominated by (P, Q) and its
reverse: hockey-sticks are jointly convex. So a sampled leaf is at most as large as the same leaf without sampling, a mixture of normal
shifts as the largest of them, and a replaced record as two shifts.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from dp_edgeworth.losses.gaussian_noise import GaussianShift, NormalMixture
from dp_edgeworth.losses.operations import Reversed, Subsampled
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.sampled_gaussian import SampledReplacement, SampledWithoutReplacement
from dp_edgeworth.sums.composition import Composition

SHARE = 1e-9  # q in units of delta
_OUTWARD = 1.0 + 1e-9  # rounding of a and of q, generously


class Split(NamedTuple):
    """The leaves that matter, and what the others can add: at most `shift` but with a probability of at most e^log_mass."""

    rest: Composition
    shift: float
    log_mass: float


class _Size(NamedTuple):
    """What a leaf, all its uses together, adds: a bound that is sure, sqrt(V), a bound that holds but with probability q."""

    sure: float
    deviation: float
    likely: float

    def __add__(self, other: _Size) -> _Size:  # type: ignore[override]
        return _Size(self.sure + other.sure, math.hypot(self.deviation, other.deviation), self.likely + other.likely)

    def shift(self, log_mass: float) -> float:
        """The smaller of both bounds; half of q is for the proxies, half for the rest."""
        spread = self.deviation * (0.5 * self.deviation + math.sqrt(2.0 * (math.log(2.0) - log_mass)))
        return min(self.sure, spread + self.likely)


def split(composition: Composition, budget: float, log_mass: float) -> Split | None:
    """Leaves out as many leaves, the smallest first, as shift epsilon by no more than the budget; None if these are none or all."""
    if composition.leaf_count < 2 or not composition.total < 1e300:
        return None
    log_tail = log_mass - math.log(2.0 * composition.total)
    sizes = [(_size(pllr, count, log_tail), pllr) for pllr, count in composition.counts.items() if not pllr.infinite_mass]
    total, left = _Size(0.0, 0.0, 0.0), dict(composition.counts)
    for size, pllr in sorted(sizes, key=lambda entry: entry[0].shift(log_mass)):
        if not (total + size).shift(log_mass) * _OUTWARD <= budget:
            break
        total = total + size
        del left[pllr]
    if not left or len(left) == composition.leaf_count:
        return None
    return Split(Composition(left), total.shift(log_mass) * _OUTWARD, -math.inf if total.sure <= total.shift(log_mass) else log_mass)


def without_sampling(composition: Composition) -> Split | None:
    """Unsampled Gaussians instead of all unbounded losses, and the largest losses of the others; None where it has no such bound."""
    gaussians: dict[Pllr, int] = {}
    shift = 0.0
    for pllr, count in composition.counts.items():
        whole = _whole(pllr)
        if whole is not None:
            gaussians[whole] = gaussians.get(whole, 0) + count
        elif math.isfinite(pllr.supremum):
            shift += count * max(pllr.supremum, 0.0)
        else:
            return None
    return Split(Composition(gaussians), shift * _OUTWARD, -math.inf)


def _whole(pllr: Pllr) -> GaussianShift | None:
    """A Gaussian pair that dominates this pair of normal mixtures, or None."""
    match pllr.inner if isinstance(pllr, Reversed) else pllr:
        case GaussianShift(mu) | Subsampled(GaussianShift(mu), _) | SampledWithoutReplacement(mu, _):
            return GaussianShift(mu)
        case SampledReplacement(mu, _):
            return GaussianShift(2.0 * mu)
        case NormalMixture(shifts, _):
            return GaussianShift(max(shifts))
    return None


def _size(pllr: Pllr, count: float, log_tail: float) -> _Size:
    """Of all uses of a leaf, with or without its sampling, whichever is smaller."""
    own = _plain_size(pllr, count, log_tail)
    sampled = pllr.inner if isinstance(pllr, Reversed) else pllr
    if not isinstance(sampled, Subsampled) or not sampled.inner.mirror or sampled.inner.infinite_mass:
        return own
    whole = _plain_size(sampled.inner, count, log_tail)
    return min(own, whole, key=lambda size: size.shift(log_tail))


def _plain_size(pllr: Pllr, count: float, log_tail: float) -> _Size:
    bound = max(pllr.supremum, -pllr.infimum, 0.0)
    if pllr.gaussian_variance is not None:
        return _Size(math.inf, math.sqrt(count) * max(math.sqrt(pllr.gaussian_variance), 1e-150), 0.0)
    if math.isfinite(bound):
        return _Size(count * bound, math.sqrt(count) * bound, 0.0)
    return _Size(math.inf, 0.0, count * max(pllr.largest_kept(log_tail), 0.0))
