"""Convolution on a geometric grid (`convolution.py`): on both sides of exact values, at every step."""

from __future__ import annotations

import math

import numpy as np
import pytest
from dp_accounting import NeighboringRelation as Relation
from dp_accounting import dp_event as de
from scipy import stats

from dp_edgeworth import EdgeworthIntervalAccountant, convolution, mechanisms
from dp_edgeworth.atoms import Atoms
from dp_edgeworth.cells import cells
from dp_edgeworth.composition import Composition
from dp_edgeworth.gaussian_noise import GaussianShift, NormalMixture, SampledReplacement, SampledWithoutReplacement
from dp_edgeworth.laplace_noise import LaplaceShift
from dp_edgeworth.pllr import Mixed, Pllr, Reversed, reverse, subsample

LEAVES: list[Pllr] = [
    GaussianShift(0.7),
    GaussianShift(4.0),
    subsample(GaussianShift(1.3), 1e-3),
    reverse(subsample(GaussianShift(1.3), 1e-3)),
    subsample(GaussianShift(3.3), 1e-7),
    subsample(GaussianShift(1e-3), 0.3),
    NormalMixture((0.0, 0.4, 2.0), (0.9, 0.07, 0.03)),
    reverse(NormalMixture((0.0, 0.4, 2.0), (0.9, 0.07, 0.03))),
    SampledReplacement(1.1, 1e-4),
    SampledWithoutReplacement(1.1, 1e-4),
    LaplaceShift(0.8),
    subsample(LaplaceShift(3.0), 1e-2),
    reverse(subsample(LaplaceShift(3.0), 1e-2)),
    Atoms((0.5, 0.3, 0.2), (0.3, 0.3, 0.4)),
    subsample(Atoms((0.5, 0.3, 0.2), (0.3, 0.3, 0.4)), 1e-5),
    Mixed((0.25, 0.75), (GaussianShift(1.0), subsample(GaussianShift(2.0), 0.1))),
]


@pytest.mark.parametrize("pllr", LEAVES, ids=repr)
def test_cells_are_a_partition(pllr: Pllr) -> None:
    found = cells(pllr, 0.05, -60.0)
    assert found is not None
    assert found.p.sum() == pytest.approx(1.0, rel=1e-12) and found.q.sum() == pytest.approx(1.0, rel=1e-12)
    assert np.all(found.low <= found.mean) and np.all(found.mean <= found.high) and np.all(found.error >= 0.0)
    # The mean is log(q / p), within its error and what the masses are off by.
    plain = (found.p > 1e-250) & (found.q > 1e-250) & np.isfinite(found.mean) & np.isfinite(found.low) & np.isfinite(found.high)
    off = np.abs(found.mean[plain] - np.log(found.q[plain] / found.p[plain]))
    assert np.all(off <= found.error[plain] + 2.0 * found.mass_error + 1e-15)


@pytest.mark.parametrize("step", [0.08, 0.02])
@pytest.mark.parametrize("pllr", LEAVES, ids=repr)
def test_one_use_against_its_closed_form(pllr: Pllr, step: float) -> None:
    found = convolution.convolved(Composition({pllr: 1}), math.log(1e-9), 0.01, step, 1e7)
    assert found is not None
    epsilons = np.array([0.0, 1e-9, 1e-6, 1e-4, 1e-2, 0.3, 1.0, 2.0])
    exact = pllr.inner.log_reversed_hockey_stick(epsilons) if isinstance(pllr, Reversed) else None
    exact = pllr.log_hockey_stick(epsilons) if exact is None else exact
    assert exact is not None
    bounds = found.bounds(epsilons)
    seen = exact > math.log(1e-9)
    assert np.all(bounds.lower <= exact + 1e-11) and np.all(exact - 1e-11 <= bounds.upper)
    assert np.all(bounds.upper[seen] - bounds.lower[seen] <= 20.0 * step)


def _binomial(p: float, loss: float, count: int, epsilon: float) -> float:
    """delta of `count` coins, P = (1-p, p), Q = (p, 1-p), by its sum."""
    heads = np.arange(count + 1)
    losses = (2 * heads - count) * loss
    return float((stats.binom.pmf(heads, count, 1.0 - p) * -np.expm1(np.minimum(epsilon - losses, 0.0))).sum())


