"""Additive noise from scipy.stats: closed forms and 30-digit integration, both signs, pure epsilon, refusals, round trips."""

import copy
import itertools
import math
import pickle

import dp_accounting as dpa
import numpy as np
import pytest
from dp_accounting import dp_event
from mpmath import mp
from scipy import stats

from dp_edgeworth import AdditiveNoiseDpEvent, EdgeworthIntervalAccountant
from dp_edgeworth.losses import additive_noise, noise_shift
from dp_edgeworth.losses import mechanisms as leaf_mechanisms
from dp_edgeworth.losses.gaussian_noise import GaussianShift
from dp_edgeworth.losses.operations import subsample
from dp_edgeworth.losses.rules import Demand
from dp_edgeworth.search import answers
from dp_edgeworth.sums.composition import Composition

AR = dpa.NeighboringRelation.ADD_OR_REMOVE_ONE
RO = dpa.NeighboringRelation.REPLACE_ONE
Interval = EdgeworthIntervalAccountant


# Parameters, log-density and cdf in 30 digits, in units of the scale.
NOISES = {
    "logistic": ({}, lambda x: -x - 2 * mp.log1p(mp.exp(-x)), lambda x: 1 / (1 + mp.exp(-x))),
    "hypsecant": ({}, lambda x: -mp.log(mp.pi * mp.cosh(x)), lambda x: 2 / mp.pi * mp.atan(mp.exp(x))),
    "gennorm": ({"beta": 1.5}, lambda x: -(abs(x) ** mp.mpf(1.5)),
                lambda x: (1 + mp.sign(x) * mp.gammainc(mp.mpf(2) / 3, 0, abs(x) ** mp.mpf(1.5), regularized=True)) / 2),
    "gumbel_r": ({}, lambda x: -x - mp.exp(-x), lambda x: mp.exp(-mp.exp(-x))),
    "gumbel_l": ({}, lambda x: x - mp.exp(x), lambda x: 1 - mp.exp(-mp.exp(x))),
    "genlogistic": ({"c": 3.0}, lambda x: -x - 4 * mp.log1p(mp.exp(-x)), lambda x: (1 + mp.exp(-x)) ** -3),
}


def hockey_stick(name, shift, eps):
    """int (f(x - shift) - e^eps f(x))_+ dx, between the kink, by bisection, and the end: the ratio is monotone."""
    _, log_density, cdf = NOISES[name]
    shift, low, high = mp.mpf(shift), mp.mpf(-60), mp.mpf(60)
    for _ in range(110):
        middle = (low + high) / 2
        beyond = log_density(middle - shift) - log_density(middle) > eps
        low, high = (low, middle) if beyond == (shift > 0) else (middle, high)
    gap = cdf(low - shift) - mp.exp(eps) * cdf(low)
    return max(1 - mp.exp(eps) - gap if shift > 0 else gap, mp.mpf(0))


@pytest.mark.parametrize("name", NOISES)
def test_thirty_digit_cdfs_are_integrals_of_the_densities(name):
    _, log_density, cdf = NOISES[name]
    with mp.workdps(30):
        parts = [mp.quad(lambda x: mp.exp(log_density(x)), mp.linspace(a, a + 1, 3)) for a in (-1, 0, 1)]
        masses = [cdf(mp.mpf(a + 1)) - cdf(mp.mpf(a)) for a in (-1, 0, 1)]
        assert max(abs(part / parts[1] - mass / masses[1]) for part, mass in zip(parts, masses, strict=True)) < 1e-6
        assert abs(cdf(mp.mpf(-60))) < 1e-20 and abs(cdf(mp.mpf(60)) - 1) < 1e-20


@pytest.mark.parametrize("name", NOISES)
@pytest.mark.parametrize(("shift", "eps"), [(1.0, 0.0), (0.3, 0.1), (2.0, 1.2)])
def test_one_step_is_the_larger_hockey_stick_of_both_signs(name, shift, eps):
    with mp.workdps(30):
        exact = max(hockey_stick(name, sign * shift, mp.mpf(eps)) for sign in (1, -1))
    event = AdditiveNoiseDpEvent(name, {**NOISES[name][0], "scale": 2.0, "loc": 7.0}, 2.0 * shift)
    lower, _, upper = Interval().compose(event).get_delta_interval(eps)
    assert lower <= exact <= upper
    assert upper - lower <= 2e-6 * exact + 1e-11


