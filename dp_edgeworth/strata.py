"""Certified bounds of delta(epsilon) where a few rare, large losses carry it: strata by the number of large losses.

On one contour the amplitude e^{K(c) - c eps} of a heavy-tailed sum is far above delta, and what rounding does to it hides the answer.
Cut every heavy leaf i (count m_i, measure A_i of its losses under Q) at x = t_i and x = T_i into positive measures

    A_i = S_i + B_i + R_i,       S_i small (below t_i), B_i large, R_i beyond T_i ("rest"),       q_i = B_i(R), r_i = R_i(R).

Theorem (strata). With the payoff h = (1 - e^{eps - .})_+, O the law of all other leaves, and for k = (k_1, ..., k_n)

    G_k(eps) = prod_i C(m_i, k_i) int h d[O * S_1^{*(m_1 - k_1)} * B_1^{*k_1} * ... * S_n^{*(m_n - k_n)} * B_n^{*k_n}],

    sum_{k in N} G_k  <=  G  <=  sum_{k in N} G_k + sum_{k not in N, |k| <= M} C_k + (sum_i m_i q_i)^{M+1} / (M+1)! + sum_i m_i r_i

for any set N of strata, where C_k >= G_k is the Chernoff bound prod_i C(m_i, k_i) kappa(c) e^{K_k(c) - c eps}, any c > 0.
Proof: expand prod_i A_i^{*m_i} by the binomial theorem; all terms are positive measures, which gives the left inequality, and h <= 1. Some
loss is beyond its T_i with probability at most sum m_i r_i. More than M losses are large with probability at most the expected number
of (M+1)-sets of large losses, the elementary symmetric polynomial of degree M+1 of the q's, at most (sum m_i q_i)^{M+1} / (M+1)!.

Each G_k with k in N is bounded by the theorem of `spectral.py`, on a contour of its own. That theorem speaks of any finite positive
measure; of its mass it uses only that it is at most 1 (the aliases on the left, `plan` with K(0) <= 0), so B_i is divided by a number
e^{b_i} just above q_i and G_k multiplied by prod_i e^{k_i b_i}. The losses of a stratum are bounded, and those of k = 1 that are above
epsilon are as likely as delta: its amplitude is close to delta. What is charged besides the terms of `spectral.py`:

    masses  of S_i and B_i, which enter K through the control variate: to 1e-12 relative, so 1e-12 (1 + |c|) (1 + sum k_i + sum m_i q_i)
            in K; q_i and r_i themselves are raised by 1e-6 where they are bounds.
    factor  log of prod C(m_i, k_i) e^{k_i b_i}: 1e-14 of the sum of its terms' sizes.

`Planner` chooses thresholds, tilts and strata, from unproved numbers; nothing that is proved depends on them.
"""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np

from dp_edgeworth import spectral
from dp_edgeworth.composition import EPSILON, Composition, psi
from dp_edgeworth.gaussian import LOG_SQRT_2PI
from dp_edgeworth.pieces import MASS_ERROR, Large, Small, is_heavy, lines_of, log_mass
from dp_edgeworth.pllr import Pllr, RuleTooLargeError
from dp_edgeworth.spectral import LogBounds, log_kappa

_THRESHOLDS, _TILTS, _NODES = 48, 72, 2000
_MOST_LARGE = 6
_MOST_HEAVY = 3
_MOST_STRATA = 10
_FINE_LOSS = 14.0  # digits (base e) that cancellation may cost for nothing
_MASS_ROUNDING, _FACTOR_ROUNDING = 1e-12, 1e-14


@dataclasses.dataclass(frozen=True)
class _Stratum:
    """One contour, or one Chernoff bound e^{log_bound - tilt eps}, and the log of its factor."""

    log_factor: float
    log_factor_error: float
    contour: spectral.Contour | None
    tilt: float
    log_bound: float = 0.0


