"""The trade-off band contains the exact curves; advantage and mu of Gaussian differential privacy."""

import itertools
import math
from fractions import Fraction

import dp_accounting as dpa
import numpy as np
import pytest
from scipy import special

from dp_edgeworth import EdgeworthIntervalAccountant, ProfileDpEvent
from dp_edgeworth.intervals import Interval
from dp_edgeworth.proofs import tradeoff
from dp_edgeworth.search import whole_curve

ALPHA = np.concatenate([[0.0], np.geomspace(1e-10, 0.5, 60), np.linspace(0.52, 1.0, 25)])


def _gaussian(mu):
    return lambda a: special.ndtr(-special.ndtri(a) - mu)


def _laplace(mu):
    return lambda a: np.where(a < np.exp(-mu) / 2, 1 - a * np.exp(mu), np.where(
        a < 0.5, np.exp(-mu) / 4 / np.maximum(a, 1e-300), np.exp(-mu) * (1 - a)))


def _sampled(p, sigma):
    """min(f_p, f_p^-1)** with f_p = p f + (1 - p) Id (Dong, Roth and Su, Theorem 4.2, for Poisson sampling)."""
    f = _gaussian(1.0 / sigma)

    def f_p(a):
        return p * f(a) + (1 - p) * (1 - a)

    def inverse(y):
        low, high = np.zeros_like(y), np.ones_like(y)
        for _ in range(100):
            middle = 0.5 * (low + high)
            above = f_p(middle) > y
            low, high = np.where(above, middle, low), np.where(above, high, middle)
        return low

    start = special.ndtr(-0.5 / sigma)
    end = f_p(start)
    return lambda a: np.where(a <= start, f_p(a), np.where(a <= end, start + end - a, inverse(a)))


def _sampled_event(p, sigma, count=1):
    return dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(p, dpa.GaussianDpEvent(sigma)), count)


CASES = {
    "gaussian": (dpa.GaussianDpEvent(1.0), _gaussian(1.0)),
    "strong gaussian": (dpa.GaussianDpEvent(0.2), _gaussian(5.0)),
    "composed gaussian": (dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(2.0), 8), _gaussian(np.sqrt(2.0))),
    "laplace": (dpa.LaplaceDpEvent(1.0), _laplace(1.0)),
    "weak laplace": (dpa.LaplaceDpEvent(0.3), _laplace(1 / 0.3)),
    "sampled gaussian": (_sampled_event(0.1, 1.0), _sampled(0.1, 1.0)),
    "half-sampled gaussian": (_sampled_event(0.5, 0.5), _sampled(0.5, 0.5)),
}


def _band(event, alpha, **settings):
    accountant = EdgeworthIntervalAccountant().compose(event)
    return whole_curve.tradeoff(alpha, accountant.whole_curve(), **settings)


@pytest.mark.parametrize("name", CASES)
def test_the_band_contains_the_exact_curve(name):
    event, exact = CASES[name]
    band, truth = _band(event, ALPHA), exact(ALPHA)
    assert np.all(band.lower <= truth + 2e-16) and np.all(truth <= band.upper + 2e-16)
    assert np.max(band.upper - band.lower) < 1e-5
    assert np.all(band.lower <= band.estimate) and np.all(band.estimate <= band.upper)


@pytest.mark.parametrize("name", CASES)
def test_few_and_blurred_deltas_widen_the_band_and_keep_it_true(name):
    event, exact = CASES[name]
    accountant = EdgeworthIntervalAccountant().compose(event)
    rng = np.random.default_rng(1)

    def blurred(epsilons):
        found = accountant.get_delta_interval(epsilons)
        low, high = rng.uniform(0.9, 1.0, len(epsilons)), rng.uniform(1.0, 1.1, len(epsilons))
        return Interval(found.lower * low, found.estimate, np.minimum(found.upper * high, 1.0))

    for points in (0, 1, 2, 5, 40):
        band, _ = tradeoff.Sandwich(blurred, np.sort(rng.uniform(0.0, 6.0, points))).polygons().band(ALPHA)
        truth = exact(ALPHA)
        assert np.all(band.lower <= truth + 2e-16) and np.all(truth <= band.upper + 2e-16)


def _exact_largest(alpha, t, g):
    """max over i of max(0, 1 - g_i - t_i alpha, (1 - g_i - alpha) / t_i) in fractions."""
    a = Fraction(float(alpha))
    pairs = [(Fraction(float(x)), Fraction(float(y))) for x, y in zip(t, g, strict=True)]
    return max(Fraction(0), *(max(1 - y - x * a, (1 - y - a) / x) for x, y in pairs))


