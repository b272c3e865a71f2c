"""Keeps the garbage collector from walking through the whole cache, which would stop the event loop for long.

Records of the cache refer to nothing that refers back, so they go without the collector; to look through those of
100,000 pods takes a third of a second. They are set apart once the cache is whole and again and again after that. What
is set apart and is garbage nevertheless stays until memory is short (`worker.runtime.memory.free`).
"""

from __future__ import annotations

import asyncio
import gc

PERIOD = 600.0
"""Seconds after which what came meanwhile is set apart too."""
THRESHOLDS = (20_000, 20, 100)
"""Objects that are made before the youngest are looked through, and how many such looks before one at older ones."""


async def keep_apart() -> None:
    """Serve until cancelled; begin when the cache is whole."""
    gc.set_threshold(*THRESHOLDS)
    while True:
        gc.collect(1)  # only what is young: the rest was looked through before, or is large
        gc.freeze()
        await asyncio.sleep(PERIOD)
