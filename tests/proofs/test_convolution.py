"""Convolution on a geometric grid (`convolution.py`): on both sides of exact values, at every step."""

from __future__ import annotations

import csv
import math
import pathlib

import mpmath
import numpy as np
import pytest
from dp_accounting import NeighboringRelation as Relation
from dp_accounting import dp_event as de
from scipy import stats

from comparisons.truth_cases import truth_case
from dp_edgeworth import EdgeworthIntervalAccountant
from dp_edgeworth.losses import mechanisms
from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.cells import Cells, _lower_tail
from dp_edgeworth.losses.gaussian_noise import GaussianShift, NormalMixture
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.operations import Mixed, Reversed, Subsampled, reverse, subsample
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.sampled_gaussian import SampledReplacement, SampledWithoutReplacement
from dp_edgeworth.proofs import convolution
from dp_edgeworth.proofs.proved import Proved
from dp_edgeworth.search.crossing import bisected
from dp_edgeworth.sums.composition import Composition


def crossing(curve: convolution.Convolution, log_delta: float) -> Proved:
    """The ends of epsilon that a curve proves for what is finite of a delta."""
    return bisected(curve, Composition({GaussianShift(1.0): 1}), np.array([math.exp(log_delta)]), 1e300)


LEAVES: list[Pllr] = [
    GaussianShift(0.7),
    GaussianShift(4.0),
    subsample(GaussianShift(1.3), 1e-3),
    reverse(subsample(GaussianShift(1.3), 1e-3)),
    subsample(GaussianShift(3.3), 1e-7),
    subsample(GaussianShift(1e-3), 0.3),
    NormalMixture((0.0, 0.4, 2.0), (0.9, 0.07, 0.03)),
    reverse(NormalMixture((0.0, 0.4, 2.0), (0.9, 0.07, 0.03))),
    SampledReplacement(1.1, 1e-4),
    SampledWithoutReplacement(1.1, 1e-4),
    LaplaceShift(0.8),
    subsample(LaplaceShift(3.0), 1e-2),
    reverse(subsample(LaplaceShift(3.0), 1e-2)),
    Atoms((0.5, 0.3, 0.2), (0.3, 0.3, 0.4)),
    subsample(Atoms((0.5, 0.3, 0.2), (0.3, 0.3, 0.4)), 1e-5),
    Mixed((0.25, 0.75), (GaussianShift(1.0), subsample(GaussianShift(2.0), 0.1))),
]


@pytest.mark.parametrize("pllr", LEAVES, ids=repr)
def test_cells_are_a_partition(pllr: Pllr) -> None:
    for cuts in (0.05, 0.0137 + 0.05 * np.arange(-30.0, 25.0)):  # about so far apart, or between given losses
        partition(pllr.cells(cuts, -60.0))


def partition(found: Cells | None) -> None:
    assert found is not None
    assert found.p.sum() == pytest.approx(1.0, rel=1e-12) and found.q.sum() == pytest.approx(1.0, rel=1e-12)
    assert np.all(found.low <= found.mean) and np.all(found.mean <= found.high) and np.all(found.error >= 0.0)
    # The mean is log(q / p), within its error and what the masses are off by.
    plain = (found.p > 1e-250) & (found.q > 1e-250) & np.isfinite(found.mean) & np.isfinite(found.low) & np.isfinite(found.high)
    off = np.abs(found.mean[plain] - np.log(found.q[plain] / found.p[plain]))
    relative = found.p_error[plain] / found.p[plain] + found.q_error[plain] / found.q[plain]
    assert np.all(off <= found.error[plain] + relative + 1e-15)


@pytest.mark.parametrize("step", [0.08, 0.02])
@pytest.mark.parametrize("pllr", LEAVES, ids=repr)
def test_one_use_against_its_closed_form(pllr: Pllr, step: float) -> None:
    found = convolution.convolved(Composition({pllr: 1}), math.log(1e-9), 0.01, step, 1e7)
    assert found is not None
    epsilons = np.array([0.0, 1e-9, 1e-6, 1e-4, 1e-2, 0.3, 1.0, 2.0])
    exact = pllr.inner.log_reversed_hockey_stick(epsilons) if isinstance(pllr, Reversed) else None
    exact = pllr.log_hockey_stick(epsilons) if exact is None else exact
    assert exact is not None
    bounds = found.bounds(epsilons)
    seen = exact > math.log(1e-9)
    assert np.all(bounds.lower <= exact + 1e-11) and np.all(exact - 1e-11 <= bounds.upper)
    assert np.all(bounds.upper[seen] - bounds.lower[seen] <= 20.0 * step)


