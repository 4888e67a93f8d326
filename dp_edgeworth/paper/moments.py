"""Moments of one privacy loss, the absolute ones with both sides of their kink, and of sums of losses.

The bounds of the paper are functions of the standardised moments of every leaf ([EA] Lemma 4.3):

    skewness E c^3, kurtosis E c^4, absolute_first E|c|, absolute_third E|c|^3,    c = (L - E L) / sd,

under P (X, tilt -1) and under Q (Y, tilt 0); what is infinite of L is left out and the rest normalised. |c|^p has a
kink where L crosses its mean, and a rule that does not know it is off by 1e-2 or so. Here a law is atoms (exact) and
pieces on which L is a monotone function of x with a known density (`loss_laws.py`): Gauss-Legendre panels, and the one panel
in which L crosses its mean is cut there. tests/paper/test_moments.py compares with 30 digits.

Leaves of one kind are one array, some hundred at a time, so that a thousand leaves cost a thousand times a few hundred
exponentials and no loop.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dp_edgeworth.losses.gaussian_curve import legendre
from dp_edgeworth.losses.known_moments import PllrMoments, standardised
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import Demand, RuleTooLargeError
from dp_edgeworth.paper.lemma_4_3 import Moments
from dp_edgeworth.paper.loss_laws import NODES, Law, Piece, is_batch, law
from dp_edgeworth.sums.composition import Composition

_CHUNK_NODES = 60_000  # a few arrays of this size fit into the cache


class LeafMoments(NamedTuple):
    """Standard deviation and standardised central moments of one loss.

    A constant has deviation 0. Where the loss varies by less than the rounding of its mean allows, the kurtosis is inf.
    """

    deviation: float
    skewness: float
    kurtosis: float
    absolute_first: float
    absolute_third: float


_CONSTANT = LeafMoments(0.0, 0.0, 1.0, 1.0, 1.0)
_OUT_OF_REACH = _CONSTANT._replace(deviation=1.0, kurtosis=math.inf)


# Quadrature: arrays have one row per member


class _Nodes(NamedTuple):
    """Values of L and log-weights (under P, not normalised), nodes along the last axis."""

    values: np.ndarray
    log_weights: np.ndarray


def _panels(piece: Piece, low: np.ndarray, high: np.ndarray) -> _Nodes:
    """Nodes of the panels [low, high], shape (members, panels)."""
    x, w = legendre(NODES)
    half = 0.5 * (high - low)[..., None]
    points = (low[..., None] + half * (1.0 + x)).reshape(len(low), -1)
    with np.errstate(divide="ignore"):
        log_weights = np.log(half * w).reshape(points.shape)
    return _Nodes(piece.loss(points), piece.log_density(points) + log_weights)


def _crossing(piece: Piece, low: np.ndarray, high: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Where the monotone loss passes the level, to 1e-8 of the panel; the kink makes an error of the square of that."""
    rising = piece.loss(high) > piece.loss(low)
    for _ in range(7):
        grid = low + (high - low) * np.linspace(0.0, 1.0, 15)
        above = (piece.loss(grid) > level) == rising
        above[:, -1] = True
        index = np.maximum(np.argmax(above, axis=1), 1)[:, None]
        low, high = (np.take_along_axis(grid, index - shift, axis=1) for shift in (1, 0))
    return 0.5 * (low + high)


def _cut(piece: Piece, nodes: _Nodes, ends: np.ndarray, level: np.ndarray) -> _Nodes:
    """The same panels, the one in which the loss passes the level replaced by the two sides of it; ends: L at the edges."""
    above = ends > level
    changes = above[:, :-1] != above[:, 1:]
    index = np.argmax(changes, axis=1)[:, None]
    low, high = (np.take_along_axis(piece.edges, index + shift, axis=1) for shift in (0, 1))
    high = np.where(changes.any(axis=1, keepdims=True), high, low)  # no crossing: two sides of length 0
    middle = _crossing(piece, low, high, level)
    sides = _panels(piece, np.concatenate([low, middle], axis=1), np.concatenate([middle, high], axis=1))
    replaced = np.repeat(changes, NODES, axis=1)
    return _joined([nodes._replace(log_weights=np.where(replaced, -np.inf, nodes.log_weights)), sides])