@pytest.mark.parametrize("name", ["logistic", "gumbel_r"])
def test_sampled_and_replaced(name):
    eps, p = 0.05, 0.1
    with mp.workdps(30):
        large, rest = mp.exp(mp.mpf(eps)), 1 - mp.exp(mp.mpf(eps)) * (1 - mp.mpf(p))
        with_record = p * max(hockey_stick(name, sign, mp.log1p((large - 1) / p)) for sign in (1, -1))
        without = rest * max(hockey_stick(name, sign, mp.log(p * large / rest)) for sign in (1, -1))
        exact = max(with_record, without)
        twice = max(hockey_stick(name, sign * 2, mp.mpf(eps)) for sign in (1, -1))
    event = AdditiveNoiseDpEvent(name, NOISES[name][0])
    lower, _, upper = Interval().compose(dpa.PoissonSampledDpEvent(p, event)).get_delta_interval(eps)
    assert lower <= exact <= upper <= exact * (1 + 2e-6)
    lower, _, upper = Interval(RO).compose(event).get_delta_interval(eps)
    assert lower <= twice <= upper <= twice * (1 + 2e-6)


def gumbel_both_ways(x, y):
    """Loss of one step of gumbel_r up (x) and of one down (y), with a shift of 1: both outcomes of a composition."""
    return 1 - (math.e - 1) * np.exp(-x), (math.e - 1) * np.exp(-y) - 1


@pytest.mark.parametrize("eps", [0.5])
def test_two_steps_in_any_signs_are_covered(eps):
    """Q: e^{-x} / e is exponential where the shift is up, e^{-y} where it is down; midpoints of 500 equal shares."""
    share = (np.arange(500) + 0.5) / 500
    exponential = -np.log1p(-share)
    up, down = gumbel_both_ways(-np.log(exponential * math.exp(-1)), -np.log(exponential))
    worst = max(np.maximum(-np.expm1(eps - np.add.outer(a, b)), 0.0).mean() for a, b in itertools.product((up, down), repeat=2))
    _, _, upper = Interval().compose(AdditiveNoiseDpEvent("gumbel_r"), 2).get_delta_interval(eps)
    assert worst <= upper + 1e-3  # the error of the midpoints
    assert upper <= 1.1 * worst + 1e-3


def curve_of_exponential(shift, eps):
    """Exponential noise: moved up, L = shift where Q lives; moved down, infinite with probability 1 - e^{-shift}."""
    return max(max(0.0, -math.expm1(eps - shift)), -math.expm1(-shift))


@pytest.mark.parametrize("eps", [0.0, 0.2, 3.0])
def test_one_sided_exponential_noise(eps):
    lower, _, upper = Interval().compose(AdditiveNoiseDpEvent("expon", {"scale": 2.0})).get_delta_interval(eps)
    exact = curve_of_exponential(0.5, eps)
    assert lower <= exact <= upper <= exact * (1 + 1e-9)


# --- gaussian, laplace and flat noise in other words ---


@pytest.mark.parametrize("eps", [0.0, 0.5, 3.0])
def test_general_noise_agrees_with_the_closed_forms(eps):
    """The same code on the normal and the Laplace law, which events hand to the built-in leaves."""
    leaf = noise_shift.noise_pair(additive_noise.AdditiveNoise("norm", ()), 1.5)
    normal = stats.norm.cdf(0.75 - eps / 1.5) - math.exp(eps) * stats.norm.cdf(-0.75 - eps / 1.5)
    below, above = (math.exp(p.log_hockey_stick(np.array(eps))) for p in (*leaf.members, leaf.pair))
    assert below <= normal * (1 + 1e-13) and normal <= above * (1 + 1e-13) and above - below <= 1e-6 * normal
    leaf = noise_shift.noise_pair(additive_noise.AdditiveNoise("laplace", ()), 3.5)
    laplace = -math.expm1((eps - 3.5) / 2)
    below, above = (math.exp(p.log_hockey_stick(np.array(eps))) for p in (*leaf.members, leaf.pair))
    assert below <= laplace * (1 + 1e-13) and laplace <= above * (1 + 1e-13) and above - below <= 1e-6 * laplace


