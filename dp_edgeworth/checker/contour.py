"""delta(eps) of a composition between two bounds, from its transform on a vertical line.

    G(eps) = E[(1 - e^{eps - Y})_+; Y finite] = 1/(2 pi i) int_{Re z = c} F(z) e^{-z eps} / (z (z + 1)) dz,    F(z) = prod_i M_i(z + 1)^{m_i}

Every theorem holds for any parameters within the stated bounds; good ones make the interval narrow. Notation: z_j = c + i j h, y = J h, T = 2 pi / h,
V the variance of all Gaussian leaves, t = tau^2 the smoothing. F contains the factor e^{(V + t)(z^2 + z) / 2} throughout.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from dataclasses import dataclass

from flint import acb, arb

from .balls import UndecidedError, ball, kappa, proved
from .laws import Leaf, Piece, Terms, log_sum
from .quadrature import Rule, Window

MOST_WORK = 1_000_000_000  # nodes times frequencies
MOST_BOXES, UPRIGHT, PARTS = 2000, 12, 4


@dataclass(frozen=True)
class Line:
    """Where the sum is taken: c, h, J, tau; tilts for the aliases; how leaves are cut off and split.

    Attributes:
      low, high: 0 <= low < c < high, for the aliases on either side.
      reach: standard deviations kept beyond the components of Q. nodes, digits: of the rules.
      split: losses below about this one are the calm part of a leaf, others the lively one; None: all are calm. turn: the largest angle of
        the shifted contour. blur: width of the window between the parts in units of the contour's
        height. below: the losses below `split` are the lively ones instead.
      cells: without a split, each piece is divided into so many cells (`Transform.spread`).
      rare: leave out the outcomes in which all losses are calm, which by `calm` (a tilt) are bounded separately.
    """

    c: float
    step: float
    last: int
    low: float
    high: float
    reach: float
    nodes: int
    digits: float
    tau: float = 0.0
    split: float | None = None
    turn: float = 1.0
    blur: float = 0.5
    below: bool = False
    rare: bool = False
    calm: float = 0.0
    cells: int = 0


class Transform:
    """M(s) of one leaf, of its calm part, and a bound of its lively part."""

    def __init__(self, leaf: Leaf, line: Line):
        self.leaf, self.line = leaf, line
        frequency = line.step * line.last
        tilts = [(line.c + 1, frequency, False), (line.high + 1, 0.0, False), (line.low + 1, 0.0, False)]
        tilts += [(line.c + 1, frequency * line.rare, True)] * (line.split is not None) + [(line.calm + 1, 0.0, True)] * line.rare
        self.windows = [_window(piece, line) if line.split is not None and not piece.lean else None for piece in leaf.pieces]
        self.rules = [] if self._closed() else [Rule(piece, _ends(piece, line), tilts, line.nodes, line.digits, window)
                                                for piece, window in zip(leaf.pieces, self.windows, strict=True)]
        self.missing = sum((rule.missing for rule in self.rules), arb(0))

    def _closed(self) -> bool:
        """Exponentials only, whose integrals are closed forms (Laplace noise)."""
        return all(piece.lean and len(piece.p) == len(piece.q) == 1 for piece in self.leaf.pieces)

    def _rest(self, s: acb) -> acb:
        """Point masses and, with e^{u x} integrated from low to high as (e^{u high} - e^{u low}) / u, exponentials."""
        total = sum((p * (s * (q / p).log()).exp() for p, q in self.leaf.atoms), acb(0))
        for piece in self.leaf.pieces if self._closed() else ():
            (a, b), (above, slope) = piece.p[0], piece.q[0]
            u = piece.lean + b + s * (slope - b)
            total += piece.weight / 2 * (a + s * (above - a)).exp() * ((u * piece.high).exp() - (u * piece.low).exp()) / u
        return total

    def real(self, tilt: arb, calm: bool = False) -> arb:
        """M(tilt + 1), or its calm part; a positive number."""
        parts = [rule.real(tilt + 1, calm and rule.window is not None) for rule in self.rules]
        value = sum(parts, self._rest(acb(tilt + 1)).real)
        if not proved(value > 0):
            raise UndecidedError("a transform is not known to any accuracy: more bits or a finer rule are needed")
        return value

    def values(self, calm: bool = False) -> list[acb]:
        """M(z_j + 1), j = 0..J."""
        c, step, last = ball(self.line.c), ball(self.line.step), self.line.last
        found = [self._rest(acb(c + 1, j * step)) for j in range(last + 1)]
        for rule in self.rules:
            if len(rule.losses) * last > MOST_WORK:
                raise UndecidedError(f"{len(rule.losses)} nodes times {last} frequencies are more than {MOST_WORK}")
            for j, value in enumerate(rule.line(c + 1, step, last, calm and rule.window is not None)):
                found[j] += value
        return found

    def lively(self) -> arb:
        """B with |lively part of M(c + 1 + iv)| <= B for all v >= y.

        Theorem. f(x) = b(x) S_P(x) e^{s l(x)} w(x) is analytic in the rectangle low < Re x < high, 0 < Im x < a, so the integral along the
        real side is that along the three others. If all slopes of S_Q lie in [0, pi/a] and those of S_P in [-pi/a, 0], then Im S_Q >= 0 >=
        Im S_P there, Im l >= 0, |e^{s l}| <= e^{sigma Re l - v Im l} does not increase with v, and Im l >= Im S_Q / |S_Q| - Im S_P / |S_P|
        (an angle in [0, pi] is at least its sine); neither sum vanishes, as it is real only where all its terms are. Boxes bound the three sides.
        """
        total = arb(0)
        y, sigma = ball(self.line.step) * self.line.last, ball(self.line.c) + 1
        for rule, window in zip(self.rules, self.windows, strict=True):
            if window is not None:
                total += _sides(rule, window, _height(rule.piece, self.line), self.line.turn, sigma, y)
        return total.upper()


    def spread(self) -> arb:
        """D with |M(c + 1 + iv)| <= M(c + 1) - D for all v >= y.

        Theorem. Let r = b S_P e^{sigma l}, and k <= r / l' on a cell, on which the loss increases by d. Then |int r e^{ivl}| <= int (r - k l') +
        k |int l' e^{ivl}| = int r - k d (1 - |sinc(v d / 2)|), and |sinc| <= sinc_sup, which does not increase. Everything else has modulus <= 1.
        """
        total, y, sigma = arb(0), ball(self.line.step) * self.line.last, ball(self.line.c) + 1
        for piece in self.leaf.pieces:
            low, high = (given if end is None else end for given, end in zip(_ends(piece, self.line), (piece.low, piece.high), strict=True))
            for k in range(self.line.cells):
                left, right = (low + (high - low) * j / self.line.cells for j in (k, k + 1))
                longer = (piece.loss(acb(right)) - piece.loss(acb(left))).real.lower()
                if proved(longer > 0):
                    total += _floor(piece, left, right, sigma) * longer * (1 - sinc_sup(y * longer / 2))
        return total.lower()


def _floor(piece: Piece, low: arb, high: arb, sigma: arb) -> arb:
    """Lower bound of b S_P e^{sigma l} / l' on an interval."""
    floors = []
    for k in range(PARTS):
        x = (low + (high - low) * k / PARTS).union(low + (high - low) * (k + 1) / PARTS)
        below, above = log_sum(piece.p, x), log_sum(piece.q, x)
        slope = _mean_slope(piece.q, x, above) - _mean_slope(piece.p, x, below)
        density = piece.weight * (piece.log_base(x) + below + sigma * (above - below)).exp() / slope.abs_upper()
        floors.append(density.lower())
    return arb(0).max(functools.reduce(arb.min, floors))


