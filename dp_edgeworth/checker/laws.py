"""The law of one privacy loss: point masses, and densities that are mixtures of exponentials.

A leaf in one direction is a pair of measures (P, Q) with the loss l = log dQ/dP. Here it is a sum of

    point masses   (p, q), loss log(q / p)
    pieces         on low < x < high:  dP = b(x) w(x) S_P(x) dx,  dQ = b(x) w(x) S_Q(x) dx,   S(x) = sum_i e^{a_i + b_i x}

with b the standard normal density or e^{-x}/2 or e^{x}/2, and w = 1 or, in the middle of proofs, a step between 0 and 1. S_P has slopes
<= 0 and S_Q has slopes >= 0, so the loss increases with x. Masses of intervals are closed forms; M(s) = E_P[e^{s l}] is `transforms`'.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from flint import acb, arb, ctx

from .balls import UndecidedError, normal_mass, normal_tail, proved

Terms = tuple[tuple[arb, arb], ...]  # (a_i, b_i)
Number = Any  # arb or acb
ZERO, ONE = arb(0), arb(1)
CONSTANT: Terms = ((ZERO, ZERO),)


def log_sum(terms: Terms, x: Number) -> Number:
    """log sum_i e^{a_i + b_i x} = a_k + b_k x + log(1 + sum_{i != k} e^{a_i - a_k + (b_i - b_k) x}), for any k; the largest is taken.

    On a box on which the real part of 1 + sum is proved positive, this is an analytic branch that is real on the real line.
    """
    if len(terms) == 1:
        return terms[0][0] + terms[0][1] * x
    middle = float(x.real.mid())
    k = max(range(len(terms)), key=lambda i: float(terms[i][0].mid()) + float(terms[i][1].mid()) * middle)
    top, slope = terms[k]
    rest = 1 + sum(((a - top + (b - slope) * x).exp() for i, (a, b) in enumerate(terms) if i != k), 0)
    if not proved(rest.real > 0):
        raise UndecidedError("a sum of exponentials may vanish")
    return top + slope * x + rest.log()


@functools.lru_cache(maxsize=64)
def _log_constant(bits: int, lean: bool) -> arb:
    """log 2, or log sqrt(2 pi)."""
    return arb(2).log() if lean else (2 * arb.pi()).log() / 2


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of a pair with densities; `lean` is the slope of log b(x) where b is not the normal density, and 0 where it is.

    A `step` (centre, width) is the weight w(x) = P(N(0, 1) < (x - centre) / width); a negative width makes it fall, 1 - w.
    """

    p: Terms
    q: Terms
    low: arb | None = None
    high: arb | None = None
    lean: int = 0
    step: tuple[arb, arb] | None = None

    def __post_init__(self) -> None:
        """Every theorem about pieces builds on losses that increase with x."""
        if not all(proved(b <= 0) for _, b in self.p) or not all(proved(b >= 0) for _, b in self.q):
            raise UndecidedError("the losses of a piece are not known to increase")

    def reversed(self) -> Piece:
        """(Q, P), reflected: x -> -x turns the sign of all slopes, so that the loss increases again."""
        low, high = (None if end is None else -end for end in (self.high, self.low))
        p, q = (tuple((a, -b) for a, b in terms) for terms in (self.q, self.p))
        return replace(self, p=p, q=q, low=low, high=high, lean=-self.lean)

    def mass(self, terms: Terms, low: arb | None, high: arb | None) -> arb:
        """int b S dx from low to high (None: infinite). Normal: e^{a + b^2/2} P(low - b < N < high - b), else exponentials."""
        total = ZERO
        for a, b in terms:
            slope = b + self.lean
            if not self.lean:
                total += (a + b * b / 2).exp() * normal_mass(*(None if end is None else end - b for end in (low, high)))
            elif low is not None and high is not None:
                total += a.exp() / 2 * (high - low if slope.is_zero() else ((slope * high).exp() - (slope * low).exp()) / slope)
            else:
                raise UndecidedError("an exponential without ends has no mass here")
        return total

    def log_base(self, x: Number) -> Number:
        """log b(x)."""
        return (x * self.lean if self.lean else -x * x / 2) - _log_constant(ctx.prec, self.lean != 0)

    def logs(self, x: Number) -> tuple[Number, Number]:
        """log of the P-density, and the loss; analytic wherever this returns."""
        below = log_sum(self.p, x)
        return self.log_base(x) + below, log_sum(self.q, x) - below

    def loss(self, x: Number) -> Number:
        """l(x)."""
        return log_sum(self.q, x) - log_sum(self.p, x)

    def weight(self, x: arb) -> arb:
        """w(x)."""
        return ONE if self.step is None else normal_tail((self.step[0] - x) / self.step[1])

    def largest_weight(self, box: acb) -> arb:
        """Upper bound of |w| on a box: |w(x + iv)| <= e^{v^2 / (2 width^2)} w(x), and w is monotone on the line.

        (w(x + iv) is the integral of the normal density along the line Im = v / width up to x: compare the integrands.)
        """
        if self.step is None:
            return ONE
        growth = ((box.imag.abs_upper() / self.step[1]) ** 2 / 2).exp()
        return (self.weight(box.real.lower()).max(self.weight(box.real.upper())) * growth).upper()

    def slope(self, x: arb) -> arb:
        """l'(x): d/dx log sum_i e^{a_i + b_i x} is the mean of the b_i with weights e^{a_i + b_i x}."""
        signed = [(sign * b, a + b * x - log_sum(terms, x)) for sign, terms in ((1, self.q), (-1, self.p)) for a, b in terms]
        return sum((b * log.exp() for b, log in signed), ZERO)

    def top(self) -> arb | None:
        """The supremum of the loss, its limit at `high`: finite at infinity if S_Q is constant and S_P keeps a constant term."""
        if self.high is not None:
            return self.loss(self.high)
        still = [sum((a.exp() for a, b in terms if b.is_zero()), ZERO) for terms in (self.q, self.p)]
        return None if still[1].is_zero() or any(not b.is_zero() for _, b in self.q) else (still[0] / still[1]).log()


