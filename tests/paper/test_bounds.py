"""The finite-sample bounds: above the truth, equal to the formula in 30 digits.

No expected value is produced by the code under test. Truth is exact (binomial, gamma, convolved lattices), or comes
from an inversion of the cf (Gil-Pelaez) or from mpmath.
"""

from __future__ import annotations

import math
import warnings

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats

from dp_edgeworth.paper.lemma_4_3 import Moments, lemma_4_3
from dp_edgeworth.paper.prawitz_bounds import moment_envelope, prawitz

pytestmark = pytest.mark.filterwarnings("error")


def phi(x):
    return np.exp(-np.square(x) / 2) / math.sqrt(2 * math.pi)


def edgeworth(x, terms):
    """Phi - phi sum_s c_s He_{s-1}, written out independently of the package."""
    return special.ndtr(x) - phi(x) * sum(c * special.eval_hermitenorm(s - 1, x) for s, c in terms.items())


def terms_of_order(order, r3, r4=0.0, r5=0.0):
    every = {3: r3 / 6, 4: r4 / 24, 6: r3**2 / 72, 5: r5 / 120, 7: r3 * r4 / 144, 9: r3**3 / 1296}
    return {s: every[s] for s in ((3,), (3, 4, 6), (3, 4, 6, 5, 7, 9))[order - 1]}


def lattice_distance(points, probabilities, terms):
    """sup |F - E| of a standardised lattice law: at both ends of every step, and inside the steps."""
    cdf = np.cumsum(probabilities)
    ends = np.append(points, points[-1] + 1.0)
    inside = np.linspace(ends[:-1], ends[1:], 9, axis=1)
    gaps = np.abs(cdf[:, None] - edgeworth(inside, terms))
    first = abs(edgeworth(points[:1], terms)).max()
    return max(gaps.max(), first)


def moments_of(points, probabilities):
    """Central moments 2, 3, 4 and absolute moments 3, 1 of a discrete law."""
    c = points - probabilities @ points
    signed = {name: probabilities @ c**p for name, p in (("variance", 2), ("third", 3), ("fourth", 4))}
    return signed | {"absolute_third": probabilities @ abs(c) ** 3, "absolute_first": probabilities @ abs(c)}


# lemma_4_3 in 30 digits


def lemma_in_mpmath(m, k3, k3_tilde, k4, lambda3, skewed):
    """formulas.md 4.6, by quadrature, at epsilon = 0.1."""
    with mpmath.workdps(30):
        mp, on = mpmath.mp, 1 if skewed else 0
        m, k3, t, k4 = (mp.mpf(x) for x in (m, k3, k3_tilde, k4))
        l, e, c, pi = abs(mp.mpf(lambda3)) * on, mp.mpf("0.1"), mp.mpf("1.0253"), mp.pi
        x = mp.findroot(lambda y: y**2 + 2 * y * mp.sin(y) + 6 * (mp.cos(y) - 1), 4)
        chi = (mp.cos(x) - 1 + x**2 / 2) / x**3
        u_max = 2 * mp.sqrt(m) / t
        a = min(mp.sqrt(2 * e) * (m / k4) ** mp.mpf("0.25"), u_max)
        d = (1 - 4 * chi - mp.sqrt(k4 / m)) / 2
        q, f = k4 / m, (1 - 3 * e) ** 2
        p1 = (144 + 48 * e + 4 * e**2 + on * (96 * mp.sqrt(2 * e) + 32 * e + 16 * mp.sqrt(2) * e**1.5)) / 576
        c1, e1 = mp.mpf(1) / 24 + p1 / (2 * f), mp.exp(e**2 * (mp.mpf(1) / 6 + 2 * p1 / f))

        def remainder(u):
            u11 = u**6 / 24 * q**1.5 + u**8 / 576 * q**2
            u12 = on * (u**5 / 6 * q**1.25 + u**6 / 36 * q**1.5 + u**7 / 72 * q**1.75)
            return (u11 + u12) / (2 * f) + e1 * (u**8 * q**2 / 2 * c1**2 + u**7 * l * k4 / (6 * m**1.5) * c1)

        def cut(low, high, scale):
            return sorted({low, high} | {p for p in (low + scale * j for j in range(1, 25)) if p < high})

        near = mp.quad(lambda u: mp.exp(-u * u / 2) * remainder(u) / u, cut(mp.mpf(0), a, mp.mpf(2)))
        scale = min(mp.mpf(2), (u_max - a) / 8 if u_max > a else mp.mpf(1)) if d <= 0 else mp.mpf(2)
        middle = mp.quad(lambda u: u * u * mp.exp(-d * u * u), cut(a, u_max, scale)) if a < u_max else mp.mpf(0)
        gauss = mp.gammainc(mp.mpf(3) / 2, a * a / 2) - mp.gammainc(mp.mpf(3) / 2, u_max**2 / 2)
        total = (
            mp.mpf("0.1995") * t / mp.sqrt(m)
            + (mp.mpf("0.031") * t**2 + mp.mpf("0.195") * k4 + mp.mpf("0.054") * l * t + mp.mpf("0.038") * l**2) / m
        )
        total += mp.mpf("81.2376") * t**4 / (16 * pi**4 * m**2) + mp.mpf("4.3394") * l * t**3 / (8 * pi**3 * m**2)
        total += c * k3 / (6 * pi * mp.sqrt(m)) * middle + mp.sqrt(2) * c * l / (6 * pi * mp.sqrt(m)) * gauss
        return total + c / pi * near


