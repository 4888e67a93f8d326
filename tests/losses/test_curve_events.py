"""Events known by a curve: closed forms, brute-force suprema, and the conversions of others as peers."""

from __future__ import annotations

import math

import dp_accounting as dpa
import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event
from dp_accounting.rdp import rdp_privacy_accountant as rdp
from main_branch import DiscreteGaussian, EpsilonDelta, Exponential, PermuteAndFlip
from scipy import optimize

from dp_edgeworth import EdgeworthIntervalAccountant as Interval
from dp_edgeworth import ProfileDpEvent, RenyiDpEvent
from dp_edgeworth.losses.bracket import Bracket
from dp_edgeworth.losses.gaussian_noise import GaussianShift
from dp_edgeworth.losses.laplace_noise import LaplaceInterior
from dp_edgeworth.losses.renyi_curves import BoundedRangeCurve, SumOfCurves, ZeroConcentrated, epsilon_of
from dp_edgeworth.profiles import whole
from dp_edgeworth.search import answers
from dp_edgeworth.sums.composition import Composition
from dp_edgeworth.sums.pair_sums import PairSums

mpmath.mp.dps = 40
ORDERS = np.array([1.0 + x / 10.0 for x in range(1, 100)] + list(range(11, 64)) + [128, 256, 512, 1024])


def epsilon(event, delta, count=1):
    return Interval().compose(event, count).get_epsilon_interval(delta)


def two_atom_delta(eps, eps_0, t):
    """Losses t and t - eps_0 of a mechanism of bounded range."""
    t, eps_0 = mpmath.mpf(t), mpmath.mpf(eps_0)
    a = (1 - mpmath.exp(t - eps_0)) / (mpmath.exp(t) - mpmath.exp(t - eps_0))
    return sum(max(p * (mpmath.exp(loss) - mpmath.exp(eps)), 0) for p, loss in ((a, t), (1 - a, t - eps_0)))


# --- Renyi curves ---


@pytest.mark.parametrize("eps_0", [1e-3, 0.1, 1.0, 15.0])
@pytest.mark.parametrize("c", [0.01, 1.0, 6.5, 300.0])
def test_the_bounded_range_curve_is_the_largest_of_all_two_atom_losses(eps_0, c):
    def log_mgf(t):
        a = (1 - mpmath.exp(t - eps_0)) / (mpmath.exp(t) - mpmath.exp(t - eps_0))
        return mpmath.log(a * mpmath.exp(t * (c + 1)) + (1 - a) * mpmath.exp((t - eps_0) * (c + 1)))

    coarse = max(range(1, 400), key=lambda i: log_mgf(mpmath.mpf(eps_0) * i / 400))
    best = max(log_mgf(mpmath.mpf(eps_0) * (coarse + j / mpmath.mpf(100)) / 400) for j in range(-100, 100))
    found = float(BoundedRangeCurve(eps_0)(np.array(c)))
    assert found >= best
    assert found == pytest.approx(float(best), rel=2e-4)


