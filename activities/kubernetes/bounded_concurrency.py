"""Sends many requests concurrently, with a limit on those in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")
Answer = TypeVar("Answer")


async def bounded(items: Iterable[Item], limit: int, act: Callable[[Item], Awaitable[Answer]]) -> list[Answer]:
    """Return the answers in the order of the items. The first error cancels the remaining requests and is raised."""
    gate = asyncio.Semaphore(limit)

    async def one(item: Item) -> Answer:
        async with gate:
            return await act(item)

    tasks = [asyncio.ensure_future(one(item)) for item in items]
    try:
        return await asyncio.gather(*tasks)
    except BaseException:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise
