"""What a measurement in a child process is: limits on its time and its memory, and how it may end (`workers` has the children).

Nothing that a child does, or that is done to it, is fatal: every way to end is a status.
  ok              an answer that nothing speaks against
  unsupported     the method does not take the event, or its package is not installed
  error           an exception, or the child was killed
  timeout         the limit on time; the child's imports are not counted
  out of memory   the limit on memory, counted on top of what the interpreter and its libraries take
  implausible     an answer that is NaN, negative or disordered (given by `judge`)
  false           an answer that contradicts the exact value (given by `judge`)
"""

from __future__ import annotations

import math
import multiprocessing
import multiprocessing.context
import os
import signal
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

from dp_accounting import DpEvent, NeighboringRelation

from comparisons.cases import nudged
from comparisons.methods import EXACT, INTERVAL, METHODS, Ends

OK, UNSUPPORTED, ERROR, TIMEOUT, MEMORY = "ok", "unsupported", "error", "timeout", "out of memory"
IMPLAUSIBLE, FALSE = "implausible", "false"
STATUSES = (OK, UNSUPPORTED, ERROR, TIMEOUT, MEMORY, IMPLAUSIBLE, FALSE)
_PRELOAD = ["dp_accounting", "scipy.stats", "scipy.integrate", "scipy.optimize", "scipy.fft", "comparisons.peers",
            "comparisons.exact", "dp_edgeworth"]  # fmt: skip


@dataclass(frozen=True)
class Limits:
    """Seconds and gigabytes that one measurement may take."""

    seconds: float = 60.0
    gigabytes: float = 4.0


@dataclass(frozen=True)
class Outcome:
    """How a child ended: `value` is what its function returned, if it did."""

    status: str
    value: Any = None
    note: str = ""
    peak_mb: float = math.nan


def server() -> multiprocessing.context.ForkServerContext:
    """Where children come from: a process that has imported everything."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(_PRELOAD)
    return context


def epitaph(exitcode: int | None) -> str:
    """How a child died that gave no answer."""
    if exitcode is not None and exitcode < 0:
        name = signal.Signals(-exitcode).name
        return f"the child process was killed by {name} (by hand, or by the system for lack of memory)"
    return f"the child process ended with exit code {exitcode} and no answer"


def confine(gigabytes: float) -> float:
    """Silences this process and limits its memory; returns the peak so far in MB."""
    silence = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):  # peers print and log; what matters is in the outcome
        os.dup2(silence, stream)
    return _limit_memory(gigabytes)


def attempt(function: Callable[..., Any], arguments: tuple[Any, ...], gigabytes: float, before: float) -> Outcome:
    """`function(*arguments)` in this process, which is confined: an exception is a status."""
    try:
        value = function(*arguments)
        return Outcome(OK, value, peak_mb=peak_mb() - before)
    except MemoryError as error:
        return Outcome(MEMORY, note=f"more than {gigabytes:g} GB: {error}".rstrip(": "))
    except Exception as error:
        kind = type(error).__name__
        unsupported = kind in ("UnsupportedEventError", "ImportError", "ModuleNotFoundError", "NotImplementedError")
        return Outcome(UNSUPPORTED if unsupported else ERROR, note=_reason(kind, str(error)))


def _reason(kind: str, message: str) -> str:
    """The message without the event tree that dp-accounting quotes around its reason."""
    _, found, rest = message.partition("Error: [")
    reason = rest.rpartition("] caused by")[0] if found else f"{kind}: {message}"
    return " ".join(reason.split())[:200]


def _limit_memory(gigabytes: float) -> float:
    """Limits the address space to what is mapped now plus `gigabytes`; returns the peak so far in MB."""
    try:
        import resource

        with open("/proc/self/statm") as file:
            mapped = int(file.read().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (mapped + int(gigabytes * 1e9),) * 2)
    except (ImportError, OSError, ValueError):  # no such limit on this system: time is still limited
        pass
    return peak_mb()


def peak_mb() -> float:
    """Peak resident memory of this process so far, in MB; NaN where the system does not say."""
    try:
        import resource
    except ImportError:
        return math.nan
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def spent() -> float:
    """CPU seconds of this process and, where /proc says so, of child processes that have ended."""
    total, process = time.process_time(), forkserver._forkserver._forkserver_pid  # type: ignore[attr-defined]
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return total
    return total + sum(int(field) for field in fields[11:15]) / os.sysconf("SC_CLK_TCK")


def measure(method: str, event: DpEvent, delta: float, relation: NeighboringRelation) -> tuple[Ends, float]:
    """Epsilon ends and the median CPU seconds of making the accountant, composing and asking; repeats while quick.

    Repetitions ask about events that differ by parts in 1e7, so that nobody answers from memory.
    """
    ends, first = _timed(method, event, delta, relation)
    if first > 0.3 or method == EXACT.name:  # slow enough for the first call, with its lazy imports, to count; or only the truth
        return ends, first
    times: list[float] = []
    while not times or (len(times) < 6 and sum(times) < 0.3):
        times.append(_timed(method, nudged(event, len(times) + 1), delta, relation)[1])
    return ends, statistics.median(times)


def _timed(method: str, event: DpEvent, delta: float, relation: NeighboringRelation) -> tuple[Ends, float]:
    start = time.process_time()
    ends = METHODS[method].ends(event, delta, relation)
    return ends, time.process_time() - start


def judge(ends: Ends, guarantee: str, exact: Ends | None) -> tuple[str, str]:
    """(status, note) of an answer: `implausible` by itself, `false` against the exact ends, else `ok`.

    A lower end below zero under a sound estimate is an empty statement, not a wrong one: it stays `ok`.
    """
    lower, estimate, upper = ends
    given = [end for end in ends if end is not None]
    if not given or any(math.isnan(end) for end in given):
        return IMPLAUSIBLE, "NaN"
    if any(end is not None and end < 0.0 for end in (estimate, upper)):
        return IMPLAUSIBLE, "a negative epsilon"
    if given != sorted(given):
        return IMPLAUSIBLE, "lower, estimate and upper are not in order"
    if exact is None or exact[0] is None or exact[2] is None:
        return OK, ""
    if upper is not None and upper < exact[0]:
        return FALSE, f"the upper bound is below the exact value {exact[1]:.7g}"
    if guarantee == INTERVAL and lower is not None and lower > exact[2]:
        return FALSE, f"the lower bound is above the exact value {exact[1]:.7g}"
    return OK, ""
