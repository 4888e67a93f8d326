"""Gaussian noise: one shift, and mixtures of shifts."""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from dp_edgeworth import validation
from dp_edgeworth.losses import gaussian_curve, trapezoid
from dp_edgeworth.losses.cells import Cells, normal_cells
from dp_edgeworth.losses.normal_mixtures import Normals
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import Demand, Rule
from dp_edgeworth.losses.trapezoid import log_normal_floor

_FEW_MEMBERS = 64
_MANY_NODES = 2_000  # beyond, panels that are short only where the loss turns need fewer
_LARGEST_SHIFT, _LARGEST, _FURTHEST = 1e5, 1e12, 1e140  # shifts, epsilons and x of closed forms of mixtures


class NormalPair(Pllr):
    """A mixture of normal laws against N(0, 1) or its own mirror image (`normal_mixtures.py`): losses of every size, or from a least
    one on. Subclasses say which mixture."""

    supremum, infinite_mass, lost_mass, top_mass, bottom_mass = math.inf, 0.0, 0.0, 0.0, 0.0
    atomic = False

    @property
    @abc.abstractmethod
    def normals(self) -> Normals:
        """The mixture."""

    @property
    def infimum(self) -> float:
        """log Q/P of what is far on the left: there the terms of shift 0 are left."""
        still = math.fsum(self.normals.weights[self.normals.shifts == 0.0])
        return math.log(still) if still > 0.0 and not self.mirror else -math.inf

    def largest_kept(self, log_tail: float) -> float:
        """Q has no more beyond x than N(c, 1) with the largest shift c, and L increases in x."""
        if log_tail == -math.inf:
            return math.inf
        return float(self.normals.loss(np.array([self.normals.top - special.ndtri_exp(min(log_tail, -1.0))]))[0])

    def rule(self, demand: Demand) -> Rule:
        return self.normals.rule(*self.normals.cut_grid(demand, self.infimum))

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        """L(x) is at least log w + c x - c^2 / 2, w the weight of the largest shift c, and L(0) is at most 0."""
        eps, normals, top = np.minimum(np.ravel(epsilon), _LARGEST), self.normals, self.normals.top
        if not top < _LARGEST_SHIFT or np.any(eps < 0.0):
            return None
        furthest = (eps + 0.5 * top * top - math.log(normals.weights[np.argmax(normals.shifts)])) / top + 1.0
        return normals.log_stick_above(normals.crossing(eps, np.zeros(eps.shape), furthest), eps).reshape(np.shape(epsilon))

    def log_reversed_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        """Of (Q, N(0, 1)), whose loss -L increases in -x: the part of the normal law below the x with L = -eps.

        For x < 0 L is at most log(w + e^{c x}), w the weight of the shift 0 and c the next shift.
        """
        eps, normals, top = np.minimum(np.ravel(epsilon), _LARGEST), self.normals, self.normals.top
        if self.mirror:
            return self.log_hockey_stick(epsilon)
        if not top < _LARGEST_SHIFT or np.any(eps < 0.0):
            return None
        none = eps >= -self.infimum
        level = np.where(none, 0.0, eps)
        with np.errstate(divide="ignore"):
            least = (np.log(-np.expm1(np.minimum(self.infimum + level, 0.0))) - level) / normals.shifts[normals.shifts > 0.0].min()
        end = normals.crossing(-level, np.maximum(least, -_FURTHEST) - 1.0, np.full(eps.shape, top))
        return np.where(none, -np.inf, normals.log_stick_below(end, level)).reshape(np.shape(epsilon))

    def cells(self, cuts: float | np.ndarray, log_tail: float) -> Cells | None:
        return normal_cells(self.normals, cuts, log_tail)


@dataclasses.dataclass(frozen=True)
class GaussianShift(NormalPair):
    """P = N(0, 1), Q = N(mu, 1): L = mu x - mu^2 / 2, K(z) = mu^2 (z^2 + z) / 2."""

    mu: float
    infimum, mirror = -math.inf, True
    gaussian_variance = loss_scale = property(lambda self: self.mu * self.mu)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", validation.positive("mu", self.mu))

    @functools.cached_property
    def normals(self) -> Normals:
        return Normals.single(self.mu)

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
            return cls._cut_rules(members, demand, sampled)
        mu = np.array([member.mu for member in members])[:, None]
        reach = trapezoid.reach_of(demand)
        low, high = np.minimum(0.0, mu * demand.low) - reach, np.maximum(0.0, mu * demand.high) + reach
        # Unsampled, the integrand is entire: any strip will do.
        strip, secants = (math.pi, max(-demand.low, 0.0)) if sampled is not None else (1e3 * float(mu.max()), 0.0)
        step = trapezoid.largest_step(demand, mu, strip, secants)
        nodes = float(((high - low) / step).max())
        if sampled is not None and nodes > (_MANY_NODES if len(members) <= _FEW_MEMBERS else 10 * _MANY_NODES):
            rule = cls._cut_rules(members, demand, sampled)
            if rule.values.shape[1] < nodes:
                return rule
        x, step = trapezoid.equispaced(low, high, step)
        loss = mu * (x - 0.5 * mu)
        none = np.zeros(len(mu))
        return Rule(loss, trapezoid.log_normal_weights(x, step), none, none, loss, log_normal_floor(x) - np.log(mu))

    @classmethod
    def _cut_rules(cls, members: Sequence[Any], demand: Demand, sampled: np.ndarray) -> Rule:
        """On the grids of the subsampled pairs, to be subsampled with these probabilities."""
        return Rule.stacked([one.normals.rule(*Normals.sampled(one.mu, p).cut_grid(demand, math.log1p(-p) if p < 1.0 else -math.inf))
                             for one, p in zip(members, sampled.tolist(), strict=True)])

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray:
        return gaussian_curve.log_delta(epsilon, self.mu)


@dataclasses.dataclass(frozen=True)
class NormalMixture(NormalPair):
    """P = N(0, 1), Q = sum_k weights_k N(shifts_k, 1), all shifts >= 0: L = log sum_k w_k e^{c_k x - c_k^2/2}."""

    shifts: tuple[float, ...]
    weights: tuple[float, ...]
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

    @functools.cached_property
    def normals(self) -> Normals:
        return Normals(np.array(self.shifts), np.array(self.weights))
