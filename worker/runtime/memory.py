"""MEMORY_LIMIT: collects garbage near the container's limit, before the kernel kills the worker.

Python has no soft memory limit as Go has. As an approximation, this module checks every few seconds how much memory all
processes of the worker hold together. At 90 % it collects garbage, returns free memory to the system, and logs that.
It also lowers what a process holds from the start: the allocator's arenas, and the buffers of TLS connections.
"""

from __future__ import annotations

import asyncio
import ctypes
import gc
import os
from asyncio import sslproto
from collections.abc import Awaitable, Callable
from pathlib import Path

from activities import loggers

log = loggers.PROCESS

PARENT = "TENON_PARENT_PID"
"""Environment variable: the process ID of the parent, which in a container is usually 1."""
SHARE = 0.9
PERIOD = 10.0
REST = 60.0
"""Seconds between two collections. Memory that is still held after a collection is in use."""
TLS_BUFFER = 32 * 1024
"""Bytes of the buffer that each TLS connection reads into. A TLS record has at most 16 KiB."""
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
"""The options' numbers in malloc.h."""
_ARENAS = 2
_LARGE_BLOCK = 128 * 1024
"""Bytes from which a block gets pages of its own, and bytes of free memory at the end of an arena that go back: those
that glibc begins with."""
_PROC = Path("/proc")
_PAGE = os.sysconf("SC_PAGE_SIZE")
FREEZE_PERIOD = 600.0
"""Seconds after which the objects created since are frozen too."""
GC_THRESHOLDS = (20_000, 5, 200)
"""New objects before the youngest generation is collected, such collections before one of the middle generation, and
those before one of the oldest. The middle generation holds at most 100,000 objects, whose collection takes some 30 ms.
A plan in a thread creates more objects than that, and every thread waits for a collection.
"""


async def watch_memory(limit: int, used: Callable[[], int] | None = None, period: float = PERIOD) -> None:
    """Watch memory until cancelled. A limit of -1 or 0 means no limit.

    Args:
        limit: bytes for the whole worker.
        used: the bytes that the worker holds; by default those of its processes.
        period: seconds between two checks.
    """
    used = used or worker_bytes
    while True:
        if limit > 0 and used() >= limit * SHARE:
            before = used()
            free()
            log.warning(
                "Memory is short, and the worker collected garbage: raise the memory limit, or lower CPU_REQUESTS "
                "to do less at once",
                extra={"limit-bytes": limit, "before-bytes": before, "after-bytes": used()},
            )
            await asyncio.sleep(max(REST, period))
        await asyncio.sleep(period)


def worker_bytes() -> int:
    """The memory of this process, its parent and the parent's other children, in bytes.

    A process that was not started as part of a worker, or whose parent is gone, counts only itself.
    """
    parent = os.getppid()
    family = {parent, *_children(parent)} if os.environ.get(PARENT) == str(parent) else set[int]()
    return sum(_resident(process) for process in family | {os.getpid()})


def free() -> None:
    """Collect garbage, and return free memory to the system."""
    gc.unfreeze()  # what `freeze_cache_records` froze
    gc.collect()
    return_free_memory()


def return_free_memory() -> None:
    """Return free memory to the system, if the allocator is glibc's."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


def bound_allocator() -> None:
    """Let all threads share two arenas, and let large blocks go back to the system as soon as they are free.

    By default glibc gives every thread its own arena, up to eight for each core, and free memory in one arena is of no
    use to another. It also raises both thresholds, up to 32 and 64 MiB, whenever a large block is freed, and then keeps
    the room of an answer of the API server for good.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:
        mallopt(_M_ARENA_MAX, _ARENAS)
        mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)
        mallopt(_M_TRIM_THRESHOLD, _LARGE_BLOCK)


def shrink_tls_buffers() -> None:
    """Give new TLS connections a smaller buffer than asyncio's 256 KiB.

    In a burst, a process has more than a hundred connections to the API server.
    """
    sslproto.SSLProtocol.max_size = TLS_BUFFER


def _children(process: int) -> set[int]:
    try:
        text = (_PROC / str(process) / "task" / str(process) / "children").read_text()
    except OSError:  # not Linux, or the process is gone
        return set()
    return {int(pid) for pid in text.split()}


def _resident(process: int) -> int:
    try:
        return int((_PROC / str(process) / "statm").read_text().split()[1]) * _PAGE
    except OSError:
        return 0


async def freeze_cache_records(wait_synced: Callable[[], Awaitable[object]]) -> None:
    """Freeze the cache's records until cancelled, because a pass over them would block the event loop for long.

    They have no reference cycles, and a pass over those of 100,000 pods takes a third of a second. While the cache is
    being read, only young objects are collected. Garbage among frozen records stays until `free` unfreezes them.

    Args:
        wait_synced: returns when the cache is complete.
    """
    gc.set_threshold(*GC_THRESHOLDS)
    await wait_synced()
    return_free_memory()  # the lists that the cache was decoded from
    while True:
        gc.collect(1)  # only the young generations: the rest was collected before, or is large
        gc.freeze()
        await asyncio.sleep(FREEZE_PERIOD)
