"""What the largest loss says: exact sums in 60 digits, infinite masses, both ends of epsilon and of delta, and no rise."""

from __future__ import annotations

import itertools
import math

import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event
from hypothesis import given, settings
from hypothesis import strategies as st
from known_curves import KNOWN, Known
from mpmath import mp, mpf

from dp_edgeworth import EdgeworthIntervalAccountant
from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.gaussian_noise import GaussianShift
from dp_edgeworth.proofs import largest_loss
from dp_edgeworth.sums.composition import Composition


def infinite(known: Known) -> mpf:
    return 1 - (1 - mpf(0.0078125)) ** 12 if known.name == "coins that may be lost" else mpf(0)


@given(st.sampled_from(KNOWN), st.floats(-2.0, 40.0) | st.just(math.inf))
@settings(max_examples=120, deadline=None)
def test_delta(known: Known, epsilon: float) -> None:
    found = largest_loss.delta_bounds(known.composition, np.array([epsilon]))
    with mp.workdps(40):
        exact = infinite(known) + (0 if math.isinf(epsilon) else known.finite(epsilon))
        assert mpf(float(found.lower[0])) <= exact * (1 + mpf(1e-13)) and exact * (1 - mpf(1e-13)) <= mpf(float(found.upper[0]))


@given(st.sampled_from(KNOWN), st.floats(1e-12, 1.0) | st.sampled_from([0.0, 1.0]))
@settings(max_examples=120, deadline=None)
def test_epsilon(known: Known, delta: float) -> None:
    found = largest_loss.epsilon_bounds(known.composition, np.array([delta]))
    lower, upper = float(found.lower[0]), float(found.upper[0])
    with mp.workdps(40):
        if math.isfinite(upper):
            assert known.finite(upper) + infinite(known) <= mpf(delta) * (1 + mpf(1e-13))
        if 0.0 < lower < math.inf:
            assert known.finite(lower * (1.0 - 1e-13)) + infinite(known) > mpf(delta) * (1 - mpf(1e-12))
        assert lower < math.inf or delta == 0.0 or mpf(delta) < infinite(known)


def coin_delta(loss: float, count: int, epsilon: float) -> mpf:
    with mp.workdps(60):
        q = 1 / (1 + mp.exp(-mpf(loss)))
        return mp.fsum(mp.binomial(count, k) * q**k * (1 - q) ** (count - k) * max(
            0, 1 - mp.exp(mpf(epsilon) - mpf(loss) * (2 * k - count))) for k in range(count + 1))


@pytest.mark.parametrize(("loss", "count"), [(1.0, 5), (0.3, 7), (2.5, 3), (0.01, 100), (1.0, 1)])
def test_delta_does_not_rise_at_the_largest_loss(loss: float, count: int) -> None:
    """Five discrete Laplace(1): 1.04e-6 at 4.999995, and 0 from 5 on; it was 1.84e-4 at exactly 5.0."""
    accountant = EdgeworthIntervalAccountant().compose(dp_event.DiscreteLaplaceDpEvent(loss, 1), count)
    top = loss * count
    epsilons = [top - 5e-6, top * (1.0 - 2e-9), math.nextafter(top, 0.0), top, math.nextafter(top, math.inf), top * (1.0 + 1e-12),
    top + 5e-6, top + 1.0, math.inf]
    single = [accountant.get_delta_interval(epsilon) for epsilon in epsilons]
    array = accountant.get_delta_interval(np.array(epsilons))
    for i, (epsilon, found) in enumerate(zip(epsilons, single, strict=True)):
        exact = coin_delta(loss, count, epsilon) if math.isfinite(epsilon) else mpf(0)
        assert found.lower <= exact <= found.upper and array.lower[i] <= exact <= array.upper[i]
    assert all(a.upper * (1.0 + 1e-6) >= b.upper for a, b in itertools.pairwise(single))
    assert np.all(np.diff(array.upper) <= 0.0) and np.all(np.diff(array.lower) <= 0.0)
    assert single[3].upper <= 1e-11 * top  # the largest loss is rounded, so delta there may be a few 1e-15
    assert single[6].upper == 0.0 == single[-1].upper


def test_epsilon_of_delta_zero_is_the_largest_loss() -> None:
    for loss, count in ((1.0, 5), (0.7, 3)):
        lower, _, upper = EdgeworthIntervalAccountant().compose(dp_event.DiscreteLaplaceDpEvent(loss, 1),
        count).get_epsilon_interval(0.0)
        with mp.workdps(40):
            assert lower <= mpf(loss) * count <= upper
        assert upper - lower <= 1e-13 * upper


@pytest.mark.parametrize("count", [1, 4, 1000])
def test_what_is_infinite_stays(count: int) -> None:
    leak = 2.0**-9
    composition = Composition({Atoms((0.0, 1.0), (leak, 1.0 - leak)): count})
    with mp.workdps(40):
        exact = 1 - (1 - mpf(leak)) ** count
        found = largest_loss.delta_bounds(composition, np.array([0.0, 1.0, 1e300, math.inf]))
        assert all(mpf(float(low)) <= exact <= mpf(float(high)) for low, high in zip(found.lower, found.upper, strict=True))
    ends = largest_loss.epsilon_bounds(composition, np.array([float(exact) * (1.0 - 1e-9), float(exact) * (1.0 + 1e-9), 1.0]))
    assert ends.lower[0] == math.inf and ends.upper[1] == 0.0 and ends.upper[2] == 0.0


def test_beyond_all_floats() -> None:
    composition = Composition({GaussianShift(1e160): 1})
    assert largest_loss.epsilon_bounds(composition, np.array([1e-5, 1.0])).upper.tolist() == [math.inf, 0.0]
    assert largest_loss.delta_bounds(composition, np.array([1.0])).upper.tolist() == [1.0]


def test_sixty_digits_are_enough() -> None:
    assert abs(coin_delta(1.0, 5, 4.999995) - mpmath.mpf("1.04407e-6")) < 1e-10
