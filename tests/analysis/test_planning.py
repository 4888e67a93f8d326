"""Calibration and its reverse questions: certified at the answer, and not beyond it."""

import math

import dp_accounting as dpa
import pytest
from dp_accounting.privacy_accountant import NeighboringRelation
from scipy import stats

from dp_edgeworth import EdgeworthIntervalAccountant
from dp_edgeworth.analysis import planning

BUDGET = {"target_epsilon": 2.0, "target_delta": 1e-6}


def _epsilon(p, sigma, steps, relation=NeighboringRelation.ADD_OR_REMOVE_ONE):
    event = planning.sampled_gaussian(p, sigma, steps)
    return EdgeworthIntervalAccountant(relation).compose(event).get_epsilon(BUDGET["target_delta"])


def test_calibrated_noise_is_certified_and_least():
    noise = planning.calibrate_noise(sampling_probability=0.01, steps=1_000, **BUDGET)
    assert _epsilon(0.01, noise, 1_000) <= 2.0 < _epsilon(0.01, noise - 1e-4, 1_000)


def test_batches_and_epochs_are_another_way_to_say_it():
    by_size = planning.calibrate_noise(batch_size=600, dataset_size=60_000, epochs=10, **BUDGET)
    assert by_size == planning.calibrate_noise(sampling_probability=0.01, steps=1_000, **BUDGET)


def test_most_steps():
    steps = planning.max_steps(noise_multiplier=2.0, sampling_probability=0.05, **BUDGET)
    assert _epsilon(0.05, 2.0, steps) <= 2.0 < _epsilon(0.05, 2.0, steps + 1)
    assert planning.max_steps(noise_multiplier=0.1, sampling_probability=1.0, **BUDGET) == 0
    with pytest.raises(planning.BudgetError, match="steps"):
        planning.max_steps(noise_multiplier=1.0, sampling_probability=0.0, **BUDGET)


def test_largest_sampling_probability():
    p = planning.max_sampling_probability(noise_multiplier=1.5, steps=2_000, **BUDGET)
    assert _epsilon(p, 1.5, 2_000) <= 2.0 < _epsilon(p * (1 + 1e-5), 1.5, 2_000)
    assert planning.max_sampling_probability(noise_multiplier=100.0, steps=2, **BUDGET) == 1.0


def test_the_relation_matters():
    recipe = {"sampling_probability": 1.0, "steps": 1, **BUDGET}
    replaced = planning.calibrate_noise(**recipe, neighboring_relation=NeighboringRelation.REPLACE_ONE)
    assert replaced == pytest.approx(2 * planning.calibrate_noise(**recipe), rel=1e-5)


def test_sampling_with_certainty_is_no_sampling():
    assert planning.sampled_gaussian(1.0, 2.0, 3) == dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(2.0), 3)


@pytest.mark.parametrize("settings, name", [
    ({"steps": 10}, "sampling_probability"), ({"sampling_probability": 0.1}, "steps"),
    ({"sampling_probability": 0.1, "steps": 1, "epochs": 1}, "epochs"),
    ({"sampling_probability": 0.1, "batch_size": 1, "steps": 1}, "batch_size"),
    ({"batch_size": 20, "dataset_size": 10, "steps": 1}, "batch_size"),
    ({"sampling_probability": 1.1, "steps": 1}, "sampling_probability"),
    ({"sampling_probability": 0.1, "steps": 1.5}, "steps"),
    ({"sampling_probability": 0.1, "steps": 1, "tol": -1}, "tol"),
    ({"sampling_probability": 1e-300, "epochs": 1e300}, "`epochs` must take at most 1e300 steps"),
])
def test_bad_input_is_refused(settings, name):
    with pytest.raises(ValueError, match=name):
        planning.calibrate_noise(**BUDGET, **settings)


@pytest.mark.parametrize("delta", [0.5, 1e-5])
@pytest.mark.parametrize("epsilon", [0.0, 1e-300])
def test_the_smallest_noise_for_epsilon_zero(epsilon, delta):
    """delta(0) = 2 Phi(mu/2) - 1 with mu = sqrt(n) / noise: many noises have epsilon exactly 0, and the smallest is wanted."""
    noise = planning.calibrate_noise(sampling_probability=1, steps=10, target_epsilon=epsilon, target_delta=delta, tol=1e-4)
    exact = math.sqrt(10) / (2 * float(stats.norm.ppf((1 + delta) / 2)))
    assert exact * (1 - 1e-9) <= noise <= exact * (1 + 1e-9) + 2e-4


def test_any_tolerance_comes_to_an_end():
    """Noise of two Gaussians: epsilon 1 at the delta of mu = sqrt(2) / noise."""
    noise = planning.calibrate_noise(sampling_probability=1, steps=2, target_epsilon=1.0, target_delta=1e-5, tol=1e-300)
    mu = math.sqrt(2) / noise
    delta = stats.norm.cdf(mu / 2 - 1 / mu) - math.e * stats.norm.cdf(-mu / 2 - 1 / mu)
    assert delta == pytest.approx(1e-5, rel=1e-6)
    coarse, fine = (planning.max_sampling_probability(noise_multiplier=20.0, steps=2, target_epsilon=0.1, target_delta=1e-5, tol=tol)
                    for tol in (1e-4, 1e-17))
    assert coarse <= fine <= coarse * 1.0001


def test_budgets_without_a_limit():
    recipe = {"sampling_probability": 0.1, "steps": 10}
    assert planning.calibrate_noise(target_epsilon=math.inf, target_delta=1e-5, **recipe) == 0.0
    assert 0.0 < planning.calibrate_noise(target_epsilon=1.0, target_delta=1.0, **recipe) <= 1e-6
    with pytest.raises(planning.BudgetError, match="No noise multiplier meets `target_epsilon` 1 at `target_delta` 0"):
        planning.calibrate_noise(target_epsilon=1.0, target_delta=0.0, **recipe)
