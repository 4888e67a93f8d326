"""delta(eps) of a composition between two bounds, from its transform on a vertical line.

    G(eps) = E[(1 - e^{eps - Y})_+; Y finite] = 1/(2 pi i) int_{Re z = c} F(z) e^{-z eps} / (z (z + 1)) dz,   F(z) = prod_i M_i(z +
    1)^{m_i}

Every theorem holds for any hints that `transforms.validated` lets pass; good ones make the interval narrow. Notation: z_j = c + i j
h, y = J h, T = 2 pi / h, V the variance of all Gaussian leaves, t = tau^2 the smoothing; F contains the factor e^{(V + t)(z^2 + z)
/ 2} throughout.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flint import acb, arb, ctx

from .balls import UndecidedError, ball, kappa, proved
from .decay import bound
from .laws import ZERO, Leaf
from .transforms import Transform, powers

Counted = list[tuple[Leaf, int]]
MOST_BITS = 100_000_000  # points of a line times bits


def largest_sum(leaves: Counted) -> arb | None:
    """Upper bound of all finite sums of losses; None if there is none."""
    tops = [leaf.largest_loss() for leaf, _ in leaves]
    return None if None in tops else sum((count * top for (_, count), top in zip(leaves, tops, strict=True) if top is not None), ZERO)


def infinite_mass(leaves: Counted) -> arb:
    """1 - prod (1 - Q_i(infinite))^{m_i}."""
    return -sum((count * (-leaf.infinite).log1p() for leaf, count in leaves if not leaf.infinite.is_zero()), ZERO).expm1()


def delta_bounds(leaves: Counted, line: Any, epsilons: list[arb], progress: Callable[[str], None]) -> list[tuple[arb, arb]]:
    """Lower and upper bound of delta at each epsilon.

    Theorem. For any c > 0, h > 0, J >= 1, tau >= 0, with the parts of `Contour`:   S - cut - alias - price  <=  G  <=  S + cut + calm
    + missing;   and with J = 0   0 <= G <= kappa(c) E[e^{c (Y - eps)}] + missing.

    Proof. The infinite sum is sum_k e^{ckT} G_t(eps + kT) (Poisson's formula; G_t with one more Gaussian mechanism of mu = tau).
    All terms are >= 0, and that with k = 0 is at least G, as another mechanism adds loss. `missing` is what `transforms` cut off.
    `rare` subtracts from F the product of the calm parts: what is left belongs to a smaller positive measure, whose G is smaller by
    at most `calm`. delta = infinite + G.
    """
    sums, infinite = Contour(leaves, line, progress), infinite_mass(leaves)
    found = []
    for epsilon in epsilons:
        if line.last:
            middle, cut = sums.trapezoid(epsilon), sums.cut(epsilon)
            low = middle - cut - sums.alias(epsilon) - sums.price(epsilon)
            high = middle + cut + sums.calm(epsilon) + sums.missing
        else:
            low, high = ZERO, sums.chernoff(line.c, False, epsilon) + sums.missing
        found.append(((infinite + low).lower(), (infinite + high).upper()))
    return found


class Contour:
    """F on the line, and the bounds of everything that the finite sum leaves out."""

    def __init__(self, leaves: Counted, line: Any, progress: Callable[[str], None]):
        self.line, self.c, self.step, self.lattice = line, ball(line.c), ball(line.step), None
        self.square = sum((count * leaf.variance for leaf, count in leaves), ZERO) + ball(line.tau) ** 2
        self.top = largest_sum(leaves) if not line.tau else None
        if line.lattice:
            places = leaves[0][0].lattice
            if places is None or len(leaves) != 1 or not line.last or line.tau or line.rare:
                raise UndecidedError("a sum over a lattice needs one leaf whose losses are on one")
            self.lattice = leaves[0][1] * places[0], places[1]
            self.step = arb.pi() / (line.last * places[1])
        if line.last * ctx.prec > MOST_BITS:
            raise UndecidedError(f"a line of {line.last + 1} points would need too much memory with {ctx.prec} bits")
        self.y, self.z = self.step * line.last, [acb(self.c, j * self.step) for j in range(line.last + 1)]
        self.f = [acb(1) if self.square.is_zero() else (self.square * (z * z + z) / 2).exp() for z in self.z]
        self._multiply(leaves, progress)

    def _multiply(self, leaves: Counted, progress: Callable[[str], None]) -> None:
        """All leaves into F (less its calm part), E[e^{tilt Y}] at every tilt that is used, `missing`, and `largest` of `envelope`."""
        line, calm, bounds = self.line, list(self.f), self._gaussian(self.c)
        tilts = (line.low, line.high) if line.last else (line.c,)
        wanted = [(tilt, False) for tilt in tilts] + [(tilt, True) for tilt in (*tilts, line.c, line.calm) if line.rare]
        self.sizes, self.missing = {(tilt, part): self._gaussian(ball(tilt)) for tilt, part in wanted}, ZERO
        for number, (leaf, count) in enumerate(leaves):
            progress(f"leaf {number + 1} of {len(leaves)}")
            if leaf.variance.is_zero():
                transform = Transform(leaf, line, self.step, progress)
                self.missing += count * transform.missing
                self.sizes = {key: size * transform.real(*key) ** count for key, size in self.sizes.items()}
                if line.last:
                    self.f = [f * value**count for f, value in zip(self.f, transform.values(), strict=True)]
                    bounds *= bound(transform) ** count
                if line.rare:
                    calm = [f * value**count for f, value in zip(calm, transform.values(calm=True), strict=True)]
        if line.rare:
            self.f = [f - g for f, g in zip(self.f, calm, strict=True)]
            bounds -= self.sizes[line.c, True]
        self.largest = (-self.square * self.y**2 / 2).exp() * bounds

    def _gaussian(self, tilt: arb) -> arb:
        """e^{(V + t)(c^2 + c) / 2}."""
        return (self.square * (tilt**2 + tilt) / 2).exp()

    def _exponentials(self, x: arb) -> list[acb]:
        """e^{-z_j x}."""
        return [(-self.c * x).exp() * phase for phase in powers(-self.step * x, len(self.z))]

    def _halved(self, terms: list[acb]) -> arb:
        """(h / pi) [Re f(z_0) / 2 + sum_{j=1}^J Re f(z_j)]."""
        return (sum(terms, acb(0)) - terms[0] / 2).real * self.step / arb.pi()

    def chernoff(self, tilt: float, calm: bool, epsilon: arb) -> arb:
        """G of the measure, or of the calm one, at most kappa(c) E[e^{c (Y - eps)}]."""
        return kappa(ball(tilt)) * self.sizes[tilt, calm] * (-ball(tilt) * epsilon).exp()

    def trapezoid(self, epsilon: arb) -> arb:
        """S = (h / pi) [Re f(z_0) / 2 + sum_{j=1}^J Re f(z_j)],   f(z) = F(z) e^{-z eps} / (z (z + 1)).

        On a lattice of spacing g, with h = 2 pi / (N g), N = 2 J, and y* the smallest possible sum above eps, the infinite sum is the
        finite one, its last term halved, too, with

            f(z) = F(z) g [e^{-z y*} / (1 - e^{-z g}) - e^{eps - (z + 1) y*} / (1 - e^{-(z + 1) g})]:

        the brackets are the sums over n >= 0 of e^{-z y} (1 - e^{eps - y}), y = y* + n g, and (1/N) sum_{j < N} e^{z_j (Y - y)} is
        e^{ckT} where Y = y + k T with an integer k, otherwise 0; so (1/N) sum_{j < N} f(z_j) / g = sum_k e^{ckT} G(eps + kT).
        """
        if self.lattice is None:
            return self._halved([f * e / (z * (z + 1)) for f, e, z in zip(self.f, self._exponentials(epsilon), self.z, strict=True)])
        start, g = self.lattice
        number = ((epsilon - start) / g).floor().unique_fmpz()
        if number is None:
            raise UndecidedError("epsilon is too near a point of the lattice")
        y = start + (int(number) + 1) * g
        less, terms = (epsilon - y).exp(), []
        for f, e, one in zip(self.f, self._exponentials(y), self._exponentials(g), strict=True):
            terms.append(f * g * e * (1 / (1 - one) - less / (1 - one * (-g).exp())))
        return self._halved([*terms[:-1], terms[-1] / 2])

    def envelope(self, epsilon: arb) -> arb:
        """E with |e^{-z eps} F(z)| <= E for Re z = c, Im z >= y.

        Theorem. |M_i| <= A_i + B_i (`decay.bound`), so |prod M_i^{m_i}| <= prod (A_i + B_i)^{m_i}; and with A_i, B_i bounds of
        the calm and the lively part, |prod M_i^{m_i} - prod calm_i^{m_i}| <= prod (A_i + B_i)^{m_i} - prod A_i^{m_i} (expand both:
        every term has a factor B). The Gaussian factor is e^{-(V + t) v^2 / 2} times its value at v = 0. None of this increases
        with v.
        """
        return (self.largest * (-self.c * epsilon).exp()).upper()

    def cut(self, epsilon: arb) -> arb:
        """|sum over j > J| <= (1/pi) int_y^inf E / v^2 dv = E / (pi y); nothing on a lattice."""
        return (self.envelope(epsilon) / (arb.pi() * self.y)).upper() if self.lattice is None else ZERO

    def alias(self, epsilon: arb) -> arb:
        """sum over k != 0 of e^{ckT} G(eps + kT): for either sign of k at most kappa(c') E[e^{c' (Y - eps)}] / (e^{|c' - c| T} - 1)
        with any c' on that side of c (Chernoff's bound of every term, and a geometric series); 0 on the right where no sum exceeds
        eps + T. G and E are those of the measure whose transform is summed: with `rare`, without the calm part.
        """
        period, total = 2 * arb.pi() / self.step, ZERO
        for tilt in (self.line.low, self.line.high):
            if tilt < self.line.c or self.top is None or not proved(epsilon + period >= self.top):
                bound = self.chernoff(tilt, False, epsilon) - (self.chernoff(tilt, True, epsilon) if self.line.rare else ZERO)
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
        return self.chernoff(self.line.calm, True, epsilon) if self.line.rare else ZERO
