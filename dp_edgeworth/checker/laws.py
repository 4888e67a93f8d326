"""The law of one privacy loss: point masses, and densities that are mixtures of exponentials.

A leaf in one direction is a pair of measures (P, Q) with the loss l = log dQ/dP. Here it is a sum of

    point masses   (p, q), loss log(q / p)
    pieces         on low < x < high:  dP = b(x) S_P(x) dx,  dQ = b(x) S_Q(x) dx,   S(x) = sum_i e^{a_i + b_i x}

with b the standard normal density or e^{-x}/2 or e^{x}/2. Where S_P has slopes <= 0 and S_Q has slopes >= 0 (all leaves here) the loss
l(x) = log S_Q(x) - log S_P(x) increases with x. Masses of intervals are closed forms; M(s) = E_P[e^{s l}] is `quadrature`'s.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from flint import acb, arb

from .balls import UndecidedError, normal_mass, proved

Terms = tuple[tuple[arb, arb], ...]  # (a_i, b_i)
Number = Any  # arb or acb
ZERO, ONE = arb(0), arb(1)
CONSTANT: Terms = ((ZERO, ZERO),)


@dataclass(frozen=True, eq=False)
class Piece:
    """A part of a pair with densities; `lean` is the slope of log b(x) where b is not the normal density, and 0 where it is."""

    p: Terms
    q: Terms
    low: arb | None = None
    high: arb | None = None
    lean: int = 0
    weight: arb = ONE

    def reversed(self) -> Piece:
        """(Q, P), reflected: x -> -x turns the sign of all slopes, so that the loss increases again."""
        low, high = (None if end is None else -end for end in (self.high, self.low))
        p, q = (tuple((a, -b) for a, b in terms) for terms in (self.q, self.p))
        return Piece(p, q, low, high, -self.lean, self.weight)

    def scaled(self, weight: arb) -> Piece:
        return replace(self, weight=weight * self.weight)

    def mass(self, terms: Terms, low: arb | None, high: arb | None) -> arb:
        """weight * int b S dx from low to high (None: infinite). Normal: e^{a + b^2/2} P(low - b < N < high - b), else exponentials."""
        total = arb(0)
        for a, b in terms:
            if not self.lean:
                ends = (None if end is None else end - b for end in (low, high))
                total += (a + b * b / 2).exp() * normal_mass(*ends)
            else:
                assert low is not None and high is not None
                slope = b + self.lean
                flat = high - low if slope.is_zero() else ((slope * high).exp() - (slope * low).exp()) / slope
                total += a.exp() * flat / 2
        return self.weight * total

    def log_base(self, x: Number) -> Number:
        """log b(x)."""
        return x * self.lean - arb(2).log() if self.lean else -x * x / 2 - (2 * arb.pi()).log() / 2

    def loss(self, x: Number) -> Number:
        """l(x), analytic wherever this returns."""
        return log_sum(self.q, x) - log_sum(self.p, x)


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


@dataclass(frozen=True, eq=False)
class Leaf:
    """One direction of one leaf. `key` says which leaf it is: equal keys are equal laws.

    Attributes:
      atoms: (P-mass, Q-mass), both positive. infinite: Q-mass where P has none. lost: P-mass where Q has none.
      lattice: (first, spacing, numbers of steps from first, one per atom) where all losses are on one lattice by construction.
      variance: of a Gaussian leaf, mu^2, for which M(s) = e^{mu^2 (s^2 - s) / 2}; such a leaf has no other parts.
    """

    key: tuple[object, ...]
    atoms: tuple[tuple[arb, arb], ...] = ()
    pieces: tuple[Piece, ...] = ()
    infinite: arb = ZERO
    lost: arb = ZERO
    lattice: tuple[arb, arb, tuple[int, ...]] | None = None
    variance: arb | None = None
    mirror: bool = False

    def reversed(self) -> Leaf:
        """(Q, P); a pair that is its own mirror image is returned as it is."""
        if self.mirror:
            return self
        lattice = self.lattice and (-self.lattice[0], self.lattice[1], tuple(-k for k in self.lattice[2]))
        return Leaf(("reversed", *self.key), tuple((q, p) for p, q in self.atoms), tuple(part.reversed() for part in self.pieces),
                    self.lost, self.infinite, lattice)

    def largest_loss(self) -> arb | None:
        """Upper bound of the finite losses; None if there is none."""
        if self.variance is not None or any(piece.high is None and _grows(piece) for piece in self.pieces):
            return None
        tops = [(q / p).log() for p, q in self.atoms]
        for piece in self.pieces:
            tops.append(piece.loss(acb(piece.high)).real if piece.high is not None else piece.q[0][0] - _still(piece.p))
        top = tops[0]
        for other in tops[1:]:
            top = top.max(other)
        return top


def _grows(piece: Piece) -> bool:
    """Whether the loss has no bound as x grows: unless S_Q is constant and S_P keeps a constant term."""
    return any(not b.is_zero() for _, b in piece.q) or not any(b.is_zero() for _, b in piece.p)


def _still(terms: Terms) -> arb:
    """log of the constant term."""
    return next(a for a, b in terms if b.is_zero())


def normal_piece(terms: Terms) -> Piece:
    """N(0, 1) against sum_i e^{a_i + b_i x} times it."""
    return Piece(CONSTANT, terms)


def shifted(weight: arb, shift: arb) -> tuple[arb, arb]:
    """weight * dN(shift, 1) / dN(0, 1) as a term e^{a + b x}."""
    return (weight.log() - shift * shift / 2, shift)