def _joined(parts: Sequence[_Nodes]) -> _Nodes:
    return _Nodes(*(np.concatenate(arrays, axis=1) for arrays in zip(*parts, strict=True)))


def _both_laws(known: Law) -> np.ndarray:
    """Rows of `LeafMoments` under P and under Q, shape (2, members, 5)."""
    parts = [_panels(piece, piece.edges[:, :-1], piece.edges[:, 1:]) for piece in known.pieces]
    ends = [piece.loss(piece.edges) for piece in known.pieces]
    atoms = _Nodes(known.values, known.log_masses)
    smooth, found = _joined([*parts, atoms]), []
    for tilt in (-1.0, 0.0):
        level = _mean(smooth, tilt)
        cut = [_cut(*part, level) for part in zip(known.pieces, parts, ends, strict=True)]
        found.append(_standardised(_joined([*cut, atoms]), tilt))
    return np.array(found)


def _weights(nodes: _Nodes, tilt: float) -> tuple[np.ndarray, np.ndarray]:
    """Values and weights of the tilted law, of sum 1; values without weight are 0."""
    weights = np.exp(nodes.log_weights + (tilt + 1.0) * nodes.values)
    total = weights.sum(axis=1, keepdims=True)
    return np.where(weights > 0.0, nodes.values, 0.0), weights / np.where(total > 0.0, total, 1.0)


def _mean(nodes: _Nodes, tilt: float) -> np.ndarray:
    values, weights = _weights(nodes, tilt)
    return (weights * values).sum(axis=1, keepdims=True)


@np.errstate(over="ignore", invalid="ignore")
def _standardised(nodes: _Nodes, tilt: float) -> np.ndarray:
    """Rows of `LeafMoments`."""
    values, weights = _weights(nodes, tilt)
    scale = np.maximum(np.abs(values).max(axis=1, initial=0.0, keepdims=True), 5e-324)
    values = values / scale
    centred = values - (weights * values).sum(axis=1, keepdims=True)
    sd = np.sqrt((weights * centred**2).sum(axis=1, keepdims=True))
    c = centred / np.where(sd > 0.0, sd, 1.0)
    size, square = np.abs(c), c * c
    third, fourth, first, cube = ((weights * f).sum(axis=1) for f in (c * square, square * square, size, size * square))
    rows = np.stack([(sd * scale)[:, 0], third, np.maximum(fourth, 1.0), np.minimum(first, 1.0), np.maximum(cube, 1.0)], axis=1)
    lost = sd[:, 0] <= 1e-10 * (weights * np.abs(values)).sum(axis=1)  # varies less than the rounding of its mean
    return np.where(_is_constant(values, weights), _CONSTANT, np.where(lost[:, None], _OUT_OF_REACH, rows))


