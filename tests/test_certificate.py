"""Each error term of the certificate (header of `spectral.py`) on its own: made large, it must widen the interval and keep the truth.

Exact values come from `comparisons.exact` (80 bits, nothing shared with the package), `mpmath` or `fractions`.
"""

import dataclasses
import functools
import itertools
import math
from fractions import Fraction

import dp_accounting as dpa
import numpy as np
import pytest
from cases import gaussian, repeated, sampled
from scipy import integrate, stats

from dp_edgeworth import AdditiveNoiseDpEvent, EdgeworthIntervalAccountant, spectral
from dp_edgeworth.characteristic import log_characteristic
from dp_edgeworth.composition import EPSILON, Composition
from dp_edgeworth.noise import Atoms, GaussianShift, LaplaceShift
from dp_edgeworth.pllr import subsample

mpmath = pytest.importorskip("mpmath")
from comparisons.exact import _delta_of, _directions  # noqa: E402

REMOVE = EdgeworthIntervalAccountant().neighboring_relation
STEP, COUNT = sampled(0.05, gaussian(1.0)), 200


def composition(event):
    """The "remove" direction alone."""
    return EdgeworthIntervalAccountant().compose(event)._compositions()[0]


@functools.lru_cache
def exact_log_delta(event, epsilon):
    return math.log(_delta_of(_directions(event, REMOVE)[0], epsilon).value)


def contour(event, epsilon, *, period=1.0, highest=1.0, tau2=None):
    """The contour that the package would choose, with its period, its highest frequency or its smoothing changed."""
    sums, log_delta = composition(event), exact_log_delta(event, epsilon)
    tilt = spectral.positive_tilt(sums, log_delta)
    choice, others, bounds = spectral.plan(sums, tilt, epsilon, log_delta, 1e-6)
    choice = dataclasses.replace(choice, period=choice.period * period)
    decay = spectral._decay(sums, choice.tilt)
    smoothing, last = spectral._smoothing(decay, choice, 1e-7)
    if tau2 is not None:
        smoothing, last = spectral._smoothed(decay, choice, tau2)
    return spectral._evaluated(sums, choice, decay, smoothing, last * highest, others, bounds)


def interval(event, epsilon, **changes):
    """(lower, exact, upper) of log delta."""
    found = contour(event, epsilon, **changes).bounds(np.array([epsilon]))
    return float(found.lower[0]), exact_log_delta(event, epsilon), float(found.upper[0])


def width(bounds):
    return bounds[2] - bounds[0]


EVENTS = [(repeated(STEP, COUNT), 3.0), (repeated(sampled(0.01, gaussian(0.8)), 10_000), 9.0),
          (repeated(sampled(0.3, dpa.LaplaceDpEvent(2.0)), 30), 2.0)]
every_event = pytest.mark.parametrize(("event", "epsilon"), EVENTS, ids=["small", "large", "laplace"])


@every_event
@pytest.mark.parametrize("change", [
    {}, {"period": 0.7}, {"period": 0.5}, {"period": 0.3}, {"highest": 0.7}, {"highest": 0.5}, {"highest": 0.3}, {"highest": 0.1},
    {"tau2": 1e-4}, {"tau2": 1e-2}, {"tau2": 1.0}, {"period": 0.5, "highest": 0.5, "tau2": 1e-2}], ids=str)
def test_a_coarse_contour_is_wider_and_still_true(event, epsilon, change):
    fine, coarse = interval(event, epsilon), interval(event, epsilon, **change)
    slack = 1e-11
    assert coarse[0] - slack <= coarse[1] <= coarse[2] + slack
    if change and min(change.values()) < 0.6:
        assert width(coarse) >= width(fine) * (1 - 1e-9)


