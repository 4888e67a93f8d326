"""Theorem: delta(epsilon) where the loss of every leaf lives on one lattice: randomised response, discrete Laplace, any two atoms.

There the characteristic function has a period, does not decay, and needs no smoothing. With Y = offset + a K, K an integer, the
theorem of `contour.py` becomes a finite sum. Let y be the first lattice point above eps, theta = y - eps in (0, a], and
z_j = c + 2 pi i j / (a n). For c > 0 write the payoff 1 - e^{eps - y_k} = (1 - e^{y - y_k}) + (1 - e^{-theta}) e^{y - y_k} and sum
both geometric series over the lattice points y_k >= y:

    G(eps) + aliases = D + (1 - e^{-theta}) V,       aliases = sum_{r != 0} e^{c r a n} G(eps + r a n) >= 0,
    V = (1/n) sum_{j < n} e^{K(z_j) - z_j y} / (1 - e^{-(z_j+1) a}),
    D = (1/n) sum_{j < n} e^{K(z_j) - z_j y} e^{-z_j a} (1 - e^{-a}) / ((1 - e^{-z_j a}) (1 - e^{-(z_j+1) a})),

because (1/n) sum_j e^{z_j a k} over the n frequencies picks out the multiples of n. For -1 < c < 0, where G = 1 - delta, the lattice
points below y count 1: G(eps) + aliases = N + e^{-theta} V with
N = (1/n) sum_j e^{K(z_j) - z_j y} e^{z_j a} / (1 - e^{z_j a}).
Both tables over y are one FFT each. Aliases: G(eps + r a n) <= P(Y >= y + r a n) <= e^{K(c') - c' (y + r a n)}, and as in `aliases.py`
at most kappa(c') e^{K(c') - c' (eps + r a n)} with eps >= y - a: the smaller of 1 and kappa(c') e^{c' a} counts, c' > 0. Where all
losses are small, so is the payoff, and kappa with it. Either is a geometric series in r.

Losses are lattice points only up to rounding: if every sum is within `shift` of its lattice point, then
G_lattice(eps + shift) <= G(eps) <= G_lattice(eps - shift) (the other way round for c < 0).
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy import fft

from dp_edgeworth.losses.rules import EPSILON, Rule
from dp_edgeworth.proofs.aliases import AliasBound, log_kappa
from dp_edgeworth.proofs.contour import sum_error
from dp_edgeworth.proofs.curve import Curve, LogBounds
from dp_edgeworth.sums.blocks import Block
from dp_edgeworth.sums.characteristic import log_characteristic
from dp_edgeworth.sums.composition import Composition, rule_error

_FURTHEST = 1e13  # lattice points


@dataclasses.dataclass(frozen=True)
class LatticeContour(Curve):
    """All that does not depend on epsilon: the tables of the module's header, relative to e^{K(c) - c y}, and their errors."""

    tilt: float
    log_mgf: float
    log_mgf_error: float
    spacing: float
    origin: float  # the lattice point that belongs to index 0 of the tables
    shift: float
    first: np.ndarray  # D, or N for a negative tilt, over e^{-|c| a}
    second: np.ndarray  # V
    first_error: float
    second_error: float
    aliases: AliasBound  # relative to e^{K(c) - c y}

    theorem = "lattice"

    @property
    def size(self) -> int:
        return len(self.first)

    def bounds(self, epsilons: np.ndarray) -> LogBounds:
        """Theorem of the module's header at every epsilon."""
        eps = np.atleast_1d(np.asarray(epsilons, float))
        sign = 1.0 if self.tilt > 0 else -1.0
        _, middle, _, slope = self._at(eps)
        upper = self._at(eps - sign * self.shift)[2]
        lower = self._at(eps + sign * self.shift)[0]
        return LogBounds(lower, np.clip(middle, lower, upper), upper, slope)

    def light(self, epsilon: float) -> tuple[float, float]:
        """About log G and its slope, off two numbers of the tables."""
        place = (epsilon - self.origin) / self.spacing
        if not abs(place) < _FURTHEST:
            return math.nan, math.nan
        k = math.floor(place) + 1
        y = self.origin + self.spacing * k
        theta = min(max(y - epsilon, 0.0), self.spacing)
        first, second = (max(float(table[k % self.size]), 0.0) for table in (self.first, self.second))
        share = -math.expm1(-theta) if self.tilt > 0 else math.exp(-theta)
        total = first * math.exp(-abs(self.tilt) * self.spacing) + share * second
        if total == 0.0:
            return -math.inf, -self.tilt
        slope = second * math.exp(-theta) / total
        return self.log_mgf - self.tilt * y + math.log(total), -slope if self.tilt > 0 else min(slope, 1.0)

    def _at(self, eps: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """log of lower bound, estimate and upper bound of G on the lattice, and d log G / d eps."""
        k = np.floor((eps - self.origin) / self.spacing) + 1.0
        y = self.origin + self.spacing * k
        theta = np.clip(y - eps, 0.0, self.spacing)
        index = np.mod(k, self.size).astype(np.int64)
        base = self.log_mgf - self.tilt * y
        base_error = self.log_mgf_error + 4.0 * EPSILON * (np.abs(self.log_mgf) + np.abs(self.tilt * y))
        with np.errstate(divide="ignore", invalid="ignore"):
            factor = np.log(-np.expm1(-theta)) if self.tilt > 0 else -theta
            lower, middle, upper = (self._log_total(index, factor, side) for side in (-1.0, 0.0, 1.0))
            slope = np.exp(np.minimum(np.log(np.maximum(self.second[index], 0.0)) - theta - middle, 700.0 if self.tilt > 0 else 0.0))
            lower = base - base_error + lower + np.log1p(-np.exp(np.minimum(self.aliases(y) + base_error - lower, 0.0)))
        usable = np.isfinite(lower) & (slope > 0)
        sign = -1.0 if self.tilt > 0 else 1.0
        # A table that is negative beyond its error has one that was not charged: then nothing is proved.
        sound = (self.first[index] >= -self.first_error) & (self.second[index] >= -self.second_error)
        return (np.where(sound & ~np.isnan(lower), lower, -np.inf), base + middle, np.where(sound, base + base_error + upper, np.inf),
                np.where(usable, sign * slope, -self.tilt))

    def _log_total(self, index: np.ndarray, factor: np.ndarray, side: float) -> np.ndarray:
        """log(first + e^factor second), tables moved by `side` times their errors."""
        first = np.log(np.maximum(self.first[index] + side * self.first_error, 0.0)) - abs(self.tilt) * self.spacing
        return np.logaddexp(first, factor + np.log(np.maximum(self.second[index] + side * self.second_error, 0.0)))


def lattice_contour(composition: Composition, tilt: float, points: int, others: np.ndarray) -> LatticeContour:
    """The theorem with a tilt c, positive or in (-1, 0), n points, and tilts for the aliases on the same side of 0."""
    spacing = composition.spacing
    if spacing is None or points < 2 or not (math.isfinite(tilt) and tilt > -1.0 and tilt != 0.0):
        raise ValueError(f"A lattice needs a spacing, 2 points and a tilt above -1 and not 0. Found {spacing}, {points}, {tilt}.")
    if not (others > 0.0 if tilt > 0.0 else (others < 0.0) & (others > -1.0)).all():
        raise ValueError(f"Tilts for the aliases must be positive for delta, in (-1, 0) for 1 - delta. Found {others}.")
    step, last = 2.0 * math.pi / (spacing * points), points // 2
    log_terms, errors = np.zeros(last + 1, complex), np.zeros(last + 1)
    log_mgf, log_mgf_error, origin, shift = 0.0, float(rule_error(np.array(tilt))), 0.0, 0.0
    for block in composition.blocks(composition.demand(-1.0, max(tilt, 0.0))):
        transform = block.transform(tilt)
        centres, indices, off = _indices(block.rule, transform.mean, spacing)
        rule = dataclasses.replace(block.rule, values=spacing * indices)
        logs, rounding = log_characteristic(Block(block.counts, rule), transform, step, last)
        log_terms, errors = log_terms + logs, errors + rounding
        log_mgf += float(block.total(transform.log_mgf))
        log_mgf_error += float(block.total(transform.rounding))
        origin += float(block.counts @ centres)
        largest = np.abs(block.rule.values).max(axis=1)
        shift += float(block.counts @ (off + EPSILON * (8.0 * largest + (4.0 + len(centres)) * np.abs(centres))))
    tables = lattice_tables(log_terms, errors + 2.0 * abs(tilt) * shift, tilt, spacing, points)
    aliases = _aliases(composition, tilt, others, spacing, log_mgf, shift, points)
    return LatticeContour(tilt, log_mgf, log_mgf_error + abs(tilt) * shift, spacing, origin, shift, *tables, aliases)


def _aliases(composition: Composition, tilt: float, others: np.ndarray, spacing: float, log_mgf: float, shift: float,
             points: int) -> AliasBound:
    """Of the module's header: the smaller of 1 and kappa(c') e^{c' a} times e^{K(c')}."""
    rungs = composition.rungs(others)
    factor = np.minimum(log_kappa(others) + np.maximum(others, 0.0) * spacing, 0.0) * (1.0 - 1e-12)
    bounds = rungs.log_mgf + rungs.error + factor + np.abs(others) * shift
    free = np.array([0.0]) if tilt > 0 else np.array([0.0, -1.0])
    tilts, log_bounds = np.concatenate([others, free]), np.concatenate([bounds, np.abs(free) * shift])
    return AliasBound(tilts, log_bounds, tilt, log_mgf, spacing * points)


def _indices(rule: Rule, means: np.ndarray, spacing: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Per leaf: the atom nearest to the mean, all atoms as integers from there, and how far they are from the lattice."""
    used = rule.log_weights > -np.inf
    nearest = np.argmin(np.where(used, np.abs(rule.values - means[:, None]), np.inf), axis=1)
    centres = rule.values[np.arange(len(means)), nearest]
    gaps = np.where(used, rule.values - centres[:, None], 0.0)
    indices = np.round(gaps / spacing)
    return centres, indices, np.abs(gaps - spacing * indices).max(axis=1)


def lattice_tables(log_terms: np.ndarray, errors: np.ndarray, tilt: float, spacing: float, points: int) -> tuple[
        np.ndarray, np.ndarray, float, float]:
    """The two tables of the module's header over all indices of y modulo n, and the bounds of their errors."""
    angle = 2.0 * math.pi / points * np.arange(len(log_terms))
    here, further = geometric(abs(tilt) * spacing, angle), geometric((tilt + 1.0) * spacing, angle)
    ends = -math.expm1(-spacing) * np.exp(-1j * angle) * here * further if tilt > 0 else np.exp(1j * angle) * np.conj(here)
    weights = np.full(len(angle), 2.0 / points)
    weights[0] = 1.0 / points
    if points % 2 == 0:
        weights[-1] = 1.0 / points
    tables, bounds = [], []
    # Terms below e^-600 are slow to add up, and that is far below the rules' error.
    terms = np.exp(np.maximum(log_terms.real, -600.0) + 1j * log_terms.imag)
    for kernel in (ends, further):
        tables.append(fft.irfft(np.conj(terms * kernel), points))
        bounds.append(sum_error(log_terms, errors, weights * np.abs(kernel), 16.0 + 8.0 * math.log2(points)))
    return tables[0], tables[1], bounds[0], bounds[1]


def geometric(x: float, angle: np.ndarray) -> np.ndarray:
    """1 / (1 - e^{-x - i angle}), x > 0, without cancellation where both are small."""
    half = np.sin(0.5 * angle)
    return 1.0 / (-math.expm1(-x) + math.exp(-x) * (2.0 * half * half + 1j * np.sin(angle)))
