"""The expansions against 30-digit evaluations of their definitions, written here in other ways than there."""

import functools
import math
import warnings

import numpy as np
import pytest
from mpmath import mp
from scipy import stats

from dp_edgeworth.paper import expansion

DIGITS = 50  # 30 after the worst cancellation in the plain references


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings(), np.errstate(all="raise"), mp.workdps(DIGITS):
        warnings.simplefilter("error")
        yield


# --- references ---


def density_coefficients(kappa, order):
    """b_n: coefficients of t^n in exp(sum_{j=1..k} rho_{j+2} t^{j+2} h^j / (j+2)!) up to h^k, at h = 1."""
    kappa = [mp.mpf(float(value)) for value in kappa]
    exponent = [
        {j + 2: kappa[j + 1] / mp.sqrt(kappa[1]) ** (j + 2) / math.factorial(j + 2)}
        for j in range(1, order + 1)
    ]
    powers = [{0: mp.mpf(1)}]
    for n in range(1, order + 1):  # n e_n = sum_j j s_j e_{n-j} for e = exp(s)
        new = {}
        for j in range(1, n + 1):
            for p, u in exponent[j - 1].items():
                for q, v in powers[n - j].items():
                    new[p + q] = new.get(p + q, 0) + mp.mpf(j) / n * u * v
        powers.append(new)
    result = [mp.mpf(0)] * (3 * order + 1)
    for power in powers:
        for p, value in power.items():
            result[p] += value
    return result


@functools.cache
def hermite_polynomial(n):
    """Coefficients of He_n, highest first: He_n = x He_{n-1} - He_{n-1}'."""
    if n == 0:
        return (1,)
    lower = hermite_polynomial(n - 1)
    derivative = [(len(lower) - 1 - i) * value for i, value in enumerate(lower[:-1])]
    return tuple(u - v for u, v in zip((*lower, 0), (0, 0, *derivative), strict=True))


def hermite(n, x):
    return functools.reduce(
        lambda total, coefficient: total * x + coefficient, hermite_polynomial(n), mp.mpf(0)
    )


def phi(x):
    return mp.exp(-x * x / 2) / mp.sqrt(2 * mp.pi)


def survival(x, kappa, order):
    b = density_coefficients(kappa, order)
    return mp.erfc(x / mp.sqrt(2)) / 2 + phi(x) * sum(b[n] * hermite(n - 1, x) for n in range(1, len(b)))


def plain_reference(eps, x_kappa, y_kappa, order):
    eps = mp.mpf(float(eps))
    x, y = ((eps - mp.mpf(float(k[0]))) / mp.sqrt(mp.mpf(float(k[1]))) for k in (x_kappa, y_kappa))
    return survival(y, y_kappa, order) - mp.exp(eps) * survival(x, x_kappa, order)


def edgeworth_density(kappa, order):
    """The order-k density of the unstandardised law, as a function of u."""
    b, mean, spread = (
        density_coefficients(kappa, order),
        mp.mpf(float(kappa[0])),
        mp.sqrt(mp.mpf(float(kappa[1]))),
    )

    def density(u):
        x = (u - mean) / spread
        return phi(x) * sum(b[n] * hermite(n, x) for n in range(len(b)) if b[n]) / spread

    return density


def half_line(function, scale):
    points = [scale * mp.mpf(p) for p in (0, 1, 4, 10, 25, 60)]
    return mp.quad(function, points)


