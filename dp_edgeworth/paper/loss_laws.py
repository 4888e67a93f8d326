"""The laws of losses of one kind, written out: atoms, and pieces on which L is a monotone function of x with a known density.

What quadrature with kinks needs (`moments.py`). The rules of `pllr.py` are for smooth integrands and do not know x. Like
them, laws are batches: row i belongs to member i, and parameters are columns, so a thousand leaves are one array.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

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
_REACH = 11.5  # x^4 phi(x) is below 1e-25 there
_PANEL = 1.25  # the normal density is resolved by 14 nodes on this length
NODES = 14  # per panel


class Piece(NamedTuple):
    """Panels [edges_j, edges_{j+1}] of x, one row per member; the loss is monotone in x. A panel may have length 0."""

    edges: np.ndarray
    loss: Function
    log_density: Function  # under P


class Law(NamedTuple):
    """The law of L under P, what is finite of it. Padding has log-mass -inf."""

    pieces: tuple[Piece, ...]
    values: np.ndarray
    log_masses: np.ndarray

    @property
    def nodes(self) -> int:
        """Nodes per member."""
        return sum(NODES * (piece.edges.shape[1] - 1) for piece in self.pieces) + self.values.shape[1]


def law(members: Sequence[Pllr]) -> Law | None:
    """Atoms and pieces of members of one kind, or None where they are not known (a class of the user's)."""
    return _law(members[0], members)


def is_batch(pllr: Pllr) -> bool:
    """Whether members of its kind have a common law: mixtures have parts of any kinds and come one at a time."""
    return not any(issubclass(part, Mixed) for part in pllr.kind)


@functools.singledispatch
def _law(first: Pllr, members: Sequence[Any]) -> Law | None:
    return None


def _column(members: Sequence[Any], name: str) -> np.ndarray:
    return np.array([[getattr(member, name)] for member in members], float)


def _no_atoms(members: Sequence[Any]) -> np.ndarray:
    return np.zeros((len(members), 0))


def _padded(rows: Sequence[np.ndarray], filling: float) -> np.ndarray:
    width = max(len(row) for row in rows)
    return np.array([np.pad(row, (0, width - len(row)), constant_values=filling) for row in rows])


@_law.register
def _(first: Atoms, members: Sequence[Any]) -> Law:
    finite = [member._log_finite for member in members]
    return Law((), _padded([losses for _, losses in finite], 0.0), _padded([log_masses for log_masses, _ in finite], -np.inf))


def _log_normal(x: np.ndarray) -> np.ndarray:
    return -0.5 * x * x - LOG_SQRT_2PI


def _panels(low: np.ndarray, high: np.ndarray, longest: float) -> np.ndarray:
    """Equal panels per row, the same number in each."""
    number = check_size(NODES * max(1.0, np.ceil(((high - low) / longest).max()))) // NODES
    return low + (high - low) * np.linspace(0.0, 1.0, number + 1)


def _refined(edges: np.ndarray, bend: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Panels near x = bend, where L has singularities bend +- i pi width: at most as long as the larger of `width` and half
    their distance. Fourteen nodes then leave a relative error below 1e-15 (Bernstein ellipse with rho above 6)."""
    steps = math.ceil(max(math.log(_PANEL / float(width.min())) / math.log(1.5), 0.0)) + 1
    distance = width * 1.5 ** np.arange(steps)
    extra = np.concatenate([bend - distance, bend, bend + distance], axis=1)
    return np.sort(np.concatenate([edges, np.clip(extra, edges[:, :1], edges[:, -1:])], axis=1), axis=1)


def _line(shift: np.ndarray) -> np.ndarray:
    """The line as far as L^4 e^L matters: L grows at most like e^{shift x}, until e^{shift x} reaches 1/p < e^700."""
    high = shift + np.minimum(4.0 * shift, 700.0 / shift) + _REACH
    return _panels(np.full(shift.shape, -_REACH), high, _PANEL)


def _bend(shift: np.ndarray, p: np.ndarray) -> np.ndarray:
    """Where p e^L = 1 - p for L = shift (x - shift/2)."""
    return 0.5 * shift + (np.log1p(-np.minimum(p, 1.0 - 1e-16)) - np.log(p)) / shift


@_law.register
def _(first: GaussianShift, members: Sequence[Any]) -> Law:
    mu, none = _column(members, "mu"), _no_atoms(members)
    return Law((Piece(_line(mu), lambda x: mu * (x - 0.5 * mu), _log_normal),), none, none)


@_law.register
def _(first: LaplaceShift, members: Sequence[Any]) -> Law:
    mu, half = _column(members, "mu"), math.log(0.5)
    edges = _panels(np.zeros(mu.shape), mu, 0.75)  # sampled, L is analytic within pi/2 of the line
    atoms = np.concatenate([-mu, mu], axis=1)
    return Law((Piece(edges, lambda x: 2.0 * x - mu, lambda x: half - x),), atoms, half + np.minimum(-atoms, 0.0))


@_law.register
def _(first: NormalMixture, members: Sequence[Any]) -> Law:
    shifts = _padded([np.array(member.shifts) for member in members], 0.0)[:, None, :]
    weights = _padded([np.array(member.weights) for member in members], 0.0)[:, None, :]
    top, none = shifts.max(axis=2), _no_atoms(members)

    def loss(x: np.ndarray) -> np.ndarray:
        single = shifts * (x[..., None] - 0.5 * shifts)
        small = np.abs(single).max(axis=-1) < 0.5
        mean = (weights * np.expm1(np.clip(single, -1.0, 1.0))).sum(axis=-1)
        return np.where(small, np.log1p(np.where(small, mean, 0.0)), special.logsumexp(single, axis=-1, b=weights))

    line = _line(top)
    finest = min(_PANEL, 1.5 / float(top.max()))  # L is analytic within pi/(2 top) of the line
    return Law((Piece(_panels(line[:, :1], line[:, -1:], finest), loss, _log_normal),), none, none)


@_law.register
def _(first: SampledReplacement, members: Sequence[Any]) -> Law:
    mu, p, none = _column(members, "mu"), _column(members, "probability"), _no_atoms(members)

    def part(x: np.ndarray) -> np.ndarray:
        return subsampled_loss(mu * (x - 0.5 * mu), p)

    high, bend = _line(mu)[:, -1:], _bend(mu, p)
    edges = _refined(_refined(_panels(-high, high, _PANEL), bend, 1.0 / mu), -bend, 1.0 / mu)
    piece = Piece(edges, lambda x: part(x) - part(-x), lambda x: _log_normal(x) + part(-x))
    return Law((piece,), none, none)


@_law.register
def _(first: SampledWithoutReplacement, members: Sequence[Any]) -> Law:
    """Above mu/2 the loss of the sampled pair, its mirror image below 0 (weighted by e^L), the rest at 0."""
    mu, p = _column(members, "mu"), _column(members, "probability")

    def loss(x: np.ndarray) -> np.ndarray:
        return subsampled_loss(mu * (x - 0.5 * mu), p)

    edges = _refined(_panels(0.5 * mu, _line(mu)[:, -1:], _PANEL), _bend(mu, p), 1.0 / mu)
    below = Piece(edges, lambda x: -loss(x), lambda x: _log_normal(x) + loss(x))
    rest = (1.0 - p) * (special.ndtr(0.5 * mu) - special.ndtr(-0.5 * mu))
    return Law((Piece(edges, loss, _log_normal), below), np.zeros(mu.shape), np.log(np.maximum(rest, 5e-324)))


@_law.register
def _(first: Subsampled, members: Sequence[Any]) -> Law | None:
    inner, p = law([member.inner for member in members]), _column(members, "probability")
    if inner is None:
        return None
    values, log_masses = subsampled_loss(inner.values, p), inner.log_masses
    lost = np.array([[member.inner.lost_mass] for member in members])
    if lost.any():  # L = -inf becomes log(1 - p)
        with np.errstate(divide="ignore"):
            values = np.concatenate([values, np.log1p(-p)], axis=1)
            log_masses = np.concatenate([log_masses, np.log(lost)], axis=1)
    return Law(tuple(_sampled(piece, p, members) for piece in inner.pieces), values, log_masses)


def _sampled(piece: Piece, p: np.ndarray, members: Sequence[Any]) -> Piece:
    edges = piece.edges
    if isinstance(members[0].inner, GaussianShift):
        mu = np.array([[member.inner.mu] for member in members])
        edges = _refined(edges, _bend(mu, p), 1.0 / mu)
    return piece._replace(edges=edges, loss=lambda x: subsampled_loss(piece.loss(x), p))


@_law.register
def _(first: Reversed, members: Sequence[Any]) -> Law | None:
    inner = law([member.inner for member in members])
    if inner is None:
        return None

    def turned(piece: Piece) -> Piece:
        return piece._replace(loss=lambda x: -piece.loss(x), log_density=lambda x: piece.log_density(x) + piece.loss(x))

    return Law(tuple(map(turned, inner.pieces)), -inner.values, inner.log_masses + inner.values)


@_law.register
def _(first: Mixed, members: Sequence[Any]) -> Law | None:
    """Of one mixture: see `is_batch`."""
    (mixture,) = members
    parts = [(math.log(w), law([part])) for w, part in zip(mixture.weights, mixture.parts, strict=True) if w > 0]
    pieces: list[Piece] = []
    values, log_masses = [_no_atoms(members)], [_no_atoms(members)]
    for log_weight, part in parts:
        if part is None:
            return None
        pieces += [_weighted(piece, log_weight) for piece in part.pieces]
        values.append(part.values)
        log_masses.append(part.log_masses + log_weight)
    return Law(tuple(pieces), np.concatenate(values, axis=1), np.concatenate(log_masses, axis=1))


def _weighted(piece: Piece, log_weight: float) -> Piece:
    return piece._replace(log_density=lambda x: piece.log_density(x) + log_weight)
