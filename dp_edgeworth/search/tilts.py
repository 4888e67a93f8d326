"""Where to put the contour: saddle points of K, and first guesses of epsilon from normal approximations there."""

from __future__ import annotations

import math

from dp_edgeworth.losses.rules import RuleTooLargeError
from dp_edgeworth.sums.composition import Composition
from dp_edgeworth.sums.saddle_point import saddle_guess as saddle_guess
from dp_edgeworth.sums.saddle_point import saddle_tilt as saddle_tilt

_STEEPEST = 1e8


def at_the_top(composition: Composition, tilt: float) -> bool:
    """Whether the tilt is so steep that only the largest losses count: the Chernoff bound is then as good as it gets.

    Not on a lattice, where every point is resolved.
    """
    bounded = math.isfinite(composition.largest_loss) and composition.spacing is None
    return bounded and tilt * abs(composition.largest_loss) > _STEEPEST


def mean_loss(composition: Composition) -> float:
    """The mean loss, about where delta is 1/2; 0 where no rule is fine enough."""
    try:
        return float(composition.cgf([0.0])[1, 0])
    except RuleTooLargeError:
        return 0.0


def negative_tilt(composition: Composition, epsilon: float) -> float:
    """The saddle -1 < c < 0 of 1 - delta, kept away from the ends: from 0 by a small part of 1 / deviation."""
    demand = composition.demand(-1.0, 0.0)
    spread = math.sqrt(max(float(composition.cgf([0.0], demand)[2, 0]), 1.0))
    low, high = 1e-3 / spread, 999.0  # odds -c / (1 + c)
    for _ in range(12 + math.ceil(math.log2(1.0 + math.log(spread)))):
        middle = math.sqrt(low * high)
        slope = composition.cgf([-middle / (1.0 + middle)], demand)[1, 0]
        low, high = (low, middle) if slope < epsilon else (middle, high)
    return -middle / (1.0 + middle)
