"""Losses rounded to a lattice from both sides: against exact curves at any step, offset, tilt and number of points; every charge."""

from __future__ import annotations

import dataclasses
import math

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_curves import BY_NAME, KNOWN, Known
from mpmath import mp, mpf

from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.gaussian_noise import GaussianShift, NormalMixture
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.operations import Mixed, Reversed, reverse, subsample
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.sampled_gaussian import SampledReplacement, SampledWithoutReplacement
from dp_edgeworth.proofs import rounded_lattice as module
from dp_edgeworth.proofs import rounding
from dp_edgeworth.proofs.rounded_lattice import RoundedLattice, Tilted, lattice_sum, rounded_lattice, tail
from dp_edgeworth.proofs.rounding import Rounded, RoundedLeaves, rounded_leaves
from dp_edgeworth.sums.composition import Composition

EPSILONS = np.array([0.0, 0.05, 0.3, 1.0, 2.5, 6.0])
LEAVES: list[Pllr] = [
    GaussianShift(0.75), GaussianShift(4.0), subsample(GaussianShift(1.25), 2.0**-9), reverse(subsample(GaussianShift(1.25), 2.0**-9)),
    subsample(GaussianShift(0.25), 0.25), NormalMixture((0.0, 0.4, 2.0), (0.9, 0.07, 0.03)),
    reverse(NormalMixture((0.0, 0.4, 2.0), (0.9, 0.07, 0.03))), SampledReplacement(1.1, 1e-3), SampledWithoutReplacement(1.1, 1e-3),
    LaplaceShift(0.8), subsample(LaplaceShift(3.0), 1e-2), reverse(subsample(LaplaceShift(3.0), 1e-2)),
    Atoms((0.5, 0.25, 0.25), (0.25, 0.25, 0.5)), Mixed((0.25, 0.75), (GaussianShift(1.0), subsample(GaussianShift(2.0), 0.1)))]


def composed(composition: Composition, tilt: float, step: float, points: int, log_tail: float) -> RoundedLattice | None:
    leaves = rounded_leaves(composition, step, log_tail)
    return None if leaves is None else rounded_lattice(leaves, tilt, points)


def contains(found: RoundedLattice, known: Known, epsilons: np.ndarray = EPSILONS) -> None:
    bounds = found.bounds(epsilons)
    for epsilon, lower, estimate, upper in zip(epsilons, bounds.lower, bounds.estimate, bounds.upper, strict=True):
        exact = known.log(float(epsilon), complement=False)
        assert lower - 1e-13 <= exact <= upper + 1e-13, (known.name, epsilon, lower, exact, upper)
        assert lower <= estimate <= upper


@given(st.sampled_from(KNOWN), st.floats(-7.0, 1.0), st.floats(-4.0, 2.0), st.integers(4, 11), st.floats(-50.0, -1.0))
@settings(max_examples=150, deadline=None)
def test_any_parameters(known: Known, log_step: float, log_tilt: float, log_points: int, log_tail: float) -> None:
    """Tables that wrap around many times, steps wider than all losses, tails that are half the law."""
    found = composed(known.composition, math.exp(log_tilt), math.exp(log_step), max(2**log_points + 1, 17), log_tail)
    if found is not None:
        contains(found, known)


@pytest.mark.parametrize("name", ["gaussian", "laplace", "sampled gaussian"])
def test_good_parameters_make_a_narrow_interval(name: str) -> None:
    """And of second order: sixteen times the points, a hundredth of the width or less (it would be a sixteenth at first order)."""
    known = BY_NAME[name]
    widths = []
    for points in (256, 1024, 4096):
        found = composed(known.composition, 0.5, 40.0 / points, points, -34.0)
        assert found is not None
        contains(found, known)
        bounds = found.bounds(np.array([0.3]))
        widths.append(bounds.upper[0] - bounds.lower[0])
    assert widths[2] < 1e-3 and widths[2] < 0.01 * widths[0], widths


