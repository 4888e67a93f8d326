"""One direction of a composition as a sum of PLLRs.

`Composition` is the sum of all PLLRs of one direction, equal leaves merged with their counts.
Its cumulant generating function

    K(z) = sum_i m_i log E_{Q_i}[e^{z L_i}]           (losses of +inf left out, so K(0) = log(1 - infinite mass))

is all that the expansions and the certified bounds look at. Unsampled Gaussian leaves are one closed-form term
M^2 (z^2 + z) / 2 however many there are. Other leaves are evaluated in blocks of rules (`pllr.Rule`).

Relative accuracy for huge counts and tiny losses comes from the control variate E_P[e^L - 1] = 0: with
psi(t) = e^t - 1 - t,

    E_P[e^{sL}] - 1 = E_P[psi(s L) - s psi(L)]            s = z + 1, no first-order term left to cancel.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from scipy import special

from dp_edgeworth.losses.lattice_spacing import common_spacing
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import EPSILON, Demand, Rule

# Rules are built for at most this many nodes at a time, which bounds the memory of a long ledger.
_BLOCK_NODES = 400_000
_BLOCK_MEMBERS = 2_048
_CACHED_NODES = 4_000_000
# Units in the last place lost by a weighted sum over one row: numpy adds contiguous rows in pairs, in blocks of 128 with eight
# accumulators, so at most 16 + log2(nodes / 128) additions touch a term; the rest is for its factors.
_SUM_ERROR = 64.0
# The same of a sum over the leaves of a block, with their counts as factors, per unit of the sum of the moduli.
COUNT_ERROR = 16.0
# Up to this many compositions the cumulant generating function needs no control variate.
_PLAIN_COUNT, _ROUGH_COUNT = 1e6, 1e12


def psi(t: np.ndarray) -> np.ndarray:
    """e^t - 1 - t, to relative accuracy."""
    small = np.clip(t, -0.5, 0.5)
    series = np.ones_like(small)
    for k in range(15, 2, -1):
        series = 1.0 + series * small / k
    with np.errstate(over="ignore"):
        return np.where(np.abs(t) < 0.5, 0.5 * small * small * series, np.expm1(t) - t)


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
        """sum_q w_q psi(v_q), with w e^v formed in logarithms where v is large."""
        large = self.rule.values > 1.0
        bend = np.exp(np.where(large, self.rule.log_weights + self.rule.values, -np.inf))
        rest = psi(np.where(large, 0.0, self.rule.values))
        return np.where(large, bend - self.weights * (1.0 + self.rule.values), self.weights * rest).sum(axis=1)

    def cgf(self, tilts: np.ndarray) -> np.ndarray:
        """Sums over the leaves of log-MGF, mean, variance and rounding bound of the log-MGF, one column per tilt.

        Without the control variate: the error is a few units in the last place per composition, of 1 and of the exponents. With
        tilted weights omega_q = e^{joint_q - K}, E|joint| <= |K| + entropy <= |K| + log n and |log w| <= |joint| + |s L|, so the
        mean size of an exponent |log w| + |s L| is at most |K| + log n + 2 |s| sqrt(E L^2). See `transforms` for the rounding of s.
        """
        values, log_weights = self.rule.values, self.rule.log_weights
        chunk, terms = max(1, _BLOCK_NODES // values.size), _SUM_ERROR + 4.0 * math.log(values.shape[1])
        columns = []
        for start in range(0, len(tilts), chunk):
            exponents = tilts[start:start + chunk, None] + 1.0
            joint = exponents[..., None] * values + log_weights
            peak = joint.max(axis=2, keepdims=True)
            weights = np.exp(joint - peak)
            total = weights.sum(axis=2)
            mean = np.einsum("tmn,mn->tm", weights, values) / total
            square = np.einsum("tmn,mn->tm", weights, values * values) / total
            log_mgf = np.log(total) + peak[..., 0]
            off = _units_off(tilts[start:start + chunk, None], exponents)
            rounding = terms + (4.0 + COUNT_ERROR) * np.abs(log_mgf) + (8.0 * np.abs(exponents) + 4.0 * off) * np.sqrt(square)
            columns.append(self.total(np.array([log_mgf, mean, np.maximum(square - mean * mean, 0.0), EPSILON * rounding])))
        return np.concatenate(columns, axis=1)

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
        used = weights > 0
        off = _units_off(tilts[:, None], s)[..., None] * np.abs(rule.values)
        sizes = np.where(used, np.abs(np.where(used, rule.log_weights, 0.0)) + np.abs(exponents) + off, 0.0)
        blurred = weights * sizes
        mean = (weights * rule.values).sum(axis=-1)
        near, log_mgf, mean, scale = self._refined(s, exponents, joint, peak, np.log(total) + peak, mean)
        exponent_error = np.where(near[..., None] & (exponents < 1.0), weights * off, blurred).sum(axis=-1)
        variance = (weights * (rule.values - mean[..., None]) ** 2).sum(axis=-1)
        # The last term is for the sum over the leaves.
        rounding = EPSILON * (_SUM_ERROR * scale + 4.0 * exponent_error + COUNT_ERROR * np.abs(log_mgf))
        return Transform(log_mgf, weights, mean, variance, rounding, 4.0 * blurred.sum(axis=-1),
                         4.0 * (blurred * np.abs(rule.values)).sum(axis=-1))

    def _refined(self, s: np.ndarray, exponents: np.ndarray, joint: np.ndarray, peak: np.ndarray, log_mgf: np.ndarray,
                 mean: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Where the control variate of the module's header is used, log-MGF and mean with it, and the size of what it adds up."""
        rule = self.rule
        # sum w psi(s v), from the exponentials already at hand where they are large
        moderate = np.minimum(exponents, 1.0)
        gained = np.where(exponents < 1.0, self.weights * np.expm1(moderate),
                          np.exp(np.minimum(joint, 3.0)) - self.weights)
        bends = np.where(exponents < 1.0, self.weights * psi(moderate), gained - self.weights * exponents).sum(axis=-1)
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


