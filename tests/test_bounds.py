"""The finite-sample bounds: above the truth, below the R package, equal to the formula in 30 digits.

No expected value is produced by the code under test. Truth is exact (binomial, gamma, convolved lattices), or comes
from an inversion of the cf (Gil-Pelaez), from mpmath or from the R package (golden/bound_edgeworth_r.json).
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import pathlib
import warnings

import mpmath
import numpy as np
import pytest
from scipy import integrate, special, stats

from dp_edgeworth.paper import bounds

pytestmark = pytest.mark.filterwarnings("error")
GOLDEN = json.loads((pathlib.Path(__file__).parent / "golden" / "bound_edgeworth_r.json").read_text())
C = 1.0253


def phi(x):
    return np.exp(-np.square(x) / 2) / math.sqrt(2 * math.pi)


def edgeworth(x, terms):
    """Phi - phi sum_s c_s He_{s-1}, written out independently of `bounds`."""
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


# The R package


def r_arguments(case):
    moments, setup = case["effective"], case["setup"]
    return dict(
        k3=moments["K3"],
        k3_tilde=moments["K3tilde"],
        k4=case["K4"],
        lambda3=moments["lambda3"],
        skewed=not setup["no_skewness"],
        iid=setup["iid"],
    )


def r_value(value):
    return math.inf if isinstance(value, str) else value


def r_integral(case, correct=True):
    """int_a^b |f_S(u)|/u du from the assumption of the case; the package forgot 1/p."""
    regularity = case["regularity"]
    if "kappa" in regularity:
        return lambda a, b: regularity["kappa"] ** case["n"] * math.log(b / a)
    c0, p = regularity["C0"], regularity["p"]
    return lambda a, b: c0 * (a**-p - b**-p) / (p if correct else 1.0)


def test_golden_file_is_the_whole_reference():
    cases = GOLDEN["cases"]
    assert len(cases) == 450
    assert sum(not case["setup"]["continuity"] for case in cases) == 203
    assert [case["id"] for case in cases if isinstance(case["Bound_EE1"], str) and not case["setup"]["continuity"]] == [
        533
    ]
    assert sum(case["regularity"].get("p", 1) < 1 for case in cases) == 14


def test_sharp_is_never_above_the_r_package():
    compared = [case for case in GOLDEN["cases"] if not case["setup"]["continuity"]]
    assert len(compared) == 203  # all of them; in one the package overflows to Inf
    for case in compared:
        assert bounds.sharp(case["n"], **r_arguments(case)) <= r_value(case["Bound_EE1"]), case["id"]
        assert bounds.berry_esseen(case["n"], **r_arguments(case)) <= r_value(case["Bound_BE"]), case["id"]


def test_sharp_smooth_is_never_above_the_r_package():
    compared = [case for case in GOLDEN["cases"] if case["setup"]["continuity"]]
    assert len(compared) == 247
    for case in compared:
        integral = r_integral(case, correct=case["regularity"].get("p", 1) >= 1)  # errata: 1/p is missing in R
        value = bounds.sharp_smooth(case["n"], cf_integral=integral, **r_arguments(case))
        assert value <= r_value(case["Bound_EE1"]), case["id"]


def test_the_r_package_is_too_small_where_it_forgot_a_factor():
    """With the integral that p = 1/2 really gives, ours is above the package: 9 of the 14 cases."""
    cases = [case for case in GOLDEN["cases"] if case["regularity"].get("p", 1) < 1]
    above = [
        bounds.sharp_smooth(case["n"], cf_integral=r_integral(case), **r_arguments(case)) > case["Bound_EE1"]
        for case in cases
    ]
    assert sum(above) == 9


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
    value = bounds.lemma_4_3(arguments.pop("m"), skewed=skewed, **arguments)
    assert 0 <= value / exact - 1 < 1e-9  # at least, and to 1e-9


# sharp against an independent evaluation of its formula


def sharp_by_quad(m, k3, tilde, k4, l3, iid):
    """formulas.md 4.2 with scipy's adaptive quadrature (skewed)."""
    n, l, ee = m, abs(l3), tilde / math.sqrt(m)
    T, chi = 2 * math.pi / ee, 0.09916191351477187

    def psi(u):
        return u * u / 2 - chi * ee * u**3 if ee * u <= 3.995895679 else (1 - math.cos(ee * u)) / ee**2

    def kernel(t):
        return abs(complex(1 - t, (1 - t) / math.tan(math.pi * t) + 1 / math.pi)) / 2

    def modulus(u):
        return math.exp(-u * u / 2) * (1 + l * u**3 / (6 * math.sqrt(n)))

    def difference(u):
        v = u * u / (2 * n) if iid else u * u * math.sqrt(k4 / n) / 2
        w = math.inf if v >= 1 else u**4 / n * (k4 / 24 + (1 if iid else k4) / (8 * (1 - v)))
        local = math.exp(-u * u / 2) * (l**2 * u**6 / (72 * n) + w * math.exp(w)) if w < 700 else math.inf
        exponent = -(1 - 1 / n) * psi(u) if iid else -psi(u) + u * u * math.sqrt(k4 / n) / 2
        cube = u**3 / (6 * math.sqrt(n))
        return min(
            local, k3 * cube * math.exp(exponent) + l * cube * math.exp(-u * u / 2), math.exp(-psi(u)) + modulus(u)
        )

    def integral(function, low, high):
        edges = np.linspace(low, high, 200)
        return sum(integrate.quad(function, p, q, epsrel=1e-9)[0] for p, q in itertools.pairwise(edges))

    o1 = integral(
        lambda t: abs((1 - t) * complex(1, 1 / math.tan(math.pi * t) - 1 / (math.pi * t))) * modulus(T * t),
        1e-9,
        1 / math.pi,
    )
    o1 += special.exp1(2 / ee**2) / (2 * math.pi)
    o1 += l * special.gammaincc(1.5, 2 / ee**2) * special.gamma(1.5) / (3 * math.sqrt(2) * math.pi * math.sqrt(n))
    o2 = integral(lambda t: 2 * kernel(t) * math.exp(-psi(T * t)), 1 / math.pi, 1 - 1e-12)
    return o1 + o2 + integral(lambda t: 2 * kernel(t) * difference(T * t), 1e-9, 1 / math.pi)


