"""Work that goes on until it ends by itself or something else ends it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

log = logging.getLogger(__name__)


async def interrupted(work: Coroutine[Any, Any, Any], by: Coroutine[Any, Any, Any], *, name: str) -> bool:
    """Run ``work`` and cancel it as soon as ``by`` ends; whether that happened. What ``work`` raised is raised again.

    Work that stumbles over being cancelled is no reason to end what comes next: that is only logged. ``name`` is what
    the end of ``by`` means.
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
        log.warning("What was ended by %s did not end cleanly: %r", name, ends[0], exc_info=ends[0])
    return True
