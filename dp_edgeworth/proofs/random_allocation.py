"""Theorem: certified hockey-stick of one epoch of random allocation: each record in one of t batches, Gaussian noise on every batch.

The dominating pair is P = N(0, sigma^2 I_t), Q = (1/t) sum_i N(e_i, sigma^2 I_t) (Chua et al., "Balls-and-Bins Sampling for DP-SGD",
2025; Feldman, Shenfeld, "Privacy amplification by random allocation", 2025). Its likelihood ratio is S = (A_1 + ... + A_t)/t under P,
with log A ~ N(-v^2/2, v^2), v = 1/sigma, so both directions are options on a mean of log-normal variables:

    remove   delta(eps) = call(e^eps),                       call(k) = E[(S - k)_+] = put(k) - (k - 1),
    add      delta(eps) = e^eps put(e^-eps),                 put(k)  = E[(k - S)_+].

With e^Lambda(u) = e^u psi(u), psi(u) = E e^{-uS} = phi(u/t)^t (`lognormal_step.py`), along the ray u = a + i e^{i gamma} s, s > 0,

    put(k)  = (1/pi) Im int e^{u(k-1)} e^Lambda / u^2 du,              a > 0,  0 <= gamma < pi/2
    call(k) = (1/pi) Im int e^{u(k-1)} (e^Lambda - 1) / u^2 du,        a = 0,  0 < gamma < pi/2,  k > 1.

gamma = 0 is the usual inversion of a Laplace transform; psi continues to |arg u| < pi, and where k is above S, e^{uk} falls along the
other rays instead of turning. The second line is the first one less the same for S = 1, whose call is 0: nothing cancels, and nothing
is singular at 0. Where e^Lambda is negligible, at u = u_Y, the term -1 turns to the left and runs along u_Y - s instead, on which
it does not oscillate. Three errors are charged besides those of phi:

    panels      Gauss-Legendre with N nodes on [s_i, s_{i+1}] (of calls in log s, du = u d log s): at most 8 M rho^{-2N} / (1 - rho^-2)
                times the half-length, M the maximum of the integrand on the Bernstein ellipse (Chebyshev coefficients are at most
                2 M rho^-j, even ones from 2N on are integrated with an error of at most 4 each). Bounds (1) and (2) of |phi| are
                Laplace transforms of positive measures in Re q, so with e^{uk} the maximum is at one of the two ends of Re u. Near 0
                |e^Lambda - 1| is at most |u|^2/2 max|(e^Lambda)''|. An ellipse in log s is inside a sector of a ring.
    ends        beyond s = Y with (3), which falls in s for beta >= gamma: e^{k Re u(Y)} (that)^t / (pi Y cos^2 gamma); of the call
                before its first point s_0, s_0/2 max|(e^Lambda)''|, and beyond the end T of its turned path e^{(k-1) Re u} / (pi T).
    rounding    of every term and sum, relative to the sum of the absolute values; terms are weights of size 1 at most times one
                exponential, so that a term has few roundings.

On a segment from 0, with w = e^{beta^2/(2 v^2)}: |phi'| <= w, |phi''| <= w e^{v^2}, |phi(q)| <= e^{w |q|}, so
|(e^u psi)''| <= ((1 + w)^2 + w e^{v^2}/t) e^{(1 + w) |u|}.

Nothing here trusts the parameters: any ray, panels, nodes and steps give true bounds, which may be useless.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from dp_edgeworth.losses.gaussian_curve import legendre
from dp_edgeworth.proofs.lognormal_step import Rotation, StepLaw, log_powers, step_law
from dp_edgeworth.sums.composition import EPSILON

_ELLIPSES = np.array([1.3, 1.7, 2.4, 3.5, 5.0, 8.0])
_STRIKES, _NEGLIGIBLE = 256, 1e-19  # strikes at once, and terms that are left out of their sums, of the largest one
_LARGEST, _FURTHEST = 690.0, 1e100
_UNITS = 12.0  # of the last place of a node: of its product with the direction, of e^x, and of each part of x times x <= 4
_LONG_EPSILON = float(np.finfo(np.longdouble).eps)


class Options(NamedTuple):
    """put(k) or call(k) for an array of k: lower bound, estimate, upper bound."""

    lower: np.ndarray
    estimate: np.ndarray
    upper: np.ndarray


class Ray(NamedTuple):
    """The parameters of a contour: the law (v, t), a and gamma, the ends of the panels (from 0 on where a > 0) and of those of the
    turned path (from 0 on; of calls only), nodes of each, and how phi is computed."""

    shift: float
    steps: float
    abscissa: float
    lean: float
    points: np.ndarray
    turned: np.ndarray
    nodes: int
    rotation: Rotation

    @property
    def is_call(self) -> bool:
        return self.abscissa == 0.0

    @property
    def way(self) -> complex:
        return 1j * np.exp(1j * self.lean)

    @property
    def corner(self) -> complex:
        """u_Y."""
        return complex(self.abscissa + self.way * self.points[-1])


class PanelErrors(NamedTuple):
    """log of the error of a panel with an ellipse: the larger of (k-1) ends + end_logs, plus log_factors.

    Attributes:
      ends, end_logs: Re u at both ends of the ellipses, and the log of the bound of the numerator there; (2, ellipses, panels).
      log_factors: the log of all other factors; (ellipses, panels).
    """

    ends: np.ndarray
    end_logs: np.ndarray
    log_factors: np.ndarray

    def logs(self, excess: np.ndarray | float) -> np.ndarray:
        """For the best ellipse of every panel."""
        return ((np.multiply.outer(self.ends, excess) + self.end_logs[(...,) + (None,) * np.ndim(excess)]).max(axis=0)
                + self.log_factors[(...,) + (None,) * np.ndim(excess)]).min(axis=0)


@dataclasses.dataclass(frozen=True)
class Contour:
    """All that does not depend on k, for one ray.

    Attributes:
      is_call: whether `options` are calls, otherwise puts.
      points: u at the nodes. weights, peak: e^{u(k-1)} is multiplied by weights e^peak.
      errors, per_excess: relative errors of the terms are at most errors + |k-1| per_excess.
      panels: errors of the panels. last, log_cuts: Re u where the rule ends, and the log of the cut-off error over e^{(k-1) last}.
      start: error of what is left out at the beginning.
    """

    is_call: bool
    points: np.ndarray
    logs: np.ndarray
    weights: np.ndarray
    errors: np.ndarray
    per_excess: np.ndarray
    panels: PanelErrors
    last: np.ndarray
    log_cuts: np.ndarray
    start: float

    def options(self, excess: np.ndarray) -> Options:
        """At k - 1 = excess > -1, which may be off by 2 units in its last place."""
        excess = np.asarray(excess, float)
        middle, errors = np.empty(len(excess)), np.empty(len(excess))
        order = np.argsort(excess, kind="stable")
        with np.errstate(over="ignore", invalid="ignore"):
            for begin in range(0, len(excess), _STRIKES):
                part = order[begin:begin + _STRIKES]
                some, (nodes, rest) = excess[part], self._large_terms(excess[part])
                logs, weights = self.logs[nodes if len(self.logs) > 1 else slice(None)], self.weights[nodes]
                sizes = np.exp(np.multiply.outer(some, self.points.real[nodes]) + logs.real) * np.abs(weights)
                phases = np.multiply.outer(some, self.points.imag[nodes]) + (logs.imag + np.angle(weights))
                middle[part] = (sizes * np.sin(phases)).sum(axis=1, dtype=np.longdouble)
                errors[part] = sizes @ self.errors[nodes] + np.abs(some) * (sizes @ self.per_excess[nodes]) + rest
            errors = np.nan_to_num((errors + self._path_errors(excess)) * (1.0 + 1e-9), nan=np.inf)
            middle = np.nan_to_num(middle, nan=0.0, posinf=0.0, neginf=0.0)
            if self.is_call:
                errors[excess <= 0.0] = np.inf
            return Options(np.maximum(middle - errors, 0.0), np.maximum(middle, 0.0), np.maximum(middle, 0.0) + errors)

    def _large_terms(self, some: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The nodes whose terms matter at either end of increasing excesses, and bounds of the sums of all others at every one.

        The logarithm of a term's modulus is linear in the excess, so that of their sum is convex (Hoelder's inequality).
        """
        logs = np.multiply.outer(some[[0, -1]], self.points.real) + self.logs.real
        sizes = np.exp(np.minimum(logs, _LARGEST)) * np.abs(self.weights)
        kept = (~(sizes <= _NEGLIGIBLE * sizes.max(axis=1)[:, None]) | (logs > _LARGEST)).any(axis=0)
        first, last = np.log(sizes[:, ~kept].sum(axis=1) + 1e-300)
        share = (some - some[0]) / max(float(some[-1] - some[0]), 1e-300)
        return np.flatnonzero(kept), np.exp(first + share * (last - first)) * (1.0 + 1e-9)

    def _path_errors(self, excess: np.ndarray) -> np.ndarray:
        cuts = np.multiply.outer(self.last, excess) + self.log_cuts[:, None]
        return sum(np.exp(np.minimum(logs, _LARGEST)).sum(axis=0) for logs in (self.panels.logs(excess), cuts)) + self.start


