"""The face of `PrivacyLossDistribution`: against dp-accounting's own, and inside libraries that use it, where these are installed."""

import inspect
import math

import dp_accounting as dpa
import numpy as np
import pytest
from dp_accounting.pld import common
from dp_accounting.pld import privacy_loss_distribution as theirs

import dp_edgeworth
from dp_edgeworth import pld as ours

AR, RO, RS = dpa.NeighboringRelation
FINE = {"value_discretization_interval": 1e-4}
LOG = {0: math.log(0.7), 1: math.log(0.3)}
MADE = [
    ("from_gaussian_mechanism", {"standard_deviation": 2.0, "sensitivity": 1.5}),
    ("from_gaussian_mechanism", {"standard_deviation": 1.0, "sampling_prob": 0.1}),
    ("from_gaussian_mechanism", {"standard_deviation": 1.0, "neighboring_relation": RO}),
    ("from_gaussian_mechanism", {"standard_deviation": 1.0, "sampling_prob": 0.1, "neighboring_relation": RO}),
    ("from_laplace_mechanism", {"parameter": 2.0, "sensitivity": 0.5}),
    ("from_laplace_mechanism", {"parameter": 1.0, "sampling_prob": 0.2}),
    ("from_discrete_laplace_mechanism", {"parameter": 0.7, "sensitivity": 2}),
    ("from_mixture_gaussian_mechanism", {
        "standard_deviation": 1.5, "sensitivities": [0.0, 1.0], "sampling_probs": [0.6, 0.4]}),
    ("from_randomized_response", {"noise_parameter": 0.5, "num_buckets": 4}),
    ("from_privacy_parameters", {"privacy_parameters": common.DifferentialPrivacyParameters(0.5, 1e-7)}),
    ("from_two_probability_mass_functions", {
        "log_probability_mass_function_lower": LOG, "log_probability_mass_function_upper": {0: math.log(0.4), 1: math.log(0.6)},
        "symmetric": False}),
]


@pytest.mark.parametrize("times", [1, 5])
@pytest.mark.parametrize("name, settings", MADE, ids=[name for name, _ in MADE])
def test_agrees_with_dp_accounting(name, settings, times):
    if not hasattr(theirs, name) or not set(settings) <= set(inspect.signature(getattr(theirs, name)).parameters):
        pytest.skip("not in this dp-accounting")
    a, b = (getattr(module, name)(**settings, **FINE).self_compose(times) for module in (ours, theirs))
    for epsilon in (0.0, 0.5, 2.0):
        # theirs is rounded up, by at most 1e-4 per loss
        assert a.accountant().get_delta_interval(epsilon).lower <= b.get_delta_for_epsilon(epsilon) * (1 + 1e-9) + 1e-12
        assert a.get_delta_for_epsilon(epsilon) == pytest.approx(b.get_delta_for_epsilon(epsilon), rel=1e-2, abs=1e-8)
    assert a.get_epsilon_for_delta(1e-5) == pytest.approx(b.get_epsilon_for_delta(1e-5), abs=1e-3 * times)


def test_every_argument_of_dp_accounting_is_taken():
    for name, function in inspect.getmembers(ours, inspect.isfunction):
        if function.__module__ == ours.__name__ and not name.startswith("_") and hasattr(theirs, name):
            assert set(inspect.signature(getattr(theirs, name)).parameters) <= set(inspect.signature(function).parameters), name


def test_compositions_of_unlike_losses():
    a, b = (module.from_gaussian_mechanism(3.0, sampling_prob=0.2, **FINE).self_compose(10).compose(
        module.from_laplace_mechanism(4.0, **FINE)) for module in (ours, theirs))
    assert a.get_epsilon_for_delta(1e-6) == pytest.approx(b.get_epsilon_for_delta(1e-6), abs=2e-3)
    both = a.get_delta_for_epsilon_for_composed_pld(ours.from_laplace_mechanism(1.0), 1.0)
    assert both == a.compose(ours.from_laplace_mechanism(1.0)).get_delta_for_epsilon(1.0)
    assert ours.identity().compose(a).get_epsilon_for_delta(1e-6) == a.get_epsilon_for_delta(1e-6)
    assert ours.identity().get_epsilon_for_delta(1e-6) == 0.0
    assert a.get_delta_for_epsilon(np.array([0.0, 1.0])).shape == (2,)


def test_optimistic_answers_are_lower_ends():
    exact = 4.377178095681225  # one Gaussian of noise 1 at delta 1e-5
    low = ours.from_gaussian_mechanism(1.0, pessimistic_estimate=False)
    assert low.get_epsilon_for_delta(1e-5) <= exact <= ours.from_gaussian_mechanism(1.0).get_epsilon_for_delta(1e-5)
    with pytest.raises(ValueError, match="pessimistic_estimate"):
        low.compose(ours.from_gaussian_mechanism(1.0))


