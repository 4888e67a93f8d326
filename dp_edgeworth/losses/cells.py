"""A leaf cut into cells by the size of its loss: what `convolution.py` composes.

A cell is a set of outcomes whose losses L = log dQ/dP lie between `low` and `high`. Its masses under P and under Q are known, and with
them its mean loss log(Q-mass / P-mass), the loss of a user who is told the cell only. Operations on pairs are operations on cells:

    Reversed     losses change sign, the two masses change places
    Subsampled   losses and means go through L -> log(1 - p + p e^L), which is exact for means too; Q-mass -> (1-p) P-mass + p Q-mass
    Mixed        cells are concatenated

Normal masses are differences of `scipy.special.ndtr` on the side where it is small. At -a, a = |x - shift|, its relative error is below
(8 + 2 a^2 + a |shift|) units in the last place: d log Phi(-a) / d log a is about -a^2, and a is rounded when the shift is subtracted
(1/2), divided by the rounded root of 2 (0.8) and squared (1/4), while |shift| is itself a rounded quotient.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.gaussian_noise import GaussianShift, NormalMixture, SampledReplacement, SampledWithoutReplacement
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.noise_shift import NoiseShift
from dp_edgeworth.losses.pllr import Demand, Mixed, Pllr, Reversed, Subsampled, subsampled_loss
from dp_edgeworth.sums.composition import EPSILON

_EXP_ERROR = 1e-15
_MOST_CELLS, _MOST_MASSES = 100_000, 2_000_000  # cells, and cells times normals
_LEAST = 1e-290  # masses below are not known to any relative accuracy
_FURTHEST = 37.0  # beyond, normal tails are no floats
Losses = Callable[[np.ndarray], np.ndarray]
Normals = list[tuple[float, float]]  # shifts and weights


class Cells(NamedTuple):
    """One row per cell.

    Attributes:
      low, high: bounds of the loss, possibly infinite.
      mean, error: log(q / p) and a bound of its error.
      p, q: masses.
      mass_error: bound of the relative error of all masses that are not negligible.
    """

    low: np.ndarray
    high: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    p: np.ndarray
    q: np.ndarray
    mass_error: float


@functools.singledispatch
def cells(pllr: Pllr, step: float, log_tail: float) -> Cells | None:
    """Cells in which the loss, or its logarithm where that is steeper, changes by about `step` deviations; None for unknown leaves.

    At most e^{log_tail} of Q, and of P, is in cells whose losses are not bounded.
    """
    return None


@cells.register
def _(pllr: GaussianShift, step: float, log_tail: float) -> Cells | None:
    return _on_a_line([(0.0, 1.0)], [(pllr.mu, 1.0)], lambda x: pllr.mu * (x - 0.5 * pllr.mu), step, log_tail)


@cells.register
def _(pllr: NormalMixture, step: float, log_tail: float) -> Cells | None:
    return _on_a_line([(0.0, 1.0)], list(zip(pllr.shifts, pllr.weights, strict=True)), lambda x: pllr._loss(x)[0], step, log_tail)


@cells.register
def _(pllr: SampledReplacement, step: float, log_tail: float) -> Cells | None:
    mu, p = pllr.mu, pllr.probability
    return _on_a_line([(0.0, 1.0 - p), (-mu, p)], [(0.0, 1.0 - p), (mu, p)], lambda x: np.subtract(*pllr._losses(x)), step, log_tail)


@cells.register
def _(pllr: SampledWithoutReplacement, step: float, log_tail: float) -> Cells | None:
    """Of the sampled pair the losses above 0, which are those of x > mu/2, their mirror image, and the rest at 0."""
    mu, p = pllr.mu, pllr.probability
    upper = _on_a_line([(0.0, 1.0)], [(0.0, 1.0 - p), (mu, p)],
                       lambda x: subsampled_loss(mu * (x - 0.5 * mu), np.array(p)), step, log_tail, start=0.5 * mu)
    if upper is None:
        return None
    rest, none = np.array([(1.0 - p) * special.erf(mu / math.sqrt(8.0))]), np.zeros(1)
    return _joined([(1.0, upper), (1.0, _reversed(upper)), (1.0, Cells(none, none, none, none, rest, rest, 8.0 * _EXP_ERROR))])


@cells.register
def _(pllr: LaplaceShift, step: float, log_tail: float) -> Cells | None:
    """Atoms at both ends; between them L = 2x - mu has the P-density e^{-x}/2 and the Q-density e^{x - mu}/2."""
    mu, count = pllr.mu, math.ceil(2.0 * pllr.mu / step) + 8.0
    if not count < _MOST_CELLS:
        return None
    x = np.linspace(0.0, mu, int(count) + 1)
    share = -0.5 * np.expm1(-np.diff(x))
    p = np.concatenate([[0.5], np.exp(-x[:-1]) * share, [0.5 * math.exp(-mu)]])
    low, high = (np.concatenate([[-mu], 2.0 * ends - mu, [mu]]) for ends in (x[:-1], x[1:]))
    return Cells(low, high, 0.5 * (low + high), np.full(len(p), 8.0 * _EXP_ERROR * (1.0 + mu)), p, p[::-1],
                 8.0 * _EXP_ERROR * (1.0 + count + mu))


@cells.register(Atoms)
@cells.register(NoiseShift)
def _(pllr: Pllr, step: float, log_tail: float) -> Cells | None:
    """Finite pairs: their rule is them. Cells are as wide as the errors of the losses, which sampling may magnify."""
    rule = pllr.rule(Demand())
    losses, log_p = rule.values[0], rule.log_weights[0]
    ends, none = np.concatenate([losses, [-np.inf, np.inf]]), np.zeros(1)
    with np.errstate(under="ignore"):
        p, q = np.concatenate([np.exp(log_p), rule.lost, none]), np.concatenate([np.exp(log_p + losses), none, rule.infinite])
    size = float(np.abs(losses).max(initial=0.0) + np.abs(_finite(log_p)).max(initial=0.0))
    error = 4.0 * _EXP_ERROR * np.abs(_finite(ends))
    return Cells(ends - error, ends + error, ends, error, p, q, 4.0 * _EXP_ERROR * (1.0 + size))


@cells.register
def _(pllr: Subsampled, step: float, log_tail: float) -> Cells | None:
    inner, p = cells(pllr.inner, step, log_tail), pllr.probability
    if inner is None:
        return None

    def sampled(loss: np.ndarray) -> np.ndarray:
        return np.where(np.isinf(loss), np.where(loss > 0.0, np.inf, math.log1p(-p)), subsampled_loss(_finite(loss), np.array(p)))

    mean = sampled(inner.mean)
    slope = np.exp(np.minimum(math.log(p) + _finite(inner.mean) - _finite(mean), 0.0))  # at the mean; at most e^error more nearby
    error = slope * np.expm1(np.minimum(inner.error, 700.0)) + 8.0 * _EXP_ERROR * np.abs(_finite(mean))
    return Cells(sampled(inner.low), sampled(inner.high), mean, error, inner.p, (1.0 - p) * inner.p + p * inner.q, inner.mass_error)


@cells.register
def _(pllr: Reversed, step: float, log_tail: float) -> Cells | None:
    inner = cells(pllr.inner, step, log_tail)
    return None if inner is None else _reversed(inner)


@cells.register
def _(pllr: Mixed, step: float, log_tail: float) -> Cells | None:
    parts = [(weight, cells(part, step, log_tail)) for weight, part in zip(pllr.weights, pllr.parts, strict=True) if weight > 0.0]
    known = [(weight, part) for weight, part in parts if part is not None]
    return _joined(known) if len(known) == len(parts) else None


def _reversed(inner: Cells) -> Cells:
    return Cells(-inner.high, -inner.low, -inner.mean, inner.error, inner.q, inner.p, inner.mass_error)


def _joined(parts: list[tuple[float, Cells]]) -> Cells:
    low, high, mean, error = (np.concatenate(column) for column in zip(*(part[:4] for _, part in parts), strict=True))
    p, q = np.concatenate([weight * part.p for weight, part in parts]), np.concatenate([weight * part.q for weight, part in parts])
    return Cells(low, high, mean, error, p, q, max(part.mass_error for _, part in parts) + _EXP_ERROR)


def _on_a_line(p_normals: Normals, q_normals: Normals, losses: Losses, step: float, log_tail: float,
               start: float | None = None) -> Cells | None:
    """Equal cells of x ~ P, Q, two mixtures of N(c, 1) whose loss increases in x; from `start` on, or from a tail to the other."""
    top, reach = max(abs(shift) for shift, _ in q_normals), math.sqrt(2.0 * max(-log_tail, 0.0)) + 1.0
    first = min(shift for shift, _ in p_normals) - reach if start is None else start
    count = math.ceil((top + reach - first) * max(1.0, top) / step)
    if not 0 < count < _MOST_CELLS or count * (len(p_normals) + len(q_normals)) > _MOST_MASSES or reach > _FURTHEST:
        return None
    edges = np.linspace(first, top + reach, count + 1)
    x, loss = np.append(edges, np.inf), np.append(losses(edges), np.inf)
    if start is None:
        x, loss = np.append(-np.inf, x), np.append(-np.inf, loss)

    def masses(shift: float) -> tuple[np.ndarray, np.ndarray]:
        """Of N(shift, 1), and bounds of their errors."""
        low, high = x[:-1] - shift, x[1:] - shift
        ends = np.where(low > 0.0, -low, high), np.where(low > 0.0, -high, low)
        (near, near_error), (far, far_error) = (_lower_tail(end, shift) for end in ends)
        return near - far, near_error + far_error

    (centre, centre_error), zero = masses(0.0), np.zeros(len(x) - 1)
    p, q, p_error, q_error, gap, gap_error = zero, zero, zero, zero, zero, zero
    for shift, weight in p_normals:
        mass, error = masses(shift)
        p, p_error = p + weight * mass, p_error + weight * error
        if shift:
            gap, gap_error = gap - weight * (mass - centre), gap_error + weight * (error + centre_error)
    for shift, weight in q_normals:
        mass, error = masses(shift)
        q, q_error = q + weight * mass, q_error + weight * error
        if shift:
            gap, gap_error = gap + weight * (mass - centre), gap_error + weight * (error + centre_error)
    low, high = loss[:-1], loss[1:]
    with np.errstate(all="ignore"):
        near = np.abs(gap) < 0.5 * p
        mean = np.where(near, np.log1p(np.where(near, gap / p, 0.0)), np.log(q / p))
        error = np.where(near, 2.0 * gap_error / p, 2.0 * (p_error / p + q_error / q)) + 8.0 * _EXP_ERROR * np.abs(_finite(mean))
        known = np.isfinite(mean) & (error < 0.1) & (np.minimum(p, q) > _LEAST)
        unknown = ~known & np.isfinite(low) & np.isfinite(high)
        mean, error = np.where(unknown, 0.5 * (low + high), mean), np.where(unknown, high - low, error)
        relative = [np.max(part_error[part > _LEAST] / part[part > _LEAST], initial=0.0)
                    for part, part_error in ((p, p_error), (q, q_error))]
    return Cells(low, high, np.clip(_finite(mean), low, high), np.where(np.isfinite(error), error, 0.0), p, q, 2.0 * max(relative))


def _lower_tail(x: np.ndarray, shift: float) -> tuple[np.ndarray, np.ndarray]:
    """Phi(x) and a bound of its error; see the header."""
    value, size = special.ndtr(x), np.abs(_finite(x))
    return value, EPSILON * (8.0 + size * (2.0 * size + abs(shift))) * value


def _finite(values: np.ndarray) -> np.ndarray:
    """Infinite and undefined values as 0, which no one looks at."""
    return np.where(np.isfinite(values), values, 0.0)
