"""From a profile to a finite pair that dominates, and to one that is dominated.

For a pair (P, Q) with R = dQ/dP and x = e^eps let H(x) = E_P[(R - x)_+] + Q(R = inf), its profile in the direction "remove". It is
convex, non-increasing, H(0) = 1 and H(x) >= (1 - x)_+, and every such function is a profile. "add" has H'(x) = 1 - x + x H(1/x), so
values of both directions at eps >= 0 are values of H at eps of both signs:

    right(l) = H(e^l), l >= 0,        left(l) = H'(e^l), l >= 0,        and right(0) = left(0).

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

Rounding. Masses are floats, so the stored pair has a profile of its own, which `finite_pair.NodeProfile` computes from sums of
positive terms. If it falls short of the hull, the upper bounds are raised by a little more than that factor and the pair is made
anew; should that not help (randomised response has nothing to spare), the losses are also moved outwards by a share of themselves, as
small as will do, since bounds at an epsilon hold at larger ones; and after that a public coin of weight eta reveals everything, which
adds eta (1 - H). Downwards there is always room: a coin that reveals nothing. The atom at loss 0, which no profile at eps >= 0 looks
at, takes what is left of P.

By the composition theorem for dominating pairs (Zhu, Dong, Wang 2022) the pairs take the place of the mechanism in any adaptive
composition.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from dp_edgeworth.losses.node_pair import NodePair
from dp_edgeworth.losses.profile_hull import EPSILON, Profile, balanced, mirrored, plane_hull

_LEAST = 1e-290  # smaller values are rounded: up to it, or down to 0
_STRETCHES = (1.0, 1.0, 1.0, *(1.0 + 4e-15 * 4.0**i for i in range(20)))
_FURTHEST = 1e100  # losses of a pair above, so that sums of them are floats
_LARGEST_LOSS = 600.0  # of a dominated pair: larger ones are left out
Nodes = tuple[np.ndarray, np.ndarray]
Bracket = tuple[np.ndarray, np.ndarray]


def dominating_pair(nodes: Nodes, remove: np.ndarray, add: np.ndarray) -> NodePair:
    """A pair with these losses that dominates whatever has at most these deltas there.

    Args:
      nodes: epsilons for "remove" and for "add", 0 first and increasing.
      remove: upper bounds of delta in the direction "remove" at the first of these.
      add: the same for the direction "add" at the others.

    >>> import math, numpy as np
    >>> nodes, deltas = np.array([0.0, 1.0]), np.array([math.tanh(0.5), 0.0])  # pure DP with epsilon 1
    >>> pair = dominating_pair((nodes, nodes), deltas, deltas)
    >>> [round(mass, 6) for mass in pair.masses.tolist()]  # randomised response
    [0.731059, 0.0, 0.731059]
    """
    values = [np.minimum.accumulate(np.clip(np.asarray(side, float), 0.0, 1.0)) for side in (remove, add)]
    zero = min(*(side[0] for side in values), _largest_end(nodes, values) * (1.0 + 8.0 * EPSILON))
    sides: list[np.ndarray] = []
    for side, places in zip(values, nodes, strict=True):
        lifted = np.where((side > 0.0) & (side < _LEAST), _LEAST, np.minimum(side, zero))
        near = int(np.searchsorted(places, _FURTHEST, side="right"))
        kept = np.flatnonzero(lifted == lifted[near - 1])[0] + 1  # from there on it is constant
        sides += [places[:kept], lifted[:kept]]
    return _raised(Profile.of(*sides))


def _raised(profile: Profile) -> NodePair:
    """A pair whose own profile is nowhere below the hull: the bounds are raised until it is, see the header."""
    vertices, missing, factor = profile.at(profile.hull()).with_zero(), 0.0, 1.0
    for stretch in _STRETCHES:
        higher = vertices.raised(factor, stretch)
        pair = higher.at(higher.hull()).pair()
        missing = vertices.largest_ratio(pair, 1.0)
        if missing <= 0.0:
            return pair
        factor += 2.0 * min(missing, 1.0) if stretch == 1.0 else 0.0
    eta = min(missing, 1.0)
    lost, infinite = (mass + eta * (1.0 - mass) for mass in (pair.lost_mass, pair.infinite_mass))
    return dataclasses.replace(pair, masses=pair.masses * (1.0 - eta), lost_mass=lost, infinite_mass=infinite)


def subdivided(nodes: np.ndarray, finer: int) -> np.ndarray:
    """Every step between two nodes in equal parts: where `dominated_pair` wants its bounds."""
    steps = np.arange(finer) / finer
    return np.append((nodes[:-1, None] + np.diff(nodes)[:, None] * steps).ravel(), nodes[-1])


def dominated_pair(nodes: Nodes, remove: Bracket, add: Bracket, finer: int = 1, infinite: tuple[float, float] = (0.0, 0.0)) -> NodePair:
    """A pair with these losses that is dominated by whatever has its delta between the given bounds.

    Args:
      nodes: epsilons for "remove" and for "add", 0 first and increasing.
      remove: lower and upper bounds of delta in the direction "remove" at subdivided(nodes[0], finer).
      add: the same for the direction "add", at subdivided(nodes[1], finer).
      finer: how many steps of the bounds are one step of the losses; the lower side gains from 2 or more.
      infinite: lower bounds of delta at infinite epsilon, "remove" and "add".
    """
    points = [subdivided(side, finer) for side in nodes]
    brackets = [_bracketed(side, len(at), floor) for side, at, floor in zip((remove, add), points, infinite, strict=True)]
    zero = max(side[0][0] for side in brackets), min(side[1][0] for side in brackets)
    for lower, upper in brackets:
        lower[0], upper[0] = min(zero), zero[1]
    values = [_support_values(nodes[i], points[i], brackets[i], (points[1 - i], brackets[1 - i]), finer, infinite[i])
              for i in (0, 1)]
    used = nodes[0][:len(values[0])], nodes[1][:len(values[1])]
    most = min(values[0][0], values[1][0], _largest_end(used, values) * (1.0 - 8.0 * EPSILON))
    values = [np.minimum.accumulate(np.minimum(side, most)) for side in values]
    profile = Profile.of(used[0], values[0], used[1], values[1])
    pair = profile.at(profile.hull()).pair()
    share = min(max(profile.largest_ratio(pair, -1.0), 0.0), 1.0)
    return balanced(dataclasses.replace(pair, masses=pair.masses * (1.0 - share), lost_mass=pair.lost_mass * (1.0 - share),
                                        infinite_mass=pair.infinite_mass * (1.0 - share)))


def _largest_end(nodes: Nodes, values: list[np.ndarray]) -> float:
    """H and H' fall, so at their ends they are at most what they are, mirrored, on the other side: else hulls have more mass than 1."""
    return min(float(mirrored(places, side).min()) for places, side in zip(nodes, values, strict=True))


