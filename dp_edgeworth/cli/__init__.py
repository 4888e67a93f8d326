"""`dp-edgeworth`: privacy statements, calibration, sweeps, event-tree analysis, curves and reports from the command line.

    dp-edgeworth epsilon   --sampling-probability 0.01 --noise-multiplier 0.8 --steps 1e4 --target-delta 1e-5
    dp-edgeworth delta     --event ledger.json --target-epsilon 2
    dp-edgeworth calibrate --batch-size 256 --dataset-size 60000 --epochs 10 --target-epsilon 2 --target-delta 1e-6
    dp-edgeworth sweep     --sampling-probability 0.001:0.1:30:log --noise-multiplier 0.6:3:30 --steps 10000
                           --target-delta 1e-5 --csv sweep.csv --png sweep.png
    dp-edgeworth explain   --event ledger.json --target-delta 1e-5
    dp-edgeworth curve     --event ledger.json --png curve.png
    dp-edgeworth report    --event ledger.json --target-delta 1e-5 --out report.html
    dp-edgeworth certify   --event ledger.json --target-delta 1e-5 --out certificate.json
    dp-edgeworth verify    certificate.json
    dp-edgeworth sampling  --batch-size 256 --dataset-size 60000 --epochs 15 --noise-multiplier 1.1 --target-delta 1e-5

Options have the names of dp-accounting's parameters, with dashes or with underscores, and may be shortened as long as that is
unambiguous. `--event` takes a file in the format of docs/event-json.md, of an event or of an accountant, or - for standard input;
`--json` prints data.
`--verify` proves a statement in ball arithmetic.
Exit codes: 0 answered (`verify`: proved), 1 cannot be certified (not proved), 2 bad input.

    options    the parser                  commands       what each command does
    inputs     events and numbers          certificates   certify, verify, --verify
    output     where answers go

May import: every room; nothing imports it. A change here can print a number under the wrong name, and cannot make one false.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
from collections.abc import Sequence

from dp_accounting.privacy_accountant import UnsupportedEventError

from dp_edgeworth.analysis.budgets import BudgetError
from dp_edgeworth.analysis.progress import progress
from dp_edgeworth.cli import options
from dp_edgeworth.cli.output import ANSWERED, BAD_INPUT, NOT_CERTIFIED, write

__all__ = ["ANSWERED", "BAD_INPUT", "NOT_CERTIFIED", "main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    given = options.with_dashes(sys.argv[1:] if arguments is None else arguments)
    code = ANSWERED
    try:
        try:
            found = options.parser().parse_args(given)
            with progress(f"dp-edgeworth {found.command}"):
                code = found.run(found)
        except SystemExit as stop:  # --help, --version
            code = int(stop.code or 0)
        except BrokenPipeError:
            raise
        except (UnsupportedEventError, BudgetError) as error:
            code = NOT_CERTIFIED
            _fail(_as_json(given), error, code)
        except (ValueError, TypeError, OverflowError, OSError, ImportError, RecursionError, MemoryError) as error:
            code = BAD_INPUT
            _fail(_as_json(given), error, code)
        write("", sys.stdout)
    except BrokenPipeError:  # the reader of our output has seen enough
        for stream in filter(None, (sys.stdout, sys.stderr)):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


def _as_json(given: Sequence[str]) -> bool:
    return "--json" in given or "--format=json" in given or ("--format", "json") in itertools.pairwise(given)


def _fail(as_json: bool, error: BaseException, code: int) -> None:
    text = f"{error.filename}: {error.strerror}." if isinstance(error, OSError) and error.filename else str(error)
    sentence = " ".join(text.split())[:500] or type(error).__name__
    write(f"dp-edgeworth: {sentence}\n", sys.stderr)
    if as_json:
        write(json.dumps({"error": sentence, "exit_code": code}) + "\n", sys.stdout)
