"""The shape of the house, over the syntax trees of its modules: sizes, and what every room says of itself.

Which room may import which is checked by import-linter (pyproject.toml), and that contract by the last test here.
"""

from __future__ import annotations

import ast
import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
PACKAGE = ROOT / "dp_edgeworth"
MOST_LINES, MOST_LINES_OF_A_BODY = 350, 40
# Modules, functions and rooms that are still being taken apart; to be shortened only. An entry that is no longer needed is an error.
LONG_MODULES: set[str] = set()
LONG_BODIES: set[str] = set()
ROOMS_WITHOUT_WORDS: set[str] = set()

MODULES = sorted(PACKAGE.rglob("*.py"))
ROOMS = sorted(path.parent for path in PACKAGE.glob("*/__init__.py"))


def name_of(path: pathlib.Path) -> str:
    return path.relative_to(PACKAGE).as_posix()


def body_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines from the first statement after the docstring to the last."""
    body = function.body[1:] if ast.get_docstring(function) is not None else function.body
    return (body[-1].end_lineno or 0) - body[0].lineno + 1 if body else 0


def long_bodies(path: pathlib.Path) -> set[str]:
    functions = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    return {f"{name_of(path)}:{function.name}" for function in functions if body_lines(function) > MOST_LINES_OF_A_BODY}


def test_there_are_rooms():
    names = {room.name for room in ROOMS}
    assert {"events", "losses", "sums", "paper", "proofs", "search", "accountants", "analysis"} <= names
    assert len(MODULES) > 50


def test_modules_are_short():
    assert {name_of(path) for path in MODULES if len(path.read_text().splitlines()) > MOST_LINES} == LONG_MODULES


def test_bodies_are_short():
    assert set().union(*map(long_bodies, MODULES)) == LONG_BODIES


def test_bodies_are_measured_without_their_docstring():
    text = 'def f():\n    """One.\n\n    Two.\n    """\n    a = 1\n\n    return a\n'
    assert body_lines(ast.parse(text).body[0]) == 3


def says_what_it_may_import(room: pathlib.Path) -> bool:
    return "May import" in (ast.get_docstring(ast.parse((room / "__init__.py").read_text())) or "")


def test_every_room_says_what_it_may_import():
    assert {room.name for room in ROOMS if not says_what_it_may_import(room)} == ROOMS_WITHOUT_WORDS


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_every_room_has_tests(room):
    assert list((ROOT / "tests" / room.name).glob("test_*.py"))


def test_every_room_is_in_the_contract():
    """A room or module that no layer names would be free to import anything."""
    text = (ROOT / "pyproject.toml").read_text()
    contract = re.search(r"\[\[tool\.importlinter\.contracts\]\].*?^layers = \[(.*?)^\]", text, re.M | re.S)
    layers = set(re.findall(r"\w+", re.sub(r"#.*", "", contract[1])))
    found = {room.name for room in ROOMS} | {path.stem for path in PACKAGE.glob("*.py")} - {"__init__"}
    assert found <= layers
