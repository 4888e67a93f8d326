"""Profiles at nodes, their lower convex hull, and the pair whose profile a hull is; see the header of `profile_pair.py`."""

from __future__ import annotations

import dataclasses
import math
from typing import TypeVar

import numpy as np

from dp_edgeworth.losses.node_pair import NodePair

_Pair = TypeVar("_Pair", bound=NodePair)
EPSILON = float(np.finfo(float).eps)
# H is at most 1: above this, the profile of a stored pair differs from it by the rounding of its total mass only.
_ALMOST_ONE = 1.0 - 1e-12


@dataclasses.dataclass(frozen=True)
class Profile:
    """H and H' at increasing losses l: `right` is H(e^l), `left` is H'(e^{-l}); each is exact on its own side, l >= 0 and l <= 0.

    On the other side they follow from H'(x) = 1 - x + x H(1/x), which cancels nothing that matters there.
    """

    losses: np.ndarray
    right: np.ndarray
    left: np.ndarray

    @classmethod
    def of(cls, right_nodes: np.ndarray, right: np.ndarray, left_nodes: np.ndarray, left: np.ndarray) -> Profile:
        """From both sides, each with nodes 0, ... and with the same value at 0."""
        return cls(np.concatenate([-left_nodes[:0:-1], right_nodes]), np.concatenate([mirrored(left_nodes, left)[:0:-1], right]),
                   np.concatenate([left[:0:-1], mirrored(right_nodes, right)]))

    def at(self, kept: np.ndarray) -> Profile:
        """Some of the nodes."""
        return Profile(self.losses[kept], self.right[kept], self.left[kept])

    @property
    def sides(self) -> tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]:
        """Nodes >= 0 and values, of H and of H'."""
        zero = int(np.searchsorted(self.losses, 0.0))
        return (self.losses[zero:], self.right[zero:]), (-self.losses[zero::-1], self.left[zero::-1])

    def raised(self, factor: float, stretch: float) -> Profile:
        """Both sides times a factor, as far as that is possible, and all losses times another one."""
        (right_nodes, right), (left_nodes, left) = self.sides
        return Profile.of(right_nodes * stretch, np.minimum(factor * right, 1.0), left_nodes * stretch, np.minimum(factor * left, 1.0))

    def hull(self) -> np.ndarray:
        """Positions of the vertices of the lower convex hull: a point above the chord of its neighbours is none.

        Such points go at once, but no two neighbours, and then those next to them are looked at again.
        """
        size = len(self.losses)
        before, suspects, after = np.arange(-1, size - 1), np.arange(1, size - 1), np.arange(1, size + 1)
        stays = np.full(size, True)
        while len(suspects):
            above = suspects[~self._bends(before[suspects], suspects, after[suspects])]
            number, first = np.arange(len(above)), ~np.isin(before[above], above)
            above = above[(number - np.maximum.accumulate(np.where(first, number, 0))) % 2 == 0]
            stays[above] = False
            after[before[above]], before[after[above]] = after[above], before[above]
            suspects = np.unique(np.concatenate([before[above], after[above]]))
            suspects = suspects[(suspects > 0) & (suspects < size - 1)]
        return np.flatnonzero(stays)

    def _bends(self, i: np.ndarray, j: np.ndarray, k: np.ndarray) -> np.ndarray:
        """Whether the points j are below the chords from i to k: of H for positive losses, of H' for negative ones, which has the
        weights of the mirror image."""
        before, after = self.losses[j] - self.losses[i], self.losses[k] - self.losses[j]
        to_high = np.expm1(-before) / np.expm1(-before - after) * np.exp(-after)
        to_low = np.expm1(-after) / np.expm1(-before - after) * np.exp(-before)
        rightward = self.right[j] - self.right[k] > (1.0 - to_high) * (self.right[i] - self.right[k])
        leftward = self.left[j] - self.left[i] > (1.0 - to_low) * (self.left[k] - self.left[i])
        return np.asarray(~np.where(self.losses[j] >= 0.0, rightward, leftward))

    def pair(self) -> NodePair:
        """The pair with this profile, which must be convex, constant beyond the last node; up to rounding."""
        rightward = _changes(self.losses, self.right, self.left)
        leftward = _changes(-self.losses[::-1], self.left[::-1], self.right[::-1])[::-1]
        losses, masses = self.losses, np.maximum(np.where(self.losses >= 0.0, rightward, leftward), 0.0)
        if 0.0 not in losses:
            at = int(np.searchsorted(losses, 0.0))
            losses, masses = np.insert(losses, at, 0.0), np.insert(masses, at, 0.0)
        return balanced(NodePair(losses, masses, float(self.left[0]), float(self.right[-1])))

    def with_zero(self) -> Profile:
        """The same with the node 0, on the chord of its neighbours, rounded up."""
        at = int(np.searchsorted(self.losses, 0.0))
        low, high = float(self.losses[at - 1]), float(self.losses[at])
        if high == 0.0:
            return self
        share = math.expm1(low) / math.expm1(low - high) * math.exp(-high)
        value = ((1.0 - share) * self.right[at - 1] + share * self.right[at]) * (1.0 + 8.0 * EPSILON)
        return Profile(*(np.insert(side, at, one) for side, one in ((self.losses, 0.0), (self.right, value), (self.left, value))))

    def largest_ratio(self, pair: NodePair, sign: float) -> float:
        """By which factor less 1 the profile of the pair may miss this one, from below (sign 1) or above (-1).

        Compared where the larger of the two has kinks: in between it is linear, and the other one is below its chords. The error of
        the profile itself is included, so that a result of at most 0 is a proof.
        """
        largest = -1.0
        for found, (nodes, values) in zip(pair.profiles, self.sides, strict=True):
            want, have = (_chords(nodes, values, found.losses), found.sticks) if sign > 0 else (values, found.at(nodes))
            large, small = (side[want < _ALMOST_ONE].astype(np.longdouble) for side in ((want, have) if sign > 0 else (have, want)))
            if np.any((large > small) & (small <= 0.0)):
                return math.inf
            largest = max(largest, float(np.max((large - small)[small > 0.0] / small[small > 0.0], initial=-1.0)))
        return largest * (1.0 + 8.0 * EPSILON) + 8.0 * len(pair.masses) * float(np.finfo(np.longdouble).eps) + 4.0 * EPSILON


