"""`allocations`: random allocation at all ordinary noise, batches, epochs and deltas: widths, and CPU seconds of new questions.

Writes `allocation-scan.csv`, one row per question, and says per noise, epochs and delta: the widest interval, the largest time, and how
much more the slowest number of batches costs than the quickest.
"""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dp_accounting import GaussianDpEvent, NeighboringRelation, SelfComposedDpEvent

from comparisons import report
from comparisons.timing import cpu_seconds, warm_up
from dp_edgeworth import EdgeworthIntervalAccountant, RandomAllocationDpEvent

NOISES = (0.3, 0.5, 0.7, 1.0, 2.0, 4.0, 10.0)
BATCHES = (2, 10, 100, 1000, 10_000, 100_000, 1_000_000)
EPOCHS = (1, 10, 100, 1000)
DELTAS = (1e-5, 1e-8, 1e-12)
_TIMED_FROM = 10  # batches
_NUDGE = 1e-7


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to, and which part of the grid."""
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="for the CSV (default: out)")
    parser.add_argument("--noises", type=float, nargs="+", default=NOISES, metavar="SIGMA")
    parser.add_argument("--batches", type=int, nargs="+", default=BATCHES, metavar="T")
    parser.add_argument("--epochs", type=int, nargs="+", default=EPOCHS, metavar="E")
    parser.add_argument("--deltas", type=float, nargs="+", default=DELTAS, metavar="DELTA")
    parser.add_argument("--repeats", type=int, default=2, metavar="N", help="of every time; the least one counts (default: 2)")


def run(arguments: argparse.Namespace) -> int:
    """Asks, writes and says."""
    directory = report.prepare(arguments.out)
    rows = []
    with report.table_file(directory / "allocation-scan.csv", ["noise_multiplier", "batches", "epochs", "delta", "lower", "upper",
                                                               "width", "seconds"]) as write:
        for row in scan(arguments):
            write(row)
            rows.append(row)
    for line in summary(rows):
        report.console().print(line)
    return 0


def scan(arguments: argparse.Namespace) -> Iterator[dict[str, Any]]:
    """One row per question."""
    warm_up()
    numbers = itertools.count(1)
    for epochs, noise, delta, batches in itertools.product(arguments.epochs, arguments.noises, arguments.deltas, arguments.batches):
        seconds = []
        for _ in range(arguments.repeats):
            epoch = RandomAllocationDpEvent(GaussianDpEvent(noise * (1.0 + next(numbers) * _NUDGE)), 1, batches)
            event = SelfComposedDpEvent(epoch, epochs)
            accountant = EdgeworthIntervalAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE).compose(event)
            found: list[Any] = []
            seconds.append(cpu_seconds(lambda: found.append(accountant.get_epsilon_interval(delta))))  # noqa: B023
        lower, upper = found[0].lower, found[0].upper
        yield {"noise_multiplier": noise, "batches": batches, "epochs": epochs, "delta": delta, "lower": lower, "upper": upper,
               "width": width(lower, upper, epochs, delta), "seconds": round(min(seconds), 4)}


def width(lower: float, upper: float, epochs: int, delta: float) -> float:
    """As issue 18 counts: of one epoch at delta from 1e-8 on absolute below epsilon 1; relative otherwise."""
    scale = max(upper, 1.0) if epochs == 1 and delta >= 1e-8 else upper
    return float(f"{(upper - lower) / scale if scale > 0.0 else 0.0:.3g}")


def summary(rows: list[dict[str, Any]]) -> Iterator[str]:
    """One line per noise, epochs and delta."""
    def key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["epochs"], row["noise_multiplier"], row["delta"]

    for (epochs, noise, delta), group in itertools.groupby(rows, key):
        some = list(group)
        timed = [row["seconds"] for row in some if row["batches"] >= _TIMED_FROM] or [0.0]
        widest = max(some, key=lambda row: row["width"])
        ratio = max(timed) / max(min(timed), 1e-9)
        yield (f"epochs {epochs:>5}  noise {noise:<5g} delta {delta:g}: widest {widest['width']:.2g} (t {widest['batches']:,}), "
               f"slowest {max(row['seconds'] for row in some):.3g} s, slowest over quickest t {ratio:.2g}")
