"""One direction of one leaf: the law of its privacy-loss log-likelihood ratio (PLLR).

A leaf is an ordered pair of distributions (P, Q) with loss L = log dQ/dP; X is L under P and Y is L under Q
([EA] Definition 3.1). Everything the accountants need is an expectation E_P[e^{s L}] with s = z + 1, so a `Pllr` is
something that can write down a quadrature rule (values of L, weights under P) which is accurate for the exponents
and frequencies it is asked for (`Demand`). Operations on pairs are operations on rules:

    Reversed    (P, Q) -> (Q, P)                       values -> -values, log-weights -> log-weights + values
    Subsampled  (P, Q) -> (P, (1-p) P + p Q)           values -> log(1 - p + p e^{values})
    Mixed       a public coin chooses the pair         rules are concatenated

Rules are batches: row i belongs to member i, so ten thousand subsampled Gaussians are one array.

Accuracy of a rule, relative to e^{K(Re z)}, is at most e^{-40} / count. Arguments:

    trapezoid in x     Gaussian noise is analytic in a strip, so the error falls like e^{-2 pi a / step}
    Gauss-Legendre     Bernstein ellipse (Trefethen, Approximation Theory and Practice, Theorem 19.3)
    atoms              exact

The leaves themselves, with the constants of these arguments, are in `noise.py`.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dp_edgeworth import validation

# log of the relative accuracy of every rule before division by the number of compositions.
DIGITS = 40.0
MOST_NODES = 600_000


class RuleTooLargeError(Exception):
    """A rule that meets the demand would have more nodes than fit; the caller must ask for less."""


def check_size(nodes: float) -> int:
    """The number of nodes, if there are not too many: a rule with fewer than it needs would be silently wrong."""
    if not nodes < MOST_NODES:
        raise RuleTooLargeError(f"a rule of {nodes:g} nodes")
    return int(nodes)


@dataclasses.dataclass(frozen=True)
class Demand:
    """What a rule must be accurate for: exponents s in [low, high] of e^{s L} under P, frequencies up to |Im s|.

    A rule may leave out the largest losses, of Q-mass e^{log_tail} at most (`Rule.missing`). Frequencies other than 0 are asked for
    with exponents s >= turning only.
    """

    low: float = 0.0
    high: float = 1.0
    frequency: float = 0.0
    log_count: float = 0.0
    log_tail: float = -math.inf
    turning: float = -math.inf

    @property
    def digits(self) -> float:
        return DIGITS + self.log_count

    def reversed(self) -> Demand:
        """E_Q[e^{s (-L)}] = E_P[e^{(1 - s) L}]; its largest losses are the smallest of L, and none of these is left out."""
        return dataclasses.replace(self, low=1.0 - self.high, high=1.0 - self.low, log_tail=-math.inf, turning=-math.inf)


@dataclasses.dataclass(frozen=True)
class Rule:
    """E_P[g(L)] = sum_q e^{log_weights} g(values), one row per member.

    Attributes:
      values, log_weights: shape (members, nodes); padding has log-weight -inf. Logarithms, because losses that matter under Q
        can be rarer under P than any float.
      lost: P-mass where Q has none (L = -inf), per member.
      infinite: Q-mass where P has none (L = +inf), per member.
      missing: P-mass and Q-mass of the largest losses, which were left out on purpose, shape (2, members), or None.
      edges: shape (members, cells + 1), increasing or decreasing values of L, or None where L has no density.
      cell_log_density: lower bound of the log of the P-density of L on each cell between two edges.
    """

    values: np.ndarray
    log_weights: np.ndarray
    lost: np.ndarray
    infinite: np.ndarray
    edges: np.ndarray | None = None
    cell_log_density: np.ndarray | None = None
    missing: np.ndarray | None = None

    @property
    def weights(self) -> np.ndarray:
        return np.exp(self.log_weights)

    @classmethod
    def of_one(cls, values: Sequence[float] | np.ndarray, weights: Sequence[float] | np.ndarray,
               lost: float = 0.0, infinite: float = 0.0) -> Rule:
        with np.errstate(divide="ignore"):
            log_weights = np.log(np.asarray(weights, float))
        return cls(np.asarray(values, float)[None], log_weights[None], np.array([lost]), np.array([infinite]))

    @classmethod
    def stacked(cls, rules: Sequence[Rule]) -> Rule:
        """Rows of several rules below each other, padded with weight 0."""
        if len(rules) == 1:
            return rules[0]
        nodes = max(rule.values.shape[1] for rule in rules)
        missing = None
        if any(rule.missing is not None for rule in rules):
            missing = np.concatenate([np.zeros((2, len(r.values))) if r.missing is None else r.missing for r in rules], axis=1)
        pad = [((0, 0), (0, nodes - rule.values.shape[1])) for rule in rules]
        cells = [rule.cell_log_density for rule in rules]
        edges: np.ndarray | None = None
        densities: np.ndarray | None = None
        if all(cell is not None for cell in cells):
            width = max(cell.shape[1] for cell in cells if cell is not None)
            densities = np.concatenate([
                np.pad(c, ((0, 0), (0, width - c.shape[1])), constant_values=-np.inf) for c in cells if c is not None])
            edges = np.concatenate([
                np.pad(r.edges, ((0, 0), (0, width + 1 - r.edges.shape[1])), mode="edge")
                for r in rules if r.edges is not None])
        return cls(np.concatenate([np.pad(r.values, p) for r, p in zip(rules, pad, strict=True)]),
                   np.concatenate([np.pad(r.log_weights, p, constant_values=-np.inf)
                                   for r, p in zip(rules, pad, strict=True)]),
                   np.concatenate([r.lost for r in rules]), np.concatenate([r.infinite for r in rules]),
                   edges, densities, missing)

    def reversed(self) -> Rule:
        """The same rule for (Q, P)."""
        density = None
        if self.edges is not None and self.cell_log_density is not None:
            density = self.cell_log_density + np.minimum(self.edges[:, :-1], self.edges[:, 1:])
        return Rule(-self.values, self.log_weights + self.values, self.infinite, self.lost,
                    None if self.edges is None else -self.edges, density, None if self.missing is None else self.missing[::-1])

    def subsampled(self, probabilities: np.ndarray) -> Rule:
        """The same rule for (P, (1-p) P + p Q), one p per row."""
        p = np.asarray(probabilities, float)[:, None]
        values, log_weights = self.values, self.log_weights
        loss = subsampled_loss(values, p)
        if self.lost.any():  # L = -inf becomes log(1 - p), a value like any other
            loss = np.concatenate([loss, np.broadcast_to(np.log1p(-p), (len(values), 1))], axis=1)
            with np.errstate(divide="ignore"):
                log_weights = np.concatenate([log_weights, np.log(self.lost[:, None])], axis=1)
        edges, density = None, None
        if self.edges is not None and self.cell_log_density is not None:
            edges = loss if self.edges is self.values else subsampled_loss(self.edges, p)
            slope = np.log(p) + self.edges - edges  # log dL'/dL, increasing in L
            density = self.cell_log_density - np.maximum(slope[:, :-1], slope[:, 1:])
        missing = None
        if self.missing is not None:
            missing = np.array([self.missing[0], (1.0 - p[:, 0]) * self.missing[0] + p[:, 0] * self.missing[1]])
        return Rule(loss, log_weights, np.zeros_like(self.lost),
                    p[:, 0] * self.infinite, edges, density, missing)


def subsampled_loss(loss: np.ndarray, p: np.ndarray) -> np.ndarray:
    """log(1 - p + p e^loss), to relative accuracy for small p, small loss and both tails."""
    if np.max(p) <= 0.5 and np.max(loss, initial=0.0) <= 500.0:  # 1 - p + p e^loss >= 1/2: nothing cancels
        return np.log1p(p * np.expm1(loss))
    with np.errstate(all="ignore"):
        near = np.log1p(p * np.expm1(np.clip(loss, -1.0, 500.0)))
        low = np.logaddexp(np.log1p(-p), np.log(p) + np.minimum(loss, -1.0))
        shifted = np.log(p) + np.maximum(loss, 500.0)
        high = np.where(shifted > 40.0, shifted, np.log1p(np.exp(np.minimum(shifted, 40.0)) - p))
    return np.where(loss > 500.0, high, np.where(loss > -1.0, near, low))


def _subsampled_number(loss: float, p: float) -> float:
    """The same for one number; the infinite ones, which are frequent, without an array."""
    if math.isinf(loss):
        return loss if loss > 0 else math.log1p(-p) if p < 1.0 else -math.inf
    return float(subsampled_loss(np.array(loss), np.array(p)))


class Pllr:
    """The law of L = log dQ/dP for one ordered pair. Subclasses are frozen, hashable values.

    Attributes:
      supremum, infimum: essential bounds of L.
      finite_supremum: essential upper bound of what is finite of L.
      infinite_mass: Q-mass of L = +inf. lost_mass: P-mass of L = -inf.
      infinite_mass_error, lost_mass_error: of these, relative; 0 where they are numbers that were given.
      top_mass, bottom_mass: Q-mass of L = supremum and P-mass of L = infimum (0 where unknown).
      mirror: True where (Q, P) has the same law of losses as (P, Q).
      gaussian_variance: mu^2 where K(z) = mu^2 (z^2 + z) / 2 exactly, else None.
      atomic: True where L has atoms only, and its rule is them.
      cuttable: True where L is bounded, but its rule can leave out the largest losses (`Demand.log_tail`).
      moments_only: True where only `cumulants(order, tilt)` are known, order <= 4 (`moments.PllrMoments`).
    """

    supremum: float = math.inf
    infimum: float = -math.inf
    infinite_mass: float = 0.0
    lost_mass: float = 0.0
    infinite_mass_error: float = 4e-15
    lost_mass_error: float = 4e-15
    top_mass: float = 0.0
    bottom_mass: float = 0.0
    mirror: bool = False
    gaussian_variance: float | None = None
    atomic: bool = False
    cuttable: bool = False
    moments_only: bool = False

    @property
    def kind(self) -> tuple[type, ...]:
        """Members of one kind can be evaluated in one batch."""
        return (type(self),)

    @property
    def finite_supremum(self) -> float:
        return self.supremum

    @property
    def supremum_error(self) -> float:
        """Bound of the relative rounding error of the supremum where that is finite."""
        return 4e-15

    def largest_kept(self, log_tail: float) -> float:
        """Upper bound of the finite losses that are left where those of Q-mass e^{log_tail} may be left out."""
        return self.finite_supremum

    def smallest_kept(self, log_tail: float) -> float:
        """The same from below under P, which for a mirror image is the same number."""
        return -self.largest_kept(log_tail) if self.mirror and not self.lost_mass else self.infimum

    @property
    def loss_scale(self) -> float:
        """Size of the numbers that the closed form subtracts from each other."""
        return 0.0

    @property
    def dominated(self) -> Pllr:
        """A pair with no more loss than the true one, where this pair itself has more; by default this pair."""
        return self

    def rule(self, demand: Demand) -> Rule:
        """A rule for this member alone."""
        return self.rules([self], demand)

    @classmethod
    def rules(cls, members: Sequence[Any], demand: Demand, sampled: np.ndarray | None = None) -> Rule:
        """One rule for many members of the same kind; by default one at a time.

        `sampled` are the probabilities with which the rule will be subsampled, for kinds that can make use of them.
        """
        return Rule.stacked([member.rule(demand) for member in members])

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        """log E_Q[(1 - e^{epsilon - L})_+] in closed form, or None.

        Accurate to 1e-12 plus what an error of a few units in the last place of epsilon and of `loss_scale` does to it.
        """
        return None


    def log_reversed_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        """The same of (Q, P), for pairs that are not their own mirror image."""
        return None


@dataclasses.dataclass(frozen=True)
class Reversed(Pllr):
    """(Q, P) for a pair (P, Q)."""

    inner: Pllr

    @property
    def kind(self) -> tuple[type, ...]:
        return (Reversed, *self.inner.kind)

    @property
    def supremum(self) -> float:  # type: ignore[override]
        return -self.inner.infimum

    @property
    def infimum(self) -> float:  # type: ignore[override]
        return -self.inner.supremum

    @property
    def finite_supremum(self) -> float:
        if not self.inner.lost_mass:
            return self.supremum
        return float(self.rule(Demand()).values.max())

    def largest_kept(self, log_tail: float) -> float:
        return min(self.finite_supremum, -self.inner.smallest_kept(log_tail))

    def smallest_kept(self, log_tail: float) -> float:
        return max(self.infimum, -self.inner.largest_kept(log_tail))

    @property
    def top_mass(self) -> float:  # type: ignore[override]
        return self.inner.bottom_mass

    @property
    def bottom_mass(self) -> float:  # type: ignore[override]
        return self.inner.top_mass

    @property
    def loss_scale(self) -> float:
        return self.inner.loss_scale

    @property
    def atomic(self) -> bool:  # type: ignore[override]
        return self.inner.atomic

    @property
    def infinite_mass(self) -> float:  # type: ignore[override]
        return self.inner.lost_mass

    @property
    def lost_mass(self) -> float:  # type: ignore[override]
        return self.inner.infinite_mass

    @property
    def infinite_mass_error(self) -> float:  # type: ignore[override]
        return self.inner.lost_mass_error

    @property
    def dominated(self) -> Pllr:
        return self if self.inner.dominated is self.inner else Reversed(self.inner.dominated)

    @classmethod
    def rules(cls, members: Sequence[Any], demand: Demand, sampled: np.ndarray | None = None) -> Rule:
        inner = [member.inner for member in members]
        return type(inner[0]).rules(inner, demand.reversed()).reversed()

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        """Of a subsampled pair: 1 - e^eps (1-p) = p (1 - odds (e^eps - 1)) times the inner reversed one at the matching epsilon."""
        if not isinstance(self.inner, Subsampled):
            return self.inner.log_reversed_hockey_stick(epsilon)
        p, eps = self.inner.probability, np.asarray(epsilon, float)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            used = (1.0 - p) / p * np.expm1(np.minimum(eps, 700.0))
            possible = (used < 1.0) & (eps < 700.0)
            rest = np.log1p(-np.where(possible, used, 0.0))
            inner = reverse(self.inner.inner).log_hockey_stick(np.where(possible, eps - rest, 0.0))
            return None if inner is None else np.where(possible, math.log(p) + rest + inner, -np.inf)


@dataclasses.dataclass(frozen=True)
class Subsampled(Pllr):
    """(P, (1-p) P + p Q) for a pair (P, Q): Poisson sampling, the direction in which the record is in the data."""

    inner: Pllr
    probability: float

    @property
    def kind(self) -> tuple[type, ...]:
        return (Subsampled, *self.inner.kind)

    @property
    def supremum(self) -> float:  # type: ignore[override]
        return _subsampled_number(self.inner.supremum, self.probability)

    @property
    def finite_supremum(self) -> float:
        return _subsampled_number(self.inner.finite_supremum, self.probability)

    @property
    def infimum(self) -> float:  # type: ignore[override]
        return _subsampled_number(self.inner.infimum, self.probability)

    @property
    def supremum_error(self) -> float:
        """L = log(1 - p + p e^l) has the slope p e^{l - L} in l and in log p: relative errors count slope (l + |log p|) / L times.

        That is about l where p e^l is small, and 1 where it is large.
        """
        loss, sampled, log_p = self.inner.finite_supremum, self.finite_supremum, math.log(self.probability)
        factor = 1.0 + self.inner.loss_scale
        if sampled > 0.0 and math.isfinite(loss):
            factor = min(factor, 1.0 + 1.01 * math.exp(min(log_p + loss - sampled, 0.0)) * (loss - log_p) / sampled)
        return 4e-15 + self.inner.supremum_error * factor

    @property
    def top_mass(self) -> float:  # type: ignore[override]
        """Under (1-p) P + p Q the top has (1-p) e^{-L} + p times its Q-mass."""
        if not self.inner.top_mass:
            return 0.0
        return self.inner.top_mass * (self.probability + (1.0 - self.probability) * math.exp(-self.inner.supremum))

    @property
    def bottom_mass(self) -> float:  # type: ignore[override]
        return self.inner.bottom_mass

    @property
    def loss_scale(self) -> float:
        return self.inner.loss_scale - math.log(self.probability)

    @property
    def atomic(self) -> bool:  # type: ignore[override]
        return self.inner.atomic

    @property
    def infinite_mass(self) -> float:  # type: ignore[override]
        return self.probability * self.inner.infinite_mass

    @property
    def cuttable(self) -> bool:  # type: ignore[override]
        return self.inner.cuttable

    def largest_kept(self, log_tail: float) -> float:
        """(1-p) P + p Q of the losses above a positive number is at most their Q-mass."""
        return _subsampled_number(max(self.inner.largest_kept(log_tail), 0.0), self.probability)

    def smallest_kept(self, log_tail: float) -> float:
        return _subsampled_number(self.inner.smallest_kept(log_tail), self.probability)

    @property
    def dominated(self) -> Pllr:
        return self if self.inner.dominated is self.inner else Subsampled(self.inner.dominated, self.probability)

    @classmethod
    def rules(cls, members: Sequence[Any], demand: Demand, sampled: np.ndarray | None = None) -> Rule:
        inner = [member.inner for member in members]
        probabilities = np.array([member.probability for member in members])
        return type(inner[0]).rules(inner, demand, probabilities).subsampled(probabilities)

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        """p times the inner one at log(1 + (e^eps - 1)/p)."""
        eps = np.asarray(epsilon, float)
        with np.errstate(all="ignore"):
            scaled = np.where(eps > 30.0, eps - math.log(self.probability),
                              np.log1p(np.maximum(np.expm1(np.minimum(eps, 30.0)) / self.probability, -1.0)))
        inner = self.inner.log_hockey_stick(scaled)
        return None if inner is None else math.log(self.probability) + inner


@dataclasses.dataclass(frozen=True)
class Mixed(Pllr):
    """A public coin with the given weights chooses which pair is used."""

    weights: tuple[float, ...]
    parts: tuple[Pllr, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", validation.mixture("weights", self.weights))
        object.__setattr__(self, "parts", tuple(validation.sequence("parts", self.parts)))
        if len(self.parts) != len(self.weights) or not all(isinstance(part, Pllr) for part in self.parts):
            raise ValueError(f"`parts` must be `Pllr`s, as many as `weights`, {len(self.weights)}. Found {self.parts!r}.")

    @property
    def mirror(self) -> bool:  # type: ignore[override]
        return all(part.mirror for part in self.parts)

    @property
    def _used(self) -> list[Pllr]:
        return [part for weight, part in zip(self.weights, self.parts, strict=True) if weight > 0]

    @property
    def supremum(self) -> float:  # type: ignore[override]
        return max(part.supremum for part in self._used)

    @property
    def finite_supremum(self) -> float:
        return max(part.finite_supremum for part in self._used)

    def largest_kept(self, log_tail: float) -> float:
        return max(part.largest_kept(log_tail) for part in self._used)

    def smallest_kept(self, log_tail: float) -> float:
        return min(part.smallest_kept(log_tail) for part in self._used)

    @property
    def infimum(self) -> float:  # type: ignore[override]
        return min(part.infimum for part in self._used)

    @property
    def loss_scale(self) -> float:
        return max(part.loss_scale for part in self._used)

    @property
    def supremum_error(self) -> float:
        return max(part.supremum_error for part in self._used)

    @property
    def atomic(self) -> bool:  # type: ignore[override]
        return all(part.atomic for part in self._used)

    @property
    def dominated(self) -> Pllr:
        below = tuple(part.dominated for part in self.parts)
        return self if all(a is b for a, b in zip(below, self.parts, strict=True)) else Mixed(self.weights, below)

    @property
    def infinite_mass(self) -> float:  # type: ignore[override]
        return math.fsum(w * part.infinite_mass for w, part in zip(self.weights, self.parts, strict=True))

    @property
    def lost_mass(self) -> float:  # type: ignore[override]
        return math.fsum(w * part.lost_mass for w, part in zip(self.weights, self.parts, strict=True))

    def rule(self, demand: Demand) -> Rule:
        pairs = [(w, part.rule(demand)) for w, part in zip(self.weights, self.parts, strict=True) if w > 0]
        rules = [rule for _, rule in pairs]
        main = rules[int(np.argmax([weight for weight, _ in pairs]))]
        density = None if main.cell_log_density is None else main.cell_log_density + math.log(max(self.weights))
        return Rule(np.concatenate([rule.values for rule in rules], axis=1),
                    np.concatenate([math.log(weight) + rule.log_weights for weight, rule in pairs], axis=1),
                    sum((weight * rule.lost for weight, rule in pairs), np.zeros(1)),
                    sum((weight * rule.infinite for weight, rule in pairs), np.zeros(1)), main.edges, density,
                    sum((weight * rule.missing for weight, rule in pairs if rule.missing is not None), np.zeros((2, 1))))

    def log_hockey_stick(self, epsilon: np.ndarray) -> np.ndarray | None:
        logs: list[np.ndarray] = []
        for weight, part in zip(self.weights, self.parts, strict=True):
            if weight > 0:
                value = part.log_hockey_stick(epsilon)
                if value is None:
                    return None
                logs.append(math.log(weight) + value)
        return np.asarray(np.logaddexp.reduce(np.array(logs)))


@dataclasses.dataclass(frozen=True)
class RoundedUp(Mixed):
    """A mixture that is known to have more loss than the true pair; its last part, of weight 0, has less."""

    @property
    def dominated(self) -> Pllr:
        return self.parts[-1].dominated


def reverse(pllr: Pllr) -> Pllr:
    """(Q, P), simplified where the pair is its own mirror image or was reversed before."""
    if pllr.mirror:
        return pllr
    if isinstance(pllr, Mixed):
        return dataclasses.replace(pllr, parts=tuple(reverse(part) for part in pllr.parts))
    return pllr.inner if isinstance(pllr, Reversed) else Reversed(pllr)


def subsample(pllr: Pllr, probability: float) -> Pllr:
    """(P, (1-p) P + p Q), 0 < p <= 1; p = 1 changes nothing."""
    probability = validation.positive("probability", validation.probability("probability", probability))
    return pllr if probability == 1.0 else Subsampled(pllr, probability)
