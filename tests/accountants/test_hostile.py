"""Hostile and broken input: every field of every event and every option of every constructor with values that cannot be right.

Either a sentence that names the parameter, the constraint and the value (ValueError), or an answer that is a number; never another
exception, a warning, NaN, or an accountant that has changed. `test_contract.py` has a list of single cases; here is the product.
"""

import decimal
import fractions
import math

import attr
import dp_accounting as dpa
import numpy as np
import pytest
from cases import AR, RELATIONS, RO, RS, composed, gaussian, laplace, repeated, sampled
from dp_accounting import dp_event, privacy_accountant
from scipy import special

import dp_edgeworth
from dp_edgeworth import ApproximateEdgeworthAccountant, EdgeworthIntervalAccountant
from dp_edgeworth.analysis import planning, statement
from dp_edgeworth.analysis.sweeps import sweep
from dp_edgeworth.losses.pllr import OnlyRules

HOSTILE = {
    "nan": math.nan, "inf": math.inf, "-inf": -math.inf, "negative": -1.0, "tiny negative": -5e-324, "string": "1.0", "bytes": b"1",
    "none": None, "bool": True, "complex": 1 + 0j, "list": [1.0], "empty list": [], "dict": {}, "array": np.ones(2),
    "empty array": np.zeros(0), "nan array": np.array(math.nan), "Decimal nan": decimal.Decimal("nan"),
    "Decimal snan": decimal.Decimal("snan"), "huge int": 10**400, "negative huge int": -(10**400), "object": object(),
    "type": float, "event": gaussian(1.0), "date": np.datetime64("2020-01-01"), "numpy complex": np.complex128(1 + 5j),
    "digits": 10**5000, "negative digits": -(10**5000), "beyond the floats": decimal.Decimal("1e400"),
    "below the floats": fractions.Fraction(1, 10**400), "span": np.timedelta64(1, "s"), "masked": np.ma.masked,
    "longdouble": np.longdouble("1e4000"), "strings": ["0.1"], "flags": np.array([True]), "flag": np.bool_(True),
    "buffer": bytearray(b"1"), "records": np.array([(0.1,)], dtype=[("a", float)]), "one of them masked": [np.ma.masked, 0.5],
}
EVENTS = [
    (gaussian(1.0), AR),
    (laplace(1.0), RO),
    (sampled(0.1, gaussian(1.0)), RO),
    (sampled(0.1, laplace(1.0)), AR),
    (repeated(gaussian(1.0), 3), AR),
    (composed(gaussian(1.0)), AR),
    (dp_event.DiscreteLaplaceDpEvent(0.5, 2), AR),
    (sampled(0.5, dp_event.DiscreteLaplaceDpEvent(0.5, 2)), AR),
    (dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0, 1.0], [0.5, 0.5]), RS),
    (dpa.RandomizedResponseDpEvent(0.5, 3), RO),
    (dpa.TruncatedSubsampledGaussianDpEvent(100, 0.1, 15, 1.0), AR),
    (dpa.SingleEpochTreeAggregationDpEvent(1.0, [3, 4]), RS),
    (dpa.SampledWithoutReplacementDpEvent(100, 10, gaussian(1.0)), RO),
    (dp_edgeworth.AdditiveNoiseDpEvent("logistic", {"scale": 1.0}), AR),
]
FIELDS = [(event, relation, field.name) for event, relation in EVENTS for field in attr.fields(type(event))]
ALLOWED = (ValueError, privacy_accountant.UnsupportedEventError)


def changed(event, field, value):
    """The event with one field replaced; None where the event's own constructor refuses."""
    values = {f.name: getattr(event, f.name) for f in attr.fields(type(event))} | {field: value}
    try:
        return type(event)(**values)
    except Exception:  # dp-accounting's constructors, not ours
        return None


def state(accountant):
    return accountant.ledger, accountant.get_epsilon_interval(1e-5), accountant.get_delta_interval(1.0)


