"""Compositions on a lattice against exact sums, by the accountant and by the theorem with any parameters; hockey-sticks of leaves."""

import math

import mpmath
import numpy as np
import pytest
from dp_accounting import NeighboringRelation, dp_event
from effort import examples
from hypothesis import given
from hypothesis import strategies as st
from known_curves import BY_NAME, coin, coins

from dp_edgeworth import Atoms, EdgeworthIntervalAccountant, LaplaceShift, reverse
from dp_edgeworth.losses.gaussian_noise import NormalMixture
from dp_edgeworth.losses.lattice_spacing import common_spacing
from dp_edgeworth.losses.sampled_gaussian import SampledReplacement
from dp_edgeworth.proofs.lattice import lattice_contour
from dp_edgeworth.search import answers
from dp_edgeworth.sums.composition import Composition

DELTAS = (0.9, 0.3, 1e-5, 1e-12, 1e-100)


def discrete_laplace_delta(a, count, epsilon):
    """Of `count` discrete Laplace mechanisms with sensitivity 1: losses +-a, a binomial sum in 60 digits."""
    with mpmath.workdps(60):
        q = 1 / (1 + mpmath.exp(-mpmath.mpf(a)))
        return mpmath.fsum(mpmath.binomial(count, k) * q**k * (1 - q)**(count - k) * max(
            0, 1 - mpmath.exp(mpmath.mpf(epsilon) - mpmath.mpf(a) * (2 * k - count))) for k in range(count + 1))


@pytest.mark.parametrize("count", [2, 20, 300])
@pytest.mark.parametrize("a", [0.01, 1.0, 30.0, 300.0, 2000.0])
def test_binomial_losses(a, count):
    accountant = EdgeworthIntervalAccountant().compose(dp_event.DiscreteLaplaceDpEvent(a, 1), count)
    for delta in DELTAS:
        lower, _, upper = accountant.get_epsilon_interval(delta)
        assert discrete_laplace_delta(a, count, upper) <= delta
        assert lower == 0.0 or discrete_laplace_delta(a, count, lower) >= delta
        assert upper - lower <= 1e-6 * max(1.0, lower)
    for share in (0.0, 0.3, 0.7, 0.95):
        lower, _, upper = accountant.get_delta_interval(share * a * count)
        assert lower <= discrete_laplace_delta(a, count, share * a * count) <= upper


def test_three_atoms_of_randomized_response():
    """RR with 5 buckets, 60 times: a trinomial sum of losses -a, 0, a."""
    noise, buckets, count = 0.3, 5, 60
    accountant = EdgeworthIntervalAccountant(NeighboringRelation.REPLACE_ONE).compose(
        dp_event.RandomizedResponseDpEvent(noise, buckets), count)
    with mpmath.workdps(40):
        other = mpmath.mpf(noise) / buckets
        own = 1 - mpmath.mpf(noise) + other
        loss = mpmath.log(own / other)
        law = [mpmath.mpf(1)]
        for _ in range(count):
            law = [sum(w * law[k - i] for i, w in enumerate((other, (buckets - 2) * other, own)) if 0 <= k - i < len(law))
                   for k in range(len(law) + 2)]
        for epsilon in (0.0, 20.0, 100.0, 150.0):
            exact = mpmath.fsum(w * max(0, 1 - mpmath.exp(epsilon - (k - count) * loss)) for k, w in enumerate(law))
            lower, _, upper = accountant.get_delta_interval(epsilon)
            assert lower <= exact <= upper
            assert upper - lower <= 1e-5 * upper


@pytest.mark.parametrize(("pairs", "spacing"), [
    ([Atoms((0.25, 0.75), (0.75, 0.25))], 2 * math.log(3)),
    ([Atoms((0.2, 0.5, 0.3), (0.4, 0.5, 0.1))], None),
    ([Atoms((0.25, 0.75), (0.75, 0.25)), Atoms((0.1, 0.9), (0.9, 0.1))], 4 * math.log(3) / 2),  # log 9 = 2 log 3
    ([Atoms((0.25, 0.75), (0.75, 0.25)), Atoms((0.2, 0.8), (0.8, 0.2))], None),
    ([LaplaceShift(1.0)], None),
])
def test_common_spacing(pairs, spacing):
    found = common_spacing(pairs)
    assert (found is None) == (spacing is None)
    assert found is None or found == pytest.approx(spacing, rel=1e-12)


ON_A_LATTICE = [BY_NAME[name] for name in ("coins", "crooked coins", "coins that may be lost")]


