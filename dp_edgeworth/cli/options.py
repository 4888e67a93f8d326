"""The parser: which command takes which options, each with a help text."""

from __future__ import annotations

import argparse
import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NoReturn

from dp_edgeworth.cli import certificates, commands
from dp_edgeworth.cli.inputs import SEVERAL, integer, number, relation, several, several_integers
from dp_edgeworth.version import __version__

_DESCRIPTION = "Certified privacy accounting: statements, calibration, sweeps, event-tree analysis, curves and reports."
_EPILOG = ("Options may be shortened as long as that is unambiguous (--noise 0.8), and spelled with underscores. "
           "Exit codes: 0 answered, 1 cannot be certified, 2 bad input.")


class _UsageError(ValueError):
    """The arguments do not fit the command."""


class _Parser(argparse.ArgumentParser):
    """One sentence instead of the whole usage, so that `--json` and the exit code are those of any bad input."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Complains of an unknown option before it misses another one: --delta for --target-delta is one mistake, not two."""
        known = self._option_string_actions
        for name in (one.partition("=")[0] for one in args or () if one.startswith("--") and self._subparsers is None):
            if not any(option.startswith(name) for option in known):
                self.error(f"unrecognized argument {name}.{_guess(name, known)}")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        choice = re.search(r"argument COMMAND: invalid choice: '(\w+)", message)
        sentence = message if message.endswith("?") else message.removesuffix(".") + "."
        raise _UsageError(f"{sentence}{_guess(choice[1], _COMMANDS) if choice else ''} See {self.prog} --help.")


def _guess(name: str, known: Iterable[str]) -> str:
    """Which command or option may have been meant: one that has a word that begins so, or that begins nearly alike."""
    words = {word: one for one in known if one.startswith("--") for word in one.split("-") if word}
    meant = [one for word, one in words.items() if word.startswith(name.lstrip("-"))]
    beginnings = {one[: len(name) + 1]: one for one in sorted(known)}  # options may be shortened
    meant += [beginnings[one] for one in difflib.get_close_matches(name, beginnings, 1)]
    return f" Did you mean {meant[0]}?" if meant else ""


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
    for name, (run, words, own) in _COMMANDS.items():
        command = subparsers.add_parser(name, help=words, description=words[0].upper() + words[1:] + ".", epilog=_EPILOG)
        command.set_defaults(run=run)
        for option, settings in {**own, **_JSON}.items():
            command.add_argument(option, **settings)
    return result


_Options = dict[str, dict[str, Any]]
_METAVARS: dict[Callable[[str], Any], str] = {number: "NUMBER", integer: "INTEGER", relation: "RELATION"}


def _option(words: str, kind: Callable[[str], Any] = number, **settings: Any) -> dict[str, Any]:
    return {"help": words, "type": kind, "metavar": _METAVARS.get(kind, "NUMBERS"), **settings}


def _flag(words: str, **settings: Any) -> dict[str, Any]:
    return {"help": words, "action": "store_true", **settings}


def _file(words: str, **settings: Any) -> dict[str, Any]:
    return {"help": words, "metavar": "FILE", **settings}


def _recipe(grid: bool = False) -> _Options:
    """Gaussian noise on Poisson samples; of a grid every number may be several."""
    real, count, ending = (several, several_integers, f" ({SEVERAL})") if grid else (number, integer, "")
    return {
        "--noise-multiplier": _option("standard deviation / sensitivity" + ending, real, required=grid),
        "--sampling-probability": _option("of Poisson sampling" + ending, real),
        "--batch-size": _option("instead: expected size of a Poisson sample" + ending, count),
        "--dataset-size": _option("number of records, with --batch-size", integer),
        "--steps": _option("how many, as 10000 or 1e4" + ending, count),
        "--epochs": _option("instead of --steps: passes over the data" + ending, real),
        "--neighboring-relation": _option("ADD_OR_REMOVE_ONE (default), REPLACE_ONE or REPLACE_SPECIAL, in any case", relation),
        "--tolerance": _option("width of the certified interval aimed at (default 1e-6)"),
    }


