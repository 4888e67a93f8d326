"""Many leaves of one kind as one array: their cumulant generating functions and tilted laws, with bounds of every rounding error.

Relative accuracy for huge counts and tiny losses comes from the control variate E_P[e^L - 1] = 0: with psi(t) = e^t - 1 - t,

    E_P[e^{sL}] - 1 = E_P[psi(s L) - s psi(L)]            s = z + 1, no first-order term left to cancel.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import EPSILON, Demand, Rule

# Rules are built for at most this many nodes at a time, which bounds the memory of a long ledger.
_BLOCK_NODES = 400_000
_BLOCK_MEMBERS = 2_048
_AT_ONCE = 200_000  # exponentials: what a cache holds
# Units in the last place lost by a weighted sum over one row: numpy adds contiguous rows in pairs, in blocks of 128 with eight
# accumulators, so at most 16 + log2(nodes / 128) additions touch a term; the rest is for its factors.
_SUM_ERROR = 64.0
# The same of a sum over the leaves of a block, with their counts as factors, per unit of the sum of the moduli.
COUNT_ERROR = 16.0


_PSI_SERIES = [1.0 / math.factorial(k) for k in range(15, 1, -1)]  # of psi(t) / t^2


def psi(t: np.ndarray, growth: np.ndarray) -> np.ndarray:
    """e^t - 1 - t, to relative accuracy; `growth` is e^t - 1."""
    small = np.minimum(np.maximum(t, -0.5), 0.5)
    series = np.full(small.shape, _PSI_SERIES[0])
    for coefficient in _PSI_SERIES[1:]:
        series *= small
        series += coefficient
    return np.where(small == t, small * small * series, growth - t)


@dataclasses.dataclass(frozen=True)
class Block:
    """Some leaves of one kind, their counts, and their rule for the current demand."""

    counts: np.ndarray
    rule: Rule

    def total(self, per_leaf: np.ndarray) -> np.ndarray:
        """The sum over the leaves (last axis) with their counts, added in pairs: off by COUNT_ERROR / 2 units in the last place."""
        return (per_leaf * self.counts).sum(axis=-1)

    @functools.cached_property
    def weights(self) -> np.ndarray:
        return np.exp(self.rule.log_weights)

    @functools.cached_property
    def psi_values(self) -> np.ndarray:
        """sum_q w_q psi(v_q)."""
        return self._bent(self.rule.values, self.rule.log_weights + self.rule.values)[1]

    def _bent(self, exponents: np.ndarray, joint: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """w_q (e^t - 1) at exponents t, where joint = log w_q + t is at most 3, and sum_q w_q psi(t); from e^joint where t is large."""
        moderate = np.minimum(exponents, 1.0)
        growth = np.expm1(moderate)
        gained, bends = self.weights * growth, self.weights * psi(moderate, growth)
        large = exponents > 1.0
        if large.any():
            gained = np.where(large, np.exp(np.minimum(joint, 3.0)) - self.weights, gained)
            bends = np.where(large, gained - self.weights * exponents, bends)
        return gained, bends.sum(axis=-1)

    def cgf(self, tilts: np.ndarray) -> np.ndarray:
        """Sums over the leaves of log-MGF, mean, variance and rounding bound of the log-MGF, one column per tilt.

        Without the control variate: the error is a few units in the last place per composition, of 1 and of the exponents. With
        tilted weights omega_q = e^{joint_q - K}, E|joint| <= |K| + entropy <= |K| + log n and |log w| <= |joint| + |s L|, so the
        mean size of an exponent |log w| + |s L| is at most |K| + log n + 2 |s| sqrt(E L^2). See `transforms` for the rounding of s.
        """
        values, log_weights = self.rule.values, self.rule.log_weights
        chunk, terms = max(1, _AT_ONCE // values.size), _SUM_ERROR + 4.0 * math.log(values.shape[1])
        columns = []
        for start in range(0, len(tilts), chunk):
            exponents = tilts[start:start + chunk, None] + 1.0
            weights = exponents[..., None] * values
            weights += log_weights
            peak = weights.max(axis=2, keepdims=True)
            weights -= peak
            np.exp(weights, out=weights)
            total = weights.sum(axis=2)
            mean = np.einsum("tmn,mn->tm", weights, values) / total
            square = np.einsum("tmn,mn->tm", weights, values * values) / total
            log_mgf = np.log(total) + peak[..., 0]
            off = _units_off(tilts[start:start + chunk, None], exponents)
            rounding = terms + (4.0 + COUNT_ERROR) * np.abs(log_mgf) + (8.0 * np.abs(exponents) + 4.0 * off) * np.sqrt(square)
            columns.append(self.total(np.array([log_mgf, mean, np.maximum(square - mean * mean, 0.0), EPSILON * rounding])))
        return columns[0] if len(columns) == 1 else np.concatenate(columns, axis=1)

    def accurate_cgf(self, tilts: np.ndarray) -> np.ndarray:
        """The same with the control variate, for huge counts."""
        t = self.transforms(tilts)
        return self.total(np.array([t.log_mgf, t.mean, t.variance, t.rounding]))

    def transform(self, tilt: float) -> Transform:
        """E_Q[e^{tilt L}] of every leaf with the tilted weights, mean and variance."""
        return self.transforms(np.array([tilt])).at(0)

    def transforms(self, tilts: np.ndarray) -> Transform:
        """The same at several tilts, along a first axis.

        s = tilt + 1 is rounded, by d say, which moves K by d K' to first order and an exponent by d |L|: charged four times.
        """
        rule, s = self.rule, tilts[:, None] + 1.0
        exponents = s[..., None] * rule.values
        joint = rule.log_weights + exponents
        peak = joint.max(axis=-1)
        relative = np.exp(joint - peak[..., None])
        total = relative.sum(axis=-1)
        weights = relative / total[..., None]
        # An exponent of size t is rounded by about t units in the last place, and so is its exponential.
        sizes = np.abs(rule.values)
        off = _units_off(tilts[:, None], s)[..., None] * sizes
        blurred = weights * (np.abs(np.maximum(rule.log_weights, -1e300)) + np.abs(exponents) + off)  # padding has log-weight -inf
        mean = (weights * rule.values).sum(axis=-1)
        near, log_mgf, mean, scale = self._refined(s, exponents, joint, peak, np.log(total) + peak, mean)
        exponent_error = np.where(near[..., None] & (exponents < 1.0), weights * off, blurred).sum(axis=-1)
        variance = (weights * (rule.values - mean[..., None]) ** 2).sum(axis=-1)
        # The last term is for the sum over the leaves.
        rounding = EPSILON * (_SUM_ERROR * scale + 4.0 * exponent_error + COUNT_ERROR * np.abs(log_mgf))
        return Transform(log_mgf, weights, mean, variance, rounding, 4.0 * blurred.sum(axis=-1),
                         4.0 * (blurred * sizes).sum(axis=-1))

    def _refined(self, s: np.ndarray, exponents: np.ndarray, joint: np.ndarray, peak: np.ndarray, log_mgf: np.ndarray,
                 mean: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Where the control variate of the module's header is used, log-MGF and mean with it, and the size of what it adds up."""
        rule = self.rule
        gained, bends = self._bent(exponents, joint)
        lost, infinite = np.array([rule.lost, rule.infinite]) + (0.0 if rule.missing is None else rule.missing)
        shift = -lost + s * (lost - infinite)
        small = bends - s * self.psi_values + shift
        near = (peak < 2.0) & (np.abs(small) < 0.5)
        log_mgf = np.where(near, np.log1p(np.where(near, small, 0.0)), log_mgf)
        # The same control variate for the mean: E_P[L e^{sL}] = E_P[L (e^{sL} - 1) - psi(L)] + lost - infinite.
        growth = np.exp(np.where(near, -log_mgf, 0.0))
        exact = ((gained * rule.values).sum(axis=-1) - self.psi_values + lost - infinite) * growth
        scale = np.where(near, (bends + np.abs(s) * self.psi_values + np.abs(shift)) * growth, 1.0)
        return near, log_mgf, np.where(near, exact, mean), scale


