"""Accountants inside real jax_privacy: plans and training accountants. Runs where it is installed (`tests/adapters/run.sh`)."""

import functools

import dp_accounting as dpa
import pytest

pytest.importorskip("jax_privacy")

from jax_privacy.accounting import accountants, analysis, calibrate
from jax_privacy.experimental import execution_plan

import dp_edgeworth.jax_privacy
from dp_edgeworth import EdgeworthIntervalAccountant, factories

pytestmark = pytest.mark.filterwarnings("ignore")
RS = dpa.NeighboringRelation.REPLACE_SPECIAL
PLAN = {"iterations": 40, "strategy": [1.0, 0.5], "delta": 1e-6, "sampling_prob": 0.1}
PARAMETERS = {"noise_multipliers": 1.0, "batch_size": 100, "num_samples": 10_000, "delta": 1e-5}


def plan(accountant=None, **settings):
    if accountant is not None:
        settings["accountant"] = accountant
    return execution_plan.BandMFExecutionPlanConfig(**{**PLAN, **settings}).plan


def test_execution_plan_is_calibrated_by_our_accountant():
    ours, theirs = plan(EdgeworthIntervalAccountant(RS), epsilon=2.0), plan(epsilon=2.0)
    epsilon = EdgeworthIntervalAccountant(RS).compose(ours.dp_event).get_epsilon(1e-6)
    assert 1.99 < epsilon <= 2.0
    assert dpa.pld.PLDAccountant(RS).compose(ours.dp_event).get_epsilon(1e-6) == pytest.approx(epsilon, rel=1e-3)
    assert type(ours.dp_event) is type(theirs.dp_event)


def test_execution_plan_with_given_noise_has_the_event_of_dp_accounting():
    event = plan(EdgeworthIntervalAccountant(RS), epsilon=None, delta=None, noise_multiplier=1.5).dp_event
    assert event == plan(epsilon=None, delta=None, noise_multiplier=1.5).dp_event


def test_truncated_batches_are_supported():
    truncated = plan(EdgeworthIntervalAccountant(RS), epsilon=4.0, truncated_batch_size=30, num_examples=400)
    assert EdgeworthIntervalAccountant(RS).compose(truncated.dp_event).get_epsilon(1e-6) <= 4.0


def test_relation_of_the_accountant_is_checked():
    with pytest.raises(Exception, match="INDEPENDENT"):
        plan(EdgeworthIntervalAccountant(), epsilon=2.0)


@pytest.mark.parametrize("settings", [{}, {"value_discretization_interval": 1e-3}, {"orders": [2, 3]}])
def test_training_accountant(settings):
    config = dp_edgeworth.jax_privacy.EdgeworthAccountantConfig(**settings)
    accountant = analysis.DpsgdTrainingAccountant(dp_accountant_config=config)
    epsilon = accountant.compute_epsilon(num_updates=1_000, dp_params=analysis.DpParams(**PARAMETERS))
    # p 0.01, noise 1, 1,000 steps at delta 1e-5
    event = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.0)), 1_000)
    exact = EdgeworthIntervalAccountant().compose(event).get_epsilon_interval(1e-5)
    assert exact.lower <= epsilon <= exact.upper + 1e-9
    assert epsilon == pytest.approx(dpa.pld.PLDAccountant().compose(event).get_epsilon(1e-5), rel=1e-4)


@pytest.mark.parametrize(("method", "step"), [("POISSON", 1e-3), ("FIXED_BATCH_SIZE", 1e-3)])
def test_accounting_of_users(method, step):
    """Below a PLD accountant's number, which is a grid's upper bound, and near it."""
    parameters = analysis.DpParams(noise_multipliers=4.0, batch_size=1_024, num_samples=50_000, delta=1e-5, examples_per_user=2,
                                   sampling_method=analysis.SamplingMethod[method])

    def epsilon(config):
        accountant = analysis.DpsgdTrainingUserLevelAccountant(dp_accountant_config=config)
        return accountant.compute_epsilon(num_updates=1_000, dp_params=parameters)

    ours = epsilon(dp_edgeworth.jax_privacy.EdgeworthAccountantConfig())
    theirs = epsilon(accountants.PldAccountantConfig(value_discretization_interval=step))
    assert 0.99 * theirs < ours <= theirs


def test_calibration_of_jax_privacy():
    config = dp_edgeworth.jax_privacy.EdgeworthAccountantConfig()
    accountant = analysis.DpsgdTrainingAccountant(dp_accountant_config=config)
    steps = calibrate.calibrate_num_updates(target_epsilon=2.0, accountant=accountant, batch_sizes=100, noise_multipliers=1.0,
                                            num_samples=10_000, target_delta=1e-5)
    ours = dp_edgeworth.max_steps(noise_multiplier=1.0, sampling_probability=0.01, target_epsilon=2.0, target_delta=1e-5)
    assert 0.95 * ours < steps <= ours


@pytest.mark.parametrize("make", [
    EdgeworthIntervalAccountant, functools.partial(factories.pld_accountant, value_discretization_interval=1e-3),
    functools.partial(factories.rdp_accountant, orders=[2, 4])])
def test_functions_that_make_accountants(make):
    assert make().compose(dpa.GaussianDpEvent(1.0)).get_epsilon(1e-5) == pytest.approx(4.377178095681225, abs=1e-6)