def tilted_quadrature(eps, c, log_mgf, kappa, order):
    """The tilted expansion of both distribution functions, by adaptive quadrature."""
    eps, c, log_mgf = (mp.mpf(float(v)) for v in (eps, c, log_mgf))
    f, spread = edgeworth_density(kappa, order), mp.sqrt(mp.mpf(float(kappa[1])))
    if c > 0:
        width = min(spread, 1 / c)
        inner = min(width, mp.mpf(1))
        weight = lambda u: mp.exp(-c * u) * -mp.expm1(-u) * f(eps + u)  # noqa: E731
        points = sorted({p * w for p in (0, 1, 4, 10, 25, 60) for w in (inner, width) if p * w <= 60 * width})
        return mp.exp(log_mgf - c * eps) * mp.quad(weight, points)
    above = half_line(lambda u: mp.exp(-(c + 1) * u) * f(eps + u), min(spread, 1 / (c + 1)))
    below = half_line(lambda u: mp.exp(c * u) * f(eps - u), min(spread, 1 / -c) if c else spread)
    return 1 - mp.exp(log_mgf - c * eps) * (above + below)


def half_line_integrals(rate, shift, degree):
    """int_0^inf e^{-rate z} phi(shift+z) He_n(shift+z) dz for n = 0..degree, by parts: needs many digits."""
    t = rate + shift
    results = [phi(shift) * mp.sqrt(mp.pi / 2) * mp.exp(t * t / 2) * mp.erfc(t / mp.sqrt(2))]
    for n in range(1, degree + 1):
        results.append(phi(shift) * hermite(n - 1, shift) - rate * results[-1])
    return results


def tilted_closed_form(eps, c, log_mgf, kappa, order):
    """As `tilted_quadrature`, with the integrals in closed form at 500 digits."""
    with mp.workdps(500):
        b = density_coefficients(kappa, order)
        eps, c, log_mgf, mean = (mp.mpf(float(v)) for v in (eps, c, log_mgf, kappa[0]))
        spread = mp.sqrt(mp.mpf(float(kappa[1])))
        shift = (eps - mean) / spread
        near = half_line_integrals((c + 1) * spread, shift, len(b) - 1)
        if c > 0:
            far = half_line_integrals(c * spread, shift, len(b) - 1)
            return mp.exp(log_mgf - c * eps) * sum(w * (u - v) for w, u, v in zip(b, far, near, strict=True))
        below = half_line_integrals(-c * spread, -shift, len(b) - 1)
        total = sum(b[n] * (near[n] + (-1) ** n * below[n]) for n in range(len(b)))
        return 1 - mp.exp(log_mgf - c * eps) * total


def relative_error(value, reference):
    return float(abs(mp.mpf(float(value)) / reference - 1))


def log_relative_error(log_value, reference):
    return float(abs(mp.exp(mp.mpf(float(log_value))) / reference - 1))


# --- laws ---


def scaled_cumulants(mean, spread, skew, orders):
    """The cumulants of a Gamma law, as skew as a sum of 4 / skew^2 exponentials."""
    rho = [(skew / 2) ** (r - 2) * math.factorial(r - 1) for r in range(3, orders + 1)]
    return np.array([mean, spread**2] + [rho[r - 3] * spread**r for r in range(3, orders + 1)])


def gaussian_cumulants(sign, mu, orders):
    return np.array([sign * mu * mu / 2, mu * mu] + [0.0] * (orders - 2))


def gaussian_delta(eps, mu):
    eps, mu = mp.mpf(float(eps)), mp.mpf(float(mu))
    y, x = eps / mu - mu / 2, eps / mu + mu / 2
    return mp.erfc(y / mp.sqrt(2)) / 2 - mp.exp(eps) * mp.erfc(x / mp.sqrt(2)) / 2


# --- coefficients ---


def test_explicit_expansions():
    r3, r4, r5, r6 = 0.3, -0.2, 0.15, 0.07
    explicit = [
        {2: r3 / 6},
        {3: r4 / 24, 5: r3**2 / 72},
        {4: r5 / 120, 6: r3 * r4 / 144, 8: r3**3 / 1296},
        {5: r6 / 720, 7: r4**2 / 1152 + r3 * r5 / 720, 9: r3**2 * r4 / 1728, 11: r3**4 / 31104},
    ]
    spread = 1.7
    kappa = [0.4, spread**2, r3 * spread**3, r4 * spread**4, r5 * spread**5, r6 * spread**6]
    for order in range(5):
        expected = np.zeros(max(3 * order, 1))
        for terms in explicit[:order]:
            for degree, value in terms.items():
                expected[degree] += value
        np.testing.assert_allclose(
            expansion.edgeworth_coefficients(kappa, order), expected, rtol=1e-13, atol=0
        )


