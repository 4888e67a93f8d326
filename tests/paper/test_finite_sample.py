"""Intervals by the paper's finite-sample bounds contain the truth, obey their formulas, and are as tight as promised.

Truth: the independent oracle (comparisons/exact), live for a few random events (tests/long_finite_sample.py judges a
thousand) and as golden values; exact binomial sums; and for more random events the spectral interval, which is certified to
1e-6 and tested elsewhere.
"""

from __future__ import annotations

import json
import math
import pathlib

import attr
import dp_accounting as dpa
import long_finite_sample
import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event
from scipy import special, stats

from dp_edgeworth import (
    ApproximateEdgeworthAccountant,
    Atoms,
    EdgeworthIntervalAccountant,
    GaussianShift,
    PllrMomentsDpEvent,
    register_mechanism,
    reverse,
    subsample,
)
from dp_edgeworth.paper import expansion_distance, finite_sample, moments
from dp_edgeworth.paper.cumulants import cumulants
from dp_edgeworth.paper.finite_sample import Method
from dp_edgeworth.paper.lemma_4_3 import lemma_4_3
from dp_edgeworth.search import answers
from dp_edgeworth.sums.composition import Composition

METHODS = [Method("uniform"), Method("adaptive"), Method("adaptive", 2), Method("adaptive", 3)]
SAMPLED = subsample(GaussianShift(1.25), 0.004)


def accountant(event, method, relation=NeighboringRelation.ADD_OR_REMOVE_ONE):
    return EdgeworthIntervalAccountant(relation, bound=method.bound, order=method.order).compose(event)


def repeated(p, noise, count):
    return dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(p, dpa.GaussianDpEvent(noise)), count)


def both(pllr, count):
    """Both directions of one repeated pair."""
    return [Composition({pllr: count}), Composition({reverse(pllr): count})]


# Containment


def log_uniform(rng, low, high):
    return math.exp(rng.uniform(math.log(low), math.log(high)))


def random_event(rng):
    """One to three kinds of Gaussian and Laplace leaves, most of them sampled, composed up to 1e6 times each."""
    def leaf():
        base = (dpa.GaussianDpEvent, dpa.LaplaceDpEvent)[int(rng.integers(2))](log_uniform(rng, 0.3, 20))
        return dpa.PoissonSampledDpEvent(log_uniform(rng, 1e-4, 1), base) if rng.random() < 0.8 else base

    kinds = int(rng.integers(1, 4))
    return dpa.ComposedDpEvent([dpa.SelfComposedDpEvent(leaf(), round(log_uniform(rng, 1, 1e6))) for _ in range(kinds)])


@pytest.mark.parametrize("seed", range(5000, 5024))
def test_random_events(seed):
    rng = np.random.default_rng(seed)
    event, deltas = random_event(rng), np.array([1e-6, log_uniform(rng, 1e-6, 0.5), log_uniform(rng, 1e-3, 0.5), 0.5])
    truth = EdgeworthIntervalAccountant().compose(event).get_epsilon_interval(deltas)
    for method in METHODS:
        found = accountant(event, method).get_epsilon_interval(deltas)
        assert np.all(found.lower <= truth.upper * (1 + 1e-9)) and np.all(found.upper >= truth.lower * (1 - 1e-9))
        assert np.all((found.lower <= found.estimate) & (found.estimate <= found.upper))


@pytest.mark.parametrize("index", range(10))
def test_random_events_against_the_oracle(index):
    case = long_finite_sample.random_case(2024, index)
    known = long_finite_sample.truth(case, seconds=1.5)
    if known is None:
        pytest.skip("the oracle has no answer in time")
    assert list(long_finite_sample.violations(case, known)) == []


@attr.s(frozen=True, auto_attribs=True)
class _CoinDpEvent(dpa.DpEvent):
    bias: float


@register_mechanism(_CoinDpEvent)
def _coin(event, neighboring_relation):
    return Atoms((event.bias, 1 - event.bias), (1 - event.bias, event.bias))


@pytest.mark.parametrize("count", [1, 20, 1000])
def test_registered_mechanism(count):
    """A coin of one's own: the sums are binomial, so delta is a finite sum."""
    event, eps = dpa.SelfComposedDpEvent(_CoinDpEvent(0.49), count), np.linspace(0, 2, 9)
    heads = np.arange(count + 1)
    p, q = (stats.binom.pmf(heads, count, bias) for bias in (0.49, 0.51))
    truth = np.maximum(q - np.exp(eps)[:, None] * p, 0).sum(axis=1)
    for method in METHODS:
        found = accountant(event, method).get_delta_interval(eps)
        assert np.all(found.lower <= truth + 1e-13) and np.all(truth <= found.upper + 1e-13)


