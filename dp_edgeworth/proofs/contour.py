"""Theorem: delta(epsilon) by inverting the characteristic function on one contour.

For one direction let Y be the sum of the losses under Q, K(z) = log E_Q[e^{zY}; Y finite], and

    G(eps) = E[(1 - e^{eps - Y})_+ ; Y finite]   = delta minus the infinite mass,     for a tilt c > 0,
    G(eps) = E[min(1, e^{eps - Y})]              = 1 - delta,                         for a tilt -1 < c < 0.

Theorem (inversion). Both are G(eps) = +- 1/(2 pi i) int_{c - i inf}^{c + i inf} e^{K(z) - z eps} / (z (z+1)) dz.
Proof: the two-sided Laplace transform in e of (1 - e^{e})_+ (of min(1, e^{e})) is 1/(z(z+1)) up to sign on the strip c > 0
(-1 < c < 0); invert it at e = eps - Y and take expectations (Fubini: 1/|z(z+1)| is integrable on the line).

With y_j = j h, period p = 2 pi / h, z_j = c + i y_j and the amplitude A = e^{K(c) - c eps}, the interval is made of

    S      A (h/pi) sum'_{j <= J} Re[e^{K(z_j) - K(c) - i y_j eps} / +-(z_j (z_j+1))]
    alias  Poisson summation: the infinite sum is EXACTLY sum_k e^{c k p} G(eps + k p), all terms >= 0. So it is an upper bound
           of G(eps), and too large by at most sum_{k != 0} (`aliases.py`).
    cut    j > J: |prod phi| <= e^{-E(y)} with E non-decreasing (`sums/envelope.py`) and |z(z+1)| >= y^2, so the rest of the sum is
           at most A e^{-E(y_J)} / (pi y_J).
    smooth Multiply by e^{tau^2 (z^2+z)/2}, i.e. compose with one more Gaussian mechanism. delta can only grow; with f the density
           of the smoothed Y at eps (the same sum without 1/(z(z+1))) it grows by at most tau^2 e^{tau^2/8} f. Proof: h(y) =
           (1 - e^{eps-y})_+ has h' + h'' = Dirac(eps), so d/dt D(t) = f_t(eps)/2 along the drifted heat flow, and its kernels
           obey n_t(v - t/2) <= sqrt(tau^2/t) e^{tau^2/8} n_{tau^2}(v - tau^2/2) for t <= tau^2; integrate over t.
           f is bounded from above by its own sum (aliases only add) plus its own cut-off.
    rule   every leaf's transform is off by at most e^{-40}/count relative to e^{K_i(c)} (`losses`), so the product by e^{-40}
           (telescoping, |phi| <= 1); charged as 1e-16 A (h/pi) sum' 1/|z_j (z_j+1)|, and in K(c) by `composition.rule_error`.
    round  rounding of sums, recurrences, logarithms, phases: bounded term by term (`sums/characteristic.py`, `sums/blocks.py`) in the
           standard model with 2 units in the last place for each elementary function.

    S - cut - rule - round - alias [- smooth]  <=  G(eps)  <=  S + cut + rule + round   (smooth on the other side for c < 0)

Everything is kept relative to A, in log space, so delta = 1e-300 is as accurate as delta = 0.1.

Parameters: any tilt, period, number of frequencies, tau^2 and tilts for the aliases in the ranges that `contour` checks.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import NamedTuple

import numpy as np

from dp_edgeworth.losses.rules import EPSILON
from dp_edgeworth.proofs.aliases import AliasBound, log_kappa
from dp_edgeworth.proofs.curve import Curve, LogBounds
from dp_edgeworth.sums.composition import Composition, rule_error

_RULE_ERROR = 1e-16
_SUM_ERROR = 48.0  # units in the last place of the sum of the moduli
_AT_ONCE = 2_000_000  # exponentials
_LEAST_LOG = -600.0  # sums of numbers below e^-708 are slow, and larger ones are as good in an upper bound


def _dot(rows: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Re(rows @ column), added in pairs: at most 16 + log2(n / 128) additions touch a term."""
    return (rows * column).sum(axis=1).real


