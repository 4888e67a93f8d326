"""Does a test notice when a remainder of the checker is missing? Removes each in turn and runs
tests/checker/test_bounds_contain_the_truth.py.

    python tests/checker/mutations.py                the table, in Markdown
    python tests/checker/mutations.py --only cut     only the remainders whose name contains "cut"

A mutation is a replacement of text in a temporary copy of the checker; text that is not found exactly once is an error, so that a
remainder that was rewritten is not forgotten here. Exit code 1 if a removed remainder goes unnoticed. Not a test module.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TESTS = ("tests/checker/test_bounds_contain_the_truth.py", "tests/checker/test_classes.py")


class Mutation(NamedTuple):
    """One remainder: `old`, which occurs once in the checker, becomes `new`."""

    name: str
    old: str
    new: str


MUTATIONS = (
    Mutation("cut, upper end", "high = middle + cut +", "high = middle +"),
    Mutation("cut, lower end", "low = middle - cut -", "low = middle -"),
    Mutation("cut: growth beyond the calm part", "size += sum((lively(", "size += 0 * sum((lively("),
    Mutation("cut: pieces that are lively as they are", "lively.append(piece)\n", "pass\n"),
    Mutation("cut: the shifted side", "boxes = [(width, acb(", "boxes = [(0 * width, acb("),
    Mutation("cut: the upright sides", "boxes += [(top / UPRIGHT, acb(", "boxes += [(0 * top, acb("),
    Mutation("cut: growth of the window", " * growth).upper()", ").upper()"),
    Mutation("cut: sinc of the cells", "* longer * (1 - sinc_sup(y * longer / 2))", "* longer"),
    Mutation("cut: floor of the cells", "ZERO.max(functools.reduce(arb.min, floors))", "functools.reduce(arb.max, floors)"),
    Mutation("aliases, all", "- sums.alias(epsilon) -", "-"),
    Mutation("aliases, left", "for tilt in (self.line.low, self.line.high):", "for tilt in (self.line.high,):"),
    Mutation("aliases, right", "for tilt in (self.line.low, self.line.high):", "for tilt in (self.line.low,):"),
    Mutation("price of smoothing", "- sums.price(epsilon)\n", "\n"),
    Mutation("calm outcomes", "+ sums.calm(epsilon) +", "+"),
    Mutation("tail", "sums.calm(epsilon) + sums.missing\n", "sums.calm(epsilon)\n"),
    Mutation("tail, upper", "+ [(high, None)] * (piece.high is None)", ""),
    Mutation("tail, lower", "gaps = [(None, low)] * (piece.low is None) + ", "gaps = "),
    Mutation("tail of Chernoff's bound",
             "sums.chernoff(sums.all, line.c, epsilon) + sums.missing", "sums.chernoff(sums.all, line.c, epsilon)"),
    Mutation("rule, real", ", ZERO) + self.error(sigma, ZERO)", ", ZERO)"),
    Mutation("rule, on the line", "found = [value + acb(error, error) for value in", "found = [value for value in"),
    Mutation("infinite mass", "Contour(leaves, line), infinite_mass(leaves)", "Contour(leaves, line), ZERO"),
    Mutation("members of classes", "found, least = answers[0][1], answers[-1][1]", "found = least = answers[0][1]"),
    Mutation("Renyi curves between their orders only",
             "if not proved(left <= c) or not proved(c <= right):", "if not proved(left <= c):"),
    Mutation("no transform of a Renyi curve", "and (line.last or leaf.curve is None)", "and leaf.curve is None"),
    Mutation("beyond the points of a profile", "infinite=infinite, lost=lost, mirror=True)", "lost=lost, mirror=True)"),
    Mutation("one exponential: its lower end", "((1, piece.high), (-1, piece.low))", "((1, piece.high),)"),
    Mutation("chords only: hull of a profile", "not proved(_slope(hull[-2], hull[-1]) < _slope(hull[-1], (x, v, u)))", "False"),
)


def copied(directory: pathlib.Path) -> None:
    for name in ("dp_edgeworth", "comparisons", "tests"):
        shutil.copytree(ROOT / name, directory / name, ignore=shutil.ignore_patterns("__pycache__", "*.png", "*.svg", "*.csv"))
    shutil.copy(ROOT / "pyproject.toml", directory)


def mutate(root: pathlib.Path, mutation: Mutation) -> None:
    texts = {path: path.read_text() for path in (root / "dp_edgeworth" / "checker").glob("*.py")}
    found = [path for path, text in texts.items() if mutation.old in text]
    if sum(text.count(mutation.old) for text in texts.values()) != 1:
        raise SystemExit(
            f"{mutation.name}: the checker must contain the text once. Found it in {[path.name for path in found]}: {mutation.old}"
        )
    found[0].write_text(texts[found[0]].replace(mutation.old, mutation.new))


def first_failure(mutation: Mutation | None) -> str:
    """The name of the first test that fails, or ""."""
    with tempfile.TemporaryDirectory(prefix="checker_mutation_") as scratch:
        copied(pathlib.Path(scratch))
        if mutation is not None:
            mutate(pathlib.Path(scratch), mutation)
        variables = {**os.environ, "PYTHONPATH": scratch, "PYTHONDONTWRITEBYTECODE": "1"}
        command = [sys.executable, "-m", "pytest", "-x", "-n", "0", "-p", "no:cacheprovider", *TESTS]
        done = subprocess.run(command, cwd=scratch, env=variables, capture_output=True, text=True, check=False)
    failed = re.findall(r"^FAILED \S+::(\S+)", done.stdout, re.MULTILINE)
    if done.returncode not in (0, 1) or (done.returncode == 1 and not failed):
        raise SystemExit(f"the tests did not run: {done.stdout[-2000:]}{done.stderr[-2000:]}")
    return failed[0] if failed else ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", metavar="TEXT", help="only remainders whose name contains this")
    chosen = [mutation for mutation in MUTATIONS if parser.parse_args().only in mutation.name]
    if failed := first_failure(None):
        raise SystemExit(f"{failed} fails without any mutation")
    print("| removed remainder | noticed by |\n|---|---|", flush=True)
    unnoticed = 0
    for mutation in chosen:
        failed = first_failure(mutation)
        unnoticed += not failed
        print(f"| {mutation.name} | {f'`{failed}`' if failed else '**nothing**'} |", flush=True)
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
