"""Bounds with the true characteristic function, for expansions of order 1, 2 and 3."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from dp_edgeworth.paper.prawitz_kernel import CHI, THETA, UNIVERSAL, Array, C, Envelope, expansion_part, kernel, panel_nodes, silent

_TOWARDS = np.geomspace(1e-6, 0.03, 40)  # |f_S| may come back just before T, as far as one knows: cells are finer there


@silent
def prawitz(cf: Callable[[Array], Any], cf_envelope: Envelope, *, coefficients: Mapping[int, float], fourth_moment: float,
            truncations: Sequence[float], cf_error: float = 0.0, nodes: int = 1000) -> float:
    """Delta_k = sup_x |F(x) - E_k(x)| from the true cf f of the standardised sum S, for any order k.

    Proved: let G have bounded variation, G(-inf) = 0, G(inf) = 1, be continuous, and e(u) = int exp(iux) dG(x) with
    |e(u)|/u integrable at infinity. Prawitz: for T > 0 the cdf F lies between the integrals of
    exp(-ixu) Psi(+-u/T) f(u)/T; G is inverted with the kernel i/(2 pi u). Subtracting, for any t0 in (0, 1],
    sup |F - G| <= O1 + O2 + O3, O1 as in `expansion_part`, O2 = 2 int_{t0}^1 |Psi(t)| |f(Tt)| dt and
    O3 = 2 int_0^{t0} |Psi(t)| |f(Tt) - e(Tt)| dt. E_k is such a G, with |e_k|(u) <= exp(-u^2/2)(1 + sum |c_s| u^s).
    No moment condition enters but the cumulants in E_k: it is a bound for this sum, not an asymptotic statement.
    Here T t0 = min(10, T). O3: with g = f - e_k on a grid of step h, |g| is at most the chord of |g| plus
    (h^2/8) sup |g''|, and sup |g''| is at most the larger second difference + (5/24) h^2 sup |g''''|, where
    |g''''| <= E S^4 + int x^4 |dE_k|. On the first cell u(h-u)/2 takes the place of h^2/8, as g(0) = 0,
    and the weight is at most C/(pi u). Nothing else is used of S: its mean and variance need not be 0 and 1, nor the
    coefficients its own, so the bound holds with whatever standardisation the arithmetic gives. O2: suprema of |f| over
    cells.

    Args:
      cf: u >= 0 (array) -> f(u), each value off by at most `cf_error`.
      cf_envelope: (a, b) (arrays) -> upper bounds of |f| over the cells [a_j, b_j], for example `moment_envelope(...)`.
      coefficients: {s: c_s} of E_k = Phi - phi sum_s c_s He_{s-1}, e_k(u) = exp(-u^2/2) (1 + sum_s c_s (iu)^s); any will do.
      fourth_moment: E S^4 = 3 + rho_4, or an upper bound.
      truncations: the T to try, each is valid: large makes O1 (1.2534/T) small, but O2 must stay so up to T.
      cf_error: as above; costs about 5 cf_error.
      nodes: evaluations of `cf`. The grid costs about 3e-9 E S^4 at 1,000 nodes, and falls like nodes^-4.
    """
    candidates = np.asarray(truncations, float)
    end, last = min(10.0, float(candidates.min())), float(candidates.max())
    u = np.linspace(0, end, nodes + 1)
    g = _difference_from_above(u, cf, coefficients, fourth_moment, cf_error)
    far = np.geomspace(end, max(last, end * 1.0001), max(2, math.ceil(40 * math.log(last / end))) + 1)
    far = np.unique(np.clip(np.append(far, np.outer(candidates, 1 - _TOWARDS)), end, far[-1]))
    f = np.minimum(cf_envelope(far[:-1], far[1:]), 1.0)
    values = [
        expansion_part(T, min(1.0, end / T), coefficients) + _weighted_chords(u, *g, T) + _weighted_steps(far, f, T)
        for T in candidates
    ]
    return min(_trivial_of_order(coefficients), (min(values) + _below_two_steps(*g)) * (1 + 1e-6))


def _difference_from_above(u: Array, cf: Callable[[Array], Any], coefficients: Mapping[int, float], fourth_moment: float,
                           error: float) -> tuple[Array, Array]:
    """|g| at the nodes, and by how much |g| can exceed its chord on every cell; g = f - e_k."""
    x = np.append(u, 2 * u[-1] - u[-2])
    g = np.asarray(cf(x)) - np.exp(-(x**2) / 2) * (1 + sum(c * (1j * x) ** s for s, c in coefficients.items()))
    g[0] = 0.0
    second = np.abs(np.diff(np.concatenate([[np.conj(g[1])], g]), 2)) + 4 * error
    fourth = fourth_moment + 3 + sum(abs(c) * math.sqrt(105 * math.factorial(s)) for s, c in coefficients.items())
    excess = np.maximum(second[:-1], second[1:]) / 8 + 5 / 192 * u[1] ** 4 * fourth
    return np.abs(g[:-1]) + error, excess


def _weighted_chords(u: Array, modulus: Array, excess: Array, T: float) -> float:
    """Integral of (2/T) |Psi(u/T)| (chord of `modulus` + `excess`) from the second node on."""
    x, w = panel_nodes(u[2:], 4)
    position = (x - u[2:-1, None]) / u[1]
    chord = modulus[2:-1, None] * (1 - position) + modulus[3:, None] * position + excess[2:, None]
    return float(2 / T * u[1] * np.sum((kernel(x / T) * chord) @ w))


def _weighted_steps(edges: Array, f: Array, T: float) -> float:
    """Integral of (2/T) |Psi(u/T)| f over the cells up to T, f being constant on every cell."""
    edges = np.minimum(edges, T)
    x, w = panel_nodes(edges, 4)
    return float(2 / T * np.sum(np.diff(edges) * f * (kernel(x / T) @ w)))


def _below_two_steps(modulus: Array, excess: Array) -> float:
    """O3 over the first two cells: C/(pi u) times u/h |g(h)| + 4 u(h-u)/h^2 excess, and times the largest |g|."""
    first = modulus[1] + 2 * excess[0]
    return float(C / np.pi * (first + math.log(2) * (max(modulus[1], modulus[2]) + excess[1])))


def moment_envelope(tilde: float, slack: float = 0.0) -> Envelope:
    """Upper bounds of |f_S| over cells from tilde = K3~/sqrt m: exp(-psi(u)), and 1 beyond 2 pi/tilde (Shevtsova; [EA] Appendix E).

    psi(u) = u^2/2 - CHI tilde u^3 for tilde u <= THETA and (1 - cos(tilde u))/tilde^2 beyond rises up to tilde u = 1/(3 CHI) and falls
    from there on, to 0 at 2 pi: its least value on a cell is at one of the ends.

    Args:
      tilde: an upper bound of it.
      slack: by how much, relative, S may be off from deviation 1: cells are widened by it.
    """
    def psi(u: Array) -> Array:
        x = np.minimum(tilde * u, 2 * np.pi)
        return np.where(x <= THETA, x**2 / 2 - CHI * x**3, 1 - np.cos(x)) / tilde**2

    return lambda a, b: np.exp(-np.minimum(psi(np.asarray(a) * (1 - slack)), psi(np.asarray(b) * (1 + slack))))


def _trivial_of_order(coefficients: Mapping[int, float]) -> float:
    """0.5410 + sup |E_k - Phi|, with Cramer's |He_n(x)| exp(-x^2/4) <= 1.09 sqrt(n!)."""
    bumps = (abs(c) * 1.09 * math.sqrt(math.factorial(s - 1) / (2 * math.pi)) for s, c in coefficients.items())
    return UNIVERSAL + sum(bumps)
