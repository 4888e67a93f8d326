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
from scipy import signal

from dp_edgeworth.losses.pllr import Demand, Pllr, Rule


@dataclasses.dataclass(frozen=True, eq=False)
class LatticePair(Pllr):
    """The pair with losses spacing * (first + k), k = 0, 1, ..., and the masses of the module's header.

    Attributes:
      lost_mass: P-mass of L = -inf. infinite_mass: Q-mass of L = +inf.
      below: a pair with less loss than the true one, where this one was made by rounding up; None where this one is exact.
    """

    spacing: float
    first: int
    masses: np.ndarray
    lost_mass: float = 0.0
    infinite_mass: float = 0.0
    below: Pllr | None = None
    atomic = True
    infinite_mass_error = 0.0
    lost_mass_error = 0.0

    def __post_init__(self) -> None:
        masses = np.array(self.masses, float)
        masses.setflags(write=False)
        object.__setattr__(self, "masses", masses)

    @functools.cached_property
    def _identity(self) -> bytes:
        numbers = np.array([self.spacing, float(self.first), self.lost_mass, self.infinite_mass])
        text = repr(self.below).encode()  # the same in every process, as a hash is not
        return hashlib.blake2b(numbers.tobytes() + self.masses.tobytes() + text, digest_size=24).digest()

    def __hash__(self) -> int:
        return hash(self._identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LatticePair) and self._identity == other._identity and self.below == other.below

    def __repr__(self) -> str:
        return f"LatticePair(spacing={self.spacing!r}, atoms={len(self.masses)}, identity={self._identity.hex()[:16]})"

    @property
    def indices(self) -> np.ndarray:
        return np.arange(self.first, self.first + len(self.masses))

    @functools.cached_property
    def _log_finite(self) -> tuple[np.ndarray, np.ndarray]:
        """log P-mass and loss of every atom."""
        kept = np.flatnonzero(self.masses > 0.0)
        losses = self.spacing * self.indices[kept]
        return np.log(self.masses[kept]) - np.maximum(losses, 0.0), losses

    @functools.cached_property
    def mirror(self) -> bool:  # type: ignore[override]
        """Whether the masses read backwards are the same."""
        return (self.lost_mass == self.infinite_mass and self.first == -int(self.indices[-1])
                and np.array_equal(self.masses, self.masses[::-1]) and (self.below is None or self.below.mirror))

    @property
    def supremum(self) -> float:  # type: ignore[override]
        return math.inf if self.infinite_mass else self.finite_supremum

    @property
    def finite_supremum(self) -> float:
        return float(self._log_finite[1].max(initial=-math.inf))

    @property
    def infimum(self) -> float:  # type: ignore[override]
        return -math.inf if self.lost_mass else float(self._log_finite[1].min(initial=math.inf))

    @property
    def dominated(self) -> Pllr:
        return self if self.below is None else self.below

    @property
    def loss_scale(self) -> float:
        return float(np.abs(self._log_finite[1]).max(initial=0.0))

    def rule(self, demand: Demand) -> Rule:
        log_p, losses = self._log_finite
        return Rule(losses[None], log_p[None], np.array([self.lost_mass]), np.array([self.infinite_mass]))

    @functools.cached_property
    def node_profiles(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """H(e^{j a}) and -e^{j a} H'(e^{j a} +) at j = 0, 1, ... of (P, Q), then the same of (Q, P)."""
        backwards = np.arange(-int(self.indices[-1]), -self.first + 1)
        return (*node_profile(self.spacing, self.indices, self.masses, self.infinite_mass),
                *node_profile(self.spacing, backwards, self.masses[::-1], self.lost_mass))

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray:
        return self._log_stick(np.asarray(epsilon, float), *self.node_profiles)

    def log_reversed_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray:
        here, slopes, there, other_slopes = self.node_profiles
        return self._log_stick(np.asarray(epsilon, float), there, other_slopes, here, slopes)

    def _log_stick(self, eps: np.ndarray, here: np.ndarray, slopes: np.ndarray, there: np.ndarray, other: np.ndarray) -> np.ndarray:
        """log H, from the nodes of its own side; for eps < 0 by the mirror identity H(x) = 1 - x + x H_mirrored(1/x)."""
        with np.errstate(divide="ignore", under="ignore"):
            mirrored = _between(self.spacing, -np.minimum(eps, 0.0), there, other)
            low = np.exp(np.minimum(eps, 0.0)) * mirrored - np.expm1(np.minimum(eps, 0.0))
            return np.log(np.minimum(np.where(eps < 0.0, low, _between(self.spacing, np.maximum(eps, 0.0), here, slopes)), 1.0))


def node_profile(spacing: float, indices: np.ndarray, masses: np.ndarray, infinite: float) -> tuple[np.ndarray, np.ndarray]:
    """H(x_j) = E_P[(R - x_j)_+] + infinite and T_j = x_j P(x_j < R < inf) at x_j = e^{j a}, j = 0, ..., from sums of positive terms.

        T_j = e^{-a} (T_{j+1} + q_{j+1}),        H_j = H_{j+1} + (1 - e^{-a}) (T_{j+1} + q_{j+1}) = H_{j+1} + (e^a - 1) T_j.

    In long doubles: relative error 2 n 2^{-64} where these have 64 bits.
    """
    above = masses[indices > 0].astype(np.longdouble)
    step = np.longdouble(spacing)
    if len(above):
        steps = signal.lfilter([np.longdouble(1.0)], [np.longdouble(1.0), -np.exp(-step)], above[::-1])
        tails = np.concatenate([[np.longdouble(0.0)], np.exp(-step) * steps])[::-1]
        sticks = infinite + np.concatenate([[np.longdouble(0.0)], np.cumsum(-np.expm1(-step) * steps)])[::-1]
    else:
        tails, sticks = np.zeros(1, np.longdouble), np.full(1, infinite, np.longdouble)
    start = max(int(indices[0]) - 1, 0) if len(above) else 0
    if start:  # no atoms at the first positive indices: H is linear there
        gaps = np.arange(start) - start
        sticks = np.concatenate([sticks[0] + tails[0] * -np.expm1(step * gaps), sticks])
        tails = np.concatenate([tails[0] * np.exp(step * gaps), tails])
    return sticks, tails


def _between(spacing: float, eps: np.ndarray, sticks: np.ndarray, tails: np.ndarray) -> np.ndarray:
    """H(e^eps), linear in e^eps between two nodes: H_{j+1} + (e^{(j+1) a} - e^eps) P(R > e^eps)."""
    last = len(sticks) - 1
    index = np.clip(np.floor(eps / spacing), 0, max(last - 1, 0)).astype(int)
    rest = np.maximum(spacing * (index + 1) - eps, 0.0)
    inside = sticks[np.minimum(index + 1, last)] + tails[index] * math.exp(spacing) * -np.expm1(-rest)
    return np.where(eps >= spacing * last, sticks[last], inside).astype(float)
