"""The 19 points of the drop-in contract, one section each, for every class.

Point 18 (Google's conformance suite) is in test_conformance.py, the event table in test_mechanisms.py.
The long grid of point 17 runs with DP_EDGEWORTH_LONG=1.
"""

import copy
import decimal
import fractions
import inspect
import itertools
import math
import os
import pickle
import time
import warnings

import attr
import dp_accounting as dpa
import numpy as np
import pytest
from cases import AR, BY_NAME, CASES, RELATIONS, RO, RS, composed, gaussian, laplace, repeated, sampled
from dp_accounting import dp_event, privacy_accountant

import dp_edgeworth
from dp_edgeworth import ApproximateEdgeworthAccountant, EdgeworthIntervalAccountant, NotAGuaranteeWarning

CLASSES = (ApproximateEdgeworthAccountant, EdgeworthIntervalAccountant)
FACTORIES = {
    "plain": ApproximateEdgeworthAccountant,
    "tilted": lambda relation=AR: ApproximateEdgeworthAccountant(relation, tilted=True),
    "interval": EdgeworthIntervalAccountant,
}
MONOTONE = {name: FACTORIES[name] for name in ("tilted", "interval")}
every_class = pytest.mark.parametrize("make", FACTORIES.values(), ids=FACTORIES)
every_monotone_class = pytest.mark.parametrize("make", MONOTONE.values(), ids=MONOTONE)
every_relation = pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.name)
STEP = sampled(0.05, gaussian(1.0))


def answers(accountant):
    """A few answers, for bit-by-bit comparison."""
    return [accountant.get_epsilon(delta) for delta in (1e-10, 1e-5, 0.1)] + [accountant.get_delta(1.0)]


# 1. construction -----------------------------------------------------------------------------------


@every_class
def test_01_default_relation_is_add_or_remove_one(make):
    assert make().neighboring_relation is AR


@every_class
@every_relation
def test_01_relation_is_positional(make, relation):
    assert make(relation).neighboring_relation is relation


@pytest.mark.parametrize("cls", CLASSES)
def test_01_everything_else_is_keyword_only(cls):
    first, *others = inspect.signature(cls).parameters.values()
    assert (first.name, first.default) == ("neighboring_relation", AR)
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in others)
    with pytest.raises(TypeError):
        cls(AR, 2)


@pytest.mark.parametrize(
    ("cls", "keywords"),
    [
        (ApproximateEdgeworthAccountant, {"order": -1}),
        (ApproximateEdgeworthAccountant, {"order": 1.5}),
        (ApproximateEdgeworthAccountant, {"order": "2"}),
        (ApproximateEdgeworthAccountant, {"tilted": "yes"}),
        (EdgeworthIntervalAccountant, {"bound": "none"}),
        (EdgeworthIntervalAccountant, {"tolerance": 0.0}),
        (EdgeworthIntervalAccountant, {"tolerance": math.nan}),
    ],
)
def test_01_bad_options_are_named(cls, keywords):
    ((name, value),) = keywords.items()
    with pytest.raises(ValueError, match=rf"`{name}`.* must .*Found") as error:
        cls(**keywords)
    assert repr(value) in str(error.value)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("relation", ["ADD_OR_REMOVE_ONE", 1, None])
def test_01_bad_relation_is_named(cls, relation):
    with pytest.raises(ValueError, match=r"`neighboring_relation` must be .*Found"):
        cls(relation)


def test_01_an_estimate_warns_when_constructed_and_a_bound_does_not():
    with pytest.warns(NotAGuaranteeWarning, match="estimate") as record:
        ApproximateEdgeworthAccountant()
    assert record[0].filename == __file__
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        EdgeworthIntervalAccountant()
    assert "estimate" in ApproximateEdgeworthAccountant.__doc__


# 2. _maybe_compose ---------------------------------------------------------------------------------


@every_class
def test_02_maybe_compose_has_the_base_class_signature(make):
    ours = inspect.signature(type(make())._maybe_compose)
    assert list(ours.parameters) == ["self", "event", "count", "do_compose"]


@every_class
def test_02_supports_has_no_side_effect(make):
    accountant = make().compose(STEP, 3)
    before, ledger = answers(accountant), accountant.ledger
    assert accountant.supports(STEP)
    assert accountant.supports(dpa.NonPrivateDpEvent())
    assert not accountant.supports(dpa.UnsupportedDpEvent())
    assert accountant._maybe_compose(event=STEP, count=0, do_compose=False) is None
    assert answers(accountant) == before
    assert accountant.ledger == ledger


# 3. Python floats ----------------------------------------------------------------------------------


@every_class
@pytest.mark.parametrize("event", [None, gaussian(1.0), STEP, laplace(1.0), dpa.NonPrivateDpEvent()], ids=str)
def test_03_answers_are_python_floats(make, event):
    accountant = make() if event is None else make().compose(event)
    for delta in (0, 1, 0.0, 1e-5, 1.0, np.float64(1e-5), np.float32(1e-3), np.array(1e-5), 1e-300):
        assert type(accountant.get_epsilon(delta)) is float
    for epsilon in (0, 1, 0.5, math.inf, np.float64(2.0), np.array(2.0)):
        assert type(accountant.get_delta(epsilon)) is float


