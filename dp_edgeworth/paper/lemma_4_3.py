"""Moments of independent summands, and [EA] Lemma 4.3: the bound that needs nothing else."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from dp_edgeworth.paper.prawitz_kernel import CHI, SAFETY, C, gauss_moment, power_integral, silent


@dataclass(frozen=True)
class Moments:
    """Standardised average moments of independent summands: what the bounds of this module are functions of.

    With Bbar^2 = variance/m: k_p = (1/m) sum E|X_i - E X_i|^p/Bbar^p, lambda3 the same with the signed cube, and
    k3_tilde = k3 + (1/m) sum E|X_i - E X_i| Var X_i/Bbar^3. `variance` is that of the sum. `skewed` is False only if
    the third central moment of EVERY summand is 0.
    """

    m: float
    variance: float
    k3: float
    k3_tilde: float
    k4: float
    lambda3: float
    skewed: bool = True

    @classmethod
    def of_leaves(cls, count: npt.ArrayLike, *, variance: npt.ArrayLike, third: npt.ArrayLike, fourth: npt.ArrayLike,
                  absolute_third: npt.ArrayLike | None = None, absolute_first: npt.ArrayLike | None = None) -> Moments:
        """Moments of the sum of count[j] independent copies of leaf j, for all j, from central moments of the leaves.

        What is unknown is bounded: E|X|^3 <= sqrt(E X^2 E X^4) (Cauchy-Schwarz) and E|X| <= sqrt(E X^2) per leaf.

        >>> Moments.of_leaves(4, variance=1.0, third=0.0, fourth=1.0).k3_tilde  # four signs, absolute moments unknown
        2.0
        """
        counts, variances, thirds, fourths = (np.atleast_1d(np.asarray(values, float)) for values in (count, variance, third, fourth))
        cubes = np.sqrt(variances * fourths) if absolute_third is None else np.asarray(absolute_third, float)
        firsts = np.sqrt(variances) if absolute_first is None else np.asarray(absolute_first, float)
        m, total = counts.sum(), (counts * variances).sum()
        bar = np.sqrt(total / m)
        k3, k4, tilde, lambda3 = (
            float((counts * raw).sum() / m / bar**power)
            for raw, power in ((cubes, 3), (fourths, 4), (cubes + firsts * variances, 3), (thirds, 3))
        )
        return cls(float(m), float(total), k3, tilde, k4, lambda3, bool(np.any(thirds != 0)))

    def arguments(self) -> dict[str, Any]:
        """Keyword arguments of `lemma_4_3`."""
        names = ("k3", "k3_tilde", "k4", "lambda3", "skewed")
        return {name: getattr(self, name) for name in names}


@silent
def lemma_4_3(m: float, *, k3: float, k3_tilde: float, k4: float, lambda3: float, skewed: bool = True) -> float:
    """Delta_1 for independent summands, from moments only: [EA] Lemma 4.3 with remainder r_1 at its epsilon = 0.1.

    0.1995 K3~/sqrt m + (0.031 K3~^2 + 0.195 K4 + 0.054 |lambda3| K3~ + 0.038 lambda3^2)/m + r_1.
    Departs from [EA]: in r_1 the term with exp(-2m^2/K3~^4) is replaced by its proved value, the weight in the
    integral of R_1 is 1/u, the integrals with f_S are bounded, and the omitted choice of T and t0 is filled in.
    `skewed=False` asserts that every summand has third central moment 0; lambda3 is then ignored. The value is that
    of the formula even where it is vacuous (above 1); infinity where it overflows.
    """
    # Of the standardised sum: the formula sees m only through these.
    root = np.sqrt(m)
    k3, tilde, k4, skew = k3 / root, k3_tilde / root, np.float64(k4 / m), abs(lambda3) / root if skewed else np.float64(0)
    high = 2 / tilde
    low = min(math.sqrt(0.2) / k4**0.25, high)
    main = 0.1995 * tilde + 0.031 * tilde**2 + 0.195 * k4 + 0.054 * skew * tilde + 0.038 * skew**2
    smoothing = 81.2376 * (tilde / (2 * np.pi)) ** 4 + 4.3394 * skew * (tilde / (2 * np.pi)) ** 3
    d = (1 - 4 * CHI - np.sqrt(k4)) / 2  # sqrt(K4/m) bounds the largest share of a summand in the variance
    middle = C / (6 * np.pi) * (k3 * power_integral(3, d, low, high) + skew * power_integral(3, 0.5, low, high))
    return (main + smoothing + middle + C / np.pi * _r1_integral(k4, skew, skewed, low)) * (1 + SAFETY)


def _r1_integral(k4: float, skew: float, skewed: bool, a: float, eps: float = 0.1) -> float:
    """Integral of exp(-u^2/2) R_1(u)/u over [0, a] ([EA] Appendix E): a sum of incomplete Gamma functions."""
    root, on = math.sqrt(2 * eps), float(skewed)
    p1 = (144 + 48 * eps + 4 * eps**2 + on * (96 * root + 32 * eps + 8 * root**3)) / 576
    c1 = 1 / 24 + p1 / (2 * (1 - 3 * eps) ** 2)
    e1 = math.exp(eps**2 * (1 / 6 + 2 * p1 / (1 - 3 * eps) ** 2))
    half = 1 / (2 * (1 - 3 * eps) ** 2)
    powers = {
        5: half * on * k4**1.25 / 6,
        6: half * k4**1.5 * (1 / 24 + on / 36),
        7: half * on * k4**1.75 / 72 + e1 * skew * k4 * c1 / 6,
        8: half * k4**2 / 576 + e1 * k4**2 * c1**2 / 2,
    }
    return float(sum(c * gauss_moment(p, a) for p, c in powers.items()))