@dataclasses.dataclass(frozen=True)
class Strata:
    """The sum of the theorem, with the interface of one contour."""

    parts: tuple[_Stratum, ...]
    log_rest: float  # log of the probability of more than M large losses, or of one beyond T

    @property
    def tilt(self) -> float:
        return max(part.tilt for part in self.parts)

    @property
    def size(self) -> int:
        return sum(part.contour.size for part in self.parts if part.contour is not None)

    def bounds(self, epsilon: np.ndarray) -> LogBounds:
        """The theorem of the module's header at every epsilon."""
        eps = np.atleast_1d(np.asarray(epsilon, float))
        lower, middle, upper = (np.full(len(eps), log) for log in (-math.inf, -math.inf, self.log_rest))
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
        shares = np.exp(np.nan_to_num(np.array(logs) - middle, nan=-math.inf, posinf=0.0))
        slope = (shares * np.array(slopes)).sum(axis=0)
        slope = np.where(np.isfinite(slope) & (slope < 0.0), slope, -self.tilt)
        lower, upper = lower - _FACTOR_ROUNDING, upper + _FACTOR_ROUNDING
        lower, upper = np.where(np.isnan(lower), -math.inf, lower), np.where(np.isnan(upper), math.inf, upper)
        return LogBounds(lower, np.clip(middle, lower, upper), upper, slope)


