"""Computes a result once for all threads that need it at the same time, and caches it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Result = TypeVar("Result")
FOREVER = float("inf")


@dataclass(eq=False)
class _Result(Generic[Result]):
    result: Future[Result] = field(default_factory=Future)
    until: float = FOREVER


class SingleFlight(Generic[Result]):
    """Caches results by key. Threads that ask for a result in progress wait for it.

    If the computation fails, all waiting threads get the error, and it is not cached.
    """

    def __init__(self, remembered_seconds: float, clock: Callable[[], float]) -> None:
        self._seconds = remembered_seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._results: dict[str, _Result[Result]] = {}

    def get(self, key: str, make: Callable[[], Result]) -> Result:
        """The cached result, or the result of ``make`` if there is none."""
        with self._lock:
            now = self._clock()
            self._results = {name: present for name, present in self._results.items() if present.until > now}
            cached = self._results.get(key)
            result = cached or self._results.setdefault(key, _Result())
        if cached is None:
            self._compute(key, result, make)
        return result.result.result()

    def forget(self, key: str) -> None:
        """Drop the cached result, so that the next caller computes a new one."""
        with self._lock:
            self._results.pop(key, None)

    def keep_for(self, key: str, seconds: float) -> None:
        """Cache the result for so many seconds more, at most."""
        with self._lock:
            if (result := self._results.get(key)) is not None:
                result.until = min(result.until, self._clock() + seconds)

    def _compute(self, key: str, pending_result: _Result[Result], make: Callable[[], Result]) -> None:
        try:
            result = make()
        except BaseException as error:
            with self._lock:
                if self._results.get(key) is pending_result:
                    del self._results[key]
            pending_result.result.set_exception(error)
        else:
            with self._lock:
                pending_result.until = self._clock() + self._seconds
            pending_result.result.set_result(result)
