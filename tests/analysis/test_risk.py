"""Risk from the certified curve: closed forms of the Gaussian, budgets of risk, histories, calibration of any family, progress."""

import fractions
import io
import math
import re
import time

import dp_accounting as dpa
import numpy as np
import pytest
from scipy import stats

import dp_edgeworth
from dp_edgeworth import EdgeworthIntervalAccountant
from dp_edgeworth.analysis import progress, risk

NORMAL = stats.norm
GAUSSIAN = EdgeworthIntervalAccountant().compose(dpa.GaussianDpEvent(1.0))


def exact_bayes_risk(prior, mu=1.0):
    """Of N(0, 1) against N(mu, 1): the optimal threshold is mu / 2 + log((1 - prior) / prior) / mu."""
    threshold = mu / 2 + math.log((1 - prior) / prior) / mu
    return (1 - prior) * NORMAL.sf(threshold) + prior * NORMAL.cdf(threshold - mu)


@pytest.mark.parametrize("prior", [0.5, 0.4999, 0.3, 0.75, 0.01, 0.999, 1e-9])
def test_bayes_risk_of_a_gaussian(prior):
    interval = risk.bayes_risk_interval(GAUSSIAN, prior)
    exact = exact_bayes_risk(prior)
    assert interval.lower <= exact * (1 + 1e-13) and exact <= interval.upper * (1 + 1e-13)
    assert interval.upper - interval.lower <= 1e-6 * min(prior, 1 - prior)
    assert GAUSSIAN.get_bayes_risk(prior) == interval.lower


def test_bayes_risk_at_the_ends():
    assert GAUSSIAN.get_bayes_risk(0.0) == GAUSSIAN.get_bayes_risk(1.0) == 0.0
    assert EdgeworthIntervalAccountant().get_bayes_risk(0.3) == pytest.approx(0.3, rel=1e-14)  # nothing is lost
    assert EdgeworthIntervalAccountant().compose(dpa.NonPrivateDpEvent()).get_bayes_risk(0.3) == 0.0
    with pytest.raises(ValueError, match=r"`prior` must be in \[0, 1\]"):
        GAUSSIAN.get_bayes_risk(1.5)


def test_true_positive_rates_of_a_gaussian():
    alpha = np.array([1e-4, 0.01, 0.3])
    exact = NORMAL.cdf(NORMAL.ppf(alpha) + 1.0)
    found = GAUSSIAN.get_true_positive_rates(alpha)
    assert np.all(found >= exact * (1 - 1e-12)) and np.all(found <= exact + 2e-6)
    assert type(GAUSSIAN.get_true_positive_rates(0.01)) is float
    assert 1.0 <= GAUSSIAN.get_gdp_parameter_estimate() <= 1.001
    assert GAUSSIAN.get_gdp_parameter_estimate(np.array([0.0, 1e-3, 0.1])) >= 1.0


def test_noise_for_an_advantage():
    noise = dp_edgeworth.calibrate_noise(target_advantage=0.2, sampling_probability=1.0, steps=1)
    exact = 1 / (2 * NORMAL.ppf(0.6))  # 2 Phi(mu / 2) - 1 = 0.2
    assert exact <= noise * (1 + 1e-12) <= exact + 2e-6


def test_noise_for_a_true_positive_rate():
    noise = dp_edgeworth.calibrate_noise(target_true_positive_rate=0.1, false_positive_rate=0.01, sampling_probability=1.0, steps=4)
    exact = 2 / (NORMAL.ppf(0.1) - NORMAL.ppf(0.01))
    assert exact <= noise * (1 + 1e-12) <= exact + 1e-4


def test_steps_and_samples_for_risk():
    settings = {"noise_multiplier": 2.0, "sampling_probability": 0.05}
    steps = dp_edgeworth.max_steps(target_advantage=0.3, **settings)
    advantages = [dp_edgeworth.from_history([(2.0, 0.05, n)]).get_advantage() for n in (steps, steps + 1)]
    assert advantages[0] <= 0.3 < advantages[1]
    p = dp_edgeworth.max_sampling_probability(target_true_positive_rate=0.2, false_positive_rate=0.1, noise_multiplier=2.0, steps=50)
    assert dp_edgeworth.from_history([(2.0, p, 50)]).get_true_positive_rates(0.1) <= 0.2


@pytest.mark.parametrize("budget", [
    {}, {"target_epsilon": 1.0}, {"target_delta": 1e-5}, {"target_advantage": 0.1, "target_delta": 1e-5},
    {"target_true_positive_rate": 0.1}, {"false_positive_rate": 0.1}])
def test_exactly_one_budget(budget):
    with pytest.raises(ValueError, match="Exactly one budget must be given"):
        dp_edgeworth.calibrate_noise(**budget, sampling_probability=0.1, steps=10)


