"""Merging accountants and writing them as JSON."""

import dp_accounting as dpa
import pytest

import dp_edgeworth
from dp_edgeworth import ApproximateEdgeworthAccountant, EdgeworthIntervalAccountant

RELATION = dpa.NeighboringRelation
STEP = dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(0.8))
OTHER = dpa.PoissonSampledDpEvent(0.02, dpa.GaussianDpEvent(1.1))
LAPLACE = dpa.LaplaceDpEvent(10.0)


def _of(*events):
    accountant = EdgeworthIntervalAccountant()
    for event, count in events:
        accountant.compose(event, count)
    return accountant


def test_merging_equals_composing_both():
    merged = _of((STEP, 500), (LAPLACE, 2)).merge(_of((OTHER, 100), (STEP, 500)))
    composed = _of((STEP, 1000), (LAPLACE, 2), (OTHER, 100))
    assert merged.get_epsilon(1e-5) == pytest.approx(composed.get_epsilon(1e-5), rel=1e-12)


def test_merging_is_commutative_and_associative():
    parts = [((STEP, 300),), ((OTHER, 200),), ((LAPLACE, 3), (STEP, 7))]
    left = _of(*parts[0]).merge(_of(*parts[1])).merge(_of(*parts[2]))
    right = _of(*parts[2]).merge(_of(*parts[1]).merge(_of(*parts[0])))
    assert left.get_epsilon(1e-6) == pytest.approx(right.get_epsilon(1e-6), rel=1e-12)


def test_the_other_accountant_is_left_as_it_is():
    other = _of((OTHER, 10))
    before = other.get_epsilon(1e-5), other.ledger
    _of((STEP, 10)).merge(other).compose(STEP, 5)
    assert (other.get_epsilon(1e-5), other.ledger) == before


def test_merging_nothing_changes_nothing():
    accountant = _of((STEP, 10))
    before = accountant.get_epsilon(1e-5)
    assert accountant.merge(EdgeworthIntervalAccountant()).get_epsilon(1e-5) == before


@pytest.mark.parametrize(("other", "sentence"), [
    (ApproximateEdgeworthAccountant(), "`other` must be of class EdgeworthIntervalAccountant"),
    (EdgeworthIntervalAccountant(RELATION.REPLACE_ONE), "must have neighboring_relation"),
    (EdgeworthIntervalAccountant(tolerance=1e-3), "must have tolerance 1e-06. Found 0.001"),
])
def test_unlike_accountants_do_not_merge(other, sentence):
    accountant = _of((STEP, 10))
    before = accountant.get_epsilon(1e-5)
    with pytest.raises(ValueError, match=sentence):
        accountant.merge(other)
    assert accountant.get_epsilon(1e-5) == before


@pytest.mark.parametrize("make", [
    lambda: EdgeworthIntervalAccountant(RELATION.REPLACE_SPECIAL, tolerance=1e-4),
    lambda: ApproximateEdgeworthAccountant(order=3, tilted=True),
])
def test_json_round_trip(make):
    accountant = make().compose(STEP, 1000).compose(LAPLACE)
    restored = type(accountant).from_json(accountant.to_json())
    assert restored.ledger == accountant.ledger
    assert restored.neighboring_relation == accountant.neighboring_relation
    assert restored.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)
    assert restored.merge(accountant).ledger != accountant.ledger


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"class": "EdgeworthIntervalAccountant"}', "null"])
def test_json_that_is_not_an_accountant(text):
    with pytest.raises(ValueError, match="`text` must"):
        EdgeworthIntervalAccountant.from_json(text)


def test_json_of_another_class_is_refused():
    with pytest.raises(ValueError, match="Found a ApproximateEdgeworthAccountant"):
        dp_edgeworth.EdgeworthIntervalAccountant.from_json(ApproximateEdgeworthAccountant().to_json())
