"""Reductions: what is left out of a composition is paid for, and what is left is on its side. Exact sums, closed forms, the oracle."""

from __future__ import annotations

import dataclasses
import math

import mpmath
import numpy as np
import pytest
from cases import gaussian, repeated, sampled
from hypothesis import given, settings
from hypothesis import strategies as st
from known_curves import KNOWN
from scipy import special

from dp_edgeworth import EdgeworthIntervalAccountant, GaussianShift, NormalMixture, subsample
from dp_edgeworth.losses.atoms import Atoms
from dp_edgeworth.losses.laplace_noise import LaplaceShift
from dp_edgeworth.losses.operations import Reversed, Subsampled, reverse
from dp_edgeworth.losses.rules import Demand
from dp_edgeworth.losses.sampled_gaussian import SampledReplacement, SampledWithoutReplacement
from dp_edgeworth.proofs.closed_form import closed_forms
from dp_edgeworth.proofs.contour import contour
from dp_edgeworth.proofs.curve import Curve, LogBounds
from dp_edgeworth.proofs.reduction import Reduced, Reduction, truncated, without_negligible, without_sampling
from dp_edgeworth.sums.composition import Composition

LEAVES = [subsample(GaussianShift(1.5), 1e-4), NormalMixture((0.0, 0.4, 1.2), (1 - 3e-4, 1e-4, 2e-4)),
          SampledReplacement(0.8, 1e-4), SampledWithoutReplacement(1.1, 1e-3)]


# The price


@dataclasses.dataclass(frozen=True)
class Line(Curve):
    """log G = -eps - 1, or log(1 - e^that): exact to rounding."""

    tilt: float = 1.0
    theorem = "line"

    def bounds(self, epsilons: np.ndarray) -> LogBounds:
        logs = -np.asarray(epsilons, float) - 1.0
        logs = np.log(-np.expm1(logs)) if self.complement else logs
        return LogBounds(logs, logs, logs, np.full(len(logs), -1.0))


@pytest.mark.parametrize("shift", [0.0, 1e-9, 0.5])
@pytest.mark.parametrize("log_mass", [-math.inf, -30.0, -2.0])
@pytest.mark.parametrize("both", [True, False])
@pytest.mark.parametrize("tilt", [1.0, -0.5])
def test_shift_and_mass_are_paid(shift: float, log_mass: float, both: bool, tilt: float) -> None:
    """delta_rest(eps) <= delta(eps) <= delta_rest(eps - shift) + mass, the left side where `both`."""
    eps = np.array([1.0, 3.0, 20.0])
    step = Reduction(KNOWN[0].composition, shift, log_mass, both)
    found = Reduced(Line(tilt), step).bounds(eps)
    low, high = np.exp(-eps - 1.0), np.exp(-(eps - shift) - 1.0) + math.exp(log_mass)
    if tilt > 0:
        assert np.all(found.upper >= np.log(high)) and np.allclose(found.upper, np.log(high), rtol=0, atol=1e-13)
        assert np.all(found.lower <= np.log(low)) and (both or np.all(np.isneginf(found.lower)))
    else:
        most = np.maximum(1.0 - high, 1e-300)
        assert np.all(found.lower <= np.log(most) + 1e-15)
        assert np.all(found.upper >= np.log1p(-low)) if both else np.all(found.upper == 0.0)
    assert np.all(found.lower <= found.estimate) and np.all(found.estimate <= found.upper)


# The largest losses


@pytest.mark.parametrize("pllr", LEAVES, ids=lambda pllr: type(pllr).__name__)
@pytest.mark.parametrize("log_tail", [-20.0, -60.0])
def test_what_is_left_and_what_is_missing_are_the_whole(pllr, log_tail) -> None:
    """Masses under P and Q add up to 1, and what is missing under Q is at most what was allowed."""
    rule = pllr.rule(Demand(0.0, 200.0, 10.0, 0.0, log_tail))
    p_mass = math.fsum(rule.weights[0]) + rule.missing[0, 0]
    q_mass = math.fsum(np.exp(rule.log_weights[0] + rule.values[0])) + rule.missing[1, 0]
    assert p_mass == pytest.approx(1.0, abs=1e-13)
    assert q_mass == pytest.approx(1.0, abs=1e-13)
    assert 0.0 < rule.missing[1, 0] <= math.exp(log_tail)


