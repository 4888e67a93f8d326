"""Upper bounds of P(sum X >= epsilon): Chernoff's, and what the paper has instead ([EA] Section 4.5)."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy import special

from dp_edgeworth import validation
from dp_edgeworth.paper.prawitz_kernel import HUGE, SAFETY, TINY, Array, numbers, panel_nodes


def chernoff_tail(log_mgf: Callable[[Array], Any], epsilon: float) -> float:
    """P(sum X >= epsilon) <= min over s >= 0 of exp(log E exp(s sum X) - s epsilon). Every s is valid.

    Args:
      log_mgf: s >= 0 (array) -> log E exp(s sum X), the sum over everything composed; infinite or NaN is ignored.
      epsilon: any finite number.

    >>> round(chernoff_tail(lambda s: s**2 / 2, 2.0), 6)  # standard normal: exp(-2)
    0.135335
    """
    epsilon = validation.finite("epsilon", epsilon)

    def exponent(s: Array) -> Array:
        with np.errstate(all="ignore"):
            value = np.asarray(log_mgf(s), dtype=np.float64)
            total = value - s * epsilon + 1e-15 * (np.abs(value) + np.abs(s * epsilon))
        return np.where(np.isnan(total), np.inf, total)

    s, best = np.exp2(np.arange(-50.0, 50.0)), 0.0
    for _ in range(4):
        values = exponent(s)
        i = int(np.argmin(values))
        best = min(best, float(values[i]))
        s = np.linspace(s[max(i - 1, 0)], s[min(i + 1, s.size - 1)], 65)
    return math.exp(best)


def _sub_gaussian_tail(gap: Any, sum_proxy: Any) -> Any:
    """exp(-gap^2/(2 sum_proxy)), and 1 where gap = epsilon - E sum X is not positive."""
    with np.errstate(all="ignore"):
        ratio = np.where(gap > 0, gap / np.sqrt(sum_proxy), 0.0)
        return np.exp(-(ratio**2) / 2 * (1 - SAFETY))


def lipschitz_tail(m: npt.ArrayLike, *, mean: npt.ArrayLike, proxy_variance: npt.ArrayLike, epsilon: float) -> float:
    """P(sum X >= epsilon) <= exp(-(epsilon - sum m mean)^2/(2 sum m proxy)); 1 if epsilon is below the mean.

    Replaces [EA] Theorem 4.5: L is mu-Lipschitz, so L(xi), xi ~ N(0, 1), is sub-Gaussian with proxy mu^2 (Gaussian
    concentration); so is -L(xi). For zeta ~ (1-p) N(0,1) + p N(mu,1) the proxy of +-L(zeta) is mu^2 + d^2/4,
    d = E L(xi + mu) - E L(xi). Arrays describe leaves: m their counts. `mean` = E X must not be underestimated.
    """
    counts, means = numbers("m", m, 1), numbers("mean", mean, -HUGE)
    proxies = numbers("proxy_variance", proxy_variance, TINY)
    epsilon = validation.finite("epsilon", epsilon)
    with np.errstate(all="ignore"):
        return float(_sub_gaussian_tail(epsilon - np.sum(counts * means), np.sum(counts * proxies)))


def _mechanism(m: Any, sampling_probability: Any, mu: Any) -> list[Array]:
    """Counts, probabilities and mu, one entry per leaf."""
    p = numbers("sampling_probability", sampling_probability, TINY, 1)
    arrays = np.broadcast_arrays(numbers("m", m, 1), p, numbers("mu", mu, TINY))
    return [np.atleast_1d(array) for array in arrays]


def theorem_4_5_tail(
    m: npt.ArrayLike, *, sampling_probability: npt.ArrayLike, mu: npt.ArrayLike, epsilon: float
) -> float:
    """P(sum X >= epsilon) for X = L(xi) = log(1 - p + p exp(mu xi - mu^2/2)), xi ~ N(0,1): [EA] Theorem 4.5.

    min over a of 2 exp(-(epsilon + m eta(a))^2/(8 m tau^2)), with a+ = phi(a)/(1 - Phi(a)),
    tau^2 = max{(L(a) + mu(a+ - a) - log(1-p))^2/4, mu^2} and
    eta(a) = -{E[L(xi); xi < a] + (1 - Phi(a))(L(a) + mu(a+ - a))}.
    Departs from [EA]: its third entry of tau^2 (negative as printed) is not needed, and the proof is repaired
    (docs/errata.md). L is convex, so the expectation is bounded by chords, exactly integrated: eta is never
    overestimated. Arrays describe leaves, m their counts; a is common. At p = 1 the bound is vacuous (1).
    `lipschitz_tail` is uniformly better; both are weak next to `chernoff_tail`.
    """
    counts, p, mu = _mechanism(m, sampling_probability, mu)
    epsilon = validation.finite("epsilon", epsilon)
    with np.errstate(all="ignore"):
        leaves = [_truncated_gaussian(p_j, mu_j) for p_j, mu_j in zip(p, mu, strict=True)]
        gap = epsilon + sum(count * eta for count, (eta, _) in zip(counts, leaves, strict=True))
        proxy = sum(count * tau2 for count, (_, tau2) in zip(counts, leaves, strict=True))
        return float(min(1.0, np.min(2 * _sub_gaussian_tail(gap, 4 * np.asarray(proxy)))))


def _truncated_gaussian(p: float, mu: float) -> tuple[Array, Array]:
    """eta(a) from below and tau^2(a) on a grid of a, for one leaf."""
    x = np.linspace(-12, 12, 24001)  # E[L; xi < -12] < 0 is dropped
    log_ratio = np.logaddexp(np.log1p(-p), np.log(p) + mu * x - mu**2 / 2)
    density = np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)
    mass = np.where(x[:-1] < 0, np.diff(special.ndtr(x)), -np.diff(special.ndtr(-x)))
    slope = np.diff(log_ratio) / np.diff(x)
    chords = log_ratio[:-1] * mass + slope * (-np.diff(density) - x[:-1] * mass)
    below = np.concatenate([[0.0], np.cumsum(chords)])[::100]
    a, at_a = x[::100], log_ratio[::100]
    mean_above = math.sqrt(2 / math.pi) / special.erfcx(a / math.sqrt(2))
    top = at_a + mu * (mean_above - a)
    eta = -(below + special.ndtr(-a) * top) - 1e-13 * np.sum(np.abs(chords))
    return eta, np.maximum((top - np.log1p(-p)) ** 2 / 4, mu**2)


def laplace_tail(
    m: npt.ArrayLike, *, sampling_probability: npt.ArrayLike, mu: npt.ArrayLike, epsilon: float
) -> float:
    """P(sum X >= epsilon) for both directions of the subsampled Laplace mechanism: [EA] proposition of Section 4.5.

    exp(-2(epsilon + m eta)^2/(m tau^2)) (Hoeffding), tau = log(1 - p + p e^mu) - log(1 - p + p e^-mu),
    eta = -max(E X1, E X2) = min(KL(P||Q), KL(Q||P)); 1 if epsilon + m eta <= 0. Arrays describe leaves, m their
    counts.
    """
    counts, p, mu = _mechanism(m, sampling_probability, mu)
    epsilon = validation.finite("epsilon", epsilon)
    with np.errstate(all="ignore"):
        eta = np.array([_laplace_eta(p_j, mu_j) for p_j, mu_j in zip(p, mu, strict=True)])
        ends = [np.logaddexp(np.log1p(-p), np.log(p) + sign * mu) for sign in (1, -1)]
        return float(_sub_gaussian_tail(epsilon + np.sum(counts * eta), np.sum(counts * (ends[0] - ends[1]) ** 2) / 4))


def _laplace_eta(p: float, mu: float) -> float:
    """min(KL(P||Q), KL(Q||P)) from below: integrals over xi ~ Lap(0,1) of r - 1 - log r and r log r - r + 1.

    r = 1 - p + p exp(|xi| - |xi - mu|). Atoms outside (0, mu); inside, where xi <= 40 suffices for a lower bound,
    the integrands are analytic and nonnegative.
    """
    edges = np.linspace(0, min(mu, 40.0), 2 * math.ceil(min(mu, 40.0)) + 1)
    x, w = panel_nodes(edges, 20)
    value = np.concatenate([[-mu, min(mu, 700.0)], (2 * x - mu).ravel()])
    mass = np.concatenate([[0.5, np.exp(-mu) / 2], (edges[1] * np.exp(-x) / 2 * w).ravel()])
    excess = p * np.expm1(np.minimum(value, 700.0))
    log_r = np.log1p(excess)
    kl = (excess - log_r) @ mass, ((1 + excess) * log_r - excess) @ mass
    return float(max(0.0, min(kl) * (1 - SAFETY) - 4e-16 * np.abs(excess) @ mass))
