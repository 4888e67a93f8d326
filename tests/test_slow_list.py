"""The list of slow tests names tests that exist."""

import pathlib

from conftest import LIST, listed

ROOT = pathlib.Path(__file__).parents[1]


def test_every_listed_test_exists():
    assert len(listed()) > 10, LIST
    for name in listed():
        path, _, function = name.partition("[")[0].partition("::")
        assert f"def {function}(" in (ROOT / path).read_text(encoding="utf-8"), f"{LIST.name}: {name}"