def _mean_slope(terms: Terms, x: arb, log_total: arb) -> arb:
    """d/dx log sum_i e^{a_i + b_i x}."""
    return sum((b * (a + b * x - log_total).exp() for a, b in terms), arb(0))


def sinc_sup(u: arb) -> arb:
    """Upper bound of sup over v >= u of |sin v / v|: 1/u for u >= 1, and 1 - u^2/6 + u^4/120 below.

    (Below 1 the polynomial bounds sin u / u, which decreases to sin 1 = 0.841...; at 1 it is 0.8417 and beyond 1, |sin v / v| is at most that.)
    """
    return (1 / u).upper() if proved(u >= 1) else (1 - u * u / 6 + u**4 / 120).upper() if proved(u <= 1) else arb(1)


def _height(piece: Piece, line: Line) -> arb:
    """a, with slope * a <= turn < pi for every slope."""
    steepest = functools.reduce(arb.max, [abs(b).upper() for _, b in piece.p + piece.q])
    return (ball(line.turn) / steepest).lower()


def _window(piece: Piece, line: Line) -> Window:
    """Centred where the loss is about `split` (bisection in doubles: any centre is right)."""
    low, high = (float(end) for end in _ends(piece, line))
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if float(piece.loss(acb(middle)).real.mid()) < float(line.split or 0) else (low, middle)
    return Window(ball(low), _height(piece, line) * ball(line.blur), -1 if line.below else 1)