@pytest.mark.parametrize("rho", [1e-8, 1e-3, 0.5, 30.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_zcdp_alone_is_never_above_the_closed_conversion(rho, delta):
    """inf over alpha of rho alpha + (log(1/delta) + (alpha - 1) log(1 - 1/alpha) - log alpha) / (alpha - 1), in 40 digits."""
    def needed(log_c):
        c = mpmath.exp(log_c)
        return rho * (c + 1) + (mpmath.log(1 / mpmath.mpf(delta)) + c * mpmath.log(c / (c + 1)) - mpmath.log(c + 1)) / c

    start = optimize.minimize_scalar(lambda x: float(needed(x)), bounds=(-10, 25), method="bounded", options={"xatol": 1e-10})
    closed = max(float(needed(mpmath.mpf(start.x))), 0.0)
    found = epsilon(dpa.ZCDpEvent(rho), delta)
    assert found.upper <= closed * (1.0 + 1e-9) + 1e-12
    gaussian = epsilon(dpa.GaussianDpEvent(1.0 / math.sqrt(2.0 * rho)), delta)
    assert gaussian.lower * (1.0 - 1e-5) - 1e-6 <= found.lower <= gaussian.upper <= found.upper + 1e-9


def test_zcdp_with_an_offset_and_pure_dp():
    assert epsilon(dpa.ZCDpEvent(0.0, 0.7), 0.0).upper == pytest.approx(0.7, abs=1e-12)
    assert epsilon(dpa.ZCDpEvent(0.0, 0.0), 0.0).upper == 0.0
    assert Interval().compose(dpa.ZCDpEvent(math.inf)).get_delta(3.0) == 1.0
    assert epsilon(dpa.ZCDpEvent(0.1, 0.2), 1e-6).upper == pytest.approx(
        float(epsilon_of(SumOfCurves(((ZeroConcentrated(0.1, 0.2), 1),)), np.array(math.log(1e-6)))), rel=1e-9)


@pytest.mark.parametrize("order", [1, 2])
def test_zcdp_in_a_mixture_is_smaller_than_rdp(order):
    parts = [dpa.SelfComposedDpEvent(dpa.ZCDpEvent(0.01), 10),
             dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.0)), 1000), dpa.LaplaceDpEvent(2.0)]
    event = dpa.ComposedDpEvent(parts[::order] + parts[1::order] * (order - 1))
    peer = rdp.RdpAccountant(ORDERS).compose(event).get_epsilon(1e-5)
    found = epsilon(event, 1e-5)
    assert found.upper < peer - 0.05 and found.lower < found.upper


def test_renyi_curves_add_up_before_they_become_an_epsilon():
    event = RenyiDpEvent(ORDERS, 0.02 * ORDERS)
    found = epsilon(event, 1e-6, 40)
    assert found.lower == 0.0
    assert found.upper <= rdp.compute_epsilon(ORDERS, 40 * 0.02 * ORDERS, 1e-6)[0] + 1e-9
    assert found.upper >= epsilon(dpa.GaussianDpEvent(5.0), 1e-6, 40).lower  # 0.02 alpha is that of noise 5


@pytest.mark.parametrize(("orders", "values", "word"), [
    ([], [], "orders"), ([2.0], [1.0, 2.0], "values"), ([1.0, 2.0], [1.0, 1.0], "orders"), ([3.0, 2.0], [1.0, 1.0], "orders"),
    ([2.0], [-1.0], "values"), ([2.0], [math.nan], "values"), ([math.inf], [1.0], "orders"), (2.0, 3.0, "orders")])
def test_bad_renyi_curves_get_a_sentence(orders, values, word):
    with pytest.raises(ValueError, match=word):
        Interval().supports(RenyiDpEvent(orders, values))


# --- profiles ---


@pytest.mark.parametrize(("arguments", "word"), [
    (([], []), "epsilons"), (([1.0], [0.1, 0.2]), "deltas"), (([1.0, 0.5], [0.1, 0.2]), "increasing"), (([0.0], [math.nan]), "deltas"),
    (([0.0], [1.5]), "deltas"), (([-1.0], [0.1]), "1 - e\\^epsilon"), (([1.0], [0.1], [0.2]), "lower_deltas"),
    (([math.inf], [0.1]), "epsilons"), (([1.0], [0.1], [0.1, 0.1]), "lower_deltas"), ((1.0, 0.1), "epsilons")])
def test_bad_profiles_get_a_sentence(arguments, word):
    with pytest.raises(ValueError, match=word):
        Interval().supports(ProfileDpEvent(*arguments))


def test_one_point_is_epsilon_delta_dp():
    profile, peer = (Interval().compose(event, 7) for event in (ProfileDpEvent([0.5], [1e-6]), EpsilonDelta(0.5, 1e-6)))
    for eps in (0.0, 0.4, 1.3, 3.0, -0.7):
        assert profile.get_delta(eps) == pytest.approx(peer.get_delta(eps), rel=1e-9)
        assert profile.get_delta(eps) >= peer.get_delta_interval(eps).lower


@pytest.mark.parametrize("delta", [0.0, 1e-300, 1e-16])
@pytest.mark.parametrize("count", [1, 3])
def test_a_profile_that_ends_has_a_finite_epsilon(count, delta):
    found = epsilon(ProfileDpEvent([1.0], [0.0]), delta, count)
    assert count * (1.0 - 2e-5) <= found.upper <= count * (1.0 + 1e-13)
    assert epsilon(ProfileDpEvent([0.5, 2.0], [0.01, 0.0]), delta, count).upper <= 2.0 * count * (1.0 + 1e-13)