@pytest.mark.parametrize("order", [0, 1, 2, 5, 8, 12])
def test_coefficients_of_any_order(order):
    kappa = scaled_cumulants(2.0, 3.0, 0.4, order + 2)
    expected = [float(value) for value in density_coefficients(kappa, order)]
    density = expansion.edgeworth_density_coefficients(kappa, order)
    np.testing.assert_allclose(density[1 : 3 * order + 1], expected[1:], rtol=1e-12, atol=0)
    assert density[0] == 0
    np.testing.assert_array_equal(density[1:], expansion.edgeworth_coefficients(kappa, order))


def test_number_of_terms_is_the_number_of_partitions():
    partitions = [1, 2, 3, 5, 7, 11, 15, 22, 30, 42, 56, 77]
    assert [len(expansion.partition_terms(k)) for k in range(13)] == [sum(partitions[:k]) for k in range(13)]
    assert expansion.partition_terms(12) is expansion.partition_terms(12)


def test_coefficients_broadcast_and_scale():
    kappa = np.stack([scaled_cumulants(0.0, spread, 0.5, 6) for spread in (1e-12, 1.0, 1e12)], axis=1)
    result = expansion.edgeworth_coefficients(kappa, 4)
    assert result.shape == (12, 3)
    np.testing.assert_allclose(result, result[:, 1:2] * np.ones(3), rtol=1e-12)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        (lambda: expansion.edgeworth_coefficients([0.0, 1.0, 0.0], 2), "cumulants"),
        (lambda: expansion.edgeworth_coefficients(1.0, 0), "cumulants"),
        (lambda: expansion.edgeworth_coefficients([0.0, 1.0], -1), "order"),
        (lambda: expansion.plain_delta(1.0, [0.0, 1.0], [0.0, 1.0, 0.0], 1), "x_cumulants"),
        (lambda: expansion.plain_delta(1.0, [0.0, 1.0, 0.0], [0.0, 1.0], 1), "y_cumulants"),
        (lambda: expansion.plain_delta(1.0, [0.0, 1.0, 1e200, 1.0], [0.0, 1.0, 0.0, 0.0], 2), "x_cumulants"),
        (lambda: expansion.plain_delta(math.nan, [0.0, 1.0], [0.0, 1.0], 0), "epsilon"),
        (lambda: expansion.tilted_log_delta(1.0, -1.5, 0.0, [0.0, 1.0], 0), "tilt"),
        (lambda: expansion.tilted_log_delta(1.0, 1.0, 0.0, [0.0, 1.0], 1), "tilted_cumulants"),
    ],
)
def test_errors_name_the_parameter(call, name):
    with pytest.raises(ValueError, match=f"`{name}`"):
        call()


def test_error_rates_on_sums_of_exponentials():
    """sup |P(S <= x) - E_k(x)| shrinks like m^{-(k+1)/2}."""
    grid = np.linspace(-4, 4, 401)

    def error(m, order):
        kappa = [m * math.factorial(r - 1) for r in range(1, order + 3)]
        a = expansion.edgeworth_coefficients(kappa, order)
        x_values = np.polynomial.hermite_e.hermeval(grid, a)
        estimate = stats.norm.sf(grid) + stats.norm.pdf(grid) * x_values
        with np.errstate(all="ignore"):
            exact = stats.gamma.sf(m + math.sqrt(m) * grid, m)
        return np.max(np.abs(estimate - exact))

    rates = [math.log(error(256, k) / error(1024, k), 4) for k in range(5)]
    np.testing.assert_allclose(rates, [0.5, 1.0, 1.5, 2.0, 2.5], atol=0.04)


