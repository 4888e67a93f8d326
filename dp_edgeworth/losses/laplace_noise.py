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
from dp_edgeworth.losses.panels import graded_edges, panels
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import Demand, Rule

_FEW_PANELS = 12
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
        """Composite Gauss-Legendre nodes in x.

        After subsampling the integrand is analytic for |Im x| < pi/2; at height b it is at most e^{2 frequency b} sec(b)^{max(-low, 0)}
        times its size on the real line, where it grows by at most e^{slope dx}. Slope and phase are smaller by the largest posterior
        odds where these are below 1. Panels on which slope times length is at most 8 are equal and few for most leaves; otherwise they
        are short at the end where a steep integrand has its mass and double from there on (`panels.graded_edges`).

        Unsampled, the integral over what is further than t from mu is at most e^{-(2s - 1) t} of the whole. Where that is below
        e^{-digits - 30} for all exponents that frequencies are asked for with, a rule of positive weights need not follow the phase:
        what is there of the integral and of the sum is as small. Panels there are for frequency 0.
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
            edges = np.linspace(0.0, 1.0, max(int(count.max()), 1) + 1) * mu[:, None]
            return _of_nodes(mu, *panels(edges, demand, 2.0, float(odds.max())))
        near = math.inf if sampled is not None else (demand.digits + 30.0) / max(2.0 * demand.turning - 1.0, 1e-300)
        graded = [_graded_nodes(width, steep, demand, share, near) for width, *steep, share in np.stack(
            [mu, fall, rise, longest, odds], axis=1).tolist()]
        return Rule.stacked([_of_nodes(mu[i:i + 1], x, w) for i, (x, w) in enumerate(graded)])

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
        relative = 8.0 * EXP_ERROR * (1.0 + mu / np.diff(x) + mu)  # lengths are rounded
        p, q = np.exp(-x[:-1]) * share, np.exp(x[1:] - mu) * share
        return Cells(low, high, 0.5 * (low + high), np.full(len(low), 8.0 * EXP_ERROR * (1.0 + mu)), p, q,
                     relative * p, relative * q)


def _graded_nodes(mu: float, steep: list[float], demand: Demand, odds: float, near: float) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights for an integrand that is steep; frequencies are followed within `near` of mu only, where that is less."""
    fall, rise, longest = steep
    if not near < 0.5 * mu:
        return panels(graded_edges(mu, fall, rise, longest, demand.digits)[None], demand, 2.0, odds)
    calm = dataclasses.replace(demand, frequency=0.0)
    below = panels(graded_edges(mu - near, fall, rise, 1.0, demand.digits)[None], calm, 2.0, odds)
    above = panels(mu - near + graded_edges(near, fall, rise, longest, demand.digits)[None], demand, 2.0, odds)
    x, w = (np.concatenate(part, axis=1) for part in zip(below, above, strict=True))
    return x, w


def _of_nodes(mu: np.ndarray, x: np.ndarray, w: np.ndarray) -> Rule:
    """The rule of nodes and weights in x, one row per mu."""
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
        p, q = np.array([0.5, rare]), np.array([rare, 0.5])
        atoms = Cells(ends, ends, ends, np.zeros(2), p, q, 8.0 * EXP_ERROR * p, 8.0 * EXP_ERROR * q)
        return Cells.mixed([(-0.5 * math.expm1(-self.mu), inside), (1.0, atoms)])