@pytest.mark.filterwarnings("error")
def test_points_next_to_each_other():
    eps = [0.5, math.nextafter(0.5, 1.0), 0.5 + 1e-13, 1.0]
    accountant = Interval().compose(ProfileDpEvent(eps, [0.2, 0.19, 0.18, 0.01], [0.15, 0.15, 0.1, 0.005]), 2)
    found = accountant.get_delta_interval(0.3)
    assert 0.0 <= found.lower < found.upper < 1.0


def test_negative_epsilons_sharpen_a_profile():
    plain, sharper = ProfileDpEvent([1.0], [0.01]), ProfileDpEvent([-0.5, 1.0], [0.45, 0.01])
    assert Interval().compose(sharper).get_delta(0.5) < Interval().compose(plain).get_delta(0.5)


@pytest.mark.parametrize("seed", range(6))
def test_the_true_mechanism_is_inside(seed):
    """Random atoms, their exact profile at irregular epsilons, four uses, all outcomes enumerated."""
    rng = np.random.default_rng(seed)
    p, q = rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(4))

    def delta(a, b, eps):
        return float(np.maximum(b - np.exp(eps) * a, 0.0).sum())

    def both(eps, a=p, b=q):
        return delta(a, b, eps), delta(b, a, eps)

    epsilons = np.sort(rng.uniform(-1.0, 3.0, 9))
    event = ProfileDpEvent(epsilons, [min(max(both(e)) * (1 + 1e-12), 1.0) for e in epsilons],
                           [min(both(e)) * (1 - 1e-12) for e in epsilons])
    accountant = Interval().compose(event, 4)
    big_p, big_q = (np.multiply.outer(np.multiply.outer(a, a), np.multiply.outer(a, a)).ravel() for a in (p, q))
    for eps in (0.0, 0.3, 1.1, 2.4, 4.0):
        found, exact = accountant.get_delta_interval(eps), both(eps, big_p, big_q)
        assert found.upper >= max(exact) * (1 - 1e-12)
        assert found.lower <= min(exact) * (1 + 1e-12)


# --- the exponential mechanism and permute-and-flip ---


@pytest.mark.parametrize("eps_0", [0.01, 0.5, 3.0])
def test_one_exponential_mechanism_is_the_closed_form(eps_0):
    accountant = Interval().compose(Exponential(eps_0))
    for eps in (0.0, 0.3 * eps_0, 0.9 * eps_0):
        best = max(two_atom_delta(eps, eps_0, mpmath.mpf(eps_0) * i / 1000) for i in range(1, 1000))
        closed = (1 - mpmath.exp((mpmath.mpf(eps) - eps_0) / 2)) ** 2 / (1 - mpmath.exp(-mpmath.mpf(eps_0)))
        found = accountant.get_delta_interval(eps)
        assert found.lower <= closed <= found.upper <= float(closed) * (1 + 1e-9)
        assert closed >= best * (1 - mpmath.mpf(10) ** -30) and float(best) == pytest.approx(float(closed), rel=1e-4)
    assert accountant.get_delta(eps_0 * 1.0000001) == 0.0


@pytest.mark.parametrize("eps_0", [0.1, 1.0, 20.0])
@pytest.mark.parametrize("below_the_top", [1e-12, 1e-8, 1e-5, 1e-3])
def test_delta_of_one_exponential_mechanism_near_its_largest_loss(eps_0, below_the_top):
    """Where the closed form alone is not narrow enough, nothing else may be asked that has more loss: the curve is a square there."""
    eps = eps_0 * (1.0 - below_the_top)
    closed = (1 - mpmath.exp((mpmath.mpf(eps) - eps_0) / 2)) ** 2 / (1 - mpmath.exp(-mpmath.mpf(eps_0)))
    found = Interval().compose(Exponential(eps_0)).get_delta_interval(eps)
    assert found.lower <= closed <= found.upper


