"""One direction of a composition: the sum of all PLLRs, equal leaves merged with their counts.

Its cumulant generating function

    K(z) = sum_i m_i log E_{Q_i}[e^{z L_i}]           (losses of +inf left out, so K(0) = log(1 - infinite mass))

is all that the expansions and the certified bounds look at. Unsampled Gaussian leaves are one closed-form term
M^2 (z^2 + z) / 2 however many there are. Other leaves are evaluated in blocks of rules (`blocks.py`).
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from operator import mul
from typing import Any, NamedTuple

import numpy as np

from dp_edgeworth.losses.bracket import Bracket, folded, members
from dp_edgeworth.losses.lattice_spacing import common_spacing
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import EPSILON, Demand
from dp_edgeworth.sums.blocks import Block, blocks, grouped
from dp_edgeworth.sums.loss_sums import Cgf, LossSums, Spectral, Spectrum

_CACHED_NODES = 4_000_000
# Up to this many compositions the cumulant generating function needs no control variate.
_PLAIN_COUNT, _ROUGH_COUNT = 1e6, 1e12
_KEPT_RUNGS = 64
_SHORT = 64  # frequencies


class Rungs(NamedTuple):
    """K, K', K'' and the rounding bound of K at some tilts."""

    tilts: np.ndarray
    log_mgf: np.ndarray
    mean: np.ndarray
    variance: np.ndarray
    error: np.ndarray


