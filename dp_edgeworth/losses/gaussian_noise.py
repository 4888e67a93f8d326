"""Gaussian noise: one shift, and a mixture of shifts.

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
from dp_edgeworth.losses import gaussian_curve, one_use, trapezoid
from dp_edgeworth.losses.cells import Cells, normal_cells
from dp_edgeworth.losses.gaussian_curve import LOG_SQRT_2PI
from dp_edgeworth.losses.panels import cut_panels
from dp_edgeworth.losses.pllr import Pllr, itself
from dp_edgeworth.losses.rules import Demand, Rule
from dp_edgeworth.losses.trapezoid import log_normal_floor, log_odds, posterior, sampled_shifts

_FEW_MEMBERS = 64
MANY_NODES = 2_000  # beyond, panels that are short only where the loss turns need fewer


@dataclasses.dataclass(frozen=True)
class GaussianShift(Pllr):
    """P = N(0, 1), Q = N(mu, 1): L = mu x - mu^2 / 2, K(z) = mu^2 (z^2 + z) / 2."""

    mu: float
    supremum, infimum, infinite_mass, lost_mass, top_mass, bottom_mass = math.inf, -math.inf, 0.0, 0.0, 0.0, 0.0
    mirror, atomic, dominated = True, False, itself
    gaussian_variance = loss_scale = property(lambda self: self.mu * self.mu)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", validation.positive("mu", self.mu))

    def largest_kept(self, log_tail: float) -> float:
        return self.mu * (0.5 * self.mu - float(special.ndtri_exp(min(log_tail, -1.0)))) if log_tail > -math.inf else math.inf

    def rule(self, demand: Demand) -> Rule:
        return self.rules([self], demand)

    @classmethod
    def rules(cls, members: Sequence[Any], demand: Demand, sampled: np.ndarray | None = None) -> Rule:
        """The trapezoid rule in x, fine enough to be subsampled with any probability p.

        |1 - p + p e^{L(x + ia)}| lies between cos(mu a / 2) and 1 times its value at a = 0 and its argument is at most
        mu a: strip pi, secants max(-low, 0), one turn. The tilted law lies in likelihood-ratio order between N(0, 1)
        and N(mu s, 1), so the ends of the grid are right for every p. Where these ends are far apart or the frequency
        is high, panels that know p need fewer nodes: losses of tiny p bend late and turn slowly.
        """
        if sampled is not None and demand.log_tail > -math.inf and demand.low >= 0.0:
            return Rule.stacked([member._cut_rule(demand, float(p)) for member, p in zip(members, sampled, strict=True)])
        mu = np.array([member.mu for member in members])[:, None]
        reach = trapezoid.reach_of(demand)
        low, high = np.minimum(0.0, mu * demand.low) - reach, np.maximum(0.0, mu * demand.high) + reach
        # Unsampled, the integrand is entire: any strip will do.
        strip, secants = (math.pi, max(-demand.low, 0.0)) if sampled is not None else (1e3 * float(mu.max()), 0.0)
        step = trapezoid.largest_step(demand, mu, strip, secants, 1.0)
        nodes = float(((high - low) / step).max())
        if sampled is not None and nodes > (MANY_NODES if len(members) <= _FEW_MEMBERS else 10 * MANY_NODES):
            rule = Rule.stacked([member._cut_rule(demand, float(p)) for member, p in zip(members, sampled, strict=True)])
            if rule.values.shape[1] < nodes:
                return rule
        x, step = trapezoid.equispaced(low, high, step)
        loss = mu * (x - 0.5 * mu)
        none = np.zeros(len(mu))
        return Rule(loss, trapezoid.log_normal_weights(x, step), none, none, loss, log_normal_floor(x) - np.log(mu))

    def _cut_rule(self, demand: Demand, p: float) -> Rule:
        """Panels up to the largest loss that the demand wants (`panels.cut_panels`), to be subsampled with probability p.

        Below 0 a negative power of 1 - p + p e^L adds at most |s| |log(1 - p)| to the normal log-density.
        """
        mu = self.mu
        low = -math.sqrt(2.0 * (demand.digits + 1.0 + max(-demand.low, 0.0) * -math.log1p(-p))) - 0.5
        high = min(trapezoid.cut_point(demand, *sampled_shifts(mu, p)), mu * max(demand.high, 0.0) + trapezoid.reach_of(demand))
        x, w = cut_panels(low, high, demand, mu, lambda x: mu * posterior(x, mu, p), lambda x: [(0.0, -np.abs(log_odds(x, mu, p)))])
        grid = np.linspace(low, high, 257)[None]
        none = np.zeros(1)
        return Rule((mu * (x - 0.5 * mu))[None], (np.log(w) - 0.5 * x * x - LOG_SQRT_2PI)[None], none, none,
                    mu * (grid - 0.5 * mu), log_normal_floor(grid) - math.log(mu),
                    special.ndtr(np.array([[-high], [mu - high]])))

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray:
        return gaussian_curve.log_delta(epsilon, self.mu)

    def cells(self, cuts: float | np.ndarray, log_tail: float) -> Cells | None:
        return normal_cells([(0.0, 1.0)], [(self.mu, 1.0)], lambda x: self.mu * (x - 0.5 * self.mu), cuts, log_tail)


@dataclasses.dataclass(frozen=True)
class NormalMixture(Pllr):
    """P = N(0, 1), Q = sum_k weights_k N(shifts_k, 1), all shifts >= 0: L = log sum_k w_k e^{c_k x - c_k^2/2}."""

    shifts: tuple[float, ...]
    weights: tuple[float, ...]
    supremum, infinite_mass, lost_mass, top_mass, bottom_mass = math.inf, 0.0, 0.0, 0.0, 0.0
    atomic, dominated = False, itself
    loss_scale = property(lambda self: max(self.shifts) ** 2)

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
    def infimum(self) -> float:
        still = sum(w for w, c in zip(self.weights, self.shifts, strict=True) if c == 0)
        return math.log(still) if still > 0 else -math.inf

    def largest_kept(self, log_tail: float) -> float:
        """All components are at most as far out as the one of the largest shift, and L increases."""
        if log_tail == -math.inf:
            return math.inf
        return float(self._loss(np.array(max(self.shifts) - special.ndtri_exp(min(log_tail, -1.0))))[0])

    def rule(self, demand: Demand) -> Rule:
        """Trapezoid in x. While c a < pi/2 for the largest shift c, every term keeps its argument below c a, so the sum is at
        least cos(c a) times its value on the real line: strip pi/2, secants max(-low, 0), one turn. L is increasing and
        convex, its slope (the mean shift of the posterior) lies below c, so the ends are those of one shift c."""
        shifts, weights = np.array(self.shifts), np.array(self.weights)
        cut, reach, none = trapezoid.cut_point(demand, shifts, weights), trapezoid.reach_of(demand), np.zeros(1)
        top = np.array([[shifts.max()]])
        low, high = np.minimum(0.0, top * demand.low) - reach, np.maximum(0.0, top * demand.high) + reach
        step = trapezoid.largest_step(demand, top, 0.5 * math.pi, max(-demand.low, 0.0), 1.0)
        nodes, few = float(((high - low) / step).max()), 40.0 * float((high - low).max())
        if cut < high[0, 0] or nodes > max(MANY_NODES, few):
            return self._panel_rule(demand, float(low[0, 0]), min(cut, float(high[0, 0])))
        x, step = trapezoid.equispaced(low, high, step)
        loss, slope = self._loss(x[0])
        return Rule(loss[None], trapezoid.log_normal_weights(x, step), none, none, loss[None], log_normal_floor(x) - slope[None, 1:])

    def _panel_rule(self, demand: Demand, low: float, high: float) -> Rule:
        """Panels up to x = high. Below 0 a negative power of the mixture adds at most |s| |inf L| to the normal log-density."""
        shifts, weights, none = np.array(self.shifts), np.array(self.weights), np.zeros(1)
        low = max(low, -math.sqrt(2.0 * (demand.digits + 1.0 + (-demand.low * -self.infimum if demand.low < 0.0 else 0.0))) - 0.5)
        x, w = cut_panels(low, high, demand, float(shifts.max()), lambda x: np.exp(self._loss(x)[1]), self._groups)
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
        start = one_use.crossing(lambda x: self._loss(x)[0], eps, np.zeros(len(eps)), furthest)
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
        end = one_use.crossing(lambda x: self._loss(x)[0], level, np.full(len(eps), -40.0), np.full(len(eps), top))
        logs = one_use.log_upper_integral(-end, lambda x: -0.5 * x * x - LOG_SQRT_2PI,
                                         lambda x: level[:, None] - self._loss(-x)[0], top, 0.0)
        return np.where(none, -np.inf, logs).reshape(np.shape(epsilon))

    def cells(self, cuts: float | np.ndarray, log_tail: float) -> Cells | None:
        mixture = list(zip(self.shifts, self.weights, strict=True))
        return normal_cells([(0.0, 1.0)], mixture, lambda x: self._loss(x)[0], cuts, log_tail)

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
