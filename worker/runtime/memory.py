"""MEMORY_LIMIT: near the container's limit garbage is collected before the kernel ends the worker.

Python has no soft limit as Go's collector has. What comes nearest: look every few seconds at what all processes of the
worker hold together, and at 90 % collect, give free memory back to the system, and say so.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import logging
import os
from collections.abc import Callable
from pathlib import Path

log = logging.getLogger(__name__)

PARENT = "TENON_PARENT_PID"
"""Environment variable: the process that started this one; in a container it is mostly the first, number 1."""
SHARE = 0.9
PERIOD = 10.0
REST = 60.0
"""Seconds after a collection before the next: what is still held then is in use."""
_M_ARENA_MAX, _ARENAS = -8, 2
"""Of malloc.h; and how many."""
_PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")


async def watch_memory(limit: int, used: Callable[[], int] | None = None, period: float = PERIOD) -> None:
    """Serve until cancelled; a limit of -1 or 0 is none.

    Args:
        limit: bytes for the whole worker.
        used: the bytes that the worker holds; by default those of its processes.
        period: seconds between two looks.
    """
    used = used or worker_bytes
    while True:
        if limit > 0 and used() >= limit * SHARE:
            before = used()
            free()
            log.warning(
                "Memory is short: garbage was collected. Raise the memory limit, or lower CPU_REQUESTS to do less at "
                "once.",
                extra={"limit": limit, "before": before, "after": used()},
            )
            await asyncio.sleep(max(REST, period))
        await asyncio.sleep(period)


def worker_bytes() -> int:
    """What this process, the parent that started it and the parent's other children hold in memory.

    One that nobody started as part of a worker, or whose parent is gone, counts itself only.
    """
    parent = os.getppid()
    family = {parent, *_children(parent)} if os.environ.get(PARENT) == str(parent) else set[int]()
    return sum(_resident(process) for process in family | {os.getpid()})


def free() -> None:
    """Collect garbage, and let the allocator return what is free."""
    gc.unfreeze()  # what `worker.runtime.garbage_collector` set apart
    gc.collect()
    return_free_memory()


def return_free_memory() -> None:
    """Let the allocator give free memory back to the system, where it is glibc's."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def share_arenas() -> None:
    """Let all threads allocate from two arenas.

    glibc gives every thread one of its own, up to eight for each core, and what is free in one is of no use to another.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)


def _children(process: int) -> set[int]:
    try:
        text = (_PROC / str(process) / "task" / str(process) / "children").read_text()
    except OSError:  # another kernel, or the process is gone
        return set()
    return {int(each) for each in text.split()}


def _resident(process: int) -> int:
    try:
        return int((_PROC / str(process) / "statm").read_text().split()[1]) * _PAGE
    except OSError:
        return 0
