"""Certified bounds of delta(epsilon) where a few rare, large losses carry it: strata by the number of large losses.

On one contour the amplitude e^{K(c) - c eps} of a heavy-tailed sum is far above delta, and what rounding does to it hides the answer.
Cut the losses of every heavy leaf i (count m_i, measure A_i under Q) at two thresholds into positive measures

    A_i = S_i + B_i + F_i      small, large, far;      q_i the Q-mass of B_i;  f_i and g_i the Q-mass and the P-mass of F_i.

Theorem (strata). With the payoff h = (1 - e^{eps - .})_+, O the law of all other leaves, and for k = (k_1, ..., k_n)

    G_k(eps) = prod_i C(m_i, k_i) int h d[O * S_1^{*(m_1 - k_1)} * B_1^{*k_1} * ... * S_n^{*(m_n - k_n)} * B_n^{*k_n}],
    D(eps)   = Q(O finite) [1 - prod_i (1 - f_i)^{m_i}] - e^eps P(O finite) [1 - prod_i (1 - g_i)^{m_i}],

    sum_{k in N} G_k + max(D, 0)  <=  G  <=  sum_{k in N} G_k + sum_{k not in N, |k| <= M} C_k + (sum_i m_i q_i)^{M+1} / (M+1)! + U

for any set N of strata, where C_k >= G_k is the Chernoff bound prod_i C(m_i, k_i) kappa(c) e^{K_k(c) - c eps}, any c > 0, and U is
either of  sum_i m_i f_i  and  max(D, 0) + e^eps (sum_i m_i g_i) [sum_i m_i a_i + e^{l (eps - t)} prod_i max(1, E_i)^{m_i}],
t the far threshold, any l > 0,
a_i the P-mass of the most negative losses of leaf i (below any x) and E_i = E_P[e^{-l L}] of the others.
Proof. Expand prod_i A_i^{*m_i}; all terms are positive measures. Those without a far loss are the G_k. More than M losses are large
with probability at most the expected number of (M+1)-sets of large losses, an elementary symmetric polynomial of the q's, at most
(sum m_i q_i)^{M+1} / (M+1)!; and h <= 1. The terms with a far loss: h = (1 - e^{eps - Y}) + (e^{eps - Y} - 1)_+. The first part has the
expectation D, because E_Q[e^{-Y}; event] is the P-mass of the event. The second is not negative, and its expectation is at most
e^eps P(some loss is far, Y < eps), where either one of the other losses is among the most negative, or Markov's inequality for
e^{-l Y} applies. (Leaves that are infinite with positive probability under P or Q: no U of the second kind is used.)

Each G_k with k in N is bounded by the theorem of `spectral.py`, on a contour of its own. That theorem speaks of any finite positive
measure; of its mass it uses only that it is at most 1 (the aliases on the left, `plan` with K(0) <= 0), so B_i is divided by a number
e^{b_i} just above q_i and G_k multiplied by prod_i e^{k_i b_i}. The losses of a stratum are bounded, and its amplitude is close to what
it adds to delta. What is charged besides the terms of `spectral.py`:

    masses  of S_i and B_i, which enter K through the control variate: to 1e-12 relative, so 1e-12 (1 + |c|) (1 + sum k_i + all that is
            missing) in K; where q_i, f_i and g_i are bounds they are raised by 1e-6; D is moved by 4e-10 of the terms it subtracts: two
            Phi at -a are off by 2 a^2 units (`cells.py`), and a shift >= 1e-4 makes 4 a / shift units of their difference of it.
    factor  log of prod C(m_i, k_i) e^{k_i b_i}: 1e-14 of the sum of its terms' sizes.

`Planner` chooses thresholds, tilts and strata, from unproved numbers; nothing that is proved depends on them.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
from scipy import special

from dp_edgeworth.losses.gaussian_curve import LOG_SQRT_2PI
from dp_edgeworth.losses.gaussian_noise import GaussianShift
from dp_edgeworth.losses.operations import Reversed, Subsampled
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import DIGITS, EPSILON, RuleTooLargeError, subsampled_loss
from dp_edgeworth.proofs import spectral
from dp_edgeworth.proofs.pieces import (
    MASS_ERROR,
    Large,
    Line,
    Small,
    Trimmed,
    is_heavy,
    is_reversed,
    jensen,
    late_log_mgf,
    lines_of,
    log_mass,
    log_mass_below,
    log_masses,
    start_of,
)
from dp_edgeworth.proofs.spectral import LogBounds, log_kappa
from dp_edgeworth.sums.composition import Composition, psi

_THRESHOLDS, _TILTS, _NODES = 48, 72, 2000
_MOST_LARGE = 6
_MOST_HEAVY = 3
_MOST_STRATA, _MOST_LEAVES = 10, 12
_MOST_COST, _MOST_FREQUENCIES = 1e5, 150_000  # beyond, strata are not tried, or given up
_LEAST_LOG_DELTA = -720.0
_FINE_LOSS = 14.0  # digits (base e) that cancellation may cost for nothing
_LEAST = 0.1  # of the planned tilt: the smallest that a contour may use
_MASS_ROUNDING, _FACTOR_ROUNDING, _FAR_ERROR = 1e-12, 1e-14, 4e-10


@dataclasses.dataclass(frozen=True)
class _Stratum:
    """One contour, or one Chernoff bound e^{log_bound - tilt eps}, and the log of its factor."""

    log_factor: float
    log_factor_error: float
    contour: spectral.Contour | None
    tilt: float
    log_bound: float = 0.0


@dataclasses.dataclass(frozen=True)
class Far:
    """What the terms with a far loss add: D of the theorem, and both upper bounds."""

    log_near_q: float  # sum m_i log(1 - f_i)
    log_near_p: float
    log_gap: float  # sum m_i log((1 - f_i) / (1 - g_i)), to relative accuracy
    log_any: float  # log sum m_i f_i, rounded up
    slope_late: float  # l of the theorem, and the logs of both terms of its bound at eps = 0
    log_late: float
    log_low: float
    plain: bool  # no infinite losses, and l was found: D may be used

    def slope(self, eps: np.ndarray) -> np.ndarray:
        """dD / d eps."""
        return np.exp(np.minimum(eps, 700.0)) * math.expm1(self.log_near_p) if self.plain else np.zeros(len(eps))

    def bounds(self, eps: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Lower bound, estimate and upper bound; D = (near_p - near_q) - (e^eps - 1) (1 - near_p)."""
        if not self.plain:
            return np.zeros(len(eps)), np.zeros(len(eps)), np.full(len(eps), math.exp(self.log_any))
        gained = -math.exp(self.log_near_p) * math.expm1(self.log_gap)
        paid = -np.expm1(np.minimum(eps, 700.0)) * math.expm1(self.log_near_p)
        middle, error = gained - paid, _FAR_ERROR * (gained + paid)
        with np.errstate(over="ignore"):
            late = np.logaddexp(self.log_late + (1.0 + self.slope_late) * eps, self.log_low + eps)
            late = np.exp(np.minimum(late, 300.0)) * (1.0 + 1e-9)
        most = np.minimum(np.maximum(middle + error, 0.0) + late, math.exp(self.log_any))
        return np.maximum(middle - error, 0.0), np.clip(middle, 0.0, most), most


