"""Laws of single privacy losses: cumulants against 30-digit integration, and the identities every pair obeys."""

import functools
import importlib.util
import json
import math
import re
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from cases import CASES, GOLDEN, RELATIONS
from mpmath import mp

import dp_edgeworth
from dp_edgeworth.events.tree import leaves
from dp_edgeworth.losses import mechanisms
from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.bracket import above, below, between
from dp_edgeworth.losses.gaussian_noise import GaussianShift, NormalMixture
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.operations import Mixed, Reversed, mixed, reverse, subsample
from dp_edgeworth.losses.pllr import OnlyRules, Pllr
from dp_edgeworth.losses.rules import Demand
from dp_edgeworth.losses.sampled_gaussian import SampledReplacement, SampledWithoutReplacement
from dp_edgeworth.paper.cumulants import cumulants
from dp_edgeworth.search import answers
from dp_edgeworth.sums.composition import Composition

ROWS = json.loads((GOLDEN / "cumulants.json").read_text())["rows"]
ORDER = 6


def row_name(row):
    return f"{row['kind']} p={row['p']:g} noise={row['noise']:g}"


def remove_pair(row):
    base = GaussianShift if row["kind"] == "gaussian" else LaplaceShift
    return subsample(base(1.0 / row["noise"]), row["p"])


def x_cumulants(pllr):
    return cumulants(Composition({pllr: 1}), ORDER, -1.0)


def y_cumulants(pllr):
    return cumulants(Composition({pllr: 1}), ORDER, 0.0)


def relative_errors(found, exact):
    """Errors relative to |kappa_r|, from r = 3 on to max(|kappa_r|, kappa_2^(r/2))."""
    exact = [mp.mpf(value) for value in exact]
    scales = [abs(k) if r <= 2 else max(abs(k), exact[1] ** (mp.mpf(r) / 2)) for r, k in enumerate(exact, 1)]
    return [float(abs(mp.mpf(float(a)) - b) / scale) for a, b, scale in zip(found, exact, scales, strict=True)]


def mirrored(cumulants):
    """Cumulants of -L."""
    return [(-1) ** r * mp.mpf(value) for r, value in enumerate(cumulants, 1)]


@pytest.mark.parametrize("row", ROWS, ids=row_name)
@pytest.mark.parametrize("law", ["X1", "Y1", "X2", "Y2"])
def test_cumulants_against_30_digits(row, law):
    remove, add = remove_pair(row), reverse(remove_pair(row))
    with mp.workdps(50):
        found, exact = {
            "X1": (x_cumulants(remove), row["x"]),
            "Y1": (y_cumulants(remove), row["y"]),
            "X2": (x_cumulants(add), mirrored(row["y"])),
            "Y2": (y_cumulants(add), mirrored(row["x"])),
        }[law]
        assert max(relative_errors(found, exact)) <= 1e-12, relative_errors(found, exact)


def generator():
    spec = importlib.util.spec_from_file_location("make_cumulants", GOLDEN / "make_cumulants.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("kind", "p", "noise"), [("laplace", 0.05, 1.0), ("laplace", 1.0, 10.0), ("gaussian", 0.001, 1.0)]
)
def test_golden_cumulants_are_what_their_generator_writes(kind, p, noise):
    stored = next(row for row in ROWS if (row["kind"], row["p"], row["noise"]) == (kind, p, noise))
    with mp.workdps(70):
        x, y = generator().x_and_y_cumulants(kind, p, noise, mp.mpf("0.5"))
        for found, text in zip([*x, *y], [*stored["x"], *stored["y"]], strict=True):
            assert abs(found - mp.mpf(text)) <= mp.mpf(10) ** -30 * abs(found)


def test_golden_cumulants_of_the_gaussian_are_its_closed_form():
    for row in ROWS:
        if (row["kind"], row["p"]) == ("gaussian", 1.0):
            with mp.workdps(50):
                mu2 = 1 / mp.mpf(row["noise"]) ** 2
                for law, sign in (("x", -1), ("y", 1)):
                    exact = [sign * mu2 / 2, mu2, 0, 0, 0, 0]
                    assert all(
                        abs(mp.mpf(a) - b) <= mp.mpf(10) ** -28 * mu2 for a, b in zip(row[law], exact, strict=True)
                    )


