"""The base pairs: what a leaf event is made of before sampling, reversing and mixing.

    GaussianShift            N(0,1) against N(mu,1)                          closed form; trapezoid under sampling
    LaplaceShift             Laplace(0,1) against Laplace(mu,1)              two atoms and Gauss-Legendre panels
    Atoms                    any finite pair of probability vectors         exact
    NormalMixture            N(0,1) against sum w_k N(c_k,1)                 trapezoid
    SampledReplacement       Poisson sampling, one record replaced          trapezoid
    SampledWithoutReplacement  the symmetric curve of a fixed-size sample   atom at 0 and Gauss-Legendre panels

Each docstring says why the rule is as accurate as `Demand` asks, relative to e^{K(Re z)}.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from dp_edgeworth import gaussian, single
from dp_edgeworth.gaussian import LOG_SQRT_2PI
from dp_edgeworth.panels import cut_panels, graded_edges, panels
from dp_edgeworth.pllr import Demand, Pllr, Rule, Subsampled, check_size, subsampled_loss

_MANY_NODES = 2_000  # beyond, panels that are short only where the loss turns need fewer


def _reach(demand: Demand) -> float:
    """Standard deviations after which a normal tail is below e^{-digits}."""
    return math.sqrt(2.0 * (demand.digits + 1.0)) + 0.5


def _trapezoid_step(demand: Demand, mu: np.ndarray, strip: float, secants: float, turns: np.ndarray | float,
                    highest: float = math.inf) -> np.ndarray:
    """Largest step whose error is below e^{-digits}, one per row of mu (shape (members, 1)).

    For an integrand that is analytic for |Im x| < strip / mu and at height a at most
    exp(a^2/2 + turns frequency mu a + secants log sec(pi mu a / (2 strip))) times its size on the real line, the
    trapezoid rule with step d is off by at most 2 exp(... - 2 pi a / d) / (1 - e^{-2 pi a / d}). With posterior odds of at
    most turns < 1 the modulus shrinks by at most 1 - turns (1 - cos(mu a)) instead. Heights above `highest` are not used.
    """
    digits = demand.digits + 1.0
    heights = np.minimum(min(math.sqrt(2.0 * digits), highest), 0.98 * strip / mu) * np.linspace(0.25, 1.0, 13)
    secant = -np.log(np.cos(0.5 * math.pi / strip * mu * heights))
    if np.min(turns) < 0.5:
        shrink = np.minimum(2.0 * np.sin(0.5 * mu * heights) ** 2 * turns, 0.999)
        secant = np.minimum(secant, -np.log1p(-shrink))
    secant = secants * secant
    need = turns * demand.frequency * mu + heights / 2.0 + (digits + secant) / heights
    return 2.0 * math.pi / need.min(axis=1, keepdims=True)


def _grid(low: np.ndarray, high: np.ndarray, step: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Equispaced nodes per row, the same number in each, and the steps that gives."""
    nodes = check_size(float(((high - low) / step).max()) + 2.0)
    step = (high - low) / (nodes - 1)
    return low + step * np.arange(nodes), step


