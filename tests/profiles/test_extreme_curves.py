"""Events known by a curve where that curve is constant, of one point, or out of the floats."""

from __future__ import annotations

import math

import dp_accounting as dpa
import numpy as np
import pytest
from dp_accounting import dp_event

from dp_edgeworth import AdditiveNoiseDpEvent, EdgeworthIntervalAccountant, ProfileDpEvent, RenyiDpEvent
from dp_edgeworth.losses.renyi_curves import ZeroConcentrated, log_profile

pytestmark = pytest.mark.filterwarnings("error")
DISJOINT = AdditiveNoiseDpEvent("beta", (("a", 2.0), ("b", 2.0)))  # of width 1, which the sensitivity is


@pytest.mark.parametrize(("epsilons", "deltas", "lower", "most"), [
    ((0.0,), (0.03,), (0.007,), 0.03), ((5e-324,), (0.5,), (0.2,), 0.5), ((-800.0, 1.0), (1.0, 0.1), None, 0.1),
    ((-800.0,), (1.0,), None, 1.0), ((700.0, 1e10), (0.5, 0.0), (0.4, 0.0), 1.0), ((1e300,), (0.0,), None, 1.0)])
def test_points_at_the_ends_of_the_floats(epsilons, deltas, lower, most) -> None:
    """Divisions by the distance of points that are one, e^800, and infinity times 0."""
    accountant = EdgeworthIntervalAccountant().compose(ProfileDpEvent(epsilons, deltas, lower))
    found = accountant.get_delta_interval(np.array([0.0, 2.0, math.inf]))
    assert np.all((found.lower >= 0.0) & (found.lower <= found.upper)) and np.all(np.diff(found.upper) <= 0.0)
    assert 0.999 * most <= found.upper[1] <= min(most * (1.0 + 1e-11), 1.0)


@pytest.mark.parametrize("shape", [0.0, 1.0, math.inf])
def test_selection_of_what_is_not_private(shape: float) -> None:
    """Its curve is 1 everywhere, at every scale: ValueError of `numpy`. Without a run, e^-5 of Poisson's law, nothing is lost."""
    event = dp_event.RepeatAndSelectDpEvent(DISJOINT, 5.0, shape)
    found = EdgeworthIntervalAccountant().compose(event).get_delta_interval(1.0)
    least = -math.expm1(-5.0) if math.isinf(shape) else 1.0
    assert least * (1.0 - 1e-9) <= found.lower <= found.upper == 1.0


@pytest.mark.parametrize("shape", [1.0, math.inf])
def test_selection_of_a_huge_curve(shape: float) -> None:
    found = EdgeworthIntervalAccountant().compose(dp_event.RepeatAndSelectDpEvent(dpa.ZCDpEvent(1e12), 2.0, shape))
    assert found.get_delta(1.0) == 1.0 and found.get_delta(math.inf) <= 5e-324


@pytest.mark.parametrize("event", [
    dp_event.RepeatAndSelectDpEvent(dpa.LaplaceDpEvent(0.5), 100.0, 0.5), RenyiDpEvent((5.58,), (1.0,)), dpa.ZCDpEvent(0.1)])
def test_delta_falls_up_to_infinity(event: dpa.DpEvent) -> None:
    """A Renyi curve leaves no infinite loss, though the pair that stands for it has one of 1e-15 for rounding."""
    upper = EdgeworthIntervalAccountant().compose(event, 2).get_delta(np.array([0.0, 1.0, 30.0, 1e6, math.inf]))
    assert np.all(np.diff(upper) <= 0.0)
    assert EdgeworthIntervalAccountant().compose(event, 2).get_delta(math.inf) <= 5e-324


def test_the_profile_of_a_renyi_curve_at_infinity() -> None:
    assert log_profile(ZeroConcentrated(0.1), np.array([math.inf]))[0] == -math.inf


def test_negative_epsilons_are_no_smaller_than_positive_ones() -> None:
    """1 - e^eps + e^eps delta(-eps) is rounded down by 2e-15; delta(-eps) itself is a lower end, too."""
    accountant = EdgeworthIntervalAccountant().compose(dp_event.DiscreteLaplaceDpEvent(5.0, 7), 100)
    found = accountant.get_delta_interval(np.array([-1.5, 1.5]))
    assert found.lower[0] >= found.lower[1] and found.upper[0] >= found.upper[1]


@pytest.mark.parametrize("p", [1e-6, 1e-100, 1e-300, 5e-324])
def test_rare_samples_of_a_composition(p: float) -> None:
    """Overflow of odds times e^700; a curve below 1e-40 everywhere; p times the least float was 0, and so was delta.

    delta(0) is p times the total variation inside. Gaussian noise has no largest loss: delta is nowhere 0, epsilon(0) infinite.
    """
    event = dpa.PoissonSampledDpEvent(p, dpa.ComposedDpEvent([dpa.GaussianDpEvent(1.0), dpa.LaplaceDpEvent(1.0)]))
    accountant = EdgeworthIntervalAccountant().compose(event)
    found = accountant.get_delta_interval(np.array([0.0, 1.0, 1e3]))
    assert np.all((0.0 <= found.lower) & (found.lower <= p) & (found.upper > 0.0)) and accountant.get_epsilon(0.0) == math.inf
    assert found.upper[0] <= 1.0001 * p + 1e-21


@pytest.mark.parametrize("event", [dpa.GaussianDpEvent(1e100), dpa.LaplaceDpEvent(1e15)])
def test_selection_of_what_hardly_loses_anything(event: dpa.DpEvent) -> None:
    """Nodes so near to each other that e to them is one float."""
    found = EdgeworthIntervalAccountant().compose(dp_event.RepeatAndSelectDpEvent(event, 5.0, 1.0)).get_delta_interval(0.0)
    assert 0.0 <= found.lower <= found.upper <= 1e-13
