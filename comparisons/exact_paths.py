"""E_Q[e^{zL}] of one leaf for complex z, in ball arithmetic: what `exact_balls` integrates.

Gaussian mixtures: trapezoid sums along complex paths. L = log(1 - p + p e^{mu x - mu^2/2}) turns with Im x: small losses by
up to 80 degrees (the logarithm has its branch points at 180), large ones as fast as the path rises once the largest component
dominates. e^{zL} decays then for z far out on either side of the imaginary axis. Of sampling without replacement two paths
begin at L = 0. Laplace noise: closed form, or Gauss-Legendre for sampled noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from flint import acb, arb

from comparisons.exact import GaussianPair, InaccurateError, LaplacePair, Lattice, Law, SymmetricSubsample, Tagged

NEGLIGIBLE = 55.0  # e^-55 of a leaf's transform is left out
MAX_POINTS = 12_000
TURN = 1.4  # radians by which paths turn small losses
_I = acb(0, 1)


def ball(x: float | np.longdouble) -> arb:
    """An 80-bit number, exactly."""
    high = float(x)
    return arb(high) + arb(float(np.longdouble(x) - np.longdouble(high)))


@dataclass(frozen=True)
class Points:
    """Nodes with E_Q[f(L)] = sum_q w_q f(L_q); of an atom at L = 0 the weight is not needed."""

    losses: list[acb]
    weights: list[acb]

    def transform(self) -> Callable[[acb], acb]:
        """E_Q[e^{zL}] = 1 + E_Q[e^{zL} - 1 + z (e^{-L} - 1)]: what the weights lack in accuracy is multiplied by L^2."""
        pairs = list(zip(self.losses, self.weights, strict=True))
        mass = sum(self.weights, acb(0))
        other = sum((w * (-v).exp() for v, w in pairs), acb(0))
        return lambda z: 1 + sum([w * (z * v).exp() for v, w in pairs], acb(0)) - mass + z * (other - mass)

    def scaled(self, factor: arb) -> Points:
        return Points(self.losses, [w * factor for w in self.weights])


Components = list[tuple[float, float]]  # log-weights and means of a Gaussian mixture


def _float_log_sum(parts: Components, x: np.ndarray) -> np.ndarray:
    """log sum_i w_i e^{m_i x - m_i^2/2}, its branch by the largest term."""
    terms = np.array([w + m * x - m * m / 2 for w, m in parts])
    top = np.take_along_axis(terms, terms.real.argmax(axis=0)[None], axis=0)
    return np.asarray(top[0] + np.log(np.exp(terms - top).sum(axis=0)))


def _log_sum(parts: list[tuple[arb, arb]], x: acb) -> acb:
    """The same in ball arithmetic."""
    terms = [w + m * x - m * m / 2 for w, m in parts]
    top = max(terms, key=lambda t: float(t.real.mid()))
    if len(terms) == 1:
        return top
    return top + sum(((t - top).exp() for t in terms), acb(0)).log()


@dataclass(frozen=True)
class Path:
    """x(s) for real s: start + s or, from an end point on, start + softplus(s), in both cases raised and bent."""

    start: float
    ended: bool
    side: int  # 1: above the real line, -1: below
    height: float
    corner: float  # from about here the path rises with `slope`
    width: float
    slope: float

    def point(self, s: acb) -> tuple[acb, acb]:
        """x(s) and x'(s)."""
        along, rate = (_softplus(s), _logistic(s)) if self.ended else (s, acb(1))
        bend, bend_rate = acb(0), acb(0)
        if self.slope:
            u = (self.start + along - self.corner) / self.width
            bend, bend_rate = self.slope * self.width * _softplus(u), self.slope * _logistic(u)
        up, up_rate = acb(self.height), acb(0)
        if self.ended:  # leaves the end point steeply
            root = (self.height**2 + (3 * along) ** 2).sqrt()
            up, up_rate = self.height * 3 * along / root, 3 * self.height**3 / root**3
        return self.start + along + _I * self.side * (up + bend), rate * (1 + _I * self.side * (up_rate + bend_rate))

    def points(self, s: np.ndarray) -> np.ndarray:
        """x(s) in double precision."""
        along = np.logaddexp(0, s) if self.ended else s
        bend = self.slope * self.width * np.logaddexp(0, (self.start + along - self.corner) / self.width)
        up = self.height * 3 * along / np.hypot(self.height, 3 * along) if self.ended else self.height
        return np.asarray(self.start + along + 1j * self.side * (up + bend))


