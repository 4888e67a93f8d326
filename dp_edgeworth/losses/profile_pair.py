"""From a profile to a finite pair that dominates, and to one that is dominated.

For a pair (P, Q) with R = dQ/dP and x = e^eps let H(x) = E_P[(R - x)_+] + Q(R = inf), its profile in the direction "remove". It is
convex, non-increasing, H(0) = 1 and H(x) >= (1 - x)_+, and every such function is a profile. "add" has H'(x) = 1 - x + x H(1/x), so
values of both directions at eps >= 0 are values of H at eps of both signs:

    right(j) = H(e^{j a}), j >= 0,        left(j) = H'(e^{j a}), j >= 0,        and right(0) = left(0).

Nothing is ever subtracted from 1: that is what makes masses of 1e-18 in the far left tail come out right.

Upper side (`dominating_pair`). H lies below the chord of any two points that are above it. So the lower convex hull of upper bounds at
nodes, constant beyond the last node on either side, is a profile above H; it is that of the pair with P(R = x_j) = change of slope at
x_j (connect-the-dots: Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022). Any subset of the nodes would do, so rounding in the choice
of the hull's vertices is harmless.

Lower side (`dominated_pair`). With l <= H <= u at nodes, the chord from (x_{j-1}, u) to (x_j, l), extrapolated to the right, and the
one from (x_{j+1}, l) to (x_{j+2}, u), extrapolated to the left, are below H on [x_j, x_{j+1}]; so is any line below the larger of the
two. One such line T per cell gives w_j = the smaller of the two T of the adjacent cells at x_j: between two nodes the interpolation of
w is below T, so below H, and the lower convex hull of w is a profile below H with all its kinks at nodes. (A chord through the l_j is
not below H.)

Rounding. Masses are floats, so the stored pair has a profile of its own, which `lattice_pair.node_profile` computes from sums of
positive terms. If it falls short of the hull, the upper bounds are raised by a little more than that factor and the pair is made
anew; should that not help (randomised response has nothing to spare), a public coin of weight eta reveals everything, which adds
eta (1 - H). Downwards there is always room: a coin that reveals nothing. The atom at loss 0, which no profile at eps >= 0 looks at,
takes what is left of P.

By the composition theorem for dominating pairs (Zhu, Dong, Wang 2022) the pairs take the place of the mechanism in any adaptive
composition.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from dp_edgeworth.losses.lattice_pair import LatticePair, node_profile

_EPSILON = float(np.finfo(float).eps)
_LEAST = 1e-290  # smaller values are rounded: up to it, or down to 0
_ATTEMPTS = 4
_LARGEST_LOSS = 600.0  # of a dominated pair: larger ones are left out


def dominating_pair(spacing: float, remove: np.ndarray, add: np.ndarray, below: LatticePair | None = None) -> LatticePair:
    """A pair with losses j * spacing that dominates whatever has delta(j * spacing) <= remove[j], and <= add[j] in the other direction.

    Args:
      spacing: of the losses.
      remove: upper bounds of delta in the direction "remove" at epsilon = 0, spacing, 2 spacing, ...
      add: the same for the direction "add", maybe another number of them.
      below: a pair that the mechanism dominates, which becomes the pair's `dominated`.

    >>> import math, numpy as np
    >>> pair = dominating_pair(1.0, np.array([math.tanh(0.5), 0.0]), np.array([math.tanh(0.5), 0.0]))  # pure DP with epsilon 1
    >>> [round(mass, 6) for mass in pair.masses.tolist()]  # randomised response
    [0.731059, 0.0, 0.731059]
    """
    right, left = (_lifted(np.minimum.accumulate(np.clip(np.asarray(side, float), 0.0, 1.0))) for side in (remove, add))
    right[0] = left[0] = min(right[0], left[0])
    right, left = np.minimum(right, right[0]), np.minimum(left, left[0])
    return dataclasses.replace(_raised(spacing, right, left), below=below)


def dominated_pair(spacing: float, remove: tuple[np.ndarray, np.ndarray], add: tuple[np.ndarray, np.ndarray], finer: int = 1,
                   infinite: tuple[float, float] = (0.0, 0.0)) -> LatticePair:
    """A pair with losses j * spacing that is dominated by whatever has its delta between the given bounds.

    Args:
      spacing: of the losses.
      remove: lower and upper bounds of delta in the direction "remove" at epsilon = 0, h, 2 h, ..., h = spacing / finer.
      add: the same for the direction "add".
      finer: how many steps of the bounds are one step of the losses; the lower side gains from 2 or more.
      infinite: lower bounds of delta at infinite epsilon, "remove" and "add".
    """
    sides = [_bracketed(side, floor) for side, floor in zip((remove, add), infinite, strict=True)]
    zero = max(side[0][0] for side in sides), min(side[1][0] for side in sides)
    for lower, upper in sides:
        lower[0], upper[0] = min(zero), zero[1]
    right, left = (_support_values(spacing, one, other, finer, floor)
                   for one, other, floor in zip(sides, sides[::-1], infinite, strict=True))
    right[0] = left[0] = min(right[0], left[0])
    right, left = np.minimum.accumulate(right), np.minimum.accumulate(left)
    pair = _pair(spacing, right, left, _hull(spacing, right, left))
    excess = _largest_ratio(pair, [(right, np.arange(len(right))), (left, np.arange(len(left)))], -1.0)
    return _lowered(pair, excess)


def _lifted(values: np.ndarray) -> np.ndarray:
    """Positive values that are hardly floats, rounded up; only the first of them is kept."""
    values = np.where((values > 0.0) & (values < _LEAST), _LEAST, values)
    return values[:np.flatnonzero(values == values[-1])[0] + 1].copy()


def _facing(spacing: float, values: np.ndarray, other: np.ndarray, indices: np.ndarray) -> np.ndarray:
    """H at e^{j a} for indices j of both signs: H'(x) = 1 - x + x H(1/x) where j < 0."""
    losses = spacing * np.minimum(indices, 0)
    mirrored = np.exp(losses) * other[np.maximum(-indices, 0)] - np.expm1(losses)
    return np.where(indices >= 0, values[np.maximum(indices, 0)], mirrored)