@pytest.mark.parametrize("eps_0", [0.3, 2.0, 8.0])
@pytest.mark.parametrize("eps", [0.0, 0.4, 0.9])
def test_two_worst_cases_of_bounded_range_against_their_convolution(eps_0, eps):
    """Both have the Q-density e^{l/2} / (4 sinh(eps_0/2)) on (-eps_0, eps_0), so their sum y has (2 eps_0 - |y|) times the product."""
    top, at = 2 * mpmath.mpf(eps_0), mpmath.mpf(2.0 * eps_0 * eps)
    scale = (4 * mpmath.sinh(mpmath.mpf(eps_0) / 2)) ** 2
    exact = mpmath.quad(lambda y: (top - abs(y)) * mpmath.exp(y / 2) * (1 - mpmath.exp(at - y)) / scale, [at, (at + top) / 2, top])
    found = answers.delta_bounds([Composition({LaplaceInterior(eps_0): 2})], np.array([float(at)]), 1e-6)
    assert found.lower[0] <= exact <= found.upper[0] <= exact * (1 + 1e-3)


@pytest.mark.parametrize("eps_0", [0.01, 0.1, 1.0])
@pytest.mark.parametrize("count", [1, 10, 100, 10_000])
@pytest.mark.parametrize("delta", [1e-5, 1e-9])
def test_exponential_mechanisms_against_rdp_and_pure_dp(eps_0, count, delta):
    c = ORDERS - 1.0
    r = math.exp(-eps_0)
    with np.errstate(all="ignore"):  # dp-accounting's bound, count repaired: at most alpha eps_0^2 / 8
        peer = rdp.compute_epsilon(ORDERS, count * np.minimum(eps_0**2 * ORDERS / 8.0, eps_0), delta)[0]
    pure = Interval().compose(EpsilonDelta(eps_0, 0.0), count).get_epsilon_interval(delta)
    found = epsilon(Exponential(eps_0), delta, count)
    assert found.upper <= peer * (1 + 1e-9) and found.upper <= pure.upper * (1 + 1e-9)
    assert found.lower <= min(peer, pure.lower) * (1 + 1e-9)
    assert 0.0 < r < 1.0 and len(c)


def test_the_numbers_of_a_hundred_uses():
    """100 uses of 0.1 at 1e-6: exact curve 2.4002, best fixed t 2.2453 (derived independently)."""
    found = epsilon(Exponential(0.1), 1e-6, 100)
    assert found.upper == pytest.approx(2.4002, abs=1e-4) and found.lower == pytest.approx(2.2453, abs=1e-3)


@pytest.mark.parametrize("eps_0", [0.2, 2.0])
def test_permute_and_flip(eps_0):
    """Two candidates with a gap: all gaps together attain the Laplace profile; one gap, three uses, enumerated, is inside."""
    one = Interval().compose(PermuteAndFlip(eps_0))
    for eps in (0.0, 0.5 * eps_0):
        best = 0.0
        for gap in np.linspace(-3.0 * eps_0, 2.0 * eps_0, 801):
            few, many = (0.5 * math.exp(x) if x < 0 else 1.0 - 0.5 * math.exp(-x) for x in (gap, gap + eps_0))
            best = max(best, many - math.exp(eps) * few)
        assert one.get_delta(eps) == pytest.approx(best, rel=1e-4) and one.get_delta(eps) >= best * (1 - 1e-12)
    few, many = 0.5 * math.exp(-0.3 * eps_0), 1.0 - 0.5 * math.exp(-0.7 * eps_0)
    p, q = (np.multiply.outer(np.multiply.outer(a, a), a).ravel() for a in (np.array([few, 1 - few]), np.array([many, 1 - many])))
    three = Interval().compose(PermuteAndFlip(eps_0), 3)
    for eps in (0.0, 0.4 * eps_0, 2.5 * eps_0):
        assert three.get_delta(eps) >= np.maximum(q - math.exp(eps) * p, 0.0).sum() * (1 - 1e-12)
    assert three.get_epsilon_interval(1e-3).lower <= three.get_epsilon_interval(1e-3).upper < 3 * eps_0


# --- discrete noise ---


