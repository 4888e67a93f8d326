"""`speed`: our accountants against each peer, medians and ratios in one process, next to the targets.

A target is "at least" a ratio (peer's time / ours) or "at most" a number (an exponent, a width, a ratio of our times). Seconds are CPU
seconds, and no event is asked about twice (`timing`).
"""

from __future__ import annotations

import argparse
import cProfile
import functools
import io
import pstats
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

from comparisons import report, timing, workloads
from comparisons.methods import pick
from comparisons.timing import Result, Wanted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """What to measure, where to write."""
    parser.add_argument("workload", nargs="*", help=f"some of: {', '.join(workloads.WORKLOADS)}; none: all")
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="only rows whose name contains one of these")
    parser.add_argument("--no-peers", action="store_true", help="only our own times")
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="for speed.csv (default: out)")
    parser.add_argument("--resume", action="store_true", help="keep the workloads of DIR's CSV, measure the missing ones")
    parser.add_argument("--profile", action="store_true", help="also profile our slowest workload")


def run(arguments: argparse.Namespace) -> int:
    """Every result as a line when it comes, `speed.csv`, and a profile if asked for."""
    names = pick("WORKLOAD", arguments.workload, workloads.WORKLOADS) or list(workloads.WORKLOADS)
    wanted = Wanted(tuple(arguments.only), not arguments.no_peers)
    path = report.prepare(arguments.out) / "speed.csv"
    done = {line["workload"] for line in report.read_table(path)} if arguments.resume else set()
    with report.table_file(path, ["workload", *Result._fields, "met"], arguments.resume) as write:
        for name in names:
            for result in _results(name, wanted) if name not in done else ():
                write({"workload": name, **result._asdict(), "met": result.met})
                print(_line(result), flush=True)
    screen = report.console()
    screen.print(f"rows: {path}")
    if arguments.profile:
        screen.print(profile())
    return 0


def _results(name: str, wanted: Wanted) -> Iterator[Result]:
    """A workload's results, to four digits; one that fails is a result that says so."""
    try:
        yield from (result.rounded() for result in workloads.WORKLOADS[name](wanted))
    except Exception as error:
        yield Result(name, target="to finish", note=f"{type(error).__name__}: {error}"[:200])


def _line(result: Result) -> str:
    """A result as it is printed, readable while it is measured: one that misses its target is marked."""
    value = report.number(result.value, 3) if result.value is not None else ""
    mark = {"yes": "  ", "no": "! ", "": "  "}[result.met]
    times = f"{timing.clock(result.ours):>8} {timing.clock(result.peer):>8}"
    return f"{mark}{result.measured:74} {times} {value:>8}  {result.target:14} {result.note}".rstrip()


def cells(line: dict[str, str]) -> tuple[str, ...]:
    """A line of the CSV as it is shown."""
    ours, peer, value = (float(line[name]) if line[name] else None for name in ("ours", "peer", "value"))
    times = timing.clock(ours), timing.clock(peer)
    return (line["measured"], *times, report.number(value, 3), line["target"], line["met"], line["note"])


def profile(action: Callable[[], object] | None = None) -> str:
    """Where the time goes in our slowest workload, and how far it is from the arithmetic that cannot be avoided."""
    action = action or workloads.slowest()
    products = characteristic_products(action)
    seconds = timing.cpu_seconds(action)
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

    return 200 * 4096 / min(timing.cpu_seconds(action) for _ in range(5))

