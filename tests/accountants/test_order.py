"""Whatever the order, the grouping and the way of asking: random trees with registered mechanisms whose directions differ.

Answers agree to 1e-12 or, where intervals are wider, by overlapping; and with those of both directions, each composed for itself.
"""

from __future__ import annotations

import copy
import math
import pickle

import attr
import dp_accounting as dpa
import numpy as np
import pytest
from cases import composed, gaussian, laplace, repeated, sampled
from hypothesis import given, settings
from hypothesis import strategies as st

import dp_edgeworth
from dp_edgeworth import Directions, EdgeworthIntervalAccountant
from dp_edgeworth.losses import mechanisms
from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.gaussian_noise import GaussianShift
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.operations import reverse, subsample
from dp_edgeworth.search import answers
from dp_edgeworth.sums.composition import Composition

AR = dpa.NeighboringRelation.ADD_OR_REMOVE_ONE
SAMPLED, COIN = subsample(GaussianShift(1.5), 0.125), Atoms((0.25, 0.75), (0.5, 0.5))
# One "remove" with several "add", mirror images and not, lattices, and losses that may be infinite.
PAIRS = {
    "same": Directions(GaussianShift(1.0), GaussianShift(1.0)),
    "odd": Directions(GaussianShift(1.0), GaussianShift(3.0)),
    "even": Directions(GaussianShift(3.0), GaussianShift(1.0)),
    "sampled": Directions(SAMPLED, reverse(SAMPLED)),
    "turned": Directions(reverse(SAMPLED), SAMPLED),
    "sampled and its own": Directions(SAMPLED, SAMPLED),
    "sampled and laplace": Directions(SAMPLED, LaplaceShift(0.5)),
    "laplace": Directions(LaplaceShift(0.5), LaplaceShift(0.5)),
    "laplace and more": Directions(LaplaceShift(0.5), LaplaceShift(1.5)),
    "coin": Directions(COIN, reverse(COIN)),
    "coin and gaussian": Directions(COIN, GaussianShift(0.5)),
    "leak": Directions(Atoms((1.0, 0.0), (1.0 - 2.0**-12, 2.0**-12)), GaussianShift(0.25)),
}


@attr.s(frozen=True, auto_attribs=True)
class PairDpEvent(dpa.DpEvent):
    """Any pair of the table."""

    name: str


@dp_edgeworth.register_mechanism(PairDpEvent)
def _pair(event, relation):
    return PAIRS[event.name]


LEAVES = [*map(PairDpEvent, PAIRS), gaussian(1.0), laplace(2.0), sampled(0.01, gaussian(1.0)), sampled(0.25, laplace(1.0))]
trees = st.lists(st.tuples(st.sampled_from(LEAVES), st.integers(1, 40)), min_size=2, max_size=5)


def accountant(steps) -> EdgeworthIntervalAccountant:
    made = EdgeworthIntervalAccountant()
    for event, count in steps:
        made.compose(event, count)
    return made


def agree(one, other) -> None:
    """Intervals of one number: they overlap, up to the last digits."""
    for a, b in ((one, other), (other, one)):
        assert np.all(np.asarray(a.lower) <= np.asarray(b.upper) * (1.0 + 1e-12) + 1e-300)


def grouped(draw, steps):
    """The same in one event: nested, reordered, counts taken apart."""
    events = []
    for event, count in steps:
        part = draw(st.integers(0, count))
        events += [repeated(event, times) if times > 1 else event for times in (part, count - part) if times]
    events = draw(st.permutations(events))
    cut = draw(st.integers(0, len(events)))
    return composed(composed(*events[:cut]), *events[cut:]) if 0 < cut < len(events) else composed(*events)


@given(st.data(), trees, st.sampled_from([0.1, 1e-3, 1e-5, 1e-9]))
@settings(max_examples=20, deadline=None)
def test_every_way_to_the_same_answer(data, steps, delta) -> None:
    whole = accountant(steps)
    epsilon = whole.get_epsilon_interval(delta)
    assert epsilon.lower <= epsilon.estimate <= epsilon.upper
    assert accountant(steps).get_epsilon(delta) == pytest.approx(epsilon.upper, rel=1e-12)
    agree(accountant(data.draw(st.permutations(steps))).get_epsilon_interval(delta), epsilon)
    agree(EdgeworthIntervalAccountant().compose(grouped(data.draw, steps)).get_epsilon_interval(delta), epsilon)
    cut = data.draw(st.integers(1, len(steps) - 1))
    agree(accountant(steps[:cut]).merge(accountant(steps[cut:])).get_epsilon_interval(delta), epsilon)
    asked = accountant(steps[:cut])  # asked in between
    asked.get_epsilon(delta)
    for event, count in steps[cut:]:
        asked.compose(event, count)
    agree(asked.get_epsilon_interval(delta), epsilon)
    deltas = np.array([delta, 0.5 * delta, 0.3])
    array = whole.get_epsilon_interval(deltas)
    for i, target in enumerate(deltas):
        single = whole.get_epsilon_interval(float(target))
        assert array.lower[i] <= single.upper * (1.0 + 1e-12) and single.lower <= array.upper[i] * (1.0 + 1e-12)


