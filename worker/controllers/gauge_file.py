"""A file of gauges as text that a thread of the leader writes, for gauges of which `/metrics` appends the text.

A thread goes on when the leadership ends. What it writes then would be exported until the process ends, or leads again.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path

from activities.metrics import TEXT_SUFFIX


class GaugeFile:
    """Exists only while its controller runs."""

    def __init__(self, folder: Path, name: str) -> None:
        """``folder``: that of the metrics of this worker."""
        self._path = folder / f"{name}{TEXT_SUFFIX}"
        self._is_open = False
        self._lock = threading.Lock()

    @contextlib.contextmanager
    def exported(self) -> Iterator[None]:
        """Take writes until the block ends. The gauges of a former leader would be out of date."""
        self._is_open = True
        try:
            yield
        finally:
            with self._lock:
                self._is_open = False
                self._path.unlink(missing_ok=True)

    def write(self, text: str) -> None:
        """Replace the gauges, or do nothing if the controller runs no more."""
        with self._lock:
            if self._is_open:
                fresh = self._path.with_suffix(".new")
                fresh.write_text(text)
                os.replace(fresh, self._path)  # a scrape reads the old file or the new one