def contains(found, known, epsilons, slack=1e-13):
    bounds = found.bounds(epsilons)
    for epsilon, lower, estimate, upper in zip(epsilons, bounds.lower, bounds.estimate, bounds.upper, strict=True):
        exact = known.log(float(epsilon), complement=found.complement)
        assert lower - slack <= exact <= upper + slack, (known.name, epsilon, lower, exact, upper)
        assert lower <= estimate <= upper


def epsilons_near_the_lattice(known):
    """Far from the lattice points, at them, and next to them."""
    (atoms,) = known.counts
    losses = np.log(np.array(atoms.q_masses[:2]) / np.array(atoms.p_masses[:2]))
    points = np.array([5.0, 9.0, 12.0]) * losses[0] + (sum(known.counts.values()) - np.array([5.0, 9.0, 12.0])) * losses[1]
    return np.concatenate([points, np.nextafter(points, math.inf), np.nextafter(points, -math.inf), points + 0.1, [-3.0, 0.0, 2.0,
    8.0]])


@given(st.sampled_from(ON_A_LATTICE), st.floats(-6.0, 2.5), st.integers(2, 600), st.lists(st.floats(-6.0, 3.0), min_size=1, max_size=5))
@examples(120)
def test_any_parameters_for_delta(known, log_tilt, points, log_others):
    contains(lattice_contour(known.composition, math.exp(log_tilt), points, np.exp(np.array(log_others))), known,
             epsilons_near_the_lattice(known))


@given(st.sampled_from(ON_A_LATTICE), st.floats(-6.0, 6.0), st.integers(2, 600), st.lists(st.floats(-6.0, 6.0), min_size=1, max_size=5))
@examples(120)
def test_any_parameters_for_the_complement(known, log_odds, points, log_others):
    tilt, *others = (-1.0 / (1.0 + math.exp(x)) for x in (log_odds, *log_others))
    contains(lattice_contour(known.composition, tilt, points, np.array(others)), known, epsilons_near_the_lattice(known))


@pytest.mark.parametrize(("tilt", "points", "others"), [
    (0.0, 64, [1.0]), (-1.0, 64, [-0.5]), (math.nan, 64, [1.0]), (1.0, 1, [2.0]), (-0.5, 64, [0.5]), (1.0, 64, [-0.5]),
    (1.0, 64, [math.nan])])
def test_parameters_outside_the_theorem_are_refused(tilt, points, others):
    with pytest.raises(ValueError, match="Found"):
        lattice_contour(ON_A_LATTICE[0].composition, tilt, points, np.array(others))
    with pytest.raises(ValueError, match="spacing"):
        lattice_contour(BY_NAME["gaussian"].composition, 1.0, 64, np.array([2.0]))


def test_a_short_table_is_wider_and_still_true():
    """Aliasing on its own: the tables modulo a few points."""
    known, epsilon = ON_A_LATTICE[0], np.array([9.0])
    widths = []
    for points in (40, 20, 12):
        found = lattice_contour(known.composition, 1.0, points, np.array([0.5, 2.0, 4.0]))
        contains(found, known, epsilon)
        bound = found.bounds(epsilon)
        widths.append(bound.upper[0] - bound.lower[0])
    assert widths == sorted(widths) and widths[0] < 1e-9 and widths[-1] > 1e-4


@pytest.mark.parametrize("off", [1e-9, 1e-6])
def test_losses_off_the_lattice_are_paid_for(off, monkeypatch):
    """Atoms whose losses are `off` from a lattice that is taken for theirs: the interval covers that, and their own curve."""
    p, q = 0.375, 0.625 * (1.0 + off)
    known = BY_NAME["coins"]._replace(counts={coin(p, q): 20}, finite=lambda e: coins(p, q, 20)(e)[0], complement=lambda e: coins(p,
    q, 20)(e)[1])
    composition = known.composition
    spacing = composition.spacing
    monkeypatch.setattr(composition, "spacing", spacing * (1.0 + off))  # a cached property: the value of this one object
    for tilt, others in ((1.0, np.array([0.5, 2.0])), (-0.5, np.array([-0.9, -0.2]))):
        found = lattice_contour(composition, tilt, 256, others)
        assert found.shift >= 5.0 * off * spacing
        contains(found, known, np.array([0.0, 1.0, 3.0]), slack=1e-12)


