"""`speed`: our accountants against each peer, medians and ratios in one process, next to the targets.

A target is "at least" a ratio (peer's time / ours) or "at most" a number (an exponent, a width, a ratio of our times).
"""

from __future__ import annotations

import argparse
import cProfile
import functools
import io
import logging
import pstats
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from rich.markup import escape
from rich.table import Table

from comparisons import report, workloads
from comparisons.methods import pick
from comparisons.workloads import Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to measure, where to write."""
    parser.add_argument("workload", nargs="*", help=f"some of: {', '.join(workloads.WORKLOADS)}; none: all")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="for speed.csv (default: out)")
    parser.add_argument("--resume", action="store_true", help="keep the workloads of DIR's CSV, measure the missing ones")
    parser.add_argument("--profile", action="store_true", help="also profile our slowest workload")


def run(arguments: argparse.Namespace) -> int:
    """Results as they come, `speed.csv`, and a profile if asked for."""
    names = pick("WORKLOAD", arguments.workload, workloads.WORKLOADS) or list(workloads.WORKLOADS)
    path = report.prepare(arguments.out) / "speed.csv"
    done = {line["workload"] for line in report.read_table(path)} if arguments.resume else set()
    with (
        report.table_file(path, ["workload", *Result._fields, "met"], arguments.resume) as write,
        report.progress(len(names)) as (tell, advance),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        logging.getLogger("absl").setLevel(logging.ERROR)  # RDP logs every order that it leaves out
        for name in names:
            tell(f"measuring {name}")
            for result in _results(name) if name not in done else ():
                write({"workload": name, **result._asdict(), "met": result.met})
            advance()
    screen = report.console()
    screen.print(_table(report.read_table(path)))
    screen.print(f"rows: {path}")
    if arguments.profile:
        screen.print(profile())
    return 0


def _results(name: str) -> list[Result]:
    """A workload's results, to four digits; one that fails is a result that says so."""
    try:
        return [result.rounded() for result in workloads.WORKLOADS[name]()]
    except Exception as error:
        return [Result(name, target="to finish", note=f"{type(error).__name__}: {error}"[:200])]


def _table(lines: list[dict[str, str]]) -> Table:
    """The lines of the CSV."""
    table = Table("measured", "ours", "peer", "ratio or value", "target", "met", "note")
    for line in lines:
        table.add_row(*map(escape, cells(line)))
    return table


def cells(line: dict[str, str]) -> tuple[str, ...]:
    """A line of the CSV as it is shown."""
    ours, peer, value = (float(line[name]) if line[name] else None for name in ("ours", "peer", "value"))
    times = workloads.clock(ours), workloads.clock(peer)
    return (line["measured"], *times, report.number(value, 3), line["target"], line["met"], line["note"])


def profile(action: Callable[[], object] | None = None) -> str:
    """Where the time goes in our slowest workload, and how far it is from the arithmetic that cannot be avoided."""
    action = action or workloads.slowest()
    products = characteristic_products(action)
    seconds = workloads.median(action)
    profiler = cProfile.Profile()
    profiler.runcall(action)
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(15)
    least = products / multiply_add_rate()
    return (
        f"Slowest workload: {seconds:.3f} s. Its characteristic function takes {products:.2e} complex multiply-adds (leaves x nodes "
        f"x frequencies), at {multiply_add_rate():.2e} per second here {least:.3f} s: the whole is {seconds / least:.1f} times "
        f"that.\n{text.getvalue()}"
    )


def characteristic_products(action: Callable[[], object]) -> int:
    """Leaves x nodes x frequencies of all transforms that an action takes."""
    from dp_edgeworth.proofs import lattice
    from dp_edgeworth.sums import loss_sums

    counts: list[int] = []
    original = loss_sums.log_characteristic

    def counting(block: Any, transform: Any, step: float, last: int, **options: Any) -> Any:
        counts.append(transform.weights.size * last)
        return original(block, transform, step, last, **options)

    with (
        mock.patch.object(lattice, "log_characteristic", counting),
        mock.patch.object(loss_sums, "log_characteristic", counting),
    ):
        loss_sums._kept.cache_clear()  # what a leaf has told before would not be counted
        action()
    return sum(counts)


@functools.cache
def multiply_add_rate() -> float:
    """Complex multiply-adds per second in numpy, the arithmetic lower bound's unit."""
    import numpy as np

    a, b = np.full(4096, 0.5 + 0.1j), np.full(4096, 0.9 - 0.1j)

    def action() -> None:
        for _ in range(200):
            np.multiply(a, b, out=a)
            np.add(a, b, out=a)

    return 200 * 4096 / min(_elapsed(action) for _ in range(5))


def _elapsed(action: Callable[[], None]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start
