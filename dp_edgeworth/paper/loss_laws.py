"""The law of one loss, written out: atoms, and pieces on which L is a monotone function of x with a known density.

What quadrature with kinks needs (`moments.py`). The rules of `losses` are for smooth integrands and do not know x.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.gaussian_curve import LOG_SQRT_2PI
from dp_edgeworth.losses.gaussian_noise import GaussianShift, NormalMixture, NormalPair
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.normal_mixtures import Normals
from dp_edgeworth.losses.operations import Mixed, Reversed, Subsampled
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import Demand, check_size, subsampled_loss
from dp_edgeworth.losses.sampled_gaussian import SampledWithoutReplacement

Function = Callable[[np.ndarray], np.ndarray]
NODES = 14  # per panel
_DEMAND = Demand(0.0, 5.0)  # L^4 e^{sL}, s = 0 or 1, grows at most like e^{5L}
_LONGEST, _LONGEST_LAPLACE = 1.25, 0.75  # panels that resolve the normal density; and sampled Laplace noise, analytic within pi/2
_NONE = np.zeros(0)


class Piece(NamedTuple):
    """Panels [edges_j, edges_{j+1}] of x; the loss is monotone in x."""

    edges: np.ndarray
    loss: Function
    log_density: Function  # under P


class Law(NamedTuple):
    """The law of L under P, what is finite of it."""

    pieces: tuple[Piece, ...]
    values: np.ndarray = _NONE
    log_masses: np.ndarray = _NONE


@functools.singledispatch
def law(pllr: Pllr) -> Law | None:
    """Atoms and pieces, or None where they are not known (a class of the user's)."""
    return None


@law.register
def _(pllr: Atoms) -> Law:
    log_masses, losses = pllr._log_finite
    return Law((), losses, log_masses)


@law.register
def _(pllr: LaplaceShift) -> Law:
    mu, half, atoms = pllr.mu, math.log(0.5), np.array([-pllr.mu, pllr.mu])
    edges = np.linspace(0.0, mu, _count(mu / _LONGEST_LAPLACE) + 1)
    return Law((Piece(edges, lambda x: 2.0 * x - mu, lambda x: half - x),), atoms, half + np.minimum(-atoms, 0.0))


def _count(panels: float) -> int:
    return check_size(NODES * max(1.0, math.ceil(panels))) // NODES


def _piece(normals: Normals, low: float | None = None) -> Piece:
    """The mixture, or what is above x = low of it.

    Where the slope of L changes by d it has singularities at a distance of pi / d: a panel is halved while the slope changes by more
    than 1 / length over three times its length. Fourteen nodes then leave a relative error below 1e-15 (Bernstein ellipse).
    """
    def slope(x: np.ndarray) -> np.ndarray:
        return normals.slope(x) - normals.slope(-x) if normals.mirrored else normals.slope(x)

    first, last = normals.ends(_DEMAND, -math.inf)
    first = first if low is None else low
    edges, bent = np.linspace(first, last, _count((last - first) / _LONGEST) + 1), np.ones(1, bool)
    while bent.any():
        length, middle = np.diff(edges), 0.5 * (edges[1:] + edges[:-1])
        bent = length * (slope(edges[1:] + length) - slope(edges[:-1] - length)) > 1.0
        edges = np.sort(np.concatenate([edges, middle[bent]]))
        _count(float(len(edges)))
    return Piece(edges, normals.loss, lambda x: normals.log_densities(x)[1] - 0.5 * x * x - LOG_SQRT_2PI)


@law.register
def _(pllr: GaussianShift) -> Law:
    return Law((_piece(Normals.single(pllr.mu)),))


@law.register
def _(pllr: NormalPair) -> Law:
    return Law((_piece(pllr.normals),))


@law.register
def _(pllr: SampledWithoutReplacement) -> Law:
    """Above mu/2 the loss of the sampled pair, its mirror image below 0 (weighted by e^L), the rest at 0."""
    above = _piece(pllr.normals, 0.5 * pllr.mu)
    return Law((above, _turned(above)), np.zeros(1), np.log(np.maximum([pllr.mass_of_zero], 5e-324)))


@law.register
def _(pllr: Subsampled) -> Law | None:
    """A sampled mixture of normal laws is another one, a sampled public coin samples its parts."""
    p = pllr.probability
    match pllr.inner:
        case GaussianShift(mu=mu):
            return Law((_piece(Normals.sampled(mu, p)),))
        case NormalMixture(shifts=shifts, weights=weights):
            return Law((_piece(Normals(np.array([0.0, *shifts]), np.array([1.0 - p, *(p * weight for weight in weights)]))),))
        case Mixed(weights=weights, parts=parts):
            return law(Mixed(weights, tuple(Subsampled(part, p) for part in parts)))
    inner = law(pllr.inner)
    if inner is None or (inner.pieces and not isinstance(pllr.inner, LaplaceShift)):
        return None
    values, log_masses = subsampled_loss(inner.values, np.array(p)), inner.log_masses
    if pllr.inner.lost_mass:  # L = -inf becomes log(1 - p)
        values = np.append(values, np.log1p(-p))
        log_masses = np.append(log_masses, math.log(pllr.inner.lost_mass))

    def sampled(piece: Piece) -> Piece:
        return piece._replace(loss=lambda x: subsampled_loss(piece.loss(x), np.array(p)))

    return Law(tuple(map(sampled, inner.pieces)), values, log_masses)


@law.register
def _(pllr: Reversed) -> Law | None:
    inner = law(pllr.inner)
    return inner and Law(tuple(map(_turned, inner.pieces)), -inner.values, inner.log_masses + inner.values)


def _turned(piece: Piece) -> Piece:
    return piece._replace(loss=lambda x: -piece.loss(x), log_density=lambda x: piece.log_density(x) + piece.loss(x))


@law.register
def _(pllr: Mixed) -> Law | None:
    def weighted(piece: Piece, log_weight: float) -> Piece:
        return piece._replace(log_density=lambda x: piece.log_density(x) + log_weight)

    parts = [(math.log(weight), law(part)) for weight, part in zip(pllr.weights, pllr.parts, strict=True) if weight > 0.0]
    known = [(log_weight, part) for log_weight, part in parts if part is not None]
    if len(known) < len(parts):
        return None
    return Law(tuple(weighted(piece, log_weight) for log_weight, part in known for piece in part.pieces),
               np.concatenate([part.values for _, part in known]),
               np.concatenate([part.log_masses + log_weight for log_weight, part in known]))
