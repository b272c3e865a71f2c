"""Waiting for a condition, never for a time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

FIRST_PAUSE, MAX_PAUSE = 0.02, 0.1
"""Seconds between two looks: looking costs processor time that is then missing where the answer is made."""


async def until(condition: Callable[[], Awaitable[bool]], *, within: float = 60.0) -> None:
    """Return once the condition holds; ``within`` seconds only bound a test that would otherwise hang.

    Raises:
        TimeoutError: it never held.
    """
    pause = FIRST_PAUSE
    async with asyncio.timeout(within):
        while not await condition():
            await asyncio.sleep(pause)
            pause = min(1.5 * pause, MAX_PAUSE)