def contour(ray: Ray) -> Contour:
    """Theorem of the module's header: puts where the abscissa is positive, calls where it is 0."""
    u, rule = _growing_nodes(ray) if ray.is_call else _nodes(ray.points, ray.abscissa, ray.way, ray.nodes)
    powers = log_powers(ray.shift, ray.steps, u, ray.rotation)
    # An error of some units in the last place of u moves e^Lambda by its derivative.
    errors = np.expm1(np.minimum(powers.errors, _LARGEST)) + _UNITS * EPSILON * np.abs(u) * powers.slopes
    logs, values, cuts = powers.logs, np.ones(u.shape, complex), [(ray.corner.real, log_cut(ray))]
    if ray.is_call:
        logs, values, errors = np.zeros(1), *_less_one(powers.logs, errors)
        more, more_rule = _nodes(ray.turned, ray.corner, -1.0, ray.nodes)
        u, rule = np.concatenate([u, more]), np.concatenate([rule, more_rule])
        values, errors = np.concatenate([values, np.full(len(more), -1.0)]), np.concatenate([errors, np.zeros(len(more))])
        cuts.append((ray.corner.real - ray.turned[-1], -math.log(math.pi * ray.turned[-1])))
    errors = errors + EPSILON * (48.0 + 2.0 * np.abs(logs)) + len(u) * _LONG_EPSILON
    last, log_cuts = np.array(cuts).T
    return Contour(ray.is_call, u, logs, values * (rule / (math.pi * u * u)), errors, (2.0 + _UNITS) * EPSILON * np.abs(u),
                   panel_errors(ray), last, log_cuts, math.exp(min(log_start(ray), _LARGEST)) if ray.is_call else 0.0)


