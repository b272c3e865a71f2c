"""What everything that records something needs. Recording never delays or fails the work that it tells of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from temporalio import activity

from tenon.record.entries import Entry
from tenon.record.origin import Origin


class RecordWriter(Protocol):
    """Takes entries. Tests keep them instead of writing them."""

    def write(self, make: Callable[[], Entry]) -> None:
        """Make an entry, take it, and return at once. It never raises, not even if the entry cannot be made."""
        ...


class NoRecord:
    """Makes and keeps no entries."""

    def write(self, make: Callable[[], Entry]) -> None:
        """Do nothing."""


NO_RECORD: RecordWriter = NoRecord()


def origin_of_activity(cluster: str) -> Origin:
    """Return which workflow runs this activity."""
    if not activity.in_activity():
        return Origin(cluster)
    info = activity.info()
    return Origin(cluster, info.workflow_id or "", info.workflow_run_id or "")


def step_of_activity() -> str:
    """Return what identifies this activity within its workflow's run. Its retries have the same."""
    return activity.info().activity_id if activity.in_activity() else ""
