"""A finite pair with increasing losses, as a rule multiples of one spacing: thousands of atoms, cheap to hash and to compose.

The atom at loss j a (a the spacing) is stored by the larger of its two masses, that under Q for j > 0 and that under P for j <= 0; the
other one is e^{-|j| a} times it. So (Q, P) has the masses read backwards, and nothing cancels in either tail. The losses are the
floats j a.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib

import numpy as np

from dp_edgeworth.losses.finite_pair import FinitePair


@dataclasses.dataclass(frozen=True, eq=False)
class LatticePair(FinitePair):
    """The pair with losses spacing * indices, and the masses of the module's header.

    Attributes:
      indices: increasing numbers, 0 among them; integers, but where the losses have no lattice and the spacing is 1.
      lost_mass: P-mass of L = -inf. infinite_mass: Q-mass of L = +inf.
    """

    spacing: float
    indices: np.ndarray
    masses: np.ndarray
    lost_mass: float = 0.0
    infinite_mass: float = 0.0
    infinite_mass_error = 0.0
    lost_mass_error = 0.0
    top_mass = 0.0  # known to rounding only
    bottom_mass = 0.0

    def __post_init__(self) -> None:
        for name in ("indices", "masses"):
            values = np.array(getattr(self, name), np.float64)
            values.setflags(write=False)
            object.__setattr__(self, name, values)

    @functools.cached_property
    def _identity(self) -> bytes:
        numbers = np.array([self.spacing, self.lost_mass, self.infinite_mass])
        return hashlib.blake2b(numbers.tobytes() + self.indices.tobytes() + self.masses.tobytes(), digest_size=24).digest()

    def __hash__(self) -> int:
        return hash(self._identity)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LatticePair) and self._identity == other._identity

    def __repr__(self) -> str:
        return f"LatticePair(spacing={self.spacing!r}, atoms={len(self.masses)}, identity={self._identity.hex()[:16]})"

    @property
    def _atoms(self) -> tuple[np.ndarray, np.ndarray]:
        kept = np.flatnonzero(self.masses > 0.0)
        return self.spacing * self.indices[kept], self.masses[kept]

    @functools.cached_property
    def mirror(self) -> bool:
        """Whether the masses read backwards are the same."""
        return (self.lost_mass == self.infinite_mass and np.array_equal(self.indices, -self.indices[::-1])
                and np.array_equal(self.masses, self.masses[::-1]))
