"""Proposed ends are ends only where a curve proves it: with curves that are known, wide, shifted or lie on neither side."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from known_curves import BY_NAME
from mpmath import mp, mpf

from dp_edgeworth.losses.rules import EPSILON
from dp_edgeworth.proofs.curve import Curve, LogBounds
from dp_edgeworth.proofs.ends import around, log_targets, proved_deltas, proved_epsilons
from dp_edgeworth.sums.composition import Composition

GAUSSIAN = BY_NAME["gaussian"].composition  # nothing infinite
LOST = BY_NAME["coins that may be lost"].composition
RATE = 2.0


@dataclasses.dataclass(frozen=True)
class Exponential(Curve):
    """log G = -rate (eps + 1), or log(1 - e^that) for the complement, rounded outwards and by given distances more."""

    below: float
    above: float
    tilt: float = 1.0
    whole: bool = True
    theorem = "exponential"

    def bounds(self, epsilons: np.ndarray) -> LogBounds:
        logs = -RATE * (np.asarray(epsilons, float) + 1.0)
        off = 4.0 * EPSILON * np.abs(logs)
        if self.complement:
            logs, off = np.log(-np.expm1(logs)), np.full(len(logs), 4.0 * EPSILON)
        return LogBounds(logs - off - self.below, logs, np.minimum(logs + off, 0.0) + self.above, np.full(len(logs), -RATE))


def exact_epsilon(delta: float) -> mpf:
    return max(mpf(0), -mp.log(mpf(delta)) / RATE - 1) if delta > 0 else mp.inf


@given(st.floats(1e-300, 1.0, exclude_max=True), st.floats(0.0, 400.0), st.floats(0.0, 400.0), st.floats(0.0, 1e-3),
       st.floats(0.0, 1e-3), st.sampled_from([1.0, -0.5]), st.booleans())
@settings(max_examples=300, deadline=None)
def test_ends_are_ends(delta, low, high, below, above, tilt, near) -> None:
    """Whoever proposes them, and however near the truth."""
    curve = Exponential(below, above, tilt)
    with mp.workdps(40):
        exact = exact_epsilon(delta)
        if near:
            low, high = (float(exact) * (1.0 + side * 1e-15 * round(offset)) for side, offset in ((-1, low), (1, high)))
        found = proved_epsilons(curve, GAUSSIAN, np.array([delta]), np.array([low]), np.array([low]), np.array([high]))
        assert found.lower[0] in (0.0, low) and found.upper[0] in (math.inf, max(high, 0.0))
        assert mpf(float(found.lower[0])) <= exact <= mpf(float(found.upper[0]))


@pytest.mark.parametrize("low, high", [(math.nan, math.nan), (-5.0, -1.0), (math.inf, -math.inf), (7.0, 0.1)])
def test_nonsense_proves_nothing_false(low, high) -> None:
    """A lower candidate above an upper one: neither inequality is met."""
    for tilt in (1.0, -0.5):
        with np.errstate(all="ignore"):
            found = proved_epsilons(Exponential(0.0, 0.0, tilt), GAUSSIAN, np.array([1e-3]), np.array([low]), np.array([1.0]),
                                    np.array([high]))
        exact = float(exact_epsilon(1e-3))
        assert found.lower[0] <= exact <= found.upper[0]


def test_a_target_that_is_met_exactly_is_not_proved() -> None:
    """The logarithm of delta is rounded: a candidate within its slack is neither a lower nor an upper end."""
    delta = math.exp(-RATE * 21.0)
    curve = Exponential(0.0, 0.0)
    at = np.array([20.0])
    found = proved_epsilons(curve, GAUSSIAN, np.array([delta]), at, at, at)
    assert found.lower[0] == 0.0 and found.upper[0] == math.inf
    _, slack = log_targets(GAUSSIAN, np.array([delta]), complement=False)
    assert slack[0] >= 2.0 * EPSILON * abs(math.log(delta))
    distance = 6.0 * slack[0] / RATE
    found = proved_epsilons(curve, GAUSSIAN, np.array([delta]), at - distance, at, at + distance)
    assert found.lower[0] == at[0] - distance and found.upper[0] == at[0] + distance


@pytest.mark.parametrize("share", [1e-6, 1e-3, 0.5])
def test_what_is_infinite_is_not_compared(share: float) -> None:
    """delta less the infinite mass, with the error of that mass: near it log(delta - mass) is not known to 4 ulp."""
    mass = LOST.infinite_mass
    exact = 1.0 - (1.0 - 0.0078125) ** 12
    assert mass == pytest.approx(exact, rel=1e-14)
    delta = mass * (1.0 + share)
    logs, slack = log_targets(LOST, np.array([delta]), complement=False)
    with mp.workdps(40):
        truth = mp.log(mpf(delta) - (1 - (1 - mpf(0.0078125)) ** 12))
        assert abs(truth - mpf(float(logs[0]))) <= mpf(float(slack[0]))
    assert slack[0] >= 1e-12 * mass / (delta - mass) * 0.99
    below = log_targets(LOST, np.array([mass * (1.0 - 1e-9)]), complement=False)
    assert below.logs[0] == -math.inf
    found = proved_epsilons(Exponential(0.0, 0.0, whole=False), LOST, np.array([mass * (1.0 - 1e-9)]), np.zeros(1), np.ones(1),
                            np.array([1e6]))
    assert found.lower[0] == 0.0 and found.upper[0] == math.inf


@given(st.floats(0.0, 370.0), st.sampled_from([1.0, -0.5]), st.booleans())
@settings(max_examples=150, deadline=None)
def test_deltas_are_moved_outwards(epsilon: float, tilt: float, whole: bool) -> None:
    """The curve is exact; what is infinite is added, and its error."""
    composition = GAUSSIAN if whole or tilt < 0 else LOST
    found = proved_deltas(Exponential(0.0, 0.0, tilt, whole), composition, np.array([epsilon]))
    with mp.workdps(40):
        exact = mp.exp(-RATE * (mpf(epsilon) + 1))
        if composition is LOST:
            exact += 1 - (1 - mpf(0.0078125)) ** 12
        assert mpf(float(found.lower[0])) <= exact <= mpf(float(found.upper[0]))
    assert 0.0 <= found.lower[0] <= found.estimate[0] <= found.upper[0] <= 1.0


def test_bounds_of_a_mass() -> None:
    assert around(0.0) == (0.0, 0.0)
    for mass in (5e-324, 1e-300, 0.3, 1.0):
        low, high = around(mass)
        assert 0.0 <= low <= mass <= high <= 1.0 and low < mass


def test_the_composition_of_the_table_is_what_it_says() -> None:
    assert isinstance(LOST, Composition) and GAUSSIAN.infinite_mass == 0.0
