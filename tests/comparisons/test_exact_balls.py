"""The second truth oracle against closed forms, binomial sums, nested quadrature and the first oracle."""

from __future__ import annotations

import math

import mpmath
import pytest
from dp_accounting import NeighboringRelation as Relation
from dp_accounting import dp_event as de

pytest.importorskip("flint")

from comparisons import exact, exact_balls
from comparisons.exact import InaccurateError
from comparisons.exact_balls import exact_delta, exact_epsilon
from comparisons.truth_cases import truth_case
from comparisons.truth_oracle import exact_values


def _sampled(p: float, event: de.DpEvent, count: int) -> de.DpEvent:
    return de.SelfComposedDpEvent(de.PoissonSampledDpEvent(p, event), count)


@pytest.mark.parametrize("noise, count, epsilon", [(1.0, 1, 1.0), (10.0, 50, 2.0), (3.0, 4, 30.0)])
def test_gaussian_closed_form(noise: float, count: int, epsilon: float) -> None:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)."""
    with mpmath.workdps(40):
        mu = mpmath.sqrt(count) / mpmath.mpf(noise)
        truth = mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
    event = de.SelfComposedDpEvent(de.GaussianDpEvent(noise), count)
    assert exact_delta(event, epsilon).value == pytest.approx(float(truth), rel=1e-13)


def test_one_sampled_gaussian_is_closed_form() -> None:
    p = 1e-9
    event = _sampled(p, de.GaussianDpEvent(0.5), 1)
    value, accuracy = exact_epsilon(event, p / 10)
    assert accuracy < 1e-9 and value == pytest.approx(exact.exact_epsilon(event, p / 10).value, rel=1e-9)


@pytest.mark.parametrize("scale, count, epsilon", [(1.0, 1, 0.3), (1.0, 2, 1.3), (2.0, 2, 0.9)])
def test_laplace_by_nested_quadrature(scale: float, count: int, epsilon: float) -> None:
    """Atoms at +-mu and the density e^{x-mu}/2 at L = 2x - mu, in 30 digits."""

    def once(mu: mpmath.mpf, e: mpmath.mpf) -> mpmath.mpf:
        return mpmath.mpf(0) if e >= mu else 1 - mpmath.exp(e) if e <= -mu else 1 - mpmath.exp((e - mu) / 2)

    with mpmath.workdps(30):
        mu, e = 1 / mpmath.mpf(scale), mpmath.mpf(epsilon)
        truth = once(mu, e)
        if count == 2:
            kinks = sorted({mpmath.mpf(0), min(mu, max(mpmath.mpf(0), e / 2)), mu})
            middle = mpmath.quad(lambda x: mpmath.exp(x - mu) / 2 * once(mu, e - 2 * x + mu), kinks)
            truth = once(mu, e - mu) / 2 + mpmath.exp(-mu) / 2 * once(mu, e + mu) + middle
    event = de.SelfComposedDpEvent(de.LaplaceDpEvent(scale), count)
    assert exact_delta(event, epsilon).value == pytest.approx(float(truth), rel=1e-13)


def test_huge_randomized_response_by_its_binomial_tail() -> None:
    """Sums of 2,000,000 steps: P(Bin > j) - e^eps P'(Bin > j) by regularised incomplete beta functions in 60 digits."""
    count, noise, epsilon = 2_000_000, 0.999, 3.0
    with mpmath.workdps(60):
        stay = 1 - mpmath.mpf(noise) / 2
        loss = mpmath.log(stay / (1 - stay))
        j = mpmath.floor((epsilon / loss + count) / 2) + 1  # the least number of stays with a loss above epsilon
        term, other, total = [mpmath.mpf(0)] * 3
        log_binomial = mpmath.loggamma(count + 1) - mpmath.loggamma(j + 1) - mpmath.loggamma(count - j + 1)
        term = mpmath.exp(log_binomial + j * mpmath.log(stay) + (count - j) * mpmath.log(1 - stay))
        other = mpmath.exp(log_binomial + j * mpmath.log(1 - stay) + (count - j) * mpmath.log(stay) + epsilon)
        while term > 1e-40:
            total += term - other
            ratio = (count - j) / (j + 1)
            term, other, j = term * ratio * stay / (1 - stay), other * ratio * (1 - stay) / stay, j + 1
    event = de.SelfComposedDpEvent(de.RandomizedResponseDpEvent(noise, 2), count)
    assert exact_delta(event, epsilon, Relation.REPLACE_ONE).value == pytest.approx(float(total), rel=1e-11)