@pytest.mark.parametrize("leaf", LEAVES, ids=repr)
@pytest.mark.parametrize("step", [0.5, 0.05, 0.004])
@pytest.mark.parametrize("offset", [0.0, 0.013, -1.7])
def test_one_use_at_any_offset(leaf: Pllr, step: float, offset: float, monkeypatch) -> None:
    """Against its own hockey-stick, whatever the offset of its lattice."""
    plain = rounding._bulk
    monkeypatch.setattr(rounding, "_bulk", lambda *given: plain(*given) + offset)
    found = composed(Composition({leaf: 1}), 0.7, step, 8192 if step < 0.01 else 1024, -30.0)
    assert found is not None
    epsilons = np.array([0.0, 1e-6, 1e-4, 1e-2, 0.3, 1.0])
    exact = leaf.inner.log_reversed_hockey_stick(epsilons) if isinstance(leaf, Reversed) else leaf.log_hockey_stick(epsilons)
    assert exact is not None
    bounds = found.bounds(epsilons)
    assert np.all(bounds.lower <= exact + 1e-11) and np.all(exact - 1e-11 <= bounds.upper)


@given(st.lists(st.sampled_from(LEAVES), min_size=1, max_size=3, unique=True), st.lists(st.integers(1, 40), min_size=3, max_size=3),
       st.floats(-5.0, -1.0))
@settings(max_examples=60, deadline=None)
def test_steps_agree_about_any_composition(leaves, counts, log_step) -> None:
    """A coarse interval and a fine one of the same curve overlap."""
    composition = Composition(dict(zip(leaves, counts, strict=False)))
    intervals = []
    for step in (math.exp(log_step), 0.31 * math.exp(log_step)):
        found = composed(composition, 0.5, step, 4096, -40.0)
        if found is None:
            return
        intervals.append(found.bounds(EPSILONS))
    coarse, fine = intervals
    assert np.all(coarse.lower <= fine.upper + 1e-12) and np.all(fine.lower <= coarse.upper + 1e-12)


# The order of the header, for laws on a few points


def hockey_stick(losses, masses, epsilon: float) -> mpf:
    return mp.fsum(mpf(float(m)) * max(mpf(0), -mp.expm1(mpf(epsilon) - mpf(float(l)))) for l, m in zip(losses, masses, strict=True))


laws = st.lists(st.tuples(st.floats(-4.0, 4.0), st.floats(-20.0, 0.0)), min_size=1, max_size=12)


@given(laws, st.floats(0.01, 3.0), st.floats(-2.0, 2.0), st.floats(-5.0, 5.0))
@settings(max_examples=200, deadline=None)
def test_rounding_keeps_the_order(law, step: float, offset: float, epsilon: float) -> None:
    losses, masses = np.array([l for l, _ in law]), np.exp(np.array([m for _, m in law]))
    with mp.workdps(40):
        exact = hockey_stick(losses, masses, epsilon)
        for rounded, side in ((rounding._above, 1), (rounding._below, -1)):
            first, found, _ = rounded(losses, masses, offset, step)
            assert np.all(found >= 0.0)
            points = [mpf(offset) + mpf(step) * (first + i) for i in range(len(found))]
            value = mp.fsum(mpf(float(m)) * max(mpf(0), -mp.expm1(mpf(epsilon) - y)) for y, m in zip(points, found, strict=True))
            # masses are off by a few ulp per term, which the curve charges in its logarithm
            slack = mpf(1e-15) * (len(law) + 8) * exact
            assert (value - exact) * side >= -slack
            assert abs(value) <= mpf(float(masses.sum())) * (1 + mpf(1e-14)) if side < 0 else True


@given(laws, st.floats(0.05, 2.0), st.floats(-2.0, 2.0))
@settings(max_examples=150, deadline=None)
def test_masses_of_both_roundings(law, step: float, offset: float) -> None:
    """Above: P-mass and Q-mass are kept. Below: P-mass is kept, and Q-mass is not gained."""
    losses, masses = np.array([l for l, _ in law]), np.exp(np.array([m for _, m in law]))
    p_mass = float((masses * np.exp(-losses)).sum())
    first, found, _ = rounding._above(losses, masses, offset, step)
    y = offset + step * (first + np.arange(len(found)))
    assert found.sum() == pytest.approx(masses.sum(), rel=1e-12)
    assert (found * np.exp(-y)).sum() == pytest.approx(p_mass, rel=1e-11)
    first, found, _ = rounding._below(losses, masses, offset, step)
    y = offset + step * (first + np.arange(len(found)))
    assert (found * np.exp(-y)).sum() == pytest.approx(p_mass, rel=1e-11)
    assert found.sum() <= masses.sum() * (1.0 + 1e-12)


