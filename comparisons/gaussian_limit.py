"""Accountants that replace the composition by a Gaussian, and its Edgeworth refinement: pure functions of leaves.

GDP (central limit theorem, [DRS] Theorem 3.4 and [BDLS] Theorem 5): the composition is taken to be mu-GDP.
GDP-E ([ZDLS] section 3): distribution functions of the summed log-likelihood ratio T under both hypotheses by the
degree-2 Edgeworth expansion, hence the trade-off curve, hence epsilon by duality.

Both are estimates. Neither says how far it is from the truth.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import optimize, stats

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(40)
_PANELS = 40  # per smooth piece


@dataclass(frozen=True)
class Noise:
    """One leaf: `family` "gaussian" or "laplace", its `scale` over the sensitivity, Poisson `probability`, `count`."""

    family: str
    scale: float
    probability: float
    count: int


def gaussian_mu(noises: Sequence[Noise]) -> float:
    """The mu of the Gaussian limit: mu^2 = sum of count * (mu^2 of one step)."""
    return math.sqrt(math.fsum(noise.count * _step_mu_squared(noise) for noise in noises))


def _step_mu_squared(noise: Noise) -> float:
    """Gaussian: 1 / sigma^2, exact. Poisson-sampled Gaussian: p^2 (e^{1/sigma^2} - 1), [BDLS] Theorem 5.

    Anything else: 4 KL^2 / Var(loss), [DRS] Theorem 3.4, with KL the mean of the loss.
    """
    if noise.family == "gaussian":
        if noise.probability == 1.0:
            return noise.scale**-2.0
        return noise.probability**2 * math.expm1(noise.scale**-2.0)
    under_p, _ = loss_cumulants(noise)
    return 4.0 * float(under_p[0] ** 2 / under_p[1])


def gdp_log_delta(epsilon: float, mu: float) -> float:
    """log delta(epsilon) of mu-GDP: Phi(-eps/mu + mu/2) - e^eps Phi(-eps/mu - mu/2), [DRS] Corollary 2.13."""
    first = stats.norm.logcdf(-epsilon / mu + mu / 2.0)
    second = epsilon + stats.norm.logcdf(-epsilon / mu - mu / 2.0)
    return float(first + np.log1p(-np.exp(min(second - first, -1e-300))))


def gdp_epsilon(delta: float, mu: float) -> float:
    """The epsilon of mu-GDP at `delta`, by bracketing outward and Brent's method."""
    if mu == 0.0 or gdp_log_delta(0.0, mu) <= math.log(delta):
        return 0.0
    high = 1.0
    while gdp_log_delta(high, mu) > math.log(delta):
        high *= 2.0
    return float(optimize.brentq(lambda eps: gdp_log_delta(eps, mu) - math.log(delta), 0.0, high, xtol=1e-12))


def loss_cumulants(noise: Noise) -> tuple[np.ndarray, np.ndarray]:
    """Four cumulants of log(P/Q), P = (1-p) N + p (N shifted), Q = N: under P and under Q, for one step."""
    x, weights = _grid(noise)
    law = stats.norm if noise.family == "gaussian" else stats.laplace
    base, shifted = (law.logpdf(x, loc=loc, scale=noise.scale) for loc in (0.0, 1.0))
    loss = np.log1p(noise.probability * np.expm1(shifted - base))
    under_q = weights * np.exp(base)
    under_p = under_q * np.exp(loss)
    return _cumulants(loss, under_p), _cumulants(loss, under_q)


def _grid(noise: Noise) -> tuple[np.ndarray, np.ndarray]:
    """Composite Gauss-Legendre rule, broken where the Laplace loss has its kinks."""
    reach = noise.scale * (15.0 if noise.family == "gaussian" else 60.0)
    pieces = ((-reach, 0.0), (0.0, 1.0), (1.0, 1.0 + reach))
    ends = np.concatenate([np.linspace(*piece, _PANELS + 1)[bool(piece[0] >= 0.0) :] for piece in pieces])
    half, middle = np.diff(ends) / 2.0, (ends[1:] + ends[:-1]) / 2.0
    nodes = (middle[:, None] + half[:, None] * _NODES).ravel()
    return nodes, (half[:, None] * _WEIGHTS).ravel()


def _cumulants(loss: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """kappa_1..kappa_4 of a loss with these quadrature weights."""
    mean = float(weights @ loss)
    second, third, fourth = (float(weights @ (loss - mean) ** power) for power in (2, 3, 4))
    return np.array([mean, second, third, fourth - 3.0 * second**2])


def edgeworth_survival(t: np.ndarray, cumulants: np.ndarray) -> np.ndarray:
    """P(T > t) to degree 2: 1 - Phi + phi [ rho3/6 He2 + rho4/24 He3 + rho3^2/72 He5 ]."""
    z = (t - cumulants[0]) / math.sqrt(cumulants[1])
    rho3, rho4 = cumulants[2] / cumulants[1] ** 1.5, cumulants[3] / cumulants[1] ** 2
    series = np.polynomial.hermite_e.hermeval(z, [0, 0, rho3 / 6.0, rho4 / 24.0, 0, rho3**2 / 72.0])
    return stats.norm.sf(z) + stats.norm.pdf(z) * series


def gdp_e_epsilon(delta: float, noises: Sequence[Noise]) -> float:
    """GDP-E: the larger of both directions; P against Q is "remove", Q against P is "add"."""
    steps = [(noise.count, loss_cumulants(noise)) for noise in noises]
    under_p = sum((count * pair[0] for count, pair in steps), np.zeros(4))
    under_q = sum((count * pair[1] for count, pair in steps), np.zeros(4))
    mirror = np.array([-1.0, 1.0, -1.0, 1.0])  # cumulants of -T
    remove = _dual_epsilon(delta, null=under_q, alternative=under_p)
    return max(remove, _dual_epsilon(delta, null=mirror * under_p, alternative=mirror * under_q))


def _dual_epsilon(delta: float, null: np.ndarray, alternative: np.ndarray) -> float:
    """Duality, [DRS] Proposition 2.12: epsilon = sup over alpha of log((1 - f(alpha) - delta) / alpha).

    alpha = P0(T > t) and 1 - f(alpha) = P1(T > t), so the curve is traced by t and needs no quantile. Departs from the
    authors' code, which computes alpha as 1 - F0: then alpha below 1e-15 is rounding noise (see `findings`). The trace
    ends where the expansion of P0 stops decreasing, which is where it stops being a distribution function.
    """
    spread = math.sqrt(alternative[1])
    t = np.linspace(null[0], alternative[0] + 14.0 * spread, 40001)
    alpha, power = edgeworth_survival(t, null), edgeworth_survival(t, alternative)
    bad = np.flatnonzero((np.diff(alpha) >= 0.0) | (alpha[1:] <= 0.0))
    end = bad[0] + 1 if bad.size else t.size
    keep = power[:end] > delta
    if not keep.any():
        return 0.0
    return max(0.0, float(np.max(np.log((power[:end][keep] - delta) / alpha[:end][keep]))))
