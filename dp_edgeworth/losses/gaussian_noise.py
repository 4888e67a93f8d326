"""Gaussian noise: one shift, a mixture of shifts, and the two samplings under which a record is replaced.

Each docstring says why the rule is as accurate as `Demand` asks, relative to e^{K(Re z)}.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from scipy import special

from dp_edgeworth import validation
from dp_edgeworth.losses import gaussian_curve, one_use
from dp_edgeworth.losses.gaussian_curve import LOG_SQRT_2PI
from dp_edgeworth.losses.panels import cut_panels, pieces_of
from dp_edgeworth.losses.pllr import Demand, Pllr, Rule, Subsampled, subsampled_loss
from dp_edgeworth.losses.trapezoid import (
    cut_point,
    equispaced,
    log_normal_floor,
    log_normal_weights,
    log_odds,
    posterior,
    reach_of,
    sampled_grid,
    sampled_shifts,
    trapezoid_step,
)

_FEW_MEMBERS = 64
_MANY_NODES = 2_000  # beyond, panels that are short only where the loss turns need fewer


@dataclasses.dataclass(frozen=True)
class GaussianShift(Pllr):
    """P = N(0, 1), Q = N(mu, 1): L = mu x - mu^2 / 2, K(z) = mu^2 (z^2 + z) / 2."""

    mu: float
    mirror = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", validation.positive("mu", self.mu))

    @property
    def gaussian_variance(self) -> float:  # type: ignore[override]
        return self.mu * self.mu

    def largest_kept(self, log_tail: float) -> float:
        return self.mu * (0.5 * self.mu - float(special.ndtri_exp(min(log_tail, -1.0)))) if log_tail > -math.inf else math.inf

    @classmethod
    def rules(cls, members: Sequence[Any], demand: Demand, sampled: np.ndarray | None = None) -> Rule:
        """The trapezoid rule in x, fine enough to be subsampled with any probability p.

        |1 - p + p e^{L(x + ia)}| lies between cos(mu a / 2) and 1 times its value at a = 0 and its argument is at most
        mu a: strip pi, secants max(-low, 0), one turn. The tilted law lies in likelihood-ratio order between N(0, 1)
        and N(mu s, 1), so the ends of the grid are right for every p. Where these ends are far apart or the frequency
        is high, p is taken into account (`sampled_grid`): losses of tiny p bend late and turn slowly.
        """
        if sampled is not None and demand.log_tail > -math.inf and demand.low >= 0.0:
            return Rule.stacked([member._cut_rule(demand, float(p)) for member, p in zip(members, sampled, strict=True)])
        mu = np.array([member.mu for member in members])[:, None]
        reach = reach_of(demand)
        low, high = np.minimum(0.0, mu * demand.low) - reach, np.maximum(0.0, mu * demand.high) + reach
        # Unsampled, the integrand is entire: any strip will do.
        strip, secants = (math.pi, max(-demand.low, 0.0)) if sampled is not None else (1e3 * float(mu.max()), 0.0)
        step = trapezoid_step(demand, mu, strip, secants, 1.0)
        if sampled is not None and float(((high - low) / step).max()) > 600.0:
            low, high, step = sampled_grid(demand, mu, sampled[:, None], low, high, step, secants, 1.0)
            nodes = float(((high - low) / step).max())
            if nodes > (_MANY_NODES if len(members) <= _FEW_MEMBERS else 10 * _MANY_NODES):
                rule = Rule.stacked([member._cut_rule(demand, float(p)) for member, p in zip(members, sampled, strict=True)])
                if rule.values.shape[1] < nodes:
                    return rule
        x, step = equispaced(low, high, step)
        loss = mu * (x - 0.5 * mu)
        none = np.zeros(len(mu))
        return Rule(loss, log_normal_weights(x, step), none, none, loss, log_normal_floor(x) - np.log(mu))

    def _cut_rule(self, demand: Demand, p: float) -> Rule:
        """Panels up to the largest loss that the demand wants (`panels.cut_panels`), to be subsampled with probability p.

        Below 0 a negative power of 1 - p + p e^L adds at most |s| |log(1 - p)| to the normal log-density.
        """
        mu = self.mu
        low = -math.sqrt(2.0 * (demand.digits + 1.0 + max(-demand.low, 0.0) * -math.log1p(-p))) - 0.5
        high = min(cut_point(demand, *sampled_shifts(mu, p)), mu * max(demand.high, 0.0) + reach_of(demand))
        x, w = pieces_of(low, high, *sampled_shifts(mu, p), demand, mu, lambda x: mu * posterior(x, mu, p),
                         lambda x: [(0.0, -np.abs(log_odds(x, mu, p)))])
        grid = np.linspace(low, high, 257)[None]
        none = np.zeros(1)
        return Rule((mu * (x - 0.5 * mu))[None], (np.log(w) - 0.5 * x * x - LOG_SQRT_2PI)[None], none, none,
                    mu * (grid - 0.5 * mu), log_normal_floor(grid) - math.log(mu),
                    special.ndtr(np.array([[-high], [mu - high]])))

    @property
    def loss_scale(self) -> float:
        return self.mu * self.mu

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray:
        return gaussian_curve.log_delta(epsilon, self.mu)


@dataclasses.dataclass(frozen=True)
class NormalMixture(Pllr):
    """P = N(0, 1), Q = sum_k weights_k N(shifts_k, 1), all shifts >= 0: L = log sum_k w_k e^{c_k x - c_k^2/2}."""

    shifts: tuple[float, ...]
    weights: tuple[float, ...]

    def __post_init__(self) -> None:
        shifts = [validation.finite(f"shifts[{i}]", validation.at_least_zero(f"shifts[{i}]", shift))
                  for i, shift in enumerate(validation.sequence("shifts", self.shifts))]
        weights = validation.mixture("weights", self.weights)
        if len(shifts) != len(weights):
            raise ValueError(f"`shifts` must be as many as `weights`, {len(weights)}. Found {len(shifts)}.")
        used = [(shift, weight) for shift, weight in zip(shifts, weights, strict=True) if weight > 0]
        validation.positive("max(shifts)", max(shift for shift, _ in used))
        object.__setattr__(self, "shifts", tuple(shift for shift, _ in used))
        object.__setattr__(self, "weights", tuple(weight for _, weight in used))

    @property
    def infimum(self) -> float:  # type: ignore[override]
        still = sum(w for w, c in zip(self.weights, self.shifts, strict=True) if c == 0)
        return math.log(still) if still > 0 else -math.inf

    def rule(self, demand: Demand) -> Rule:
        """Trapezoid in x. While c a < pi/2 for the largest shift c, every term keeps its argument below c a, so the sum is at
        least cos(c a) times its value on the real line: strip pi/2, secants max(-low, 0), one turn. L is increasing and
        convex, its slope (the mean shift of the posterior) lies below c, so the ends are those of one shift c."""
        shifts, weights = np.array(self.shifts), np.array(self.weights)
        cut, reach, none = cut_point(demand, shifts, weights), reach_of(demand), np.zeros(1)
        top = np.array([[shifts.max()]])
        low, high = np.minimum(0.0, top * demand.low) - reach, np.maximum(0.0, top * demand.high) + reach
        step = trapezoid_step(demand, top, 0.5 * math.pi, max(-demand.low, 0.0), 1.0)
        nodes, few = float(((high - low) / step).max()), 40.0 * float((high - low).max())
        if cut < high[0, 0] or nodes > max(_MANY_NODES, few):
            return self._panel_rule(demand, float(low[0, 0]), min(cut, float(high[0, 0])))
        x, step = equispaced(low, high, step)
        loss, slope = self._loss(x[0])
        return Rule(loss[None], log_normal_weights(x, step), none, none, loss[None], log_normal_floor(x) - slope[None, 1:])

    def _panel_rule(self, demand: Demand, low: float, high: float) -> Rule:
        """Panels up to x = high. Below 0 a negative power of the mixture adds at most |s| |inf L| to the normal log-density."""
        shifts, weights, none = np.array(self.shifts), np.array(self.weights), np.zeros(1)
        low = max(low, -math.sqrt(2.0 * (demand.digits + 1.0 + (-demand.low * -self.infimum if demand.low < 0.0 else 0.0))) - 0.5)
        x, w = pieces_of(low, high, shifts, weights, demand, float(shifts.max()), lambda x: np.exp(self._loss(x)[1]), self._groups)
        grid = np.linspace(low, high, 257)
        edges, slope = self._loss(grid)
        return Rule(self._loss(x)[0][None], (np.log(w) - 0.5 * x * x - LOG_SQRT_2PI)[None], none, none, edges[None],
                    log_normal_floor(grid[None]) - slope[None, 1:],
                    np.array([[special.ndtr(-high)], [weights @ special.ndtr(shifts - high)]]))

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        eps, top = np.asarray(epsilon, float).ravel(), max(self.shifts)
        if not one_use.is_smooth(top) or np.any(eps < 0.0):
            return None
        furthest = np.minimum(eps, 1e150) + 0.5 * top * top - math.log(self.weights[self.shifts.index(top)])
        furthest = np.minimum(furthest, 1e150 * top) / top + 1.0  # there the normal law has nothing left
        start = one_use.crossing(self._loss_and_slope, eps, np.zeros(len(eps)), furthest)
        logs = one_use.log_upper_integral(start, lambda x: self._loss(x)[0] - 0.5 * x * x - LOG_SQRT_2PI,
                                         lambda x: self._loss(x)[0] - eps[:, None], top, top)
        return logs.reshape(np.shape(epsilon))

    def log_reversed_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        """Of (Q, P), whose loss -L increases in -x: the part of the normal law below the x with L = -eps."""
        eps, top = np.asarray(epsilon, float).ravel(), max(self.shifts)
        if not one_use.is_smooth(top) or np.any(eps < 0.0):
            return None
        none = eps >= -self.infimum
        level = np.where(none, 0.0, -eps)
        end = one_use.crossing(self._loss_and_slope, level, np.full(len(eps), -40.0), np.full(len(eps), top))
        logs = one_use.log_upper_integral(-end, lambda x: -0.5 * x * x - LOG_SQRT_2PI,
                                         lambda x: level[:, None] - self._loss(-x)[0], top, 0.0)
        return np.where(none, -np.inf, logs).reshape(np.shape(epsilon))

    def _loss_and_slope(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        loss, log_slope = self._loss(x)
        return loss, np.exp(log_slope)

    @property
    def loss_scale(self) -> float:
        return max(self.shifts) ** 2

    def _groups(self, x: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
        """(tau, log of the odds against all terms within tau of the largest), for a few tau from 0 up to below the largest shift."""
        shifts = np.array(self.shifts)
        exponents = np.log(self.weights) + shifts * (x[..., None] - 0.5 * shifts)
        distance = np.abs(shifts - shifts[np.argmax(exponents, axis=-1)][..., None])
        gaps = np.unique(np.abs(shifts[:, None] - shifts))
        for tau in gaps[:-1][:: max(1, len(gaps) // 8)]:
            inside, outside = (np.logaddexp.reduce(np.where(near, exponents, -np.inf), axis=-1)
                               for near in (distance <= tau, distance > tau))
            yield float(tau), outside - inside

    def _loss(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """L and log L'."""
        shifts, weights = np.array(self.shifts), np.array(self.weights)
        each = shifts * (x[..., None] - 0.5 * shifts)
        exponents = np.log(weights) + each
        total = np.logaddexp.reduce(exponents, axis=-1)
        with np.errstate(invalid="ignore"):
            slope = np.log((shifts * np.exp(exponents - total[..., None])).sum(axis=-1) + 5e-324)
        # log1p of the mean of expm1 does not see the weight of the shift 0, whose rounding would move every loss.
        mean = (weights * np.expm1(np.minimum(each, 600.0))).sum(axis=-1)
        plain = (mean < -0.9) | (each.max(axis=-1) > 600.0)
        return np.where(plain, total, np.log1p(np.where(plain, 0.0, mean))), slope


