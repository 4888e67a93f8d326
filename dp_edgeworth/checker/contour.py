"""delta(eps) of a composition between two bounds, from its transform on a vertical line.

    G(eps) = E[(1 - e^{eps - Y})_+; Y finite] = 1/(2 pi i) int_{Re z = c} F(z) e^{-z eps} / (z (z + 1)) dz,   F(z) = prod_i M_i(z +
    1)^{m_i}

Every theorem holds for any hints that `transforms.validated` lets pass; good ones make the interval narrow. Notation: z_j = c + i j
h, y = J h, T = 2 pi / h, V the variance of all Gaussian leaves, t = tau^2 the smoothing; F contains the factor e^{(V + t)(z^2 + z)
/ 2} throughout.
"""

from __future__ import annotations

from typing import Any

from flint import acb, arb, ctx

from .balls import UndecidedError, ball, kappa
from .decay import lively, spread
from .laws import ZERO, Leaf
from .transforms import Transform, calm_and_lively, finite, powers

Counted = list[tuple[Leaf, int]]
MOST_BITS = 100_000_000  # points of a line times bits


def largest_sum(leaves: Counted) -> arb | None:
    """Upper bound of all finite sums of losses; None if there is none."""
    tops = [leaf.largest_loss() for leaf, _ in leaves]
    return None if None in tops else sum((count * top for (_, count), top in zip(leaves, tops, strict=True) if top is not None), ZERO)


def infinite_mass(leaves: Counted) -> arb:
    """1 - prod (1 - Q_i(infinite))^{m_i}."""
    return -sum((count * (-leaf.infinite).log1p() for leaf, count in leaves if not leaf.infinite.is_zero()), ZERO).expm1()


def delta_bounds(leaves: Counted, line: Any, epsilons: list[arb]) -> list[tuple[arb, arb]]:
    """Lower and upper bound of delta at each epsilon.

    Theorem. For any c > 0, h > 0, J >= 1, tau >= 0, with the parts of `Contour`:   S - cut - alias - price  <=  G  <=  S + cut + calm
    + missing;   and with J = 0   0 <= G <= kappa(c) E[e^{c (Y - eps)}] + missing.

    Proof. The infinite sum is sum_k e^{ckT} G_t(eps + kT) (Poisson's formula; G_t with one more Gaussian mechanism of mu = tau).
    All terms are >= 0, and that with k = 0 is at least G, as another mechanism adds loss. `missing` is what `finite` cut off.
    `rare` subtracts from F the product of the calm parts: what is left belongs to a smaller positive measure, whose G is smaller by
    at most `calm`. delta = infinite + G.
    """
    sums, infinite = Contour(leaves, line), infinite_mass(leaves)
    found = []
    for epsilon in epsilons:
        if line.last:
            middle, cut = sums.trapezoid(epsilon), sums.cut(epsilon)
            low = middle - cut - sums.alias(epsilon) - sums.price(epsilon)
            high = middle + cut + sums.calm(epsilon) + sums.missing
        else:
            low, high = ZERO, sums.chernoff(sums.all, line.c, epsilon) + sums.missing
        found.append(((infinite + low).lower(), (infinite + high).upper()))
    return found


class Product:
    """prod_i M_i(z + 1)^{m_i} e^{(V + t)(z^2 + z) / 2} on the line, and at z = tilt for some tilts: E[e^{tilt Y}]."""

    def __init__(self, square: arb, points: list[acb], tilts: tuple[float, ...]):
        self.values = [acb(1) if square.is_zero() else (square * (z * z + z) / 2).exp() for z in points]
        self.sizes = {tilt: (square * (ball(tilt) ** 2 + ball(tilt)) / 2).exp() for tilt in tilts}

    def multiply(self, leaf: Leaf, count: int, line: Any, step: arb) -> arb:
        """One more finite leaf, so many times; its M(c + 1)."""
        transform = Transform(leaf, line, step, len(self.values) - 1, tuple(self.sizes))
        found = {tilt: transform.real(tilt) for tilt in self.sizes}
        self.sizes = {tilt: size * found[tilt] ** count for tilt, size in self.sizes.items()}
        if len(self.values) > 1:
            self.values = [f * value**count for f, value in zip(self.values, transform.values(), strict=True)]
        return found[line.c]


