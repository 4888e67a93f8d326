"""Pairs from profiles: domination checked in rational and 40-digit arithmetic, between the nodes and at them."""

from __future__ import annotations

import itertools
import math
import pickle

import mpmath
import numpy as np
import pytest

from dp_edgeworth.losses.node_pair import NodePair
from dp_edgeworth.losses.operations import reverse
from dp_edgeworth.losses.profile_pair import dominated_pair, dominating_pair, subdivided
from dp_edgeworth.search import answers
from dp_edgeworth.sums.composition import Composition

mpmath.mp.dps = 40


def _gaussian(mu: float):
    """delta(eps) of a Gaussian shift, in 40 digits; the same in both directions."""
    def delta(eps):
        eps = mpmath.mpf(eps)
        return mpmath.ncdf(mu / mpmath.mpf(2) - eps / mu) - mpmath.exp(eps) * mpmath.ncdf(-mu / mpmath.mpf(2) - eps / mu)
    return delta, delta


def _atoms(p: list[float], losses: list[float], lost: float = 0.0, infinite: float = 0.0):
    """Both directions of a discrete pair whose Q is p e^L, and which is a pair only up to what `lost` and `infinite` make of it."""
    total_p = mpmath.fsum(p) + lost
    weights = [mpmath.mpf(mass) / total_p for mass in p]
    q = [weight * mpmath.exp(loss) for weight, loss in zip(weights, losses, strict=True)]
    scale = (1 - mpmath.mpf(infinite)) / mpmath.fsum(q)
    q = [mass * scale for mass in q]

    def remove(eps):
        return mpmath.fsum(max(b - mpmath.exp(eps) * a, 0) for a, b in zip(weights, q, strict=True)) + infinite

    def add(eps):
        return mpmath.fsum(max(a - mpmath.exp(eps) * b, 0) for a, b in zip(weights, q, strict=True)) + mpmath.mpf(lost) / total_p
    return remove, add


CURVES = {
    "gaussian 1": _gaussian(1.0),
    "gaussian 0.05": _gaussian(0.05),
    "gaussian 4": _gaussian(4.0),
    "randomised response 1": (lambda eps: max(mpmath.tanh(0.5) - (mpmath.exp(eps) - 1) / (1 + mpmath.e), mpmath.mpf(0)),) * 2,
    "asymmetric atoms": _atoms([0.5, 0.3, 0.15, 0.01], [-0.31, 0.02, 0.9, 2.2], lost=0.04, infinite=1e-6),
    "no atom near 0": _atoms([0.7, 0.3], [-0.77, 1.1]),
}


def _exact_profile(pair: NodePair, x):
    """H(x) of the stored masses in 40 digits: from above for x >= 1, from below otherwise."""
    atoms = [(mpmath.mpf(loss), mass) for loss, mass in zip(pair.losses.tolist(), pair.masses.tolist(), strict=True)]
    if x >= 1:
        return pair.infinite_mass + mpmath.fsum(mass * (1 - x * mpmath.exp(-loss)) for loss, mass in atoms if mpmath.exp(loss) > x)
    return 1 - x + x * pair.lost_mass + mpmath.fsum(mass * (x - mpmath.exp(loss)) for loss, mass in atoms if mpmath.exp(loss) < x)


def _up(value) -> float:
    return float(np.nextafter(float(value), 2.0)) if value > 0 else 0.0


def _down(value) -> float:
    return max(float(np.nextafter(float(value), -1.0)), 0.0)


def _points(spacing: float, largest: float) -> list[float]:
    rng = np.random.default_rng(3)
    inside = rng.uniform(-largest, largest, 25)
    return [*inside, 0.0, *(spacing * np.arange(-int(largest / spacing), int(largest / spacing) + 1)[::7])]