def test_cumulants_add_up_with_counts():
    a, b = subsample(GaussianShift(1.0), 0.05), LaplaceShift(0.5)
    both = cumulants(Composition({a: 7, b: 10**15, GaussianShift(2.0): 3}), ORDER, 0.0)
    gaussian = np.array([6.0, 12.0, 0.0, 0.0, 0.0, 0.0])
    np.testing.assert_allclose(both, 7 * y_cumulants(a) + 1e15 * y_cumulants(b) + gaussian, rtol=1e-12)


@functools.cache
def all_pairs():
    """(name, remove, add) of every leaf of every case and relation, and a few that no event makes."""
    result = []
    for case in CASES:
        for relation in RELATIONS:
            if relation in case.relations:
                for leaf, _ in leaves(case.event):
                    result.append(
                        (f"{case.name}, {relation.name}, {type(leaf).__name__}", *mechanisms.directions(leaf, relation))
                    )
    for name, pair in {
        "steep": subsample(GaussianShift(1 / 0.3), 1e-6),
        "almost unsampled": subsample(GaussianShift(1 / 0.3), 0.999),
        "flat": subsample(GaussianShift(0.01), 1e-6),
        "steep laplace": subsample(LaplaceShift(10.0), 1e-6),
        "atoms without common support": Atoms((0.1, 0.6, 0.3, 0.0), (0.0, 0.5, 0.3, 0.2)),
        "sampled atoms without common support": subsample(Atoms((0.1, 0.6, 0.3, 0.0), (0.0, 0.5, 0.3, 0.2)), 0.3),
        "mixed": Mixed((0.25, 0.75), (subsample(GaussianShift(1.0), 0.1), LaplaceShift(1.0))),
    }.items():
        result.append((name, pair, reverse(pair)))
    return result


every_pair = pytest.mark.parametrize(("name", "remove", "add"), all_pairs(), ids=[name for name, *_ in all_pairs()])


@every_pair
def test_total_masses(name, remove, add):
    """E e^X = E e^-Y = 1, infinite losses counted apart; of a bracket on both sides."""
    for pair in (above(remove), above(add), below(remove), below(add)):
        rule = pair.rule(Demand(0.0, 1.0))
        assert rule.weights.sum() + rule.lost[0] == pytest.approx(1.0, abs=1e-13)
        assert (rule.weights * np.exp(rule.values)).sum() + rule.infinite[0] == pytest.approx(1.0, abs=1e-13)
        composition = Composition({pair: 1})
        k = composition.cgf([-1.0, 0.0])[0]
        assert math.exp(k[0]) + pair.lost_mass == pytest.approx(1.0, abs=1e-13)  # E e^-Y = E_P 1
        assert math.exp(k[1]) + pair.infinite_mass == pytest.approx(1.0, abs=1e-13)  # E e^X = E_Q 1


@every_pair
def test_directions_mirror_each_other(name, remove, add):
    """kappa_r(X2) = (-1)^r kappa_r(Y1), kappa_r(Y2) = (-1)^r kappa_r(X1)."""
    for x2, y1 in ((x_cumulants(add), y_cumulants(remove)), (y_cumulants(add), x_cumulants(remove))):
        for r, (a, b) in enumerate(zip(x2, y1, strict=True), 1):
            assert abs(a - (-1) ** r * b) <= 1e-13 * max(abs(b), y1[1] ** (r / 2)), (r, a, b)


@every_pair
def test_reversing_twice_changes_nothing(name, remove, add):
    np.testing.assert_allclose(y_cumulants(reverse(reverse(remove))), y_cumulants(remove), rtol=1e-13)


