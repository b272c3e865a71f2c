"""Runs work for many objects concurrently, one task at a time for each object.

Without it, one call that is not answered would delay all objects until it times out.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable
from typing import Any

Key = tuple[str, str]
"""A kind of object and a name."""


class KeyedTasks:
    """The tasks that are under way, by object. What a piece of work raises is its own to handle."""

    def __init__(self) -> None:
        self._last: dict[Key, asyncio.Task[None]] = {}

    async def work(
        self, keys: Iterable[Key], begin: Callable[[Key], Coroutine[Any, Any, None]], *, patience: float
    ) -> None:
        """Begin work on each object once its earlier work has ended; return when all is done, or after ``patience``.

        What is not done by then goes on.
        """
        if tasks := [self._begin(key, begin) for key in keys]:
            await asyncio.wait(tasks, timeout=patience)

    async def close(self) -> None:
        """Cancel what is under way, and wait for its end."""
        tasks = list(self._last.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _begin(self, key: Key, begin: Callable[[Key], Coroutine[Any, Any, None]]) -> asyncio.Task[None]:
        before = self._last.get(key)

        async def run() -> None:
            if before is not None:
                await asyncio.wait([before])
            await begin(key)

        def ended(task: asyncio.Task[None]) -> None:
            if self._last.get(key) is task:
                del self._last[key]

        made = self._last[key] = asyncio.create_task(run(), name=" ".join(key))
        made.add_done_callback(ended)
        return made
