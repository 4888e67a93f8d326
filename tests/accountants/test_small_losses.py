"""Leaves too small to matter beside others: widths, and containment in closed forms and the oracle."""

import numpy as np
import pytest
from dp_accounting import dp_event as de
from mpmath import mp

from comparisons import exact
from dp_edgeworth import EdgeworthIntervalAccountant
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.rules import Demand
from dp_edgeworth.search import answers

ONE = {"discrete laplace": de.DiscreteLaplaceDpEvent(1.0, 1), "laplace": de.LaplaceDpEvent(1.0),
       "sampled laplace": de.PoissonSampledDpEvent(0.5, de.LaplaceDpEvent(0.5))}


def small_leaves(scale):
    return {"laplace": de.LaplaceDpEvent(1.0 / scale), "gaussian": de.GaussianDpEvent(1.0 / scale),
            "discrete laplace": de.DiscreteLaplaceDpEvent(scale, 1),
            "sampled gaussian": de.PoissonSampledDpEvent(0.1, de.GaussianDpEvent(1.0 / scale)),
            "rare gaussian": de.PoissonSampledDpEvent(max(scale, 1e-290), de.GaussianDpEvent(1.0))}


@pytest.mark.parametrize("name", ONE)
@pytest.mark.parametrize("scale", [1e-300, 1e-100, 1e-20])
@pytest.mark.parametrize("count", [1, 10**6])
@pytest.mark.parametrize("delta", [1e-6, 0.05])
def test_one_mechanism_beside_losses_of_nothing(name, scale, count, delta):
    """What the small leaves add is below 1e-10: the answer is that of the other one."""
    alone = EdgeworthIntervalAccountant().compose(ONE[name]).get_epsilon_interval(delta)
    for leaf in small_leaves(scale).values():
        lower, estimate, upper = EdgeworthIntervalAccountant().compose(ONE[name]).compose(leaf, count).get_epsilon_interval(delta)
        assert lower <= estimate <= upper <= lower + 1e-6
        assert lower <= alone.upper + 1e-10 and upper >= alone.lower  # post-processing


@pytest.mark.parametrize(("leaf", "count"), [
    (de.GaussianDpEvent(1e6), 1000), (de.GaussianDpEvent(1e3), 1), (de.GaussianDpEvent(1e5), 10**4)])
@pytest.mark.parametrize("delta", [1e-6, 1e-3])
def test_beside_small_losses_against_the_oracle(leaf, count, delta):
    """One Laplace mechanism near its largest loss, which the small ones smear."""
    whole = de.ComposedDpEvent([de.LaplaceDpEvent(1.0), de.SelfComposedDpEvent(leaf, count)])
    lower, _, upper = EdgeworthIntervalAccountant().compose(whole).get_epsilon_interval(delta)
    value, accuracy = exact.exact_epsilon(whole, delta)
    assert lower <= value * (1 + accuracy + 1e-13) and value * (1 - accuracy - 1e-13) <= upper
    assert upper - lower <= 1e-6


def laplace_and_gaussian(eps, mu, tau):
    """delta of Laplace noise with shift mu beside a Gaussian with shift tau, by 60-digit integration over the Laplace loss."""
    def delta_gaussian(e):
        return mp.ncdf(tau / 2 - e / tau) - mp.exp(e) * mp.ncdf(-tau / 2 - e / tau)

    def between(x):  # L = 2x - mu has the Q-density e^{x - mu} / 2
        return mp.exp(x - mu) / 2 * delta_gaussian(eps - 2 * x + mu)

    nodes = sorted({mp.mpf(0), mu, *(min(max((eps + mu) / 2 + k * tau, mp.mpf(0)), mu) for k in (-40, -8, -2, 0, 2, 8, 40))})
    return (mp.quad(between, nodes) + delta_gaussian(eps - mu) / 2 + mp.exp(-mu) / 2 * delta_gaussian(eps + mu))


