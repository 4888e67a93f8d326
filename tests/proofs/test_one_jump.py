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
from dp_edgeworth.losses.gaussian_noise import GaussianShift, NormalMixture
from dp_edgeworth.losses.operations import Mixed, subsample
from dp_edgeworth.losses.pllr import Pllr
from dp_edgeworth.losses.sampled_gaussian import SampledReplacement
from dp_edgeworth.proofs.curve import Curve, LogBounds
from dp_edgeworth.proofs.one_jump import Jumps, OneJump, Points, one_jump
from dp_edgeworth.proofs.rounding import RoundedLeaves, rounded_leaves
from dp_edgeworth.search.contours import planned
from dp_edgeworth.search.ladder import place_of_delta
from dp_edgeworth.sums.composition import Composition

GOLDEN = pathlib.Path(__file__).parents[1] / "golden" / "rare_values.csv"
SAMPLED = subsample(GaussianShift(0.8), 0.05)
MIXTURE = NormalMixture((0.0, 0.4, 2.0), (0.9, 0.07, 0.03))


def contour(composition: Composition, log_g: float) -> Curve:
    place = place_of_delta(composition, log_g, complement=False)
    assert place is not None
    found = planned(place, 1e-8 / place.slope, place.slope)
    assert found is not None
    return found


def leaves_of(counts: dict[Pllr, int], step: float, cuts: np.ndarray, log_tail: float = -300.0) -> RoundedLeaves:
    found = rounded_leaves(Composition(counts), step, log_tail, -4.0, cuts)
    assert found is not None
    return found


def made(counts: dict[Pllr, int], step: float, cuts: np.ndarray, tilt: float = 4.0, points: int = 1 << 15) -> OneJump:
    """The theorem with these losses cut, the first of which is where large ones begin."""
    rest = [(0.5 * tilt, points), (2.0 * tilt, points)]
    found = one_jump(Composition(counts), leaves_of(counts, step, cuts), (tilt, points), rest)
    assert found is not None
    return found


@pytest.mark.parametrize("start", [0.6, 1.2, 2.5, 5.0])
@pytest.mark.parametrize("counts", [{SAMPLED: 300}, {SAMPLED: 300, NormalMixture((0.0, 0.3, 0.9), (0.9, 0.07, 0.03)): 100}],
                         ids=["sampled", "two kinds"])
def test_around_a_contour(counts: dict[Pllr, int], start: float) -> None:
    """Where nothing is rare a contour of everything is exact to many digits: delta from large to small, cells from coarse to fine."""
    epsilons = np.linspace(1.0, 7.0, 5)
    levels = [contour(Composition(counts), level).bounds(epsilons) for level in (-2.0, -10.0, -25.0)]
    least, most = np.max([b.lower for b in levels], axis=0), np.min([b.upper for b in levels], axis=0)
    assert (most - least < 1e-6).all()
    for count, step in ((1, 0.02), (30, 0.005), (3_000, 3e-4)):
        b = made(counts, step, np.linspace(start, 40.0, count), points=1 << 17).bounds(epsilons)
        assert (b.lower <= most).all()
        assert (b.upper >= least).all()
        assert (np.isfinite(b.upper)).all()
    if start == 2.5:  # two large losses are rare
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
    for share, cells in ((0.4, 200), (0.7, 2_000)):
        leaves = leaves_of(counts, share * low / 20_000, low * np.linspace(share, 2.0, cells), -640.0)
        tilts = -log_delta / low * np.array([1.0, 0.1, 0.5, 1.0, 2.0])
        none, *rest = [(tilt, 1 << 16) for tilt in tilts]
        found = one_jump(Composition(counts), leaves, none, rest)
        assert found is not None
        b = found.bounds(np.array([low, high]))
        assert b.upper[0] >= log_delta >= b.lower[1]  # delta(low) >= delta >= delta(high)


class Ramp(Curve):
    """H(u) = (1 - e^u)_+, of nothing beside a large loss."""

    theorem, tilt = "ramp", 1.0

    def bounds(self, epsilons: np.ndarray) -> LogBounds:
        with np.errstate(divide="ignore"):
            logs = np.log(np.maximum(-np.expm1(np.minimum(epsilons, 0.0)), 0.0))
        return LogBounds(logs, logs, logs, np.full(len(epsilons), -1.0))


def test_errors_are_charged() -> None:
    """Errors of masses widen both ends; losses that are rounded are moved outwards; what has no bound is infinite."""
    curve = made({SAMPLED: 300}, 0.01, np.linspace(2.5, 9.0, 50))
    epsilons = np.array([1.0, 4.0])
    before, after = curve.bounds(epsilons), dataclasses.replace(curve, log_error=curve.log_error + 0.25).bounds(epsilons)
    np.testing.assert_allclose(after.upper - before.upper, 0.25)
    np.testing.assert_allclose(before.lower - after.lower, 0.25)
    assert curve.jumps[0].above.losses[-1] == math.inf
    large = Points(np.array([1e6]), np.zeros(1))
    none = dataclasses.replace(curve.none, above=dataclasses.replace(curve.none.above, log_mgf=-1e6),
                               leaves=curve.none.leaves._replace(log_infinite=-math.inf))
    alone = dataclasses.replace(curve, none=none, jumps=(curve.jumps[0]._replace(above=large, below=large, rest=[Ramp()]),),
                                log_more=-math.inf)
    at = np.array([1e6 - 1.0])
    b, exact = alone.bounds(at), [math.log(-math.expm1(side * 5e-9 - 1.0)) for side in (1.0, -1.0)]
    assert b.lower[0] < exact[0] < exact[1] < b.upper[0]


