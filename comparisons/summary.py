"""`summary`: the CSVs of a directory as one page, `README.md`, with tables and pictures. Measures nothing."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from comparisons import report, speed
from comparisons.figures import FIGURES
from comparisons.findings import FINDINGS
from comparisons.table import TITLES

PAGE = "README.md"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Where the CSVs are."""
    parser.add_argument("--out", type=Path, default=Path("out"), metavar="DIR", help="of the CSVs (default: out)")


def run(arguments: argparse.Namespace) -> int:
    """Writes the page beside the CSVs."""
    path = report.prepare(arguments.out) / PAGE
    path.write_text(page(arguments.out), encoding="utf-8")
    report.console().print(f"page: {path}")
    return 0


def page(directory: Path) -> str:
    """Everything that the directory holds; a part that was not measured is left out."""
    parts = [
        "# Results of one run\n",
        "Written by `python -m comparisons all`; [how to regenerate it](../README.md). Do not edit.\n",
        *_provenance(directory),
        *_table_1(directory),
        *_figures(directory),
        *_speed(directory),
        *_findings(directory),
    ]
    return "\n".join(parts)


def _provenance(directory: Path) -> list[str]:
    """The header lines of the CSVs, each once."""
    lines: dict[str, None] = {}
    for path in (directory / f"{name}.csv" for name in ("figures", "table", "speed", "findings")):
        if not path.exists():
            continue
        with path.open(encoding="utf-8") as file:
            lines.update((line[2:].strip(), None) for line in file if line.startswith(("# versions", "# machine")))
    return [f"- {line}" for line in lines] + [""]


def _table_1(directory: Path) -> list[str]:
    lines = report.read_table(directory / "table.csv")
    if not lines:
        return []
    note = (
        "Medians over four DP-SGD recipes; growth of the time fitted on the larger sizes. `false` and `implausible` count rows "
        "of all figures whose answer contradicts the exact value or itself.\n"
    )
    return ["## The paper's Table 1, measured\n", note, *markdown(TITLES, (line.values() for line in lines))]


def _figures(directory: Path) -> list[str]:
    found = [name for name in FIGURES if (directory / f"{name}.png").exists()]
    return [
        "## Figures\n",
        "A cross is an answer that is false or implausible; the legend counts the rows that are not `ok`.\n",
        *(f"![{name}]({name}.png)\n" for name in found),
    ] if found else []  # fmt: skip


def _speed(directory: Path) -> list[str]:
    lines = report.read_table(directory / "speed.csv")
    if not lines:
        return []
    titles = ("measured", "ours", "peer", "ratio or value", "target", "met", "note")
    note = (
        "Medians of CPU seconds in one process. No event is asked about twice: every repetition has all its noises a few parts in 1e7 "
        "larger, so that nobody answers from memory. `ratio` is the peer's time over ours unless the target says `at most`.\n"
    )
    return ["## Speed\n", note, *markdown(titles, (speed.cells(line) for line in lines))]


def _findings(directory: Path) -> list[str]:
    lines = report.read_table(directory / "findings.csv")
    parts = ["## Findings\n"] if lines else []
    for name, finding in FINDINGS.items():
        mine = [list(line.values())[1:] for line in lines if line["finding"] == name]
        if mine:
            parts += [f"### {finding.title}\n", f"`{name}`. {finding.explanation}\n"]
            parts += markdown(("asked", "peer", "exact", "verdict"), mine)
    return parts


def markdown(titles: Sequence[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A Markdown table."""
    lines = [list(titles), ["---"] * len(titles), *(list(row) for row in rows)]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines] + [""]
