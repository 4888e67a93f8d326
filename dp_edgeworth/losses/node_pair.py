"""A finite pair given by its increasing losses: thousands of atoms, cheap to hash and to compose.

An atom is stored by the larger of its two masses, that under Q where its loss l is positive and that under P otherwise; the other one
is e^{-|l|} times it. So (Q, P) has the masses read backwards, and nothing cancels in either tail.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib

import numpy as np

from dp_edgeworth.losses.finite_pair import FinitePair


@dataclasses.dataclass(frozen=True, eq=False)
class NodePair(FinitePair):
    """The pair with these increasing losses, 0 among them, and the masses of the module's header.

    Attributes:
      lost_mass: P-mass of L = -inf. infinite_mass: Q-mass of L = +inf.
    """

    losses: np.ndarray
    masses: np.ndarray
    lost_mass: float = 0.0
    infinite_mass: float = 0.0
    infinite_mass_error = 0.0
    lost_mass_error = 0.0
    top_mass = 0.0  # known to rounding only
    bottom_mass = 0.0

    def __post_init__(self) -> None:
        for name in ("losses", "masses"):
            values = np.array(getattr(self, name), np.float64)
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    @functools.cached_property
    def _identity(self) -> bytes:
        numbers = np.concatenate([[self.lost_mass, self.infinite_mass], self.losses, self.masses])
        return hashlib.blake2b(numbers.tobytes(), digest_size=24).digest()

    def __hash__(self) -> int:
        return hash(self._identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NodePair) and self._identity == other._identity

    def __repr__(self) -> str:
        return f"NodePair(atoms={len(self.masses)}, identity={self._identity.hex()[:16]})"

    @property
    def _atoms(self) -> tuple[np.ndarray, np.ndarray]:
        kept = np.flatnonzero(self.masses > 0.0)
        return self.losses[kept], self.masses[kept]

    @functools.cached_property
    def mirror(self) -> bool:
        """Whether the masses read backwards are the same."""
        return (self.lost_mass == self.infinite_mass and np.array_equal(self.losses, -self.losses[::-1])
                and np.array_equal(self.masses, self.masses[::-1]))
