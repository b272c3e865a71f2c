"""Limits the requests of a process to the API server, and decides whose request goes next.

All requests of a process share one limit. In order of arrival, a request of a node that starts would wait behind the
evictions of hundreds of nodes that drain at once, and its pods would wait with it.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from enum import Enum


class RequestClass(Enum):
    """What a request is for. The value is its share of the limit while requests of all classes wait."""

    START = 8
    """Nodes that start, and everything that has no other class."""
    LEAVE = 4
    """Nodes that leave, without their drains: cordon, terminate, release."""
    EVICT = 3
    """Drains. Each pod is a request, so in one class with them a cordon would wait behind the pods of all nodes."""
    EVENT = 1
    """Events, which nothing waits for."""


_current: ContextVar[RequestClass] = ContextVar("request class", default=RequestClass.START)


@contextmanager
def requests_as(kind: RequestClass) -> Iterator[None]:
    """Give this class to all requests that are sent inside, also by tasks that are created inside."""
    token = _current.set(kind)
    try:
        yield
    finally:
        _current.reset(token)


class RateLimit:
    """Allows at most ``qps`` requests per second after a first ``burst``.

    Waiters of one class proceed in order of arrival. Classes take turns by their shares, so a class that waits alone
    gets the whole limit, and none waits for ever. A request takes its slot only when it may be sent, so a request that
    is cancelled while it waits does not delay the others. A class that the API server throttles pauses alone: refused
    events must not hold up nodes that start.
    """

    def __init__(self, qps: float, burst: int) -> None:
        self._interval = 1.0 / qps
        self._allowance = burst * self._interval
        self._next = float("-inf")
        self._waiting: dict[RequestClass, deque[asyncio.Future[None]]] = {kind: deque() for kind in RequestClass}
        self._served = dict.fromkeys(RequestClass, 0.0)
        """By class, how much it got, in units of its share."""
        self._level = 0.0
        """How much the class got that was served last. A class that did not wait cannot save turns up."""
        self._paused_until = dict.fromkeys(RequestClass, float("-inf"))
        self._timer: asyncio.TimerHandle | None = None

    async def acquire(self) -> None:
        """Wait until one more request of the current class may be sent."""
        kind = _current.get()
        now = asyncio.get_running_loop().time()
        if self._next_class() is None and self._paused_until[kind] <= now and (due := self._due()) <= now:
            self._take(kind, due)
            return
        if not self._waiting[kind]:
            self._served[kind] = max(self._served[kind], self._level)
        turn = asyncio.get_running_loop().create_future()
        self._waiting[kind].append(turn)
        self._wait_for_next()
        await turn

    def pause(self, seconds: float) -> None:
        """Send no request of the current class for so long, because the API server asked for it."""
        kind = _current.get()
        until = asyncio.get_running_loop().time() + seconds
        self._paused_until[kind] = max(self._paused_until[kind], until)

    def _due(self) -> float:
        return max(self._next, asyncio.get_running_loop().time() - self._allowance) + self._interval

    def _take(self, kind: RequestClass, due: float) -> None:
        self._next = due
        self._served[kind] = self._level = max(self._served[kind], self._level) + 1 / kind.value

    def _wait_for_next(self) -> None:
        """Wake up when the next request may be sent, or when the first pause of a class that waits is over."""
        if self._timer is not None:
            self._timer.cancel()
        ready = min((self._paused_until[kind] for kind, queue in self._waiting.items() if queue), default=None)
        if ready is not None:
            self._timer = asyncio.get_running_loop().call_at(max(self._due(), ready), self._serve)

    def _serve(self) -> None:
        """Let those proceed whose turn has come."""
        self._timer = None
        while kind := self._next_class():
            due = self._due()
            if due > asyncio.get_running_loop().time():
                self._wait_for_next()
                return
            self._waiting[kind].popleft().set_result(None)
            self._next = due
            self._served[kind] = self._level = self._served[kind] + 1 / kind.value
        self._wait_for_next()

    def _next_class(self) -> RequestClass | None:
        """The class whose next request would be the least ahead of its share; None if none may send one now."""
        now = asyncio.get_running_loop().time()
        for queue in self._waiting.values():
            while queue and queue[0].done():  # cancelled
                queue.popleft()
        waiting = [kind for kind, queue in self._waiting.items() if queue and self._paused_until[kind] <= now]
        return min(waiting, key=lambda kind: self._served[kind] + 1 / kind.value, default=None)