def test_far_components_by_a_binomial_sum() -> None:
    """Noise 0.01: k of 3 uses sampled give log p^k (1-p)^(3-k) + N(k mu^2/2, k mu^2)."""
    p, mu, count, epsilon = 0.2, 100.0, 3, 5000.0
    with mpmath.workdps(40):
        total = mpmath.mpf(0)
        for k in range(1, count + 1):
            a = k * mpmath.log(mpmath.mpf(p)) + (count - k) * mpmath.log(1 - mpmath.mpf(p)) - epsilon
            s = mu * mpmath.sqrt(k)
            part = mpmath.ncdf(a / s + s / 2) - mpmath.exp(-a) * mpmath.ncdf(a / s - s / 2)
            total += mpmath.binomial(count, k) * mpmath.mpf(p) ** k * (1 - mpmath.mpf(p)) ** (count - k) * part
    assert exact_delta(_sampled(p, de.GaussianDpEvent(1 / mu), count), epsilon).value == pytest.approx(float(total), rel=1e-12)


AGREEMENT = [
    (_sampled(0.01, de.GaussianDpEvent(1.0), 1000), Relation.ADD_OR_REMOVE_ONE, 1e-6),
    (_sampled(0.01, de.GaussianDpEvent(0.5), 2), Relation.ADD_OR_REMOVE_ONE, 1e-4),
    (_sampled(0.02, de.GaussianDpEvent(1.0), 200), Relation.REPLACE_ONE, 1e-5),
    (_sampled(0.01, de.LaplaceDpEvent(0.5), 20_000), Relation.ADD_OR_REMOVE_ONE, 1e-5),
    (_sampled(0.05, de.MixtureOfGaussiansDpEvent(1.0, [0.0, 0.5, 1.0], [0.2, 0.4, 0.4]), 50), Relation.REPLACE_SPECIAL, 1e-7),
    (de.SelfComposedDpEvent(de.LaplaceDpEvent(3.0), 30), Relation.ADD_OR_REMOVE_ONE, 1e-5),
    (de.SelfComposedDpEvent(de.DiscreteLaplaceDpEvent(0.01, 1), 100_000), Relation.ADD_OR_REMOVE_ONE, 1e-6),
    (de.SelfComposedDpEvent(de.SampledWithoutReplacementDpEvent(100, 5, de.GaussianDpEvent(2.0)), 50), Relation.REPLACE_ONE, 1e-5),
    (de.SelfComposedDpEvent(de.TruncatedSubsampledGaussianDpEvent(1000, 0.01, 14, 1.0), 20), Relation.ADD_OR_REMOVE_ONE, 1e-4),
]


@pytest.mark.parametrize("event, relation, delta", AGREEMENT, ids=lambda value: str(value)[:40])
def test_both_oracles_agree(event: de.DpEvent, relation: Relation, delta: float) -> None:
    first, second = exact.exact_epsilon(event, delta, relation), exact_epsilon(event, delta, relation)
    assert second.value == pytest.approx(first.value, rel=first.accuracy + second.accuracy + 1e-15)
    if len(str(event)) > 140:  # slow
        return
    at = 0.9 * first.value
    first, second = exact.exact_delta(event, at, relation), exact_delta(event, at, relation)
    assert second.value == pytest.approx(first.value, rel=first.accuracy + second.accuracy + 1e-15)


def test_refuses_point_masses_that_may_resonate() -> None:
    """Sampled discrete Laplace noise: its losses share no lattice."""
    with pytest.raises(InaccurateError):
        exact_epsilon(_sampled(0.001, de.DiscreteLaplaceDpEvent(0.077, 3), 791), 8.8e-4, Relation.REPLACE_SPECIAL)


def test_a_rare_sample_of_small_noise() -> None:
    """The first oracle's losses spread over too many scales; one use all but decides: delta(eps) is near m delta_1(eps)."""
    event = _sampled(1.4593961482470177e-07, de.GaussianDpEvent(0.5109862429717228), 32)
    value, accuracy = exact_epsilon(event, 1e-10)
    lone = exact.exact_delta(de.PoissonSampledDpEvent(1.4593961482470177e-07, de.GaussianDpEvent(0.5109862429717228)), value).value
    assert accuracy < 1e-10 and math.isclose(32 * lone, 1e-10, rel_tol=5e-3)


def test_the_truth_campaign_says_who_answered() -> None:
    row = exact_values(truth_case(11, 65), 1.0)
    assert row.note.startswith("by exact_balls") and row.epsilon == pytest.approx(7.3043431679654285, rel=1e-13)
    assert row.delta is not None and exact_balls.exact_delta(truth_case(11, 65).event, row.at_epsilon or 0.0).value == row.delta


def test_laplace_noise_close_to_its_largest_loss() -> None:
    """Within 1e-12 of m mu only the top atom counts: delta = 2^-m (1 - e^{eps - m mu}) nearly."""
    shift = 1 / 5.5
    value, accuracy = exact_epsilon(de.SelfComposedDpEvent(de.LaplaceDpEvent(5.5), 2), 2.7e-13)
    assert accuracy < 1e-12 and value == pytest.approx(2 * shift + math.log1p(-4 * 2.7e-13), rel=1e-15)
