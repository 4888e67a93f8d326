"""One contour for both directions (`quick`) and the sums behind it (`leaf_sums`): truth, mirror images, and what one more leaf costs.

Exact values are those of `tests/golden/exact_epsilon.json`; everything else is compared with the direction-by-direction computation.
"""

import copy
import itertools
import math
import pickle

import attr
import dp_accounting as dpa
import numpy as np
import pytest
from cases import AR, RO, composed, gaussian, laplace, reference_event, reference_rows, repeated, sampled
from dp_edgeworth.search.conversion import epsilon_bounds
from dp_edgeworth.sums.leaf_sums import Ladder, Spectrum

import dp_edgeworth
from dp_edgeworth import EdgeworthIntervalAccountant
from dp_edgeworth.losses.mechanisms import directions
from dp_edgeworth.losses.operations import Reversed
from dp_edgeworth.losses.rules import Demand
from dp_edgeworth.search import quick
from dp_edgeworth.sums import leaf_sums
from dp_edgeworth.sums.characteristic import log_characteristic
from dp_edgeworth.sums.composition import Composition

STEP = sampled(0.02, gaussian(0.9))
MIXED = composed(repeated(STEP, 2_000), repeated(sampled(0.1, laplace(1.5)), 300), repeated(gaussian(40.0), 100))
SYMMETRIC = composed(repeated(laplace(4.0), 500), repeated(gaussian(30.0), 50))


DELTAS = np.geomspace(1e-3, 1e-12, 9)


def accountant(event, relation=AR, **settings):
    return EdgeworthIntervalAccountant(relation, **settings).compose(event)


def quick_interval(event, delta, relation=AR, tolerance=1e-6):
    return quick.epsilon(accountant(event, relation)._sums, delta, tolerance)


def slow_interval(event, delta, relation=AR, tolerance=1e-6):
    """The same question without the quick way."""
    found = epsilon_bounds(accountant(event, relation)._directions(), np.array([delta]), tolerance)
    return tuple(float(part[0]) for part in found)


def distinct(number, first=0):
    return [sampled(0.05 + 0.01 * math.sin(i), gaussian(1.0 + 0.3 * math.cos(2 * i))) for i in range(first, first + number)]


# truth ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", reference_rows(), ids=str)
def test_contains_the_reference_value(row):
    found = quick_interval(reference_event(row["spec"]), row["delta"])
    if found is not None:
        slack = row["accuracy"] * max(1.0, row["epsilon"])
        assert found.lower - slack <= row["epsilon"] <= found.upper + slack
        assert found.upper - found.lower <= 1e-6 * max(1.0, found.lower)


def test_most_reference_rows_need_nothing_else():
    rows = [row for row in reference_rows() if row["spec"][0][0] == "sg" and row["spec"][0][3] * row["spec"][0][1] > 5]
    assert all(quick_interval(reference_event(row["spec"]), row["delta"]) is not None for row in rows) and len(rows) > 10


@pytest.mark.parametrize(("event", "relation"), [
    (MIXED, AR), (SYMMETRIC, AR), (repeated(STEP, 800), RO), (composed(*distinct(200)), AR),
], ids=["mixed", "symmetric", "replace one", "distinct"])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-6, 1e-8])
def test_agrees_with_the_other_way(event, relation, delta, tolerance):
    found = quick_interval(event, delta, relation, tolerance)
    lower, _, upper = slow_interval(event, delta, relation, tolerance)
    assert found is None or (found.lower <= upper and lower <= found.upper)
    assert found is not None or tolerance < 1e-6


@attr.s(frozen=True, auto_attribs=True)
class BackwardDpEvent(dpa.DpEvent):
    """Sampling with the two directions exchanged."""

    p: float
    noise: float


@dp_edgeworth.register_mechanism(BackwardDpEvent)
def _backward(event, relation):
    pair = directions(sampled(event.p, gaussian(event.noise)), relation)
    return dp_edgeworth.Directions(pair.add, pair.remove)


