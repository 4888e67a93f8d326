"""The wall between proof and search, over the syntax tree: who makes a `Proved`, who imports whom, which theorems there are."""

from __future__ import annotations

import ast
import importlib
import inspect
import pathlib
import re

import pytest

import dp_edgeworth.proofs
from dp_edgeworth.proofs.curve import Curve
from dp_edgeworth.proofs.proved import Proved

PACKAGE = pathlib.Path(dp_edgeworth.proofs.__file__).parents[1]
MAKERS = ("proofs", "paper")
MODULES = sorted(PACKAGE.rglob("*.py"))
WORKS = {"of", "trivial"}  # class methods of Proved that make one from numbers


def room(path: pathlib.Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def names_of_proved(tree: ast.AST) -> set[str]:
    """What a module calls the class, however it was imported."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            names |= {alias.asname or alias.name for alias in node.names if alias.name == "Proved"}
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Name | ast.Attribute):
            if getattr(node.value, "attr", getattr(node.value, "id", "")) == "Proved":
                names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
    return names | {"Proved"}


def made(tree: ast.AST) -> list[str]:
    """Calls that may make a `Proved` of numbers, or change one: its constructors, `dataclasses.replace`, `object.__setattr__`, `_make`.

    `replace` of something else is told apart by a keyword that `Proved` does not have.
    """
    names, fields = names_of_proved(tree), set(Proved.__dataclass_fields__)
    found = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        text, called = ast.unparse(node.func), node.func
        if isinstance(called, ast.Name | ast.Attribute) and text.split(".")[-1] in names:
            found.append(text)
        elif isinstance(called, ast.Attribute) and called.attr in WORKS and ast.unparse(called.value).split(".")[-1] in names:
            found.append(text)
        elif text in ("dataclasses.replace", "replace", "copy.replace") and all(
            keyword.arg is None or keyword.arg in fields for keyword in node.keywords
        ):
            found.append(text)
        elif text.endswith("object.__setattr__") and not (isinstance(node.args[0], ast.Name) and node.args[0].id == "self"):
            found.append(text)
    return found


def writes(tree: ast.AST) -> list[str]:
    """Assignments into the arrays of something proved: `found.lower[i] = ...`."""
    targets = [
        target
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign | ast.AugAssign)
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
    ]
    parts = [part for target in targets for part in ast.walk(target)]
    return [
        ast.unparse(part)
        for part in parts
        if isinstance(part, ast.Subscript) and isinstance(part.value, ast.Attribute) and part.value.attr in ("lower", "upper")
    ]


@pytest.mark.parametrize(
    "path", [path for path in MODULES if room(path) not in MAKERS], ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_only_theorems_make_what_is_proved(path: pathlib.Path) -> None:
    tree = ast.parse(path.read_text())
    assert made(tree) == []
    if room(path) == "search":
        assert writes(tree) == []


def test_theorems_do_make_it() -> None:
    assert any(made(ast.parse(path.read_text())) for path in MODULES if room(path) in MAKERS)


@pytest.mark.parametrize(
    "text",
    [
        "Proved(a, b, c, d, e)",
        "Proved.of(1.0, 1.0, 1.0, 'x')",
        "proved.Proved.trivial((1,), 1.0)",
        "dataclasses.replace(found, upper=lower)",
        "dataclasses.replace(found, **changes)",
        "from dp_edgeworth.proofs.proved import Proved as P\nP.of(1, 1, 1, '')",
        "P = Proved\nP(1)",
        "object.__setattr__(found, 'upper', lower)",
    ],
)
def test_the_test_sees_what_it_is_for(text: str) -> None:
    assert made(ast.parse(text))


@pytest.mark.parametrize(
    "text",
    [
        "dataclasses.replace(rule, values=x)",
        "dataclasses.replace(band, x=x, lower=y)",
        "found.met(other)",
        "Reduction.of(1)",
        "object.__setattr__(self, 'slopes', x)",
    ],
)
def test_the_test_sees_nothing_else(text: str) -> None:
    assert not made(ast.parse(text))


def imported(path: pathlib.Path) -> set[str]:
    """Rooms that a module imports from, at any depth of its code."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        names = (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else []
        )
        if isinstance(node, ast.ImportFrom) and node.module == "dp_edgeworth":
            names = [f"dp_edgeworth.{alias.name}" for alias in node.names]
        found |= {name.split(".")[1] for name in names if name.startswith("dp_edgeworth.")}
    return found


@pytest.mark.parametrize("path", [path for path in MODULES if room(path) == "proofs"], ids=lambda path: path.stem)
def test_what_proves_does_not_know_what_searches(path: pathlib.Path) -> None:
    assert imported(path) <= {"proofs", "sums", "losses", "validation", "intervals"}
    assert "importlib" not in path.read_text() and "__import__" not in path.read_text()


# The table


def theorems() -> list[str]:
    """Names before the first column gap of the table in the room's docstring."""
    lines = (inspect.getdoc(dp_edgeworth.proofs) or "").splitlines()
    start = next(i for i, line in enumerate(lines) if re.match(r"\s*theorem\s{2,}", line))
    rows = []
    for line in lines[start + 1 :]:
        if not line.strip():
            break
        if name := re.match(r"\s*(\w+)\s{2,}\S", line):
            rows.append(name[1])
    return rows


def test_every_theorem_of_the_table_exists() -> None:
    names = theorems()
    assert len(names) >= 8 and len(set(names)) == len(names)
    for name in names:
        module = importlib.import_module(f"dp_edgeworth.proofs.{name}")
        assert (module.__doc__ or "").startswith("Theorem"), name


def test_every_module_is_in_the_docstring() -> None:
    text = inspect.getdoc(dp_edgeworth.proofs) or ""
    for path in (PACKAGE / "proofs").glob("*.py"):
        assert path.stem == "__init__" or re.search(rf"^\s*{path.stem}\s{{2,}}", text, re.M), path.stem


def test_every_curve_is_a_theorem_of_the_table() -> None:
    """What an answer names as its proof can be looked up."""
    known = {name.replace("_", " ").lower() for name in theorems()}
    seen = 0
    for path in (PACKAGE / "proofs").glob("*.py"):
        module = importlib.import_module(f"dp_edgeworth.proofs.{path.stem}") if path.stem != "__init__" else dp_edgeworth.proofs
        for curve in vars(module).values():
            if (
                isinstance(curve, type)
                and issubclass(curve, Curve)
                and curve is not Curve
                and isinstance(getattr(curve, "theorem", None), str)
            ):
                assert curve.theorem.lower() in known, curve
                seen += 1
    assert seen >= 5
