"""All that this room asks of `search`: certified deltas and epsilons of pairs of compositions, one above and one below.

Of every direction (upper, lower) the upper end is that of `upper` and the lower end that of `lower`, which need not be its
`dominated`: a class of mechanisms is bounded from above by a pair and from below by one of its members.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dp_edgeworth.intervals import Bounds
from dp_edgeworth.search import conversion
from dp_edgeworth.sums.composition import Composition
from dp_edgeworth.sums.direction import Direction

Sides = tuple[Composition, Composition]


def epsilons(directions: Sequence[Sides], deltas: np.ndarray, tolerance: float) -> Bounds:
    """Intervals of epsilon at these deltas, the larger of all directions."""
    return conversion.epsilon_bounds([Direction(*sides) for sides in directions], deltas, tolerance)


def deltas(directions: Sequence[Sides], at: np.ndarray, tolerance: float) -> Bounds:
    """Intervals of delta at these epsilons >= 0, the larger of all directions."""
    return conversion.delta_bounds([Direction(*sides) for sides in directions], at, tolerance)
