"""Poisson sampling of compositions against an independent evaluation, and against events that are known in closed form."""

from __future__ import annotations

import math

import dp_accounting as dpa
import numpy as np
import pytest
from main_branch import EpsilonDelta, Exponential
from scipy import special

from dp_edgeworth import EdgeworthIntervalAccountant as Interval

RS = dpa.NeighboringRelation.REPLACE_SPECIAL
LONG = np.longdouble


def sampled(p, *events):
    return dpa.PoissonSampledDpEvent(p, dpa.ComposedDpEvent(list(events)))


def gaussian_and_laplace(mu, b):
    """Loss and P-weight of N(0,1) -> N(mu,1) with Laplace(1) -> shifted by b, on a two-dimensional grid in 80 bits.

    Trapezoid sum over the normal, Gauss-Legendre over the middle of the Laplace law, its two atoms exactly.
    """
    x = np.arange(-LONG(13), LONG(14), LONG(1) / 8)
    normal = np.exp(-x * x / 2) / 8 / np.sqrt(8 * np.arctan(LONG(1)))
    nodes, weights = special.roots_legendre(60)
    y = (LONG(1) + nodes.astype(LONG)) * LONG(b) / 2
    middle = weights.astype(LONG) * LONG(b) / 2 * np.exp(-y) / 2
    losses_b = np.concatenate([[-LONG(b)], 2 * y - LONG(b), [LONG(b)]])
    masses_b = np.concatenate([[LONG(0.5)], middle, [np.exp(-LONG(b)) / 2]])
    losses = (LONG(mu) * x - LONG(mu) ** 2 / 2)[:, None] + losses_b
    masses = normal[:, None] * masses_b
    return losses.ravel(), (masses / masses.sum()).ravel()


def exact_delta(losses, masses, p, count, eps, add=False):
    """Inversion of the transform of the sampled loss in 80 bits: int e^{n K(c + iw) - (c + iw) eps} / ((c+iw)(c+1+iw))."""
    sampled_loss = np.log1p(LONG(p) * np.expm1(losses))
    loss, weight = (-sampled_loss, masses * np.exp(sampled_loss)) if add else (sampled_loss, masses)
    kept = weight > 1e-40
    loss, weight = loss[kept], weight[kept]

    def k(z):  # log E_Q[e^{zL}], under P with exponent z + 1
        return np.log((weight * np.exp((z + 1) * loss)).sum())

    tilts = np.geomspace(0.5, 200.0, 60)
    c = float(tilts[np.argmin([count * float(k(LONG(t))) - t * eps for t in tilts])])
    base = count * k(LONG(c)) - LONG(c) * LONG(eps)
    total, step = LONG(0), LONG(0.05) * max(1.0, c / 20)
    for j in range(200_000):
        z = np.clongdouble(c + 1j * float(step) * j)
        term = np.exp(count * k(z) - z * LONG(eps) - base) / (z * (z + 1))
        total += term.real * (LONG(0.5) if j == 0 else LONG(1))
        if j > 20 and abs(term) < 1e-19 * abs(total):
            break
    return float(np.exp(base) * total * step / (4 * np.arctan(LONG(1))))


@pytest.mark.parametrize("eps", [1.0, 3.0, 4.5])
def test_gaussian_with_laplace_a_thousand_times(eps):
    losses, masses = gaussian_and_laplace(1.0, 1.0)
    exact = max(exact_delta(losses, masses, 0.01, 1000, eps, add) for add in (False, True))
    accountant = Interval().compose(sampled(0.01, dpa.GaussianDpEvent(1.0), dpa.LaplaceDpEvent(1.0)), 1000)
    found = accountant.get_delta_interval(eps)
    assert found.lower <= exact <= found.upper
    interval = accountant.get_epsilon_interval(exact)
    assert interval.lower <= eps <= interval.upper <= interval.lower * (1 + 1e-4)


@pytest.mark.parametrize(("p", "count"), [(0.3, 20), (0.001, 5000), (0.05, 200)])
def test_other_rates(p, count):
    losses, masses = gaussian_and_laplace(0.8, 0.5)
    event = sampled(p, dpa.GaussianDpEvent(1 / 0.8), dpa.LaplaceDpEvent(2.0))
    interval = Interval().compose(event, count).get_epsilon_interval(1e-5)
    assert interval.upper <= interval.lower * (1 + 1e-4)
    least, most = (max(exact_delta(losses, masses, p, count, eps, add) for add in (False, True)) for eps in interval[::2])
    assert least >= 1e-5 * (1 - 1e-9) and most <= 1e-5 * (1 + 1e-9)


