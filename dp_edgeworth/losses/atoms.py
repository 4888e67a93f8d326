"""Discrete pairs: any two probability vectors on the same points."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Any

import numpy as np

from dp_edgeworth import validation
from dp_edgeworth.losses.cells import Cells
from dp_edgeworth.losses.pllr import ROUNDED, Pllr
from dp_edgeworth.losses.rules import Demand, Rule

_ROUNDING = 1e-12  # of a sum of masses


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

    def __post_init__(self) -> None:
        for name in ("p_masses", "q_masses"):
            object.__setattr__(self, name, _normalised(name, getattr(self, name)))
        if self.losses is not None:
            losses = validation.array_in("losses", validation.sequence("losses", self.losses), -math.inf, math.inf)
            object.__setattr__(self, "losses", tuple(losses.tolist()))
        for name, numbers in (("q_masses", self.q_masses), ("losses", self.losses or self.p_masses)):
            if len(numbers) != len(self.p_masses):
                raise ValueError(f"`{name}` must be as many as `p_masses`, {len(self.p_masses)}. Found {len(numbers)}.")

    @functools.cached_property
    def mirror(self) -> bool:
        """Whether the masses read backwards are those of the other law; other orders are not looked for."""
        return self.p_masses == self.q_masses[::-1] and (self.coarse is None or self.coarse.mirror) and (
            self.losses is None or self.losses == tuple(-loss for loss in self.losses[::-1]))

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
                near, ratio = np.abs(q - p) < 0.5 * p, q / p
                plain = (ratio > 1e-300) & (ratio < 1e300)  # one rounding instead of two logarithms
                losses = np.where(plain, np.log(np.where(plain, ratio, 1.0)), log_q - log_p)
                losses = np.where(near, np.log1p(np.where(near, (q - p) / p, 0.0)), losses)
        finite = np.isfinite(losses) & (np.maximum(p, q) > 0)
        return log_p[finite], losses[finite]

    def _known(self, infinite: float) -> list[bool]:
        """Which points have this infinite loss."""
        if self.losses is not None:
            return [loss == infinite for loss in self.losses]
        zeros = self.p_masses if infinite > 0 else self.q_masses
        return [mass == 0 for mass in zeros]

    supremum = property(lambda self: math.inf if self.infinite_mass else self.finite_supremum)
    finite_supremum = property(lambda self: float(self._log_finite[1].max(initial=-math.inf)))
    infimum = property(lambda self: -math.inf if self.lost_mass else float(self._log_finite[1].min(initial=math.inf)))
    infinite_mass = property(lambda self: math.fsum(itertools.compress(self.q_masses, self._known(math.inf))))
    lost_mass = property(lambda self: math.fsum(itertools.compress(self.p_masses, self._known(-math.inf))))
    infinite_mass_error = property(lambda self: 0.0 if sum(self._known(math.inf)) <= 1 else ROUNDED)
    lost_mass_error = property(lambda self: 0.0 if sum(self._known(-math.inf)) <= 1 else ROUNDED)
    loss_scale = property(lambda self: float(np.abs(self._log_finite[1]).max(initial=0.0)))

    @property
    def dominated(self) -> Pllr:
        return self if self.coarse is None else self.coarse

    @property
    def top_mass(self) -> float:
        log_p, loss = self._log_finite
        return 0.0 if self.infinite_mass or self.coarse else float(np.exp(log_p + loss)[loss == self.supremum].sum())

    @property
    def bottom_mass(self) -> float:
        log_p, loss = self._log_finite
        return 0.0 if self.lost_mass or self.coarse else float(np.exp(log_p)[loss == self.infimum].sum())

    def largest_kept(self, log_tail: float) -> float:
        return self.finite_supremum

    def rule(self, demand: Demand) -> Rule:
        log_p, losses = self._log_finite
        return Rule(losses[None], log_p[None], np.array([self.lost_mass]), np.array([self.infinite_mass]))

    def cells(self, cuts: float | np.ndarray, log_tail: float) -> Cells:
        return Cells.of_atoms(self.rule(Demand()))

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray:
        log_p, losses = self._log_finite
        with np.errstate(all="ignore"):
            gaps = -np.expm1(np.minimum(np.asarray(epsilon)[..., None] - losses, 0.0)) * np.exp(log_p + losses)
            return np.log(np.minimum(gaps.sum(axis=-1) + self.infinite_mass, 1.0))

    def log_reversed_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray:
        log_p, losses = self._log_finite
        with np.errstate(all="ignore"):
            gaps = -np.expm1(np.minimum(np.asarray(epsilon)[..., None] + losses, 0.0)) * np.exp(log_p)
            return np.log(np.minimum(gaps.sum(axis=-1) + self.lost_mass, 1.0))


def _normalised(name: str, values: Any) -> tuple[float, ...]:
    """Masses that add up to 1, to 1e-9, divided by their sum where that is not rounding."""
    masses = validation.array_in(name, validation.sequence(name, values), 0.0, math.inf)
    total = math.fsum(masses.ravel())
    if masses.ndim > 1 or not math.isclose(total, 1.0, rel_tol=1e-9):
        raise ValueError(f"`{name}` must be a sequence of numbers that add up to 1. Found shape {masses.shape}, sum {total!r}.")
    return tuple((masses if abs(total - 1.0) <= _ROUNDING else masses / total).tolist())
