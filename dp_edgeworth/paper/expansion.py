"""Edgeworth expansions of any order, and the two estimates of delta(epsilon) made from them.

`plain_delta` is the AEA of [EA]: X and Y expanded around their means; one error is multiplied by e^epsilon.
`tilted_log_delta` expands Y tilted by e^{cY} around the tilted mean: a small relative error near that mean.

Both are estimates, not bounds; both are exact at every order for Gaussian losses.

Notation: kappa_r is the r-th cumulant of the SUM of the losses, rho_r = kappa_r / kappa_2^{r/2}, phi and Phi
are the standard normal density and distribution function, He_n is the probabilists' Hermite polynomial.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from scipy import special

from dp_edgeworth import validation
from dp_edgeworth.losses.gaussian_curve import LOG_SQRT_2PI, legendre

FloatArray = npt.NDArray[np.float64]

_FAR = 1e150  # stands for infinity where a square must not overflow


class Term(NamedTuple):
    """One term of (Phi - E_k) / phi: coefficient * prod_i rho_{i+2}^{exponents[i-1]} * He_degree."""

    coefficient: float
    exponents: tuple[int, ...]
    degree: int


def _partitions(total: int, largest: int) -> Iterator[tuple[int, ...]]:
    """Multiplicities (k_1, ..., k_largest) with sum_i i k_i = total."""
    if largest == 0:
        yield from [()] if total == 0 else []
        return
    for multiplicity in range(total // largest + 1):
        for rest in _partitions(total - multiplicity * largest, largest - 1):
            yield (*rest, multiplicity)


@functools.lru_cache
def partition_terms(order: int) -> tuple[Term, ...]:
    """The terms of the Edgeworth expansion of any order.

        E_k = Phi - phi sum_{r=1..k} sum_{sum_i i k_i = r} prod_i (rho_{i+2} / (i+2)!)^{k_i} / k_i! He_{s-1},
        s = sum_i (i+2) k_i                                                         [EA] Definition 4.8

    Departs from [EA]: partitions are of r (printed: of m), and rho is made of the cumulants of the sum, which
    contains the powers of m; as printed, E_1 is no better than the central limit theorem.

    >>> partition_terms(1)
    (Term(coefficient=0.16666666666666666, exponents=(1,), degree=2),)
    """
    terms = []
    for r in range(1, validation.integer("order", order, 0) + 1):
        for exponents in _partitions(r, r):
            factors = (math.factorial(k) * math.factorial(i) ** k for i, k in enumerate(exponents, 3))
            terms.append(Term(1 / math.prod(factors), exponents, r + 2 * sum(exponents) - 1))
    return tuple(terms)


def _first_cumulants(name: str, cumulants: npt.ArrayLike, order: int) -> FloatArray:
    """kappa_1, ..., kappa_{order+2}: all that the expansion of this order uses."""
    needed = validation.integer("order", order, 0) + 2
    result = np.asarray(cumulants, dtype=np.float64)
    if result.ndim == 0 or len(result) < needed:
        raise ValueError(f"`{name}` must hold {needed} cumulants or more for order {order}. Found {cumulants!r}.")
    validation.array_in(name, result[:2], -1e300, 1e300)
    return result[:needed]


@np.errstate(all="ignore")
def edgeworth_coefficients(cumulants: npt.ArrayLike, order: int) -> FloatArray:
    """Hermite coefficients of the survival function of the standardised sum.

        1 - E_k(x) = Phi(-x) + phi(x) sum_n a_n He_n(x)                             [EA] Definition 4.8

    Args:
      cumulants: kappa_1, ..., kappa_{order+2} of the sum, along the first axis. More are ignored.
      order: k >= 0.

    Returns:
      a_0, ..., a_{3k-1} along the first axis; zero for order 0 and for a law without variance.

    >>> edgeworth_coefficients([0.0, 4.0, 2.4], order=1)
    array([0.  , 0.  , 0.05])
    """
    kappa = _first_cumulants("cumulants", cumulants, order)
    spread = np.sqrt(np.maximum(kappa[1], 0.0))
    # Dividing twice: neither power overflows where the cumulant itself did not.
    rho = [kappa[r - 1] / spread ** (r // 2) / spread ** (r - r // 2) for r in range(3, order + 3)]
    result = np.zeros((max(3 * order, 1), *kappa.shape[1:]))
    for coefficient, exponents, degree in partition_terms(order):
        powers = [rho[i] ** k for i, k in enumerate(exponents) if k]
        result[degree] += coefficient * functools.reduce(np.multiply, powers)
    return np.where(spread > 0, result, 0.0)


def edgeworth_density_coefficients(cumulants: npt.ArrayLike, order: int) -> FloatArray:
    """Hermite coefficients of the density of the standardised sum: E_k'(x) = phi(x) (1 + sum_n b_n He_n(x)).

    b_0 = 0 and b_n = a_{n-1} of `edgeworth_coefficients`, because (phi He_{n-1})' = -phi He_n.
    """
    a = edgeworth_coefficients(cumulants, order)
    return np.concatenate([np.zeros((1, *a.shape[1:])), a])


def _hermite_integrals(shift: FloatArray, rate: FloatArray, gap: FloatArray | float, degree: int) -> tuple[FloatArray, FloatArray]:
    """scale and J_0, ..., J_degree with

        e^scale J_n = int_0^inf e^{-rate z} (1 - e^{-gap z}) phi(shift + z) He_n(shift + z) dz.

    The closed form (by parts in n, down to erfcx) cancels like rate^n, and once more when the gap is small.
    The integrand is entire and its width is known, so two Gauss-Legendre panels, split at the knee where
    e^{-gap z} has died out, are exact to rounding instead.
    """
    reach = 40 + 2.2 * degree  # e^{-reach} z^degree is beyond rounding
    gap = np.broadcast_to(np.minimum(gap, 1e300), shift.shape)  # finite, for z = 0
    slope = shift + rate
    peak, rise = np.maximum(-slope, 0.0), np.maximum(slope, 0.0)
    start = np.maximum(peak - math.sqrt(2 * reach), 0.0)
    end = peak + 2 * reach / (rise + np.hypot(rise, math.sqrt(2 * reach)))
    edges = np.stack([start, np.clip(40 / gap, start, end), end])[..., None]
    nodes, weights = legendre(48 + degree)
    z = edges[:-1] + np.diff(edges, axis=0) * (nodes + 1) / 2
    slope, peak = slope[:, None], peak[:, None]
    log_weight = np.where(slope < 0, -0.5 * (z - peak) ** 2, -z * (slope + z / 2))
    mass = np.diff(edges, axis=0) * weights / 2 * np.exp(log_weight) * -np.expm1(-gap[:, None] * z)
    x = shift[:, None] + z
    previous, current, integrals = np.zeros_like(x), np.ones_like(x), []
    for n in range(degree + 1):
        integrals.append(np.sum(mass * current, axis=(0, 2)))
        previous, current = current, x * current - n * previous
    scale = np.where(slope[:, 0] < 0, rate * (rate / 2 + shift), -0.5 * shift**2) - LOG_SQRT_2PI
    return scale, np.stack(integrals)


def _log_hermite_sum(x: FloatArray, name: str, kappa: FloatArray, order: int) -> tuple[FloatArray, FloatArray]:
    """log |sum_n a_n He_n(x)| and the sign of the sum, by He_n(x) / max(1, |x|)^n: no overflow."""
    a = edgeworth_coefficients(kappa, order)
    if not np.all(np.isfinite(a)):
        raise ValueError(f"`{name}` must have an expansion of order {order} within floats. Found {kappa!r}.")
    size, total, previous, current = np.maximum(np.abs(x), 1.0), 0.0 * x, 0.0 * x, 0.0 * x + 1
    for n, coefficient in enumerate(a):
        total = total + coefficient * current * size ** float(n + 1 - len(a))
        previous, current = current, x / size * current - n / size / size * previous
    return (len(a) - 1) * np.log(size) + np.log(np.abs(total)), np.sign(total)


def _standardised(epsilon: FloatArray, kappa: FloatArray) -> FloatArray:
    """(epsilon - kappa_1) / sqrt(kappa_2); without variance, the far end on the side that makes it a step."""
    x = np.clip((epsilon - kappa[0]) / np.sqrt(np.maximum(kappa[1], 0.0)), -_FAR, _FAR)
    return np.where(kappa[1] > 0, x, np.where(kappa[0] > epsilon, -_FAR, _FAR))


def _close_normal_terms(x: FloatArray, y: FloatArray, epsilon: FloatArray, x_kappa: FloatArray,
                        y_kappa: FloatArray) -> tuple[FloatArray, ...]:
    """Logs and signs of [M(y) - M(x)] and -(e^d - 1) M(x), and d = log(e^epsilon phi(x) / phi(y)).

    M(x) = Phi(-x) / phi(x); the two add up to the normal part of delta over phi(y) without cancelling.
    x - y is not formed from x and y, which may agree in most digits.
    """
    x_spread, y_spread = np.sqrt(x_kappa[1]), np.sqrt(y_kappa[1])
    gap = (y_kappa[0] - x_kappa[0] + y * (y_kappa[1] - x_kappa[1]) / (x_spread + y_spread)) / x_spread
    d = epsilon - gap * (x + y) / 2
    low = np.where(gap < 0, x, y)
    scale, difference = _hermite_integrals(low, np.zeros_like(low), np.abs(gap), 0)
    log_mills = np.log(math.sqrt(math.pi / 2) * special.erfcx(x / math.sqrt(2)))
    first = np.log(difference[0]) + scale + 0.5 * low * low + LOG_SQRT_2PI
    second = np.maximum(d, 0.0) + np.log(-np.expm1(-np.abs(d))) + log_mills
    return first, second, np.sign(gap), -np.sign(d), d


@np.errstate(all="ignore")
def plain_delta(epsilon: npt.ArrayLike, x_cumulants: npt.ArrayLike, y_cumulants: npt.ArrayLike, order: int) -> FloatArray:
    """The approximate Edgeworth accountant (AEA) of one direction, not clipped to [0, 1].

        delta(eps) = 1 - G_Y(eps) - e^eps (1 - G_X(eps)),  G(eps) = E_k((eps - kappa_1) / sqrt(kappa_2))
                                                                        [EA] Definitions 4.1, 4.6 and 4.8

    Args:
      epsilon: a number or an array.
      x_cumulants: kappa_1, ..., kappa_{order+2} of the sum of the X; variance 0 means a constant.
      y_cumulants: the same for the Y.
      order: k >= 0; 0 is the central limit theorem.

    Returns:
      delta, accurate relative to the largest of its terms; beyond the floats, about 1.8e308 with its sign.

    >>> round(float(plain_delta(1.0, [-0.5, 1.0, 0.0], [0.5, 1.0, 0.0], order=1)), 10)  # a Gaussian
    0.1269367375
    """
    eps = validation.array_in("epsilon", epsilon, -math.inf, math.inf).ravel()
    x_kappa = _first_cumulants("x_cumulants", x_cumulants, order)
    y_kappa = _first_cumulants("y_cumulants", y_cumulants, order)
    x, y = _standardised(eps, x_kappa), _standardised(eps, y_kappa)
    x_log, x_sign = _log_hermite_sum(x, "x_cumulants", x_kappa, order)
    y_log, y_sign = _log_hermite_sum(y, "y_cumulants", y_kappa, order)
    x_density, y_density = eps - 0.5 * x * x - LOG_SQRT_2PI, -0.5 * y * y - LOG_SQRT_2PI
    close = (np.minimum(x, y) >= -1) & (np.maximum(x, y) <= 1e8) & (x_kappa[1] > 0) & (y_kappa[1] > 0)
    near = _close_normal_terms(np.clip(x, -1, 1e8), np.clip(y, -1, 1e8), eps, x_kappa, y_kappa)
    apart = (special.log_ndtr(-y), eps + special.log_ndtr(-x), 1.0, -1.0, x_density)
    first, second, first_sign, second_sign, x_density = (np.where(close, *pair) for pair in zip(near, apart, strict=True))
    logs = np.stack([first, second, y_log + np.where(close, 0.0, y_density), x_log + x_density])
    top = np.maximum(np.max(logs, axis=0), -_FAR)
    total = np.sum(np.stack([first_sign, second_sign, y_sign, -x_sign]) * np.exp(logs - top), axis=0)
    log_size = np.log(np.abs(total)) + top + np.where(close, y_density, 0.0)
    delta = np.sign(total) * np.exp(np.minimum(log_size, math.log(np.finfo(np.float64).max)))
    return np.where(eps == math.inf, 0.0, delta).reshape(np.shape(epsilon))[()]


def _combination(b: FloatArray, integrals: FloatArray) -> FloatArray:
    """I_0 + sum_n b_n I_n, elementwise over epsilon."""
    return integrals[0] + np.sum(b[1:] * integrals[1 : len(b)], axis=0)


class _Tilted(NamedTuple):
    """What the tilted estimates of every order share; arrays over epsilon."""

    log_factor: FloatArray  # K(c) - c eps
    log_mass: FloatArray  # K(c) - c K'(c) + c^2 K''(c) / 2
    shift: FloatArray  # (eps - K'(c)) / sqrt(K''(c))
    rate: FloatArray  # c sqrt(K''(c))
    spread: FloatArray  # sqrt(K''(c))


def _complements(law: _Tilted, densities: list[FloatArray], uppers: list[FloatArray]) -> list[FloatArray]:
    """The logs for c <= 0, order by order; not finite where delta is not in (0, 1).

    1 - lost = upper - (M - 1), where upper is the formula for c > 0 and the expansion's total mass is
    M = e^{K - c K' + c^2 K''/2} (1 + sum_n b_n (-rate)^n), not quite 1. The side with small terms is used.
    """
    n = np.arange(len(densities[-1]))[:, None]
    above_scale, above = _hermite_integrals(law.shift, law.rate + law.spread, math.inf, len(n) - 1)
    below_scale, below = _hermite_integrals(-law.shift, -law.rate, math.inf, len(n) - 1)
    powers, below = (-law.rate) ** n, below * (-1.0) ** n
    results = []
    for b, upper in zip(densities, uppers, strict=True):
        lost = np.exp(law.log_factor + above_scale) * _combination(b, above)
        lost = lost + np.exp(law.log_factor + below_scale) * _combination(b, below)
        series = np.sum(b[1:] * powers[1 : len(b)], axis=0)
        excess = np.expm1(law.log_mass) + np.exp(law.log_mass) * series
        direct = np.where(lost >= 0, np.log1p(-lost), np.nan)
        small = np.abs(excess) + np.exp(upper) < 1
        results.append(np.where(small, np.log(np.exp(upper) - excess), direct))
    return results


@np.errstate(all="ignore")
def tilted_log_delta(epsilon: npt.ArrayLike, tilt: npt.ArrayLike, log_mgf: npt.ArrayLike,
                     tilted_cumulants: npt.ArrayLike, order: int) -> FloatArray:
    """log of the tilted Edgeworth estimate of delta(eps), never above 0.

    With K(c) = log E e^{cY}, and f_c the density of Y tilted by e^{cY - K(c)}, for any c

        delta(eps) = e^{K(c) - c eps} int_0^inf (e^{-cu} - e^{-(c+1)u}) f_c(eps+u) du
                   = 1 - e^{K(c) - c eps} int_0^inf [e^{-(c+1)u} f_c(eps+u) + e^{cu} f_c(eps-u)] du,

    the first used for c > 0, the second for c <= 0, with the density of E_k ([EA] Definition 4.8) around
    K'(c) for f_c. Best at the saddle point K'(c) = eps, which c need not solve exactly.
    Departs from [EA], which does not tilt.

    Args:
      epsilon: a number or an array.
      tilt: c >= -1, broadcast with epsilon.
      log_mgf: K(c), likewise.
      tilted_cumulants: K'(c), K''(c), ..., order + 2 derivatives or more along the first axis.
      order: k >= 0. Where it gives no probability, the highest lower order that does is used; the last
        resort, the first formula at order 0, is always positive.

    Returns:
      log delta; -inf where delta is 0.

    >>> round(float(tilted_log_delta(1.0, 0.5, 0.375, [1.0, 1.0], order=0)), 10)  # the same Gaussian
    -2.0640664465
    """
    kappa = _first_cumulants("tilted_cumulants", tilted_cumulants, order)
    eps = validation.array_in("epsilon", epsilon, -math.inf, math.inf)
    c = validation.array_in("tilt", tilt, -1, 1e300)
    log_m = validation.array_in("log_mgf", log_mgf, -math.inf, math.inf)
    shape = np.broadcast_shapes(eps.shape, c.shape, log_m.shape, kappa.shape[1:])
    eps, c, log_m, *rows = (np.broadcast_to(row, shape).ravel() for row in (eps, c, log_m, *kappa))
    mean, spread = rows[0], np.sqrt(np.maximum(rows[1], 0.0))
    shift = np.clip((eps - mean) / np.where(spread > 0, spread, 1.0), -_FAR, _FAR)
    law = _Tilted(log_m - c * eps, log_m - c * mean + (c * spread) ** 2 / 2, shift, c * spread, spread)
    densities = [edgeworth_density_coefficients(rows, k) for k in range(order + 1)]
    scale, integrals = _hermite_integrals(shift, law.rate, spread, len(densities[-1]) - 1)
    uppers = estimates = [law.log_factor + scale + np.log(_combination(b, integrals)) for b in densities]
    if np.any(c <= 0):
        complements = _complements(law, densities, uppers)
        estimates = [np.where(c > 0, *pair) for pair in zip(uppers, complements, strict=True)]
    result = functools.reduce(lambda low, high: np.where(np.isfinite(high), high, low), estimates, uppers[0])
    point_mass = np.where(mean > eps, log_m - c * mean + np.log(-np.expm1(eps - mean)), -math.inf)
    result = np.where(eps == math.inf, -math.inf, np.where(spread > 0, result, point_mass))
    # Where input is so extreme that even order 0 is NaN, fmin answers delta = 1.
    return np.fmin(result, 0.0).reshape(shape)[()]
