"""Progress on standard error: after two seconds, on a terminal, on one line that is taken away at the end.

Nothing but the standard library. A thread draws, so work that cannot be divided shows its seconds, and work that can shows its share.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import TextIO

_PATIENCE, _EVERY = 2.0, 0.5  # seconds


class _Line:
    """What is known of the work, and the thread that draws it."""

    def __init__(self, title: str, total: int | None, stream: TextIO, patience: float):
        self.title, self.total, self.stream, self.patience = title, total, stream, patience
        self.done, self.start, self.finished = 0, time.monotonic(), threading.Event()
        self.thread = threading.Thread(target=self.draw, daemon=True)
        self.thread.start()

    def advance(self, done: int) -> None:
        self.done += done

    def draw(self) -> None:
        wait, text = self.patience, ""
        with contextlib.suppress(OSError, ValueError):  # a stream that was closed
            while not self.finished.wait(wait):
                share = f"{self.done:,} of {self.total:,}, " if self.total else f"{self.done:,} done, " if self.done else ""
                text, wait = f"{self.title}: {share}{time.monotonic() - self.start:.0f} s".ljust(len(text)), _EVERY
                self.stream.write("\r" + text)
                self.stream.flush()
            if text:
                self.stream.write("\r" + " " * len(text) + "\r")
                self.stream.flush()


_shown: list[_Line] = []  # at most one


@contextlib.contextmanager
def progress(title: str, total: int | None = None, wanted: bool | None = None,
             patience: float = _PATIENCE) -> Iterator[Callable[[int], None]]:
    """Gives a function to call with how much more is done; calling it is optional.

    Args:
      title: what is going on.
      total: how much there is to do, if that is known.
      wanted: whether to show anything; by default on a terminal. There is one line: inside another one its title and total are
        taken over.
      patience: seconds before the first line.
    """
    stream = sys.stderr
    if not (stream is not None and (stream.isatty() if wanted is None else wanted)):
        yield lambda done: None
        return
    if _shown:
        _shown[0].title, _shown[0].total, _shown[0].done = title, total, 0
        yield _shown[0].advance
        return
    _shown.append(_Line(title, total, stream, patience))
    try:
        yield _shown[0].advance
    finally:
        finish()


def finish() -> None:
    """Takes the line away, before something is printed."""
    while _shown:
        line = _shown.pop()
        line.finished.set()
        line.thread.join()
