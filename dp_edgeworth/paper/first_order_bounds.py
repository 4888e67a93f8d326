"""The re-derived bounds of the first-order expansion from moments, without and with smoothness.

They start from the same inequalities as [EA] Lemma 4.3 and bound every integral from above, in closed form or over
cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np

from dp_edgeworth.losses.gaussian_curve import legendre
from dp_edgeworth.paper.lemma_4_3 import StandardSum, standard_sum
from dp_edgeworth.paper.prawitz_kernel import (
    CHI,
    FAR,
    HUGE,
    SAFETY,
    SLOPE,
    THETA,
    TINY,
    UNIVERSAL,
    Array,
    C,
    exp1_difference,
    expansion_part,
    kernel,
    numbers,
    panel_nodes,
    power_integral,
    silent,
)

_CELLS = 2500


@silent
def sharp(
    m: float, *, k3: float, k3_tilde: float, k4: float, lambda3: float, skewed: bool = True, iid: bool = False
) -> float:
    """Delta_1 without any smoothness assumption: the smallest of a Prawitz integral, its closed form and the trivial.

    With T = 2 pi sqrt m/K3~: O1(T) + 2 int_{1/pi}^1 |Psi(t)| exp(-psi(Tt)) dt + 2 int_0^{1/pi} |Psi(t)| D(Tt) dt,
    where D is the least of three proved bounds of |f_S - e_1|. Both integrals are sums of cell-wise upper bounds
    (`_cell_sum`). `iid=True` asserts identical summands, `skewed=False` third central moments that are all 0
    (lambda3 is then ignored). Trivial: 0.5410 + |lambda3| phi(0)/(6 sqrt m), so the value may exceed 0.5410.

    >>> bool(0.0039894 < sharp(10**4, k3=1, k3_tilde=2, k4=1, lambda3=0, skewed=False, iid=True) < 0.00402)  # signs
    True
    """
    s = standard_sum(m, k3, k3_tilde, k4, lambda3, skewed, iid)
    T = 2 * np.pi / s.tilde
    closed = 1.2187 / T**2 + 67.0415 / T**4
    integral = expansion_part(T, 1 / np.pi, s.coefficients()) + min(closed, _far_cells(s, T))
    integral += _near_part(s, T, T / np.pi)
    formula = 0.3334 * s.skew / T + 1.2534 / T + 14.1962 / T**4 + 4.3394 * s.skew / T**3 + closed
    formula += min(_closed_near(s, parameter, T / np.pi) for parameter in _closed_parameters(s))
    return min(_trivial(s), (1 + SAFETY) * integral, (1 + SAFETY) * formula)


@silent
def berry_esseen(
    m: float, *, k3: float, k3_tilde: float, k4: float, lambda3: float, skewed: bool = True, iid: bool = False
) -> float:
    """sup_x |F(x) - Phi(x)| <= `sharp` + |lambda3| phi(0)/(6 sqrt m), and never above 0.5410."""
    s = standard_sum(m, k3, k3_tilde, k4, lambda3, skewed, iid)
    first_order = sharp(m, k3=k3, k3_tilde=k3_tilde, k4=k4, lambda3=lambda3, skewed=skewed, iid=iid)
    return min(UNIVERSAL, first_order + _trivial(s) - UNIVERSAL)


@silent
def sharp_smooth(
    m: float,
    *,
    k3: float,
    k3_tilde: float,
    k4: float,
    lambda3: float,
    skewed: bool = True,
    iid: bool = False,
    cf_integral: Callable[[float, float], float],
    truncations: Iterable[float] | None = None,
) -> float:
    """Delta_1 for summands whose cf is small far out: of order 1/m. The least over T of two forms, and the trivial.

    O1(T) + int_0^a (2/T)|Psi(u/T)| D(u) du + (tails of e_1 beyond a) + (C/pi) int_a^T |f_S(u)|/u du,
    a = min(3.9959 sqrt m/K3~, T/pi), and its closed form. Needs no identical laws ([EA] Appendix E says it does).

    Args:
      m, k3, k3_tilde, k4, lambda3, skewed, iid: as in `sharp`.
      cf_integral: (a, b) -> an upper bound of int_a^b |f_S(u)|/u du, f_S the cf of the STANDARDISED sum. Called once
        per T with b = T; for example `functools.partial(envelope_integral, leaf_envelope(...))`.
      truncations: the values of T to try, any positive numbers. By default [EA]'s T = (2 pi sqrt m/K3~)^4 only.
    """
    s = standard_sum(m, k3, k3_tilde, k4, lambda3, skewed, iid)
    default = np.clip((2 * np.pi / s.tilde) ** 4, TINY, HUGE)
    candidates = np.atleast_1d(default if truncations is None else numbers("truncations", list(truncations), TINY))
    return min(_trivial(s), *((1 + SAFETY) * _smooth_at(s, T, cf_integral) for T in candidates))


def _smooth_at(s: StandardSum, T: np.float64, cf_integral: Callable[[float, float], float]) -> float:
    """`sharp_smooth` for one T."""
    a, first, end = min(THETA / s.tilde, T / np.pi), 2 / s.tilde, T / np.pi
    common = expansion_part(T, 1 / np.pi, s.coefficients()) + C / np.pi * float(cf_integral(float(a), float(T)))
    cells = _near_part(s, T, a) + exp1_difference(1, a, end) + _skew_part(s, a, end)
    if end < first:
        return float(common + cells)
    closed = min(_closed_near(s, parameter, first) for parameter in _closed_parameters(s))
    closed += exp1_difference(SLOPE, first, a) + exp1_difference(1, first, end) + _skew_part(s, first, end)
    return float(common + min(cells, closed))


def _trivial(s: StandardSum) -> float:
    """|F - E_1| <= |F - Phi| + |E_1 - Phi|, whatever F. (1 would be no bound: E_1 may leave [0, 1].)"""
    return float(UNIVERSAL + s.skew / (6 * math.sqrt(2 * math.pi)))


def _skew_part(s: StandardSum, low: float, high: float) -> float:
    """Bound of the skewness term of e_1 in O3 over [low, high]."""
    return float(C / (6 * np.pi) * s.skew * power_integral(3, 0.5, low, high))


def _closed_parameters(s: StandardSum) -> list[tuple[float, float, float]]:
    """(u*, c, w0) with |f_S - e_1| <= exp(-u^2/2) (lambda3^2 u^6/(72 m) + c u^4 exp(w0)) for u <= u*; any is valid."""
    if not s.iid:
        grid = np.linspace(0.01, 0.99, 99)
        c = 1 / 24 + 1 / (8 * (1 - grid))
        return list(zip(np.sqrt(2 * grid) / s.k4**0.25, s.k4 * c, 4 * grid**2 * c, strict=True))
    grid = np.geomspace(1e-4, 30, 120)
    u = np.minimum((grid / (s.k4 / 24 + s.squares / 4)) ** 0.25, 1 / np.sqrt(s.share))
    c = s.k4 / 24 + s.squares / (8 * (1 - u**2 * s.share / 2))
    return list(zip(u, c, c * u**4, strict=True))


def _closed_near(s: StandardSum, parameter: tuple[float, float, float], high: float) -> float:
    """O3 over [0, high] in closed form, high <= 2/tilde: local bound up to u*, telescoping or moduli beyond."""
    u_star, c, w0 = parameter
    a = min(u_star, high)
    local = C / np.pi * (2 * c * np.exp(w0) + s.skew**2 / 9)
    d = (1 - s.share) * (1 - 4 * CHI) / 2 if s.iid else (1 - 4 * CHI - s.share) / 2
    c3, c4 = _telescoping(s)
    telescoped = C / np.pi * (c3 * power_integral(3, d, a, high) + c4 * power_integral(4, d, a, high))
    moduli = exp1_difference(1 - 4 * CHI, a, high) + exp1_difference(1, a, high)
    return float(local + min(telescoped, moduli) + _skew_part(s, a, high))


def _telescoping(s: StandardSum) -> tuple[float, float]:
    """Coefficients of u^3 and u^4 in the bound of |f_S(u) - exp(-u^2/2)| (Tyurin); one of them is 0."""
    if s.skewed:
        return float(s.k3 / 6), 0.0
    return 0.0, float(s.k4 / 24 + s.squares / 8 if s.iid else s.k4 / 6)


def _near_part(s: StandardSum, T: float, high: float) -> float:
    """O3 = int_0^high (2/T) |Psi(u/T)| D(u) du, high <= THETA/tilde, bounded from above.

    Up to `low` D <= skew^2 u^6/72 + 1.01 (K4/m)(1/6) u^4; then cells in log u, where every D_i is the exponential of
    a function with second derivative at least -2u^2 (sums of such are again such); beyond FAR closed form.
    """
    low, top = 1e-3 * min(1.0, high, s.k4**-0.25), min(high, FAR)
    edges = np.linspace(np.log(low), np.log(top), _CELLS + 1)
    u = np.exp(edges)
    x, w = panel_nodes(edges, 3)
    weight = 2 * np.exp(x) / T * kernel(np.exp(x) / T) * w
    slack = np.diff(edges) ** 2 / 8 * 2 * u[1:] ** 2
    cells = np.min([_cell_sum(exponent, slack, weight) for exponent in _log_differences(s, u)], axis=0)
    below = C / np.pi * (s.skew**2 * low**6 / 432 + 1.01 * s.k4 * low**4 / 24)
    beyond = exp1_difference(SLOPE, top, high) + exp1_difference(1, top, high) + _skew_part(s, top, high)
    return float(below + np.sum(cells) * (edges[1] - edges[0]) * (1 + 1e-8) + beyond)


def _far_cells(s: StandardSum, T: float) -> float:
    """O2 = 2 int_{1/pi}^1 |Psi(t)| exp(-psi(Tt)) dt for T = 2 pi/tilde from above; psi'' <= 1."""
    edges = np.linspace(1 / np.pi, 1, _CELLS + 1)
    t, w = panel_nodes(edges, 3)
    slack = np.full(_CELLS, (T * (edges[1] - edges[0])) ** 2 / 8)
    return float(2 * (edges[1] - edges[0]) * np.sum(_cell_sum(-s.psi(T * edges), slack, kernel(t) * w)) * (1 + 1e-8))


def _cell_sum(exponent: Array, slack: Array, weight: Array) -> Array:
    """Per cell, an upper bound of the mean of weight * exp(exponent), the exponent being known at the edges.

    If exponent'' >= -M on a cell of length h, it is at most its chord + M h^2/8 =: chord + slack. The integrand of
    the chord is analytic; three nodes on a cell leave a relative error below the 1e-8 that the callers add.
    """
    position = (legendre(weight.shape[1])[0] + 1) / 2
    chord = exponent[:-1, None] * (1 - position) + exponent[1:, None] * position
    return np.sum(weight * np.exp(chord + slack[:, None]), axis=1)


def _log_differences(s: StandardSum, u: Array) -> tuple[Array, Array, Array]:
    """Logarithms of D1 (local), D2 (telescoping), D3 (moduli), each at least |f_S(u) - e_1(u)|."""
    gauss, psi = -(u**2) / 2, s.psi(u)
    v = u**2 * s.share / 2
    w = np.where(v < 1, u**4 * (s.k4 / 24 + s.squares / (8 * np.where(v < 1, 1 - v, 1))), np.inf)
    local = gauss + np.logaddexp(np.log(s.skew**2 * u**6 / 72), np.log(w) + w)
    c3, c4 = _telescoping(s)
    decay = -(1 - s.share) * psi if s.iid else v - psi
    telescoped = np.logaddexp(np.log(c3 * u**3 + c4 * u**4) + decay, np.log(s.skew * u**3 / 6) + gauss)
    return local, telescoped, np.logaddexp(-psi, gauss + np.log1p(s.skew * u**3 / 6))
