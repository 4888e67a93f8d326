"""Absolute moments of losses against 30 digits (mpmath, laws written out here), with both sides of the kink."""

from __future__ import annotations

import functools
import itertools
import math

import mpmath
import numpy as np
import pytest

from dp_edgeworth import Atoms, GaussianShift, LaplaceShift, Mixed, NormalMixture, PllrMomentsDpEvent, reverse, subsample
from dp_edgeworth.losses.pllr import OnlyRules
from dp_edgeworth.losses.rules import Rule
from dp_edgeworth.losses.sampled_gaussian import SampledReplacement, SampledWithoutReplacement
from dp_edgeworth.paper import expansion_distance
from dp_edgeworth.paper.known_moments import PllrMoments
from dp_edgeworth.paper.lemma_4_3 import Moments
from dp_edgeworth.paper.moments import is_constant, leaf_moments, sum_moments
from dp_edgeworth.sums.composition import Composition

mp = mpmath.mp.clone()
mp.dps = 30
LEGENDRE = mpmath.calculus.quadrature.GaussLegendre(mp).calc_nodes(5, mp.prec)  # 48 nodes
FINE = list(range(-13, 32, 2))  # for large shifts, where L bends within 1/mu
LINE = [-13, -10, -7, -4, -2, 0, 1, 2, 4, 6, 9, 12, 16, 22]


def normal(x, mu=0):
    return mp.exp(-((x - mu) ** 2) / 2) / mp.sqrt(2 * mp.pi)


def sampled(p, loss):
    return lambda x: mp.log1p(mp.mpf(p) * mp.expm1(loss(x)))


def gauss_loss(mu):
    return lambda x: mp.mpf(mu) * (x - mp.mpf(mu) / 2)


# A law is (pieces, atoms): pieces (points, loss, P-density) with increasing loss, atoms (loss, P-mass).
def sampled_gaussian(p, mu, line=LINE):
    return [(line, sampled(p, gauss_loss(mu)), normal)], []


def sampled_laplace(p, mu, panels=3):
    loss = sampled(p, lambda x: abs(x) - abs(x - mp.mpf(mu)))
    middle = (mp.linspace(0, mu, panels + 1), loss, lambda x: mp.exp(-x) / 2)
    return [middle], [(loss(mp.mpf(0)), mp.mpf(1) / 2), (loss(mp.mpf(mu)), mp.exp(-mp.mpf(mu)) / 2)]


def mixture(shifts, weights):
    def loss(x):
        return mp.log(sum(mp.mpf(w) * mp.exp(gauss_loss(c)(x)) for c, w in zip(shifts, weights, strict=True)))

    return [(LINE, loss, normal)], []


def replacement(mu, p):
    def density(x, sign):
        return (1 - mp.mpf(p)) * normal(x) + mp.mpf(p) * normal(x, sign * mp.mpf(mu))

    return [([-22, -16, -12, *LINE[1:]], lambda x: mp.log(density(x, 1) / density(x, -1)), lambda x: density(x, -1))], []


def without_replacement(mu, p):
    """The sampled pair above 0, its mirror image below, the rest at 0."""
    mu, loss = mp.mpf(mu), sampled(p, gauss_loss(mu))
    points = [mu / 2 + t for t in (0, 1, 2, 4, 6, 9, 12, 16)]
    below = ([-x for x in reversed(points)], lambda x: -loss(-x), lambda x: normal(x) * mp.exp(loss(-x)))
    rest = (1 - mp.mpf(p)) * (mp.ncdf(mu / 2) - mp.ncdf(-mu / 2))
    return [below, (points, loss, normal)], [(mp.mpf(0), rest)]


def mixed(weight, one, other):
    def scaled(law, w):
        pieces, atoms = law
        return [(pts, loss, lambda x, d=d: w * d(x)) for pts, loss, d in pieces], [(v, w * m) for v, m in atoms]

    parts = scaled(one, mp.mpf(weight)), scaled(other, 1 - mp.mpf(weight))
    return parts[0][0] + parts[1][0], parts[0][1] + parts[1][1]


def crossing(loss, low, high, level):
    """Where the increasing loss passes the level, by bisection to 30 digits."""
    for _ in range(105):
        middle = (low + high) / 2
        low, high = (middle, high) if loss(middle) < level else (low, middle)
    return low


def nodes(law, tilt, kink=None):
    """(value, weight) pairs: atoms, and 48 Gauss-Legendre nodes in 30 digits on every panel, cut at the kink."""
    result = [(v, m * mp.exp((tilt + 1) * v)) for v, m in law[1]]
    for points, loss, density in law[0]:
        grid = [mp.mpf(x) for x in points]
        if kink is not None and loss(grid[0]) < kink < loss(grid[-1]):
            grid = sorted([*grid, crossing(loss, grid[0], grid[-1], kink)])
        for low, high in itertools.pairwise(grid):
            half = (high - low) / 2
            for x, w in LEGENDRE:
                value = loss(low + half * (1 + x))
                result.append((value, half * w * density(low + half * (1 + x)) * mp.exp((tilt + 1) * value)))
    return result


