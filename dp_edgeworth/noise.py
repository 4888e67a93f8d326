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

from dp_edgeworth import gaussian
from dp_edgeworth.gaussian import LOG_SQRT_2PI, legendre
from dp_edgeworth.pllr import Demand, Pllr, Rule, Subsampled, check_size, subsampled_loss


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
    def _finite(self) -> tuple[np.ndarray, np.ndarray]:
        p, q = np.array(self.p_masses), np.array(self.q_masses)
        both = (p > 0) & (q > 0)
        p, q = p[both], q[both]
        if self.losses is not None:
            return p, np.array(self.losses)[both]
        near = np.abs(q - p) < 0.5 * p
        return p, np.where(near, np.log1p(np.where(near, (q - p) / p, 0.0)), np.log(q) - np.log(p))

    @property
    def supremum(self) -> float:  # type: ignore[override]
        return math.inf if self.infinite_mass else self.finite_supremum

    @property
    def finite_supremum(self) -> float:
        return float(self._finite[1].max(initial=-math.inf))

    @property
    def infimum(self) -> float:  # type: ignore[override]
        return -math.inf if self.lost_mass else float(self._finite[1].min(initial=math.inf))

    @property
    def infinite_mass(self) -> float:  # type: ignore[override]
        return math.fsum(q for p, q in zip(self.p_masses, self.q_masses, strict=True) if p == 0)

    @property
    def lost_mass(self) -> float:  # type: ignore[override]
        return math.fsum(p for p, q in zip(self.p_masses, self.q_masses, strict=True) if q == 0)

    @property
    def dominated(self) -> Pllr:
        return self if self.coarse is None else self.coarse

    @property
    def top_mass(self) -> float:  # type: ignore[override]
        p, loss = self._finite
        return 0.0 if self.infinite_mass or self.coarse else float((p * np.exp(loss))[loss == self.supremum].sum())

    @property
    def bottom_mass(self) -> float:  # type: ignore[override]
        p, loss = self._finite
        return 0.0 if self.lost_mass or self.coarse else float(p[loss == self.infimum].sum())

    @property
    def loss_scale(self) -> float:
        return float(np.abs(self._finite[1]).max(initial=0.0))

    def rule(self, demand: Demand) -> Rule:
        weights, values = self._finite
        return Rule.of_one(values, weights, self.lost_mass, self.infinite_mass)

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray:
        weights, values = self._finite
        with np.errstate(all="ignore"):
            gaps = -np.expm1(np.minimum(np.asarray(epsilon)[..., None] - values, 0.0)) * weights * np.exp(values)
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
        integrand has its mass and double from there on (`_graded`).
        """
        odds = min(1.0, p * math.exp(self.mu) / (1.0 - p)) if p < 0.5 and self.mu < 600.0 else 1.0
        rise, fall = 2.0 * max(demand.high, 0.0) * odds + 1.0, 2.0 * max(-demand.low, 0.0) * odds + 1.0
        edges = _graded(self.mu, fall, rise, min(1.0, 12.0 / (2.0 * demand.frequency * odds + 1e-300)), demand.digits)
        x, w = _panels(edges, demand, 2.0, odds)
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
        top, reach = np.array([[shifts.max()]]), _reach(demand)
        step = _trapezoid_step(demand, top, 0.5 * math.pi, max(-demand.low, 0.0), 1.0)
        x, step = _grid(np.minimum(0.0, top * demand.low) - reach, np.maximum(0.0, top * demand.high) + reach, step)
        single = shifts * (x[0][:, None] - 0.5 * shifts)
        exponents = np.log(weights) + single
        total = special.logsumexp(exponents, axis=1)
        # log1p of the mean of expm1 keeps relative accuracy where the loss is small.
        small = np.abs(single).max(axis=1) < 0.5
        mean = (weights * np.expm1(np.clip(single, -1.0, 1.0))).sum(axis=1)
        loss = np.where(small, np.log1p(np.where(small, mean, 0.0)), total)[None]
        slope = np.log((shifts * np.exp(exponents - total[:, None])).sum(axis=1) + 5e-324)
        none = np.zeros(1)
        return Rule(loss, _log_normal_weights(x, step), none, none, loss, _log_normal_floor(x) - slope[None, 1:])


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
        step = _trapezoid_step(demand, mu, math.pi, size - 1.0, 2.0)
        if float((edge / step).max()) > 600.0:
            # |1 - s| and |s| exchange their roles on the two sides, so one bound with the larger exponent serves both.
            spread = Demand(-size, size, demand.frequency, demand.log_count + size * -math.log1p(-self.probability))
            below, above, step = _sampled_grid(spread, mu, p, -edge, edge, step, size - 1.0, 2.0)
            edge = np.maximum(-below, above)
        x, step = _grid(-edge, edge, step)
        up, down = subsampled_loss(mu * (x - 0.5 * mu), p), subsampled_loss(mu * (-x - 0.5 * mu), p)
        log_weights = _log_normal_weights(x, step) + down
        slope = math.log(self.probability * self.mu) + np.logaddexp(mu * (x - 0.5 * mu) - up, mu * (-x - 0.5 * mu) - down)
        # Both posterior odds change by at most e^{mu step} between nodes.
        ceiling = np.minimum(np.maximum(slope[:, :-1], slope[:, 1:]) + mu * step, np.log(2.0 * mu))
        density = _log_normal_floor(x) + np.minimum(down[:, :-1], down[:, 1:]) - ceiling
        none = np.zeros(1)
        return Rule(up - down, log_weights, none, none, up - down, density)


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
        length = min(1.5, 2.0 / self.mu, 12.0 / (demand.frequency * self.mu + 1e-300))
        edges = np.linspace(0.5 * self.mu, top, check_size((top - 0.5 * self.mu) / length + 1.0) + 1)
        # The mirrored half has the exponents 1 - s, so its secants count too.
        x, w = _panels(edges, dataclasses.replace(demand, low=min(demand.low, 1.0 - demand.high)), self.mu, 1.0)
        loss = subsampled_loss(self.mu * (x - 0.5 * self.mu), np.array(self.probability))
        above = np.log(w) - 0.5 * x * x - LOG_SQRT_2PI
        rest = special.ndtr(0.5 * self.mu) - (1.0 - self.probability) * special.ndtr(-0.5 * self.mu) - (
            self.probability * special.ndtr(0.5 * self.mu))
        log_weights = np.concatenate([(above + loss)[::-1], [np.log(max(rest, 5e-324))], above])
        none = np.zeros(1)
        return Rule(np.concatenate([-loss[::-1], [0.0], loss])[None], log_weights[None], none, none)

    @property
    def loss_scale(self) -> float:
        return self.mu**2 - math.log(self.probability)

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        """For eps >= 0 that of the subsampled pair."""
        return Subsampled(GaussianShift(self.mu), self.probability).log_hockey_stick(epsilon)


def _graded(width: float, fall: float, rise: float, longest: float, digits: float) -> np.ndarray:
    """Edges of panels on [0, width] for integrands between e^{-fall x} and e^{rise x}.

    Within t0 = 1.5 (digits + 30) / slope of the end where the mass is, panels have slope times length at most 8; beyond, a panel
    is at most as long as its distance t from that end, so that on its Bernstein ellipse of rho <= 3 the integrand is below
    e^{-2 slope t / 3}. For smaller slopes u = slope t the error with n nodes is at most (u/4)^{2n} e^{-u} / (2n)!, which is below
    1e-30 for every u when n >= 24.
    """
    edges: list[np.ndarray] = [np.array([0.0, width])]
    for slope, mirrored in ((rise, True), (fall, False)):
        near = min(1.5 * (digits + 30.0) / slope, width)
        distances: list[np.ndarray] = [np.linspace(0.0, near, check_size(near * max(slope / 8.0, 1.0 / longest) + 2.0))]
        far = near * 2.0 ** np.arange(0, 1 + max(0, math.ceil(math.log2(max(longest / near, 1.0)))))
        start = min(float(far[-1]), width)
        distances += [far, np.linspace(start, width, check_size((width - start) / longest + 2.0))]
        joined = np.concatenate(distances)
        edges.append(width - joined if mirrored else joined)
    found = np.unique(np.clip(np.concatenate(edges), 0.0, width))
    return found[np.concatenate([[True], np.diff(found) > 1e-14 * width])]


def _panels(edges: np.ndarray, demand: Demand, turn: float, odds: float) -> tuple[np.ndarray, np.ndarray]:
    """Composite Gauss-Legendre nodes and weights, error below e^{-digits}.

    The integrand is analytic for |Im x| < pi / turn and at height b at most exp(b^2/2 + frequency turn odds b)
    sec(turn b/2)^{max(-low exponent, 0)} times its size on the real line.
    """
    half = 0.5 * np.diff(edges)
    nodes = _legendre_nodes(float(half.max()), demand, turn, odds)
    check_size(float(len(half)) * nodes)
    x, w = legendre(nodes)
    centres = 0.5 * (edges[1:] + edges[:-1])
    return (centres[:, None] + half[:, None] * x).ravel(), (half[:, None] * w).ravel()


def _legendre_nodes(half: float, demand: Demand, turn: float, odds: float) -> int:
    """Smallest n >= 28 with (64/15) M half rho^{-2n} / (1 - rho^{-2}) <= e^{-digits} for some Bernstein ellipse rho."""
    best = 1024
    for rho in np.geomspace(1.1, 100.0, 60):
        height = 0.5 * half * (rho - 1.0 / rho)
        if turn * height >= (0.98 * math.pi if odds == 1.0 else 0.49 * math.pi):
            break
        secant = -math.log(math.cos(0.5 * turn * height))
        if odds < 1.0:
            secant = min(secant, -math.log1p(-odds * (1.0 - math.cos(turn * height))))
        growth = 8.0 + 0.5 * height**2 + demand.frequency * turn * odds * height + max(-demand.low, 0.0) * secant
        need = (demand.digits + 3.0 + growth - math.log1p(-(rho**-2.0))) / (2.0 * math.log(rho))
        best = min(best, max(28, math.ceil(need)))
    return best