@pytest.mark.parametrize(("event", "builtin"), [
    (AdditiveNoiseDpEvent("norm", {"scale": 2.0, "loc": 5.0}), dpa.GaussianDpEvent(2.0)),
    (AdditiveNoiseDpEvent("gennorm", {"beta": 2.0, "scale": math.sqrt(8.0)}), dpa.GaussianDpEvent(2.0)),
    (AdditiveNoiseDpEvent("laplace", {"scale": 3.0}, 1.5), dpa.LaplaceDpEvent(2.0)),
    (AdditiveNoiseDpEvent("gennorm", {"beta": 1.0, "scale": 3.0}), dpa.LaplaceDpEvent(3.0)),
], ids=str)
def test_gaussian_and_laplace_are_the_built_in_leaves(event, builtin):
    for wrap in (lambda e: e, lambda e: dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.1, e), 30)):
        found, expected = (Interval().compose(wrap(e)).get_epsilon_interval([1e-9, 1e-3]) for e in (event, builtin))
        assert np.all(found.lower <= expected.upper) and np.all(expected.lower <= found.upper)
        assert np.all(found.upper - found.lower <= 1e-6 * np.maximum(1.0, found.lower))


def test_noise_wider_than_its_support_is_disjoint():
    event = AdditiveNoiseDpEvent("uniform", {"scale": 2.0}, 3.0)
    for count in (1, 4):
        assert Interval().compose(event, count).get_delta(5.0) == 1.0
        sampled = Interval().compose(dpa.PoissonSampledDpEvent(0.1, event), count)
        assert sampled.get_delta(5.0) == pytest.approx(1 - 0.9**count, rel=1e-12)
    assert Interval().compose(AdditiveNoiseDpEvent("uniform", {"scale": 2.0}, 0.0)).get_epsilon(0.0) == 0.0


# --- width ---


@pytest.mark.parametrize(("name", "parameters", "sensitivity", "p", "count"), [
    ("logistic", {}, 0.1, 1.0, 50), ("logistic", {}, 3.0, 0.01, 100_000), ("gennorm", {"beta": 1.5}, 1.0, 1.0, 1000),
    ("hypsecant", {}, 1.0, 0.1, 50), ("gumbel_r", {}, 0.1, 1.0, 100_000),
])
def test_intervals_are_narrow(name, parameters, sensitivity, p, count):
    event = dpa.PoissonSampledDpEvent(p, AdditiveNoiseDpEvent(name, parameters, sensitivity))
    lower, estimate, upper = Interval().compose(event, count).get_epsilon_interval([1e-5, 1e-10])
    assert np.all((lower <= estimate) & (estimate <= upper) & (upper <= lower + 1e-6 * np.maximum(1.0, lower)))


def test_huge_counts():
    """Logistic noise, shift 1e-3 a billion times: by the central limit theorem a Gaussian of mu^2 = m s^2 / 3."""
    lower, _, upper = Interval().compose(AdditiveNoiseDpEvent("logistic", {}, 1e-3), 10**9).get_epsilon_interval(1e-5)
    gaussian = Interval().compose(dpa.GaussianDpEvent(math.sqrt(3e-3))).get_epsilon(1e-5)
    assert upper - lower <= 1e-6 * lower
    assert upper == pytest.approx(gaussian, rel=1e-6)


@pytest.mark.parametrize(("name", "parameters", "sensitivity", "p", "count", "delta"), [
    ("gumbel_r", {}, 0.1, 0.01, 1000, 1e-10), ("gumbel_l", {}, 0.1, 0.01, 1000, 1e-10),
    ("gennorm", {"beta": 4.0}, 0.1, 0.01, 1000, 1e-10), ("gamma", {"a": 20.0}, 0.01, 0.1, 1000, 1e-14),
    ("moyal", {}, 0.04, 0.01, 100_000, 1e-14), ("exponnorm", {"K": 1.0}, 0.01, 1.0, 100_000, 1e-10),
    ("gumbel_r", {}, 0.02, 1e-4, 50, 1e-14), ("gennorm", {"beta": 8.0}, 1.0, 1.0, 10, 1e-6),
    ("laplace_asymmetric", {"kappa": 1.7}, 10.0, 1.0, 10, 1e-14),
])
def test_rare_large_losses_are_not_in_the_way(name, parameters, sensitivity, p, count, delta):
    event = dpa.PoissonSampledDpEvent(p, AdditiveNoiseDpEvent(name, parameters, sensitivity))
    lower, _, upper = Interval().compose(event, count).get_epsilon_interval(delta)
    assert upper <= lower + 1e-6 * max(1.0, lower)