@given(laws, st.floats(0.05, 2.0), st.lists(st.floats(0.0, 1.0), min_size=40, max_size=40), st.floats(-5.0, 5.0))
@settings(max_examples=200, deadline=None)
def test_any_shares_are_lowered_until_they_obey(law, step: float, shares, epsilon: float) -> None:
    """`_shares` only proposes: with random ones, and with all of them 1, what is below stays below."""
    losses, masses = np.array([l for l, _ in law]), np.exp(np.array([m for _, m in law]))
    original = rounding._shares
    for proposed in (shares, [1.0] * 400):
        def other(lifts: np.ndarray, drops: np.ndarray, proposed: list[float] = proposed) -> np.ndarray:
            found = np.resize(np.array(proposed), lifts.shape)
            found[:, -1] = 0.0
            return found

        try:
            rounding._shares = other  # type: ignore[assignment]
            first, found, _ = rounding._below(losses, masses, 0.0, step)
        finally:
            rounding._shares = original  # type: ignore[assignment]
        with mp.workdps(40):
            points = [mpf(step) * (first + i) for i in range(len(found))]
            value = mp.fsum(mpf(float(m)) * max(mpf(0), -mp.expm1(mpf(epsilon) - y)) for y, m in zip(points, found, strict=True))
            exact = hockey_stick(losses, masses, epsilon)
            assert value <= exact * (1 + mpf(1e-15) * (len(law) + 8))


# Every charge on its own


def leaf_tables(infinite: float = 0.0, error: float = 0.0) -> Rounded:
    return Rounded(0.125, -3, np.array([0.0625, 0.1875, 0.25, 0.25, 0.125, 0.0625, 0.0625]), infinite, error)


@pytest.mark.parametrize("count", [1, 3, 20])
@pytest.mark.parametrize("points", [16, 17, 64, 1024])
def test_lattice_sums_of_exact_laws(count: int, points: int) -> None:
    """A law of seven dyadic masses, composed in rational arithmetic's place by 60 digits."""
    part, step = leaf_tables(), 0.25
    with mp.workdps(60):
        law = [mpf(1)]
        for _ in range(count):
            law = [mp.fsum(law[i - j] * mpf(float(m)) for j, m in enumerate(part.masses) if 0 <= i - j < len(law))
                   for i in range(len(law) + 6)]
        found = rounded_lattice(RoundedLeaves(step, [(part, count)], [(part, count)], -math.inf, 0.0), 0.8, points).bounds(EPSILONS)
        for epsilon, lower, upper in zip(EPSILONS, found.lower, found.upper, strict=True):
            exact = mp.fsum(m * max(mpf(0), -mp.expm1(mpf(float(epsilon)) - count * mpf("0.125") - mpf("0.25") * (i - 3 * count)))
                            for i, m in enumerate(law))
            assert lower <= (mp.log(exact) if exact else -mpmath.inf) <= upper or (not exact and lower == -math.inf)


def test_what_became_infinite_is_paid_for() -> None:
    composition = Composition({GaussianShift(1.0): 1})
    found = composed(composition, 1.0, 0.05, 512, -2.0)
    assert found is not None
    exact = float(closed(1.0, 1.5))
    assert found.above.upper(np.array([1.5]))[0] < math.log(exact)  # the finite part alone would be false
    assert found.bounds(np.array([1.5])).upper[0] >= math.log(exact)
    assert math.exp(found.leaves.log_infinite) >= 0.01
    leaves = rounded_leaves(Composition({subsample(GaussianShift(1.0), 0.5): 7}), 0.05, -5.0)
    assert leaves is not None
    assert leaves.log_infinite >= math.log(7.0 * leaves.above[0][0].infinite) and leaves.above[0][0].infinite > 0.0


def closed(mu: float, epsilon: float) -> mpf:
    return mp.ncdf(mu / 2 - epsilon / mu) - mp.exp(epsilon) * mp.ncdf(-mu / 2 - epsilon / mu)


