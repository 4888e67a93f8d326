"""Exponential tails at any tilts, against curves that are known to 40 digits; also where large losses are left out."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_curves import BY_NAME, KNOWN

from dp_edgeworth.losses.gaussian_noise import GaussianShift
from dp_edgeworth.losses.operations import subsample
from dp_edgeworth.proofs.chernoff import chernoff
from dp_edgeworth.proofs.reduction import Reduced, truncated
from dp_edgeworth.sums.composition import Composition

EPSILONS = np.array([-3.0, 0.0, 0.3, 1.0, 4.0, 20.0])


@given(st.lists(st.floats(-0.999, 30.0), min_size=1, max_size=12), st.sampled_from(KNOWN))
@settings(max_examples=100, deadline=None)
def test_any_tilts(tilts, known) -> None:
    bounds = chernoff(known.composition, np.array(tilts)).bounds(EPSILONS)
    for epsilon, lower, upper in zip(EPSILONS, bounds.lower, bounds.upper, strict=True):
        exact = known.log(float(epsilon), complement=False)
        assert lower <= exact + 1e-13 and exact - 1e-13 <= upper


def test_both_sides_say_something() -> None:
    bounds = chernoff(BY_NAME["gaussian"].composition, np.array([-0.9, -0.5, -0.1, 0.5, 1.0, 3.0])).bounds(np.array([-40.0, 9.0]))
    assert bounds.lower[0] > -1e-3 and bounds.upper[1] < -10.0


@pytest.mark.parametrize("share", [1e-3, 0.1, 0.3])
def test_the_lower_end_without_the_largest_losses(share: float) -> None:
    """E[payoff; nothing left out] is at least P(nothing left out) - E[min(1, e^{eps - Y}); nothing left out], not 1 less that."""
    whole = Composition({subsample(GaussianShift(4.0), 0.5): 1})
    step = truncated(whole, math.log(share))
    tilts = np.array([-0.9, -0.7, -0.5, -0.3, -0.1, 0.5, 1.0])
    bounds = Reduced(chernoff(step.rest, tilts), step).bounds(EPSILONS)
    single = whole.single
    assert single is not None
    exact = np.asarray(single.log_hockey_stick(np.maximum(EPSILONS, 0.0)))
    assert np.all(bounds.lower[1:] <= exact[1:] + 1e-12) and np.all(exact[1:] - 1e-12 <= bounds.upper[1:])
    kept = chernoff(step.rest, tilts).bounds(np.array([-300.0])).lower[0]
    assert kept <= math.log1p(-0.5 * share)  # at an epsilon of -300 all that is kept is the payoff
