"""A claim and what it rests on, as text, Markdown, LaTeX and HTML.

Strings of an event (the name of a distribution, say) end up here, so every format escapes what it is given.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from dp_edgeworth.analysis.rendering import cell, folded, html_table

Lines = Mapping[str, Sequence[str]]
"""What a claim rests on, by title."""

_LATEX = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"$<$", ">": r"$>$", "|": r"$|$",
}
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#!~$])")


def as_text(claim: str, lines: Lines) -> str:
    """The claim, and every item on lines of its own."""
    return "\n".join([claim, *(line(title if i == 0 else "", item) for title, items in lines.items() for i, item in enumerate(items))])


def line(title: str, item: str) -> str:
    """One item of `as_text`, on as many lines as it takes; those after the first are indented further."""
    return folded(item, f"  {title:<14} ")


def as_markdown(claim: str, lines: Lines) -> str:
    """The claim in bold, and a table of two columns."""
    rows = [f"| {title} | {'<br>'.join(_markdown(item) for item in items)} |" for title, items in lines.items()]
    return "\n".join([f"**{_markdown(claim)}**", "", "| | |", "|---|---|", *rows])


def as_latex(claim: str, lines: Lines) -> str:
    """The claim in bold, and a description list."""
    items = [f"  \\item[{_latex(title)}] {'; '.join(_latex(item) for item in items)}." for title, items in lines.items()]
    bold = _latex(claim).replace("epsilon = ", r"$\varepsilon$ = ").replace("delta = ", r"$\delta$ = ")
    return "\n".join([f"\\textbf{{{bold}}}", r"\begin{description}", *items, r"\end{description}"])


def as_html(lines: Lines) -> str:
    """What it rests on as a table, for a notebook and for the report."""
    rows = [(title, "\n".join(items if len(items) == 1 else (f"• {item}" for item in items))) for title, items in lines.items()]
    return html_table(rows, titled=True, attributes=' class="statement"')


def claim_as_html(claim: str) -> str:
    """The claim as a paragraph in bold."""
    return f"<p>{cell(claim, 'b', '')}</p>"


def _markdown(text: str) -> str:
    return _MARKDOWN.sub(r"\\\1", text)


def _latex(text: str) -> str:
    escaped = "".join(_LATEX.get(character, character) for character in text)
    return escaped.replace("$<$=", r"$\le$")