def _is_constant(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Whether all values with weight are the same; also where there are none."""
    used = weights > 0.0
    least = np.where(used, values, np.inf).min(axis=1, initial=np.inf, keepdims=True)
    return np.where(used, values, -np.inf).max(axis=1, initial=-np.inf, keepdims=True) <= least


def _bounded(pllr: Pllr) -> np.ndarray:
    """Of a class whose law is not written out in `loss_laws.py`: absolute moments bounded as in `PllrMoments`."""
    found = []
    for tilt in (-1.0, 0.0):
        rule = pllr.rule(Demand(min(tilt - 3.0, 0.0), tilt + 5.0))
        row = LeafMoments(*_standardised(_Nodes(rule.values, rule.log_weights), tilt)[0])
        found.append([row._replace(absolute_first=1.0, absolute_third=math.sqrt(row.kurtosis))])
    return np.array(found)


def _chunk(members: Sequence[Pllr]) -> np.ndarray:
    """Members of one kind that fit into one array, or a single one; out of reach where a law needs too many nodes."""
    try:
        known = law(members)
    except RuleTooLargeError:
        return np.broadcast_to(np.array(_OUT_OF_REACH), (2, len(members), 5))
    return _bounded(members[0]) if known is None else _both_laws(known)


def _chunk_size(pllr: Pllr) -> int:
    """How many members like this one are evaluated together."""
    try:
        known = law([pllr]) if is_batch(pllr) else None
    except RuleTooLargeError:
        return 1
    return 1 if known is None else max(1, _CHUNK_NODES // max(known.nodes, 1))


@functools.lru_cache(maxsize=64)
def _kind_moments(members: tuple[Any, ...]) -> np.ndarray:
    """`LeafMoments` under P and under Q of members of one kind, shape (2, members, 5)."""
    if all(isinstance(member, PllrMoments) for member in members):
        return np.array([[_of_cumulants(member, tilt) for member in members] for tilt in (-1.0, 0.0)])
    if all(member.gaussian_variance is not None for member in members):
        return np.array([[_gaussian(member.gaussian_variance) for member in members]] * 2)
    result = np.empty((2, len(members), 5))
    order = sorted(range(len(members)), key=lambda i: -members[i].loss_scale)  # similar laws have similar panels
    start = 0
    while start < len(order):
        rows = order[start:start + _chunk_size(members[order[start]])]
        result[:, rows] = _chunk([members[i] for i in rows])
        start += len(rows)
    return result


def _of_cumulants(pllr: PllrMoments, tilt: float) -> LeafMoments:
    """Unknown absolute moments are bounded: E|c| <= 1, E|c|^3 <= sqrt(E c^4)."""
    _, variance, third, fourth = pllr.cumulants(4, tilt)
    known, sd = (pllr.x_absolute_third if tilt == -1.0 else pllr.y_absolute_third), math.sqrt(variance)
    kurtosis = max(standardised(fourth, sd, 4) + 3.0, 1.0)
    absolute_third = math.sqrt(kurtosis) if known is None else standardised(known, sd, 3)
    return LeafMoments(sd, standardised(third, sd, 3), kurtosis, 1.0, absolute_third)


def _gaussian(variance: float) -> LeafMoments:
    first = math.sqrt(2.0 / math.pi)
    return LeafMoments(math.sqrt(variance), 0.0, 3.0, first, 2.0 * first)


def leaf_moments(pllr: Pllr, tilt: float) -> LeafMoments:
    """Moments of X (tilt -1) or Y (tilt 0) of one leaf, relative error at most 1e-10.

    For a class whose law is not written out in `loss_laws.py` the absolute moments are bounded as in `PllrMoments`.

    >>> from dp_edgeworth import GaussianShift
    >>> round(leaf_moments(GaussianShift(2.0), 0.0).absolute_third ** 2 * math.pi, 12)  # E|N(0,1)|^3 = sqrt(8/pi)
    8.0
    """
    return LeafMoments(*map(float, _kind_moments((pllr,))[0 if tilt == -1.0 else 1, 0]))


# Sums


def all_leaves(composition: Composition, tilt: float) -> tuple[np.ndarray, np.ndarray]:
    """Counts, and rows of `LeafMoments`."""
    groups: dict[tuple[type, ...], list[Pllr]] = {}
    for pllr in composition.counts:
        groups.setdefault(pllr.kind, []).append(pllr)
    counts = [float(composition.counts[pllr]) for members in groups.values() for pllr in members]
    side = 0 if tilt == -1.0 else 1
    return np.array(counts), np.concatenate([_kind_moments(tuple(members))[side] for members in groups.values()])


def is_constant(composition: Composition, tilt: float) -> bool:
    """Whether every X (tilt -1) or Y (tilt 0) is a constant."""
    return not all_leaves(composition, tilt)[1][:, 0].any()


def sum_moments(composition: Composition, tilt: float) -> Moments | None:
    """K3, K3~, K4, lambda3 ([EA] Lemma 4.3) of the sum of all X (tilt -1) or Y (tilt 0); None where out of reach."""
    counts, leaves = all_leaves(composition, tilt)
    moving = leaves[:, 0] > 0.0
    deviation, skewness, kurtosis, first, third = leaves[moving].T
    largest = float(deviation.max(initial=0.0))
    if not 1e-150 < largest < 1e150 or not np.all(kurtosis <= 1e100):
        return None
    sd = np.maximum(deviation / largest, 1e-70)
    result = Moments.of_leaves(
        counts[moving], variance=sd**2, third=skewness * sd**3, fourth=kurtosis * sd**4,
        absolute_third=np.maximum(third, np.abs(skewness)) * sd**3, absolute_first=first * sd)
    return dataclasses.replace(result, variance=result.variance * largest**2)