def test_sampling_multiplies():
    """A sample of a sample: probabilities multiply, for any inner pair."""
    for inner in (GaussianShift(1.0), LaplaceShift(2.0), Atoms((0.2, 0.8), (0.7, 0.3))):
        twice, once = subsample(subsample(inner, 0.4), 0.3), subsample(inner, 0.12)
        np.testing.assert_allclose(y_cumulants(twice), y_cumulants(once), rtol=1e-11, atol=1e-16)


@pytest.mark.parametrize("z", [2.5, 20.0, -0.7])
@pytest.mark.parametrize(("p", "mu"), [(0.05, 1.0), (0.9975, 0.47), (1e-4, 3.0)])
def test_log_mgf_at_the_tilt_asked_for(p, mu, z):
    """K(z) = log E_P[(1 - p + p e^{mu x - mu^2/2})^{z+1}]; nodes laid out for a smaller z would be silently wrong."""
    with mp.workdps(40):
        p_, mu_, z_ = mp.mpf(p), mp.mpf(mu), mp.mpf(z)
        centre = max(mp.mpf(0), mu_ * (z_ + 1))

        def integrand(x):
            return mp.exp((z_ + 1) * mp.log(1 - p_ + p_ * mp.exp(mu_ * x - mu_**2 / 2)) - x * x / 2)

        top = max(integrand(mp.mpf(0)), integrand(centre))
        total = mp.quad(lambda x: integrand(x) / top, mp.linspace(-14, centre + 14, 60))
        exact = float(mp.log(total * top / mp.sqrt(2 * mp.pi)))
    found = Composition({subsample(GaussianShift(mu), p): 1}).cgf([z])[0, 0]
    assert found == pytest.approx(exact, rel=1e-12, abs=1e-14)


def test_public_names_build_pairs():
    pair = dp_edgeworth.subsample(dp_edgeworth.GaussianShift(1.0), 0.1)
    assert dp_edgeworth.reverse(dp_edgeworth.reverse(pair)) == pair
    assert hash(pair) == hash(dp_edgeworth.subsample(dp_edgeworth.GaussianShift(1.0), 0.1))


def test_parts_of_weight_zero_do_not_count():
    """The pure epsilon of Laplace noise 1 is 1, whatever a coin that never falls would choose."""
    for never in (LaplaceShift(3.0), GaussianShift(2.0), Atoms((0.5, 0.5), (1.0, 0.0))):
        mixed = Mixed((1.0, 0.0), (LaplaceShift(1.0), never))
        assert (mixed.supremum, mixed.finite_supremum, mixed.infimum, mixed.loss_scale) == (1.0, 1.0, -1.0, 1.0)
        assert float(np.exp(mixed.log_hockey_stick(np.array(0.5)))) == pytest.approx(-math.expm1(-0.25), rel=1e-13)


def test_what_is_known_from_below_of_a_mixture():
    """delta(1) of the lower side is 1/2 (1 - e^{-1/2}) of Laplace(1/2) and nothing of what was rounded up."""
    tiny = between(GaussianShift(1.0), Atoms((1.0,), (1.0,)))
    coin = mixed((0.5, 0.5), (LaplaceShift(2.0), tiny))
    assert float(np.exp(below(coin).log_hockey_stick(np.array(1.0)))) == pytest.approx(-0.5 * math.expm1(-0.5), rel=1e-13)
    assert below(reverse(coin)) == reverse(below(coin))
    exact = mixed((0.5, 0.5), (LaplaceShift(2.0), GaussianShift(1.0)))
    assert exact == Mixed((0.5, 0.5), (LaplaceShift(2.0), GaussianShift(1.0))) and below(exact) is above(exact) is exact


def test_rounding_up_survives_reversal():
    sampled, nothing = subsample(GaussianShift(1.0), 0.1), Atoms((1.0,), (1.0,))
    assert reverse(between(sampled, nothing)) == between(reverse(sampled), nothing)
    assert reverse(between(GaussianShift(1.0), nothing)).mirror