_SUBJECT: _Options = {
    **_recipe(), "--event": _file("instead of all these: the JSON of an event, or of an accountant and its relation; - reads "
                                "standard input")}
_DELTA: _Options = {"--target-delta": _option("the delta at which epsilon is asked", required=True)}
_EPSILON: _Options = {"--target-epsilon": _option("the epsilon at which delta is asked", required=True)}
_VERIFY: _Options = {"--verify": _flag("prove the answer in ball arithmetic (needs python-flint)")}
_STATEMENT: _Options = {
    "--group-size": _option("records of a person, all added or all removed (default 1)", integer, default=1),
    "--format": {"help": "of the statement", "choices": ["text", "json", "markdown", "latex"], "default": "text"}, **_VERIFY}
_BUDGET: _Options = {
    "--target-epsilon": _option("budget: epsilon at --target-delta"), "--target-delta": _option("budget: delta of --target-epsilon"),
    "--target-advantage": _option("budget instead: largest 1 - false positive - false negative rate of any attack"),
    "--target-true-positive-rate": _option("budget instead: largest rate of detected members at --false-positive-rate"),
    "--false-positive-rate": _option("rate of false alarms of --target-true-positive-rate")}
_CERTIFICATE: _Options = {
    "--target-delta": _option("for a certificate of epsilon"), "--target-epsilon": _option("for a certificate of delta"),
    "--digits": _option("significant digits of the ends (default 5)", integer, default=5), "--out": _file("write the certificate")}
_SCHEMES: _Options = {
    "--batch-size": _option("records per batch", integer, required=True),
    "--dataset-size": _option("number of records", integer, required=True),
    "--epochs": _option("passes over the data", required=True), "--noise-multiplier": _option("standard deviation / sensitivity"),
    "--target-epsilon": _option("instead of the noise, which is then solved for"),
    "--truncated-batch-size": _option("largest batch of truncated Poisson sampling", integer)}
_ESTIMATES: _Options = {
    "--certified": _flag("proved bounds (the default)", default=True),
    "--estimates": _flag("estimates instead, which are no guarantees", action="store_false", dest="certified")}
_PNG: _Options = {"--png": _file("write a picture (needs matplotlib: pip install 'dp-edgeworth[plot]')")}
_CSV: _Options = {"--csv": _file("write the table")}
_JSON: _Options = {"--json": _flag("print JSON")}
_COMMANDS: dict[str, tuple[Callable[[argparse.Namespace], int], str, _Options]] = {
    "epsilon": (commands.epsilon, "certified epsilon at a delta", {**_DELTA, **_SUBJECT, **_STATEMENT}),
    "delta": (commands.delta, "certified delta at an epsilon", {**_EPSILON, **_SUBJECT, **_STATEMENT}),
    "calibrate": (commands.calibrate, "the parameter that is left out, from a budget", {**_BUDGET, **_recipe(), **_VERIFY}),
    "sweep": (commands.sweep, "epsilon over a grid, as CSV and as a picture", {
        **_DELTA, **_recipe(True), **_ESTIMATES, **_PNG, **_CSV}),
    "explain": (commands.explain, "where the loss of an event tree comes from", {
        **_DELTA, **_SUBJECT, **_PNG, "--limit": _option("how many nodes to display, largest shares first", integer)}),
    "curve": (commands.curve, "delta(epsilon) and the trade-off curve; the Gaussian mu is for error rates of at least 1e-10", {
        **_SUBJECT, **_PNG, "--points": _option("of each curve (default 101)", integer, default=101)}),
    "report": (commands.report, "a self-contained HTML page about a guarantee", {
        **_DELTA, **_SUBJECT, "--out": _file("where to write the page (default report.html)", default="report.html"),
        "--title": {"help": "of the page", "default": "Privacy report"}}),
    "certify": (certificates.certify, "a certificate that anyone can check", {**_SUBJECT, **_CERTIFICATE}),
    "verify": (certificates.verify, "a certificate, proved or refused in ball arithmetic", {
        "certificate": _file("what certify wrote; - reads standard input")}),
    "sampling": (commands.compare_sampling, "one recipe under every way to draw its batches", {**_DELTA, **_SCHEMES, **_CSV, **_PNG}),
}
