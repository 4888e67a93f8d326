"""How many examples hypothesis draws: all where the slow tests run, too (`python -m pytest -m ""`), otherwise a quarter."""

import os

from hypothesis import settings


def examples(count: int) -> settings:
    """Settings without a deadline."""
    every = os.environ.get("DP_EDGEWORTH_SLOW_TESTS") == "1"
    return settings(max_examples=count if every else max(10, count // 4), deadline=None)