@pytest.mark.parametrize("iid", [True, False])
@pytest.mark.parametrize(
    "point", [(300, 2.4, 3.2, 9.0, 2.0), (1000, 4.1, 4.7, 31.0, 3.9), (10**4, 9.3, 10.6, 280.0, 9.2)]
)
def test_sharp_is_its_formula_from_above(point, iid):
    m, k3, tilde, k4, l3 = point
    value = bounds.sharp(m, k3=k3, k3_tilde=tilde, k4=k4, lambda3=l3, iid=iid)
    assert 0 <= value / sharp_by_quad(m, k3, tilde, k4, l3, iid) - 1 < 1e-4


# Above the truth: binomial, gamma, lattices


@pytest.mark.parametrize("q", [0.001, 0.01, 0.1, 0.3, 0.5, 0.9])
@pytest.mark.parametrize("n", [1, 2, 5, 30, 1000, 10**4, 10**6])
def test_bernoulli_sums(n, q):
    leaf = moments_of(np.array([0.0, 1.0]), np.array([1 - q, q]))
    sums = bounds.Moments.of_leaves(n, **leaf)
    sd = math.sqrt(n * q * (1 - q))
    k = np.arange(max(0, math.floor(n * q - 12 * sd)), min(n, math.ceil(n * q + 12 * sd)) + 1)
    cdf = stats.binom.cdf(k, n, q)
    r3 = (1 - 2 * q) / sd
    truth = max(abs(cdf - edgeworth((k + shift - n * q) / sd, {3: r3 / 6})).max() for shift in np.linspace(0, 1, 9))
    values = [bounds.sharp(n, iid=iid, **sums.arguments()) for iid in (True, False)]
    values.append(bounds.lemma_4_3(n, **sums.arguments()))
    assert truth <= values[0] <= values[1] <= values[2]
    normal = max(abs(cdf - special.ndtr((k + shift - n * q) / sd)).max() for shift in (0, 1))
    assert normal <= bounds.berry_esseen(n, iid=True, **sums.arguments()) <= 0.5410


