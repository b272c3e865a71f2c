"""How late the event loop of this process is: one thing that computes for long holds up all others, the Lease too."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable

from activities.metrics import EVENT_LOOP_LAG

PERIOD = 0.05
"""Seconds between two measurements."""
SLOT, SLOTS = 5.0, 12
"""The worst is kept for each 5 seconds of the last minute."""
LATE, LATELY = 2.5, 2
"""A process is not ready while its loop was late by so many seconds in one of its newest slots. A Lease that is not
renewed within 10 s is lost."""


class LoopLag:
    """Measures, shows the worst of the last minute as a metric, and tells when it is bad."""

    def __init__(
        self,
        process: str,
        clock: Callable[[], float] | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """``process`` is the label of the metric; ``clock`` gives seconds, by default those of the running loop."""
        self._clock = clock or asyncio.get_running_loop().time
        self._pause = pause
        self._gauge = EVENT_LOOP_LAG.labels(process)
        self._slots: deque[float] = deque([0.0], SLOTS)

    async def run(self) -> None:
        """Measure until cancelled."""
        slot_ends = self._clock() + SLOT
        while True:
            due = self._clock() + PERIOD
            await self._pause(PERIOD)
            now = self._clock()
            while now >= slot_ends:
                self._slots.append(0.0)
                slot_ends += SLOT
            self._slots[-1] = max(self._slots[-1], now - due)
            self._gauge.set(max(self._slots))

    def why_late(self) -> str:
        """A sentence while the loop is late; else empty."""
        worst = max(list(self._slots)[-LATELY:])
        return f"its event loop was {worst:.1f} s late" if worst >= LATE else ""
