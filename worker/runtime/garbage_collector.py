"""Keeps the garbage collector from walking through the whole cache, which would stop the event loop for long.

Records of the cache refer to nothing that refers back, so they do not need the collector, and a look through those of
100,000 pods takes a third of a second. While the cache is read, only young objects are looked through. Once it is
whole, its records are set apart, and every ten minutes what came since. Garbage among them stays until memory is short
(`worker.runtime.memory.free`).
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable

from worker.runtime.memory import return_free_memory

PERIOD = 600.0
"""Seconds after which what came meanwhile is set apart too."""
THRESHOLDS = (20_000, 5, 200)
"""New objects before the youngest generation is collected, such collections before one of the middle generation, and
those before one of the oldest. The middle generation holds at most 100,000 objects, which takes some 30 ms: a plan in a
thread makes more than that, and every thread waits for a collection."""


async def keep_apart(wait_synced: Callable[[], Awaitable[object]]) -> None:
    """Serve until cancelled; ``wait_synced`` returns when the cache is whole."""
    gc.set_threshold(*THRESHOLDS)
    await wait_synced()
    return_free_memory()  # the lists that the cache was read from
    while True:
        gc.collect(1)  # only what is young: the rest was looked through before, or is large
        gc.freeze()
        await asyncio.sleep(PERIOD)
