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

from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.gaussian_curve import LOG_SQRT_2PI
from dp_edgeworth.losses.gaussian_noise import GaussianShift, NormalMixture
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.operations import Mixed, Reversed, Subsampled
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import check_size, subsampled_loss
from dp_edgeworth.losses.sampled_gaussian import SampledReplacement, SampledWithoutReplacement

Function = Callable[[np.ndarray], np.ndarray]
NODES = 14  # per panel
_REACH = 11.5  # x^4 phi(x) is below 1e-25 there
_PANEL = 1.25  # the normal density is resolved by 14 nodes on this length
_NONE = np.zeros(0)


class Piece(NamedTuple):
    """Panels [edges_j, edges_{j+1}] of x; the loss is monotone in x. A panel may have length 0."""

    edges: np.ndarray
    loss: Function
    log_density: Function  # under P


class Law(NamedTuple):
    """The law of L under P, what is finite of it."""

    pieces: tuple[Piece, ...]
    values: np.ndarray
    log_masses: np.ndarray


@functools.singledispatch
def law(pllr: Pllr) -> Law | None:
    """Atoms and pieces, or None where they are not known (a class of the user's)."""
    return None


@law.register
def _(pllr: Atoms) -> Law:
    log_masses, losses = pllr._log_finite
    return Law((), losses, log_masses)


def _log_normal(x: np.ndarray) -> np.ndarray:
    return -0.5 * x * x - LOG_SQRT_2PI


def _panels(low: float, high: float, longest: float) -> np.ndarray:
    """Equal panels."""
    number = check_size(NODES * max(1.0, math.ceil((high - low) / longest))) // NODES
    return np.linspace(low, high, number + 1)


def _refined(edges: np.ndarray, bend: float, width: float) -> np.ndarray:
    """Panels near x = bend, where L has singularities bend +- i pi width: at most as long as the larger of `width` and half
    their distance. Fourteen nodes then leave a relative error below 1e-15 (Bernstein ellipse with rho above 6)."""
    steps = math.ceil(max(math.log(_PANEL / width) / math.log(1.5), 0.0)) + 1
    distance = width * 1.5 ** np.arange(steps)
    return np.sort(np.concatenate([edges, np.clip([bend, *(bend - distance), *(bend + distance)], edges[0], edges[-1])]))


def _end(shift: float) -> float:
    """How far L^4 e^L matters: L grows at most like e^{shift x}, until e^{shift x} reaches 1/p < e^700."""
    return shift + min(4.0 * shift, 700.0 / shift) + _REACH


def _bend(shift: float, p: float) -> float:
    """Where p e^L = 1 - p for L = shift (x - shift/2)."""
    return 0.5 * shift + (math.log1p(-min(p, 1.0 - 1e-16)) - math.log(p)) / shift


@law.register
def _(pllr: GaussianShift) -> Law:
    mu = pllr.mu
    return Law((Piece(_panels(-_REACH, _end(mu), _PANEL), lambda x: mu * (x - 0.5 * mu), _log_normal),), _NONE, _NONE)


@law.register
def _(pllr: LaplaceShift) -> Law:
    mu, half = pllr.mu, math.log(0.5)
    edges = _panels(0.0, mu, 0.75)  # sampled, L is analytic within pi/2 of the line
    atoms = np.array([-mu, mu])
    return Law((Piece(edges, lambda x: 2.0 * x - mu, lambda x: half - x),), atoms, half + np.minimum(-atoms, 0.0))


@law.register
def _(pllr: NormalMixture) -> Law:
    shifts, weights = np.array(pllr.shifts), np.array(pllr.weights)
    top = float(shifts.max())

    def loss(x: np.ndarray) -> np.ndarray:
        single = shifts * (x[:, None] - 0.5 * shifts)
        small = np.abs(single).max(axis=-1) < 0.5
        mean = (weights * np.expm1(np.clip(single, -1.0, 1.0))).sum(axis=-1)
        return np.where(small, np.log1p(np.where(small, mean, 0.0)), special.logsumexp(single, axis=-1, b=weights))

    # L is analytic within pi/(2 top) of the line.
    return Law((Piece(_panels(-_REACH, _end(top), min(_PANEL, 1.5 / top)), loss, _log_normal),), _NONE, _NONE)


@law.register
def _(pllr: SampledReplacement) -> Law:
    mu, p = pllr.mu, pllr.probability

    def part(x: np.ndarray) -> np.ndarray:
        return subsampled_loss(mu * (x - 0.5 * mu), np.array(p))

    bend = _bend(mu, p)
    edges = _refined(_refined(_panels(-_end(mu), _end(mu), _PANEL), bend, 1.0 / mu), -bend, 1.0 / mu)
    return Law((Piece(edges, lambda x: part(x) - part(-x), lambda x: _log_normal(x) + part(-x)),), _NONE, _NONE)


@law.register
def _(pllr: SampledWithoutReplacement) -> Law:
    """Above mu/2 the loss of the sampled pair, its mirror image below 0 (weighted by e^L), the rest at 0."""
    mu, p = pllr.mu, pllr.probability

    def loss(x: np.ndarray) -> np.ndarray:
        return subsampled_loss(mu * (x - 0.5 * mu), np.array(p))

    edges = _refined(_panels(0.5 * mu, _end(mu), _PANEL), _bend(mu, p), 1.0 / mu)
    below = Piece(edges, lambda x: -loss(x), lambda x: _log_normal(x) + loss(x))
    rest = (1.0 - p) * (special.ndtr(0.5 * mu) - special.ndtr(-0.5 * mu))
    return Law((Piece(edges, loss, _log_normal), below), np.zeros(1), np.log(np.maximum([rest], 5e-324)))


@law.register
def _(pllr: Subsampled) -> Law | None:
    inner, p = law(pllr.inner), np.array(pllr.probability)
    if inner is None:
        return None
    values, log_masses = subsampled_loss(inner.values, p), inner.log_masses
    if pllr.inner.lost_mass:  # L = -inf becomes log(1 - p)
        with np.errstate(divide="ignore"):
            values = np.append(values, np.log1p(-p))
            log_masses = np.append(log_masses, math.log(pllr.inner.lost_mass))

    def sampled(piece: Piece) -> Piece:
        edges = piece.edges
        if isinstance(pllr.inner, GaussianShift):
            edges = _refined(edges, _bend(pllr.inner.mu, float(p)), 1.0 / pllr.inner.mu)
        return piece._replace(edges=edges, loss=lambda x: subsampled_loss(piece.loss(x), p))

    return Law(tuple(map(sampled, inner.pieces)), values, log_masses)


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
    def weighted(piece: Piece, log_weight: float) -> Piece:
        return piece._replace(log_density=lambda x: piece.log_density(x) + log_weight)

    pieces: list[Piece] = []
    values, log_masses = _NONE, _NONE
    for weight, inner in zip(pllr.weights, pllr.parts, strict=True):
        if weight > 0.0:
            part = law(inner)
            if part is None:
                return None
            pieces += [weighted(piece, math.log(weight)) for piece in part.pieces]
            values, log_masses = np.append(values, part.values), np.append(log_masses, part.log_masses + math.log(weight))
    return Law(tuple(pieces), values, log_masses)
