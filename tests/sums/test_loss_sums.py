"""Sums over leaves: which directions there are, envelopes, and what asking again costs."""

import math

import numpy as np
import pytest
from cases import composed, gaussian, laplace, repeated, sampled

from dp_edgeworth import EdgeworthIntervalAccountant
from dp_edgeworth.losses.gaussian_noise import GaussianShift
from dp_edgeworth.losses.operations import Reversed, subsample
from dp_edgeworth.search import answers
from dp_edgeworth.search.contours import sufficient_frequency
from dp_edgeworth.sums import loss_sums
from dp_edgeworth.sums.composition import Composition
from dp_edgeworth.sums.pair_sums import PairSums

STEP = sampled(0.02, gaussian(0.9))
MIXED = composed(repeated(STEP, 2_000), repeated(sampled(0.1, laplace(1.5)), 300), repeated(gaussian(40.0), 100))


def accountant(event, **settings):
    return EdgeworthIntervalAccountant(**settings).compose(event)


def distinct(number, first=0):
    return [sampled(0.05 + 0.01 * math.sin(i), gaussian(1.0 + 0.3 * math.cos(2 * i))) for i in range(first, first + number)]


def test_which_compositions_there_are_follows_from_the_pairs_alone():
    """In any order: a leaf with the same "remove" and another "add", and one that is no mirror image, are looked at."""
    shift, other, rare = GaussianShift(1.0), GaussianShift(3.0), subsample(GaussianShift(1.0), 0.01)
    steps = [((shift, shift), 1), ((shift, other), 1), ((rare, Reversed(rare)), 100)]
    for order in ((0, 1, 2), (1, 0, 2), (2, 1, 0), (2, 0, 1), (0, 2, 1), (1, 2, 0)):
        pairs = PairSums()
        for i in order:
            pairs.add(*steps[i][0], steps[i][1])
        remove, add = pairs.directions()
        assert remove.counts == {shift: 2, rare: 100} and add.counts == {shift: 1, other: 1, Reversed(rare): 100}
        assert not (remove.mirrored or add.mirrored)


@pytest.mark.parametrize("event", [MIXED, repeated(STEP, 800), composed(*distinct(200))], ids=["mixed", "step", "distinct"])
@pytest.mark.parametrize("delta", [1e-2, 1e-5, 1e-12])
@pytest.mark.parametrize("tolerance", [1e-3, 1e-8])
def test_both_directions_together_and_apart(event, delta, tolerance):
    """Sums that serve two directions, and sums for each."""
    found = accountant(event, tolerance=tolerance).get_epsilon_interval(delta)
    apart = [answers.epsilon_bounds([Composition(composition.counts)], np.array([delta]), 1e-6)
             for composition in accountant(event)._compositions()]
    assert found.lower <= max(end.upper[0] for end in apart) and max(end.lower[0] for end in apart) <= found.upper
    assert found.upper - found.lower <= max(tolerance, 1e-7) * max(1.0, found.lower)


@pytest.mark.parametrize("event", [repeated(STEP, 2_000), repeated(sampled(1e-5, gaussian(2.0)), 10**9), MIXED],
                         ids=["step", "tiny", "mixed"])
@pytest.mark.parametrize("tilt", [0.3, 4.0])
def test_the_envelope_is_above_the_characteristic_function(event, tilt):
    for composition in accountant(event)._compositions():
        spread = math.sqrt(float(composition.rungs(np.array([tilt])).variance[0]))
        part, y = composition.spectral(tilt, 12.0 * spread, 64), 2.0 * math.pi / (12.0 * spread) * np.arange(65)
        exponents = part.envelope.exponent(y) - 0.5 * composition.gaussian_variance * y * y
        assert np.all(exponents <= -part.log_terms.real + part.errors)
        assert np.all(np.diff(exponents) >= 0.0) and exponents[16] > 0.0
        for need in (5.0, 30.0):
            enough = sufficient_frequency(part.envelope, need)
            if math.isfinite(enough):
                assert float(part.envelope.exponent(enough)) + math.log(enough) == pytest.approx(need, rel=0.2)


@pytest.fixture
def evaluated(monkeypatch):
    """Counts how many leaves are evaluated."""
    counts = []
    for name in ("Cgf", "Spectrum"):
        original = getattr(loss_sums, name).vector

        def vector(self, blocks, variance, original=original):
            blocks = list(blocks)
            counts.append(sum(len(block.counts) for block in blocks))
            return original(self, blocks, variance)

        monkeypatch.setattr(getattr(loss_sums, name), "vector", vector)
    return counts


def test_no_more_leaves_cost_nothing(evaluated):
    growing = accountant(composed(*distinct(100)))
    first = growing.get_epsilon(1e-5)
    evaluated.clear()
    assert growing.get_epsilon(1e-5) == first
    assert not evaluated


def test_a_repeated_leaf_is_evaluated_once(evaluated):
    leaf = sampled(0.0314159, gaussian(0.9))
    growing = accountant(repeated(leaf, 2_000))
    growing.get_epsilon(1e-5)
    evaluated.clear()
    for _ in range(5):
        growing.compose(leaf).get_epsilon(1e-5)
    assert sum(evaluated) <= 4


def test_many_deltas_do_not_pile_up():
    growing = accountant(composed(*distinct(200)))
    for k in range(1, 40):
        growing.get_epsilon(10.0 ** -k)
    for sums in growing._pairs._sums:
        assert len(sums._tallies) <= loss_sums._MOST_TALLIES


@pytest.mark.parametrize("last", [48, 6_000], ids=["products", "FFT"])
def test_two_laws_of_one_line_are_each_their_own(last):
    """A vector of two tilts is the two vectors of one, to within their own error bounds."""
    leaf, tilts = subsample(GaussianShift(1.25), 0.01), (2.0, -3.0)
    key = loss_sums.Spectrum(tilts, 25.0, last, Composition({leaf: 1_000}).demand(-3.0, 2.0, 2.0 * math.pi / 25.0 * last))
    both = loss_sums.LossSums({leaf: 1_000}).of(key)
    for mirrored, tilt in zip((False, True), tilts, strict=True):
        alone = loss_sums.Spectrum((tilt,), key.period, last, key.demand)
        mine = key.read(both, 0.0, mirrored=mirrored)
        own = alone.read(loss_sums.LossSums({leaf: 1_000}).of(alone), 0.0, mirrored=mirrored)
        assert mine.log_mgf == pytest.approx(own.log_mgf, rel=1e-12)
        assert np.all(np.abs(mine.log_terms - own.log_terms) <= mine.errors + own.errors)
        assert np.allclose(mine.errors, own.errors, rtol=1e-6, atol=0.0)
        assert np.allclose(mine.envelope.masses, own.envelope.masses, rtol=1e-9, atol=1e-12 * float(own.envelope.masses.sum()))


def test_one_line_decides_both_directions(monkeypatch):
    """Where exponential tails cannot tell the directions apart, the second one is held against the first one's line, known already."""
    lines, original = [], loss_sums.Spectrum.vector

    def vector(self, blocks, variance):
        lines.append(self.tilts)
        return original(self, blocks, variance)

    monkeypatch.setattr(loss_sums.Spectrum, "vector", vector)
    interval = accountant(repeated(sampled(0.02, gaussian(1.512345)), 10_000)).get_epsilon_interval(1e-5)
    assert interval.upper - interval.lower <= 1e-6 * interval.lower
    (tilts,) = lines
    assert tilts[1] == -1.0 - tilts[0]