@pytest.mark.parametrize("s", [0.0, 1.0, 37.5, 200.0])
@pytest.mark.parametrize("y", [0.0, 300.0])
def test_cut_rule_against_thirty_digits(s, y) -> None:
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
def test_what_is_left_out_is_charged(share) -> None:
    """The interval widens with the probability that is left out, upwards only, and keeps the truth."""
    event, epsilon = repeated(sampled(0.001, gaussian(0.6)), 1000), 1.5
    whole = EdgeworthIntervalAccountant().compose(event)._compositions()[0]
    interval = EdgeworthIntervalAccountant(tolerance=1e-9).compose(event).get_delta_interval(epsilon)
    step = truncated(whole, math.log(interval.estimate) + math.log(share))
    raw = contour(step.rest, 6.0, 24.0, 2000, 1e-6, np.array([3.0, 9.0, 12.0]))
    found = Reduced(raw, step).bounds(np.array([epsilon]))
    assert found.lower[0] <= math.log(interval.upper) and math.log(interval.lower) <= found.upper[0]
    assert found.upper[0] - found.lower[0] >= math.log1p(share) * 0.999
    assert raw.bounds(np.array([epsilon])).lower[0] == found.lower[0]


def test_leaving_out_reduces_the_measure() -> None:
    whole = Composition({subsample(GaussianShift(1.5), 1e-4): 100})
    cut = whole.truncated(math.log(1e-6))
    assert -1e-6 <= cut.cgf([0.0])[0, 0] < 0.0
    assert cut.cgf([50.0])[0, 0] < whole.cgf([50.0])[0, 0]


@pytest.mark.parametrize("pllr", LEAVES, ids=lambda pllr: type(pllr).__name__)
def test_the_control_variate_knows_what_is_missing(pllr) -> None:
    """K of what is left, with and without the control variate E_P[e^L - 1] = 0, which what is left does not satisfy."""
    cut = Composition({pllr: 1}).truncated(math.log(1e-5))
    block = next(cut.blocks(cut.demand(-1.0, 1.0)))
    for tilt in (-0.5, 0.3, 1.0):
        plain = math.log(math.fsum(np.exp(block.rule.log_weights[0] + (tilt + 1.0) * block.rule.values[0])))
        assert block.transform(tilt).log_mgf[0] == pytest.approx(plain, abs=1e-14)


@pytest.mark.parametrize("pllr", [
    GaussianShift(0.3), Subsampled(GaussianShift(0.5), 0.2), Reversed(Subsampled(GaussianShift(0.5), 0.2)), LaplaceShift(0.7),
    Reversed(Subsampled(LaplaceShift(0.7), 0.3)), Atoms((0.25, 0.75), (0.75, 0.25))], ids=str)
@pytest.mark.parametrize("log_tail", [-2.0, -20.0])
def test_losses_above_the_largest_that_is_kept_are_as_rare_as_promised(pllr, log_tail) -> None:
    rule = pllr.rule(Demand(0.0, 1.0, 1000.0))
    q = np.exp(rule.log_weights[0] + rule.values[0])
    assert q[rule.values[0] > pllr.largest_kept(log_tail) * (1 + 1e-12)].sum() <= math.exp(log_tail) * 1.2 + 1e-16


# Leaves that hardly matter


