"""delta(eps) of a composition between two bounds, from its transform on a vertical line.

    G(eps) = E[(1 - e^{eps - Y})_+; Y finite] = 1/(2 pi i) int_{Re z = c} F(z) e^{-z eps} / (z (z + 1)) dz,   F(z) = prod_i M_i(z +
    1)^{m_i}

Every theorem holds for any hints that `transforms.validated` lets pass; good ones make the interval narrow. Notation: z_j = c + i j
h, y = J h, T = 2 pi / h, V the variance of all Gaussian leaves, t = tau^2 the smoothing; F contains the factor e^{(V + t)(z^2 + z)
/ 2} throughout.
"""

from __future__ import annotations

from collections.abc import Callable

from flint import acb, arb

from .balls import ball, kappa
from .laws import Leaf
from .transforms import Line, Transform


def delta_bounds(leaves: list[tuple[Leaf, int]], variance: arb, infinite: arb, line: Line, epsilons: list[arb],
                 progress: Callable[[str], None]) -> list[tuple[arb, arb]]:
    """Lower and upper bound of delta at each epsilon.

    Theorem. For any c > 0, h > 0, J >= 1, tau >= 0, with the parts of `_Sums`:   S - cut - alias - price  <=  G  <=  S + cut + calm
    + missing.

    Proof. The infinite sum is sum_k e^{ckT} G_t(eps + kT) (Poisson's formula; G_t with one more Gaussian mechanism of mu = tau).
    All terms are >= 0, and that with k = 0 is at least G, as another mechanism adds loss. `missing` is what `quadrature` cut off.
    `rare` subtracts from F the product of the calm parts: what is left belongs to a smaller positive measure, whose G is smaller by
    at most `calm`. delta = infinite + G.
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
        self.missing, self.log_growth = arb(0), arb(0)
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
        """log M at every tilt, and how far the bound beyond y exceeds it, times count."""
        line = self.line
        wanted = [(line.low, False), (line.high, False), (line.c, line.split is not None)]
        wanted += [(tilt, True) for tilt in (line.low, line.high, line.calm) if line.rare]
        for tilt, calm in dict.fromkeys(wanted):
            self.logs[tilt, calm] = self.logs.get((tilt, calm), arb(0)) + count * transform.real(tilt, calm).log()
        self.log_growth += count * transform.growth()

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

        Theorem. |M_i| <= A_i + B_i (`Transform.growth`), so |prod M_i^{m_i}| <= prod (A_i + B_i)^{m_i}; and with A_i, B_i bounds of
        the calm and the lively part, |prod M_i^{m_i} - prod calm_i^{m_i}| <= prod (A_i + B_i)^{m_i} - prod A_i^{m_i} (expand both:
        every term has a factor B). The Gaussian factor is e^{-(V + t) v^2 / 2} times its value at v = 0. None of this increases
        with v.
        """
        y = self.step * self.line.last
        calm = self.line.split is not None
        height = (self._log_bound(self.line.c, epsilon, calm) - self.square * y * y / 2).exp()
        return (height * (self.log_growth.expm1() if self.line.rare else self.log_growth.exp())).upper()

    def cut(self, epsilon: arb) -> arb:
        """|sum over j > J| <= (1/pi) int_y^inf E / v^2 dv = E / (pi y)."""
        return (self._envelope(epsilon) / (arb.pi() * self.step * self.line.last)).upper()

    def alias(self, epsilon: arb) -> arb:
        """sum over k != 0 of e^{ckT} G(eps + kT): for either sign of k at most kappa(c') E[e^{c' (Y - eps)}] / (e^{|c' - c| T} - 1)
        with any c' on that side of c (Chernoff's bound of every term, and a geometric series).

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
        """What smoothing may have added: G_t - G <= t e^{t/8} f(eps), f the smoothed density of Y.

        Proof: with u(y) = (1 - e^{eps - y})_+, u' + u'' is a point mass at eps, so d/ds E u(Y_s) = f_s(eps) / 2 (heat equation with
          drift 1/2), and n_s(v - s/2) <= sqrt(t/s) e^{t/8} n_t(v - t/2) for s <= t; integrate s from 0 to t. f is at most its own
          trapezoid sum (all terms of Poisson's sum are positive), whose rest is at most (1/pi) int_y^inf E e^{-t (v^2 - y^2) / 2}
          dv <= E / (pi t y).
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


def chernoff(leaves: list[tuple[Leaf, int]], variance: arb, infinite: arb, line: Line, epsilons: list[arb],
             progress: Callable[[str], None]) -> list[tuple[arb, arb]]:
    """Upper bounds of delta, infinite + missing + kappa(c) E[e^{c (Y - eps)}]; from below, infinite."""
    c, total, missing = ball(line.c), variance * (ball(line.c) ** 2 + ball(line.c)) / 2, arb(0)
    for number, (leaf, count) in enumerate(leaves):
        progress(f"leaf {number + 1} of {len(leaves)}")
        transform = Transform(leaf, line)
        total += count * transform.real(line.c).log()
        missing += count * transform.missing
    return [(infinite.lower(), (infinite + missing + kappa(c) * (total - c * epsilon).exp()).upper()) for epsilon in epsilons]
