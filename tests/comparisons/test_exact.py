"""The truth oracle against the reference rows, closed forms, binomial sums and 30-digit nested quadrature."""

from __future__ import annotations

import json
import math
import pathlib

import mpmath
import numpy as np
import pytest
from dp_accounting import NeighboringRelation as Relation
from dp_accounting import dp_event as de

from comparisons import random_events
from comparisons.exact import InaccurateError, exact_delta, exact_epsilon

GOLDEN = pathlib.Path(__file__).parents[1] / "golden"
REFERENCE = json.loads((GOLDEN / "exact_epsilon.json").read_text())["cases"]
VALUES = json.loads((GOLDEN / "exact_values.json").read_text())["cases"]


def _leaf(spec: list) -> de.DpEvent:
    kind, *numbers, count = spec
    make = de.LaplaceDpEvent if kind == "lap" else de.GaussianDpEvent
    event: de.DpEvent = make(numbers[-1])
    if len(numbers) == 2 and numbers[0] < 1:
        event = de.PoissonSampledDpEvent(numbers[0], event)
    return de.SelfComposedDpEvent(event, count)


@pytest.mark.parametrize("case", REFERENCE)
def test_reference_rows(case: dict) -> None:
    event = de.ComposedDpEvent([_leaf(spec) for spec in case["spec"]])
    value = exact_epsilon(event, case["delta"]).value
    assert abs(value - case["epsilon"]) <= case["accuracy"] * max(1, value)


@pytest.mark.parametrize("case", [c for c in VALUES if c["seconds"] < 0.25][::3], ids=lambda c: c["id"])
def test_golden_values(case: dict) -> None:
    event = eval(case["event"], vars(de))
    value = exact_epsilon(event, case["delta"], Relation[case["relation"]]).value
    assert value == pytest.approx(case["epsilon"], rel=1e-9, abs=1e-15)


def test_golden_values_are_complete() -> None:
    assert len(VALUES) >= 110 and len({c["id"] for c in VALUES}) == len(VALUES)
    assert {c["relation"] for c in VALUES} == {r.name for r in Relation}
    assert all(c["accuracy"] <= 1e-8 for c in VALUES)


@pytest.mark.parametrize("noise, count, epsilon", [(1.0, 1, 1.0), (10.0, 50, 2.0), (3.0, 4, 30.0)])
def test_gaussian_closed_form(noise: float, count: int, epsilon: float) -> None:
    """Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu)."""
    with mpmath.workdps(40):
        mu = mpmath.sqrt(count) / mpmath.mpf(noise)
        truth = mpmath.ncdf(mu / 2 - epsilon / mu) - mpmath.exp(epsilon) * mpmath.ncdf(-mu / 2 - epsilon / mu)
    event = de.SelfComposedDpEvent(de.GaussianDpEvent(noise), count)
    assert exact_delta(event, epsilon).value == pytest.approx(float(truth), rel=1e-13)


@pytest.mark.parametrize("scale, epsilon", [(1.0, 0.3), (2.0, 0.499)])
def test_laplace_closed_form(scale: float, epsilon: float) -> None:
    truth = -math.expm1((epsilon - 1 / scale) / 2)
    assert exact_delta(de.LaplaceDpEvent(scale), epsilon).value == pytest.approx(truth, rel=1e-13)


@pytest.mark.parametrize(
    "p, buckets, count, epsilon", [(0.5, 2, 10, 5.0), (0.3, 4, 100, 90.0), (0.9, 10, 2000, 40.0)]
)
def test_randomized_response_by_binomial_sums(p: float, buckets: int, count: int, epsilon: float) -> None:
    """max over directions of sum_j C(m, j) (Q - e^eps P)_+ in 60 digits."""
    with mpmath.workdps(60):
        stay = 1 - mpmath.mpf(p) * (buckets - 1) / buckets
        loud, uniform = (stay, 1 - stay), (mpmath.mpf(1) / buckets, 1 - mpmath.mpf(1) / buckets)

        def hockey_stick(q: tuple, r: tuple) -> mpmath.mpf:
            return mpmath.fsum(
                mpmath.binomial(count, j)
                * max(
                    0, q[0] ** j * q[1] ** (count - j) - mpmath.exp(epsilon) * r[0] ** j * r[1] ** (count - j)
                )
                for j in range(count + 1)
            )

        truth = max(hockey_stick(loud, uniform), hockey_stick(uniform, loud))
    event = de.SelfComposedDpEvent(de.RandomizedResponseDpEvent(p, buckets), count)
    assert exact_delta(event, epsilon, Relation.REPLACE_SPECIAL).value == pytest.approx(
        float(truth), rel=1e-11
    )


