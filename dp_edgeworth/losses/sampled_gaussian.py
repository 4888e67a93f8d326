"""Gaussian noise under the two samplings in which a record is replaced.

Each docstring says why the rule is as accurate as `Demand` asks, relative to e^{K(Re z)}.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy import special

from dp_edgeworth.losses import one_use, trapezoid
from dp_edgeworth.losses.cells import EXP_ERROR, Cells, normal_cells
from dp_edgeworth.losses.gaussian_curve import LOG_SQRT_2PI
from dp_edgeworth.losses.gaussian_noise import MANY_NODES, GaussianShift
from dp_edgeworth.losses.operations import Subsampled
from dp_edgeworth.losses.panels import cut_panels
from dp_edgeworth.losses.pllr import Pllr, itself
from dp_edgeworth.losses.rules import Demand, Rule, subsampled_loss
from dp_edgeworth.losses.trapezoid import log_normal_floor, log_odds, posterior, sampled_shifts


class _Replaced(Pllr):
    """What both have in common: a shift mu, a sampling probability p, losses of every size, and a mirror image that is the pair."""

    mu: float
    probability: float
    supremum, infimum, infinite_mass, lost_mass, top_mass, bottom_mass = math.inf, -math.inf, 0.0, 0.0, 0.0, 0.0
    mirror, atomic, dominated = True, False, itself
    loss_scale = property(lambda self: self.mu**2 - math.log(self.probability))

    def largest_kept(self, log_tail: float) -> float:
        """Q has no more beyond x than N(mu, 1), and L increases in x; without replacement it is that of Q alone, which is less."""
        if log_tail == -math.inf:
            return math.inf
        x = np.array(self.mu - special.ndtri_exp(min(log_tail, -1.0)))
        return float(np.subtract(*self._losses(x)))

    def _losses(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log dQ/dN(0,1) and log dP/dN(0,1), if a record is replaced."""
        mu, p = self.mu, np.array(self.probability)
        return subsampled_loss(mu * (x - 0.5 * mu), p), subsampled_loss(mu * (-x - 0.5 * mu), p)


@dataclasses.dataclass(frozen=True)
class SampledReplacement(_Replaced):
    """P = (1-p) N(0,1) + p N(-mu,1), Q = (1-p) N(0,1) + p N(mu,1): Poisson sampling, one record replaced."""

    mu: float
    probability: float

    def rule(self, demand: Demand) -> Rule:
        """Trapezoid in x for P^{1-s} Q^s: two subsampled factors whose arguments have opposite signs, hence two turns, and a
        secant for each negative exponent. The log-slope of the tilted law is at most mu (|s| + |1 - s|)."""
        size = max(abs(demand.low) + abs(1.0 - demand.low), abs(demand.high) + abs(1.0 - demand.high))
        mu = np.array([[self.mu]])
        edge = mu * size + trapezoid.reach_of(demand)
        cut = trapezoid.cut_point(demand, *sampled_shifts(self.mu, self.probability))
        if cut < edge[0, 0]:
            return self._cut_rule(demand, -self.mu - trapezoid.reach_of(demand), cut)
        step = trapezoid.largest_step(demand, mu, math.pi, size - 1.0, 2.0)
        if float((edge / step).max()) > max(MANY_NODES, 40.0 * float(edge[0, 0])):
            return self._cut_rule(demand, -float(edge[0, 0]), float(edge[0, 0]))
        x, step = trapezoid.equispaced(-edge, edge, step)
        up, down = self._losses(x)
        none = np.zeros(1)
        return Rule(up - down, trapezoid.log_normal_weights(x, step) + down, none, none, up - down, self._density_floor(x))

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        eps, mu, p = np.asarray(epsilon, float).ravel(), self.mu, self.probability
        if not one_use.is_smooth(2.0 * mu) or np.any(eps < 0.0):
            return None

        def loss(x: np.ndarray) -> np.ndarray:
            return np.subtract(*self._losses(x))

        furthest = np.minimum(np.minimum(eps, 1e150) + 0.5 * mu * mu - math.log(p), 1e150 * mu) / mu + 1.0
        start = one_use.crossing(loss, eps, np.zeros(len(eps)), furthest)
        logs = one_use.log_upper_integral(start, lambda x: self._losses(x)[0] - 0.5 * x * x - LOG_SQRT_2PI,
                                         lambda x: loss(x) - eps[:, None], 2.0 * mu, mu)
        return logs.reshape(np.shape(epsilon))

    def cells(self, cuts: float | np.ndarray, log_tail: float) -> Cells | None:
        mu, p = self.mu, self.probability
        return normal_cells([(0.0, 1.0 - p), (-mu, p)], [(0.0, 1.0 - p), (mu, p)], lambda x: np.subtract(*self._losses(x)), cuts,
                            log_tail)

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
class SampledWithoutReplacement(_Replaced):
    """The symmetric pair of a fixed-size sample: its hockey-stick is the larger of the two directions'.

    With R = Subsampled(GaussianShift(mu), p): the loss above 0 is that of R; by symmetry (the law of -L under P is that of
    L under Q) it is the mirror image below 0; what mass is left sits at 0.
    """

    mu: float
    probability: float

    def rule(self, demand: Demand) -> Rule:
        """Panels in x from mu/2, where L = 0 (`panels.cut_panels`); the mirror image is made of the same nodes."""
        size = max(abs(demand.low), abs(demand.high), abs(1.0 - demand.low), abs(1.0 - demand.high))
        top = max(0.5 * self.mu, self.mu * size) + trapezoid.reach_of(demand)
        half_tail = dataclasses.replace(demand, log_tail=demand.log_tail - math.log(2.0))
        cut = max(trapezoid.cut_point(half_tail, *sampled_shifts(self.mu, self.probability)), 0.5 * self.mu + 1.0)
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

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        """For eps >= 0 that of the subsampled pair."""
        return Subsampled(GaussianShift(self.mu), self.probability).log_hockey_stick(epsilon)

    def cells(self, cuts: float | np.ndarray, log_tail: float) -> Cells | None:
        """Of the sampled pair the losses above 0, which are those of x > mu/2, their mirror image, and the rest at 0."""
        mu, p = self.mu, self.probability
        upper = normal_cells([(0.0, 1.0)], [(0.0, 1.0 - p), (mu, p)], lambda x: self._losses(x)[0], cuts, log_tail, start=0.5 * mu)
        if upper is None:
            return None
        rest, none = np.array([(1.0 - p) * special.erf(mu / math.sqrt(8.0))]), np.zeros(1)
        return Cells.mixed([(1.0, upper), (1.0, upper.reversed()), (1.0, Cells(none, none, none, none, rest, rest, 8.0 * EXP_ERROR))])