class Composition:
    """The sum of the PLLRs of one direction.

    Args:
      counts: how often each leaf occurs, of brackets the pairs above them; or sums over pairs that are shared with others.
      log_tail: log of the Q-mass of the largest losses that may be left out of every PLLR, see `truncated`.
      paired: the direction that is the mirror image of this one will be asked for, too.
      reflected: that direction, asked before; K of this one is read off its sums.
      below: a composition with at most the true loss, where it does not follow from the leaves.
    """

    def __init__(self, counts: Mapping[Any, int] | LossSums, log_tail: float = -math.inf, *, paired: bool = False,
                 reflected: Composition | None = None, below: Composition | None = None):
        if not isinstance(counts, LossSums):
            if below is None and any(isinstance(leaf, Bracket) for leaf in counts):
                below = Composition(members(counts))
            counts = LossSums(folded(counts))
        self._own: LossSums = counts
        self.sums: LossSums = reflected.sums if reflected else counts
        self.log_tail, self.paired, self.reflected, self.mirrored = log_tail, paired, reflected, reflected is not None
        self.dominated = below or self
        self.total = float(self.sums.total)
        self._cache: tuple[Demand, list[Block]] | None = None
        self._rungs: dict[bytes, Rungs] = {}
        self._line: tuple[tuple[float, float, int], Spectral] | None = None  # the last one, which is asked for twice

    @property
    def counts(self) -> dict[Pllr, int]:
        """How often each PLLR of this direction occurs, in the order in which they came."""
        return self._own.counts

    @functools.cached_property
    def identity(self) -> tuple[frozenset[tuple[Pllr, int]], float]:
        """What theorems about it depend on."""
        return frozenset(self.counts.items()), self.log_tail

    @functools.cached_property
    def _grouped(self):  # type: ignore[no-untyped-def]
        return grouped(self.counts)

    @property
    def gaussian_variance(self) -> float:
        """The squared shift of all unsampled Gaussians together."""
        return self.sums.gaussian_variance

    @property
    def is_gaussian(self) -> bool:
        """All leaves are unsampled Gaussians."""
        return self.sums.all_gaussian

    @property
    def leaf_count(self) -> int:
        return len(self.counts)

    @functools.cached_property
    def log_finite(self) -> float:
        """log of the Q-mass of finite losses."""
        return self._log_product("infinite_mass")

    @functools.cached_property
    def log_kept(self) -> float:
        """log of the P-mass of finite losses."""
        return self._log_product("lost_mass")

    def _log_product(self, mass: str) -> float:
        """Of 1 less a mass of every leaf."""
        masses = self._own.each(mass)
        return math.fsum(map(mul, self.counts.values(), map(_log1m, masses))) if any(masses) else 0.0

    @functools.cached_property
    def supremum(self) -> float:
        return self._total("supremum")

    @functools.cached_property
    def finite_supremum(self) -> float:
        return self._total("finite_supremum")

    def _total(self, bound: str) -> float:
        """Sum of upper bounds of all leaves, of which some may be infinite."""
        bounds = self._own.each(bound)
        endless = [end for end in (math.inf, -math.inf) if end in bounds]
        return endless[0] if endless else math.fsum(map(mul, self.counts.values(), bounds))

    @functools.cached_property
    def largest_loss(self) -> float:
        """The largest finite loss of one leaf, of those that are not left out."""
        return max((pllr.largest_kept(self.log_tail) if pllr.cuttable else pllr.finite_supremum for pllr in self.counts), default=0.0)

    @functools.cached_property
    def log_top_mass(self) -> float:
        """log of the Q-mass of the largest possible loss, rounded down: counts multiply the rounding of a leaf's own mass."""
        if not (math.isfinite(self.supremum) and all(pllr.top_mass > 0 for pllr in self.counts)):
            return -math.inf
        return math.fsum(count * (math.log(pllr.top_mass) - EPSILON * (16.0 + 4.0 * pllr.loss_scale))
                         for pllr, count in self.counts.items())

    @functools.cached_property
    def single(self) -> Pllr | None:
        """The only leaf, if it is used once."""
        return next(iter(self.counts)) if self.total == 1 else None

    def truncated(self, log_dropped: float) -> Composition:
        """The same without the largest losses: all of them together have a Q-mass of at most e^{log_dropped}."""
        return Composition(self.counts, log_dropped - math.log(self.total))

    @property
    def supremum_error(self) -> float:
        """Bound of the relative rounding error of the largest losses, which are sums of positive numbers."""
        return max(self._own.each("supremum_error"), default=4e-15)

    @property
    def atomic(self) -> bool:
        """Whether all losses are atoms."""
        return all(pllr.atomic for pllr in self.counts)

    @property
    def has_tail(self) -> bool:
        """Whether there are large losses that `truncated` can leave out."""
        return any(self._own.each("has_tail"))

    @property
    def log_dropped(self) -> float:
        """log of a bound of the probability under Q that some loss was left out."""
        return self.log_tail + math.log(self.total)

    @functools.cached_property
    def spacing(self) -> float | None:
        """Spacing of the lattice that carries all losses, or None."""
        return None if self.gaussian_variance > 0 else common_spacing(self.counts)

    @functools.cached_property
    def infinite_mass(self) -> float:
        """Probability under Q of an infinite loss."""
        return self.single.infinite_mass if self.single is not None else -math.expm1(self.log_finite)

    @functools.cached_property
    def infinite_mass_margin(self) -> float:
        """What the infinite mass may be off by: nothing where it is one number of a single leaf."""
        error = self.single.infinite_mass_error if self.single is not None else 1e-12
        return max(self.infinite_mass * error, 5e-324) if error and self.infinite_mass else 0.0

    def demand(self, low_tilt: float, high_tilt: float, frequency: float = 0.0, turning: float = -math.inf) -> Demand:
        return Demand(low_tilt + 1.0, high_tilt + 1.0, frequency, math.log(max(self.total, 1.0)), self.log_tail, turning + 1.0)

    def _common_demand(self, tilts: tuple[float, ...], frequency: float = 0.0) -> Demand:
        """Of a rule for these tilts of the shared sums; the number of compositions is rounded up to powers of e^4."""
        turning, turned = (min(tilts) + 1.0, max(tilts) + 1.0) if frequency else (-math.inf, math.inf)
        return Demand(min(0.0, min(tilts) + 1.0), max(1.0, max(tilts) + 1.0), frequency,
                      4.0 * math.ceil(math.log(max(self.total, 1.0)) / 4.0), self.log_tail, turning, turned)

    def rungs(self, tilts: np.ndarray) -> Rungs:
        """K at tilts > -1, from the shared sums; the last few ladders are kept."""
        found = self._rungs.get(tilts.tobytes())
        return self._keep(self._evaluated(tilts)) if found is None else found

    def joined(self, tilts: np.ndarray, more: np.ndarray) -> Rungs:
        """K at two ladders, in increasing order of the tilts, each from the rule that serves its own ladder."""
        one, other = self.rungs(tilts), self.rungs(more)
        order = np.argsort(np.concatenate([one.tilts, other.tilts]))
        return self._keep(Rungs(*(np.concatenate(parts)[order] for parts in zip(one, other, strict=True))))

    def _keep(self, rungs: Rungs) -> Rungs:
        if len(self._rungs) >= _KEPT_RUNGS:
            self._rungs.clear()
        self._rungs[rungs.tilts.tobytes()] = rungs
        return rungs

    @np.errstate(over="ignore", invalid="ignore")
    def _evaluated(self, tilts: np.ndarray) -> Rungs:
        signed = tuple((-1.0 - tilts if self.mirrored else tilts).tolist())
        if self.paired:  # one vector, the same whoever asks
            signed = (*tilts.tolist(), *(-1.0 - tilts).tolist())
        rows = self.sums.of(Cgf(signed, self._common_demand(signed))).reshape(4, -1)
        if self.paired:
            rows = rows[:, len(tilts):] if self.mirrored else rows[:, :len(tilts)]
        return Rungs(tilts, rows[0], -rows[1] if self.mirrored else rows[1], rows[2], rows[3] + rule_error(tilts))

    def spectral(self, tilt: float, period: float, last: int) -> Spectral:
        """The characteristic function of the law tilted by `tilt` at the frequencies j 2 pi / period, Gaussians not included.

        Short ones of both directions are one vector: it costs little more than one of them.
        """
        if self._line is not None and self._line[0] == (tilt, period, last):
            return self._line[1]
        signed: tuple[float, ...] = (-1.0 - tilt if self.mirrored else tilt,)
        if self.paired and last <= _SHORT:
            signed = tilt, -1.0 - tilt
        key = Spectrum(signed, period, last, self._common_demand(signed, 2.0 * math.pi / period * last))
        found = key.read(self.sums.of(key), self.gaussian_variance, mirrored=self.mirrored)
        self._line = (tilt, period, last), found
        return found

    def blocks(self, demand: Demand) -> Iterator[Block]:
        """All non-Gaussian leaves with rules that meet the demand, a bounded number of nodes at a time."""
        if self._cache is not None and _covers(self._cache[0], demand):
            yield from self._cache[1]
            return
        kept: list[Block] | None = []
        for block in blocks(self._grouped[1], demand):
            if kept is not None:
                kept.append(block)
                if sum(b.rule.values.size for b in kept) > _CACHED_NODES:
                    kept = None
            yield block
        if kept is not None:
            self._cache = (demand, kept)

    @np.errstate(over="ignore", invalid="ignore")
    def cgf(self, tilts: Sequence[float] | np.ndarray, demand: Demand | None = None, *, rough: bool = False) -> np.ndarray:
        """Rows K, K', K'' and the rounding bound of K, one column per real tilt > -1.

        `rough`: an absolute error of K of about 0.01 will do, to plan with.
        """
        tilts = np.asarray(tilts, float)
        demand = demand or self.demand(min(float(tilts.min()), -1.0), float(tilts.max()))
        result = np.zeros((4, len(tilts)))
        result[3] = rule_error(tilts)
        variance = self.gaussian_variance
        if variance > 0:
            result[0] = 0.5 * variance * tilts * (tilts + 1.0)
            result[1] = variance * (tilts + 0.5)
            result[2] = variance
            result[3] += 4.0 * EPSILON * np.abs(result[0])
        for block in self.blocks(demand):
            result += block.cgf(tilts, accurate=self.total > (_ROUGH_COUNT if rough else _PLAIN_COUNT))
        return result


def rule_error(tilts: np.ndarray) -> np.ndarray:
    """What the quadrature rules can do to K: e^-40 of each leaf's over its count, at s = c + 1 and, for the control variate, at 0
    and 1.
    """
    return 1e-17 * (2.0 + np.abs(tilts))


def _log1m(mass: float) -> float:
    return math.log1p(-mass) if mass < 1.0 else -math.inf


def _covers(have: Demand, want: Demand) -> bool:
    """A finer rule serves, unless it is so much finer that it would be slow."""
    turns = want.frequency == 0.0 or have.turning <= want.turning <= want.turned <= have.turned
    return (turns and have.low <= want.low and have.high >= want.high and have.frequency >= want.frequency
            and have.log_count >= want.log_count
            and have.frequency <= 4.0 * want.frequency + 1.0)
