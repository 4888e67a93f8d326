"""Laplace(0, 1) against Laplace(mu, 1): two atoms and what is between them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dp_edgeworth import validation
from dp_edgeworth.losses.cells import EXP_ERROR, MOST_CELLS, Cells
from dp_edgeworth.losses.panels import graded_edges, panels
from dp_edgeworth.losses.pllr import Pllr, itself
from dp_edgeworth.losses.rules import Demand, Rule

_FEW_PANELS = 12


@dataclasses.dataclass(frozen=True)
class LaplaceShift(Pllr):
    """P = Laplace(0, 1), Q = Laplace(mu, 1): L = |x| - |x - mu|, with atoms at -mu and mu."""

    mu: float
    supremum = loss_scale = property(lambda self: self.mu)
    infimum = property(lambda self: -self.mu)
    infinite_mass, lost_mass, top_mass, bottom_mass = 0.0, 0.0, 0.5, 0.5
    mirror, atomic, dominated = True, False, itself

    def __post_init__(self) -> None:
        object.__setattr__(self, "mu", validation.positive("mu", self.mu))

    def largest_kept(self, log_tail: float) -> float:
        return self.mu

    def rule(self, demand: Demand) -> Rule:
        return self.rules([self], demand)

    @classmethod
    def rules(cls, members: Sequence[Any], demand: Demand, sampled: np.ndarray | None = None) -> Rule:
        """Atoms of mass 1/2 at -mu and e^{-mu}/2 at mu; L = 2x - mu with density e^{-x}/2 on 0 < x < mu.

        After subsampling the integrand between is analytic for |Im x| < pi/2; at height b it is at most
        e^{2 frequency b} sec(b)^{max(-low, 0)} times its size on the real line, where it grows by at most e^{slope dx}. Slope and
        phase are smaller by the largest posterior odds where these are below 1. Panels on which slope times length is at most 8 are
        equal and few for most leaves; otherwise they are short at the end where a steep integrand has its mass and double from there
        on (`panels.graded_edges`).

        Unsampled, the integrand at a distance t below mu is e^{-(2s - 1) t} times its value there, which is the mass of the atom at mu
        in E_P[e^{sL}]. Where that is below e^{-digits - 30} for all exponents that frequencies are asked for with, a rule of positive
        weights need not follow the phase: what is there of the integral and of the sum is as small. Panels there are for frequency 0.
        """
        mu = np.array([member.mu for member in members])
        odds = np.ones(len(mu))
        if sampled is not None:
            rare = np.minimum(sampled, 0.5)
            odds = np.where((sampled < 0.5) & (mu < 600.0), np.minimum(1.0, rare * np.exp(np.minimum(mu, 600.0)) / (1.0 - rare)), 1.0)
        rise, fall = 2.0 * max(demand.high, 0.0) * odds + 1.0, 2.0 * max(-demand.low, 0.0) * odds + 1.0
        longest = np.minimum(1.0, 12.0 / (2.0 * demand.frequency * odds + 1e-300))
        count = np.ceil(mu * np.maximum(np.maximum(rise, fall) / 8.0, 1.0 / longest))
        if count.max() <= _FEW_PANELS:
            return _on_panels(mu, np.linspace(0.0, 1.0, max(int(count.max()), 1) + 1) * mu[:, None], demand, float(odds.max()))
        near = math.inf if sampled is not None else (demand.digits + 30.0) / max(2.0 * demand.turning - 1.0, 1e-300)
        return Rule.stacked([
            _steep(float(mu[i]), near, demand) if near < 0.5 * mu[i] else
            _on_panels(mu[i:i + 1], graded_edges(*map(float, (mu[i], fall[i], rise[i], longest[i], demand.digits)))[None], demand,
                       float(odds[i]))
            for i in range(len(mu))])

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray:
        """1 - e^{(eps - mu)/2} for |eps| < mu; below, 1 - e^eps."""
        eps = np.asarray(epsilon, float)
        with np.errstate(divide="ignore"):
            return np.log(-np.expm1(np.where(eps < -self.mu, eps, 0.5 * np.minimum(eps - self.mu, 0.0))))

    def cells(self, cuts: float | np.ndarray, log_tail: float) -> Cells | None:
        """Atoms at both ends; between them L = 2x - mu has the P-density e^{-x}/2 and the Q-density e^{x - mu}/2."""
        mu, count = self.mu, len(cuts) if isinstance(cuts, np.ndarray) else math.ceil(2.0 * self.mu / cuts) + 8.0
        if not count < MOST_CELLS:
            return None
        x = np.linspace(0.0, mu, int(count) + 1)
        if isinstance(cuts, np.ndarray):
            x = np.unique(np.concatenate([[0.0], np.clip(0.5 * (cuts + mu), 0.0, mu), [mu]]))
            lengths = np.diff(x)
            x = np.append(x[:-1][lengths > 0.01 * np.median(lengths)], mu)  # the masses of slivers would be rounded
            x[0] = 0.0
        share = -0.5 * np.expm1(-np.diff(x))
        p = np.concatenate([[0.5], np.exp(-x[:-1]) * share, [0.5 * math.exp(-mu)]])
        q = np.concatenate([[0.5 * math.exp(-mu)], np.exp(x[1:] - mu) * share, [0.5]])
        low, high = (np.concatenate([[-mu], 2.0 * ends - mu, [mu]]) for ends in (x[:-1], x[1:]))
        rounding = mu / float(np.diff(x).min())  # of the length of the shortest cell
        return Cells(low, high, 0.5 * (low + high), np.full(len(p), 8.0 * EXP_ERROR * (1.0 + mu)), p, q,
                     8.0 * EXP_ERROR * (1.0 + rounding + mu))


def _steep(mu: float, near: float, demand: Demand) -> Rule:
    """Unsampled, with frequencies only where the law sits within `near` of the top."""
    calm = dataclasses.replace(demand, frequency=0.0)
    rise, fall = 2.0 * max(demand.high, 0.0) + 1.0, 2.0 * max(-demand.low, 0.0) + 1.0
    longest = min(1.0, 12.0 / (2.0 * demand.frequency + 1e-300))
    below = panels(graded_edges(mu - near, fall, rise, 1.0, demand.digits)[None], calm, 2.0, 1.0)
    above = panels(mu - near + graded_edges(near, fall, rise, longest, demand.digits)[None], demand, 2.0, 1.0)
    return _with_atoms(np.array([mu]), np.concatenate([below[0], above[0]], axis=1), np.concatenate([below[1], above[1]], axis=1))


def _on_panels(mu: np.ndarray, edges: np.ndarray, demand: Demand, odds: float) -> Rule:
    """Both atoms and composite Gauss-Legendre nodes between them, one row per mu."""
    return _with_atoms(mu, *panels(edges, demand, 2.0, odds))


def _with_atoms(mu: np.ndarray, x: np.ndarray, w: np.ndarray) -> Rule:
    top = mu[:, None]
    grid = np.linspace(0.0, 1.0, 65) * top
    none, half = np.zeros(len(mu)), np.full((len(mu), 1), math.log(0.5))
    return Rule(np.concatenate([-top, 2.0 * x - top, top], axis=1), np.concatenate([half, np.log(0.5 * w) - x, half - top], axis=1),
                none, none, 2.0 * grid - top, math.log(0.25) - grid[:, 1:])