# 4. inherited, not overridden ----------------------------------------------------------------------


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("name", ["compose", "supports", "ledger", "neighboring_relation"])
def test_04_inherited(cls, name):
    assert issubclass(cls, privacy_accountant.PrivacyAccountant)
    assert getattr(cls, name) is getattr(privacy_accountant.PrivacyAccountant, name)


@every_class
def test_04_ledger_and_chaining(make):
    accountant = make().compose(STEP, 2).compose(gaussian(3.0))
    assert accountant.ledger == composed(repeated(STEP, 2), gaussian(3.0))


# 5. non-private ------------------------------------------------------------------------------------

NO_NOISE = [
    (dpa.NonPrivateDpEvent(), RELATIONS),
    (gaussian(0.0), RELATIONS),
    (gaussian(0), RELATIONS),
    (laplace(0.0), RELATIONS),
    (sampled(0.1, gaussian(0.0)), RELATIONS),
    (sampled(0.1, dpa.NonPrivateDpEvent()), RELATIONS),
    (sampled(0.1, composed(gaussian(1.0), gaussian(0.0))), RELATIONS),
    (sampled(0.1, laplace(0.0)), (AR, RS)),
    (sampled(0.1, sampled(0.1, gaussian(0.0))), RELATIONS),
    (dp_event.DiscreteLaplaceDpEvent(0.0, 1), (AR, RS)),
    (dp_event.MixtureOfGaussiansDpEvent(0.0, [0.0, 1.0], [0.5, 0.5]), (AR, RS)),
    (dpa.RandomizedResponseDpEvent(0.0, 2), (RS, RO)),
    (dpa.TruncatedSubsampledGaussianDpEvent(100, 0.1, 10, 0.0), RELATIONS),
    (dpa.SingleEpochTreeAggregationDpEvent(0.0, 3), (RS,)),
    (dpa.SampledWithoutReplacementDpEvent(10, 1, gaussian(0.0)), (RO,)),
    (repeated(composed(gaussian(1.0), dpa.NonPrivateDpEvent()), 3), RELATIONS),
]


@every_class
@pytest.mark.parametrize(("event", "relations"), NO_NOISE, ids=str)
def test_05_non_private_anywhere(make, event, relations):
    for relation in relations:
        accountant = make(relation).compose(gaussian(1.0)).compose(event)
        assert [accountant.get_epsilon(delta) for delta in (0, 1e-5, 0.99, 1)] == [math.inf] * 4
        assert [accountant.get_delta(epsilon) for epsilon in (0, 1, 1e6, math.inf)] == [1.0] * 4


# 6. nothing ----------------------------------------------------------------------------------------


@every_class
@every_relation
def test_06_nothing_composed_or_only_no_op(make, relation):
    no_op = dpa.NoOpDpEvent()
    for accountant in (
        make(relation),
        make(relation).compose(no_op, 5),
        make(relation).compose(composed(no_op, repeated(no_op, 3))),
    ):
        assert [accountant.get_epsilon(delta) for delta in (0, 1e-300, 0.5, 1)] == [0.0] * 4
        assert [accountant.get_delta(epsilon) for epsilon in (0, 1, math.inf)] == [0.0] * 3


# 7. ends of the range, and what is outside ---------------------------------------------------------


@every_class
@pytest.mark.parametrize("case", CASES, ids=str)
def test_07_delta_one_is_epsilon_zero(make, case):
    for relation in case.relations:
        assert make(relation).compose(case.event).get_epsilon(1.0) == 0.0


PURE = [  # event, relation, exact epsilon at delta 0 by the largest loss
    (laplace(2.0), AR, 0.5),
    (laplace(2.0), RO, 1.0),
    (repeated(laplace(2.0), 10), AR, 5.0),
    (sampled(0.1, laplace(0.5)), AR, math.log1p(0.1 * math.expm1(2.0))),
    (dp_event.DiscreteLaplaceDpEvent(0.5, 3), RS, 1.5),
    (sampled(0.2, dp_event.DiscreteLaplaceDpEvent(0.5, 1)), AR, math.log1p(0.2 * math.expm1(0.5))),
    (dpa.RandomizedResponseDpEvent(0.5, 4), RO, math.log(5.0)),
    (repeated(dpa.RandomizedResponseDpEvent(0.5, 4), 7), RO, 7 * math.log(5.0)),
    (dpa.RandomizedResponseDpEvent(0.5, 4), RS, math.log(2.5)),
]


@every_monotone_class
@pytest.mark.parametrize(("event", "relation", "epsilon"), PURE, ids=str)
def test_07_delta_zero_of_a_pure_mechanism(make, event, relation, epsilon):
    accountant = make(relation).compose(event)
    assert accountant.get_epsilon(0) == pytest.approx(epsilon, rel=1e-13)
    assert accountant.get_delta(epsilon * (1 + 1e-12)) == 0.0
    assert accountant.get_delta(math.inf) == 0.0


