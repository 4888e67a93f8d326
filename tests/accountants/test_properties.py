"""What must hold of the certified interval for every event tree, whatever the numbers: hypothesis looks for a counterexample.

Each property follows from "the interval contains the exact value" alone, so no tolerance appears: where the exact value of A is
at most that of B, the LOWER end of A is at most the UPPER end of B (the upper ends are ordered up to the width of an interval).
Trees have every leaf type of the drop-in contract, depth to 6 and counts to 1e12. Runs are deterministic;
DP_EDGEWORTH_LONG=1 draws forty times as many trees, at random.
"""

import itertools
import math
import os

import attr
import dp_accounting as dpa
import numpy as np
import pytest
from cases import AR, RELATIONS, RO, RS, composed, gaussian, laplace, repeated, sampled
from dp_accounting import dp_event
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dp_edgeworth
from comparisons.brackets import pld_bracket
from dp_edgeworth import EdgeworthIntervalAccountant

LONG = os.environ.get("DP_EDGEWORTH_LONG") == "1"


def examples(count):
    """Settings for `count` examples in the daily run."""
    return settings(derandomize=not LONG, database=None, deadline=None, max_examples=count * (40 if LONG else 1),
                    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much])


# events ------------------------------------------------------------------------------------------------------------


def log_uniform(low, high):
    return st.floats(math.log(low), math.log(high)).map(math.exp)


def counts(most):
    return log_uniform(1, most).map(round)


noises = log_uniform(0.2, 1e3)
probabilities = st.one_of(log_uniform(1e-9, 1.0).map(lambda p: min(p, 1.0)), st.floats(0.0, 1.0))
deltas = st.one_of(log_uniform(1e-30, 0.5), st.floats(1e-3, 0.999))
epsilons = st.one_of(st.floats(0.0, 20.0), log_uniform(1e-6, 1e3))
gaussians = noises.map(gaussian)
laplaces = noises.map(laplace)
discrete_laplaces = st.builds(lambda a, s: dp_event.DiscreteLaplaceDpEvent(a / s, s), log_uniform(1e-3, 5.0), st.integers(1, 6))
logistics = log_uniform(0.3, 100.0).map(lambda scale: dp_edgeworth.AdditiveNoiseDpEvent("logistic", {"scale": scale}))
truncated = st.builds(lambda n, p, full, noise: dpa.TruncatedSubsampledGaussianDpEvent(n, p, max(1, round(n * p * full)), noise),
                      counts(1e5), log_uniform(1e-3, 0.5), st.floats(0.5, 3.0), noises)
randomized_responses = st.builds(dpa.RandomizedResponseDpEvent, st.floats(0.01, 0.999), st.integers(2, 30))
trees_of_sums = st.builds(dpa.SingleEpochTreeAggregationDpEvent, noises, st.lists(st.integers(1, 10_000), min_size=1, max_size=3))
gaussian_compositions = st.builds(lambda a, b, n: composed(a, repeated(b, n)), gaussians, gaussians, st.integers(1, 5))
without_replacement = st.builds(lambda n, share, e: dpa.SampledWithoutReplacementDpEvent(n, max(1, round(n * share)), e),
                                counts(1e6), st.floats(0.0, 1.0), st.one_of(gaussians, gaussian_compositions))


@st.composite
def mixtures(draw):
    weights = draw(st.lists(st.floats(0.01, 1.0), min_size=1, max_size=4))
    shifts = draw(st.lists(st.floats(0.0, 1.0), min_size=len(weights), max_size=len(weights)))
    return dp_event.MixtureOfGaussiansDpEvent(draw(noises), shifts, [weight / math.fsum(weights) for weight in weights])


def poisson(*inner):
    return st.builds(sampled, probabilities, st.one_of(*inner))


@attr.s(frozen=True, auto_attribs=True)
class LeakyCoinDpEvent(dpa.DpEvent):
    """A registered mechanism: heads tell the record surely with probability `leak` in one direction, tails with `lost` in the other."""

    heads: float
    leak: float
    lost: float


@dp_edgeworth.register_mechanism(LeakyCoinDpEvent, samplable=True)
def leaky_coin(event, neighboring_relation):
    heads, leak, lost = event.heads, event.leak, event.lost
    return dp_edgeworth.Atoms((0.0, (1 - heads) * (1 - lost), heads * (1 - lost), lost),
                              (leak, heads * (1 - leak), (1 - heads) * (1 - leak), 0.0))