@pytest.mark.parametrize("method", METHODS[:2])
@pytest.mark.parametrize("noise", [1e-12, 1e-6, 1e-3, 1e4, 1e12])
@pytest.mark.parametrize("base", [dpa.GaussianDpEvent, dpa.LaplaceDpEvent])
@pytest.mark.filterwarnings("error")
def test_extreme_noise(base, noise, method):
    """An answer without exception or warning; little noise may mean inf, much noise means 0."""
    for p, count in ((0.01, 1000), (1e-12, 10**9)):
        event = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(p, base(noise)), count)
        found = accountant(event, method).get_epsilon_interval(0.1)
        assert 0.0 <= found.lower <= found.estimate <= found.upper
        if noise > 1.0 and method.bound == "adaptive":
            assert found.upper < 0.01


GOLDEN = json.loads((pathlib.Path(__file__).parents[1] / "golden" / "exact_values.json").read_text())
ROWS = [row for row in (GOLDEN["cases"] if isinstance(GOLDEN, dict) else GOLDEN) if 1e-6 <= row.get("delta", 0) <= 0.5]


@pytest.mark.parametrize("row", ROWS[::4], ids=lambda row: str(row.get("name", row.get("regime", "")))[:40])
def test_golden_values(row):
    names = {name: value for name, value in vars(dp_event).items() if name.endswith("DpEvent")}
    event, relation = eval(row["event"], names), NeighboringRelation[row.get("relation", "ADD_OR_REMOVE_ONE")]
    slack = 1 + 2 * row["accuracy"]
    for method in METHODS[:2]:
        found = accountant(event, method, relation).get_epsilon_interval(row["delta"])
        assert found.lower <= row["epsilon"] * slack and found.upper * slack >= row["epsilon"]


def test_infinite_losses():
    """A composition of (epsilon, delta)-DP mechanisms: infinite loss with probability 1e-3 each."""
    pair = Atoms((0.0, 0.4 * 0.999, 0.6 * 0.999, 1e-3), (1e-3, 0.6 * 0.999, 0.4 * 0.999, 0.0))
    directions, deltas = both(pair, 100), np.array([0.05, 0.12, 0.3])
    truth = answers.epsilon_bounds(directions, deltas, 1e-6)
    mass = 1 - 0.999**100
    for method in METHODS:
        found = finite_sample.epsilon_bounds(directions, deltas, method)
        assert found.lower[0] == found.upper[0] == math.inf  # below the mass of infinite losses
        assert np.all(found.lower[1:] <= truth.upper[1:]) and np.all(found.upper[1:] >= truth.lower[1:])
        assert finite_sample.delta_floor(directions, method) >= mass * (1 - 1e-12)
    assert finite_sample.delta_floor(directions, METHODS[1]) == pytest.approx(mass)


# The distances


@pytest.mark.parametrize("count", [1, 3, 50, 2000])
def test_exact_distances_of_a_lattice(count):
    """Randomised response: the sum is binomial, sup |F - E_k| is attained at the steps."""
    composition = Composition({Atoms((0.3, 0.7), (0.7, 0.3)): count})
    step = 2 * math.log(7 / 3)
    hits = np.arange(count + 1)
    for tilt, p in ((-1.0, 0.3), (0.0, 0.7)):
        laws = [expansion_distance.by_moments(composition, tilt), expansion_distance.by_characteristic(composition, tilt, 3)]
        x = (hits * step - count * step / 2 - laws[0].mean) / laws[0].deviation
        for expansion in (*laws[0].expansions, *laws[1].expansions):
            above = expansion.above(x)
            truth = max(abs(stats.binom.sf(hits, count, p) - above).max(), abs(stats.binom.sf(hits - 1, count, p) - above).max())
            assert truth <= expansion.distance
        if count >= 50:
            assert laws[1].expansions[0].distance < 1.5 * truth + 1e-4


def test_order_pays_off():
    """Smooth losses: every order is about m^(-1/2) better; the first is far below the bounds from moments."""
    for tilt in (-1.0, 0.0):
        composition = Composition({SAMPLED: 10**4})
        found = [e.distance for e in expansion_distance.by_characteristic(composition, tilt, 3).expansions]
        assert found[0] < 6e-4 and found[1] < 0.25 * found[0] and found[2] < 0.4 * found[1]
        assert found[0] < 0.02 * expansion_distance.by_moments(composition, tilt).expansions[0].distance


def test_gaussians_are_exact():
    event = dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(20.0), 100)
    truth = EdgeworthIntervalAccountant().compose(event).get_epsilon(np.array([0.1, 1e-3]))
    found = accountant(event, METHODS[1]).get_epsilon_interval(np.array([0.1, 1e-3]))
    assert found.lower == pytest.approx(truth, abs=1e-6) and found.upper == pytest.approx(truth, abs=1e-6)


# Formulas