def attempt(accountant, event):
    """Composes; the message of a documented error, or None."""
    try:
        accountant.compose(event)
    except ALLOWED as error:
        return str(error)
    except TypeError as error:  # the inherited `compose` says that it is no event, the ledger that a count is no int
        if "DpEvent" in str(error) or "count" in str(error):
            return str(error)
        raise
    return None


@pytest.mark.parametrize(("event", "relation", "field"), FIELDS, ids=lambda v: v if isinstance(v, str) else type(v).__name__)
def test_every_field_with_every_hostile_value(event, relation, field):
    accountant = EdgeworthIntervalAccountant(relation).compose(gaussian(3.0))
    before = state(accountant)
    for name, value in HOSTILE.items():
        bad = changed(event, field, value)
        if bad is None or (field == "event" and "digits" in name):  # the inherited `compose` prints what it refuses
            continue
        for wrapped in (bad, composed(gaussian(3.0), bad)):
            message = attempt(accountant, wrapped)
            if message is None:  # the value was legal: an answer is a number
                lower, estimate, upper = accountant.get_epsilon_interval(1e-5)
                assert 0.0 <= lower <= estimate <= upper, name
                accountant = EdgeworthIntervalAccountant(relation).compose(gaussian(3.0))
            else:
                assert "must" in message or "Unsupported" in message, (name, message)
            assert state(accountant) == before, name


NUMBERS = ("numpy complex", "span", "masked", "flag", "buffer",
           "nan", "-inf", "negative", "string", "none", "bool", "complex", "array", "empty array", "nan array", "Decimal nan", "object")
NUMERIC = [(event, relation, field) for event, relation, field in FIELDS
           if isinstance(getattr(event, field), float | int) and not isinstance(event, dp_edgeworth.AdditiveNoiseDpEvent)]


@pytest.mark.parametrize(("event", "relation", "field"), NUMERIC, ids=lambda v: v if isinstance(v, str) else type(v).__name__)
@pytest.mark.parametrize("name", NUMBERS)
def test_what_is_no_number_is_named(event, relation, field, name):
    """Parameter, constraint and value, in `supports` as in `compose`."""
    bad = changed(event, field, HOSTILE[name])
    if bad is None:
        pytest.skip("dp-accounting's own constructor refuses it")
    accountant = EdgeworthIntervalAccountant(relation)
    for ask in (accountant.supports, lambda e: accountant.compose(composed(e))):
        with pytest.raises(ValueError, match=rf"`{field}[^`]*` must .*Found") as error:
            ask(bad)
        assert repr(HOSTILE[name]) in str(error.value)


OPTIONS = [
    (EdgeworthIntervalAccountant, "tolerance", set()),
    (EdgeworthIntervalAccountant, "order", {"bool"}),
    (EdgeworthIntervalAccountant, "bound", set()),
    (ApproximateEdgeworthAccountant, "order", set()),
    (ApproximateEdgeworthAccountant, "tilted", {"bool", "flag"}),
]


@pytest.mark.parametrize(("cls", "option", "legal"), OPTIONS, ids=lambda v: v if isinstance(v, str) else None)
@pytest.mark.parametrize("name", [name for name in HOSTILE if name not in ("huge int", "digits")])
def test_every_option_of_every_constructor(cls, option, legal, name):
    if name in legal and option == "tilted":
        cls(**{option: HOSTILE[name]})
        return
    with pytest.raises(ValueError, match=rf"`{option}` must .*Found"):
        cls(**{option: HOSTILE[name]})