LEMMA_POINTS = [  # m, k3, k3_tilde, k4, lambda3; D < 0 where k4/m > 0.364
    (1, 1.2, 2.0, 1.5, 0.5), (10, 1.0, 2.0, 1.0, 0.0), (30, 2.4, 3.2, 9.0, -2.0), (100, 10.0, 11.0, 200.0, 6.0),
    (500, 10.0, 11.0, 182.0, 4.0), (1000, 5.2, 10.4, 9.0, 3.2), (10**4, 9.3, 10.6, 280.0, 9.2),
    (10**5, 1.6, 2.4, 3.0, 0.0),
    (10**6, 8.0, 9.0, 164.0, -7.0), (10**9, 2.0, 3.0, 5.0, 1.0), (10**15, 2.0, 3.0, 5.0, 1.0), (50, 3.0, 4.0, 1e4, 1.0),
]  # fmt: skip


@pytest.mark.parametrize("skewed", [True, False])
@pytest.mark.parametrize("point", LEMMA_POINTS)
def test_lemma_4_3_in_30_digits(point, skewed):
    exact = lemma_in_mpmath(*point, skewed)
    names = ("m", "k3", "k3_tilde", "k4", "lambda3")
    arguments = dict(zip(names, point, strict=True))
    value = lemma_4_3(arguments.pop("m"), skewed=skewed, **arguments)
    assert 0 <= value / exact - 1 < 1e-9  # at least, and to 1e-9


# Above the truth: binomial, gamma, lattices


@pytest.mark.parametrize("q", [0.001, 0.01, 0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("n", [1, 2, 5, 30, 1000, 10**4, 10**6])
def test_bernoulli_sums(n, q):
    leaf = moments_of(np.array([0.0, 1.0]), np.array([1 - q, q]))
    sums = Moments.of_leaves(n, **leaf)
    sd = math.sqrt(n * q * (1 - q))
    k = np.arange(max(0, math.floor(n * q - 12 * sd)), min(n, math.ceil(n * q + 12 * sd)) + 1)
    cdf = stats.binom.cdf(k, n, q)
    r3 = (1 - 2 * q) / sd
    truth = max(abs(cdf - edgeworth((k + shift - n * q) / sd, {3: r3 / 6})).max() for shift in np.linspace(0, 1, 9))
    assert truth <= lemma_4_3(n, **sums.arguments())
    tilde, fourth = sums.k3_tilde / math.sqrt(n), 3 + (1 - 6 * q * (1 - q)) / sd**2

    def cf(u):
        return np.exp(n * np.log1p(q * np.expm1(1j * u / sd)) - 1j * u * n * q / sd)

    by_moments = prawitz(cf, moment_envelope(tilde), coefficients={3: r3 / 6}, fourth_moment=fourth,
                         truncations=[2 * math.pi / tilde], cf_error=1e-12 * (1 + n * q / sd))
    assert truth <= by_moments


@pytest.mark.parametrize("q", [0.01, 0.3, 0.5])
@pytest.mark.parametrize("n", [2, 30, 10**4])
def test_moments_bound_the_characteristic_function(n, q):
    """On a grid of cells, with a slack for a deviation that is off."""
    sums, sd = Moments.of_leaves(n, **moments_of(np.array([0.0, 1.0]), np.array([1 - q, q]))), math.sqrt(n * q * (1 - q))
    edges = np.linspace(0.0, 8.0 * math.sqrt(n) / sums.k3_tilde, 400)
    for slack in (0.0, 1e-3):
        top = moment_envelope(sums.k3_tilde / math.sqrt(n), slack)(edges[:-1], edges[1:])
        for share in (0.0, 0.5, 1.0):
            u = (edges[:-1] * (1 - share) + edges[1:] * share) / sd
            for factor in (1.0 - slack, 1.0 + slack):
                modulus = np.abs(1 - q + q * np.exp(1j * u * factor)) ** n
                assert np.all(modulus <= top * (1 + 1e-12))


def test_signs_attain_the_bound():
    """Rademacher sums: 0.39894/sqrt(m), and Prawitz's bound with the envelope from moments is within 1% at m = 10^6."""
    m = 10**6
    truth = stats.binom.pmf(m // 2, m, 0.5) / 2  # symmetric: F - Phi at the centre is half an atom
    value = prawitz(lambda u: np.exp(m * np.log1p(-2 * np.sin(u / 2e3) ** 2)), moment_envelope(2e-3), coefficients={},
                    fourth_moment=3.0, truncations=[1e3 * math.pi], cf_error=1e-12)
    assert 1 <= value / truth < 1.01


@pytest.mark.parametrize("shape, m", [(1.0, 3), (1.0, 30), (0.5, 100), (0.05, 1000), (2.0, 10**5), (1.0, 10**6)])
def test_gamma_sums(shape, m):
    """Sums of Gamma(shape): Lemma 4.3 and the orders 1 to 3 of `prawitz`."""
    total = m * shape
    first = 2 * shape**shape * math.exp(-shape) / special.gamma(shape)
    third = 2 * (integrate.quad(lambda x: (x - shape) ** 3 * stats.gamma.pdf(x, shape), shape, np.inf)[0]) - 2 * shape
    sums = Moments.of_leaves(
        m, variance=shape, third=2 * shape, fourth=3 * shape**2 + 6 * shape, absolute_third=third, absolute_first=first
    )
    x = np.linspace(-6, 9, 30001)
    cdf = stats.gamma.cdf(np.maximum(total + x * math.sqrt(total), 0), total)
    r3, r4, r5 = 2 / total**0.5, 6 / total, 24 / total**1.5

    def envelope(a, b):
        return np.exp(-total / 2 * np.log1p(a**2 / total))

    def cf(u):
        return np.exp(-total * np.log1p(-1j * u / math.sqrt(total)) - 1j * u * math.sqrt(total))

    truth = abs(cdf - edgeworth(x, terms_of_order(1, r3))).max()
    by_cf = prawitz(cf, envelope, coefficients=terms_of_order(1, r3), fourth_moment=3 + r4, truncations=[100.0, 1e4, 1e12],
                    cf_error=1e-15 * total + 1e-14)
    assert truth <= by_cf <= lemma_4_3(m, **sums.arguments())
    for order in (1, 2, 3):
        terms = terms_of_order(order, r3, r4, r5)
        truth = abs(cdf - edgeworth(x, terms)).max()
        value = prawitz(
            cf,
            envelope,
            coefficients=terms,
            nodes=2000,
            fourth_moment=3 + r4,
            truncations=[1e3, 1e12],
            cf_error=1e-15 * total + 1e-14,
        )
        assert truth <= value
        if total >= 30:
            assert value <= 2 * truth + 1e-5


@pytest.mark.parametrize("shift, factor, r3", [(0.01, 1.0, 0.2), (0.0, 1.01, 0.2), (-0.002, 0.999, 0.21)])
def test_prawitz_needs_no_standardisation(shift, factor, r3):
    """Exponential sums, shifted and stretched, against an expansion with a wrong coefficient: still a bound, and close."""
    total, x = 100.0, np.linspace(-6, 9, 30001)
    cdf = stats.gamma.cdf(np.maximum(total + (x - shift) / factor * math.sqrt(total), 0), total)
    truth = abs(cdf - edgeworth(x, terms_of_order(1, r3))).max()

    def envelope(a, b):
        return np.exp(-total / 2 * np.log1p((factor * a) ** 2 / total))

    def cf(u):
        v = factor * u
        return np.exp(-total * np.log1p(-1j * v / math.sqrt(total)) - 1j * v * math.sqrt(total) + 1j * u * shift)

    for nodes in (200, 1000):
        value = prawitz(cf, envelope, coefficients=terms_of_order(1, r3), fourth_moment=3.4,
                               truncations=[1e3, 1e12], cf_error=1e-12, nodes=nodes)  # fmt: skip
        assert truth <= value <= 2.5 * truth


@pytest.mark.parametrize("seed", range(40))
def test_random_lattices(seed):
    """Up to three kinds of summands on the integers, some symmetric, convolved exactly."""
    rng = np.random.default_rng(seed)
    symmetric, law, leaves = seed % 3 == 0, np.ones(1), []
    for _ in range(1 + seed % 3):
        weights = rng.dirichlet(np.full(6, rng.choice([0.2, 1.0]))) + 1e-3
        weights = weights + weights[::-1] if symmetric else weights
        weights /= weights.sum()
        count = int(rng.integers(1, 60))
        leaves.append((count, moments_of(np.arange(6.0), weights)))
        for _ in range(count):
            law = np.convolve(law, weights)
    merged = {name: np.array([leaf[name] for _, leaf in leaves]) for name in leaves[0][1]}
    if symmetric:
        merged["third"] = np.zeros(len(leaves))
    sums = Moments.of_leaves([count for count, _ in leaves], **merged)
    points = np.arange(law.size) - law @ np.arange(law.size)
    sd = math.sqrt(law @ points**2)
    assert sums.variance == pytest.approx(sd**2, rel=1e-9)
    terms = {3: law @ points**3 / sd**3 / 6}
    truth = max(abs(np.cumsum(law) - edgeworth((points + s) / sd, terms)).max() for s in np.linspace(0, 1, 9))
    assert sums.skewed != symmetric
    assert truth <= lemma_4_3(sums.m, **sums.arguments())

    def cf(u):
        return np.exp(1j * np.outer(u / sd, points)) @ law

    def envelope(a, b):  # |f(u)| <= |f| at the middle + half the length
        return np.abs(cf((a + b) / 2)) + (b - a) / 2

    fourth = law @ points**4 / sd**4
    exact_cf = prawitz(
        cf,
        envelope,
        coefficients=terms,
        cf_error=1e-13,
        fourth_moment=fourth,
        truncations=[3.0, 6.0, math.pi * sd, 6 * sd],
    )
    assert truth <= exact_cf


# PLLRs of the subsampled Gaussian


def gauss_rule(low, high, panels):
    x, w = np.polynomial.legendre.leggauss(30)
    edges = np.linspace(low, high, panels + 1)
    width = np.diff(edges)[:, None]
    return (edges[:-1, None] + width * (x + 1) / 2).ravel(), (width * w / 2).ravel()


def log_ratio(x, p, mu):
    return np.logaddexp(np.log1p(-p), np.log(p) + mu * x - mu**2 / 2)


def pllr(p, mu, panels=60):
    """Centred X1 = L(xi) as values and weights, the rule split at the zero of X1 - E X1; and E X1."""
    x, w = gauss_rule(-13, 13, panels)
    mean = (w * phi(x)) @ log_ratio(x, p, mu)
    kink = (math.log((math.exp(mean) - 1 + p) / p) + mu**2 / 2) / mu
    x, w = map(np.concatenate, zip(gauss_rule(-13, kink, panels), gauss_rule(kink, 13, panels), strict=True))
    return log_ratio(x, p, mu) - mean, w * phi(x), mean


@pytest.mark.parametrize("p, mu, m, reach", [(0.05, 1.0, 1000, 20), (0.2, 0.5, 200, 100), (0.004, 1.25, 10**4, 3),
                                             (0.5, 1.0, 30, 60), (1.0, 0.3, 10, 60)])  # fmt: skip
def test_pllrs(p, mu, m, reach):
    """X1 of the subsampled Gaussian; truth by Gil-Pelaez with step 0.01, exact to 1e-10."""
    with np.errstate(divide="ignore"):
        c, w, _ = pllr(p, mu)
        finer, finer_w, _ = pllr(p, mu, 90)
    variance, third, fourth, fifth = (w @ c**k for k in (2, 3, 4, 5))
    sums = Moments.of_leaves(
        m, variance=variance, third=third, fourth=fourth, absolute_third=w @ abs(c) ** 3, absolute_first=w @ abs(c)
    )
    sd = math.sqrt(m * variance)
    r3, r4 = m * third / sd**3, m * (fourth - 3 * variance**2) / sd**4
    r5 = m * (fifth - 10 * variance * third) / sd**5
    T = reach * math.sqrt(m)
    last = np.linspace(0.8, 1, 50) * T / sd  # the rule resolves the cf up to T
    assert abs(np.exp(1j * np.outer(last, c)) @ w - np.exp(1j * np.outer(last, finer)) @ finer_w).max() < 1e-12

    def cf(u):
        return np.exp(m * np.log1p(np.expm1(1j * np.outer(u / sd, c)) @ w))

    def envelope(a, b):
        """|f_1|^2 has second derivative at most 2 variance: over pieces of length h it is at most its larger end + h^2 variance / 4."""
        a, b = a / sd, b / sd
        pieces = np.maximum(1, np.ceil(2 * math.sqrt(variance) * (b - a))).astype(int)
        first, width = np.cumsum(pieces) - pieces, np.repeat((b - a) / pieces, pieces)
        low = np.repeat(a, pieces) + width * (np.arange(pieces.sum()) - np.repeat(first, pieces))
        ends = [(np.abs(np.exp(1j * np.outer(t, c)) @ w) + 1e-12) ** 2 for t in (low, low + width)]
        largest = np.maximum(*ends) + width**2 * variance / 4 * 1.00001
        return np.exp(np.maximum.reduceat(m / 2 * np.log(np.minimum(largest, 1.0)), first))

    u = (np.arange(3000) + 0.5) * 0.01
    x = np.linspace(-6, 8, 351)
    cdf = 0.5 - np.imag(np.exp(-1j * np.outer(x, u)) @ (cf(u) / u)) * 0.01 / math.pi
    truth = [abs(cdf - edgeworth(x, terms_of_order(k, r3, r4, r5))).max() for k in (1, 2, 3)]
    exact_cf = [
        prawitz(
            cf,
            envelope,
            coefficients=terms_of_order(k, r3, r4, r5),
            fourth_moment=3 + r4,
            truncations=[T / 4, T],
            cf_error=1e-15 * m + 1e-14,
        )
        for k in (1, 2, 3)
    ]
    for true, value in zip(truth, exact_cf, strict=True):
        assert true <= value + 1e-10 and value <= 1.3 * true + 1.6 / T + 3e-7
    assert truth[0] <= lemma_4_3(m, **sums.arguments())


# Behaviour


MODERATE = dict(k3=2.4, k3_tilde=3.2, k4=9.0, lambda3=2.0)


@pytest.mark.parametrize("skewed", [True, False])
def test_monotone(skewed):
    bound = lemma_4_3
    by_m = [bound(m, skewed=skewed, **MODERATE) for m in np.geomspace(10, 1e15, 60)]
    assert np.all(np.diff(by_m) <= 0) and by_m[-1] < 1e-6
    for name in ("k3", "k3_tilde", "k4"):
        values = [bound(5000, skewed=skewed, **(MODERATE | {name: MODERATE[name] * f})) for f in (1.0, 1.5, 3.0, 10.0)]
        assert np.all(np.diff(values) >= 0)
    assert bound(5000, skewed=skewed, **MODERATE) == bound(5000, skewed=skewed, **(MODERATE | {"lambda3": -2.0}))


def test_extremes_are_silent_and_never_nan():
    rng = np.random.default_rng(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for _ in range(100):
            k4 = 10 ** rng.uniform(0, rng.choice([2, 12, 299]))
            k3 = min(10 ** rng.uniform(0, 1 + math.log10(k4)), 1e299)
            arguments = dict(
                k3=k3,
                k3_tilde=k3 * rng.uniform(0.01, 2),
                k4=k4,
                lambda3=k3 * rng.uniform(-1, 1),
                skewed=bool(rng.integers(2)),
            )
            assert lemma_4_3(10 ** rng.uniform(0, 15), **arguments) > 0


def test_moments_of_leaves():
    exponential = dict(variance=1.0, third=2.0, fourth=9.0)
    known = Moments.of_leaves(50, absolute_third=12 / math.e - 2, absolute_first=2 / math.e, **exponential)
    assert (known.m, known.variance, known.k4, known.lambda3) == (50, 50, 9, 2) and known.skewed
    assert known.k3_tilde == pytest.approx(14 / math.e - 2)
    unknown = Moments.of_leaves(50, **exponential)
    assert (unknown.k3, unknown.k3_tilde) == (3.0, 4.0)
    assert lemma_4_3(50, **unknown.arguments()) >= lemma_4_3(50, **known.arguments())
    split = Moments.of_leaves([20, 30], **{k: [v, v] for k, v in exponential.items()})
    assert split.arguments() == pytest.approx(unknown.arguments())
    scaled = Moments.of_leaves(50, variance=1e-8, third=2e-12, fourth=9e-16)
    assert scaled.arguments() == pytest.approx(unknown.arguments())
