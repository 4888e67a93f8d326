"""What all finite-sample bounds are made of: Prawitz's kernel, the cost of smoothing an expansion, special functions.

With Psi(t) = (1/2){1 - t + i[(1 - t) cot(pi t) + 1/pi]} (Prawitz 1972), for any T > 0 and t0 in (0, 1]

    sup |F - E| <= O1 + O2 + O3,   O1 as in `expansion_part`,
    O2 = 2 int_{t0}^1 |Psi(t)| |f(Tt)| dt,   O3 = 2 int_0^{t0} |Psi(t)| |f(Tt) - e(Tt)| dt      [EA] Appendix E.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from dp_edgeworth.losses.gaussian_curve import legendre

Array = npt.NDArray[np.float64]
Envelope = Callable[[Array, Array], Array]

C = 1.0253  # sup of 2 pi t |Psi(t)| is 1.02529
CHI = 0.09916191351477187  # sup_x |cos x - 1 + x^2/2|/x^3, attained at THETA
THETA = 3.995895679077886
UNIVERSAL = 0.5410  # sup |F - Phi| for any F with mean 0 and variance 1 (one-sided Chebyshev)
FAR = 45.0  # beyond it exp(-u^2/2) < 1e-400
SAFETY = 1e-12


def silent(function: Callable[..., float]) -> Callable[..., float]:
    """Overflow means a vacuous bound (infinity), never a warning or NaN."""

    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> float:
        with np.errstate(all="ignore"):
            value = float(function(*args, **kwargs))
        return math.inf if math.isnan(value) else value

    return wrapped


def power_integral(p: int, d: float, low: float, high: float) -> float:
    """W_p = integral of u^(p-1) exp(-d u^2) over [low, high]; d of any sign, infinity where it overflows."""
    if low >= high:
        return 0.0
    a, b = d * low**2, d * high**2
    if a > 1:
        return 0.5 * d ** (-p / 2) * special.gamma(p / 2) * (special.gammaincc(p / 2, a) - special.gammaincc(p / 2, b))
    upper = _lower_power(p, b, high)
    return upper - _lower_power(p, a, low) if np.isfinite(upper) else math.inf


def _lower_power(p: int, x: float, u: float) -> float:
    """Integral of v^(p-1) exp(-x (v/u)^2) over [0, u]."""
    if x > 1:
        return 0.5 * (u / np.sqrt(x)) ** p * special.gamma(p / 2) * special.gammainc(p / 2, x)
    return u**p / p * special.hyp1f1(p / 2, p / 2 + 1, -x) if x > -700 else math.inf  # hyp1f1 hangs at -1e100


def gauss_moment(p: float, u: float) -> float:
    """Integral of v^(p-1) exp(-v^2/2) over [0, u]."""
    return 2 ** (p / 2 - 1) * special.gamma(p / 2) * special.gammainc(p / 2, u**2 / 2)


def gauss_tail(p: int, u: float) -> float:
    """Integral of v^(p-1) exp(-v^2/2) over [u, infinity); E1(u^2/2)/2 for p = 0."""
    if p == 0:
        return special.exp1(u**2 / 2) / 2
    return 2 ** (p / 2 - 1) * special.gamma(p / 2) * special.gammaincc(p / 2, u**2 / 2)


def kernel(t: Array) -> Array:
    """|Psi(t)| on (0, 1), Psi(t) = (1/2){1 - t + i[(1 - t) cot(pi t) + 1/pi]} (Prawitz)."""
    return np.hypot(1 - t, (1 - t) / np.tan(np.pi * t) + 1 / np.pi) / 2


def kernel_remainder(t: Array) -> Array:
    """|Psi(t) - i/(2 pi t)| on (0, 1); the cotangent difference by its series near 0."""
    x = np.pi * t
    c = np.where(t < 0.02, -x / 3 - x**3 / 45, 1 / np.tan(x) - 1 / x)
    return (1 - t) * np.hypot(1, c) / 2


def expansion_modulus(u: Array, coefficients: Mapping[int, float]) -> Array:
    """|e_k|(u) := exp(-u^2/2) (1 + sum_s |c_s| u^s), at least the modulus of e_k."""
    return np.exp(-(u**2) / 2) * (1 + sum(abs(c) * u**s for s, c in coefficients.items()))


def panel_nodes(edges: Array, order: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes on every cell, one row per cell, and the weights for cells of length 1."""
    x, w = legendre(order)
    return edges[:-1, None] + np.diff(edges)[:, None] * (x + 1) / 2, w / 2


def expansion_part(T: float, t0: float, coefficients: Mapping[int, float]) -> float:
    """O1: what smoothing costs the expansion itself. About 1.2534/T.

    2 int_0^t0 |Psi(t) - i/(2 pi t)| |e_k|(T t) dt + (1/pi) int_{T t0}^inf |e_k|(u)/u du.
    """
    edges = np.linspace(0, min(T * t0, FAR), 61)  # analytic integrand
    u, w = panel_nodes(edges, 16)
    near = 2 / T * edges[1] * np.sum(kernel_remainder(u / T) * expansion_modulus(u, coefficients) @ w)
    far = sum(abs(c) * gauss_tail(s, T * t0) for s, c in {0: 1.0, **coefficients}.items())
    return float(near + far / np.pi)