def exact_moments(law, tilt):
    """Mean, deviation and standardised moments of L under P (tilt -1) or Q (tilt 0), in 30 digits."""
    smooth = nodes(law, tilt)
    mean = mp.fsum(v * w for v, w in smooth)
    cut = [(v - mean, w) for v, w in nodes(law, tilt, mean)]
    sd = mp.sqrt(mp.fsum(c**2 * w for c, w in cut))
    powers = (lambda c: c**3, lambda c: c**4, abs, lambda c: abs(c) ** 3)
    return mean, sd, *(mp.fsum(g(c / sd) * w for c, w in cut) for g in powers)


PAIRS = {
    "sampled gaussian": (subsample(GaussianShift(1.25), 0.004), sampled_gaussian(0.004, 1.25)),
    "rarely sampled": (subsample(GaussianShift(1.0), 1e-7), sampled_gaussian(1e-7, 1.0)),
    "little noise": (subsample(GaussianShift(1 / 0.3), 1e-6), sampled_gaussian(1e-6, 1 / 0.3, FINE)),
    "little noise, often": (subsample(GaussianShift(1 / 0.3), 0.5), sampled_gaussian(0.5, 1 / 0.3, FINE)),
    "much noise": (subsample(GaussianShift(0.01), 0.5), sampled_gaussian(0.5, 0.01)),
    "little laplace noise": (subsample(LaplaceShift(10.0), 1e-6), sampled_laplace(1e-6, 10, 8)),
    "much laplace noise": (subsample(LaplaceShift(0.01), 0.1), sampled_laplace(0.1, 0.01)),
    "often sampled": (subsample(GaussianShift(2.5), 0.6), sampled_gaussian(0.6, 2.5)),
    "laplace": (LaplaceShift(0.7), sampled_laplace(1, 0.7)),
    "sampled laplace": (subsample(LaplaceShift(2.0), 0.1), sampled_laplace(0.1, 2)),
    "mixture": (NormalMixture((0.0, 0.5, 1.5), (0.5, 0.3, 0.2)), mixture((0, 0.5, 1.5), (0.5, 0.3, 0.2))),
    "replacement": (SampledReplacement(1.0, 0.1), replacement(1, 0.1)),
    "without replacement": (SampledWithoutReplacement(1.0, 0.1), without_replacement(1, 0.1)),
    "mixed": (Mixed((0.25, 0.75), (subsample(GaussianShift(1.0), 0.1), LaplaceShift(0.5))),
              mixed(0.25, sampled_gaussian(0.1, 1), sampled_laplace(1, 0.5))),
}  # fmt: skip


@functools.cache
def exact_of(name, tilt):
    return exact_moments(PAIRS[name][1], tilt)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("tilt", [-1, 0])
def test_thirty_digits(name, tilt):
    pllr = PAIRS[name][0]
    found, exact = leaf_moments(pllr, float(tilt)), exact_of(name, tilt)[1:]
    assert [float(a / b - 1) for a, b in zip(found, exact, strict=True)] == pytest.approx([0] * 5, abs=1e-10)
    mirror = leaf_moments(reverse(pllr), -1.0 - tilt)  # X of the reversed pair is -Y
    turned = 1 if pllr.mirror else -1
    other = found if not pllr.mirror else leaf_moments(pllr, -1.0 - tilt)
    assert mirror == pytest.approx((other[0], turned * other[1], *other[2:]), rel=1e-12)


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("count", [1, 10**8])
def test_standardisation_is_within_its_margin(name, count):
    """Mean, deviation, rho_3 and E S^4 of sums, against 30 digits: what `distances` adds for their rounding covers it."""
    composition = Composition({PAIRS[name][0]: count})
    for tilt in (-1, 0):
        exact_mean, sd, skewness, kurtosis = exact_of(name, tilt)[:4]
        mean, deviation, rho = expansion_distance._standard(composition, float(tilt), 2)
        margin = expansion_distance._rounding(composition, deviation)
        assert margin < 1e-6
        exact_deviation = sd * mp.sqrt(count)
        assert abs(mean - count * exact_mean) <= margin * deviation
        assert abs(exact_deviation / deviation - 1) <= margin
        assert abs(rho[0] - skewness / mp.sqrt(count)) <= 6 * margin * max(1, kurtosis / count)
        assert abs(rho[1] - (kurtosis - 3) / count) <= 16 * margin * max(1, kurtosis / count)


