"""What every answer can be written as: JSON, CSV, an HTML table, a picture. Every cell of a table is escaped."""

from __future__ import annotations

import abc
import csv
import html
import io
import json
import math
import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from dp_edgeworth import validation

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")  # Okabe and Ito's
_WIDTH = 110  # of text
_LEFT = 'style="text-align:left;vertical-align:top;padding-right:12px"'
_TITLE = _LEFT.replace("top;", "top;white-space:nowrap;")


class Answer(abc.ABC):
    """An answer that is plain data, too, and one line in a list of answers."""

    @property
    @abc.abstractmethod
    def title(self) -> str:
        """What it is, on one line."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {self.title}>"

    @abc.abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain data."""

    def to_json(self) -> str:
        """`to_dict` as JSON; infinities are strings."""
        return as_json(self.to_dict())


def as_json(data: Any) -> str:
    """JSON, with infinities and anything unknown as strings."""
    return json.dumps(_finite(data), indent=2)


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def as_csv(rows: Iterable[Iterable[Any]], path: Any = None) -> str:
    """One line per row; also written to `path` if given."""
    stream = io.StringIO()
    csv.writer(stream, lineterminator="\n").writerows(rows)
    if path is not None:
        validation.path(path).write_text(stream.getvalue(), encoding="utf-8")
    return stream.getvalue()


def cell(text: str, tag: str = "td", attributes: str = _LEFT) -> str:
    """One cell of an HTML table; lines of the text are lines of the cell."""
    return f"<{tag} {attributes}>{html.escape(text).replace(chr(10), '<br>')}</{tag}>"


def html_table(rows: Iterable[Sequence[str]], head: Sequence[str] = (), *, titled: bool = False, attributes: str = "") -> str:
    """A table with an optional first line of titles; `titled`: the first cell of every row is one, too."""
    def title(text: str) -> str:
        return cell(text, "th", _TITLE)

    lines = ["".join(map(title, head))] if head else []
    lines += ["".join((title if titled and i == 0 else cell)(text) for i, text in enumerate(row)) for row in rows]
    return f"<table{attributes}>" + "".join(f"<tr>{line}</tr>" for line in lines) + "</table>"


def folded(text: str, beginning: str) -> str:
    """Text on lines of bearable width, all but the first of them a little further in than what it begins with."""
    return textwrap.fill(text, _WIDTH, initial_indent=beginning, subsequent_indent=" " * (len(beginning) + 2),
                         break_long_words=False, break_on_hyphens=False)


def new_axes(axes: Any, width: float, height: float, columns: int = 1) -> Any:
    """matplotlib's axes: the given ones, or those of a new figure of this size in inches, so many side by side."""
    if axes is not None:
        return axes
    try:
        from matplotlib import pyplot
    except ImportError as error:
        raise ImportError("Pictures need matplotlib, which is not installed: pip install 'dp-edgeworth[plot]'.") from error
    return pyplot.subplots(1, columns, figsize=(width, height))[1]