def _softplus(u: acb) -> acb:
    return u.exp().log1p() if float(u.real.mid()) < 0 else u + (-u).exp().log1p()


def _logistic(u: acb) -> acb:
    return 1 / (1 + (-u).exp())


@dataclass(frozen=True)
class Tilts:
    """What the rules must serve: z from c on, in one of two variants."""

    c: float
    variant: int
    fine: float = 1.0


def slope_at(far: float) -> float:
    """Of paths far out: no more than costs 60 nats of cancellation where the Gaussian is tilted by `far`."""
    return min(0.75, math.sqrt(1 / (1 + far**2 / 120)))


def _corner(parts: Components) -> float:
    """Where the component of the largest mean is three times all others together, and stays so."""
    top = max(parts, key=lambda part: part[1])
    gaps = [(math.log(3 * len(parts)) + w - top[0] - (m * m - top[1] ** 2) / 2) / (top[1] - m) for w, m in parts if m < top[1]]
    return max(gaps, default=math.inf)


def _gaussian_points(
    law: GaussianPair, tilts: Tilts, end: float | None = None, side: int | None = None, weight_of_q: bool = True
) -> Points:
    """Trapezoid rule along a path for int f(L) dQ (or dP) over the line, or from `end` on."""
    p = [(float(np.log(w)), float(m)) for w, m in zip(law.p_weights, law.p_means, strict=True)]
    q = [(float(np.log(w)), float(m)) for w, m in zip(law.q_weights, law.q_means, strict=True)]
    means = [m for _, m in p + q]
    reach, side = max(means) - min(means), side or (1 if law.rising else -1)
    height = min(TURN * (1.0, 0.9)[tilts.variant] / reach, (9.0, 8.0)[tilts.variant])
    corner = _corner(q if law.rising else p)
    far = abs(tilts.c) * reach
    slope = 0.0 if math.isinf(corner) else slope_at(far) * (1.0, 0.9)[tilts.variant]
    path = Path(0.0 if end is None else end, end is not None, side, height, corner, min(1.0, 2 / reach), slope)
    depth = min(height / 2, 0.6 * (math.pi / reach - height)) if end is None else min(0.6, 0.3 / reach + 0.3)
    growth = (height + depth) ** 2 / 2 + 2 * depth * slope * (far + 8) / (1 - slope**2)
    step = 2 * math.pi * depth / ((46, 52)[tilts.variant] * tilts.fine + growth)
    spots = [(tilts.c + 1) * b - tilts.c * a for _, a in p for _, b in q] + means
    low = min(spots) - 14 if end is None else -52.0
    high = (max(spots) + 14) / (1 - slope**2) + 1
    s = step * np.arange(math.floor(low / step), math.ceil(high / step) + 1)
    x = path.points(s)
    log_p, log_q = _float_log_sum(p, x), _float_log_sum(q, x)
    base = (log_q if weight_of_q else log_p) - x * x / 2 + (np.minimum(s, 0) if end is not None else 0)
    loss = log_q - log_p
    real = path.start + (np.logaddexp(0, s) if end is not None else s)
    keep = np.zeros(s.size, bool)
    for tilt in (tilts.c, 0.0, -1.0):
        line = _float_log_sum(q, real) - _float_log_sum(p, real)
        scale = ((_float_log_sum(q, real) if weight_of_q else _float_log_sum(p, real)) - real**2 / 2 + tilt * line).real.max()
        keep |= (base + tilt * loss).real > scale - NEGLIGIBLE
    kept = np.flatnonzero(keep)
    if kept.size > MAX_POINTS:
        raise InaccurateError(f"A leaf needs {kept.size} nodes.")
    return _points(law, path, [round(v / step) for v in s[kept]], arb(step), weight_of_q)


