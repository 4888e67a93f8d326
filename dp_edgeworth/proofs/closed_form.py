"""Theorem: compositions whose delta is a known function of epsilon, at least from some epsilon on.

    Gaussians        all of them together are one
    a single leaf    where its hockey-stick is known
    Laplace noise    near the largest loss: every L_i is mu_i less a deficit, which is 0 with probability 1/2 and has the density
                     e^{-x/2} / 4 up to 2 mu_i. As long as T = sum mu_i - eps <= 2 min mu_i the ends 2 mu_i do not matter, the sum of
                     k deficits that are not 0 is a Gamma variable, and over k ~ Binomial(m, 1/2)

                         delta = 2^-m (1 - e^-T) + int_0^T f(x) (1 - e^{x - T}) dx,    f(x) = 2^{-m-1} e^{-x/2} L_{m-1}^{(1)}(-x/2)

                     with a Laguerre polynomial whose terms are all positive there; the integrand is entire and grows at most like
                     e^{sqrt(2 m x)}, so that 96 Gauss-Legendre nodes are exact to rounding for T <= min(20, 2000 / m).

Charged: a relative error of 4e-12 of the closed form, 32 ulp of 1 where 1 - delta is asked for, and what rounding does inside: a
shift of
epsilon by 32 ulp of epsilon and of the numbers that are subtracted from each other (`scale`). Below the first epsilon for which the
form holds delta is at least what it is there.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable

import numpy as np
from scipy import special

from dp_edgeworth.losses import gaussian_curve
from dp_edgeworth.losses.gaussian_curve import legendre
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.rules import EPSILON
from dp_edgeworth.proofs.curve import Curve, LogBounds
from dp_edgeworth.sums.composition import Composition

_MOST_LAPLACE = 1000  # so that 2^-m is a float
_ERROR = 4e-12
_UNIT = 32.0 * EPSILON
_LOG_LEAST, _LOG_TINY = -746.0, math.log(5e-324)  # less is no float, and not told apart; what underflowed can be this much
_APART = 1e-7  # of epsilon: two points that a slope is read off
_LONGEST_TAIL, _LONGEST_DEFICIT = 2000.0, 20.0
LogFunction = Callable[[np.ndarray], np.ndarray]


@dataclasses.dataclass(frozen=True)
class ClosedForm(Curve):
    """log delta (or log(1 - delta): a negative tilt) as a function of epsilon >= start, and the size of the numbers that it
    subtracts.
    """

    log_function: LogFunction
    scale: float
    start: float = 0.0
    tilt: float = 1.0

    theorem = "closed form"
    whole = True

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")
    def bounds(self, epsilons: np.ndarray) -> LogBounds:
        eps = np.atleast_1d(np.asarray(epsilons, float))
        inside, shift = np.maximum(eps, self.start), _UNIT * (np.abs(eps) + self.scale)
        off = 0.0 if not self.complement else _UNIT
        logs = np.stack([self.log_function(inside + side * shift) for side in (-1.0, 0.0, 1.0)])
        low, middle, high = logs if self.complement else logs[::-1]
        lower = low - _ERROR + np.log1p(-np.minimum(off * np.exp(-low), 1.0))
        upper = np.logaddexp(high + _ERROR, math.log(off) if off else -np.inf)
        if not self.complement:
            upper = np.maximum(upper, np.where(high > -np.inf, _LOG_LEAST, _LOG_TINY))
            lower = np.where(lower < _LOG_LEAST, -np.inf, lower)
        below = eps < self.start - 2.0 * shift
        lower = np.where(below & self.complement, -np.inf, np.nan_to_num(lower, nan=-np.inf, neginf=-np.inf))
        upper = np.where((below & (not self.complement)) | np.isnan(upper), 0.0, np.minimum(upper, 0.0))
        return LogBounds(lower, np.clip(np.nan_to_num(middle, nan=0.0, neginf=-np.inf), lower, upper), upper, self._slope(inside))

    @np.errstate(divide="ignore", invalid="ignore", over="ignore")
    def light(self, epsilon: float) -> tuple[float, float]:
        inside = np.array([max(epsilon, self.start)])
        return float(self.log_function(inside)[0]), float(self._slope(inside)[0])

    def _slope(self, inside: np.ndarray) -> np.ndarray:
        """About d log G / d epsilon, for those who search."""
        apart = _APART * np.maximum(inside, _APART * self.scale)
        return (self.log_function(inside) - self.log_function(np.maximum(inside - apart, self.start))) / apart


def closed_forms(composition: Composition) -> tuple[ClosedForm, ClosedForm] | None:
    """delta and 1 - delta of a composition where they are known, or None."""
    if composition.is_gaussian:
        mu = math.sqrt(composition.gaussian_variance)
        return (ClosedForm(lambda e: gaussian_curve.log_delta(e, mu), mu * mu),
                ClosedForm(lambda e: gaussian_curve.log_complement(e, mu), mu * mu, tilt=-0.5))
    single = composition.single
    if single is not None and single.log_hockey_stick(np.zeros(1)) is not None:
        return _with_complement(lambda e: np.asarray(single.log_hockey_stick(np.maximum(e, 0.0))), single.loss_scale, 0.0)
    if all(type(pllr) is LaplaceShift for pllr in composition.counts) and composition.total <= _MOST_LAPLACE:
        return _laplace_near_top(composition)
    return None


def _with_complement(log_delta: LogFunction, scale: float, start: float) -> tuple[ClosedForm, ClosedForm]:
    def bounded(epsilon: np.ndarray) -> np.ndarray:
        return np.minimum(log_delta(epsilon), 0.0)

    def log_complement(epsilon: np.ndarray) -> np.ndarray:
        return np.log(-np.expm1(bounded(epsilon)))

    return ClosedForm(bounded, scale, start), ClosedForm(log_complement, scale, start, tilt=-0.5)


def _laplace_near_top(composition: Composition) -> tuple[ClosedForm, ClosedForm]:
    """The formula of the module's header."""
    m, top = int(composition.total), composition.supremum
    shortest = min(pllr.mu for pllr in composition.counts)  # type: ignore[attr-defined]
    reach = min(2.0 * shortest, top, _LONGEST_DEFICIT, _LONGEST_TAIL / m)
    x, w = legendre(96)

    def log_delta(epsilon: np.ndarray) -> np.ndarray:
        below = np.clip(top - np.asarray(epsilon, float), 0.0, reach)[..., None]
        nodes = 0.5 * below * (1.0 + x)
        density = 0.5 * np.exp(-0.5 * nodes) * special.eval_genlaguerre(m - 1, 1.0, -0.5 * nodes)
        rest = 0.5 * below * density * -np.expm1(nodes - below)
        return np.log((rest * w).sum(axis=-1) - np.expm1(-below[..., 0])) - m * math.log(2.0)

    return _with_complement(log_delta, top, top - reach)
