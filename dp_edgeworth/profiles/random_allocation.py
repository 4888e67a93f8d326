"""One epoch of random allocation as a leaf: alone it is its certified curve, among others a finite pair on a lattice of losses.

The curve is `search.random_allocation`; the pairs above and below it are made by `curve_pairs`. Where there is little noise the pair
below is that of the largest output, which is a post-processing, as of `shuffled_batches`. Where there is so much or so little
noise that a lattice is no use: no amplification above; below the sum of all outputs, a Gaussian of shift v / sqrt t, or the first
output alone, which is Poisson sampling with probability 1/t.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping

import numpy as np

from dp_edgeworth.losses.bracket import Leaf, between
from dp_edgeworth.losses.mechanisms.registry import AR, both
from dp_edgeworth.losses.mechanisms.rounded_pairs import gaussian, normal, sampled_gaussian
from dp_edgeworth.losses.operations import Reversed, reverse
from dp_edgeworth.losses.random_allocation import RandomAllocationLoss
from dp_edgeworth.losses.shuffled_batches import largest_coordinate_pair
from dp_edgeworth.profiles.curve_pairs import LEAST, Side, pair_of_curves
from dp_edgeworth.search.random_allocation import RandomAllocationCurve

_SMALLEST_SHIFT, _LARGEST_SHIFT = 1e-5, 100.0  # of lattices
_LARGEST_COORDINATE, _MOST_STEPS = 30.0, 10**9  # up to where the largest output does for lattices


@functools.lru_cache(maxsize=64)
def _pairs(shift: float, steps: int) -> dict[str, Leaf]:
    """For every direction the pairs above and below."""
    if _SMALLEST_SHIFT <= shift <= _LARGEST_SHIFT:
        curves = [RandomAllocationCurve(shift, steps, direction) for direction in ("remove", "add")]
        remove = pair_of_curves(*map(_side, curves))
        if not curves[0].is_direct and 1.0 < shift <= _LARGEST_COORDINATE and steps <= _MOST_STEPS:
            remove = dataclasses.replace(remove, members=(largest_coordinate_pair(shift, steps, False, without=0.0),))
        return {"remove": remove, "add": reverse(remove)}
    found = gaussian(shift / math.sqrt(steps) * (1.0 - 1e-14)) if shift < 1.0 else sampled_gaussian(shift, 1.0 / steps, AR)
    below = both(found)
    return {"remove": between(normal(shift), below.remove), "add": between(normal(shift), below.add)}


def _side(curve: RandomAllocationCurve) -> Side:
    def bracket(epsilons: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = curve.bounds(epsilons)
        return np.exp(found.lower), np.exp(found.upper)

    return Side(lambda epsilons: bracket(epsilons)[1], bracket, exact=True, end=curve.reach(math.log(LEAST)))


def among_others(loss: Leaf) -> Leaf:
    """The loss as it is composed: an epoch by the pair above its curve, everything else as it is."""
    if isinstance(loss, Reversed) and isinstance(loss.inner, RandomAllocationLoss):
        loss = loss.inner.mirror_image
    if not isinstance(loss, RandomAllocationLoss):
        return loss
    return _pairs(loss.shift, loss.steps)[loss.direction]


def unamplified(loss: Leaf) -> Leaf:
    """What dominates an epoch whichever batch the record is in; everything else as it is."""
    inner = loss.inner if isinstance(loss, Reversed) else loss
    return normal(inner.shift) if isinstance(inner, RandomAllocationLoss) else loss


def composable(table: Mapping[Leaf, int]) -> dict[Leaf, int]:
    """What was composed in one direction, with a rule for every loss; one epoch alone stays what it is."""
    if list(table.values()) == [1]:
        alone, = table
        inner = alone.inner.mirror_image if isinstance(alone, Reversed) and isinstance(alone.inner, RandomAllocationLoss) else alone
        return {inner: 1}
    result: dict[Leaf, int] = {}
    for loss, count in table.items():
        pair = among_others(loss)
        result[pair] = result.get(pair, 0) + count
    return result
