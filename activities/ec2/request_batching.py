"""Combines the requests of many threads into few calls, and keeps the calls apart."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from activities import metrics

Item = TypeVar("Item", bound=str)
Result = TypeVar("Result")


class Turns:
    """Lets one call run at a time, and each only ``spacing`` seconds after the previous one has ended.

    The spacing counts from the end of a call, because a slow network may deliver a call late: the calls then reach the
    server at least this far apart. A call after a quiet period does not wait.
    """

    def __init__(
        self,
        spacing: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._spacing = spacing
        self._clock = clock
        self._sleep = sleep
        self._lock = threading.Lock()
        self._free_at = clock()

    @contextmanager
    def turn(self) -> Iterator[None]:
        """Wait until a call may be sent. No other call is sent before the block ends."""
        with self._lock:
            delay = self._free_at - self._clock()
            if delay > 0:
                self._sleep(delay)
            try:
                yield
            finally:
                self._free_at = self._clock() + self._spacing


@dataclass(eq=False)
class _Batch(Generic[Item, Result]):
    items: set[Item] = field(default_factory=set)
    outcome: Future[Mapping[Item, Result]] = field(default_factory=Future)


class RequestBatcher(Generic[Item, Result]):
    """Collects requests until its turn comes, for ``window`` seconds at least and for ``most`` items at most.

    The thread that asks first waits for the others and makes the call. If the call fails, all of them get the error.
    """

    def __init__(
        self,
        ask: Callable[[Sequence[Item]], Mapping[Item, Result]],
        *,
        turns: Turns,
        window: float,
        most: int,
        sleep: Callable[[float], None] = time.sleep,
        name: str = "describe_instances",
    ) -> None:
        """``name``: that of the metrics."""
        self._name = name
        self._ask = ask
        self._turns = turns
        self._window = window
        self._most = most
        self._sleep = sleep
        self._lock = threading.Lock()
        self._open: _Batch[Item, Result] | None = None

    def get(self, item: Item) -> Result | None:
        """The result for an item, or None if the answer does not contain it."""
        return self.get_all([item]).get(item)

    def get_all(self, items: Collection[Item]) -> dict[Item, Result]:
        """The results for several items. Those that the answer does not contain are left out."""
        joined: dict[_Batch[Item, Result], list[Item]] = {}
        began: list[_Batch[Item, Result]] = []
        with self._lock:
            for item in dict.fromkeys(items):
                batch = self._open
                if batch is None:
                    batch = self._open = _Batch()
                    began.append(batch)
                batch.items.add(item)
                joined.setdefault(batch, []).append(item)
                if len(batch.items) >= self._most:
                    self._open = None
        for batch in began:
            self._run(batch)
        results: dict[Item, Result] = {}
        for batch, own in joined.items():
            answer = batch.outcome.result()
            results |= {item: answer[item] for item in own if item in answer}
        return results

    def _run(self, batch: _Batch[Item, Result]) -> None:
        began = time.monotonic()
        try:
            self._sleep(self._window)
            with self._turns.turn():
                self._close(batch)
                metrics.BATCH_SIZE.labels(self._name).observe(len(batch.items))
                metrics.BATCH_SECONDS.labels(self._name).observe(time.monotonic() - began)
                answer = self._ask(sorted(batch.items))
        except BaseException as error:
            self._close(batch)
            batch.outcome.set_exception(error)
        else:
            batch.outcome.set_result(answer)

    def _close(self, batch: _Batch[Item, Result]) -> None:
        """Close the batch, so that no other request joins it."""
        with self._lock:
            if self._open is batch:
                self._open = None
