"""Runs work for many objects concurrently, one task at a time for each object.

Without it, one call that is not answered would delay all objects until it times out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any


class KeyedTasks:
    """The running tasks, by name of the object. Each task must handle its own exceptions."""

    def __init__(self) -> None:
        self._last: dict[str, asyncio.Task[None]] = {}

    async def work(
        self, keys: Iterable[str], begin: Callable[[str], Coroutine[Any, Any, None]], *, within: float
    ) -> None:
        """Start work on each object after its earlier work has ended. Returns when all is done, or after ``within``
        seconds.

        Unfinished work continues.
        """
        if tasks := [self._begin(key, begin) for key in keys]:
            await asyncio.wait(tasks, timeout=within)

    async def close(self) -> None:
        """Cancel all running tasks and wait for them to end."""
        tasks = list(self._last.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, key: str, begin: Callable[[str], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        before = self._last.get(key)

        async def run() -> None:
            if before is not None:
                await asyncio.wait([before])
            await begin(key)

        def ended(task: asyncio.Task[None]) -> None:
            if self._last.get(key) is task:
                del self._last[key]

        new_task = self._last[key] = asyncio.create_task(run(), name=key)
        new_task.add_done_callback(ended)
        return new_task
