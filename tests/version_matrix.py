"""The same answers with the oldest and the newest numpy, scipy and dp-accounting: one table of numbers per virtual environment.

    python tests/version_matrix.py                  the numbers, compared to 1e-12 (relative above 1; deltas to 1e-11 relative, too)
    python tests/version_matrix.py --tests          and the whole test suite in all of them
    python tests/version_matrix.py --directory D    keep the environments (and use them again)

The oldest environment has the lower bounds of pyproject.toml (dp-accounting 0.4.3, which tensorflow-privacy pins), the middle one
dp-accounting 0.5.1 (pfl needs one below 0.6). Numbers are every event of `cases.py` in every relation, by all accountants; the oldest
dp-accounting lacks five event classes, whose rows are left out there. Exit code 1 if any differs from the
newest environment's. Not a test module: pytest does not collect it.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parent.parent
NAMES = ("numpy", "scipy", "dp-accounting")
MIDDLE = ("numpy", "scipy", "dp-accounting==0.5.1")
DELTAS, EPSILONS = (1e-12, 1e-5, 0.1), (0.5, 3.0)
AGREEMENT, RELATIVE_AGREEMENT = 1e-12, 1e-11
TEST_TOOLS = ("mpmath", "python-flint", "rich", "matplotlib", "prv-accountant==0.2.0", "pytest", "pytest-xdist", "hypothesis")


def lower_bounds() -> list[str]:
    """The requirements of pyproject.toml with == for >=."""
    (listed,) = re.findall(r"^dependencies = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    found = dict(re.findall(r'"([\w-]+)>=([\d.]+)"', listed))
    return [f"{name}=={found[name]}" for name in NAMES]


def environment(directory: pathlib.Path, requirements: list[str]) -> pathlib.Path:
    """The Python of a virtual environment with these requirements; an existing one is used as it is."""
    python = directory / "bin" / "python"
    if not python.exists():
        venv.create(directory, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", *requirements], check=True)
    return python


def run(python: pathlib.Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs this work tree, not an installed package, in an environment."""
    variables = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tests'}", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return subprocess.run([python, *arguments], cwd=ROOT, env=variables, text=True, stdout=subprocess.PIPE, check=False)


def answers() -> dict[str, float]:
    """Every number, by a name that says what it is. Runs inside an environment."""
    import warnings

    import cases

    import dp_edgeworth

    warnings.simplefilter("ignore", dp_edgeworth.NotAGuaranteeWarning)
    found: dict[str, float] = {}
    for case, relation in cases.supported():
        name = f"{case.name}, {relation.name}"
        certified = dp_edgeworth.EdgeworthIntervalAccountant(relation).compose(case.event)
        estimates = {
            "plain": dp_edgeworth.ApproximateEdgeworthAccountant(relation).compose(case.event),
            "tilted": dp_edgeworth.ApproximateEdgeworthAccountant(relation, tilted=True).compose(case.event),
        }
        for delta in DELTAS:
            for end, value in certified.get_epsilon_interval(delta)._asdict().items():
                found[f"{name}: epsilon {end} at delta {delta:g}"] = value
            for kind, accountant in estimates.items():
                found[f"{name}: epsilon {kind} at delta {delta:g}"] = accountant.get_epsilon(delta)
        for epsilon in EPSILONS:
            for end, value in certified.get_delta_interval(epsilon)._asdict().items():
                found[f"{name}: delta {end} at epsilon {epsilon:g}"] = value
    return found


def difference(name: str, a: float, b: float) -> float:
    """In units of the agreement; that of a delta is the larger of both kinds. Equal infinities do not differ."""
    if a == b:
        return 0.0
    if not math.isfinite(a - b):
        return math.inf
    size = max(abs(a), abs(b))
    relative = abs(a - b) / size / RELATIVE_AGREEMENT if ": delta" in name else 0.0
    return max(abs(a - b) / max(size, 1.0) / AGREEMENT, relative)


def compare(old: dict[str, float], new: dict[str, float]) -> int:
    """Prints the largest differences; how many are above the agreement. The older side may lack questions, not have more."""
    if not old.keys() <= new.keys():
        raise SystemExit(f"different questions: {sorted(old.keys() - new.keys())[:5]}")
    worst = sorted(((difference(name, old[name], new[name]), name) for name in old), reverse=True)
    apart = [item for item in worst if item[0] > 1.0]
    for size, name in (apart or worst)[:20]:
        print(f"  {size:.2g}  {name}: {old[name]!r} {new[name]!r}")
    print(f"{len(old)} numbers of {len(new)}, largest difference {worst[0][0]:.2g} of what is allowed, {len(apart)} above it")
    return len(apart)


def versions(python: pathlib.Path) -> str:
    code = f"import importlib.metadata as m; print(*(n + ' ' + m.version(n) for n in {NAMES!r}), sep=', ')"
    return run(python, "-c", code).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", action="store_true", help="run the test suite in every environment, too")
    parser.add_argument("--directory", type=pathlib.Path, default=None, help="where the environments are (default: temporary)")
    parser.add_argument("--answers", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.answers:
        json.dump(answers(), sys.stdout)
        return 0
    with tempfile.TemporaryDirectory(prefix="version_matrix_") as scratch:
        directory = arguments.directory or pathlib.Path(scratch)
        extra = list(TEST_TOOLS) if arguments.tests else []
        pythons = [environment(directory / name, needs + extra)
                   for name, needs in (("oldest", lower_bounds()), ("middle", list(MIDDLE)), ("newest", list(NAMES)))]
        found, failed = [], 0
        for python in pythons:
            print(versions(python), flush=True)
            done = run(python, __file__, "--answers")
            if done.returncode:
                raise SystemExit(f"no answers with {versions(python)}")
            found.append(json.loads(done.stdout))
        failed = sum(compare(older, found[-1]) for older in found[:-1])
        for python in pythons if arguments.tests else []:
            done = run(python, "-m", "pytest", "-n", "2", "-m", "", "tests")
            print(f"tests with {versions(python)}: exit code {done.returncode}\n{done.stdout[-2000:]}")
            failed += done.returncode != 0
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