def _binomial(p: float, loss: float, count: int, epsilon: float) -> float:
    """delta of `count` coins, P = (1-p, p), Q = (p, 1-p), by its sum."""
    heads = np.arange(count + 1)
    losses = (2 * heads - count) * loss
    return float((stats.binom.pmf(heads, count, 1.0 - p) * -np.expm1(np.minimum(epsilon - losses, 0.0))).sum())


@pytest.mark.parametrize("count", [2, 3, 7, 64, 1000])
@pytest.mark.parametrize("step", [0.08, 0.03, 0.01])
def test_coins_against_the_binomial_sum(count: int, step: float) -> None:
    coin = Atoms((0.45, 0.55), (0.55, 0.45))
    loss = math.log(0.55 / 0.45)
    found = convolution.convolved(Composition({coin: count}), math.log(1e-6), 0.1, step, 1e8)
    assert found is not None
    for epsilon in (0.05, 0.3, 1.0, 3.0):
        exact = math.log(max(_binomial(0.45, loss, count, epsilon), 1e-300))
        bounds = found.bounds(np.array([epsilon]))
        assert bounds.lower[0] <= exact + 1e-10 and (exact - 1e-10 <= bounds.upper[0])


# delta_2(eps) = int P(dx) e^{L(x)} h(eps - L(x)), h the closed form of one use: mpmath 1.3, 40 digits, 160 Gauss-Legendre panels.
TWO_USES = [
    (2.91e-8, 0.3, 2.5450e-7, 4.299994024041414008543737147550082641974e-8),
    (1e-4, 0.7, 0.002, 6.386461206590134151449762230495684687349e-6),
    (0.01, 1.0, 0.2, 2.059745641384059732612510434285377730231e-5),
]


@pytest.mark.parametrize("p, noise, epsilon, delta", TWO_USES)
def test_two_uses_against_a_quadrature(p: float, noise: float, epsilon: float, delta: float) -> None:
    event = de.PoissonSampledDpEvent(p, de.GaussianDpEvent(noise))
    pair = mechanisms.directions(event, Relation.ADD_OR_REMOVE_ONE)
    widths = []
    for step in (0.16, 0.08, 0.04, 0.02):
        found = convolution.convolved(Composition({pair[0]: 2}), math.log(delta), epsilon, step, 1e8)
        assert found is not None
        bounds = found.bounds(np.array([epsilon]))
        assert bounds.lower[0] <= math.log(delta) <= bounds.upper[0]
        widths.append(float(bounds.upper[0] - bounds.lower[0]))
        ends = crossing(found, math.log(delta))
        assert ends.lower[0] <= epsilon <= ends.upper[0] and ends.lower[0] <= ends.estimate[0] <= ends.upper[0]
    assert widths[-1] < widths[0] / 16.0  # of second order: 64 at best
    lower, _, upper = EdgeworthIntervalAccountant().compose(event, 2).get_epsilon_interval(delta)
    assert lower <= epsilon <= upper and upper - lower <= 1e-6
    lower, _, upper = EdgeworthIntervalAccountant().compose(event, 2).get_delta_interval(epsilon)
    assert lower <= delta <= upper and upper - lower <= 1e-3 * upper


RARE = [
    (3.44e-9, 3, 0.3, 8.6e-7, Relation.REPLACE_ONE),
    (1.26e-6, 25, 0.3, 1.1e-5, Relation.REPLACE_ONE),
    (1.11e-9, 5752, 0.3, 8.9e-8, Relation.REPLACE_ONE),
    (5.30e-5, 8, 0.4, 3.3e-4, Relation.REPLACE_ONE),
    (2.03e-4, 4, 0.7, 4.8e-5, Relation.REPLACE_ONE),
    (4.25e-9, 3, 0.4, 8.8e-9, Relation.ADD_OR_REMOVE_ONE),
    (7.646e-9, 2327, 0.618, 9.3e-10, Relation.ADD_OR_REMOVE_ONE),
]


