"""Waiting for a condition, never for a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


async def until(condition: Callable[[], Awaitable[bool]], *, within: float = 60.0) -> None:
    """Return once the condition holds; ``within`` seconds only bound a test that would otherwise hang.

    Raises:
        TimeoutError: it never held.
    """
    async with asyncio.timeout(within):
        while not await condition():  # noqa: ASYNC110 - the condition lives in another process
            await asyncio.sleep(0.02)