class Contour:
    """F on the line, and the bounds of everything that the finite sum leaves out."""

    def __init__(self, leaves: Counted, line: Any):
        if line.last * ctx.prec > MOST_BITS:
            raise UndecidedError(f"a line of {line.last + 1} points would need too much memory with {ctx.prec} bits")
        self.line, self.c, self.step, self.missing = line, ball(line.c), ball(line.step), ZERO
        self.square = sum((count * leaf.variance for leaf, count in leaves), ZERO) + ball(line.tau) ** 2
        self.y, self.z = self.step * line.last, [acb(self.c, j * self.step) for j in range(line.last + 1)]
        tilts = (line.low, line.c, line.high) if line.last else (line.c,)
        self.all = Product(self.square, self.z, tilts)
        self.quiet = Product(self.square, *((self.z, (*tilts, line.calm)) if line.rare else (self.z[:1], (line.c,))))
        self.largest = self.all.sizes[line.c] * (-self.square * self.y**2 / 2).exp()
        for number, (leaf, count) in enumerate(leaves):
            line.progress(f"leaf {number + 1} of {len(leaves)}")
            if leaf.variance.is_zero():
                self.largest *= self._multiply(leaf, count) ** count
        self.f = self.all.values
        if line.rare:
            self.f = [f - calm for f, calm in zip(self.f, self.quiet.values, strict=True)]
            self.largest -= self.quiet.sizes[line.c] * (-self.square * self.y**2 / 2).exp()

    def _multiply(self, leaf: Leaf, count: int) -> arb:
        """One more leaf, so many times; A + B of `envelope`."""
        line, sigma = self.line, self.c + 1
        if not leaf.atoms and not leaf.pieces and (line.last or leaf.curve is None):
            raise UndecidedError("a leaf of which a Renyi curve alone is known has no transform: Chernoff's bound or points are needed")
        leaf, missing = finite(leaf, line)
        self.missing += count * missing
        size = self.all.multiply(leaf, count, line, self.step)
        for piece in leaf.pieces if line.cells else ():
            size -= spread(piece, line.cells, sigma, self.y, line.progress)
        if line.split is not None:
            calm, pieces = calm_and_lively(leaf, line)
            size = self.quiet.multiply(calm, count, line, self.step)
            size += sum((lively(piece, line.turn, sigma, self.y, line.progress) for piece in pieces), ZERO)
        return size.upper()

    def _exponentials(self, x: arb) -> list[acb]:
        """e^{-z_j x}."""
        return [(-self.c * x).exp() * phase for phase in powers(-self.step * x, len(self.z))]

    def _halved(self, terms: list[acb]) -> arb:
        """(h / pi) [Re f(z_0) / 2 + sum_{j=1}^J Re f(z_j)]."""
        return (sum(terms, acb(0)) - terms[0] / 2).real * self.step / arb.pi()

    def trapezoid(self, epsilon: arb) -> arb:
        """S = (h / pi) [Re f(z_0) / 2 + sum_{j=1}^J Re f(z_j)],   f(z) = F(z) e^{-z eps} / (z (z + 1))."""
        return self._halved([f * e / (z * (z + 1)) for f, e, z in zip(self.f, self._exponentials(epsilon), self.z, strict=True)])

    def envelope(self, epsilon: arb) -> arb:
        """E with |e^{-z eps} F(z)| <= E for Re z = c, Im z >= y.

        Theorem. |M_i| <= A_i + B_i, with the calm part and the bound of the lively one, or M_i(c + 1) and minus the spread (`decay`),
        so |prod M_i^{m_i}| <= prod (A_i + B_i)^{m_i}; and with a calm part |prod M_i^{m_i} - prod calm_i^{m_i}| <= prod (A_i +
        B_i)^{m_i} - prod A_i^{m_i} (expand both: every term has a factor B). The Gaussian factor is e^{-(V + t) v^2 / 2} times its
        value at v = 0. None of this increases with v.
        """
        return (self.largest * (-self.c * epsilon).exp()).upper()

    def cut(self, epsilon: arb) -> arb:
        """|sum over j > J| <= (1/pi) int_y^inf E / v^2 dv = E / (pi y)."""
        return (self.envelope(epsilon) / (arb.pi() * self.y)).upper()

    def chernoff(self, measure: Product, tilt: float, epsilon: arb) -> arb:
        """G of the measure at most kappa(c) E[e^{c (Y - eps)}]."""
        return kappa(ball(tilt)) * measure.sizes[tilt] * (-ball(tilt) * epsilon).exp()

    def alias(self, epsilon: arb) -> arb:
        """sum over k != 0 of e^{ckT} G(eps + kT): for either sign of k at most kappa(c') E[e^{c' (Y - eps)}] / (e^{|c' - c| T} - 1)
        with any c' on that side of c (Chernoff's bound of every term, and a geometric series). G and E are those of the measure whose
        transform is summed: with `rare`, without the calm part.
        """
        period, total = 2 * arb.pi() / self.step, ZERO
        for tilt in (self.line.low, self.line.high):
            bound = self.chernoff(self.all, tilt, epsilon)
            if self.line.rare:
                bound -= self.chernoff(self.quiet, tilt, epsilon)
            total += bound / (abs(ball(tilt) - self.c) * period).expm1()
        return total.upper()

    def price(self, epsilon: arb) -> arb:
        """What smoothing may have added: G_t - G <= t e^{t/8} f(eps), f the smoothed density of Y.

        Proof: with u(y) = (1 - e^{eps - y})_+, u' + u'' is a point mass at eps, so d/ds E u(Y_s) = f_s(eps) / 2 (heat equation with
          drift 1/2), and n_s(v - s/2) <= sqrt(t/s) e^{t/8} n_t(v - t/2) for s <= t; integrate s from 0 to t. f is at most its own
          trapezoid sum (all terms of Poisson's sum are positive), whose rest is at most (1/pi) int_y^inf E e^{-t (v^2 - y^2) / 2}
          dv <= E / (pi t y).
        """
        if not self.line.tau:
            return ZERO
        t = ball(self.line.tau) ** 2
        total = self._halved([f * e for f, e in zip(self.f, self._exponentials(epsilon), strict=True)])
        return (t * (t / 8).exp() * (total + self.envelope(epsilon) / (arb.pi() * t * self.y))).upper()

    def calm(self, epsilon: arb) -> arb:
        """G of the calm parts alone, which `rare` left out."""
        return self.chernoff(self.quiet, self.line.calm, epsilon) if self.line.rare else ZERO
