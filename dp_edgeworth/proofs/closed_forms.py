"""Compositions whose delta is a known function of epsilon, at least from some epsilon on.

    Gaussians        all of them together are one
    a single leaf    where its hockey-stick is known
    Laplace noise    near the largest loss: every L_i is mu_i less a deficit, which is 0 with probability 1/2 and has the density
                     e^{-x/2} / 4 up to 2 mu_i. As long as T = sum mu_i - eps <= 2 min mu_i the ends 2 mu_i do not matter, the sum of
                     k deficits that are not 0 is a Gamma variable, and over k ~ Binomial(m, 1/2)

                         delta = 2^-m (1 - e^-T) + int_0^T f(x) (1 - e^{x - T}) dx,    f(x) = 2^{-m-1} e^{-x/2} L_{m-1}^{(1)}(-x/2)

                     with a Laguerre polynomial whose terms are all positive there.
    far shifts       sums over hidden coins, up to a small shift of epsilon and a small probability (`far.py`)
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from dp_edgeworth.losses import gaussian_curve
from dp_edgeworth.losses.gaussian_curve import legendre
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.rules import EPSILON
from dp_edgeworth.proofs import far
from dp_edgeworth.sums.composition import Composition

_MOST_LAPLACE = 1000  # so that 2^-m is a float
CLOSED_FORM_ERROR = 4e-12  # relative error allowed for the closed forms
LogFunction = Callable[[np.ndarray], np.ndarray]


class ClosedForm(NamedTuple):
    """log delta and log(1 - delta) as functions of epsilon >= start, and the size of the numbers that they subtract.

    Where delta is known between two functions only, `sides` are these: e^{sides[0]} - dropped[0] <= delta <= e^{sides[1]} + dropped[1].
    """

    log_delta: LogFunction
    log_complement: LogFunction
    scale: float
    start: float = 0.0
    error: float = CLOSED_FORM_ERROR
    sides: tuple[LogFunction, LogFunction] | None = None
    dropped: tuple[float, float] = (0.0, 0.0)

    def rounding(self, epsilons: np.ndarray) -> np.ndarray:
        """What rounding can shift epsilon by: units in the last place of epsilon and of the scale."""
        return 32.0 * EPSILON * (np.abs(epsilons) + self.scale)

    def log_bounds(self, epsilons: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lower bound, estimate and upper bound of log delta."""
        shift, (least, most) = self.rounding(epsilons), self.sides or (self.log_delta, self.log_delta)
        below = least(epsilons + shift) - self.error
        above = most(epsilons - shift if self.sides else np.maximum(epsilons - shift, 0.0)) + self.error
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            less = below + np.log1p(-np.minimum(self.dropped[0] * np.exp(-below), 1.0))
            more = np.logaddexp(above, np.log(self.dropped[1]))
        return np.nan_to_num(less, nan=-np.inf), self.log_delta(epsilons), np.minimum(more, 0.0)


def closed_form(composition: Composition) -> ClosedForm | None:
    """What is known of a composition, or None."""
    if composition.is_gaussian:
        mu = math.sqrt(composition.gaussian_variance)
        return ClosedForm(lambda e: gaussian_curve.log_delta(e, mu), lambda e: gaussian_curve.log_complement(e, mu), mu * mu)
    single = composition.single
    if single is not None and single.log_hockey_stick(np.zeros(1)) is not None:
        return _with_complement(lambda e: np.asarray(single.log_hockey_stick(e)), single.loss_scale, 0.0)
    if all(type(pllr) is LaplaceShift for pllr in composition.counts) and composition.total <= _MOST_LAPLACE:
        return _laplace_near_top(composition)
    return None


def far_form(composition: Composition, log_delta: float, excess: float) -> ClosedForm | None:
    """The sum over hidden coins for delta and 1 - delta not below e^{log_delta}, excesses up to `excess` allowed; or None.

    A variance that is added to others is near epsilon only if it is below 16 digits + 4 epsilon: V/2 - sqrt(2 digits V) <= epsilon.
    """
    form = far.far_form(composition, log_delta, excess)
    if form is None:
        return None
    below, middle, above = (functools.partial(form.log_delta, more, side) for more, side in (
        (form.low, "lower"), (form.middle, "estimate"), (form.high, "upper")))
    known = _with_complement(middle, form.scale + 16.0 * form.digits, 0.0)
    return known._replace(error=CLOSED_FORM_ERROR + form.error, sides=(below, above), dropped=form.dropped)


def _with_complement(log_delta: LogFunction, scale: float, start: float) -> ClosedForm:
    def bounded(epsilon: np.ndarray) -> np.ndarray:
        return np.minimum(log_delta(epsilon), 0.0)

    def log_complement(epsilon: np.ndarray) -> np.ndarray:
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(bounded(epsilon)))

    return ClosedForm(bounded, log_complement, scale, start)


