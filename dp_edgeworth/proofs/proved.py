"""The one type of what is proved, and the rules that keep its sides.

Only this room, and the paper's own bounds, make a `Proved`; whatever else handles one can only pass it on or use the rules below:

    met       both are bounds of the same number: the larger lower end, the smaller upper end
    larger    of the larger of two numbers
    between   lower ends of a number that is at most the one in question, upper ends of one that is at least it
    at_most   the number in question is at most this one, and not negative: the upper ends
    falling   the number does not rise with the target: an upper end serves all larger targets, a lower end all smaller ones
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np


@dataclasses.dataclass(frozen=True)
class Proved:
    """lower <= value <= upper for every target; which theorem proved each end; an estimate between them that nobody need believe."""

    lower: np.ndarray
    estimate: np.ndarray
    upper: np.ndarray
    lower_by: np.ndarray
    upper_by: np.ndarray

    @classmethod
    def of(cls, lower: Any, estimate: Any, upper: Any, theorem: str) -> Proved:
        """All ends by one theorem; an estimate that is NaN or outside is moved inside."""
        low, middle, high = (np.array(part, float, ndmin=1) for part in (lower, estimate, upper))
        names = np.full(low.shape, theorem, dtype=object)
        return cls(low, np.minimum(np.fmax(middle, low), high), high, names, names)

    @classmethod
    def trivial(cls, shape: tuple[int, ...], most: float) -> Proved:
        """In [0, most], by definition."""
        return cls.of(np.zeros(shape), np.full(shape, most), np.full(shape, most), "definition")

    def __len__(self) -> int:
        return len(self.lower)

    @property
    def _columns(self) -> tuple[np.ndarray, ...]:
        return self.lower, self.estimate, self.upper, self.lower_by, self.upper_by

    def at(self, index: Any) -> Proved:
        """Of some targets."""
        return Proved(*(np.atleast_1d(column[index]) for column in self._columns))

    def met(self, other: Proved, index: Any = slice(None)) -> Proved:
        """Both hold, the other one for the targets `index`; the estimate is the other one's, kept inside."""
        mine = self.at(index)
        higher, smaller = other.lower > mine.lower, other.upper < mine.upper
        lower, upper = np.where(higher, other.lower, mine.lower), np.where(smaller, other.upper, mine.upper)
        parts = (lower, np.clip(other.estimate, lower, np.maximum(lower, upper)), upper,
                 np.where(higher, other.lower_by, mine.lower_by), np.where(smaller, other.upper_by, mine.upper_by))
        if len(self) == len(lower) == 1:
            return Proved(*parts)
        columns = [column.copy() for column in self._columns]
        for column, part in zip(columns, parts, strict=True):
            column[index] = part
        return Proved(*columns)

    def larger(self, other: Proved) -> Proved:
        """Of the larger of two numbers."""
        return Proved(np.maximum(self.lower, other.lower), np.maximum(self.estimate, other.estimate),
                      np.maximum(self.upper, other.upper),
                      np.where(other.lower > self.lower, other.lower_by, self.lower_by),
                      np.where(other.upper > self.upper, other.upper_by, self.upper_by))

    def between(self, above: Proved) -> Proved:
        """Lower ends from here, upper ends from `above`; where rounding makes them cross, the lower end gives way."""
        lower = np.minimum(self.lower, above.upper)
        with np.errstate(invalid="ignore"):
            middle = np.where(np.isfinite(above.estimate), 0.5 * self.estimate + 0.5 * above.estimate, above.estimate)
        return Proved(lower, np.clip(middle, lower, above.upper), above.upper, self.lower_by, above.upper_by)

    def at_most(self) -> Proved:
        """Of a number in [0, this one]."""
        return Proved.trivial(self.upper.shape, 0.0).between(self)

    def falling(self, targets: np.ndarray) -> Proved:
        """The number does not rise with the targets."""
        if len(targets) == 1:
            return self
        order = np.argsort(targets, kind="stable")
        upper, lower = np.minimum.accumulate(self.upper[order]), np.maximum.accumulate(self.lower[order][::-1])[::-1]
        place = np.empty(len(order), int)
        place[order] = np.arange(len(order))
        low, high = lower[place], upper[place]
        return Proved(low, np.clip(self.estimate, low, np.maximum(low, high)), high, self.lower_by, self.upper_by)