def sum_error(log_terms: np.ndarray, errors: np.ndarray, weights: np.ndarray, added: float = _SUM_ERROR) -> float:
    """Bound of the error of sum_j weights_j e^{log_terms_j}: terms off by `errors` (relative), their rounding, the rules', the sum's.

    |prod phi~ - prod phi| <= |prod phi~| (e^x - 1) if every log is off by at most x in all. `added` is what adding up costs, in
    units in the last place of the sum of the moduli.
    """
    relative = errors + EPSILON * (8.0 + 2.0 * np.abs(log_terms))
    large, logs = relative > 1.0, np.maximum(log_terms.real, _LEAST_LOG)
    growth = np.exp(np.clip(log_terms.real + np.where(large, relative, 0.0), _LEAST_LOG, 300.0))
    growth = growth * np.where(large, 1.0, np.expm1(np.minimum(relative, 1.0)))
    return float(weights @ growth) + _RULE_ERROR * float(weights.sum()) + added * EPSILON * float(weights @ np.exp(logs))


class _Fixed(NamedTuple):
    """Terms of the sums for G, its slope and the density of the smoothed loss, and their errors relative to A."""

    terms: np.ndarray
    slopes: np.ndarray
    error: float
    phase_error: float  # per unit of epsilon
    densities: np.ndarray | None = None
    density_error: float = 0.0
    density_phase_error: float = 0.0