@pytest.mark.parametrize("noise", [0.6, 4.0])
def test_the_larger_direction_may_be_either(noise):
    """At noise 0.6 the weaker direction is decided by its Chernoff bound, at 4 by its contour. A pair whose add direction is the
    stronger one is not a mirror image in the form that the sums know, and is left to the other way."""
    forward, backward = repeated(sampled(0.02, gaussian(noise)), 2_000), repeated(BackwardDpEvent(0.02, noise), 2_000)
    assert quick_interval(forward, 1e-6) is not None
    one, two = (accountant(event).get_epsilon_interval(1e-6) for event in (forward, backward))
    assert one.lower <= two.upper and two.lower <= one.upper


@pytest.mark.parametrize("event", [
    gaussian(1.0), repeated(gaussian(3.0), 5), dpa.RandomizedResponseDpEvent(0.3, 4), repeated(sampled(1e-6, gaussian(1.0)), 3),
    composed(repeated(STEP, 500), dpa.dp_event.DiscreteLaplaceDpEvent(0.1, 1)),
], ids=repr)
def test_no_answer_is_an_answer(event):
    """What the quick way does not do, it leaves to the other one, without a warning."""
    relation = RO if isinstance(event, dpa.RandomizedResponseDpEvent) else AR
    found, answer = quick_interval(event, 1e-5, relation), accountant(event, relation).get_epsilon_interval(1e-5)
    assert found is None or found == answer
    assert answer.lower <= answer.estimate <= answer.upper < math.inf


def test_the_direction_without_a_contour_must_be_below(monkeypatch):
    """Its Chernoff bound was only compared with a guess when the contour was placed."""
    original, event = quick._plan, repeated(sampled(0.02, gaussian(0.6)), 2_000)
    assert len(original(accountant(event)._sums, math.log(1e-6), 1e-6).elsewhere) == 1
    assert quick.epsilons(accountant(event)._sums, DELTAS, 1e-6) is not None
    monkeypatch.setattr(quick, "_elsewhere", lambda plan, log_deltas: np.full(len(log_deltas), 1e3))
    assert quick_interval(event, 1e-6) is None
    assert quick.epsilons(accountant(event)._sums, DELTAS, 1e-6) is None


def test_the_weaker_direction_is_not_forgotten(monkeypatch):
    """Contours in the wrong order: the one that comes first has the smaller epsilon."""
    event = repeated(sampled(0.01, gaussian(2.35)), 10_000)
    expected, original = quick_interval(event, 1e-6), quick._contours
    assert len(quick._plan(accountant(event)._sums, math.log(1e-6), 1e-6).directions) == 2
    monkeypatch.setattr(quick, "_contours", lambda *arguments: original(*arguments)[::-1])
    found = quick_interval(event, 1e-6)
    assert found == pytest.approx(expected, rel=1e-12)
    assert quick.epsilons(accountant(event)._sums, np.array([1e-6, 2e-6]), 1e-6) is None


@pytest.mark.parametrize("spare", [-6.0, -10.0, -14.0])
def test_a_short_sum_is_wider_and_still_true(monkeypatch, spare):
    """The cut-off is paid for."""
    event, delta, exact = repeated(sampled(0.01, gaussian(0.8)), 10_000), 1e-5, 10.053634770654059  # golden/exact_epsilon.json
    monkeypatch.setattr(quick, "_SPARE", spare)
    sums = accountant(event)._sums
    contour = quick._contours(sums, quick._plan(sums, math.log(delta), 1e-6))[0]
    bound = contour.bounds(np.array([exact]))
    assert bound.lower[0] <= math.log(delta) <= bound.upper[0]
    assert bound.upper[0] - bound.lower[0] > 1e-6 * math.exp(-9.0 - spare)


@pytest.mark.parametrize("event, relation", [
    (STEP, AR), (repeated(STEP, 5_000), AR), (MIXED, AR), (SYMMETRIC, RO), (repeated(sampled(0.01, gaussian(2.35)), 10_000), AR),
    (repeated(sampled(1e-3, gaussian(0.7)), 100_000), RO), (composed(*(repeated(leaf, 50) for leaf in distinct(40))), AR),
])
def test_a_curve_is_its_points(event, relation):
    """Array answers and single answers both contain the exact value, and are as narrow as asked."""
    deltas = np.geomspace(1e-2, 1e-13, 23)
    lower, estimate, upper = accountant(event, relation).get_epsilon_interval(deltas)
    assert np.all((0.0 <= lower) & (lower <= estimate) & (estimate <= upper))
    assert np.all(np.diff(upper) >= -1e-6 * np.maximum(1.0, upper[1:]))
    for i, delta in enumerate(deltas):
        one = accountant(event, relation).get_epsilon_interval(float(delta))
        assert lower[i] <= one.upper and one.lower <= upper[i]
        assert upper[i] - lower[i] <= 1e-6 * max(1.0, lower[i])


