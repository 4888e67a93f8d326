"""Exponential tails, and the saddle points at which they are best."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize

from dp_edgeworth import GaussianShift, LaplaceShift, subsample
from dp_edgeworth.paper.exponential_tail import Tail
from dp_edgeworth.paper.saddle_point import chernoff_epsilon, positive_tilt, saddle_tilt
from dp_edgeworth.sums.composition import Composition

SAMPLED = subsample(GaussianShift(1.25), 0.004)


def test_tails():
    """The grid of tilts is close to the optimum, and above the truth."""
    composition = Composition({SAMPLED: 10**4})
    tail, eps = Tail.of(composition, 1e-10), np.array([0.5, 1.0, 2.0, 3.0, 4.0])
    for i, epsilon in enumerate(eps):
        best = optimize.minimize_scalar(lambda s, e=epsilon: composition.cgf([s])[0, 0] - s * e, (1e-3, 30.0), method="bounded",
                                        bounds=(1e-3, 30.0), options={"xatol": 1e-9}).fun
        assert math.exp(best) * (1 - 1e-9) <= tail.bound(eps, 0.0, math.inf)[i] <= math.exp(best) * 1.01
    laplace, (p, mu, m) = Composition({subsample(LaplaceShift(1.0), 0.1): 200}), (0.1, 1.0, 200)
    x_tail = Tail.of(laplace, 1e-10).bound(eps, -1.0, math.inf) * np.exp(-eps)
    # Hoeffding ([EA] Section 4.5): X lies in an interval of this width, and its mean is at most 0
    width = math.log1p(p * math.expm1(mu)) - math.log1p(p * math.expm1(-mu))
    for value, epsilon in zip(x_tail, eps, strict=True):
        assert value <= math.exp(-2 * epsilon**2 / (m * width**2)) * 1.01


@pytest.mark.parametrize("mu, m", [(1.0, 1), (0.01, 10**6), (30.0, 4)])
def test_saddle_points_of_gaussians(mu, m):
    """K(c) = m mu^2 (c^2 + c) / 2, so K'(c) - log(1 + 1/c) = eps and c K' - K + log(1 + c) + log delta = 0 are equations in c alone."""
    composition, variance = Composition({GaussianShift(mu): m}), m * mu * mu
    for log_delta in (-0.5, -12.0, -300.0):
        exact = optimize.brentq(lambda c, t=log_delta: 0.5 * variance * c * c + math.log1p(c) + t, 1e-9, 1e4)
        found = positive_tilt(composition, log_delta)
        assert found == pytest.approx(exact, rel=2e-3)
        best = [chernoff_epsilon(composition, found * factor, log_delta) for factor in (0.98, 1.0, 1.02)]
        assert best[1] <= min(best) + 1e-5 * abs(best[1])
    epsilon = 0.5 * variance + 3.0 * math.sqrt(variance)
    exact = optimize.brentq(lambda c: variance * (c + 0.5) - math.log1p(1 / c) - epsilon, 1e-9, 1e4)
    assert saddle_tilt(composition, epsilon) == pytest.approx(exact, rel=2e-3)
