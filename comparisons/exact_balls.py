"""A second oracle: delta(epsilon) and epsilon(delta) in ball arithmetic, for what is too slow or too hard for `exact`.

From `exact` come the reading of the event (which pair of distributions each leaf is) and, as a mere guess of where to
look, Chernoff's bound. Everything else is another way to the same number:

* `Contour`: delta(eps) = 1/(2 pi i) int (e^{K(z)} - 1) e^{-z eps} / (z (z+1)) dz along a hyperbola through the saddle point that bends
  to the right (to the left where losses are bounded and eps is below the bound). There e^{-z eps} decays, so that structure of
  the losses much finer than eps, the trouble of rarely sampled noise, does not matter: nodes are spaced evenly on a scale
  that becomes logarithmic, and a few hundred of them serve losses from 1e-9 to 1e3. The leaf transforms are trapezoid sums
  along complex paths on which the loss L turns by up to 80 degrees, so that e^{zL} decays, too, on the bent part.
* Point masses on one lattice: the same integral over one period with the sum over the lattice, in closed form, as kernel.
* Shifts of many standard deviations, where the output tells which component was drawn, and plain Laplace noise: finite
  sums of closed forms (`exact_far`).

Numbers have 256 bits or more, so that counts of 1e12 and cancellation do no harm, and balls say what rounding did. The error of
the quadratures is judged as in `exact`: two computations with other paths, nodes and contours; `accuracy` is ten times their
disagreement. Where it exceeds 1e-8, or a sum does not settle, the oracle refuses (`InaccurateError`).
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from dataclasses import dataclass

import mpmath
import numpy as np
from dp_accounting import NeighboringRelation as Relation
from dp_accounting import dp_event as de
from flint import acb, arb, ctx
from scipy.optimize import brentq

from comparisons import exact
from comparisons.exact import Composition, Exact, GaussianPair, InaccurateError, LaplacePair, Law, SymmetricSubsample, Tagged
from comparisons.exact_far import far_delta, far_epsilon

BITS = 256
TARGET_ACCURACY = 1e-8
NEGLIGIBLE = 55.0  # e^-55 of a leaf's transform is left out
MAX_NODES = 4_000
MAX_POINTS = 12_000
TURN = 1.4  # radians by which paths turn small losses
_I = acb(0, 1)


def _ball(x: float | np.longdouble) -> arb:
    """An 80-bit number, exactly."""
    high = float(x)
    return arb(high) + arb(float(np.longdouble(x) - np.longdouble(high))) if math.isfinite(high) else arb(high)


# --------------------------------------------------------------------------- leaves: E_Q[e^{zL}] as a function of z


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


def _slope(far: float) -> float:
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
    slope = 0.0 if math.isinf(corner) else _slope(far) * (1.0, 0.9)[tilts.variant]
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
    p = [(_ball(w).log(), _ball(m)) for w, m in zip(law.p_weights, law.p_means, strict=True)]
    q = [(_ball(w).log(), _ball(m)) for w, m in zip(law.q_weights, law.q_means, strict=True)]
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
    if isinstance(law, exact.Lattice):
        losses = [acb(_ball(v)) for v in law.losses]
        return Points(losses, [acb(_ball(w).exp()) for w in law.log_masses])
    if isinstance(law, LaplacePair):
        return _laplace_points(law, tilts)
    raise InaccurateError(f"No rule for `{type(law).__name__}`.")


def _laplace_points(law: LaplacePair, tilts: Tilts) -> Points:
    """Sampled Laplace noise, l(g) = log(1 - p + p e^g): P-mass 1/2 and e^-mu/2 at g = -mu, mu, density e^{-(g+mu)/2}/4 between."""
    p, mu = arb(law.probability), _ball(law.shift)
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


def _transform(law: Law, tilts: Tilts) -> Callable[[acb], acb]:
    if isinstance(law, LaplacePair) and law.probability == 1:
        return _laplace_transform(_ball(law.shift))
    return _rule(law, tilts).transform()


# --------------------------------------------------------------------------- the contour


@dataclass(frozen=True)
class Lattice:
    """Losses first + k step."""

    first: arb
    step: arb


def _lattice(comp: Composition) -> Lattice | None:
    """The lattice of the sum, if there is only one leaf and it is equally spaced."""
    if comp.square or len(comp.laws) != 1 or not isinstance(comp.laws[0][0], exact.Lattice):
        return None
    law, count = comp.laws[0]
    gaps = np.diff(np.array(law.losses))
    if not gaps.size or np.ptp(gaps) > 1e-18 * np.abs(np.array(law.losses)).max() * gaps.size:
        return None
    return Lattice(count * _ball(law.losses[0]), _ball((law.losses[-1] - law.losses[0]) / gaps.size))


@dataclass(frozen=True)
class Contour:
    """Nodes z and values e^{K(z)} z'(t) h / pi on the upper half."""

    nodes: list[acb]
    values: list[acb]
    lattice: Lattice | None

    def delta(self, epsilon: arb) -> tuple[arb, arb, arb]:
        """delta, its derivative, and the largest term of the sum."""
        if self.lattice is None:
            terms = [v * (-z * epsilon).exp() / (z * (z + 1)) for z, v in zip(self.nodes, self.values, strict=True)]
            slopes = [-t * z for z, t in zip(self.nodes, terms, strict=True)]
        else:
            first, step = self.lattice.first, self.lattice.step
            k = ((epsilon - first) / step).floor().mid() + 1
            lowest = first + k * step
            terms, slopes = [], []
            for z, v in zip(self.nodes, self.values, strict=True):
                scale = v * step * (-z * lowest).exp()
                less = (epsilon - lowest).exp() / (1 - (-(z + 1) * step).exp())
                terms.append(scale * (1 / (1 - (-z * step).exp()) - less))
                slopes.append(-scale * less)
        return sum(terms, acb(0)).imag, sum(slopes, acb(0)).imag, max(abs(t).mid() for t in terms)


