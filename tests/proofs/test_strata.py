"""Strata by the number of large losses: their parts, every term that is charged, and the regime they are for."""

import ast
import csv
import dataclasses
import functools
import math
import pathlib

import mpmath
import numpy as np
import pytest
from cases import gaussian, repeated, sampled
from dp_accounting import NeighboringRelation
from dp_accounting.dp_event import DiscreteLaplaceDpEvent
from dp_edgeworth.proofs.pieces import Large, Small, Trimmed, is_heavy, line, log_mass, log_mass_below, log_masses, start_of
from scipy import special, stats

from dp_edgeworth import EdgeworthIntervalAccountant, GaussianShift, NormalMixture, subsample
from dp_edgeworth.losses.operations import Mixed, reverse
from dp_edgeworth.losses.rules import Demand
from dp_edgeworth.losses.sampled_gaussian import SampledReplacement
from dp_edgeworth.proofs import spectral, strata
from dp_edgeworth.search import conversion
from dp_edgeworth.sums.composition import Composition

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "rare_values.csv"
HEAVY = [subsample(GaussianShift(1.5), 1e-4), NormalMixture((0.0, 0.4, 1.2), (1 - 3e-4, 1e-4, 2e-4)), SampledReplacement(0.8, 1e-4)]


def leaf_of(parts):
    leaves = [(w, subsample(GaussianShift(mu), p) if kind == "sampled" else SampledReplacement(mu, p)) for w, kind, mu, p in parts]
    return leaves[0][1] if len(leaves) == 1 else Mixed(tuple(w for w, _ in leaves), tuple(pllr for _, pllr in leaves))


def rows():
    with GOLDEN.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["name"])
def test_against_convolution_on_a_grid(row):
    composition, delta = Composition({leaf_of(ast.literal_eval(row["parts"])): int(row["m"])}), float(row["delta"])
    bounds = conversion._epsilons(composition, np.array([delta]), 1e-6, np.zeros(1))
    lower, upper = float(bounds.lower[0]), float(bounds.upper[0])
    assert lower <= float(row["upper"]) and float(row["lower"]) <= upper
    assert upper - lower <= 1e-6 * max(1.0, lower)


@pytest.mark.parametrize("row", rows()[:5:2], ids=lambda row: row["name"])
def test_delta_at_the_same_epsilon(row):
    """delta at both ends of the true epsilon's bracket is on the right side of the target, and it is narrow."""
    composition, delta = Composition({leaf_of(ast.literal_eval(row["parts"])): int(row["m"])}), float(row["delta"])
    ends = np.array([float(row["lower"]), float(row["upper"])])
    for i, found in enumerate(conversion._deltas(composition, ends[j:j + 1], 1e-6, np.zeros(1)) for j in range(2)):
        assert found.upper[0] >= delta if i == 0 else found.lower[0] <= delta
        assert found.upper[0] <= 1.01 * found.lower[0]


@pytest.mark.parametrize("pllr", HEAVY, ids=lambda pllr: type(pllr).__name__)
def test_parts_are_the_whole(pllr):
    """Small, large, far and what is below the rule have the masses that are claimed, under P and Q."""
    one, cut, far = line(pllr), 4.0, 7.0
    assert is_heavy(pllr) and one is not None
    small = Small(pllr, (cut,), (start_of(one, 2.0, 45.0),), 2.0)
    large = Large(pllr, ((cut, far),), log_mass(pllr, [(cut, far)]))
    first, second = small.rule(Demand(0.0, 30.0)), large.rule(Demand(0.0, 30.0))
    for i, tilt in enumerate((0.0, 1.0)):  # P, Q
        kept = math.fsum(np.exp(first.log_weights[0] + tilt * first.values[0]))
        assert kept + first.missing[i, 0] == pytest.approx(1.0, abs=1e-13)
        mass = math.fsum(np.exp(second.log_weights[0] + tilt * second.values[0] + large.log_size))
        beyond = math.exp(log_masses(pllr, [(far, math.inf)])[i])
        cut_off = math.exp(log_masses(pllr, [(cut, math.inf)])[i])
        assert mass + beyond == pytest.approx(cut_off, rel=1e-12)
    assert second.values.min() >= first.values.max()


