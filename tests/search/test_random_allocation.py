"""One epoch of random allocation: the theorem against more than double precision, direct integration and published reference values."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from scipy import special

from dp_edgeworth.losses import gaussian_curve
from dp_edgeworth.proofs import allocation_tails, random_allocation
from dp_edgeworth.proofs.lognormal_step import Rotation, log_powers, step_law
from dp_edgeworth.proofs.random_allocation import Ray, contour
from dp_edgeworth.search.random_allocation import RandomAllocationCurve

# noise multiplier, t, delta, epsilon of "remove", epsilon of "add": a prototype in double precision, independent of this package
REFERENCE = [
    (1.0, 1000, 1e-6, 0.171728684, 0.149430955),
    (1.0, 1000, 1e-4, 0.105998001, 0.099032732),
    (0.8, 100, 1e-6, 1.874779707, 0.675149673),
    (2.0, 1000, 1e-6, 0.059231457, 0.058876402),
    (0.5, 10000, 1e-6, 1.94188073, 0.203463010),
]


@pytest.mark.parametrize(("sigma", "steps", "delta", "remove", "add"), REFERENCE)
def test_reference_values(sigma: float, steps: int, delta: float, remove: float, add: float) -> None:
    for direction, expected in (("remove", remove), ("add", add)):
        lower, _, upper = (float(end[0]) for end in RandomAllocationCurve(1.0 / sigma, steps, direction).epsilons(np.array([delta])))
        assert lower < upper < lower + 1e-8
        assert lower - 6e-9 < expected < upper + 6e-9  # the reference is rounded to nine decimals


def _transform(q: mpmath.mpc, v: mpmath.mpf, per_deviation: int = 50) -> mpmath.mpc:
    """E e^{-qA}, rotated by an angle of its own; the trapezoid sum over 14 deviations on either side."""
    angle = min(mpmath.mpf("0.5"), 2 * v) / v
    terms = []
    for i in range(-14 * per_deviation, 14 * per_deviation + 1):
        x = mpmath.mpf(i) / per_deviation - 1j * angle
        terms.append(mpmath.exp(-x * x / 2 - q * mpmath.exp(v * x - v * v / 2)))
    return mpmath.fsum(terms) / per_deviation / mpmath.sqrt(2 * mpmath.pi)


def _one_put(strike: mpmath.mpf, v: mpmath.mpf) -> mpmath.mpf:
    """E[(strike - A)_+] of one log-normal A of mean 1."""
    if strike <= 0:
        return mpmath.mpf(0)
    d = mpmath.log(strike) / v + v / 2
    return strike * mpmath.ncdf(d) - mpmath.ncdf(d - v)


def _put(steps: int, k: mpmath.mpf, v: mpmath.mpf, step: mpmath.mpf) -> mpmath.mpf:
    """E[(k - S)_+] by nested quadrature over all but one variable, whose put is in closed form.

    Each A is a share 1/(1 + e^-y) of the strike that is left. In y everything is analytic in a strip and falls like a normal
    density at both
    ends, so the trapezoid sum converges exponentially.
    """
    def inside(strike: mpmath.mpf, left: int) -> mpmath.mpf:
        if left == 1:
            return _one_put(strike, v)
        last, terms = int((12 * v + 5 + abs(mpmath.log(strike))) / step), []
        for i in range(-last, last + 1):
            share = 1 / (1 + mpmath.exp(-i * step))
            x = mpmath.log(strike * share) / v + v / 2
            if abs(x) < 11:
                terms.append(mpmath.npdf(x) * (1 - share) / v * inside(strike * (1 - share), left - 1))
        return step * mpmath.fsum(terms)

    return inside(steps * k, steps) / steps


@pytest.mark.parametrize(("sigma", "steps", "epsilons", "digits"), [
    (1.0, 2, (0.0, 0.5, 2.0, 4.0), 25), (0.5, 2, (1.0, 8.0), 25), (2.0, 2, (0.1, 1.5), 25), (1.0, 3, (1.5,), 15)])
def test_direct_quadrature(sigma: float, steps: int, epsilons: tuple[float, ...], digits: int) -> None:
    with mpmath.workdps(digits):
        for eps in epsilons:
            k = mpmath.exp(mpmath.mpf(eps))
            v = 1 / mpmath.mpf(sigma)
            fine = mpmath.mpf(1) / (16 if steps == 2 else 5)
            exact = {"remove": _put(steps, k, v, fine) - k + 1, "add": k * _put(steps, 1 / k, v, fine)}
            for direction, value in exact.items():
                found = RandomAllocationCurve(1.0 / sigma, steps, direction).bounds(np.array([eps]))
                lower, upper = (mpmath.exp(mpmath.mpf(float(end[0]))) for end in (found.lower, found.upper))
                assert lower <= value <= upper
                assert upper - lower < 1e-13 + 1e-14 * (k if direction == "add" else 1) + 1e-9 * value


@pytest.mark.parametrize(("sigma", "steps", "eps"), [
    (1.0, 1000, 0.171728684), (1.0, 1000, 0.5), (2.0, 1000, 0.059231457), (3.0, 50, 0.2)])
def test_inversion_in_thirty_digits(sigma: float, steps: int, eps: float) -> None:
    """The plain formula: the trapezoid rule of period T >= k along Re u = a is sum_j e^{-ajT} put(k + jT), j >= 0: put(k) to e^-60."""
    with mpmath.workdps(30):
        v, k = 1 / mpmath.mpf(sigma), mpmath.exp(mpmath.mpf(eps))
        period = mpmath.mpf(1.01) * k
        a, last = 60 / period, int(14.0 * math.sqrt(steps) * sigma * float(period) / (2.0 * math.pi))
        terms = []
        for j in range(last + 1):
            u = a + 2j * mpmath.pi * j / period
            value = mpmath.exp(u * k) * _transform(u / steps, v, 8) ** steps / (u * u)
            terms.append(value.real if j else value.real / 2)
        exact = 2 * mpmath.fsum(terms) / period - k + 1
        found = RandomAllocationCurve(1.0 / sigma, steps, "remove").bounds(np.array([eps]))
        assert mpmath.exp(mpmath.mpf(float(found.lower[0]))) <= exact <= mpmath.exp(mpmath.mpf(float(found.upper[0])))
        assert float(found.upper[0] - found.lower[0]) < 1e-13 / float(exact)


def test_convolution_of_five_steps() -> None:
    """The law of A_1 + A_2 by one-dimensional convolution, twice, and the put on the fifth in closed form."""
    v, eps = 1.0, 1.2
    # density of log(A_1 + A_2) at y: integrate over the share of A_1, r = 1/(1 + e^-s)
    y, s = np.linspace(-9.0, 10.0, 1201), np.linspace(-16.0, 16.0, 2401)
    def log_density(log_a: np.ndarray) -> np.ndarray:
        return -0.5 * ((log_a + 0.5 * v * v) / v) ** 2 - math.log(v * math.sqrt(2.0 * math.pi))
    first, second = y[:, None] - np.log1p(np.exp(-s)), y[:, None] - np.log1p(np.exp(s))
    density = np.exp(log_density(first) + log_density(second)).sum(axis=1) * (s[1] - s[0])
    masses, sums = density * (y[1] - y[0]), np.exp(y)
    assert masses.sum() == pytest.approx(1.0, abs=1e-12)
    strikes = np.subtract.outer(5.0 * math.exp(eps) - sums, sums).ravel()
    pairs, kept = np.multiply.outer(masses, masses).ravel(), strikes > 0.0
    d = np.log(strikes[kept]) / v + 0.5 * v
    put = float((pairs[kept] * (strikes[kept] * special.ndtr(d) - special.ndtr(d - v))).sum()) / 5.0
    found = RandomAllocationCurve(1.0 / v, 5, "remove").bounds(np.array([eps]))
    assert math.exp(found.lower[0]) - 1e-10 <= put - math.expm1(eps) <= math.exp(found.upper[0]) + 1e-10


def test_monte_carlo_with_proved_confidence() -> None:
    """Hoeffding: the mean of N values in [0, 1] is off by more than sqrt(log(2/a) / (2N)) with probability a at most, here 1e-12."""
    sigma, steps, eps, samples = 0.8, 1000, 0.05, 40_000
    generator = np.random.default_rng(18)
    payoff = np.concatenate([
        np.maximum(1.0 - math.exp(eps) * np.exp(generator.normal(-0.5 / sigma ** 2, 1.0 / sigma, (2000, steps))).mean(axis=1), 0.0)
        for _ in range(samples // 2000)])
    doubt = math.sqrt(math.log(2e12) / (2.0 * samples))
    found = RandomAllocationCurve(1.0 / sigma, steps, "add").bounds(np.array([eps]))
    assert math.exp(found.lower[0]) <= payoff.mean() + doubt and math.exp(found.upper[0]) >= payoff.mean() - doubt
    # and, not a proof but far sharper, six standard errors
    error = 6.0 * payoff.std() / math.sqrt(samples)
    assert math.exp(found.estimate[0]) == pytest.approx(payoff.mean(), abs=error) and error < 3e-3


@pytest.mark.parametrize("abscissa", [0.7, 20.0])
@pytest.mark.parametrize("lean", [0.0, 0.3])
@pytest.mark.parametrize("nodes", [3, 8, 32])
def test_any_parameters_give_true_bounds(abscissa: float, lean: float, nodes: int) -> None:
    """Too few nodes, too coarse steps, too short rays: wide, and still true."""
    v, steps, k = 1.0, 50, math.exp(0.4)
    exact = RandomAllocationCurve(v, steps, "remove").bounds(np.array([0.4]))
    call = math.exp(exact.estimate[0])
    narrow = False
    for length in (3.0, 20.0, 80.0):
        for step in (0.05, 0.2, 1.0):
            for reach in (3.0, 9.5):
                ray = Ray(v, float(steps), abscissa, lean, np.append(0.0, np.geomspace(0.3, length, 24)), np.zeros(1), nodes,
                          Rotation(0.6 + lean, 0.6, step, reach))
                found = contour(ray).options(np.array([k - 1.0]))
                assert found.lower[0] - 1e-12 <= call + k - 1.0 <= found.upper[0] + 1e-12
                narrow |= bool(found.upper[0] - found.lower[0] < 1e-9)
    assert narrow or nodes < 32 or abscissa > 1.0


@pytest.mark.parametrize("lean", [0.0, 0.3])
@pytest.mark.parametrize("nodes", [3, 8, 32])
def test_any_parameters_give_true_bounds_of_calls(lean: float, nodes: int) -> None:
    """The same along rays from 0, on which -1 turns off, whatever is left out at the start and where it turns."""
    v, steps, k = 1.0, 50, math.exp(0.9)
    call = math.exp(RandomAllocationCurve(v, steps, "remove").bounds(np.array([0.9])).estimate[0])
    narrow = False
    for first in (1e-15, 1e-3):
        for length in (3.0, 40.0, 120.0):
            for end in (0.5, 40.0):
                ray = Ray(v, float(steps), 0.0, lean, np.geomspace(first, length, 90), np.linspace(0.0, end, 20), nodes,
                          Rotation(0.6 + lean, 0.6, 0.05, 9.5))
                found = contour(ray).options(np.array([k - 1.0]))
                assert found.lower[0] - 1e-13 <= call <= found.upper[0] + 1e-13
                narrow |= bool(found.upper[0] - found.lower[0] < 1e-6 * call)
    assert narrow or nodes < 32 or lean == 0.0


@pytest.mark.parametrize("v", [0.05, 0.5, 1.0, 3.0])
def test_transform_of_one_step(v: float) -> None:
    """phi(q) on both sides of the imaginary axis against quadrature of the rotated integral, and below its bounds."""
    strip = min(0.5, v)
    rotation = Rotation(0.4 * min(1.0, v) + strip, strip, 0.05 * strip, 11.0)
    for q in (1e-8 + 1e-9j, 0.3 + 0.2j, 0.2 + 3.0j, 1e-3 + 5.0j):
        found = log_powers(v, 1.0, np.array([q]), rotation)
        with mpmath.workdps(30):
            exact = complex(_transform(mpmath.mpmathify(q), mpmath.mpf(v)))
        value = np.exp(found.logs[0] - q)
        assert abs(value - exact) <= abs(exact) * (math.expm1(found.errors[0]) + 1e-15)
        assert abs(exact) <= math.exp(float(step_law(v).log_laplace(np.array(q.real)))) * (1 + 1e-15)


@pytest.mark.parametrize("q", [1.0j, 6.0j])
def test_a_strip_that_leaves_the_half_plane_proves_nothing(q: complex) -> None:
    """|arg q - beta| + b > pi/2: the rule of this step is then far less precise than its edges would have it."""
    found = log_powers(1.0, 1.0, np.array([q]), Rotation(0.1, 1.5, 0.3, 9.5))
    with mpmath.workdps(30):
        exact = complex(_transform(mpmath.mpmathify(q), mpmath.mpf(1)))
    assert abs(exact) <= np.exp(found.logs.real[0]) * (1.0 + math.expm1(found.errors[0]))
    assert not np.exp(found.logs.real[0]) < 1e300


def test_terms_that_are_left_out_are_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    eps = np.linspace(0.1, 0.3, 9)
    exact = np.exp(RandomAllocationCurve(1.0, 50, "remove").bounds(eps).estimate)
    ray = Ray(1.0, 50.0, 4.0, 0.0, np.append(0.0, np.geomspace(0.3, 200.0, 40)), np.zeros(1), 32, Rotation(0.6, 0.6, 0.05, 9.5))
    widths = []
    for share in (1e-19, 1e-3):
        monkeypatch.setattr(random_allocation, "_NEGLIGIBLE", share)
        found = contour(ray).options(np.expm1(eps))
        call = exact + np.expm1(eps)
        assert np.all((found.lower <= call + 1e-12) & (call - 1e-12 <= found.upper))
        widths.append(float((found.upper - found.lower).max()))
    assert widths[0] < 1e-9 < 1e-6 < widths[1]


@pytest.mark.parametrize("v", [0.05, 1.0, 3.0])
def test_bounds_of_the_transform_by_chords(v: float) -> None:
    """Between and beyond the rates of the table, on both sides of the imaginary axis, with any angle that is allowed."""
    law = step_law(v)
    by_the_cut = () if v < 1.0 else (-1.0 + 0.07j,)  # an integral that cancels in 1 / (2 v^2) digits and more
    for q in (1e-9 + 0j, 0.37 + 0j, 3.3e4 + 0j, -0.013 + 0.4j, -0.3 + 1.7j, -2.0 + 6.0j, *by_the_cut):
        with mpmath.workdps(30):
            exact = float(mpmath.log(abs(_transform_at(mpmath.mpmathify(q), mpmath.mpf(v)))))
        if q.real >= 0.0:
            assert exact <= float(law.log_laplace(np.array(q.real))) <= max(0.9 * exact, -60.0 / v) + 1e-9
        else:
            angle = np.array([math.atan2(q.imag, q.real) - 0.5 * math.pi])
            here, there = law.log_continued(np.array([q.real]), angle, np.array([0.5 * q.real]))
            assert exact <= float(here[0])
            assert float(law.log_laplace(np.array(0.0))) <= float(there[0]) <= float(here[0]) + 1e-9
    assert np.isinf(law.log_continued(np.array([-1e12]), np.array([0.1]), np.array([1.0]))[0]).all()


def _transform_at(q: mpmath.mpc, v: mpmath.mpf) -> mpmath.mpc:
    """E e^{-qA} along a line that is rotated a little more than by arg q - pi/2."""
    angle = max(mpmath.arg(q) - mpmath.pi / 2, 0) + v / 4
    return mpmath.quad(lambda x: mpmath.exp(-(x - 1j * angle / v) ** 2 / 2 - q * mpmath.exp(v * x - 1j * angle - v * v / 2)),
                       list(range(-14, 16, 2))) / mpmath.sqrt(2 * mpmath.pi)


@pytest.mark.parametrize("mu", [1e-6, 0.01, 0.19, 0.2, 0.39, 0.6, 0.81, 0.999])
def test_small_gaussian_losses(mu: float) -> None:
    """Quadrature with few nodes against the closed form in 60 digits."""
    eps = np.array([0.0, 0.3 * mu, 3.0 * mu, 20.0 * mu, 0.5 * mu * mu])
    with mpmath.workdps(60):
        for value, found in zip(eps, gaussian_curve.log_delta(eps, mu), strict=True):
            e, m = mpmath.mpf(float(value)), mpmath.mpf(mu)
            exact = mpmath.log(mpmath.ncdf(m / 2 - e / m) - mpmath.exp(e) * mpmath.ncdf(-m / 2 - e / m))
            assert abs(found - float(exact)) <= 2e-12


@pytest.mark.parametrize(("sigma", "steps"), [
    (0.125, 10**6), (0.15, 100), (0.22, 10), (0.5, 100), (1.0, 2), (1.0, 10), (2.0, 1000), (50.0, 7)])
@pytest.mark.parametrize("direction", ["remove", "add"])
def test_simple_bounds_contain_the_curve(sigma: float, steps: int, direction: str) -> None:
    """Each of them alone; where the contour is sharp that is a proof that they are on their sides."""
    curve = RandomAllocationCurve(1.0 / sigma, steps, direction)
    eps = curve.deviation * np.array([0.0, 0.1, 1.0, 4.0]) if curve.deviation < 1.0 else np.array([0.0, 0.5, 2.0, 20.0])
    found = curve.bounds(eps)
    for bound in allocation_tails.UPPER[direction]:
        assert np.all(bound(1.0 / sigma, float(steps), eps) >= found.lower - 1e-11)
    for bound in allocation_tails.LOWER[direction]:
        assert np.all(bound(1.0 / sigma, float(steps), eps) <= found.upper + 1e-11)


@pytest.mark.parametrize(("sigma", "eps"), [
    (0.05, 300.0), (0.1, 100.0), (0.15, 20.0), (0.15, 60.0), (0.19, 40.0), (0.3, 30.0), (1.0, 7.0), (4.0, 1.2), (4.0, 1.25),
    (100.0, 0.044)])
def test_small_deltas_against_quadrature(sigma: float, eps: float) -> None:
    """Little noise beyond the contour, and deltas of 1e-12 and less; t = 2: the call on A_1 in closed form.

    Its strike is 2k - A_2, and the integral over A_2 is numerical."""
    with mpmath.workdps(40):
        v, k = 1 / mpmath.mpf(sigma), mpmath.exp(mpmath.mpf(eps))

        def term(z: mpmath.mpf) -> mpmath.mpf:
            strike = 2 * k - mpmath.exp(v * z - v * v / 2)
            if strike <= 0:
                return mpmath.npdf(z) * (1 - strike)
            d = -mpmath.log(strike) / v + v / 2
            return mpmath.npdf(z) * (mpmath.ncdf(d) - strike * mpmath.ncdf(d - v))

        kink = mpmath.log(2 * k) / v + v / 2
        ends = {*range(-14, 40, 2), *(kink + gap for gap in (-3, -0.5, 0, 0.5, 3, 10, 30))}
        exact = mpmath.quad(term, sorted(ends)) / 2
    found = RandomAllocationCurve(1.0 / sigma, 2, "remove").bounds(np.array([eps]))
    assert mpmath.exp(mpmath.mpf(float(found.lower[0]))) <= exact <= mpmath.exp(mpmath.mpf(float(found.upper[0])))
    assert found.upper[0] - found.lower[0] < 0.1


@pytest.mark.parametrize("sigma", [0.05, 0.15, 0.21, 0.3, 0.5, 0.7, 1.0, 2.0, 4.0, 10.0, 100.0, 1000.0])
@pytest.mark.parametrize("steps", [2, 10, 1000, 10**5])
def test_widths(sigma: float, steps: int) -> None:
    """1e-6 at delta 1e-8, and at most 1e-3 of epsilon at 1e-12, where the contour is used; little noise is 1e-4 wide at most."""
    deltas = np.array([1e-8, 1e-12])
    ends = [RandomAllocationCurve(1.0 / sigma, steps, direction).epsilons(deltas) for direction in ("remove", "add")]
    lower, upper = (np.maximum(ends[0][side], ends[1][side]) for side in (0, 2))
    assert upper[0] - lower[0] <= 1e-6 * max(1.0, lower[0])
    assert upper[1] - lower[1] <= 1e-3 * lower[1]


def test_one_step_is_the_gaussian_in_the_limit_of_the_formulas() -> None:
    """The simple bounds at t = 1 are both the Gaussian."""
    eps = np.array([0.0, 0.5, 2.0])
    np.testing.assert_allclose(allocation_tails.log_one_term(0.7, 1.0, eps), gaussian_curve.log_delta(eps, 0.7), atol=1e-11)


@pytest.mark.parametrize("direction", ["remove", "add"])
def test_parity_and_shape(direction: str) -> None:
    """delta(eps) = 1 - e^eps + e^eps delta_other(-eps); convex and decreasing in e^eps."""
    other = "add" if direction == "remove" else "remove"
    eps = np.linspace(-1.0, 1.0, 41)
    curve = RandomAllocationCurve(1.0, 100, direction).bounds(eps)
    mirror = RandomAllocationCurve(1.0, 100, other).bounds(-eps)
    np.testing.assert_allclose(np.exp(curve.estimate), -np.expm1(eps) + np.exp(eps + mirror.estimate), atol=1e-12)
    k, delta = np.exp(eps), np.exp(curve.estimate)
    slopes = np.diff(delta) / np.diff(k)
    assert np.all(slopes <= 0.0) and np.all(np.diff(slopes) >= -1e-10)


def test_epsilon_is_monotone() -> None:
    def epsilon(sigma: float, steps: int, delta: float) -> float:
        return float(RandomAllocationCurve(1.0 / sigma, steps, "remove").epsilons(np.array([delta]))[2][0])

    by_noise = [epsilon(sigma, 100, 1e-6) for sigma in (0.5, 0.7, 1.0, 1.5, 3.0)]
    by_steps = [epsilon(1.0, steps, 1e-6) for steps in (2, 3, 10, 100, 1000, 10**6)]
    by_delta = [epsilon(1.0, 100, delta) for delta in (1e-10, 1e-8, 1e-5, 1e-2)]
    for values in (by_noise, by_steps, by_delta):
        assert all(a > b for a, b in itertools.pairwise(values))
