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
from scipy.optimize import brentq, minimize_scalar

from comparisons import exact
from comparisons.exact import Composition, Exact, GaussianPair, InaccurateError, Law, SymmetricSubsample, Tagged
from comparisons.exact_far import far_delta, far_epsilon
from comparisons.exact_paths import TURN, Tilts, ball, reach, slope_at, transform

Moment = Callable[[acb], acb]
BITS = 256
TARGET_ACCURACY = 1e-8
MAX_NODES = 4_000


# --------------------------------------------------------------------------- the contour


@dataclass(frozen=True)
class Lattice:
    """Losses first + k step."""

    first: arb
    step: arb


def _lattice(comp: Composition) -> Lattice | None:
    """The lattice of the sum, if there is only one leaf and it is equally spaced."""
    if comp.square or len(comp.laws) != 1:
        return None
    law, count = comp.laws[0]
    if not isinstance(law, exact.Lattice):
        return None
    losses = np.array(law.losses)
    gaps = np.diff(losses)
    if not gaps.size or np.ptp(gaps) > 1e-18 * np.abs(losses).max() * gaps.size:
        return None
    return Lattice(count * ball(losses[0]), ball((losses[-1] - losses[0]) / gaps.size))


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
    transforms = [(transform(law, Tilts(c, variant, fine)), count) for law, count in comp.laws]
    square, lattice = ball(comp.square), _lattice(comp)
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
        for moment, count in transforms:
            value *= moment(z) ** count
        value = (value - (bend > 0)) * step / arb.pi() * acb(tangent * y / root, 1) * rate
        contour.nodes.append(z)
        contour.values.append(value if len(contour.nodes) > 1 else value / 2)
        size = abs(value * (-z * arb(epsilon)).exp() / (z * (z + 1))).mid()
        largest = max(largest, size)
        small = small + 1 if size < largest * arb(2) ** (-70 * fine) else 0
        if len(contour.nodes) > MAX_NODES * fine**2 or float(y.mid()) > last:
            raise InaccurateError(f"The integrand does not die out within {len(contour.nodes)} nodes.")
    if bend == 0:
        _check_rest(comp, transforms, c, float(contour.nodes[-1].imag.mid()), last)
    return contour


def _check_rest(comp: Composition, transforms: list[tuple[Moment, int]], c: float, y: float, last: float) -> None:
    """On the vertical line point masses may resonate further out: InaccurateError unless something keeps it below e^-48."""
    log_rest = -comp.square * y * y / 2
    for (law, count), (moment, _) in zip(comp.laws, transforms, strict=True):
        log_rest += count * math.log(min(1.0, _largest_rest(law, moment, c, y, last)))
    if not log_rest < -48:
        raise InaccurateError(f"Point masses may resonate beyond y = {y:g}, where the integrand is bounded by e^{log_rest:.1f}.")


def _largest_rest(law: Law, moment: Moment, c: float, y: float, last: float) -> float:
    """The largest |E_Q[e^{(c+iv)L}]| / E_Q[e^{cL}] for v > y: over the period of a lattice, at resonances of Laplace noise's atoms."""
    whole = abs(moment(acb(c)))
    if isinstance(law, exact.Lattice):
        places = np.linspace(y, last, 200) if last < math.inf else np.zeros(1)
        return max(float((abs(moment(acb(c, v))) / whole).mid()) for v in places)
    atoms = law.atoms()
    losses, masses = [ball(v) for v in atoms.loss.real], [ball(w).exp() for w in atoms.log_weight.real]
    resonance = math.pi / abs(float(losses[-1] - losses[0])) if len(losses) > 1 else 0.0
    sizes = [abs(moment(acb(c, v))) / whole for v in np.linspace(y, resonance, 40) if y < resonance] or [abs(moment(acb(c, y))) / whole]
    if resonance:
        total = sum((w * (c * v).exp() for v, w in zip(losses, masses, strict=True)), arb(0))
        for place in max(y, resonance) * np.linspace(1, 20, 150):
            z = acb(c, place)
            smooth = moment(z) - sum((w * (z * v).exp() for v, w in zip(losses, masses, strict=True)), acb(0))
            sizes.append((total + abs(smooth)) / whole)
    return max(float(size.mid()) for size in sizes)


def _bend(comp: Composition, epsilon: float, c: float) -> float:
    """Angle by which the contour leaves the vertical: positive to the right, negative to the left."""
    if not all(isinstance(law, GaussianPair | SymmetricSubsample | Tagged) for law, _ in comp.laws):
        return 0.0
    reaches = [reach(law) for law, _ in comp.laws]
    turn = min([TURN, *(9 * distance for distance in reaches)])
    slope = min([0.75, *(slope_at(c * distance) for distance in reaches)])
    angle = min(0.4 * turn, 0.8 * math.atan(slope))
    if math.isinf(comp.top()):
        return angle
    return -angle if epsilon > 0.3 * comp.top() else 0.0


# --------------------------------------------------------------------------- answers


class Accurate(Composition):
    """With a real K that is accurate relative to itself, however small."""

    def log_mgf(self, c: float) -> float:
        if c not in self.table:
            with np.errstate(all="ignore"):
                logs = [count * float(exact.log_of_rule(law.rule(c, 0), c, 10**9)) for law, count in self.laws]
            value = math.fsum([*logs, self.square * (c * c + c) / 2]) if all(map(math.isfinite, logs)) else math.nan
            self.table[c] = super().log_mgf(c) if math.isnan(value) else value
        return self.table[c]


def _directions(event: de.DpEvent, relation: Relation) -> list[Accurate]:
    return [Accurate(comp.square, comp.laws) for comp in exact.directions(event, relation)]


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
    c = exact.chernoff_table(comp, log_delta, None)[0]
    high = math.log(max(exact.chernoff_epsilon(comp, log_delta)[0], 1e-12))
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

    table = exact.chernoff_table(comp, None, epsilon)[0]
    start = min(table, key=height)
    best = float(minimize_scalar(height, bounds=(start / 1.2, start * 1.2), method="bounded", options={"xatol": 1e-4 * start}).x)
    c = next((float(x) for x in table if height(x) < height(best) + 1), best)
    gap = 0.002 * c
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


    def answer(variant: int, fine: float) -> tuple[float, float]:
        contour = _contour(comp, _saddle(comp, guess, variant), guess, variant, fine)
        return _root(contour, arb(delta).log(), guess)

    return _twice(answer)


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
    return _log_bound(comp, exact.chernoff_table(comp, None, epsilon)[0], epsilon) < math.log(delta)
