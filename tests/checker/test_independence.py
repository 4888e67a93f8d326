"""The checker stands alone: relative imports, the standard library and flint; as a top-level package and as a program."""

import ast
import json
import pathlib
import shutil
import subprocess
import sys

import pytest
import tampering

FOLDER = pathlib.Path(tampering.checker.__file__).parent
FORBIDDEN = """
import sys
class Nothing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numpy", "scipy", "dp_accounting", "dp_edgeworth", "attr", "mpmath"):
            raise ImportError(name)
sys.meta_path.insert(0, Nothing())
"""


def test_it_imports_the_standard_library_flint_and_itself():
    for path in FOLDER.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module]
            for name in names:
                assert name.split(".")[0] in sys.stdlib_module_names | {"flint"}, (path.name, name)


@pytest.fixture
def certificate(tmp_path):
    path = tmp_path / "certificate.json"
    path.write_text(json.dumps(tampering.TRUTHS[0].certificate()))
    return path


def run(directory, *command):
    done = subprocess.run(
        [sys.executable, "-I", *map(str, command)], cwd=directory, capture_output=True, text=True, check=False, timeout=120
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_a_top_level_package_without_numpy(tmp_path, certificate):
    shutil.copytree(FOLDER, tmp_path / "alone" / "checker", ignore=shutil.ignore_patterns("__pycache__"))
    program = (
        f"{FORBIDDEN}\nsys.path.insert(0, {str(tmp_path / 'alone')!r})\nimport checker\n"
        f"print(checker.verify(open({str(certificate)!r}).read()).proved)"
    )
    assert run(tmp_path, "-c", program).stdout.strip() == "True"


def test_a_program_in_a_folder(tmp_path, certificate):
    done = run(tmp_path, FOLDER, certificate)
    assert done.returncode == 0 and "upper: proved" in done.stdout and "lower: proved" in done.stdout


def test_a_program_in_any_folder(tmp_path, certificate):
    shutil.copytree(FOLDER, tmp_path / "elsewhere", ignore=shutil.ignore_patterns("__pycache__"))
    assert run(tmp_path, tmp_path / "elsewhere", certificate).returncode == 0


def test_exit_codes(tmp_path, certificate):
    data = json.loads(certificate.read_text())
    certificate.write_text(json.dumps({**data, "upper": "1.5"}))
    done = run(tmp_path, FOLDER, certificate)
    assert done.returncode == 1 and "upper: refuted" in done.stdout
    certificate.write_text("{")
    assert run(tmp_path, FOLDER, certificate).returncode == 2
    assert run(tmp_path, FOLDER, tmp_path / "none.json").returncode == 2
    assert run(tmp_path, FOLDER).returncode == 2
