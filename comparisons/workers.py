"""Measurements in child processes with the limits of `runner`: one in a child of its own, or many in a few children.

A worker answers one task after the other. One that takes too long is killed, one that died or ran out of memory is
replaced, and the others do not notice; one that cannot even start ends the run (OSError). A task that ran out of memory
in a worker that had already done something is given to a new one: what others left behind is not its fault.
"""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from typing import Any

from comparisons.runner import ERROR, MEMORY, TIMEOUT, Limits, Outcome, attempt, confine, epitaph, server

Task = tuple[Any, ...]  # the arguments of the function
_START = 120.0  # seconds that a worker may take to come up, on a busy machine


def outcomes(
    function: Callable[..., Any], tasks: Iterable[Task], limits: Limits, jobs: int = 1
) -> Iterator[tuple[Task, Outcome]]:
    """(task, outcome of function(*task)) in the order in which they are finished; all must be picklable."""
    left, workers = iter(tasks), []
    try:
        for task in itertools.islice(left, jobs):
            workers.append(_Worker.new(function, limits))
            workers[-1].give(task)
        while workers:
            for worker in _ready(workers):
                outcome = worker.outcome()
                if outcome is None:
                    continue
                again = outcome.status == MEMORY and worker.answered > 1
                if not again:
                    yield worker.task, outcome
                following = worker.task if again else next(left, None)
                if following is None or not worker.alive or outcome.status == MEMORY:
                    worker.end()
                    workers.remove(worker)
                    if following is None:
                        continue
                    worker = _Worker.new(function, limits)
                    workers.append(worker)
                worker.give(following)
    finally:
        for worker in workers:
            worker.end()


def limited(function: Callable[..., Any], arguments: Task, limits: Limits) -> Outcome:
    """`function(*arguments)` in a child process of its own; both must be picklable."""
    (found,) = outcomes(function, [arguments], limits)
    return found[1]


@dataclass(eq=False)
class _Worker:
    """A child, the task it has, and when its time is up."""

    child: Any
    pipe: Connection
    limits: Limits
    task: Task = ()
    started: bool = False
    deadline: float = math.inf
    answered: int = 0
    alive: bool = True

    @classmethod
    def new(cls, function: Callable[..., Any], limits: Limits) -> _Worker:
        context = server()
        here, there = context.Pipe()
        child = context.Process(target=_answer, args=(there, function, limits.gigabytes), daemon=True)
        child.start()
        there.close()
        return cls(child, here, limits)

    def give(self, task: Task) -> None:
        self.task = task
        self.deadline = time.monotonic() + (self.limits.seconds if self.started else _START)
        try:
            self.pipe.send(task)
        except OSError:  # it died while it was idle: `outcome` finds out
            pass

    def outcome(self) -> Outcome | None:
        """How the task ended; None where it has only begun, or goes on."""
        try:
            if self.pipe.poll():
                message = self.pipe.recv()
                if not isinstance(message, Outcome):  # up and running: imports are not counted
                    self.started, self.deadline = True, time.monotonic() + self.limits.seconds
                    return None
                self.answered += 1
                return message
        except (EOFError, OSError):
            self.child.join()
            self.alive = False
            return self._came_up(Outcome(ERROR, note=epitaph(self.child.exitcode)))
        if time.monotonic() < self.deadline:
            return None
        self.alive = False
        return self._came_up(Outcome(TIMEOUT, note=f"no answer within {self.limits.seconds:g} s"))

    def _came_up(self, outcome: Outcome) -> Outcome:
        """The outcome of a task that was begun; a worker that never was is nothing to write into a row."""
        if not self.started:
            raise OSError(f"A worker must be able to start. Found one that did not: {outcome.note}.")
        return outcome

    def end(self) -> None:
        self.child.kill()
        self.child.join()
        self.pipe.close()


def _ready(workers: list[_Worker]) -> list[_Worker]:
    """Waits until a worker has something to say, or its time is up."""
    patience = max(0.0, min(worker.deadline for worker in workers) - time.monotonic())
    spoken = wait([worker.pipe for worker in workers], timeout=patience)
    return [worker for worker in workers if worker.pipe in spoken or time.monotonic() >= worker.deadline]


def _answer(there: Connection, function: Callable[..., Any], gigabytes: float) -> None:
    """Body of a worker, until its parent is gone."""
    before = confine(gigabytes)
    there.send("started")
    while True:
        try:
            there.send(attempt(function, there.recv(), gigabytes, before))
        except (EOFError, OSError):
            return
