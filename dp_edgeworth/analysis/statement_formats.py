"""A privacy statement as JSON, Markdown, LaTeX and HTML: one claim, and what it rests on.

Strings of an event (the name of a distribution, say) end up here, so every format escapes what it is given.
"""

from __future__ import annotations

import html
import re
from typing import TYPE_CHECKING

from dp_edgeworth.analysis import rendering

if TYPE_CHECKING:
    from dp_edgeworth.analysis.statement import PrivacyStatement

_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"$<$", ">": r"$>$", "|": r"$|$",
}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#!~$])")


def as_json(statement: PrivacyStatement) -> str:
    """The dictionary of a statement as JSON."""
    return rendering.as_json(statement.to_dict())


def as_markdown(statement: PrivacyStatement) -> str:
    """The claim in bold, and a table of two columns."""
    rows = [f"| {title} | {'<br>'.join(_markdown(item) for item in items)} |" for title, items in statement.lines.items()]
    return "\n".join([f"**{_markdown(statement.claim)}**", "", "| | |", "|---|---|", *rows])


def as_latex(statement: PrivacyStatement) -> str:
    """The claim in bold, and a description list."""
    items = [f"  \\item[{_latex(title)}] {'; '.join(_latex(item) for item in items)}." for title, items in statement.lines.items()]
    claim = _latex(statement.claim).replace("epsilon = ", r"$\varepsilon$ = ").replace("delta = ", r"$\delta$ = ")
    return "\n".join([f"\\textbf{{{claim}}}", r"\begin{description}", *items, r"\end{description}"])


def as_html(statement: PrivacyStatement) -> str:
    """The same as a table, for a notebook and for the report."""
    rows = [f'<tr><th style="text-align:left;vertical-align:top;white-space:nowrap">{html.escape(title)}</th>'
            f'<td style="text-align:left">{"<br>".join(html.escape(item) for item in items)}</td></tr>'
            for title, items in statement.lines.items()]
    return f'<p><b>{html.escape(statement.claim)}</b></p><table class="statement">{"".join(rows)}</table>'


def _markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)


def _latex(text: str) -> str:
    escaped = "".join(_LATEX.get(character, character) for character in text)
    return escaped.replace("$<$=", r"$\le$")
