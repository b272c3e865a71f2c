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
        self._made: dict[str, _Result[Result]] = {}

    def get(self, key: str, make: Callable[[], Result]) -> Result:
        """The cached result, or the result of ``make`` if there is none."""
        with self._lock:
            now = self._clock()
            self._made = {each: made for each, made in self._made.items() if made.until > now}
            known = self._made.get(key)
            made = known or self._made.setdefault(key, _Result())
        if known is None:
            self._make(key, made, make)
        return made.result.result()

    def forget(self, key: str) -> None:
        """Drop the cached result, so that the next caller computes a new one."""
        with self._lock:
            self._made.pop(key, None)

    def _make(self, key: str, made: _Result[Result], make: Callable[[], Result]) -> None:
        try:
            result = make()
        except BaseException as error:
            with self._lock:
                if self._made.get(key) is made:
                    del self._made[key]
            made.result.set_exception(error)
        else:
            with self._lock:
                made.until = self._clock() + self._seconds
            made.result.set_result(result)
