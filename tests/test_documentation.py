"""Every example of the documentation runs, prints what the page says, and every example script runs."""

import pathlib
import pkgutil
import re
import runpy
import sys

import pytest

import dp_edgeworth

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import documentation

PAGES = [page for page in documentation.pages() if documentation.examples(page)]
SCRIPTS = sorted((documentation.ROOT / "docs" / "examples").glob("*.py"))


def name(path):
    return str(path.relative_to(documentation.ROOT))


def test_there_are_pages_and_scripts():
    assert len(PAGES) >= 10 and len(SCRIPTS) >= 3


def test_names_of_the_package_exist():
    """`dp_edgeworth.a.b` in prose or code is something that a reader can import."""
    for page in documentation.pages():
        for found in set(re.findall(r"\bdp_edgeworth(?:\.[A-Za-z_]\w*)+", page.read_text(encoding="utf-8"))):
            if found.split(".")[1] not in ("beam", "jax_privacy", "opacus"):  # adapters, whose library need not be installed
                pkgutil.resolve_name(found)


def test_every_public_name_is_in_the_reference():
    text = (documentation.ROOT / "docs" / "reference" / "api.md").read_text(encoding="utf-8")
    assert set(re.findall(r"^::: dp_edgeworth\.(\w+)", text, re.MULTILINE)) >= set(dp_edgeworth.__all__) - {"__version__"}


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_examples_of_a_page(page):
    skipped = []
    with documentation.workplace():
        namespace = {"__name__": "documentation"}
        for example in documentation.examples(page):
            if example.missing():
                skipped.append(", ".join(example.missing()))
                continue
            printed = documentation.run(example, namespace)
            assert example.output is None or documentation.agrees(example.output, printed), f"example {example.number}:\n{printed}"
    if len(skipped) == len(documentation.examples(page)):
        pytest.skip(f"needs {'; '.join(skipped)}")


@pytest.mark.parametrize("script", SCRIPTS, ids=name)
def test_script_runs(script, capsys):
    pytest.importorskip("matplotlib").use("Agg")
    with documentation.workplace():
        runpy.run_path(str(script), run_name="__main__")
    assert capsys.readouterr().out
