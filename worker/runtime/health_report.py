"""A child process's side of its health: what it waits for, said to the parent every few seconds.

Both children often fail for the same reason, so the last word of each goes through the parent, which prints it once.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable

REPORT_FD = "TENON_REPORT_FD"
"""Environment variable: the file descriptor on which the parent listens."""
PERIOD = 2.0


def report_failure(sentence: str) -> bool:
    """Tell the parent why this process cannot work; False when there is no parent that listens."""
    descriptor = os.environ.get(REPORT_FD)
    if descriptor is None:
        return False
    try:
        os.write(int(descriptor), (json.dumps({"failed": sentence}) + "\n").encode())
    except BrokenPipeError:
        return False
    return True


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