@pytest.mark.parametrize("tau", [1e-12, 1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("eps", [0.3, 0.9999])
def test_delta_in_sixty_digits(tau, eps):
    with mp.workdps(60):
        value = laplace_and_gaussian(mp.mpf(eps), mp.mpf(1), mp.mpf(tau))
        event = de.ComposedDpEvent([de.LaplaceDpEvent(1.0), de.GaussianDpEvent(1.0 / tau)])
        lower, _, upper = EdgeworthIntervalAccountant().compose(event).get_delta_interval(eps)
        # 1 / tau is rounded
        assert lower <= value * (1 + mp.mpf(1e-14)) and value * (1 - mp.mpf(1e-14)) <= upper
    assert upper - lower <= 2e-6


@pytest.mark.parametrize("tilt", [1e3, 1e5])
@pytest.mark.parametrize("turns", [0.0, 1.0, 2.0])
def test_steep_laplace_rules_in_sixty_digits(tilt, turns):
    """E_P[e^{sL}] relative to its value without a phase, where the rule follows the phase only near the largest loss."""
    mu, y = 1.0, turns * tilt
    rule = LaplaceShift(mu).rule(Demand(0.0, 1.01 * tilt + 1.0, 2.0 * tilt, 0.0, -np.inf, tilt + 1.0))
    assert rule.values.shape[1] < 60_000

    def transform(s):
        middle = mp.exp(-s * mu) * mp.expm1((2 * s - 1) * mu) / (2 * (2 * s - 1))
        return mp.exp(-s * mu) / 2 + middle + mp.exp((s - 1) * mu) / 2

    with mp.workdps(60):
        expected = transform(mp.mpf(tilt) + 1 + 1j * mp.mpf(y)) / transform(mp.mpf(tilt) + 1)
        found = mp.fsum(mp.exp(mp.mpf(w) + (mp.mpf(tilt) + 1 + 1j * mp.mpf(y)) * mp.mpf(v))
                        for v, w in zip(rule.values[0], rule.log_weights[0], strict=True)
                        if w + (tilt + 1.0) * v > tilt * mu - 60.0) / transform(mp.mpf(tilt) + 1)
        # nodes are floats: a phase of y times half a unit in the last place of mu
        assert abs(found - expected) <= 1e-14 + 4e-16 * (y + tilt)
        for s in (0.0, 0.5, 1.0, 30.0):
            total = mp.fsum(mp.exp(mp.mpf(w) + s * mp.mpf(v)) for v, w in zip(rule.values[0], rule.log_weights[0], strict=True))
            assert abs(total / transform(mp.mpf(s) if s != 0.5 else mp.mpf("0.5000001")) - 1) <= (1e-13 if s != 0.5 else 1e-6)


@pytest.mark.parametrize("delta", [5e-324, 1e-310, 1e-289, 1.0 - 1e-16])
def test_deltas_at_the_ends_of_the_floats(delta):
    alone = EdgeworthIntervalAccountant().compose(de.LaplaceDpEvent(1.0)).get_epsilon_interval(delta)
    for leaf in (de.GaussianDpEvent(1e20), de.LaplaceDpEvent(1e20)):
        found = EdgeworthIntervalAccountant().compose(de.LaplaceDpEvent(1.0)).compose(leaf).get_epsilon_interval(delta)
        assert 0 <= found.lower <= found.estimate <= found.upper
        assert found.upper >= alone.lower


def test_what_was_not_composed_is_paid_for():
    """Gaussian(1) with Laplace(1e4): the Laplace leaf is below the loose tolerance, and adds 2.5e-8."""
    gaussian, both = de.GaussianDpEvent(1.0), de.ComposedDpEvent([de.GaussianDpEvent(1.0), de.LaplaceDpEvent(1e4)])
    without = EdgeworthIntervalAccountant().compose(gaussian).get_epsilon_interval(1e-5)
    tight = EdgeworthIntervalAccountant(tolerance=1e-11).compose(both).get_epsilon_interval(1e-5)
    assert tight.lower > without.upper + 1e-8
    loose = answers.epsilon_bounds(EdgeworthIntervalAccountant().compose(both)._compositions(), np.array([1e-5]), 0.1)
    assert loose.lower[0] <= tight.upper and loose.upper[0] >= tight.upper