def test_the_curve_way_agrees_with_the_closed_way(monkeypatch):
    """Gaussians are one Gaussian: the general way, given them as a composition, must contain the plain answer."""
    from dp_edgeworth.losses.mechanisms.registry import AR, directions
    from dp_edgeworth.profiles import inner_curves, sampled_compositions

    counts = inner_curves.contents([(directions(dpa.GaussianDpEvent(2.0), AR), 4)])
    remove, add = sampled_compositions._sampled_pairs(0.02, counts)
    from dp_edgeworth.search import answers
    from dp_edgeworth.sums.composition import Composition

    found = answers.epsilon_bounds([Composition({pair: 500}) for pair in (remove, add)], np.array([1e-5, 1e-9]), 1e-6)
    plain = Interval().compose(dpa.PoissonSampledDpEvent(0.02, dpa.GaussianDpEvent(1.0)), 500).get_epsilon_interval([1e-5, 1e-9])
    assert np.all(found.lower <= np.asarray(plain.upper)) and np.all(found.upper >= np.asarray(plain.lower))
    assert np.all(found.upper <= found.lower * (1 + 1e-4))


def test_finite_inner_mechanisms_by_enumeration():
    """(eps, delta)-DP with Laplace in one sample, twice: all outcomes of the finite part, quadrature of the other."""
    event = sampled(0.2, EpsilonDelta(0.6, 1e-3), EpsilonDelta(0.4, 0.0))
    high, low = ((1 - 1e-3) * special.expit(s * 0.6) for s in (1, -1))
    first_p, first_q = np.array([0.0, low, high, 1e-3]), np.array([1e-3, high, low, 0.0])
    second_p, second_q = np.array([special.expit(-0.4), special.expit(0.4)]), np.array([special.expit(0.4), special.expit(-0.4)])
    p, q = np.multiply.outer(first_p, second_p).ravel(), np.multiply.outer(first_q, second_q).ravel()
    q = 0.8 * p + 0.2 * q
    p, q = np.multiply.outer(p, p).ravel(), np.multiply.outer(q, q).ravel()
    for relation in (dpa.NeighboringRelation.ADD_OR_REMOVE_ONE, RS):
        accountant = Interval(relation).compose(event, 2)
        for eps in (0.0, 0.1, 0.3, 0.55):
            exact = max(np.maximum(q - math.exp(eps) * p, 0).sum(), np.maximum(p - math.exp(eps) * q, 0).sum())
            found = accountant.get_delta_interval(eps)
            assert found.lower <= exact * (1 + 1e-12) and exact * (1 - 1e-12) <= found.upper <= exact * (1 + 1e-3) + 1e-5


def test_classes_inside_a_sample():
    event = sampled(0.1, Exponential(0.5), dpa.ZCDpEvent(0.05))
    found = Interval().compose(event, 10).get_epsilon_interval(1e-5)
    member = Interval().compose(sampled(0.1, EpsilonDelta(0.25, 0.0), dpa.GaussianDpEvent(1 / math.sqrt(0.1))), 10)
    assert found.lower < member.get_epsilon_interval(1e-5).lower * 1.001 and found.upper > member.get_epsilon(1e-5)


def test_what_has_no_output_without_a_record_is_refused():
    for relation in dpa.NeighboringRelation:
        event = sampled(0.1, dpa.GaussianDpEvent(1.0), dpa.RandomizedResponseDpEvent(0.5, 2))
        assert not Interval(relation).supports(event)
    assert not Interval(dpa.NeighboringRelation.REPLACE_ONE).supports(sampled(0.1, dpa.GaussianDpEvent(1.0), dpa.LaplaceDpEvent(1.0)))


def test_ends_of_the_sampling_probability():
    inside = (dpa.GaussianDpEvent(1.0), dpa.LaplaceDpEvent(1.0))
    assert Interval().compose(sampled(0.0, *inside)).get_epsilon(0.0) == 0.0
    whole = Interval().compose(dpa.ComposedDpEvent(list(inside))).get_epsilon_interval(1e-5)
    found = Interval().compose(sampled(1.0, *inside)).get_epsilon_interval(1e-5)
    assert found.lower <= whole.upper and whole.lower <= found.upper <= whole.upper * (1 + 1e-3)
    assert Interval().compose(sampled(0.1, dpa.NonPrivateDpEvent(), *inside)).get_delta(3.0) == 1.0