def test_guessing_cannot_be_forbidden():
    with pytest.raises(dp_edgeworth.BudgetError, match="guessing"):
        dp_edgeworth.calibrate_noise(target_true_positive_rate=0.01, false_positive_rate=0.1, sampling_probability=0.1, steps=10)


def test_history_is_the_composition_of_its_rows():
    accountant = dp_edgeworth.from_history([(1.0, 0.01, 500), (0.8, 0.01, 0), (np.float64(0.8), 1.0, np.int64(2))])
    training = dpa.SelfComposedDpEvent(dpa.PoissonSampledDpEvent(0.01, dpa.GaussianDpEvent(1.0)), 500)
    assert accountant.ledger == dpa.ComposedDpEvent([training, dpa.SelfComposedDpEvent(dpa.GaussianDpEvent(0.8), 2)])
    assert dp_edgeworth.from_history([]).get_epsilon(1e-5) == 0.0


@pytest.mark.parametrize("row, words", [
    ((1.0, 0.1), "must be"), (3.0, "sequence"), ((-1.0, 0.1, 3), "noise_multiplier"), ((1.0, 1.1, 3), "sampling_probability"),
    ((1.0, 0.1, 2.5), "steps")])
def test_bad_rows_are_named(row, words):
    with pytest.raises(ValueError, match=rf"history\[1\].*{words}"):
        dp_edgeworth.from_history([(1.0, 0.1, 3), row])


def laplace(scale):
    return dpa.LaplaceDpEvent(scale)


def test_any_family_is_calibrated_in_either_direction():
    exact = 1 / 1.5  # delta 0: epsilon = 1 / scale
    scale = dp_edgeworth.calibrate_mechanism(laplace, bracket=(0.01, 50.0), target_epsilon=1.5, target_delta=0.0)
    assert exact <= scale * (1 + 1e-14) and scale <= exact * (1 + 2e-6)
    rate = dp_edgeworth.calibrate_mechanism(lambda b: laplace(1 / b), bracket=(0.01, 50.0), target_epsilon=1.5, target_delta=0.0)
    assert 1.5 * (1 - 2e-6) <= rate <= 1.5 * (1 + 1e-14)


def test_integers_are_calibrated():
    def releases(count):
        assert isinstance(count, int)
        return dpa.SelfComposedDpEvent(laplace(4.0), count)

    settings = {"bracket": (1, 1000), "target_epsilon": 3.0, "target_delta": 1e-5, "discrete": True}
    count = dp_edgeworth.calibrate_mechanism(releases, **settings)
    spent = [EdgeworthIntervalAccountant().compose(releases(n)).get_epsilon(1e-5) for n in (count, count + 1)]
    assert type(count) is int and spent[0] <= 3.0 < spent[1]


def test_bad_brackets():
    for bracket, words in (((5.0, 6.0), "both within"), ((0.1, 0.2), "both beyond")):
        with pytest.raises(dp_edgeworth.BudgetError, match=words):
            dp_edgeworth.calibrate_mechanism(laplace, bracket=bracket, target_epsilon=1.0, target_delta=0.0)
    with pytest.raises(ValueError, match="two increasing numbers"):
        dp_edgeworth.calibrate_mechanism(laplace, bracket=(2.0, 1.0), target_epsilon=1.0, target_delta=0.0)


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_drawn_after_its_patience_and_taken_away(monkeypatch):
    stream = Terminal()
    monkeypatch.setattr("sys.stderr", stream)
    with progress.progress("sweep", 10, patience=0.01) as advance:
        advance(3)
        deadline = time.monotonic() + 120.0  # only so that a thread that never draws is a failure
        while "3 of 10" not in stream.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    assert re.search(r"sweep: 3 of 10, \d+ s", stream.getvalue()) and stream.getvalue().endswith(" \r")


def test_progress_is_silent_where_it_is_short_or_no_terminal(monkeypatch):
    for stream, patience in ((Terminal(), 60.0), (io.StringIO(), 0.0)):
        monkeypatch.setattr("sys.stderr", stream)
        with progress.progress("sweep", 10, patience=patience) as advance:
            advance(1)
        assert stream.getvalue() == ""
    monkeypatch.setattr("sys.stderr", None)
    with progress.progress("sweep") as advance:
        advance(1)


def test_true_positive_rates_near_one_are_rounded_up() -> None:
    """1 - beta = 1 - Phi(-Phi^-1(0.9) - 7) was 1 - 1.1e-16, where it is 1 - 6.1e-17."""
    accountant = EdgeworthIntervalAccountant().compose(dpa.GaussianDpEvent(1.0 / 7.0))
    for alpha in (0.5, 0.7, 0.9):
        beta = float(stats.norm.cdf(-stats.norm.ppf(alpha) - 7.0))
        rate = accountant.get_true_positive_rates(alpha)
        assert fractions.Fraction(rate) >= 1 - fractions.Fraction(beta * (1.0 - 1e-9))
