"""`summary`: the CSVs of a directory as one page, `README.md`, with tables and pictures. Measures nothing.

All CSVs must be of the same versions, sources and machine. Pages of other commands (the truth campaign is one) are linked, with the
sources that they are of.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from comparisons import report, speed
from comparisons.figures import FIGURES
from comparisons.findings import FINDINGS
from comparisons.table import TITLES

PAGE = "README.md"
TABLES = ("figures", "table", "speed", "findings", "batch-sampling", "random-allocation")
#: Pages of their own, with what they are about.
_PAGES = {
    "truth.md": "random events of every regime against exact values",
    "verified.md": "the same events, proved or refused by the checker in ball arithmetic",
    "checker-soundness.md": "the checker against false claims",
    "selection.md": "the cost of tuning, against RdpAccountant",
}


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
        *_batches(directory),
        *_pages(directory),
    ]
    return "\n".join(parts)


def _provenance(directory: Path) -> list[str]:
    """The header lines that all CSVs share, and the commits that they were begun at."""
    begun: dict[str, list[str]] = {}
    commits = set()
    for path in (directory / f"{name}.csv" for name in TABLES):
        if path.exists():
            begun.setdefault(report.provenance_of(path), []).append(path.name)
            commits |= set(re.findall(r"; commit (\w+)", path.read_text(encoding="utf-8").partition("\n")[0]))
    if len(begun) > 1:
        kinds = "".join(f"\n  {', '.join(names)}:\n    {found.strip()}" for found, names in begun.items())
        rule = "The CSVs of a page must be of the same versions, sources and machine; `all` measures anew."
        raise ValueError(f"{rule} Found in `{directory}`:{kinds}")
    lines = [line.strip("# ") for found in begun for line in found.splitlines()]
    return [f"- {line}" for line in [*lines, *([f"commit: {', '.join(sorted(commits))}"] if commits else [])]] + [""]


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


def _batches(directory: Path) -> list[str]:
    lines = report.read_table(directory / "random-allocation.csv")
    picture = ["![batch-sampling](batch-sampling.png)\n"] if (directory / "batch-sampling.png").exists() else []
    table = markdown(list(lines[0]), (line.values() for line in lines)) if lines else []
    note = "Every way to draw batches for one recipe; random allocation against PLD-accounting in one process.\n"
    return ["## Batches\n", note, *picture, *table] if lines or picture else []


def _pages(directory: Path) -> list[str]:
    lines = []
    for name, what in _PAGES.items():
        if (directory / name).exists():
            sources = re.search(r"sources ([0-9a-f]{8})", (directory / name).read_text(encoding="utf-8"))
            of = "" if sources is None else f" (sources {sources[1]})"
            lines.append(f"- [{name}]({name}): {what}{of}")
    return ["## Other pages\n", *lines, ""] if lines else []


def markdown(titles: Sequence[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """A Markdown table."""
    lines = [list(titles), ["---"] * len(titles), *(list(row) for row in rows)]
    return ["| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines] + [""]