@pytest.mark.parametrize("noise", [0.0, 1e-16, 1e-12, 1e-3, 0.5])
@pytest.mark.parametrize("count", [1, 2, 3, 40])
def test_the_vertex_that_decides(noise, count):
    """Against all vertices in fractions, for points that are convex, convex up to rounding, and not at all."""
    rng = np.random.default_rng(count)
    alphas = np.concatenate([[0.0, 1.0], 10.0 ** rng.uniform(-12.0, 0.0, 12), 1.0 - 10.0 ** rng.uniform(-9.0, 0.0, 5)])
    for _ in range(6):
        epsilons = np.sort(np.append(rng.uniform(0.0, 12.0, count - 1), 0.0))
        g = np.maximum(special.ndtr(1.0 - epsilons / 2.0) - np.exp(epsilons) * special.ndtr(-1.0 - epsilons / 2.0), 0.0)
        g = np.minimum.accumulate(g * (1.0 - noise * rng.uniform(0.0, 1.0, count)))
        points = tradeoff.Points.of(np.exp(epsilons), g)
        above, below = points.largest(alphas, 1.0)[0], points.largest(alphas, -1.0)[0]
        for alpha, high, low in zip(alphas, above, below, strict=True):
            exact = _exact_largest(alpha, points.t, g)
            assert Fraction(float(low)) <= exact <= Fraction(float(high))
            assert float(high) - float(exact) <= 1e-13 or noise == 0.5
            assert float(exact) - float(low) <= 1e-13 or noise > 1e-12


def test_vertices_that_are_left_out_by_mistake_are_paid_for():
    """A hull that is above other points lowers all of them by that."""
    epsilons = np.linspace(0.0, 8.0, 30)
    t, g = np.exp(epsilons), special.ndtr(1.0 - epsilons / 2.0) - np.exp(epsilons) * special.ndtr(-1.0 - epsilons / 2.0)
    whole, number = tradeoff.Points.of(t, g), np.array([0, 7, 20, 29])
    some = tradeoff.Points.of(t[number], g[number])
    wrong = whole._replace(number=number, falls=some.falls, intercepts=some.intercepts, above=tradeoff._excess(t, g, number))
    alphas = 10.0 ** np.linspace(-9.0, 0.0, 40)
    for alpha, high in zip(alphas, wrong.largest(alphas, 1.0)[0], strict=True):
        assert _exact_largest(alpha, t, g) <= Fraction(float(high))


def _responses(alpha, keep, others, count):
    """The trade-off curve of `count` randomised responses, by Neyman and Pearson's lemma in fractions."""
    law = {Fraction(1): (Fraction(1), Fraction(1))}
    for _ in range(count):
        new = {}
        for _, (p, q) in law.items():
            for more_p, more_q in ((keep, others), (others, keep), (1 - keep - others, 1 - keep - others)):
                a, b = p * more_p, q * more_q
                before = new.get(b / a, (Fraction(0), Fraction(0)))
                new[b / a] = before[0] + a, before[1] + b
        law = new
    corners = [(Fraction(0), Fraction(1))]
    for ratio in sorted(law, reverse=True):
        corners.append((corners[-1][0] + law[ratio][0], corners[-1][1] - law[ratio][1]))
    for (x, y), (z, w) in itertools.pairwise(corners):
        if x <= alpha <= z:
            return y + (w - y) * (alpha - x) / (z - x)
    return Fraction(0)


def test_atoms_have_the_curve_of_neyman_and_pearson():
    event = dpa.SelfComposedDpEvent(dpa.dp_event.RandomizedResponseDpEvent(0.5, 4), 7)
    accountant = EdgeworthIntervalAccountant(dpa.NeighboringRelation.REPLACE_ONE).compose(event)
    alpha = np.concatenate([np.geomspace(1e-9, 0.5, 30), np.linspace(0.5, 0.99, 9)])
    band = accountant.get_tradeoff(alpha)
    for a, low, high in zip(alpha, band.lower, band.upper, strict=True):
        exact = _responses(Fraction(float(a)), Fraction(5, 8), Fraction(1, 8), 7)
        assert Fraction(float(low)) <= exact <= Fraction(float(high))
        assert high - low <= 1e-9 * float(min(exact, 1 - exact)) + 1e-15


def test_a_composition_is_a_decreasing_convex_symmetric_curve():
    alpha = np.linspace(0.0, 1.0, 41)
    band = _band(_sampled_event(0.01, 1.0, 1_000), alpha)
    assert np.all(np.diff(band.estimate) <= 1e-12) and np.all(np.diff(band.estimate, 2) >= -1e-5)
    back = _band(_sampled_event(0.01, 1.0, 1_000), np.clip(band.estimate, 0.0, 1.0))
    assert np.allclose(back.estimate, alpha, atol=1e-5)


def test_degenerate_events():
    nothing = _band(dpa.NoOpDpEvent(), np.array([0.0, 0.3, 1.0]))
    assert np.allclose(nothing.lower, [1.0, 0.7, 0.0], atol=1e-12)
    everything = _band(dpa.NonPrivateDpEvent(), np.array([0.0, 0.3]))
    assert np.all(everything.upper <= 1e-12)
    assert isinstance(_band(dpa.GaussianDpEvent(1.0), 0.1).lower, float)


