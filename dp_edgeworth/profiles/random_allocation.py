"""One epoch of random allocation as a leaf: alone it is its certified curve, among others a finite pair on a lattice of losses.

The curve is `search.random_allocation`. From its values at nodes follow a pair that dominates and one that is dominated
(`losses.profile_pair`). A pair on a lattice of spacing g has a variance of the loss that is too large by about g^2/6, and the one below
too small by as much: g is a small share of the deviation of the loss. Nodes are dense near 0 and their distance grows in proportion to
epsilon from there on.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from dp_edgeworth.losses.lattice_pair import LatticePair
from dp_edgeworth.losses.operations import Reversed
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.profile_pair import dominated_pair, dominating_pair, subdivided
from dp_edgeworth.losses.random_allocation import RandomAllocationLoss
from dp_edgeworth.search.random_allocation import RandomAllocationCurve

_SHARE = 0.03  # of the deviation of the loss
_LOG_LEAST = -55.0  # log delta at the last node
_DENSE = 1024
_FINER = 2
_LARGEST_INDEX = 80_000  # of a lattice that `lattice_spacing` accepts


class _Profile(NamedTuple):
    """Bounds of delta of "remove" and of "add" at the nodes of a lattice and between them."""

    spacing: float
    nodes: tuple[np.ndarray, np.ndarray]
    brackets: tuple[tuple[np.ndarray, np.ndarray], tuple[np.ndarray, np.ndarray]]


@functools.lru_cache(maxsize=64)
def _profile(shift: float, steps: int) -> _Profile:
    curves = [RandomAllocationCurve(shift, steps, direction) for direction in ("remove", "add")]
    ends = [_end(curve) for curve in curves]
    deviation = math.sqrt(max(sum(_second_moment(curve, end) for curve, end in zip(curves, ends, strict=True)), 1e-300))
    spacing = 2.0 ** math.floor(math.log2(max(min(_SHARE * deviation, max(ends) / 64.0), max(ends) / _LARGEST_INDEX)))
    nodes = [graded_nodes(math.ceil(end / spacing)) for end in ends]
    logs = [curve.bounds(spacing * subdivided(places, _FINER)) for curve, places in zip(curves, nodes, strict=True)]
    brackets = [(np.exp(log.lower), np.exp(log.upper)) for log in logs]
    return _Profile(spacing, (nodes[0], nodes[1]), (brackets[0], brackets[1]))


@functools.lru_cache(maxsize=64)
def _pair(shift: float, steps: int, direction: str) -> LatticePair:
    """The pair above with the one below as its `dominated`."""
    spacing, nodes, brackets = _profile(shift, steps)
    if direction == "add":
        nodes, brackets = (nodes[1], nodes[0]), (brackets[1], brackets[0])
    below = dominated_pair(spacing, brackets[0], brackets[1], _FINER, nodes=nodes)
    return dominating_pair(spacing, brackets[0][1][::_FINER], brackets[1][1][::_FINER], below, nodes=nodes)


def graded_nodes(last: int) -> np.ndarray:
    """0, 1, 2, ... up to 1024, then steps of 2 up to 2048, of 4 up to 4096, and so on; `last` is the last one or passed."""
    parts, start, step = [np.arange(min(last, _DENSE) + 1)], _DENSE, 2
    while start < last:
        parts.append(np.arange(start + step, 2 * start + 1, step))
        start, step = 2 * start, 2 * step
    nodes = np.concatenate(parts)
    return nodes[:int(np.searchsorted(nodes, last)) + 1]


def _end(curve: RandomAllocationCurve) -> float:
    """An epsilon from which on delta is negligible."""
    low, high = 0.0, max(min(curve.deviation, 1.0), 1e-300)
    while float(curve.bounds(np.array([high])).upper[0]) > _LOG_LEAST and high < 1e6:
        low, high = high, 2.0 * high
    for _ in range(6):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if float(curve.bounds(np.array([middle])).upper[0]) > _LOG_LEAST else (low, middle)
    return high


def _second_moment(curve: RandomAllocationCurve, end: float) -> float:
    """A share of E_P[L^2] = int f''(x) (H(x) - (1-x)_+) dx, f = log^2: that of one sign of L, roughly, to choose the spacing."""
    eps = np.geomspace(1e-6 * end, end, 120)
    weight = 2.0 * (1.0 - eps) * np.exp(-eps) if curve.direction == "remove" else 2.0 * (1.0 + eps)
    return float(np.trapezoid(np.maximum(weight, 0.0) * np.exp(curve.bounds(eps).estimate) * eps, np.log(eps)))


def among_others(loss: Pllr) -> Pllr:
    """The loss as it is composed: an epoch by the pair above its curve, everything else as it is."""
    if isinstance(loss, Reversed) and isinstance(loss.inner, RandomAllocationLoss):
        loss = loss.inner.mirror_image
    return _pair(loss.shift, loss.steps, loss.direction) if isinstance(loss, RandomAllocationLoss) else loss


def composable(table: Mapping[Pllr, int]) -> dict[Pllr, int]:
    """What was composed in one direction, with a rule for every loss; one epoch alone stays what it is."""
    if list(table.values()) == [1]:
        alone, = table
        inner = alone.inner.mirror_image if isinstance(alone, Reversed) and isinstance(alone.inner, RandomAllocationLoss) else alone
        return {inner: 1}
    return replaced(table)


def replaced(table: Mapping[Pllr, int]) -> dict[Pllr, int]:
    """The same without that exception."""
    result: dict[Pllr, int] = {}
    for loss, count in table.items():
        pair = among_others(loss)
        result[pair] = result.get(pair, 0) + count
    return result