def test_the_error_of_the_masses_moves_both_ends() -> None:
    found = composed(BY_NAME["gaussian"].composition, 1.0, 0.02, 2048, -40.0)
    assert found is not None
    blurred = dataclasses.replace(found, leaves=found.leaves._replace(log_error=found.leaves.log_error + 0.1)).bounds(np.array([1.0]))
    plain = found.bounds(np.array([1.0]))
    assert blurred.upper[0] == pytest.approx(plain.upper[0] + 0.1, abs=1e-9) and blurred.lower[0] == pytest.approx(plain.lower[0] -
    0.1, abs=1e-12)


def test_every_use_pays_for_its_masses() -> None:
    leaf = subsample(LaplaceShift(1.0), 0.25)
    one, many = (rounded_leaves(Composition({leaf: count}), 0.02, -40.0) for count in (1, 1000))
    assert one is not None and many is not None
    assert many.log_error == pytest.approx(1000 * one.log_error) and one.log_error >= 2.2e-16 * 8


def test_errors_of_cells_are_added_above_and_taken_away_below() -> None:
    leaf = subsample(LaplaceShift(1.0), 0.25)
    cells, offset = rounding._aligned(leaf, 0.02, -40.0) or pytest.fail()
    sides = rounding._rounded(cells._replace(q_error=0.01 * cells.q), offset, 0.02, -40.0)
    assert sides is not None
    assert sides[0].masses.sum() == pytest.approx(1.01, rel=1e-9)
    assert sides[1].masses.sum() <= 0.99 * (1.0 + 1e-9)


def test_errors_of_the_means_are_paid_for() -> None:
    """Means of cells that are off by 1e-3 lie that much further out on both sides."""
    found = rounding._aligned(GaussianShift(1.0), 0.05, -40.0)
    assert found is not None
    cells, offset = found
    blurred = cells._replace(error=np.full(len(cells.mean), 1e-3))
    for index, side in ((0, 1), (1, -1)):
        plain, moved = (rounding._rounded(each, offset, 0.05, -40.0)[index] for each in (cells, blurred))  # type: ignore[index]
        values = []
        for part in (plain, moved):
            y = offset + 0.05 * (part.first + np.arange(len(part.masses)))
            values.append(float(hockey_stick(y, part.masses, 0.3)))
        assert side * (values[1] - values[0]) > 1e-5


@pytest.mark.parametrize("side", ["_above", "_below"])
def test_losses_are_moved_outwards(side: str) -> None:
    """A loss that is a lattice point up to rounding is not taken for one on the wrong side."""
    for loss in (1.0, -0.75, 300.0):
        first, found, _ = getattr(rounding, side)(np.array([loss]), np.array([1.0]), loss, 0.125)
        y = loss + 0.125 * (first + np.arange(len(found)))
        with mp.workdps(40):
            p_mass = mp.fsum(mpf(float(m)) * mp.exp(-mpf(float(x))) for x, m in zip(y, found, strict=True))
            mean = mp.log(mp.fsum(map(float, found)) / p_mass)
            assert (mean - mpf(loss)) * (1 if side == "_above" else -1) > 1e-15 * abs(loss)


@pytest.mark.parametrize(("tilt", "points"), [(0.0, 64), (-0.5, 64), (math.inf, 64), (math.nan, 64), (1.0, 15)])
def test_parameters_outside_the_theorem_are_refused(tilt, points) -> None:
    with pytest.raises(ValueError, match="Found"):
        composed(BY_NAME["gaussian"].composition, tilt, 0.1, points, -30.0)


@pytest.mark.parametrize("step", [0.0, -0.1, math.inf, math.nan])
def test_steps_outside_the_theorem_are_refused(step) -> None:
    with pytest.raises(ValueError, match="`step` must be positive"):
        rounded_leaves(BY_NAME["gaussian"].composition, step, -30.0)


def test_counts_beyond_the_theorem_are_refused() -> None:
    with pytest.raises(ValueError, match="counts up to"):
        lattice_sum([(Tilted.of(leaf_tables(), 0.8, 0.25), 10**13)], 0.8, 0.25, 64)


def test_work_is_bounded() -> None:
    assert composed(Composition({GaussianShift(40.0): 1}), 1.0, 1e-6, 1024, -30.0) is None
    many = {subsample(GaussianShift(1.0 + 0.001 * i), 0.1): 1 for i in range(80)}
    assert composed(Composition(many), 1.0, 0.1, 1024, -30.0) is None


