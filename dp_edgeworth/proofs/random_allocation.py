"""Theorem: certified hockey-stick of one epoch of random allocation: each record in one of t batches, Gaussian noise on every batch.

The dominating pair is P = N(0, sigma^2 I_t), Q = (1/t) sum_i N(e_i, sigma^2 I_t) (Chua et al., "Balls-and-Bins Sampling for DP-SGD",
2025; Feldman, Shenfeld, "Privacy amplification by random allocation", 2025). Its likelihood ratio is S = (A_1 + ... + A_t)/t under P,
with log A ~ N(-v^2/2, v^2), v = 1/sigma, so both directions are options on a mean of log-normal variables:

    remove   delta(eps) = call(e^eps),                       call(k) = E[(S - k)_+] = put(k) - (k - 1),
    add      delta(eps) = e^eps put(e^-eps),                 put(k)  = E[(k - S)_+].

With psi(u) = E e^{-uS} = phi(u/t)^t (`lognormal_step.py`), along the ray u = a + i e^{i gamma} s, s > 0,

    put(k)  = (1/pi) Im int e^{uk} psi(u) / u^2 du,                 a > 0,  0 <= gamma < pi/2
    call(k) = (1/pi) Im int e^{uk} (psi(u) - 1 + u) / u^2 du,       a = 0,  0 < gamma < pi/2.

gamma = 0 is the usual inversion of a Laplace transform; psi continues to |arg u| < pi, and where k is above S, e^{uk} falls along the
other rays instead of turning. The second line subtracts (1/pi) Im int e^{uk} (1 - u)/u^2 du = k - 1, so that nothing cancels for large
k, and nothing is singular at 0. Three errors are charged besides those of phi:

    panels      Gauss-Legendre with N nodes on [s_i, s_{i+1}]: at most 8 M rho^{-2N} / (1 - rho^-2) times the half-length, M the
                maximum of the integrand on the Bernstein ellipse (Chebyshev coefficients are at most 2 M rho^-j, even ones from 2N on
                are integrated with an error of at most 4 each). Bounds (1) and (2) of |phi| are Laplace transforms of positive
                measures in Re q, so with e^{uk} the maximum is at one of the two ends of Re u. Near 0 |psi(u) - 1 + u| is at most
                |u|^2/2 max|psi''|.
    ends        beyond s = Y with (3), which falls in s for beta >= gamma: e^{k Re u(Y)} (that)^t / (pi Y cos^2 gamma), and of the call
                int e^{-k s sin gamma} (1 + s)/s^2 ds more, k >= 1; before its first point s_0, s_0/2 max|psi''|.
    rounding    of every term and sum, relative to the sum of the absolute values; terms are weights of size 1 at most times one
                exponential, so that a term has few roundings.

On a segment from 0, with w = e^{beta^2/(2 v^2)}: |phi'| <= w, |phi''| <= w e^{v^2}, |phi(q)| <= e^{w |q|}, so
|psi''| <= (w^2 + w e^{v^2}/t) e^{w |u|}.

Nothing here trusts the parameters: any ray, panels, nodes and steps give true bounds, which may be useless.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from dp_edgeworth.losses.gaussian_curve import legendre
from dp_edgeworth.proofs.lognormal_step import Powers, Rotation, StepLaw, log_powers, step_law
from dp_edgeworth.sums.composition import EPSILON

_ELLIPSES = np.array([1.3, 1.7, 2.4, 3.5, 5.0, 8.0])
_CHUNK = 1 << 19
_LARGEST = 690.0
_LONG_EPSILON = float(np.finfo(np.longdouble).eps)


class Options(NamedTuple):
    """put(k) or call(k) for an array of k: lower bound, estimate, upper bound."""

    lower: np.ndarray
    estimate: np.ndarray
    upper: np.ndarray


class Ray(NamedTuple):
    """The parameters of a contour: the law (v, t), a and gamma, the ends of the panels (from 0 on where a > 0), nodes of each, and
    how phi is computed."""

    shift: float
    steps: float
    abscissa: float
    lean: float
    points: np.ndarray
    nodes: int
    rotation: Rotation


@dataclasses.dataclass(frozen=True)
class Contour:
    """All that does not depend on k, for one ray.

    Attributes:
      is_call: whether `options` are calls, otherwise puts.
      points: u at the nodes. weights, peak: e^{u(k-1)} is multiplied by weights e^peak; no weight is larger than 1.
      errors, per_excess: relative errors of the terms are at most errors + |k-1| per_excess.
      ends, end_logs, log_factors: Re u at both ends of the ellipses, the log of |e^u| times the bound of the numerator there, and the
        log of all other factors of the panel errors; shapes (2, ellipses, panels), the same, (ellipses, panels).
      last, log_cut: Re u where the rule ends, and the log of the cut-off error over e^{(k-1) last}.
      start: error of what is left out at the beginning.
    """

    is_call: bool
    points: np.ndarray
    weights: np.ndarray
    peak: float
    errors: np.ndarray
    per_excess: np.ndarray
    ends: np.ndarray
    end_logs: np.ndarray
    log_factors: np.ndarray
    last: float
    log_cut: float
    start: float

    def options(self, excess: np.ndarray) -> Options:
        """At k - 1 = excess > -1, which may be off by 2 units in its last place."""
        excess = np.asarray(excess, float)
        middle, errors = np.empty(len(excess)), np.empty(len(excess))
        chunk = max(1, _CHUNK // len(self.points))
        for begin in range(0, len(excess), chunk):
            some, part = excess[begin:begin + chunk], slice(begin, begin + chunk)
            with np.errstate(over="ignore", invalid="ignore"):
                terms = np.exp(np.multiply.outer(some, self.points) + self.peak) * self.weights
                sizes = np.abs(terms)
                middle[part] = terms.imag.sum(axis=1, dtype=np.longdouble)
                errors[part] = sizes @ self.errors + np.abs(some) * (sizes @ self.per_excess)
        if self.is_call:
            errors[excess < 0.0] = np.inf
        with np.errstate(over="ignore", invalid="ignore"):
            errors = np.nan_to_num((errors + self._path_errors(excess)) * (1.0 + 1e-9), nan=np.inf)
            middle = np.nan_to_num(middle, nan=0.0, posinf=0.0, neginf=0.0)
            return Options(np.maximum(middle - errors, 0.0), np.maximum(middle, 0.0), np.maximum(middle, 0.0) + errors)

    def _path_errors(self, excess: np.ndarray) -> np.ndarray:
        """Those of the panels and of both ends; a panel's for the best of its ellipses."""
        logs = (self.ends[..., None] * excess + self.end_logs[..., None]).max(axis=0) + self.log_factors[..., None]
        panels = np.exp(np.minimum(logs.min(axis=0), _LARGEST)).sum(axis=0)
        return panels + np.exp(np.minimum(self.last * excess + self.log_cut, _LARGEST)) + self.start


