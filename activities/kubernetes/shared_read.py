"""Shares one read of an object among concurrent callers, and parses each version of it once.

In a burst every launch needs its EC2NodeClass twice, and nearly all of them need the same one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

from tenon.apis.json_object import JsonObject

Parsed = TypeVar("Parsed")


class SharedRead(Generic[Parsed]):
    """Reads objects of one resource by name.

    An answer is never older than its request. A caller that asks during a read waits for the next one.
    """

    def __init__(
        self, read: Callable[[str], Awaitable[JsonObject | None]], parse: Callable[[JsonObject], Parsed]
    ) -> None:
        self._read = read
        self._parse = parse
        self._turns: dict[str, asyncio.Lock] = {}
        self._next: dict[str, asyncio.Task[Parsed | None]] = {}
        self._parsed: dict[str, tuple[str, Parsed]] = {}

    async def get(self, name: str) -> Parsed | None:
        """The parsed object, which callers must not change; None if it does not exist.

        If a caller is cancelled, the read continues for the others.
        """
        task = self._next.get(name)
        if task is None:
            task = self._next[name] = asyncio.create_task(self._answer(name), name=f"read {name}")
            task.add_done_callback(_retrieve)
        return await asyncio.shield(task)

    async def _answer(self, name: str) -> Parsed | None:
        async with self._turns.setdefault(name, asyncio.Lock()):
            del self._next[name]  # who asks from here on needs an answer that is newer than this one
            raw = await self._read(name)
        if raw is None:
            self._parsed.pop(name, None)
            return None
        version = f"{raw['metadata']['uid']} {raw['metadata']['resourceVersion']}"
        cached = self._parsed.get(name)
        if cached is None or cached[0] != version:
            cached = self._parsed[name] = version, self._parse(raw)
        return cached[1]


def _retrieve(task: asyncio.Task[Parsed | None]) -> None:
    """Retrieve the task's error, so that asyncio does not warn if all callers were cancelled before it."""
    if not task.cancelled():
        task.exception()
