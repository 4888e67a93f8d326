"""Where answers go: text or JSON on standard output, pictures in files, and the exit codes."""

from __future__ import annotations

import argparse
import math
import sys
from typing import Any, TextIO

from dp_edgeworth.analysis import progress
from dp_edgeworth.analysis.rendering import as_json
from dp_edgeworth.analysis.statement import PrivacyStatement
from dp_edgeworth.intervals import Interval

ANSWERED, NOT_CERTIFIED, BAD_INPUT = 0, 1, 2


def write(text: str, stream: TextIO | None) -> None:
    """At once, so that a reader that is gone is noticed here; a stream that was closed before we started (None) takes nothing."""
    progress.finish()
    if stream is not None:
        stream.write(text)
        stream.flush()


def answer(options: argparse.Namespace, data: dict[str, Any], text: str) -> None:
    """The data with `--json`, else the text."""
    write((as_json(data) if options.json else text) + "\n", sys.stdout)


def state(options: argparse.Namespace, statement: PrivacyStatement) -> int:
    """A privacy statement in the format asked for, and its exit code."""
    formats = {"text": statement.__str__, "json": statement.to_json, "markdown": statement.to_markdown, "latex": statement.to_latex}
    write(formats["json" if options.json else options.format]() + "\n", sys.stdout)
    return code(statement.certified)


def code(proved: object) -> int:
    """The exit code of an answer that is proved, or of one whose end says nothing."""
    return ANSWERED if proved else NOT_CERTIFIED


def known(epsilon: Interval) -> bool:
    """Whether the upper end says anything: one that is infinite must be known to be so."""
    return epsilon.upper < math.inf or epsilon.lower == math.inf


def draw(result: Any, path: str | None) -> None:
    """Saves what `result.plot()` draws, where a path was given."""
    if not path:
        return
    axes = result.plot()
    figure = (axes[0] if isinstance(axes, tuple | list) else axes).figure
    figure.savefig(path, dpi=150)
    from matplotlib import pyplot

    pyplot.close(figure)