@pytest.mark.parametrize("name", HOSTILE)
def test_every_target(name):
    """Targets are numbers or arrays of numbers in range, or refused by name."""
    accountant = EdgeworthIntervalAccountant().compose(sampled(0.1, gaussian(1.0)), 5)
    for parameter, ask in (("target_delta", accountant.get_epsilon_interval), ("target_epsilon", accountant.get_delta_interval)):
        try:
            lower, estimate, upper = map(np.asarray, ask(HOSTILE[name]))
        except ValueError as error:
            assert str(error).startswith(f"`{parameter}` must be") and "Found" in str(error)
        else:
            assert np.all((lower >= 0) & (lower <= estimate) & (estimate <= upper))


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.name)
def test_atomic_compose_of_a_tree_whose_last_leaf_is_bad(relation):
    accountant = EdgeworthIntervalAccountant(relation).compose(gaussian(3.0), 2)
    before = state(accountant)
    good = [sampled(0.1, gaussian(1.0)), repeated(gaussian(2.0), 7)]
    for bad, error in ((gaussian(math.nan), ValueError), (dpa.UnsupportedDpEvent(), privacy_accountant.UnsupportedEventError),
                       (repeated(gaussian(1.0), 0), ValueError), (dpa.ZCDpEvent(-0.1), ValueError)):
        with pytest.raises(error):
            accountant.compose(composed(*good, composed(*good, bad)), 3)
        assert state(accountant) == before


class Shouting:
    """A number whose conversion fails."""

    def __float__(self):
        raise RuntimeError("no")


def test_an_error_inside_a_field_leaves_no_trace():
    accountant = EdgeworthIntervalAccountant().compose(gaussian(3.0))
    before = state(accountant)
    with pytest.raises((RuntimeError, ValueError)):
        accountant.compose(composed(gaussian(1.0), gaussian(Shouting())))
    assert state(accountant) == before


@pytest.mark.parametrize("value", [decimal.Decimal("1e400"), fractions.Fraction(1, 10**400), np.longdouble("1e4000"),
                                   decimal.Decimal("-1e-400")], ids=str)
def test_what_floats_hold_only_as_0_or_infinity_is_refused(value):
    """Infinite noise and a sampling probability of 0 have no loss; noise of 1e400 and a probability of 1e-400 have one."""
    for event in (gaussian(value), laplace(value), sampled(value, gaussian(1.0))):
        with pytest.raises(ValueError, match=r"` must be (within the range of floats|.*\[0, 1\])\. Found"):
            EdgeworthIntervalAccountant().compose(event)
    assert EdgeworthIntervalAccountant().compose(gaussian(decimal.Decimal("Infinity"))).get_epsilon(1e-5) == 0.0


def test_numbers_of_any_type_are_themselves():
    accountant = EdgeworthIntervalAccountant().compose(gaussian(1.0))
    half = accountant.get_epsilon(0.5)
    for value in (decimal.Decimal("0.5"), fractions.Fraction(1, 2), np.float32(0.5), np.longdouble(0.5), np.array(0.5)):
        assert accountant.get_epsilon(value) == half and accountant.get_epsilon([value]) == [half]
    assert accountant.get_epsilon(np.ma.array([[0.5, 0.5]])).tolist() == [[half, half]]


def test_statements_are_about_one_number():
    for ask, name in ((statement.epsilon_statement, "target_delta"), (statement.delta_statement, "target_epsilon")):
        with pytest.raises(ValueError, match=f"`{name}` must be a real number. Found"):
            ask(gaussian(1.0), [1e-5])


@pytest.mark.parametrize("relation", ["REPLACE_ONE", None, 3, RO.value], ids=repr)
def test_a_relation_is_not_its_name(relation):
    budget = {"target_epsilon": 1.0, "target_delta": 1e-5, "neighboring_relation": relation}
    point = {"sampling_probability": 0.1, "noise_multiplier": 1.0, "steps": 3, "target_delta": 1e-5, "neighboring_relation": relation}
    for ask in (lambda: sweep(**point), lambda: sweep(**point, certified=True),
                lambda: planning.calibrate_noise(sampling_probability=0.0, steps=1, **budget),
                lambda: planning.max_steps(sampling_probability=0.1, noise_multiplier=0.0, **budget),
                lambda: planning.max_sampling_probability(noise_multiplier=1.0, steps=1, **budget),
                lambda: dp_edgeworth.explain(gaussian(1.0), target_delta=1e-5, neighboring_relation=relation or "none"),
                lambda: EdgeworthIntervalAccountant(relation)):  # for `explain` None is the default
        with pytest.raises(ValueError, match=r"`neighboring_relation` must be a `NeighboringRelation`. Found"):
            ask()