def _ends(piece: Piece, line: Line) -> tuple[arb, arb]:
    """Where an infinite interval is cut off: `reach` beyond the components of Q, less for those of small weight (a guess: any ends are right)."""
    places = []
    for a, b in piece.q if not piece.lean else ():
        shift = float(b.mid())
        room = math.sqrt(max(line.reach**2 + 2 * min(float(a.mid()) + shift**2 / 2, 0.0), 1.0))
        places += [shift - room, shift + room]
    return ball(min(places, default=0.0)), ball(max(places, default=0.0))


def _sides(rule: Rule, window: Window, height: arb, line_turn: float, sigma: arb, y: arb) -> arb:
    """The three sides of the rectangle for `Transform.lively`, whose condition on the slopes is checked here (slope * a <= turn < 3)."""
    piece = rule.piece
    if not all(proved(b >= 0) for _, b in piece.q) or not all(proved(b <= 0) for _, b in piece.p):
        raise UndecidedError("a split needs losses that increase with x")
    count = min(max(64, math.ceil(6 * float((rule.high - rule.low) / height) * line_turn)), MOST_BOXES)
    width = (rule.high - rule.low) / count
    total = arb(0)
    for k in range(count):
        u = (rule.low + k * width).union(rule.low + (k + 1) * width)
        size, angle = _size(piece, window, acb(u, height), sigma)
        total += (width * size * (-y * angle).exp()).upper()
    for end in (rule.low, rule.high):
        for k in range(UPRIGHT):
            part = acb(end, (height * k / UPRIGHT).union(height * (k + 1) / UPRIGHT))
            size, angle = _size(piece, window, part, sigma)
            total += (height / UPRIGHT * size * (-y * angle).exp()).upper()
    return total


def _size(piece: Piece, window: Window, x: acb, sigma: arb) -> tuple[arb, arb]:
    """Upper bound of |b S_P e^{sigma l} w| and lower bound of Im l on a box with Im x >= 0."""
    above, below = (sum(((a + b * x).exp() for a, b in terms), acb(0)) for terms in (piece.q, piece.p))
    sizes = [value.abs_lower().union(value.abs_upper()) for value in (above, below)]
    if not all(proved(size > 0) for size in sizes):
        raise UndecidedError("a box of the contour shift is too wide")
    angle = above.imag.lower() / sizes[0].upper() - below.imag.upper() / sizes[1].upper()
    log_size = piece.log_base(x).real + sizes[1].log() + sigma * (sizes[0].log() - sizes[1].log())
    weight = window.largest(True, x.real.lower(), x.real.upper(), x.imag.upper())
    size = piece.weight * log_size.exp() * weight
    return size.upper(), arb(0).max(angle.lower())


def delta_bounds(leaves: list[tuple[Leaf, int]], variance: arb, infinite: arb, line: Line, epsilons: list[arb],
                 progress: Callable[[str], None]) -> list[tuple[arb, arb]]:
    """Lower and upper bound of delta at each epsilon.

    Theorem (note, section 2; certified-interval 2 and 4). With S the sum of `_sum`, for any c > 0, h > 0, J >= 1, tau >= 0:

        S - cut - alias - price  <=  G  <=  S + cut + calm + missing.

    Proof. The infinite sum is sum_k e^{ckT} G_t(eps + kT) (Poisson), all terms >= 0, that with k = 0 at least G, as one more Gaussian mechanism
    adds loss. `rare` subtracts from F the same product of the calm parts: what is left is the transform of a smaller positive
    measure, whose G is smaller by at most `calm`. delta = infinite + G.
    """
    sums = _Sums(leaves, variance, line, progress)
    found = []
    for epsilon in epsilons:
        middle = sums.trapezoid(epsilon)
        cut = sums.cut(epsilon)
        low = middle - cut - sums.alias(epsilon) - sums.price(epsilon)
        high = middle + cut + sums.calm(epsilon) + sums.missing
        found.append(((infinite + low).lower(), (infinite + high).upper()))
    return found


