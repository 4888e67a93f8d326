"""Rows, their CSV and their tables.

The CSV opens with lines that start with `#`: date, versions, machine. Rows are flushed one by one, so that whatever
ends a run, the rows that were finished are in the file. A file of the same name from an earlier run is continued
(`resume`, if versions, sources and machine are the same) or kept as `*.previous.csv`.
"""

from __future__ import annotations

import csv
import datetime
import functools
import hashlib
import importlib.metadata
import math
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, TypeVar

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

from comparisons.runner import ERROR, FALSE, IMPLAUSIBLE, MEMORY, OK, TIMEOUT

T = TypeVar("T")
PACKAGES = ("dp-edgeworth", "dp-accounting", "prv-accountant", "autodp", "numpy", "scipy", "mpmath")
_STYLES = {OK: "green", ERROR: "red", FALSE: "bold red", IMPLAUSIBLE: "red", TIMEOUT: "yellow", MEMORY: "yellow"}


class UnwritableError(OSError):
    """The output directory cannot be written."""


@dataclass(frozen=True)
class Row:
    """One measurement; an end that the method does not give is None."""

    case: str
    size: int
    delta: float
    method: str
    guarantee: str
    lower: float | None
    estimate: float | None
    upper: float | None
    exact: float | None
    seconds: float | None
    peak_mb: float | None
    status: str
    note: str

    @property
    def width(self) -> float | None:
        """upper - lower where both are given."""
        return None if self.lower is None or self.upper is None else self.upper - self.lower

    @property
    def gap(self) -> float | None:
        """The reported number minus the exact one."""
        if self.value is None or self.exact is None or self.method == "EXACT":
            return None
        return self.value - self.exact

    @property
    def value(self) -> float | None:
        """The number one would report: the upper end, or the estimate where there is none."""
        return self.estimate if self.upper is None else self.upper


def versions() -> dict[str, str]:
    """Versions of everything that takes part."""
    found = {"python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = "not installed"
    found["dp-edgeworth"] = f"sources {fingerprint()}"
    return found


@functools.cache
def fingerprint() -> str:
    """Eight digits that change with the sources of `dp_edgeworth`: its version number does not."""
    import dp_edgeworth

    sources = sorted(Path(dp_edgeworth.__file__).parent.rglob("*.py"))
    return hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:8]


def prepare(directory: Path) -> Path:
    """Makes the directory and checks that it can be written, before any work is done."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
        probe = directory / ".writable"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise UnwritableError(
            f"The output directory must be writable. Found `{directory}`: {error.strerror or error}."
        ) from error
    return directory


@contextmanager
def table_file(path: Path, columns: list[str], resume: bool = False) -> Iterator[Any]:
    """A CSV with the header lines; yields a function that writes and flushes one row given as a dict."""
    continued = resume and path.exists()
    if continued:
        _check_provenance(path)
        _end_last_line(path)
    elif path.exists():
        path.replace(path.with_suffix(".previous.csv"))
    with path.open("a" if continued else "w", newline="") as file:
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        if not continued:
            file.write(_header())
            writer.writeheader()

        def write(row: dict[str, Any]) -> None:
            writer.writerow({key: _cell(value) for key, value in row.items()})
            file.flush()

        yield write


def _end_last_line(path: Path) -> None:
    """A line that was cut short by a kill is closed, so that the next row is not glued to it."""
    text = path.read_bytes()
    if text and not text.endswith(b"\n"):
        path.write_bytes(text + b"\n")


def _header() -> str:
    """The lines that say when, with what and where."""
    date = datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
    return f"# date: {date}; commit {commit() or 'unknown'}\n{provenance()}"


def measured_with() -> str:
    """Commit, versions and machine, without a date, for a page."""
    found = versions()
    named = [f"{name} {found[name]}" for name in ("dp-edgeworth", "dp-accounting", "numpy", "scipy", "python")]
    return "; ".join([*([f"commit {commit()}"] if commit() else []), *named, machine()])


@functools.cache
def commit() -> str:
    """Of the working copy, if it is one; the fingerprint of the sources says whether it was changed."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "--short=10", "HEAD"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return ""


def provenance() -> str:
    """With what and where: times and answers of two of them do not belong into one file."""
    programs = "; ".join(f"{name} {version}" for name, version in versions().items())
    return f"# versions: {programs}\n# machine: {machine()}\n"


def of_this_version(path: Path) -> bool:
    """Whether a file exists that was begun with these versions and sources, on this machine."""
    return path.exists() and provenance_of(path) == provenance()


def provenance_of(path: Path) -> str:
    """What `provenance` was when the file was begun."""
    return "".join(path.read_text(encoding="utf-8").splitlines(keepends=True)[1:3])