@every_class
def test_07_delta_zero_without_a_largest_loss(make):
    for event in (gaussian(1.0), STEP, composed(laplace(1.0), gaussian(1.0))):
        assert make().compose(event).get_epsilon(0) == math.inf


def test_07_plain_estimate_is_infinite_at_delta_zero():
    assert ApproximateEdgeworthAccountant().compose(laplace(1.0)).get_epsilon(0) == math.inf


@every_class
@pytest.mark.parametrize("event", [None, STEP, dpa.NonPrivateDpEvent()], ids=str)
@pytest.mark.parametrize("delta", [math.nan, -1e-9, 1.0000001, math.inf, -math.inf, "0.1", None, [0.1, 2.0], True, 1j], ids=repr)
def test_07_bad_delta(make, event, delta):
    accountant = make() if event is None else make().compose(event)
    with pytest.raises(ValueError, match=r"`target_delta` must be .*Found"):
        accountant.get_epsilon(delta)


@every_class
@pytest.mark.parametrize("event", [None, STEP, dpa.NonPrivateDpEvent()], ids=str)
@pytest.mark.parametrize("epsilon", [-1e-9, -0.7, -30.0, -math.inf], ids=repr)
def test_07_negative_epsilon(make, event, epsilon):
    """Both directions together are their own mirror image: delta(eps) = 1 - e^eps + e^eps delta(-eps)."""
    accountant = make() if event is None else make().compose(event)
    found, opposite = accountant.get_delta(epsilon), accountant.get_delta(-epsilon)
    assert found == pytest.approx(1.0 - math.exp(epsilon) + math.exp(epsilon) * opposite, rel=1e-12)
    assert accountant.get_delta(np.array([epsilon, 0.0]))[0] == pytest.approx(found, rel=1e-12)


@every_class
@pytest.mark.parametrize("event", [None, STEP, dpa.NonPrivateDpEvent()], ids=str)
@pytest.mark.parametrize("epsilon", [math.nan, "1", None, 1j], ids=repr)
def test_07_bad_epsilon(make, event, epsilon):
    accountant = make() if event is None else make().compose(event)
    with pytest.raises(ValueError, match=r"`target_epsilon` must be .*Found"):
        accountant.get_delta(epsilon)


# 8. never negative, never NaN ----------------------------------------------------------------------


@every_class
@pytest.mark.parametrize("case", CASES, ids=str)
def test_08_range_of_answers(make, case):
    accountant = make(case.relations[-1]).compose(case.event)
    for delta in (1e-20, 0.3, 1 - 1e-12):
        assert accountant.get_epsilon(delta) >= 0.0
    for epsilon in (0.0, 1e-300, 3.0, 1e5, 1e300, math.inf):
        assert 0.0 <= accountant.get_delta(epsilon) <= 1.0


@pytest.mark.parametrize("case", CASES, ids=str)
def test_08_interval_is_ordered(case):
    accountant = EdgeworthIntervalAccountant(case.relations[0]).compose(case.event)
    for delta in (0.0, 1e-5, 0.3, 1.0):
        lower, estimate, upper = accountant.get_epsilon_interval(delta)
        assert 0.0 <= lower <= estimate <= upper == accountant.get_epsilon(delta)
    for epsilon in (0.0, 3.0, math.inf):
        lower, estimate, upper = accountant.get_delta_interval(epsilon)
        assert 0.0 <= lower <= estimate <= upper <= 1.0
        assert upper == accountant.get_delta(epsilon)


@pytest.mark.parametrize("event", [gaussian(1.0), STEP, repeated(STEP, 50), composed(laplace(1.0), gaussian(1.0))], ids=str)
def test_08_an_upper_bound_never_underflows_to_zero(event):
    assert EdgeworthIntervalAccountant().compose(event).get_delta(1e4) == 5e-324


@every_class
@pytest.mark.parametrize("case", ["gaussian", "sampled gaussian, m 200", "laplace", "mixed ledger"])
def test_08_arrays_in_arrays_out(make, case):
    accountant = make().compose(BY_NAME[case].event)
    deltas, epsilons = np.array([[1e-8, 1e-5, 0.1], [0.5, 1.0, 1e-12]]), [0.0, 1.0, 2.5]
    found = accountant.get_epsilon(deltas)
    assert isinstance(found, np.ndarray) and found.shape == deltas.shape and found.dtype == np.float64
    singly = [[accountant.get_epsilon(float(delta)) for delta in row] for row in deltas]
    np.testing.assert_allclose(found, singly, rtol=3e-6, atol=1e-9)
    found = accountant.get_delta(epsilons)
    assert isinstance(found, np.ndarray) and found.shape == (3,)
    np.testing.assert_allclose(found, [accountant.get_delta(epsilon) for epsilon in epsilons], rtol=3e-5, atol=1e-300)


@every_class
def test_08_empty_arrays_and_arrays_of_trivial_ledgers(make):
    assert make().compose(STEP).get_epsilon(np.zeros(0)).shape == (0,)
    assert make().get_epsilon([0.1, 0.2]).tolist() == [0.0, 0.0]
    assert make().compose(dpa.NonPrivateDpEvent()).get_delta(np.ones((2, 1))).tolist() == [[1.0], [1.0]]