@pytest.mark.parametrize("pllr", HEAVY, ids=lambda pllr: type(pllr).__name__)
@pytest.mark.parametrize("tilt", [3.0, 12.0])
def test_transforms_of_the_parts_against_thirty_digits(pllr, tilt):
    one, cut, far = line(pllr), 4.5, 6.5
    parts = (Small(pllr, (cut,), (start_of(one, 1.0, 45.0),), 1.0), Large(pllr, ((cut, far),), 0.0))
    with mpmath.workdps(30):
        def density(x, which):
            shifts, weights = which
            return sum(mpmath.mpf(w) * mpmath.npdf(x, mpmath.mpf(c)) for c, w in zip(shifts.tolist(), weights.tolist(), strict=True))

        def integrand(x):
            return density(x, one.q) ** (tilt + 1) * density(x, one.p) ** -tilt

        exact = [mpmath.quad(integrand, [*np.linspace(a, b, 12)]) for a, b in ((-11.0, cut), (cut, far))]
    for part, value in zip(parts, exact, strict=True):
        block = next(Composition({part: 1}).blocks(Demand(0.0, 30.0)))
        found = block.transform(tilt)
        assert found.log_mgf[0] == pytest.approx(float(mpmath.log(value)), abs=2e-13)
        assert Composition({part: 1}).cgf([tilt])[0, 0] == pytest.approx(float(mpmath.log(value)), abs=2e-13)


def test_trimmed_leaf_is_the_reversed_leaf():
    """K of a reversed sampled Gaussian, for tilts it was trimmed for."""
    whole = reverse(subsample(GaussianShift(1.3), 1e-3))
    trimmed = Composition({Trimmed(whole, 20.0): 1000})
    for tilt in (20.0, 60.0, 200.0):
        assert trimmed.cgf([tilt])[0, 0] == pytest.approx(Composition({whole: 1000}).cgf([tilt])[0, 0], abs=1e-10)
        block = next(trimmed.blocks(trimmed.demand(-1.0, tilt)))
        assert 1000 * block.transform(tilt).log_mgf[0] == pytest.approx(Composition({whole: 1000}).cgf([tilt])[0, 0], abs=1e-10)


EASY = {
    "sampled": (Composition({subsample(GaussianShift(1.2), 1e-3): 400}), 0.8),
    "replaced": (Composition({SampledReplacement(1.1, 1e-3): 300}), 0.9),
    "mixture and Gaussian": (Composition({NormalMixture((0.0, 0.5, 1.0), (0.998, 1e-3, 1e-3)): 200, GaussianShift(0.05): 4}), 0.7),
    "two heavy leaves": (Composition({subsample(GaussianShift(1.2), 1e-3): 100, SampledReplacement(0.7, 2e-3): 150}), 0.9),
}


@functools.cache
def plain(composition, epsilon):
    """log delta by one contour, where that is easy."""
    found = conversion._deltas(composition, np.array([epsilon]), 1e-6, np.zeros(1))
    assert found.upper[0] <= found.lower[0] * (1.0 + 1e-3)
    return math.log(found.lower[0]), math.log(found.upper[0])


@pytest.mark.parametrize("case", EASY)
@pytest.mark.parametrize("row", [0.2, 0.5, 0.8])
def test_strata_at_any_threshold_contain_what_one_contour_finds(case, row, monkeypatch):
    """Wherever the losses are cut: the thresholds are a matter of cost, not of truth."""
    composition, epsilon = EASY[case]
    low, high = plain(composition, epsilon)
    planner = strata.planner_at(composition, low, epsilon, 1e-6)

    def choice(self, tables, at):
        index = int(row * len(tables.thresholds))
        most = int(np.argmax(tables.beyond[index] <= self.log_delta - 3.0)) or strata._MOST_LARGE
        bounds, _ = tables.chernoff(at)
        return index, {i for i, k in enumerate(self.numbers) if sum(k) <= most and bounds[index, i] > self.log_delta - 12.0}, most

    monkeypatch.setattr(strata.Planner, "_choice", choice)
    found = planner.contour(epsilon, planner.slope(epsilon), 1e-6)
    b = found.bounds(np.array([epsilon, 1.1 * epsilon]))
    assert b.lower[0] <= high and low <= b.upper[0]
    other = plain(composition, 1.1 * epsilon)
    assert b.lower[1] <= other[1] and other[0] <= b.upper[1]
    assert b.slope[0] < 0.0


