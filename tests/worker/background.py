"""A task that runs while a test does: tests must not leave one behind, nor miss that it ended by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any


@asynccontextmanager
async def in_background(work: Coroutine[Any, Any, Any]) -> AsyncIterator[None]:
    """Run ``work``, which does not end by itself, until the block ends."""
    task = asyncio.create_task(work)
    try:
        yield
        assert not task.done(), task
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
