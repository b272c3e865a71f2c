"""Runs work until it ends by itself or an event interrupts it."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from activities import loggers

log = loggers.PROCESS


async def interrupted(work: Coroutine[Any, Any, Any], by: Coroutine[Any, Any, Any], *, name: str) -> bool:
    """Run ``work`` and cancel it when ``by`` ends. Returns whether that happened. Raises what ``work`` raised.

    An error while ``work`` is being cancelled is only logged, so that the caller can go on. ``name`` says what the end
    of ``by`` means.
    """
    working, ending = asyncio.ensure_future(work), asyncio.create_task(by, name=name)
    try:
        await asyncio.wait({working, ending}, return_when=asyncio.FIRST_COMPLETED)
        ended = working.done()
    finally:
        ending.cancel()
        working.cancel()
        ends = await asyncio.gather(working, ending, return_exceptions=True)
    if ended:
        await working
        return False
    if isinstance(ends[0], Exception):
        log.warning(
            "Canceled work did not end cleanly", exc_info=ends[0], extra={"reason": name, "error": repr(ends[0])}
        )
    return True