@dataclass(frozen=True)
class Saddle:
    """A point on the real line, and the width of the peak of the integrand there."""

    c: float
    width: float


def _contour(comp: Composition, saddle: Saddle, epsilon: float, variant: int, fine: float = 1.0) -> Contour:
    """z(t) = c + tan(bend) (sqrt(y^2 + B^2) - B) + i y with y = A sinh t, until the integrand is negligible.

    B, a few times c, keeps it upright where e^{K(z)} would grow to the right.
    """
    c, bend = saddle.c, _bend(comp, epsilon, saddle.c) * (1.0, 0.85)[variant]
    transforms = [(_transform(law, Tilts(c, variant, fine)), count) for law, count in comp.laws]
    square, lattice = _ball(comp.square), _lattice(comp)
    last = math.inf if lattice is None else math.pi / float(lattice.step)
    step = arb(2 * math.pi / ((115, 150)[variant] * fine + 1.5 * c * (comp.top() - epsilon if bend < 0 else epsilon)))
    a, tangent, b = arb(saddle.width), arb(math.tan(bend)), arb(saddle.width + (3 * c if bend > 0 else 0.0))
    contour = Contour([], [], lattice)
    largest, small = arb(0), 0
    while small < 8:
        t = step * len(contour.nodes)
        y, rate = a * t.sinh(), a * t.cosh()
        root = (y * y + b * b).sqrt()
        z = acb(c + tangent * (root - b), y)
        value = (square * z * (z + 1) / 2).exp()
        for transform, count in transforms:
            value *= transform(z) ** count
        value = (value - (bend > 0)) * step / arb.pi() * acb(tangent * y / root, 1) * rate
        contour.nodes.append(z)
        contour.values.append(value if len(contour.nodes) > 1 else value / 2)
        size = abs(value * (-z * arb(epsilon)).exp() / (z * (z + 1))).mid()
        largest = max(largest, size)
        small = small + 1 if size < largest * arb(2) ** (-70 * fine) else 0
        if len(contour.nodes) > MAX_NODES * fine**2 or float(y.mid()) > last:
            raise InaccurateError(f"The integrand does not die out within {len(contour.nodes)} nodes.")
    return contour


def _bend(comp: Composition, epsilon: float, c: float) -> float:
    """Angle by which the contour leaves the vertical: positive to the right, negative to the left."""
    if not all(isinstance(law, GaussianPair | SymmetricSubsample | Tagged) for law, _ in comp.laws):
        return 0.0
    reaches = [_reach(law) for law, _ in comp.laws]
    turn = min([TURN, *(9 * reach for reach in reaches)])
    slope = min([0.75, *(_slope(c * reach) for reach in reaches)])
    angle = min(0.4 * turn, 0.8 * math.atan(slope))
    if math.isinf(comp.top()):
        return angle
    return -angle if epsilon > 0.3 * comp.top() else 0.0


def _reach(law: Law) -> float:
    """The largest distance of means."""
    if isinstance(law, Tagged):
        return max(_reach(law.first), _reach(law.second))
    if isinstance(law, SymmetricSubsample):
        return law.shift
    assert isinstance(law, GaussianPair)
    means = law.p_means + law.q_means
    return max(means) - min(means)


# --------------------------------------------------------------------------- answers