class _Heavy:
    """One heavy leaf on a grid of x: rough K of its small and large parts for every threshold and tilt."""

    def __init__(self, leaf: Pllr, count: int, log_tail: float):
        self.leaf, self.count = leaf, count
        self.lines = list(lines_of(leaf))
        self.furthest = []  # T_i of every part, as x
        values, log_weights = [], []
        for weight, one in self.lines:
            if one is None:
                self.furthest.append(math.inf)
                continue
            reach = np.linspace(0.0, one.turn + math.sqrt(2.0 * (abs(log_tail) + 10.0)) + 1.0, _NODES)
            far = float(np.interp(-(log_tail - math.log(len(self.lines) * weight)), -one.log_tails(reach)[1], reach))
            self.furthest.append(far)
            x = np.linspace(float(one.p[0].min()) - 9.0, far, _NODES)
            up, down = one.losses(x)
            values.append(up - down)
            log_weights.append(math.log(weight * (x[1] - x[0])) - 0.5 * x * x - LOG_SQRT_2PI + down)
        self.values, self.log_weights = np.concatenate(values), np.concatenate(log_weights)
        order = np.argsort(self.values)
        self.values, self.log_weights = self.values[order], self.log_weights[order]

    def cut(self, loss: float) -> list[float]:
        """The x of every part where the loss is about this, not beyond `furthest`."""
        cuts = []
        for (_, one), far in zip(self.lines, self.furthest, strict=True):
            if one is None:
                cuts.append(math.inf)
                continue
            x = np.linspace(0.0, far, 4 * _NODES)
            up, down = one.losses(x)
            cuts.append(float(np.interp(loss, up - down, x)))
        return cuts

    def tables(self, thresholds: np.ndarray, tilts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """K of the small part and of the large part, one row per threshold; log of the Q-mass of the large part."""
        s = np.append(tilts, 0.0)[:, None] + 1.0
        joint = self.log_weights + s * self.values
        cuts = np.searchsorted(self.values, thresholds)
        starts = np.clip(cuts, 1, len(self.values) - 1)
        pieces = np.logaddexp.reduceat(joint, np.append(0, starts), axis=1)
        large = np.logaddexp.accumulate(pieces[:, :0:-1], axis=1)[:, ::-1].T  # (thresholds, tilts + 1)
        large[cuts >= len(self.values) - 1] = -math.inf
        direct = np.logaddexp.accumulate(pieces[:-1, :-1], axis=1).T
        weights, exponents = np.exp(self.log_weights), s[:-1] * self.values
        bends = np.where(exponents < 1.0, weights * psi(np.minimum(exponents, 1.0)),
                         np.exp(np.minimum(joint[:-1], 300.0)) - weights * (1.0 + exponents))
        bends = np.cumsum(bends - s[:-1] * weights * psi(np.minimum(self.values, 300.0)), axis=1)
        p_mass = np.cumsum(weights[::-1])[::-1]
        q_mass = np.cumsum(np.exp(self.log_weights + self.values)[::-1])[::-1]
        gain = bends[:, starts - 1].T - p_mass[starts][:, None] + (s[:-1] * (p_mass - q_mass)[starts]).T
        small = np.where(gain < 0.5, np.log1p(np.clip(gain, -0.999, 0.5)), direct)
        return small, large[:, :-1], large[:, -1]


class Planner:
    """Chooses thresholds, strata and tilts for one composition and one delta."""

    def __init__(self, composition: Composition, log_delta: float, most: float, log_share: float):
        """`most`: an upper bound of epsilon. `log_share`: log of the relative error of delta that may be spent on each charge."""
        self.composition, self.log_delta, self.log_share = composition, log_delta, log_share
        heavy = [(pllr, count) for pllr, count in composition.counts.items() if is_heavy(pllr)]
        log_tail = log_delta + log_share - math.log(max(sum(count for _, count in heavy), 1))
        self.heavy = [_Heavy(pllr, count, log_tail) for pllr, count in heavy]
        self.others = {pllr: count for pllr, count in composition.counts.items() if not is_heavy(pllr)}
        self.thresholds = most * np.geomspace(1e-3, 1.5, _THRESHOLDS)
        self.tilts = np.geomspace(0.05, 1e5, _TILTS) / most
        tables = [leaf.tables(self.thresholds, self.tilts) for leaf in self.heavy]
        # Chernoff exponents K_k(c) of every stratum: thresholds x strata x tilts
        self.numbers = [k for k in itertools.product(*(range(min(leaf.count, _MOST_LARGE) + 1) for leaf in self.heavy))
                        if sum(k) <= _MOST_LARGE]
        rest = np.zeros(len(self.tilts))
        if self.others:
            rest = self._others_cgf()
        self.exponents = np.array([sum((_log_binomial(leaf.count, n) + (leaf.count - n) * small + (n * large if n else 0.0)
                                        for leaf, n, (small, large, _) in zip(self.heavy, k, tables, strict=True)),
                                       np.zeros((len(self.thresholds), len(self.tilts)))) for k in self.numbers]).swapaxes(0, 1) + rest
        log_count = np.logaddexp.reduce([math.log(leaf.count) + mass for leaf, (_, _, mass) in zip(self.heavy, tables, strict=True)])
        order = np.arange(_MOST_LARGE + 1)
        self.beyond = (order + 1) * log_count[:, None] - np.array([math.lgamma(n + 2.0) for n in order])

    def _others_cgf(self) -> np.ndarray:
        """Rough K of all leaves that are not split, infinite where no rule is fine enough."""
        others, result = Composition(self.others), np.full(len(self.tilts), math.inf)
        for i, tilt in enumerate(self.tilts):
            try:
                result[i] = others.cgf([tilt], rough=True)[0, 0]
            except RuleTooLargeError:
                break
        return result

    def _chernoff(self, epsilon: float) -> tuple[np.ndarray, np.ndarray]:
        """log Chernoff bound and the index of its tilt, per threshold and stratum."""
        exponents = self.exponents + log_kappa(self.tilts) - self.tilts * epsilon
        best = np.argmin(exponents, axis=2)
        return np.take_along_axis(exponents, best[..., None], axis=2)[..., 0], best

    def log_estimate(self, epsilon: float) -> float:
        """About log delta(epsilon), from above: the sum of the Chernoff bounds for the best threshold."""
        bounds, _ = self._chernoff(epsilon)
        return float(np.logaddexp(np.logaddexp.reduce(bounds, axis=1), self.beyond[:, -1]).min())

    def guess(self, low: float, high: float) -> float:
        """Where the estimate crosses log delta."""
        for _ in range(40):
            middle = 0.5 * (low + high)
            low, high = (middle, high) if self.log_estimate(middle) > self.log_delta else (low, middle)
        return 0.5 * (low + high)

    def contour(self, epsilon: float, slope: float, tolerance: float) -> Strata:
        """The strata for one epsilon; RuleTooLargeError where there are none."""
        chosen = self._choice(epsilon)
        if chosen is None:
            raise RuleTooLargeError("no threshold")
        row, needed, most = chosen
        bounds, best = self._chernoff(epsilon)
        leaves, logs = self._leaves(float(self.thresholds[row]))
        log_count = np.logaddexp.reduce([math.log(leaf.count) + log for leaf, (log, _) in zip(self.heavy, logs, strict=True)])
        far = np.logaddexp.reduce([math.log(leaf.count) + log for leaf, (_, log) in zip(self.heavy, logs, strict=True)])
        rest = np.logaddexp((most + 1) * log_count - math.lgamma(most + 2.0), far) + 2.0 * (most + 1) * MASS_ERROR
        missing = math.exp(min(np.logaddexp(log_count, far), 300.0))
        parts = []
        for i, numbers in enumerate(self.numbers):
            if sum(numbers) > most or any(n and math.isinf(log) for n, (log, _) in zip(numbers, logs, strict=True)):
                continue  # more large losses than M, or than there are
            composition = Composition(self._counts(leaves, numbers))
            factor, error = self._factor(leaves, numbers)
            tilt = float(self.tilts[best[row, i]])
            if i in needed:
                parts.append(self._on_contour(composition, tilt, epsilon, slope, tolerance, factor, error, sum(numbers) + missing))
            else:
                k = composition.cgf([tilt])[:, 0]
                charge = _MASS_ROUNDING * (1.0 + tilt) * (1.0 + sum(numbers) + missing)
                log_bound = float(k[0] + k[3] + log_kappa(np.array(tilt))) + charge
                parts.append(_Stratum(factor, error, None, tilt, log_bound))
        return Strata(tuple(parts), float(rest))

    def _on_contour(self, composition: Composition, tilt: float, epsilon: float, slope: float, tolerance: float, factor: float,
                    error: float, masses: float) -> _Stratum:
        found = spectral.contour(composition, tilt, epsilon, self.log_delta - factor, tolerance, slope=slope)
        charge = _MASS_ROUNDING * (1.0 + masses)
        found = dataclasses.replace(found, log_mgf_error=found.log_mgf_error + charge * (1.0 + found.tilt),
                                    other_log_bounds=found.other_log_bounds + charge * (1.0 + found.other_tilts))
        return _Stratum(factor, error, found, found.tilt)

    def _choice(self, epsilon: float) -> tuple[int, set[int], int] | None:
        """The row of the cheapest threshold, the strata that need a contour, and the largest number M of large losses."""
        bounds, best = self._chernoff(epsilon)
        limit = self.log_delta + self.log_share
        sizes = np.array([sum(k) for k in self.numbers])
        cheapest: tuple[float, tuple[int, set[int], int]] | None = None
        for row in range(len(self.thresholds)):
            enough = np.flatnonzero(self.beyond[row] <= limit)
            if not len(enough):
                continue
            most = int(enough[0])
            needed = np.flatnonzero((bounds[row] > limit - 2.0) & (sizes <= most))
            if not 0 < len(needed) <= _MOST_STRATA:
                continue
            tilts = self.tilts[best[row, needed]]
            losses = bounds[row, needed] - log_kappa(tilts) - self.log_delta
            cost = float(((30.0 + losses) / (tilts * epsilon) + 1.0).sum() + np.expm1(np.clip(losses - _FINE_LOSS, 0.0, 100.0)).sum())
            if cheapest is None or cost < cheapest[0]:
                cheapest = cost, (row, set(needed.tolist()), most)
        return None if cheapest is None else cheapest[1]

    def _leaves(self, threshold: float) -> tuple[list[tuple[Small, Large]], list[tuple[float, float]]]:
        """The two parts of every heavy leaf; log of the Q-masses of the large part and of what is beyond."""
        leaves, logs = [], []
        for heavy in self.heavy:
            cuts = heavy.cut(threshold)
            ranges = list(zip(cuts, heavy.furthest, strict=True))
            size = log_mass(heavy.leaf, ranges)
            leaves.append((Small(heavy.leaf, tuple(cuts)), Large(heavy.leaf, tuple(ranges), size + MASS_ERROR)))
            logs.append((size, log_mass(heavy.leaf, [(far, math.inf) for far in heavy.furthest])))
        return leaves, logs

    def _counts(self, leaves: list[tuple[Small, Large]], numbers: tuple[int, ...]) -> dict[Pllr, int]:
        counts = dict(self.others)
        for heavy, (small, large), n in zip(self.heavy, leaves, numbers, strict=True):
            counts |= {pllr: count for pllr, count in ((small, heavy.count - n), (large, n)) if count}
        return counts

    def _factor(self, leaves: list[tuple[Small, Large]], numbers: tuple[int, ...]) -> tuple[float, float]:
        """log of prod C(m_i, k_i) e^{k_i b_i} and its error."""
        terms = [term for heavy, (_, large), n in zip(self.heavy, leaves, numbers, strict=True)
                 for term in (_log_binomial(heavy.count, n), n * large.log_size)]
        return math.fsum(terms), _FACTOR_ROUNDING * (math.fsum(map(abs, terms)) + 10.0)


def _log_binomial(m: int, k: int) -> float:
    """log C(m, k) for small k: factors, not factorials, so that huge m lose nothing."""
    return math.fsum(math.log(m - i) for i in range(k)) - math.fsum(math.log(i + 1.0) for i in range(k))


def planner(composition: Composition, log_delta: float, most: float, log_share: float) -> Planner | None:
    """A planner where the composition has heavy leaves, and few enough kinds of them."""
    heavy = sum(is_heavy(pllr) for pllr in composition.counts)
    if not 0 < heavy <= _MOST_HEAVY or not 0.0 < most < math.inf:
        return None
    return Planner(composition, log_delta, most, log_share)