# 9. nothing can be certified -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "event",
    [
        sampled(0.5, gaussian(1e-9)),
        repeated(sampled(0.5, gaussian(1e-3)), 10**15),
        repeated(gaussian(1e-150), 10**20),
        repeated(laplace(1e-150), 10**20),
    ],
    ids=str,
)
def test_09_no_exception_where_little_can_be_certified(event):
    accountant = EdgeworthIntervalAccountant().compose(event)
    lower, _, upper = accountant.get_epsilon_interval(1e-9)
    assert upper >= 100.0
    assert lower <= upper
    assert accountant.get_delta(1.0) >= 0.49


# 10. unsupported events ----------------------------------------------------------------------------


@attr.s(frozen=True, auto_attribs=True)
class UnknownDpEvent(dpa.DpEvent):
    number: int = 7


@every_class
@pytest.mark.parametrize("wrap", [lambda e: e, lambda e: composed(STEP, e), lambda e: repeated(composed(e), 3)])
def test_10_unknown_leaf_is_named(make, wrap):
    accountant = make().compose(STEP)
    before, ledger = answers(accountant), accountant.ledger
    event = wrap(UnknownDpEvent())
    assert not accountant.supports(event)
    with pytest.raises(privacy_accountant.UnsupportedEventError, match=r"caused by subevent UnknownDpEvent\(number=7\)"):
        accountant.compose(event)
    assert (answers(accountant), accountant.ledger) == (before, ledger)


@every_class
@pytest.mark.parametrize("event", [None, 3, "GaussianDpEvent"])
def test_10_what_is_no_event_is_a_type_error(make, event):
    with pytest.raises(TypeError, match="must be `DpEvent`"):
        make().compose(event)


# 11. bad parameters, atomic compose ----------------------------------------------------------------

BAD = [  # event, relation, parameter in the message
    (gaussian(-1.0), AR, "noise_multiplier"),
    (gaussian(math.nan), AR, "noise_multiplier"),
    (gaussian("1"), AR, "noise_multiplier"),
    (gaussian(None), AR, "noise_multiplier"),
    (gaussian([1.0, 2.0]), AR, "noise_multiplier"),
    (gaussian(np.array([1.0, 2.0])), AR, "noise_multiplier"),
    (gaussian(1j), AR, "noise_multiplier"),
    (laplace(-0.5), AR, "noise_multiplier"),
    (laplace(math.nan), RO, "noise_multiplier"),
    (sampled(1.5, gaussian(1.0)), AR, "sampling_probability"),
    (sampled(-0.1, gaussian(1.0)), RO, "sampling_probability"),
    (sampled(math.nan, gaussian(1.0)), AR, "sampling_probability"),
    (sampled(2.0, dpa.NoOpDpEvent()), AR, "sampling_probability"),
    (sampled(2.0, dpa.NonPrivateDpEvent()), AR, "sampling_probability"),
    (sampled(0.0, gaussian(-1.0)), AR, "noise_multiplier"),
    (sampled(0.1, gaussian(-1.0)), AR, "noise_multiplier"),
    (sampled(0.1, laplace(-1.0)), AR, "noise_multiplier"),
    (sampled(0.1, sampled(7.0, gaussian(1.0))), AR, "sampling_probability"),
    (repeated(gaussian(1.0), 0), AR, "count"),
    (repeated(gaussian(1.0), -3), AR, "count"),
    (repeated(gaussian(1.0), 2.5), AR, "count"),
    (repeated(gaussian(1.0), 2.0), AR, "count"),
    (repeated(dpa.NoOpDpEvent(), -1), AR, "count"),
    (repeated(gaussian(1.0), True), AR, "count"),
    (repeated(gaussian(1.0), math.nan), AR, "count"),
    (dp_event.DiscreteLaplaceDpEvent(-1.0, 1), AR, "noise_parameter"),
    (dp_event.DiscreteLaplaceDpEvent(1.0, -1), AR, "sensitivity"),
    (dp_event.DiscreteLaplaceDpEvent(1.0, 1.5), AR, "sensitivity"),
    (dpa.RandomizedResponseDpEvent(1.5, 2), RO, "noise_parameter"),
    (dpa.RandomizedResponseDpEvent(0.5, 0), RO, "num_buckets"),
    (dp_event.MixtureOfGaussiansDpEvent(1.0, [], []), AR, "sensitivities"),
    (dp_event.MixtureOfGaussiansDpEvent(1.0, [1.0, 2.0], [0.5, 0.6]), AR, "sampling_probs"),
    (dp_event.MixtureOfGaussiansDpEvent(1.0, [1.0, 2.0], [1.0]), AR, "sampling_probs"),
    (dp_event.MixtureOfGaussiansDpEvent(-1.0, [1.0], [1.0]), AR, "standard_deviation"),
    (dp_event.MixtureOfGaussiansDpEvent(1.0, [-1.0], [1.0]), AR, "sensitivities"),
    (dp_event.MixtureOfGaussiansDpEvent(1.0, [math.nan], [1.0]), AR, "sensitivities"),
    (dpa.TruncatedSubsampledGaussianDpEvent(-1, 0.1, 10, 1.0), AR, "dataset_size"),
    (dpa.TruncatedSubsampledGaussianDpEvent(100, 1.1, 10, 1.0), AR, "sampling_probability"),
    (dpa.TruncatedSubsampledGaussianDpEvent(100, 0.1, 2.5, 1.0), AR, "truncated_batch_size"),
    (dpa.TruncatedSubsampledGaussianDpEvent(100, 0.1, 10, -1.0), AR, "noise_multiplier"),
    (dpa.SampledWithoutReplacementDpEvent(10, 11, gaussian(1.0)), RO, "sample_size"),
    (dpa.SampledWithoutReplacementDpEvent(0, 0, gaussian(1.0)), RO, "source_dataset_size"),
    (dpa.SampledWithoutReplacementDpEvent(10, 1, gaussian(-1.0)), RO, "noise_multiplier"),
    (dpa.SingleEpochTreeAggregationDpEvent(-1.0, 3), RS, "noise_multiplier"),
    (dpa.SingleEpochTreeAggregationDpEvent(1.0, []), RS, "step_counts"),
    (dpa.SingleEpochTreeAggregationDpEvent(1.0, [-1]), RS, "step_counts"),
    (dp_edgeworth.AdditiveNoiseDpEvent("logistic", {"scale": -1.0}), AR, "parameters"),
    (dp_edgeworth.AdditiveNoiseDpEvent("logistic", {}, -1.0), AR, "sensitivity"),
]