class Accurate(Composition):
    """With a real K that is accurate relative to itself, however small."""

    def log_mgf(self, c: float) -> float:
        if c not in self.table:
            with np.errstate(all="ignore"):
                logs = [count * float(exact._log_of_rule(law.rule(c, 0), c, 10**9)) for law, count in self.laws]
            value = math.fsum([*logs, self.square * (c * c + c) / 2]) if all(map(math.isfinite, logs)) else math.nan
            self.table[c] = super().log_mgf(c) if math.isnan(value) else value
        return self.table[c]


def _directions(event: de.DpEvent, relation: Relation) -> list[Accurate]:
    return [Accurate(comp.square, comp.laws) for comp in exact._directions(event, relation)]


def _log_moment(comp: Composition, c: float) -> float:
    """log of e^{K(c)} - 1, which is E_Q[e^{cL} - 1 + c (e^{-L} - 1)], where no loss counts nothing."""
    k = max(comp.log_mgf(c), 1e-300)
    return k + math.log(-math.expm1(-k))


def _log_bound(comp: Composition, c: np.ndarray, epsilon: float) -> float:
    """log of the least over c of sup_{L > eps} (1 - e^{eps-L}) / (e^{cL} - 1 + c (e^{-L} - 1)) times the moment."""
    moments = np.array([_log_moment(comp, x) for x in c])
    u = np.geomspace(1e-3, 1e3, 120)
    loss = epsilon * (1 + u)
    slow, fast = c[:, None] * np.expm1(-loss), c[:, None] * loss
    log_moment = np.where(fast > 30, fast, np.log(np.maximum(np.expm1(np.minimum(fast, 30)) + slow, 1e-300)))
    return float((moments + (np.log(-np.expm1(-epsilon * u)) - log_moment).max(axis=1)).min())


def _chernoff_epsilon(comp: Composition, log_delta: float) -> float:
    """Where that bound is delta."""
    c = exact._chernoff_table(comp, log_delta, None)[0]
    high = math.log(max(exact._chernoff_epsilon(comp, log_delta)[0], 1e-12))
    if _log_bound(comp, c, math.exp(high)) > log_delta:
        return math.exp(high)
    low = high
    while low > -40 and _log_bound(comp, c, math.exp(low)) < log_delta:
        high, low = low, low - 1
    return math.exp(brentq(lambda e: _log_bound(comp, c, math.exp(e)) - log_delta, low, high, xtol=1e-2) if low > -40 else low)


def _saddle(comp: Composition, epsilon: float, variant: int) -> Saddle:
    """Left of the saddle point, where the integrand is at most e times larger: far from where a tail takes over.

    K is the real one of `exact`: any c > 0 would do.
    """

    def height(c: float) -> float:
        return _log_moment(comp, c) - c * epsilon - math.log(c * (c + 1))

    table = exact._chernoff_table(comp, None, epsilon)[0]
    least = min(map(height, table))
    c = next(float(x) for x in table if height(x) < least + 1)
    gap = 0.01 * c
    curvature = (height(c - gap) - 2 * height(c) + height(c + gap)) / gap**2
    return Saddle(c * (1.0, 0.98)[variant], 1 / math.sqrt(max(curvature, c**-2)))


def _log_delta(contour: Contour, epsilon: float, nats: float) -> tuple[arb, arb]:
    """log delta and its derivative; InaccurateError if so many nats or more cancel."""
    delta, slope, largest = contour.delta(arb(epsilon))
    if not (delta > largest * math.exp(-nats) and slope < 0):
        raise InaccurateError(f"delta({epsilon:g}) is {delta.str(5)}, of terms up to {largest.str(5)}.")
    return delta.log(), slope / delta


def _root(contour: Contour, log_delta: arb, guess: float) -> tuple[float, float]:
    """Newton's iteration for log delta(eps) = log_delta; the root and its rounding error."""
    epsilon = guess
    for _ in range(60):
        value, slope = _log_delta(contour, epsilon, 28.0)
        change = (log_delta - value) / slope
        following = max(epsilon + float(change.mid()), epsilon / 4)
        if abs(following - epsilon) <= 4e-16 * abs(epsilon):
            return following, float(change.rad())
        epsilon = following
    raise InaccurateError(f"Newton's iteration does not settle at {epsilon!r}.")


def _agreed(values: list[float], radius: float) -> Exact:
    one, two = values
    difference = 0.0 if one == two else abs(one - two) / max(abs(one), 1e-320)
    accuracy = max(10 * difference, radius / abs(one) if one else 0.0, 1e-15)
    if not accuracy <= TARGET_ACCURACY:
        raise InaccurateError(f"Two computations gave {one!r} and {two!r}, rounding {radius:.1e}.")
    return Exact(one, accuracy)


