"""The law of one loss, written out: atoms, and pieces on which L is a monotone function of x with a known density.

What quadrature with kinks needs (`moments.py`). The rules of `pllr.py` are for smooth integrands and do not know x.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import special

from dp_edgeworth.gaussian import LOG_SQRT_2PI
from dp_edgeworth.noise import (
    Atoms,
    FarLaplaceShift,
    GaussianShift,
    LaplaceShift,
    NormalMixture,
    SampledReplacement,
    SampledWithoutReplacement,
)
from dp_edgeworth.pllr import Mixed, Pllr, Reversed, Subsampled, subsampled_loss

Function = Callable[[np.ndarray], np.ndarray]
_REACH = 11.5  # x^4 phi(x) is below 1e-25 there


class Piece(NamedTuple):
    """x between low and high with a log P-density; the loss is monotone in x. Panels of length `step` resolve both."""

    low: float
    high: float
    step: float
    loss: Function
    log_density: Function


class Law(NamedTuple):
    """The law of L under P, what is finite of it."""

    pieces: tuple[Piece, ...]
    values: np.ndarray
    log_masses: np.ndarray


_NONE = np.zeros(0)


@functools.singledispatch
def law(pllr: Pllr) -> Law | None:
    """Atoms and pieces of a pair, or None where they are not known (a class of the user's)."""
    return None


@law.register
def _(pllr: Atoms) -> Law:
    masses, values = pllr._finite
    return Law((), values, np.log(masses))


@law.register
def _(pllr: FarLaplaceShift) -> Law:
    return Law((), _NONE, _NONE)


def _log_normal(x: np.ndarray) -> np.ndarray:
    return -0.5 * x * x - LOG_SQRT_2PI


def _line(shift: float, loss: Function, log_density: Function = _log_normal) -> Piece:
    """The line as far as L^4 e^L matters: L grows at most like e^{shift x}, until e^{shift x} reaches 1/p < e^700."""
    high = shift + min(4.0 * shift, 700.0 / shift) + _REACH
    return Piece(-_REACH, high, min(0.5, 1.5 / shift), loss, log_density)


@law.register
def _(pllr: GaussianShift) -> Law:
    mu = pllr.mu
    return Law((_line(mu, lambda x: mu * (x - 0.5 * mu)),), _NONE, _NONE)


@law.register
def _(pllr: LaplaceShift) -> Law:
    mu, half = pllr.mu, math.log(0.5)
    piece = Piece(0.0, mu, 0.5, lambda x: 2.0 * x - mu, lambda x: half - x)
    return Law((piece,), np.array([-mu, mu]), np.array([half, half - mu]))


@law.register
def _(pllr: NormalMixture) -> Law:
    shifts, weights = np.array(pllr.shifts), np.array(pllr.weights)

    def loss(x: np.ndarray) -> np.ndarray:
        single = shifts * (x[..., None] - 0.5 * shifts)
        small = np.abs(single).max(axis=-1) < 0.5
        mean = (weights * np.expm1(np.clip(single, -1.0, 1.0))).sum(axis=-1)
        return np.where(small, np.log1p(np.where(small, mean, 0.0)), special.logsumexp(single, axis=-1, b=weights))

    return Law((_line(float(shifts.max()), loss),), _NONE, _NONE)


@law.register
def _(pllr: SampledReplacement) -> Law:
    mu, p = pllr.mu, np.array(pllr.probability)

    def part(sign: float) -> Function:
        return lambda x: subsampled_loss(mu * (sign * x - 0.5 * mu), p)

    line = _line(mu, lambda x: part(1.0)(x) - part(-1.0)(x), lambda x: _log_normal(x) + part(-1.0)(x))
    return Law((line._replace(low=-line.high),), _NONE, _NONE)


@law.register
def _(pllr: SampledWithoutReplacement) -> Law:
    """Above mu/2 the loss of the sampled pair, its mirror image below 0 (weighted by e^L), the rest at 0."""
    mu, p = pllr.mu, np.array(pllr.probability)

    def loss(x: np.ndarray) -> np.ndarray:
        return subsampled_loss(mu * (x - 0.5 * mu), p)

    above = _line(mu, loss)._replace(low=0.5 * mu)
    below = above._replace(loss=lambda x: -loss(x), log_density=lambda x: _log_normal(x) + loss(x))
    rest = (1.0 - pllr.probability) * (special.ndtr(0.5 * mu) - special.ndtr(-0.5 * mu))
    return Law((above, below), np.zeros(1), np.log([max(rest, 5e-324)]))


@law.register
def _(pllr: Subsampled) -> Law | None:
    inner, p = law(pllr.inner), np.array(pllr.probability)
    if inner is None:
        return None

    def sampled(loss: Function) -> Function:
        return lambda x: subsampled_loss(loss(x), p)

    pieces = tuple(piece._replace(loss=sampled(piece.loss)) for piece in inner.pieces)
    values, log_masses = subsampled_loss(inner.values, p), inner.log_masses
    if pllr.inner.lost_mass:  # L = -inf becomes log(1 - p)
        values = np.append(values, math.log1p(-pllr.probability))
        log_masses = np.append(log_masses, math.log(pllr.inner.lost_mass))
    return Law(pieces, values, log_masses)


@law.register
def _(pllr: Reversed) -> Law | None:
    inner = law(pllr.inner)
    if inner is None:
        return None

    def turned(piece: Piece) -> Piece:
        return piece._replace(loss=lambda x: -piece.loss(x), log_density=lambda x: piece.log_density(x) + piece.loss(x))

    return Law(tuple(map(turned, inner.pieces)), -inner.values, inner.log_masses + inner.values)


@law.register
def _(pllr: Mixed) -> Law | None:
    parts = [(math.log(w), law(part)) for w, part in zip(pllr.weights, pllr.parts, strict=True) if w > 0]
    pieces: list[Piece] = []
    values, log_masses = [_NONE], [_NONE]
    for log_weight, part in parts:
        if part is None:
            return None
        pieces += [_weighted(piece, log_weight) for piece in part.pieces]
        values.append(part.values)
        log_masses.append(part.log_masses + log_weight)
    return Law(tuple(pieces), np.concatenate(values), np.concatenate(log_masses))


def _weighted(piece: Piece, log_weight: float) -> Piece:
    return piece._replace(log_density=lambda x: piece.log_density(x) + log_weight)
