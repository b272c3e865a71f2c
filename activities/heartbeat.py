"""Sends heartbeats during work that may take longer than the activity's heartbeat timeout, and no others.

Temporal Cloud bills each heartbeat. An activity that ends before its heartbeat timeout needs none.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any, TypeVar

from temporalio import activity

Result = TypeVar("Result")

SHARE = 0.7
"""Which share of the heartbeat timeout may pass without a heartbeat. What an activity does before its first call here
counts too, so this is less than the share of 0.8 after which Temporal's SDK sends the next one."""

_beaten_at: ContextVar[float] = ContextVar("beaten_at")
"""When this activity sent its last heartbeat, or asked here first."""


def _due_in() -> float | None:
    """Seconds until the activity must send a heartbeat; None if it need not send any."""
    timeout = activity.info().heartbeat_timeout if activity.in_activity() else None
    if timeout is None:
        return None
    beaten_at = _beaten_at.get(None)
    if beaten_at is None:
        _beaten_at.set(beaten_at := asyncio.get_running_loop().time())
    return max(0.0, beaten_at + SHARE * timeout.total_seconds() - asyncio.get_running_loop().time())


def _beat_if_due(*details: Any) -> None:
    if _due_in() == 0:
        _beaten_at.set(asyncio.get_running_loop().time())
        activity.heartbeat(*details)


def paced_heartbeat() -> Callable[..., None]:
    """Return a function that sends a heartbeat with its arguments if one is due, and may be called often."""
    _beat_if_due()
    return _beat_if_due


async def with_heartbeat(call: Awaitable[Result]) -> Result:
    """Await a call, and send heartbeats as they become due until it returns."""
    task = asyncio.ensure_future(call)
    try:
        while not (await asyncio.wait({task}, timeout=_due_in()))[0]:
            _beat_if_due()
        return task.result()
    finally:
        task.cancel()