@dataclasses.dataclass(frozen=True)
class SampledReplacement(Pllr):
    """P = (1-p) N(0,1) + p N(-mu,1), Q = (1-p) N(0,1) + p N(mu,1): Poisson sampling, one record replaced."""

    mu: float
    probability: float
    mirror = True

    def rule(self, demand: Demand) -> Rule:
        """Trapezoid in x for P^{1-s} Q^s: two subsampled factors whose arguments have opposite signs, hence two turns, and a
        secant for each negative exponent. The log-slope of the tilted law is at most mu (|s| + |1 - s|)."""
        size = max(abs(demand.low) + abs(1.0 - demand.low), abs(demand.high) + abs(1.0 - demand.high))
        mu, p = np.array([[self.mu]]), np.array([[self.probability]])
        edge = mu * size + reach_of(demand)
        cut = cut_point(demand, *sampled_shifts(self.mu, self.probability))
        if cut < edge[0, 0]:
            return self._cut_rule(demand, -self.mu - reach_of(demand), cut)
        step = trapezoid_step(demand, mu, math.pi, size - 1.0, 2.0)
        if float((edge / step).max()) > 600.0:
            # |1 - s| and |s| exchange their roles on the two sides, so one bound with the larger exponent serves both.
            spread = Demand(-size, size, demand.frequency, demand.log_count + size * -math.log1p(-self.probability))
            below, above, step = sampled_grid(spread, mu, p, -edge, edge, step, size - 1.0, 2.0)
            edge = np.maximum(-below, above)
        if float((edge / step).max()) > max(_MANY_NODES, 40.0 * float(edge[0, 0])):
            return self._cut_rule(demand, -float(edge[0, 0]), float(edge[0, 0]))
        x, step = equispaced(-edge, edge, step)
        up, down = self._losses(x)
        none = np.zeros(1)
        return Rule(up - down, log_normal_weights(x, step) + down, none, none, up - down, self._density_floor(x))

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        eps, mu, p = np.asarray(epsilon, float).ravel(), self.mu, self.probability
        if not one_use.is_smooth(2.0 * mu) or np.any(eps < 0.0):
            return None

        def loss_and_slope(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            up, down = self._losses(x)
            return up - down, mu * (posterior(x, mu, p) + posterior(-x, mu, p))

        furthest = np.minimum(np.minimum(eps, 1e150) + 0.5 * mu * mu - math.log(p), 1e150 * mu) / mu + 1.0
        start = one_use.crossing(loss_and_slope, eps, np.zeros(len(eps)), furthest)
        logs = one_use.log_upper_integral(start, lambda x: self._losses(x)[0] - 0.5 * x * x - LOG_SQRT_2PI,
                                         lambda x: loss_and_slope(x)[0] - eps[:, None], 2.0 * mu, mu)
        return logs.reshape(np.shape(epsilon))

    @property
    def loss_scale(self) -> float:
        return self.mu**2 - math.log(self.probability)

    def _losses(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log dQ/dN(0,1) and log dP/dN(0,1)."""
        mu, p = self.mu, np.array(self.probability)
        return subsampled_loss(mu * (x - 0.5 * mu), p), subsampled_loss(mu * (-x - 0.5 * mu), p)

    def _density_floor(self, x: np.ndarray) -> np.ndarray:
        """Lower bound of the log P-density of L on the cells of equispaced x, one row."""
        mu, (up, down) = self.mu, self._losses(x)
        slope = math.log(self.probability) + math.log(mu) + np.logaddexp(mu * (x - 0.5 * mu) - up, mu * (-x - 0.5 * mu) - down)
        # Both posterior odds change by at most e^{mu step} between nodes.
        ceiling = np.minimum(np.maximum(slope[:, :-1], slope[:, 1:]) + mu * np.diff(x), math.log(2.0 * mu))
        return log_normal_floor(x) + np.minimum(down[:, :-1], down[:, 1:]) - ceiling

    def _cut_rule(self, demand: Demand, low: float, high: float) -> Rule:
        """Panels up to the largest loss that the demand wants; |L'| = mu times both posteriors, on a panel and its ellipse."""
        mu, p = self.mu, self.probability
        both = dataclasses.replace(demand, low=min(demand.low, 1.0 - demand.high))
        x, w = cut_panels(low, high, both, mu, lambda x: mu * (posterior(x, mu, p) + posterior(2.5 - x, mu, p)),
                          lambda x: [(0.0, np.logaddexp(-np.abs(log_odds(x, mu, p)), -np.abs(log_odds(-x, mu, p))))])
        up, down = self._losses(x)
        grid = np.linspace(low, high, 257)[None]
        edges, none = self._losses(grid), np.zeros(1)
        missing = [[(1.0 - p) * special.ndtr(-high) + p * special.ndtr(s * mu - high)] for s in (-1.0, 1.0)]
        return Rule((up - down)[None], (np.log(w) - 0.5 * x * x - LOG_SQRT_2PI + down)[None], none, none, edges[0] - edges[1],
                    self._density_floor(grid), np.array(missing))


@dataclasses.dataclass(frozen=True)
class SampledWithoutReplacement(Pllr):
    """The symmetric pair of a fixed-size sample: its hockey-stick is the larger of the two directions'.

    With R = Subsampled(GaussianShift(mu), p): the loss above 0 is that of R; by symmetry (the law of -L under P is that of
    L under Q) it is the mirror image below 0; what mass is left sits at 0.
    """

    mu: float
    probability: float
    mirror = True

    def rule(self, demand: Demand) -> Rule:
        """Panels in x from mu/2, where L = 0 (`panels.cut_panels`); the mirror image is made of the same nodes."""
        size = max(abs(demand.low), abs(demand.high), abs(1.0 - demand.low), abs(1.0 - demand.high))
        top = max(0.5 * self.mu, self.mu * size) + reach_of(demand)
        half_tail = dataclasses.replace(demand, log_tail=demand.log_tail - math.log(2.0))
        cut = max(cut_point(half_tail, *sampled_shifts(self.mu, self.probability)), 0.5 * self.mu + 1.0)
        # The mirrored half has the exponents 1 - s.
        both = dataclasses.replace(demand, low=min(demand.low, 1.0 - demand.high))
        x, w = cut_panels(0.5 * self.mu, min(cut, top), both, self.mu, lambda x: self.mu * posterior(x, self.mu, self.probability),
                          lambda x: [(0.0, -np.abs(log_odds(x, self.mu, self.probability)))])
        return self._on(x, w, cut if cut < top else math.inf)

    def _on(self, x: np.ndarray, w: np.ndarray, cut: float) -> Rule:
        """The rule with these nodes above mu/2, whose losses above `cut` and below its mirror image are left out."""
        loss = subsampled_loss(self.mu * (x - 0.5 * self.mu), np.array(self.probability))
        above = np.log(w) - 0.5 * x * x - LOG_SQRT_2PI
        rest = (1.0 - self.probability) * special.erf(self.mu / math.sqrt(8.0))
        log_weights = np.concatenate([(above + loss)[::-1], [np.log(max(rest, 5e-324))], above])
        none = np.zeros(1)
        gone = (2.0 - self.probability) * special.ndtr(-cut) + self.probability * special.ndtr(self.mu - cut)
        grid = np.linspace(0.5 * self.mu, float(x[-1]), 257)[None]
        slope = np.log(self.mu * posterior(grid, self.mu, self.probability))  # log L', increasing
        return Rule(np.concatenate([-loss[::-1], [0.0], loss])[None], log_weights[None], none, none,
                    subsampled_loss(self.mu * (grid - 0.5 * self.mu), np.array(self.probability)),
                    log_normal_floor(grid) - slope[:, 1:], np.full((2, 1), gone))

    @property
    def loss_scale(self) -> float:
        return self.mu**2 - math.log(self.probability)

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        """For eps >= 0 that of the subsampled pair."""
        return Subsampled(GaussianShift(self.mu), self.probability).log_hockey_stick(epsilon)