def test_uniform_is_the_papers_formula():
    """delta+ and delta- of [EA] Definition 4.2 from cumulants and Lemma 4.3, written out."""
    composition, eps = Composition({SAMPLED: 10**6}), np.linspace(0, 3, 13)
    curve = finite_sample.curves(composition, METHODS[0], 1e-6)
    ends = {}
    for name, tilt in (("x", -1.0), ("y", 0.0)):
        k1, k2, k3 = cumulants(composition, 3, tilt)
        t = (eps - k1) / math.sqrt(k2)
        density = np.exp(-t * t / 2) / math.sqrt(2 * math.pi)
        cdf = special.ndtr(t) - k3 / k2**1.5 / 6 * (t * t - 1) * density
        known = moments.sum_moments(composition, tilt)
        distance = lemma_4_3(10**6, **known.arguments())
        ends[name] = np.maximum(cdf - distance, 0), np.minimum(cdf + distance, 1)
    upper = 1 - ends["y"][0] - np.exp(eps) * (1 - ends["x"][1])
    lower = 1 - ends["y"][1] - np.exp(eps) * (1 - ends["x"][0])
    found, margin = curve(eps), 1e-10 * (1 + np.exp(eps))  # for rounding, on the safe side
    assert np.all((np.clip(upper, 0, 1) <= found[1]) & (found[1] <= np.clip(upper + margin, 0, 1)))
    assert np.all((np.clip(lower - margin, 0, 1) <= found[0]) & (found[0] <= np.clip(lower, 0, 1)))


@pytest.mark.parametrize("method", METHODS)
def test_inversion(method):
    """delta at the upper epsilon is at most delta, at the lower one at least; both are monotone."""
    event = repeated(0.001, 0.8, 10**5)
    deltas = np.geomspace(0.02, 0.4, 7)
    account = accountant(event, method)
    found = account.get_epsilon_interval(deltas)
    assert np.all(np.diff(found.lower) <= 0) and np.all(np.diff(found.upper) <= 0)
    assert np.all(account.get_delta(found.upper) <= deltas) and np.all(found.upper < math.inf)
    reached = found.lower > 0
    assert np.all(account.get_delta_interval(found.lower).lower[reached] >= deltas[reached])
    band = account.get_delta_interval(np.linspace(0, 20, 50))
    assert np.all(np.diff(band.upper) <= 0) and np.all(np.diff(band.lower) <= 0) and np.all(band.lower <= band.upper)
    assert account.get_epsilon_interval(1.0).upper == 0.0


def test_delta_floor():
    uniform = accountant(repeated(0.004, 0.8, 10**4), METHODS[0])
    floor = uniform.delta_floor()
    assert 0.01 < floor < 0.2
    assert uniform.get_epsilon(0.99 * floor) == math.inf and uniform.get_epsilon(1.01 * floor) < math.inf
    assert uniform.get_epsilon(0.0) == math.inf
    adaptive = accountant(repeated(0.004, 0.8, 10**4), METHODS[1])
    assert adaptive.delta_floor() == 0.0 and adaptive.get_epsilon(1e-12) < math.inf
    assert EdgeworthIntervalAccountant(bound="uniform").delta_floor() == 0.0
    assert EdgeworthIntervalAccountant(bound="uniform").compose(dpa.NonPrivateDpEvent()).delta_floor() == 1.0


# What is promised


@pytest.mark.parametrize("count, lower, upper", [(10**4, 0.288, 1.030), (10**5, 0.572, 0.997), (10**6, 0.683, 0.778)])
def test_figure_4(count, lower, upper):
    """delta 0.1, noise 0.8, p = 0.4/sqrt m: inside what the authors' code prints, and tighter with every order."""
    event, widths = repeated(0.4 / math.sqrt(count), 0.8, count), []
    for method in METHODS[1:]:
        found = accountant(event, method).get_epsilon_interval(0.1)
        assert lower <= found.lower <= found.upper <= upper
        widths.append(found.upper - found.lower)
    assert widths[0] < 0.02 and widths[1] < 0.3 * widths[0] and widths[2] < 0.5 * widths[1]


def test_growth_workload():
    """Of `python -m comparisons speed`, what does not depend on the machine."""
    pytest.importorskip("rich")
    from comparisons import growth

    width = next(growth._figure_4(10**4))
    assert width.met == "yes" and width.value < 0.03


# epsilon at delta 0.1, noise 0.8, by comparisons/exact in 80 bits; its accuracy is 2e-14.
FIGURE_4 = {
    "0.4/sqrt m": (lambda m: 0.4 / math.sqrt(m),
                   {10**4: 0.720170623634345, 10**5: 0.7257140316743392, 10**6: 0.7273676553160907}),
    "1/sqrt(m log m)": (lambda m: 1 / math.sqrt(m * math.log(m)),
                        {10**4: 0.49056562046601543, 10**5: 0.38967971542520485, 10**6: 0.31768318141819757}),
    "0.1 sqrt(log m/m)": (lambda m: 0.1 * math.sqrt(math.log(m) / m),
                          {10**4: 0.41226459050340564, 10**5: 0.5248320364392898, 10**6: 0.6310453109750226}),
}  # fmt: skip


