"""A finite pair whose losses are multiples of one spacing: thousands of atoms, cheap to hash, to reverse and to compose.

The atom at loss j a (a the spacing) is stored by the larger of its two masses, that under Q for j > 0 and that under P for j <= 0; the
other one is e^{-|j| a} times it. So (Q, P) has the masses read backwards, and nothing cancels in either tail.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import math

import numpy as np

from dp_edgeworth.losses.cells import Cells
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import Demand, Rule

_LONGEST = 5000.0  # e to this power is a long double; losses further apart are looked at in turn


@dataclasses.dataclass(frozen=True, eq=False)
class LatticePair(Pllr):
    """The pair with losses spacing * indices, and the masses of the module's header.

    Attributes:
      indices: increasing integers, 0 among them.
      lost_mass: P-mass of L = -inf. infinite_mass: Q-mass of L = +inf.
      below: a pair with less loss than the true one, where this one was made by rounding up; None where this one is exact.
    """

    spacing: float
    indices: np.ndarray
    masses: np.ndarray
    lost_mass: float = 0.0
    infinite_mass: float = 0.0
    below: Pllr | None = None
    atomic = True
    infinite_mass_error = 0.0
    lost_mass_error = 0.0
    top_mass = 0.0  # known to rounding only
    bottom_mass = 0.0

    def __post_init__(self) -> None:
        for name, kind in (("indices", np.int64), ("masses", np.float64)):
            values = np.array(getattr(self, name), kind)
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    @functools.cached_property
    def _identity(self) -> bytes:
        numbers = np.array([self.spacing, self.lost_mass, self.infinite_mass])
        text = repr(self.below).encode()  # the same in every process, as a hash is not
        return hashlib.blake2b(numbers.tobytes() + self.indices.tobytes() + self.masses.tobytes() + text, digest_size=24).digest()

    def __hash__(self) -> int:
        return hash(self._identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LatticePair) and self._identity == other._identity and self.below == other.below

    def __repr__(self) -> str:
        return f"LatticePair(spacing={self.spacing!r}, atoms={len(self.masses)}, identity={self._identity.hex()[:16]})"

    @functools.cached_property
    def _log_finite(self) -> tuple[np.ndarray, np.ndarray]:
        """log P-mass and loss of every atom."""
        kept = np.flatnonzero(self.masses > 0.0)
        losses = self.spacing * self.indices[kept]
        return np.log(self.masses[kept]) - np.maximum(losses, 0.0), losses

    @functools.cached_property
    def mirror(self) -> bool:
        """Whether the masses read backwards are the same."""
        return (self.lost_mass == self.infinite_mass and np.array_equal(self.indices, -self.indices[::-1])
                and np.array_equal(self.masses, self.masses[::-1]) and (self.below is None or self.below.mirror))

    @property
    def supremum(self) -> float:
        return math.inf if self.infinite_mass else self.finite_supremum

    @property
    def finite_supremum(self) -> float:
        return float(self._log_finite[1].max(initial=-math.inf))

    @property
    def infimum(self) -> float:
        return -math.inf if self.lost_mass else float(self._log_finite[1].min(initial=math.inf))

    @property
    def dominated(self) -> Pllr:
        return self if self.below is None else self.below

    @property
    def loss_scale(self) -> float:
        return float(np.abs(self._log_finite[1]).max(initial=0.0))

    def largest_kept(self, log_tail: float) -> float:
        return self.finite_supremum

    def cells(self, cuts: float | np.ndarray, log_tail: float) -> Cells:
        return Cells.of_atoms(self.rule(Demand()))

    def rule(self, demand: Demand) -> Rule:
        log_p, losses = self._log_finite
        return Rule(losses[None], log_p[None], np.array([self.lost_mass]), np.array([self.infinite_mass]))

    @functools.cached_property
    def _sides(self) -> tuple[NodeProfile, NodeProfile]:
        return NodeProfile.of(self), NodeProfile.of(self, mirrored=True)

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray:
        return _log_stick(np.asarray(epsilon, float), *self._sides)

    def log_reversed_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray:
        return _log_stick(np.asarray(epsilon, float), *self._sides[::-1])


@dataclasses.dataclass(frozen=True)
class NodeProfile:
    """H(x_j) = E_P[(R - x_j)_+] + infinite and T_j = x_j P(x_j < R < inf) at x_j = e^{j a}, j = 0 and where atoms are above it.

        T_j = e^{-gap} (T_next + q_next),        H_j = H_next + (1 - e^{-gap}) (T_next + q_next),

    sums of positive terms, in long doubles: relative error 4 n units in their last place.
    """

    spacing: float
    indices: np.ndarray
    sticks: np.ndarray
    tails: np.ndarray

    @classmethod
    def of(cls, pair: LatticePair, mirrored: bool = False) -> NodeProfile:
        sign, infinite = (-1, pair.lost_mass) if mirrored else (1, pair.infinite_mass)
        indices, masses = sign * pair.indices[::sign], pair.masses[::sign]
        above = indices > 0
        indices = np.concatenate([[0], indices[above]])
        masses = np.concatenate([[0.0], masses[above]]).astype(np.longdouble)
        tails = _tails(pair.spacing, indices, masses)
        steps = -np.expm1(-np.longdouble(pair.spacing) * np.diff(indices)) * (tails[1:] + masses[1:])
        sticks = np.longdouble(infinite) + np.concatenate([np.cumsum(steps[::-1])[::-1], [np.longdouble(0.0)]])
        return cls(pair.spacing, indices, sticks, tails)

    def at(self, eps: np.ndarray) -> np.ndarray:
        """H(e^eps), eps >= 0, as long doubles: linear in e^eps between two nodes, H_next + (e^{next} - e^eps) P(R > e^eps)."""
        last = len(self.indices) - 1
        losses = self.spacing * self.indices
        index = np.clip(np.searchsorted(losses, eps, side="right") - 1, 0, max(last - 1, 0))
        following = np.minimum(index + 1, last)
        rest = np.maximum(losses[following] - eps, 0.0)
        gaps = np.longdouble(self.spacing) * (self.indices[following] - self.indices[index])
        inside = self.sticks[following] + self.tails[index] * np.exp(np.minimum(gaps, _LONGEST)) * -np.expm1(-rest)
        return np.where(eps >= losses[last], self.sticks[last], inside)


def _tails(spacing: float, indices: np.ndarray, masses: np.ndarray) -> np.ndarray:
    """T at the nodes: sums from the right of P-masses, block by block so that these are long doubles."""
    losses = np.longdouble(spacing) * indices
    blocks = np.floor((losses / _LONGEST).astype(float)).astype(np.int64)
    tails = np.zeros(len(indices), np.longdouble)
    carried, last = np.longdouble(0.0), losses[-1]  # T + q at the first node of the block on the right
    for block in np.unique(blocks)[::-1]:
        here = np.flatnonzero(blocks == block)
        base = losses[here[0]]
        p = masses[here] * np.exp(base - losses[here])
        beyond = carried * np.exp(base - last)
        sums = np.concatenate([np.cumsum(p[:0:-1])[::-1], [np.longdouble(0.0)]]) + beyond
        tails[here] = np.exp(losses[here] - base) * sums
        carried, last = tails[here[0]] + masses[here[0]], base
    return tails


def _log_stick(eps: np.ndarray, here: NodeProfile, there: NodeProfile) -> np.ndarray:
    """log H, from the nodes of its own side; for eps < 0 by the mirror identity H(x) = 1 - x + x H_mirrored(1/x)."""
    low = np.minimum(eps, 0.0)
    with np.errstate(divide="ignore", under="ignore"):
        below = np.exp(low) * there.at(-low) - np.expm1(low)
        return np.log(np.minimum(np.where(eps < 0.0, below, here.at(np.maximum(eps, 0.0))), 1.0)).astype(float)