@attr.s(frozen=True, auto_attribs=True)
class AnyPairDpEvent(dpa.DpEvent):
    """Its mechanism returns what it is told to."""

    number: int = 0


RETURNED = {
    "nothing": lambda: None,
    "no pairs": lambda: dp_edgeworth.Directions(None, None),
    "half": lambda: dp_edgeworth.Directions(dp_edgeworth.GaussianShift(1.0), None),
    "number": lambda: 1.0,
    "nan": lambda: dp_edgeworth.GaussianShift(math.nan),
    "nan mass": lambda: dp_edgeworth.Atoms((math.nan, 0.5), (0.5, 0.5)),
    "no law": lambda: dp_edgeworth.Atoms((0.25, 0.25), (0.25, 0.25)),
    "unequal": lambda: dp_edgeworth.Atoms((0.5, 0.5), (0.5, 0.25, 0.25)),
    "unhashable": lambda: attr.make_class("Unhashable", [], bases=(OnlyRules,), eq=True, class_body={"rule": lambda self, demand:
    None})(),
}


@pytest.mark.parametrize("name", RETURNED)
def test_what_a_registered_mechanism_returns(name):
    dp_edgeworth.register_mechanism(AnyPairDpEvent, samplable=True)(lambda event, relation: RETURNED[name]())
    accountant = EdgeworthIntervalAccountant().compose(gaussian(3.0))
    before = state(accountant)
    for event in (AnyPairDpEvent(), sampled(0.5, AnyPairDpEvent(1)), composed(gaussian(1.0), AnyPairDpEvent(2))):
        with pytest.raises(ValueError, match="must"):
            accountant.compose(event, 10)
        assert state(accountant) == before


def test_lists_and_arrays_make_pairs():
    dp_edgeworth.register_mechanism(AnyPairDpEvent)(lambda event, relation: dp_edgeworth.Atoms([0.25, 0.75], np.array([0.75, 0.25])))
    assert EdgeworthIntervalAccountant().compose(AnyPairDpEvent()).get_epsilon(0.0) == pytest.approx(math.log(3.0), rel=1e-13)


def test_registering_again_replaces_the_mechanism():
    for epsilon in (1.0, 3.0):
        dp_edgeworth.register_mechanism(AnyPairDpEvent)(lambda event, relation: dp_edgeworth.LaplaceShift(epsilon))  # noqa: B023
        assert EdgeworthIntervalAccountant().compose(AnyPairDpEvent()).get_epsilon(0.0) == pytest.approx(epsilon, rel=1e-13)
    assert not EdgeworthIntervalAccountant().supports(sampled(0.5, AnyPairDpEvent()))


def test_both_directions_of_a_registered_mechanism_are_sampled():
    """delta_add(eps) = (1 - (1 - p) e^eps) delta_N(1)(eps - log((1 - (1 - p) e^eps) / p)): the record is mixed into Q of "add"."""
    p, epsilon, (small, large) = 0.5, 0.4, (0.1, 1.0)

    def gaussian_delta(eps, mu):
        return special.ndtr(mu / 2 - eps / mu) - math.exp(eps) * special.ndtr(-mu / 2 - eps / mu)

    share = 1.0 - (1.0 - p) * math.exp(epsilon)
    add = {mu: share * gaussian_delta(epsilon - math.log(share / p), mu) for mu in (small, large)}
    remove = {mu: p * gaussian_delta(math.log1p(math.expm1(epsilon) / p), mu) for mu in (small, large)}
    for mu_remove, mu_add in ((small, large), (large, small), (large, large)):
        pairs = dp_edgeworth.Directions(dp_edgeworth.GaussianShift(mu_remove), dp_edgeworth.GaussianShift(mu_add))
        dp_edgeworth.register_mechanism(AnyPairDpEvent, samplable=True)(lambda event, relation: pairs)  # noqa: B023
        found = EdgeworthIntervalAccountant().compose(sampled(p, AnyPairDpEvent())).get_delta_interval(epsilon)
        exact = max(remove[mu_remove], add[mu_add])
        assert found.lower <= exact <= found.upper <= exact * (1 + 1e-10)
