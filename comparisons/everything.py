"""`all`: the whole committed run into one directory, and the page that shows it.

What is there already, of the same sources, versions and machine, is kept, so that a run can be stopped and continued; what is of
others is measured anew. The campaigns (`truth`, `verified`) are commands of their own: their exact values are stored and take hours.
"""

from __future__ import annotations

import argparse
import importlib
from pathlib import Path

from comparisons import report
from comparisons.runner import spent
from comparisons.summary import TABLES

#: The parts in order, each a command of its own.
PARTS: tuple[tuple[str, ...], ...] = (
    ("figures", "--resume", "--timeout", "15"), ("table",), ("speed", "--resume"), ("findings", "--resume"), ("batches",),
    ("selection",), ("summary",),
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Only the directory: limits and cases are those of a committed run."""
    parser.add_argument("--out", type=Path, default=Path("comparisons/results"), metavar="DIR", help="default: comparisons/results")
    parser.add_argument("--parts", nargs="+", choices=[part[0] for part in PARTS], metavar="PART", help="only these; default: all of "
                        + ", ".join(part[0] for part in PARTS))  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Every part, with its CPU time."""
    directory = report.prepare(arguments.out)
    for path in (directory / f"{name}.csv" for name in TABLES):
        if path.exists() and not report.of_this_version(path):
            path.unlink()
            report.console().print(f"{path}: of other sources, versions or machine; measured anew")
    for name, *words in PARTS:
        if arguments.parts and name not in arguments.parts:
            continue
        start = spent()
        parser = argparse.ArgumentParser(prog=f"python -m comparisons {name}")
        module = importlib.import_module(f"comparisons.{name}")
        module.add_arguments(parser)
        module.run(parser.parse_args([*words, "--out", str(directory)]))
        report.console().print(f"{name}: {spent() - start:.0f} CPU seconds\n")
    return 0
