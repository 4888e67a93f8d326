"""A leaf that is known by a Renyi curve, maybe beside a pair; and what a composition with such leaves is.

Curves are added first, then become one profile, then one pair (`renyi_curves`, `profile_pair`). That pair may be composed with the
pairs of all other leaves in whatever order they ran: a leaf with a fixed dominating pair is a draw from that pair, which depends on
nothing that came before, followed by a kernel that does not see the data (Blackwell); the draws can be made first, and given them the
Renyi leaves are one adaptive composition with the curve sum k_i. Required: kinds, pairs, curves and counts fixed in advance; every
pair and every curve holds for every history.

A leaf that has both, a pair and a curve, counts as either: two valid upper ends, of which the smaller one is kept.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping

import numpy as np

from dp_edgeworth.losses.lattice_pair import LatticePair
from dp_edgeworth.losses.pllr import Demand, Pllr, Rule
from dp_edgeworth.losses.profile_pair import dominating_pair
from dp_edgeworth.losses.renyi_curves import RenyiCurve, SumOfCurves, epsilon_of, log_profile

_NODES, _MOST_NODES = 2048, 8192
_LOG_USUAL, _LOG_LEAST = -45.0, -660.0  # profiles as small as the first are met often; below the second there are hardly floats


@dataclasses.dataclass(frozen=True)
class RenyiLeaf(Pllr):
    """One use of a mechanism that is known by a curve, in either direction.

    Attributes:
      curve: the Renyi curve.
      pair: a pair that dominates it as well, or None.
      below: a mechanism of the class, for the lower end.
      others: more mechanisms of the class, one of which may have more loss at some epsilon.
      attained: whether `pair` is, for one use, the largest delta of the class at every epsilon.
    """

    curve: RenyiCurve
    pair: Pllr | None
    below: Pllr
    others: tuple[Pllr, ...] = ()
    attained: bool = False
    mirror = True

    @property
    def dominated(self) -> Pllr:
        return self.below

    @property
    def atomic(self) -> bool:  # type: ignore[override]
        return True

    def rule(self, demand: Demand) -> Rule:
        return (self.pair or pair_of_curve(SumOfCurves(((self.curve, 1),)))).rule(demand)


def split(counts: Mapping[Pllr, int]) -> tuple[dict[Pllr, int], dict[RenyiLeaf, int]]:
    """Leaves with a pair only, and those with a curve."""
    curves = {leaf: count for leaf, count in counts.items() if isinstance(leaf, RenyiLeaf)}
    return {leaf: count for leaf, count in counts.items() if leaf not in curves}, curves


def folded(counts: Mapping[Pllr, int], use_pairs: bool) -> dict[Pllr, int]:
    """The same composition with pairs only: every curve in one pair; leaves that have a pair of their own keep it if `use_pairs`."""
    result, leaves = split(counts)
    curves: dict[RenyiCurve, int] = {}
    for leaf, count in leaves.items():
        if use_pairs and leaf.pair is not None:
            result[leaf.pair] = result.get(leaf.pair, 0) + count
        else:
            curves[leaf.curve] = curves.get(leaf.curve, 0) + count
    if curves:
        result[pair_of_curve(SumOfCurves.of(curves))] = 1
    return result


def below(counts: Mapping[Pllr, int], choice: int | None = None) -> dict[Pllr, int]:
    """Mechanisms that the events allow: `below` of every leaf, or the one of `others` with the number `choice`."""
    result: dict[Pllr, int] = {}
    for leaf, count in counts.items():
        one = leaf.dominated
        if choice is not None and isinstance(leaf, RenyiLeaf) and leaf.others:
            one = leaf.others[choice % len(leaf.others)]
        result[one] = result.get(one, 0) + count
    return result


@functools.lru_cache(maxsize=256)
def pair_of_curve(curve: SumOfCurves) -> LatticePair:
    """A pair with the profile U of the curve at its nodes, which is the same in both directions.

    The nodes reach to where U is e^-45 in steps of about 1/2048 of that, and from there on as far as 8192 of them do.
    """
    usual, far = (float(epsilon_of(curve, np.array(level))) for level in (_LOG_USUAL, _LOG_LEAST))
    if not math.isfinite(usual):
        return LatticePair(1.0, np.zeros(1), np.zeros(1), 1.0, 1.0)
    spacing = 2.0 ** math.floor(math.log2(max(usual, 1e-290) / _NODES))
    count = math.ceil(min(far / spacing, _MOST_NODES)) + 1
    values = np.exp(log_profile(curve, spacing * np.arange(count)))
    return dominating_pair(spacing, values, values)
