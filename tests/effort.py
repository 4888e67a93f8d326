"""How much of a large set runs: all of it where the slow tests run, too (`python -m pytest -m ""`), otherwise a part."""

import os

from hypothesis import settings

SLOW_TESTS_RUN = os.environ.get("DP_EDGEWORTH_SLOW_TESTS") == "1"


def examples(count: int) -> settings:
    """For hypothesis: so many examples, or a quarter of them; without a deadline."""
    return settings(max_examples=count if SLOW_TESTS_RUN else max(10, count // 4), deadline=None)
