"""The exact values of a truth campaign: computed once, stored in a CSV, read ever after.

They do not depend on dp_edgeworth, and take two seconds per case. A row has the index of its case and the hash of its
question, so that the values of one question are never taken for those of another. Rows are appended as they are
finished; of two rows of a case the last one counts, and a line that was cut short is none.
"""

from __future__ import annotations

import csv
import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from comparisons.runner import OK, Limits
from comparisons.truth_cases import TruthCase
from comparisons.workers import outcomes

RESULTS = Path(__file__).parent / "results"
_NOTE = 120  # characters
_PATIENCE = 4.0  # its own limit is CPU time; this many times as long by the clock, and it is killed


@dataclass(frozen=True)
class Stored:
    """What the oracle said: epsilon at the case's delta, delta at `at_epsilon`; None where it gave no answer."""

    index: int
    event_hash: str
    epsilon: float | None = None
    epsilon_accuracy: float | None = None
    at_epsilon: float | None = None
    delta: float | None = None
    delta_accuracy: float | None = None
    seconds: float | None = None
    note: str = ""

    @property
    def hopeless(self) -> bool:
        """The oracles know that they do not know: more time would not help."""
        return "InaccurateError" in self.note and "no answer within" not in self.note


_COLUMNS = [field.name for field in fields(Stored)]


def default_path(seed: int) -> Path:
    """The committed file of the seed, if there is one."""
    name = f"truth-oracle-{seed}.csv"
    return RESULTS / name if (RESULTS / name).exists() else Path("out") / name


def stored_values(path: Path, cases: Iterable[TruthCase]) -> dict[int, Stored]:
    """The rows of these cases that the file has; ValueError if one is of another question."""
    hashes = {case.index: case.event_hash for case in cases}
    found = {}
    for line in _lines(path):
        row = _parsed(line)
        if row.index not in hashes:
            continue
        if row.event_hash != hashes[row.index]:
            raise ValueError(
                f"Stored exact values must be those of the case. Found case {row.index} of `{path}` with the hash "
                f"{row.event_hash}, where the generator gives {hashes[row.index]}: the file is of another seed, of another "
                f"generator or of another numpy. Name another file with --oracle."
            )
        found[row.index] = row
    return found


def _lines(path: Path) -> Iterator[dict[str, str]]:
    """Whole lines only."""
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    reader = csv.DictReader(text[: text.rfind("\n") + 1].splitlines())
    if text and reader.fieldnames != _COLUMNS:
        raise ValueError(f"A file of exact values must have the columns {','.join(_COLUMNS)}. Found `{path}`.")
    return (line for line in reader if None not in line.values() and None not in line)


def _parsed(line: dict[str, str]) -> Stored:
    values: dict[str, Any] = {name: float(line[name]) if line[name] else None for name in _COLUMNS[2:-1]}
    return Stored(int(line["index"]), line["event_hash"], note=line["note"], **values)


def compute(cases: list[TruthCase], path: Path, limits: Limits, jobs: int = 1) -> Iterator[Stored]:
    """Asks the oracle for these cases; every row is in the file before it is yielded."""
    with _appended(path) as write:
        tasks = [(case, limits.seconds) for case in cases]
        patient = Limits(_PATIENCE * limits.seconds + 10.0, limits.gigabytes)
        for (case, _), outcome in outcomes(exact_values, tasks, patient, jobs):
            row = outcome.value
            if outcome.status != OK:
                row = Stored(case.index, case.event_hash, note=_short(f"{outcome.status}: {outcome.note}"))
            write(row)
            yield row


@contextmanager
def _appended(path: Path) -> Iterator[Any]:
    """Yields a function that appends a row; a line that was cut short makes way."""
    if path.exists():
        text = path.read_bytes()
        if not text.endswith(b"\n"):
            path.write_bytes(text[: text.rfind(b"\n") + 1])
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        if not file.tell():
            writer.writerow(_COLUMNS)

        def write(row: Stored) -> None:
            cells = asdict(row) | {"seconds": None if row.seconds is None else f"{row.seconds:.3f}"}
            writer.writerow("" if v is None else repr(v) if isinstance(v, float) else v for v in cells.values())
            file.flush()

        yield write


class _LateError(BaseException):
    """Not an Exception: nobody on the way may catch it."""


def exact_values(case: TruthCase, seconds: float) -> Stored:
    """Both answers, of `exact` or else of `exact_balls`, each within so many seconds of CPU time; the note says who and why."""
    from comparisons import exact, exact_balls

    start, first = time.process_time(), Stored(case.index, case.event_hash)
    row = _asked(exact, case, first, seconds)
    if row.delta is None:
        second = _asked(exact_balls, case, row, seconds)
        said = "by exact_balls" if second.epsilon != row.epsilon else "delta by exact_balls" if second.delta is not None else ""
        row = replace(second, note=_short("; ".join(filter(None, (said, second.note and f"exact_balls: {second.note}", row.note)))))
    return replace(row, seconds=time.process_time() - start)


def _asked(oracle: Any, case: TruthCase, known: Stored, seconds: float) -> Stored:
    """What is known, and what the oracle adds within so many seconds; its note is why it stopped."""
    row = replace(known, note="")
    try:
        with _alarm(seconds):
            if row.epsilon is None:
                epsilon, accuracy = map(float, oracle.exact_epsilon(case.event, case.delta, case.relation))
                row = replace(row, epsilon=epsilon, epsilon_accuracy=accuracy, at_epsilon=case.at_epsilon(epsilon))
            delta, accuracy = map(float, oracle.exact_delta(case.event, row.at_epsilon, case.relation))
            return replace(row, delta=delta, delta_accuracy=accuracy)
    except _LateError:
        return replace(row, note=f"no answer within {seconds:g} s")
    except MemoryError:
        return replace(row, note="out of memory")
    except Exception as error:
        return replace(row, note=f"{type(error).__name__}: {error}")


def _short(note: str) -> str:
    return " ".join(note.split())[:_NOTE]


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    """Of CPU time: a busy machine is no reason to give up earlier."""

    def late(*_: object) -> None:
        raise _LateError

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