BAD_PAIRS = {
    "p_masses": lambda: Atoms((math.nan, 0.5), (0.5, 0.5)),
    "p_masses'": lambda: Atoms((0.25, 0.25), (0.25, 0.25)),
    "p_masses''": lambda: Atoms(((0.5,), (0.5,)), (0.5, 0.5)),
    "p_masses'''": lambda: Atoms((), ()),
    "q_masses": lambda: Atoms((0.5, 0.5), (0.3, 0.3)),
    "q_masses'": lambda: Atoms((0.5, 0.5), (0.3, 0.3, 0.4)),
    "q_masses''": lambda: Atoms((0.5, 0.5), (1.5, -0.5)),
    "losses": lambda: Atoms((0.5, 0.5), (0.5, 0.5), losses=(0.0,)),
    "mu": lambda: GaussianShift(math.nan),
    "mu'": lambda: GaussianShift(-1.0),
    "mu''": lambda: GaussianShift(math.inf),
    "mu'''": lambda: LaplaceShift(math.nan),
    "mu''''": lambda: LaplaceShift("1"),
    "shifts": lambda: NormalMixture((0.0, 1.0, 2.0), (0.5, 0.5)),
    "shifts[1]": lambda: NormalMixture((0.0, math.inf), (0.5, 0.5)),
    "max(shifts)": lambda: NormalMixture((0.0, 1.0), (1.0, 0.0)),
    "weights": lambda: NormalMixture((0.0, 1.0), (0.5, 0.4)),
    "weights'": lambda: Mixed((0.5, 0.6), (GaussianShift(1.0), GaussianShift(2.0))),
    "parts": lambda: Mixed((0.5, 0.5), (GaussianShift(1.0),)),
    "parts'": lambda: Mixed((0.5, 0.5), (GaussianShift(1.0), None)),
    "probability": lambda: subsample(GaussianShift(1.0), 2.0),
    "probability'": lambda: subsample(GaussianShift(1.0), 0.0),
}


@pytest.mark.parametrize("name", BAD_PAIRS)
def test_bad_pairs_are_refused_by_name(name):
    with pytest.raises(ValueError, match=re.escape(f"`{name.rstrip(chr(39))}` must")):
        BAD_PAIRS[name]()


def test_sequences_of_any_type_make_the_same_pair():
    assert Atoms([0.25, 0.75], np.array([0.75, 0.25])) == Atoms((0.25, 0.75), (0.75, 0.25))
    assert hash(NormalMixture(np.array([0, 1]), [0.5, 0.5])) == hash(NormalMixture((0.0, 1.0), (0.5, 0.5)))
    assert Mixed([0.5, 0.5], [GaussianShift(1), GaussianShift(2)]) == Mixed((0.5, 0.5), (GaussianShift(1.0), GaussianShift(2.0)))
    assert sum(Atoms((0.5, 0.5 + 4e-10), (0.5, 0.5)).p_masses) == pytest.approx(1.0, abs=1e-15)


def infinite_masses():
    """Pairs whose infinite mass is a rounded sum, a delta one float away from it, and the true sum (exact fractions)."""
    a, b = 0.14828472957528452, 0.08941358054977604
    rest = 1 - a - b
    yield Atoms((0.0, 0.0, rest, 1 - rest), (a, b, rest, 0.0)), 0.23769831012506054, Fraction(a) + Fraction(b)
    w, (a, b) = 0.6165247449831447, (0.9117609532646049, 0.7113148060555553)
    parts = tuple(Atoms((0.0, 1.0 - x, x), (x, 1.0 - x, 0.0)) for x in (a, b))
    yield Mixed((w, 1 - w), parts), 0.8348948158464685, Fraction(w) * Fraction(a) + Fraction(1 - w) * Fraction(b)


@pytest.mark.parametrize(("pair", "delta", "mass"), list(infinite_masses()), ids=["sum", "mixture"])
def test_delta_within_a_float_of_the_infinite_mass(pair, delta, mass):
    """All finite losses are at most 0 here, so epsilon is 0 or infinite."""
    bounds = answers.epsilon_bounds([Composition({pair: 1})], np.array([delta]), 1e-6)
    assert bounds.lower[0] == 0.0 or Fraction(delta) < mass
    assert bounds.upper[0] == math.inf or Fraction(delta) >= mass


