"""The likelihood ratio A of one Gaussian step, log A ~ N(-v^2/2, v^2) under P: its Laplace transform phi(q) = E e^{-qA}.

Everything rests on one fact: x -> x - i beta moves the normal density n of log A, so phi continues to all of |arg q| < pi, and

    phi(q) = int n(x - i beta) exp(-q e^{-i beta} e^x) dx,     |n(x - i beta)| = e^{beta^2 / (2 v^2)} n(x),    |arg q - beta| <= pi/2.

Bounds of |phi(q)|, for arg q >= 0 and by symmetry for its mirror image:

    (1)  E e^{-Re(q) A},                                                                            Re q >= 0
    (2)  E[e^{-Re(q) A}; A <= c] + e^{beta^2/(2 v^2)} (beta n(log c) e^{-Re(q) c} + P(A > c)),       beta = (arg q - pi/2)_+, any c:
         x runs along the real line to log c, turns by beta and then runs on at that distance
    (3)  e^{beta^2/(2 v^2)} E exp(-Re(q e^{-i beta}) A),                                            |arg q - beta| <= pi/2

E e^{-rA} is bounded from above by its chords on bins, of which masses and means are differences of normal distribution functions.

Values come from the trapezoid rule of step d for the rotated integral. Its integrand is analytic for x within b, and its integral along
either edge is at most e^{(beta +- b)^2/(2 v^2)} if the edges stay within |arg q - beta| <= pi/2, so the error is at most both together
over e^{2 pi b/d} - 1 (Trefethen, Weideman, "The exponentially convergent trapezoidal rule", 2014, Theorem 5.1). The tails of the sum
are normal tails.
"""

from __future__ import annotations

import functools
import math
from typing import NamedTuple

import numpy as np
from scipy import special

from dp_edgeworth.losses.gaussian_curve import LOG_SQRT_2PI
from dp_edgeworth.sums.composition import EPSILON

_BINS_PER_DEVIATION = 12
_REACH = 12.0  # standard deviations that the bins cover; what is beyond is charged
_FAR = 3.0
_BIN_ERROR = 1e-11  # relative, of a sum of chords
_SMALLEST_RATE, _LARGEST_RATE, _RATES = 1e-7, 1e9, 600  # r of the table, beside 0
_EVERY = 6  # edges of bins between two values of c
_SERIES = 0.4  # below, e^{-z} - 1 + z is its series
_TERMS = 16
_CHUNK = 1 << 18


class Rotation(NamedTuple):
    """How the trapezoid rule for phi is made.

    Attributes:
      angle: beta. strip: the half-width b of its error bound. step: d.
      reach: how many deviations below the mean of log A, and above its mean under the law tilted by A^2, it covers.
    """

    angle: float
    strip: float
    step: float
    reach: float


class Powers(NamedTuple):
    """Lambda(u) = u + t log phi(u/t), bounds of its error, and |Lambda'|."""

    logs: np.ndarray
    errors: np.ndarray
    slopes: np.ndarray


