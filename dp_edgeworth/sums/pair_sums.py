"""What was composed: how often every pair of losses, "remove" and "add", and the sums of both directions."""

from __future__ import annotations

from dp_edgeworth.losses.class_leaf import ClassLeaf, folded, members
from dp_edgeworth.losses.operations import Reversed
from dp_edgeworth.losses.pllr import Pllr
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
        self.counts: dict[tuple[Pllr, Pllr], int] = {}
        self._sums = LossSums(), LossSums()
        self._asymmetric = self._unlike = 0  # pairs whose directions differ; pairs whose directions are no mirror images
        self.has_classes = False  # leaves whose event allows many mechanisms

    def add(self, remove: Pllr, add: Pllr, count: int) -> None:
        pair = remove, add
        if pair not in self.counts:
            self._asymmetric += remove != add
            self._unlike += not _mirrored(remove, add)
            self.has_classes |= isinstance(remove, ClassLeaf) or isinstance(add, ClassLeaf)
        self.counts[pair] = self.counts.get(pair, 0) + count
        for sums, loss in zip(self._sums, pair, strict=True):
            sums.add(loss, count)

    def directions(self) -> list[Composition]:
        """One composition per direction; a single one where both are the same."""
        if self.has_classes:
            return [Composition(folded(table), below=Composition(members(table), exact=True)) for table in self.tables()]
        remove, add = self._sums
        if not self._asymmetric or remove.counts == add.counts:
            return [Composition(remove)]
        if self._unlike:
            return [Composition(remove), Composition(add)]
        return [Composition(remove, paired=True), Composition(remove, mirrored=True, paired=True)]

    def tables(self) -> list[dict[Pllr, int]]:
        """How often each loss occurs, by direction, in an order of their own; a single table where both are the same."""
        remove, add = (dict(sorted(sums.counts.items(), key=lambda item: repr(item[0]))) for sums in self._sums)
        return [remove] if remove == add else [remove, add]


def _mirrored(remove: Pllr, add: Pllr) -> bool:
    """Whether the sums of "remove" serve "add": it is the reverse, exact, and no loss is infinite."""
    return ((add == remove and remove.mirror) or (isinstance(add, Reversed) and add.inner == remove)) and (
        remove.dominated is remove and not (remove.infinite_mass or remove.lost_mass))
