"""Groups of records: exact where the group's own pair is known, above the truth elsewhere, refused where nothing is known."""

from __future__ import annotations

import fractions
import itertools
import math

import dp_accounting as dpa
import mpmath
import numpy as np
import pytest
from dp_accounting import dp_event
from main_branch import EpsilonDelta, Exponential, PermuteAndFlip

from dp_edgeworth import (
    AdditiveNoiseDpEvent,
    ProfileDpEvent,
    RenyiDpEvent,
    delta_statement,
    epsilon_statement,
    for_groups,
)
from dp_edgeworth import (
    EdgeworthIntervalAccountant as Interval,
)
from dp_edgeworth.cli import main
from dp_edgeworth.events import groups


def epsilon(event, delta=1e-5):
    return Interval().compose(event).get_epsilon_interval(delta)


def test_noise_has_k_times_the_sensitivity():
    assert epsilon(for_groups(dpa.GaussianDpEvent(6.0), 3)).upper == pytest.approx(epsilon(dpa.GaussianDpEvent(2.0)).upper, rel=1e-9)
    assert epsilon(for_groups(dpa.LaplaceDpEvent(6.0), 3), 0.0).upper == pytest.approx(0.5, rel=1e-12)
    assert epsilon(for_groups(dpa.LaplaceDpEvent(6.0), 3), 0.0).upper >= 0.5
    assert for_groups(dp_event.DiscreteLaplaceDpEvent(0.3, 2), 3) == dp_event.DiscreteLaplaceDpEvent(0.3, 6)
    assert for_groups(AdditiveNoiseDpEvent("logistic", {"scale": 3.0}), 2).sensitivity == pytest.approx(2.0)
    assert for_groups(Exponential(0.25), 2).epsilon >= 0.5 and for_groups(PermuteAndFlip(0.25), 2).epsilon >= 0.5
    assert for_groups(dpa.ZCDpEvent(0.1), 3).rho >= 0.9


def test_sampled_gaussians_are_a_mixture():
    """Two records, each sampled with probability 0.3: shifts 0, 1, 2 with weights 0.49, 0.42, 0.09."""
    grouped = for_groups(dpa.PoissonSampledDpEvent(0.3, dpa.GaussianDpEvent(2.0)), 2)
    assert grouped.sampling_probs == pytest.approx([0.49, 0.42, 0.09], rel=1e-15) and grouped.sensitivities == [0.0, 1.0, 2.0]
    two = for_groups(dpa.PoissonSampledDpEvent(0.3, dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(2.0), 4)), 2)
    assert two.standard_deviation == pytest.approx(1.0, rel=1e-15) and two.standard_deviation <= 1.0
    single, pair = (epsilon(dpa.SelfComposedDpEvent(for_groups(
        dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.0)), k), 1000)) for k in (1, 2))
    assert single.upper < pair.lower < 4 * single.upper


def test_sampling_with_probability_one_is_no_sampling():
    laplace = dpa.LaplaceDpEvent(2.0)
    assert for_groups(dpa.PoissonSampledDpEvent(1.0, laplace), 3) == for_groups(laplace, 3)
    assert for_groups(dpa.PoissonSampledDpEvent(1, dpa.ZCDpEvent(0.1)), 2) == for_groups(dpa.ZCDpEvent(0.1), 2)


def test_profiles_by_enumeration():
    """A chain of three data sets with random laws on four outcomes: the formula of the middle steps bounds the ends."""
    rng = np.random.default_rng(2)
    for _ in range(20):
        laws = [rng.dirichlet(np.full(4, 5.0)) for _ in range(3)]
        eps = float(rng.uniform(0.0, 0.5))
        delta = max(float(np.maximum(a - math.exp(eps) * b, 0).sum()) for a, b in itertools.permutations(laws, 2)
                    if abs([x is a for x in laws].index(True) - [x is b for x in laws].index(True)) == 1)
        grouped = for_groups(ProfileDpEvent([eps], [delta]), 2)
        ends = max(float(np.maximum(laws[i] - math.exp(grouped.epsilons[0]) * laws[2 - i], 0).sum()) for i in (0, 2))
        assert ends <= grouped.deltas[0] * (1 + 1e-12)
        same = for_groups(EpsilonDelta(eps, delta), 2)
        assert (same.epsilon, same.delta) == (grouped.epsilons[0], grouped.deltas[0])


def test_compositions_and_selections():
    event = dpa.ComposedDpEvent([dpa.GaussianDpEvent(2.0), dpa.SelfComposedDpEvent(dpa.ZCDpEvent(0.01), 5), dpa.NoOpDpEvent(),
                                 dp_event.RepeatAndSelectDpEvent(dpa.GaussianDpEvent(8.0), 2.0, 1.0)])
    assert for_groups(event, 1) is event
    assert epsilon(for_groups(event, 2)).upper > epsilon(event).upper