@dataclasses.dataclass(frozen=True)
class Strata:
    """The sum of the theorem, with the interface of one contour."""

    parts: tuple[_Stratum, ...]
    log_rest: float  # log of the probability of more than M large losses
    far: Far

    @property
    def tilt(self) -> float:
        return max(part.tilt for part in self.parts)

    @property
    def size(self) -> int:
        return sum(part.contour.size for part in self.parts if part.contour is not None)

    def bounds(self, epsilon: np.ndarray) -> LogBounds:
        """The theorem of the module's header at every epsilon."""
        eps = np.atleast_1d(np.asarray(epsilon, float))
        with np.errstate(divide="ignore"):
            lower, middle, upper = (np.log(part) for part in self.far.bounds(eps))
        upper = np.logaddexp(upper, self.log_rest)
        logs, slopes = [], []
        for part in self.parts:
            factor, error = part.log_factor, part.log_factor_error
            if part.contour is None:
                rounding = 8.0 * EPSILON * (abs(part.log_bound) + part.tilt * np.abs(eps))
                upper = np.logaddexp(upper, part.log_bound - part.tilt * eps + rounding + factor + error)
                continue
            b = part.contour.bounds(eps)
            lower = np.logaddexp(lower, b.lower + factor - error)
            upper = np.logaddexp(upper, b.upper + factor + error)
            middle = np.logaddexp(middle, b.estimate + factor)
            logs.append(b.estimate + factor)
            slopes.append(b.slope)
        with np.errstate(over="ignore", invalid="ignore"):
            slope = self.far.slope(eps) * np.exp(-middle)
            for log, rate in zip(logs, slopes, strict=True):
                slope = slope + np.exp(log - middle) * rate
        slope = np.where(np.isfinite(slope) & (slope < 0.0), slope, -self.tilt)
        lower, upper = lower - _FACTOR_ROUNDING, upper + _FACTOR_ROUNDING
        lower, upper = np.where(np.isnan(lower), -math.inf, lower), np.where(np.isnan(upper), math.inf, upper)
        return LogBounds(lower, np.clip(middle, lower, upper), upper, slope)