def _laplace_near_top(composition: Composition) -> ClosedForm:
    """The formula of the module's header; the integrand is entire and grows at most like e^{sqrt(2 m x)}."""
    m, top = int(composition.total), composition.supremum
    reach = min(2.0 * min(pllr.mu for pllr in composition.counts), top, 20.0, 2000.0 / m)  # type: ignore[attr-defined]
    x, w = legendre(96)

    def log_delta(epsilon: np.ndarray) -> np.ndarray:
        below = np.clip(top - np.asarray(epsilon, float), 0.0, reach)[..., None]
        nodes = 0.5 * below * (1.0 + x)
        density = 0.5 * np.exp(-0.5 * nodes) * special.eval_genlaguerre(m - 1, 1.0, -0.5 * nodes)
        rest = 0.5 * below * density * -np.expm1(nodes - below)
        with np.errstate(divide="ignore"):
            return np.log((rest * w).sum(axis=-1) - np.expm1(-below[..., 0])) - m * math.log(2.0)

    return _with_complement(log_delta, top, top - reach)


def closed_epsilons(form: ClosedForm, deltas: np.ndarray, most: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Bisection, with the closed form's error added on either side, in whichever of delta and 1 - delta is small.

    Rounding inside the closed form is a shift of epsilon by units in the last place of epsilon and of the scale.
    """
    large = deltas > 0.5
    with np.errstate(divide="ignore"):
        targets = np.where(large, np.log1p(-deltas), np.log(deltas))
    # What is known of delta near 1 is 1 - delta to a few units in the last place of 1; of a sum of many terms, to its relative error.
    off = np.where(large, 32.0 * EPSILON if form.sides is None else form.error, 0.0)
    with np.errstate(divide="ignore"):
        less, more = (np.exp(np.minimum(np.log(dropped + off) - targets, 690.0)) for dropped in form.dropped)
        down = np.where(large, -np.log1p(-np.minimum(less, 1.0)), np.log1p(less))
        up = np.where(large, np.log1p(more), -np.log1p(-np.minimum(more, 1.0)))
    margins = np.stack([-form.error - down, np.zeros(len(deltas)), form.error + up])
    never, always = np.isneginf(margins), np.isposinf(margins)  # errors beyond the target: nothing is proved on that side

    def excess(epsilons: np.ndarray) -> np.ndarray:
        """log delta(epsilon), margin included, less its target; log(1 - delta) the other way round."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if form.sides is not None:
                each = (form.sides[0], form.log_delta, form.sides[1])
                logs = np.stack([side(row) for side, row in zip(each, epsilons, strict=True)])
                found = np.where(large, targets - np.log(-np.expm1(np.minimum(logs, 0.0))), logs - targets) + margins
            else:
                found = (form.log_delta(epsilons) if not large.all() else 0.0) - targets + margins
                if large.any():
                    found = np.where(large, targets - form.log_complement(epsilons) + margins, found)
        found = np.where(never, -1.0, np.where(always, 1.0, found))
        return np.nan_to_num(found, nan=-1.0, posinf=1e300, neginf=-1e300)

    low, high = _crossing(excess, (3, len(deltas)), most)
    lower = np.where(low[0] > 0, np.maximum(low[0] - form.rounding(low[0]), 0.0), 0.0)
    return lower, low[1], np.where(high[2] > 0, high[2] + form.rounding(high[2]), 0.0)


def _crossing(excess: LogFunction, shape: tuple[int, ...], most: float) -> tuple[np.ndarray, np.ndarray]:
    """Ends a < b, equal to 1e-13, of where a decreasing function is > 0 at a and <= 0 at b; (0, 0) where it never is positive."""
    never = excess(np.zeros(shape)) <= 0.0
    exponents_low, exponents_high = np.full(shape, -1075.0), np.full(shape, 1024.0)
    for _ in range(12):  # the binary exponent first, so that every scale costs the same
        middle = np.round(0.5 * (exponents_low + exponents_high))
        positive = excess(np.minimum(np.exp2(np.minimum(middle, 1023.0)), most)) > 0.0
        exponents_low, exponents_high = np.where(positive, middle, exponents_low), np.where(positive, exponents_high, middle)
    low = np.where(exponents_low > -1075.0, np.exp2(np.minimum(exponents_low, 1023.0)), 0.0)
    high = np.where(exponents_high >= 1024.0, math.inf, np.exp2(np.minimum(exponents_high, 1023.0)))
    low, high = _narrowed(excess, np.minimum(low, most), np.minimum(high, most))
    return np.where(never, 0.0, low), np.where(never, 0.0, high)


def _narrowed(excess: LogFunction, low: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The Illinois method, with a bisection every third time for the functions that it does not like."""
    at_low, at_high = excess(low), excess(np.where(np.isfinite(high), high, low))
    for step in range(120):
        wide = high - low > 1e-13 * low
        if not np.any(wide & np.isfinite(high)):
            break
        gap = at_low - at_high
        share = np.clip(np.where(gap > 0.0, at_low / np.where(gap > 0.0, gap, 1.0), 0.5), 1e-3, 1.0 - 1e-3)
        x = low + np.where(np.isfinite(high), (0.5 if step % 3 == 2 else share) * (high - low), 0.0)
        value = excess(x)
        up, down = (value > 0.0) & wide, (value <= 0.0) & wide
        # the end that stays gets half its weight
        at_low = np.where(up, value, np.where(down, 0.5, 1.0) * at_low)
        at_high = np.where(down, value, np.where(up, 0.5, 1.0) * at_high)
        low, high = np.where(up, x, low), np.where(down, x, high)
    return low, high
