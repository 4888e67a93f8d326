"""The contour theorem trusts none of its callers: random tilts, periods, numbers of frequencies, smoothing and tilts for the
aliases.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from effort import examples
from hypothesis import given, reject, settings
from hypothesis import strategies as st
from known_curves import KNOWN, Known

from dp_edgeworth.losses.rules import RuleTooLargeError
from dp_edgeworth.proofs.aliases import AliasBound, log_kappa
from dp_edgeworth.proofs.contour import Contour, contour

# Log G is known to 40 digits; this is what the 40 digits of the inputs, all of them floats, are rounded by in the comparison itself.
INPUT = 1e-13
EPSILONS = np.array([-1.0, 0.0, 0.2, 0.7, 1.5, 3.0, 6.0])
parameters = st.tuples(
    st.floats(-7.0, 4.0), st.floats(-3.0, 8.0), st.integers(3, 400), st.none() | st.floats(-12.0, 1.0),
    st.lists(st.floats(-7.0, 4.5), min_size=1, max_size=5), st.sampled_from(KNOWN))


def made(*parameters_of: object) -> Contour:
    """The contour, unless its rules would be too large, which is no statement."""
    try:
        return contour(*parameters_of)  # type: ignore[arg-type]
    except RuleTooLargeError:
        reject()


def contains(found: Contour, known: Known, epsilons: np.ndarray = EPSILONS) -> None:
    bounds = found.bounds(epsilons)
    for epsilon, lower, estimate, upper in zip(epsilons, bounds.lower, bounds.estimate, bounds.upper, strict=True):
        exact = known.log(float(epsilon), complement=found.complement)
        assert lower - INPUT <= exact <= upper + INPUT, (known.name, epsilon, lower, exact, upper)
        assert lower <= estimate <= upper


@given(parameters)
@examples(120)
def test_any_parameters_for_delta(drawn) -> None:
    log_tilt, log_period, last, log_tau2, log_others, known = drawn
    tau2 = 0.0 if log_tau2 is None else math.exp(log_tau2)
    contains(made(known.composition, math.exp(log_tilt), math.exp(log_period), last, tau2, np.exp(np.array(log_others))), known)


@given(parameters)
@examples(120)
def test_any_parameters_for_the_complement(drawn) -> None:
    log_tilt, log_period, last, log_tau2, log_others, known = drawn
    tilt, *others = (-1.0 / (1.0 + math.exp(x)) for x in (log_tilt, *log_others))
    tau2 = 0.0 if log_tau2 is None else math.exp(log_tau2)
    contains(made(known.composition, tilt, math.exp(log_period), last, tau2, np.array(others)), known)


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.name)
@pytest.mark.parametrize("complement", [False, True])
def test_good_parameters_make_a_narrow_interval(known: Known, complement: bool) -> None:
    """So that the properties above are not about intervals that say nothing."""
    tilt, others = (-0.5, np.array([-0.9, -0.1])) if complement else (0.25, np.array([0.1, 0.5, 1.0]))
    found = contour(known.composition, tilt, 60.0, 20_000, 1e-5, others)
    bounds = found.bounds(np.array([0.2]))
    assert bounds.upper[0] - bounds.lower[0] < 0.02
    contains(found, known)


@pytest.mark.parametrize(("tilt", "period", "last", "tau2", "others"), [
    (0.0, 10.0, 10, 0.0, [1.0]), (-1.0, 10.0, 10, 0.0, [-0.5]), (-2.0, 10.0, 10, 0.0, [-0.5]), (math.nan, 10.0, 10, 0.0, [1.0]),
    (math.inf, 10.0, 10, 0.0, [1.0]), (1.0, 0.0, 10, 0.0, [2.0]), (1.0, -1.0, 10, 0.0, [2.0]), (1.0, math.inf, 10, 0.0, [2.0]),
    (1.0, math.nan, 10, 0.0, [2.0]), (1.0, 10.0, 2, 0.0, [2.0]), (1.0, 10.0, 10, -1e-9, [2.0]), (1.0, 10.0, 10, math.nan, [2.0]),
    (-0.5, 10.0, 10, 0.0, [0.5]), (-0.5, 10.0, 10, 0.0, [-1.5]), (-0.5, 10.0, 10, 0.0, [math.nan]),
    (1.0, 10.0, 10, 0.0, [-0.5, 2.0]), (1.0, 10.0, 10, 0.0, [math.nan, 2.0])])
def test_parameters_outside_the_theorem_are_refused(tilt, period, last, tau2, others) -> None:
    with pytest.raises(ValueError, match="Found"):
        contour(KNOWN[0].composition, tilt, period, last, tau2, np.array(others))


@given(st.floats(1e-6, 50.0), st.floats(0.0, 60.0))
@settings(max_examples=200, deadline=None)
def test_kappa_is_a_supremum(tilt: float, v: float) -> None:
    assert math.log(max(-math.expm1(-v), 5e-324)) - tilt * v <= float(log_kappa(np.array(tilt))) + 1e-12
    best = math.log1p(1.0 / tilt)
    assert math.log(-math.expm1(-best)) - tilt * best == pytest.approx(float(log_kappa(np.array(tilt))), abs=1e-9)


@given(st.floats(0.1, 3.0), st.floats(0.5, 20.0), st.floats(-2.0, 4.0))
@settings(max_examples=60, deadline=None)
def test_aliases_are_at_least_their_series(tilt: float, period: float, epsilon: float) -> None:
    """sum_{k != 0} e^{ckp} G(eps + kp) of Gaussian noise, term by term in 40 digits."""
    known, mpmath = KNOWN[0], pytest.importorskip("mpmath")
    rungs = known.composition.rungs(np.array([tilt, 0.5 * tilt, 2.0 * tilt, tilt + 3.0]))
    others, bounds = rungs.tilts[1:], (log_kappa(rungs.tilts) + rungs.log_mgf + rungs.error)[1:]
    bound = AliasBound(np.append(others, 0.0), np.append(bounds, 0.0), tilt, float(rungs.log_mgf[0]), period)(np.array([epsilon]))
    with mpmath.workdps(40):
        exact = mpmath.fsum(mpmath.exp(mpmath.mpf(tilt) * k * period) * known.finite(epsilon + k * period)
                            for k in range(-int(60.0 / (tilt * period)) - 2, int(40.0 / period) + 3) if k)
        exact = mpmath.log(exact) - float(rungs.log_mgf[0]) + mpmath.mpf(tilt) * epsilon
    assert exact <= bound[0]