def _check_provenance(path: Path) -> None:
    found = provenance_of(path)
    if found != provenance():
        raise ValueError(
            f"A file can only be continued with the versions, the sources and the machine that began it. Found `{path}` "
            f"of others: delete it to measure anew.\n  there: {found}  here:  {provenance()}".rstrip()
        )


def machine() -> str:
    """Processor, cores and system."""
    return f"{_processor()}, {os.cpu_count()} cores, {platform.system()}"


def _processor() -> str:
    """The processor's own name where the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.machine()


def read_table(path: Path) -> list[dict[str, str]]:
    """The lines of any CSV of `table_file`, as text; none where there is no file."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(line for line in file if not line.startswith("#")))


def _cell(value: Any) -> Any:
    return "" if value is None else f"{value:.12g}" if isinstance(value, float) else value


def row_columns() -> list[str]:
    return [field.name for field in fields(Row)]


def row_cells(row: Row) -> dict[str, Any]:
    return asdict(row)


def read_rows(path: Path) -> list[Row]:
    """The rows of measurements of a CSV."""
    return read_as(Row, path)


def read_as(kind: type[T], path: Path) -> list[T]:
    """The lines of a CSV as a dataclass, empty numbers as None; a line that an interruption cut short is none."""
    kinds = {field.name: str(field.type) for field in fields(kind)}  # type: ignore[arg-type]
    lines = [line for line in read_table(path) if None not in line.values()]
    return [kind(**{name: parsed(line[name], field) for name, field in kinds.items()}) for line in lines]


def parsed(text: str, kind: str) -> Any:
    """A cell as the type of its dataclass field; an empty number is None."""
    if "float" in kind:
        return float(text) if text else None
    return int(text) if kind == "int" else text


def console(stderr: bool = False) -> Console:
    """Colours and boxes on a terminal, plain text of a fixed width elsewhere."""
    terminal = (sys.stderr if stderr else sys.stdout).isatty()
    return Console(stderr=stderr, width=None if terminal else 140, highlight=False, soft_wrap=False)


@contextmanager
def progress(total: int) -> Iterator[tuple[Callable[[str], None], Callable[[], None]]]:
    """A bar on a terminal, nothing elsewhere; yields `tell(text)` and `advance()`."""
    screen = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=screen, transient=True, disable=not screen.is_terminal) as bar:
        task = bar.add_task("", total=total)
        yield (lambda text: bar.update(task, description=text)), (lambda: bar.advance(task))


def number(value: float | None, digits: int = 7) -> str:
    """A number for a table; a blank where there is none."""
    if value is None:
        return ""
    return str(value) if not math.isfinite(value) else f"{value:.{digits}g}"


def size_text(size: int) -> str:
    """A size for a table: digits up to a million, powers beyond."""
    return f"{size:,}" if size < 10**6 else f"{size:.3g}"


def notes(rows: Iterable[Row]) -> list[str]:
    """Why rows are not `ok`, each reason once with the methods and sizes that it concerns."""
    found: dict[str, list[str]] = {}
    for row in rows:
        if row.note:
            found.setdefault(f"{row.status}: {row.note}", []).append(f"{row.method} at m {size_text(row.size)}")
    return [escape(f"{', '.join(dict.fromkeys(who))}: {reason}") for reason, who in found.items()]


_WIDE = 120  # columns that the full table needs


def case_table(title: str, rows: Iterable[Row], several: bool, columns: int = _WIDE) -> Table:
    """The table of one case. `several`: sizes or deltas differ, so they are columns. A narrow screen gets fewer."""
    narrow = columns < _WIDE
    left_out = {"guarantee", "- exact", *(("peak MB",) if several else ())} if narrow else set()
    left_out |= set() if several else {"m", "delta"}
    table = Table(title=escape(title), title_justify="left", title_style="bold", box=None if narrow else box.HEAVY_HEAD,
                  padding=(0, 1, 0, 0) if narrow else (0, 1), pad_edge=not narrow)  # fmt: skip
    for name in (name for name in _COLUMNS if name not in left_out):
        table.add_column(name, justify="left" if name in _TEXTS else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(cell for name, cell in _shown(row, 5 if narrow else 7) if name not in left_out))
    return table


_TEXTS = ("method", "guarantee", "status")
_COLUMNS = ("method", "guarantee", "m", "delta", "lower", "estimate", "upper", "width", "- exact", "seconds", "peak MB",
            "status")  # fmt: skip


def _shown(row: Row, digits: int) -> Iterable[tuple[str, str | Text]]:
    """A row's cells by column."""
    ends = (number(end, digits) for end in (row.lower, row.estimate, row.upper))
    rest = number(row.width, 2), number(row.gap, 2), number(row.seconds, 3), number(row.peak_mb, 3)
    status = Text(row.status, _STYLES.get(row.status, "dim"))
    first = row.method, row.guarantee, size_text(row.size), f"{row.delta:g}"
    return zip(_COLUMNS, (*first, *ends, *rest, status), strict=True)