@every_class
@pytest.mark.parametrize(("event", "relation", "parameter"), BAD, ids=str)
def test_11_bad_parameters_are_refused_by_the_dry_run(make, event, relation, parameter):
    accountant = make(relation).compose(gaussian(2.0), 3)
    before, ledger = answers(accountant), accountant.ledger
    for attempt in (accountant.supports, accountant.compose, lambda e: accountant.compose(composed(gaussian(2.0), e))):
        with pytest.raises(ValueError, match=rf"`{parameter}[^`]*` must .*Found"):
            attempt(event)
        assert accountant.ledger == ledger
    assert answers(accountant) == before


@every_class
@pytest.mark.parametrize("count", [0, -1, 1.5, 2.0, math.nan, "2", None, np.float64(3)], ids=repr)
def test_11_bad_count_of_compose(make, count):
    accountant = make().compose(STEP, 2)
    before, ledger = answers(accountant), accountant.ledger
    with pytest.raises((ValueError, TypeError), match="`count` must"):
        accountant.compose(STEP, count)
    assert (answers(accountant), accountant.ledger) == (before, ledger)


@every_class
def test_11_whether_a_parameter_is_good_does_not_depend_on_the_past(make):
    """2 == 2.0 and 1 == True also as dictionary keys: a cache must not wave the second through."""
    make().supports(dp_event.DiscreteLaplaceDpEvent(0.875, 2))
    with pytest.raises(ValueError, match="`sensitivity`"):
        make().supports(dp_event.DiscreteLaplaceDpEvent(0.875, 2.0))
    make().supports(gaussian(1.0))
    with pytest.raises(ValueError, match="`noise_multiplier`"):
        make().supports(gaussian(True))


# 12. trivial sampling ------------------------------------------------------------------------------

NO_LOSS = [
    (sampled(0.3, dpa.NoOpDpEvent()), RELATIONS),
    (sampled(0.0, gaussian(1.0)), RELATIONS),
    (sampled(0, gaussian(0.0)), RELATIONS),
    (sampled(0.0, dpa.NonPrivateDpEvent()), RELATIONS),
    (sampled(0.0, laplace(1.0)), (AR, RS)),
    (sampled(0.5, sampled(0.0, gaussian(1.0))), RELATIONS),
    (sampled(0.5, composed(dpa.NoOpDpEvent())), RELATIONS),
    (dpa.SampledWithoutReplacementDpEvent(10, 0, gaussian(1.0)), (RO,)),
    (dpa.SampledWithoutReplacementDpEvent(10, 5, dpa.NoOpDpEvent()), (RO,)),
    (dpa.TruncatedSubsampledGaussianDpEvent(100, 0.0, 10, 1.0), RELATIONS),
    (dpa.RandomizedResponseDpEvent(0.5, 1), (RS, RO)),
    (dpa.RandomizedResponseDpEvent(1.0, 3), (RS, RO)),
    (dp_event.MixtureOfGaussiansDpEvent(1.0, [0.0], [1.0]), (AR, RS)),
    (gaussian(math.inf), RELATIONS),
    (laplace(math.inf), RELATIONS),
]


@every_class
@pytest.mark.parametrize(("event", "relations"), NO_LOSS, ids=str)
def test_12_no_loss(make, event, relations):
    for relation in relations:
        accountant = make(relation)
        assert accountant.supports(event)
        accountant.compose(event, 5)
        assert (accountant.get_epsilon(0), accountant.get_epsilon(1e-9), accountant.get_delta(0)) == (0.0, 0.0, 0.0)


