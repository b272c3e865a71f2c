"""How late an event loop is, on a clock that is handed in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence

import pytest
from prometheus_client import REGISTRY

from worker.runtime.process import LATELY, PERIOD, SLOT, SLOTS, LoopLag


class Late:
    """A loop whose waits take longer than asked, by these seconds in turn; then they never end. Half of it
    is spent computing."""

    def __init__(self, delays: Sequence[float]) -> None:
        self.now = 100.0
        self.used = 0.0
        self._delays = list(delays)
        self.done = asyncio.Event()

    def clock(self) -> float:
        return self.now

    async def pause(self, seconds: float) -> None:
        if not self._delays:
            self.done.set()
            await asyncio.Event().wait()
        delay = self._delays.pop(0)
        self.now += seconds + delay
        self.used += delay / 2

    def computed(self) -> float:
        return self.used


async def after(*delays: float) -> tuple[LoopLag, float]:
    """What is told after these delays, and the metric."""
    late = Late(delays)
    lag = LoopLag("tested", late.clock, late.pause, late.computed)
    task = asyncio.create_task(lag.run())
    await late.done.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    value = REGISTRY.get_sample_value("tenon_event_loop_lag_seconds", {"process": "tested"})
    assert value is not None
    return lag, value


def quiet(seconds: float) -> list[float]:
    return [0.0] * (round(seconds / PERIOD) + 1)


async def test_the_metric_is_the_worst_of_the_last_minute() -> None:
    lag, worst = await after(0.01, 0.3, 0.02)
    assert worst == pytest.approx(0.3)
    computing = REGISTRY.get_sample_value("tenon_event_loop_computing_seconds", {"process": "tested"})
    assert computing == pytest.approx(0.15), "for the rest it waited for a core"
    assert lag.why_late() == ""
    _, worst = await after(0.3, *quiet(SLOT * SLOTS))
    assert worst == pytest.approx(0.0)


async def test_a_process_whose_loop_was_late_is_not_ready_for_some_seconds() -> None:
    """What computes for seconds on the loop of the leader costs it its Lease soon: the probe says so before."""
    lag, worst = await after(3.2)
    assert worst == pytest.approx(3.2)
    assert lag.why_late() == "its event loop was 3.2 s late"
    lag, _ = await after(3.2, *quiet(SLOT * LATELY))
    assert lag.why_late() == ""
