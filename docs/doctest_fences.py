"""Griffe extension: doctests in docstrings become fenced code, so that the site shows them as code."""

from __future__ import annotations

from typing import Any

import griffe


def fenced(text: str) -> str:
    """Runs of lines from >>> to the next empty line, in fences."""
    lines: list[str] = []
    inside = False
    for line in [*text.splitlines(), ""]:
        starts = line.lstrip().startswith(">>>")
        if starts and not inside:
            lines += ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        lines.append(line.strip() if inside and starts else line)
    return "\n".join(lines).rstrip()


class DoctestFences(griffe.Extension):
    """Applied to everything that has a docstring."""

    def on_object(self, *, obj: Any, **arguments: Any) -> None:
        if obj.docstring is not None and ">>>" in obj.docstring.value:
            obj.docstring.value = fenced(obj.docstring.value)
