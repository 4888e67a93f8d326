"""What every theorem gives: a curve, certified bounds of log G(epsilon) at any epsilon.

G is what is finite of delta (`complement` False), or 1 - delta (`complement` True).
"""

from __future__ import annotations

import abc
import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class LogBounds:
    """Logarithms of a lower bound, an estimate and an upper bound of G, one per epsilon; and d log G / d epsilon."""

    lower: np.ndarray
    estimate: np.ndarray
    upper: np.ndarray
    slope: np.ndarray


class Curve(abc.ABC):
    """A certified representation of one direction of a composition, from which every epsilon and delta is read.

    Attributes:
      theorem: its name, as in the table of the room's docstring.
      tilt: about -d log G / d epsilon where it was made for; its sign says which G: positive delta, negative 1 - delta.
      size: about how many terms one point costs.
      whole: G has the infinite losses in it.
    """

    theorem: str
    tilt: float
    whole: bool = False

    @property
    def size(self) -> int:
        return 1

    @property
    def complement(self) -> bool:
        return self.tilt < 0.0

    @abc.abstractmethod
    def bounds(self, epsilons: np.ndarray) -> LogBounds:
        """The theorem at every epsilon, of either sign."""

    def light(self, epsilon: float) -> tuple[float, float]:
        """About log G and its slope at one epsilon, for those who search: quicker than `bounds` where a curve can do that."""
        found = self.bounds(np.array([epsilon]))
        return float(found.estimate[0]), float(found.slope[0])
