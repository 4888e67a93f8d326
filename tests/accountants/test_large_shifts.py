"""Shifts so large that the output tells whether a record was sampled, against sums over the number of samples in 60 digits.

For a sampled Gaussian of shift mu the sum

    delta(eps) = sum_k C(m, k) p^k (1-p)^{m-k} D_{mu sqrt k}(eps - k log p - (m-k) log(1-p))

is exact up to about m e^{-mu^2/8}; for Laplace noise D is the curve of k unsampled mechanisms, by 60-digit quadrature.

Intervals contain the truth; they need not be narrow where epsilon is above 100.
"""

import itertools
import math

import dp_accounting as dpa
import numpy as np
import pytest
from dp_accounting import dp_event
from mpmath import mp, mpc, mpf

from dp_edgeworth import EdgeworthIntervalAccountant
from dp_edgeworth.losses import gaussian_curve

RO = dpa.NeighboringRelation.REPLACE_ONE


@pytest.fixture(autouse=True)
def precision():
    with mp.workdps(60):
        yield


def sampled(p, inner, count=1):
    return dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(p, inner), count)


def interval(event, delta, **options):
    return EdgeworthIntervalAccountant(**options).compose(event).get_epsilon_interval(delta)


def normal_curve(eps, spread):
    """Phi(M/2 - e/M) - e^e Phi(-M/2 - e/M), the second by its continued fraction where it is far out."""
    if spread == 0:
        return max(mpf(0), 1 - mp.exp(eps))
    a, b = spread / 2 - eps / spread, spread / 2 + eps / spread
    if a < -60:
        return mpf(0)
    other = mp.exp(eps) * mp.ncdf(-b) if b < 100 else mp.npdf(a) / b * (1 - 1 / b**2 + 3 / b**4 - 15 / b**6 + 105 / b**8)
    return mp.ncdf(a) - other


def counts(p, m):
    mean = m * p
    spread = math.sqrt(mean * (1 - p))
    return range(max(0, int(mean - 20 * spread - 5)), min(m, int(mean + 20 * spread + 50)) + 1)


def weights(p, m):
    """(k, Pr[k], S_k)."""
    log_p, log_q = mp.log(mpf(p)), mp.log(1 - mpf(p))
    for k in counts(p, m):
        yield k, mp.binomial(m, k) * mp.exp(k * log_p + (m - k) * log_q), k * log_p + (m - k) * log_q


def exact_delta(eps, p, mu, m, variance=0):
    return mp.fsum(weight * normal_curve(mpf(eps) - shift, mp.sqrt(k * mpf(mu) ** 2 + variance)) for k, weight, shift in weights(p, m))


def contains(found, delta, curve, add=0.0):
    """The lower end is where delta is still larger, unless the other direction decides; the upper end is where it is not."""
    lower, estimate, upper = found
    assert lower <= estimate <= upper
    assert curve(upper) <= delta and upper >= add * (1 - 1e-14)
    assert lower == 0 or curve(lower) >= delta or lower <= add


GRID = [
    (noise, p, m, delta)
    for (noise, p), (m, delta) in itertools.product(
        itertools.product((1e-12, 1e-7, 1e-4, 0.003, 0.006, 0.02), (1e-9, 1e-3, 0.3, 1 - 1e-9)),
        ((1, 1e-5), (3, 1e-14), (40, 1e-6), (2000, 0.3)))
]


@pytest.mark.parametrize("noise, p, m, delta", GRID)
def test_sampled_gaussian(noise, p, m, delta):
    found = interval(sampled(p, dpa.GaussianDpEvent(noise), m), delta)
    contains(found, delta, lambda eps: exact_delta(eps, p, 1.0 / noise, m), max(0.0, -m * math.log1p(-p) + math.log1p(-delta)))
    assert found.upper > 100 or noise < 0.01 or found.upper - found.lower <= 1e-6 * max(1.0, found.lower)


def test_a_million_steps():
    found = interval(sampled(1e-5, dpa.GaussianDpEvent(1e-3), 10**6), 1e-9)
    contains(found, 1e-9, lambda eps: exact_delta(eps, 1e-5, 1000.0, 10**6), 10.0)
    assert found.upper > 100 or found.upper - found.lower <= 1e-9 * found.lower


def test_with_unsampled_gaussians():
    event = dpa.ComposedDpEvent([sampled(0.01, dpa.GaussianDpEvent(0.01), 50), dpa.GaussianDpEvent(0.5)])
    contains(interval(event, 1e-6), 1e-6, lambda eps: exact_delta(eps, 0.01, 100.0, 50, 4))


