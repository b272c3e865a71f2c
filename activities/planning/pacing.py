"""How often the cluster is looked at again: the event loop that looks also renews the Lease and reads the watches."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

SHARE = 0.05
"""The part of a core that repeated looks may take."""
LONGEST = 1.0
"""Seconds that the next look is put off at most, however much the last one took."""
NEGLIGIBLE = 0.005
"""Seconds of a core that a look may take without a pause after it."""


class Pace:
    """The pause between two looks."""

    def __init__(self, least: float = 0.0, computed: Callable[[], float] = time.thread_time) -> None:
        """``least``: seconds from the end of one look to the beginning of the next, however little it took;
        ``computed`` gives the seconds that this thread had a core.
        """
        self._least = least
        self._computed = computed
        self._next = 0.0

    @contextmanager
    def look(self) -> Iterator[None]:
        """Measure one look."""
        began = self._computed()
        try:
            yield
        finally:
            took = self._computed() - began
            pause = min(LONGEST, took / SHARE) if took > NEGLIGIBLE else 0.0
            self._next = asyncio.get_running_loop().time() + max(self._least, pause)

    async def wait(self, seconds: float) -> None:
        """Return when the next look may begin, at the latest after ``seconds``."""
        left = min(seconds, self._next - asyncio.get_running_loop().time())
        if left > 0:
            await asyncio.sleep(left)
