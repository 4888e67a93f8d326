"""`batches`: every way to draw batches for one recipe, and random allocation against PLD-accounting in one process.

Writes `batch-sampling.csv` (epsilon against noise under all schemes) with its figure, and `random-allocation.csv` (both ends, CPU
seconds and the ratios of our method to PLD-accounting; `--without-peer` leaves that out, it takes minutes).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from dp_accounting import GaussianDpEvent, NeighboringRelation, SelfComposedDpEvent

from comparisons import report
from comparisons.methods import METHODS
from dp_edgeworth import RandomAllocationDpEvent, compare_sampling

_RECIPE: dict[str, Any] = {"batch_size": 256, "dataset_size": 60_000, "epochs": 15, "target_delta": 1e-5}
_RELATION = NeighboringRelation.ADD_OR_REMOVE_ONE
_NOISES = np.geomspace(0.5, 8.0, 13)
_ALLOCATIONS = ((1.0, 1000, 1, 1e-6), (0.8, 100, 1, 1e-6), (1.1, 234, 15, 1e-5))  # noise, batches, epochs, delta
_COLOURS = ("#0072B2", "#56B4E9", "#009E73", "#000000", "#E69F00", "#CC79A7", "#D55E00")
_STYLES = {"ADD_OR_REMOVE_ONE": "-", "REPLACE_SPECIAL": ":", "REPLACE_ONE": "--"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to, and what to leave out."""
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="for CSV and pictures (default: out)")
    parser.add_argument("--without-peer", action="store_true", help="leave PLD-accounting out, which takes minutes")


def run(arguments: argparse.Namespace) -> int:
    """Measures, writes both CSVs and draws the figure; what is there already, of these sources, is kept."""
    directory = report.prepare(arguments.out)
    if report.of_this_version(directory / "random-allocation.csv"):
        return 0
    rows = schemes()
    _write(directory / "batch-sampling.csv", rows)
    report.console().print(f"picture: {draw(rows, directory)}")
    if not arguments.without_peer:
        found = allocations()
        _write(directory / "random-allocation.csv", found)
        for row in found:
            report.console().print(row)
    return 0


def schemes() -> list[dict[str, Any]]:
    """epsilon of every scheme at every noise."""
    return [{"noise_multiplier": round(float(noise), 6), "scheme": row.scheme, "neighboring_relation": row.neighboring_relation,
             "epsilon_lower": row.interval.lower, "epsilon_upper": row.interval.upper}
            for noise in _NOISES for row in compare_sampling(noise_multiplier=float(noise), **_RECIPE).rows]


def draw(rows: list[dict[str, Any]], directory: Path) -> Path:
    """epsilon against noise: one line per scheme, a band where only two bounds are known; line styles are the neighboring relations."""
    from comparisons import plots

    figure, (axis,) = plots.panels(1, 6.2, 4.2)
    for colour, name in zip(_COLOURS, dict.fromkeys(row["scheme"] for row in rows), strict=False):
        mine = [row for row in rows if row["scheme"] == name]
        noises, lower, upper = (np.array([row[key] for row in mine]) for key in ("noise_multiplier", "epsilon_lower", "epsilon_upper"))
        relation = mine[0]["neighboring_relation"]
        axis.plot(noises, upper, _STYLES[relation], color=colour, label=f"{name} ({relation})")
        if np.any(upper > 1.01 * lower):
            axis.fill_between(noises, lower, upper, color=colour, alpha=0.2, linewidth=0.0)
    axis.set(xscale="log", yscale="log", xlabel="noise multiplier", ylabel="epsilon at delta 1e-5",
             title="256 of 60,000 records, 15 epochs; not comparable across relations")
    axis.legend(fontsize=6)
    return plots.save(figure, directory, "batch-sampling")[0]


def allocations() -> list[dict[str, Any]]:
    """Both methods on the same epochs, in this process."""
    rows = []
    for noise, batches, epochs, delta in _ALLOCATIONS:
        event = SelfComposedDpEvent(RandomAllocationDpEvent(GaussianDpEvent(noise), 1, batches), epochs)
        ours, our_seconds = _timed(lambda: METHODS["EW_CERTIFIED"].ends(event, delta, _RELATION))  # noqa: B023
        peers, peer_seconds = _timed(lambda: METHODS["PLD_ALLOCATION"].ends(event, delta, _RELATION))  # noqa: B023
        width, peer_width = ours[2] - ours[0], peers[2] - peers[0]
        rows.append({"noise_multiplier": noise, "batches": batches, "epochs": epochs, "delta": delta,
                     "lower": ours[0], "upper": ours[2],
                     "seconds": round(our_seconds, 4), "peer_lower": peers[0], "peer_upper": peers[2],
                     "peer_seconds": round(peer_seconds, 2), "times_faster": round(peer_seconds / our_seconds),
                     "times_narrower": float(f"{peer_width / width:.3g}"),
                     "overlap": ours[0] <= peers[2] and peers[0] <= ours[2]})
    return rows


def _timed(ask: Callable[[], Any]) -> tuple[Any, float]:
    start = time.process_time()
    answer = ask()
    return answer, time.process_time() - start


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    with report.table_file(path, list(rows[0])) as write:
        for row in rows:
            write(row)