def test_signs_attain_the_bound():
    """Rademacher sums: 0.39894/sqrt(m), and `sharp` is within 0.03% at m = 10^6."""
    m = 10**6
    truth = stats.binom.pmf(m // 2, m, 0.5) / 2  # symmetric: F - Phi at the centre is half an atom
    value = bounds.sharp(m, k3=1, k3_tilde=2, k4=1, lambda3=0, skewed=False, iid=True)
    assert 1 <= value / truth < 1.0003


@pytest.mark.parametrize("shape, m", [(1.0, 3), (1.0, 30), (0.5, 100), (0.05, 1000), (2.0, 10**5), (1.0, 10**6)])
def test_gamma_sums(shape, m):
    """Sums of Gamma(shape): all four bounds and the orders 1 to 3 of `prawitz`."""
    total = m * shape
    first = 2 * shape**shape * math.exp(-shape) / special.gamma(shape)
    third = 2 * (integrate.quad(lambda x: (x - shape) ** 3 * stats.gamma.pdf(x, shape), shape, np.inf)[0]) - 2 * shape
    sums = bounds.Moments.of_leaves(
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
    integral = functools.partial(bounds.envelope_integral, envelope)
    values = [
        bounds.prawitz(
            cf,
            envelope,
            coefficients=bounds.expansion_coefficients(1, r3),
            fourth_moment=3 + r4,
            truncations=[100.0, 1e4, 1e12],
            cf_error=1e-15 * total + 1e-14,
        )
    ]
    values += [bounds.sharp_smooth(m, iid=iid, cf_integral=integral, **sums.arguments()) for iid in (True, False)]
    values += [bounds.sharp(m, iid=iid, **sums.arguments()) for iid in (True, False)]
    values.append(bounds.lemma_4_3(m, **sums.arguments()))
    assert truth <= min(values)
    assert values[0] <= min(values) and values[3] <= values[4] <= values[5]
    for order in (1, 2, 3):
        terms = terms_of_order(order, r3, r4, r5)
        truth = abs(cdf - edgeworth(x, terms)).max()
        value = bounds.prawitz(
            cf,
            envelope,
            coefficients=bounds.expansion_coefficients(order, r3, r4, r5),
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
        value = bounds.prawitz(cf, envelope, coefficients=bounds.expansion_coefficients(1, r3), fourth_moment=3.4,
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
    sums = bounds.Moments.of_leaves([count for count, _ in leaves], **merged)
    points = np.arange(law.size) - law @ np.arange(law.size)
    sd = math.sqrt(law @ points**2)
    assert sums.variance == pytest.approx(sd**2, rel=1e-9)
    terms = {3: law @ points**3 / sd**3 / 6}
    truth = max(abs(np.cumsum(law) - edgeworth((points + s) / sd, terms)).max() for s in np.linspace(0, 1, 9))
    assert sums.skewed != symmetric and sums.iid == (len(leaves) == 1)
    value = bounds.sharp(sums.m, iid=sums.iid, **sums.arguments())
    assert truth <= value <= bounds.lemma_4_3(sums.m, **sums.arguments())
    if symmetric:
        assert value <= bounds.sharp(sums.m, iid=sums.iid, **(sums.arguments() | {"skewed": True})) * 1.2

    def cf(u):
        return np.exp(1j * np.outer(u / sd, points)) @ law

    def envelope(a, b):  # |f(u)| <= |f| at the middle + half the length
        return np.abs(cf((a + b) / 2)) + (b - a) / 2

    fourth = law @ points**4 / sd**4
    exact_cf = bounds.prawitz(
        cf,
        envelope,
        coefficients=bounds.expansion_coefficients(1, 6 * terms[3]),
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
    sums = bounds.Moments.of_leaves(
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

    envelope = bounds.leaf_envelope(lambda t: np.exp(1j * np.outer(t, c)) @ w, count=m, variance=variance, error=1e-12)
    edges = np.geomspace(1, T, 200)
    top = envelope(edges[:-1], edges[1:])
    for position in (0.0, 0.3, 0.7, 1.0):
        assert np.all(np.abs(cf(edges[:-1] ** (1 - position) * edges[1:] ** position)) <= top + 1e-15)

    u = (np.arange(3000) + 0.5) * 0.01
    x = np.linspace(-6, 8, 351)
    cdf = 0.5 - np.imag(np.exp(-1j * np.outer(x, u)) @ (cf(u) / u)) * 0.01 / math.pi
    truth = [abs(cdf - edgeworth(x, terms_of_order(k, r3, r4, r5))).max() for k in (1, 2, 3)]
    exact_cf = [
        bounds.prawitz(
            cf,
            envelope,
            coefficients=bounds.expansion_coefficients(k, r3, r4, r5),
            fourth_moment=3 + r4,
            truncations=[T / 4, T],
            cf_error=1e-15 * m + 1e-14,
        )
        for k in (1, 2, 3)
    ]
    for true, value in zip(truth, exact_cf, strict=True):
        assert true <= value + 1e-10 and value <= 1.3 * true + 1.6 / T + 3e-7
    smooth = bounds.sharp_smooth(
        m,
        iid=True,
        cf_integral=functools.partial(bounds.envelope_integral, envelope),
        truncations=[T / 4, T],
        **sums.arguments(),
    )
    moments_only = [bounds.sharp(m, iid=iid, **sums.arguments()) for iid in (True, False)]
    assert truth[0] <= smooth <= moments_only[0] <= moments_only[1] <= bounds.lemma_4_3(m, **sums.arguments())


# Tails


def lower_tail(cdfs, low, high, epsilon, steps=2**14):
    """A lower bound of P(sum X >= epsilon): every X rounded down to a lattice, masses convolved; cdfs: (cdf, count)."""
    step = (high - low) / steps
    count = sum(n for _, n in cdfs)
    size = 2 ** math.ceil(math.log2(steps * count + 1))
    transform = np.ones(size // 2 + 1, complex)
    for cdf, n in cdfs:
        values = cdf(low + step * np.arange(steps + 1))
        transform *= np.fft.rfft(np.diff(values), size) ** n  # mass above `high` is dropped
    sums = np.fft.irfft(transform, size)
    first = math.ceil((epsilon - count * low) / step + 1e-9)
    return float(np.clip(sums, 0, None)[max(first, 0) :].sum() - 1e-13 * size**0.5)


def gaussian_cdf(p, mu):
    """P(L(xi) <= y)."""

    def cdf(y):
        r = np.maximum((np.exp(y) - 1 + p) / p, 1e-300)
        return special.ndtr((np.log(r) + mu**2 / 2) / mu)

    return cdf


def laplace_cdf(p, mu, direction):
    """P(X1 < y) for direction 1, P(X2 < y) for 2, from the law of xi; left-continuous, so atoms are rounded down."""

    def ratio_cdf(y, side, strict):
        r = np.maximum((np.exp(y) - 1 + p) / p, 1e-300)
        x = (np.log(r) + mu) / 2  # L(x) = y inside (0, mu)
        laplace = [
            np.where(z < 0, np.exp(np.minimum(z, 0)) / 2, 1 - np.exp(-np.maximum(z, 0)) / 2) for z in (x, x - mu)
        ]
        inside = laplace[0] if side == 0 else (1 - p) * laplace[0] + p * laplace[1]
        bottom, top = np.log1p(p * np.expm1(-mu)), np.log1p(p * np.expm1(mu))
        below, above = (y <= bottom, y > top) if strict else (y < bottom, y >= top)
        return np.where(below, 0.0, np.where(above, 1.0, inside))

    if direction == 1:
        return lambda y: ratio_cdf(y, 0, True)
    return lambda y: 1 - ratio_cdf(-y, 1, False)


@pytest.mark.parametrize("p", [0.01, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("mu", [0.3, 1.0, 3.0])
@pytest.mark.parametrize("m", [1, 3, 20])
def test_gaussian_tails(p, mu, m):
    c, w, mean = pllr(p, mu)
    x, weights = c + mean, w
    for epsilon in (-0.2, 0.0, 0.1, 0.5, 2.0):
        true = lower_tail([(gaussian_cdf(p, mu), m)], math.log1p(-p) - 1e-9, log_ratio(8.0, p, mu), epsilon)
        chernoff = bounds.chernoff_tail(
            lambda s: m * np.log(np.exp(np.outer(np.minimum(s, 40.0), x)) @ weights) + np.where(s > 40, np.inf, 0),
            epsilon,
        )
        lipschitz = bounds.lipschitz_tail(m, mean=mean, proxy_variance=mu**2, epsilon=epsilon)
        paper = bounds.theorem_4_5_tail(m, sampling_probability=p, mu=mu, epsilon=epsilon)
        assert true <= chernoff <= 1
        assert chernoff <= lipschitz * (1 + 1e-6) and lipschitz <= paper <= 1


@pytest.mark.parametrize("p", [0.01, 0.3, 1.0])
@pytest.mark.parametrize("mu", [0.3, 2.0])
@pytest.mark.parametrize("direction", [1, 2])
def test_laplace_tails(p, mu, direction):
    ends = sorted(
        s * float(np.log1p(p * np.expm1(t * mu))) for t in (1, -1) for s in ((1,) if direction == 1 else (-1,))
    )
    for m in (1, 4, 25):
        for epsilon in (-0.1, 0.0, 0.05, 0.5, 2.0):
            true = lower_tail([(laplace_cdf(p, mu, direction), m)], ends[0] - 1e-9, ends[1] + 1e-6, epsilon)
            assert true <= bounds.laplace_tail(m, sampling_probability=p, mu=mu, epsilon=epsilon) <= 1


def test_tails_of_mixed_compositions():
    low, high = math.log1p(-0.3) - 1e-9, log_ratio(8.0, 0.3, 1.0)
    true = lower_tail([(gaussian_cdf(0.3, 1.0), 5), (gaussian_cdf(0.1, 0.5), 9)], low, high, 0.5)
    leaves = dict(sampling_probability=[0.3, 0.1], mu=[1.0, 0.5], epsilon=0.5)
    means = [pllr(0.3, 1.0)[2], pllr(0.1, 0.5)[2]]
    assert true <= bounds.lipschitz_tail([5, 9], mean=means, proxy_variance=[1.0, 0.25], epsilon=0.5) < 1
    assert true <= bounds.theorem_4_5_tail([5, 9], **leaves)
    low = float(np.log1p(0.3 * np.expm1(-1.0))) - 1e-9
    true = lower_tail([(laplace_cdf(0.3, 1.0, 1), 5), (laplace_cdf(0.1, 0.5, 1), 9)], low, 0.5, 0.5)
    assert true <= bounds.laplace_tail([5, 9], **leaves) < 1


@pytest.mark.parametrize("tail", [bounds.theorem_4_5_tail, bounds.laplace_tail])
def test_equal_leaves_add_up(tail):
    epsilon = 150.0 if tail is bounds.theorem_4_5_tail else 30.0
    whole = tail(700, sampling_probability=0.2, mu=0.7, epsilon=epsilon)
    assert 0 < whole < 1
    assert tail([300, 400], sampling_probability=0.2, mu=[0.7, 0.7], epsilon=epsilon) == pytest.approx(whole, rel=1e-12)


@pytest.mark.parametrize("p, mu", [(0.01, 0.5), (0.3, 1.0), (0.9, 4.0)])
def test_theorem_4_5_by_quadrature(p, mu):
    """The best a on a grid of 0.1, by scipy: the bound is above it, by less than 1e-4."""
    m, epsilon, best = 50, 20.0, math.inf
    for a in np.arange(-119, 120) / 10:
        density = special.ndtr(-a)
        mean_above = math.exp(stats.norm.logpdf(a) - stats.norm.logsf(a))
        top = log_ratio(a, p, mu) + mu * (mean_above - a)
        edges = np.linspace(-13, a, 12)
        below = sum(
            integrate.quad(lambda x: log_ratio(x, p, mu) * phi(x), lo, hi, epsabs=1e-13)[0]
            for lo, hi in itertools.pairwise(edges)
        )
        gap = epsilon - m * (below + density * top)
        tau2 = max((top - math.log1p(-p)) ** 2 / 4, mu**2)
        if gap >= 0:
            best = min(best, 2 * math.exp(-(gap**2) / (8 * m * tau2)))
    value = bounds.theorem_4_5_tail(m, sampling_probability=p, mu=mu, epsilon=epsilon)
    assert 0 <= value / min(best, 1) - 1 + 1e-12 < 1e-4


@pytest.mark.parametrize("p, mu", [(1e-6, 0.1), (0.01, 1.0), (0.5, 3.0), (1.0, 20.0)])
def test_laplace_proposition_in_mpmath(p, mu):
    with mpmath.workdps(30):
        mp = mpmath.mp
        p_, mu_ = mp.mpf(p), mp.mpf(mu)

        def r(x):
            return 1 - p_ + p_ * mp.exp(abs(x) - abs(x - mu_))

        cuts = [mu_ * j / 20 for j in range(21)]
        below, above = r(mp.mpf(-1)), r(mu_ + 1)
        kl1 = -(mp.log(below) + mp.exp(-mu_) * mp.log(above)) / 2 - mp.quad(
            lambda x: mp.exp(-x) / 2 * mp.log(r(x)), cuts
        )
        kl2 = (below * mp.log(below) + mp.exp(-mu_) * above * mp.log(above)) / 2
        kl2 += mp.quad(lambda x: mp.exp(-x) / 2 * r(x) * mp.log(r(x)), cuts)
        m = mp.mpf(10) / (min(kl1, kl2) + p_**2)
        tau = mp.log(above) - mp.log(below)
        exact = mp.exp(-2 * (mp.mpf(0.25) * tau + m * min(kl1, kl2)) ** 2 / (m * tau**2))
        epsilon = float(tau / 4)
    value = bounds.laplace_tail(max(1.0, float(m)), sampling_probability=p, mu=mu, epsilon=epsilon)
    if m >= 1:
        assert -1e-12 <= value / exact - 1 < 1e-6


def test_chernoff_is_the_large_deviation_rate():
    assert bounds.chernoff_tail(lambda s: s**2 / 2, 7.0) == pytest.approx(math.exp(-24.5), rel=1e-6)
    assert bounds.chernoff_tail(lambda s: 1e8 * s**2 / 2 - 1e8 * s, 0.0) == 0.0
    assert bounds.chernoff_tail(lambda s: s**2 / 2, -1.0) == 1.0
    assert bounds.chernoff_tail(lambda s: np.full_like(s, np.nan), 1.0) == 1.0
    n, q, k = 100, 0.1, 20
    value = bounds.chernoff_tail(lambda s: n * np.logaddexp(np.log(1 - q), np.log(q) + s), k)
    rate = math.exp(-n * (0.2 * math.log(0.2 / q) + 0.8 * math.log(0.8 / (1 - q))))
    assert stats.binom.sf(k - 1, n, q) <= value == pytest.approx(rate, rel=1e-6)
    assert bounds.chernoff_tail(lambda s: n * np.logaddexp(np.log(1 - q), np.log(q) + s), n + 1) < 1e-300  # impossible


# Behaviour


MODERATE = dict(k3=2.4, k3_tilde=3.2, k4=9.0, lambda3=2.0)


@pytest.mark.parametrize("bound", [bounds.sharp, bounds.lemma_4_3, bounds.berry_esseen])
@pytest.mark.parametrize("skewed", [True, False])
def test_monotone(bound, skewed):
    by_m = [bound(m, skewed=skewed, **MODERATE) for m in np.geomspace(10, 1e15, 60)]
    assert np.all(np.diff(by_m) <= 0) and by_m[-1] < 1e-6
    for name in ("k3", "k3_tilde", "k4"):
        values = [bound(5000, skewed=skewed, **(MODERATE | {name: MODERATE[name] * f})) for f in (1.0, 1.5, 3.0, 10.0)]
        assert np.all(np.diff(values) >= 0)
    assert bound(5000, skewed=skewed, **MODERATE) == bound(5000, skewed=skewed, **(MODERATE | {"lambda3": -2.0}))


def test_tails_fall_with_epsilon():
    grid = np.linspace(-2, 40, 60)
    for tail in (bounds.theorem_4_5_tail, bounds.laplace_tail):
        assert np.all(np.diff([tail(100, sampling_probability=0.3, mu=1.0, epsilon=e) for e in grid]) <= 0)
    lipschitz = [bounds.lipschitz_tail(100, mean=-0.05, proxy_variance=1.0, epsilon=e) for e in grid]
    assert np.all(np.diff(lipschitz) <= 0)


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
            m, iid = 10 ** rng.uniform(0, 15), bool(rng.integers(2))
            sharp = bounds.sharp(m, iid=iid, **arguments)
            smooth = bounds.sharp_smooth(m, iid=iid, cf_integral=lambda a, b: 0.0, **arguments)
            lemma, normal = bounds.lemma_4_3(m, **arguments), bounds.berry_esseen(m, iid=iid, **arguments)
            assert 0 < sharp and 0 < smooth and sharp <= lemma and 0 < normal <= 0.5410
        for p in (1e-12, 0.5, 1.0):
            for mu in (1e-6, 1.0, 50.0, 1e4):
                for m in (1, 1e15):
                    for epsilon in (-1e6, 0.0, 1e3, 1e300):
                        for tail in (bounds.theorem_4_5_tail, bounds.laplace_tail):
                            assert 0 <= tail(m, sampling_probability=p, mu=mu, epsilon=epsilon) <= 1
        assert 0 <= bounds.lipschitz_tail(1e15, mean=-1e300, proxy_variance=1e-300, epsilon=1e300) <= 1


def test_a_vacuous_bound_allows_for_expansions_outside_the_unit_interval():
    """One Bernoulli(1e-6): |F - E_1| reaches about |lambda3| phi(0)/6 = 66, so clipping at 1 would be wrong."""
    leaf = moments_of(np.array([0.0, 1.0]), np.array([1 - 1e-6, 1e-6]))
    sums = bounds.Moments.of_leaves(1, **leaf)
    truth = abs(1 - edgeworth(np.array(0.0), {3: sums.lambda3 / 6}))
    assert 60 < truth <= bounds.sharp(1, **sums.arguments())


def test_moments_of_leaves():
    exponential = dict(variance=1.0, third=2.0, fourth=9.0)
    known = bounds.Moments.of_leaves(50, absolute_third=12 / math.e - 2, absolute_first=2 / math.e, **exponential)
    assert (known.m, known.variance, known.k4, known.lambda3) == (50, 50, 9, 2) and known.skewed and known.iid
    assert known.k3_tilde == pytest.approx(14 / math.e - 2)
    unknown = bounds.Moments.of_leaves(50, **exponential)
    assert (unknown.k3, unknown.k3_tilde) == (3.0, 4.0)
    assert bounds.sharp(50, **unknown.arguments()) >= bounds.sharp(50, **known.arguments())
    split = bounds.Moments.of_leaves([20, 30], **{k: [v, v] for k, v in exponential.items()})
    assert not split.iid and split.arguments() == pytest.approx(unknown.arguments())
    scaled = bounds.Moments.of_leaves(50, variance=1e-8, third=2e-12, fourth=9e-16)
    assert scaled.arguments() == pytest.approx(unknown.arguments())


@pytest.mark.parametrize("change", [
    {"m": 0}, {"m": math.nan}, {"m": math.inf}, {"m": "ten"}, {"m": [1, 2]}, {"k3": -1.0}, {"k3": 0.0},
    {"k3": math.nan},
    {"k3_tilde": 0.0}, {"k3_tilde": math.inf}, {"k4": 0.5}, {"k4": None}, {"lambda3": 7.0}, {"lambda3": math.nan},
])  # fmt: skip
@pytest.mark.parametrize("bound", [bounds.lemma_4_3, bounds.sharp, bounds.berry_esseen])
def test_bad_moments(bound, change):
    arguments = {"m": 100} | MODERATE | change
    (name,) = change
    with pytest.raises(ValueError, match=rf"`{name}` must be .*\. Found .*\."):
        bound(arguments.pop("m"), **arguments)


@pytest.mark.parametrize("call, name", [
    (lambda: bounds.theorem_4_5_tail(0, sampling_probability=0.1, mu=1, epsilon=1), "m"),
    (lambda: bounds.theorem_4_5_tail(1, sampling_probability=1.1, mu=1, epsilon=1), "sampling_probability"),
    (lambda: bounds.laplace_tail(1, sampling_probability=0, mu=1, epsilon=1), "sampling_probability"),
    (lambda: bounds.laplace_tail(1, sampling_probability=0.5, mu=-1, epsilon=1), "mu"),
    (lambda: bounds.laplace_tail([], sampling_probability=0.5, mu=1, epsilon=1), "m"),
    (lambda: bounds.laplace_tail(1, sampling_probability=0.5, mu=1, epsilon=math.inf), "epsilon"),
    (lambda: bounds.lipschitz_tail(1, mean=math.nan, proxy_variance=1, epsilon=1), "mean"),
    (lambda: bounds.lipschitz_tail(1, mean=0, proxy_variance=0, epsilon=1), "proxy_variance"),
    (lambda: bounds.chernoff_tail(lambda s: s, math.nan), "epsilon"),
    (lambda: bounds.Moments.of_leaves(0, variance=1, third=0, fourth=1), "count"),
    (lambda: bounds.Moments.of_leaves(1, variance=-1, third=0, fourth=1), "variance"),
    (lambda: bounds.Moments.of_leaves(1, variance=1, third=0, fourth=0.5), "fourth"),
    (lambda: bounds.Moments.of_leaves(1, variance=1, third=5, fourth=2), "third"),
    (lambda: bounds.expansion_coefficients(4, 0.1), "order"),
    (lambda: bounds.sharp_smooth(9, cf_integral=lambda a, b: 0.0, truncations=[0.0], **MODERATE), "truncations"),
    (lambda: bounds.prawitz(np.exp, np.add, coefficients={}, fourth_moment=0.5, truncations=1.0), "fourth_moment"),
    (lambda: bounds.leaf_envelope(np.exp, count=1, variance=0.0), "variance"),
])  # fmt: skip
def test_bad_input(call, name):
    with pytest.raises(ValueError, match=rf"`[^`]*{name}[^`]*` must .*Found .*\."):
        call()
