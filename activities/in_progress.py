"""What this process does at this moment and since when, so that a scrape can tell what hangs."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator


class InProgress:
    """Work that goes on, by name."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._began: dict[str, float] = {}

    @contextlib.contextmanager
    def during(self, name: str) -> Iterator[None]:
        """The work of this name goes on while the context is open."""
        self._began[name] = self._clock()
        try:
            yield
        finally:
            self._began.pop(name, None)

    def seconds(self) -> dict[str, float]:
        """How long each work has gone on, by name."""
        now = self._clock()
        return {name: now - began for name, began in sorted(self._began.copy().items())}


RECONCILES = InProgress()
"""By the name of the controller."""
SOLVES = InProgress()
"""By the number of the solve."""
