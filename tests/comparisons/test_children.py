"""Measurements in child processes: every way to end is a status."""

from __future__ import annotations

import math
import os
import signal
import time

import dp_accounting as dpa
import numpy as np
import pytest

pytest.importorskip("rich")
pytest.importorskip("prv_accountant")

from comparisons import methods, workers
from comparisons.runner import Limits, judge
from comparisons.workers import limited

AR, RO = dpa.NeighboringRelation.ADD_OR_REMOVE_ONE, dpa.NeighboringRelation.REPLACE_ONE
QUICK = Limits(seconds=20.0, gigabytes=2.0)


def sleeper(seconds: float) -> None:
    time.sleep(seconds)


def glutton(gigabytes: float) -> int:
    return int(np.ones(int(gigabytes * 125e6)).sum())


def suicide() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def quitter() -> None:
    os._exit(3)


def failure(error: type[Exception]) -> None:
    raise error("because")


def test_a_child_that_answers() -> None:
    outcome = limited(max, (3, 4), QUICK)
    assert (outcome.status, outcome.value) == ("ok", 4)
    assert outcome.peak_mb >= 0.0


def test_a_child_that_is_killed() -> None:
    outcome = limited(suicide, (), QUICK)
    assert outcome.status == "error" and "SIGKILL" in outcome.note


def test_a_child_that_exits_without_an_answer() -> None:
    outcome = limited(quitter, (), QUICK)
    assert outcome.status == "error" and "exit code 3" in outcome.note


def test_a_child_that_takes_too_much_memory() -> None:
    outcome = limited(glutton, (4.0,), Limits(seconds=20.0, gigabytes=0.5))
    assert outcome.status == "out of memory" and "0.5 GB" in outcome.note


def test_a_child_that_takes_too_long() -> None:
    outcome = limited(sleeper, (600.0,), Limits(seconds=0.3))
    assert outcome.status == "timeout" and "0.3 s" in outcome.note


@pytest.mark.parametrize(
    ("error", "status"),
    [(ImportError, "unsupported"), (dpa.UnsupportedEventError, "unsupported"), (ValueError, "error")],
)
def test_exceptions_are_statuses(error: type[Exception], status: str) -> None:
    outcome = limited(failure, (error,), QUICK)
    assert outcome.status == status and "because" in outcome.note


@pytest.mark.parametrize(
    ("ends", "guarantee", "status"),
    [
        ((0.9, 1.0, 1.1), "interval", "ok"),
        ((-0.1, 0.0, 1.1), "interval", "ok"),  # an empty lower end is not a wrong one
        ((None, None, math.inf), "upper bound", "ok"),
        ((None, 7.0, None), "estimate", "ok"),  # estimates promise nothing
        ((None, math.nan, None), "estimate", "implausible"),
        ((0.0, 1.0, math.nan), "interval", "implausible"),
        ((-12.0, -11.5, -11.0), "interval", "implausible"),
        ((None, None, -1.0), "upper bound", "implausible"),
        ((1.1, 1.0, 0.9), "interval", "implausible"),
        ((None, None, None), "estimate", "implausible"),
        ((None, None, 0.99), "upper bound", "false"),
        ((1.05, 1.06, 1.1), "interval", "false"),
        ((0.8, 0.9, 0.95), "interval", "false"),
    ],
)
def test_judgement(ends: methods.Ends, guarantee: str, status: str) -> None:
    assert judge(ends, guarantee, (1.0 - 1e-9, 1.0, 1.0 + 1e-9))[0] == status


def whatever(what: str) -> str:
    if what == "die":
        suicide()
    if what == "sleep":
        sleeper(60.0)
    if what == "eat":
        glutton(4.0)
    if what == "fail":
        failure(ValueError)
    return what


def test_a_worker_that_ends_is_replaced_and_every_task_has_its_outcome() -> None:
    tasks = [(what,) for what in ("a", "die", "b", "sleep", "c", "fail", "d", "eat", "e")]
    found = {task[0]: outcome for task, outcome in workers.outcomes(whatever, tasks, Limits(1.5, 0.5), jobs=2)}
    assert {what: outcome.status for what, outcome in found.items()} == {
        "die": "error", "sleep": "timeout", "fail": "error", "eat": "out of memory", **dict.fromkeys("abcde", "ok")
    }  # fmt: skip
    assert all(found[what].value == what for what in "abcde")
    assert "SIGKILL" in found["die"].note and "1.5 s" in found["sleep"].note and "because" in found["fail"].note


def test_a_worker_that_cannot_start_is_no_row() -> None:
    worker = workers._Worker.new(whatever, QUICK)
    worker.child.kill()
    worker.child.join()
    try:
        with pytest.raises(OSError, match="must be able to start"):
            for _ in range(3):  # it may have said that it started, and died then
                worker.outcome()
                worker.started = False
    finally:
        worker.end()
