"""Selections whose exact law is known by direct summation or integration are inside; RDP's bound is above."""

from __future__ import annotations

import math

import dp_accounting as dpa
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import rdp_privacy_accountant as rdp
from scipy import integrate, optimize, stats

from dp_edgeworth import EdgeworthIntervalAccountant as Interval
from dp_edgeworth.profiles import selection

RO = dpa.NeighboringRelation.REPLACE_ONE


def gamma_of(mean, shape):
    """The parameter of the truncated negative binomial law, solved by other means than the module's."""
    def mean_of(log_gamma):
        g = math.exp(log_gamma)
        return (1 / g - 1) / math.log(1 / g) if shape == 0 else shape * (1 - g) / (g * (1 - g**shape))

    return math.exp(optimize.brentq(lambda x: mean_of(x) - mean, -40.0, -1e-7))


def law_of_runs(mean, shape, most=40_000):
    """P(K = 0, 1, ...)."""
    k = np.arange(most)
    if math.isinf(shape):
        return stats.poisson.pmf(k, mean)
    gamma = gamma_of(mean, shape)
    steps = np.cumsum(np.log((k[1:] - 1 + shape) / k[1:])) if shape > 0 else -np.log(k[1:])
    weights = np.exp(steps + k[1:] * math.log1p(-gamma))
    return np.concatenate([[0.0], weights / weights.sum()])


@pytest.mark.parametrize("shape", [0.0, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("mean", [1.01, 4.0, 100.0])
def test_the_odds_are_those_of_the_law(mean, shape):
    gamma = gamma_of(mean, shape)
    found = selection._odds(mean, shape)
    assert found >= (1 - gamma) / gamma * (1 - 1e-9) and found == pytest.approx((1 - gamma) / gamma, rel=1e-6)
    law = law_of_runs(mean, shape)
    assert law @ np.arange(len(law)) == pytest.approx(mean, rel=1e-6)


@pytest.mark.parametrize("shape", [0.0, 1.0, 2.5, math.inf])
@pytest.mark.parametrize("mean", [1.5, 5.0, 30.0])
@pytest.mark.parametrize("noise", [0.3, 0.8])
def test_randomised_response_by_direct_summation(mean, shape, noise):
    """Two outcomes, the larger one is the better one: the selection is 0 exactly if all runs are; no run is a third outcome."""
    law = law_of_runs(mean, shape)
    runs = np.arange(len(law))
    worse = [noise / 2, 1 - noise / 2]  # P(a run gives 0) with either record
    p, q = (np.array([law[0], float((law[1:] * w ** runs[1:]).sum())]) for w in worse)
    p, q = (np.append(a, 1 - a.sum()) for a in (p, q))
    accountant = Interval(RO).compose(dp_event.RepeatAndSelectDpEvent(dpa.RandomizedResponseDpEvent(noise, 2), mean, shape))
    for eps in (0.0, 0.2, 0.7, 1.5, 3.0):
        exact = max(np.maximum(q - math.exp(eps) * p, 0).sum(), np.maximum(p - math.exp(eps) * q, 0).sum())
        found = accountant.get_delta_interval(eps)
        assert found.upper >= exact * (1 - 1e-9)
        assert 0.0 <= found.lower <= found.upper


@pytest.mark.parametrize("shape", [0.0, 1.0, math.inf])
@pytest.mark.parametrize("mean", [2.0, 10.0])
def test_gaussian_scores_by_integration(mean, shape):
    """The output is the score, N(0, 1) or N(mu, 1): density phi'(Phi(y)) times the normal one."""
    mu, law = 0.7, law_of_runs(mean, shape)
    derivative = np.polynomial.polynomial.polyder(law[: np.flatnonzero(law)[-1] + 1])
    accountant = Interval().compose(dp_event.RepeatAndSelectDpEvent(dpa.GaussianDpEvent(1 / mu), mean, shape))
    grid = np.linspace(-9.0, 10.0, 1201)
    with_record, without = (np.polynomial.polynomial.polyval(stats.norm.cdf(grid - shift), derivative) * stats.norm.pdf(grid - shift)
                            for shift in (mu, 0.0))
    for eps in (0.0, 0.5, 1.2, 2.5):
        for a, b in ((with_record, without), (without, with_record)):
            exact = integrate.trapezoid(np.maximum(a - math.exp(eps) * b, 0.0), grid)
            assert accountant.get_delta(eps) >= exact * (1 - 1e-3) - 1e-9


@pytest.mark.parametrize(("mean", "shape"), [(10.0, 0.0), (10.0, 1.0), (30.0, 1.0), (100.0, math.inf), (3.0, math.inf)])
@pytest.mark.parametrize("delta", [1e-5, 1e-8])
def test_dp_sgd_recipes_are_cheaper_than_rdp_says(mean, shape, delta):
    training = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.0)), 1000)
    event = dp_event.RepeatAndSelectDpEvent(training, mean, shape)
    ours = Interval().compose(event).get_epsilon_interval(delta)
    assert ours.upper < rdp.RdpAccountant().compose(event).get_epsilon(delta)
    one = Interval().compose(training).get_epsilon_interval(delta)
    assert ours.lower <= one.upper <= ours.upper


def test_one_run_is_the_event_itself():
    event = dp_event.RepeatAndSelectDpEvent(dpa.GaussianDpEvent(2.0), 1.0, 1.0)
    assert Interval().compose(event).get_epsilon(1e-5) == Interval().compose(dpa.GaussianDpEvent(2.0)).get_epsilon(1e-5)


