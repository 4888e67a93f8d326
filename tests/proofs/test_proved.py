"""The one type of what is proved: every rule keeps the sides, for values that are inside to begin with."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dp_edgeworth.proofs.proved import Proved

COUNT = 6
values = st.lists(st.sampled_from([0.0, 1e-300, 1e-3, 0.5, 1.0, 3.0, 1e6, math.inf]) | st.floats(0.0, 10.0),
                  min_size=COUNT, max_size=COUNT)
gaps = st.lists(st.sampled_from([0.0, 1e-9, 1.0, math.inf]) | st.floats(0.0, 2.0), min_size=COUNT, max_size=COUNT)


@st.composite
def around(draw, numbers) -> Proved:
    """Something proved of these numbers."""
    below, above = np.array(draw(gaps)), np.array(draw(gaps))
    with np.errstate(invalid="ignore"):
        lower = np.maximum(np.nan_to_num(numbers - below, nan=0.0, posinf=math.inf, neginf=0.0), 0.0)
    return Proved.of(lower, draw(values), numbers + above, draw(st.sampled_from(["one", "two"])))


def holds(found: Proved, numbers: np.ndarray) -> None:
    assert np.all(found.lower <= numbers) and np.all(numbers <= found.upper)
    assert np.all(found.lower <= found.estimate) and np.all(found.estimate <= found.upper)
    assert not np.isnan(found.estimate).any()
    assert all(isinstance(name, str) for name in (*found.lower_by, *found.upper_by))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_both_hold(data) -> None:
    numbers = np.array(data.draw(values))
    one, two = data.draw(around(numbers)), data.draw(around(numbers))
    holds(one, numbers)
    both = one.met(two)
    holds(both, numbers)
    assert np.all(both.lower == np.maximum(one.lower, two.lower)) and np.all(both.upper == np.minimum(one.upper, two.upper))
    index = np.array(sorted(data.draw(st.sets(st.integers(0, COUNT - 1), min_size=1))))
    part = one.met(two.at(index), index)
    holds(part, numbers)
    rest = np.setdiff1d(np.arange(COUNT), index)
    assert np.all(part.upper[rest] == one.upper[rest]) and np.all(part.lower[rest] == one.lower[rest])
    for name, end in (("lower", both.lower), ("upper", both.upper)):  # the theorem that is named proved this very end
        by = getattr(both, f"{name}_by")
        for i in range(COUNT):
            assert any(getattr(side, name)[i] == end[i] and getattr(side, f"{name}_by")[i] == by[i] for side in (one, two))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_the_larger_of_two_numbers(data) -> None:
    first, second = np.array(data.draw(values)), np.array(data.draw(values))
    holds(data.draw(around(first)).larger(data.draw(around(second))), np.maximum(first, second))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_number_between_two_others(data) -> None:
    """It is at least the first and at most the second; lower ends come from the first, upper ends from the second."""
    below = np.array(data.draw(values))
    number = below + np.array(data.draw(gaps))
    above = number + np.array(data.draw(gaps))
    holds(data.draw(around(below)).between(data.draw(around(above))), number)
    only = data.draw(around(above)).at_most()
    holds(only, number)
    assert not only.lower.any()


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_numbers_that_fall(data) -> None:
    """An upper end serves all larger targets, a lower end all smaller ones; in any order of the targets, some of them equal."""
    targets = np.array(data.draw(st.lists(st.sampled_from([0.0, 0.1, 0.5, 1.0]) | st.floats(0.0, 1.0), min_size=COUNT, max_size=COUNT)))
    heights = np.sort(np.array(data.draw(values)))[::-1]
    numbers = np.array([heights[np.searchsorted(np.unique(targets), target)] for target in targets])
    found = data.draw(around(numbers))
    falling = found.falling(targets)
    holds(falling, numbers)
    assert np.all(falling.lower >= found.lower) and np.all(falling.upper <= found.upper)
    order = np.argsort(targets, kind="stable")
    assert all(a >= b for a, b in zip(falling.upper[order], falling.upper[order][1:], strict=False))
    assert all(a >= b for a, b in zip(falling.lower[order], falling.lower[order][1:], strict=False))


def test_estimates_are_moved_inside() -> None:
    found = Proved.of([1.0, 1.0, 1.0], [math.nan, 0.0, 9.0], [2.0, 2.0, 2.0], "theorem")
    assert found.estimate.tolist() == [1.0, 1.0, 2.0]


def test_trivial_bounds_are_the_definition() -> None:
    found = Proved.trivial((3,), 1.0)
    assert len(found) == 3 and found.lower.tolist() == [0.0] * 3 and found.upper.tolist() == [1.0] * 3


def test_nobody_changes_what_is_proved() -> None:
    found = Proved.trivial((1,), 1.0)
    with pytest.raises(AttributeError):
        found.upper = np.zeros(1)  # type: ignore[misc]
