"""Mixtures Q = sum_k w_k N(c_k, 1), c_k >= 0, against N(0, 1), or against their own mirror image: what all losses of sampled Gaussian
noise are made of.

With R = dQ/dN(0, 1), which increases in x, the loss is L(x) = log R(x), or log R(x) - log R(-x) where P is the mirror image of Q. The
slope of log R is the mean shift of the posterior; it increases from the smallest shift to the largest one, c.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import numpy as np
from scipy import special

from dp_edgeworth.losses.gaussian_curve import LOG_SQRT_2PI, log_delta
from dp_edgeworth.losses.panels import cut_panels
from dp_edgeworth.losses.rules import Demand, Rule
from dp_edgeworth.losses.trapezoid import cut_point, log_normal_floor, reach_of

_MOST_GROUPS = 8
_EDGES = 257  # of the cells on which the density of the loss is bounded
_ROOT_ACCURACY, _PARTS = 1e-11, 32


@dataclasses.dataclass(frozen=True, eq=False)
class Normals:
    """The mixture; `mirrored`: P is its mirror image instead of N(0, 1)."""

    shifts: np.ndarray
    weights: np.ndarray
    mirrored: bool = False

    @classmethod
    def single(cls, mu: float) -> Normals:
        """N(mu, 1)."""
        return cls(np.array([mu]), np.ones(1))

    @classmethod
    def sampled(cls, mu: float, p: float, mirrored: bool = False) -> Normals:
        """N(mu, 1) with probability p, otherwise N(0, 1)."""
        return cls(np.array([0.0, mu]), np.array([max(1.0 - p, 1e-300), p]), mirrored)

    @property
    def top(self) -> float:
        return float(self.shifts.max())

    @property
    def steepest(self) -> float:
        """Upper bound of the slope of L."""
        return 2.0 * self.top if self.mirrored else self.top

    def _exponents(self, x: np.ndarray) -> np.ndarray:
        """c_k x - c_k^2 / 2, one row per shift."""
        shifts = self.shifts.reshape(-1, *(1,) * x.ndim)
        return np.asarray(shifts * (x - 0.5 * shifts))

    def _weighted(self, x: np.ndarray) -> np.ndarray:
        """The same with log w_k."""
        return self._exponents(x) + np.log(self.weights).reshape(-1, *(1,) * x.ndim)

    def log_ratio(self, x: np.ndarray) -> np.ndarray:
        """log R; log1p of the mean of expm1 does not see the weight of the shift 0, whose rounding would move every loss."""
        each = self._exponents(x)
        if len(self.shifts) == 1:
            return np.asarray(each[0])
        mean = np.tensordot(self.weights, np.expm1(np.minimum(each, 600.0)), 1)
        plain = (mean < -0.9) | (each.max(axis=0) > 600.0)
        found = np.log1p(np.where(plain, 0.0, mean))
        if plain.any():
            found[plain] = np.logaddexp.reduce(self._weighted(x[plain]), axis=0)
        return found

    def log_densities(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """log dQ/dN(0,1) and log dP/dN(0,1)."""
        return self.log_ratio(x), self.log_ratio(-x) if self.mirrored else np.zeros(x.shape)

    def loss(self, x: np.ndarray) -> np.ndarray:
        return np.subtract(*self.log_densities(x))

    def slope(self, x: np.ndarray) -> np.ndarray:
        """Of log R."""
        exponents = self._weighted(x)
        weights = np.exp(exponents - exponents.max(axis=0))
        return np.asarray(np.tensordot(self.shifts, weights, 1) / weights.sum(axis=0) + 5e-324)

    def crossing(self, level: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
        """The x in [low, high] with L(x) = level: of equal parts in arsinh x that in which it lies, to 1e-11; then Newton's method."""
        low, high = np.arcsinh(low), np.arcsinh(high)
        while np.max(high - low, initial=0.0) > _ROOT_ACCURACY:
            width = (high - low) / _PARTS
            inside = low[..., None] + width[..., None] * np.arange(1, _PARTS)
            part = (self.loss(np.sinh(inside)) < level[..., None]).sum(axis=-1)
            low, high = low + width * part, np.where(part < _PARTS - 1, low + width * (part + 1), high)
        x = np.sinh(high)
        slope = self.slope(x) + (self.slope(-x) if self.mirrored else 0.0)
        return np.clip(x - (self.loss(x) - level) / slope, np.sinh(low), x)

    def log_stick_above(self, x: np.ndarray, epsilon: np.ndarray) -> np.ndarray:
        """log int_x^inf (dQ - e^eps dP) where L(x) is about eps, from terms that do not cancel.

        Less what R(x) - e^eps (or R(x) - e^eps R(-x)) makes of the normal tail beyond x, that is, with H_c the Gaussian mechanism's
        delta (`gaussian_curve.log_delta`), shift by shift

            Phi(c - x) - e^{c x - c^2/2} Phi(-x) = H_c(c x - c^2/2),
            e^{-c x - c^2/2} Phi(-x) - Phi(-c - x) = e^{-c x - c^2/2} H_c(c x + c^2/2)          (of a mirror image, times e^eps).

        The integral is largest at L(x) = eps, so that an error of x enters squared.
        """
        terms = [math.log(w) + log_delta(c * (x - 0.5 * c), c) for c, w in self._moving]
        if self.mirrored:
            terms += [math.log(w) + epsilon - c * (x + 0.5 * c) + log_delta(c * (x + 0.5 * c), c) for c, w in self._moving]
        up, down = self.log_densities(x)
        return _corrected(terms, np.expm1(up - down - epsilon), epsilon + down + special.log_ndtr(-x))

    def log_stick_below(self, x: np.ndarray, epsilon: np.ndarray) -> np.ndarray:
        """log int_-inf^x (dN(0, 1) - e^eps dQ) where L(x) is about -eps, in the same way: e^{c x - c^2/2} Phi(x) - Phi(x - c)."""
        terms = [math.log(w) + epsilon + c * (x - 0.5 * c) + log_delta(c * (0.5 * c - x), c) for c, w in self._moving]
        return _corrected(terms, -np.expm1(epsilon + self.log_ratio(x)), special.log_ndtr(x))

    @property
    def _moving(self) -> list[tuple[float, float]]:
        """Shifts other than 0 with their weights."""
        return [(c, w) for c, w in zip(self.shifts.tolist(), self.weights.tolist(), strict=True) if c > 0.0]

    def log_odds(self, x: np.ndarray) -> Iterator[tuple[float, np.ndarray]]:
        """(tau, log of the odds against all terms within tau of the largest), for a few tau from 0 up to below the largest shift."""
        exponents = self._weighted(x)
        distance = np.abs(self.shifts[:, None] - self.shifts[np.argmax(exponents, axis=0)])
        gaps = np.unique(np.abs(self.shifts[:, None] - self.shifts))
        for tau in gaps[:-1][:: max(1, len(gaps) // _MOST_GROUPS)]:
            inside, outside = (np.logaddexp.reduce(np.where(near, exponents, -np.inf), axis=0)
                               for near in (distance <= tau, distance > tau))
            yield float(tau), outside - inside

    def beyond(self, x: float) -> np.ndarray:
        """P-mass and Q-mass of what is larger than x, shape (2, 1)."""
        q_mass = float(self.weights @ special.ndtr(self.shifts - x))
        return np.array([[float(self.weights @ special.ndtr(-self.shifts - x)) if self.mirrored else special.ndtr(-x)], [q_mass]])

    def ends(self, demand: Demand, least: float) -> tuple[float, float]:
        """Between which x the laws with log-density -x^2/2 + (1 - s) log dP + s log dQ have all but e^{-digits} of their mass.

        The slope of what is added to -x^2/2 lies between a = min(s, 0) c - (1 - s)_+ c' and b = s_+ c + (s - 1)_+ c', c' = c for a
        mirror image and 0 otherwise: these laws lie in likelihood-ratio order between N(a, 1) and N(b, 1). Below 0 a negative power
        of R >= e^least adds at most |s| |least| to the normal log-density.
        """
        reach, other = reach_of(demand), self.top if self.mirrored else 0.0
        low = min(demand.low, 0.0) * self.top - max(1.0 - demand.low, 0.0) * other - reach
        if math.isfinite(least):
            low = max(low, -math.sqrt(2.0 * (demand.digits + 1.0 + max(-demand.low, 0.0) * -least)) - 0.5)
        return low, max(demand.high, 0.0) * self.top + max(demand.high - 1.0, 0.0) * other + reach

    def panels(self, low: float, high: float, demand: Demand, *, whole: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Nodes and weights on [low, high] (`panels.cut_panels`); of a mirror image the exponents are 1 - s, and its slope is that of
        the mirrored point, on a panel and its ellipse. `whole`: the rule has all of the line below 0."""
        if not self.mirrored:
            losses = {"losses": self.loss} if whole else {}
            return cut_panels(low, high, demand, self.top, self.slope, self.log_odds, **losses)
        both = dataclasses.replace(demand, low=min(demand.low, 1.0 - demand.high))
        return cut_panels(low, high, both, self.top, lambda x: self.slope(x) + self.slope(2.5 - x), lambda x: (
            (tau, np.logaddexp(right, left)) for (tau, right), (_, left) in zip(self.log_odds(x), self.log_odds(-x), strict=True)))

    def cut_grid(self, demand: Demand, least: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Nodes and weights up to the largest loss that the demand wants, and the edges of cells."""
        low, high = self.ends(demand, least)
        high = min(cut_point(demand, self.shifts, self.weights), high)
        return *self.panels(low, high, demand, whole=True), np.linspace(low, high, _EDGES)

    def rule(self, x: np.ndarray, w: np.ndarray, edges: np.ndarray) -> Rule:
        """On the nodes and weights of a grid that was cut at its last edge."""
        (up, down), none = self.log_densities(x), np.zeros(1)
        return Rule((up - down)[None], (np.log(w) - 0.5 * x * x - LOG_SQRT_2PI + down)[None], none, none, self.loss(edges)[None],
                    self.density_floor(edges), self.beyond(float(edges[-1])))

    def density_floor(self, x: np.ndarray) -> np.ndarray:
        """Lower bound of the log P-density of L between neighbouring x: slopes of log R on the right, of log R(-x) on the left."""
        steepest = self.slope(x[1:]) + (self.slope(-x[:-1]) if self.mirrored else 0.0)
        return log_normal_floor(x[None]) + self.log_densities(x[1:])[1] - np.log(steepest)


def _corrected(terms: list[np.ndarray], gap: np.ndarray, log_tail: np.ndarray) -> np.ndarray:
    """log(sum e^terms + gap e^log_tail), the second of which is rounding next to the first."""
    total = np.asarray(np.logaddexp.reduce(np.array(terms)))
    with np.errstate(all="ignore"):
        return np.where(np.isfinite(total), total + np.log1p(np.clip(gap * np.exp(log_tail - total), -0.5, 1.0)), total)
