"""The pair of a profile that is given at some epsilons, of both directions at once: what `ProfileDpEvent` is.

delta(eps) <= u at a negative epsilon says delta(-eps) <= 1 - e^{-eps} (1 - u) by the mirror identity. So the points are upper bounds at
epsilons >= 0, the same on both sides of 0. They become nodes of a lattice: the one that carries all of them, if there is one that is
not too long, otherwise a fine one, with the values of the chords at its nodes (a chord of two upper bounds is one). Between two
nodes an atom is then split over both, which costs the square of the spacing.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dp_edgeworth import validation
from dp_edgeworth.losses.lattice_pair import LatticePair
from dp_edgeworth.losses.profile_pair import dominated_pair, dominating_pair

_MOST_NODES = 20_000
_ROUNDING = 1e-12  # what a delta may be below 1 - e^eps by, from rounding
_MOVED = 4e-12
_CHECKED = 4.0 * float(np.finfo(float).eps)


def pair_of_points(epsilons: Any, deltas: Any, lower_deltas: Any = None) -> LatticePair | None:
    """The pair, its own mirror image; None where the points say that there is no loss at all.

    Raises:
      ValueError: the points are not increasing, not as many as each other, or no upper bound of any profile.
    """
    eps, upper, lower = _validated(epsilons, deltas, lower_deltas)
    points, values, least = _one_sided(eps, upper, lower)
    if values[0] == 0.0 and points[0] == 0.0:
        return None
    largest = float(points[-1])
    if largest == 0.0:
        return dominating_pair(1.0, values, values, LatticePair(1.0, np.zeros(1), np.ones(1)))
    exact = _lattice(points)
    spacing = exact or largest / _MOST_NODES
    nodes = np.arange(round(largest / spacing) + 1)
    below = _dominated(spacing * (1.0 - _MOVED), nodes, points, values, least)
    spacing *= 1.0 + _MOVED  # so that nodes are not before their points, whose bounds hold for larger epsilons as well
    found = np.ones(len(nodes)) if exact else _on_nodes(spacing * nodes, points, values)
    places = np.round(points / spacing).astype(int)
    at_points = slice(None) if exact else slice(len(points) - 1, None)
    found[places[at_points]] = values[at_points]
    return dominating_pair(spacing, found, found, below)


def _validated(epsilons: Any, deltas: Any, lower_deltas: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    eps = np.array([validation.finite(f"epsilons[{i}]", item) for i, item in enumerate(validation.sequence("epsilons", epsilons))])
    upper = _probabilities("deltas", deltas, len(eps))
    lower = None if lower_deltas is None else _probabilities("lower_deltas", lower_deltas, len(eps))
    if np.any(np.diff(eps) <= 0.0):
        raise ValueError(f"`epsilons` must be increasing. Found {validation.shown(epsilons)}.")
    for i, least in enumerate(-np.expm1(np.minimum(eps, 0.0))):
        if upper[i] < least - _ROUNDING:
            raise ValueError(f"`deltas[{i}]` must be at least 1 - e^epsilon, {least!r}, which every mechanism has. Found {upper[i]!r}.")
    if lower is not None and np.any(lower > upper):
        i = int(np.flatnonzero(lower > upper)[0])
        raise ValueError(f"`lower_deltas[{i}]` must be at most `deltas[{i}]`, {upper[i]!r}. Found {lower[i]!r}.")
    return eps, upper, lower


def _probabilities(name: str, values: Any, size: int) -> np.ndarray:
    found = [validation.probability(f"{name}[{i}]", value) for i, value in enumerate(validation.sequence(name, values))]
    if len(found) != size:
        raise ValueError(f"`{name}` must be as many as `epsilons`, {size}. Found {len(found)}.")
    return np.array(found)


def _one_sided(eps: np.ndarray, upper: np.ndarray, lower: np.ndarray | None) -> tuple[np.ndarray, np.ndarray, np.ndarray | None]:
    """The points at |eps|, increasing, with upper and lower bounds there; rounded outwards where the mirror identity was used."""
    mirror = eps < 0.0
    grow = np.exp(-np.minimum(eps, 0.0))
    above = np.where(mirror, np.minimum(1.0 - grow * (1.0 - upper) + _CHECKED * grow, 1.0), upper)
    points, where = np.unique(np.abs(eps), return_inverse=True)
    values = np.ones(len(points))
    np.minimum.at(values, where, np.maximum(above, 0.0))
    if lower is None:
        return points, np.minimum.accumulate(values), None
    below = np.where(mirror, np.maximum(1.0 - grow * (1.0 - lower) - _CHECKED * grow, 0.0), lower)
    least = np.zeros(len(points))
    np.maximum.at(least, where, below)
    return points, np.minimum.accumulate(values), np.maximum.accumulate(least[::-1])[::-1]


def _lattice(points: np.ndarray) -> float | None:
    """The largest spacing that divides all points, up to rounding; None where that needs too many nodes."""
    positive = points[points > 0.0]
    spacing = float(positive[0])
    for point in positive[1:].tolist():
        small = spacing
        while small > 1e-9 * point:
            point, small = small, abs(point - small * round(point / small))
        spacing = point
        if positive[-1] > _MOST_NODES * spacing:
            return None
    spacing = float(positive[-1]) / round(float(positive[-1]) / spacing)
    places = positive / spacing
    return spacing if np.all(np.abs(places - np.round(places)) <= 1e-12 * places) else None


def _on_nodes(nodes: np.ndarray, points: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The chords at the nodes, rounded up; before the first point the chord from its mirror image."""
    ends, heights = np.concatenate([[-points[0]], points]), np.concatenate([[_mirrored(points[0], values[0])], values])
    if points[0] == 0.0:
        ends, heights = points, values
    at = np.clip(np.searchsorted(ends, nodes, side="right") - 1, 0, max(len(ends) - 2, 0))
    following = np.minimum(at + 1, len(ends) - 1)
    width, step = ends[following] - ends[at], np.clip(nodes - ends[at], 0.0, None)
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.expm1(-np.minimum(step, width)) / np.expm1(-width) * np.exp(np.minimum(step - width, 0.0))
    share = np.clip(np.nan_to_num(share, nan=1.0) - 1e-11, 0.0, 1.0)
    return np.minimum((heights[at] + share * (heights[following] - heights[at])) * (1.0 + 1e-14), 1.0)


def _mirrored(point: float, value: float) -> float:
    """H(e^-eps) = 1 - e^-eps + e^-eps H(e^eps)."""
    return math.exp(-point) * value - math.expm1(-point)


def _dominated(spacing: float, nodes: np.ndarray, points: np.ndarray, upper: np.ndarray, least: np.ndarray | None) -> LatticePair:
    """A pair below: at a node the lower bound of the next point holds, as delta does not increase."""
    if least is None:
        return LatticePair(1.0, np.zeros(1), np.ones(1))
    following = np.searchsorted(points, spacing * nodes, side="left")
    lower = np.where(following < len(points), least[np.minimum(following, len(points) - 1)], 0.0)
    above = np.maximum(_on_nodes(spacing * nodes, points, upper), lower)
    return dominated_pair(spacing, (lower, above), (lower, above), nodes=(nodes, nodes))
