"""Keeps the garbage collector from walking through the whole cache, which would block the event loop for long.

Records of the cache have no reference cycles, so they do not need the collector, and a pass over those of 100,000 pods
takes a third of a second. While the cache is being read, only young objects are collected. When it is complete, its
records are frozen, and every ten minutes the newer ones are frozen too. Garbage among them stays until memory is short
(`worker.runtime.memory.free`).
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable

from worker.runtime.memory import return_free_memory

PERIOD = 600.0
"""Seconds after which the objects created since are frozen too."""
THRESHOLDS = (20_000, 5, 200)
"""New objects before the youngest generation is collected, such collections before one of the middle generation, and
those before one of the oldest. The middle generation holds at most 100,000 objects, whose collection takes some 30 ms.
A plan in a thread creates more objects than that, and every thread waits for a collection.
"""


async def freeze_cache_records(wait_synced: Callable[[], Awaitable[object]]) -> None:
    """Freeze the cache's records until cancelled. ``wait_synced`` returns when the cache is complete."""
    gc.set_threshold(*THRESHOLDS)
    await wait_synced()
    return_free_memory()  # the lists that the cache was decoded from
    while True:
        gc.collect(1)  # only the young generations: the rest was collected before, or is large
        gc.freeze()
        await asyncio.sleep(PERIOD)
