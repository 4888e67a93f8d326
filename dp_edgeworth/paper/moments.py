"""Moments of one privacy loss, the absolute ones with both sides of their kink, and of sums of losses.

The bounds of the paper are functions of the standardised moments of every leaf ([EA] Lemma 4.3):

    skewness E c^3, kurtosis E c^4, absolute_first E|c|, absolute_third E|c|^3,    c = (L - E L) / sd,

under P (X, tilt -1) and under Q (Y, tilt 0); what is infinite of L is left out and the rest normalised. |c|^p has a
kink where L crosses its mean, and a rule that does not know it is off by 1e-2 or so. Here a law is atoms (exact) and
pieces on which L is a monotone function of x with a known density (`loss_laws.py`), cut where L crosses its mean.
tests/paper/test_moments.py compares with 30 digits.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import NamedTuple

import numpy as np
from scipy import optimize

from dp_edgeworth.losses.gaussian_curve import legendre
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import Demand, RuleTooLargeError
from dp_edgeworth.paper.known_moments import PllrMoments, standardised
from dp_edgeworth.paper.lemma_4_3 import Moments
from dp_edgeworth.paper.loss_laws import NODES, Law, Piece, law
from dp_edgeworth.sums.composition import Composition


class LeafMoments(NamedTuple):
    """Standard deviation and standardised central moments of one loss.

    A constant has deviation 0. Where the loss varies by less than the rounding of its mean allows, the kurtosis is inf.
    """

    deviation: float
    skewness: float
    kurtosis: float
    absolute_first: float
    absolute_third: float


_CONSTANT = LeafMoments(0.0, 0.0, 1.0, 1.0, 1.0)
_OUT_OF_REACH = _CONSTANT._replace(deviation=1.0, kurtosis=math.inf)


class _Nodes(NamedTuple):
    """Values of L and log-weights under P, not normalised."""

    values: np.ndarray
    log_weights: np.ndarray

    def law(self, tilt: float) -> tuple[np.ndarray, np.ndarray]:
        """Values and weights of the tilted law, of sum 1; values without weight are 0."""
        weights = np.exp(self.log_weights + (tilt + 1.0) * self.values)
        total = weights.sum()
        return np.where(weights > 0.0, self.values, 0.0), weights / (total if total > 0.0 else 1.0)


def _nodes(known: Law, kink: float | None = None) -> _Nodes:
    """Of all panels, the one in which the loss passes the kink cut there, and of the atoms."""
    x, w = legendre(NODES)
    values, log_weights = [known.values], [known.log_masses]
    for piece in known.pieces:
        edges = piece.edges if kink is None else _cut(piece, kink)
        half = 0.5 * np.diff(edges)[:, None]
        points = (edges[:-1, None] + half * (1.0 + x)).ravel()
        with np.errstate(divide="ignore"):
            log_weights.append(piece.log_density(points) + np.log(half * w).ravel())
        values.append(piece.loss(points))
    return _Nodes(np.concatenate(values), np.concatenate(log_weights))


def _cut(piece: Piece, level: float) -> np.ndarray:
    """The edges, and where the loss passes the level, to 1e-9 of the panel; the kink makes an error of the square of that."""
    above = piece.loss(piece.edges) > level
    changes = np.flatnonzero(above[1:] != above[:-1])
    if not len(changes):
        return piece.edges
    low, high = piece.edges[changes[0]:changes[0] + 2]
    crossing = optimize.brentq(lambda x: float(piece.loss(np.array([x]))[0]) - level, low, high, xtol=1e-9 * (high - low))
    return np.insert(piece.edges, changes[0] + 1, crossing)


@np.errstate(over="ignore", invalid="ignore")
def _standardised(nodes: _Nodes, tilt: float) -> LeafMoments:
    values, weights = nodes.law(tilt)
    used = values[weights > 0.0]
    if not used.size or used.max() <= used.min():
        return _CONSTANT
    scale = np.abs(values).max()
    values = values / scale
    centred = values - weights @ values
    sd = math.sqrt(weights @ centred**2)
    if sd <= 1e-10 * (weights @ np.abs(values)):  # varies less than the rounding of its mean
        return _OUT_OF_REACH
    c = centred / sd
    size, square = np.abs(c), c * c
    third, fourth, first, cube = (float(weights @ f) for f in (c * square, square * square, size, size * square))
    return LeafMoments(sd * float(scale), third, max(fourth, 1.0), min(first, 1.0), max(cube, 1.0))


def _bounded(pllr: Pllr, tilt: float) -> LeafMoments:
    """Of a class whose law is not written out in `loss_laws.py`: absolute moments bounded as in `PllrMoments`."""
    rule = pllr.rule(Demand(min(tilt - 3.0, 0.0), tilt + 5.0))
    found = _standardised(_Nodes(rule.values[0], rule.log_weights[0]), tilt)
    return found._replace(absolute_first=1.0, absolute_third=math.sqrt(found.kurtosis))


def _of_cumulants(pllr: PllrMoments, tilt: float) -> LeafMoments:
    """Unknown absolute moments are bounded: E|c| <= 1, E|c|^3 <= sqrt(E c^4)."""
    _, variance, third, fourth = pllr.cumulants(4, tilt)
    known, sd = (pllr.x_absolute_third if tilt == -1.0 else pllr.y_absolute_third), math.sqrt(variance)
    kurtosis = max(standardised(fourth, sd, 4) + 3.0, 1.0)
    absolute_third = math.sqrt(kurtosis) if known is None else standardised(known, sd, 3)
    return LeafMoments(sd, standardised(third, sd, 3), kurtosis, 1.0, absolute_third)


def leaf_moments(pllr: Pllr, tilt: float) -> LeafMoments:
    """Moments of X (tilt -1) or Y (tilt 0) of one leaf, relative error at most 1e-10; out of reach where a law needs too many nodes.

    For a class whose law is not written out in `loss_laws.py` the absolute moments are bounded as in `PllrMoments`.

    >>> from dp_edgeworth import GaussianShift
    >>> round(leaf_moments(GaussianShift(2.0), 0.0).absolute_third ** 2 * math.pi, 12)  # E|N(0,1)|^3 = sqrt(8/pi)
    8.0
    """
    return _both_moments(pllr)[0 if tilt == -1.0 else 1]


@functools.lru_cache(maxsize=4096)
def _both_moments(pllr: Pllr) -> tuple[LeafMoments, LeafMoments]:
    """Of X and of Y."""
    if isinstance(pllr, PllrMoments):
        return _of_cumulants(pllr, -1.0), _of_cumulants(pllr, 0.0)
    if pllr.gaussian_variance is not None:
        first = math.sqrt(2.0 / math.pi)
        return (LeafMoments(math.sqrt(pllr.gaussian_variance), 0.0, 3.0, first, 2.0 * first),) * 2
    try:
        known = law(pllr)
    except RuleTooLargeError:
        return _OUT_OF_REACH, _OUT_OF_REACH
    if known is None:
        return _bounded(pllr, -1.0), _bounded(pllr, 0.0)
    smooth = _nodes(known)
    x, y = (_standardised(_nodes(known, float(np.dot(*smooth.law(tilt)))), tilt) for tilt in (-1.0, 0.0))
    return x, y


def is_constant(composition: Composition, tilt: float) -> bool:
    """Whether every X (tilt -1) or Y (tilt 0) is a constant."""
    return all(leaf_moments(pllr, tilt).deviation == 0.0 for pllr in composition.counts)


def sum_moments(composition: Composition, tilt: float) -> Moments | None:
    """K3, K3~, K4, lambda3 ([EA] Lemma 4.3) of the sum of all X (tilt -1) or Y (tilt 0); None where out of reach."""
    counts = np.array([float(count) for count in composition.counts.values()])
    leaves = np.array([leaf_moments(pllr, tilt) for pllr in composition.counts])
    moving = leaves[:, 0] > 0.0
    deviation, skewness, kurtosis, first, third = leaves[moving].T
    largest = float(deviation.max(initial=0.0))
    if not 1e-150 < largest < 1e150 or not np.all(kurtosis <= 1e100):
        return None
    sd = np.maximum(deviation / largest, 1e-70)
    result = Moments.of_leaves(
        counts[moving], variance=sd**2, third=skewness * sd**3, fourth=kurtosis * sd**4,
        absolute_third=np.maximum(third, np.abs(skewness)) * sd**3, absolute_first=first * sd)
    return dataclasses.replace(result, variance=result.variance * largest**2)
