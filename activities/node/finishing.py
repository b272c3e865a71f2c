"""Lets an activity finish although its worker shuts down, so that what EC2 has sold is recorded.

A worker that stands by, or stops, cancels its activities after a time. The thread that waits for EC2 cannot be
canceled. If the answer were dropped, the NodeClaim would not show its instance, and another controller would launch it
again. Nothing new is sent: the gate (`activities/gate.py`) is closed, or the process ends.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from temporalio import activity

from activities import loggers

log = loggers.NODECLAIM_LIFECYCLE

Result = TypeVar("Result")
_UNFINISHED: set[asyncio.Task[Any]] = set()
"""Holds references, because an event loop has only weak ones."""


async def finished(work: Coroutine[Any, Any, Result]) -> Result:
    """Await the work of an activity. If the worker shuts down meanwhile, the work goes on without the activity."""
    task = asyncio.create_task(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if _shuts_down():
            _UNFINISHED.add(task)
            task.add_done_callback(_end)
        else:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        raise


def _shuts_down() -> bool:
    details = activity.cancellation_details() if activity.in_activity() else None
    return details is not None and details.worker_shutdown


def _end(task: asyncio.Task[Any]) -> None:
    _UNFINISHED.discard(task)
    if not task.cancelled() and (error := task.exception()) is not None:
        log.info("A launch did not end before its worker stopped, and is retried", extra={"error": str(error)})