@given(trees, st.sampled_from([0.1, 1e-4, 1e-8]))
@settings(max_examples=30, deadline=None)
def test_neither_direction_is_forgotten(steps, delta) -> None:
    """The larger of both, composed by hand, no sums shared; and not below any of its parts."""
    found = accountant(steps).get_epsilon_interval(delta)
    sides: list[dict] = [{}, {}]
    for event, count in steps:
        for counts, loss in zip(sides, mechanisms.directions(event, AR), strict=True):
            counts[loss] = counts.get(loss, 0) + count
    ends = [answers.epsilon_bounds([Composition(counts)], np.array([delta]), 1e-6) for counts in sides]
    assert found.upper * (1.0 + 1e-12) >= max(float(end.lower[0]) for end in ends)
    assert found.lower <= max(float(end.upper[0]) for end in ends) * (1.0 + 1e-12)
    event, count = steps[0]
    assert found.upper * (1.0 + 1e-12) >= accountant([(event, count)]).get_epsilon_interval(delta).lower


@given(trees, st.sampled_from([0.1, 1e-4, 1e-8]))
@settings(max_examples=20, deadline=None)
def test_delta_is_the_inverse(steps, delta) -> None:
    whole = accountant(steps)
    lower, _, upper = whole.get_epsilon_interval(delta)
    if lower > 0.0:
        assert whole.get_delta_interval(lower).upper >= delta * (1.0 - 1e-9)
    if math.isfinite(upper):  # otherwise delta is below the mass of infinite losses
        assert whole.get_delta_interval(upper).lower <= delta * (1.0 + 1e-9)
    epsilons = np.array([0.0, 0.5, 2.0, lower if math.isfinite(lower) else 8.0])
    array = whole.get_delta_interval(epsilons)
    for i, epsilon in enumerate(epsilons):
        single = whole.get_delta_interval(float(epsilon))
        assert array.lower[i] <= single.upper * (1.0 + 1e-12) and single.lower <= array.upper[i] * (1.0 + 1e-12)
        assert whole.get_delta(float(epsilon)) == pytest.approx(single.upper, rel=1e-12)


@pytest.mark.parametrize("order", [(0, 1, 2), (0, 2, 1), (1, 0, 2), (1, 2, 0), (2, 0, 1), (2, 1, 0)])
def test_a_second_leaf_with_the_same_remove_and_another_add(order) -> None:
    """The add direction alone has shifts 1 and 3, one of sqrt 10: epsilon 17.8566 at 1e-5. In the first order it was 6.608."""
    steps = [(gaussian(1.0), 1), (PairDpEvent("odd"), 1), (sampled(0.01, gaussian(1.0)), 100)]
    mixed = accountant([steps[i] for i in order])
    gaussians = EdgeworthIntervalAccountant().compose(gaussian(1.0 / math.sqrt(10.0))).get_epsilon_interval(1e-5)
    assert gaussians.lower >= 17.8565
    for found in (mixed.get_epsilon_interval(1e-5), mixed.get_epsilon_interval(np.array([1e-5]))):
        assert gaussians.lower <= float(np.ravel(found.lower)[0]) <= float(np.ravel(found.upper)[0]) <= 17.8752
    assert mixed.get_epsilon(1e-5) >= gaussians.lower
    assert mixed.get_delta(6.608) >= 0.2168


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))], ids=["copy", "deepcopy", "pickle"]
)
def test_copies_are_independent(copied) -> None:
    original = accountant([(gaussian(1.0), 1), (sampled(0.01, gaussian(1.0)), 100)])
    before = original.get_epsilon(1e-5)
    clone = copied(original)
    assert clone.get_epsilon(1e-5) == before
    clone.compose(PairDpEvent("odd"), 3)
    clone.get_epsilon(1e-5)
    assert original.get_epsilon(1e-5) == before < clone.get_epsilon(1e-5)
    original.compose(gaussian(0.5))
    assert clone.get_epsilon(1e-5) == accountant(
        [(gaussian(1.0), 1), (sampled(0.01, gaussian(1.0)), 100), (PairDpEvent("odd"), 3)]
    ).get_epsilon(1e-5)
    assert original.ledger != clone.ledger