@pytest.mark.parametrize(("leak", "count"), [(0.25, 1), (0.25, 3), (1e-12, 1000)])
def test_delta_at_an_infinite_epsilon_is_the_infinite_mass(leak, count):
    composition = Composition({Atoms((0.0, 1.0), (leak, 1.0 - leak)): count})
    found = answers.delta_bounds([composition], np.array([math.inf, 1e300]), 1e-6)
    exact = -math.expm1(count * math.log1p(-leak))
    assert np.all(found.lower <= exact) and np.all(exact <= found.upper)
    assert np.allclose(found.upper, exact, rtol=1e-12)


def test_what_a_new_kind_of_loss_does_not_say_is_an_error():
    class Forgetful(Pllr):
        def rule(self, demand):
            return GaussianShift(1.0).rule(demand)

    with pytest.raises(TypeError, match="infinite_mass") as error:
        Forgetful()
    for name in ("supremum", "infimum",
                 "lost_mass", "top_mass", "atomic", "loss_scale", "largest_kept", "log_hockey_stick", "cells"):
        assert name in str(error.value)

    class OneSided(OnlyRules):
        rule, log_reversed_hockey_stick = Forgetful.rule, Pllr.log_reversed_hockey_stick

    with pytest.raises(NotImplementedError, match="`OneSided` must define `log_reversed_hockey_stick`"):
        OneSided().log_reversed_hockey_stick(np.zeros(1))


@pytest.mark.parametrize("log_tail", [-0.5, -3.0, -20.0, -200.0])
@pytest.mark.parametrize("pair, shifts, weights", [
    (GaussianShift(0.7), [0.7], [1.0]),
    (NormalMixture((0.0, 0.5, 2.0), (0.6, 0.3, 0.1)), [0.0, 0.5, 2.0], [0.6, 0.3, 0.1]),
    (SampledReplacement(1.5, 0.2), [0.0, 1.5], [0.8, 0.2]),
    (SampledWithoutReplacement(1.5, 0.2), [0.0, 1.5], [0.8, 0.2]),
])
def test_losses_above_the_largest_kept_one_are_as_rare_as_asked(pair, shifts, weights, log_tail):
    """In 50 digits: Q beyond the x whose loss is the bound has at most e^log_tail."""
    bound = pair.largest_kept(log_tail)
    assert pair.largest_kept(-math.inf) == math.inf
    with mp.workdps(50):
        def mixture(x):
            return mp.log(mp.fsum(mp.mpf(w) * mp.exp(c * x - mp.mpf(c) ** 2 / 2) for c, w in zip(shifts, weights, strict=True)))

        def loss(x):
            return mixture(x) - (mixture(-x) if isinstance(pair, SampledReplacement) else 0)

        x = mp.findroot(lambda x: loss(x) - bound, (mp.mpf(0), mp.mpf(60)), solver="anderson", tol=1e-30)
        beyond = mp.fsum(mp.mpf(w) * mp.erfc((x - c) / mp.sqrt(2)) / 2 for c, w in zip(shifts, weights, strict=True))
        assert beyond <= mp.exp(log_tail) * (1 + mp.mpf(10) ** -12)


CUT = [GaussianShift(0.7), LaplaceShift(2.0), NormalMixture((0.0, 0.5, 2.0), (0.6, 0.3, 0.1)), SampledReplacement(1.5, 0.2),
       SampledWithoutReplacement(1.5, 0.2), subsample(LaplaceShift(2.0), 0.5), reverse(subsample(LaplaceShift(2.0), 0.5)),
       subsample(GaussianShift(0.7), 0.01), Mixed((0.3, 0.7), (LaplaceShift(1.0), GaussianShift(2.0)))]