def strata_of(case="sampled"):
    composition, epsilon = EASY[case]
    planner = strata.planner_at(composition, plain(composition, epsilon)[0], epsilon, 1e-6)
    return planner.contour(epsilon, planner.slope(epsilon), 1e-6), np.array([epsilon])


def test_every_charge_is_charged():
    """More than M large losses, the factor's error, the mass rounding, far losses, strata that are only bounded."""
    found, eps = strata_of()
    b = found.bounds(eps)
    more = dataclasses.replace(found, log_rest=float(b.upper[0]) - 3.0).bounds(eps)
    assert more.upper[0] == pytest.approx(np.logaddexp(b.upper[0], b.upper[0] - 3.0), abs=1e-3)
    wider = dataclasses.replace(found, parts=tuple(dataclasses.replace(p, log_factor_error=0.01) for p in found.parts)).bounds(eps)
    assert wider.upper[0] > b.upper[0] + 0.005 and wider.lower[0] < b.lower[0] - 0.005
    bounded = dataclasses.replace(found, parts=(*found.parts, dataclasses.replace(
        found.parts[0], contour=None, tilt=2.0, log_bound=float(b.upper[0]) + 2.0 * eps[0], log_factor=0.0))).bounds(eps)
    assert bounded.upper[0] == pytest.approx(b.upper[0] + math.log(2.0), abs=1e-6) and bounded.lower[0] == b.lower[0]
    far = dataclasses.replace(found, far=dataclasses.replace(found.far, plain=False, log_any=float(b.upper[0]))).bounds(eps)
    assert far.upper[0] > b.upper[0] + 0.5 and far.lower[0] <= b.lower[0]


def test_the_rounding_of_the_masses_is_part_of_the_contour(monkeypatch):
    found, eps = strata_of()
    monkeypatch.setattr(strata, "_MASS_ROUNDING", 1e-4)
    more, _ = strata_of()
    for a, b in zip(found.parts, more.parts, strict=True):
        if a.contour is not None:
            assert b.contour.log_mgf_error >= a.contour.log_mgf_error + 0.9e-4
            assert np.all(b.contour.other_log_bounds >= a.contour.other_log_bounds + 0.9e-4)
    assert more.bounds(eps).upper[0] > found.bounds(eps).upper[0]


@pytest.mark.parametrize("m", [3, 400, 10**12])
@pytest.mark.parametrize("k", [0, 1, 3])
def test_log_binomial(m, k):
    assert strata._log_binomial(m, k) == pytest.approx(float(mpmath.log(mpmath.binomial(m, k))), rel=1e-15, abs=1e-15)


@pytest.mark.parametrize("count", [3, 50])
def test_more_large_losses_than_m(count):
    """(m q)^{M+1} / (M+1)! is at least the binomial tail."""
    q = 0.02
    for most in range(3):
        assert (count * q) ** (most + 1) / math.factorial(most + 1) >= stats.binom.sf(most, count, q)


