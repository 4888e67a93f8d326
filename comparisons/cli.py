"""The command line: one module per command, found in a table.

A command's module has `add_arguments(parser)` and `run(arguments) -> exit code`, and may name another function for the
latter in the table. Its first docstring line is the help text.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Sequence

COMMANDS = {
    "list": ("comparisons.listing", "cases and methods, one line each"),
    "run": ("comparisons.run", "cases through methods: a table per case and a CSV"),
    "quickstart": ("comparisons.quickstart", "one case through all methods, table and picture, in under a minute"),
    "figures": ("comparisons.figures", "the paper's Figures 2 to 5 and ours, PNG and SVG, from a CSV"),
    "table": ("comparisons.table", "the paper's Table 1, measured: from the rows of `figures`"),
    "speed": ("comparisons.speed", "our accountants against each peer: medians and ratios in one process"),
    "findings": ("comparisons.findings", "the peers' wrong answers, reproduced live against the exact value"),
    "batches": ("comparisons.batches", "every way to draw batches: epsilon against noise; random allocation against PLD-accounting"),
    "allocations": ("comparisons.allocation_scan", "random allocation over noise, batches, epochs and delta: widths and CPU seconds"),
    "summary": ("comparisons.summary", "the CSVs and pictures of a directory as one Markdown page; measures nothing"),
    "selection": ("comparisons.selection", "the cost of tuning, against RdpAccountant, as one page"),
    "all": ("comparisons.everything", "everything but the campaigns (truth, verified) into one directory; continues a run"),
    "truth": ("comparisons.truth", "random events against the exact value: violations, widths, times"),
    "verified": ("comparisons.verified", "the stored cases of a truth campaign, proved or refused by the checker"),
}


def build_parser(wanted: str | None = None) -> argparse.ArgumentParser:
    """The parser; only the module of the command that is `wanted` is imported."""
    parser = argparse.ArgumentParser(
        prog="python -m comparisons", description="The same events through every privacy accountant.",
        epilog="Start with: python -m comparisons quickstart",
    )  # fmt: skip
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, line) in COMMANDS.items():
        command = commands.add_parser(name, help=line, description=line[0].upper() + line[1:] + ".")
        if name == wanted:
            importlib.import_module(module).add_arguments(command)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; what the user can mend is one sentence and exit code 2."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    command = next((word for word in words if word in COMMANDS), None)
    try:
        parsed = build_parser(command).parse_args(words)
        return int(importlib.import_module(COMMANDS[parsed.command][0]).run(parsed))
    except ImportError as error:
        print(f"comparisons {command}: {error}. Try: pip install -e '.[comparisons]'", file=sys.stderr)
        return 2
    except (ValueError, OSError) as error:
        print(f"comparisons {command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("Interrupted. The rows that were finished are in the CSV; --resume continues there.", file=sys.stderr)
        return 130