def _bracketed(bounds: Bracket, size: int, floor: float) -> Bracket:
    """Both bounds monotone and possible; tiny lower bounds are rounded down."""
    lower, upper = (np.clip(np.asarray(side, float)[:size], 0.0, 1.0) for side in bounds)
    lower = np.maximum.accumulate(np.where(lower < _LEAST, 0.0, lower)[::-1])[::-1]
    return np.maximum(lower, floor), np.maximum(np.minimum.accumulate(upper), floor)


def _support_values(nodes: np.ndarray, points: np.ndarray, side: Bracket, other: tuple[np.ndarray, Bracket], finer: int,
                    floor: float) -> np.ndarray:
    """w of the module's header at the nodes of one side: T is the line of the lower hull in the middle of the cell."""
    cells = min(len(nodes) - 1, max(int(np.searchsorted(nodes, _LARGEST_LOSS)) - 1, 0))
    if not cells:
        return np.array([floor])
    size = cells * finer + 1
    kinks, values = _below(points[:size], (side[0][:size], side[1][:size]), other)
    slopes = np.diff(values) / np.diff(kinks)
    starts, ends = np.expm1(nodes[:cells]), np.expm1(nodes[1:cells + 1])
    at = np.clip(np.searchsorted(kinks, 0.5 * (starts + ends), side="right") - 1, 0, len(slopes) - 1)
    height, slope = values[at] - 16.0 * EPSILON * (values[at] + np.abs(slopes[at]) * ends), slopes[at]
    at_start, at_end = height + slope * (starts - kinks[at]), height + slope * (ends - kinks[at])
    flat = at_end <= floor  # the line would leave what is possible: the constant is below H, too
    at_start, at_end = np.where(flat, floor, at_start), np.where(flat, floor, at_end)
    return np.maximum(np.minimum(np.append(at_start, floor), np.concatenate([[1.0], at_end])), floor)


def _below(points: np.ndarray, side: Bracket, other: tuple[np.ndarray, Bracket]) -> tuple[np.ndarray, np.ndarray]:
    """The vertices (x - 1, y) of a convex function below H on [1, e^{last point}].

    Between two nodes the two extrapolated chords are compared where they cross. The smaller of both there is on the safe side wherever
    that point is taken to be: from it either chord, or something below it, leads to its own node.
    """
    lower, upper = side
    gap_before, before = _left_neighbour(*other)
    gaps = np.diff(points)
    grow = np.expm1(gaps)
    falling = np.minimum(lower[:-1] - np.append(before, upper[:-2]), 0.0) / -np.expm1(-np.append(gap_before, gaps[:-1]))
    rising = np.append(np.minimum(upper[2:] - lower[1:-1], 0.0) / (grow[1:] * np.exp(gaps[:-1])), 0.0)  # slopes in units of x_j
    steeper = rising > falling
    crossing = np.where(steeper, (lower[:-1] - lower[1:] + rising * grow) / np.where(steeper, rising - falling, 1.0), 0.5 * grow)
    crossing = np.where((crossing > 1e-3 * grow) & (crossing < 0.999 * grow), crossing, 0.5 * grow)
    dip = np.minimum(lower[:-1] + falling * crossing, lower[1:] - rising * (grow - crossing))
    dip = dip - 16.0 * EPSILON * (lower[:-1] + (np.abs(falling) + np.abs(rising)) * grow)
    starts = np.expm1(points)
    x = np.append(np.stack([starts[:-1], starts[:-1] + np.exp(points[:-1]) * crossing], axis=1).ravel(), starts[-1])
    y = np.append(np.stack([lower[:-1], dip], axis=1).ravel(), lower[-1])
    return plane_hull(x, y)


def _left_neighbour(points: np.ndarray, bracket: Bracket) -> tuple[float, float]:
    """The node before 0: its distance, and the upper bound of H there, by the mirror identity; H <= 1 where there is none."""
    if len(points) < 2:
        return 1.0, 1.0
    gap = float(points[1])
    return gap, float(math.exp(-gap) * bracket[1][1] - math.expm1(-gap)) * (1.0 + 4.0 * EPSILON)