@pytest.mark.parametrize("spacing", [0.25, 0.03125])
@pytest.mark.parametrize("name", CURVES)
def test_pairs_are_on_their_sides_at_and_between_the_nodes(name: str, spacing: float):
    remove, add = CURVES[name]
    finer, count = 2, int(6.0 / spacing)
    nodes = spacing * np.arange(count + 1)
    upper = [np.array([_up(side(e)) for e in subdivided(nodes, finer)]) for side in (remove, add)]
    lower = [np.array([_down(side(e)) for e in subdivided(nodes, finer)]) for side in (remove, add)]
    below = dominated_pair((nodes, nodes), (lower[0], upper[0]), (lower[1], upper[1]), finer)
    above = dominating_pair((nodes, nodes), upper[0][::finer], upper[1][::finer])
    for eps in _points(spacing, 5.5):
        x = mpmath.exp(mpmath.mpf(float(eps)))
        true = remove(eps) if eps >= 0 else 1 - x + x * add(-eps)
        dominating = _exact_profile(above, x)
        assert _exact_profile(below, x) <= true <= dominating
        stored = math.exp(above.log_hockey_stick(np.array([float(eps)]))[0])
        assert stored == pytest.approx(float(dominating), rel=1e-12)
        mirrored = math.exp(reverse(above).log_hockey_stick(np.array([-float(eps)]))[0])
        assert mirrored == pytest.approx(float((dominating - 1 + x) / x), rel=1e-12)


@pytest.mark.parametrize("spacing", [0.25, 0.03125, 0.0078125])
def test_the_excess_and_the_deficit_are_of_second_order(spacing: float):
    """The variance of a Gaussian loss is 1: connect-the-dots adds spacing^2 / 6, tangents take less than that away."""
    delta = np.vectorize(lambda eps: float(_gaussian(1.0)[0](eps)))
    nodes = spacing * np.arange(int(9 / spacing) + 1)
    exact = delta(subdivided(nodes, 4))
    below = dominated_pair((nodes, nodes), (exact * (1 - 1e-15), exact * (1 + 1e-15)), (exact * (1 - 1e-15), exact * (1 + 1e-15)), 4)
    above = dominating_pair((nodes, nodes), exact[::4] * (1 + 1e-15), exact[::4] * (1 + 1e-15))
    variances = []
    for pair in (above, below):
        log_p, losses = pair._log_finite
        p = np.exp(log_p)
        assert p.sum() + pair.lost_mass == pytest.approx(1.0, abs=1e-13)
        assert np.exp(log_p + losses).sum() + pair.infinite_mass == pytest.approx(1.0, abs=1e-13)
        variances.append(p @ losses**2 - (p @ losses) ** 2)
    assert variances[0] == pytest.approx(1.0 + spacing**2 / 6, abs=2e-4 * spacing)
    assert 1.0 - 0.15 * spacing**2 < variances[1] < 1.0


def test_the_far_left_tail_does_not_cancel():
    """1/2-zCDP on eps in [-9, 9]: the lost mass is about 8e-18, where 1 - (1 - ...) gives -3.5e-13."""
    eps = 0.0625 * np.arange(145)
    orders = np.geomspace(1e-3, 30, 400)[:, None]
    log_kappa = orders * np.log(orders) - (1 + orders) * np.log1p(orders)
    bound = np.minimum(np.exp(log_kappa + orders * (0.5 * (orders + 1)) - orders * eps).min(axis=0), 1.0)
    pair = dominating_pair((eps, eps), bound, bound)
    assert pair.mirror and pair.lost_mass == pytest.approx(bound[-1], rel=1e-6) and 1e-18 < pair.lost_mass < 1e-17


def test_noisy_bounds_cost_what_the_noise_is():
    rng = np.random.default_rng(5)
    eps = 0.01 * np.arange(801)
    exact = np.vectorize(lambda e: float(_gaussian(1.0)[0](e)))(eps)
    noisy = exact * (1.0 + 1e-6 * rng.random(len(exact)))
    pair = dominating_pair((eps, eps), noisy, noisy)
    profile = np.exp(pair.log_hockey_stick(eps))
    assert np.all(profile >= exact) and np.all(profile <= exact * (1.0 + 1e-3))
    assert np.max(profile[:300] / exact[:300]) < 1.0 + 2e-6


def test_pairs_are_values():
    exact, nodes = np.array([0.4, 0.1, 0.01, 0.0]), (0.5 * np.arange(4),) * 2
    pair, same = dominating_pair(nodes, exact, exact), dominating_pair(nodes, exact, exact)
    assert pair == same and hash(pair) == hash(same) and pickle.loads(pickle.dumps(pair)) == pair
    assert pair != dominating_pair(nodes, exact, 0.9 * exact) and pair != "pair"
    assert reverse(pair) is pair and len({pair, same}) == 1


