"""Measures the lag of the event loop. One long computation delays everything else, including the renewal of the Lease.

If the loop is late but computed little, it waited for a core: for other threads, or because the container's CPU limit
is used up.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable

from activities.metrics import EVENT_LOOP_COMPUTING, EVENT_LOOP_LAG

PERIOD = 0.05
"""Seconds between two measurements."""
SLOT, SLOTS = 5.0, 12
"""The worst value is kept for each 5 seconds of the last minute."""
LATE, LATELY = 2.5, 2
"""A process is not ready if its loop was late by this many seconds in one of this many newest slots. A Lease that is
not renewed within 10 s is lost.
"""


class LoopLag:
    """Measures the lag, exports the worst value of the last minute as metrics, and reports when it is too high."""

    def __init__(
        self,
        process: str,
        clock: Callable[[], float] | None = None,
        pause: Callable[[float], Awaitable[None]] = asyncio.sleep,
        computed: Callable[[], float] = time.thread_time,
    ) -> None:
        """Create the measurement.

        Args:
            process: the label of the metrics.
            clock: returns seconds; by default the time of the running loop.
            pause: sleeps for a number of seconds.
            computed: returns the CPU seconds of this thread.
        """
        self._clock = clock or asyncio.get_running_loop().time
        self._pause = pause
        self._computed = computed
        self._late = EVENT_LOOP_LAG.labels(process)
        self._computing = EVENT_LOOP_COMPUTING.labels(process)
        self._slots: deque[tuple[float, float]] = deque([(0.0, 0.0)], SLOTS)

    async def run(self) -> None:
        """Measure until cancelled."""
        slot_ends = self._clock() + SLOT
        while True:
            due, before = self._clock() + PERIOD, self._computed()
            await self._pause(PERIOD)
            now, computed = self._clock(), self._computed() - before
            late, most = self._slots[-1]
            if now < slot_ends and late >= now - due and most >= computed:
                continue  # as it is nearly always, twenty times a second: exporting costs far more than measuring
            while now >= slot_ends:
                self._slots.append((0.0, 0.0))
                slot_ends += SLOT
            late, most = self._slots[-1]
            self._slots[-1] = max(late, now - due), max(most, computed)
            self._late.set(max(late for late, _ in self._slots))
            self._computing.set(max(most for _, most in self._slots))

    def why_late(self) -> str:
        """A sentence while the loop is late. Otherwise empty."""
        worst = max(late for late, _ in list(self._slots)[-LATELY:])
        return f"its event loop was {worst:.1f} s late" if worst >= LATE else ""