@every_class
def test_12_sampling_with_probability_one_changes_nothing(make):
    for event, relations in (
        (gaussian(1.3), RELATIONS),
        (laplace(1.3), (AR, RS)),
        (dp_event.DiscreteLaplaceDpEvent(0.7, 2), (AR, RS)),
        (BY_NAME["mixture of gaussians"].event, (AR, RS)),
    ):
        for relation in relations:
            one = answers(make(relation).compose(sampled(1.0, event)))
            np.testing.assert_allclose(one, answers(make(relation).compose(event)), rtol=1e-12)


# 13. copies ----------------------------------------------------------------------------------------


@every_class
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda a: pickle.loads(pickle.dumps(a))], ids=["deepcopy", "pickle"])
@pytest.mark.parametrize("asked", [False, True], ids=["fresh", "asked before"])
@pytest.mark.parametrize("case", ["gaussian", "sampled gaussian, m 200", "laplace", "additive logistic", "mixed ledger"])
def test_13_copies_are_equal_and_independent(make, duplicate, asked, case):
    accountant = make().compose(BY_NAME[case].event)
    if asked:
        answers(accountant)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the warning belongs to construction by a user
        twin = duplicate(accountant)
    before, ledger = answers(accountant), accountant.ledger
    assert (answers(twin), twin.ledger, twin.neighboring_relation) == (before, ledger, AR)
    twin.compose(gaussian(0.5))
    assert (answers(accountant), accountant.ledger) == (before, ledger)
    assert twin.get_epsilon(1e-5) > accountant.get_epsilon(1e-5)


@every_class
def test_13_get_epsilon_is_pure(make):
    accountant = make().compose(STEP, 50)
    first = accountant.get_epsilon(1e-5)
    for delta in (1e-200, 0.5, 1e-9, 0.0, 1.0):
        accountant.get_epsilon(delta)
        accountant.get_delta(delta)
    assert accountant.get_epsilon(1e-5) == first == make().compose(STEP, 50).get_epsilon(1e-5)


def test_13_options_survive_a_copy():
    original = ApproximateEdgeworthAccountant(RO, order=4, tilted=True).compose(STEP, 9)
    assert answers(pickle.loads(pickle.dumps(original))) == answers(original)
    wide = EdgeworthIntervalAccountant(RO, tolerance=0.1).compose(STEP, 9)
    assert wide.get_epsilon_interval(1e-5) == copy.deepcopy(wide).get_epsilon_interval(1e-5)


# 14. what the ledger refuses; long and deep ledgers ------------------------------------------------


@every_class
@pytest.mark.parametrize(
    "attempt",
    [
        lambda a: a.compose(STEP, np.int64(3)),
        lambda a: a.compose(gaussian(np.array([1.0, 2.0]))).compose(gaussian(np.array([1.0, 2.0]))),
    ],
    ids=["numpy count", "array field"],
)
def test_14_what_the_ledger_refuses_leaves_no_trace(make, attempt):
    accountant = make().compose(STEP, 2)
    before, ledger = answers(accountant), accountant.ledger
    with pytest.raises((TypeError, ValueError), match="must be"):
        attempt(accountant)
    assert (answers(accountant), accountant.ledger) == (before, ledger)


def nested(event, depth):
    for level in range(depth):
        event = composed(event) if level % 2 else repeated(event, 1)
    return event


@every_class
@every_relation
def test_14_nesting_to_depth_200(make, relation):
    deep, flat = make(relation).compose(nested(STEP, 200)), make(relation).compose(STEP)
    assert answers(deep) == answers(flat)
    inside = make(relation).compose(sampled(0.05, nested(gaussian(1.0), 200)))
    assert answers(inside) == answers(flat)


@every_class
def test_14_sampling_nested_to_depth_200(make):
    event = gaussian(1.0)
    for _ in range(100):
        event = sampled(0.99, composed(event))
    np.testing.assert_allclose(answers(make().compose(event)), answers(make().compose(sampled(0.99**100, gaussian(1.0)))), rtol=1e-9)


@every_class
def test_14_nesting_beyond_the_recursion_limit_is_a_clear_error_or_an_answer(make):
    accountant = make().compose(STEP)
    before, ledger = answers(accountant), accountant.ledger
    try:
        accountant.compose(nested(gaussian(1.0), 20_000))
    except (RecursionError, ValueError, privacy_accountant.UnsupportedEventError):
        assert (answers(accountant), accountant.ledger) == (before, ledger)
    else:
        assert accountant.get_epsilon(1e-5) == pytest.approx(make().compose(STEP).compose(gaussian(1.0)).get_epsilon(1e-5), rel=1e-12)


@every_class
def test_14_one_at_a_time_is_as_good_as_at_once(make):
    single, at_once = make(), make().compose(STEP, 100_000)
    start = time.process_time()
    for _ in range(100_000):
        single.compose(STEP)
    assert time.process_time() - start < 15.0
    assert answers(single) == answers(at_once)
    assert single.ledger == at_once.ledger


@every_class
def test_14_interleaved_is_as_good_as_at_once(make):
    events = [sampled(0.01, gaussian(1.0)), sampled(0.02, gaussian(1.5)), laplace(50.0)]
    mixed, at_once = make(), make()
    for _ in range(10_000):
        for event in events:
            mixed.compose(event)
    for event in events:
        at_once.compose(event, 10_000)
    np.testing.assert_allclose(answers(mixed), answers(at_once), rtol=1e-12)