def _epsilon_of(comp: Composition, delta: float) -> Exact:
    """epsilon(delta) of one direction."""
    with contextlib.suppress(InaccurateError):
        return far_epsilon(comp, delta)
    guess = _rough_epsilon(comp, delta)
    if guess <= 0:
        return Exact(0.0, 0.0)
    return _twice(lambda variant, fine: _root(_contour(comp, _saddle(comp, guess, variant), guess, variant, fine), arb(delta).log(), guess))


def _twice(answer: Callable[[int, float], tuple[float, float]]) -> Exact:
    """Both variants, and both with more nodes where they disagree."""
    for fine in (1.0, 1.6):
        try:
            (one, radius), (two, other) = answer(0, fine), answer(1, fine)
            return _agreed([one, two], max(radius, other))
        except InaccurateError:
            if fine > 1:
                raise
    raise AssertionError


def _rough_epsilon(comp: Composition, delta: float) -> float:
    """Newton's iteration for log epsilon with coarse contours, each through the saddle point of its epsilon.

    It begins with Chernoff's bound or, where one use carries the loss, with the root of sum_i m_i delta_i. An epsilon so far
    off that a coarse contour says nothing counts as too large.
    """
    log_delta, low, high = arb(delta).log(), 0.0, comp.top()
    guess = min(_chernoff_epsilon(comp, math.log(delta)), high * (1 - 1e-6))
    guess = _union_epsilon(comp, delta, guess) or guess
    for _ in range(20):
        try:
            saddle = _saddle(comp, guess, 0)
            value, slope = _log_delta(_contour(comp, saddle, guess, 0, 0.6), guess, 17.0)
            change = float(((log_delta - value) / slope).mid())
        except InaccurateError:
            change = -math.inf
        if abs(change) < min(0.1 / saddle.c, 0.3 * guess):
            return guess + change
        low, high = (guess, high) if change > 0 else (low, min(guess, high))
        guess *= math.exp(min(max(change / guess, -1.2 if math.isfinite(change) else -0.25), 0.7))
        guess = guess if low < guess < high else math.sqrt(max(low, high / 10) * high)
        if high < 1e-12:
            return 0.0
    raise InaccurateError(f"No root near {guess:g}.")


def _union_epsilon(comp: Composition, delta: float, high: float) -> float:
    """Where sum_i m_i delta_i(eps) is delta; 0 if several uses matter, or if it is below 1e-9 of `high`."""

    def total(epsilon: mpmath.mpf) -> float:
        return float(sum(count * law.single(epsilon) for law, count in comp.laws))

    with mpmath.workdps(40):
        if comp.square or not delta < total(high * mpmath.mpf("1e-9")) < 0.3:
            return 0.0
        if total(mpmath.mpf(high)) > delta:
            return high
        return high * math.exp(brentq(lambda u: math.log(max(total(high * mpmath.exp(u)), 1e-320) / delta), -21, 0, xtol=1e-3))


def _delta_of(comp: Composition, epsilon: float) -> Exact:
    """delta(epsilon) of one direction."""
    with contextlib.suppress(InaccurateError):
        return far_delta(comp, epsilon)


    def answer(variant: int, fine: float) -> tuple[float, float]:
        delta = _contour(comp, _saddle(comp, epsilon, variant), epsilon, variant, fine).delta(arb(epsilon))[0]
        return float(delta.mid()), float(delta.rad())

    return _twice(answer)


def exact_delta(event: de.DpEvent, epsilon: float, neighboring_relation: Relation = Relation.ADD_OR_REMOVE_ONE) -> Exact:
    """delta(eps), as `exact.exact_delta`."""
    ctx.prec = BITS
    best = Exact(0.0, 0.0)
    for comp in _directions(event, neighboring_relation):
        if epsilon < comp.top() * (1 - 1e-15) and not _negligible(comp, epsilon, best.value):
            best = max(best, _delta_of(comp, float(epsilon)))
    return best


def exact_epsilon(event: de.DpEvent, delta: float, neighboring_relation: Relation = Relation.ADD_OR_REMOVE_ONE) -> Exact:
    """epsilon(delta), as `exact.exact_epsilon`."""
    ctx.prec = BITS
    best = Exact(0.0, 0.0)
    for comp in _directions(event, neighboring_relation):
        if best.value < comp.top() and not _negligible(comp, best.value, delta):
            best = max(best, _epsilon_of(comp, float(delta)))
    return best


def _negligible(comp: Composition, epsilon: float, delta: float) -> bool:
    """Whether Chernoff's bound on delta(epsilon) is below delta: this direction is not the larger one then."""
    if not (epsilon > 0 and delta > 0):
        return False
    return _log_bound(comp, exact._chernoff_table(comp, None, epsilon)[0], epsilon) < math.log(delta)
