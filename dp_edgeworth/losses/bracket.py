"""Leaves that are known between exact pairs only: a pair or a Renyi curve that dominates them, and pairs that they dominate.

A `Pllr` is exact. What is not (parameters rounded up, a law known by bounds of its delta, an event that allows many mechanisms) is a
`Bracket` of exact ones, and a composition of brackets is two compositions, above and below the truth (`folded`, `members`). Operations
on brackets are operations on both of their sides.

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
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from dp_edgeworth.losses.node_pair import NodePair
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.profile_pair import dominating_pair
from dp_edgeworth.losses.renyi_curves import RenyiCurve, SumOfCurves, epsilon_of, log_profile

_NODES, _MOST_NODES = 2048, 8192
_LOG_USUAL, _LOG_LEAST = -45.0, -660.0  # profiles as small as the first are met often; below the second there are hardly floats


@dataclasses.dataclass(frozen=True)
class Bracket:
    """One use of something between pairs, in one direction.

    Attributes:
      members: exact pairs that it dominates, or mechanisms of the class: each bounds the answer from below.
      pair: an exact pair that dominates it, or None. One of the two, `pair` and `curve`, is there.
      curve: a Renyi curve of it, and of its reverse, or None.
      attained: whether `pair` is, for one use, the largest delta of the class at every epsilon.
    """

    members: tuple[Pllr, ...]
    pair: Pllr | None = None
    curve: RenyiCurve | None = None
    attained: bool = False

    @property
    def is_class(self) -> bool:
        """Whether the event allows many mechanisms, a mechanism in either direction."""
        return self.curve is not None or self.attained

    @property
    def mirror(self) -> bool:
        """Whether both directions are known by the same; of a class the members need not be their own mirror images for that."""
        return (self.pair is None or self.pair.mirror) and (self.is_class or all(member.mirror for member in self.members))

    @functools.cached_property
    def above(self) -> Pllr:
        """A pair that dominates one use."""
        if self.pair is not None:
            return self.pair
        if self.curve is None:
            raise ValueError("`curve` or `pair` must be there. Found neither.")
        return pair_of_curve(SumOfCurves(((self.curve, 1),)))


Leaf = Pllr | Bracket


def above(leaf: Leaf) -> Pllr:
    """An exact pair that dominates the leaf."""
    return leaf.above if isinstance(leaf, Bracket) else leaf


def below(leaf: Leaf) -> Pllr:
    """An exact pair that the leaf dominates."""
    return leaf.members[0] if isinstance(leaf, Bracket) else leaf


def between(upper: Leaf, lower: Leaf) -> Leaf:
    """What is dominated by one leaf and dominates another one."""
    return upper if isinstance(upper, Pllr) and upper == lower else Bracket((below(lower),), above(upper))


def on_both_sides(operation: Callable[[list[Pllr]], Pllr], leaves: list[Leaf]) -> Leaf:
    """An operation on pairs that keeps domination, done to leaves."""
    whole = operation([above(leaf) for leaf in leaves])
    if not any(isinstance(leaf, Bracket) for leaf in leaves):
        return whole
    return Bracket((operation([below(leaf) for leaf in leaves]),), whole)


def split(counts: Mapping[Any, int], use_pairs: bool) -> tuple[dict[Pllr, int], dict[RenyiCurve, int]]:
    """Pairs that dominate, and curves; leaves that have both count as pairs if `use_pairs`."""
    pairs: dict[Pllr, int] = {}
    curves: dict[RenyiCurve, int] = {}
    for leaf, count in counts.items():
        if isinstance(leaf, Bracket) and leaf.curve is not None and not (use_pairs and leaf.pair is not None):
            curves[leaf.curve] = curves.get(leaf.curve, 0) + count
        else:
            pairs[above(leaf)] = pairs.get(above(leaf), 0) + count
    return pairs, curves


def folded(counts: Mapping[Any, int], use_pairs: bool = True) -> dict[Pllr, int]:
    """A composition of pairs that dominates: all curves in one pair."""
    pairs, curves = split(counts, use_pairs)
    if curves:
        pair = pair_of_curve(SumOfCurves.of(curves))
        pairs[pair] = pairs.get(pair, 0) + 1
    return pairs


def members(counts: Mapping[Any, int], number: int = 0) -> dict[Pllr, int]:
    """A composition that the events allow: of every class the member of this number, counted round."""
    result: dict[Pllr, int] = {}
    for leaf, count in counts.items():
        one = leaf.members[number % len(leaf.members)] if isinstance(leaf, Bracket) else leaf
        result[one] = result.get(one, 0) + count
    return result


@functools.lru_cache(maxsize=256)
def pair_of_curve(curve: SumOfCurves) -> NodePair:
    """A pair with the profile U of the curve at its nodes, which is the same in both directions.

    The nodes reach to where U is e^-45 in steps of about 1/2048 of that, and from there on as far as 8192 of them do.
    """
    usual, far = (float(epsilon_of(curve, np.array(level))) for level in (_LOG_USUAL, _LOG_LEAST))
    if not math.isfinite(usual):
        return NodePair(np.zeros(1), np.zeros(1), 1.0, 1.0)
    spacing = 2.0 ** math.floor(math.log2(max(usual, 1e-290) / _NODES))
    nodes = spacing * np.arange(math.ceil(min(far / spacing, _MOST_NODES)) + 1)
    values = np.exp(log_profile(curve, nodes))
    return dominating_pair((nodes, nodes), values, values)
