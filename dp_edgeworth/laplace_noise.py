"""Laplace(0, 1) against Laplace(mu, 1): two atoms and what is between them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dp_edgeworth.atoms import Atoms
from dp_edgeworth.panels import graded_edges, panels
from dp_edgeworth.pllr import Demand, Pllr, Rule


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