def test_curves_have_a_quick_way():
    found = quick.epsilons(accountant(repeated(STEP, 5_000))._sums, DELTAS, 1e-6)
    assert found is not None
    exact = [slow_interval(repeated(STEP, 5_000), float(delta), tolerance=1e-9) for delta in DELTAS]
    for i, (low, _, high) in enumerate(exact):
        assert found.lower[i] <= high and low <= found.upper[i]
    assert quick.epsilons(accountant(repeated(STEP, 5_000))._sums, np.array([0.9, 1e-5]), 1e-6) is None


@pytest.mark.parametrize("delta", [1e-10, 0.1])
def test_sampling_cannot_raise_epsilon(delta):
    """1 - 2^-53 is all but 1, and K of "add" at a tilt of 1e-6 is that of "remove" at -1 - 1e-6: rounding this spoilt the lower end."""
    count = 3 * 10**11
    often, always = accountant(repeated(sampled(1.0 - 2.0**-53, gaussian(1.0)), count)), accountant(repeated(gaussian(1.0), count))
    assert often.get_epsilon_interval(delta).lower <= always.get_epsilon(delta)  # a closed form


def test_add_and_remove_nearly_equal():
    """Laplace noise 1, 1e9 times, inverted in 50 digits, and one more leaf, whose mean loss is below 2e-5."""
    event = composed(repeated(laplace(1.0), 10**9), sampled(0.01, gaussian(2.0)))
    assert accountant(event).get_epsilon_interval(1e-5).lower <= 367988788.31544 + 2e-5


def test_tilts_are_exact_in_both_directions():
    tilts = Ladder(-90, 12, True, Demand()).tilts
    assert np.array_equal((1.0 + tilts) - 1.0, tilts)


# both directions from one rule ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaf", [STEP, sampled(0.3, laplace(2.0)), laplace(3.0)], ids=repr)
def test_add_is_the_mirror_image_of_remove(leaf):
    """K_add(z) = K_remove(-1 - z), its slope the other way round, and characteristic functions that are conjugates."""
    pair = directions(leaf, AR)
    sums = accountant(repeated(leaf, 7))._sums
    ladder = Ladder(-6, 3, True, Demand(-2.0, 3.0, 0.0, 4.0))
    k = ladder.read(sums.of(ladder))
    for direction, pllr in enumerate(pair):
        expected = Composition({pllr: 7}).cgf(ladder.tilts)
        assert np.allclose(k[:3, direction], expected[:3], rtol=1e-9, atol=1e-12)
    spectrum = Spectrum((0, 1), (0.5, 1.0), 8.0, 20, Demand(-1.0, 1.5, 16.0, 4.0))
    for part, pllr, tilt in zip(spectrum.read(sums.of(spectrum)), pair, spectrum.tilts, strict=True):
        block, = Composition({pllr: 7}).blocks(Demand(0.0, 2.1, 16.0, 4.0))
        transform = block.transform(tilt)
        logs, _ = log_characteristic(block, transform, 2.0 * math.pi / 8.0, 20)
        assert part.log_mgf == pytest.approx(7.0 * float(transform.log_mgf[0]), rel=1e-12)
        assert np.allclose(np.exp(part.log_terms), np.exp(logs), rtol=0, atol=1e-13)


@pytest.mark.parametrize("event", [
    repeated(STEP, 2_000), MIXED, repeated(sampled(1e-5, gaussian(2.0)), 10**9),
], ids=["step", "mixed", "tiny"])
def test_the_envelope_is_above_the_characteristic_function(event):
    """Also where every length is so short that only the sum of squares is kept (the last event)."""
    sums = accountant(event)._sums
    plan = quick._plan(sums, math.log(1e-6), 1e-6)
    spectrum = Spectrum(plan.directions, plan.tilts, plan.period, 64,
                        quick._demand(sums, max(plan.tilts), max(plan.tilts), 2.0 * math.pi * 64 / plan.period))
    for part in spectrum.read(sums.of(spectrum)):
        exponents = quick._exponents(plan._replace(gaussian_variance=0.0), part)[:65]
        assert np.all(exponents <= -part.log_terms.real + part.errors)
        assert np.all(np.diff(exponents) >= 0.0)
        assert exponents[16] > 0.0


