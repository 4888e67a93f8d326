"""Answers of the certified accountant: reference values, both directions, and that nothing depends on how leaves came."""

import copy
import itertools
import math
import pickle

import attr
import dp_accounting as dpa
import numpy as np
import pytest
from cases import AR, RO, composed, gaussian, laplace, reference_event, reference_rows, repeated, sampled
from hypothesis import given, settings
from hypothesis import strategies as st

import dp_edgeworth
from dp_edgeworth import EdgeworthIntervalAccountant, GaussianShift
from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.mechanisms import directions
from dp_edgeworth.search import answers
from dp_edgeworth.sums import loss_sums
from dp_edgeworth.sums.composition import Composition

STEP = sampled(0.02, gaussian(0.9))
MIXED = composed(repeated(STEP, 2_000), repeated(sampled(0.1, laplace(1.5)), 300), repeated(gaussian(40.0), 100))
SYMMETRIC = composed(repeated(laplace(4.0), 500), repeated(gaussian(30.0), 50))


def accountant(event, relation=AR, **settings_of):
    return EdgeworthIntervalAccountant(relation, **settings_of).compose(event)


def distinct(number, first=0):
    return [sampled(0.05 + 0.01 * math.sin(i), gaussian(1.0 + 0.3 * math.cos(2 * i))) for i in range(first, first + number)]


@attr.s(frozen=True, auto_attribs=True)
class TwoShiftsDpEvent(dpa.DpEvent):
    """A pair whose directions have nothing to do with each other."""

    remove: float
    add: float


@dp_edgeworth.register_mechanism(TwoShiftsDpEvent)
def _two_shifts(event, relation):
    return dp_edgeworth.Directions(GaussianShift(event.remove), GaussianShift(event.add))


@attr.s(frozen=True, auto_attribs=True)
class ExchangedDpEvent(dpa.DpEvent):
    """Sampling with the two directions exchanged."""

    p: float
    noise: float


@dp_edgeworth.register_mechanism(ExchangedDpEvent)
def _exchanged(event, relation):
    pair = directions(sampled(event.p, gaussian(event.noise)), relation)
    return dp_edgeworth.Directions(pair.add, pair.remove)


# truth ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", reference_rows(), ids=str)
def test_contains_the_reference_value(row):
    found = accountant(reference_event(row["spec"])).get_epsilon_interval(row["delta"])
    slack = row["accuracy"] * max(1.0, row["epsilon"])
    assert found.lower - slack <= row["epsilon"] <= found.upper + slack
    assert found.upper - found.lower <= 1e-6 * max(1.0, found.lower)


def test_a_leaf_with_the_same_remove_and_another_add_counts():
    """Gaussians of shift 1, a pair of shifts 1 and 3, and samples: in "add" epsilon is at least that of sqrt(1 + 9), 17.857."""
    parts = [(gaussian(1.0), 1), (TwoShiftsDpEvent(1.0, 3.0), 1), (sampled(0.01, gaussian(1.0)), 100)]
    least = accountant(gaussian(1.0 / math.sqrt(10.0))).get_epsilon_interval(1e-5).lower
    found = []
    for order in itertools.permutations(parts):
        answer = EdgeworthIntervalAccountant()
        for event, count in order:
            answer.compose(event, count)
        found.append(answer.get_epsilon(1e-5))
    assert min(found) >= least > 17.85 and max(found) - min(found) <= 1e-11


@pytest.mark.parametrize("noise", [0.6, 4.0])
def test_the_larger_direction_may_be_either(noise):
    forward, backward = repeated(sampled(0.02, gaussian(noise)), 2_000), repeated(ExchangedDpEvent(0.02, noise), 2_000)
    one, two = (accountant(event).get_epsilon_interval(1e-6) for event in (forward, backward))
    assert one.lower <= two.upper and two.lower <= one.upper


@pytest.mark.parametrize("delta", [1e-10, 0.1])
def test_sampling_cannot_raise_epsilon(delta):
    event = composed(repeated(laplace(1.0), 10**9), sampled(0.5, gaussian(1.0)))
    whole = composed(repeated(laplace(1.0), 10**9), gaussian(1.0))
    assert accountant(event).get_epsilon_interval(delta).lower <= accountant(whole).get_epsilon(delta)


@pytest.mark.parametrize(("event", "relation"), [(MIXED, AR), (SYMMETRIC, AR), (repeated(STEP, 800), RO)])
def test_a_curve_is_its_points(event, relation):
    deltas = np.geomspace(1e-3, 1e-12, 9)
    curve = accountant(event, relation).get_epsilon_interval(deltas)
    for i, delta in enumerate(deltas):
        point = accountant(event, relation).get_epsilon_interval(float(delta))
        assert curve.lower[i] <= point.upper and point.lower <= curve.upper[i]
        assert curve.upper[i] - curve.lower[i] <= 1e-6 * max(1.0, curve.lower[i])


# order, grouping, copies ----------------------------------------------------------------------------------------------

LEAVES = st.one_of(
    st.builds(TwoShiftsDpEvent, st.sampled_from([0.1, 0.3]), st.sampled_from([0.1, 0.2])),
    st.builds(ExchangedDpEvent, st.sampled_from([0.05, 0.2]), st.sampled_from([1.0, 2.0])),
    st.builds(gaussian, st.sampled_from([3.0, 10.0])),
    st.builds(lambda p, noise: sampled(p, gaussian(noise)), st.sampled_from([0.05, 0.2]), st.sampled_from([1.0, 2.0])),
    st.builds(laplace, st.sampled_from([5.0, 8.0])))