class Composition:
    """The sum of the PLLRs of one direction.

    Args:
      counts: how often each PLLR occurs.
      log_tail: log of the Q-mass of the largest losses that may be left out of every PLLR, see `truncated`.
    """

    def __init__(self, counts: Mapping[Pllr, int], log_tail: float = -math.inf):
        self.counts = dict(counts)
        self.log_tail = log_tail
        self.gaussian_variance, self._groups = grouped(counts)
        self.total = 0.0
        log_finite, log_kept, suprema, finite_suprema = [], [], [], []
        for pllr, count in counts.items():
            self.total += count
            suprema.append(count * pllr.supremum)
            finite_suprema.append(count * pllr.finite_supremum)
            if pllr.infinite_mass:
                log_finite.append(count * _log1m(pllr.infinite_mass))
            if pllr.lost_mass:
                log_kept.append(count * _log1m(pllr.lost_mass))
        self.log_finite = math.fsum(log_finite)  # log of the Q-mass of finite losses
        self.log_kept = math.fsum(log_kept)  # log of the P-mass of finite losses
        self.supremum = _total(suprema)
        self.finite_supremum = _total(finite_suprema)
        self.largest_loss = max((pllr.largest_kept(log_tail) if pllr.cuttable else pllr.finite_supremum  # of one leaf
                                 for pllr in counts), default=0.0)
        self.leaf_count = len(counts)
        # log of the Q-mass of the largest possible loss, rounded down: counts multiply the rounding of a leaf's own mass
        self.log_top_mass = -math.inf
        if math.isfinite(self.supremum) and all(pllr.top_mass > 0 for pllr in counts):
            self.log_top_mass = math.fsum(count * (math.log(pllr.top_mass) - EPSILON * (16.0 + 4.0 * pllr.loss_scale))
                                          for pllr, count in counts.items())
        self.single = next(iter(counts)) if self.total == 1 else None
        self._cache: tuple[Demand, list[Block]] | None = None

    @property
    def is_gaussian(self) -> bool:
        """All leaves are unsampled Gaussians."""
        return not self._groups

    def truncated(self, log_dropped: float) -> Composition:
        """The same without the largest losses: all of them together have a Q-mass of at most e^{log_dropped}.

        E[payoff; nothing left out] <= E[payoff] <= E[payoff; nothing left out] + e^{log_dropped} for payoffs in [0, 1].
        """
        return Composition(self.counts, log_dropped - math.log(self.total))

    @property
    def supremum_error(self) -> float:
        """Bound of the relative rounding error of the largest losses, which are sums of positive numbers."""
        return max((pllr.supremum_error for pllr in self.counts), default=4e-15)

    @property
    def atomic(self) -> bool:
        """Whether all losses are atoms."""
        return all(pllr.atomic for pllr in self.counts)

    @property
    def has_tail(self) -> bool:
        """Whether there are large losses that `truncated` can leave out."""
        return math.isinf(self.finite_supremum) or any(pllr.cuttable for pllr in self.counts)

    @property
    def log_dropped(self) -> float:
        """log of a bound of the probability under Q that some loss was left out."""
        return self.log_tail + math.log(self.total)

    @functools.cached_property
    def spacing(self) -> float | None:
        """Spacing of the lattice that carries all losses, or None."""
        return None if self.gaussian_variance > 0 else common_spacing(self.counts)

    @property
    def infinite_mass(self) -> float:
        """Probability under Q of an infinite loss."""
        return self.single.infinite_mass if self.single is not None else -math.expm1(self.log_finite)

    @property
    def infinite_mass_margin(self) -> float:
        """What the infinite mass may be off by: nothing where it is one number of a single leaf."""
        error = self.single.infinite_mass_error if self.single is not None and self.single.dominated is self.single else 1e-12
        return max(self.infinite_mass * error, 5e-324) if error and self.infinite_mass else 0.0

    def demand(self, low_tilt: float, high_tilt: float, frequency: float = 0.0, turning: float = -math.inf) -> Demand:
        return Demand(low_tilt + 1.0, high_tilt + 1.0, frequency, math.log(max(self.total, 1.0)), self.log_tail, turning + 1.0)

    def blocks(self, demand: Demand) -> Iterator[Block]:
        """All non-Gaussian leaves with rules that meet the demand, a bounded number of nodes at a time."""
        if self._cache is not None and _covers(self._cache[0], demand):
            yield from self._cache[1]
            return
        kept: list[Block] | None = []
        for block in blocks(self._groups, demand):
            if kept is not None:
                kept.append(block)
                if sum(b.rule.values.size for b in kept) > _CACHED_NODES:
                    kept = None
            yield block
        if kept is not None:
            self._cache = (demand, kept)

    @np.errstate(over="ignore", invalid="ignore")
    def cgf(self, tilts: Sequence[float] | np.ndarray, demand: Demand | None = None, *, rough: bool = False) -> np.ndarray:
        """Rows K, K', K'' and the rounding bound of K, one column per real tilt > -1.

        `rough`: an absolute error of K of about 0.01 will do, to plan with.
        """
        tilts = np.asarray(tilts, float)
        demand = demand or self.demand(min(float(tilts.min()), -1.0), float(tilts.max()))
        result = np.zeros((4, len(tilts)))
        result[3] = 1e-17 * (2.0 + np.abs(tilts))  # the rules themselves, see `spectral`
        variance = self.gaussian_variance
        if variance > 0:
            result[0] = 0.5 * variance * tilts * (tilts + 1.0)
            result[1] = variance * (tilts + 0.5)
            result[2] = variance
            result[3] += 4.0 * EPSILON * np.abs(result[0])
        for block in self.blocks(demand):
            if self.total <= (_ROUGH_COUNT if rough else _PLAIN_COUNT):
                result += block.cgf(tilts)
                continue
            for column, tilt in enumerate(tilts):
                t = block.transform(float(tilt))
                result[:, column] += block.total(np.array([t.log_mgf, t.mean, t.variance, t.rounding]))
        return result

    def cumulants(self, order: int, tilt: float = 0.0) -> np.ndarray:
        """Cumulants 1..order of the sum under the law tilted by `tilt` (0: Y under Q, -1: X under P)."""
        known = {pllr: count for pllr, count in self.counts.items() if pllr.moments_only}
        if known:
            rest = Composition({pllr: count for pllr, count in self.counts.items() if pllr not in known})
            return sum((float(count) * pllr.cumulants(order, tilt) for pllr, count in known.items()),  # type: ignore[attr-defined]
                       rest.cumulants(order, tilt))
        # L^order grows like e^{order x} where the sampled loss bends, so the nodes must reach that far.
        return self.expansion(order, tilt, self.demand(tilt - order, tilt + order))[1]

    def expansion(self, order: int, tilt: float, demand: Demand) -> tuple[float, np.ndarray]:
        """K and its derivatives 1..order at one tilt, the cumulants of the tilted sum."""
        log_mgf = 0.5 * self.gaussian_variance * tilt * (tilt + 1.0)
        result = np.zeros(order)
        result[0] = self.gaussian_variance * (tilt + 0.5)
        if order > 1:
            result[1] = self.gaussian_variance
        for block in self.blocks(demand):
            t = block.transform(tilt)
            log_mgf += float(block.total(t.log_mgf))
            centred = block.rule.values - t.mean[:, None]
            powers, moments = np.ones_like(centred), [np.ones(len(t.mean))]
            for _ in range(order):
                powers = powers * centred
                moments.append((t.weights * powers).sum(axis=1))
            central = np.array(moments)
            central[1:2] = 0.0
            kappa = cumulants_from_central_moments(central)
            kappa[0] = t.mean
            result += kappa @ block.counts
        return log_mgf, result


