"""What was composed: how often every pair of losses, "remove" and "add", and the sums of both directions."""

from __future__ import annotations

from dp_edgeworth.losses.bracket import Bracket, Leaf, above, members
from dp_edgeworth.losses.operations import Reversed
from dp_edgeworth.sums.composition import Composition
from dp_edgeworth.sums.loss_sums import LossSums


class PairSums:
    """Counts of pairs; which compositions they make follows from the pairs alone, not from the order in which they came.

    >>> from dp_edgeworth.losses.gaussian_noise import GaussianShift
    >>> pairs = PairSums()
    >>> pairs.add(GaussianShift(1.0), GaussianShift(1.0), 3)
    >>> len(pairs.directions())
    1
    >>> pairs.add(GaussianShift(1.0), GaussianShift(3.0), 1)
    >>> [composition.gaussian_variance for composition in pairs.directions()]
    [4.0, 12.0]
    """

    def __init__(self) -> None:
        self.counts: dict[tuple[Leaf, Leaf], int] = {}
        self._sums = LossSums(), LossSums()  # of the pairs above all leaves
        # Pairs whose directions differ; pairs whose directions are no mirror images; those of brackets.
        self._asymmetric = self._unlike = self._brackets = 0
        self.has_classes = False  # leaves whose event allows many mechanisms
        self.kinds: set[type] = set()  # of leaves

    def add(self, remove: Leaf, add: Leaf, count: int) -> None:
        pair = remove, add
        if pair not in self.counts:
            brackets = [leaf for leaf in pair if isinstance(leaf, Bracket)]
            self.kinds.update(map(type, pair))
            self._asymmetric += remove != add
            self._unlike += not _mirrored(remove, add)
            self._brackets += bool(brackets)
            self.has_classes |= any(leaf.is_class for leaf in brackets)
        self.counts[pair] = self.counts.get(pair, 0) + count
        if not self.has_classes:
            for sums, leaf in zip(self._sums, pair, strict=True):
                sums.add(above(leaf), count)

    def directions(self) -> list[Composition]:
        """One composition per direction; a single one where both are the same."""
        if self.has_classes:
            return [Composition(table) for table in self.tables()]
        remove, add = self._sums
        if self._brackets:
            lower = [Composition(members(self._table(side))) for side in (0, 1)]
            same = not self._asymmetric or (remove.counts == add.counts and lower[0].counts == lower[1].counts)
            both = [Composition(sums, below=below) for sums, below in zip(self._sums, lower, strict=True)]
            return both[:1] if same else both
        if not self._asymmetric or remove.counts == add.counts:
            return [Composition(remove)]
        if self._unlike:
            return [Composition(remove), Composition(add)]
        first = Composition(remove, paired=True)
        return [first, Composition(add, paired=True, reflected=first)]

    def tables(self) -> list[dict[Leaf, int]]:
        """How often each leaf occurs, by direction, in an order of their own; a single table where both are the same."""
        remove, add = (dict(sorted(self._table(side).items(), key=lambda item: repr(item[0]))) for side in (0, 1))
        return [remove] if remove == add else [remove, add]

    def _table(self, side: int) -> dict[Leaf, int]:
        found: dict[Leaf, int] = {}
        for pair, count in self.counts.items():
            found[pair[side]] = found.get(pair[side], 0) + count
        return found


def _mirrored(remove: Leaf, add: Leaf) -> bool:
    """Whether the sums of "remove" serve "add": it is the reverse, exact, and no loss is infinite."""
    if isinstance(remove, Bracket) or isinstance(add, Bracket):
        return False
    return ((add == remove and remove.mirror) or (isinstance(add, Reversed) and add.inner == remove)) and (
        not (remove.infinite_mass or remove.lost_mass))
