"""What the garbage collector of the cluster process leaves alone, and when it does not."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from collections.abc import Iterator

import pytest

from worker.runtime.memory import GC_THRESHOLDS, free, freeze_cache_records


@pytest.fixture
def collector() -> Iterator[None]:
    """The collector is afterwards as it was."""
    before = gc.get_threshold()
    gc.unfreeze()
    yield
    gc.set_threshold(*before)
    gc.freeze()  # what the test run holds: tests/collector.py


@pytest.mark.usefixtures("collector")
async def test_what_the_cache_holds_is_not_looked_through_until_memory_is_short() -> None:
    hold = [{"record": number} for number in range(1000)]
    synced = asyncio.Event()
    task = asyncio.create_task(freeze_cache_records(synced.wait))
    await asyncio.sleep(0)
    assert gc.get_threshold() == GC_THRESHOLDS, "nothing old is looked through while the cache is read"
    assert gc.get_freeze_count() == 0
    synced.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert gc.get_freeze_count() > len(hold)
    free()
    assert gc.get_freeze_count() == 0
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
