"""Balls: numbers with a proved radius (Arb, through python-flint), and the few functions of them that the proofs share.

A ball is a midpoint and a radius; every operation returns a ball that contains the result for every number of its arguments. A
comparison of balls is true only where it is true of all their numbers; `proved` is that, with NaN never proved.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction

from flint import arb, ctx, fmpq


class UndecidedError(Exception):
    """A proof that does not go through, with the reason: nothing is known about the claim."""


class InputError(ValueError):
    """Input that is not what the format allows, in a sentence."""


@contextmanager
def working_bits(bits: int) -> Iterator[None]:
    """Arithmetic with so many bits."""
    before, ctx.prec = ctx.prec, bits
    try:
        yield
    finally:
        ctx.prec = before


def ball(value: int | float | Fraction) -> arb:
    """The number itself, up to the working precision: ints and finite floats are exact binary numbers."""
    number = Fraction(value)
    return arb(fmpq(number.numerator, number.denominator))


def proved(comparison: object) -> bool:
    """Whether a comparison of balls is true of all their numbers. (Arb's own meaning of `a < b`; anything else is not proved.)"""
    return comparison is True


def around(error: arb) -> arb:
    """The interval from -error to error."""
    return (-error).union(error)


def normal_tail(x: arb) -> arb:
    """P(N(0, 1) > x)."""
    return (x / arb(2).sqrt()).erfc() / 2


def normal_mass(low: arb | None, high: arb | None) -> arb:
    """P(low < N(0, 1) < high); None is infinite. Differences are taken in the tail where both are small."""
    if low is None:
        return arb(1) if high is None else normal_tail(-high)
    if high is None:
        return normal_tail(low)
    return normal_tail(low) - normal_tail(high) if (low + high).mid() > 0 else normal_tail(-high) - normal_tail(-low)


def kappa(c: arb) -> arb:
    """sup over y of (1 - e^-y)_+ e^{-c y} = c^c / (1 + c)^{1 + c}, at y = log(1 + 1/c); 1 at c = 0.

    So E[(1 - e^{eps - Y})_+] <= kappa(c) e^{-c eps} E[e^{c Y}] for every measure and every c >= 0 (Chernoff).
    """
    return arb(1) if c.is_zero() else (c * c.log() - (1 + c) * (1 + c).log()).exp()
