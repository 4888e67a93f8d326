"""Theorem: a composition bounded by an easier one.

A reduction replaces a composition by another one, "the rest", with a shift a >= 0 and a mass q >= 0 such that for every eps

    delta_rest(eps)  <=  delta(eps)  <=  delta_rest(eps - a) + q          (the left side only where `both` is True)

A curve of the rest is then a curve of the whole (`Reduced`; of 1 - delta with q on both sides, as what is left out of a law is missing
there, too). The payoff h_eps(y) = (1 - e^{eps - y})_+ lies in [0, 1], increases in y and
obeys h_eps(y + s) = h_{eps - s}(y); from that:

    truncated          The largest losses, of Q-mass q in all, are left out: E[h; nothing left out] <= E[h] <= E[h; nothing left out]
    + q.
    without_negligible Y = R + S, S the sum of losses of some leaves, none of them infinite. Where S <= a, h_eps(R + S) <= h_{eps -
    a}(R);
                       elsewhere the payoff is at most 1: q = Q(S > a). Left: forgetting the answers of some leaves is post-processing.
    without_sampling   (P, (1-p) P + p Q) and its reverse are dominated by (P, Q) and its reverse (hockey-sticks are jointly convex), a
                       mixture of normal shifts by the largest of them, a replaced record by two shifts; other leaves by their
                       largest loss.

Bounds of S, the smallest of which counts:

    every |L_i| <= b_i:   S <= sum b_i surely, so q = 0.
    |L_i| <= b_i, or Gaussian with mu_i = b_i:   with V = sum b_i^2, Q(S > V/2 + sqrt(2 V log(1/q))) <= q. For a Gaussian exactly so.
                          Otherwise E_Q[L] <= b tanh(b/2) <= b^2/2 (randomised response has the largest divergence), and by
                          Hoeffding's lemma L less its mean is sub-Gaussian with variance proxy b^2.
    any other leaf:       L_i <= what is left of it when its largest losses, of probability q / (2 count), are left out
                          (`Pllr.largest_kept`); added to either of the other two.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from dp_edgeworth.losses.gaussian_noise import GaussianShift, NormalMixture
from dp_edgeworth.losses.operations import Reversed, Subsampled
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.sampled_gaussian import SampledReplacement, SampledWithoutReplacement
from dp_edgeworth.proofs.curve import Curve, LogBounds
from dp_edgeworth.sums.composition import Composition

_OUTWARD = 1.0 + 1e-9  # rounding of a and of q, generously
_RELATIVE = 4e-16  # of eps - a


class Reduction(NamedTuple):
    """The price of a reduction: the rest, the shift a, log q, and whether the rest bounds from below, too."""

    rest: Composition
    shift: float = 0.0
    log_mass: float = -math.inf
    both: bool = True


@dataclasses.dataclass(frozen=True)
class Reduced(Curve):
    """The curve of the whole from a curve of the rest."""

    curve: Curve
    reduction: Reduction

    @property
    def theorem(self) -> str:  # type: ignore[override]
        return self.curve.theorem

    @property
    def tilt(self) -> float:  # type: ignore[override]
        return self.curve.tilt

    @property
    def size(self) -> int:
        return self.curve.size

    def light(self, epsilon: float) -> tuple[float, float]:
        return self.curve.light(epsilon)

    def bounds(self, epsilons: np.ndarray) -> LogBounds:
        eps, shift, log_mass = np.atleast_1d(np.asarray(epsilons, float)), self.reduction.shift, self.reduction.log_mass
        here = self.curve.bounds(eps)
        moved = here if shift == 0.0 else self.curve.bounds(eps - shift - _RELATIVE * (np.abs(eps) + shift))
        nothing = np.full(len(eps), -np.inf)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            if self.complement:
                lower = moved.lower + np.log1p(-np.minimum(np.exp(np.minimum(log_mass - moved.lower, 1.0)), 1.0)) - 1e-15
                upper = np.logaddexp(here.upper, log_mass) + 1e-15 if self.reduction.both else np.zeros(len(eps))
            else:
                upper = np.logaddexp(moved.upper, log_mass) + 1e-15
                lower = here.lower if self.reduction.both else nothing
        lower = np.where(np.isnan(lower), -np.inf, lower)
        return LogBounds(lower, np.clip(here.estimate, lower, upper), upper, here.slope)


def truncated(composition: Composition, log_mass: float) -> Reduction:
    """Without the largest losses, of Q-mass e^{log_mass} in all."""
    return Reduction(composition.truncated(log_mass), 0.0, log_mass)


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


def without_negligible(composition: Composition, budget: float, log_mass: float) -> Reduction | None:
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
    sure = total.sure <= total.shift(log_mass)
    return Reduction(Composition(left), total.shift(log_mass) * _OUTWARD, -math.inf if sure else log_mass)


def without_sampling(composition: Composition) -> Reduction | None:
    """Unsampled Gaussians instead of all unbounded losses, the largest losses of the others; None where a leaf has no such bound."""
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
    return Reduction(Composition(gaussians), shift * _OUTWARD, both=False) if gaussians else None


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