def test_the_sum_of_small_losses_exceeds_the_shift_as_rarely_as_promised() -> None:
    """Randomised response, the extreme case of the bound: a binomial tail."""
    b, count, log_mass = 0.01, 400, -12.0
    answer = 1.0 / (1.0 + math.exp(-b))
    leaf, large = Atoms((1 - answer, answer), (answer, 1 - answer)), Atoms((0.01, 0.99), (0.99, 0.01))
    step = without_negligible(Composition({leaf: count, large: 1}), 3.0, log_mass)
    assert step is not None and step.rest.counts == {large: 1} and step.log_mass == log_mass and step.shift < b * count
    most = math.floor((step.shift / b + count) / 2)  # of the positive losses
    assert special.bdtrc(most, count, answer) <= math.exp(log_mass)


def test_what_is_not_negligible_is_kept() -> None:
    large, small = LaplaceShift(1.0), LaplaceShift(1e-9)
    assert without_negligible(Composition({large: 1, LaplaceShift(2.0): 3}), 1e-7, -30.0) is None
    assert without_negligible(Composition({small: 5}), 1e-7, -30.0) is None
    assert without_negligible(Composition({small: 5, LaplaceShift(2e-9): 1}), 1e-7, -30.0) is None  # nothing would be left
    step = without_negligible(Composition({large: 1, small: 5}), 1e-7, -30.0)
    assert step is not None and step.rest.counts == {large: 1} and step.log_mass == -math.inf
    assert step.shift == pytest.approx(5e-9, rel=1e-6) and step.shift >= 5e-9


@given(st.floats(0.01, 0.6), st.integers(1, 30), st.floats(-40.0, -1.0), st.floats(-0.5, 4.0))
@settings(max_examples=80, deadline=None)
def test_any_budget(small: float, count: int, log_mass: float, epsilon: float) -> None:
    """Gaussian noise beside Gaussian noise: both the whole and the rest are known."""
    whole = Composition({GaussianShift(small): count, GaussianShift(1.25): 2})
    step = without_negligible(whole, 1e6, log_mass)
    forms = closed_forms(whole)
    if step is None or forms is None or step.rest.leaf_count == 2:
        return
    rest = closed_forms(step.rest)
    assert rest is not None
    for own, other in zip(forms, rest, strict=True):
        exact, found = own.bounds(np.array([max(epsilon, 0.0)])), Reduced(other, step).bounds(np.array([max(epsilon, 0.0)]))
        assert found.lower[0] <= exact.upper[0] and exact.lower[0] <= found.upper[0]


# Without sampling


@pytest.mark.parametrize(("leaf", "epsilons"), [
    (subsample(GaussianShift(1.5), 0.1), (0.0, 0.5, 2.0)), (reverse(subsample(GaussianShift(1.5), 0.3)), (0.0, 0.1, 0.3)),
    (NormalMixture((0.0, 0.4, 1.2), (0.7, 0.1, 0.2)), (0.0, 0.5, 2.0)), (SampledReplacement(0.8, 0.2), (0.0, 0.5, 2.0)),
    (SampledWithoutReplacement(1.1, 0.1), (0.0, 0.2, 1.0))], ids=repr)
def test_unsampled_noise_has_at_least_the_loss(leaf, epsilons) -> None:
    step = without_sampling(Composition({leaf: 1}))
    assert step is not None and not step.both
    forms, at = closed_forms(step.rest), np.array(epsilons)
    assert forms is not None
    exact = leaf.inner.log_reversed_hockey_stick(at) if isinstance(leaf, Reversed) else leaf.log_hockey_stick(at)
    assert np.all(exact <= Reduced(forms[0], step).bounds(at).upper)
    assert np.all(np.isneginf(Reduced(forms[0], step).bounds(at).lower)) and np.all(Reduced(forms[1], step).bounds(at).upper == 0.0)


def test_largest_losses_of_the_others_are_added() -> None:
    step = without_sampling(Composition({subsample(GaussianShift(1.0), 0.1): 3, LaplaceShift(0.5): 4}))
    assert step is not None and step.shift >= 2.0 and step.shift == pytest.approx(2.0) and step.rest.counts == {GaussianShift(1.0): 3}
    assert without_sampling(Composition({LaplaceShift(0.5): 4})) is None
