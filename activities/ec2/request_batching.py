"""Combines the requests of many threads for one item each into one call."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, TypeVar

Item = TypeVar("Item", bound=str)
Result = TypeVar("Result")


@dataclass(eq=False)
class _Batch(Generic[Item, Result]):
    items: set[Item] = field(default_factory=set)
    outcome: Future[Mapping[Item, Result]] = field(default_factory=Future)


class Batcher(Generic[Item, Result]):
    """Collects requests for ``window`` seconds, at most ``most`` items, and makes one call for all of them.

    The thread that asks first waits for the others and makes the call. If the call fails, all of them get the error.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[Item]], Mapping[Item, Result]],
        *,
        window: float,
        most: int,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._ask = ask
        self._window = window
        self._most = most
        self._sleep = sleep
        self._lock = threading.Lock()
        self._open: _Batch[Item, Result] | None = None

    def get(self, item: Item) -> Result | None:
        """The result for an item, or None if the answer does not contain it."""
        with self._lock:
            first = self._open is None
            batch = self._open = self._open or _Batch()
            batch.items.add(item)
            if len(batch.items) >= self._most:
                self._open = None
        if first:
            self._run(batch)
        return batch.outcome.result().get(item)

    def _run(self, batch: _Batch[Item, Result]) -> None:
        try:
            self._sleep(self._window)
            with self._lock:
                if self._open is batch:
                    self._open = None
            batch.outcome.set_result(self._ask(sorted(batch.items)))
        except BaseException as error:
            batch.outcome.set_exception(error)
