"""Merging accountants and writing them as JSON."""

import json
import re

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


def _document(**changes):
    return json.dumps({**json.loads(_of((STEP, 2)).to_json()), **changes})


@pytest.mark.parametrize(("text", "sentence"), [
    ("", "$: must be valid JSON"), ("{}", "$: must be an object with the members format, version, class,"),
    ("[1]", "$: must be an object"),
    ('{"class": "EdgeworthIntervalAccountant"}', "$: must be an object"), ("null", "$: must be an object"),
    (None, "$: must be str or bytes. Found null."), ("[" * 100_000, "must be nested at most 1000 deep"),
    (b"\xff\xfe\x00", "$: must be UTF-8. Found an invalid byte at offset 0."),
    (_document(version=99), "$.version: must be 1. Found 99."), (_document(format="x"), "$.format: must be "),
    (_document(settings="ab"), '$.settings: must be an object. Found "ab".'),
    (_document(settings={"x": 1}), "$.settings: must be what"),
    (_document(settings={"tolerance": -1}), "$.settings: must be what `EdgeworthIntervalAccountant` takes. Found: `tolerance` must be"),
    (_document(neighboring_relation="x"), "$.neighboring_relation: must be one of ADD_OR_REMOVE_ONE, "),
    (_document(ledger={"format": "dp-edgeworth-event", "version": 2, "event": None}), "$.ledger.version: must be 1. Found 2."),
    (_document(ledger=3), "$.ledger: must be an object"), (_document(more=1), "$: must be an object with the members"),
    (_document().replace('"version": 1, "class"', '"class"'), "$: must be an object with the members"),
    (ApproximateEdgeworthAccountant().to_json(), '$.class: must be "EdgeworthIntervalAccountant". Found "ApproximateEdgeworth'),
], ids=lambda value: str(value)[:30])
def test_json_that_is_not_an_accountant(text, sentence):
    with pytest.raises(dp_edgeworth.EventFormatError, match=re.escape(sentence)):
        EdgeworthIntervalAccountant.from_json(text)


def test_deeply_nested_ledgers_survive():
    """As deep as the JSON of events goes, one object more."""
    event = STEP
    for _ in range(498):
        event = dpa.ComposedDpEvent([event])
    accountant = EdgeworthIntervalAccountant().compose(event)
    restored = EdgeworthIntervalAccountant.from_json(accountant.to_json().encode())
    assert restored.to_json() == accountant.to_json() and restored.get_epsilon(1e-5) == accountant.get_epsilon(1e-5)
