"""The README's Python blocks run as they stand."""

import pathlib
import re

import pytest

ROOT = pathlib.Path(__file__).parents[1]
BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)


def test_readme_has_examples():
    assert len(BLOCKS) >= 4


@pytest.mark.parametrize("number", range(len(BLOCKS)))
def test_block_runs(number, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    exec(compile(BLOCKS[number], f"README block {number}", "exec"), {"__name__": "readme"})
    assert capsys.readouterr().out


def test_first_block_prints_the_certified_interval(capsys):
    exec(compile(BLOCKS[0], "README block 0", "exec"), {"__name__": "readme"})
    upper, interval = capsys.readouterr().out.splitlines()
    # 10.053634770654059: tests/golden/exact_epsilon.json: contour integral in extended precision, cross-checked by FFT
    assert 10.053634770654059 <= float(upper) <= 10.053634770654059 + 1e-6
    assert interval.startswith("Interval(lower=10.0536")
