"""Certified bounds of delta(epsilon) by inverting the characteristic function.

For one direction let Y be the sum of the losses under Q, K(z) = log E_Q[e^{zY}; Y finite], and

    G(eps) = E[(1 - e^{eps - Y})_+ ; Y finite]   = delta minus the infinite mass,     for a tilt c > 0,
    G(eps) = E[min(1, e^{eps - Y})]              = 1 - delta,                         for a tilt -1 < c < 0.

Theorem (inversion). Both are G(eps) = +- 1/(2 pi i) int_{c - i inf}^{c + i inf} e^{K(z) - z eps} / (z (z+1)) dz.
Proof: the two-sided Laplace transform in e of (1 - e^{e})_+ (of min(1, e^{e})) is 1/(z(z+1)) up to sign on the strip c > 0
(-1 < c < 0); invert it at e = eps - Y and take expectations (Fubini: 1/|z(z+1)| is integrable on the line).

With y_j = j h, period p = 2 pi / h, z_j = c + i y_j and the amplitude A = e^{K(c) - c eps}, the interval is made of

    S      A (h/pi) sum'_{j <= J} Re[e^{K(z_j) - K(c) - i y_j eps} / +-(z_j (z_j+1))]
    alias  Poisson summation: the infinite sum is EXACTLY sum_k e^{c k p} G(eps + k p), all terms >= 0. So it is an upper bound
           of G(eps), and too large by at most sum_{k != 0}. Each side: G(e) <= kappa(c') e^{K(c') - c' e} with kappa(c') =
           c'^c' / (1+c')^{1+c'} for c' > 0 (maximise (1 - e^{-v}) e^{-c'v} over v) and kappa = 1 for -1 <= c' <= 0; sum the
           geometric series: kappa(c') e^{K(c') - c' eps} / (e^{|c' - c| p} - 1), any c' > c (right), any c' < c on the same
           side of 0, or 0 (left).
    cut    j > J: |prod phi| <= e^{-E(y)} with E non-decreasing (`envelope.py`) and |z(z+1)| >= y^2, so the rest of the sum is
           at most A e^{-E(y_J)} / (pi y_J).
    smooth Multiply by e^{tau^2 (z^2+z)/2}, i.e. compose with one more Gaussian mechanism. delta can only grow; with f the density
           of the smoothed Y at eps (the same sum without 1/(z(z+1))) it grows by at most tau^2 e^{tau^2/8} f. Proof: h(y) =
           (1 - e^{eps-y})_+ has h' + h'' = Dirac(eps), so d/dt D(t) = f_t(eps)/2 along the drifted heat flow, and its kernels
           obey n_t(v - t/2) <= sqrt(tau^2/t) e^{tau^2/8} n_{tau^2}(v - tau^2/2) for t <= tau^2; integrate over t.
           f is bounded from above by its own sum (aliases only add) plus its own cut-off.
    rule   every leaf's transform is off by at most e^{-40}/count relative to e^{K_i(c)} (`noise.py`), so the product by e^{-40}
           (telescoping, |phi| <= 1); charged as 1e-16 A (h/pi) sum' 1/|z_j (z_j+1)|. The control variate in K(c) uses the rule at
           s = 0 and s = 1, too, with weights |1 - s| and |s|, s = c + 1: charged as 1e-17 (2 + |c|) in K.
    tail   Where the largest losses are left out (`Composition.truncated`), everything above speaks of the positive measure that is
           left. Its G is at most the true one, and smaller by at most the probability d that some loss was left out, because the
           payoff lies in [0, 1]: the upper end is raised by d.
    round  rounding of sums, recurrences, logarithms, phases: bounded term by term (`characteristic.py`, `Block.transform`) in the
           standard model with 2 units in the last place for each elementary function.

    S - cut - rule - round - alias [- smooth]  <=  G(eps)  <=  S + cut + rule + round [+ tail]   (smooth on the other side for c < 0)

Everything is kept relative to A, in log space, so delta = 1e-300 is as accurate as delta = 0.1.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import Any, NamedTuple

import numpy as np

from dp_edgeworth.losses.rules import EPSILON, RuleTooLargeError
from dp_edgeworth.sums.characteristic import log_characteristic
from dp_edgeworth.sums.composition import Composition
from dp_edgeworth.sums.envelope import Envelope
from dp_edgeworth.sums.saddle_point import positive_tilt as positive_tilt

_RULE_ERROR = 1e-16
_SUM_ERROR = 48.0  # units in the last place of the sum of the moduli
_FEW_FREQUENCIES, _MOST_FREQUENCIES = 128, 1 << 18
_LARGEST_RATIO = 4.0
_LEAST_SMOOTHING = 1e-40
_TILT_STEPS = np.array([-8.0, -4.0, -2.0, -1.0, -0.5, 0.5, 1.0, 2.0, 4.0, 8.0])  # in deviations
_TILT_RATIOS = np.array([0.18, 0.3, 0.42, 0.55, 0.7, 0.85, 1.0, 1.2, 1.5, 2.0, 2.8, _LARGEST_RATIO])


def log_kappa(tilt: np.ndarray) -> np.ndarray:
    """log sup_{v>0} (1 - e^{-v}) e^{-cv} for c > 0; 0 for -1 <= c <= 0 (sup of min(1, e^{-v}) e^{-cv})."""
    c = np.maximum(np.asarray(tilt, float), 1e-300)
    return np.where(np.asarray(tilt) > 0, -c * np.log1p(1.0 / c) - np.log1p(c), 0.0)


@dataclasses.dataclass(frozen=True)
class LogBounds:
    """Logarithms of a lower bound, an estimate and an upper bound of G, one per epsilon; and d log G / d epsilon."""

    lower: np.ndarray
    estimate: np.ndarray
    upper: np.ndarray
    slope: np.ndarray


def _dot(rows: np.ndarray, column: np.ndarray) -> np.ndarray:
    """Re(rows @ column), added in pairs: at most 16 + log2(n / 128) additions touch a term."""
    return (rows * column).sum(axis=1).real


def rule_error(tilt: Any) -> Any:
    """What the quadrature rules can do to K, the control variate included."""
    return 1e-17 * (2.0 + abs(tilt))


def sum_error(log_terms: np.ndarray, errors: np.ndarray, weights: np.ndarray, added: float = _SUM_ERROR) -> float:
    """Bound of the error of sum_j weights_j e^{log_terms_j}: terms off by `errors` (relative), their rounding, the rules', the sum's.

    |prod phi~ - prod phi| <= |prod phi~| (e^x - 1) if every log is off by at most x in all. `added` is what adding up costs, in
    units in the last place of the sum of the moduli.
    """
    relative = errors + EPSILON * (8.0 + 2.0 * np.abs(log_terms))
    large = relative > 1.0
    growth = np.exp(np.minimum(log_terms.real + np.where(large, relative, 0.0), 300.0)) * np.where(
        large, 1.0, np.expm1(np.minimum(relative, 1.0)))
    return float(weights @ growth) + _RULE_ERROR * float(weights.sum()) + added * EPSILON * float(weights @ np.exp(log_terms.real))


class AliasBound:
    """log of a bound of sum_{k != 0} e^{ckp} G(eps + kp) / e^{K(c) - c eps}, by the best of G(e) <= e^{log_bounds - tilts e}."""

    def __init__(self, tilts: np.ndarray, log_bounds: np.ndarray, tilt: float, log_mgf: float, period: float):
        self._gap = tilts - tilt
        turns = np.abs(self._gap) * period
        with np.errstate(over="ignore", under="ignore"):
            geometric = np.where(turns > 40.0, turns - 1e-17, np.log(np.expm1(np.clip(turns, 1e-300, 40.0))))
        # For the rounding of these numbers themselves, which may be huge.
        self._logs = log_bounds - geometric - log_mgf + 1e-6 + 8.0 * EPSILON * (np.abs(log_bounds) + abs(log_mgf))
        self._right = self._gap > 0.0

    def __call__(self, eps: np.ndarray) -> np.ndarray:
        shifts, right = eps[:, None] * self._gap, self._right
        logs = self._logs - shifts + 8.0 * EPSILON * np.abs(shifts)
        return np.logaddexp(logs[:, right].min(axis=1), logs[:, ~right].min(axis=1))


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
class Contour:
    """All that does not depend on epsilon: one tilt, one set of frequencies, the transform on it and its error bounds."""

    tilt: float
    log_mgf: float
    log_mgf_error: float
    step: float
    log_terms: np.ndarray  # log prod phi_i(y_j)^{m_i}, smoothing included
    term_errors: np.ndarray  # relative
    log_cut: float  # log of e^{-E(y_J)}, smoothing included
    tau2: float
    other_tilts: np.ndarray
    other_log_bounds: np.ndarray  # log kappa(c') + K(c'), smoothing and rounding included
    log_dropped: float = -math.inf  # log of the probability that a loss was left out of the composition

    @property
    def size(self) -> int:
        return len(self.log_terms)

    @functools.cached_property
    def frequencies(self) -> np.ndarray:
        return self.step * np.arange(len(self.log_terms))

    def bounds(self, epsilon: np.ndarray) -> LogBounds:
        """Theorem of the module's header at every epsilon."""
        eps = np.atleast_1d(np.asarray(epsilon, float))
        chunk = max(1, 2_000_000 // len(self.log_terms))
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
        up, down, middle = total + error, total - error - self._aliases(eps) * np.exp(np.minimum(base_error, 300.0)), total
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
            upper = np.where(up > 0.0, np.logaddexp(base + base_error + np.log(np.maximum(up, 0.0)), self.log_dropped), np.inf)
            best = base + np.log(np.clip(middle, np.maximum(down, 1e-300), np.maximum(up, 1e-300)))
            rate = slope / np.where(total > 0, total, 1.0)
        return lower, np.clip(best, lower, upper), upper, np.where(total > 0, rate, -self.tilt)

    def light(self, epsilon: float) -> tuple[float, float]:
        """G over its amplitude A, without error bounds, and d log G / d epsilon."""
        turn = np.exp(-1j * epsilon * self.frequencies)
        total = float((turn * self._fixed.terms).sum().real)
        return total, float((turn * self._fixed.slopes).sum().real) / total if total > 0.0 else math.nan

    def margins(self, epsilon: float, total: float) -> tuple[float, float]:
        """About how far log G can be above and below its estimate at epsilon, where G / A is about `total`; without smoothing."""
        error = self._fixed.error + epsilon * self._fixed.phase_error
        alias = float(self._aliases(np.array([epsilon]))[0])
        base_error = self.log_mgf_error + 4.0 * EPSILON * (abs(self.log_mgf) + abs(self.tilt * epsilon))
        return math.log1p(error / total) + base_error, -math.log1p(-min((error + alias) / total, 0.99)) + base_error

    def _aliases(self, eps: np.ndarray) -> np.ndarray:
        """Bound of sum_{k != 0} e^{ckp} G(eps + kp), relative to A."""
        return np.exp(np.minimum(self._log_aliases(eps), 300.0))

    @functools.cached_property
    def _log_aliases(self) -> AliasBound:
        return AliasBound(self.other_tilts, self.other_log_bounds, self.tilt, self.log_mgf, 2.0 * math.pi / self.step)


@dataclasses.dataclass(frozen=True)
class Plan:
    """A tilt, a period and the relative accuracy aimed at."""

    tilt: float
    period: float
    log_loss: float  # log(A / G)
    log_relative: float
    slope: float  # about |d log G / d eps|


def chernoff_epsilon(composition: Composition, tilt: float, log_deltas: np.ndarray) -> np.ndarray:
    """Upper bounds of epsilon at any tilt > 0: [K(c) + log kappa(c) - log delta] / c, rounded up.

    Where losses were left out, delta less their probability takes the place of delta.
    """
    k = composition.cgf([tilt])[:, 0]
    if composition.log_dropped > -math.inf:
        log_deltas = log_deltas + np.log1p(-np.minimum(np.exp(composition.log_dropped - log_deltas), 1.0))
    log_bound = float(k[0] + k[3] + log_kappa(np.array(tilt))) + 8.0 * EPSILON * abs(float(k[0]))
    return (log_bound - log_deltas) / tilt * (1.0 + 4.0 * EPSILON)


def plan(composition: Composition, tilt: float, epsilon: float, log_g: float, tolerance: float,
         slope: float | None = None, reserve: float = 0.0) -> tuple[Plan, np.ndarray, np.ndarray]:
    """The tilt and period that need the fewest frequencies, near a given tilt, for G(epsilon) of about e^{log_g}.

    Also returns the tilts and log-bounds for the aliases.
    """
    if tilt > 0:
        tilts = tilt * _TILT_RATIOS
        candidates = tilts <= 1.25 * tilt
    else:
        odds = (1.0 + tilt) / -tilt / _TILT_RATIOS
        tilts = -1.0 / (1.0 + odds)
        candidates = np.ones(len(tilts), bool)
    k = composition.cgf(tilts, composition.demand(-1.0, max(float(tilts.max()), 0.0)), rough=True)
    spread = tilt * math.sqrt(float(k[2, _TILT_RATIOS == 1.0][0])) if tilt > 0 else 0.0
    if 20.0 < spread < 1e12:  # K turns so sharply at the tilt that ratios would jump over it
        near = tilt * (1.0 + _TILT_STEPS / spread)
        tilts, candidates = np.append(tilts, near), np.append(candidates, near > 0.1 * tilt)
        k = np.append(k, composition.cgf(near, composition.demand(-1.0, float(tilts.max())), rough=True), axis=1)
    log_bounds = log_kappa(tilts) + k[0] + k[3]
    edges = np.array([0.0]) if tilt > 0 else np.array([0.0, -1.0])
    others = np.concatenate([tilts, edges])
    other_bounds = np.concatenate([log_bounds, np.zeros(len(edges))])
    # How steep log G is at epsilon, by the normal law at the smallest tilt, where it is closest to the bulk.
    steep = slope or abs(tilt)
    if slope is None and tilt > 0:
        steep = max(steep, float(tilts[0] + (epsilon - k[1, 0]) / max(float(k[2, 0]), 1e-300)))
    relative = np.full(len(tilts), min(max(0.01 * tolerance * steep, 1e-12), 1e-4) * math.exp(-reserve))
    need = other_bounds - others * epsilon - log_g
    best: tuple[float, Plan] | None = None
    for i in np.flatnonzero(candidates):
        gap = others - tilts[i]
        with np.errstate(divide="ignore", invalid="ignore"):
            periods = (np.maximum(need - math.log(relative[i]), 0.0) + 0.7) / np.abs(gap)
        period = max(periods[gap > 0].min(), periods[gap < 0].min())
        loss = float(k[0, i] - tilts[i] * epsilon - log_g)
        # The cf decays with the spread of the bulk; rare large losses add to the variance but not to that.
        spread = max(min(float(k[2, i]), float(k[2, 0])), 1e-300)
        cost = period * math.sqrt(max(loss - math.log(relative[i]), 1.0) / spread)
        cost = math.log(max(cost, 1e-300)) + max(loss - 14.0, 0.0)  # digits lost to cancellation
        if best is None or cost < best[0]:
            best = cost, Plan(float(tilts[i]), float(period), loss, math.log(relative[i]), steep)
    assert best is not None
    return best[1], others, other_bounds


def contour(composition: Composition, tilt: float, epsilon: float, log_g: float, tolerance: float,
            finer: float = 1.0, slope: float | None = None, reserve: float = 0.0) -> Contour:
    """A contour whose interval at epsilon is about `tolerance` wide; smoothing by tau / finer where there is no decay.

    `slope` is |d log G / d eps| at epsilon where it is known; a wrong one makes the interval wider or the work more.
    `reserve` asks for a relative accuracy better by e^{-reserve}, for a contour that will be used away from epsilon.
    """
    choice, others, other_bounds = plan(composition, tilt, epsilon, log_g, tolerance, slope, reserve)
    decay = _decay(composition, choice.tilt)
    tau2 = min(0.4 * tolerance / (choice.slope + 1.0), 0.1 / (choice.slope * (choice.slope + 1.0)), 1.0) / finer**2
    tau2, highest = _smoothing(decay, choice, tau2)
    while True:
        try:
            return _evaluated(composition, choice, decay, tau2, highest, others, other_bounds)
        except RuleTooLargeError:  # smoother, so that lower frequencies will do
            tau2 = 8.0 * max(tau2, min(0.4 * tolerance / (choice.slope + 1.0), 1.0))
            tau2, highest = _smoothed(decay, choice, tau2)


def _decay(composition: Composition, tilt: float) -> Envelope:
    """The envelope of the tilted sum, without smoothing."""
    blocks = composition.blocks(composition.demand(-1.0, max(tilt, 0.0)))
    return Envelope.of(((block, block.transform(tilt)) for block in blocks), tilt, composition.gaussian_variance)


def _smoothing(decay: Envelope, choice: Plan, tau2: float) -> tuple[float, float]:
    """(tau^2, highest frequency): no smoothing where the cf decays about as fast by itself."""
    alone = decay.frequency(choice.log_loss - choice.log_relative)
    if alone * choice.period <= 2.0 * math.pi * _FEW_FREQUENCIES:
        return 0.0, alone
    tau2, smoothed = _smoothed(decay, choice, tau2)
    return (0.0, alone) if alone <= 1.5 * smoothed else (tau2, smoothed)


def _smoothed(decay: Envelope, choice: Plan, tau2: float) -> tuple[float, float]:
    """The same with smoothing, by more than tau^2 if otherwise there would be too many frequencies."""
    price = math.log(max(1.0, choice.slope * (choice.slope + 1.0)))
    tau2 = max(tau2, _LEAST_SMOOTHING)  # 0, where the law is steeper than all floats, would be quadrupled for ever
    while tau2 <= 16.0:
        highest = decay.smoothed(tau2).frequency(choice.log_loss - choice.log_relative + price)
        if highest * choice.period <= 2.0 * math.pi * _MOST_FREQUENCIES:
            return tau2, highest
        tau2 *= 4.0
    raise RuleTooLargeError("too many frequencies")


def _evaluated(composition: Composition, choice: Plan, decay: Envelope, tau2: float, highest: float, others: np.ndarray,
               other_bounds: np.ndarray) -> Contour:
    """The transform at all frequencies, with its error bounds."""
    c, step = choice.tilt, 2.0 * math.pi / choice.period
    last = max(3, math.ceil(highest / step))
    y = step * np.arange(last + 1)
    variance = composition.gaussian_variance + tau2
    log_terms = -0.5 * variance * y**2 + 1j * y * variance * (c + 0.5)
    errors = 4.0 * EPSILON * np.abs(log_terms)
    log_mgf = 0.5 * variance * c * (c + 1.0)
    log_mgf_error = 4.0 * EPSILON * abs(log_mgf) + rule_error(c)
    for block in composition.blocks(composition.demand(-1.0, max(c, 0.0) * 1.01, float(y[-1]), c)):
        transform = block.transform(c)
        logs, rounding = log_characteristic(block, transform, step, last)
        log_terms, errors = log_terms + logs, errors + rounding
        log_mgf += float(block.total(transform.log_mgf))
        log_mgf_error += float(block.total(transform.rounding))
    log_cut = -float(decay.smoothed(tau2).exponent(y[-1]))
    return Contour(c, log_mgf, log_mgf_error, step, log_terms, errors, log_cut, tau2, others,
                   other_bounds + 0.5 * tau2 * others * (others + 1.0), composition.log_dropped)
