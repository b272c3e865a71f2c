"""Reads the entries of the record that are about an object."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from datetime import datetime

from cli.record_faults import without_zone
from cli.record_source import RecordError, RecordSource, open_record
from tenon.kube.timestamps import time_text
from tenon.record.entries import Entry
from tenon.record.why.answer import Consulted, FactSource

MAX_ENTRIES = 5000
"""The newest entries of an object that an answer is made from."""
TURN_ON = (
    "No record was read: set the worker's RECORD_SINKS to a file or a bucket, and name it with --record or "
    "TENON_RECORD; then answers last after nodes and workflows are gone"
)


class RecordReader:
    """Reads the record as often as a question needs."""

    def __init__(self, record: str, since: datetime, cluster: str) -> None:
        """``record``: as for `open_record`; empty for none."""
        self._name = record
        self._since = since
        self._fault = ""
        self._about = 0
        self._unplaced = 0
        """How many entries have a time without a zone."""
        self._source: RecordSource | None = None
        if record:
            try:
                self._source = open_record(record, cluster)
            except RecordError as error:
                self._fault = str(error).rstrip(".")

    def entries(self, concerns: Callable[[Entry], bool]) -> list[Entry]:
        """Return the newest entries that concern the object. It blocks."""
        if self._source is None:
            return []
        try:
            found_entries = deque(filter(concerns, self._placed(self._source)), maxlen=MAX_ENTRIES)
        except RecordError as error:
            self._fault = str(error).rstrip(".")
            return []
        self._about = len(found_entries)
        return list(found_entries)

    def _placed(self, source: RecordSource) -> Iterator[Entry]:
        self._unplaced = 0
        for entry in source.entries(self._since):
            if entry.at.tzinfo is None:
                self._unplaced += 1
            else:
                yield entry

    def consulted(self) -> Consulted:
        """What the record said as a whole."""
        if self._fault:
            return Consulted(FactSource.RECORD, self._fault, is_answer=False)
        if self._source is None:
            return Consulted(FactSource.RECORD, "none was named", is_answer=False)
        number = "1 entry" if self._about == 1 else f"{self._about or 'no'} entries"
        left_out = f"; {without_zone(self._unplaced)}" if self._unplaced else ""
        return Consulted(FactSource.RECORD, f"{number} in {self._name} since {time_text(self._since)}{left_out}")

    def hints(self) -> list[str]:
        """What to do to have a record."""
        return [] if self._name else [TURN_ON]
