"""One large loss at a time (`one_jump.py`): on both sides of exact values, wherever losses are cut off and into whatever cells."""

from __future__ import annotations

import ast
import csv
import dataclasses
import math
import pathlib

import numpy as np
import pytest

from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.cells import normal_cells
from dp_edgeworth.losses.gaussian_noise import GaussianShift, NormalMixture
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.normal_mixtures import Normals
from dp_edgeworth.losses.operations import Mixed, Subsampled, reverse, subsample
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.rules import Demand
from dp_edgeworth.losses.sampled_gaussian import SampledReplacement, SampledWithoutReplacement
from dp_edgeworth.proofs.curve import Curve, LogBounds
from dp_edgeworth.proofs.one_jump import Jumps, OneJump, Points, one_jump
from dp_edgeworth.search.contours import planned
from dp_edgeworth.search.ladder import place_of_delta
from dp_edgeworth.sums.composition import Composition

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "rare_values.csv"
SAMPLED = subsample(GaussianShift(0.8), 0.05)
MIXTURE = NormalMixture((0.0, 0.4, 2.0), (0.9, 0.07, 0.03))
CUT: list[Pllr] = [
    subsample(GaussianShift(1.3), 1e-3), subsample(GaussianShift(1e-3), 0.3), MIXTURE, SampledReplacement(1.1, 1e-4),
    Mixed((0.25, 0.75), (SampledReplacement(1.0, 0.01), subsample(GaussianShift(2.0), 0.1))),
    Mixed((0.25, 0.75), (LaplaceShift(1.0), subsample(GaussianShift(2.0), 0.1))),
]  # fmt: skip


def contour(composition: Composition, log_g: float) -> Curve:
    place = place_of_delta(composition, log_g, complement=False)
    assert place is not None
    found = planned(place, 1e-8 / place.slope, place.slope)
    assert found is not None
    return found


def rest_of(composition: Composition, leaf: Pllr) -> Composition:
    return Composition({pllr: count - (pllr is leaf) for pllr, count in composition.counts.items()}, composition.log_tail)


def made(counts: dict[Pllr, int], log_delta: float, log_tail: float, cuts: np.ndarray) -> OneJump:
    composition = Composition(counts, log_tail)
    levels = -3.0, -15.0, max(0.4 * log_delta, -200.0)
    rest = {pllr: [contour(rest_of(composition, pllr), level) for level in levels] for pllr in counts}
    found = one_jump(composition, contour(composition, log_delta), cuts, -640.0, rest)
    assert found is not None
    return found


@pytest.mark.parametrize("log_tail", [-3.0, -25.0, -150.0])
@pytest.mark.parametrize("pllr", CUT, ids=repr)
def test_what_rules_leave_out(pllr: Pllr, log_tail: float) -> None:
    """A rule and the cells of what it leaves out are the whole law; masses in all, and losses on either side of one number."""
    cells = pllr.left_out(log_tail, -300.0, np.linspace(0.1, 3.0, 40))
    rule = pllr.rule(Demand(high=40.0 if log_tail < -100.0 else 8.0, log_tail=log_tail))
    assert cells is not None
    kept = np.exp(rule.log_weights[0] + rule.values[0]).sum(), np.exp(rule.log_weights[0]).sum()
    np.testing.assert_allclose([kept[0] + cells.q.sum(), kept[1] + cells.p.sum()], 1.0, rtol=0.0, atol=1e-11)
    assert 0.0 < cells.q.sum() <= math.exp(log_tail) * (1.0 + 1e-9)
    if not isinstance(pllr, Mixed):
        assert rule.values.max() <= cells.low.min() * (1.0 + 1e-12)
        assert log_tail < -100.0 or rule.values.max() > 0.6 * cells.low.min()  # far tails do not matter to a rule


