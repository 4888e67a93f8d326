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

from rich.table import Table

from comparisons import report, workloads
from comparisons.methods import pick
from comparisons.workloads import Result


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to measure, where to write."""
    parser.add_argument("workload", nargs="*", help=f"some of: {', '.join(workloads.WORKLOADS)}; none: all")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="for speed.csv (default: out)")
    parser.add_argument("--profile", action="store_true", help="also profile our slowest workload")


def run(arguments: argparse.Namespace) -> int:
    """Results as they come, `speed.csv`, and a profile if asked for."""
    names = pick("WORKLOAD", arguments.workload, workloads.WORKLOADS) or list(workloads.WORKLOADS)
    path = report.prepare(arguments.out) / "speed.csv"
    screen = report.console()
    table = Table("measured", "ours", "peer", "ratio or value", "target", "met", "note")
    with report.table_file(path, ["workload", *Result._fields, "met"]) as write, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("absl").setLevel(logging.ERROR)  # RDP logs every order that it leaves out
        for name in names:
            report.console(stderr=True).print(f"measuring {name} ...", style="dim")
            for result in _results(name):
                write({"workload": name, **result._asdict(), "met": result.met})
                table.add_row(*_cells(result))
    screen.print(table)
    screen.print(f"rows: {path}")
    if arguments.profile:
        screen.print(profile())
    return 0


def _results(name: str) -> list[Result]:
    """A workload's results; one that fails is a result that says so."""
    try:
        return workloads.WORKLOADS[name]()
    except Exception as error:
        return [Result(name, note=f"{type(error).__name__}: {error}"[:200])]


def _cells(result: Result) -> tuple[str, ...]:
    times = [workloads.clock(seconds) for seconds in (result.ours, result.peer)]
    return (result.measured, *times, report.number(result.value, 3), result.target, result.met, result.note)


def profile() -> str:
    """Where the time goes in our slowest workload, beside the rate of complex multiply-adds of this machine."""
    action = workloads.slowest()
    action()
    profiler = cProfile.Profile()
    start = time.perf_counter()
    profiler.runcall(action)
    seconds = time.perf_counter() - start
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).sort_stats("tottime").print_stats(15)
    rate = multiply_add_rate()
    return (
        f"Slowest workload: {seconds:.3f} s. Complex multiply-adds per second here: {rate:.2e}, "
        f"so that time is worth {seconds * rate:.2e} of them.\n{text.getvalue()}"
    )


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