@settings(max_examples=25, deadline=None)
@given(st.lists(st.tuples(LEAVES, st.integers(1, 40)), min_size=1, max_size=4), st.randoms(use_true_random=False))
def test_order_grouping_and_merge_do_not_matter(leaves, random):
    """To 1e-12, or by overlapping where the intervals are wider; epsilon, intervals, arrays and delta tell the same story."""
    delta = 1e-5
    one, two, three = (EdgeworthIntervalAccountant() for _ in range(3))
    for event, count in leaves:
        one.compose(event, count)
    for event, count in random.sample(leaves, len(leaves)):
        two.compose(event, count - count // 2)
        if count // 2:
            two.compose(dpa.SelfComposedDpEvent(event, count // 2))
    half = len(leaves) // 2
    three.compose(composed(*(repeated(event, count) for event, count in leaves[half:])))
    if half:
        three.merge(EdgeworthIntervalAccountant().compose(composed(*(repeated(event, count) for event, count in leaves[:half]))))
    found = [each.get_epsilon_interval(delta) for each in (one, two, three)]
    for interval in found[1:]:
        assert interval.lower <= found[0].upper and found[0].lower <= interval.upper
        assert abs(interval.upper - found[0].upper) <= max(1e-12, found[0].upper - found[0].lower, interval.upper - interval.lower)
    curve = one.get_epsilon_interval(np.array([1e-3, delta]))
    assert curve.lower[1] <= found[0].upper and found[0].lower <= curve.upper[1]
    assert one.get_epsilon(delta) == found[0].upper
    at = one.get_delta_interval(found[0].upper)
    assert at.lower <= delta and one.get_delta_interval(found[0].lower).upper >= delta


def test_leaf_by_leaf_is_the_same_as_at_once():
    one_by_one, leaves = EdgeworthIntervalAccountant(), distinct(40)
    for leaf in leaves:
        one_by_one.compose(leaf)
        one_by_one.get_epsilon(1e-5)
    assert one_by_one.get_epsilon(1e-5) == pytest.approx(accountant(composed(*leaves)).get_epsilon(1e-5), rel=1e-12)


def test_copies_go_their_own_way():
    original = accountant(MIXED)
    before = original.get_epsilon(1e-5)
    for make in (copy.copy, copy.deepcopy, lambda one: pickle.loads(pickle.dumps(one))):
        other = make(original)
        assert other.get_epsilon(1e-5) == before
        other.compose(gaussian(1.0))
        assert other.get_epsilon(1e-5) > before + 0.01 and original.get_epsilon(1e-5) == before
        assert other.ledger != original.ledger


# sums -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaf", [STEP, sampled(0.3, laplace(2.0)), laplace(3.0)], ids=repr)
def test_add_is_the_mirror_image_of_remove(leaf):
    """K and the characteristic function of "add", from the sums of "remove" and from rules of its own."""
    pair = directions(leaf, AR)
    own = Composition({pair.add: 50})
    shared = Composition({pair.add: 50}, paired=True, reflected=Composition({pair.remove: 50}, paired=True))
    tilts = (1.0 + np.array([0.5, 2.0])) - 1.0
    assert shared.rungs(tilts).log_mgf == pytest.approx(own.rungs(tilts).log_mgf, rel=1e-11)
    assert shared.rungs(tilts).mean == pytest.approx(own.rungs(tilts).mean, rel=1e-10)
    mine, theirs = shared.spectral(0.5, 20.0, 24), own.spectral(0.5, 20.0, 24)
    assert np.exp(mine.log_terms) == pytest.approx(np.exp(theirs.log_terms), abs=1e-10)


def test_the_envelope_is_above_the_characteristic_function():
    part = Composition({directions(STEP, AR).remove: 400}).spectral(3.0, 30.0, 200)
    y = 2.0 * math.pi / 30.0 * np.arange(201)
    assert (part.log_terms.real <= -part.envelope.exponent(y) + 1e-9).all()


def test_one_more_leaf_costs_one_more_leaf(monkeypatch):
    """Vectors of long ledgers are extended by what is new."""
    counts = []
    original = loss_sums.Spectrum.vector

    def counting(self, leaves, variance):
        blocks = list(leaves)
        counts.append(sum(len(block.counts) for block in blocks))
        return original(self, blocks, variance)

    monkeypatch.setattr(loss_sums.Spectrum, "vector", counting)
    ledger = accountant(composed(*distinct(60)))
    ledger.get_epsilon(1e-5)
    counts.clear()
    ledger.compose(sampled(0.051, gaussian(1.01)))
    ledger.get_epsilon(1e-5)
    assert sum(counts) <= 61


def test_sums_keep_what_rounding_loses():
    high, low = np.array([1e16]), np.zeros(1)
    for _ in range(1_000):
        high, low = loss_sums._two_sum(high, low, np.ones(1))
    assert (high + low)[0] == 1e16 + 1_000


def test_the_finest_lattice_that_is_allowed_is_made() -> None:
    """A step so small that the period just fits was made a hair smaller by its alignment, and the lattice was not made at all."""
    leaf = Atoms((4374 / 8192, 3795 / 8192, 23 / 8192), (6081 / 8192, 427 / 8192, 1684 / 8192))
    found = answers.delta_bounds([Composition({leaf: 7})], np.linspace(0.0, 6.0, 12), 1e-6)
    assert np.all(found.upper - found.lower < 0.02 * found.upper)