def contour(ray: Ray) -> Contour:
    """Theorem of the module's header: puts where the abscissa is positive, calls where it is 0."""
    law, way = step_law(ray.shift), 1j * np.exp(1j * ray.lean)
    x, w = legendre(ray.nodes)
    centres, halves = 0.5 * (ray.points[1:] + ray.points[:-1]), 0.5 * np.diff(ray.points)
    u = ray.abscissa + way * (centres[:, None] + halves[:, None] * x).ravel()
    powers, is_call = log_powers(ray.shift, ray.steps, u, ray.rotation), ray.abscissa == 0.0
    peak = 0.0 if is_call else float(np.max(powers.logs.real, where=powers.errors < 1.0, initial=-_LARGEST))
    values, errors = _calls(u, powers) if is_call else (np.exp(powers.logs - peak), np.expm1(np.minimum(powers.errors, _LARGEST)))
    weights = values * ((halves[:, None] * w).ravel() * way / (math.pi * u * u))
    # An error of two units in the last place of u moves the integrand by its logarithmic derivative.
    errors = errors + EPSILON * (2.0 * np.abs(u) * powers.slopes + 2.0 * abs(peak) + 20.0) + len(u) * _LONG_EPSILON
    length = float(ray.points[-1])
    start = 0.5 / math.pi * float(ray.points[0]) * math.exp(min(float(_log_second(law, ray, ray.lean, ray.points[0])), _LARGEST))
    return Contour(is_call, u, weights, peak, errors, 4.0 * EPSILON * np.abs(u), *ellipses(ray),
                   ray.abscissa - length * math.sin(ray.lean), log_cut(ray, length), start if is_call else 0.0)


def _calls(u: np.ndarray, powers: Powers) -> tuple[np.ndarray, np.ndarray]:
    """e^u (psi(u) - 1 + u) = (e^Lambda - 1) + (1 - (1 - u) e^u), and its relative error, that of u included."""
    small = np.abs(u) < 0.4
    near = np.where(small, u, 0.0)
    series = np.zeros(u.shape, complex)
    for n in range(19, 1, -1):  # sum of u^n (n-1)/n!
        series = (series * near) + (n - 1.0) / math.factorial(n)
    with np.errstate(over="ignore", invalid="ignore"):
        power = np.exp(powers.logs)
        first = np.where(small, np.expm1(powers.logs), power)
        second = np.where(small, series * near * near, -(1.0 - u) * np.exp(u))
        total = first + second
        errors = np.abs(power) * (np.expm1(np.minimum(powers.errors, _LARGEST)) + 2.0 * EPSILON * np.abs(u) * powers.slopes)
        errors = errors + 4.0 * EPSILON * (np.abs(first) + np.abs(second) * (1.0 + np.abs(u)))
        return total, errors / np.maximum(np.abs(total), 1e-300)