@pytest.mark.parametrize("size, last", [(5, 4.0), (40, 1.2), (1500, 1.2)])
@pytest.mark.parametrize("lost", [0.1, 1e-6])
def test_no_pair_has_more_mass_than_one(lost: float, size: int, last: float) -> None:
    """P has what Q never has, and nothing else happens: L = -log(1 - lost), of which nodes say less. A hull of values that are no
    profile had masses above 1, and many uses of it more loss than there is: exactly 1 - (1 - lost)^uses at epsilon 0."""
    loss, uses = -math.log1p(-lost), 60
    nodes = loss * np.linspace(0.0, last, size), np.array([0.0, 0.5 * loss, 3.0 * loss])

    def right(eps: np.ndarray) -> np.ndarray:
        return -np.expm1(np.minimum(eps - loss, 0.0))

    points = right(nodes[0]), np.full(3, lost)
    around = [tuple(side * (1.0 + sign * 1e-13) for sign in (-1.0, 1.0)) for side in points]
    below = dominated_pair(nodes, (around[0][0], around[0][1]), (around[1][0], around[1][1]), infinite=(0.0, lost * (1.0 - 1e-13)))
    above = dominating_pair(nodes, around[0][1], np.array([1.0 + 1e-13, 1.0 + 1e-13, 4.0]) * lost)
    for pair in (below, above):
        p_mass = pair.lost_mass + (pair.masses * np.exp(-np.maximum(pair.losses, 0.0))).sum()
        q_mass = pair.infinite_mass + (pair.masses * np.exp(np.minimum(pair.losses, 0.0))).sum()
        np.testing.assert_allclose([p_mass, q_mass], 1.0, rtol=0.0, atol=1e-11)
    found = [answers.delta_bounds([Composition({pair: uses})], np.zeros(1), 1e-9) for pair in (below, above)]
    exact = -math.expm1(uses * math.log1p(-lost))
    assert found[0].lower[0] <= exact * (1.0 + 1e-12)
    assert found[1].upper[0] >= exact * (1.0 - 1e-12)


def test_no_pair_above_has_more_mass_than_one_either() -> None:
    """Bounds at 0 that say little, and one direction that has no loss above 0.01: then the other one has lost 1 - e^-0.01 at most."""
    pair = dominating_pair((np.array([0.0, 0.01]), np.array([0.0, 1.0])), np.array([0.5, 0.0]), np.array([0.5, 0.5]))
    np.testing.assert_allclose([pair.lost_mass, pair.masses.sum()], [-math.expm1(-0.01), 1.0], rtol=1e-12)


@pytest.mark.parametrize("losses", [(1e-9,), (0.5,), (8.0,), (20.0,), (1.0, 2.0), (0.3, 26.0)])
def test_a_largest_loss_stays_finite_and_the_pair_above(losses: tuple[float, ...]) -> None:
    """Chords to 0 at the last epsilon, with nothing to spare at 0: no infinite mass, and losses hardly larger, but nowhere below."""
    eps = [mpmath.mpf(loss) for loss in losses]
    deltas = [*np.geomspace(0.01, 0.001, len(losses) - 1), 0.0]
    zero = mpmath.tanh(eps[0] / 2) + 2 * mpmath.mpf(deltas[0]) / (1 + mpmath.exp(eps[0]))
    nodes, values = np.array([0.0, *losses]), np.array([_up(zero), *deltas])
    pair = dominating_pair((nodes, nodes), values, values)
    assert pair.infinite_mass == pair.lost_mass == 0.0
    assert losses[-1] <= pair.supremum <= losses[-1] * (1.0 + 1e-14 * math.exp(min(losses[-1], 21.0)))
    corners = [(mpmath.mpf(0), zero), *zip(eps, map(mpmath.mpf, deltas), strict=True)]
    for (left, high), (right, low) in itertools.pairwise(corners):
        for share in (0, 0.25, 0.5, 0.999, 1):
            x = mpmath.exp(left) + share * mpmath.expm1(right - left) * mpmath.exp(left)
            assert _exact_profile(pair, x) >= high + share * (low - high)