def test_who_leaves_nothing_out() -> None:
    """Unsampled Gaussians, whose rules are whole; reversed pairs; pairs of which the smallest losses are left out, too."""
    cuts = np.ones(1)
    for pllr in (GaussianShift(1.0), Subsampled(GaussianShift(1.0), 1.0), reverse(subsample(GaussianShift(1.0), 0.1)),
                 SampledWithoutReplacement(1.0, 0.1), subsample(MIXTURE, 0.5), Mixed((0.5, 0.5), (MIXTURE, GaussianShift(1.0)))):
        assert pllr.left_out(-20.0, -100.0, cuts) is None
    assert one_jump(Composition({LaplaceShift(1.0): 3}, -20.0), contour(Composition({MIXTURE: 30}), -5.0), cuts, -100.0, {}) is None


@pytest.mark.parametrize("log_tail", [-7.0, -9.0, -12.0, -16.0])
@pytest.mark.parametrize("counts", [{SAMPLED: 300}, {SAMPLED: 300, NormalMixture((0.0, 0.3, 0.9), (0.9, 0.07, 0.03)): 100}],
                         ids=["sampled", "two kinds"])
def test_around_a_contour(counts: dict[Pllr, int], log_tail: float) -> None:
    """Where nothing is rare a contour of everything is exact to many digits: delta from large to small, cells from coarse to fine."""
    epsilons = np.linspace(1.0, 7.0, 5)
    levels = [contour(Composition(counts), level).bounds(epsilons) for level in (-2.0, -10.0, -25.0)]
    least, most = np.max([b.lower for b in levels], axis=0), np.min([b.upper for b in levels], axis=0)
    assert (most - least < 1e-6).all()
    for cuts in (np.array([1.0]), np.linspace(0.05, 12.0, 30), np.linspace(0.05, 12.0, 1000)):
        b = made(counts, -12.0, log_tail, cuts).bounds(epsilons)
        assert (b.lower <= most).all()
        assert (b.upper >= least).all()
        assert (np.isfinite(b.upper)).all()
    if log_tail == -16.0:  # two large losses are as rare as e^-20
        assert (b.upper - b.lower)[:2].max() < 1e-4
        assert np.abs(b.estimate - most)[:2].max() < 1e-5


def rows() -> list[dict[str, str]]:
    with GOLDEN.open(newline="") as file:
        return [row for row in csv.DictReader(file) if float(row["delta"]) < 1e-150 and "coin" not in row["name"]]


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["name"])
def test_tiny_deltas(row: dict[str, str]) -> None:
    """Around brackets from convolutions on a grid (tests/golden/make_rare_values.py)."""
    (_, kind, mu, p), = ast.literal_eval(row["parts"])
    leaf = subsample(GaussianShift(mu), p) if kind == "sampled" else SampledReplacement(mu, p)
    delta, low, high = (float(row[name]) for name in ("delta", "lower", "upper"))
    log_delta, counts = math.log(delta), {leaf: int(row["m"])}
    for share, cuts in ((0.5, np.geomspace(1e-3 * low, 30.0, 100)), (0.6, low + np.linspace(-0.9, 1.0, 2_000) * low)):
        log_tail = share * (log_delta - 12.0) - math.log(int(row["m"]))
        b = made(counts, log_delta, log_tail, cuts).bounds(np.array([low, high]))
        assert b.upper[0] >= log_delta >= b.lower[1]  # delta(low) >= delta >= delta(high)
    assert ((b.upper - b.lower) / np.abs(b.slope) <= 1e-4 * low).all()


class Ramp(Curve):
    """H(u) = (1 - e^u)_+, of nothing beside a large loss."""

    theorem, tilt = "ramp", 1.0

    def bounds(self, epsilons: np.ndarray) -> LogBounds:
        with np.errstate(divide="ignore"):
            logs = np.log(np.maximum(-np.expm1(np.minimum(epsilons, 0.0)), 0.0))
        return LogBounds(logs, logs, logs, np.full(len(epsilons), -1.0))


