"""What the parent of a worker and its two child processes agree on, and how a child reports its health to the parent.

Both children often fail for the same reason, so they send their last error to the parent, which prints it once.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable

EXIT_UNUSABLE = 2
"""Exit status of a process that cannot work with its settings or its environment. The process has reported why."""
METRICS_FOLDER = "PROMETHEUS_MULTIPROC_DIR"
"""Environment variable of the Prometheus client: the private folder that all processes of a worker share."""
REPORT_FD = "TENON_REPORT_FD"
"""Environment variable with the file descriptor that the parent reads from."""
PID_SUFFIX = ".pid"
"""Of the files in that folder with the process id of each child, by its name."""
TEMPORAL_METRICS = "TENON_TEMPORAL_METRICS"
"""Environment variable with a child's name and the loopback address at which Temporal's client serves its metrics."""
REPORT_PERIOD = 2.0


def report_failure(sentence: str) -> bool:
    """Report to the parent why this process cannot work. Returns False if no parent is listening."""
    descriptor = os.environ.get(REPORT_FD)
    if descriptor is None:
        return False
    try:
        os.write(int(descriptor), (json.dumps({"failed": sentence}) + "\n").encode())
    except BrokenPipeError:
        return False
    return True


async def report_health(why_not_ready: Callable[[], str]) -> None:
    """Report until cancelled. ``why_not_ready`` returns an empty string if the process is ready. Does nothing without a
    parent.
    """
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
        await asyncio.sleep(REPORT_PERIOD)
