"""Sends heartbeats during a call that may take longer than the activity's heartbeat timeout."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from temporalio import activity

Result = TypeVar("Result")


async def with_heartbeat(call: Awaitable[Result], every: float = 10.0) -> Result:
    """Await a call and send a heartbeat ``every`` so many seconds until it returns."""
    task = asyncio.ensure_future(call)
    try:
        while not (await asyncio.wait({task}, timeout=every))[0]:
            activity.heartbeat()
        return task.result()
    finally:
        task.cancel()