@pytest.mark.parametrize("count", [2, 3, 7, 64, 1000])
@pytest.mark.parametrize("step", [0.08, 0.03, 0.01])
def test_coins_against_the_binomial_sum(count: int, step: float) -> None:
    coin = Atoms((0.45, 0.55), (0.55, 0.45))
    loss = math.log(0.55 / 0.45)
    found = convolution.convolved(Composition({coin: count}), math.log(1e-6), 0.1, step, 1e8)
    assert found is not None
    for epsilon in (0.05, 0.3, 1.0, 3.0):
        exact = math.log(max(_binomial(0.45, loss, count, epsilon), 1e-300))
        bounds = found.bounds(np.array([epsilon]))
        assert bounds.lower[0] <= exact + 1e-10 and (exact - 1e-10 <= bounds.upper[0])


# delta_2(eps) = int P(dx) e^{L(x)} h(eps - L(x)), h the closed form of one use: mpmath 1.3, 40 digits, 160 Gauss-Legendre panels.
TWO_USES = [
    (2.91e-8, 0.3, 2.5450e-7, 4.299994024041414008543737147550082641974e-8),
    (1e-4, 0.7, 0.002, 6.386461206590134151449762230495684687349e-6),
    (0.01, 1.0, 0.2, 2.059745641384059732612510434285377730231e-5),
]


@pytest.mark.parametrize("p, noise, epsilon, delta", TWO_USES)
def test_two_uses_against_a_quadrature(p: float, noise: float, epsilon: float, delta: float) -> None:
    event = de.PoissonSampledDpEvent(p, de.GaussianDpEvent(noise))
    pair = mechanisms.directions(event, Relation.ADD_OR_REMOVE_ONE)
    widths = []
    for step in (0.16, 0.08, 0.04, 0.02):
        found = convolution.convolved(Composition({pair[0]: 2}), math.log(delta), epsilon, step, 1e8)
        assert found is not None
        bounds = found.bounds(np.array([epsilon]))
        assert bounds.lower[0] <= math.log(delta) <= bounds.upper[0]
        widths.append(float(bounds.upper[0] - bounds.lower[0]))
        low, middle, high = found.crossing(math.log(delta), 0.0)
        assert low <= epsilon <= high and low <= middle <= high
    assert widths[-1] < widths[0] / 16.0  # of second order: 64 at best
    lower, _, upper = EdgeworthIntervalAccountant().compose(event, 2).get_epsilon_interval(delta)
    assert lower <= epsilon <= upper and upper - lower <= 1e-3 * upper
    lower, _, upper = EdgeworthIntervalAccountant().compose(event, 2).get_delta_interval(epsilon)
    assert lower <= delta <= upper and upper - lower <= 1e-3 * upper


RARE = [
    (3.44e-9, 3, 0.3, 8.6e-7, Relation.REPLACE_ONE),
    (1.26e-6, 25, 0.3, 1.1e-5, Relation.REPLACE_ONE),
    (1.11e-9, 5752, 0.3, 8.9e-8, Relation.REPLACE_ONE),
    (5.30e-5, 8, 0.4, 3.3e-4, Relation.REPLACE_ONE),
    (2.03e-4, 4, 0.7, 4.8e-5, Relation.REPLACE_ONE),
    (4.25e-9, 3, 0.4, 8.8e-9, Relation.ADD_OR_REMOVE_ONE),
    (7.646e-9, 2327, 0.618, 9.3e-10, Relation.ADD_OR_REMOVE_ONE),
]


@pytest.mark.parametrize("p, count, noise, delta, relation", RARE)
def test_a_few_rare_samples_are_narrow(p: float, count: int, noise: float, delta: float, relation: Relation) -> None:
    """Contours had no lower end there, or one a thousand times too low. Two deltas on both sides of the answer confirm it."""
    accountant = EdgeworthIntervalAccountant(relation).compose(de.PoissonSampledDpEvent(p, de.GaussianDpEvent(noise)), count)
    lower, estimate, upper = accountant.get_epsilon_interval(delta)
    assert lower <= estimate <= upper <= lower + max(2e-3 * lower, 1e-12)
    if lower > 0.0:
        assert accountant.get_delta_interval(0.99 * lower).upper > delta > accountant.get_delta_interval(1.01 * upper).lower


def test_work_is_bounded() -> None:
    composition = Composition({subsample(GaussianShift(1.0), 1e-3): 10**6})
    assert convolution.convolved(composition, math.log(1e-9), 0.1, 1e-3, 1e5) is None
    assert convolution.convolved(Composition({subsample(GaussianShift(1.0), 1e-3): 10**9}), math.log(1e-9), 0.1, 0.08, 1e9) is None
