"""Moments of one privacy loss, the absolute ones with both sides of their kink, and of sums of losses.

The bounds of the paper are functions of the standardised moments of every leaf ([EA] Lemma 4.3):

    skewness E c^3, kurtosis E c^4, absolute_first E|c|, absolute_third E|c|^3,    c = (L - E L) / sd,

under P (X, tilt -1) and under Q (Y, tilt 0); what is infinite of L is left out and the rest normalised. |c|^p has a
kink where L crosses its mean, and a rule that does not know it is off by 1e-2 or so. Here a law is atoms (exact) and
pieces on which L is a monotone function of x with a known density (`laws.py`): Gauss-Legendre panels, and the one panel
in which L crosses its mean is cut there. Panels are at most 1.5/mu long, mu being the largest shift: L is analytic
within pi/(2 mu) of the real line, so 14 nodes suffice. tests/test_moments.py compares with 30 digits.

`PllrMoments` is a loss of which nothing else is known than its first four cumulants.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dp_edgeworth import _validate, bounds
from dp_edgeworth.composition import Composition
from dp_edgeworth.gaussian import legendre
from dp_edgeworth.laws import Piece, law
from dp_edgeworth.pllr import Demand, Pllr, Rule

_NODES = 14


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


@dataclasses.dataclass(frozen=True)
class PllrMoments(Pllr):
    """A pair known by mean, variance, third and fourth cumulant of X and Y, and E|X - E X|^3, E|Y - E Y|^3 or None."""

    x_cumulants: tuple[float, float, float, float]
    y_cumulants: tuple[float, float, float, float]
    x_absolute_third: float | None = None
    y_absolute_third: float | None = None
    moments_only = True

    @classmethod
    def validated(cls, event: Any) -> PllrMoments:
        """From a `PllrMomentsDpEvent`. ValueError where no law has these moments."""
        x, y = (_cumulants(name, getattr(event, name)) for name in ("x_cumulants", "y_cumulants"))
        thirds = (_absolute_third(f"{side}_absolute_third", getattr(event, f"{side}_absolute_third"), kappa)
                  for side, kappa in (("x", x), ("y", y)))
        return cls(x, y, *thirds)

    def reversed(self) -> PllrMoments:
        """(Q, P): kappa_r(-Y) = (-1)^r kappa_r(Y) is the cumulant of the new X, and the other way round."""
        x, y = ((-a, b, -c, d) for a, b, c, d in (self.y_cumulants, self.x_cumulants))
        return PllrMoments(x, y, self.y_absolute_third, self.x_absolute_third)

    def cumulants(self, order: int, tilt: float) -> np.ndarray:
        """Cumulants 1..order, at most 4, of X (tilt -1) or Y (tilt 0)."""
        if order > 4 or tilt not in (-1.0, 0.0):
            raise ValueError("a `PllrMomentsDpEvent` has four cumulants of X and of Y; nothing else is known of it. "
                             f"Found order {order} at tilt {tilt:g}.")
        return np.array((self.x_cumulants if tilt == -1.0 else self.y_cumulants)[:order])

    @classmethod
    def rules(cls, members: Sequence[Any], demand: Demand, sampled: np.ndarray | None = None) -> Rule:
        raise ValueError("a `PllrMomentsDpEvent` is known by four cumulants only, which give no quadrature rule. "
                         f"Found {members[0]!r}.")

    def standardised(self, tilt: float) -> LeafMoments:
        """Unknown absolute moments are bounded: E|c| <= 1, E|c|^3 <= sqrt(E c^4)."""
        _, variance, third, fourth = self.cumulants(4, tilt)
        known, sd = (self.x_absolute_third if tilt == -1.0 else self.y_absolute_third), math.sqrt(variance)
        kurtosis = max(fourth / variance**2 + 3.0, 1.0)
        return LeafMoments(sd, third / sd**3, kurtosis, 1.0, math.sqrt(kurtosis) if known is None else known / sd**3)


def _cumulants(name: str, values: Any) -> tuple[float, float, float, float]:
    """Four finite cumulants with kappa_2 > 0 and E c^4 >= 1 + (E c^3)^2 for the standardised c."""
    kappa = [_validate.finite(f"{name}[{i}]", value) for i, value in enumerate(_validate.sequence(name, values))]
    if len(kappa) != 4:
        raise ValueError(f"`{name}` must be mean, variance, third and fourth cumulant. Found {values!r}.")
    sd = math.sqrt(_validate.positive(f"{name}[1]", kappa[1]))
    if kappa[3] / sd**4 + 2.0 < (kappa[2] / sd**3) ** 2 - 1e-9:
        raise ValueError(f"`{name}` must satisfy kappa_4/kappa_2^2 + 2 >= kappa_3^2/kappa_2^3, as for every law. "
                         f"Found {values!r}.")
    return kappa[0], kappa[1], kappa[2], kappa[3]


def _absolute_third(name: str, value: Any, kappa: tuple[float, float, float, float]) -> float | None:
    """None, or a number between max(|kappa_3|, sd^3) and sqrt(E c^2 E c^4)."""
    if value is None:
        return None
    low, high = max(abs(kappa[2]), kappa[1] ** 1.5), math.sqrt(kappa[1] * (kappa[3] + 3.0 * kappa[1] ** 2))
    if not low * (1.0 - 1e-9) <= _validate.finite(name, value) <= high * (1.0 + 1e-9):
        raise ValueError(f"`{name}` must be in [{low:g}, {high:g}], given the cumulants. Found {value!r}.")
    return float(value)


# Quadrature


class _Nodes(NamedTuple):
    """Values of L and log-weights (under P, not normalised), one row per panel; atoms are a row of their own."""

    values: np.ndarray
    log_weights: np.ndarray


def _panels(piece: Piece, edges: np.ndarray) -> _Nodes:
    x, w = legendre(_NODES)
    half = 0.5 * np.diff(edges)[:, None]
    points = edges[:-1, None] + half * (1.0 + x)
    return _Nodes(piece.loss(points), piece.log_density(points) + np.log(half * w))


def _edges(piece: Piece) -> np.ndarray:
    return np.linspace(piece.low, piece.high, math.ceil((piece.high - piece.low) / piece.step) + 1)


def _crossing(piece: Piece, low: float, high: float, level: float) -> float:
    """Where the monotone loss passes the level, to rounding."""
    for _ in range(12):
        grid = np.linspace(low, high, 33)
        sign = np.sign(piece.loss(grid) - level)
        index = min(max(int(np.argmax(sign != sign[0])), 1), 32)
        low, high = grid[index - 1], grid[index]
    return 0.5 * (low + high)


def _cut(piece: Piece, edges: np.ndarray, nodes: _Nodes, level: float) -> _Nodes:
    """The same panels, the one in which the loss passes the level replaced by the two sides of it."""
    ends = np.sign(piece.loss(edges) - level)
    index = np.flatnonzero(ends[:-1] != ends[1:])
    if not len(index):
        return nodes
    i = int(index[0])
    middle = _crossing(piece, float(edges[i]), float(edges[i + 1]), level)
    sides = _panels(piece, np.array([edges[i], middle, edges[i + 1]]))
    return _Nodes(*(np.concatenate([old[:i], new, old[i + 1:]]) for old, new in zip(nodes, sides, strict=True)))


def _mean(values: np.ndarray, weights: np.ndarray) -> float:
    return float((weights * values).sum() / weights.sum())


@functools.lru_cache(maxsize=16_384)
def leaf_moments(pllr: Pllr, tilt: float) -> LeafMoments:
    """Moments of X (tilt -1) or Y (tilt 0) of one leaf, relative error at most 1e-10.

    For a class whose law is not written out in `laws.py` the absolute moments are bounded as in `PllrMoments`.

    >>> from dp_edgeworth import GaussianShift
    >>> round(leaf_moments(GaussianShift(2.0), 0.0).absolute_third ** 2 * math.pi, 12)  # E|N(0,1)|^3 = sqrt(8/pi)
    8.0
    """
    if isinstance(pllr, PllrMoments):
        return pllr.standardised(tilt)
    if pllr.gaussian_variance is not None:
        first = math.sqrt(2.0 / math.pi)
        return LeafMoments(math.sqrt(pllr.gaussian_variance), 0.0, 3.0, first, 2.0 * first)
    known = law(pllr)
    if known is None:
        rule = pllr.rule(Demand(min(tilt - 3.0, 0.0), tilt + 5.0))
        moments = _standardised(rule.values, rule.log_weights + (tilt + 1.0) * rule.values)
        return moments._replace(absolute_first=1.0, absolute_third=math.sqrt(moments.kurtosis))
    grids = [_edges(piece) for piece in known.pieces]
    parts = [_panels(piece, edges) for piece, edges in zip(known.pieces, grids, strict=True)]
    atoms = _Nodes(known.values, known.log_masses)
    smooth = _joined([*parts, atoms], tilt)
    if not np.any(smooth.log_weights > -700.0):
        return _CONSTANT
    mean = _mean(smooth.values, np.exp(smooth.log_weights))
    cut = [_cut(piece, edges, part, mean) for piece, edges, part in zip(known.pieces, grids, parts, strict=True)]
    return _standardised(*_joined([*cut, atoms], tilt))


def _joined(parts: Sequence[_Nodes], tilt: float) -> _Nodes:
    values = np.concatenate([part.values.ravel() for part in parts])
    return _Nodes(values, np.concatenate([part.log_weights.ravel() for part in parts]) + (tilt + 1.0) * values)


def _standardised(values: np.ndarray, log_weights: np.ndarray) -> LeafMoments:
    weights = np.exp(log_weights)
    values, weights = values[weights > 0.0], weights[weights > 0.0]
    if not len(values) or values.max() == values.min():
        return _CONSTANT
    scale = float(np.abs(values).max())
    weights, values = weights / weights.sum(), values / scale
    centred = values - _mean(values, weights)
    sd = math.sqrt(float((weights * centred**2).sum()))
    if not sd > 1e-10 * float((weights * np.abs(values)).sum()):
        return _CONSTANT._replace(deviation=1.0, kurtosis=math.inf)
    c = centred / sd
    size = np.abs(c)
    third, fourth, first, cube = (float((weights * power).sum()) for power in (c**3, c**4, size, size**3))
    return LeafMoments(sd * scale, third, max(fourth, 1.0), min(first, 1.0), max(cube, 1.0))


# Sums


def is_constant(composition: Composition, tilt: float) -> bool:
    """Whether every X (tilt -1) or Y (tilt 0) is a constant."""
    return all(leaf_moments(pllr, tilt).deviation == 0.0 for pllr in composition.counts)


def sum_moments(composition: Composition, tilt: float) -> bounds.Moments | None:
    """K3, K3~, K4, lambda3 ([EA] Lemma 4.3) of the sum of all X (tilt -1) or Y (tilt 0); None where out of reach."""
    leaves = [(count, leaf_moments(pllr, tilt)) for pllr, count in composition.counts.items()]
    moving = [(count, leaf) for count, leaf in leaves if leaf.deviation > 0.0]
    largest = max((leaf.deviation for _, leaf in moving), default=0.0)
    if not 1e-150 < largest < 1e150 or any(leaf.kurtosis > 1e100 for _, leaf in moving):
        return None
    sd = np.array([max(leaf.deviation / largest, 1e-70) for _, leaf in moving])
    _, skewness, kurtosis, first, third = np.array([leaf for _, leaf in moving]).T
    result = bounds.Moments.of_leaves(
        [float(count) for count, _ in moving], variance=sd**2, third=skewness * sd**3, fourth=kurtosis * sd**4,
        absolute_third=np.maximum(third, np.abs(skewness)) * sd**3, absolute_first=first * sd)
    return dataclasses.replace(result, variance=result.variance * largest**2)