def _points(law: GaussianPair, path: Path, indices: list[int], step: arb, weight_of_q: bool) -> Points:
    p = [(ball(w).log(), ball(m)) for w, m in zip(law.p_weights, law.p_means, strict=True)]
    q = [(ball(w).log(), ball(m)) for w, m in zip(law.q_weights, law.q_means, strict=True)]
    norm = step / (2 * arb.pi()).sqrt()
    losses, weights = [], []
    for index in indices:
        x, rate = path.point(acb(index * step))
        log_p, log_q = _log_sum(p, x), _log_sum(q, x)
        losses.append(log_q - log_p)
        weights.append(norm * rate * ((log_q if weight_of_q else log_p) - x * x / 2).exp())
    return Points(losses, weights)


def _symmetric_points(law: SymmetricSubsample, tilts: Tilts) -> Points:
    """Above 0 the remove pair under Q, below 0 its reflection under P, both from x = mu/2 on; the rest sits at 0."""
    pair = law._remove()
    upper = _gaussian_points(pair, tilts, law.shift / 2)
    lower = _gaussian_points(pair, Tilts(-tilts.c, tilts.variant, tilts.fine), law.shift / 2, -1, False)
    return Points(upper.losses + [-v for v in lower.losses], upper.weights + lower.weights)


def _rule(law: Law, tilts: Tilts) -> Points:
    if isinstance(law, GaussianPair):
        return _gaussian_points(law, tilts)
    if isinstance(law, SymmetricSubsample):
        return _symmetric_points(law, tilts)
    if isinstance(law, Tagged):
        t, one, two = arb(law.probability), _rule(law.first, tilts), _rule(law.second, tilts)
        one, two = one.scaled(t), two.scaled(1 - t)
        return Points(one.losses + two.losses, one.weights + two.weights)
    if isinstance(law, Lattice):
        losses = [acb(ball(v)) for v in law.losses]
        return Points(losses, [acb(ball(w).exp()) for w in law.log_masses])
    if isinstance(law, LaplacePair):
        return _laplace_points(law, tilts)
    raise InaccurateError(f"No rule for `{type(law).__name__}`.")


def _laplace_points(law: LaplacePair, tilts: Tilts) -> Points:
    """Sampled Laplace noise, l(g) = log(1 - p + p e^g): P-mass 1/2 and e^-mu/2 at g = -mu, mu, density e^{-(g+mu)/2}/4 between."""
    p, mu = arb(law.probability), ball(law.shift)
    count = (40, 50)[tilts.variant] + math.ceil(12 * law.shift)
    roots = [arb.legendre_p_root(count, k, weight=True) for k in range(count)]
    places = [(-mu, arb(0.5)), (mu, (-mu).exp() / 2)]
    places += [(mu * x, w * mu * (-mu * (1 + x) / 2).exp() / 4) for x, w in roots]
    ratios = [(1 + p * g.expm1(), mass) for g, mass in places]
    sign = -1 if law.reversed else 1
    return Points([acb(sign * r.log()) for r, _ in ratios], [acb(mass if law.reversed else mass * r) for r, mass in ratios])


def _laplace_transform(shift: arb) -> Callable[[acb], acb]:
    """Plain Laplace noise: e^{z mu} (z + 1) / (2z + 1) + e^{-(z+1) mu} z / (2z + 1)."""
    return lambda z: ((z * shift).exp() * (z + 1) + (-(z + 1) * shift).exp() * z) / (2 * z + 1)


def transform(law: Law, tilts: Tilts) -> Callable[[acb], acb]:
    if isinstance(law, LaplacePair) and law.probability == 1:
        return _laplace_transform(ball(law.shift))
    return _rule(law, tilts).transform()


def reach(law: Law) -> float:
    """The largest distance of means."""
    if isinstance(law, Tagged):
        return max(reach(law.first), reach(law.second))
    if isinstance(law, SymmetricSubsample):
        return law.shift
    assert isinstance(law, GaussianPair)
    means = law.p_means + law.q_means
    return max(means) - min(means)