@dataclasses.dataclass(frozen=True)
class Contour(Curve):
    """All that does not depend on epsilon: one tilt, one set of frequencies, the transform on it and its error bounds."""

    tilt: float
    log_mgf: float
    log_mgf_error: float
    step: float
    log_terms: np.ndarray  # log prod phi_i(y_j)^{m_i}, smoothing included
    term_errors: np.ndarray  # relative
    log_cut: float  # log of e^{-E(y_J)}, smoothing included
    tau2: float
    aliases: AliasBound
    period: float

    theorem = "contour"

    @property
    def size(self) -> int:
        return len(self.log_terms)

    @functools.cached_property
    def frequencies(self) -> np.ndarray:
        return self.step * np.arange(len(self.log_terms))

    def bounds(self, epsilons: np.ndarray) -> LogBounds:
        """Theorem of the module's header at every epsilon."""
        eps = np.atleast_1d(np.asarray(epsilons, float))
        chunk = max(1, _AT_ONCE // len(self.log_terms))
        if len(eps) <= chunk:
            return LogBounds(*self._bounds(eps))
        parts = [self._bounds(eps[i:i + chunk]) for i in range(0, len(eps), chunk)]
        return LogBounds(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    @functools.cached_property
    def _fixed(self) -> _Fixed:
        """All sums over frequencies that do not depend on epsilon, relative to A."""
        y = self.frequencies
        z = self.tilt + 1j * y
        kernel = z * (z + 1.0) * (1.0 if self.tilt > 0 else -1.0)
        weights = np.where(y == 0, 0.5, 1.0) * (self.step / math.pi)
        over = weights / np.abs(kernel)
        size = np.exp(self.log_terms.real)
        terms = weights * np.exp(self.log_terms) / kernel
        cut = math.exp(self.log_cut) / (math.pi * y[-1])
        error = sum_error(self.log_terms, self.term_errors, over) + cut
        phase_error = 2.0 * EPSILON * float((over * size) @ y)
        if self.tau2 == 0.0:
            return _Fixed(terms, -terms * z, error, phase_error)
        density_error = sum_error(self.log_terms, self.term_errors, weights) + cut / self.tau2
        return _Fixed(terms, -terms * z, error, phase_error, weights * np.exp(self.log_terms), density_error,
                      2.0 * EPSILON * float((weights * size) @ y))

    def _bounds(self, eps: np.ndarray) -> tuple[np.ndarray, ...]:
        fixed = self._fixed
        turn = np.exp(-1j * np.outer(eps, self.frequencies))
        total, slope = _dot(turn, fixed.terms), _dot(turn, fixed.slopes)
        error = fixed.error + np.abs(eps) * fixed.phase_error
        base = self.log_mgf - self.tilt * eps
        base_error = self.log_mgf_error + 4.0 * EPSILON * (np.abs(self.log_mgf) + np.abs(self.tilt * eps))
        # The aliases are bounded absolutely: relative to the true amplitude they may be e^base_error times as large.
        alias = np.exp(np.minimum(self.aliases(eps), 300.0)) * np.exp(np.minimum(base_error, 300.0))
        up, down, middle = total + error, total - error - alias, total
        if fixed.densities is not None:
            density = _dot(turn, fixed.densities)
            most = np.maximum(density + fixed.density_error + np.abs(eps) * fixed.density_phase_error, 0.0)
            price = self.tau2 * math.exp(self.tau2 / 8.0) * most
            if self.tilt > 0:
                down, middle = down - price, middle - 0.5 * self.tau2 * density
            else:
                up, middle = up + price, middle + 0.5 * self.tau2 * density
        with np.errstate(divide="ignore", invalid="ignore"):
            lower = base - base_error + np.log(np.maximum(down, 0.0))
            # A negative upper bound of a positive number can only come from an error that was not charged: then nothing is proved.
            upper = np.where(up > 0.0, base + base_error + np.log(np.maximum(up, 0.0)), np.inf)
            best = base + np.log(np.minimum(np.maximum(middle, np.maximum(down, 1e-300)), np.maximum(up, 1e-300)))
            rate = slope / np.where(total > 0, total, 1.0)
        return lower, np.minimum(np.maximum(best, lower), upper), upper, np.where(total > 0, rate, -self.tilt)

    def light(self, epsilon: float) -> tuple[float, float]:
        """log G, without error bounds, and d log G / d epsilon; NaN where the sum is not positive."""
        turn = np.exp(-1j * epsilon * self.frequencies)
        total = float((turn * self._fixed.terms).sum().real)
        if not total > 0.0:
            return math.nan, math.nan
        return (self.log_mgf - self.tilt * epsilon + math.log(total), float((turn * self._fixed.slopes).sum().real) / total)


def contour(composition: Composition, tilt: float, period: float, last: int, tau2: float, others: np.ndarray) -> Contour:
    """The contour of these parameters.

    Args:
      composition: the sum of losses; G is that of its finite losses, less those that it leaves out (`Composition.truncated`).
      tilt: c, positive or in (-1, 0).
      period: p > 0. last: J >= 3. tau2: tau^2 >= 0.
      others: tilts for the aliases, on the same side of 0 as c, at least one of them above c; 0 (and -1 for c < 0) come for free.
    """
    if not (math.isfinite(tilt) and tilt > -1.0 and tilt != 0.0 and 0.0 < period < math.inf and last >= 3 and 0.0 <= tau2 < math.inf):
        raise ValueError(f"A contour needs a tilt above -1 and not 0, a period, 3 frequencies. Found {tilt}, {period}, {last}, {tau2}.")
    if not (others > 0.0 if tilt > 0.0 else (others < 0.0) & (others > -1.0)).all():
        raise ValueError(f"Tilts for the aliases must be positive for delta, in (-1, 0) for 1 - delta. Found {others}.")
    part = composition.spectral(tilt, period, last)
    step = 2.0 * math.pi / period
    y, variance = step * np.arange(last + 1), composition.gaussian_variance + tau2
    normal = -0.5 * variance * y * y + 1j * y * variance * (tilt + 0.5)
    own = 0.5 * variance * tilt * (tilt + 1.0)
    log_mgf = part.log_mgf + own
    error = part.log_mgf_error + float(rule_error(np.array(tilt))) + 4.0 * EPSILON * abs(own)
    rungs = composition.rungs(others)
    bounds = log_kappa(others) + rungs.log_mgf + rungs.error + 0.5 * tau2 * others * (others + 1.0)
    free = np.array([0.0]) if tilt > 0 else np.array([0.0, -1.0])
    tilts, log_bounds = np.concatenate([others, free]), np.concatenate([bounds, np.zeros(len(free))])
    return Contour(tilt, log_mgf, error, step, part.log_terms + normal, part.errors + 4.0 * EPSILON * np.abs(normal),
                   -float(part.envelope.smoothed(tau2).exponent(float(y[-1]))), tau2, AliasBound(tilts, log_bounds, tilt, log_mgf,
                   period), period)
