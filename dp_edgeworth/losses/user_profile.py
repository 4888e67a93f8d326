"""The pair of a profile that is given at some epsilons, of both directions at once: what `ProfileDpEvent` is.

delta(eps) <= u at a negative epsilon says delta(-eps) <= 1 - e^{-eps} (1 - u) by the mirror identity. So the points are upper bounds at
epsilons >= 0, the same on both sides of 0: nodes of a pair (`profile_pair`). From below a lower bound holds at all smaller epsilons.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import special

from dp_edgeworth import validation
from dp_edgeworth.losses.bracket import Leaf, between
from dp_edgeworth.losses.node_pair import NodePair
from dp_edgeworth.losses.profile_pair import dominated_pair, dominating_pair, subdivided

_NODES = 2_000
_LARGEST_LOSS, _SHORTEST = 600.0, 1e-280  # of the pair below; reach of its nodes
_ROUNDING = 1e-12  # what a delta may be below 1 - e^eps by, from rounding
_CHECKED = 4.0 * float(np.finfo(float).eps)


def pair_of_points(epsilons: Any, deltas: Any, lower_deltas: Any = None) -> Leaf | None:
    """A pair above and one below, each its own mirror image; None where the points say that there is no loss at all.

    Raises:
      ValueError: the points are not increasing, not as many as each other, or no upper bound of any profile.
    """
    points, values, least = _one_sided(*_validated(epsilons, deltas, lower_deltas))
    if values[0] == 0.0 and points[0] == 0.0:
        return None
    if points[0] > 0.0:  # at 0 the chord from the first point to its mirror image
        zero = (math.tanh(0.5 * points[0]) + 2.0 * values[0] * special.expit(-points[0])) * (1.0 + 1e-14)
        points, values, least = np.append(0.0, points), np.append(min(zero, 1.0), values), np.append(least[0], least)
    return between(dominating_pair((points, points), values, values), _dominated(points, values, least))


def _validated(epsilons: Any, deltas: Any, lower_deltas: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    eps = np.array([validation.finite(f"epsilons[{i}]", item) for i, item in enumerate(validation.sequence("epsilons", epsilons))])
    upper = _probabilities("deltas", deltas, len(eps))
    lower = np.zeros(len(eps)) if lower_deltas is None else _probabilities("lower_deltas", lower_deltas, len(eps))
    if np.any(np.diff(eps) <= 0.0):
        raise ValueError(f"`epsilons` must be increasing. Found {validation.shown(epsilons)}.")
    for i, least in enumerate(-np.expm1(np.minimum(eps, 0.0))):
        if upper[i] < least - _ROUNDING:
            raise ValueError(f"`deltas[{i}]` must be at least 1 - e^epsilon, {least!r}, which every mechanism has. Found {upper[i]!r}.")
    if np.any(lower > upper):
        i = int(np.flatnonzero(lower > upper)[0])
        raise ValueError(f"`lower_deltas[{i}]` must be at most `deltas[{i}]`, {upper[i]!r}. Found {lower[i]!r}.")
    return eps, upper, lower


def _probabilities(name: str, values: Any, size: int) -> np.ndarray:
    found = [validation.probability(f"{name}[{i}]", value) for i, value in enumerate(validation.sequence(name, values))]
    if len(found) != size:
        raise ValueError(f"`{name}` must be as many as `epsilons`, {size}. Found {len(found)}.")
    return np.array(found)


def _one_sided(eps: np.ndarray, upper: np.ndarray, lower: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The points at |eps|, increasing, with upper and lower bounds there; rounded outwards where the mirror identity was used."""
    mirror = eps < 0.0
    grow = np.exp(np.clip(-eps, 0.0, 700.0))  # times the rounding of a delta: beyond, nothing is known
    above = np.where(mirror, np.minimum(1.0 - grow * (1.0 - upper) + _CHECKED * grow, 1.0), upper)
    points, where = np.unique(np.abs(eps), return_inverse=True)
    values = np.ones(len(points))
    np.minimum.at(values, where, np.maximum(above, 0.0))
    below = np.where(mirror, np.maximum(1.0 - grow * (1.0 - lower) - _CHECKED * grow, 0.0), lower)
    least = np.zeros(len(points))
    np.maximum.at(least, where, below)
    return points, np.minimum.accumulate(values), np.maximum.accumulate(least[::-1])[::-1]


def _dominated(points: np.ndarray, values: np.ndarray, least: np.ndarray) -> NodePair:
    """A pair below, from nodes between the points: the lower bound of the next point, and the chord of the upper ones, rounded up."""
    near = points <= _LARGEST_LOSS
    points, values, least = points[near], values[near], least[near]
    if not least.any() or points[-1] < _SHORTEST:  # a single point has no chords
        return NodePair(np.zeros(1), np.ones(1))
    nodes = np.unique(subdivided(points, max(_NODES // len(points), 1)))
    above = np.interp(np.expm1(nodes), np.expm1(points), values) * (1.0 + 1e-11)
    lower = np.minimum(least[np.searchsorted(points, nodes)], above)
    return dominated_pair((nodes, nodes), (lower, above), (lower, above))
