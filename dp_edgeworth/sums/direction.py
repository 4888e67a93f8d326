"""The two sides of one direction of a composition."""

from __future__ import annotations

from typing import NamedTuple

from dp_edgeworth.sums.composition import Composition


class Direction(NamedTuple):
    """One direction of a composition.

    Attributes:
      upper: the composition itself, or one with at least as much loss.
      lower: one with at most as much loss; the same object where the pairs are exact.
    """

    upper: Composition
    lower: Composition
