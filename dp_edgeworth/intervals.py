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
