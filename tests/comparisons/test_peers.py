"""The adapters of other accountants, each against the composition of Gaussians in closed form; PLD brackets."""

from __future__ import annotations

import math

import dp_accounting as dpa
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from dp_accounting.rdp import RdpAccountant

pytest.importorskip("rich")
pytest.importorskip("prv_accountant")

from comparisons import cases, gaussian_limit, methods, peers
from comparisons.brackets import pld_bracket

AR, RO = dpa.NeighboringRelation.ADD_OR_REMOVE_ONE, dpa.NeighboringRelation.REPLACE_ONE
GAUSSIANS = dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(80.0), 1500)
TRUTH = 1.9225918024608042  # closed form: one Gaussian of noise 80 / sqrt(1500) at delta 1e-5


def closed_form(noise: float, delta: float) -> float:
    return dpa.get_epsilon_gaussian(noise, delta)


@pytest.mark.parametrize(
    ("name", "tolerance"), [("GDP", 1e-9), ("GDP-E", 1e-5), ("PLD_1e-4", 1e-4), ("PLD_1e-3", 1e-3), ("FFT", 1e-3)]
)
@pytest.mark.parametrize(("relation", "factor"), [(AR, 1.0), (RO, 2.0)])
def test_adapter_against_gaussian_composition(
    name: str, tolerance: float, relation: dpa.NeighboringRelation, factor: float
) -> None:
    truth = closed_form(80.0 / math.sqrt(1500) / factor, 1e-5)
    assert factor == 2.0 or truth == pytest.approx(TRUTH, abs=1e-9)
    lower, estimate, upper = methods.METHODS[name].ends(GAUSSIANS, 1e-5, relation)
    value = upper if estimate is None else estimate
    assert value == pytest.approx(truth, abs=tolerance)
    if name == "FFT":
        assert lower is not None and upper is not None and lower < truth < upper
        assert upper - lower == pytest.approx(0.2, abs=0.01)


def test_afa_against_gaussian_composition() -> None:
    pytest.importorskip("autodp")
    _, estimate, _ = methods.METHODS["AFA"].ends(GAUSSIANS, 1e-5, AR)
    assert estimate == pytest.approx(TRUTH, abs=1e-6)


def test_rdp_is_above_the_closed_form_and_lacks_the_factor_two() -> None:
    assert methods.METHODS["RDP"].ends(GAUSSIANS, 1e-5, AR)[2] >= TRUTH  # type: ignore[operator]
    replace = RdpAccountant(neighboring_relation=RO).compose(dpa.GaussianDpEvent(1.0)).get_epsilon(1e-5)
    assert replace < closed_form(0.5, 1e-5)


def test_prv_laplace_takes_the_inverse_scale() -> None:
    """One Laplace mechanism: delta(eps) = 1 - e^{(eps - 1/b) / 2}."""
    scale, delta = 5.0, 0.01
    truth = 1.0 / scale + 2.0 * math.log1p(-delta)
    lower, estimate, upper = (
        peers.PrvAccountant(eps_error=0.01).compose(dpa.LaplaceDpEvent(scale)).get_epsilon_interval(delta)
    )
    assert lower <= truth <= upper
    assert estimate == pytest.approx(truth, abs=0.01)


def test_pld_unrolls_randomized_response() -> None:
    event = dpa.SelfComposedDpEvent(dpa.RandomizedResponseDpEvent(0.5, 2), 10)
    unrolled = peers.UnrolledPldAccountant(RO).compose(event).get_epsilon(1e-6)
    assert unrolled == pytest.approx(10.0 * math.log(3.0), abs=0.01)
    assert PLDAccountant(RO).compose(event).get_epsilon(1e-6) < 1.2  # the bug that makes it necessary
    assert peers.UnrolledPldAccountant(RO).supports(event)


def test_gdp_of_sampled_gaussians_is_the_published_mu() -> None:
    noises = [gaussian_limit.Noise("gaussian", 0.8, 0.01, 10_000)]
    assert gaussian_limit.gaussian_mu(noises) == pytest.approx(0.01 * math.sqrt(1e4 * math.expm1(0.8**-2)))


def test_gdp_e_reproduces_the_known_value() -> None:
    noises = [gaussian_limit.Noise("gaussian", 0.8, 0.01, 10_000)]
    assert gaussian_limit.gdp_e_epsilon(1e-5, noises) == pytest.approx(11.02, abs=0.005)


def test_loss_cumulants_against_monte_carlo_free_identities() -> None:
    """Plain Gaussian: mean +-mu^2/2, variance mu^2, nothing above; Laplace: mean = 1/b - 1 + e^{-1/b}."""
    under_p, under_q = gaussian_limit.loss_cumulants(gaussian_limit.Noise("gaussian", 2.0, 1.0, 1))
    np.testing.assert_allclose(under_p, [0.125, 0.25, 0.0, 0.0], atol=1e-12)
    np.testing.assert_allclose(under_q, [-0.125, 0.25, 0.0, 0.0], atol=1e-12)
    laplace, _ = gaussian_limit.loss_cumulants(gaussian_limit.Noise("laplace", 2.0, 1.0, 1))
    assert laplace[0] == pytest.approx(0.5 - 1.0 + math.exp(-0.5), abs=1e-12)


def test_adapters_name_the_event_they_do_not_support() -> None:
    accountant = peers.GdpAccountant()
    event = dpa.ComposedDpEvent([dpa.GaussianDpEvent(1.0), dpa.ZCDpEvent(1.0)])
    assert not accountant.supports(event)
    with pytest.raises(dpa.UnsupportedEventError, match="ZCDpEvent"):
        accountant.compose(event)
    assert not peers.PrvAccountant(RO).supports(cases.dp_sgd(0.1, 1.0, 2))


@pytest.mark.parametrize(
    ("event", "relation", "truth_"),
    [(dpa.GaussianDpEvent(1.0), AR, closed_form(1.0, 1e-5)), (dpa.GaussianDpEvent(1.0), RO, closed_form(0.5, 1e-5)),
     (dpa.SelfComposedDpEvent(dpa.LaplaceDpEvent(0.01), 3), AR, 300.0 + math.log1p(-8e-5)),
     (dpa.GaussianDpEvent(1e3), AR, closed_form(1e3, 1e-5))],
)  # fmt: skip
def test_brackets_of_pld_contain_the_truth(event: dpa.DpEvent, relation: dpa.NeighboringRelation, truth_: float) -> None:
    low, high = pld_bracket(event, 1e-5, relation)  # type: ignore[misc]
    assert low <= truth_ <= high + 1e-9 and high - low <= 2e-3 * truth_


def test_brackets_are_not_given_where_pld_is_not_to_be_trusted() -> None:
    assert pld_bracket(dpa.GaussianDpEvent(1.0), 1e-9, AR) is None
    assert pld_bracket(dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(1.0), 1001), 1e-5, AR) is None
    assert pld_bracket(dpa.LaplaceDpEvent(1.0), 1e-5, RO) is None
    coins = dpa.SelfComposedDpEvent(dpa.RandomizedResponseDpEvent(0.0381077086859431, 5), 509)
    assert pld_bracket(coins, 6.785811313457853e-07, RO) is None  # 2461.675 from below, where 2461.301 is exact
