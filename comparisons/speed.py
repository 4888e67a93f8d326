"""`speed`: our accountants against each peer, medians and ratios in one process, next to the targets.

A target is "at least" a ratio (peer's time / ours) or "at most" a number (an exponent, a width, a ratio of our times). Seconds are CPU
seconds, and no event is asked about twice (`timing`).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

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


def run(arguments: argparse.Namespace) -> int:
    """Every result as a line when it comes, and `speed.csv`."""
    names = pick("WORKLOAD", arguments.workload, workloads.WORKLOADS) or list(workloads.WORKLOADS)
    wanted = Wanted(tuple(arguments.only), not arguments.no_peers)
    path = report.prepare(arguments.out) / "speed.csv"
    done = {line["workload"] for line in report.read_table(path)} if arguments.resume else set()
    with report.table_file(path, ["workload", *Result._fields, "met"], arguments.resume) as write:
        for name in names:
            for result in _results(name, wanted) if name not in done else ():
                write({"workload": name, **result._asdict(), "met": result.met})
                print(_line(result), flush=True)
    report.console().print(f"rows: {path}")
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
