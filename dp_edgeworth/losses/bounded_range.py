"""Selection mechanisms: the exponential mechanism (bounded range) and permute-and-flip, as the worst case of a class.

Bounded range eps_0 (Durfee, Rogers 2019; Dong, Durfee, Rogers 2020): the loss lies in [t - eps_0, t] for some t in [0, eps_0]. Given t
the worst case is the two atoms {t, t - eps_0}; the supremum over t of their profiles is attained at t = (eps + eps_0) / 2:

    H(e^eps) = (1 - e^{(eps - eps_0)/2})^2 / (1 - e^{-eps_0}),   |eps| <= eps_0;  0 above, 1 - e^eps below.

It is the profile of what Laplace noise of shift eps_0 has between its atoms (`laplace_noise.LaplaceInterior`), so it composes; for
many uses the Renyi curve (`renyi_curves.BoundedRangeCurve`) is smaller. Every t is a real mechanism, so from below the two atoms at
some t are a bound.

Permute-and-flip between two candidates: the second best wins with probability e^{-gap}/2, which is the distribution function of
Laplace noise, so one use is a threshold of Laplace noise. The Laplace pair of shift eps_0 dominates (the probability that a set of
candidates wins grows with the shift at most like the Laplace distribution function), and over all gaps the thresholds attain its
profile: for one use it is the worst case. From below: one gap, two outcomes.
"""

from __future__ import annotations

import math

from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.bracket import Bracket
from dp_edgeworth.losses.laplace_noise import LaplaceInterior, LaplaceShift
from dp_edgeworth.losses.renyi_curves import BoundedRangeCurve

_TOPS = (0.5, 0.53, 0.57, 0.63, 0.72, 0.85, 0.95)  # t in units of eps_0; the best one is just above a half for many uses
_GAPS = (0.5, 0.0, 1.0, 0.25, 0.75)


def exponential_mechanism(epsilon: float) -> Bracket:
    """All mechanisms of bounded range 0 < epsilon < inf."""
    members = tuple(_two_atoms(epsilon, share) for share in _TOPS)
    return Bracket(members, LaplaceInterior(epsilon), BoundedRangeCurve(epsilon), attained=True)


def _two_atoms(epsilon: float, share: float) -> Atoms:
    """Losses t and t - eps_0: P-masses a = (1 - e^{t - eps_0}) / (e^t (1 - e^{-eps_0})) and 1 - a, Q-masses e^L times these."""
    top = share * epsilon
    high, low, whole = -math.expm1(top - epsilon), -math.expm1(-top), -math.expm1(-epsilon)
    q_high, p_low = high / whole, low / whole
    return Atoms((q_high * math.exp(-top), p_low), (q_high, p_low * math.exp(top - epsilon)), losses=(top, top - epsilon))


def permute_and_flip(epsilon: float, pair: LaplaceShift) -> Bracket:
    """All uses of permute-and-flip with 0 < epsilon < inf."""
    return Bracket(tuple(_two_candidates(epsilon, share) for share in _GAPS), pair, attained=True)


def _two_candidates(epsilon: float, share: float) -> Atoms:
    """The first candidate wins with probability e^{-share eps_0}/2, with the record 1 - e^{-(1 - share) eps_0}/2."""
    few, rest = 0.5 * math.exp(-share * epsilon), 0.5 * math.exp(-(1.0 - share) * epsilon)
    gain = -0.5 * (math.expm1(-share * epsilon) + math.expm1(-(1.0 - share) * epsilon))
    low = math.log1p(-gain / (1.0 - few)) if rest > 0.25 else math.log(rest) - math.log1p(-few)
    return Atoms((few, 1.0 - few), (1.0 - rest, rest), losses=(math.log1p(gain / few), low))