def test_two_kinds():
    event = dpa.ComposedDpEvent([sampled(0.1, dpa.GaussianDpEvent(1e-3), 4), sampled(0.02, dpa.GaussianDpEvent(0.01), 30)])

    def curve(eps):
        return mp.fsum(weight * exact_delta(mpf(eps) - shift, 0.02, 100.0, 30, k * mpf(1000) ** 2)
                       for k, weight, shift in weights(0.1, 4))

    found = interval(event, 1e-5)
    contains(found, 1e-5, curve)
    assert found.upper > 100 or found.upper - found.lower <= 1e-9 * found.lower


@pytest.mark.parametrize("noise", [1e-9, 1e-4, 3e-3])
def test_with_leaves_of_another_scale(noise):
    """The other leaves' law, rounded to cells of 0.01 both ways, is mixed with the sum over samples."""
    other = sampled(0.3, dpa.LaplaceDpEvent(2.0), 3)
    found = interval(dpa.ComposedDpEvent([sampled(0.01, dpa.GaussianDpEvent(noise), 50), other]), 1e-6)
    x = np.linspace(-0.5, 0.5, 20_001)  # of the losses of one Laplace leaf: atoms at the ends, density e^{-(1/2 - x)/2}/4 of the rest
    loss = np.log1p(0.3 * np.expm1(x))
    masses = 0.25 * np.exp(-0.5 * (0.5 - x)) * 5e-5  # of the sampled law; of the other one the mirror image
    masses = 0.3 * masses + 0.7 * masses[::-1]
    masses[[0, -1]] = 0.3 * 0.5 * math.exp(-0.5) + 0.7 * 0.5, 0.3 * 0.5 + 0.7 * 0.5 * math.exp(-0.5)
    cells = np.floor((loss + 1.0) / 0.01).astype(int)
    law = np.bincount(cells, masses / masses.sum())
    law = np.convolve(np.convolve(law, law), law)

    def curve(eps, up):
        start = -3.0 + up * 0.03
        return mp.fsum(mpf(float(mass)) * exact_delta(eps - start - 0.01 * i, 0.01, 1.0 / noise, 50)
                       for i, mass in enumerate(law) if mass > 1e-12)

    assert curve(found.upper, 0.0) <= 1e-6 * (1 + 1e-3)
    assert curve(found.lower, 1.0) >= 1e-6 * (1 - 1e-3)
    assert found.upper > 100 or found.upper - found.lower <= 1e-6 * found.lower


@pytest.mark.parametrize("noise, m, p, delta", [
    (1e-4, 59, 0.08, 7e-10), (1e-4, 4, 0.0035, 1e-6), (1e-9, 18, 0.3, 3e-5), (1e-3, 5, 0.9, 0.2)])
def test_sampled_laplace(noise, m, p, delta):
    """D_k + Exp(1) has the density of its phases; its distribution function by Erlang laws in 60 digits."""

    def payoff(k, gap):
        """sum_j C(k, j) 2^-k Pr[Erlang(j, 1/2) + Exp(1) <= gap], integrated by parts."""
        if gap <= 0:
            return mpf(0)
        total = mpf(0)
        for j in range(k + 1):
            if j == 0:
                value = 1 - mp.exp(-gap)
            else:
                value = mp.gammainc(j, 0, gap / 2, regularized=True) - mp.quad(
                    lambda x, j=j: mp.exp(x / 2 - gap) * x ** (j - 1) / (mpf(2) ** j * mp.gamma(j)), [0, gap / 2, gap])
            total += mp.binomial(k, j) * value / mpf(2) ** k
        return total

    def curve(eps):
        total = mpf(0)
        for k, weight, shift in weights(p, m):
            gap = k / mpf(noise) + shift - mpf(eps)
            total += weight * (1 if gap > 2000 else payoff(k, gap))
        return total

    found = interval(sampled(p, dpa.LaplaceDpEvent(noise), m), delta)
    contains(found, delta, curve)
    assert found.upper > 100 or found.upper - found.lower <= 1e-6 * found.lower