@pytest.mark.parametrize("event", [
    RenyiDpEvent([2.0], [0.1]), dpa.ZCDpEvent(0.1, 0.2), dpa.RandomizedResponseDpEvent(0.5, 2),
    dpa.PoissonSampledDpEvent(0.1, dpa.LaplaceDpEvent(1.0)), dpa.TruncatedSubsampledGaussianDpEvent(100, 0.1, 20, 1.0),
    ProfileDpEvent([-1.0], [0.7])])
def test_what_is_not_known_is_refused(event):
    with pytest.raises(ValueError, match="must"):
        for_groups(event, 2)
    assert for_groups(event, 1) is event


@pytest.mark.parametrize("size", [0, -1, 1.5, True, "2"])
def test_bad_sizes(size):
    with pytest.raises(ValueError, match="size"):
        for_groups(dpa.GaussianDpEvent(1.0), size)


def test_statements_name_the_group():
    event = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.0)), 100)
    one, four = epsilon_statement(event, 1e-6), epsilon_statement(event, 1e-6, group_size=4)
    assert four.epsilon > one.epsilon and "4 records" in str(four) and four.to_dict()["group_size"] == 4
    assert "the mechanism itself" in str(one) and delta_statement(event, 2.0, group_size=2).group_size == 2
    with pytest.raises(ValueError, match="group_size"):
        epsilon_statement(event, 1e-6, dpa.NeighboringRelation.REPLACE_SPECIAL, group_size=2)


def test_statements_say_whose_interval_it_is():
    guarantee = epsilon_statement(RenyiDpEvent([2.0, 8.0], [0.1, 0.4]), 1e-5)
    assert "worst mechanism" in guarantee.subject and "no lower end" in str(guarantee) and not guarantee.has_lower_end
    zcdp = epsilon_statement(dpa.PoissonSampledDpEvent(0.5, dpa.ZCDpEvent(0.1)), 1e-5)
    assert "worst mechanism" in zcdp.subject and "<= epsilon <=" in str(zcdp)


def test_the_command_line_takes_a_group_size(capsys):
    code = main(["epsilon", "--noise_multiplier", "2", "--target_delta", "1e-5", "--group-size", "2"])
    assert code == 0 and "2 records, all added or all removed" in capsys.readouterr().out


@pytest.mark.parametrize("noise", [5e-324, 1e-160, 1e200])
def test_sampled_groups_with_noise_whose_square_is_no_float(noise: float) -> None:
    """OverflowError and ZeroDivisionError of Python."""
    grouped = for_groups(dpa.PoissonSampledDpEvent(0.1, dpa.GaussianDpEvent(noise)), 2)
    assert grouped.standard_deviation <= noise and grouped.standard_deviation == pytest.approx(noise, rel=1e-15, abs=5e-324)


@pytest.mark.parametrize(("eps", "k"), [(25.72003084674439, 18), (299.7, 2), (0.0123, 49)])
def test_the_growth_of_a_profile_is_rounded_up(eps: float, k: int) -> None:
    """e^{k eps} is off by k eps units in the last place of k eps, not by one."""
    with mpmath.workdps(40):
        assert groups._growth(eps, k) >= sum(mpmath.exp(i * mpmath.mpf(eps)) for i in range(k))


@pytest.mark.parametrize(("eps", "size"), [(0.0999, 7001), (0.7, 997), (1e-3, 690_001), (3.3333, 209)])
def test_the_group_formula_is_rounded_up(eps, size):
    """Against 60 digits: the last bit of an exponent near 700 is 1e-13 of the delta."""
    with mpmath.workdps(60):
        exact = mpmath.mpf(1e-310) * mpmath.expm1(mpmath.mpf(eps) * size) / mpmath.expm1(mpmath.mpf(eps))
        found = for_groups(ProfileDpEvent([eps], [1e-310]), size)
        assert found.epsilons[0] >= mpmath.mpf(eps) * size
        assert exact <= found.deltas[0] <= exact * (1 + mpmath.mpf(1e-12))


@pytest.mark.parametrize("rho", [0.1, 0.7, 1 / 3, 2.0])
@pytest.mark.parametrize("size", [2, 3, 7, 97, 10**9 + 7])
def test_products_are_rounded_up_to_the_next_number(rho, size):
    exact, found = fractions.Fraction(rho) * size**2, for_groups(dpa.ZCDpEvent(rho), size).rho
    assert math.nextafter(found, 0.0) < exact <= found
