"""A record in memory."""

from __future__ import annotations

from collections.abc import Callable

from tenon.record.entries import Entry


class KeptRecord:
    """Keeps the entries."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def write(self, make: Callable[[], Entry]) -> None:
        self.entries.append(make())
