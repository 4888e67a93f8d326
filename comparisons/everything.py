"""`all`: the whole committed run into one directory, and the page that shows it. What is there already is kept."""

from __future__ import annotations

import argparse
import importlib
import time
from pathlib import Path

from comparisons import report

#: The parts in order, each a command of its own.
PARTS: tuple[tuple[str, ...], ...] = (
    ("figures", "--resume"), ("table", "--from-figures"), ("speed", "--resume"), ("findings", "--resume"), ("summary",),
)  # fmt: skip


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Only the directory: limits and cases are those of a committed run."""
    parser.add_argument("--out", type=Path, default=Path("comparisons/results"), metavar="DIR",
                        help="default: comparisons/results; delete its CSVs to measure anew")  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    """Every part, with its time."""
    directory = report.prepare(arguments.out)
    for name, *words in PARTS:
        start = time.perf_counter()
        parser = argparse.ArgumentParser(prog=f"python -m comparisons {name}")
        module = importlib.import_module(f"comparisons.{name}")
        module.add_arguments(parser)
        module.run(parser.parse_args([*words, "--out", str(directory)]))
        report.console().print(f"{name}: {time.perf_counter() - start:.0f} s\n")
    return 0
