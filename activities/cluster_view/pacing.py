"""Limits how often the cluster is evaluated, because the same event loop renews the Lease and reads the watches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SHARE = 0.05
"""The fraction of a core that repeated evaluations may use, unless the caller says another."""
MAX_PAUSE = 1.0
"""The maximum number of seconds before the next evaluation, however long the last one took, unless the caller says
another.
"""
NEGLIGIBLE = 0.005
"""The CPU seconds that an evaluation may take without a pause after it."""


class Pace:
    """The pause between two evaluations."""

    def __init__(
        self,
        least: float = 0.0,
        computed: Callable[[], float] = time.thread_time,
        *,
        share: float = SHARE,
        longest: float = MAX_PAUSE,
    ) -> None:
        """``least`` and ``longest``: the minimum and maximum number of seconds from the end of one evaluation to the
        start of the next. ``computed`` returns the CPU seconds of this thread. ``share``: the fraction of a core.
        """
        self._least = least
        self._share = share
        self._longest = longest
        self._computed = computed
        self._next = 0.0

    @contextmanager
    def measure(self) -> Iterator[None]:
        """Measure the CPU time of one evaluation."""
        began = self._computed()
        try:
            yield
        finally:
            took = self._computed() - began
            pause = min(self._longest, took / self._share) if took > NEGLIGIBLE else 0.0
            self._next = asyncio.get_running_loop().time() + max(self._least, pause)

    async def wait(self, seconds: float) -> None:
        """Return when the next evaluation may start, at the latest after ``seconds``."""
        wait_seconds = min(seconds, self._next - asyncio.get_running_loop().time())
        if wait_seconds > 0:
            await asyncio.sleep(wait_seconds)