@pytest.mark.parametrize(("pllr", "count", "tilt", "step", "last"), [
    (subsample(GaussianShift(1.0), 0.01), 10**6, 5.0, 0.01, 3000),
    (subsample(GaussianShift(50.0), 0.5), 2, 0.1, 0.01, 100),
    (LaplaceShift(1.0), 2, 5.0, 0.5, 4000),
    (Atoms((0.3, 0.7), (0.7, 0.3)), 100, 1.0, 0.05, 20_000),
    (Atoms((1e-30, 1 - 1e-30), (1 - 1e-10, 1e-10)), 5, 0.5, 0.5, 20_000),
], ids=["sampled", "sampled, large losses", "laplace", "atoms", "atoms, large losses"])
def test_rounding_of_the_characteristic_function_is_within_its_bound(pllr, count, tilt, step, last):
    sums = Composition({pllr: count})
    (block,) = sums.blocks(sums.demand(-1.0, 1.01 * tilt, step * last))
    logs, bounds = log_characteristic(block, block.transform(tilt), step, last)
    with mpmath.workdps(40):
        values = [mpmath.mpf(float(v)) for v in block.rule.values[0]]
        weights = [mpmath.exp((mpmath.mpf(tilt) + 1) * v + mpmath.mpf(float(w)))
                   for v, w in zip(values, block.rule.log_weights[0], strict=True)]
        total = mpmath.fsum(weights)
        for j in (3, last // 5, last // 2, last - 1):
            y = mpmath.mpf(j) * mpmath.mpf(step)
            exact = count * mpmath.log(mpmath.fsum(w * mpmath.expj(y * v) for w, v in zip(weights, values, strict=True)) / total)
            off = mpmath.mpc(complex(logs[j])) - exact
            off = mpmath.mpc(off.real, off.imag - 2 * mpmath.pi * mpmath.nint(off.imag / (2 * mpmath.pi)))
            # |prod phi~ - prod phi| / |prod phi~| <= e^x - 1 is what the certificate uses
            assert abs(1 - mpmath.exp(-off)) <= mpmath.expm1(bounds[j] + EPSILON * (8.0 + 2.0 * abs(logs[j]))), j


@pytest.mark.parametrize("n", [5, 6, 7, 13, 30])
@pytest.mark.parametrize("count", [1, 2, 5])
def test_bounded_noise_uniform(n, count):
    """Uniform noise of width n, sensitivity 1: losses are 0 or infinite, the infinite mass is 1 - (1 - 1/n)^count."""
    accountant = EdgeworthIntervalAccountant().compose(AdditiveNoiseDpEvent("uniform", {"scale": float(n)}), count)
    exact = 1 - (1 - Fraction(1, n)) ** count
    lower, _, upper = accountant.get_delta_interval(1.0)
    assert Fraction(lower) <= exact <= Fraction(upper)
    for delta in (float(exact) * (1 - 1e-3), float(exact) * (1 + 1e-4), float(exact) * 1.1):
        lower, _, upper = accountant.get_epsilon_interval(delta)
        assert lower <= (math.inf if Fraction(delta) < exact else 0.0) <= upper


@pytest.mark.parametrize(("name", "parameters"), [("semicircular", {"scale": 3.0}), ("cosine", {"scale": 2.0}),
                                                  ("beta", {"a": 2.0, "b": 2.0, "scale": 4.0}), ("triang", {"c": 0.5, "scale": 5.0})])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 2.0])
def test_bounded_noise_of_other_shapes(name, parameters, epsilon):
    law = getattr(stats, name)(**parameters)
    low, high = law.support()
    points = np.linspace(low, high + 1.0, 400)
    exact = sum(integrate.quad(lambda x: max(law.pdf(x - 1.0) - math.exp(epsilon) * law.pdf(x), 0.0), a, b)[0]
                for a, b in itertools.pairwise(points))
    lower, _, upper = EdgeworthIntervalAccountant().compose(AdditiveNoiseDpEvent(name, parameters)).get_delta_interval(epsilon)
    assert lower - 1e-11 <= exact <= upper + 1e-11
