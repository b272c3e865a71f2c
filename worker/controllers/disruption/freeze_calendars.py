"""Reads the iCalendars of DisruptionFreezes again and again, and writes their times into the statuses.

The status is what passes evaluate. So a calendar that cannot be read, and a restart, leave the last times in force.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from activities.clock import utc_now
from activities.disruption.calendars import CalendarReader, UnreadableCalendarError
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import DISRUPTIONFREEZES
from tenon.apis.disruptionfreeze import freeze_problems
from tenon.disruption.freezes.calendar_times import SHORTEST_INTERVAL, calendar_status, next_read, source_of
from worker.cache.changes import Change, Topic
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.controllers.base import ObjectController

RETRY = SHORTEST_INTERVAL
"""How long after a failure a calendar is read again."""


class FreezeCalendarController(ObjectController):
    """Reads each calendar when it is due. `DisruptionFreezeController` says in a condition what came of it."""

    name = "freezecalendar"
    object_field = "disruptionfreeze"
    topics = (Topic.FREEZE,)
    at_once = 2

    def __init__(self, kube: Kube, cache: ClusterCache, view: PlanningView, read: CalendarReader) -> None:
        super().__init__(cache)
        self._kube = kube
        self._view = view
        self._read = read
        self._unreadable: dict[str, tuple[str, datetime]] = {}
        """By freeze: the source that could not be read, and when."""

    def initial(self) -> Sequence[Change]:
        """All DisruptionFreezes."""
        return [(Topic.FREEZE, freeze.name) for freeze in self._cache.freezes]

    def needs_reconcile(self, name: str) -> bool:
        """Whether the freeze has a calendar."""
        record = self._cache.freezes.get(name)
        has_calendar = record is not None and not record.deleting and bool(record.spec.get("calendar"))
        if not has_calendar:
            self._unreadable.pop(name, None)
        return has_calendar

    async def reconcile_object(self, name: str) -> float | None:
        """Read the calendar of a freeze if it is due, and return when it is due next."""
        record = self._cache.freezes.get(name)
        model = self._view.disruption_freeze(record)[0] if record is not None else None
        calendar = model.spec.calendar if model is not None else None
        if record is None or model is None or calendar is None or any(freeze_problems(model.spec)):
            return None
        now = utc_now()
        due = self._read_due(name, source_of(calendar), next_read(calendar, model.status.calendar))
        if due is not None and due > now:
            return (due - now).total_seconds()
        try:
            times = await self._read(calendar, now)
        except UnreadableCalendarError as error:
            self._unreadable[name] = (source_of(calendar), now)
            await self._write(name, record.status, {"failure": str(error)})
            return RETRY.total_seconds()
        self._unreadable.pop(name, None)
        status = calendar_status(calendar, times, now)
        await self._write(name, record.status, {"failure": None, **status.to_dict()})
        due = next_read(calendar, status)
        return (due - now).total_seconds() if due is not None else None

    def _read_due(self, name: str, source: str, due: datetime | None) -> datetime | None:
        """Return when to read a calendar: not soon after a failure."""
        failed_source, failed_at = self._unreadable.get(name, ("", None))
        if failed_at is None or failed_source != source:
            return due
        return failed_at + RETRY if due is None else max(due, failed_at + RETRY)

    async def _write(self, name: str, status: Any, changes: dict[str, Any]) -> None:
        present = status.get("calendar") or {}
        changed = {field: value for field, value in changes.items() if present.get(field) != value}
        if changed:
            await self._kube.patch(DISRUPTIONFREEZES, name, {"status": {"calendar": changed}}, subresource="status")