# --- plain ---


@pytest.mark.parametrize("order", range(5))
@pytest.mark.parametrize(
    ("x_law", "y_law"),
    [
        ((-0.5, 1.0, 0.3), (0.5, 1.0, 0.35)),
        ((-2.0, 1.9, -0.2), (2.3, 2.2, 0.25)),
        ((-0.01, 0.12, 0.6), (0.012, 0.15, 0.7)),
        ((-40.0, 8.8, 0.05), (41.0, 9.1, 0.06)),
        ((-1e-6, 1.4e-3, 0.1), (1e-6, 1.5e-3, 0.1)),
    ],
)
def test_plain_delta_against_its_definition(x_law, y_law, order):
    x_kappa, y_kappa = (scaled_cumulants(*law, order + 2) for law in (x_law, y_law))
    grid = y_law[0] + y_law[1] * np.array([-6.0, -2.0, -1.03, -0.3, 0.0, 0.4, 1.1, 2.3, 5.0, 9.0, 25.0])
    values = expansion.plain_delta(grid, x_kappa, y_kappa, order)
    for eps, value in zip(grid, values, strict=True):
        assert relative_error(value, plain_reference(eps, x_kappa, y_kappa, order)) < 1e-11
        np.testing.assert_allclose(expansion.plain_delta(eps, x_kappa, y_kappa, order), value, rtol=1e-12)


@pytest.mark.parametrize("order", [0, 1, 2, 3, 4, 6, 12])
@pytest.mark.parametrize("mu", [1e-12, 1e-6, 1e-3, 0.3, 1.0, 7.0, 50.0, 1e3])
def test_plain_delta_is_exact_for_gaussians(mu, order):
    x_kappa, y_kappa = (gaussian_cumulants(sign, mu, order + 2) for sign in (-1, 1))
    grid = mu * mu / 2 + mu * np.array([-0.5 * mu, -0.1, 0.0, 0.7, 1.4, 3.0, 8.0, 30.0])
    values = expansion.plain_delta(grid, x_kappa, y_kappa, order)
    for eps, value in zip(grid, values, strict=True):
        # mu^2 and not mu is given: its rounding is the library's to see, not the reference's.
        reference = plain_reference(eps, x_kappa[:2], y_kappa[:2], 0)
        assert relative_error(value, reference) < 1e-9


def test_plain_delta_far_out():
    x_kappa, y_kappa = (gaussian_cumulants(sign, 1.0, 6) for sign in (-1, 1))
    assert list(expansion.plain_delta([1e3, 1e6, math.inf], x_kappa, y_kappa, 4)) == [0, 0, 0]
    wide = scaled_cumulants(0.0, 1e5, 0.1, 6)
    assert expansion.plain_delta(1e6, wide, y_kappa, 4) < -1.7e308
    for spread in (1e-12, 1e-6, 1e6, 1e12):
        for skew in (1e-12, 1.0, 100.0):
            x_kappa, y_kappa = (scaled_cumulants(mean, spread, skew, 6) for mean in (-spread, spread))
            values = expansion.plain_delta([-1e6, -1.0, 0.0, 1e-12, 1.0, 1e6], x_kappa, y_kappa, 4)
            assert np.all(np.isfinite(values))


def test_plain_delta_without_variance_is_a_step():
    constant = [0.5, 0.0, 0.0]
    np.testing.assert_array_equal(
        expansion.plain_delta([0.4, 0.5, 0.6], [-0.5, 0.0, 0.0], constant, 1), [1.0, 0.0, 0.0]
    )
    np.testing.assert_allclose(
        expansion.plain_delta(0.4, constant, constant, 1), 1 - math.exp(0.4), rtol=1e-14
    )
    normal = expansion.plain_delta(0.4, [0.0, 1.0, 0.0], constant, 1)
    np.testing.assert_allclose(normal, 1 - math.exp(0.4) * stats.norm.sf(0.4), rtol=1e-14)