def test_masses_are_off_by_no_more_than_is_charged() -> None:
    """Both sides of what was taken apart hold all of it but for the errors of cells, which are added above and taken away below."""
    large = leaves_of({SAMPLED: 1}, 0.01, np.linspace(2.5, 9.0, 50)).large[0].cells
    blurred = leaves_of({SAMPLED: 1}, 0.01, np.linspace(2.5, 9.0, 50))
    blurred = blurred._replace(large=(blurred.large[0]._replace(cells=large._replace(q_error=0.01 * large.q)),))
    found = one_jump(Composition({SAMPLED: 1}), blurred, (4.0, 4096), [(4.0, 4096)])
    assert found is not None
    jumps = found.jumps[0]
    assert np.exp(jumps.above.log_masses).sum() / large.q.sum() == pytest.approx(1.01, rel=1e-9)
    assert np.exp(jumps.below.log_masses).sum() / large.q.sum() == pytest.approx(0.99, rel=1e-9)


def test_masses_that_are_hardly_a_float() -> None:
    """Above every cell has 1e-290 more, and every cell of the others is charged as much; below such a cell has nothing."""
    counts: dict[Pllr, int] = {SAMPLED: 2}
    leaves = leaves_of(counts, 0.01, np.linspace(2.5, 9.0, 50))
    (large,) = leaves.large
    for faint, kept in ((0.0, 0.0), (3e-291, 0.0), (1e-200, 1e-200)):
        masses = np.where(np.arange(len(large.cells.q)) == 5, 1e-150, faint)
        cells = large.cells._replace(q=masses, q_error=np.zeros(len(masses)))
        found = one_jump(Composition(counts), leaves._replace(large=(large._replace(cells=cells),)), (4.0, 4096), [(4.0, 4096)])
        assert found is not None
        above, below = (np.exp(points.log_masses) for points in (found.jumps[0].above, found.jumps[0].below))
        assert np.sort(above)[:-2].sum() >= 2.0 * (1.0 - 1e-9) * (len(masses) - 1) * (1e-290 + faint)
        assert np.sort(below)[:-1].max(initial=0.0) <= 2.0 * (1.0 + 1e-9) * kept
        assert found.log_more >= math.log(2.0 * 1e-290 * len(leaves.above[0][0].masses))  # far more than q^2 / 2


def test_what_a_user_keeps_beside_infinite_losses() -> None:
    """A' is at most what is finite of the rest and not large, also where a use is mostly infinite: (f - q)^{n-1}."""
    leaf, uses = Mixed((0.1, 0.9), (SAMPLED, Atoms((1.0, 0.0), (0.0, 1.0)))), 12
    for start in (0.1, 0.5, 2.5):
        leaves = leaves_of({leaf: uses}, 0.01, np.linspace(start, 9.0, 20))
        kept = (uses - 1) * math.log(0.1 - leaves.large[0].cells.q.sum())
        found = one_jump(Composition({leaf: uses}), leaves, (4.0, 4096), [(4.0, 4096)])
        assert found is None or found.log_least <= kept
    assert found is not None
    assert found.log_least > kept - math.log(10.0) - 0.01


def test_nothing_large() -> None:
    """Where no loss is large, or nothing is composed with one that is, there is no such theorem."""
    leaves = leaves_of({SAMPLED: 3}, 0.01, np.linspace(2.5, 9.0, 20))
    assert one_jump(Composition({SAMPLED: 3}), leaves._replace(large=()), (4.0, 4096), [(4.0, 4096)]) is None
    assert one_jump(Composition({SAMPLED: 3}), leaves, (4.0, 4096), []) is None


def test_one_use_less() -> None:
    leaves = leaves_of({SAMPLED: 3, MIXTURE: 1}, 0.01, np.linspace(2.5, 9.0, 20))
    assert [count for _, count in leaves.without_one(0).above] == [2, 1]
    assert [count for _, count in leaves.without_one(1).below] == [3]


def test_sums_of_many_cells() -> None:
    """One sum of numbers: logarithms that are added up one after the other are rounded at every step."""
    masses = np.full(50_000, -700.1)
    curve = made({SAMPLED: 300}, 0.01, np.linspace(2.5, 9.0, 50))
    points, eps = Points(np.full(len(masses), 2.0), masses), np.array([1.0])
    low, high, _ = curve._sums(Jumps(points, points, [Ramp()]), eps)
    exact = math.log(len(masses)) - 700.1 + math.log(-math.expm1(-1.0))
    np.testing.assert_allclose([low[0], high[0]], exact, rtol=0.0, atol=5e-13)