def test_relations_are_not_mixed():
    with pytest.raises(ValueError, match=r"REPLACE_ONE\. Found ADD_OR_REMOVE_ONE"):
        ours.from_randomized_response(0.5, 2).compose(ours.from_gaussian_mechanism(1.0))
    with pytest.raises(ValueError, match=r"made by `dp_edgeworth\.pld`"):
        ours.identity().compose(theirs.identity())


@pytest.mark.parametrize("call", [
    lambda: ours.from_gaussian_mechanism(0.0), lambda: ours.from_gaussian_mechanism(1.0, sampling_prob=1.5),
    lambda: ours.from_laplace_mechanism(-1.0), lambda: ours.from_gaussian_mechanism(1.0).self_compose(0),
    lambda: ours.from_gaussian_mechanism(1.0).get_delta_for_epsilon(-1.0)])
def test_bad_parameters_are_named(call):
    with pytest.raises(ValueError, match=r"must be .*\. Found"):
        call()


@pytest.fixture
def pipeline_dp(monkeypatch):
    library = pytest.importorskip("pipeline_dp")
    monkeypatch.setattr(library.budget_accounting, "pldlib", ours)
    return library


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("kind", ["GAUSSIAN", "LAPLACE", "GENERIC"])
def test_budget_accountant_of_pipeline_dp(pipeline_dp, kind):
    from pipeline_dp import budget_accounting

    kinds = pipeline_dp.aggregate_params.MechanismType
    accountant = budget_accounting.PLDBudgetAccountant(total_epsilon=1.0, total_delta=1e-6, pld_discretization=1e-4)
    specs = [accountant.request_budget(getattr(kinds, kind)), accountant.request_budget(kinds.GAUSSIAN, sensitivity=2, weight=3),
             accountant.request_budget(kinds.LAPLACE, count=4)]
    accountant.compute_budgets()
    assert all(spec is not None for spec in specs)
    noise = accountant.base_noise_std
    spent = accountant._compose_distributions(noise).get_epsilon_for_delta(1e-6)
    assert 0.99 < spent <= 1.0


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("mechanism", ["gaussian", "laplace"])
def test_accountant_of_pfl(monkeypatch, mechanism):
    pytest.importorskip("pfl")
    from pfl.privacy import privacy_accountant

    settings = {"num_compositions": 100, "sampling_probability": 0.05, "mechanism": mechanism, "epsilon": 2.0, "delta": 1e-6}
    theirs_noise = privacy_accountant.PLDPrivacyAccountant(**settings, value_discretization_interval=1e-4).cohort_noise_parameter
    monkeypatch.setattr(privacy_accountant, "privacy_loss_distribution", ours)
    noise = privacy_accountant.PLDPrivacyAccountant(**settings).cohort_noise_parameter
    assert noise == pytest.approx(theirs_noise, rel=5e-3)


RISK = {"sample_rate": 0.01, "num_steps": 500}


@pytest.mark.filterwarnings("ignore")
def test_evaluator_of_riskcal(monkeypatch):
    pytest.importorskip("riskcal")
    from riskcal.calibration import dpsgd

    evaluator = dpsgd.create_dpsgd_epsilon_evaluator(**RISK, target_delta=1e-5)
    expected = evaluator(1.0).epsilon
    monkeypatch.setattr(dpsgd, "pld_module", ours)
    assert evaluator(1.0).epsilon == pytest.approx(expected, rel=1e-3)


@pytest.mark.filterwarnings("ignore")
def test_calibration_to_risk_agrees_with_riskcal():
    pytest.importorskip("riskcal")
    from riskcal.calibration import dpsgd

    mine = {"sampling_probability": 0.01, "steps": 500}
    evaluator = dpsgd.create_dpsgd_evaluator(**RISK, grid_step=1e-3, target_alpha=0.05)
    assert evaluator(dp_edgeworth.calibrate_noise(target_advantage=0.1, **mine)).advantage == pytest.approx(0.1, rel=1e-2)
    noise = dp_edgeworth.calibrate_noise(target_true_positive_rate=0.2, false_positive_rate=0.05, **mine)
    assert evaluator(noise).beta == pytest.approx(0.8, rel=1e-2)


@pytest.mark.parametrize("symmetric", [True, False])
def test_masses_below_the_floats_are_not_zero(symmetric: bool) -> None:
    """e^-900 was 0, and its loss infinite: delta(950) at least 1/4 where it is 0, epsilon(0.1) infinite where it is 898.1."""
    for pessimistic in (True, False):
        found = ours.from_two_probability_mass_functions({0: -900.0, 1: 0.0}, {0: math.log(0.25), 1: math.log(0.75)},
                                                         pessimistic_estimate=pessimistic, symmetric=symmetric)
        known = 900.0 + math.log(0.25) + math.log1p(-0.1 / 0.25)  # delta(eps) = (1 - e^{eps - L}) / 4 at eps >= 0, L = 900 - log 4
        assert found.get_delta_for_epsilon(950.0) == 0.0
        assert found.get_epsilon_for_delta(0.1) == pytest.approx(known, abs=1e-9)
        assert (found.get_epsilon_for_delta(0.1) >= known) == pessimistic
