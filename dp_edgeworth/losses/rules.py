"""Quadrature rules: how expectations under a pair of distributions are written down, and how operations on pairs act on them.

Everything that is asked of a pair (P, Q) with loss L = log dQ/dP is an expectation E_P[e^{s L}], s = z + 1, so a pair is something
that can write down a rule (values of L, weights under P) accurate for the exponents and frequencies it is asked for (`Demand`).

    Rule.reversed      (P, Q) -> (Q, P)                  values -> -values, log-weights -> log-weights + values
    Rule.subsampled    (P, Q) -> (P, (1-p) P + p Q)      values -> log(1 - p + p e^{values})
    Rule.mixed         a public coin chooses the pair    rules are concatenated

Rules are batches: row i belongs to member i, so ten thousand subsampled Gaussians are one array.

Accuracy of a rule, relative to e^{K(Re z)}, is at most e^{-40} / count. Arguments:

    trapezoid in x     Gaussian noise is analytic in a strip, so the error falls like e^{-2 pi a / step} (`trapezoid.py`)
    Gauss-Legendre     Bernstein ellipse (Trefethen, Approximation Theory and Practice, Theorem 19.3; `panels.py`)
    atoms              exact
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

EPSILON = np.finfo(float).eps  # one unit in the last place of 1
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
    with exponents s between turning and turned only.
    """

    low: float = 0.0
    high: float = 1.0
    frequency: float = 0.0
    log_count: float = 0.0
    log_tail: float = -math.inf
    turning: float = -math.inf
    turned: float = math.inf

    @property
    def digits(self) -> float:
        return DIGITS + self.log_count

    def reversed(self) -> Demand:
        """E_Q[e^{s (-L)}] = E_P[e^{(1 - s) L}]; its largest losses are the smallest of L, and none of these is left out."""
        return dataclasses.replace(self, low=1.0 - self.high, high=1.0 - self.low, log_tail=-math.inf, turning=-math.inf,
                                   turned=1.0 - self.turning)


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
    def stacked(cls, rules: Sequence[Rule]) -> Rule:
        """Rows of several rules below each other, padded with weight 0."""
        if len(rules) == 1:
            return rules[0]
        missing, edges, densities = None, None, None
        if any(rule.missing is not None for rule in rules):
            missing = np.concatenate([np.zeros((2, len(r.values))) if r.missing is None else r.missing for r in rules], axis=1)
        if all(rule.cell_log_density is not None for rule in rules):
            densities = _padded([rule.cell_log_density for rule in rules], constant_values=-np.inf)
            edges = _padded([rule.edges for rule in rules], mode="edge")
        return cls(_padded([rule.values for rule in rules]), _padded([rule.log_weights for rule in rules], constant_values=-np.inf),
                   np.concatenate([rule.lost for rule in rules]), np.concatenate([rule.infinite for rule in rules]),
                   edges, densities, missing)

    @classmethod
    def mixed(cls, weights: Sequence[float], rules: Sequence[Rule]) -> Rule:
        """The rule of a public coin that chooses the pair, from rules of one row; the density is that of the likeliest part alone."""
        main, most = max(zip(rules, weights, strict=True), key=lambda part: part[1])

        def total(masses: Iterable[np.ndarray | None], start: np.ndarray) -> np.ndarray:
            return sum((weight * mass for weight, mass in zip(weights, masses, strict=True) if mass is not None), start)

        return cls(np.concatenate([rule.values for rule in rules], axis=1),
                   np.concatenate([math.log(weight) + rule.log_weights for weight, rule in zip(weights, rules, strict=True)], axis=1),
                   total((rule.lost for rule in rules), np.zeros(1)), total((rule.infinite for rule in rules), np.zeros(1)), main.edges,
                   None if main.cell_log_density is None else main.cell_log_density + math.log(most),
                   total((rule.missing for rule in rules), np.zeros((2, 1))))

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


def _padded(rows: Sequence[np.ndarray | None], **filling: Any) -> np.ndarray:
    """Arrays below each other, those with fewer columns filled up as `numpy.pad` is told."""
    known = [row for row in rows if row is not None]
    width = max(row.shape[1] for row in known)
    return np.concatenate([np.pad(row, ((0, 0), (0, width - row.shape[1])), **filling) for row in known])


def subsampled_loss(loss: np.ndarray, p: np.ndarray) -> np.ndarray:
    """log(1 - p + p e^loss), to relative accuracy for small p, small loss and both tails."""
    if p.max() <= 0.5 and loss.max(initial=0.0) <= 500.0:  # 1 - p + p e^loss >= 1/2: nothing cancels
        return np.log1p(p * np.expm1(loss))
    with np.errstate(all="ignore"):
        near = np.log1p(p * np.expm1(np.clip(loss, -1.0, 500.0)))
        low = np.logaddexp(np.log1p(-p), np.log(p) + np.minimum(loss, -1.0))
        shifted = np.log(p) + np.maximum(loss, 500.0)
        high = np.where(shifted > 40.0, shifted, np.log1p(np.exp(np.minimum(shifted, 40.0)) - p))
    return np.where(loss > 500.0, high, np.where(loss > -1.0, near, low))


def unsampled_loss(loss: np.ndarray, p: float) -> np.ndarray:
    """log(1 + (e^loss - 1) / p), what `subsampled_loss` undoes: within 1e-15 of itself for loss >= 0, -inf where there is none."""
    with np.errstate(over="ignore", divide="ignore"):
        near = np.log1p(np.maximum(np.expm1(np.minimum(loss, 30.0)) / p, -1.0))
        return np.where(loss > 30.0, loss - math.log(p) + np.log1p(-np.exp(-np.maximum(loss, 30.0)) * (1.0 - p)), near)


def subsampled_number(loss: float, p: float) -> float:
    """The same for one number; the infinite ones, which are frequent, without an array."""
    if math.isinf(loss):
        return loss if loss > 0 else math.log1p(-p) if p < 1.0 else -math.inf
    return float(subsampled_loss(np.array(loss), np.array(p)))
