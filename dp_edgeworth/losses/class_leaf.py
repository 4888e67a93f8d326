"""Leaves whose event allows many mechanisms, known from above by a Renyi curve or a pair or both; and compositions with such leaves.

Curves are added first, then become one profile, then one pair (`renyi_curves`, `profile_pair`). That pair may be composed with the
pairs of all other leaves in whatever order they ran: a leaf with a fixed dominating pair is a draw from that pair, which depends on
nothing that came before, followed by a kernel that does not see the data (Blackwell); the draws can be made first, and given them the
Renyi leaves are one adaptive composition with the curve sum k_i. Required: kinds, pairs, curves and counts fixed in advance; every
pair and every curve holds for every history.

A leaf that has both, a pair and a curve, counts as either: two valid upper ends, of which the smaller one is kept. From below every
mechanism that the event allows is a bound, so the largest of several is.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping

import numpy as np

from dp_edgeworth.losses.cells import Cells
from dp_edgeworth.losses.lattice_pair import LatticePair
from dp_edgeworth.losses.operations import reverse
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.profile_pair import dominating_pair
from dp_edgeworth.losses.renyi_curves import RenyiCurve, SumOfCurves, epsilon_of, log_profile
from dp_edgeworth.losses.rules import Demand, Rule

_NODES, _MOST_NODES = 2048, 8192
_LOG_USUAL, _LOG_LEAST = -45.0, -660.0  # profiles as small as the first are met often; below the second there are hardly floats


@dataclasses.dataclass(frozen=True)
class ClassLeaf(Pllr):
    """One use of some mechanism of a class, in either direction.

    Attributes:
      members: mechanisms of the class, for the lower end.
      curve: a Renyi curve of all of them, or None.
      pair: a pair that dominates all of them, or None; one of the two is there.
      attained: whether `pair` is, for one use, the largest delta of the class at every epsilon.
    """

    members: tuple[Pllr, ...]
    curve: RenyiCurve | None = None
    pair: Pllr | None = None
    attained: bool = False
    atomic = True

    @property
    def mirror(self) -> bool:
        """Whether both directions are known by the same; the members need not be their own mirror images for that."""
        return self.pair is None or self.pair.mirror

    def swapped(self) -> ClassLeaf:
        """The other direction."""
        pair = self.pair and reverse(self.pair)
        return dataclasses.replace(self, pair=pair, members=tuple(reverse(member) for member in self.members))

    @functools.cached_property
    def above(self) -> Pllr:
        """A pair that dominates one use."""
        if self.pair is not None:
            return self.pair
        if self.curve is None:
            raise ValueError("`curve` or `pair` must be there. Found neither.")
        return pair_of_curve(SumOfCurves(((self.curve, 1),)))

    dominated = property(lambda self: self.members[0])
    supremum = property(lambda self: self.above.supremum)
    finite_supremum = property(lambda self: self.above.finite_supremum)
    infimum = property(lambda self: self.above.infimum)
    infinite_mass = property(lambda self: self.above.infinite_mass)
    lost_mass = property(lambda self: self.above.lost_mass)
    loss_scale = property(lambda self: self.above.loss_scale)
    top_mass = 0.0
    bottom_mass = 0.0

    def largest_kept(self, log_tail: float) -> float:
        return self.above.largest_kept(log_tail)

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        return self.above.log_hockey_stick(epsilon)

    def log_reversed_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        return self.above.log_reversed_hockey_stick(epsilon)

    def cells(self, cuts: float | np.ndarray, log_tail: float) -> Cells | None:
        return self.above.cells(cuts, log_tail)

    def rule(self, demand: Demand) -> Rule:
        return self.above.rule(demand)


def classes(counts: Mapping[Pllr, int]) -> dict[ClassLeaf, int]:
    """The leaves of which the event allows many mechanisms."""
    return {leaf: count for leaf, count in counts.items() if isinstance(leaf, ClassLeaf)}


def folded(counts: Mapping[Pllr, int], use_pairs: bool = True) -> dict[Pllr, int]:
    """A composition of pairs that dominates: all curves in one pair; leaves that have a pair as well keep it if `use_pairs`."""
    result: dict[Pllr, int] = {}
    curves: dict[RenyiCurve, int] = {}
    for leaf, count in counts.items():
        if not isinstance(leaf, ClassLeaf):
            result[leaf] = result.get(leaf, 0) + count
        elif leaf.curve is not None and not (use_pairs and leaf.pair is not None):
            curves[leaf.curve] = curves.get(leaf.curve, 0) + count
        elif leaf.pair is not None:
            result[leaf.pair] = result.get(leaf.pair, 0) + count
    if curves:
        pair = pair_of_curve(SumOfCurves.of(curves))
        result[pair] = result.get(pair, 0) + 1
    return result


def members(counts: Mapping[Pllr, int], number: int = 0) -> dict[Pllr, int]:
    """A composition that the events allow: of every class the member of this number, counted round."""
    result: dict[Pllr, int] = {}
    for leaf, count in counts.items():
        one = leaf.members[number % len(leaf.members)] if isinstance(leaf, ClassLeaf) else leaf.dominated
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
