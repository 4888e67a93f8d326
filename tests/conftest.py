"""Which tests run: all but the slow ones; with `-m ""` all, as in CI; tests that are asked for by their full names always run.

A test is slow by `@pytest.mark.slow` or by slow.txt, a list because it is made from measured CPU times.
"""

import collections
import os
import pathlib

import pytest

WITHOUT_SLOW = "not slow"  # what pyproject.toml asks for
LIST = pathlib.Path(__file__).parent / "slow.txt"


def listed():
    """{name of a test, with the parameters of one case or of all cases: how many of its cases there are for one that is not slow}."""
    lines = (line.partition("#")[0].strip() for line in LIST.read_text(encoding="utf-8").splitlines())
    rules = (line.partition(" but one in ") for line in lines if line)
    return {name: int(every or 0) for name, _, every in rules}


def pytest_configure(config):
    if config.option.markexpr == WITHOUT_SLOW and all("::" in str(argument) for argument in config.args):
        config.option.markexpr = ""
    os.environ["DP_EDGEWORTH_SLOW_TESTS"] = "" if config.option.markexpr == WITHOUT_SLOW else "1"  # read by `effort`


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    slow, seen = listed(), collections.Counter()
    for item in items:
        function = item.nodeid.partition("[")[0]
        every = slow.get(function, 0)
        kept = every and seen[function] % every == 0
        seen[function] += 1
        if item.nodeid in slow or (function in slow and not kept):
            item.add_marker(pytest.mark.slow)