@pytest.mark.parametrize("name", FIGURE_4)
@pytest.mark.parametrize("count, widest", [(10**4, 0.02), (10**5, 0.003), (10**6, 5e-4)])
def test_all_of_figure_4(name, count, widest):
    """All three sampling probabilities: around the exact value, and narrow."""
    probability, exact = FIGURE_4[name]
    event = repeated(probability(count), 0.8, count)
    for method in METHODS:
        found = accountant(event, method).get_epsilon_interval(0.1)
        assert found.lower <= exact[count] * (1 + 1e-13) and exact[count] <= found.upper * (1 + 1e-13)
        assert method.bound == "uniform" or found.upper - found.lower < widest


def test_any_number_of_compositions():
    found = accountant(repeated(0.4 / 1e6, 0.8, 10**12), METHODS[1]).get_epsilon_interval(0.1)
    assert 0.7 < found.lower <= found.upper < found.lower + 1e-4


def test_parameters():
    for wrong in ({"bound": "exact"}, {"bound": "adaptive", "order": 4}, {"bound": "uniform", "order": 2}, {"order": 2}):
        with pytest.raises(ValueError, match="must be"):
            EdgeworthIntervalAccountant(**wrong)


def test_known_by_moments_only():
    one = Composition({subsample(GaussianShift(1.25), 4e-4): 1})
    leaf = PllrMomentsDpEvent(tuple(map(float, cumulants(one, 4, -1.0))), tuple(map(float, cumulants(one, 4, 0.0))))
    known, truth = repeated(4e-4, 0.8, 10**6), 0.727368
    event = dpa.SelfComposedDpEvent(leaf, 10**6)
    full = accountant(known, METHODS[0]).get_epsilon_interval(0.1)
    found = accountant(event, METHODS[0]).get_epsilon_interval(0.1)
    assert found.lower <= full.lower <= truth <= full.upper <= found.upper < 0.9
    for order in (0, 1, 2):
        values = [ApproximateEdgeworthAccountant(order=order).compose(e).get_epsilon(0.1) for e in (event, known)]
        assert values[0] == pytest.approx(values[1], rel=1e-9)
    mixed = dpa.ComposedDpEvent([dpa.SelfComposedDpEvent(leaf, 500_000), repeated(4e-4, 0.8, 500_000)])
    assert accountant(mixed, METHODS[0]).get_epsilon_interval(0.1).lower < truth
    for refused in (EdgeworthIntervalAccountant(), EdgeworthIntervalAccountant(bound="adaptive"),
                    ApproximateEdgeworthAccountant(order=3), ApproximateEdgeworthAccountant(tilted=True)):  # fmt: skip
        assert not refused.supports(mixed)
        with pytest.raises(dpa.UnsupportedEventError, match="needs more than the four cumulants"):
            refused.compose(mixed)
    for wrong in (((0, 1, 5, 0), (0, 1, 0, 0)), ((0, 1, 0), (0, 1, 0, 0)), ((0, 1, 0, 0), (0, 0, 0, 0)),
                  ((0, 1, 0, 0), (0, 1, 0, 0), 5.0)):  # fmt: skip
        with pytest.raises(ValueError, match="must"):
            EdgeworthIntervalAccountant(bound="uniform").compose(PllrMomentsDpEvent(*wrong))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_noise_whose_cumulants_are_near_the_ends_of_the_floats(order):
    """Noise 1e-100: epsilon = mu^2/2 (1 + O(1 / mu)), mu = 1e100. Noise 1e100: delta(0) = 2 Phi(mu/2) - 1 < 1e-5."""
    small, large = (EdgeworthIntervalAccountant(bound="adaptive", order=order).compose(dpa.GaussianDpEvent(s)) for s in (1e-100, 1e100))
    lower, _, upper = small.get_epsilon_interval(1e-5)
    assert lower <= 5e199 <= upper < 5.001e199 and large.get_epsilon(1e-5) == 0.0


def test_an_upper_end_that_underflows_is_not_zero():
    """log delta of noise 10 at epsilon 10 is below -(10 * 10)^2 / 2 + 1; at its largest loss Laplace noise has delta 0."""
    accountant = EdgeworthIntervalAccountant(bound="adaptive").compose(dpa.GaussianDpEvent(10.0))
    assert accountant.get_delta([10.0, 100.0]).tolist() == [5e-324] * 2
    assert EdgeworthIntervalAccountant(bound="adaptive").compose(dpa.LaplaceDpEvent(10.0)).get_delta(0.2) == 0.0
