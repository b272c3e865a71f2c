"""A connection whose every request has one deadline, however slowly its bytes come and its answer is taken."""

from __future__ import annotations

import io
import socket
import time
from collections.abc import Callable
from typing import Any


class TimedConnection(io.RawIOBase):
    """Reads and writes a socket until the deadline, which begins with the first bytes of a request."""

    def __init__(
        self,
        connection: socket.socket,
        idle: float,
        seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``idle`` is how long the next request may be waited for, ``seconds`` how long each one may take."""
        super().__init__()
        self._connection = connection
        self._idle = idle
        self._seconds = seconds
        self._clock = clock
        self._until: float | None = None

    def next_request(self) -> None:
        """What comes now belongs to another request."""
        self._until = None

    @property
    def remaining(self) -> float:
        """Seconds that are left, of the request or of the wait for one."""
        return self._idle if self._until is None else self._until - self._clock()

    def readable(self) -> bool:
        """Requests are read from it."""
        return True

    def writable(self) -> bool:
        """Answers are written to it."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Some bytes of the request; raises TimeoutError after the deadline."""
        self._limit()
        count = self._connection.recv_into(buffer)
        if self._until is None:
            self._until = self._clock() + self._seconds
        return count

    def write(self, data: Any) -> int:
        """Some bytes of the answer; raises TimeoutError after the deadline."""
        self._limit()
        return self._connection.send(data)

    def _limit(self) -> None:
        remaining = self.remaining
        if remaining <= 0:
            raise TimeoutError("the request takes too long")
        self._connection.settimeout(remaining)
