"""What a whole curve is asked for: trade-off bands, the advantage, the Gaussian parameter. Where to look: `proofs.tradeoff` proves.

Delta is asked at more and more epsilons until the band is narrow. The gap of a sandwich shrinks like the square of the distance between
them, so an interval that is r times too wide is divided into sqrt(r).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from dp_edgeworth import validation
from dp_edgeworth.intervals import Interval
from dp_edgeworth.proofs.tradeoff import DeltaIntervals, Polygons, Sandwich

_RELATIVE = 1e-3  # of beta and of 1 - beta
_FIRST_EPSILONS, _MOST_ROUNDS, _MOST_PARTS, _MOST_POINTS = 48, 8, 40, 6_000
_MU_WIDTH = 5e-5  # relative
_TABLED = 500  # points that upper bounds are read at


class WholeCurve(NamedTuple):
    """Certified intervals of delta; about the epsilon of a delta; of what is known already, once delta was asked: lower bounds of delta
    on a lattice of epsilons up to one that was asked about, and upper bounds at some epsilons.
    """

    deltas: DeltaIntervals
    epsilon: Callable[[float], float]
    tables: Callable[[float], Iterable[Polygons]] = lambda high: ()
    most: Callable[[np.ndarray], np.ndarray] = lambda epsilons: np.ones(len(epsilons))


def tradeoff(alpha: Any, curve: WholeCurve, tolerance: float = 1e-6) -> Interval:
    """The certified band of the trade-off curve: the smallest type II error beta of any attack with type I error alpha.

    Args:
      alpha: a number in [0, 1] or an array of them.
      curve: certified delta.
      tolerance: width of the band aimed at, and 1e-3 of beta and of 1 - beta.

    >>> import dp_accounting as dpa
    >>> from dp_edgeworth import EdgeworthIntervalAccountant
    >>> band = tradeoff(0.05, EdgeworthIntervalAccountant().compose(dpa.GaussianDpEvent(1.0)).whole_curve())
    >>> band.lower <= 0.740488977 <= band.upper < band.lower + 1e-5   # Phi(Phi^-1(0.95) - 1)
    True
    """
    values = validation.array_in("alpha", alpha, 0.0, 1.0)
    tolerance = validation.positive("tolerance", tolerance)
    band = _band(values.ravel(), curve, tolerance)
    parts = [np.asarray(part).reshape(values.shape) for part in band]
    return Interval(*(float(part) if part.ndim == 0 else part for part in parts))  # type: ignore[arg-type]


def _band(alphas: np.ndarray, curve: WholeCurve, tolerance: float) -> Interval:
    """Off the tables of lattices where there are any; what these leave wide by a sandwich."""
    sandwich = _first(alphas, curve)
    most = 1.0 - alphas
    band = Interval(np.zeros(len(alphas)), most, np.nextafter(most, 2.0))  # type: ignore[arg-type]
    for _, table in _tables(alphas, sandwich, curve):
        band = _met([band, _asked(table, table.beside(alphas), curve).band(alphas)[0]])
        if not (_excess(band, tolerance) > 1.0).any():
            return band
    for _ in range(_MOST_ROUNDS):
        own, at = sandwich.polygons().band(alphas)
        band = _met([band, own])
        wide, known = _excess(band, tolerance), len(sandwich.epsilons)
        if not (wide > 1.0).any():
            break
        sandwich.add(_divided(sandwich.epsilons, at[wide > 1.0], wide[wide > 1.0]))
        if not known < len(sandwich.epsilons) < _MOST_POINTS:
            break
        band = _met([band, sandwich.polygons().band(alphas)[0]])
    return band


def _first(alphas: np.ndarray, curve: WholeCurve) -> Sandwich:
    """Epsilons up to where delta is below the smallest alpha, close together where delta is large."""
    high = curve.epsilon(_smallest(alphas))
    shares = np.linspace(0.0, 1.0, _FIRST_EPSILONS) ** 1.5
    return Sandwich(curve.deltas, high * shares if math.isfinite(high) else np.zeros(0))


def _smallest(alphas: np.ndarray) -> float:
    """The smallest delta that matters for some alphas."""
    return max(min(float(alphas[alphas > 0.0].min(initial=0.5)), 0.1) * 1e-3, 1e-300)


def _tables(alphas: np.ndarray, sandwich: Sandwich, curve: WholeCurve) -> Iterator[tuple[float, Polygons]]:
    """What is known of delta from below on lattices, as far as delta matters, and how far that is; one after the other."""
    far = np.flatnonzero(sandwich.upper <= _smallest(alphas))
    high = float(sandwich.epsilons[far[0] if len(far) else -1])
    return ((high, polygons) for polygons in curve.tables(high))


def _asked(table: Polygons, epsilons: np.ndarray, curve: WholeCurve) -> Polygons:
    return table.with_upper(epsilons, curve.most(epsilons))


def _met(bands: list[Interval]) -> Interval:
    """All hold."""
    lower, upper = np.max([band.lower for band in bands], axis=0), np.min([band.upper for band in bands], axis=0)
    return Interval(lower, np.clip(np.asarray(bands[-1].estimate), lower, np.maximum(lower, upper)), np.maximum(lower, upper))  # type: ignore[arg-type]


def _excess(band: Interval, tolerance: float) -> np.ndarray:
    """How many times too wide it is."""
    lower, upper = np.asarray(band.lower), np.asarray(band.upper)
    wanted = np.minimum(tolerance, 0.8 * _RELATIVE * np.minimum(1.0 - upper, lower))
    floor = 4e-16  # floats near 1 are that far apart
    return np.asarray((upper - lower) / np.maximum(wanted, floor))


def _divided(epsilons: np.ndarray, at: np.ndarray, excess: np.ndarray) -> np.ndarray:
    """Points that divide the intervals around some places into as many parts as these are too wide."""
    place = np.clip(np.searchsorted(epsilons, at, side="right"), 1, len(epsilons) - 1)
    parts = np.zeros(len(epsilons), int)
    np.maximum.at(parts, place, np.clip(np.ceil(1.2 * np.sqrt(excess)), 2, _MOST_PARTS).astype(int))
    inside = [np.linspace(epsilons[i - 1], epsilons[i], parts[i] + 1)[1:-1] for i in np.flatnonzero(parts)]
    beyond = at[at > epsilons[-1]]  # the last vertex lies further out
    return np.concatenate([*inside, beyond])


def advantage(curve: WholeCurve) -> Interval:
    """max over attacks of 1 - alpha - beta: the total variation, delta(0)."""
    at_zero = curve.deltas(np.zeros(1))
    return Interval(*(float(part[0]) for part in at_zero))


def checked_min_alpha(min_alpha: float) -> float:
    """The smallest error rate that a Gaussian parameter is for."""
    least = validation.number("min_alpha", min_alpha)
    if not 0.0 < least < 0.5:
        raise ValueError(f"`min_alpha` must be in (0, 0.5). Found {min_alpha!r}.")
    return least


def gdp_mu(curve: WholeCurve, min_alpha: float = 1e-10) -> Interval:
    """Certified bounds of the smallest mu whose Gaussian trade-off lies below the curve wherever both errors are at least `min_alpha`.

        mu = sup { Phi^-1(1 - alpha) - Phi^-1(f(alpha)) : min_alpha <= alpha <= f(alpha), and at min_alpha itself whatever f is there }
    """
    least = checked_min_alpha(min_alpha)
    grid = np.geomspace(least, 0.5, 60)
    sandwich, result = _first(grid, curve), Interval(0.0, 0.0, math.inf)
    if sandwich.upper[0] == 0.0:  # f(alpha) = 1 - alpha
        return Interval(0.0, 0.0, 0.0)
    tables = (_asked(table, np.linspace(0.0, high, _TABLED), curve) for high, table in _tables(grid, sandwich, curve))
    rounds = 0
    while rounds < _MOST_ROUNDS:
        table = next(tables, None)
        polygons = table or sandwich.polygons()
        _, lower, upper, epsilons = polygons.separations(np.union1d(grid, np.clip(polygons.corners(), least, 0.5)))
        best, most = float(lower.max()), float(upper.max())
        result = Interval(max(best, result.lower), best, min(most, result.upper))
        wanted = _MU_WIDTH * result.lower
        if result.upper <= result.lower + wanted:
            break
        if table is not None:
            continue
        rounds += 1
        wide = upper > result.lower + wanted
        known = len(sandwich.epsilons)
        if not wide.any() or not math.isfinite(most):
            break
        sandwich.add(_divided(sandwich.epsilons, epsilons[wide], (upper[wide] - result.lower) / max(wanted, 1e-300)))
        if not known < len(sandwich.epsilons) < _MOST_POINTS:
            break
    return Interval(result.lower, min(max(result.estimate, result.lower), result.upper), result.upper)
