"""Additive noise from `scipy.stats`: names and parameters checked, log-concavity checked, tails as functions.

What the pair of such a noise is, and why, is in `noise_shift.py`. All noise is of scale 1 here, without a location: a location
does not change the loss, and a scale only the shift.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy import stats

from dp_edgeworth import validation
from dp_edgeworth.losses.rules import EPSILON

_DEPTH = 690.0  # tails end where the log-density is this far below its value at the median
_FARTHEST = 1e5  # in interquartile ranges; a log-concave density has fallen by far more than e^{-_DEPTH} there
_LOG_LEAST = -650.0  # log of the least mass that is read off a cdf; smaller ones are integrals of the density
# Points at which these integrals look at the density, in units of its decay length.
_CELLS = np.array([-0.25, 0.0, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 7.0, 10.0, 14.0, 20.0])
_LARGEST_ERROR = 1e-13  # absolute error of a cdf that is put up with

# Families that are log-concave from this value of this shape on; the check on points alone could miss a shape just below it.
_CONCAVE_FROM = {"gennorm": ("beta", 1.0), "gamma": ("a", 1.0), "erlang": ("a", 1.0), "chi2": ("df", 2.0),
                 "weibull_min": ("c", 1.0), "weibull_max": ("c", 1.0), "t": ("df", math.inf)}
# Limits of the slope of -log f on the left and on the right, where known: the loss of a shift s is at most s times that.
_RATES: dict[str, Callable[..., tuple[float, float]]] = {
    "logistic": lambda: (1.0, 1.0),
    "hypsecant": lambda: (1.0, 1.0),
    "gumbel_r": lambda: (math.inf, 1.0),
    "gumbel_l": lambda: (1.0, math.inf),
    "moyal": lambda: (math.inf, 0.5),
    "expon": lambda: (math.inf, 1.0),
    "gamma": lambda a: (math.inf, 1.0),
    "chi2": lambda df: (math.inf, 0.5),
    "genlogistic": lambda c: (c, 1.0),
    "loggamma": lambda c: (c, math.inf),
    "laplace_asymmetric": lambda kappa: (1.0 / kappa, kappa),
}
# Log-densities that scipy takes from the density, and so only as far as that is a float.
_LOG_DENSITIES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "moyal": lambda x: -0.5 * (x + np.exp(-x) + math.log(2.0 * math.pi)),
}


@dataclasses.dataclass(frozen=True)
class AdditiveNoise:
    """A named continuous distribution with its shape parameters, at location 0 and scale 1."""

    distribution: str
    shapes: tuple[float, ...]

    @property
    def gaussian_scale(self) -> float | None:
        """Standard deviation where the noise is normal."""
        if self.distribution == "gennorm" and self.shapes == (2.0,):
            return math.sqrt(0.5)
        return 1.0 if self.distribution == "norm" else None

    @property
    def is_laplace(self) -> bool:
        return self.distribution == "laplace" or (self.distribution == "gennorm" and self.shapes == (1.0,))

    @property
    def right(self) -> Tail:
        return _tails(self)[1]

    @property
    def left(self) -> Tail:
        """The left tail, turned around: the right one of the noise with the other sign."""
        return _tails(self)[0]

    @property
    def width(self) -> float:
        """Of the support."""
        return self.right.end + self.left.end


def validated(distribution: Any, parameters: Any) -> tuple[AdditiveNoise, float]:
    """The noise and its scale.

    Raises:
      ValueError: the name is unknown, a parameter is not admissible, or the density is not log-concave.
    """
    family = getattr(stats, distribution, None) if isinstance(distribution, str) else None
    if not isinstance(family, stats.rv_continuous):
        raise ValueError(f"`distribution` must name a continuous distribution of scipy.stats. Found {validation.shown(distribution)}.")
    names = [*(family.shapes.replace(" ", "").split(",") if family.shapes else []), "loc", "scale"]
    given = {name: validation.finite(f"parameters[{name!r}]", value) for name, value in parameters}
    unknown, missing = set(given) - set(names), set(names) - set(given) - {"loc", "scale"}
    if unknown or missing:
        raise ValueError(f"`parameters` of {distribution!r} must be among {names}, shapes included. Found {sorted(given)}.")
    scale = validation.positive("parameters['scale']", given.get("scale", 1.0))
    shapes = tuple(given[name] for name in names[:-2])
    if shapes and not np.all(family._argcheck(*shapes)):
        raise ValueError(f"`parameters` must be admissible shapes of {distribution!r}. Found {given}.")
    name, least = _CONCAVE_FROM.get(str(distribution), ("", 0.0))
    if name and given[name] < least:
        raise ValueError(f"`distribution` must have a log-concave density, {distribution!r} has for {name} at least {least:g}. "
                         f"Found {given[name]!r}.")
    noise = AdditiveNoise(str(distribution), shapes)
    if noise.gaussian_scale is None and not noise.is_laplace:
        _tails(noise)
    return noise, scale


@dataclasses.dataclass(frozen=True, eq=False)
class Tail:
    """One side of a noise, as the right tail of it or of its mirror image.

    Attributes:
      law: the distribution of scipy.
      sign: 1 for the right side, -1 for the left.
      start, end: of the support.
      back, reach: where the density has fallen by e^{-690} from its value at the median, at most the support.
      rate: an upper bound of the slope of -log f.
      absolute_error: of the masses, beside the relative error.
      inner_error: the same of those above e^{-650}.
    """

    law: Any
    sign: float
    start: float
    end: float
    back: float
    reach: float
    rate: float
    absolute_error: float = 0.0
    inner_error: float = 0.0

    def log_density(self, x: Any) -> np.ndarray:
        x = self.sign * np.asarray(x, float)
        known = _LOG_DENSITIES.get(self.law.dist.name)
        return np.asarray(known(x) if known else self.law.logpdf(x))

    def mass(self, x: Any) -> np.ndarray:
        """Probability beyond x."""
        return np.asarray(self.law.sf(x) if self.sign > 0 else self.law.cdf(-np.asarray(x)))

    def log_mass(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of its logarithm: scipy's mass is off by at most `inner_error` above e^{-650}; below, by the density itself.

        A log-concave density lies above the exponential through two points between them, and below it outside. So on every cell of
        a grid the chord of log f is below it, and the chords of both neighbours are above it, where the lower of the two counts;
        beyond the last cell the last chord is above it. Rounding: a log-density that is off by e moves a chord by e and what
        extends it over a cell at most twice as wide by 5 e, e = 16 units in the last place of a difference of two of them.
        """
        found = np.log(self.mass(x))
        lost = ~(found >= _LOG_LEAST) & (x < self.end)
        least, most = found.copy(), np.logaddexp(found, np.log(self.inner_error))
        if self.inner_error > 0.0:
            least = np.log(np.maximum(np.exp(found) - self.inner_error, 0.0))
        if lost.any():
            least[lost], most[lost] = self._log_integral(x[lost])
        return least, np.where(np.isnan(most), self._log_unknown, most)

    def _log_integral(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Bounds of log int_x^inf f, where f falls fast; where it is not known well enough, what is known of the cdf."""
        here = self.log_density(x)
        near = 1e-3 * np.minimum(1.0, np.abs(self.end - x)) if math.isfinite(self.end) else np.full(len(x), 1e-3)
        points = x[:, None] + _CELLS * (near / (self.log_density(x - near) - here))[:, None]
        value, width = self.log_density(points) - here[:, None], np.diff(points, axis=1)
        slope = np.diff(value, axis=1) / width
        inside = width[:, 1:] * np.exp(value[:, 1:-1]) * _mean_exponential(slope[:, 1:] * width[:, 1:])
        forward = width[:, 1:] * np.exp(value[:, 1:-1]) * _mean_exponential(slope[:, :-1] * width[:, 1:])
        peak = _meeting(value[:, 1:-2], value[:, 2:-1], slope[:, :-2], slope[:, 2:], width[:, 1:-1])
        forward[:, :-1] = np.fmin(forward[:, :-1], peak)
        forward = np.where(np.isfinite(value[:, 1:-1]), forward, 0.0)  # beyond the end of the support
        beyond = np.where(np.isfinite(value[:, -1]), np.exp(value[:, -1]) / -slope[:, -1], 0.0)
        rounding = 128.0 * EPSILON * (1.0 + np.abs(here))
        least = here + np.log(np.nan_to_num(inside).sum(axis=1)) - rounding
        most = here + np.log(forward.sum(axis=1) + beyond) + rounding
        known = (rounding < 1e-3) & np.isfinite(most) & (least <= most) & (np.diff(points, axis=1) > 0).all(axis=1)
        return np.where(known, least, -np.inf), np.where(known, most, self._log_unknown)

    @property
    def _log_unknown(self) -> float:
        """What a mass that scipy takes for less than e^{-650} can be at most."""
        return math.log(math.exp(_LOG_LEAST) + self.absolute_error) + 1e-9

    def crossing(self, shift: float) -> float:
        """Where the density and the one shifted to the right are equal; the latter is larger to the right of it."""
        low, high = max(self.back, self.start + shift), min(self.reach + shift, self.end)
        for _ in range(200):
            middle = 0.5 * (low + high)
            if not low < middle < high:
                break
            if self.log_density(middle - shift) < self.log_density(middle):
                low = middle
            else:
                high = middle
        return high


@functools.lru_cache(maxsize=256)
@np.errstate(all="ignore")
def _tails(noise: AdditiveNoise) -> tuple[Tail, Tail]:
    """The left and the right side of a noise, after all checks."""
    law = getattr(stats, noise.distribution)(*noise.shapes)
    low, median, high = (float(law.ppf(share)) for share in (0.25, 0.5, 0.75))
    if not low < median < high:
        raise ValueError(f"`distribution` must have quartiles that scipy can compute. Found {_described(noise)}.")
    start, end = (float(bound) for bound in law.support())
    reaches = [_reach(law, median, sign, high - low, bound) for sign, bound in ((-1.0, start), (1.0, end))]
    if None in reaches:
        raise ValueError("`distribution` must have a log-concave density. "
                         f"Found {_described(noise)}, whose tails are heavier than exponential.")
    left, right = (float(reach) for reach in reaches if reach is not None)
    x = _points(left, median, right)
    _check_concave(noise, law, x)
    rates = _RATES.get(noise.distribution, lambda *shapes: (math.inf, math.inf))(*noise.shapes)
    return (_measured(noise, Tail(law, -1.0, -end, -start, -right, -left, rates[0]), -x[x <= median][::-1]),
            _measured(noise, Tail(law, 1.0, start, end, left, right, rates[1]), x[x >= median]))


def _described(noise: AdditiveNoise) -> str:
    return f"{noise.distribution!r} with shapes {noise.shapes}" if noise.shapes else repr(noise.distribution)


def _reach(law: Any, median: float, sign: float, spread: float, bound: float) -> float | None:
    """Where the log-density has fallen by `_DEPTH`, or the end of the support; None if that is too far away."""
    floor = float(law.logpdf(median)) - _DEPTH
    far = spread
    while far < _FARTHEST * spread and law.logpdf(median + sign * far) > floor:
        far *= 2.0
    if far >= _FARTHEST * spread:
        return None
    if not law.logpdf(bound) < floor and math.isfinite(bound) and sign * (median + sign * far - bound) >= 0:
        return bound
    near = 0.0
    for _ in range(60):
        middle = 0.5 * (near + far)
        near, far = (middle, far) if law.logpdf(median + sign * middle) > floor else (near, middle)
    return median + sign * near


def _points(left: float, median: float, right: float) -> np.ndarray:
    """Evenly spread, and geometrically towards the median and both ends."""
    steps = np.geomspace(1e-6, 1.0, 300)
    return np.unique(np.concatenate([
        np.linspace(left, right, 2_001), median + steps * (right - median), median - steps * (median - left),
        right - steps * (right - median), left + steps * (median - left)]))


def _check_concave(noise: AdditiveNoise, law: Any, x: np.ndarray) -> None:
    """Chords of the log-density become no steeper, beyond what rounding explains."""
    value = law.logpdf(x)
    x, value = x[np.isfinite(value) | np.isnan(value)], value[np.isfinite(value) | np.isnan(value)]
    slope = np.diff(value) / np.diff(x)
    error = _slope_error(x, value) + 1e-10 * np.abs(slope)
    lowest = np.minimum.accumulate(slope + error)
    if len(x) < 100 or np.isnan(value).any() or np.any(slope[1:] - error[1:] > lowest[:-1]):
        raise ValueError("`distribution` must have a log-concave density. "
                         f"Found {_described(noise)}, whose log-density is not concave.")


def _measured(noise: AdditiveNoise, tail: Tail, x: np.ndarray) -> Tail:
    """The tail with the absolute error of its masses, four times the largest one found.

    Differences of a tail must lie between the integrals of the chord and of the chord before, both of a log-concave density.
    What is below 1e-13 of the tail itself is not counted.
    """
    value, beyond = tail.log_density(x), tail.mass(x)
    fine = np.isfinite(value)
    x, value, beyond = x[fine], value[fine], beyond[fine]
    width, rise = np.diff(x), np.diff(value)
    steepest = rise / width + _slope_error(x, value)
    mass, least = beyond[:-1] - beyond[1:], width * np.exp(value[:-1]) * _mean_exponential(rise)
    most = np.append(np.inf, width[1:] * np.exp(value[1:-1]) * _mean_exponential(steepest[:-1] * width[1:]))
    excess = np.maximum(least - mass, mass - most) - 1e-11 * least - 1e-13 * beyond[:-1]
    error = 4.0 * float(np.max(excess, initial=0.0))
    inner = 4.0 * float(np.max(excess[beyond[1:] > math.exp(_LOG_LEAST)], initial=0.0))
    if type(tail.law.dist)._sf is stats.rv_continuous._sf and tail.sign > 0:  # 1 - cdf
        error, inner = max(error, 4.0 * EPSILON), max(inner, 4.0 * EPSILON)
    if not error < _LARGEST_ERROR:
        raise ValueError("`distribution` must have a cdf and sf that scipy computes accurately. "
                         f"Found {_described(noise)}, off by {error:.1g}.")
    return dataclasses.replace(tail, absolute_error=error, inner_error=inner)


def _slope_error(x: np.ndarray, value: np.ndarray) -> np.ndarray:
    """What rounding can do to the chords of a log-density."""
    return 16.0 * EPSILON * (1.0 + np.abs(value[1:]) + np.abs(value[:-1])) / np.diff(x)


def _mean_exponential(t: np.ndarray) -> np.ndarray:
    """(e^t - 1) / t, the mean of e^x over 0 < x < t."""
    return np.where(np.abs(t) < 1e-8, 1.0 + 0.5 * t, np.expm1(t) / t)


def _meeting(left: np.ndarray, right: np.ndarray, before: np.ndarray, after: np.ndarray, width: np.ndarray) -> np.ndarray:
    """Integral of the lower of two exponentials over a cell: the one from the left end, and the one that ends at the right end."""
    first = np.clip((right - left - after * width) / (before - after), 0.0, width)
    first = np.where(before > after, first, 0.5 * width)  # equal slopes: any point will do
    return (first * np.exp(left) * _mean_exponential(before * first)
            + (width - first) * np.exp(right) * _mean_exponential(-after * (width - first)))