def _log_second(law: StepLaw, ray: Ray, angles: np.ndarray | float, sizes: np.ndarray | float) -> np.ndarray:
    """log max|psi''| on the segment from 0 to u, |u| = size, arg u <= pi/2 + angle."""
    log_w = 0.5 * (np.asarray(angles) / law.shift) ** 2
    with np.errstate(over="ignore"):
        return np.logaddexp(2.0 * log_w, log_w + law.shift ** 2 - math.log(ray.steps)) + np.exp(np.minimum(log_w, _LARGEST)) * sizes


def ellipses(ray: Ray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Both ends of every ellipse with the bounds there, and the log of the other factors of a panel's error: see `Contour`."""
    law, halves = step_law(ray.shift), 0.5 * np.diff(ray.points)
    centres = ray.abscissa + 1j * np.exp(1j * ray.lean) * 0.5 * (ray.points[1:] + ray.points[:-1])
    rho, sine, cosine = _ELLIPSES[:, None], math.sin(ray.lean), math.cos(ray.lean)
    minor, major = 0.5 * halves * (rho - 1.0 / rho), 0.5 * halves * (rho + 1.0 / rho)
    wide, high = (np.hypot(minor * one, major * other) * (1.0 + 1e-12) for one, other in ((cosine, sine), (sine, cosine)))
    left, right, lowest = centres.real - wide, centres.real + wide, centres.imag - high
    left_logs, right_logs = np.empty_like(left), law.log_laplace(np.maximum(right, 0.0) / ray.steps)
    inside = left >= 0.0
    left_logs[inside] = law.log_laplace(left[inside] / ray.steps)
    angles = np.where(inside, 0.0, np.arctan2(-left, np.maximum(lowest, 1e-300)))
    if not inside.all():
        left_logs[~inside], right_logs[~inside] = law.log_continued(left[~inside] / ray.steps, angles[~inside], right[~inside] /
        ray.steps)
    nearest = np.maximum(np.hypot(np.maximum(left, 0.0), np.maximum(lowest, 0.0)), np.abs(centres) - major)
    ends = np.stack([left, right])
    logs = ray.steps * np.stack([left_logs, right_logs])
    with np.errstate(divide="ignore"):
        factors = np.log(8.0 * halves / math.pi) - 2.0 * ray.nodes * np.log(rho) - np.log1p(-rho ** -2.0)
        by_numerator = factors - 2.0 * np.log(np.maximum(nearest, 0.0))
    if ray.abscissa == 0.0:
        largest = np.abs(centres) + major
        by_second = factors - math.log(2.0) + _log_second(law, ray, angles, largest)
        logs = np.logaddexp(logs, np.log1p(largest))
        less = by_second < by_numerator + logs.max(axis=0)
        logs, by_numerator = np.where(less, 0.0, logs), np.where(less, by_second, by_numerator)
    # An ellipse around 0 or across the cut proves nothing.
    return ends, ends + logs, np.where((lowest > 0.0) | inside, by_numerator, np.inf)


def log_cut(ray: Ray, length: float) -> float:
    """log of what is left out beyond s = length, without e^{(k-1) Re u}, at the best of some angles."""
    law, sine = step_law(ray.shift), math.sin(ray.lean)
    more = np.concatenate([np.geomspace(3e-3, 1.0, 20) * min(1.0, 8.0 * law.shift), np.linspace(0.05, 1.0, 16) * (0.5 * math.pi)])
    angles = ray.lean + more[ray.lean + more <= 0.5 * math.pi]
    rates = (ray.abscissa * np.cos(angles) + length * np.sin(angles - ray.lean)) / ray.steps
    logs = ray.abscissa - length * sine + ray.steps * law.log_rotated(rates, angles) - math.log(math.pi * length *
    math.cos(ray.lean) ** 2)
    if ray.abscissa > 0.0:
        return logs
    # int_Y^inf e^{-s k sin} (1 + s)/s^2 ds <= e^{-Y k sin} (1 + Y) / Y^2 / (k sin), and k >= 1
    rest = -length * sine + math.log1p(length) - 2.0 * math.log(length) - math.log(math.pi * sine)
    return float(np.logaddexp(logs, rest))