@pytest.mark.parametrize("p, count, noise, delta, relation", RARE)
def test_a_few_rare_samples_are_narrow(p: float, count: int, noise: float, delta: float, relation: Relation) -> None:
    """Contours had no lower end there, or one a thousand times too low. Two deltas on both sides of the answer confirm it."""
    accountant = EdgeworthIntervalAccountant(relation, tolerance=1e-9).compose(
        de.PoissonSampledDpEvent(p, de.GaussianDpEvent(noise)), count)  # by default, 1e-6 is enough
    lower, estimate, upper = accountant.get_epsilon_interval(delta)
    assert lower <= estimate <= upper <= lower + max(2e-3 * lower, 1e-12)
    if lower > 0.0:
        assert accountant.get_delta_interval(0.99 * lower).upper > delta > accountant.get_delta_interval(1.01 * upper).lower


ORACLE = pathlib.Path(__file__).parents[2] / "comparisons" / "results" / "truth-oracle-11.csv"


def test_random_events_against_the_oracle() -> None:
    """Events of the truth campaign whose exact epsilon (80-bit floats, `comparisons/exact`) is stored, on a coarse grid."""
    with ORACLE.open() as stored:
        rows = [row for row in csv.DictReader(stored) if row["epsilon"]][:300]
    judged = 0
    for row in rows:
        case, exact = truth_case(11, int(row["index"])), float(row["epsilon"])
        if not 1e-200 < case.delta < 0.4:
            continue
        found = []
        for composition in EdgeworthIntervalAccountant(case.relation).compose(case.event)._compositions():
            rest = case.delta - composition.infinite_mass
            both = [convolution.convolved(side, math.log(rest), max(exact, 1e-9), 0.08, 3e5) if rest > 1e-3 * case.delta else None
                    for side in (composition, composition.dominated)]
            found.append([None if one is None else crossing(one, math.log(rest)) for one in both])
        ends = [(low.lower[0], high.upper[0]) for high, low in found if low is not None and high is not None]
        if len(ends) < len(found):
            continue
        judged += 1
        lower, upper = (max(end) for end in zip(*ends, strict=True))
        slack = max(float(row["epsilon_accuracy"]), 1e-13) * exact
        assert lower - slack <= exact <= upper + slack, case
    assert judged > 150


def test_work_is_bounded() -> None:
    composition = Composition({subsample(GaussianShift(1.0), 1e-3): 10**6})
    assert convolution.convolved(composition, math.log(1e-9), 0.1, 1e-3, 1e5) is None
    assert convolution.convolved(Composition({subsample(GaussianShift(1.0), 1e-3): 10**9}), math.log(1e-9), 0.1, 0.08, 1e9) is None


# Every charge on its own: made large, or the only one.


def _side(*, up: bool, light: float = 1e-30, uses: int = 1) -> convolution._Side:
    return convolution._Side(up=up, step=0.05, epsilon=0.1, uses=uses, light=light, most_pairs=1e9)


def _mean(points: convolution.Points) -> float:
    """log(Q-mass / P-mass) in 40 digits."""
    mpmath.mp.dps = 40
    p = mpmath.fsum(mpmath.mpf(float(m)) * mpmath.exp(-mpmath.mpf(float(x))) for x, m in zip(points.losses, points.masses, strict=True))
    return mpmath.log(mpmath.fsum(map(float, points.masses)) / p)


@pytest.mark.parametrize("up", [True, False])
def test_losses_are_moved_outwards(up: bool) -> None:
    """By more than the 1e-16 that one addition may be off."""
    for loss in (1.0, -0.3, 1e-6):
        other = convolution.Points(np.array([loss]), np.array([1.0]))
        side = _side(up=up)
        moved = (_mean(side.product(other, other, 1)) - 2 * mpmath.mpf(loss)) / abs(loss)
        assert (moved > 5e-15) if up else (moved < -5e-15)
        assert abs(moved * loss) < 1e-12
        crowded = other._replace(terms=10**6)  # a mass of so many terms is off by more
        assert abs(_mean(side.product(crowded, crowded, 1)) - 2 * mpmath.mpf(loss)) > 1e-11 * abs(loss)


def test_light_pairs_count_as_infinite() -> None:
    rng = np.random.default_rng(0)
    a = convolution.Points(rng.normal(size=300), 10.0 ** -rng.uniform(0, 12, 300))
    b = convolution.Points(rng.normal(size=200), 10.0 ** -rng.uniform(0, 12, 200))
    for first, second in ((a, b), (a, a)):
        whole = first.masses.sum() * second.masses.sum()
        found = _side(up=True, light=1e-3).product(first, second, 1)
        assert 0.0 < found.infinite <= 1e-3 * (1.0 + 1e-9)
        assert found.masses.sum() + found.infinite == pytest.approx(whole, rel=1e-12)
        assert found.masses.sum() < whole * (1.0 - 1e-9)
        assert _side(up=False, light=1e-3).product(first, second, 1).masses.sum() == pytest.approx(found.masses.sum(), rel=1e-12)


