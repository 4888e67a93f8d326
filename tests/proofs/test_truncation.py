"""Where the largest losses are left out: the cut rules, the probability that is charged, and the regime it is for."""

import math

import dp_accounting as dpa
import mpmath
import numpy as np
import pytest
from cases import gaussian, repeated, sampled
from dp_accounting import NeighboringRelation
from dp_edgeworth.proofs.spectral import contour, positive_tilt
from scipy import special

from dp_edgeworth import EdgeworthIntervalAccountant, GaussianShift, NormalMixture, subsample
from dp_edgeworth.losses.rules import Demand
from dp_edgeworth.losses.sampled_gaussian import SampledReplacement, SampledWithoutReplacement
from dp_edgeworth.sums.composition import Composition

LEAVES = [subsample(GaussianShift(1.5), 1e-4), NormalMixture((0.0, 0.4, 1.2), (1 - 3e-4, 1e-4, 2e-4)),
          SampledReplacement(0.8, 1e-4), SampledWithoutReplacement(1.1, 1e-3)]


@pytest.mark.parametrize("pllr", LEAVES, ids=lambda pllr: type(pllr).__name__)
@pytest.mark.parametrize("log_tail", [-20.0, -60.0])
def test_what_is_left_and_what_is_missing_are_the_whole(pllr, log_tail):
    """Masses under P and Q add up to 1, and what is missing under Q is at most what was allowed."""
    rule = pllr.rule(Demand(0.0, 200.0, 10.0, 0.0, log_tail))
    p_mass = math.fsum(rule.weights[0]) + rule.missing[0, 0]
    q_mass = math.fsum(np.exp(rule.log_weights[0] + rule.values[0])) + rule.missing[1, 0]
    assert p_mass == pytest.approx(1.0, abs=1e-13)
    assert q_mass == pytest.approx(1.0, abs=1e-13)
    assert 0.0 < rule.missing[1, 0] <= math.exp(log_tail)


@pytest.mark.parametrize("s", [0.0, 1.0, 37.5, 200.0])
@pytest.mark.parametrize("y", [0.0, 300.0])
def test_cut_rule_against_thirty_digits(s, y):
    """E_P[e^{(s + iy) L}; x < cut] of a sampled Gaussian, relative to E_P[e^{sL}; x < cut]."""
    mu, p = 1.5, 1e-3
    rule = subsample(GaussianShift(mu), p).rule(Demand(0.0, 200.0, 300.0, 0.0, -40.0))
    weights = np.exp(rule.log_weights[0] + s * rule.values[0] - np.max(rule.log_weights[0] + s * rule.values[0]))
    found = complex(np.sum(weights * np.exp(1j * y * rule.values[0])) / np.sum(weights))
    cut = -float(special.ndtri(rule.missing[0, 0]))
    with mpmath.workdps(30):
        def integrand(x, z):
            loss = mpmath.log(1 - mpmath.mpf(p) + mpmath.mpf(p) * mpmath.exp(mu * x - mpmath.mpf(mu)**2 / 2))
            return mpmath.npdf(x) * mpmath.exp(z * loss)

        edges = [*np.linspace(-10.5, cut, 60)]
        exact = mpmath.quad(lambda x: integrand(x, mpmath.mpc(s, y)), edges)
        size = mpmath.quad(lambda x: integrand(x, s), edges)
    assert abs(found - complex(exact / size)) <= 1e-10  # the cut is known to 1e-13 only


@pytest.mark.parametrize("share", [1e-9, 1e-3, 0.3])
def test_what_is_left_out_is_charged(share):
    """The interval widens with the probability that is left out, upwards only, and keeps the truth."""
    event, epsilon = repeated(sampled(0.001, gaussian(0.6)), 1000), 1.5
    whole = EdgeworthIntervalAccountant().compose(event)._compositions()[0]
    interval = EdgeworthIntervalAccountant(tolerance=1e-9).compose(event).get_delta_interval(epsilon)
    log_delta = math.log(interval.estimate)
    cut = whole.truncated(log_delta + math.log(share))
    found = contour(cut, positive_tilt(cut, log_delta), epsilon, log_delta, 1e-6).bounds(np.array([epsilon]))
    assert found.lower[0] <= math.log(interval.upper) and math.log(interval.lower) <= found.upper[0]
    assert found.upper[0] - found.lower[0] >= math.log1p(share) * 0.999


def test_leaving_out_reduces_the_measure():
    whole = Composition({subsample(GaussianShift(1.5), 1e-4): 100})
    cut = whole.truncated(math.log(1e-6))
    assert -1e-6 <= cut.cgf([0.0])[0, 0] < 0.0
    assert cut.cgf([50.0])[0, 0] < whole.cgf([50.0])[0, 0]


@pytest.mark.parametrize("pllr", LEAVES, ids=lambda pllr: type(pllr).__name__)
def test_the_control_variate_knows_what_is_missing(pllr):
    """K of what is left, with and without the control variate E_P[e^L - 1] = 0, which what is left does not satisfy."""
    cut = Composition({pllr: 1}).truncated(math.log(1e-5))
    block = next(cut.blocks(cut.demand(-1.0, 1.0)))
    for tilt in (-0.5, 0.3, 1.0):
        plain = math.log(math.fsum(np.exp(block.rule.log_weights[0] + (tilt + 1.0) * block.rule.values[0])))
        assert block.transform(tilt).log_mgf[0] == pytest.approx(plain, abs=1e-14)


# (event, relation, delta, exact epsilon by comparisons/exact, its accuracy, largest width relative to epsilon): a few rare samples
# carry the loss
RARE = [
    (repeated(sampled(3.3e-7, gaussian(1.75)), 682), NeighboringRelation.REPLACE_ONE, 1e-10, 3.9055351831769825e-05, 3e-13, 1e-4),
    (repeated(sampled(1e-6, gaussian(0.6)), 4520), NeighboringRelation.ADD_OR_REMOVE_ONE, 1e-10, 0.023331305574546653, 2e-11, 1e-4),
    (repeated(sampled(2.5e-4, gaussian(0.83)), 16_416), NeighboringRelation.ADD_OR_REMOVE_ONE, 1.3e-13, 1.442231700104839, 4e-15, 1e-6),
    (repeated(dpa.SampledWithoutReplacementDpEvent(3306, 6, gaussian(32.4)), 11), NeighboringRelation.REPLACE_ONE, 1e-14,
     0.0024800579778106197, 7e-12, 1e-3),
]


@pytest.mark.parametrize(("event", "relation", "delta", "exact", "accuracy", "width"), RARE)
def test_rare_samples(event, relation, delta, exact, accuracy, width):
    lower, _, upper = EdgeworthIntervalAccountant(relation).compose(event).get_epsilon_interval(delta)
    assert lower <= exact * (1 + accuracy) and exact * (1 - accuracy) <= upper
    assert upper - lower <= width * upper


def test_delta_near_one():
    """Far below the mean loss (about 1,000) the lower end is not vacuous; exact sums for it are in test_lattice."""
    accountant = EdgeworthIntervalAccountant().compose(repeated(sampled(0.14, gaussian(0.5)), 3000))
    lower, _, upper = accountant.get_delta_interval(100.0)
    assert 1 - 1e-6 < lower <= upper <= 1.0