@every_class
def test_14_constructors_are_cheap(make):
    start = time.process_time()
    for _ in range(1_000):
        make()
    assert time.process_time() - start < 0.5


SCALARS = [
    float,
    np.float64,
    np.float32,
    np.array,
    lambda v: fractions.Fraction(v),
    lambda v: decimal.Decimal(v),
    lambda v: np.array(v, np.float32),
]


@every_class
@pytest.mark.parametrize("scalar", SCALARS, ids=["float", "float64", "float32", "0-d", "Fraction", "Decimal", "0-d float32"])
def test_14_fields_may_be_numpy_scalars_and_0d_arrays(make, scalar):
    """0.25, 1.5 and 0.5 are the same number in every type."""
    event = composed(sampled(scalar(0.25), gaussian(scalar(1.5))), laplace(scalar(0.5)), gaussian(scalar(1.5)))
    plain = composed(sampled(0.25, gaussian(1.5)), laplace(0.5), gaussian(1.5))
    assert make().supports(event)
    assert answers(make().compose(event, 3)) == answers(make().compose(plain, 3))


@every_class
def test_14_arrays_that_print_alike_are_different_numbers(make):
    """numpy prints 8 digits of a 0-d array, or as few as the user asked for: no key for a cache."""
    with np.printoptions(precision=2):
        found = [make().compose(gaussian(np.array(noise))).get_epsilon(1e-5) for noise in (1.301, 1.304)]
    assert found == [make().compose(gaussian(noise)).get_epsilon(1e-5) for noise in (1.301, 1.304)]


@every_class
@pytest.mark.parametrize("integer", [np.int64, np.int32, np.uint8, np.array], ids=["int64", "int32", "uint8", "0-d"])
def test_14_integer_fields_may_be_numpy_integers(make, integer):
    event = composed(repeated(dp_event.DiscreteLaplaceDpEvent(0.5, integer(2)), integer(3)))
    plain = composed(repeated(dp_event.DiscreteLaplaceDpEvent(0.5, 2), 3))
    assert answers(make().compose(event)) == answers(make().compose(plain))


@every_class
def test_14_numpy_counts_do_not_overflow(make):
    event = repeated(repeated(gaussian(1e9), np.int64(2**40)), np.int64(2**40))
    assert answers(make().compose(composed(event))) == answers(make().compose(gaussian(1e9), 2**80))


# 15. however it is written -------------------------------------------------------------------------


@every_class
@every_relation
def test_15_any_way_of_composing_is_the_same(make, relation):
    a, b = sampled(0.05, gaussian(1.0)), gaussian(4.0)
    ways = [
        make(relation).compose(composed(a, a, a, b, b, b)),
        make(relation).compose(repeated(composed(a, b), 3)),
        make(relation).compose(repeated(b, 3)).compose(repeated(a, 3)),
        make(relation).compose(a, 3).compose(b, 3),
        make(relation).compose(b).compose(a, 2).compose(b, 2).compose(a),
        make(relation).compose(composed(composed(a, b), composed(b, repeated(composed(a), 2)), b)),
    ]
    for way in ways[1:]:
        np.testing.assert_allclose(answers(way), answers(ways[0]), rtol=1e-12)


@every_class
def test_15_equal_parameters_written_differently_merge(make):
    one = make().compose(STEP).compose(sampled(np.float64(0.05), gaussian(1))).compose(sampled(np.array(0.05), gaussian(np.array(1.0))))
    np.testing.assert_allclose(answers(one), answers(make().compose(STEP, 3)), rtol=1e-12)


# 16. monotone --------------------------------------------------------------------------------------


@every_class
@pytest.mark.parametrize("case", CASES, ids=str)
def test_16_epsilon_is_non_increasing_in_delta(make, case):
    accountant = make(case.relations[0]).compose(case.event)
    epsilons = [accountant.get_epsilon(delta) for delta in (1e-30, 1e-10, 1e-5, 1e-3, 0.1, 0.5, 0.9)]
    assert all(b <= a + 1e-6 * max(1.0, a) for a, b in itertools.pairwise(epsilons)), epsilons


def is_monotone(values, slack):
    return all(b <= a + slack * max(1.0, a) for a, b in itertools.pairwise(values))


@every_monotone_class
@pytest.mark.parametrize(("p", "count"), [(0.9, 3), (0.01, 1000), (1.0, 5), (1e-3, 100_000)])
def test_16_non_increasing_in_the_noise(make, p, count):
    noises = np.geomspace(0.4, 40.0, 12)
    for delta in (1e-5,):
        epsilons = [make().compose(sampled(p, gaussian(noise)), count).get_epsilon(delta) for noise in noises]
        assert is_monotone(epsilons, 2e-6 if make is EdgeworthIntervalAccountant else 1e-9), epsilons


