"""The parser: which command takes which options, each with a help text."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, NoReturn

from dp_edgeworth.cli import certificates, commands
from dp_edgeworth.cli.inputs import SEVERAL, integer, relation, several, several_integers
from dp_edgeworth.version import __version__

_DESCRIPTION = "Certified privacy accounting: statements, calibration, sweeps, event-tree analysis, curves and reports."
_EPILOG = ("Options may be shortened as long as that is unambiguous (--noise 0.8), and spelled with underscores. "
           "Exit codes: 0 answered, 1 cannot be certified, 2 bad input.")


class _Command(NamedTuple):
    run: Callable[[argparse.Namespace], int]
    help: str
    targets: tuple[str, ...]


_COMMANDS = {
    "epsilon": _Command(commands.epsilon, "certified epsilon at a delta", ("delta",)),
    "delta": _Command(commands.delta, "certified delta at an epsilon", ("epsilon",)),
    "calibrate": _Command(commands.calibrate, "the parameter that is left out, from a budget", ()),
    "sweep": _Command(commands.sweep, "epsilon over a grid, as CSV and as a heat map", ("delta",)),
    "explain": _Command(commands.explain, "where the loss of an event tree comes from", ("delta",)),
    "curve": _Command(commands.curve, "delta(epsilon) and the trade-off curve", ()),
    "report": _Command(commands.report, "a self-contained HTML page about a guarantee", ("delta",)),
    "certify": _Command(certificates.certify, "a certificate that anyone can check", ()),
}


class _UsageError(ValueError):
    """The arguments do not fit the command."""


class _Parser(argparse.ArgumentParser):
    """One sentence instead of the whole usage, so that `--json` and the exit code are those of any bad input."""

    def error(self, message: str) -> NoReturn:
        raise _UsageError(f"{message.rstrip('.')}. See {self.prog} --help.")


def with_dashes(arguments: Sequence[str]) -> list[str]:
    """--noise_multiplier=1 as --noise-multiplier=1: options are spelled as dp-accounting's parameters, too."""
    def dashed(argument: str) -> str:
        name, equals, value = argument.partition("=")
        return name.replace("_", "-") + equals + value if name.startswith("--") else argument

    return [dashed(argument) for argument in arguments]


def parser() -> argparse.ArgumentParser:
    """The parser of all commands."""
    result = _Parser(prog="dp-edgeworth", description=_DESCRIPTION, epilog=_EPILOG)
    result.add_argument("--version", action="version", version=f"dp-edgeworth {__version__}", help="print the version")
    subparsers = result.add_subparsers(required=True, metavar="COMMAND", dest="command")
    for name, command in _COMMANDS.items():
        words = command.help[0].upper() + command.help[1:] + "."
        sub = subparsers.add_parser(name, help=command.help, description=words, epilog=_EPILOG)
        sub.set_defaults(run=command.run)
        for target in command.targets:
            sub.add_argument(f"--target-{target}", type=float, required=True, help=_TARGETS[target])
        _budget(sub, name)
        _mechanism(sub, name)
        _accounting(sub, name)
        _output(sub, name)
    _verify(subparsers)
    _sampling(subparsers)
    return result


def _verify(subparsers: Any) -> None:
    """`verify` has a certificate and nothing else."""
    words = "a certificate, proved or refused in ball arithmetic"
    sub = subparsers.add_parser("verify", help=words, description=words[0].upper() + words[1:] + ".", epilog=_EPILOG)
    sub.set_defaults(run=certificates.verify)
    sub.add_argument("--json", action="store_true", help="print JSON")
    sub.add_argument("certificate", metavar="FILE", help="what certify wrote; - reads standard input")


def _sampling(subparsers: Any) -> None:
    """A recipe without a sampling scheme: that is what is compared."""
    words = "one recipe under every way to draw its batches"
    command = subparsers.add_parser("sampling", help=words, description=words[0].upper() + words[1:] + ".", epilog=_EPILOG)
    command.set_defaults(run=commands.compare_sampling)
    for option, kind, required, text in (
            ("--batch-size", integer, True, "records per batch"), ("--dataset-size", integer, True, "number of records"),
            ("--epochs", float, True, "passes over the data"), ("--target-delta", float, True, _TARGETS["delta"]),
            ("--noise-multiplier", float, False, "standard deviation / sensitivity"),
            ("--target-epsilon", float, False, "instead of the noise, which is then solved for"),
            ("--truncated-batch-size", integer, False, "largest batch of truncated Poisson sampling")):
        command.add_argument(option, type=kind, required=required, help=text)
    command.add_argument("--json", action="store_true", help="print JSON")
    command.add_argument("--csv", metavar="FILE", help="write the table")
    command.add_argument("--png", metavar="FILE", help="write a picture (needs matplotlib: pip install 'dp-edgeworth[plot]')")