# sums that grow -------------------------------------------------------------------------------------------------------


def test_leaf_by_leaf_is_the_same_as_at_once():
    """In any order, with an answer after each of the last ones."""
    events = distinct(220)
    at_once = accountant(composed(*events)).get_epsilon_interval(1e-5)
    for order in (events, events[::-1]):
        growing = accountant(composed(*order[:190]))
        for event in order[190:]:
            answer = growing.compose(event).get_epsilon_interval(1e-5)
        assert np.allclose(answer, at_once, rtol=1e-12, atol=0)


def test_one_leaf_again_and_again():
    growing = accountant(repeated(STEP, 500))
    for _ in range(100):
        answer = growing.compose(STEP).get_epsilon_interval(1e-5)
    assert answer == accountant(repeated(STEP, 600)).get_epsilon_interval(1e-5)


@pytest.fixture
def evaluated(monkeypatch):
    """Counts how many leaves are evaluated."""
    counts = []
    for name in ("Ladder", "Spectrum", "Start"):
        original = getattr(leaf_sums, name).vector

        def vector(self, blocks, variance, original=original):
            blocks = list(blocks)
            counts.append(sum(len(block.counts) for block in blocks))
            return original(self, blocks, variance)

        monkeypatch.setattr(getattr(leaf_sums, name), "vector", vector)
    return counts


def test_one_more_leaf_costs_one_more_leaf(evaluated):
    events = distinct(400)
    growing = accountant(composed(*events))
    growing.get_epsilon(1e-5)
    assert sum(evaluated) >= 1_200  # all leaves, for three sums
    evaluated.clear()
    for event in distinct(10, first=1_000):
        growing.compose(event).get_epsilon(1e-5)
    assert 0 < sum(evaluated) <= 30 + 410  # three sums for every new leaf; a contour may move once


def test_no_more_leaves_cost_nothing(evaluated):
    growing = accountant(composed(*distinct(100)))
    first = growing.get_epsilon(1e-5)
    evaluated.clear()
    assert growing.get_epsilon(1e-5) == first
    assert not evaluated


def test_a_repeated_leaf_is_evaluated_once(evaluated):
    leaf = sampled(0.0314159, gaussian(0.9))
    growing = accountant(repeated(leaf, 2_000))
    growing.get_epsilon(1e-5)
    evaluated.clear()
    for _ in range(5):
        growing.compose(leaf).get_epsilon(1e-5)
    assert sum(evaluated) <= 3


def test_copies_go_their_own_way():
    """Bit by bit, also after sums were extended."""
    growing = accountant(composed(*distinct(200)))
    growing.get_epsilon(1e-5)
    growing.compose(STEP, 3).get_epsilon(1e-7)
    for clone in (copy.deepcopy(growing), pickle.loads(pickle.dumps(growing))):
        assert clone.get_epsilon(1e-5) == growing.get_epsilon(1e-5)
        before = growing.get_epsilon(1e-6)
        clone.compose(STEP, 50)
        assert clone.get_epsilon(1e-6) > growing.get_epsilon(1e-6) == before
    assert sum(clone._sums.counts.values()) == 253 and sum(growing._sums.counts.values()) == 203


def test_many_deltas_do_not_pile_up():
    growing = accountant(composed(*distinct(200)))
    answers = [growing.get_epsilon(10.0 ** -k) for k in range(1, 40)]
    assert all(a < b for a, b in itertools.pairwise(answers))
    assert len(growing._sums._tallies) <= leaf_sums._MOST_TALLIES


def test_sums_keep_what_rounding_loses():
    """1 + 1e-16 + ... a thousand times, and back."""
    high, low = np.array([1.0]), np.zeros(1)
    for _ in range(1_000):
        high, low = leaf_sums._two_sum(high, low, np.array([1e-16]))
    assert float(high[0] + low[0]) == 1.0 + 1e-13
    assert isinstance(directions(STEP, AR).add, Reversed)