class _Sums:
    """F on the line, and the bounds of everything that the finite sum leaves out."""

    def __init__(self, leaves: list[tuple[Leaf, int]], variance: arb, line: Line, progress: Callable[[str], None]):
        self.line, self.c, self.step = line, ball(line.c), ball(line.step)
        self.square = variance + ball(line.tau) ** 2
        self.z = [acb(self.c, j * self.step) for j in range(line.last + 1)]
        self.f = [(self.square * (z * z + z) / 2).exp() for z in self.z]
        calm = list(self.f)
        self.logs: dict[tuple[float, bool], arb] = {}
        self.missing, self.log_lively = arb(0), arb(0)
        for number, (leaf, count) in enumerate(leaves):
            progress(f"leaf {number + 1} of {len(leaves)}")
            transform = Transform(leaf, line)
            self.missing += count * transform.missing
            self.f = [f * value**count for f, value in zip(self.f, transform.values(), strict=True)]
            if line.rare:
                calm = [f * value**count for f, value in zip(calm, transform.values(calm=True), strict=True)]
            self._add_reals(transform, count)
        if line.rare:
            self.f = [f - g for f, g in zip(self.f, calm, strict=True)]

    def _add_reals(self, transform: Transform, count: int) -> None:
        """log M(c + 1) at every tilt, times count; log(1 + B / calm part), times count."""
        line = self.line
        wanted = [(line.low, False), (line.high, False), (line.c, line.split is not None)]
        wanted += [(tilt, True) for tilt in (line.low, line.high, line.calm) if line.rare]
        for tilt, calm in dict.fromkeys(wanted):
            value = count * transform.real(ball(tilt), calm).log()
            self.logs[tilt, calm] = self.logs.get((tilt, calm), arb(0)) + value
            if tilt == line.c and (calm or line.cells):
                more = transform.lively() if calm else -transform.spread()
                self.log_lively += count * (more / transform.real(ball(tilt), calm)).log1p()

    def _log_bound(self, tilt: float, epsilon: arb, calm: bool = False) -> arb:
        """log of E[e^{tilt (Y - eps)}], smoothing included."""
        t = ball(tilt)
        return self.logs[tilt, calm] + self.square * (t * t + t) / 2 - t * epsilon

    def _terms(self, epsilon: arb) -> list[acb]:
        """e^{-z_j eps} F(z_j), the first halved; phases by exponentials."""
        terms = [f * (-z * epsilon).exp() for f, z in zip(self.f, self.z, strict=True)]
        return [terms[0] / 2, *terms[1:]]

    def trapezoid(self, epsilon: arb) -> arb:
        """S = (h / pi) [Re f(z_0) / 2 + sum_{j=1}^J Re f(z_j)],  f(z) = e^{-z eps} F(z) / (z (z + 1))."""
        total = sum((term / (z * (z + 1)) for term, z in zip(self._terms(epsilon), self.z, strict=True)), acb(0))
        return total.real * self.step / arb.pi()

    def _envelope(self, epsilon: arb) -> arb:
        """E with |e^{-z eps} F(z)| <= E for Re z = c, Im z >= y.

        Theorem. |M_i| <= A_i + B_i with A_i the calm part at the real point, B_i of `lively`; so |prod M_i^{m_i}| <= prod (A_i + B_i)^{m_i}, and
        (without a split, B = -D of `spread`)
        |prod M_i^{m_i} - prod calm_i^{m_i}| <= prod (A_i + B_i)^{m_i} - prod A_i^{m_i} (expand both; every term has a factor B). The Gaussian
        factor is e^{-(V + t) v^2 / 2} of its value at v = 0. None of this increases with v.
        """
        y = self.step * self.line.last
        calm = self.line.split is not None
        height = (self._log_bound(self.line.c, epsilon, calm) - self.square * y * y / 2).exp()
        return (height * (self.log_lively.expm1() if self.line.rare else self.log_lively.exp())).upper()

    def cut(self, epsilon: arb) -> arb:
        """|sum over j > J| <= (1/pi) int_y^inf E / v^2 dv = E / (pi y)."""
        return (self._envelope(epsilon) / (arb.pi() * self.step * self.line.last)).upper()

    def alias(self, epsilon: arb) -> arb:
        """sum over k != 0 of e^{ckT} G(eps + kT) <= for c' on the same side of c as k, kappa(c') E[e^{c' (Y - eps)}] / (e^{|c' - c| T} - 1).

        G and E are those of the measure whose transform is summed: with `rare`, without the calm part.
        """
        period, total = 2 * arb.pi() / self.step, arb(0)
        for tilt in (self.line.low, self.line.high):
            size = self._log_bound(tilt, epsilon).exp()
            if self.line.rare:
                size -= self._log_bound(tilt, epsilon, True).exp()
            total += kappa(ball(tilt)) * size / (abs(ball(tilt) - self.c) * period).expm1()
        return total.upper()

    def price(self, epsilon: arb) -> arb:
        """What smoothing may have added: t e^{t/8} f(eps), f the smoothed density (certified-interval, section 4).

        Proof: with u(y) = (1 - e^{eps - y})_+, u' + u'' is a point mass at eps, so d/dt E u = f_t(eps) / 2, and the kernels satisfy n_t(v - t/2) <=
        sqrt(T/t) e^{T/8} n_T(v - T/2) for t <= T; integrate t from 0 to T = tau^2. f <= its own trapezoid sum (all terms of Poisson's sum are
        positive), whose rest is at most (1/pi) int_y^inf E e^{-t (v^2 - y^2) / 2} dv <= E / (pi t y).
        """
        if not self.line.tau:
            return arb(0)
        t = ball(self.line.tau) ** 2
        total = sum(self._terms(epsilon), acb(0)).real * self.step / arb.pi()
        rest = self._envelope(epsilon) / (arb.pi() * t * self.step * self.line.last)
        return (t * (t / 8).exp() * (total + rest)).upper()

    def calm(self, epsilon: arb) -> arb:
        """G of the calm parts alone, which `rare` left out: Chernoff's bound (`kappa`)."""
        if not self.line.rare:
            return arb(0)
        plain = self._log_bound(self.line.calm, epsilon, True)
        return (kappa(ball(self.line.calm)) * plain.exp()).upper()