def _chords(nodes: np.ndarray, values: np.ndarray, losses: np.ndarray) -> np.ndarray:
    """Values at nodes from 0 on, continued linearly in e^loss, constant beyond the last one; in long doubles."""
    after = np.minimum(np.searchsorted(nodes, losses), len(nodes) - 1)
    before = np.maximum(after - 1, 0)
    gaps, rest = (np.maximum(nodes[after].astype(np.longdouble) - other, 0.0) for other in (nodes[before], losses))
    share = np.expm1(-rest) / np.expm1(-np.where(gaps > 0.0, gaps, 1.0))
    return np.asarray(values[after] + (values[before] - values[after]) * share)


def mirrored(nodes: np.ndarray, values: np.ndarray) -> np.ndarray:
    """H'(e^{-l}) = 1 - e^{-l} + e^{-l} H(e^l), l >= 0."""
    return np.exp(-nodes) * values - np.expm1(-nodes)


def _changes(losses: np.ndarray, values: np.ndarray, mirrored: np.ndarray) -> np.ndarray:
    """x times the change of slope at every vertex x >= 1: the Q-mass there; beyond the last vertex the profile is constant.

    The slope before the first vertex belongs to the line through (0, 1). H(e^{-b}) - H(e^a) = (1 - e^{-b}) (1 - H'(e^b)) + H'(e^b) -
    H(e^a) does not cancel where a and b are small.
    """
    gaps, falls, zero = np.diff(losses), values[:-1] - values[1:], int(np.searchsorted(losses, 0.0))
    if 0 < zero < len(losses):
        falls[zero - 1] = -math.expm1(losses[zero - 1]) * (1.0 - mirrored[zero - 1]) + (mirrored[zero - 1] - values[zero])
    before = np.concatenate([[1.0 - values[0]], falls / -np.expm1(-gaps)])
    with np.errstate(over="ignore"):
        after = np.concatenate([falls / np.expm1(gaps), [0.0]])
    return before - after


def balanced(pair: _Pair) -> _Pair:
    """The atom at loss 0, of which no profile at eps >= 0 knows, is what is left of P."""
    zero, masses = int(np.searchsorted(pair.losses, 0.0)), pair.masses.copy()
    masses[zero] = 0.0
    others = math.fsum(masses * np.exp(-np.maximum(pair.losses, 0.0)))
    masses[zero] = max(1.0 - others - pair.lost_mass, 0.0)
    return dataclasses.replace(pair, masses=masses)


def plane_hull(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The vertices of the lower convex hull of points from left to right."""
    first = np.flatnonzero(np.diff(x, prepend=-np.inf) > 0.0)
    x, y = x[first], np.minimum.reduceat(y, first)
    while len(x) > 2:
        slopes = np.diff(y) / np.diff(x)
        kept = np.concatenate([[True], slopes[:-1] < slopes[1:], [True]])
        if kept.all():
            break
        x, y = x[kept], y[kept]
    return x, y
