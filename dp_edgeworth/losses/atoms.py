"""Discrete pairs: any two probability vectors on the same points."""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from typing import Any

import numpy as np

from dp_edgeworth import validation
from dp_edgeworth.losses.finite_pair import FinitePair
from dp_edgeworth.losses.pllr import ROUNDED

_ROUNDING = 1e-12  # of a sum of masses


@dataclasses.dataclass(frozen=True)
class Atoms(FinitePair):
    """A discrete pair: probabilities under P and under Q, point by point.

    Attributes:
      losses: log(q/p) point by point where it is known better than from the masses, for example a tiny one.
    """

    p_masses: tuple[float, ...]
    q_masses: tuple[float, ...]
    losses: tuple[float, ...] | None = None

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
        return self.p_masses == self.q_masses[::-1] and (
            self.losses is None or self.losses == tuple(-loss for loss in self.losses[::-1]))

    @functools.cached_property
    def _atoms(self) -> tuple[np.ndarray, np.ndarray]:
        """A mass that is no float is known by the other one."""
        p, q = np.array(self.p_masses), np.array(self.q_masses)
        if self.losses is not None:
            losses = np.array(self.losses)
        else:
            with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
                near, ratio = np.abs(q - p) < 0.5 * p, q / p
                plain = (ratio > 1e-300) & (ratio < 1e300)  # one rounding instead of two logarithms
                losses = np.where(plain, np.log(np.where(plain, ratio, 1.0)), np.log(q) - np.log(p))
                losses = np.where(near, np.log1p(np.where(near, (q - p) / p, 0.0)), losses)
        finite = np.isfinite(losses) & (np.maximum(p, q) > 0)
        return losses[finite], np.where(losses > 0.0, q, p)[finite]

    def _known(self, infinite: float) -> list[bool]:
        """Which points have this infinite loss."""
        if self.losses is not None:
            return [loss == infinite for loss in self.losses]
        zeros = self.p_masses if infinite > 0 else self.q_masses
        return [mass == 0 for mass in zeros]

    infinite_mass = property(lambda self: math.fsum(itertools.compress(self.q_masses, self._known(math.inf))))
    lost_mass = property(lambda self: math.fsum(itertools.compress(self.p_masses, self._known(-math.inf))))
    infinite_mass_error = property(lambda self: 0.0 if sum(self._known(math.inf)) <= 1 else ROUNDED)
    lost_mass_error = property(lambda self: 0.0 if sum(self._known(-math.inf)) <= 1 else ROUNDED)

    @property
    def top_mass(self) -> float:
        return 0.0 if self.infinite_mass else self._mass_at(self.supremum, 1.0)

    @property
    def bottom_mass(self) -> float:
        return 0.0 if self.lost_mass else self._mass_at(self.infimum, -1.0)

    def _mass_at(self, loss: float, sign: float) -> float:
        """Under Q (sign 1) or P (-1)."""
        losses, masses = self._atoms
        return float(masses[losses == loss].sum() * math.exp(min(sign * loss, 0.0)))


def _normalised(name: str, values: Any) -> tuple[float, ...]:
    """Masses that add up to 1, to 1e-9, divided by their sum where that is not rounding."""
    masses = validation.array_in(name, validation.sequence(name, values), 0.0, math.inf)
    total = math.fsum(masses.ravel())
    if masses.ndim > 1 or not math.isclose(total, 1.0, rel_tol=1e-9):
        raise ValueError(f"`{name}` must be a sequence of numbers that add up to 1. Found shape {masses.shape}, sum {total!r}.")
    return tuple((masses if abs(total - 1.0) <= _ROUNDING else masses / total).tolist())