_TARGETS = {"delta": "the delta at which epsilon is asked", "epsilon": "the epsilon at which delta is asked"}


def _budget(command: Any, name: str) -> None:
    if name == "calibrate":
        for option, words in (
                ("--target-epsilon", "budget: epsilon at --target-delta"), ("--target-delta", "budget: delta of --target-epsilon"),
                ("--target-advantage", "budget instead: largest 1 - false positive - false negative rate of any attack"),
                ("--target-true-positive-rate", "budget instead: largest rate of detected members at --false-positive-rate"),
                ("--false-positive-rate", "rate of false alarms of --target-true-positive-rate")):
            command.add_argument(option, type=float, help=words)


def _mechanism(command: Any, name: str) -> None:
    """The common recipe, Gaussian noise on Poisson samples; or a file."""
    grid = name == "sweep"
    number, count, ending = (several, several_integers, f" ({SEVERAL})") if grid else (float, integer, "")
    command.add_argument("--noise-multiplier", type=number, required=grid, help="standard deviation / sensitivity" + ending)
    command.add_argument("--sampling-probability", type=number, help="of Poisson sampling" + ending)
    command.add_argument("--batch-size", type=count, help="instead: expected size of a Poisson sample" + ending)
    command.add_argument("--dataset-size", type=integer, help="number of records, with --batch-size")
    command.add_argument("--steps", type=count, help="how many, as 10000 or 1e4" + ending)
    command.add_argument("--epochs", type=number, help="instead of --steps: passes over the data" + ending)
    if name not in ("sweep", "calibrate"):
        command.add_argument("--event", metavar="FILE", help="instead of all these: the JSON of an event or of an accountant; - reads "
                             "standard input")


def _accounting(command: Any, name: str) -> None:
    command.add_argument("--neighboring-relation", type=relation, metavar="RELATION",
                         help="ADD_OR_REMOVE_ONE (default), REPLACE_ONE or REPLACE_SPECIAL, in any case; an accountant's file has one")
    if name in ("epsilon", "delta"):
        command.add_argument("--group-size", type=integer, default=1, help="records of a person, all added or all removed (default 1)")
    command.add_argument("--tolerance", type=float, help="width of the certified interval aimed at (default 1e-6)")
    if name == "sweep":
        command.add_argument("--certified", action="store_true", default=True, help="proved bounds (the default)")
        command.add_argument("--estimates", action="store_false", dest="certified", help="estimates instead, which are no guarantees")


def _output(command: Any, name: str) -> None:
    command.add_argument("--json", action="store_true", help="print JSON")
    if name in ("epsilon", "delta"):
        command.add_argument("--format", choices=["text", "json", "markdown", "latex"], default="text", help="of the statement")
    if name in ("epsilon", "delta", "calibrate"):
        command.add_argument("--verify", action="store_true", help="prove the answer in ball arithmetic (needs python-flint)")
    if name == "certify":
        command.add_argument("--target-delta", type=float, help="for a certificate of epsilon")
        command.add_argument("--target-epsilon", type=float, help="for a certificate of delta")
        command.add_argument("--digits", type=integer, default=5, help="significant digits of the ends (default 5)")
        command.add_argument("--out", metavar="FILE", help="write the certificate")
    if name in ("sweep", "explain", "curve"):
        command.add_argument("--png", metavar="FILE", help="write a picture (needs matplotlib: pip install 'dp-edgeworth[plot]')")
    if name == "sweep":
        command.add_argument("--csv", metavar="FILE", help="write the table")
    if name == "explain":
        command.add_argument("--limit", type=integer, help="how many nodes to display, largest shares first")
    if name == "curve":
        command.add_argument("--points", type=integer, default=101, help="of each curve (default 101)")
    if name == "report":
        command.add_argument("--out", metavar="FILE", default="report.html", help="where to write the page (default report.html)")
        command.add_argument("--title", default="Privacy report", help="of the page")