@pytest.mark.parametrize("case", ["sampled", "replaced"])
def test_far_losses_by_integration(case):
    """Two steps: E[payoff; some loss is far] by integration, between both bounds."""
    leaf = {"sampled": subsample(GaussianShift(1.2), 1e-2), "replaced": SampledReplacement(1.1, 1e-2)}[case]
    composition, epsilon = Composition({leaf: 2}), 0.05
    planner = strata.planner_at(composition, None, epsilon, 1e-6)
    one, loss = line(leaf), 0.3
    ends = [leaf_.cut(loss) for leaf_ in planner.heavy]
    lower, _, upper = planner._far(ends, loss, epsilon).bounds(np.array([epsilon]))
    x, w = np.polynomial.legendre.leggauss(60)
    edges = np.concatenate([np.linspace(-9.0, ends[0][0], 25), np.linspace(ends[0][0], 12.0, 25)[1:]])
    nodes = (0.5 * (edges[1:] + edges[:-1])[:, None] + 0.5 * np.diff(edges)[:, None] * x).ravel()
    weights = (0.5 * np.diff(edges)[:, None] * w).ravel()
    up, down = one.losses(nodes)
    q = weights * np.exp(up - 0.5 * nodes**2) / math.sqrt(2.0 * math.pi)
    payoff = np.maximum(-np.expm1(epsilon - np.add.outer(up - down, up - down)), 0.0)
    far = nodes > ends[0][0]
    exact = float((np.outer(q, q) * payoff)[far[:, None] | far].sum())
    assert lower[0] <= exact * (1.0 + 1e-5) and exact * (1.0 - 1e-5) <= upper[0]  # the payoff has a kink
    assert upper[0] <= lower[0] * (1.2 if case == "sampled" else 5.0)


def test_most_negative_losses_are_few():
    pllr = SampledReplacement(1.5, 1e-3)
    x = -4.0
    exact = (1 - 1e-3) * special.ndtr(x) + 1e-3 * special.ndtr(x + 1.5)
    assert log_mass_below(pllr, [x]) == pytest.approx(math.log(exact), rel=1e-13)


def test_a_tilt_that_the_rules_were_not_made_for_is_refused(monkeypatch):
    composition, epsilon = EASY["sampled"]
    planner = strata.planner_at(composition, plain(composition, epsilon)[0], epsilon, 1e-6)
    original = spectral.contour

    def low(*args, **kwargs):
        found = original(*args, **kwargs)
        return dataclasses.replace(found, tilt=1e-3 * found.tilt)

    monkeypatch.setattr(spectral, "contour", low)
    with pytest.raises(strata.RuleTooLargeError):
        planner.contour(epsilon, 10.0, 1e-6)


# (event, relation, delta, exact epsilon by comparisons/exact, its accuracy): lattices so fine that the payoff of a step is tiny
FINE_LATTICES = [
    (repeated(sampled(3.6579701219995343e-06, DiscreteLaplaceDpEvent(1.3544972479736956, 1)), 92502),
     NeighboringRelation.REPLACE_SPECIAL, 1.2466648602973091e-11, 0.008734067873700265, 3e-14),
    (repeated(sampled(5.9698779789179676e-05, DiscreteLaplaceDpEvent(0.05492501787176092, 1)), 14585),
     NeighboringRelation.ADD_OR_REMOVE_ONE, 2.9196233129137026e-10, 0.0017778371780031788, 1e-14),
]


@pytest.mark.parametrize(("event", "relation", "delta", "exact", "accuracy"), FINE_LATTICES)
def test_fine_lattices(event, relation, delta, exact, accuracy):
    lower, _, upper = EdgeworthIntervalAccountant(relation).compose(event).get_epsilon_interval(delta)
    assert lower <= exact * (1 + accuracy) and exact * (1 - accuracy) <= upper
    assert upper - lower <= 1e-4 * upper


# (event, relation, delta): wide before there were strata; both directions count
WIDE = [
    (repeated(sampled(1.2e-9, gaussian(0.6529)), 4_282_810), NeighboringRelation.ADD_OR_REMOVE_ONE, 2.25e-13),
    (repeated(sampled(1.7e-5, gaussian(0.5)), 40), NeighboringRelation.REPLACE_ONE, 1e-9),
    (repeated(sampled(4.8e-7, gaussian(0.618)), 261_297_772), NeighboringRelation.ADD_OR_REMOVE_ONE, 4.3e-13),
]


@pytest.mark.parametrize(("event", "relation", "delta"), WIDE)
def test_narrow_where_rare_samples_carry_the_loss(event, relation, delta):
    accountant = EdgeworthIntervalAccountant(relation).compose(event)
    lower, _, upper = accountant.get_epsilon_interval(delta)
    assert 0.0 < lower <= upper <= lower + 1e-6
    assert accountant.get_delta_interval(lower).upper >= delta and accountant.get_delta_interval(upper).lower <= delta