def test_discrete_gaussian_in_more_dimensions_is_conservative():
    exact = epsilon(DiscreteGaussian(2.0, 1.0, 1), 1e-6, 5)
    for event in (DiscreteGaussian(2.0), DiscreteGaussian(2.0, 1.0, 3)):
        found = epsilon(event, 1e-6, 5)
        assert found.lower <= exact.upper and exact.lower < found.upper < exact.upper * 1.15
    plane = Interval().compose(DiscreteGaussian(2.0, math.sqrt(2.0), 2))  # both coordinates move by one: two independent uses
    assert plane.get_epsilon(1e-6) >= epsilon(DiscreteGaussian(2.0, 1.0, 1), 1e-6, 2).lower
    assert Interval().compose(DiscreteGaussian(2.0, 0.0)).get_epsilon(0.0) == 0.0
    assert Interval().compose(DiscreteGaussian(0.0, 1.0)).get_delta(5.0) == 1.0


def test_discrete_laplace_under_replacement_has_twice_the_sensitivity():
    replaced = Interval(dpa.NeighboringRelation.REPLACE_ONE).compose(dp_event.DiscreteLaplaceDpEvent(0.3, 2), 5)
    assert replaced.get_epsilon(1e-3) == Interval().compose(dp_event.DiscreteLaplaceDpEvent(0.3, 4), 5).get_epsilon(1e-3)
    assert Interval().compose(dp_event.DiscreteLaplaceDpEvent(0.3, 0), 5).get_epsilon(0.0) == 0.0
    special = dpa.NeighboringRelation.REPLACE_SPECIAL
    assert Interval(special).compose(dpa.SingleEpochTreeAggregationDpEvent(1.0, 0)).get_epsilon(0.0) == 0.0


# --- the ends of every range ---

EXTREMES = [5e-324, 1e-200, 1e150, 1e308]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("made", [
    dpa.ZCDpEvent, lambda x: dpa.ZCDpEvent(0.1, x), lambda x: dpa.ZCDpEvent(0.0, x), Exponential, PermuteAndFlip,
    lambda x: EpsilonDelta(x, 1e-6), DiscreteGaussian, lambda x: DiscreteGaussian(x, 1.0, 1), lambda x: DiscreteGaussian(2.0, x),
    lambda x: dp_event.DiscreteLaplaceDpEvent(x, 1), lambda x: ProfileDpEvent([x], [0.01]),
    lambda x: RenyiDpEvent([2.0, 4.0], [0.1, x])])
@pytest.mark.parametrize("value", EXTREMES)
def test_any_positive_number_has_an_answer(made, value):
    accountant = Interval(dpa.NeighboringRelation.REPLACE_SPECIAL).compose(made(value), 2)
    for found in (accountant.get_epsilon_interval(1e-6), accountant.get_delta_interval(1.0)):
        assert 0.0 <= found.lower <= found.estimate <= found.upper


def test_discrete_gaussian_noise_of_too_many_points_is_a_curve():
    found = epsilon(DiscreteGaussian(1e5, 1.0, 1), 1e-9, 10**10)
    assert found.lower <= epsilon(dpa.GaussianDpEvent(1e5), 1e-9, 10**10).lower <= found.upper <= 1.1 * epsilon(
        dpa.GaussianDpEvent(1e5), 1e-9, 10**10).upper


@pytest.mark.parametrize("swapped", [False, True])
def test_a_class_in_one_direction_says_nothing_of_the_other(swapped):
    member, pair = GaussianShift(0.1), GaussianShift(2.0)
    both = Bracket((member,), curve=ZeroConcentrated(0.005, 0.0)), pair
    pairs = PairSums()
    pairs.add(*(both[::-1] if swapped else both), 1)
    true = epsilon(dpa.GaussianDpEvent(0.5), 1e-5)  # that of the pair, which is the worse direction
    found = whole.epsilon_bounds(pairs, np.array([1e-5]), 1e-6)
    assert found.lower[0] <= true.upper and true.lower <= found.upper[0]
    delta = Interval().compose(dpa.GaussianDpEvent(0.5)).get_delta_interval(5.0)
    assert whole.delta_bounds(pairs, np.array([5.0]), 1e-6).upper[0] >= delta.lower