def test_infinite_masses_survive_products() -> None:
    a, b = (convolution.Points(np.array([0.1]), np.array([0.9]), 0.1), convolution.Points(np.array([0.2]), np.array([0.8]), 0.2))
    assert _side(up=True).product(a, b, 1).infinite == pytest.approx(1.0 - 0.9 * 0.8, rel=1e-11)


def test_unbounded_cells_are_paid_for() -> None:
    """Cells beyond one deviation: their Q-mass above, and their P-mass below at the least loss of all other cells."""
    leaf = GaussianShift(1.0).cells(0.05, -1e-9)
    assert leaf is not None and leaf.q[-1] > 0.1 and leaf.p[0] > 0.1
    points = _side(up=True).points(leaf)
    assert points.infinite == pytest.approx(leaf.q[-1], rel=1e-12)
    p_mass = float((points.masses * np.exp(-points.losses)).sum())
    assert p_mass == pytest.approx(1.0 - leaf.p[-1], rel=1e-9)
    assert _side(up=False).points(leaf).masses.sum() == pytest.approx(leaf.q[1:-1].sum(), rel=1e-12)


@pytest.mark.parametrize("up", [True, False])
def test_errors_of_the_means_are_paid_for(up: bool) -> None:
    leaf = GaussianShift(1.0).cells(0.05, -60.0)
    assert leaf is not None
    blurred = leaf._replace(error=np.full(len(leaf.mean), 1e-3))
    moved = _mean(_side(up=up).points(blurred)) - _mean(_side(up=up).points(leaf))
    assert (5e-4 < moved < 2e-3) if up else (-2e-3 < moved < -5e-4)


def test_errors_of_the_masses_are_paid_for() -> None:
    pllr = subsample(GaussianShift(1.0), 1e-3)
    part = pllr.cells(0.05, -60.0)
    found = convolution.convolved(Composition({pllr: 1000}), math.log(1e-6), 0.1, 0.05, 1e8)
    assert part is not None and found is not None
    blurred = part._replace(q_error=0.01 * part.q, p_error=0.01 * part.p)
    for up, share in ((True, 1.01), (False, 0.99)):
        points = _side(up=up).points(blurred)
        assert points.masses.sum() + points.infinite == pytest.approx(share, rel=1e-6)
    side = _side(up=True, uses=1000)
    side.points(part)  # a thousand times what the sums of one use are off by
    assert side.log_error > 1000 * 2.2e-16
    assert found.bounds(np.array([0.1])).upper[0] > found.bounds(np.array([0.1])).lower[0] + 2.0 * found.log_error


def test_cells_know_the_error_of_normal_masses() -> None:
    """In 60 digits."""
    mpmath.mp.dps = 60
    leaf = subsample(GaussianShift(0.01), 1e-6).cells(0.02, -40.0)
    inner = GaussianShift(0.01).cells(0.02, -40.0)
    assert leaf is not None and inner is not None
    count = len(inner.mean)
    edges = np.linspace(-math.sqrt(80.0) - 1.0, 0.01 + math.sqrt(80.0) + 1.0, count - 1)
    for i in range(1, count - 1, 37):
        low, high = (mpmath.mpf(float(x)) for x in edges[i - 1:i + 1])
        p, q = (mpmath.ncdf(high - mu) - mpmath.ncdf(low - mu) for mu in (mpmath.mpf(0), mpmath.mpf(0.01)))
        exact = mpmath.log1p(mpmath.mpf(1e-6) * (q / p - 1))
        assert abs(exact - mpmath.mpf(float(leaf.mean[i]))) <= leaf.error[i]
        assert leaf.error[i] > 1e-6 * 8 * 2.2e-16  # at least what one value of Phi is rounded by


