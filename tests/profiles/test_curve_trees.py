"""The first of the random trees of `long_curve_trees.py`."""

from __future__ import annotations

import long_curve_trees
import pytest


@pytest.mark.parametrize("seed", range(20))
def test_mechanisms_that_the_events_allow_are_inside(seed):
    assert long_curve_trees.failures(seed) == []