def _sampled_grid(demand: Demand, mu: np.ndarray, p: np.ndarray, low: np.ndarray, high: np.ndarray, step: np.ndarray,
                  secants: float, turning: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Ends and step for known sampling probabilities, over a few heights of the shifted contour the ones with fewest nodes.

    Below 0 the loss is at least log(1-p), so e^{sL} adds at most max(-s, 0) |log(1-p)| to the normal log-density. Above 0
    the integral beyond x_k is at most sum_{j >= k} (x_{j+1} - x_j) exp(-x_j^2/2 + s L(x_{j+1}) + turning), because L and the
    posterior odds r increase; at height a <= pi / (2 mu) the argument of 1 - p + p e^L is at most min(1, r) mu a. All of it is
    compared with E e^{sL} >= 1, which holds for s <= 0 and s >= 1, or with its lower bound between.
    """
    digits = demand.digits + 3.0
    if demand.low < 1.0:  # between 0 and 1, E e^{sL} is at least e^{-mu^2/8} and at least 1 - p
        digits += float(np.minimum(mu * mu / 8.0, -np.log1p(-p)).max())
    with np.errstate(all="ignore"):
        below = np.maximum(low, -np.sqrt(2.0 * (digits + max(-demand.low, 0.0) * -np.log1p(-p))) - 0.5)
        grid = np.geomspace(1.0, np.maximum(high, 2.0), 400, axis=0)[..., 0].T
        odds = np.minimum(1.0, np.exp(np.minimum(np.log(p) - np.log1p(-p) + mu * (grid - 0.5 * mu), 1.0)))
        loss = np.maximum(subsampled_loss(mu * (grid - 0.5 * mu), p), 0.0)
        pieces = np.log(np.diff(grid, axis=1)) - 0.5 * grid[:, :-1] ** 2 + max(demand.high, 0.0) * loss[:, 1:]
    for highest in math.sqrt(2.0 * digits) * 0.3 ** np.arange(6):
        height = np.minimum(highest, 0.5 * math.pi / mu)
        turned = pieces + odds[:, 1:] * turning * demand.frequency * mu * height + max(-demand.low, 0.0) * np.minimum(
            0.35, 4.0 * odds[:, 1:] * np.sin(0.5 * mu * height) ** 2)
        tails = np.logaddexp.accumulate(np.nan_to_num(turned[:, ::-1], nan=np.inf), axis=1)[:, ::-1]
        enough = tails <= -digits
        first = np.where(enough.any(axis=1), np.argmax(enough, axis=1), grid.shape[1] - 1)[:, None]
        end = np.minimum(np.take_along_axis(grid, first, axis=1) + 0.5, high)
        turns = np.take_along_axis(odds, np.minimum(first + 1, grid.shape[1] - 1), axis=1)
        turns = np.where(end < high, np.maximum(turns, np.exp(np.minimum(
            np.log(p) - np.log1p(-p) + mu * (end - 0.5 * mu), 0.0))), 1.0)
        finer = _trapezoid_step(demand, mu, 0.5 * math.pi, secants, turning * turns, highest)
        if ((end - below) / finer).max() < ((high - low) / step).max():
            low, high, step = below, end, finer
    return low, high, step


def _log_normal_floor(x: np.ndarray) -> np.ndarray:
    """Lower bound of log phi between neighbouring nodes."""
    return -0.5 * np.maximum(np.abs(x[:, :-1]), np.abs(x[:, 1:])) ** 2 - LOG_SQRT_2PI


def _log_normal_weights(x: np.ndarray, step: np.ndarray) -> np.ndarray:
    return np.log(step) - 0.5 * x * x - LOG_SQRT_2PI


def _cut(demand: Demand, shifts: np.ndarray, weights: np.ndarray) -> float:
    """The x beyond which sum_k w_k N(c_k, 1) has at most the mass that the demand lets go; infinity where it wants all."""
    if demand.log_tail == -math.inf or demand.low < 0.0 or demand.high < 1.0:
        return math.inf
    return float(np.max(shifts - special.ndtri_exp(np.minimum(demand.log_tail - np.log(len(shifts) * weights), -1e-9))))


def _sampled_shifts(mu: float, p: float) -> tuple[np.ndarray, np.ndarray]:
    return np.array([0.0, mu]), np.array([max(1.0 - p, 1e-300), p])


def _posterior(x: np.ndarray, mu: float, p: float) -> np.ndarray:
    """Probability that the record was sampled, given x."""
    return special.expit(math.log(p) - math.log1p(-p) + mu * (x - 0.5 * mu))


@dataclasses.dataclass(frozen=True)
class GaussianShift(Pllr):
    """P = N(0, 1), Q = N(mu, 1): L = mu x - mu^2 / 2, K(z) = mu^2 (z^2 + z) / 2."""

    mu: float
    mirror = True

    @property
    def gaussian_variance(self) -> float:  # type: ignore[override]
        return self.mu * self.mu

    @classmethod
    def rules(cls, members: Sequence[Any], demand: Demand, sampled: np.ndarray | None = None) -> Rule:
        """The trapezoid rule in x, fine enough to be subsampled with any probability p.

        |1 - p + p e^{L(x + ia)}| lies between cos(mu a / 2) and 1 times its value at a = 0 and its argument is at most
        mu a: strip pi, secants max(-low, 0), one turn. The tilted law lies in likelihood-ratio order between N(0, 1)
        and N(mu s, 1), so the ends of the grid are right for every p. Where these ends are far apart or the frequency
        is high, p is taken into account (`_sampled_grid`): losses of tiny p bend late and turn slowly.
        """
        if sampled is not None and demand.log_tail > -math.inf and demand.low >= 0.0:
            return Rule.stacked([member._cut_rule(demand, float(p)) for member, p in zip(members, sampled, strict=True)])
        mu = np.array([member.mu for member in members])[:, None]
        reach = _reach(demand)
        low, high = np.minimum(0.0, mu * demand.low) - reach, np.maximum(0.0, mu * demand.high) + reach
        # Unsampled, the integrand is entire: any strip will do.
        strip, secants = (math.pi, max(-demand.low, 0.0)) if sampled is not None else (1e3 * float(mu.max()), 0.0)
        step = _trapezoid_step(demand, mu, strip, secants, 1.0)
        if sampled is not None and float(((high - low) / step).max()) > 600.0:
            low, high, step = _sampled_grid(demand, mu, sampled[:, None], low, high, step, secants, 1.0)
        x, step = _grid(low, high, step)
        loss = mu * (x - 0.5 * mu)
        none = np.zeros(len(mu))
        return Rule(loss, _log_normal_weights(x, step), none, none, loss, _log_normal_floor(x) - np.log(mu))

    def _cut_rule(self, demand: Demand, p: float) -> Rule:
        """Panels up to the largest loss that the demand wants (`panels.cut_panels`), to be subsampled with probability p."""
        mu, reach = self.mu, _reach(demand)
        high = min(_cut(demand, *_sampled_shifts(mu, p)), mu * demand.high + reach)
        x, w = cut_panels(-reach, high, demand, mu, lambda x: mu * _posterior(x, mu, p))
        grid = np.linspace(-reach, high, 257)[None]
        none = np.zeros(1)
        return Rule((mu * (x - 0.5 * mu))[None], (np.log(w) - 0.5 * x * x - LOG_SQRT_2PI)[None], none, none,
                    mu * (grid - 0.5 * mu), _log_normal_floor(grid) - math.log(mu),
                    special.ndtr(np.array([[-high], [mu - high]])))

    @property
    def loss_scale(self) -> float:
        return self.mu * self.mu

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray:
        return gaussian.log_delta(epsilon, self.mu)


@dataclasses.dataclass(frozen=True)
class Atoms(Pllr):
    """A discrete pair: probabilities under P and under Q, point by point.

    Attributes:
      coarse: a pair with less loss than the true one, where this one was made by rounding up.
      losses: log(q/p) point by point where it is known better than from the masses, for example a tiny one.
    """

    p_masses: tuple[float, ...]
    q_masses: tuple[float, ...]
    coarse: Atoms | None = None
    losses: tuple[float, ...] | None = None
    atomic = True

    @functools.cached_property
    def _log_finite(self) -> tuple[np.ndarray, np.ndarray]:
        """log P-mass and loss of every point whose loss is finite; a mass that is no float is known by the other one."""
        p, q = np.array(self.p_masses), np.array(self.q_masses)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            log_p, log_q = np.log(p), np.log(q)
            if self.losses is not None:
                losses = np.array(self.losses)
                log_p = np.where(q > p, log_q - losses, log_p)
            else:
                near = np.abs(q - p) < 0.5 * p
                losses = np.where(near, np.log1p(np.where(near, (q - p) / p, 0.0)), log_q - log_p)
        finite = np.isfinite(losses) & (np.maximum(p, q) > 0)
        return log_p[finite], losses[finite]

    @property
    def _finite(self) -> tuple[np.ndarray, np.ndarray]:
        log_p, losses = self._log_finite
        return np.exp(log_p), losses

    def _known(self, infinite: float) -> list[bool]:
        """Which points have this infinite loss."""
        if self.losses is not None:
            return [loss == infinite for loss in self.losses]
        zeros = self.p_masses if infinite > 0 else self.q_masses
        return [mass == 0 for mass in zeros]

    @property
    def supremum(self) -> float:  # type: ignore[override]
        return math.inf if self.infinite_mass else self.finite_supremum

    @property
    def finite_supremum(self) -> float:
        return float(self._log_finite[1].max(initial=-math.inf))

    @property
    def infimum(self) -> float:  # type: ignore[override]
        return -math.inf if self.lost_mass else float(self._log_finite[1].min(initial=math.inf))

    @property
    def infinite_mass(self) -> float:  # type: ignore[override]
        return math.fsum(q for q, gone in zip(self.q_masses, self._known(math.inf), strict=True) if gone)

    @property
    def lost_mass(self) -> float:  # type: ignore[override]
        return math.fsum(p for p, gone in zip(self.p_masses, self._known(-math.inf), strict=True) if gone)

    @property
    def dominated(self) -> Pllr:
        return self if self.coarse is None else self.coarse

    @property
    def top_mass(self) -> float:  # type: ignore[override]
        log_p, loss = self._log_finite
        return 0.0 if self.infinite_mass or self.coarse else float(np.exp(log_p + loss)[loss == self.supremum].sum())

    @property
    def bottom_mass(self) -> float:  # type: ignore[override]
        log_p, loss = self._log_finite
        return 0.0 if self.lost_mass or self.coarse else float(np.exp(log_p)[loss == self.infimum].sum())

    @property
    def loss_scale(self) -> float:
        return float(np.abs(self._log_finite[1]).max(initial=0.0))

    def rule(self, demand: Demand) -> Rule:
        log_p, losses = self._log_finite
        return Rule(losses[None], log_p[None], np.array([self.lost_mass]), np.array([self.infinite_mass]))

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray:
        log_p, losses = self._log_finite
        with np.errstate(all="ignore"):
            gaps = -np.expm1(np.minimum(np.asarray(epsilon)[..., None] - losses, 0.0)) * np.exp(log_p + losses)
            return np.log(np.minimum(gaps.sum(axis=-1) + self.infinite_mass, 1.0))


@dataclasses.dataclass(frozen=True)
class LaplaceShift(Pllr):
    """P = Laplace(0, 1), Q = Laplace(mu, 1): L = |x| - |x - mu|, with atoms at -mu and mu."""

    mu: float
    mirror = True

    @property
    def supremum(self) -> float:  # type: ignore[override]
        return self.mu

    @property
    def infimum(self) -> float:  # type: ignore[override]
        return -self.mu

    @property
    def loss_scale(self) -> float:
        return self.mu

    top_mass = 0.5
    bottom_mass = 0.5

    def rule(self, demand: Demand) -> Rule:
        return self._rule(demand, 1.0)

    @classmethod
    def rules(cls, members: Sequence[Any], demand: Demand, sampled: np.ndarray | None = None) -> Rule:
        probabilities = [1.0] * len(members) if sampled is None else sampled
        return Rule.stacked([member._rule(demand, p) for member, p in zip(members, probabilities, strict=True)])

    def _rule(self, demand: Demand, p: float) -> Rule:
        """Atoms of mass 1/2 at -mu and e^{-mu}/2 at mu; L = 2x - mu with density e^{-x}/2 on 0 < x < mu.

        After subsampling the integrand between is analytic for |Im x| < pi/2; at height b it is at most
        e^{2 frequency b} sec(b)^{max(-low, 0)} times its size on the real line, where it grows by at most e^{slope dx}. Slope and
        phase are smaller by the largest posterior odds where these are below 1. Panels are short at the end where a steep
        integrand has its mass and double from there on (`panels.graded_edges`).
        """
        odds = min(1.0, p * math.exp(self.mu) / (1.0 - p)) if p < 0.5 and self.mu < 600.0 else 1.0
        rise, fall = 2.0 * max(demand.high, 0.0) * odds + 1.0, 2.0 * max(-demand.low, 0.0) * odds + 1.0
        edges = graded_edges(self.mu, fall, rise, min(1.0, 12.0 / (2.0 * demand.frequency * odds + 1e-300)), demand.digits)
        x, w = panels(edges, demand, 2.0, odds)
        values = np.concatenate([[-self.mu], 2.0 * x - self.mu, [self.mu]])
        log_weights = np.concatenate([[math.log(0.5)], np.log(0.5 * w) - x, [math.log(0.5) - self.mu]])
        grid = np.linspace(0.0, self.mu, 65)
        none = np.zeros(1)
        return Rule(values[None], log_weights[None], none, none, (2.0 * grid - self.mu)[None],
                    (math.log(0.25) - grid[1:])[None])

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray:
        """1 - e^{(eps - mu)/2} for |eps| < mu; below, 1 - e^eps."""
        eps = np.asarray(epsilon, float)
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(np.where(eps < -self.mu, eps, 0.5 * np.minimum(eps - self.mu, 0.0))))


@dataclasses.dataclass(frozen=True)
class FarLaplaceShift(LaplaceShift):
    """Laplace noise so small that e^{-mu} is no float: bounded by its largest loss mu, otherwise taken for disjoint."""

    infinite_mass = 1.0
    lost_mass = 1.0
    top_mass = 0.0
    bottom_mass = 0.0

    @property
    def dominated(self) -> Pllr:
        """Only the sign of x - mu/2 is revealed; what is known of the loss is then no float either, so nothing is."""
        return Atoms((1.0,), (1.0,))

    def rule(self, demand: Demand) -> Rule:
        return Atoms((1.0, 0.0), (0.0, 1.0)).rule(demand)


@dataclasses.dataclass(frozen=True)
class NormalMixture(Pllr):
    """P = N(0, 1), Q = sum_k weights_k N(shifts_k, 1), all shifts >= 0: L = log sum_k w_k e^{c_k x - c_k^2/2}."""

    shifts: tuple[float, ...]
    weights: tuple[float, ...]

    @property
    def infimum(self) -> float:  # type: ignore[override]
        still = sum(w for w, c in zip(self.weights, self.shifts, strict=True) if c == 0)
        return math.log(still) if still > 0 else -math.inf

    def rule(self, demand: Demand) -> Rule:
        """Trapezoid in x. While c a < pi/2 for the largest shift c, every term keeps its argument below c a, so the sum is at
        least cos(c a) times its value on the real line: strip pi/2, secants max(-low, 0), one turn. L is increasing and
        convex, its slope (the mean shift of the posterior) lies below c, so the ends are those of one shift c."""
        shifts, weights = np.array(self.shifts), np.array(self.weights)
        cut, reach, none = _cut(demand, shifts, weights), _reach(demand), np.zeros(1)
        top = np.array([[shifts.max()]])
        low, high = np.minimum(0.0, top * demand.low) - reach, np.maximum(0.0, top * demand.high) + reach
        step = _trapezoid_step(demand, top, 0.5 * math.pi, max(-demand.low, 0.0), 1.0)
        nodes, few = float(((high - low) / step).max()), 40.0 * float((high - low).max()) * max(1.0, float(top[0, 0]))
        if cut < high[0, 0] or (nodes > max(_MANY_NODES, few) and math.isfinite(self.infimum)):
            return self._panel_rule(demand, min(cut, float(high[0, 0])))
        x, step = _grid(low, high, step)
        loss, slope = self._loss(x[0])
        return Rule(loss[None], _log_normal_weights(x, step), none, none, loss[None], _log_normal_floor(x) - slope[None, 1:])

    def _panel_rule(self, demand: Demand, high: float) -> Rule:
        """Panels up to x = high. Below 0 a negative power of the mixture adds at most |s| |inf L| to the normal log-density."""
        shifts, weights, none = np.array(self.shifts), np.array(self.weights), np.zeros(1)
        low = -math.sqrt(2.0 * (demand.digits + 1.0 + (max(-demand.low, 0.0) * -self.infimum if demand.low < 0.0 else 0.0))) - 0.5
        x, w = cut_panels(low, high, demand, float(shifts.max()), lambda x: np.exp(self._loss(x)[1]))
        grid = np.linspace(low, high, 257)
        edges, slope = self._loss(grid)
        return Rule(self._loss(x)[0][None], (np.log(w) - 0.5 * x * x - LOG_SQRT_2PI)[None], none, none, edges[None],
                    _log_normal_floor(grid[None]) - slope[None, 1:],
                    np.array([[special.ndtr(-high)], [weights @ special.ndtr(shifts - high)]]))

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        eps, top = np.asarray(epsilon, float).ravel(), max(self.shifts)
        if not single.is_smooth(top) or np.any(eps < 0.0):
            return None
        furthest = (np.minimum(eps, 1e150) + 0.5 * top * top - math.log(self.weights[self.shifts.index(top)])) / top + 1.0
        start = single.crossing(self._loss_and_slope, eps, np.zeros(len(eps)), furthest)
        logs = single.log_upper_integral(start, lambda x: self._loss(x)[0] - 0.5 * x * x - LOG_SQRT_2PI,
                                         lambda x: self._loss(x)[0] - eps[:, None], top, top)
        return logs.reshape(np.shape(epsilon))

    def log_reversed_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        """Of (Q, P), whose loss -L increases in -x: the part of the normal law below the x with L = -eps."""
        eps, top = np.asarray(epsilon, float).ravel(), max(self.shifts)
        if not single.is_smooth(top) or np.any(eps < 0.0):
            return None
        none = eps >= -self.infimum
        level = np.where(none, 0.0, -eps)
        end = single.crossing(self._loss_and_slope, level, np.full(len(eps), -40.0), np.full(len(eps), top))
        logs = single.log_upper_integral(-end, lambda x: -0.5 * x * x - LOG_SQRT_2PI,
                                         lambda x: level[:, None] - self._loss(-x)[0], top, 0.0)
        return np.where(none, -np.inf, logs).reshape(np.shape(epsilon))

    def _loss_and_slope(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        loss, log_slope = self._loss(x)
        return loss, np.exp(log_slope)

    @property
    def loss_scale(self) -> float:
        return max(self.shifts) ** 2

    def _loss(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """L and log L'."""
        shifts, weights = np.array(self.shifts), np.array(self.weights)
        each = shifts * (x[..., None] - 0.5 * shifts)
        exponents = np.log(weights) + each
        total = special.logsumexp(exponents, axis=-1)
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
        edge = mu * size + _reach(demand)
        cut = _cut(demand, *_sampled_shifts(self.mu, self.probability))
        if cut < edge[0, 0]:
            return self._cut_rule(demand, cut)
        step = _trapezoid_step(demand, mu, math.pi, size - 1.0, 2.0)
        if float((edge / step).max()) > 600.0:
            # |1 - s| and |s| exchange their roles on the two sides, so one bound with the larger exponent serves both.
            spread = Demand(-size, size, demand.frequency, demand.log_count + size * -math.log1p(-self.probability))
            below, above, step = _sampled_grid(spread, mu, p, -edge, edge, step, size - 1.0, 2.0)
            edge = np.maximum(-below, above)
        x, step = _grid(-edge, edge, step)
        up, down = self._losses(x)
        none = np.zeros(1)
        return Rule(up - down, _log_normal_weights(x, step) + down, none, none, up - down, self._density_floor(x))

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        eps, mu, p = np.asarray(epsilon, float).ravel(), self.mu, self.probability
        if not single.is_smooth(2.0 * mu) or np.any(eps < 0.0):
            return None

        def loss_and_slope(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
            up, down = self._losses(x)
            return up - down, mu * (_posterior(x, mu, p) + _posterior(-x, mu, p))

        furthest = (np.minimum(eps, 1e150) + 0.5 * mu * mu - math.log(p)) / mu + 1.0
        start = single.crossing(loss_and_slope, eps, np.zeros(len(eps)), furthest)
        logs = single.log_upper_integral(start, lambda x: self._losses(x)[0] - 0.5 * x * x - LOG_SQRT_2PI,
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
        slope = math.log(self.probability * mu) + np.logaddexp(mu * (x - 0.5 * mu) - up, mu * (-x - 0.5 * mu) - down)
        # Both posterior odds change by at most e^{mu step} between nodes.
        ceiling = np.minimum(np.maximum(slope[:, :-1], slope[:, 1:]) + mu * np.diff(x), math.log(2.0 * mu))
        return _log_normal_floor(x) + np.minimum(down[:, :-1], down[:, 1:]) - ceiling

    def _cut_rule(self, demand: Demand, high: float) -> Rule:
        """Panels up to the largest loss that the demand wants; |L'| = mu times both posteriors, on a panel and its ellipse."""
        mu, p, low = self.mu, self.probability, -self.mu - _reach(demand)
        x, w = cut_panels(low, high, demand, mu, lambda x: mu * (_posterior(x, mu, p) + _posterior(2.5 - x, mu, p)))
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
        """Gauss-Legendre panels in x from mu/2, where L = 0. The normalised tilted density is at most 1/sqrt(2 pi), as the
        second derivative of its logarithm is at least -1, so no slope enters the bound."""
        size = max(abs(demand.low), abs(demand.high), abs(1.0 - demand.low), abs(1.0 - demand.high))
        top = max(0.5 * self.mu, self.mu * size) + _reach(demand)
        half_tail = dataclasses.replace(demand, log_tail=demand.log_tail - math.log(2.0))
        cut = max(_cut(half_tail, *_sampled_shifts(self.mu, self.probability)), 0.5 * self.mu + 1.0)
        if cut < top:
            x, w = cut_panels(0.5 * self.mu, cut, demand, self.mu,
                              lambda x: self.mu * _posterior(x, self.mu, self.probability))
            return self._on(x, w, cut)
        length = min(1.5, 2.0 / self.mu, 12.0 / (demand.frequency * self.mu + 1e-300))
        edges = np.linspace(0.5 * self.mu, top, check_size((top - 0.5 * self.mu) / length + 1.0) + 1)
        # The mirrored half has the exponents 1 - s, so its secants count too.
        x, w = panels(edges, dataclasses.replace(demand, low=min(demand.low, 1.0 - demand.high)), self.mu, 1.0)
        return self._on(x, w, math.inf)

    def _on(self, x: np.ndarray, w: np.ndarray, cut: float) -> Rule:
        """The rule with these nodes above mu/2, whose losses above `cut` and below its mirror image are left out."""
        loss = subsampled_loss(self.mu * (x - 0.5 * self.mu), np.array(self.probability))
        above = np.log(w) - 0.5 * x * x - LOG_SQRT_2PI
        rest = (1.0 - self.probability) * special.erf(self.mu / math.sqrt(8.0))
        log_weights = np.concatenate([(above + loss)[::-1], [np.log(max(rest, 5e-324))], above])
        none = np.zeros(1)
        gone = (2.0 - self.probability) * special.ndtr(-cut) + self.probability * special.ndtr(self.mu - cut)
        grid = np.linspace(0.5 * self.mu, float(x[-1]), 257)[None]
        slope = np.log(self.mu * _posterior(grid, self.mu, self.probability))  # log L', increasing
        return Rule(np.concatenate([-loss[::-1], [0.0], loss])[None], log_weights[None], none, none,
                    subsampled_loss(self.mu * (grid - 0.5 * self.mu), np.array(self.probability)),
                    _log_normal_floor(grid) - slope[:, 1:], np.full((2, 1), gone))

    @property
    def loss_scale(self) -> float:
        return self.mu**2 - math.log(self.probability)

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        """For eps >= 0 that of the subsampled pair."""
        return Subsampled(GaussianShift(self.mu), self.probability).log_hockey_stick(epsilon)