def test_the_error_of_the_masses_moves_both_ends() -> None:
    points = convolution.Points(np.linspace(0.0, 2.0, 41), np.full(41, 1.0 / 41.0))
    exact, blurred = (convolution.Convolution(points, points, error, 1.0, 1) for error in (0.0, 0.1))
    bounds = blurred.bounds(np.array([0.5]))
    assert bounds.upper[0] - bounds.lower[0] == pytest.approx(0.2, rel=1e-12)
    log_delta = float(exact.bounds(np.array([0.5])).estimate[0])
    ends = crossing(exact, log_delta)
    assert ends.lower[0] == pytest.approx(0.5, abs=1e-7) and ends.upper[0] == pytest.approx(0.5, abs=1e-7)
    ends = crossing(blurred, log_delta)
    assert ends.lower[0] == pytest.approx(crossing(exact, log_delta + 0.1).lower[0], abs=1e-6)
    assert ends.upper[0] == pytest.approx(crossing(exact, log_delta - 0.1).upper[0], abs=1e-6)


@pytest.mark.parametrize("spread", [1e-9, 1.0, 50.0, 700.0, 5000.0])
@pytest.mark.parametrize("count", [1, 2, 40])
def test_hockey_stick_of_a_measure(spread: float, count: int) -> None:
    """Sums of positive terms against the definition, term by term in 60 digits; also where exponentials are no floats."""
    rng = np.random.default_rng(7)
    losses, masses = np.sort(rng.normal(size=count)) * spread, 10.0 ** -rng.uniform(0.0, 30.0, count)
    order = rng.permutation(count)
    table = convolution.HockeyStick(convolution.Points(losses[order], masses[order], 1e-40))
    eps = np.concatenate([losses, np.nextafter(losses, -np.inf), losses - 0.1 * spread, losses + 0.1 * spread, [0.0, -3.0 * spread]])
    found, slope = table(eps)
    with mpmath.workdps(60):
        for e, height, fall in zip(eps, found, slope, strict=True):
            terms = [(mpmath.mpf(float(m)), mpmath.mpf(float(e)) - mpmath.mpf(float(x))) for x, m in zip(losses, masses, strict=True)]
            exact = mpmath.fsum(-m * mpmath.expm1(gap) for m, gap in terms if gap < 0) + mpmath.mpf(1e-40)
            assert abs(mpmath.mpf(float(height)) - exact) <= 4 * 2.3e-16 * (8 + count) * exact  # what `convolved` charges
            rate = mpmath.fsum(m * mpmath.exp(gap) for m, gap in terms if gap < 0)
            assert abs(mpmath.mpf(float(fall)) - rate) <= 1e-12 * mpmath.fsum(m for m, gap in terms if gap < 0)


# Found by proof reading.


@pytest.mark.parametrize("copies", [1, 50, 1490])
def test_lower_ends_in_wide_bins(copies: int) -> None:
    """1 - V/q is 1e-15 there, a difference of sums: the lower end was up to 0.05 above the truth."""
    mpmath.mp.dps = 40
    rng = np.random.default_rng(1)
    q = [0.55, 0.41, 0.039 / copies]
    for _ in range(100):
        first, gap = rng.uniform(80.0, 200.0), rng.uniform(30.0, 200.0)
        losses = [first, first + gap, first + gap * rng.uniform(1.2, 3.0)]
        p = [mass * math.exp(-loss) for mass, loss in zip(q, losses, strict=True)]
        pair = Atoms((1.0, p[0], p[1]) + (p[2],) * copies, (1e-3, q[0], q[1]) + (q[2],) * copies)
        found = convolution.convolved(Composition({pair: 1}), math.log(0.01), losses[2], 0.08, 1e7)
        assert found is not None
        exact = mpmath.log(mpmath.mpf(q[2]) / mpmath.mpf(p[2])) + mpmath.log(1 - mpmath.mpf(0.01) / (copies * mpmath.mpf(q[2])))
        ends = crossing(found, math.log(0.01))
        assert ends.lower[0] <= exact <= ends.upper[0]


def test_numbers_of_bins_are_off() -> None:
    """By units in the last place of arsinh, which are many of a loss that is far from the centre."""
    side, scale = _side(up=False), 1e-25
    side.epsilon = 0.0
    edges = convolution._edges(np.arange(1000, 1150), 0.0, scale, side.step)
    for edge in edges:
        for ulps in range(0, 60, 2):
            loss = float(edge * (1.0 - 2.3e-16 * ulps))
            one = (np.array([loss]), np.array([1.0]))
            assert side._on_grid([one], (loss, loss), np.array([0.0, scale**2]), 1, 1, 0.0).losses[0] < loss