# Copies and their tails


@pytest.mark.parametrize("count", [1, 4, 9])
@pytest.mark.parametrize("tilt", [0.4, 1.1, 3.0])
def test_tails_against_exact_ones(count: int, tilt: float) -> None:
    """P_c(Y >= y) of a law of seven dyadic masses, in 60 digits."""
    part, step = leaf_tables(), 0.25
    tilted = Tilted.of(part, tilt, step)
    bound = tail([(tilted, count)], tilt, step)
    with mp.workdps(60):
        weights = [mpf(float(m)) * mp.exp(mpf(tilt) * (mpf("0.125") + mpf(step) * (part.first + i))) for i, m in enumerate(part.masses)]
        weights = [w / mp.fsum(weights) for w in weights]
        law = [mpf(1)]
        for _ in range(count):
            law = [mp.fsum(law[i - j] * w for j, w in enumerate(weights) if 0 <= i - j < len(law)) for i in range(len(law) + 6)]
        for i in range(len(law)):
            height = step * (i + count * (int(tilted.numbers[0])))
            exact = mp.fsum(law[i:])
            assert mp.log(exact) <= float(bound.log_beyond(np.array([height]))[0]) + 1e-12
    assert bound.log_beyond(np.array([step * count * 6.0 + 0.01]))[0] == -math.inf  # beyond the largest sum


@pytest.mark.parametrize("points", [16, 24, 40])
def test_copies_are_there_and_paid_for(points: int) -> None:
    """With a short period the table is too large by copies from both sides; the lower bound knows."""
    known = BY_NAME["gaussian"]
    leaves = rounded_leaves(known.composition, 0.1, -40.0)
    assert leaves is not None
    short, long = (rounded_lattice(leaves, 0.7, n).bounds(EPSILONS) for n in (points, 1024))
    assert np.all(short.upper >= long.upper - 1e-9) and short.upper[2] > long.upper[2] + 1e-3
    assert np.all(short.lower <= long.lower + 1e-9)


def test_rounding_of_many_uses_is_paid_for() -> None:
    """The error of the table grows with the count."""
    part, step = leaf_tables(), 0.25
    errors = [lattice_sum([(Tilted.of(part, 0.8, step), count)], 0.8, step, 1024).error for count in (10, 1000, 100_000)]
    assert errors[0] < errors[1] < errors[2] and errors[1] > 10.0 * errors[0]


def test_the_estimate_is_closer_than_both_bounds() -> None:
    known = BY_NAME["sampled gaussian"]
    found = composed(known.composition, 0.8, 0.02, 4096, -38.0)
    assert found is not None
    bounds, exact = found.bounds(np.array([0.3])), float(known.log(0.3, complement=False))
    assert abs(bounds.estimate[0] - exact) < 0.3 * (bounds.upper[0] - bounds.lower[0])
    light, slope = found.light(0.3)
    assert light == pytest.approx(bounds.estimate[0], abs=1e-9) and slope == pytest.approx(bounds.slope[0], rel=1e-6)


def test_module_states_its_theorem() -> None:
    assert (module.__doc__ or "").startswith("Theorem:") and (rounding.__doc__ or "").startswith("Theorem:")


@pytest.mark.parametrize("tilt", [700.0, 720.0, 1e4, 1e6])
def test_a_kernel_that_is_no_float_proves_nothing_false(tilt: float) -> None:
    """A step of 1 times the tilt: e^-tilt underflows, and the curve is not 0."""
    known = BY_NAME["gaussian"]
    found = composed(known.composition, tilt, 1.0, 64, -30.0)
    assert found is not None
    contains(found, known, np.array([-3.0, 0.0, 1.0]))


def test_epsilons_that_are_no_lattice_points_know_nothing() -> None:
    """Also without a warning of numpy's."""
    found = composed(BY_NAME["gaussian"].composition, 0.5, 0.1, 512, -30.0)
    assert found is not None
    with np.errstate(all="raise", under="ignore"):
        bounds = found.bounds(np.array([-np.inf, -1e308, 1e16, 1e308, np.inf]))
    assert np.all(bounds.lower == -np.inf) and np.all(bounds.upper == np.inf) and np.all(bounds.estimate < np.inf)


