"""Operations on pairs of distributions, each a pair again: reversing, Poisson sampling, mixing by a public coin.

All keep domination, so that `reverse`, `subsample` and `mixed` take brackets, too.

    Reversed    (P, Q) -> (Q, P)
    Subsampled  (P, Q) -> (P, (1-p) P + p Q)
    Mixed       a public coin chooses the pair
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, overload

import numpy as np

from dp_edgeworth import validation
from dp_edgeworth.losses.bracket import Bracket, Leaf, on_both_sides
from dp_edgeworth.losses.cells import Cells
from dp_edgeworth.losses.pllr import ROUNDED, Pllr
from dp_edgeworth.losses.rules import Demand, Rule, subsampled_number, unsampled_loss


@dataclasses.dataclass(frozen=True)
class Reversed(Pllr):
    """(Q, P) for a pair (P, Q)."""

    inner: Pllr

    kind = property(lambda self: (Reversed, *self.inner.kind))
    supremum = property(lambda self: -self.inner.infimum)
    infimum = property(lambda self: -self.inner.supremum)
    infinite_mass = property(lambda self: self.inner.lost_mass)
    lost_mass = property(lambda self: self.inner.infinite_mass)
    infinite_mass_error = property(lambda self: self.inner.lost_mass_error)
    lost_mass_error = property(lambda self: self.inner.infinite_mass_error)
    top_mass = property(lambda self: self.inner.bottom_mass)
    bottom_mass = property(lambda self: self.inner.top_mass)
    atomic = property(lambda self: self.inner.atomic)
    loss_scale = property(lambda self: self.inner.loss_scale)

    @property
    def finite_supremum(self) -> float:
        return float(self.rule(Demand()).values.max(initial=-math.inf)) if self.inner.lost_mass else self.supremum

    def largest_kept(self, log_tail: float) -> float:
        return min(self.finite_supremum, -self.inner.smallest_kept(log_tail))

    def smallest_kept(self, log_tail: float) -> float:
        return max(self.infimum, -self.inner.largest_kept(log_tail))

    def rule(self, demand: Demand) -> Rule:
        return self.rules([self], demand)

    @classmethod
    def rules(cls, members: Sequence[Any], demand: Demand, sampled: np.ndarray | None = None) -> Rule:
        inner = [member.inner for member in members]
        return type(inner[0]).rules(inner, demand.reversed()).reversed()

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        return self.inner.log_reversed_hockey_stick(epsilon)

    def log_reversed_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        return self.inner.log_hockey_stick(epsilon)

    def cells(self, cuts: float | np.ndarray, log_tail: float) -> Cells | None:
        inner = self.inner.cells(-cuts[::-1] if isinstance(cuts, np.ndarray) else cuts, log_tail)
        return None if inner is None else inner.reversed()


@dataclasses.dataclass(frozen=True)
class Subsampled(Pllr):
    """(P, (1-p) P + p Q) for a pair (P, Q): Poisson sampling, the direction in which the record is in the data."""

    inner: Pllr
    probability: float

    kind = property(lambda self: (Subsampled, *self.inner.kind))
    supremum = property(lambda self: subsampled_number(self.inner.supremum, self.probability))
    finite_supremum = property(lambda self: subsampled_number(self.inner.finite_supremum, self.probability))
    infimum = property(lambda self: subsampled_number(self.inner.infimum, self.probability))
    infinite_mass = property(lambda self: self.probability * self.inner.infinite_mass)
    lost_mass = 0.0
    bottom_mass = property(lambda self: self.inner.bottom_mass)
    atomic = property(lambda self: self.inner.atomic)
    cuttable = property(lambda self: self.inner.cuttable)
    loss_scale = property(lambda self: self.inner.loss_scale - math.log(self.probability))

    @property
    def supremum_error(self) -> float:
        """L = log(1 - p + p e^l) has the slope p e^{l - L} in l and in log p: relative errors count slope (l + |log p|) / L times.

        That is about l where p e^l is small, and 1 where it is large.
        """
        loss, sampled, log_p = self.inner.finite_supremum, self.finite_supremum, math.log(self.probability)
        factor = 1.0 + self.inner.loss_scale
        if sampled > 0.0 and math.isfinite(loss):
            factor = min(factor, 1.0 + 1.01 * math.exp(min(log_p + loss - sampled, 0.0)) * (loss - log_p) / sampled)
        return ROUNDED + self.inner.supremum_error * factor

    @property
    def top_mass(self) -> float:
        """Under (1-p) P + p Q the top has (1-p) e^{-L} + p times its Q-mass."""
        if not self.inner.top_mass:
            return 0.0
        return self.inner.top_mass * (self.probability + (1.0 - self.probability) * math.exp(-self.inner.supremum))

    def largest_kept(self, log_tail: float) -> float:
        """(1-p) P + p Q of the losses above a positive number is at most their Q-mass."""
        return subsampled_number(max(self.inner.largest_kept(log_tail), 0.0), self.probability)

    def smallest_kept(self, log_tail: float) -> float:
        return subsampled_number(self.inner.smallest_kept(log_tail), self.probability)

    def rule(self, demand: Demand) -> Rule:
        return self.rules([self], demand)

    @classmethod
    def rules(cls, members: Sequence[Any], demand: Demand, sampled: np.ndarray | None = None) -> Rule:
        inner = [member.inner for member in members]
        probabilities = np.array([member.probability for member in members])
        return type(inner[0]).rules(inner, demand, probabilities).subsampled(probabilities)

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        """p times the inner one at log(1 + (e^eps - 1)/p)."""
        inner = self.inner.log_hockey_stick(unsampled_loss(np.asarray(epsilon, float), self.probability))
        return None if inner is None else math.log(self.probability) + inner

    def log_reversed_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        """1 - e^eps (1-p) = p (1 - odds (e^eps - 1)) times the inner reversed one at the matching epsilon."""
        p, eps = self.probability, np.asarray(epsilon, float)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            used = (1.0 - p) / p * np.expm1(np.minimum(eps, 700.0))
            possible = (used < 1.0) & (eps < 700.0)
            rest = np.log1p(-np.where(possible, used, 0.0))
            inner = self.inner.log_reversed_hockey_stick(np.where(possible, eps - rest, 0.0))
            return None if inner is None else np.where(possible, math.log(p) + rest + inner, -np.inf)

    def cells(self, cuts: float | np.ndarray, log_tail: float) -> Cells | None:
        if isinstance(cuts, np.ndarray):
            cuts = unsampled_loss(cuts, self.probability)
            cuts = cuts[np.isfinite(cuts)]
        inner = self.inner.cells(cuts, log_tail)
        return None if inner is None else inner.subsampled(self.probability)


@dataclasses.dataclass(frozen=True)
class Mixed(Pllr):
    """A public coin with the given weights chooses which pair is used."""

    weights: tuple[float, ...]
    parts: tuple[Pllr, ...]
    top_mass, bottom_mass = 0.0, 0.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", validation.mixture("weights", self.weights))
        object.__setattr__(self, "parts", tuple(validation.sequence("parts", self.parts)))
        if len(self.parts) != len(self.weights) or not all(isinstance(part, Pllr) for part in self.parts):
            raise ValueError(f"`parts` must be `Pllr`s, as many as `weights`, {len(self.weights)}. Found {self.parts!r}.")

    @property
    def _used(self) -> list[tuple[float, Pllr]]:
        return [(weight, part) for weight, part in zip(self.weights, self.parts, strict=True) if weight > 0]

    mirror = property(lambda self: all(part.mirror for part in self.parts))
    atomic = property(lambda self: all(part.atomic for _, part in self._used))
    cuttable = property(lambda self: any(part.cuttable for _, part in self._used))
    supremum = property(lambda self: max(part.supremum for _, part in self._used))
    finite_supremum = property(lambda self: max(part.finite_supremum for _, part in self._used))
    infimum = property(lambda self: min(part.infimum for _, part in self._used))
    loss_scale = property(lambda self: max(part.loss_scale for _, part in self._used))
    supremum_error = property(lambda self: max(part.supremum_error for _, part in self._used))
    infinite_mass = property(lambda self: math.fsum(weight * part.infinite_mass for weight, part in self._used))
    lost_mass = property(lambda self: math.fsum(weight * part.lost_mass for weight, part in self._used))

    def largest_kept(self, log_tail: float) -> float:
        return max(part.largest_kept(log_tail) for _, part in self._used)

    def smallest_kept(self, log_tail: float) -> float:
        return min(part.smallest_kept(log_tail) for _, part in self._used)

    def rule(self, demand: Demand) -> Rule:
        return Rule.mixed([weight for weight, _ in self._used], [part.rule(demand) for _, part in self._used])

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        return self._log_mean(part.log_hockey_stick(epsilon) for _, part in self._used)

    def log_reversed_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        return self._log_mean(part.log_reversed_hockey_stick(epsilon) for _, part in self._used)

    def _log_mean(self, logs: Iterable[np.ndarray | None]) -> np.ndarray | None:
        known = [math.log(weight) + log for (weight, _), log in zip(self._used, logs, strict=True) if log is not None]
        return np.asarray(np.logaddexp.reduce(np.array(known))) if len(known) == len(self._used) else None

    def cells(self, cuts: float | np.ndarray, log_tail: float) -> Cells | None:
        parts = [(weight, part.cells(cuts, log_tail)) for weight, part in self._used]
        known = [(weight, part) for weight, part in parts if part is not None]
        return Cells.mixed(known) if len(known) == len(parts) else None


@overload
def reverse(pllr: Pllr) -> Pllr: ...
@overload
def reverse(pllr: Leaf) -> Leaf: ...
def reverse(pllr: Leaf) -> Leaf:
    """(Q, P), simplified where the pair is its own mirror image or was reversed before."""
    if validation.of_kind("pllr", pllr, Leaf, "a `Pllr`").mirror:
        return pllr
    if isinstance(pllr, Bracket):
        return dataclasses.replace(pllr, pair=pllr.pair and reverse(pllr.pair), members=tuple(map(reverse, pllr.members)))
    if isinstance(pllr, Mixed):
        return dataclasses.replace(pllr, parts=tuple(map(reverse, pllr.parts)))
    return pllr.inner if isinstance(pllr, Reversed) else Reversed(pllr)


@overload
def subsample(pllr: Pllr, probability: float) -> Pllr: ...
@overload
def subsample(pllr: Leaf, probability: float) -> Leaf: ...
def subsample(pllr: Leaf, probability: float) -> Leaf:
    """(P, (1-p) P + p Q), 0 < p <= 1; p = 1 changes nothing."""
    probability = validation.positive("probability", validation.probability("probability", probability))
    validation.of_kind("pllr", pllr, Leaf, "a `Pllr`")
    return pllr if probability == 1.0 else on_both_sides(lambda pairs: Subsampled(pairs[0], probability), [pllr])


def mixed(weights: tuple[float, ...], leaves: Sequence[Leaf]) -> Leaf:
    """A public coin with the given weights chooses which leaf is used."""
    return on_both_sides(lambda pairs: Mixed(weights, tuple(pairs)), list(leaves))