leaks = st.one_of(st.just(0.0), log_uniform(1e-20, 0.5))
leaky_coins = st.builds(LeakyCoinDpEvent, st.floats(0.01, 0.99), leaks, leaks)
sampled_gaussians = poisson(gaussians, gaussian_compositions, poisson(gaussians))
EVERYWHERE = (gaussians, sampled_gaussians, laplaces, truncated, logistics, leaky_coins)
BY_RECORD = (discrete_laplaces, mixtures(), poisson(laplaces, discrete_laplaces, mixtures(), logistics, leaky_coins, poisson(laplaces)))
LEAVES = {AR: (*EVERYWHERE, *BY_RECORD), RS: (*EVERYWHERE, *BY_RECORD, randomized_responses, trees_of_sums),
          RO: (*EVERYWHERE, randomized_responses, without_replacement)}


def leaves(relation):
    return st.one_of(*LEAVES[relation])


@st.composite
def trees(draw, relation, depth=6, budget=1e12, of=None):
    """A tree whose leaves run at most `budget` times each."""
    kinds = ["leaf", "leaf", "repeated", "composed", "no-op"] if depth > 1 else ["leaf"]
    kind = draw(st.sampled_from(kinds))
    if kind == "no-op":
        return dpa.NoOpDpEvent()
    if kind == "repeated":
        count = draw(counts(budget))
        return repeated(draw(trees(relation, depth - 1, max(1.0, budget / count), of)), count)
    if kind == "composed":
        return composed(*(draw(trees(relation, depth - 1, budget, of)) for _ in range(draw(st.integers(0, 3)))))
    return draw(leaves(relation) if of is None else of)


relations = st.sampled_from(RELATIONS)
settings_of_a_tree = relations.flatmap(lambda relation: st.tuples(st.just(relation), trees(relation)))


def asked(relation, event, count=1):
    return EdgeworthIntervalAccountant(relation).compose(event, count)


def is_interval(found, most=math.inf):
    return 0.0 <= found.lower <= found.estimate <= found.upper <= most  # false for a NaN


def may_be_ordered(small, large):
    """Whether the intervals allow that the first exact value is at most the second."""
    return small.lower <= large.upper


# properties --------------------------------------------------------------------------------------------------------


@examples(40)
@given(settings_of_a_tree, deltas, epsilons)
def test_answers_are_intervals(setting, delta, epsilon):
    accountant = asked(*setting)
    assert is_interval(accountant.get_epsilon_interval(delta))
    assert is_interval(accountant.get_delta_interval(epsilon), 1.0)


@examples(15)
@given(settings_of_a_tree, deltas, deltas)
def test_monotone_in_delta(setting, one, other):
    small, large = (asked(*setting).get_epsilon_interval(delta) for delta in sorted((one, other)))
    assert may_be_ordered(large, small)


@examples(15)
@given(settings_of_a_tree, epsilons, epsilons)
def test_monotone_in_epsilon(setting, one, other):
    small, large = (asked(*setting).get_delta_interval(epsilon) for epsilon in sorted((one, other)))
    assert may_be_ordered(large, small)


NOISY = {  # a leaf of a noise and a sampling probability, in a relation
    "gaussian": (lambda noise, p: gaussian(noise), RELATIONS),
    "sampled gaussian": (lambda noise, p: sampled(p, gaussian(noise)), RELATIONS),
    "laplace": (lambda noise, p: laplace(noise), RELATIONS),
    "sampled laplace": (lambda noise, p: sampled(p, laplace(noise)), (AR, RS)),
    "discrete laplace": (lambda noise, p: sampled(p, dp_event.DiscreteLaplaceDpEvent(1.0 / noise, 2)), (AR, RS)),
    "mixture": (lambda noise, p: sampled(p, dp_event.MixtureOfGaussiansDpEvent(noise, [0.3, 1.0], [0.75, 0.25])), (AR, RS)),
    "logistic": (lambda noise, p: sampled(p, dp_edgeworth.AdditiveNoiseDpEvent("logistic", {"scale": noise})), (AR, RS)),
    "truncated": (lambda noise, p: dpa.TruncatedSubsampledGaussianDpEvent(500, 0.1, 60, noise), RELATIONS),
    "without replacement": (lambda noise, p: dpa.SampledWithoutReplacementDpEvent(100, 7, gaussian(noise)), (RO,)),
    "tree": (lambda noise, p: dpa.SingleEpochTreeAggregationDpEvent(noise, 9), (RS,)),
}
noisy_leaves = st.sampled_from(sorted(NOISY)).flatmap(lambda name: st.tuples(st.just(NOISY[name][0]), st.sampled_from(NOISY[name][1])))


