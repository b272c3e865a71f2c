"""What the NodeSchedules in the cache ask for now."""

from __future__ import annotations

from datetime import datetime

from tenon.apis.nodeschedule import NodeSchedule
from tenon.apis.validation import FieldError, parse
from tenon.kube.records import ObjectRecord
from tenon.kube.timestamps import clock_instant
from tenon.schedule.desired import HORIZON, NOTHING_DESIRED, Desired, desired
from worker.cache.state import ClusterState


class Schedules:
    """Evaluates the valid NodeSchedules, and remembers the answer until one of them or the clock changes it."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._parsed: dict[str, tuple[ObjectRecord, NodeSchedule | None, list[FieldError]]] = {}
        self._records: tuple[ObjectRecord, ...] = ()
        self._answer = NOTHING_DESIRED
        self._holds: tuple[datetime, datetime] | None = None
        """Since when and until when the answer holds; None before the first one."""
        self.changes = 0
        """How often the answer was another one than before."""

    def model(self, record: ObjectRecord) -> tuple[NodeSchedule | None, list[FieldError]]:
        """A NodeSchedule's model, None if it cannot be read, and its validation errors."""
        entry = self._parsed.get(record.name)
        if entry is None or entry[0] is not record:
            entry = self._parsed[record.name] = (record, *parse(NodeSchedule, record.body))
        return entry[1], entry[2]

    def models(self) -> list[NodeSchedule]:
        """The schedules that are valid."""
        return [model for record in self._state.schedules if (model := self._usable(record)) is not None]

    def now(self) -> Desired:
        """What the schedules ask for now. A schedule that is not valid asks for nothing."""
        table = self._state.schedules
        if not table and not self._records:
            return NOTHING_DESIRED
        records = tuple(table)
        now = clock_instant(self._state.clock())
        if self._holds is not None and records == self._records and self._holds[0] <= now < self._holds[1]:
            return self._answer
        self._parsed = {name: entry for name, entry in self._parsed.items() if table.get(name) is not None}
        answer = desired(self.models(), now)
        if answer != self._answer:
            self._answer = answer
            self.changes += 1
        self._records = records
        self._holds = (now, answer.next_change or now + HORIZON / 2)
        return self._answer

    def _usable(self, record: ObjectRecord) -> NodeSchedule | None:
        model, faults = self.model(record)
        return model if model is not None and not faults and not record.deleting else None