def _units_off(tilts: np.ndarray, exponents: np.ndarray) -> np.ndarray:
    """By how much the rounded s = tilt + 1 is off, in units in the last place of 1; both differences are exact."""
    return np.abs((exponents - 1.0) - tilts) / EPSILON


@dataclasses.dataclass(frozen=True)
class Transform:
    """What a block says at one tilt, per leaf; or at several tilts, along a first axis.

    Attributes:
      log_mgf, mean, variance: K_i and its derivatives.
      weights: the tilted weights, one row per leaf, adding up to 1.
      rounding: bound of the rounding error of log_mgf.
      weight_error, weighted_loss_error: sums of the relative errors of the tilted weights, in units in the last place, plain and
        times |L|: what rounding can do to an expectation of something bounded by 1, or by |L|.
    """

    log_mgf: np.ndarray
    weights: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    rounding: np.ndarray
    weight_error: np.ndarray
    weighted_loss_error: np.ndarray

    def at(self, number: int) -> Transform:
        """That of one of several tilts."""
        return Transform(*(getattr(self, field.name)[number] for field in dataclasses.fields(self)))


Groups = dict[tuple[type, ...], tuple[list[Pllr], list[float]]]


def grouped(counts: Mapping[Pllr, int]) -> tuple[float, Groups]:
    """The squared shift of all unsampled Gaussians together, and the other leaves by kind, with their counts."""
    groups: Groups = {}
    variances = []
    for pllr, count in counts.items():
        if pllr.gaussian_variance is not None:
            variances.append(count * pllr.gaussian_variance)
        else:
            members, times = groups.setdefault(pllr.kind, ([], []))
            members.append(pllr)
            times.append(float(count))
    return math.fsum(variances), groups


def blocks(groups: Groups, demand: Demand) -> Iterator[Block]:
    """All leaves with rules that meet the demand, a bounded number of nodes at a time."""
    for members, counts in groups.values():
        for start, stop in _slices(members, demand):
            yield Block(np.array(counts[start:stop]), type(members[0]).rules(members[start:stop], demand))


def _slices(members: Sequence[Any], demand: Demand) -> Iterator[tuple[int, int]]:
    """Index ranges of members that fit in one block."""
    if len(members) == 1:
        yield 0, 1
        return
    nodes = type(members[0]).rules(members[:1], demand).values.shape[1]
    size = max(1, min(_BLOCK_MEMBERS, _BLOCK_NODES // nodes))
    for start in range(0, len(members), size):
        yield start, min(start + size, len(members))