@examples(25)
@given(noisy_leaves, st.tuples(noises, noises), probabilities, counts(1e12), deltas)
def test_monotone_in_the_noise(leaf, pair, p, count, delta):
    make, relation = leaf
    weak, strong = (asked(relation, make(noise, p), count) for noise in sorted(pair, reverse=True))
    assert may_be_ordered(weak.get_epsilon_interval(delta), strong.get_epsilon_interval(delta))
    assert may_be_ordered(weak.get_delta_interval(1.0), strong.get_delta_interval(1.0))


@examples(25)
@given(noisy_leaves, noises, st.tuples(probabilities, probabilities), counts(1e12), deltas)
def test_monotone_in_the_sampling_probability(leaf, noise, pair, count, delta):
    make, relation = leaf
    rare, frequent = (asked(relation, make(noise, p), count) for p in sorted(pair))
    assert may_be_ordered(rare.get_epsilon_interval(delta), frequent.get_epsilon_interval(delta))


@examples(20)
@given(settings_of_a_tree, st.tuples(counts(1e6), counts(1e6)), deltas)
def test_monotone_in_the_count(setting, pair, delta):
    few, many = (asked(*setting, count) for count in sorted(pair))
    assert may_be_ordered(few.get_epsilon_interval(delta), many.get_epsilon_interval(delta))
    assert may_be_ordered(few.get_delta_interval(2.0), many.get_delta_interval(2.0))


@examples(20)
@given(relations.flatmap(lambda r: st.tuples(st.just(r), trees(r), leaves(r))), deltas, epsilons)
def test_one_event_more_never_helps(setting, delta, epsilon):
    relation, event, more = setting
    before, after = asked(relation, event), asked(relation, event).compose(more)
    assert may_be_ordered(before.get_epsilon_interval(delta), after.get_epsilon_interval(delta))
    assert may_be_ordered(before.get_delta_interval(epsilon), after.get_delta_interval(epsilon))


@examples(10)
@given(relations.flatmap(lambda r: st.tuples(st.just(r), st.lists(trees(r, depth=3, budget=1e6), min_size=1, max_size=4))),
       st.randoms(use_true_random=False), deltas)
def test_order_and_grouping_are_irrelevant(setting, random, delta):
    """The drop-in contract allows 1e-12."""
    relation, events = setting
    shuffled = random.sample(events, len(events))
    split = random.randint(0, len(events))
    one_by_one = EdgeworthIntervalAccountant(relation)
    for event in events:
        one_by_one.compose(event)
    ways = [one_by_one, asked(relation, composed(*shuffled)),
            asked(relation, composed(composed(*shuffled[:split]), repeated(composed(*shuffled[split:]), 1)))]
    found = [tuple(way.get_epsilon_interval(delta)) for way in ways]
    for other in found[1:]:
        np.testing.assert_allclose(other, found[0], rtol=1e-12, atol=1e-12)


@examples(12)
@given(settings_of_a_tree, st.integers(1, 10**12), deltas)
def test_no_op_changes_nothing(setting, count, delta):
    relation, event = setting
    no_op = repeated(composed(dpa.NoOpDpEvent(), sampled(0.5, dpa.NoOpDpEvent())), count)
    with_it = EdgeworthIntervalAccountant(relation).compose(no_op).compose(event).compose(no_op)
    assert with_it.get_epsilon_interval(delta) == asked(*setting).get_epsilon_interval(delta)


@examples(20)
@given(settings_of_a_tree, epsilons)
def test_epsilon_of_delta_of_epsilon(setting, epsilon):
    """delta(eps) <= d_upper, so eps(d_upper) <= eps; and delta(eps) >= d_lower > 0, so eps(d_lower) >= eps."""
    accountant = asked(*setting)
    delta = accountant.get_delta_interval(epsilon)
    assert accountant.get_epsilon_interval(delta.upper).lower <= epsilon
    if delta.lower > 0.0:
        assert accountant.get_epsilon_interval(delta.lower).upper >= epsilon


