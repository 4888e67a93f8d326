"""What is asked about: an event from a file or from the options of the common recipe, numbers, lists and ranges."""

from __future__ import annotations

import argparse
import decimal
import sys
from typing import Any

import numpy as np
from dp_accounting import dp_event
from dp_accounting.privacy_accountant import NeighboringRelation, PrivacyAccountant

from dp_edgeworth.analysis import planning
from dp_edgeworth.analysis.subject import event_or_accountant
from dp_edgeworth.events import serialization

SEVERAL = "a number, a list a,b,c, or a range low:high:points[:log]"
_RECIPE = ("noise_multiplier", "sampling_probability", "batch_size", "dataset_size", "steps", "epochs")


def relation(text: str) -> NeighboringRelation:
    """A relation by its name, in any case, with dashes or underscores."""
    name = text.upper().replace("-", "_")
    if name not in NeighboringRelation.__members__:
        raise argparse.ArgumentTypeError(f"must be one of {', '.join(NeighboringRelation.__members__)}. Found {text!r}")
    return NeighboringRelation[name]


def number(text: str) -> float:
    """0.8, 1e-5 or inf."""
    try:
        return float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"must be a number. Found {text!r}") from None


def integer(text: str) -> int:
    """10000, 10_000 or 1e4: exactly an integer."""
    try:
        value = decimal.Decimal(text)
        if value.is_finite() and abs(value.adjusted()) <= 300 and value == value.to_integral_value():
            return int(value)
    except decimal.InvalidOperation:
        pass
    raise argparse.ArgumentTypeError(f"must be an integer, as 10000 or 1e4. Found {text!r}")


def several(text: str) -> list[float]:
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
        raise argparse.ArgumentTypeError(f"must be {SEVERAL}. Found {text!r}") from None


def several_integers(text: str) -> list[int]:
    """The same for integers: a range is rounded, a list must hold integers."""
    values = several(text)
    if not np.all(np.isfinite(values)) or (":" not in text and not all(value.is_integer() for value in values)):
        raise argparse.ArgumentTypeError(f"must be integers. Found {text!r}")
    return [round(value) for value in values]


def subject(options: argparse.Namespace) -> dp_event.DpEvent | PrivacyAccountant:
    """The event or accountant of the file, or the event of the options of the common recipe."""
    if options.event is not None:
        for name in _RECIPE:
            if getattr(options, name) is not None:
                raise ValueError(f"`--event` must not be given together with `--{name.replace('_', '-')}`.")
        return event_or_accountant(text(options.event))
    if options.noise_multiplier is None:
        raise ValueError("`--event` or `--noise-multiplier` must be given.")
    unsampled = options.sampling_probability is None and options.batch_size is None and options.dataset_size is None
    probability = planning.sampling(1.0 if unsampled else options.sampling_probability, options.batch_size, options.dataset_size)
    steps = 1 if options.steps is None and options.epochs is None else planning.number_of_steps(
        probability, options.steps, options.epochs)
    return planning.sampled_gaussian(probability, options.noise_multiplier, steps)


def text(path: str) -> bytes:
    """The file, one byte more than the format allows at most (around the ledger of an accountant there are some more)."""
    limit = serialization.MAX_BYTES + 4097
    if path == "-":
        if sys.stdin is None:
            raise ValueError("`--event` must not be - where standard input is closed.")
        return sys.stdin.buffer.read(limit)
    with open(path, "rb") as file:
        return file.read(limit)


def given(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """These options by name."""
    return {name: getattr(options, name) for name in names}