@pytest.mark.parametrize("delta", [1e-12, 1e-4, 0.1])
def test_delta_is_the_inverse(delta):
    for event, options in [
        (sampled(0.01, dpa.GaussianDpEvent(1e-3), 60), {}),
        (sampled(0.01, dpa.GaussianDpEvent(1e-3), 60), {"neighboring_relation": RO}),
        (sampled(0.2, dpa.LaplaceDpEvent(1e-4), 20), {}),
        (sampled(0.2, dp_event.MixtureOfGaussiansDpEvent(1e-3, [0.2, 1.0], [0.5, 0.5]), 20), {}),
        (dpa.SelfComposedDpEvent(dpa.SampledWithoutReplacementDpEvent(1000, 10, dpa.GaussianDpEvent(1e-3)), 40),
         {"neighboring_relation": RO}),
    ]:
        accountant = EdgeworthIntervalAccountant(**options).compose(event)
        lower, _, upper = accountant.get_epsilon_interval(delta)
        assert upper > 100 or upper - lower <= 1e-6 * lower
        assert accountant.get_delta_interval(lower).upper >= delta * (1 - 1e-9)
        assert accountant.get_delta_interval(upper).lower <= delta * (1 + 1e-9)


@pytest.mark.parametrize("noise", [100.0, 1e4])
def test_narrow_gaussian_beside_a_far_reversed_leaf(noise):
    """"add" is 10 |log(1 - p)| plus a narrow normal law, far above epsilon: Mills' ratio overflowed there and delta was taken for 1."""
    event = dpa.ComposedDpEvent([sampled(0.1, dpa.GaussianDpEvent(0.01), 10), dpa.GaussianDpEvent(noise)])
    accountant = EdgeworthIntervalAccountant().compose(event)
    exact = 1 - mpf(0.9) ** 10  # "remove": some record is sampled; "add" is smaller for epsilon > 0
    for epsilon in (0.1, 0.6):
        found = accountant.get_delta_interval(epsilon)
        assert found.lower <= exact <= found.upper < found.lower + 1e-4
    assert accountant.get_epsilon_interval(0.7).lower == 0.0


def test_gaussian_beside_one_far_laplace():
    """The loss is 1000.5 less a deficit of Exp(1/2) or 0, plus N(0, 1): delta(900) is 1 - 4e-22; the upper end was 1e-25."""
    accountant = EdgeworthIntervalAccountant().compose(
        dpa.ComposedDpEvent([dpa.LaplaceDpEvent(0.001), dpa.GaussianDpEvent(1.0)]))
    for epsilon in (880.0, 900.0, 930.0, 950.0, 960.0):
        found = accountant.get_delta_interval(epsilon)
        assert 1.0 - 2.0 * math.exp(0.5 * (epsilon - 1000.0)) - 1e-9 <= found.lower <= found.upper
    for delta in (0.5, 0.9, 1.0 - 1e-10):  # at least that of Laplace noise alone
        found = accountant.get_epsilon_interval(delta)
        assert 1000.0 + 2.0 * math.log1p(-delta) - 1e-3 <= found.lower <= found.upper


@pytest.mark.parametrize("mu", [100.0, 5.0, 1.0, 0.9, 0.1, 0.01, 1e-4])
def test_gaussian_curve_at_negative_epsilon(mu):
    for epsilon in (-1e-3, -0.01, -0.5, -5.0, -40.0, -2000.0):
        a = mpf(epsilon) / mu - mpf(mu) / 2
        exact = mp.ncdf(-a) - mp.exp(epsilon) * mp.ncdf(-a - mpf(mu))
        assert abs(mp.expm1(mpf(float(gaussian_curve.log_delta(epsilon, mu))) - mp.log(exact))) < 1e-13 * (1 + abs(a) * 1e-3 / mu)


@pytest.mark.parametrize("count", [10**5, 10**9, 10**15])
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 0.3])
def test_many_deficits(count, delta):
    """K(z) = n log((1 + z) / (1 + 2z)) inverted in 60 digits, at both ends of the interval. It was a sum of sqrt(n) terms."""

    def exact_delta(epsilon):
        gap, unit = count * mpf(1000.0) - mpf(epsilon), 1 / mp.sqrt(3 * mpf(count))  # Laplace noise 0.001; 1000.0 = 1 / 0.001

        def integrand(t):
            z = unit * (2 + mpc(0, t))
            return mp.exp(count * mp.log((1 + z) / (1 + 2 * z)) + z * gap) / (z * (z + 1))

        return (unit / mp.pi * mp.quad(integrand, mp.linspace(0, 14, 8))).real

    found = interval(dpa.SelfComposedDpEvent(dpa.LaplaceDpEvent(0.001), count), delta)
    # Delta falls, so it is larger still at a lower end further than 20 deviations below the mean, where the integral cancels.
    start = 999.0 * count - 20.0 * math.sqrt(3.0 * count)
    assert exact_delta(found.upper) <= delta <= exact_delta(max(found.lower, start)) <= 1.0 + 1e-9
    assert found.upper > 100 or found.upper - found.lower <= 1e-9 * found.lower