@every_monotone_class
@pytest.mark.parametrize("event", [STEP, sampled(0.9, gaussian(2.0)), laplace(3.0), gaussian(2.0)], ids=str)
def test_16_non_decreasing_in_the_count(make, event):
    counts = [1, 2, 3, 5, 10, 31, 1_000, 1_001, 10**6, 10**6 + 1, 10**9]
    epsilons = [make().compose(event, count).get_epsilon(1e-5) for count in reversed(counts)]
    assert is_monotone(epsilons, 2e-6 if make is EdgeworthIntervalAccountant else 1e-9), epsilons


@pytest.mark.parametrize("factory", CLASSES)
def test_16_calibration_with_the_class_itself_as_factory(factory):
    noise = dpa.calibrate_dp_mechanism(factory, lambda noise: repeated(sampled(0.01, gaussian(noise)), 10_000), 3.0, 1e-5)
    assert factory().compose(sampled(0.01, gaussian(noise)), 10_000).get_epsilon(1e-5) == pytest.approx(3.0, rel=1e-4)
    # PLDAccountant calibrates this to 1.5563 at the default interval; the plain estimate is 3 % off.
    pld = dpa.calibrate_dp_mechanism(dpa.pld.PLDAccountant, lambda n: repeated(sampled(0.01, gaussian(n)), 10_000), 3.0, 1e-5)
    assert noise == pytest.approx(pld, rel=1e-3 if factory is EdgeworthIntervalAccountant else 0.05)


@every_class
def test_16_calibration_in_every_relation_and_of_counts(make):
    for relation, expected in ((AR, 3.73063), (RS, 3.73063), (RO, 2 * 3.73063)):  # get_sigma_gaussian(1, 1e-5)
        noise = dpa.calibrate_dp_mechanism(lambda relation=relation: make(relation), gaussian, 1.0, 1e-5)
        assert noise == pytest.approx(expected, rel=1e-3)
    count = dpa.calibrate_dp_mechanism(
        make,
        lambda n: repeated(gaussian(10.0), n),
        3.0,
        1e-5,
        bracket_interval=dpa.ExplicitBracketInterval(1, 10_000),
        discrete=True,
    )
    assert count == 51  # floor((10 / get_sigma_gaussian(3, 1e-5))^2) = floor(51.71)


# 17. extremes --------------------------------------------------------------------------------------

NOISES = (1e-12, 1e-6, 1e-2, 1.0, 1e3, 1e12)
PROBABILITIES = (1e-12, 1e-5, 0.5, 1.0)
COUNTS = (1, 1_000, 10**9, 10**15)
DELTAS = (1e-300, 1e-12, 0.5, 1.0)
LONG = os.environ.get("DP_EDGEWORTH_LONG") == "1"


def corner_events():
    """Every noise, probability and count in the long run; otherwise each pair of them at least once: a Latin square."""
    for (i, noise), (j, p), (k, count) in itertools.product(*map(enumerate, (NOISES, PROBABILITIES, COUNTS))):
        if LONG or (i + j + k) % 4 == 0:
            yield sampled(p, gaussian(noise)), count
            yield sampled(p, laplace(noise)), count


@every_class
def test_17_extremes_without_exception_warning_or_nan(make):
    failures = []
    for event, count in corner_events():
        start, problem = time.process_time(), None
        try:
            accountant = make().compose(event, count)
            epsilons = [accountant.get_epsilon(delta) for delta in (DELTAS if LONG else DELTAS[:3])]
            deltas = [accountant.get_delta(epsilon) for epsilon in (0.0, 1.0, 1e9)]
            if not (all(e >= 0 for e in epsilons) and all(0 <= d <= 1 for d in deltas)):
                problem = f"{epsilons} {deltas}"
        except Exception as error:  # every failure is listed, not only the first
            problem = repr(error)
        seconds = time.process_time() - start
        if problem or seconds > 10.0:
            failures.append(f"{event} x {count}: {problem} ({seconds:.1f} s)")
    assert not failures, "\n".join(failures)


@every_class
@pytest.mark.parametrize("noise", [1e-308, 5e-324, 1e300, 1.7e308])
def test_17_noise_at_the_ends_of_the_floats(make, noise):
    for event in (gaussian(noise), laplace(noise), sampled(0.5, gaussian(noise)), sampled(0.5, laplace(noise))):
        accountant = make().compose(event, 3)
        assert accountant.get_epsilon(1e-5) >= 0.0
        assert 0.0 <= accountant.get_delta(1.0) <= 1.0


@every_class
@pytest.mark.parametrize("count", [10**15, 10**18, 2**63, 10**30])
def test_17_counts_are_python_integers_of_any_size(make, count):
    for event in (gaussian(1e6), laplace(1e6), sampled(1e-9, gaussian(1.0))):
        accountant = make().compose(event, count)
        assert accountant.get_epsilon(1e-5) >= 0.0
        assert 0.0 <= accountant.get_delta(1.0) <= 1.0


def test_17_extreme_gaussians_against_the_closed_form():
    """A composition of m Gaussians is one of noise / sqrt(m): arXiv:1905.02383 Corollary 3.3."""
    for make in FACTORIES.values():
        assert make().compose(gaussian(1e6), 10**12).get_epsilon(1e-5) == pytest.approx(4.377178095681225, rel=1e-9)


# 19. feature detection: test_mechanisms.py ---------------------------------------------------------
