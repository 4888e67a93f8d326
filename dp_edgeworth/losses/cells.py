"""A leaf cut into cells by the size of its loss: what is composed where positive terms are added up instead of a contour.

A cell is a set of outcomes whose losses L = log dQ/dP lie between `low` and `high`. Its masses under P and under Q are known, and with
them its mean loss log(Q-mass / P-mass), the loss of a user who is told the cell only. Operations on pairs are operations on cells:

    Cells.reversed     losses change sign, the two masses change places
    Cells.subsampled   losses and means go through L -> log(1 - p + p e^L), exact for means too; Q-mass -> (1-p) P-mass + p Q-mass
    Cells.mixed        cells are concatenated

Normal masses are differences of `scipy.special.ndtr` on the side where it is small. At -a, a = |x - shift|, its relative error is below
(8 + 2 a^2 + a |shift|) units in the last place: d log Phi(-a) / d log a is about -a^2, and a is rounded when the shift is subtracted
(1/2), divided by the rounded root of 2 (0.8) and squared (1/4), while |shift| is itself a rounded quotient.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy import special

from dp_edgeworth.losses.normal_mixtures import Normals
from dp_edgeworth.losses.rules import EPSILON, Rule, subsampled_loss

EXP_ERROR = 1e-15
MOST_CELLS, _MOST_MASSES = 500_000, 2_000_000  # cells, and cells times normals
_LEAST = 1e-290  # masses below are not known to any relative accuracy
_FURTHEST = 37.0  # beyond, normal tails are no floats
_INVERTED = 20_001  # points between which the loss is inverted, fewer where there are many normals
Masses = tuple[np.ndarray, np.ndarray]  # and bounds of their errors


class Cells(NamedTuple):
    """One row per cell.

    Attributes:
      low, high: bounds of the loss, possibly infinite.
      mean, error: log(q / p) and a bound of its error.
      p, q: masses.
      p_error, q_error: bounds of their errors.
    """

    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    p: np.ndarray
    q: np.ndarray
    p_error: np.ndarray
    q_error: np.ndarray

    def chosen(self, which: np.ndarray) -> Cells:
        """Some of them."""
        return Cells(*(column[which] for column in self))

    def reversed(self) -> Cells:
        return Cells(-self.high, -self.low, -self.mean, self.error, self.q, self.p, self.q_error, self.p_error)

    def subsampled(self, probability: float) -> Cells:
        p = probability

        def sampled(loss: np.ndarray) -> np.ndarray:
            return np.where(np.isinf(loss), np.where(loss > 0.0, np.inf, math.log1p(-p)), subsampled_loss(_finite(loss), np.array(p)))

        mean = sampled(self.mean)
        slope = np.exp(np.minimum(math.log(p) + _finite(self.mean) - _finite(mean), 0.0))  # at the mean; at most e^error more nearby
        error = slope * np.expm1(np.minimum(self.error, 700.0)) + 8.0 * EXP_ERROR * np.abs(_finite(mean))
        q, q_error = (1.0 - p) * self.p + p * self.q, (1.0 - p) * self.p_error + p * self.q_error
        return Cells(sampled(self.low), sampled(self.high), mean, error, self.p, q, self.p_error, q_error + EXP_ERROR * q)

    @staticmethod
    def mixed(parts: Sequence[tuple[float, Cells]]) -> Cells:
        """Those of several pairs, with their weights."""
        low, high, mean, error = (np.concatenate(column) for column in zip(*(part[:4] for _, part in parts), strict=True))
        p, q, p_error, q_error = (np.concatenate([weight * part[i] for weight, part in parts]) for i in range(4, 8))
        return Cells(low, high, mean, error, p, q, p_error + EXP_ERROR * p, q_error + EXP_ERROR * q)

    @staticmethod
    def of_atoms(rule: Rule) -> Cells:
        """Of a finite pair, whose rule is it. Cells are as wide as the errors of the losses, which sampling may magnify."""
        losses, log_p = rule.values[0], rule.log_weights[0]
        ends, none = np.concatenate([losses, [-np.inf, np.inf]]), np.zeros(1)
        with np.errstate(under="ignore"):
            p, q = np.concatenate([np.exp(log_p), rule.lost, none]), np.concatenate([np.exp(log_p + losses), none, rule.infinite])
        size = float(np.abs(losses).max(initial=0.0) + np.abs(_finite(log_p)).max(initial=0.0))
        error = 4.0 * EXP_ERROR * np.abs(_finite(ends))
        relative = 4.0 * EXP_ERROR * (1.0 + size)
        return Cells(ends - error, ends + error, ends, error, p, q, relative * p, relative * q)


def normal_cells(normals: Normals, cuts: float | np.ndarray, log_tail: float, start: float | None = None) -> Cells | None:
    """Cells of the pair of these mixtures, whose loss increases in x; from `start` on, or from a tail to the other.

    They are equal, of about `cuts`, or cut at about the losses `cuts`: where is interpolated, what their bounds are is evaluated.
    """
    top, reach = normals.top, math.sqrt(2.0 * max(-log_tail, 0.0)) + 1.0
    first = start if start is not None else (-top if normals.mirrored else 0.0) - reach
    count = len(cuts) if isinstance(cuts, np.ndarray) else math.ceil((top + reach - first) * max(1.0, top) / cuts)
    if not 0 < count < MOST_CELLS or count * (len(normals.shifts) + 1) > _MOST_MASSES or reach > _FURTHEST:
        return None
    points = min(_INVERTED, _MOST_MASSES // len(normals.shifts)) if isinstance(cuts, np.ndarray) else count + 1
    edges = np.linspace(first, top + reach, points)
    if isinstance(cuts, np.ndarray):
        inside = np.maximum.accumulate(np.interp(cuts, normals.loss(edges), edges))
        edges = np.concatenate([edges[:1], inside, edges[-1:]])
        edges = edges[np.diff(edges, prepend=-np.inf) > 0.0]
    x, loss = np.append(edges, np.inf), np.append(normals.loss(edges), np.inf)
    if start is None:
        x, loss = np.append(-np.inf, x), np.append(-np.inf, loss)
    standard, none = _normal_masses(x, 0.0), np.zeros(len(x) - 1)
    (q, q_error), (q_gap, q_gap_error) = _mixed_masses(x, normals, 1.0, standard)
    (p, p_error), (p_gap, p_gap_error) = _mixed_masses(x, normals, -1.0, standard) if normals.mirrored else (standard, (none, none))
    return _with_means(loss[:-1], loss[1:], (p, p_error), (q, q_error), (q_gap - p_gap, p_gap_error + q_gap_error))


def _mixed_masses(x: np.ndarray, normals: Normals, sign: float, standard: Masses) -> tuple[Masses, Masses]:
    """Of a mixture or its mirror image, and of its difference from N(0, 1), in which small shifts do not cancel."""
    zero = np.zeros(len(x) - 1)
    mass, error, gap, gap_error = zero, zero, zero, zero
    for shift, weight in zip((sign * normals.shifts).tolist(), normals.weights.tolist(), strict=True):
        part, part_error = _normal_masses(x, shift) if shift else standard
        mass, error = mass + weight * part, error + weight * part_error
        if shift:
            gap, gap_error = gap + weight * (part - standard[0]), gap_error + weight * (part_error + standard[1])
    return (mass, error), (gap, gap_error)


def _normal_masses(x: np.ndarray, shift: float) -> Masses:
    """Of N(shift, 1) between neighbours, from the tails on the side of each, and bounds of their errors."""
    right = x > shift
    tail, error = _lower_tail(-np.abs(x - shift), shift)
    mass = np.where(right[:-1], tail[:-1] - tail[1:], np.where(right[1:], (1.0 - tail[1:]) - tail[:-1], tail[1:] - tail[:-1]))
    return mass, error[:-1] + error[1:] + np.where(right[1:] & ~right[:-1], 2.0 * EPSILON, 0.0)


def _with_means(low: np.ndarray, high: np.ndarray, p_masses: Masses, q_masses: Masses, gaps: Masses) -> Cells:
    """Cells between losses, with log(q/p) from q - p where that is small, and from the ends where the masses are not known."""
    (p, p_error), (q, q_error), (gap, gap_error) = p_masses, q_masses, gaps
    with np.errstate(all="ignore"):
        near = np.abs(gap) < 0.5 * p
        mean = np.where(near, np.log1p(np.where(near, gap / p, 0.0)), np.log(q / p))
        error = np.where(near, 2.0 * (gap_error + np.abs(gap) * (p_error / p)) / p, 2.0 * (p_error / p + q_error / q))
        error += 8.0 * EXP_ERROR * np.abs(_finite(mean))
        known = np.isfinite(mean) & (error < 0.1) & (np.minimum(p, q) > _LEAST)
        unknown = ~known & np.isfinite(low) & np.isfinite(high)
        mean, error = np.where(unknown, 0.5 * (low + high), mean), np.where(unknown, high - low, error)
    return Cells(low, high, np.clip(_finite(mean), low, high), np.where(np.isfinite(error), error, 0.0), p, q, 2.0 * p_error, 2.0 *
                 q_error)


def _lower_tail(x: np.ndarray, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Phi(x) and a bound of its error; see the header."""
    value, size = special.ndtr(x), np.abs(_finite(x))
    return value, EPSILON * (8.0 + size * (2.0 * size + abs(shift))) * value


def _finite(values: np.ndarray) -> np.ndarray:
    """Infinite and undefined values as 0, which no one looks at."""
    return np.where(np.isfinite(values), values, 0.0)