def _normal_mixture_delta(p_law, q_law, sign, epsilon):
    """Phi differences at the crossing of the likelihood ratio, in 40 digits; `sign` is that of the slope of the loss."""
    def loss(x):
        total = [mpmath.fsum(w * mpmath.exp(c * x - c * c / 2) for w, c in law) for law in (q_law, p_law)]
        return mpmath.log(total[0] / total[1])

    low, high = mpmath.mpf(-45) * sign, mpmath.mpf(400) * sign
    for _ in range(170):
        middle = (low + high) / 2
        low, high = (middle, high) if loss(middle) < epsilon else (low, middle)
    q, p = (mpmath.fsum(w * mpmath.ncdf(sign * (c - low)) for w, c in law) for law in (q_law, p_law))
    return q - mpmath.exp(epsilon) * p


@pytest.mark.parametrize("mu", [0.05, 0.7, 3.0])
@pytest.mark.parametrize("p", [1e-7, 0.01, 0.6])
@pytest.mark.parametrize("kind", ["replacement", "mixture", "reversed mixture"])
def test_single_leaves(kind, mu, p):
    with mpmath.workdps(40):
        rare, shift = mpmath.mpf(p), mpmath.mpf(mu)
        if kind == "replacement":
            pllr = SampledReplacement(mu, p)
            laws, sign = ([(1 - rare, 0), (rare, -shift)], [(1 - rare, 0), (rare, shift)]), 1
        else:
            weights, small = (1 - p, 0.4 * p, 0.6 * p), mpmath.mpf(0.3 * mu)
            pllr = NormalMixture((0.0, 0.3 * mu, mu), weights)
            parts = [mpmath.mpf(weights[1]), mpmath.mpf(weights[2])]
            laws, sign = ([(mpmath.mpf(1), 0)], [(1 - sum(parts), 0), (parts[0], small), (parts[1], shift)]), 1
            if kind == "reversed mixture":
                pllr, laws, sign = reverse(pllr), laws[::-1], -1
        most = min(p * mu * 3, pllr.supremum * 0.7)
        for epsilon in (0.0, 0.3 * most, most):
            exact = _normal_mixture_delta(*laws, sign, epsilon)
            assert float(pllr.log_hockey_stick(np.array([epsilon]))[0]) == pytest.approx(float(mpmath.log(exact)), abs=1e-12)


@pytest.mark.parametrize("scale", [1e-8, 1e-6, 1e-4, 1e-2])
@pytest.mark.parametrize("share", [1e-3, 0.1])
def test_small_losses_on_a_lattice_in_sixty_digits(scale, share):
    """Randomised response a thousand times, delta a share of its largest value: a binomial sum, its payoffs tiny with the losses."""
    count = 1000
    with mpmath.workdps(60):
        answer = 1 / (1 + mpmath.exp(-mpmath.mpf(scale)))
        log_odds = [(mpmath.binomial(count, k) * answer**k * (1 - answer) ** (count - k), (2 * k - count) * mpmath.mpf(scale))
                    for k in range(count + 1)]

        def delta(eps):
            return mpmath.fsum(mass * -mpmath.expm1(eps - loss) for mass, loss in log_odds if loss > eps)

        target = float(share * delta(mpmath.mpf(0)))
        p = float(answer)
        pair = Atoms((1.0 - p, p), (p, 1.0 - p), losses=(scale, -scale))
        composition = Composition({pair: count})
        found = answers.epsilon_bounds([composition], np.array([target]), 1e-6)
        lower, upper = found.lower[0], found.upper[0]
        # the masses are floats
        slack = mpmath.mpf(1e-9) * scale
        assert delta(mpmath.mpf(upper) + slack) <= target <= delta(max(mpmath.mpf(lower) - slack, mpmath.mpf(0)))
    assert upper - lower <= 1e-6


def test_mass_at_the_top_of_huge_counts():
    """Between P(Y = top) and what rounding makes of it, 2e-10 more: epsilon is two flips below the top, its lower end was 15 above."""
    noise, count = 2.2e-7, 10**8
    accountant = EdgeworthIntervalAccountant(NeighboringRelation.REPLACE_ONE)
    with mpmath.workdps(60):
        flip = mpmath.mpf(noise) / 2
        stay = (1 - flip) ** count
        delta = float(stay * (1 + mpmath.mpf("1.2e-10")))
        loss = mpmath.log((1 - flip) / flip)
        # one flip more adds `once` to delta as soon as epsilon is below top - 2 loss; e^{-2 loss} of `stay` is not there yet
        once = stay * count * flip / (1 - flip)
        exact = (count - 2) * loss + mpmath.log1p(-(mpmath.mpf(delta) - stay * (1 - mpmath.exp(-2 * loss))) / once)
    found = accountant.compose(dp_event.RandomizedResponseDpEvent(noise, 2), count).get_epsilon_interval(delta)
    assert found.lower <= exact <= found.upper
