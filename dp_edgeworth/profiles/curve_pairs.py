"""From certified curves to finite pairs: which nodes, how fine, how far.

A pair on a lattice of spacing g has a variance of the loss that is too large by about g^2 / 6 (and one from below too small by about
as much), so g is a small share of the deviation of the loss. Nodes are dense near 0, where most of the loss is, and their distance
grows in proportion to epsilon from there on: far losses are rare, and a relative error of them is what counts.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dp_edgeworth.losses.bracket import Bracket
from dp_edgeworth.losses.profile_pair import dominated_pair, dominating_pair, subdivided

_DENSE = 512
_SHARE = 0.02  # of the deviation of the loss
LEAST = 1e-40  # negligible deltas
_MOMENT_POINTS = 64
_SMALL = 1e-25  # of a curve that is below `LEAST` everywhere, or nearly
_FINER = 2
_LARGEST_INDEX = 2.0**40
_SMALLEST_EPSILON, _LARGEST_EPSILON = 1e-250, 1e30

Upper = Callable[[np.ndarray], np.ndarray]
Bounds = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]


class Side(NamedTuple):
    """One order of the laws, eps >= 0: upper bounds of delta, and bounds of the delta of something that is dominated.

    Attributes:
      exact: both are of the same thing.
      end: about the epsilon beyond which delta is negligible; found out where it is not given.
    """

    upper: Upper
    bracket: Bounds
    exact: bool = False
    end: float | None = None


def pair_of_curves(right: Side, left: Side) -> Bracket:
    """The pairs above and below; `left` is the reversed order."""
    ends = [reach(side.upper, 1.0, LEAST) if side.end is None else side.end for side in (right, left)]
    deviation = math.sqrt(max(sum(_second_moment(side.upper, end, sign) for side, end, sign in zip(
        (right, left), ends, (1.0, -1.0), strict=True)), 1e-300))
    share = min(_SHARE * deviation, max(ends) / 1024.0)
    spacing = 2.0 ** math.floor(math.log2(max(share, max(ends) / _LARGEST_INDEX, 1e-290)))
    nodes = spacing * graded_nodes(math.ceil(ends[0] / spacing)), spacing * graded_nodes(math.ceil(ends[1] / spacing))
    brackets = [side.bracket(subdivided(places, _FINER)) for side, places in zip((right, left), nodes, strict=True)]
    floors = tuple(float(side.bracket(np.array([math.inf]))[0][0]) for side in (right, left))
    below = dominated_pair(nodes, brackets[0], brackets[1], _FINER, (floors[0], floors[1]))
    above = [found[1][::_FINER] if side.exact else side.upper(places)
             for side, places, found in zip((right, left), nodes, brackets, strict=True)]
    return Bracket((below,), dominating_pair(nodes, above[0], above[1]))


def graded_nodes(last: int) -> np.ndarray:
    """0, 1, 2, ... up to 512, then steps of 2 up to 1024, of 4 up to 2048, and so on; `last` is the last one or passed."""
    parts, start, step = [np.arange(min(last, _DENSE) + 1)], _DENSE, 2
    while start < last:
        parts.append(np.arange(start + step, 2 * start + 1, step))
        start, step = 2 * start, 2 * step
    nodes = np.concatenate(parts)
    return nodes[:int(np.searchsorted(nodes, last)) + 1]


def reach(upper: Callable[[np.ndarray], np.ndarray], start: float, least: float) -> float:
    """An epsilon beyond which an upper curve is within `least` of its end, or hardly above that; by doubling and halving.

    `start` where the curve is constant: there any epsilon will do.
    """
    zero, end = (float(upper(np.array([eps]))[0]) for eps in (0.0, math.inf))
    enough = max(min(least, _SMALL * zero), end * (1.0 + 1e-6))

    def settled(eps: float) -> bool:
        return float(upper(np.array([eps]))[0]) <= enough

    high = start
    while not settled(high) and high < _LARGEST_EPSILON:
        high *= 2.0
    low = 0.5 * high
    while low > _SMALLEST_EPSILON and settled(low):
        high, low = low, 0.5 * low
    if low <= _SMALLEST_EPSILON:
        return start
    for _ in range(22):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if settled(middle) else (middle, high)
    return high


def _second_moment(upper: Upper, end: float, sign: float) -> float:
    """A share of E_P[L^2] = int f''(x) v(x) dx with f = log^2 and v = H - (1 - x)_+: that of eps > 0, or of eps < 0, roughly."""
    eps = np.geomspace(1e-6 * end, end, _MOMENT_POINTS)
    weight = 2.0 * (1.0 - eps) * np.exp(-eps) if sign > 0 else 2.0 * (1.0 + eps)
    values = np.maximum(weight, 0.0) * upper(eps) * eps
    return 0.5 * float((values[1:] + values[:-1]) @ np.diff(np.log(eps)))