def _hull(spacing: float, right: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Indices of the vertices of the lower convex hull, from the left.

    A point above the chord of its neighbours is no vertex, so all of these can go at once. Chords are compared at the middle point j
    in terms of H for j >= 0 and of H' for j < 0, which has the weights of the mirror image.
    """
    indices = np.arange(1 - len(left), len(right))
    facing_right = _facing(spacing, right, left, indices)
    facing_left = _facing(spacing, left, right, -indices)
    while True:
        low, mid, high = indices[:-2], indices[1:-1], indices[2:]
        before, after, all_over = (-np.expm1(-spacing * gap) for gap in (mid - low, high - mid, high - low))
        to_high = before / all_over * np.exp(-spacing * (high - mid))
        to_low = after / all_over * np.exp(-spacing * (mid - low))
        rightward = facing_right[1:-1] - facing_right[2:] > (1.0 - to_high) * (facing_right[:-2] - facing_right[2:])
        leftward = facing_left[1:-1] - facing_left[:-2] > (1.0 - to_low) * (facing_left[2:] - facing_left[:-2])
        kept = np.concatenate([[True], ~np.where(mid >= 0, rightward, leftward), [True]])
        if kept.all():
            return indices
        indices, facing_right, facing_left = indices[kept], facing_right[kept], facing_left[kept]


def _pair(spacing: float, right: np.ndarray, left: np.ndarray, hull: np.ndarray) -> LatticePair:
    """The pair whose profile has these vertices, up to rounding."""
    masses = np.zeros(hull[-1] - hull[0] + 1)
    rightward = _changes(spacing, _facing(spacing, right, left, hull), hull)
    leftward = _changes(spacing, _facing(spacing, left, right, -hull)[::-1], -hull[::-1])[::-1]
    masses[hull - hull[0]] = np.maximum(np.where(hull >= 0, rightward, leftward), 0.0)
    return LatticePair(spacing, int(hull[0]), masses, float(left[-hull[0]]), float(right[hull[-1]]))


def _changes(spacing: float, values: np.ndarray, hull: np.ndarray) -> np.ndarray:
    """x_j times the change of slope at every vertex: the Q-mass there; beyond the last vertex the profile is constant.

    The slope before the first vertex belongs to the line through (0, 1).
    """
    gaps = spacing * np.diff(hull)
    falls = values[:-1] - values[1:]
    before = np.concatenate([[1.0 - values[0]], falls / -np.expm1(-gaps)])
    with np.errstate(over="ignore"):
        after = np.concatenate([falls / np.expm1(gaps), [0.0]])
    return before - after


def _largest_ratio(pair: LatticePair, wanted: list[tuple[np.ndarray, np.ndarray]], sign: float) -> float:
    """By which factor less 1 the profile of the stored pair may miss the wanted values, from below (sign 1) or above (-1).

    The error of the profile itself is included, so that a result of at most 0 is a proof."""
    sides = [(pair.indices, pair.masses, pair.infinite_mass), (-pair.indices[::-1], pair.masses[::-1], pair.lost_mass)]
    largest = -1.0
    for (where, mass, beyond), (values, nodes) in zip(sides, wanted, strict=True):
        found, _ = node_profile(pair.spacing, where, mass, beyond)
        nodes = nodes[nodes < len(found)]
        want, have = values[nodes].astype(np.longdouble), found[nodes]
        large, small = (want, have) if sign > 0 else (have, want)
        above = large > small
        if np.any(above & (small <= 0.0)):
            return math.inf
        margin = (large - small)[small > 0.0] / small[small > 0.0]
        largest = max(largest, float(np.max(margin, initial=-1.0)))
    return largest * (1.0 + 8.0 * _EPSILON) + 4.0 * len(pair.masses) * float(np.finfo(np.longdouble).eps) + _EPSILON


def _raised(spacing: float, right: np.ndarray, left: np.ndarray) -> LatticePair:
    """A pair whose own profile is nowhere below the hull: the bounds are raised until it is, see the header."""
    factor, missing = 1.0, 0.0
    for _ in range(_ATTEMPTS):
        high, low = np.minimum(factor * right, 1.0), np.minimum(factor * left, 1.0)
        hull = _hull(spacing, high, low)
        pair = _balanced(_pair(spacing, high, low, hull))
        missing = _largest_ratio(pair, _vertices(spacing, right, left, hull), 1.0)
        if missing <= 0.0:
            return pair
        factor += 2.0 * missing
    eta = min(missing, 1.0)
    lost, infinite = (mass + eta * (1.0 - mass) for mass in (pair.lost_mass, pair.infinite_mass))
    return dataclasses.replace(pair, masses=pair.masses * (1.0 - eta), lost_mass=lost, infinite_mass=infinite)


def _vertices(spacing: float, right: np.ndarray, left: np.ndarray, hull: np.ndarray) -> list[tuple[np.ndarray, np.ndarray]]:
    """The values that the profile must reach at the vertices of either side, and at 0."""
    after = int(np.searchsorted(hull, 0))
    zero = right[0]
    if 0 < after < len(hull) and hull[after] > 0:
        low, high = int(hull[after - 1]), int(hull[after])
        share = math.expm1(spacing * low) / math.expm1(-spacing * (high - low)) * math.exp(-spacing * high)
        ends = _facing(spacing, right, left, np.array([low, high]))
        zero = min(zero, ((1.0 - share) * ends[0] + share * ends[1]) * (1.0 + 8.0 * _EPSILON))
    return [(np.append(zero, side[1:]), np.unique(np.append(nodes[nodes >= 0], 0)))
            for side, nodes in ((right, hull), (left, -hull))]


def _lowered(pair: LatticePair, rho: float) -> LatticePair:
    """The pair with a coin of weight rho that reveals nothing."""
    share = min(max(rho, 0.0), 1.0)
    start, stop = min(pair.first, 0), max(pair.first + len(pair.masses), 1)
    masses = np.zeros(stop - start)
    masses[pair.first - start:pair.first - start + len(pair.masses)] = pair.masses * (1.0 - share)
    return _balanced(LatticePair(pair.spacing, start, masses, pair.lost_mass * (1.0 - share), pair.infinite_mass * (1.0 - share)))


def _balanced(pair: LatticePair) -> LatticePair:
    """The atom at loss 0, of which no profile at eps >= 0 knows, is what is left of P."""
    masses = pair.masses.copy()
    masses[-pair.first] = 0.0
    others = math.fsum(masses * np.exp(-pair.spacing * np.maximum(pair.indices, 0)))
    masses[-pair.first] = max(1.0 - others - pair.lost_mass, 0.0)
    return dataclasses.replace(pair, masses=masses)


def _bracketed(bounds: tuple[np.ndarray, np.ndarray], floor: float) -> tuple[np.ndarray, np.ndarray]:
    """Both bounds monotone and possible; tiny lower bounds are rounded down."""
    lower, upper = (np.clip(np.asarray(side, float), 0.0, 1.0) for side in bounds)
    lower = np.maximum.accumulate(np.where(lower < _LEAST, 0.0, lower)[::-1])[::-1]
    return np.maximum(lower, floor), np.maximum(np.minimum.accumulate(upper), floor)


def _support_values(spacing: float, side: tuple[np.ndarray, np.ndarray], other: tuple[np.ndarray, np.ndarray], finer: int,
                    floor: float) -> np.ndarray:
    """w of the module's header at 0, spacing, 2 spacing, ... on one side: T is the line of the lower hull in the middle of the cell."""
    cells = min(len(side[0]) - 1, int(_LARGEST_LOSS / spacing * finer)) // finer
    if not cells:
        return np.array([floor])
    kinks, values = _below(spacing / finer, [part[:cells * finer + 1] for part in side], other)
    slopes = np.diff(values) / np.diff(kinks)
    starts, width = np.exp(spacing * np.arange(cells)), math.exp(spacing)
    at = np.clip(np.searchsorted(kinks, starts * 0.5 * (1.0 + width), side="right") - 1, 0, len(slopes) - 1)
    height, slope = values[at] - 16.0 * _EPSILON * (values[at] + np.abs(slopes[at]) * starts * width), slopes[at]
    at_start, at_end = height + slope * (starts - kinks[at]), height + slope * (starts * width - kinks[at])
    flat = at_end <= floor  # the line would leave what is possible: the constant is below H, too
    at_start, at_end = np.where(flat, floor, at_start), np.where(flat, floor, at_end)
    nodes = np.minimum(np.append(at_start, floor), np.concatenate([[1.0], at_end]))
    return np.maximum(nodes, floor)


def _below(fine: float, side: list[np.ndarray], other: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """The vertices (x, y) of a convex function below H on [1, e^{last}].

    Between two nodes the two extrapolated chords are compared where they cross. The smaller of both there is on the safe side wherever
    that point is taken to be: from it either chord, or something below it, leads to its own node.
    """
    (lower, upper), count = side, len(side[0]) - 1
    before = np.concatenate([_facing(fine, upper, other[1], np.array([-1])) if len(other[1]) > 1 else [1.0], upper[:-2]])
    after = np.append(upper[2:], lower[-1])
    grow, back = math.expm1(fine), -math.expm1(-fine)
    falling = np.minimum(lower[:-1] - before, 0.0) / back  # slopes in units of x_j
    rising = np.minimum(after - lower[1:], 0.0) / (grow * math.exp(fine))
    steeper = rising > falling
    gap = np.where(steeper, rising - falling, 1.0)
    crossing = np.clip(np.where(steeper, (lower[:-1] - lower[1:] + rising * grow) / gap, 0.5 * grow), 0.0, grow)
    crossing = np.where((crossing > 1e-3 * grow) & (crossing < 0.999 * grow), crossing, 0.5 * grow)
    dip = np.minimum(lower[:-1] + falling * crossing, lower[1:] - rising * (grow - crossing))
    dip = dip - 16.0 * _EPSILON * (lower[:-1] + (np.abs(falling) + np.abs(rising)) * grow)
    starts = np.exp(fine * np.arange(count))
    x = np.append(np.stack([starts, starts * (1.0 + crossing)], axis=1).ravel(), math.exp(fine * count))
    y = np.append(np.stack([lower[:-1], dip], axis=1).ravel(), lower[-1])
    return _plane_hull(x, y)


def _plane_hull(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The vertices of the lower convex hull of points from left to right."""
    while len(x) > 2:
        slopes = np.diff(y) / np.diff(x)
        kept = np.concatenate([[True], slopes[:-1] < slopes[1:], [True]])
        if kept.all():
            break
        x, y = x[kept], y[kept]
    return x, y
