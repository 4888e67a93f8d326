"""Laplace(0, 1) against Laplace(mu, 1): two atoms and what is between them, which is the worst case of bounded range mu, too.

    L = |x| - |x - mu|:  atoms at -mu and mu, P-masses 1/2 and e^{-mu}/2, Q-masses e^{-mu}/2 and 1/2;
    between them L = 2x - mu, 0 < x < mu, with the P-density e^{-x}/2 and the Q-density e^{x - mu}/2.

So the noise is a public coin: with probability (1 - e^{-mu})/2 what is between, `LaplaceInterior`, otherwise the atoms.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dp_edgeworth import validation
from dp_edgeworth.losses.cells import EXP_ERROR, MOST_CELLS, Cells
from dp_edgeworth.losses.panels import panels
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import Demand, Rule, check_size

_FEW_PANELS = 12  # for which many members are one array
_CELLS = np.linspace(0.0, 1.0, 65)  # on which the density is bounded


@dataclasses.dataclass(frozen=True)
class LaplaceInterior(Pllr):
    """L = 2x - mu with the P-density e^{-x} / (1 - e^{-mu}) and the Q-density e^{x - mu} / (1 - e^{-mu}) on 0 < x < mu."""

    mu: float
    supremum = loss_scale = property(lambda self: self.mu)
    infimum = property(lambda self: -self.mu)
    infinite_mass, lost_mass, top_mass, bottom_mass = 0.0, 0.0, 0.0, 0.0
    mirror, atomic = True, False

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", validation.positive("mu", self.mu))

    def largest_kept(self, log_tail: float) -> float:
        return self.mu

    def rule(self, demand: Demand) -> Rule:
        return self.rules([self], demand)

    @classmethod
    def rules(cls, members: Sequence[Any], demand: Demand, sampled: np.ndarray | None = None) -> Rule:
        """Composite Gauss-Legendre nodes in x, on equal panels.

        After subsampling the integrand is analytic for |Im x| < pi/2; at height b it is at most e^{2 frequency b} sec(b)^{max(-low, 0)}
        times its size on the real line, where it grows by at most e^{slope dx}. Slope times length is at most 8 (`panels.node_count`).
        """
        mu = np.array([member.mu for member in members])
        slope = 2.0 * max(demand.high, -demand.low, 0.0) + 1.0
        count = np.maximum(np.ceil(mu * max(slope / 8.0, 1.0, demand.frequency / 6.0)), 1.0)
        rows = [slice(None)] if count.max() <= _FEW_PANELS else [slice(i, i + 1) for i in range(len(mu))]
        return Rule.stacked([_on_equal_panels(mu[row], float(count[row].max()), demand) for row in rows])

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray:
        """(1 - e^{(eps - mu)/2})^2 / (1 - e^{-mu}) for |eps| < mu; below, 1 - e^eps."""
        eps = np.asarray(epsilon, float)
        with np.errstate(divide="ignore"):
            inside = 2.0 * np.log(-np.expm1(0.5 * np.minimum(eps - self.mu, 0.0))) - math.log(-math.expm1(-self.mu))
            return np.where(eps < -self.mu, np.log(-np.expm1(np.minimum(eps, 0.0))), inside)

    def cells(self, cuts: float | np.ndarray, log_tail: float) -> Cells | None:
        mu, count = self.mu, len(cuts) if isinstance(cuts, np.ndarray) else math.ceil(2.0 * self.mu / cuts) + 8.0
        if not count < MOST_CELLS:
            return None
        x = np.linspace(0.0, mu, int(count) + 1)
        if isinstance(cuts, np.ndarray):
            x = np.unique(np.concatenate([[0.0], np.clip(0.5 * (cuts + mu), 0.0, mu), [mu]]))
            lengths = np.diff(x)
            x = np.append(x[:-1][lengths > 0.01 * np.median(lengths)], mu)  # the masses of slivers would be rounded
            x[0] = 0.0
        share = np.expm1(-np.diff(x)) / math.expm1(-mu)
        low, high = 2.0 * x[:-1] - mu, 2.0 * x[1:] - mu
        rounding = mu / float(np.diff(x).min())  # of the length of the shortest cell
        return Cells(low, high, 0.5 * (low + high), np.full(len(low), 8.0 * EXP_ERROR * (1.0 + mu)), np.exp(-x[:-1]) * share,
                     np.exp(x[1:] - mu) * share, 8.0 * EXP_ERROR * (1.0 + rounding + mu))


def _on_equal_panels(mu: np.ndarray, count: float, demand: Demand) -> Rule:
    """One row per mu."""
    edges = np.linspace(0.0, 1.0, check_size(count + 1.0)) * mu[:, None]
    x, w = panels(edges, demand, 2.0)
    top, whole = mu[:, None], -np.expm1(-mu)[:, None]
    grid, none = _CELLS * top, np.zeros(len(mu))
    with np.errstate(divide="ignore"):  # of weights that are no floats
        log_weights = np.log(w / whole) - x
    return Rule(2.0 * x - top, log_weights, none, none, 2.0 * grid - top, math.log(0.5) - np.log(whole) - grid[:, 1:])


@dataclasses.dataclass(frozen=True)
class LaplaceShift(LaplaceInterior):
    """P = Laplace(0, 1), Q = Laplace(mu, 1): the atoms and what is between them."""

    top_mass = bottom_mass = 0.5

    @classmethod
    def rules(cls, members: Sequence[Any], demand: Demand, sampled: np.ndarray | None = None) -> Rule:
        inside = super().rules(members, demand, sampled)
        top = np.array([[member.mu] for member in members])
        half, share = np.full(top.shape, math.log(0.5)), np.log(-0.5 * np.expm1(-top))
        return dataclasses.replace(
            inside, values=np.concatenate([-top, inside.values, top], axis=1),
            log_weights=np.concatenate([half, share + inside.log_weights, half - top], axis=1),
            cell_log_density=share + inside.cell_log_density)

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray:
        """1 - e^{(eps - mu)/2} for |eps| < mu; below, 1 - e^eps."""
        eps = np.asarray(epsilon, float)
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(np.where(eps < -self.mu, eps, 0.5 * np.minimum(eps - self.mu, 0.0))))

    def cells(self, cuts: float | np.ndarray, log_tail: float) -> Cells | None:
        inside = super().cells(cuts, log_tail)
        if inside is None:
            return None
        ends, rare = np.array([-self.mu, self.mu]), 0.5 * math.exp(-self.mu)
        atoms = Cells(ends, ends, ends, np.zeros(2), np.array([0.5, rare]), np.array([rare, 0.5]), 8.0 * EXP_ERROR)
        return Cells.mixed([(-0.5 * math.expm1(-self.mu), inside), (1.0, atoms)])
