"""`selection`: the cost of tuning, the best of a random number of runs, against RdpAccountant, as one page."""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

from dp_accounting import DpEvent, GaussianDpEvent, LaplaceDpEvent, dp_event
from dp_accounting.rdp import RdpAccountant

from comparisons import report
from comparisons.cases import dp_sgd
from dp_edgeworth import EdgeworthIntervalAccountant

RUNS: dict[str, DpEvent] = {
    "DP-SGD, p 0.01, noise 0.8, 1,000 steps": dp_sgd(0.01, 0.8, 1_000),
    "DP-SGD, p 0.004, noise 1.1, 15,000 steps": dp_sgd(0.004, 1.1, 15_000),
    "DP-SGD, p 0.1, noise 4, 500 steps": dp_sgd(0.1, 4.0, 500),
    "Gaussian, noise 5": GaussianDpEvent(5.0),
    "Laplace, noise 2": LaplaceDpEvent(2.0),
}
SHAPES = {"logarithmic": 0.0, "geometric": 1.0, "Poisson": math.inf}
HEADER = """# The cost of tuning: the best of a random number of runs

`RepeatAndSelectDpEvent(run, mean, shape)`, ADD_OR_REMOVE_ONE. `one run` is the certified epsilon of a single run, `tuned` the upper
end for the selection; its lower end is that of one run with a constant score. RDP: RdpAccountant with its default orders, whose bound
is that of Papernot and Steinke (2022). Seconds are CPU time for both deltas. Made by `python -m comparisons selection`.

| run | K | mean | delta | one run | tuned | RDP | tuned / RDP | s |
|---|---|---|---|---|---|---|---|---|
"""


def rows() -> list[str]:
    """One line per setting."""
    lines = []
    for name, run in RUNS.items():
        alone = EdgeworthIntervalAccountant().compose(run)
        for law, shape in SHAPES.items():
            for mean in (10.0, 30.0, 100.0):
                event = dp_event.RepeatAndSelectDpEvent(run, mean, shape)
                start = time.process_time()
                ours = EdgeworthIntervalAccountant().compose(event)
                found = {delta: ours.get_epsilon(delta) for delta in (1e-5, 1e-8)}
                seconds = time.process_time() - start
                peer = RdpAccountant().compose(event)
                for delta, tuned in found.items():
                    theirs = float(peer.get_epsilon(delta))
                    lines.append(f"| {name} | {law} | {mean:g} | {delta:g} | {alone.get_epsilon(delta):.4f} | {tuned:.4f} | "
                                 f"{theirs:.4f} | {tuned / theirs:.3f} | {seconds:.1f} |")
    return lines


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where to."""
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="for selection.md (default: out)")


def run(arguments: argparse.Namespace) -> int:
    """The page, unless it is there already, of these sources."""
    path = report.prepare(arguments.out) / "selection.md"
    if not path.exists() or f"sources {report.fingerprint()}" not in path.read_text(encoding="utf-8"):
        path.write_text(HEADER + "\n".join(rows()) + f"\n\nMeasured with {report.measured_with()}.\n", encoding="utf-8")
    report.console().print(f"page: {path}")
    return 0