class _Heavy:
    """One heavy leaf on a grid of x, up to a loss that is not worth looking at."""

    def __init__(self, leaf: Pllr, count: int, log_tail: float):
        self.leaf, self.count = leaf, count
        self.lines = list(lines_of(leaf))
        self.furthest: list[float] = []  # of every part, as x
        self.grids: list[tuple[np.ndarray, np.ndarray] | None] = []
        values, log_weights = [], []
        for weight, one in self.lines:
            if one is None:
                self.furthest.append(math.inf)
                self.grids.append(None)
                continue
            reach = np.linspace(0.0, one.turn + math.sqrt(2.0 * (abs(log_tail) + 10.0)) + 1.0, _NODES)
            self.furthest.append(float(np.interp(-(log_tail - math.log(len(self.lines) * weight)), -one.log_tails(reach)[1], reach)))
            x = np.linspace(float(one.p[0].min()) - 9.0, self.furthest[-1], _NODES)
            up, down = one.losses(x)
            self.grids.append((x, up - down))
            values.append(up - down)
            log_weights.append(math.log(weight * (x[1] - x[0])) - 0.5 * x * x - LOG_SQRT_2PI + down)
        self.values, self.log_weights = np.concatenate(values), np.concatenate(log_weights)
        order = np.argsort(self.values)
        self.values, self.log_weights = self.values[order], self.log_weights[order]

    def cut(self, loss: float) -> list[float]:
        """The x of every part where the loss is about this, not beyond `furthest`."""
        return [math.inf if grid is None else float(np.interp(loss, grid[1], grid[0])) for grid in self.grids]

    def lows(self, log_mass: float) -> list[float]:
        """The x of every part below which P has about this mass."""
        found = []
        for _, one in self.lines:
            if one is None:
                found.append(-math.inf)
                continue
            x = np.linspace(float(one.p[0].min()) - 40.0, 0.0, _NODES)
            below = np.logaddexp.reduce(np.log(one.p[1]) + special.log_ndtr(x[:, None] - one.p[0]), axis=1)
            found.append(float(np.interp(log_mass, below, x)))
        return found

    def late_cgf(self, slopes: np.ndarray, lows: list[float]) -> np.ndarray:
        """Rough count times log E_P[e^{-l L}] of what lies above."""
        least = min((float(np.interp(low, *grid)) for low, grid in zip(lows, self.grids, strict=True) if grid is not None))
        exponents = np.minimum(-slopes[:, None] * np.maximum(self.values, least), 600.0)
        gain = (np.exp(self.log_weights) * (psi(exponents) + slopes[:, None] * psi(np.minimum(self.values, 300.0)))).sum(axis=1)
        return float(self.count) * np.log1p(np.clip(gain, 0.0, 1e300))

    def tables(self, thresholds: np.ndarray, far: float, tilts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rough K of the small part and of the large part up to `far`, one row per threshold; log of the Q-mass of the large part."""
        used = max(int(np.searchsorted(self.values, far)), 3)
        values, log_weights = self.values[:used], self.log_weights[:used]
        s = np.append(tilts, 0.0)[:, None] + 1.0
        joint = log_weights + s * values
        cuts = np.searchsorted(values, thresholds)
        starts = np.clip(cuts, 1, used - 1)
        pieces = np.logaddexp.reduceat(joint, np.append(0, starts), axis=1)
        large = np.logaddexp.accumulate(pieces[:, :0:-1], axis=1)[:, ::-1].T  # (thresholds, tilts + 1)
        large[thresholds >= self.values[-1]] = -math.inf
        direct = np.logaddexp.accumulate(pieces[:-1, :-1], axis=1).T
        weights, exponents = np.exp(log_weights), s[:-1] * values
        bends = np.where(exponents < 1.0, weights * psi(np.minimum(exponents, 1.0)),
                         np.exp(np.minimum(joint[:-1], 300.0)) - weights * (1.0 + exponents))
        bends = np.cumsum(bends - s[:-1] * weights * psi(np.minimum(values, 300.0)), axis=1)
        p_mass = np.cumsum(np.exp(self.log_weights)[::-1])[::-1]
        q_mass = np.cumsum(np.exp(self.log_weights + self.values)[::-1])[::-1]
        gain = bends[:, starts - 1].T - p_mass[starts][:, None] + (s[:-1] * (p_mass - q_mass)[starts]).T
        small = np.where(gain < 0.5, np.log1p(np.clip(gain, -0.999, 0.5)), direct)
        return small, large[:, :-1], large[:, -1]


class _Tables:
    """Rough Chernoff exponents K_k(c) of all strata: thresholds x strata x tilts; and the log-probability of more than M."""

    def __init__(self, heavy: list[_Heavy], numbers: list[tuple[int, ...]], thresholds: np.ndarray, far: float, tilts: np.ndarray,
                 others: np.ndarray):
        self.thresholds, self.tilts, self.log_kappa = thresholds, tilts, log_kappa(tilts)
        tables = [leaf.tables(thresholds, far, tilts) for leaf in heavy]
        exponents = [sum((_log_binomial(leaf.count, n) + float(leaf.count - n) * small + (n * large if n else 0.0)
                          for leaf, n, (small, large, _) in zip(heavy, k, tables, strict=True)),
                         np.broadcast_to(others, (len(thresholds), len(tilts)))) for k in numbers]
        self.exponents = np.array(exponents).swapaxes(0, 1)
        log_count = np.logaddexp.reduce([math.log(leaf.count) + mass for leaf, (_, _, mass) in zip(heavy, tables, strict=True)]
                                        or [np.full(len(thresholds), -math.inf)])
        order = np.arange(_MOST_LARGE + 1)
        self.beyond = (order + 1) * log_count[:, None] - np.array([math.lgamma(n + 2.0) for n in order])
        self.beyond[:, order >= sum(leaf.count for leaf in heavy)] = -math.inf

    def chernoff(self, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
        """log Chernoff bound and its tilt, per threshold and stratum."""
        exponents = self.exponents + self.log_kappa - self.tilts * epsilon
        best = np.argmin(exponents, axis=2)
        return np.take_along_axis(exponents, best[..., None], axis=2)[..., 0], self.tilts[best]

    def enough(self, epsilon: float, row: int, stratum: int, limit: float) -> float:
        """The smallest tilt whose Chernoff bound is below the limit, where rules are small."""
        exponents = self.exponents[row, stratum] + self.log_kappa - self.tilts * epsilon
        return float(self.tilts[np.argmax(exponents <= max(limit, float(exponents.min())))])


class Planner:
    """Chooses thresholds, strata and tilts for one composition and one delta."""

    def __init__(self, composition: Composition, log_delta: float, most: float, log_share: float):
        """`most`: an upper bound of epsilon. `log_share`: log of the relative error of delta that may be spent on each charge."""
        self.composition, self.log_delta, self.log_share, self.most = composition, log_delta, log_share, most
        heavy = [(pllr, count) for pllr, count in composition.counts.items() if is_heavy(pllr)]
        log_tail = log_delta + log_share - math.log(max(sum(count for _, count in heavy), 1))
        self.heavy = [_Heavy(pllr, count, log_tail) for pllr, count in heavy]
        self.others = {pllr: count for pllr, count in composition.counts.items() if not is_heavy(pllr)}
        self.numbers = [k for k in itertools.product(*(range(min(leaf.count, _MOST_LARGE) + 1) for leaf in self.heavy))
                        if sum(k) <= _MOST_LARGE]
        self.largest = max((float(leaf.values[-1]) for leaf in self.heavy), default=most)
        self.tilts = np.geomspace(min(0.05 / most, 0.1 / max(self.largest, 1e-300)), 1e5 / most, _TILTS)
        self.rest = self._rough_others(self.tilts)
        self.plain = composition.log_finite == 0.0 and composition.log_kept == 0.0
        self.tables = self._tables(math.inf)
        self.late_slopes = np.geomspace(0.3, 300.0, 12) / most if self.plain and self.heavy else np.zeros(0)
        log_low = log_share - 2.0 - math.log(max(sum(count for _, count in heavy), 1))
        self.lows = [leaf.lows(log_low) for leaf in self.heavy]
        self.late_cgf = sum((leaf.late_cgf(self.late_slopes, low) for leaf, low in zip(self.heavy, self.lows, strict=True)),
                            self._rough_others(-1.0 - self.late_slopes))

    def _tables(self, far: float) -> _Tables:
        if not self.heavy:
            return _Tables([], self.numbers, np.ones(1), far, self.tilts, self.rest)
        thresholds = min(self.most, far) * np.geomspace(1e-3, 1.5, _THRESHOLDS)
        return _Tables(self.heavy, self.numbers, thresholds[thresholds < 0.9 * far], far, self.tilts, self.rest)

    def _rough_others(self, tilts: np.ndarray) -> np.ndarray:
        """Rough K of all leaves that are not split, infinite where no rule is fine enough."""
        result = np.zeros(len(tilts))
        for pllr, count in self.others.items():
            if is_reversed(pllr):
                result += float(count) * _reversed_cgf(pllr, tilts)
        rest = Composition({pllr: count for pllr, count in self.others.items() if not is_reversed(pllr)})
        if not rest.counts or not len(tilts):
            return result
        some = np.unique(np.linspace(0, len(tilts) - 1, 16).astype(int))
        found = np.full(len(some), math.inf)
        for i, tilt in enumerate(tilts[some]):
            try:
                found[i] = rest.cgf([tilt], rest.demand(min(float(tilt), -1.0), max(float(tilt), 0.0)), rough=True)[0, 0]
            except RuleTooLargeError:
                break
        return result + np.interp(np.arange(len(tilts)), some, found)

    def log_estimate(self, epsilon: float) -> float:
        """About log delta(epsilon), from above: the sum of the Chernoff bounds for the best threshold."""
        bounds, _ = self.tables.chernoff(epsilon)
        return float(np.logaddexp(np.logaddexp.reduce(bounds, axis=1), self.tables.beyond[:, -1]).min())

    def slope(self, epsilon: float) -> float:
        """About |d log delta / d epsilon|."""
        steep = abs(self.log_estimate(1.01 * epsilon) - self.log_estimate(0.99 * epsilon)) / (0.02 * epsilon)
        return min(max(steep, 1e-3), (50.0 - 10.0 * self.log_delta) / epsilon)

    def guess(self, low: float, high: float) -> float:
        """Where the estimate crosses log delta."""
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.log_estimate(middle) > self.log_delta else (low, middle)
        return 0.5 * (low + high)

    def contour(self, epsilon: float, slope: float, tolerance: float, finer: float = 1.0) -> Strata:
        """The strata for one epsilon; RuleTooLargeError where there are none."""
        loss = self._far_loss(epsilon)
        ends = [leaf.cut(loss) for leaf in self.heavy]
        tables = self._tables(loss)
        row, needed, most = self._choice(tables, epsilon)
        _, tilts = tables.chernoff(epsilon)
        cuts = [leaf.cut(float(tables.thresholds[row])) for leaf in self.heavy]
        ranges = [list(zip(*pair, strict=True)) for pair in zip(cuts, ends, strict=True)]
        sizes = [log_mass(leaf.leaf, each) for leaf, each in zip(self.heavy, ranges, strict=True)]
        log_rest = -math.inf
        if most < sum(leaf.count for leaf in self.heavy):
            log_count = float(np.logaddexp.reduce([math.log(leaf.count) + size for leaf, size in zip(self.heavy, sizes, strict=True)]))
            log_rest = (most + 1) * (log_count + 2.0 * MASS_ERROR) - math.lgamma(most + 2.0) + 1e-12
        parts = []
        for i, numbers in enumerate(self.numbers):
            if sum(numbers) > most or any(n and math.isinf(size) for n, size in zip(numbers, sizes, strict=True)):
                continue  # more large losses than M, or than there are
            tilt = float(tilts[row, i]) if i in needed else tables.enough(epsilon, row, i, self.log_delta + self.log_share - 4.0)
            parts.append(self._stratum(numbers, cuts, ranges, sizes, tilt, epsilon, slope, tolerance if i in needed else None, finer))
            if sum(part.contour.size for part in parts if part.contour is not None) > _MOST_FREQUENCIES and i != max(needed):
                raise RuleTooLargeError("too many frequencies")
        return Strata(tuple(parts), log_rest, self._far(ends, loss, epsilon))

    def _stratum(self, numbers: tuple[int, ...], cuts: list[list[float]], ranges: list[list[tuple[float, float]]],
                 sizes: list[float], tilt: float, epsilon: float, slope: float, tolerance: float | None,
                 finer: float) -> _Stratum:
        """One G_k, or C_k where no tolerance is given."""
        counts: dict[Pllr, int] = {}
        missing, terms = float(sum(numbers)), []
        for pllr, count in self.others.items():
            if is_reversed(pllr) and isinstance(pllr, Reversed):
                trimmed = Trimmed(pllr, _LEAST * tilt)
                missing += count * float(trimmed.missing(DIGITS + math.log(self.composition.total)).sum())
                counts[trimmed] = count
            else:
                counts[pllr] = count
        for leaf, n, ends, each, size in zip(self.heavy, numbers, cuts, ranges, sizes, strict=True):
            if n < leaf.count:
                digits = DIGITS + math.log(self.composition.total) + jensen(
                    log_mass(leaf.leaf, [(x, math.inf) for x in ends]), 5.0 * tilt + 2.0)
                starts = tuple(-math.inf if one is None else start_of(one, _LEAST * tilt, digits) for _, one in leaf.lines)
                small = Small(leaf.leaf, tuple(ends), starts, _LEAST * tilt)
                counts[small] = leaf.count - n
                missing += leaf.count * float(small.missing.sum())
            if n:
                large = Large(leaf.leaf, tuple(each), size + MASS_ERROR)
                counts[large] = n
                terms += [_log_binomial(leaf.count, n), n * large.log_size]
        composition, factor = Composition(counts), math.fsum(terms)
        error = _FACTOR_ROUNDING * (math.fsum(map(abs, terms)) + 10.0)
        charge = _MASS_ROUNDING * (1.0 + missing)
        if tolerance is None:
            k = composition.cgf([tilt])[:, 0]
            return _Stratum(factor, error, None, tilt, float(k[0] + k[3] + log_kappa(np.array(tilt))) + charge * (1.0 + tilt))
        found = spectral.contour(composition, tilt, epsilon, self.log_delta - factor, tolerance, finer, slope)
        if min(found.tilt, float(found.other_tilts[found.other_tilts > 0.0].min())) < _LEAST * tilt:
            raise RuleTooLargeError("a tilt that the rules were not made for")
        found = dataclasses.replace(found, log_mgf_error=found.log_mgf_error + charge * (1.0 + found.tilt),
                                    other_log_bounds=found.other_log_bounds + charge * (1.0 + found.other_tilts))
        return _Stratum(factor, error, found, found.tilt)

    def _far_loss(self, epsilon: float) -> float:
        """The smallest loss from which on losses may count as far: either they are too rare, or too large to be made up for."""
        if not len(self.late_slopes):
            return self.largest * 1.01
        losses = epsilon + max(self.largest - epsilon, 0.0) * np.geomspace(1e-6, 1.0, 60)
        for loss in losses[losses >= 1.5 * epsilon]:
            masses = [_far_masses(leaf, leaf.cut(float(loss))) for leaf in self.heavy]
            log_p = np.logaddexp.reduce([math.log(leaf.count) + p for leaf, (p, _) in zip(self.heavy, masses, strict=True)])
            if float((log_p + (1.0 + self.late_slopes) * epsilon - self.late_slopes * loss + self.late_cgf).min()) <= (
                    self.log_delta + self.log_share):
                return float(loss)
        return self.largest * 1.01

    def _far(self, ends: list[list[float]], loss: float, epsilon: float) -> Far:
        """The terms with a far loss, with the bound for one l of the theorem."""
        near_q, near_p, gap, log_f, log_g = [], [], [], [-math.inf], [-math.inf]
        for leaf, each in zip(self.heavy, ends, strict=True):
            log_p, log_q = _far_masses(leaf, each)
            p, q = math.exp(log_p), math.exp(log_q)
            near_q.append(leaf.count * math.log1p(-q))
            near_p.append(leaf.count * math.log1p(-p))
            gap.append(leaf.count * math.log1p(-_far_excess(leaf, each) / (1.0 - p)))
            log_f.append(math.log(leaf.count) + log_q + MASS_ERROR)
            log_g.append(math.log(leaf.count) + log_p + MASS_ERROR)
            loss = min(loss, min((_least_loss(one, x) for (_, one), x in zip(leaf.lines, each, strict=True) if one is not None)))
        log_g_sum = float(np.logaddexp.reduce(log_g)) + 1e-9
        slope, late, low = self._late(epsilon, loss)
        return Far(math.fsum(near_q), math.fsum(near_p), math.fsum(gap), float(np.logaddexp.reduce(log_f)), slope, late + log_g_sum,
                   low + log_g_sum, math.isfinite(late))

    def _late(self, epsilon: float, loss: float) -> tuple[float, float, float]:
        """l of the theorem, logs of e^{-l t} prod max(1, E_i)^{m_i} and of sum m_i a_i, rounded up; infinite where no rule is."""
        if not len(self.late_slopes):
            return 0.0, math.inf, math.inf
        slope = float(self.late_slopes[np.argmin((1.0 + self.late_slopes) * epsilon - self.late_slopes * loss + self.late_cgf)])
        total, low = -slope * loss, -math.inf
        try:
            for leaf, lows in zip(self.heavy, self.lows, strict=True):
                total += leaf.count * max(late_log_mgf(leaf.leaf, slope, lows, 60.0 + math.log(leaf.count)), 0.0)
                low = np.logaddexp(low, math.log(leaf.count) + log_mass_below(leaf.leaf, lows) + MASS_ERROR)
            if self.others:
                others = Composition(self.others)
                k = others.cgf([-1.0 - slope], others.demand(-1.0 - slope, 0.0))[:, 0]
                total += max(float(k[0] + k[3]), 0.0) * (1.0 + 8.0 * EPSILON)
        except RuleTooLargeError:
            return 0.0, math.inf, math.inf
        return slope, total + 1e-9 * (1.0 + abs(total)), float(low)

    def _choice(self, tables: _Tables, epsilon: float) -> tuple[int, set[int], int]:
        """The row of the cheapest threshold, the strata that need a contour, and the largest number M of large losses."""
        bounds, tilts = tables.chernoff(epsilon)
        limit = self.log_delta + self.log_share
        sizes = np.array([sum(k) for k in self.numbers])
        cheapest: tuple[float, tuple[int, set[int], int]] | None = None
        for row in range(len(tables.thresholds)):
            enough = np.flatnonzero(tables.beyond[row] <= limit)
            if not len(enough):
                continue
            most = int(enough[0])
            needed = np.flatnonzero((bounds[row] > limit - 2.0) & (sizes <= most))
            if len(needed) > _MOST_STRATA:
                continue
            each = tilts[row, needed]
            losses = bounds[row, needed] - log_kappa(each) - self.log_delta
            cost = float(((30.0 + losses) / (each * epsilon) + 1.0).sum() + np.expm1(np.clip(losses - _FINE_LOSS, 0.0, 100.0)).sum())
            if cheapest is None or cost < cheapest[0]:
                cheapest = cost, (row, set(needed.tolist()), most)
        if cheapest is None or cheapest[0] > _MOST_COST:
            raise RuleTooLargeError("no threshold")
        return cheapest[1]


def _far_masses(leaf: _Heavy, ends: list[float]) -> tuple[float, float]:
    """log of the P-mass and of the Q-mass beyond these x."""
    return log_masses(leaf.leaf, [(x, math.inf) for x in ends])


def _far_excess(leaf: _Heavy, ends: list[float]) -> float:
    """Q-mass less P-mass beyond these x, without cancellation: by shifts, each against N(0, 1)."""
    total = 0.0
    for (weight, one), x in zip(leaf.lines, ends, strict=True):
        if one is not None:
            q, p = (float((weights * (special.ndtr(shifts - x) - special.ndtr(-x))).sum()) for shifts, weights in (one.q, one.p))
            total += weight * (q - p)
    return total


def _least_loss(one: Line, x: float) -> float:
    """The loss at x, rounded down."""
    up, down = one.losses(np.array([x]))
    loss = float(up[0] - down[0])
    return loss - 1e-12 * abs(loss)


def _reversed_cgf(pllr: Pllr, tilts: np.ndarray) -> np.ndarray:
    """Rough K of one reversed sampled Gaussian."""
    assert isinstance(pllr, Reversed) and isinstance(pllr.inner, Subsampled) and isinstance(pllr.inner.inner, GaussianShift)
    mu, p = pllr.inner.inner.mu, pllr.inner.probability
    x = np.linspace(-9.0, mu + 9.0, _NODES)
    loss = -subsampled_loss(mu * (x - 0.5 * mu), np.array(p))
    log_weights, s = -0.5 * x * x - LOG_SQRT_2PI - loss + math.log(x[1] - x[0]), tilts[:, None] + 1.0
    gain = (np.exp(log_weights) * (psi(np.minimum(s * loss, 600.0)) - s * psi(loss))).sum(axis=1)
    return np.where(np.abs(gain) < 0.5, np.log1p(np.clip(gain, -0.5, 0.5)), np.logaddexp.reduce(log_weights + s * loss, axis=1))


def _log_binomial(m: int, k: int) -> float:
    """log C(m, k) for small k: factors, not factorials, so that huge m lose nothing."""
    return math.fsum(math.log(m - i) for i in range(k)) - math.fsum(math.log(i + 1.0) for i in range(k))


def planner(composition: Composition, log_delta: float, low: float, most: float, tolerance: float) -> tuple[Planner, float] | None:
    """A planner and a guess of epsilon in [low, most], where there are leaves to split or to trim, and few enough kinds of them."""
    if not _is_for(composition) or not 0.0 < most < math.inf:
        return None
    for _ in range(6):
        found = Planner(composition, log_delta, most, _log_share(tolerance, most))
        guess = min(max(found.guess(low, most), 0.5 * tolerance), most)
        if guess > 0.1 * most or most < 20.0 * tolerance:
            break
        most = 3.0 * max(guess, 1e-3 * most)
    return found, guess


def planner_at(composition: Composition, log_delta: float | None, epsilon: float, tolerance: float) -> Planner | None:
    """A planner for delta at this epsilon, about e^{log_delta}; where that is not known, it is estimated, from far below all deltas."""
    if not _is_for(composition) or not 0.0 < epsilon < math.inf:
        return None
    share = _log_share(tolerance, epsilon)
    for start in (_LEAST_LOG_DELTA, None) if log_delta is None else ():
        log_delta = Planner(composition, start or log_delta or 0.0, epsilon, share).log_estimate(epsilon)
    assert log_delta is not None
    return Planner(composition, min(log_delta, 0.0), epsilon, share)


def _is_for(composition: Composition) -> bool:
    """Whether there are leaves to split or to trim, few kinds of them, and all others have bounded losses or are Gaussians."""
    heavy = sum(is_heavy(pllr) for pllr in composition.counts)
    if any(math.isinf(pllr.finite_supremum) and pllr.gaussian_variance is None and not is_heavy(pllr) for pllr in composition.counts):
        return False
    return len(composition.counts) <= _MOST_LEAVES and heavy <= _MOST_HEAVY and (heavy > 0 or any(map(is_reversed, composition.counts)))


def _log_share(tolerance: float, epsilon: float) -> float:
    """log of what each charge may be of delta: its slope is about 5 / epsilon or more."""
    return min(max(math.log(0.1 * tolerance * max(1.0, epsilon) / epsilon), -30.0), -12.0)