def cumulants_from_central_moments(moments: np.ndarray) -> np.ndarray:
    """kappa_1..kappa_n from central moments mu_0..mu_n: kappa_n = mu_n - sum_k C(n-1, k-1) kappa_k mu_{n-k}."""
    order = len(moments) - 1
    kappa = np.zeros((order + 1, *moments.shape[1:]))
    for n in range(1, order + 1):
        kappa[n] = moments[n] - sum((special.comb(n - 1, k - 1) * kappa[k] * moments[n - k] for k in range(1, n)), 0.0)
    return kappa[1:]


def _total(suprema: Sequence[float]) -> float:
    """Sum of upper bounds, of which some may be infinite."""
    return math.inf if math.inf in suprema else math.fsum(suprema) if -math.inf not in suprema else -math.inf


def _log1m(mass: float) -> float:
    return math.log1p(-mass) if mass < 1.0 else -math.inf


def _covers(have: Demand, want: Demand) -> bool:
    """A finer rule serves, unless it is so much finer that it would be slow."""
    return (have.low <= want.low and have.high >= want.high and have.frequency >= want.frequency
            and have.log_count >= want.log_count and (want.frequency == 0.0 or have.turning <= want.turning)
            and have.frequency <= 4.0 * want.frequency + 1.0)


def _slices(members: Sequence[Any], demand: Demand) -> Iterator[tuple[int, int]]:
    """Index ranges of members that fit in one block."""
    if len(members) == 1:
        yield 0, 1
        return
    nodes = type(members[0]).rules(members[:1], demand).values.shape[1]
    size = max(1, min(_BLOCK_MEMBERS, _BLOCK_NODES // nodes))
    for start in range(0, len(members), size):
        yield start, min(start + size, len(members))
