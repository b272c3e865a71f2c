"""Heartbeats beside a call that may take longer than the silence after which an activity is taken for dead."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

from temporalio import activity

Result = TypeVar("Result")


async def beating(call: Awaitable[Result], every: float = 10.0) -> Result:
    """The outcome of a call; while it lasts, the activity says every so many seconds that it lives."""
    task = asyncio.ensure_future(call)
    try:
        while not (await asyncio.wait({task}, timeout=every))[0]:
            activity.heartbeat()
        return task.result()
    finally:
        task.cancel()
