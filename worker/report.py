"""A child process's side of its health: what it waits for, said to the parent every few seconds."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable

REPORT_FD = "TENON_REPORT_FD"
"""Environment variable: the file descriptor on which the parent listens."""
PERIOD = 2.0


async def report_health(why_not_ready: Callable[[], str]) -> None:
    """Report until cancelled; an empty answer of ``why_not_ready`` means ready. Without a parent nothing is said."""
    descriptor = os.environ.get(REPORT_FD)
    if descriptor is None:
        return
    while True:
        why = why_not_ready()
        line = json.dumps({"ready": not why, "why": why}) + "\n"
        try:
            os.write(int(descriptor), line.encode())
        except BrokenPipeError:
            return
        await asyncio.sleep(PERIOD)