def test_errors_are_charged() -> None:
    """Errors of masses widen both ends; losses that are rounded are moved outwards; what has no bound is infinite."""
    curve = made({SAMPLED: 300}, -12.0, -8.0, np.linspace(0.1, 9.0, 50))
    epsilons = np.array([1.0, 4.0])
    before, after = curve.bounds(epsilons), dataclasses.replace(curve, log_error=curve.log_error + 0.25).bounds(epsilons)
    np.testing.assert_allclose(after.upper - before.upper, 0.25)
    np.testing.assert_allclose(before.lower - after.lower, 0.25)
    assert curve.jumps[0].above.losses[-1] == math.inf
    large = Points(np.array([1e6]), np.zeros(1))
    alone = dataclasses.replace(curve, none=dataclasses.replace(curve.none, log_mgf=-1e6),
                                jumps=(curve.jumps[0]._replace(above=large, below=large, rest=[Ramp()]),), log_more=-math.inf)
    at = np.array([1e6 - 1.0])
    b, exact = alone.bounds(at), [math.log(-math.expm1(side * 5e-9 - 1.0)) for side in (1.0, -1.0)]
    assert b.lower[0] < exact[0] < exact[1] < b.upper[0]


def test_what_a_user_keeps_beside_infinite_losses() -> None:
    """A' is at most what is finite of the rest and not left out, also where a use is mostly infinite: (f - q)^{n-1}."""
    leaf = Mixed((0.1, 0.9), (SAMPLED, Atoms((1.0, 0.0), (0.0, 1.0))))
    cuts, uses = np.linspace(0.05, 9.0, 20), 12
    for log_tail in (-0.7, -2.0, -8.0):
        cells = leaf.left_out(log_tail, -300.0, cuts)
        assert cells is not None
        kept = (uses - 1) * math.log(0.1 - cells.q.sum())
        found = one_jump(Composition({leaf: uses}, log_tail), contour(Composition({SAMPLED: 30}), -5.0), cuts, -300.0, {leaf: [Ramp()]})
        assert found is None or found.log_least <= kept
    assert found is not None
    assert found.log_least > kept - math.log(10.0) - 0.01


def test_cells_of_neighbouring_numbers() -> None:
    """A cell that is so narrow that its mass is rounded to 0 counts as an error."""
    normals, found = Normals.sampled(0.8, 0.05), 0
    for x in np.linspace(3.0, 6.0, 200):
        low = normals.loss(np.array([x]))[0]
        cells = normal_cells(normals, np.array([low, low * (1.0 + 4e-16)]), -400.0, 0.5)
        assert cells is not None
        lost = (cells.q[:-1] <= 0.0).any()
        found += lost
        assert not lost or cells.mass_error == math.inf
    assert found


def test_sums_of_many_cells() -> None:
    """One sum of numbers: logarithms that are added up one after the other are rounded at every step."""
    masses = np.full(50_000, -700.1)
    curve = made({SAMPLED: 300}, -12.0, -8.0, np.linspace(0.1, 9.0, 50))
    points, eps = Points(np.full(len(masses), 2.0), masses), np.array([1.0])
    low, high, _ = curve._sums(Jumps(points, points, [Ramp()]), eps)
    exact = math.log(len(masses)) - 700.1 + math.log(-math.expm1(-1.0))
    np.testing.assert_allclose([low[0], high[0]], exact, rtol=0.0, atol=5e-13)


def test_curves_of_the_complement_are_refused() -> None:
    """1 - delta is no bound of delta, wherever it comes in."""
    composition = Composition({SAMPLED: 30}, -9.0)
    place = place_of_delta(composition, -0.1, complement=True)
    assert place is not None
    wrong, right = planned(place, 1e-6, place.slope), contour(composition, -5.0)
    assert wrong is not None and wrong.complement
    cuts = np.linspace(0.1, 5.0, 20)
    assert one_jump(composition, wrong, cuts, -640.0, {SAMPLED: [right]}) is None
    assert one_jump(composition, right, cuts, -640.0, {SAMPLED: [right, wrong]}) is None
    assert one_jump(composition, right, cuts, -640.0, {SAMPLED: [right]}) is not None