def chernoff(leaves: list[tuple[Leaf, int]], variance: arb, infinite: arb, line: Line, epsilon: arb,
             progress: Callable[[str], None]) -> arb:
    """Upper bound of delta: infinite + missing + kappa(c) E[e^{c (Y - eps)}]."""
    c, total, missing = ball(line.c), variance * (ball(line.c) ** 2 + ball(line.c)) / 2, arb(0)
    for number, (leaf, count) in enumerate(leaves):
        progress(f"leaf {number + 1} of {len(leaves)}")
        transform = Transform(leaf, line)
        total += count * transform.real(c).log()
        missing += count * transform.missing
    return (infinite + missing + kappa(c) * (total - c * epsilon).exp()).upper()


def validated(line: Line) -> Line:
    """The same line, if it satisfies what the theorems ask for."""
    numbers = [line.c, line.step, line.low, line.high, line.reach, line.digits, line.tau, line.turn, line.blur, line.calm, line.split or 0.0]
    good = (all(isinstance(x, float) and math.isfinite(x) and abs(x) < 1e15 for x in numbers)
            and line.c > 0 and line.step > 0 and 0 <= line.low < line.c < line.high and line.tau >= 0 and line.calm >= 0
            and 0 < line.turn < 3 and 0.1 <= line.blur <= 10 and 0 < line.reach <= 200 and 8 <= line.digits <= 2000
            and all(isinstance(n, int) and not isinstance(n, bool) for n in (line.last, line.nodes, line.cells))
            and 1 <= line.last <= 200_000 and 8 <= line.nodes <= 512 and 0 <= line.cells <= 200 * (line.split is None)
            and isinstance(line.rare, bool) and isinstance(line.below, bool) and (line.split is not None or not line.rare))
    if not good:
        raise UndecidedError(f"the hints are not within the bounds of the theorems: {str(line)[:300]}")
    return line
