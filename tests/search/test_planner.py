"""The planner guesses: at any place, also a bad one, it makes a curve that is true, or none; and at a good one a narrow one."""

from __future__ import annotations

import math

import numpy as np
import pytest
from cases import composed, gaussian, laplace, repeated, sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from known_curves import KNOWN, Known

from dp_edgeworth import EdgeworthIntervalAccountant
from dp_edgeworth.losses.rules import RuleTooLargeError
from dp_edgeworth.proofs.aliases import log_kappa
from dp_edgeworth.search import contours, crossing
from dp_edgeworth.search.ladder import Place, place_at_epsilon, place_of_delta
from dp_edgeworth.sums.composition import Composition

EPSILONS = np.array([0.0, 0.3, 1.0, 3.0])


def true(place: Place | None, known: Known, **options) -> None:
    if place is None:
        return
    try:
        curve = contours.planned(place, options.pop("width", 1e-6), options.pop("slope", place.slope), **options)
    except RuleTooLargeError:
        return
    if curve is None:
        return
    bounds = curve.bounds(EPSILONS)
    for epsilon, lower, upper in zip(EPSILONS, bounds.lower, bounds.upper, strict=True):
        exact = known.log(float(epsilon), complement=curve.complement)
        assert lower - 1e-13 <= exact <= upper + 1e-13, (known.name, epsilon, lower, exact, upper)


@given(st.sampled_from(KNOWN), st.floats(-700.0, -1e-12), st.booleans())
@settings(max_examples=60, deadline=None)
def test_places_of_deltas(known: Known, log_g: float, complement: bool) -> None:
    true(place_of_delta(known.composition, log_g, complement=complement), known, short=True)


@given(st.sampled_from(KNOWN), st.floats(-50.0, 50.0))
@settings(max_examples=60, deadline=None)
def test_places_at_epsilons(known: Known, epsilon: float) -> None:
    true(place_at_epsilon(known.composition, epsilon), known, short=True)


@given(st.sampled_from(KNOWN), st.floats(-5.0, 5.0), st.floats(-40.0, 10.0), st.floats(-12.0, 6.0), st.floats(-14.0, 2.0),
       st.floats(0.0, 14.0), st.floats(1.0, 40.0))
@settings(max_examples=60, deadline=None)
def test_a_bad_place_makes_a_wide_curve_or_none(known: Known, moved, log_g, log_slope, log_width, reserve, finer) -> None:
    """Epsilon, log G and slope of the place are guesses of others: here they are nonsense."""
    place = place_at_epsilon(known.composition, 0.5)
    if place is None:
        return
    bad = place._replace(epsilon=place.epsilon + moved, log_g=min(log_g, -1e-9), slope=math.exp(log_slope))
    true(bad, known, width=math.exp(log_width), slope=math.exp(log_slope), reserve=reserve, finer=finer, short=True)


@pytest.mark.parametrize("event", [
    repeated(sampled(0.01, gaussian(0.8)), 10_000), repeated(sampled(0.3, laplace(2.0)), 300),
    composed(repeated(sampled(0.02, gaussian(0.9)), 2_000), repeated(laplace(4.0), 50), gaussian(20.0))],
    ids=["sampled", "laplace", "mixed"])
def test_a_good_place_makes_a_narrow_curve(event) -> None:
    for composition in EdgeworthIntervalAccountant().compose(event)._compositions():
        place = place_of_delta(composition, math.log(1e-6), complement=False)
        assert place is not None
        curve = contours.planned(place, 1e-6, place.slope)
        assert curve is not None
        bounds = curve.bounds(np.array([place.epsilon]))
        assert abs(bounds.estimate[0] - math.log(1e-6)) < 1.0
        assert bounds.upper[0] - bounds.lower[0] <= 1e-6 * max(1.0, place.epsilon) * abs(bounds.slope[0])


@pytest.mark.parametrize("known", [known for known in KNOWN if "lost" not in known.name], ids=lambda known: known.name)
@pytest.mark.parametrize("complement", [False, True])
def test_tilts_of_a_ladder_are_exact_in_both_directions(known: Known, complement: bool) -> None:
    """Neither c + 1 nor -1 - c is rounded where both directions share their sums."""
    place = place_of_delta(Composition(known.counts, paired=True), -3.0, complement=complement)
    if place is not None and place.composition.paired:
        tilts = place.rungs.tilts
        assert np.array_equal((1.0 + tilts) - 1.0, tilts) and np.array_equal(-1.0 - (-1.0 - tilts), tilts)
        assert np.allclose(place.log_bounds, log_kappa(tilts) + place.rungs.log_mgf + place.rungs.error, rtol=0, atol=1e-15)


@pytest.mark.parametrize("spare", [-6.0, -10.0, -14.0])
def test_a_short_sum_is_wider_and_still_true(monkeypatch, spare) -> None:
    """The cut-off is paid for."""
    event, exact = repeated(sampled(0.01, gaussian(0.8)), 10_000), 10.053634770654059  # golden/exact_epsilon.json
    monkeypatch.setattr(contours, "_SPARE", spare)
    composition = EdgeworthIntervalAccountant().compose(event)._compositions()[0]
    place = place_of_delta(composition, math.log(1e-5), complement=False)
    assert place is not None
    curve = contours.planned(place, 1e-6, place.slope)
    assert curve is not None
    bounds = curve.bounds(np.array([exact]))
    assert bounds.lower[0] <= math.log(1e-5) <= bounds.upper[0]


def test_a_bound_from_below_that_is_bad_near_0_is_good_further_out() -> None:
    """Between two points a table is linear in e^eps; a bound from below serves all smaller epsilons, one from above all larger ones."""
    epsilons, goal = np.array([0.0, 1.0, 2.0, 3.0]), np.log(np.array([0.4]))
    below = crossing._inverse(epsilons, np.array([-np.inf, math.log(0.5), math.log(0.3), -np.inf]), goal, falling=False)
    above = crossing._inverse(epsilons, np.array([0.0, math.log(0.5), math.log(0.3), np.inf]), goal)
    expected = math.log(0.5 * (math.exp(1.0) + math.exp(2.0)))
    assert below[0] == pytest.approx(expected, rel=1e-12) and above[0] == pytest.approx(expected, rel=1e-12)