@pytest.mark.parametrize(("shift", "p", "count", "delta"), [
    (0.1, 0.01, 1000, 1e-10), (1.0, 1e-4, 50, 1e-10), (0.5, 0.1, 100, 1e-14), (4.0, 0.01, 20, 1e-6), (1.0, 1.0, 50, 1e-14),
    (30.0, 0.1, 10, 1e-6)])
def test_normal_noise_composed_contains_the_built_in_answer(shift, p, count, delta):
    """The general code on the normal law, large losses left out or not, against the Gaussian leaf."""
    leaf = noise_shift.noise_pair(additive_noise.AdditiveNoise("norm", ()), shift)
    found = answers.epsilon_bounds([Composition({subsample(leaf, p): count})], np.array([delta]), 1e-6)
    lower, upper = found.lower[0], found.upper[0]
    gaussian = Composition({subsample(GaussianShift(shift), p): count})
    exact = answers.epsilon_bounds([gaussian], np.array([delta]), 1e-9)
    assert lower <= exact.upper[0] and exact.lower[0] <= upper
    assert upper - lower <= (1e-6 if count * p >= 5 else 1e-3) * max(1.0, lower)


def test_what_is_left_out_is_as_rare_as_promised_and_accounted_for():
    pair = noise_shift.noise_pair(additive_noise.AdditiveNoise("gumbel_r", ()), 0.5).pair
    whole = pair.rule(Demand())
    for log_tail in (-5.0, -30.0, -200.0):
        cut = pair.rule(Demand(log_tail=log_tail))
        assert 0 < cut.missing[1, 0] <= math.exp(log_tail)
        assert cut.values.max() == pair.largest_kept(log_tail) < whole.values.max()
        for s, row in ((0.0, 0), (1.0, 1)):
            total, rest = (math.fsum(np.exp(r.log_weights[0] + s * r.values[0])) for r in (whole, cut))
            assert rest + cut.missing[row, 0] == pytest.approx(total, rel=1e-13)


# --- beyond the floats ---


SURVIVAL = {
    "gumbel_l": lambda x: -mp.exp(x),
    "moyal": lambda x: mp.log(mp.erfc(mp.exp(x / 2) / mp.sqrt(2))),  # its left tail
    "gennorm": lambda x: mp.log(mp.gammainc(mp.mpf(1) / 4, x**4, mp.inf, regularized=True) / 2),
    "norm": lambda x: mp.log(mp.erfc(x / mp.sqrt(2)) / 2),
    "logistic": lambda x: -mp.log1p(mp.exp(x)),
}


@pytest.mark.parametrize(("name", "shapes", "left", "points"), [
    ("gumbel_l", (), False, (6.0, 7.0, 15.0)), ("moyal", (), True, (7.0, 8.0, 12.0, 15.0)),
    ("gennorm", (4.0,), False, (4.9, 5.2, 10.0, 30.0)), ("norm", (), False, (35.0, 36.2, 40.0, 200.0)),
    ("logistic", (), False, (600.0, 700.0, 5000.0))])
def test_tails_beyond_the_floats_in_sixty_digits(name, shapes, left, points):
    noise = additive_noise.AdditiveNoise(name, shapes)
    tail = noise.left if left else noise.right
    x = np.array(points)
    with np.errstate(all="ignore"):
        pairs = [tail.log_mass(x), tail._log_integral(x)]
    with mp.workdps(60):
        exact = [SURVIVAL[name](mp.mpf(point)) for point in points]
        for least, most in pairs:
            for low, value, high in zip(least, exact, most, strict=True):
                assert low <= value + abs(value) * mp.mpf(4e-15) + mp.mpf(2e-13)
                assert value - abs(value) * mp.mpf(4e-15) - mp.mpf(2e-13) <= high
                assert high - low <= 2e-4 or value > -650  # the integral is made for what no cdf has