@pytest.mark.parametrize("count", [1, 5])
def test_infinite_losses_are_not_charged_twice(count: int) -> None:
    """The rare outcome that Q alone has is no part of G, whose bounds stay narrow around what the finite losses say."""
    law = Atoms((0.25, 0.75, 0.0), (0.625, 0.25, 0.125))
    found = composed(Composition({law: count}), 0.5, math.log(7.5) / 512, 1 << 14, -30.0)
    assert found is not None
    epsilons = np.array([0.0, 0.2, 0.5])
    bounds = found.bounds(epsilons)
    losses, masses = np.zeros(1), np.ones(1)
    for _ in range(count):
        losses = np.add.outer(losses, np.log([2.5, 1.0 / 3.0])).ravel()
        masses = np.multiply.outer(masses, [0.625, 0.25]).ravel()
    for epsilon, lower, upper in zip(epsilons, bounds.lower, bounds.upper, strict=True):
        exact = float(mp.log(hockey_stick(losses, masses, float(epsilon))))
        assert exact - 1e-3 < lower <= exact + 1e-13 and exact - 1e-13 <= upper < exact + 1e-3


@pytest.mark.parametrize("name", ["coins", "crooked coins", "laplace", "gaussian", "sampled gaussian"])
@pytest.mark.parametrize("points", [64, 2048])
def test_the_table_is_below_the_curve_between_its_points(name: str, points: int) -> None:
    """Several tilts of one law, whose lattice points differ by rounding: chords in e^eps are below the exact curve."""
    known, step = BY_NAME[name], 24.0 / points
    leaves = rounded_leaves(known.composition, step, -34.0)
    assert leaves is not None
    curves = [rounded_lattice(leaves, tilt, points) for tilt in (0.5, 0.9, 2.0)]
    epsilons, logs = module.table(curves, 0.0, 3.0)
    assert epsilons[0] <= 0.0 and epsilons[-1] >= 3.0 - step and np.all(np.diff(epsilons) > 0.0)
    alone = module.table(curves[2:], 0.0, 3.0)[1]
    assert np.all(logs >= alone - 1e-9)
    rng = np.random.default_rng(1)
    with mp.workdps(40):
        for i in rng.integers(0, len(epsilons) - 1, 40):
            left, right = (mp.exp(mpf(float(epsilons[j]))) for j in (i, i + 1))
            for share in (mpf(0), mpf(float(rng.uniform())), mpf(1)):
                t = left + share * (right - left)
                chord = (1 - share) * mp.exp(mpf(float(logs[i]))) + share * mp.exp(mpf(float(logs[i + 1])))
                exact = known.finite(mp.log(t))
                assert chord <= exact * (1 + mpf("1e-25")), (name, float(mp.log(t)))
                if points > 64 and name in ("laplace", "gaussian") and exact > 1e-3:
                    assert chord > exact * (1 - 2 * mpf(step)), (name, float(mp.log(t)))


def test_a_table_pays_for_what_its_law_was_moved_by() -> None:
    """Lattice points that are known to 1e-4 only: a law that lies so much lower is possible. The step divides the gap, so that rounding
    does nothing else.
    """
    known = BY_NAME["coins"]
    leaves = rounded_leaves(known.composition, math.log(5.0 / 3.0) / 8.0, -60.0)
    assert leaves is not None
    curve = rounded_lattice(leaves, 0.9, 2048)
    blurred = dataclasses.replace(curve, below=dataclasses.replace(curve.below, shift=1e-4))
    (plain, _), (epsilons, logs) = module.table([curve], 0.0, 3.0), module.table([blurred], 0.0, 3.0)
    assert np.all(plain - epsilons > 3.9e-4)
    with mp.workdps(30):
        for point, log in zip(plain, logs, strict=True):
            assert log <= mp.log(known.finite(mpf(float(point)) + mpf("1e-4")))


@pytest.mark.filterwarnings("error")
def test_errors_without_a_bound_prove_nothing():
    """Powers of what bounds a transform overflow where its weights are hardly known, and their product with 0 is no number."""
    leaf = Tilted(np.log([0.5, 0.5]), np.array([0, 1]), 0.0, 0.0, 1e-3, 1.0)
    assert lattice_sum([(leaf, 10**7)], 1.0, 0.1, 64).upper(np.array([0.0]))[0] == math.inf