@dataclass(frozen=True, eq=False)
class Leaf:
    """One direction of one leaf; a leaf without any part is one without loss.

    Attributes:
      atoms: (P-mass, Q-mass), both positive. infinite: Q-mass where P has none. lost: P-mass where Q has none.
      variance: of a Gaussian leaf, mu^2, for which M(s) = e^{mu^2 (s^2 - s) / 2}; such a leaf has no other parts.
      mirror: (Q, P) is the same pair.
      curve: k with log E_Q[e^{c l}] <= k(c) for c > 0 in both directions. least: the members, one for each number in [0, 1], of a class
        of mechanisms that the leaf dominates; None where the leaf is a mechanism itself.
    """

    atoms: tuple[tuple[arb, arb], ...] = ()
    pieces: tuple[Piece, ...] = ()
    infinite: arb = ZERO
    lost: arb = ZERO
    variance: arb = ZERO
    mirror: bool = False
    curve: Callable[[arb], arb] | None = None
    least: Callable[[arb], Leaf] | None = None

    def reversed(self) -> Leaf:
        """(Q, P); a pair that is its own mirror image is returned as it is."""
        if self.mirror:
            return self
        least = self.least
        return Leaf(tuple((q, p) for p, q in self.atoms), tuple(part.reversed() for part in self.pieces), self.lost, self.infinite,
                    least=least and (lambda share: least(share).reversed()))

    def largest_loss(self) -> arb | None:
        """Upper bound of the finite losses; None if there is none."""
        tops = [(q / p).log() for p, q in self.atoms] + [piece.top() for piece in self.pieces]
        return None if None in tops or not tops else functools.reduce(arb.max, tops)  # type: ignore[arg-type]


NON_PRIVATE = Leaf(infinite=ONE, lost=ONE, mirror=True)
NOTHING = Leaf(mirror=True)


def density(square: arb) -> Piece:
    """N(0, 1) against N(mu, 1), mu^2 = square: dQ/dP = e^{mu x - mu^2/2}."""
    return Piece(CONSTANT, ((-square / 2, square.sqrt()),))


def delta_of_one(leaf: Leaf, epsilon: arb) -> arb:
    """delta(eps) = Q(infinite) + sum over atoms of (q - e^eps p)_+ + sum over pieces of int (dQ - e^eps dP)_+.

    Losses increase along a piece, so its integral is Q - e^eps P of the part above the point where the loss is eps.
    """
    total, scale = leaf.infinite, epsilon.exp()
    for p, q in leaf.atoms:
        total += ZERO.max(q - scale * p)
    for piece in leaf.pieces:
        top = piece.top()
        if top is None or not proved(top <= epsilon):
            start = _crossing(piece, epsilon)
            total += piece.mass(piece.q, start, piece.high) - scale * piece.mass(piece.p, start, piece.high)
    return total


def _crossing(piece: Piece, epsilon: arb) -> arb:
    """The lower end of a piece if the loss is >= eps on all of it; else a ball that contains the x with l(x) = eps, as l < eps is
    proved at one end of the ball and l > eps at the other. Bisection as long as that can be proved; not in the middle, where the
    crossing of a symmetric pair may be exactly."""
    if piece.low is not None and proved(piece.loss(piece.low) >= epsilon):
        return piece.low
    far = [arb(2) ** k for k in range(0, 200, 2)]
    low = next((x for x in ([-x for x in far] if piece.low is None else [piece.low]) if proved(piece.loss(x) < epsilon)), None)
    high = next((x for x in (far if piece.high is None else [piece.high]) if proved(piece.loss(x) > epsilon)), None)
    if low is None or high is None:
        raise UndecidedError("epsilon is too near the loss at the end of a piece")
    for _ in range(4400):
        middle = (low + (high - low) * 7 / 16).mid()
        loss = piece.loss(middle)
        if not proved(loss < epsilon) and not proved(loss > epsilon):
            break
        low, high = (middle, high) if proved(loss < epsilon) else (low, middle)
    return low.union(high)