@examples(20)
@given(settings_of_a_tree, deltas)
def test_delta_of_epsilon_of_delta(setting, delta):
    accountant = asked(*setting)
    epsilon = accountant.get_epsilon_interval(delta)
    if math.isfinite(epsilon.upper):  # no epsilon is enough where an infinite loss is likelier than delta
        assert accountant.get_delta_interval(epsilon.upper).lower <= delta
    if epsilon.lower > 0.0:
        assert accountant.get_delta_interval(epsilon.lower).upper >= delta


@examples(15)
@given(trees(AR, of=st.one_of(gaussians, sampled_gaussians)), deltas, epsilons)
def test_replacing_is_not_below_adding_or_removing(event, delta, epsilon):
    adding, replacing = asked(AR, event), asked(RO, event)
    assert may_be_ordered(adding.get_epsilon_interval(delta), replacing.get_epsilon_interval(delta))
    assert may_be_ordered(adding.get_delta_interval(epsilon), replacing.get_delta_interval(epsilon))


@examples(12)
@given(relations.flatmap(lambda r: st.tuples(st.just(r), trees(r, depth=3, budget=1e6))), st.lists(deltas, min_size=2, max_size=12))
def test_arrays_and_single_answers_overlap(setting, targets):
    """A contour that serves many targets is another one than for each alone; both intervals contain the same value."""
    accountant = asked(*setting)
    together = accountant.get_epsilon_interval(np.array(targets))
    for i, delta in enumerate(targets):
        alone = accountant.get_epsilon_interval(delta)
        assert together.lower[i] <= alone.upper and alone.lower <= together.upper[i]


# PLD brackets ------------------------------------------------------------------------------------------------------

moderate = log_uniform(0.5, 20.0)
likely = st.floats(0.01, 0.99)
PLD_LEAVES = {
    AR: st.one_of(moderate.map(gaussian), st.builds(sampled, likely, moderate.map(gaussian)), moderate.map(laplace),
                  st.builds(sampled, likely, moderate.map(laplace)), discrete_laplaces,
                  st.builds(dp_event.MixtureOfGaussiansDpEvent, moderate, st.just([0.0, 0.5, 1.0]), st.just([0.5, 0.375, 0.125]))),
    RO: st.one_of(moderate.map(gaussian), st.builds(sampled, likely, moderate.map(gaussian)),
                  st.builds(dpa.RandomizedResponseDpEvent, st.floats(0.1, 0.99), st.integers(2, 9))),
}


@examples(15)
@given(st.sampled_from((AR, RO)).flatmap(lambda r: st.tuples(st.just(r), st.lists(
    st.tuples(PLD_LEAVES[r], st.integers(1, 20)), min_size=1, max_size=2))), log_uniform(1.01e-8, 0.3))
def test_brackets_of_pld_intersect_ours(setting, delta):
    """Where PLD can be trusted: delta >= 1e-8 and few compositions; coarse, as the brackets stay valid."""
    relation, parts = setting
    event = composed(*itertools.starmap(repeated, parts))
    ours, (low, high) = asked(relation, event).get_epsilon_interval(delta), pld_bracket(event, delta, relation, cells=2e3)
    assert low <= ours.upper and ours.lower <= high


@pytest.mark.parametrize("relation", RELATIONS, ids=lambda relation: relation.name)
def test_the_strategies_reach_every_supported_leaf(relation):
    """The table of the drop-in contract, last column: each class is drawn in each relation that it has there."""
    drawn = set()

    @settings(derandomize=True, database=None, max_examples=400, deadline=None, suppress_health_check=list(HealthCheck))
    @given(leaves(relation))
    def collect(leaf):
        drawn.update({type(leaf).__name__, type(getattr(leaf, "event", None)).__name__})

    collect()
    expected = {"LeakyCoinDpEvent", "GaussianDpEvent", "LaplaceDpEvent", "TruncatedSubsampledGaussianDpEvent", "AdditiveNoiseDpEvent",
                "PoissonSampledDpEvent", "ComposedDpEvent"}
    expected |= {"SampledWithoutReplacementDpEvent"} if relation is RO else {"DiscreteLaplaceDpEvent", "MixtureOfGaussiansDpEvent"}
    expected |= {"RandomizedResponseDpEvent"} if relation is not AR else set()
    assert expected <= drawn