def test_nothing_lost_is_mu_zero():
    accountant = EdgeworthIntervalAccountant().compose(dpa.NoOpDpEvent())
    assert accountant.get_gdp_mu() == 0.0 and accountant.get_advantage() == 0.0


def test_advantage_is_total_variation():
    accountant = EdgeworthIntervalAccountant().compose(dpa.GaussianDpEvent(1.0))
    found = whole_curve.advantage(accountant.whole_curve())
    assert found.lower <= 2 * special.ndtr(0.5) - 1 <= found.upper < found.lower + 1e-9


@pytest.mark.parametrize("event, mu", [
    (dpa.GaussianDpEvent(1.0), 1.0), (dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(2.0), 8), np.sqrt(2.0)),
    (dpa.NoOpDpEvent(), 0.0), (dpa.NonPrivateDpEvent(), np.inf)])
def test_mu_of_gaussians(event, mu):
    accountant = EdgeworthIntervalAccountant().compose(event)
    found = whole_curve.gdp_mu(accountant.whole_curve())
    assert found.lower <= mu <= found.upper
    assert mu == np.inf or found.upper - found.lower < 1e-3


@pytest.mark.parametrize("others", [[], [dpa.GaussianDpEvent(1.0)], [dpa.LaplaceDpEvent(1.0)]])
@pytest.mark.parametrize("exposed", [dpa.NonPrivateDpEvent(), dpa.GaussianDpEvent(0.0)])
@pytest.mark.parametrize("bound", ["spectral", "adaptive"])
def test_no_mu_where_everything_may_be_lost(others, exposed, bound):
    accountant = EdgeworthIntervalAccountant(bound=bound).compose(dpa.ComposedDpEvent([*others, exposed]))
    assert accountant.get_gdp_mu() == accountant.get_gdp_parameter_estimate() == np.inf


def test_the_gaussian_of_mu_lies_below_the_curve():
    accountant = EdgeworthIntervalAccountant().compose(_sampled_event(0.02, 1.0, 1_000))
    found = whole_curve.gdp_mu(accountant.whole_curve(), 1e-6)
    alpha = np.geomspace(1e-6, 0.4, 100)
    band = whole_curve.tradeoff(alpha, accountant.whole_curve())
    relevant = band.upper >= alpha
    assert np.all(_gaussian(found.upper)(alpha[relevant]) <= band.upper[relevant] + 1e-12)
    assert np.any(_gaussian(found.lower * 0.999)(alpha) > band.lower)
    assert found.upper < whole_curve.gdp_mu(accountant.whole_curve(), 1e-12).upper


@pytest.mark.parametrize("call", [
    lambda a: whole_curve.tradeoff(1.5, a.whole_curve()),
    lambda a: whole_curve.gdp_mu(a.whole_curve(), 0.0),
    lambda a: whole_curve.tradeoff(0.5, a.whole_curve(), tolerance=0.0)])
def test_bad_input_is_refused(call):
    with pytest.raises(ValueError, match="Found"):
        call(EdgeworthIntervalAccountant().compose(dpa.GaussianDpEvent(1.0)))


def test_a_law_that_is_known_up_to_one_loss_may_have_another_one_just_beyond():
    # Q and P on two losses that are 2^-31 apart: g(t) = (q_1 - t p)_+ + (q_2 - t p)_+ with p = 1/16; known up to the smaller one
    p, first, second = Fraction(1, 16), Fraction(9, 64) * (1 - Fraction(1, 2**31)), Fraction(9, 64)
    gap = float((second - first) / first)
    end = math.log(float(first / p))
    law = tradeoff.Polygons.of_law(np.array([0.0, end]), np.array([float(first + second - 2 * p), float(second - first)]), 0.0)
    alpha = p / 2
    true = 1 - second / p * alpha  # at t = q_2 / p, where g is 0; 1 - g(t) - t alpha falls on either side of it
    upper = Fraction(float(law.below.largest(np.array([float(alpha)]), 1.0)[0][0]))
    assert gap < 1e-9 and true <= upper <= true + Fraction(1, 10**9)


def test_losses_that_e_to_them_does_not_tell_apart():
    accountant = EdgeworthIntervalAccountant().compose(ProfileDpEvent([1e-17], [0.0]), 3)
    alpha = np.array([0.0, 0.1, 0.5, 0.9, 1.0])
    band = accountant.get_tradeoff(alpha)
    assert np.all(band.lower <= 1.0 - alpha) and np.all(1.0 - alpha - 1e-16 <= band.upper)  # f is 1 - alpha less at most delta(0)
    assert np.all(band.upper - band.lower <= 1e-14)
    assert 0.0 <= accountant.get_gdp_mu() < 1e-3