def test_plain_rules_are_not_enough():
    """What splitting at the kink is for: 128 Gauss-Hermite nodes miss E|X - E X| by more than 1e-4."""
    x, w = np.polynomial.hermite_e.hermegauss(128)
    loss, w = np.log1p(0.05 * np.expm1(x - 0.5)), w / w.sum()
    c = loss - w @ loss
    plain = w @ np.abs(c) / math.sqrt(w @ c**2)
    assert abs(plain / leaf_moments(subsample(GaussianShift(1.0), 0.05), -1.0).absolute_first - 1) > 1e-4


def test_atoms_are_exact():
    moments = leaf_moments(Atoms((0.9, 0.1), (0.1, 0.9)), -1.0)
    sd = math.sqrt(0.09)
    expected = (sd * 2 * math.log(9), (0.1 * 0.9**3 - 0.9 * 0.1**3) / sd**3, (0.1 * 0.9**4 + 0.9 * 0.1**4) / sd**4,
                0.18 / sd, (0.1 * 0.9**3 + 0.9 * 0.1**3) / sd**3)  # fmt: skip
    assert moments == pytest.approx(expected, rel=1e-13)
    infinite = leaf_moments(Atoms((0.0, 0.5, 0.5), (0.2, 0.6, 0.2)), 0.0)  # what is finite: 3/4 against 1/4
    assert infinite.skewness == pytest.approx(-2 / math.sqrt(3), rel=1e-13)


def test_constants():
    assert is_constant(Composition({Atoms((1.0,), (1.0,)): 3}), 0.0)
    assert not is_constant(Composition({LaplaceShift(1.0): 3}), 0.0)
    assert leaf_moments(Atoms((1.0, 0.0), (0.0, 1.0)), 0.0).deviation == 0.0  # nothing is finite


class Unknown(OnlyRules):
    """A class of the user's, of which only rules are known."""

    def rule(self, demand):
        return Rule(np.array([[-1.0, 1.0]]), np.log([[0.5, 0.5]]), np.zeros(1), np.zeros(1))


def test_unknown_laws_are_bounded():
    moments = leaf_moments(Unknown(), -1.0)
    assert moments == pytest.approx((1.0, 0.0, 1.0, 1.0, 1.0), abs=1e-15)


def test_moments_of_sums():
    """Of two kinds of leaves, against `Moments.of_leaves` fed with 30-digit moments."""
    leaves = {"sampled gaussian": 1000, "sampled laplace": 7}
    found = sum_moments(Composition({PAIRS[name][0]: count for name, count in leaves.items()}), -1.0)
    exact = [[float(v) for v in exact_of(name, -1)[1:]] for name in leaves]
    sd, skew, kurtosis, first, third = np.array(exact).T
    expected = Moments.of_leaves([*leaves.values()], variance=sd**2, third=skew * sd**3, fourth=kurtosis * sd**4,
                                        absolute_first=first * sd, absolute_third=third * sd**3)  # fmt: skip
    assert found.variance == pytest.approx(expected.variance, rel=1e-10)
    assert found.arguments() == pytest.approx(expected.arguments(), rel=1e-10)
    assert found.skewed


def test_known_by_four_cumulants_only():
    pair = PllrMoments((-0.5, 1.0, 0.2, 0.3), (0.6, 1.2, 0.1, 0.4), x_absolute_third=1.7)
    assert leaf_moments(pair, -1.0) == pytest.approx((1.0, 0.2, 3.3, 1.0, 1.7))
    assert leaf_moments(pair, 0.0).absolute_third == pytest.approx(math.sqrt(3 + 0.4 / 1.44))
    assert pair.reversed().x_cumulants == (-0.6, 1.2, -0.1, 0.4) and pair.reversed().reversed() == pair
    with pytest.raises(ValueError, match="four cumulants only"):
        pair.rule(None)
    with pytest.raises(ValueError, match="Found order 5"):
        pair.cumulants(5, 0.0)


def test_moments_at_the_ends_of_the_floats():
    """kappa_r = a^r times that of a law with variance 1, skewness 1/2 and excess kurtosis 1, for a far from 1; E|c|^3 = 1.5 fits."""
    for a in (1e-70, 1e60):
        event = PllrMomentsDpEvent((0.0, 1.0, 0.0, 0.0), (0.0, a**2, 0.5 * a**3, a**4), None, 1.5 * a**3)
        found = leaf_moments(PllrMoments.validated(event), 0.0)
        assert found == pytest.approx((a, 0.5, 4.0, 1.0, 1.5), rel=1e-12)
    for y, third, name in (((0.0, 1e300, 0.0, 0.0), 1e300, "y_absolute_third"), ((0.0, 1e-200, 1.0, 0.0), None, "y_cumulants"),
                           ((0.0, 1e200, 0.0, -1e308), 0.0, "y_absolute_third")):
        with pytest.raises(ValueError, match=f"`{name}` must"):
            PllrMoments.validated(PllrMomentsDpEvent((0.0, 1.0, 0.0, 0.0), y, None, third))