@pytest.mark.parametrize("epsilon", [0.0, 1e-15, 1e-12, 1e-6])
@pytest.mark.parametrize("count", [1, 3, 12])
def test_losses_that_hardly_vary(epsilon: float, count: int) -> None:
    """Bins were narrower than the rounding of their centre: losses beyond the last bin, or 0 / 0."""
    for pair in (Atoms((1.0, 0.0), (0.7, 0.3)), Atoms((0.3, 0.7), (0.99, 0.01)), Atoms((0.999, 0.001), (0.998, 0.002))):
        found = convolution.convolved(Composition({pair: count}), -20.0, epsilon, 0.08, 1e7)
        assert found is not None
        exact = pair.log_hockey_stick(np.array([0.0]))
        if count == 1 and not pair.infinite_mass:
            bounds = found.bounds(np.array([0.0]))
            assert bounds.lower[0] <= exact[0] + 1e-13 and exact[0] - 1e-13 <= bounds.upper[0]


def test_nothing_is_left() -> None:
    """Empty sets of points, or a search for heavy pairs without an end."""
    disjoint, rare = Atoms((1.0, 0.0), (0.0, 1.0)), Atoms((1.0 - 1e-12, 1e-12, 0.0), (1e-12, 1e-13, 1.0 - 1.1e-12))
    for composition in (Composition({disjoint: 1}), Composition({disjoint: 2, GaussianShift(1.0): 1}), Composition({rare: 4})):
        assert convolution.convolved(composition, -1.0, 0.1, 0.08, 1e6) is None


def test_sampled_atoms_of_large_losses() -> None:
    """The rounding of a loss of 600 is 600 times that of e^600."""
    mpmath.mp.dps = 40
    rng = np.random.default_rng(3)
    for _ in range(200):
        half = 0.5 * math.exp(-rng.uniform(200.0, 580.0))
        p = half * rng.uniform(2e-3, 2e-1)
        loss = mpmath.log1p(mpmath.mpf(p) * (mpmath.mpf(0.5) / mpmath.mpf(half) - 1))
        mass = (1 - mpmath.mpf(p)) * mpmath.mpf(half) + mpmath.mpf(p) / 2
        epsilon = float(loss) * (1.0 - 1e-9)
        found = convolution.convolved(Composition({Subsampled(Atoms((1.0, half), (0.5, 0.5)), p): 1}), float(mpmath.log(mass)),
                                      epsilon, 0.08, 1e7)
        if found is not None:
            bounds = found.bounds(np.array([epsilon]))
            assert bounds.lower[0] <= mpmath.log(mass * (1 - mpmath.exp(mpmath.mpf(epsilon) - loss))) <= bounds.upper[0]


@pytest.mark.parametrize("mu", [36.9, 37.0, 50.0])
def test_cells_at_the_end_of_the_floats(mu: float) -> None:
    """Where `ndtr` of one end of a cell is no float any more, its mean was half a cell off."""
    mpmath.mp.dps = 40
    leaf = GaussianShift(mu).cells(0.08, -20.0)
    assert leaf is not None
    reach = math.sqrt(40.0) + 1.0
    edges = np.linspace(-reach, mu + reach, len(leaf.mean) - 1)
    for i in np.flatnonzero((edges > 37.5) & (edges < 37.8)):
        low, high = mpmath.mpf(float(edges[i])), mpmath.mpf(float(edges[i + 1]))
        p, q = (mpmath.ncdf(shift - low) - mpmath.ncdf(shift - high) for shift in (mpmath.mpf(0), mpmath.mpf(mu)))
        assert abs(mpmath.log(q / p) - float(leaf.mean[i + 1])) <= leaf.error[i + 1]


def test_memory_for_cells_is_bounded() -> None:
    many = NormalMixture(tuple(np.linspace(0.0, 3.0, 2000)), (0.999, *(0.001 / 1999,) * 1999))
    assert many.cells(0.08, -40.0) is not None and many.cells(0.001, -40.0) is None


@pytest.mark.parametrize("shift", [0.0, 0.3, 7.1])
def test_lower_tails_are_within_their_errors(shift: float) -> None:
    """Down to the smallest that count, in 40 digits: 1e-13 would not do beyond x = 20."""
    edges = np.linspace(shift - 36.9, -0.1, 721)
    with mpmath.workdps(40):
        for x, value, error in zip(edges, *_lower_tail(edges - shift, shift), strict=True):
            assert abs(mpmath.ncdf(mpmath.mpf(float(x)) - mpmath.mpf(shift)) - mpmath.mpf(float(value))) <= float(error)
