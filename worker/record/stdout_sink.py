"""Writes entries to standard output, between the lines of the log, which have the same first fields.

So what ships a worker's log ships its record too, and `logger="worker.record"` finds the entries there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from datetime import UTC

from activities import loggers
from tenon.record.entries import Entry, EntryKind
from tenon.record.lines import line_of

MESSAGES = {
    EntryKind.PLAN: "A batch of pods was planned",
    EntryKind.COMMAND: "A disruption command started",
    EntryKind.COMMAND_END: "A disruption command ended",
    EntryKind.LAUNCH: "An instance was launched",
    EntryKind.REMOVAL: "A node's life ended",
    EntryKind.COST: "The cost of nodes was measured",
    EntryKind.DISRUPTION: "Disruption made a decision",
}
"""The message of each entry. A refusal has one itself."""


class StdoutSink:
    """Writes each entry as one line of JSON."""

    name = "stdout"
    batch = 100
    gathers_for = 0.0

    def __init__(self, process: str, descriptor: int = 1) -> None:
        """``process`` names the worker process. ``descriptor``: of the file that is written."""
        self._process = process
        self._descriptor = descriptor

    def write(self, entries: Sequence[Entry]) -> None:
        """Write all entries.

        Raises:
            OSError: no one reads them.
        """
        for entry in entries:  # one write for each: a pipe keeps short writes of several processes apart
            write_all(self._descriptor, (self._line(entry) + "\n").encode())

    def close(self) -> None:
        """Do nothing: standard output stays open."""

    def _line(self, entry: Entry) -> str:
        head = {
            "level": "INFO",
            "time": entry.at.astimezone(UTC).isoformat(timespec="milliseconds"),
            "logger": loggers.RECORD.name,
            "process": self._process,
        }
        if entry.kind in MESSAGES:
            head["message"] = MESSAGES[EntryKind(entry.kind)]
        return f"{json.dumps(head)[:-1]}, {line_of(entry)[1:]}"


def write_all(descriptor: int, content: bytes) -> None:
    """Write all of the content to a file that is open.

    Raises:
        OSError: it cannot be written.
    """
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