@pytest.mark.parametrize("cuts", [0.1, np.array([-1.3, -0.2, 0.05, 0.06, 0.5, 1.9])], ids=["equal", "given"])
@pytest.mark.parametrize("pair", CUT, ids=lambda pair: type(pair).__name__)
def test_cells_are_the_pair(pair, cuts):
    """Masses of P and of Q add up to 1, log(q / p) lies in the cell, and told cells only nobody knows more: H of the cells is below."""
    found = pair.cells(cuts, -60.0)
    assert math.fsum(found.p) == pytest.approx(1.0, abs=1e-12) and math.fsum(found.q) == pytest.approx(1.0, abs=1e-12)
    known = (found.p > 1e-20) & (found.q > 1e-20)
    mean = np.log(found.q[known] / found.p[known])
    assert np.all((mean >= found.low[known] - 1e-9) & (mean <= found.high[known] + 1e-9))
    assert mean == pytest.approx(found.mean[known], abs=1e-9)
    rule = pair.rule(Demand(0.0, 1.0, 50.0))
    for epsilon in (0.0, 0.3, 1.0):
        whole = (np.exp(rule.log_weights + rule.values) * np.maximum(-np.expm1(epsilon - rule.values), 0.0)).sum()
        told = np.maximum(found.q - math.exp(epsilon) * found.p, 0.0).sum()
        assert told <= whole + 1e-4  # the rule is not made for a kink
    if isinstance(cuts, float):
        assert told >= 0.9 * whole


def mixture_stick(shifts, weights, mirrored, epsilon, backwards):
    """int (dQ - e^eps dP)_+ of a mixture, or int (dP - e^eps dQ)_+, from the point where the loss is eps, found by bisection."""
    c, w, low, high = [mpmath.mpf(s) for s in shifts], [mpmath.mpf(p) for p in weights], mpmath.mpf(-2000), mpmath.mpf(5000)

    def ratio(x):
        return sum(p * mpmath.exp(s * x - s * s / 2) for s, p in zip(c, w, strict=True))

    factor, level = mpmath.exp(mpmath.mpf(epsilon)), mpmath.exp(mpmath.mpf(-epsilon if backwards else epsilon))
    for _ in range(250):
        middle = (low + high) / 2
        above = ratio(middle) > level * (ratio(-middle) if mirrored else 1)
        low, high = (low, middle) if above else (middle, high)
    q, p = (sum(b * mpmath.ncdf(sign * a - low) for a, b in zip(c, w, strict=True)) for sign in (1, -1))
    p = p if mirrored else mpmath.ncdf(-low)
    return (1 - p) - factor * (1 - q) if backwards else q - factor * p


@pytest.mark.parametrize(("pair", "backwards"), [
    (NormalMixture((0.0, 0.5, 2.0), (0.5, 0.25, 0.25)), False), (NormalMixture((0.0, 0.5, 2.0), (0.5, 0.25, 0.25)), True),
    (NormalMixture((3.0, 15.0), (0.5, 0.5)), True), (NormalMixture((0.0, 0.001, 0.004), (0.5, 0.25, 0.25)), False),
    (NormalMixture((0.0, 1000.0), (1.0 - 2.0**-30, 2.0**-30)), False), (NormalMixture((0.1, 0.2), (0.5, 0.5)), True),
    (SampledReplacement(1.0, 0.25), False), (SampledReplacement(0.05, 2.0**-10), False), (SampledReplacement(20.0, 2.0**-6), False)])
@pytest.mark.parametrize("epsilon", [0.0, 1e-6, 0.01, 0.3, 0.6, 3.0, 30.0])
def test_one_use_of_a_mixture_in_400_digits(pair, backwards, epsilon):
    """As accurate as its closed form says, beyond the floats too."""
    normals = pair.normals
    with mpmath.workdps(400):
        exact = mixture_stick(normals.shifts, normals.weights, normals.mirrored, epsilon, backwards)
        log = float(mpmath.log(exact)) if exact > mpmath.mpf(10) ** -380 else -math.inf
    found = float((Reversed(pair) if backwards else pair).log_hockey_stick(np.array(epsilon)))
    assert found == pytest.approx(log, abs=2e-14 * max(1.0, abs(log))) if log > -math.inf else found < -870.0
