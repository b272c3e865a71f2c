"""Hands entries to one sink in a thread of its own. The work that they tell of goes on whatever becomes of them.

The queue is bounded: while a sink does not keep up, entries are lost, counted and reported in the log once a minute.
What was not written when the process is killed is lost too.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from activities import loggers
from activities.metrics import RECORD_ENTRIES
from tenon.errors import TenonError
from tenon.record.entries import Entry
from worker.log_rate_limit import LogRateLimiter

log = loggers.RECORD

MAX_WAITING = 2000
"""How many entries wait for a sink. One has about 2 KB, that of a large plan up to 500 KB."""
PAUSES = (1.0, 5.0, 15.0, 60.0)
"""Seconds before each next attempt to write a batch. The last one repeats."""


class SinkError(TenonError):
    """A sink did not take entries. The message says what to do."""


class Sink(Protocol):
    """A place where entries go. Only one thread uses it."""

    name: str
    """As metrics and log lines name it."""
    batch: int
    """How many entries it takes at once."""
    gathers_for: float
    """For how many seconds entries gather before they are written."""

    def write(self, entries: Sequence[Entry]) -> None:
        """Write all entries. If it fails, the same entries are written again later.

        Raises:
            Exception: they were not all written.
        """
        ...

    def close(self) -> None:
        """Release what it holds."""
        ...


class Channel:
    """The queue and the thread of one sink."""

    def __init__(self, sink: Sink, *, most: int = MAX_WAITING, clock: Callable[[], float] = time.monotonic) -> None:
        self._sink = sink
        self._most = most
        self._clock = clock
        self._waiting: deque[Entry] = deque()
        self._changed = threading.Condition()
        self._stopping = False
        self._lost = 0
        self._log_limiter = LogRateLimiter(clock)
        self._thread = threading.Thread(target=self._run, name=f"record-{sink.name}", daemon=True)
        self._thread.start()

    def put(self, entry: Entry) -> None:
        """Take an entry, or lose it if too many wait. Returns at once."""
        with self._changed:
            has_room = len(self._waiting) < self._most and not self._stopping
            if has_room:
                self._waiting.append(entry)
                self._changed.notify()
        if not has_room:
            self._lose(1)

    def stop(self) -> None:
        """Begin to write what waits, and take no more."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()

    def join(self, seconds: float) -> None:
        """Wait until all is written, or so long. What is not written by then is lost."""
        self._thread.join(max(0.0, seconds))
        if self._thread.is_alive():
            with self._changed:
                late = len(self._waiting)
                self._waiting.clear()
            self._lose(late)

    def _run(self) -> None:
        while batch := self._next_batch():
            self._deliver(batch)
        self._sink.close()

    def _next_batch(self) -> list[Entry]:
        """The entries to write now; empty if it was stopped and none are left."""
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._stopping)
            if self._sink.gathers_for:
                self._changed.wait_for(
                    lambda: self._stopping or len(self._waiting) >= self._sink.batch, timeout=self._sink.gathers_for
                )
            return [self._waiting.popleft() for _ in range(min(len(self._waiting), self._sink.batch))]

    def _deliver(self, batch: list[Entry]) -> None:
        """Write a batch, again and again until it is written. Once it was stopped, try only once more."""
        attempt = 0
        while True:
            is_last = self._stopping
            try:
                self._sink.write(batch)
            except Exception as error:  # of the file system or any library: the thread must go on
                self._report(error)
            else:
                RECORD_ENTRIES.labels(self._sink.name, "written").inc(len(batch))
                return
            if is_last:
                self._lose(len(batch))
                return
            with self._changed:
                pause = PAUSES[min(attempt, len(PAUSES) - 1)]
                self._changed.wait_for(lambda: self._stopping, timeout=pause)
            attempt += 1

    def _report(self, error: Exception) -> None:
        if self._log_limiter.count("write") is not None:
            log.warning(
                "The record cannot be written and is retried", extra={"sink": self._sink.name, "error": str(error)}
            )

    def _lose(self, number: int) -> None:
        if not number:
            return
        RECORD_ENTRIES.labels(self._sink.name, "lost").inc(number)
        self._lost += number
        if self._log_limiter.count("lost") is not None:
            log.error("Entries of the record are lost", extra={"sink": self._sink.name, "count": self._lost})
            self._lost = 0