@pytest.mark.parametrize("inner", [dpa.NonPrivateDpEvent(), dpa.GaussianDpEvent(0.0)])
def test_non_private_runs(inner):
    assert Interval().compose(dp_event.RepeatAndSelectDpEvent(inner, 3.0, 1.0)).get_delta(9.0) == 1.0
    assert Interval().compose(dp_event.RepeatAndSelectDpEvent(dpa.NoOpDpEvent(), 3.0, 1.0)).get_epsilon(0.0) == 0.0


@pytest.mark.parametrize(("mean", "shape"), [(0.5, 1.0), (math.nan, 1.0), (math.inf, 1.0), (2.0, -0.5), (2.0, math.nan)])
def test_bad_parameters_get_a_sentence(mean, shape):
    with pytest.raises(ValueError, match=r"mean|shape"):
        Interval().supports(dp_event.RepeatAndSelectDpEvent(dpa.GaussianDpEvent(1.0), mean, shape))


@pytest.mark.parametrize("mean", [1.0, 1.1, 3.0])
@pytest.mark.parametrize("c", [0.1, 1.0, 8.0])
def test_the_renyi_curve_of_poisson_many_runs_by_direct_summation(mean, c):
    """Runs with a few outcomes from the worst to the best, ties broken by a uniform number."""
    rng, closest = np.random.default_rng(7), math.inf
    for _ in range(300):
        q, other = rng.dirichlet(rng.choice([0.1, 1.0, 10.0]) * np.ones(4)), rng.dirichlet(np.ones(4))
        other = q + rng.choice([1e-3, 0.1, 1.0]) * (other - q)
        below, other_below = (np.cumsum(law) - law for law in (q, other))
        bend = mean * ((c + 1.0) * q - c * other)
        start = mean * ((c + 1.0) * below - c * other_below - 1.0)
        with np.errstate(all="ignore"):
            inside = np.where(np.abs(bend) > 1e-9, np.expm1(bend) / bend, 1.0)
        power = other * (q / other) ** (c + 1.0)
        exact = math.exp(-mean) + math.fsum(power * mean * np.exp(start) * inside)
        d = math.fsum(np.maximum(other - (1.0 + 1.0 / c) * q, 0.0))
        bound = mean * math.exp(c * mean * d) * math.fsum(power)
        assert exact <= bound * (1.0 + 1e-12)
        closest = min(closest, bound / exact)
    assert closest < 1.001 * mean  # nothing is charged that is not needed: with mean 1, pairs that are nearly equal attain it


@pytest.mark.parametrize("mean", [1.0, 1.2])
@pytest.mark.parametrize("run", [dp_event.ZCDpEvent(0.001), dpa.GaussianDpEvent(2.0), dpa.LaplaceDpEvent(3.0)])
@pytest.mark.parametrize("count", [1, 7])
def test_a_run_or_none_is_at_most_what_rdp_says(mean, run, count):
    event = dp_event.RepeatAndSelectDpEvent(run, mean, math.inf)
    ours, peer = Interval().compose(event, count), rdp.RdpAccountant().compose(event, count)
    for delta in (1e-3, 1e-6):
        assert ours.get_epsilon(delta) <= peer.get_epsilon(delta) * (1.0 + 1e-9)


def test_many_selections_are_at_most_what_rdp_says():
    event = dp_event.RepeatAndSelectDpEvent(dpa.GaussianDpEvent(10.0), 10.0, 1.0)
    ours = Interval().compose(event, 20).get_epsilon(1e-5)
    assert ours < rdp.RdpAccountant().compose(event, 20).get_epsilon(1e-5)


@pytest.mark.parametrize("rho", [0.1, 1.0])
@pytest.mark.parametrize("mean", [10.0, 100.0])
@pytest.mark.parametrize("delta", [1e-5, 1e-8])
def test_many_runs_of_a_class_are_at_most_what_its_own_curve_says(rho, mean, delta):
    """Papernot and Steinke's curve of zCDP itself, not of the pair that its conversion makes."""
    event = dp_event.RepeatAndSelectDpEvent(dpa.ZCDpEvent(rho), mean, math.inf)
    peer = rdp.RdpAccountant().compose(event).get_epsilon(delta)
    assert Interval().compose(event).get_epsilon(delta) <= peer * (1.0 + 1e-9)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("noise", [1e6, 1e14, 1e40])
def test_selections_look_the_same_at_every_scale(noise):
    """Far below 1 a loss is proportional to 1 / noise, and so are delta at 0 and epsilon at a tenth of it."""
    laplace, scale = dp_event.RepeatAndSelectDpEvent(dpa.LaplaceDpEvent(noise), 10.0, 1.0), 1.0 / noise
    found = Interval().compose(laplace).get_delta_interval(0.0)
    assert 0.49 * scale <= found.lower <= 0.5 * scale <= found.upper <= 1.52 * scale
    gaussian = Interval().compose(dp_event.RepeatAndSelectDpEvent(dpa.GaussianDpEvent(noise), 10.0, 1.0))
    root = 1.0 / math.sqrt(2.0 * math.pi)
    found = gaussian.get_delta_interval(0.0)
    assert 0.99 * root * scale <= found.lower <= root * scale <= found.upper <= 2.8 * scale
    at = gaussian.get_delta_interval(scale)  # of one run: scale times E[(Z - 1)_+]
    assert 0.97 * 0.0833154705876 * scale <= at.lower <= 0.0833154705877 * scale
