"""Which lattice carries all losses, if any: randomised response, discrete Laplace and any two atoms have one."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import Demand

_MOST_LEAVES = 512
_LARGEST_INDEX = 100_000  # of one leaf, in units of the spacing
_ON_LATTICE = 1e-10  # how far from a lattice point a loss may be, relative to its index


def common_spacing(pllrs: Collection[Pllr]) -> float | None:
    """The largest a such that the losses of every leaf differ by multiples of a, up to rounding; None if there is none.

    >>> from dp_edgeworth.losses.atoms import Atoms
    >>> round(common_spacing([Atoms((0.25, 0.75), (0.75, 0.25))]), 9)  # 2 log 3
    2.197224577
    """
    if len(pllrs) > _MOST_LEAVES or not all(pllr.atomic for pllr in pllrs):
        return None
    rows = [np.unique(pllr.rule(Demand()).values[0]) for pllr in pllrs]
    gaps = np.unique(np.concatenate([values - values[:1] for values in rows]))
    gaps = gaps[gaps > 0]
    if not len(gaps):
        return None
    spacing = float(gaps[0])
    for gap in gaps[1:].tolist():
        spacing = _common_divisor(gap, spacing)
        if gaps[-1] > _LARGEST_INDEX * spacing:
            return None
    spacing = float(gaps[-1]) / round(float(gaps[-1]) / spacing)
    indices = gaps / spacing
    return spacing if np.all(np.abs(indices - np.round(indices)) <= _ON_LATTICE * indices) else None


def _common_divisor(large: float, small: float) -> float:
    """Euclid's algorithm; a remainder below 1e-9 of the first number is taken for rounding."""
    least = 1e-9 * large
    while small > least:
        large, small = small, abs(large - small * round(large / small))
    return large