class StepLaw:
    """Masses and means of A on bins.

    Attributes:
      edges: e^x at increasing x.
      log_tail: log P(A > edge). log_density: log n(x).
      weights, log_weights: the masses, moved to the edges with the same means.
      least, log_least: P(A < first edge), moved to 0, or to that edge.
    """

    def __init__(self, shift: float):
        self.shift = shift
        low, high = -0.5 * shift * shift - _REACH * shift, 0.5 * shift * shift + _REACH * shift
        x = np.linspace(low, high, 2 + int(_BINS_PER_DEVIATION * (high - low) / shift))
        if high < _FAR:  # for c in (2): however little log A varies, x can turn by a right angle; and for large r in (1)
            more = np.geomspace(high, _FAR, 40)[1:]
            x = np.concatenate([low - high - more[::-1], x, more])
        self.edges = np.exp(x)
        at_p, at_q = x / shift + 0.5 * shift, x / shift - 0.5 * shift  # in standard deviations under P and under Q
        self.log_tail = special.log_ndtr(-at_p)
        self.log_density = -0.5 * at_p * at_p - LOG_SQRT_2PI - math.log(shift)
        masses, means = _between(at_p), _between(at_q)
        width = np.diff(self.edges)
        middle = np.divide(means, masses, out=self.edges[1:].copy(), where=masses > 0.0)
        share = np.clip(middle - self.edges[:-1], 0.0, width) / width
        self.weights = np.zeros(len(x))
        self.weights[:-1] += masses * (1.0 - share)
        self.weights[1:] += masses * share
        self.least, self.log_least = float(special.ndtr(at_p[0])), float(special.log_ndtr(at_p[0]))
        # a mass that is no float is at most the tail that it is in, at either edge
        lost = np.where(masses > 0.0, -np.inf, np.where(at_p[:-1] > 0.0, self.log_tail[:-1], special.log_ndtr(at_p[1:])))
        with np.errstate(divide="ignore"):
            self.log_weights = np.logaddexp(np.log(self.weights), np.logaddexp(np.append(lost, -np.inf), np.append(-np.inf, lost)))

    def log_laplace(self, rates: np.ndarray) -> np.ndarray:
        """Upper bounds of log E e^{-r A}, r >= 0: (1), by chords of what is convex in r, constant from the last rate on."""
        return np.interp(rates, self._rates, self._log_transforms) * (1.0 - 1e-14)

    @functools.cached_property
    def _rates(self) -> np.ndarray:
        return np.append(0.0, np.geomspace(_SMALLEST_RATE, _LARGEST_RATE, _RATES))

    @functools.cached_property
    def _log_transforms(self) -> np.ndarray:
        """(1) at the rates. Sums of logarithms, so that none is too small for a float."""
        logs = self.log_weights - self._rates[:, None] * self.edges
        peak = logs.max(axis=1)
        sums = peak + np.log(np.exp(logs - peak[:, None]).sum(axis=1))
        ends = np.logaddexp(self.log_least, self.log_tail[-1] - self._rates * self.edges[-1])
        return np.append(0.0, np.minimum(np.logaddexp(sums, ends) + _BIN_ERROR * (1.0 + 1e-3 * np.abs(sums)), 0.0)[1:])

    @functools.cached_property
    def _cut_transforms(self) -> np.ndarray:
        """log E[e^{rA}; A <= c] at the rates, for every c: bounded as in (1), and convex in r; inf where it is not needed."""
        with np.errstate(over="ignore"):
            exponents = np.multiply.outer(self._rates, self.edges)
            sizes = np.exp(np.minimum(exponents, 690.0))
            kept = np.cumsum(sizes * self.weights, axis=1)[:, ::_EVERY] + self.least * sizes[:, :1]
        # below e^600 no mass that is too small for a float can matter
        return np.where(exponents[:, ::_EVERY] < 600.0, np.log(kept) + _BIN_ERROR, np.inf)

    def log_continued(self, rates: np.ndarray, angles: np.ndarray, others: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Upper bounds of log|phi(q)| at Re q = r < 0 and, with the same c, at Re q = r' > r, angle = (arg q - pi/2)_+ at most: (2)."""
        edges, log_density, log_tail = self.edges[::_EVERY], self.log_density[::_EVERY], self.log_tail[::_EVERY]
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            turned = np.log(angles)[:, None] + log_density - rates[:, None] * edges
            tail = 0.5 * (angles / self.shift)[:, None] ** 2 + np.logaddexp(turned, log_tail)
            found = np.logaddexp(self._log_cut(-rates), tail)
            rows, best = np.arange(len(rates)), np.argmin(found, axis=1)
            cut = self._log_cut(np.maximum(-others, 0.0))[rows, best]
            right = np.where(others < 0.0, cut, self.log_laplace(np.maximum(others, 0.0)))
            return found[rows, best] + _BIN_ERROR, np.logaddexp(right, tail[rows, best]) + _BIN_ERROR

    def _log_cut(self, rates: np.ndarray) -> np.ndarray:
        """log E[e^{rA}; A <= c], r >= 0, for every c: by chords; inf beyond the last rate."""
        at = np.searchsorted(self._rates, rates).clip(1, len(self._rates) - 1)
        low, high = self._rates[at - 1], self._rates[at]
        share, there = ((rates - low) / (high - low))[:, None], self._cut_transforms[at]
        found = (1.0 - share) * np.where(np.isfinite(there), self._cut_transforms[at - 1], 0.0) + share * there  # both are, or none
        return np.where((rates <= high)[:, None] & np.isfinite(there), found + _BIN_ERROR, np.inf)

    def log_rotated(self, rates: np.ndarray, angles: np.ndarray) -> float:
        """The least of (3) at some angles, with Re(q e^{-i beta}) = rate >= 0."""
        return float((0.5 * (angles / self.shift) ** 2 + self.log_laplace(np.maximum(rates, 0.0) * (1.0 - 1e-14))).min())


def _between(points: np.ndarray) -> np.ndarray:
    """Normal masses between neighbouring points, from whichever tail is the smaller one."""
    upper = points[:-1] > 0.0
    return np.where(upper, special.ndtr(-points[:-1]) - special.ndtr(-points[1:]), special.ndtr(points[1:]) - special.ndtr(points[:-1]))


@functools.lru_cache(maxsize=256)
def step_law(shift: float) -> StepLaw:
    return StepLaw(shift)


class _Nodes(NamedTuple):
    """The trapezoid rule at deviations j d/v with few binary digits, so that their squares are exact.

    Attributes:
      ratios, moved: A and A - 1. weights, sizes: of the rule, and their absolute values.
      doubts, units: relative errors of A - 1 (and so of A) and of the weights, in units of EPSILON, times the sizes.
      low, high: the ends in deviations.
    """

    ratios: np.ndarray
    moved: np.ndarray
    weights: np.ndarray
    sizes: np.ndarray
    doubts: np.ndarray
    units: np.ndarray
    low: float
    high: float


def _nodes(shift: float, rotation: Rotation) -> _Nodes:
    """x = v dev - v^2/2 is off by half a unit of each of its three parts; the phase by one of itself."""
    angle, spacing = rotation.angle, _few_digits(rotation.step / shift)
    count = math.ceil((shift + rotation.reach) / spacing)
    deviation = spacing * np.arange(-math.ceil(rotation.reach / spacing), count + math.ceil(shift / spacing) + 1)
    x, turn, lift = shift * deviation - 0.5 * shift * shift, angle / shift, 0.5 * (angle / shift) ** 2
    ratios, moved = np.exp(x - 1j * angle), np.expm1(x - 1j * angle)
    sizes = np.exp(-0.5 * deviation ** 2) * (math.exp(lift - LOG_SQRT_2PI) * spacing)
    moves = 0.5 * (np.abs(shift * deviation) + 0.5 * shift * shift + np.abs(x)) * np.maximum(np.abs(ratios / moved), 1.0)
    return _Nodes(ratios, moved, sizes * np.exp(1j * turn * deviation), sizes, sizes * (9.0 + moves),
                  sizes * (20.0 + lift + turn * np.abs(deviation)), float(deviation[0]), float(deviation[-1]))


def _few_digits(value: float) -> float:
    """Rounded down to eight binary digits."""
    mantissa, exponent = math.frexp(value)
    return math.ldexp(math.floor(256.0 * mantissa), exponent - 8)


def log_powers(shift: float, steps: float, u: np.ndarray, rotation: Rotation) -> Powers:
    """Lambda(u), from e^q phi(q) - 1 = E[e^{-z} - 1 + z], z = q (A - 1), q = u/t: nothing of first order cancels, however large t is.

    Where e^q or phi(q) is far from 1 that would be lost in 1, and phi itself is summed.
    """
    nodes, q = _nodes(shift, rotation), u / steps
    logs, errors, slopes = np.empty(len(u), complex), np.empty(len(u)), np.empty(len(u))
    rows, left = max(1, _CHUNK // len(nodes.sizes)), (q.real < -0.5) | (np.abs(q) * min(shift, 1.0) > 2.0)
    for chosen in (np.flatnonzero(~left), np.flatnonzero(left)):
        for part in np.array_split(chosen, -(-len(chosen) // rows)) if len(chosen) else ():
            doubts = _rule_errors(shift, q[part], rotation, nodes.low, nodes.high, direct=bool(left[part[0]]))
            found = (_direct if left[part[0]] else _centred)(steps, q[part], nodes, doubts)
            logs[part], errors[part], slopes[part] = found.logs + (u[part] if left[part[0]] else 0.0), found.errors, found.slopes
    return Powers(logs, errors, slopes)


def _direct(steps: float, q: np.ndarray, nodes: _Nodes, doubts: np.ndarray) -> Powers:
    """t log phi(q), and |1 + phi'/phi|."""
    z = np.multiply.outer(q, nodes.ratios)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        power = np.exp(-z)
        phi, slope = (power * nodes.weights).sum(axis=1), power @ (nodes.ratios * nodes.weights)
        errors = EPSILON * ((np.abs(power) * np.abs(z)) @ nodes.doubts + np.abs(power) @ nodes.units) + doubts
        return _powers(steps, phi, np.log(np.where(phi == 0.0, 1.0, phi)), phi - slope, errors)


def _centred(steps: float, q: np.ndarray, nodes: _Nodes, doubts: np.ndarray) -> Powers:
    """t log(e^q phi(q)), and |1 + phi'/phi|.

    Errors of a term: that of z times |1 - e^-z|, where the series is used at most 1.25 |z|; three units of what was subtracted, where
    it is not; and that of its weight.
    """
    z = np.multiply.outer(q, nodes.moved)
    size = np.abs(z)
    small = size < _SERIES
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        power = np.exp(-z)
        slope = 1.0 - power
        excess = z - slope
        excess[small] = _series(z[small])
        moved = np.where(small, 1.25 * size, np.abs(slope)) * size
        rounded = np.where(small, 0.0, 3.0 * (1.0 + np.abs(power) + size))
        g = (excess * nodes.weights).sum(axis=1)
        errors = EPSILON * (moved @ nodes.doubts + rounded @ nodes.sizes + np.abs(excess) @ nodes.units) + doubts
        errors = errors + np.where(np.abs(g) < 0.5, 0.0, 2.0 * EPSILON)
        return _powers(steps, 1.0 + g, _log1p(g), slope @ (nodes.moved * nodes.weights), errors)


def _powers(steps: float, base: np.ndarray, log_base: np.ndarray, slope: np.ndarray, errors: np.ndarray) -> Powers:
    """base^t; where the base is lost in its error, (|base| + error)^t is taken, which is off by at most twice itself."""
    left = np.abs(base)
    relative = np.where(left > 2.0 * errors, errors / np.maximum(left - errors, 1e-300), np.inf)
    lost = ~(relative < 0.5)
    with np.errstate(over="ignore", invalid="ignore"):
        logs = np.where(lost, steps * np.log(left + errors + 1e-300), steps * log_base)
        bounds = np.where(lost, math.log(3.0), steps * -np.log1p(-np.minimum(relative, 0.5)))
    return Powers(logs, bounds + 8.0 * EPSILON * np.abs(logs), np.where(lost, 0.0, 1.01 * np.abs(slope) / np.maximum(left, 1e-300)))


def _series(z: np.ndarray) -> np.ndarray:
    """e^{-z} - 1 + z = z^2 (1/2 - z/6 + ...), |z| < 0.4: what is left out is below 1e-20 of it."""
    total = np.full(z.shape, 1.0 / math.factorial(_TERMS + 1) + 0j)
    for n in range(_TERMS, 1, -1):
        total = 1.0 / math.factorial(n) - z * total
    return total * z * z


def _log1p(g: np.ndarray) -> np.ndarray:
    """log(1 + g) for complex g, to relative accuracy."""
    x, y = g.real, g.imag
    near = 0.5 * np.log1p(np.maximum(2.0 * x + x * x + y * y, -0.9))
    return np.where(np.abs(g) < 0.5, near, np.log(np.maximum(np.abs(1.0 + g), 1e-300))) + 1j * np.arctan2(y, 1.0 + x)


def _rule_errors(shift: float, q: np.ndarray, rotation: Rotation, low: float, high: float, *, direct: bool) -> np.ndarray:
    """Errors of the trapezoid sum of e^{-z} - 1 + z, z = q (A - 1), or of e^{-qA}, and of the tails that it leaves out.

    The edges are allowed where |arg q - beta| + b <= pi/2. There, as everywhere on the rule, |e^{-z}| <= e^{(Re q)_+}, so a term is at
    most the smaller of

        e^{(Re q)_+} + 1 + |q| + |q| |A|      and      e^{(Re q)_+} |q|^2 (1 + |A|)^2 / 2 <= e^{(Re q)_+} |q|^2 (1 + |A|^2),

    E |A| = 1, E |A|^2 = e^{v^2}, and the tails of these are normal tails moved by v and 2 v. |e^{-qA}| is at most 1.
    """
    angle, strip, step, _ = rotation
    allowed = np.abs(np.angle(q) - angle) + strip <= 0.5 * math.pi + 1e-15
    edges = math.exp(min(0.5 * ((angle + strip) / shift) ** 2, 690.0)) + math.exp(min(0.5 * ((angle - strip) / shift) ** 2, 690.0))
    rule = edges / math.expm1(min(2.0 * math.pi * strip / step, 690.0))
    more, lift = step / shift, math.exp(min(0.5 * (angle / shift) ** 2, 690.0))
    doubts = [rule + lift * (special.ndtr(low - tilt * shift + more) + special.ndtr(-high + tilt * shift + more)) for tilt in (0, 1, 2)]
    if direct:
        return np.where(allowed, doubts[0], np.inf)
    size, growth = np.abs(q), np.exp(np.clip(q.real, 0.0, 690.0))
    plain = doubts[0] * (growth + 1.0 + size) + doubts[1] * size
    second = growth * size * size * (doubts[0] + doubts[2] * math.exp(min(shift * shift, 690.0)))
    return np.where(allowed, np.minimum(plain, second), np.inf)
