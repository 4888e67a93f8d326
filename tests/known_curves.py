"""Compositions whose delta is known to 40 digits, for theorems that must hold whatever their parameters are.

A curve is G of the finite losses, and 1 - delta: sums over coins (binomial) of normal curves, and the closed forms of one use.
Nothing here comes from the code under test.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import mpmath
from mpmath import mp, mpf

from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.gaussian_noise import GaussianShift
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.operations import subsample
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.sums.composition import Composition

DIGITS = 40


class Known(NamedTuple):
    """Counts of losses, E[(1 - e^{eps - Y})_+ ; Y finite] and E[min(1, e^{eps - Y})]."""

    name: str
    counts: dict[Pllr, int]
    finite: Callable[[float], mpf]
    complement: Callable[[float], mpf]

    @property
    def composition(self) -> Composition:
        return Composition(self.counts)

    def log(self, epsilon: float, *, complement: bool) -> mpf:
        """log G, 40 digits."""
        with mp.workdps(DIGITS):
            value = (self.complement if complement else self.finite)(epsilon)
            return mp.log(value) if value > 0 else -mpmath.inf


def normal(epsilon: mpf, mu: mpf, q: mpf | None = None) -> tuple[mpf, mpf]:
    """G and 1 - delta of Gaussian noise of shift mu, both without cancellation; of no noise for mu = 0."""
    if mu == 0:
        return (-mp.expm1(epsilon) if epsilon < 0 else mpf(0)), min(mpf(1), mp.exp(epsilon))
    a = epsilon / mu - mu / 2
    other = mp.exp(epsilon) * mp.ncdf(-a - mu)
    return mp.ncdf(-a) - other, mp.ncdf(a) + other


def coins(p: float, q: float, count: int, infinite: float = 0.0, variance: float = 0.0) -> Callable[[float], tuple[mpf, mpf]]:
    """`count` coins, P(heads) = p, Q(heads) = q, Q-mass `infinite` where P has none, beside Gaussian noise of squared shift `variance`."""

    def curve(epsilon: float) -> tuple[mpf, mpf]:
        heads, tails = mpf(q), 1 - mpf(q) - mpf(infinite)
        up, down = mp.log(heads / mpf(p)), mp.log(tails / (1 - mpf(p)))
        sums = [mpf(0), mpf(0)]
        for k in range(count + 1):
            mass = mp.binomial(count, k) * heads**k * tails ** (count - k)
            for side, value in enumerate(normal(mpf(epsilon) - k * up - (count - k) * down, mp.sqrt(mpf(variance)))):
                sums[side] += mass * value
        return sums[0], sums[1]

    return curve


def laplace(mu: float) -> Callable[[float], tuple[mpf, mpf]]:
    def curve(epsilon: float) -> tuple[mpf, mpf]:
        eps, m = mpf(epsilon), mpf(mu)
        if eps <= -m:
            return -mp.expm1(eps), mp.exp(eps)
        value = max(mpf(0), -mp.expm1((eps - m) / 2))
        return value, 1 - value

    return curve


def sampled_normal(mu: float, p: float) -> Callable[[float], tuple[mpf, mpf]]:
    """One use: the payoff begins where (1-p) + p e^{mu x - mu^2/2} = e^eps."""

    def curve(epsilon: float) -> tuple[mpf, mpf]:
        eps, m, rate = mpf(epsilon), mpf(mu), mpf(p)
        odds = (mp.exp(eps) - 1 + rate) / rate
        if odds <= 0:
            return -mp.expm1(eps), mp.exp(eps)
        x = mp.log(odds) / m + m / 2
        p_above, q_above = mp.ncdf(-x), (1 - rate) * mp.ncdf(-x) + rate * mp.ncdf(m - x)
        q_below = (1 - rate) * mp.ncdf(x) + rate * mp.ncdf(x - m)
        return q_above - mp.exp(eps) * p_above, q_below + mp.exp(eps) * p_above

    return curve


def _known(name: str, counts: dict[Pllr, int], curve: Callable[[float], tuple[mpf, mpf]]) -> Known:
    return Known(name, counts, lambda epsilon: curve(epsilon)[0], lambda epsilon: curve(epsilon)[1])


def coin(p: float, q: float, infinite: float = 0.0) -> Atoms:
    if infinite == 0.0:
        return Atoms((p, 1.0 - p), (q, 1.0 - q))
    return Atoms((p, 1.0 - p, 0.0), (q, 1.0 - q - infinite, infinite))


# Masses are dyadic, so that they are floats and add up to 1.
KNOWN = (
    _known("gaussian", {GaussianShift(0.75): 4}, lambda epsilon: normal(mpf(epsilon), mpf(1.5))),
    _known("coins", {coin(0.375, 0.625): 60}, coins(0.375, 0.625, 60)),
    _known("crooked coins", {coin(0.0625, 0.25): 17}, coins(0.0625, 0.25, 17)),
    _known("coins that may be lost", {coin(0.25, 0.5, 0.0078125): 12}, coins(0.25, 0.5, 12, 0.0078125)),
    _known("coins and gaussian", {coin(0.375, 0.625): 20, GaussianShift(0.5): 1}, coins(0.375, 0.625, 20, variance=0.25)),
    _known("rare coins and gaussian", {coin(2.0**-20, 2.0**-8): 30, GaussianShift(0.25): 1},
           coins(2.0**-20, 2.0**-8, 30, variance=0.0625)),
    _known("laplace", {LaplaceShift(0.75): 1}, laplace(0.75)),
    _known("sampled gaussian", {subsample(GaussianShift(1.5), 0.125): 1}, sampled_normal(1.5, 0.125)),
)
BY_NAME = {known.name: known for known in KNOWN}