def _less_one(logs: np.ndarray, errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """e^Lambda - 1 and its relative errors from those of e^Lambda."""
    with np.errstate(over="ignore", invalid="ignore"):
        values = np.expm1(logs)
        return values, errors * np.abs(np.exp(logs)) / np.maximum(np.abs(values), 1e-300)


def _nodes(points: np.ndarray, origin: complex, way: complex, nodes: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights of all panels of a straight path."""
    x, w = legendre(nodes)
    centres, halves = 0.5 * (points[1:] + points[:-1]), 0.5 * np.diff(points)
    return origin + way * (centres[:, None] + halves[:, None] * x).ravel(), (halves[:, None] * w).ravel() * way


def _growing_nodes(ray: Ray) -> tuple[np.ndarray, np.ndarray]:
    """The same of panels in log s: s = s_i e^x, with x from 0 on in each of them."""
    x, w = legendre(ray.nodes)
    halves = _log_halves(ray.points)[:, None]
    u = ray.way * (ray.points[:-1, None] * np.exp(halves * (1.0 + x))).ravel()
    return u, (halves * w).ravel() * u


def _log_halves(points: np.ndarray) -> np.ndarray:
    """Half-lengths in log s, each to a few units in its last place."""
    return 0.5 * np.log1p(np.diff(points) / points[:-1])


def _log_second(ray: Ray, angles: np.ndarray | float, sizes: np.ndarray | float) -> np.ndarray:
    """log max|(e^Lambda)''| on the segment from 0 to u, |u| = size, arg u <= pi/2 + angle."""
    log_w = np.minimum(0.5 * (np.asarray(angles) / ray.shift) ** 2, _LARGEST)
    with np.errstate(over="ignore"):
        rest = (1.0 + np.exp(log_w)) * sizes
    return np.logaddexp(2.0 * np.log1p(np.exp(log_w)), log_w + ray.shift ** 2 - math.log(ray.steps)) + rest


def log_start(ray: Ray) -> float:
    """log of what is left out before the first point."""
    first = float(ray.points[0])
    return math.log(first / (2.0 * math.pi)) + float(_log_second(ray, ray.lean, first))


def panel_errors(ray: Ray) -> PanelErrors:
    """Of the panels of the ray, then of its turned path."""
    return PanelErrors(*(np.concatenate(both, axis=-1) for both in zip(_along_ray(ray), _along_turned(ray), strict=True)))


def _log_rules(halves: np.ndarray, nodes: int) -> np.ndarray:
    """log of 8 rho^{-2N} / (1 - rho^-2) times the half-length over pi; (ellipses, panels)."""
    rho = _ELLIPSES[:, None]
    return np.log(8.0 * halves / math.pi) - 2.0 * nodes * np.log(rho) - np.log1p(-rho ** -2.0)


def _half_axes(halves: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    rho = _ELLIPSES[:, None]
    return 0.5 * halves * (rho + 1.0 / rho), 0.5 * halves * (rho - 1.0 / rho)


def _along_turned(ray: Ray) -> PanelErrors:
    """|e^{u(k-1)}| is largest at the right end, where k > 1."""
    halves = 0.5 * np.diff(ray.turned)
    centres = ray.corner - 0.5 * (ray.turned[1:] + ray.turned[:-1])
    major, minor = _half_axes(halves)
    rights, nearest = centres.real + major, np.maximum(ray.corner.imag - minor, np.abs(centres) - major)
    with np.errstate(divide="ignore"):
        factors = _log_rules(halves, ray.nodes) - 2.0 * np.log(np.maximum(nearest, 0.0))
    return PanelErrors(np.stack([rights, rights]), np.zeros((2, *rights.shape)), factors)


def _along_ray(ray: Ray) -> PanelErrors:
    return _along_growing(ray) if ray.is_call else _along_equal(ray)


def _along_equal(ray: Ray) -> PanelErrors:
    """Of puts. Ellipses are inside rectangles; one around 0 or across the cut proves nothing."""
    law, halves = step_law(ray.shift), 0.5 * np.diff(ray.points)
    centres = ray.abscissa + ray.way * 0.5 * (ray.points[1:] + ray.points[:-1])
    sine, cosine = math.sin(ray.lean), math.cos(ray.lean)
    major, minor = _half_axes(halves)
    wide, high = (np.hypot(minor * one, major * other) * (1.0 + 1e-12) for one, other in ((cosine, sine), (sine, cosine)))
    left, right, lowest = centres.real - wide, centres.real + wide, centres.imag - high
    ends = np.stack([left, right])
    angles = np.where(left >= 0.0, 0.0, np.arctan2(-left, np.maximum(lowest, 1e-300)))
    logs = ends + ray.steps * _log_transforms(law, left / ray.steps, right / ray.steps, angles)
    nearest = np.maximum(np.hypot(np.maximum(left, 0.0), np.maximum(lowest, 0.0)), np.abs(centres) - major)
    with np.errstate(divide="ignore"):
        factors = _log_rules(halves, ray.nodes) - 2.0 * np.log(np.maximum(nearest, 0.0))
    return PanelErrors(ends, logs, np.where((lowest > 0.0) | (left >= 0.0), factors, np.inf))


def _along_growing(ray: Ray) -> PanelErrors:
    """Of calls: r^-1 e^{u(k-1)} (e^Lambda - 1) on sectors, nearest <= r <= furthest, arg u - pi/2 from first to last."""
    halves = _log_halves(ray.points)
    major, minor = _half_axes(halves)
    log_centres, room = np.log(ray.points[:-1]) + halves, 1.0 + 1e-12
    with np.errstate(over="ignore"):
        nearest, furthest = np.exp(log_centres - major) / room, np.minimum(np.exp(log_centres + major) * room, _FURTHEST)
    first, last = ray.lean - minor * room, ray.lean + minor * room
    left = -furthest * np.sin(np.minimum(last, 0.5 * math.pi))
    right = np.where(first > 0.0, -nearest, furthest) * np.sin(np.abs(np.maximum(first, -0.5 * math.pi)))
    ends = np.stack([left, right])
    logs = np.logaddexp(ends + ray.steps * _log_transforms(step_law(ray.shift), left / ray.steps, right / ray.steps, last), 0.0)
    factors = _log_rules(halves, ray.nodes)
    by_numerator, by_second = factors - np.log(nearest), factors + np.log(0.5 * furthest) + _log_second(ray, last, furthest)
    less = by_second < by_numerator + logs.max(axis=0)
    possible = (first > -0.5 * math.pi) & (last < 0.5 * math.pi) & (furthest < _FURTHEST)
    return PanelErrors(ends, np.where(less, 0.0, logs), np.where(possible, np.where(less, by_second, by_numerator), np.inf))


def _log_transforms(law: StepLaw, left: np.ndarray, right: np.ndarray, angles: np.ndarray) -> np.ndarray:
    """Bounds of log|phi| at both ends: (1), or (2) where the left one is left of 0."""
    inside = left >= 0.0
    found = np.stack([np.zeros_like(left), law.log_laplace(np.maximum(right, 0.0))])
    found[0, inside] = law.log_laplace(left[inside])
    if not inside.all():
        found[:, ~inside] = law.log_continued(left[~inside], angles[~inside], right[~inside])
    return found


def log_cut(ray: Ray) -> float:
    """log of what is left out of psi beyond the last point, without e^{(k-1) Re u}, at the best of some angles."""
    law, length = step_law(ray.shift), float(ray.points[-1])
    least = min(0.02, law.shift) / max(math.sqrt(ray.steps), 8.0)
    more = np.concatenate([np.geomspace(least, 1.0, 32), np.linspace(0.05, 1.0, 16) * (0.5 * math.pi)])
    angles = ray.lean + more[ray.lean + more <= 0.5 * math.pi]
    rates = (ray.abscissa * np.cos(angles) + length * np.sin(angles - ray.lean)) / ray.steps
    return ray.corner.real + ray.steps * law.log_rotated(rates, angles) - math.log(math.pi * length * math.cos(ray.lean) ** 2)
