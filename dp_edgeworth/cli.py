"""`dp-edgeworth`: privacy statements, calibration, sweeps, event-tree analysis and curves from the command line.

    dp-edgeworth epsilon   --sampling_probability 0.01 --noise_multiplier 0.8 --steps 10000 --target_delta 1e-5
    dp-edgeworth delta     --event ledger.json --target_epsilon 2
    dp-edgeworth calibrate --batch_size 256 --dataset_size 60000 --epochs 10 --target_epsilon 2 --target_delta 1e-6
    dp-edgeworth sweep     --sampling_probability 0.001:0.1:30:log --noise_multiplier 0.6:3:30 --steps 10000
                           --target_delta 1e-5 --csv sweep.csv --png sweep.png
    dp-edgeworth explain   --event ledger.json --target_delta 1e-5
    dp-edgeworth curve     --event ledger.json --png curve.png
    dp-edgeworth sampling  --batch_size 256 --dataset_size 60000 --epochs 15 --noise_multiplier 1.1 --target_delta 1e-5

Flags have the names of dp-accounting's parameters; `--event` takes a file in the format of docs/event-json.md, or - for
standard input; `--json` prints data. Exit codes: 0 answered, 1 cannot be certified, 2 bad input.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from typing import Any, NoReturn, TextIO

import numpy as np
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation, UnsupportedEventError

from dp_edgeworth.analysis import curves, explanation, planning, report, sampling, statement, sweeps
from dp_edgeworth.events import description, serialization

ANSWERED, NOT_CERTIFIED, BAD_INPUT = 0, 1, 2
_SEVERAL = "a number, a list a,b,c, or a range low:high:points[:log]"


class _UsageError(ValueError):
    """The arguments do not fit the command."""


class _Parser(argparse.ArgumentParser):
    """One sentence instead of the whole usage, so that `--json` and the exit code are those of any bad input."""

    def error(self, message: str) -> NoReturn:
        raise _UsageError(f"{message.rstrip('.')}. See {self.prog} --help.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    code = ANSWERED
    try:
        try:
            options = _parser().parse_args(given)
            code = options.run(options)
        except SystemExit as stop:  # --help
            code = int(stop.code or 0)
        except BrokenPipeError:
            raise
        except (UnsupportedEventError, planning.BudgetError) as error:
            code = NOT_CERTIFIED
            _fail("--json" in given, error, code)
        except (ValueError, TypeError, OverflowError, OSError, ImportError, RecursionError, MemoryError) as error:
            code = BAD_INPUT
            _fail("--json" in given, error, code)
        _write("", sys.stdout)
    except BrokenPipeError:  # the reader of our output has seen enough
        for stream in filter(None, (sys.stdout, sys.stderr)):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return code


def _fail(as_json: bool, error: BaseException, code: int) -> None:
    sentence = " ".join(str(error).split())[:500] or type(error).__name__
    _write(f"dp-edgeworth: {sentence}\n", sys.stderr)
    if as_json:
        _write(json.dumps({"error": sentence, "exit_code": code}) + "\n", sys.stdout)


def _write(text: str, stream: TextIO | None) -> None:
    """At once, so that a reader that is gone is noticed here; a stream that was closed before we started (None) takes nothing."""
    if stream is not None:
        stream.write(text)
        stream.flush()


def _print(options: argparse.Namespace, data: dict[str, Any], text: str) -> None:
    _write((json.dumps(report.finite(data), indent=2) if options.json else text) + "\n", sys.stdout)


# commands ------------------------------------------------------------------------------------------------------------


def _epsilon(options: argparse.Namespace) -> int:
    answer = statement.epsilon_statement(_event(options), options.target_delta, _relation(options),
                                         tolerance=options.tolerance)
    _print(options, answer.to_dict(), str(answer))
    return ANSWERED if answer.certified else NOT_CERTIFIED


def _delta(options: argparse.Namespace) -> int:
    answer = statement.delta_statement(_event(options), options.target_epsilon, _relation(options),
                                       tolerance=options.tolerance)
    _print(options, answer.to_dict(), str(answer))
    return ANSWERED if answer.certified else NOT_CERTIFIED


def _calibrate(options: argparse.Namespace) -> int:
    """Solves for the one of noise multiplier, steps and sampling probability that was not given."""
    budget = {"target_epsilon": options.target_epsilon, "target_delta": options.target_delta,
              "neighboring_relation": _relation(options)}
    batches = {"batch_size": options.batch_size, "dataset_size": options.dataset_size}
    sampled = any(value is not None for value in (options.sampling_probability, *batches.values()))
    probability, noise, steps = options.sampling_probability, options.noise_multiplier, options.steps
    if noise is None:
        probability = planning.sampling(probability, **batches)
        steps = planning.number_of_steps(probability, steps, options.epochs)
        found, noise = "noise_multiplier", planning.calibrate_noise(
            sampling_probability=probability, steps=steps, **budget)
    elif steps is None and options.epochs is None:
        probability = planning.sampling(probability, **batches)
        found, steps = "steps", planning.max_steps(noise_multiplier=noise, sampling_probability=probability, **budget)
    elif not sampled and steps is not None:
        found, probability = "sampling_probability", planning.max_sampling_probability(
            noise_multiplier=noise, steps=steps, **budget)
    else:
        raise ValueError("One of `noise_multiplier`, `steps` and `sampling_probability` must be left out: "
                         "it is solved for.")
    values = {"sampling_probability": probability, "noise_multiplier": noise, "steps": steps}
    if not values[found] and found != "noise_multiplier":  # without noise everything may be within the budget
        raise planning.BudgetError(f"No positive `{found}` is within the budget.")
    answer = statement.epsilon_statement(planning.sampled_gaussian(probability, noise, steps), options.target_delta,
                                         _relation(options), tolerance=options.tolerance)
    data = {"solved_for": found, **values, "statement": answer.to_dict()}
    _print(options, data, f"{found} = {values[found]!r}\n{answer}")
    return ANSWERED if answer.certified else NOT_CERTIFIED


def _sweep(options: argparse.Namespace) -> int:
    result = sweeps.sweep(
        sampling_probability=options.sampling_probability, noise_multiplier=options.noise_multiplier,
        steps=options.steps, target_delta=options.target_delta,
        neighboring_relation=_relation(options), certified=options.certified, tolerance=options.tolerance)
    table = result.to_csv(options.csv)
    if options.png:
        _save(result.plot().figure, options.png)
    data = {"target_delta": result.target_delta, "neighboring_relation": result.neighboring_relation.name,
            "certified": result.certified, **{name: axis.tolist() for name, axis in result.axes.items()},
            **{side: getattr(result, side).tolist() for side in ("lower", "estimate", "upper")}}
    note = "" if options.certified else "estimates, not guarantees: use --certified for proved bounds"
    written = ", ".join(str(name) for name in (options.csv, options.png) if name)
    _print(options, data, f"{result.epsilon.size} points written to {written}" if written else table.rstrip())
    if note and not options.json:
        _write(f"{note}\n", sys.stderr)
    proved = bool(np.all((result.upper < np.inf) | (result.lower == np.inf)))
    return ANSWERED if proved or not options.certified else NOT_CERTIFIED


def _explain(options: argparse.Namespace) -> int:
    answer = explanation.explain(_event(options), target_delta=options.target_delta, limit=options.limit,
                              neighboring_relation=_relation(options), tolerance=options.tolerance)
    if options.png:
        _save(answer.plot().figure, options.png)
    _write(f"{answer.to_json() if options.json else answer}\n", sys.stdout)
    return ANSWERED if answer.interval.upper < np.inf or answer.interval.lower == np.inf else NOT_CERTIFIED


def _curve(options: argparse.Namespace) -> int:
    answer = curves.curves(_event(options), _relation(options), points=options.points, tolerance=options.tolerance)
    if options.png:
        _save(answer.plot()[0].figure, options.png)
    text = (f"advantage (total variation) <= {description.rounded_up(answer.advantage)}\n"
            f"Gaussian mu <= {description.rounded_up(answer.gdp_mu)}"
            + (f"\nwritten to {options.png}" if options.png else ""))
    _print(options, answer.to_dict(), text)
    proved = np.any(answer.delta.upper < 1.0) or np.all(answer.delta.lower >= 1.0)
    return ANSWERED if proved else NOT_CERTIFIED


def _sampling(options: argparse.Namespace) -> int:
    answer = sampling.compare_sampling(
        batch_size=options.batch_size, dataset_size=options.dataset_size, epochs=options.epochs, target_delta=options.target_delta,
        noise_multiplier=options.noise_multiplier, target_epsilon=options.target_epsilon,
        truncated_batch_size=options.truncated_batch_size)
    if options.csv:
        answer.to_csv(options.csv)
    if options.png:
        _save(answer.plot().figure, options.png)
    _write(f"{answer.to_json() if options.json else answer}\n", sys.stdout)
    proved = all(row.interval.upper < np.inf or row.interval.lower == np.inf for row in answer.rows)
    return ANSWERED if proved else NOT_CERTIFIED


# options -------------------------------------------------------------------------------------------------------------


def _relation(options: argparse.Namespace) -> NeighboringRelation:
    return NeighboringRelation[options.neighboring_relation]


def _event(options: argparse.Namespace) -> dp_event.DpEvent:
    """From the file, or from the flags of the common recipe."""
    if options.event is not None:
        for name in ("noise_multiplier", "sampling_probability", "batch_size", "dataset_size", "steps", "epochs"):
            if getattr(options, name) is not None:
                raise ValueError(f"`--event` must not be given together with `--{name}`.")
        return serialization.from_json(_text(options.event))
    if options.noise_multiplier is None:
        raise ValueError("`--event` or `--noise_multiplier` must be given.")
    unsampled = options.sampling_probability is None and options.batch_size is None and options.dataset_size is None
    probability = planning.sampling(1.0 if unsampled else options.sampling_probability, options.batch_size,
                                    options.dataset_size)
    steps = 1 if options.steps is None and options.epochs is None else planning.number_of_steps(
        probability, options.steps, options.epochs)
    return planning.sampled_gaussian(probability, options.noise_multiplier, steps)


def _text(path: str) -> bytes:
    """The file, one byte more than the format allows at most."""
    limit = serialization.MAX_BYTES + 1
    if path == "-":
        if sys.stdin is None:
            raise ValueError("`--event` must not be - where standard input is closed.")
        return sys.stdin.buffer.read(limit)
    with open(path, "rb") as file:
        return file.read(limit)


def _save(figure: Any, path: str) -> None:
    figure.savefig(path, dpi=150)
    from matplotlib import pyplot

    pyplot.close(figure)


def _several(text: str) -> list[float]:
    """a,b,c or low:high:points[:log]."""
    try:
        if ":" not in text:
            return [float(item) for item in text.split(",")]
        low, high, points, *spacing = text.split(":")
        ends, space = (float(low), float(high)), np.geomspace if spacing else np.linspace
        least = 5e-324 if spacing else -1e300
        if spacing not in ([], ["log"]) or not all(least <= end <= 1e300 for end in ends) or not 1 <= int(points) <= 100_000:
            raise ValueError
        return [float(value) for value in space(*ends, int(points))]
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be {_SEVERAL}. Found {text!r}") from None


def _counts(text: str) -> list[int]:
    """The same for numbers of steps: a range is rounded, a list must hold integers."""
    values = _several(text)
    if not np.all(np.isfinite(values)) or (":" not in text and not all(value.is_integer() for value in values)):
        raise argparse.ArgumentTypeError(f"must be integers. Found {text!r}")
    return [round(value) for value in values]


def _flag(parser: Any, name: str, **settings: Any) -> None:
    """--noise_multiplier as dp-accounting spells it, and --noise-multiplier."""
    parser.add_argument(f"--{name}", *([f"--{name.replace('_', '-')}"] if "_" in name else []), **settings)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(prog="dp-edgeworth", description=__doc__.split("\n", 1)[0].replace("`", ""),
                     epilog="Exit codes: 0 answered, 1 cannot be certified, 2 bad input.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    for name, run, words, targets in (
            ("epsilon", _epsilon, "certified epsilon at a delta", ("delta",)),
            ("delta", _delta, "certified delta at an epsilon", ("epsilon",)),
            ("calibrate", _calibrate, "the parameter that is left out, from a budget", ("epsilon", "delta")),
            ("sweep", _sweep, "epsilon over a grid, as CSV and as a heat map", ("delta",)),
            ("explain", _explain, "where the loss of an event tree comes from", ("delta",)),
            ("curve", _curve, "delta(epsilon) and the trade-off curve", ())):
        command = commands.add_parser(name, help=words, description=words)
        command.set_defaults(run=run)
        command.add_argument("--json", action="store_true", help="print JSON")
        for target in targets:
            _flag(command, f"target_{target}", type=float, required=True)
        _flag(command, "neighboring_relation", choices=[relation.name for relation in NeighboringRelation],
              default="ADD_OR_REMOVE_ONE")
        _flag(command, "tolerance", type=float, default=1e-6, help="width of the certified interval aimed at")
        _parameters(command, name)
    _sampling_parser(commands)
    return parser


def _sampling_parser(commands: Any) -> None:
    words = "one recipe under every way to draw its batches"
    command = commands.add_parser("sampling", help=words, description=words)
    command.set_defaults(run=_sampling)
    command.add_argument("--json", action="store_true", help="print JSON")
    for name, kind, needed, text in (("batch_size", int, True, "records per batch"), ("dataset_size", int, True, "records in all"),
                                     ("epochs", float, True, "passes over the data"), ("target_delta", float, True, None),
                                     ("noise_multiplier", float, False, "standard deviation / sensitivity"),
                                     ("target_epsilon", float, False, "instead of the noise, which is then solved for"),
                                     ("truncated_batch_size", int, False, "largest batch of truncated Poisson sampling")):
        _flag(command, name, type=kind, required=needed, help=text)
    command.add_argument("--csv", metavar="FILE", help="write the table")
    command.add_argument("--png", metavar="FILE", help="write a picture (needs matplotlib)")


def _parameters(command: Any, name: str) -> None:
    kind, ending = (_several, f" ({_SEVERAL})") if name == "sweep" else (float, "")
    required = name == "sweep"
    _flag(command, "sampling_probability", type=kind, required=required, help="of Poisson sampling" + ending)
    _flag(command, "noise_multiplier", type=kind, required=required, help="standard deviation / sensitivity" + ending)
    _flag(command, "steps", type=_counts if required else int, required=required, help="how many" + ending)
    if name != "sweep":
        _flag(command, "batch_size", type=int, help="expected size of a Poisson sample")
        _flag(command, "dataset_size", type=int)
        _flag(command, "epochs", type=float, help="instead of --steps")
    if name not in ("sweep", "calibrate"):
        command.add_argument("--event", metavar="FILE", help="an event tree as JSON; - reads standard input")
    if name in ("sweep", "explain", "curve"):
        command.add_argument("--png", metavar="FILE", help="write a picture (needs matplotlib)")
    if name == "sweep":
        command.add_argument("--csv", metavar="FILE", help="write the table")
        command.add_argument("--certified", action="store_true", help="proved bounds instead of estimates")
    if name == "explain":
        command.add_argument("--limit", type=int, help="how many nodes to display")
    if name == "curve":
        command.add_argument("--points", type=int, default=101)


if __name__ == "__main__":
    sys.exit(main())
