"""Finite pairs whose losses are so far apart that e to the distance is no number, against closed forms in 40 digits."""

from __future__ import annotations

import math

import dp_accounting as dpa
import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event
from main_branch import DiscreteGaussian, EpsilonDelta

from dp_edgeworth import Atoms, EdgeworthIntervalAccountant, ProfileDpEvent

FAR = [100.0, 4999.0, 5001.0, 6000.0, 11_400.0, 20_000.0, 1e10]


@pytest.mark.parametrize("gap", FAR)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.5, 0.999, 0.9999])
def test_the_hockey_stick_between_losses_far_apart(gap: float, share: float) -> None:
    """Q has half its mass at each of two losses: 1/2 (1 - e^{eps - gap}) beyond the smaller one, 1, and both of them below it."""
    pair = Atoms((math.exp(-1.0), 1.0 - math.exp(-1.0), 0.0), (0.5, 0.0, 0.5), losses=(math.log(0.5) + 1.0, -math.inf, gap))
    with mpmath.workdps(40):
        eps, first = mpmath.mpf(share * gap), mpmath.mpf(math.log(0.5) + 1.0)
        known = float(mpmath.log(sum((1 - mpmath.exp(eps - loss)) / 2 for loss in (first, mpmath.mpf(gap)) if loss > eps)))
    assert pair.log_hockey_stick(np.array([share * gap]))[0] == pytest.approx(known, abs=1e-15 * gap + 1e-14)


@pytest.mark.parametrize("gap", FAR)
@pytest.mark.parametrize("kind", ["discrete Laplace", "pure zCDP", "profile"])
def test_epsilon_of_pure_mechanisms_far_out(kind: str, gap: float) -> None:
    """Randomised response with epsilon a: delta(eps) = (1 - e^{eps - a}) / (1 + e^-a). Upper ends were 0 from 5,000 on."""
    event = {"discrete Laplace": dp_event.DiscreteLaplaceDpEvent(gap, 1), "pure zCDP": dpa.ZCDpEvent(0.0, gap),
             "profile": ProfileDpEvent((gap,), (0.0,))}[kind]
    found = EdgeworthIntervalAccountant().compose(event)
    with mpmath.workdps(40):
        known = mpmath.mpf(gap) + mpmath.log1p(-mpmath.mpf(0.2) * (1 + mpmath.exp(-gap)))
        delta = (1 - mpmath.exp(mpmath.mpf(-0.5))) / (1 + mpmath.exp(-gap))
    interval, deltas = found.get_epsilon_interval(0.2), found.get_delta_interval(gap - 0.5)
    assert interval.lower <= known <= interval.upper <= known + 1e-9 * max(1.0, gap)
    assert deltas.lower <= delta <= deltas.upper <= delta + 1e-11 + 1e-14 * gap
    if kind != "profile":  # of which nothing is known from below
        assert interval.lower >= known - 1e-9 * max(1.0, gap) and deltas.lower >= delta - 1e-11 - 1e-14 * gap


def test_an_approximate_guarantee_with_a_large_epsilon() -> None:
    """delta + (1 - delta) of randomised response: epsilon(0.2) was 0."""
    interval = EdgeworthIntervalAccountant().compose(EpsilonDelta(6000.0, 0.1)).get_epsilon_interval(0.2)
    assert interval.lower <= 6000.0 + math.log1p(-0.1 / 0.9) <= interval.upper <= 6000.0


def test_discrete_gaussian_noise_that_hardly_ever_moves() -> None:
    """Noise 0.009 is 0 but with probability 2 e^{-6173}: delta(eps) = 1 - e^{eps - 1 / (2 sigma^2)}, which was at most 1e-318."""
    loss = 0.5 / 0.009**2
    found = EdgeworthIntervalAccountant().compose(DiscreteGaussian(0.009, 1.0, 1)).get_delta_interval(loss - 1.0)
    assert found.lower <= -math.expm1(-1.0) <= found.upper <= -math.expm1(-1.0) + 1e-9