# --- tilted ---


@pytest.mark.parametrize("order", [3])
@pytest.mark.parametrize(
    ("c", "spread", "shift"),
    [
        (0.8, 1.3, 0.0),
        (3.0, 0.05, -0.3),
        (0.02, 12.0, 0.4),
        (40.0, 2.0, 0.0),
        (-0.4, 1.3, 0.0),
        (-0.7, 0.2, 0.2),
        (-0.1, 15.0, -0.5),
        (0.0, 0.9, 0.1),
    ],
)
def test_tilted_delta_against_quadrature(c, spread, shift, order):
    eps, log_mgf = 0.6, 0.5 * (c * spread) ** 2 + c * (0.6 - shift * spread) if c <= 0 else c * 0.6
    kappa = scaled_cumulants(eps - shift * spread, spread, 0.15, order + 2)
    with mp.workdps(30):
        reference = tilted_quadrature(eps, c, log_mgf, kappa, order)
        assert relative_error(1, reference / tilted_closed_form(eps, c, log_mgf, kappa, order)) < 1e-15
    assert log_relative_error(expansion.tilted_log_delta(eps, c, log_mgf, kappa, order), reference) < 1e-12


@pytest.mark.parametrize("order", range(7))
def test_tilted_delta_over_fourteen_decades(order):
    """c sqrt(K'') from 1e-14 to 1e10; epsilon = 0 so that the float K(c) - c epsilon is exact."""
    for shift in (0.0, -2.0, 6.0):
        for c in (1e-6, 1e-2, 1.0, 1e6):
            for spread in (1e-8, 1e-3, 1.0, 1e2, 1e4):
                kappa = scaled_cumulants(-shift * spread, spread, 0.05, order + 2)
                log_mgf = min(0.0, -c * spread * (c * spread / 2 + shift)) if c * spread < -shift else 0.0
                reference = tilted_closed_form(0.0, c, log_mgf, kappa, order)
                value = expansion.tilted_log_delta(0.0, c, log_mgf, kappa, order)
                assert log_relative_error(value, reference) < 2e-12, (shift, c, spread)


@pytest.mark.parametrize("order", [0, 1, 3, 6])
def test_tilted_delta_left_of_the_mean(order):
    for c in (-1.0, -0.9, -0.5, -1e-3, 0.0):
        for spread in (1e-8, 0.3, 1.0, 3.0, 1e4):
            for shift in (0.0, -0.3, 2.0):
                kappa = scaled_cumulants(-shift * spread, spread, 0.05, order + 2)
                rate = c * spread
                log_mgf = c * kappa[0] - rate**2 / 2 + 0.05 * rate**3 / 6
                reference = tilted_closed_form(0.0, c, log_mgf, kappa, order)
                value = expansion.tilted_log_delta(0.0, c, log_mgf, kappa, order)
                assert log_relative_error(value, reference) < 2e-12, (shift, c, spread)


@pytest.mark.parametrize("order", [0, 1, 2, 3, 6, 12])
@pytest.mark.parametrize("mu", [1e-6, 1e-3, 0.3, 1.0, 7.0, 30.0])
def test_tilted_delta_is_exact_for_gaussians(mu, order):
    """K(c) = c (c + 1) mu^2 / 2, at the saddle point and away from it."""
    eps = mu * mu / 2 + mu * np.array([-0.5 * mu, -0.1, 0.0, 0.4, 1.4, 3.0, 8.0])
    for offset in (0.0, 0.2 / mu, -0.1 / mu):
        c = np.maximum(eps / mu**2 - 0.5 + offset, -0.9)
        kappa = np.stack([(c + 0.5) * mu**2, mu**2 + 0 * c] + [0 * c] * order)
        values = expansion.tilted_log_delta(eps, c, c * (c + 1) * mu**2 / 2, kappa, order)
        for e, value in zip(eps, values, strict=True):
            assert log_relative_error(value, gaussian_delta(e, mu)) < 1e-9


