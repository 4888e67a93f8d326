"""What the certified accountant answers with: intervals, for one target or for arrays of them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Interval(NamedTuple):
    """A certified interval and the best estimate inside it: floats, or arrays of one shape."""

    lower: float
    estimate: float
    upper: float


class Diagnosis(NamedTuple):
    """Which theorems proved an interval and, where it is wider than asked, why and what helps."""

    interval: Interval
    lower_by: str
    upper_by: str
    narrow: bool
    advice: str


class Bounds(NamedTuple):
    """An interval for every target."""

    lower: np.ndarray
    estimate: np.ndarray
    upper: np.ndarray

    def put(self, index: np.ndarray, lower: np.ndarray, estimate: np.ndarray, upper: np.ndarray) -> None:
        """Intersects with another valid interval; the estimate is the newer one, kept inside."""
        self.lower[index] = np.maximum(self.lower[index], lower)
        self.upper[index] = np.minimum(self.upper[index], upper)
        self.estimate[index] = np.clip(estimate, self.lower[index], self.upper[index])

    def largest(self, other: Bounds) -> Bounds:
        """The interval of the larger of two quantities."""
        return Bounds(*(np.maximum(a, b) for a, b in zip(self, other, strict=True)))