def _subsampled_once(p: mpmath.mpf, mu: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    """delta of one subsampled Gaussian, remove direction, any real epsilon."""
    ratio = (mpmath.exp(epsilon) - 1 + p) / p
    if ratio <= 0:
        return 1 - mpmath.exp(epsilon)
    x = mpmath.log(ratio) / mu + mu / 2
    return (1 - p) * mpmath.ncdf(-x) + p * mpmath.ncdf(mu - x) - mpmath.exp(epsilon) * mpmath.ncdf(-x)


def test_two_subsampled_gaussians_by_nested_quadrature() -> None:
    """E_Q[delta_1(eps - L)] for m = 2 in 30 digits (the remove direction is the larger one here)."""
    with mpmath.workdps(30):
        p, mu, epsilon = mpmath.mpf(0.01), mpmath.mpf(2.0), mpmath.mpf(1.2)

        def integrand(x: mpmath.mpf) -> mpmath.mpf:
            loss = mpmath.log(1 - p + p * mpmath.exp(mu * x - mu * mu / 2))
            return ((1 - p) * mpmath.npdf(x) + p * mpmath.npdf(x - mu)) * _subsampled_once(
                p, mu, epsilon - loss
            )

        edge = mpmath.log((mpmath.exp(epsilon) / (1 - p) - 1 + p) / p) / mu + mu / 2
        truth = mpmath.quad(integrand, sorted([*range(-14, 19, 2), edge]))
    event = de.SelfComposedDpEvent(de.PoissonSampledDpEvent(0.01, de.GaussianDpEvent(0.5)), 2)
    assert exact_delta(event, 1.2).value == pytest.approx(float(truth), rel=1e-11)


def _laplace_once(mu: mpmath.mpf, epsilon: mpmath.mpf) -> mpmath.mpf:
    if epsilon >= mu:
        return mpmath.mpf(0)
    return 1 - mpmath.exp(epsilon) if epsilon <= -mu else 1 - mpmath.exp((epsilon - mu) / 2)


def test_two_laplaces_by_nested_quadrature() -> None:
    """Atoms at +-mu and the density e^{x-mu}/2 at L = 2x - mu, m = 2, in 30 digits."""
    with mpmath.workdps(30):
        mu, epsilon = mpmath.mpf(1), mpmath.mpf(1.3)
        atoms = _laplace_once(mu, epsilon - mu) / 2 + mpmath.exp(-mu) / 2 * _laplace_once(mu, epsilon + mu)
        middle = mpmath.quad(
            lambda x: mpmath.exp(x - mu) / 2 * _laplace_once(mu, epsilon - 2 * x + mu), [0, epsilon / 2, mu]
        )
    value = exact_delta(de.SelfComposedDpEvent(de.LaplaceDpEvent(1.0), 2), 1.3).value
    assert value == pytest.approx(float(atoms + middle), rel=1e-11)


def test_control_variate_at_huge_counts() -> None:
    """p = c / sqrt(m) at fixed noise: m = 1e10 and 1e12 must approach the same Gaussian limit."""
    limit = exact_epsilon(de.GaussianDpEvent(1 / math.sqrt(math.e - 1)), 1e-5).value
    gaps = []
    for p, count in ((1e-5, 10**10), (1e-6, 10**12)):
        event = de.SelfComposedDpEvent(de.PoissonSampledDpEvent(p, de.GaussianDpEvent(1.0)), count)
        gaps.append(exact_epsilon(event, 1e-5).value - limit)
    assert gaps[1] == pytest.approx(gaps[0] / 10, rel=1e-3)


def test_without_replacement_of_everything_is_the_plain_gaussian() -> None:
    whole = de.SampledWithoutReplacementDpEvent(64, 64, de.GaussianDpEvent(4.0))
    plain = exact_epsilon(de.GaussianDpEvent(4.0), 1e-5, Relation.REPLACE_ONE)
    assert exact_epsilon(whole, 1e-5, Relation.REPLACE_ONE) == plain


def test_degenerate_cases() -> None:
    assert exact_epsilon(de.NoOpDpEvent(), 1e-5).value == exact_delta(de.NoOpDpEvent(), 1.0).value == 0
    assert exact_epsilon(de.PoissonSampledDpEvent(0.0, de.GaussianDpEvent(1.0)), 1e-5).value == 0
    assert exact_delta(de.SelfComposedDpEvent(de.LaplaceDpEvent(1.0), 3), 3.0).value == 0
    with pytest.raises(ValueError, match="Unsupported"):
        exact_epsilon(de.ZCDpEvent(1.0), 1e-5)
    with pytest.raises(ValueError, match="delta"):
        exact_epsilon(de.GaussianDpEvent(1.0), 0.0)


def test_refuses_what_it_cannot_do() -> None:
    """Few compositions of a tiny sampling probability: losses on too many scales for one trapezoid sum."""
    mixture = de.MixtureOfGaussiansDpEvent(0.59, [0.0, 0.87], [0.8, 0.2])
    with pytest.raises(InaccurateError):
        exact_epsilon(de.SelfComposedDpEvent(de.PoissonSampledDpEvent(1.4e-6, mixture), 3), 1.5e-8)


@pytest.mark.parametrize("regime", random_events.REGIMES)
def test_random_events_are_deterministic(regime: str) -> None:
    one, two = (random_events.random_event(np.random.default_rng(7), regime) for _ in range(2))
    assert one == two and 0 < one.delta <= 0.5


def test_losses_beyond_the_exponents_are_refused() -> None:
    """27 sampled coins of loss 9749: delta(167842.314) was said to be 6.96e-12; the binomial sum in 60 digits is 1.68e-14."""
    event = de.SelfComposedDpEvent(de.PoissonSampledDpEvent(0.07592, de.DiscreteLaplaceDpEvent(9749.0, 1)), 27)
    with pytest.raises(InaccurateError, match="exponents of 80 bits"):
        exact_epsilon(event, 1.9e-14)
    with pytest.raises(InaccurateError, match="exponents of 80 bits"):
        exact_delta(event, 167842.314)