def gamma_case(m, theta, eps, orders):
    """Y a sum of m exponentials of mean theta: the exact delta, and the inputs at the saddle point."""
    c = 1 / theta - m / eps
    kappa = [m * math.factorial(r - 1) * (theta / (1 - c * theta)) ** r for r in range(1, orders + 1)]
    tail = [mp.gammainc(m, mp.mpf(eps) / theta * factor, regularized=True) for factor in (1, 1 + theta)]
    return tail[0] - mp.exp(eps) * (1 + mp.mpf(theta)) ** -m * tail[1], c, -m * math.log(1 - c * theta), kappa


@pytest.mark.parametrize("eps", [7.2, 7.7, 9.0, 12.0, 16.0])
def test_tilted_delta_of_a_true_law_improves_with_the_order(eps):
    """Relative error O(1/m^{ceil((k+1)/2)}) on both sides of the mean 8, down to delta = 1e-12."""
    exact, c, log_mgf, kappa = gamma_case(64, 0.125, eps, 8)
    errors = [
        log_relative_error(expansion.tilted_log_delta(eps, c, log_mgf, kappa, k), exact) for k in (0, 2, 4, 6)
    ]
    assert errors[0] < 0.06 and errors[1] < 1e-4 and errors[2] < 1e-6 and errors[3] < 4e-9


def test_tilted_delta_falls_back_to_a_lower_order():
    for c, log_mgf in ((2.0, 0.0), (-0.5, -0.05)):
        bad = [1.0, 1.0, 50.0 if c > 0 else 500.0]
        value = expansion.tilted_log_delta(1.0, c, log_mgf, bad, 1)
        lower = expansion.tilted_log_delta(1.0, c, log_mgf, bad, 0)
        assert value == pytest.approx(lower, rel=1e-13) and value < 0


def test_tilted_delta_broadcasts():
    eps, c = np.array([[0.5], [1.0], [2.0]]), np.array([-0.3, 0.0, 0.4, 2.0])
    kappa = np.stack([(c + 0.5), 1 + 0 * c, 0.1 + 0 * c])
    result = expansion.tilted_log_delta(eps, c, c * (c + 1) / 2, kappa, 1)
    assert result.shape == (3, 4)
    single = expansion.tilted_log_delta(2.0, 0.4, 0.28, kappa[:, 2], 1)
    assert np.shape(single) == ()
    np.testing.assert_allclose(result[2, 2], single, rtol=1e-13)


def test_tilted_delta_of_a_constant():
    values = expansion.tilted_log_delta([0.2, 0.5, 0.7, math.inf], 1.5, 0.75, [0.5, 0.0, 0.0], 1)
    np.testing.assert_allclose(
        values, [math.log(-math.expm1(-0.3)), -math.inf, -math.inf, -math.inf], rtol=1e-14
    )


def test_no_input_gives_nan_or_a_warning():
    random = np.random.default_rng(1)
    size = 400
    wild = lambda: random.choice([-1, 1], size) * 10.0 ** random.uniform(-300, 300, size)  # noqa: E731
    kappa = np.stack([wild(), np.abs(wild()), *(wild() for _ in range(6))])
    kappa[:, ::7], kappa[1, ::5], kappa[3:, ::11] = 0.0, 1.0, math.inf
    eps, c = wild(), np.where(random.random(size) < 0.5, random.uniform(-1, 1, size), np.abs(wild()))
    for order in (0, 1, 3, 6):
        for log_mgf in (wild(), 0.0, math.inf, -math.inf):
            for epsilon in (eps, 0.0, 1e6, math.inf, -math.inf):
                result = expansion.tilted_log_delta(epsilon, c, log_mgf, kappa, order)
                assert not np.any(np.isnan(result)) and np.all(result <= 0)
