"""Which tests run: all but the slow ones; with `-m ""` all, as in CI; tests that are asked for by their full names always run.

A test is slow by `@pytest.mark.slow` or by its name in slow.txt, a list because it is made from measured CPU times.
"""

import os
import pathlib

import pytest

WITHOUT_SLOW = "not slow"  # what pyproject.toml asks for
LIST = pathlib.Path(__file__).parent / "slow.txt"


def listed():
    """Names of tests, with the parameters of one case or, without any, of all cases."""
    lines = (line.partition("#")[0].strip() for line in LIST.read_text(encoding="utf-8").splitlines())
    return {line for line in lines if line}


def pytest_configure(config):
    if config.option.markexpr == WITHOUT_SLOW and all("::" in str(argument) for argument in config.args):
        config.option.markexpr = ""
    os.environ["DP_EDGEWORTH_SLOW_TESTS"] = "" if config.option.markexpr == WITHOUT_SLOW else "1"  # read by `effort`


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    slow = listed()
    for item in items:
        if not slow.isdisjoint((item.nodeid, item.nodeid.partition("[")[0])):
            item.add_marker(pytest.mark.slow)