@pytest.mark.parametrize(("shift", "delta"), [(10.0, 1e-10), (10.0, 1e-3), (6.0, 1e-6), (3.0, 1e-12)])
def test_gennorm_with_losses_beyond_the_exponents_of_floats(shift, delta):
    """beta = 4, one use: epsilon by bisection of the 60-digit hockey-stick."""
    lower, _, upper = Interval().compose(AdditiveNoiseDpEvent("gennorm", {"beta": 4.0}, shift)).get_epsilon_interval(delta)
    with mp.workdps(60):
        s, scale = mp.mpf(shift), 2 * mp.gamma(mp.mpf(5) / 4)

        def mass(x):
            tail = mp.gammainc(mp.mpf(1) / 4, x**4, mp.inf) / (4 * scale)
            return mp.mpf(tail) if x >= 0 else 1 - tail

        def delta_at(x):  # where the loss is eps at x
            return mass(x - s) - mp.exp(x**4 - (x - s) ** 4) * mass(x)

        low, high = s / 2, s + 10
        for _ in range(150):
            middle = (low + high) / 2
            low, high = (middle, high) if delta_at(middle) > delta else (low, middle)
        exact = low**4 - (low - s) ** 4
        assert lower <= exact <= upper
    assert upper - lower <= 2e-6 * exact


# --- pure epsilon ---


@pytest.mark.parametrize(("name", "parameters", "largest"), [
    ("logistic", {"scale": 2.0}, 0.5), ("hypsecant", {}, 1.0), ("genlogistic", {"c": 3.0}, 3.0), ("genlogistic", {"c": 0.5}, 1.0),
    ("laplace_asymmetric", {"kappa": 2.0}, 2.0), ("gumbel_r", {}, math.inf), ("gennorm", {"beta": 1.5}, math.inf),
    ("uniform", {"scale": 4.0}, math.inf),
])
def test_delta_zero_gives_the_largest_loss(name, parameters, largest):
    event = AdditiveNoiseDpEvent(name, parameters)
    assert Interval().compose(event, 7).get_epsilon(0.0) == pytest.approx(7 * largest, rel=1e-12)
    if math.isfinite(largest):
        # An sf that is 1 - cdf (genlogistic's in scipy 1.10) does not show the tail in which the largest losses are.
        own = type(getattr(stats, name))._sf is not stats.rv_continuous._sf
        assert Interval().compose(event, 7).get_epsilon_interval(0.0).lower == pytest.approx(7 * largest, rel=1e-8 if own else 1e-6)
        sampled = Interval().compose(dpa.PoissonSampledDpEvent(0.1, event)).get_epsilon(0.0)
        both = math.log1p(0.1 * math.expm1(largest)), -math.log1p(0.1 * math.expm1(-largest))
        assert sampled == pytest.approx(max(both), rel=1e-12)


@pytest.mark.parametrize(("name", "shapes"), [
    ("logistic", ()), ("hypsecant", ()), ("gumbel_r", ()), ("gumbel_l", ()), ("moyal", ()), ("expon", ()), ("gamma", (2.5,)),
    ("chi2", (5.0,)), ("genlogistic", (0.3,)), ("genlogistic", (3.0,)), ("loggamma", (2.0,)), ("laplace_asymmetric", (1.7,))])
def test_rates_are_the_limits_of_the_slope(name, shapes):
    noise = additive_noise.AdditiveNoise(name, shapes)
    for tail in (noise.left, noise.right):
        if math.isfinite(tail.rate):
            x = np.linspace(0.3, 1.0, 50) * tail.reach
            slope = tail.log_density(x) - tail.log_density(x + 1.0)
            assert np.all(slope <= tail.rate + 1e-11) and slope[-1] >= 0.99 * tail.rate


# --- what is refused ---


@pytest.mark.parametrize(("name", "parameters", "reason"), [
    ("t", {"df": 3.0}, "log-concave"), ("t", {"df": 1e6}, "log-concave"), ("cauchy", {}, "log-concave"),
    ("gennorm", {"beta": 1 - 1e-12}, "beta at least 1"), ("gennorm", {"beta": 0.5}, "log-concave"),
    ("gamma", {"a": 0.99}, "a at least 1"), ("arcsine", {}, "log-concave"), ("lognorm", {"s": 1.0}, "log-concave"),
    ("beta", {"a": 0.999, "b": 2.0}, "log-concave"), ("vonmises", {"kappa": 1.0}, "log-concave"),
    ("dgamma", {"a": 2.0}, "log-concave"), ("logistic", {"scale": 0.0}, "scale"), ("logistic", {"scale": math.inf}, "scale"),
    ("nosuch", {}, "scipy.stats"), ("poisson", {"mu": 3.0}, "continuous"), ("gennorm", {}, "parameters"),
])
def test_noise_that_is_refused_says_why(name, parameters, reason):
    event = AdditiveNoiseDpEvent(name, parameters)
    for attempt in (event, dpa.PoissonSampledDpEvent(0.1, event)):
        with pytest.raises(ValueError, match=reason):
            Interval().supports(attempt)


# --- events and pairs as values ---


def test_events_survive_named_tuples_pickle_and_copies():
    event = AdditiveNoiseDpEvent("gennorm", {"scale": 2.0, "beta": 1.5}, 3.0)
    tree = dpa.SelfComposedDpEvent(dpa.ComposedDpEvent([dpa.PoissonSampledDpEvent(0.1, event), event]), 5)
    for whole in (event, tree):
        assert dp_event.DpEvent.from_named_tuple(whole.to_named_tuple()) == whole
        assert pickle.loads(pickle.dumps(whole)) == whole == copy.deepcopy(whole)
    assert event.to_named_tuple().distribution == "gennorm"
    assert repr(event).startswith("AdditiveNoiseDpEvent(distribution='gennorm', parameters=(('beta', 1.5), ")


def test_pairs_depend_on_shift_over_scale_only():
    pairs = {leaf_mechanisms.directions(AdditiveNoiseDpEvent("logistic", {"scale": scale, "loc": scale}, 2.0 * scale), AR)
             for scale in (0.5, 1.0, 8.0)}
    assert len(pairs) == 1


@pytest.mark.parametrize(("name", "shapes"), [("logistic", ()), ("gumbel_r", ()), ("gamma", (2.5,)), ("uniform", ())])
@pytest.mark.parametrize("shift", [1e-7, 0.1, 0.4])
def test_pairs_are_laws_and_one_lies_below_the_other(name, shapes, shift):
    leaf = noise_shift.noise_pair(additive_noise.AdditiveNoise(name, shapes), shift)
    below, = leaf.members
    eps = np.concatenate([[-2.0, 0.0], shift * np.geomspace(1e-3, 50.0, 40)])
    for pair in (leaf.pair, below):
        rule = pair.rule(Demand())
        p, q = np.exp(rule.log_weights[0]), np.exp(rule.log_weights[0] + rule.values[0])
        assert math.fsum(p) + pair.lost_mass == pytest.approx(1.0, abs=1e-12)
        assert math.fsum(q) + pair.infinite_mass == pytest.approx(1.0, abs=1e-12)
        curve = np.maximum(q - np.exp(eps[:, None]) * p, 0.0).sum(axis=1) + pair.infinite_mass
        assert np.exp(pair.log_hockey_stick(eps)) == pytest.approx(curve, rel=1e-9, abs=1e-13)
    assert np.all(below.log_hockey_stick(eps) <= leaf.pair.log_hockey_stick(eps))


def test_chords_over_gaps_beyond_the_floats():
    """A chord in u = e^loss, also where e^gap is no float: it was -inf or nan there, below the curve."""
    curve = noise_shift._Curve(np.array([0.0, 2000.0, 2001.0]), np.array([0.5, 0.1, 0.0]), np.zeros(1), np.zeros(1), 0.0)
    losses = np.array([0.0, 1.0, 750.0, 1500.0, 1999.0, 2000.0, 2000.5, 3000.0])
    with mp.workdps(60):
        exact = [mp.mpf(0.5) - (mp.mpf(0.5) - mp.mpf(0.1)) * mp.expm1(loss) / mp.expm1(2000) for loss in losses[:6].tolist()]
        exact += [mp.mpf(0.1) * (1 - mp.expm1(0.5) / mp.expm1(1)), mp.mpf(0)]
    found = curve.upper(losses)
    assert np.all(found >= np.array(exact, float) - 1e-15)
    assert np.all(found <= np.array(exact, float) + 1e-15)
