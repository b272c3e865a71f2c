"""The controller that reads the calendars of DisruptionFreezes, with a simulated API server."""

from __future__ import annotations

import copy
import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from activities.disruption.calendars import UnreadableCalendarError
from activities.kubernetes.resources import DISRUPTIONFREEZES, Resource
from tenon.apis.disruptionfreeze import DisruptionFreeze, FreezeCalendar
from tenon.disruption.freezes.calendar_times import CalendarTimes, Event
from tenon.disruption.freezes.freeze import NEVER, freeze_of
from tenon.kube.decode import decode_object
from tests.worker.cache.objects import metadata
from tests.worker.fake_temporal import Cache
from worker.cache.changes import Change, Topic
from worker.cache.planning_view import PlanningView
from worker.controllers.disruption import disruption_freezes, freeze_calendars
from worker.controllers.disruption.disruption_freezes import DisruptionFreezeController
from worker.controllers.disruption.freeze_calendars import RETRY, FreezeCalendarController

pytestmark = pytest.mark.asyncio(loop_scope="function")

NOW = datetime(2026, 11, 2, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
URL = "https://example.com/a.ics"
CHANGED: Sequence[Change] = ((Topic.FREEZE, "releases"),)


class World:
    """A DisruptionFreeze with a calendar, and the controllers that write its status."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = NOW
        for module in (freeze_calendars, disruption_freezes):
            monkeypatch.setattr(module, "utc_now", lambda: self.now)
        self.cache = Cache()
        self.view = PlanningView(self.cache)
        self.events: tuple[Event, ...] = ()
        self.failure = ""
        self.reads: list[str] = []
        self.writes = 0
        self.restart()

    def restart(self) -> None:
        """Another worker leads."""
        kube = cast("Any", self)
        self.calendars = FreezeCalendarController(kube, self.cache, self.view, self.read)
        self.conditions = DisruptionFreezeController(kube, self.cache, self.view)

    async def read(self, calendar: FreezeCalendar, now: datetime) -> CalendarTimes:
        self.reads.append(calendar.url)
        if self.failure:
            raise UnreadableCalendarError(self.failure)
        return CalendarTimes(self.events, now + 1440 * HOUR, calendar.timezone)

    async def patch(self, resource: Resource, name: str, patch: Any, *, subresource: str = "") -> None:
        """Merge a status into the cache, as a watch would."""
        assert (resource, subresource) == (DISRUPTIONFREEZES, "status")
        self.writes += 1
        present = self.cache.freezes.get(name)
        assert present is not None
        body = copy.deepcopy(dict(present.body))
        self.put(body["spec"], _merged(body.get("status", {}), patch["status"]), name)

    def put(self, spec: dict[str, Any], status: dict[str, Any] | None = None, name: str = "releases") -> None:
        body = {
            "apiVersion": "tenon.sh/v1alpha1",
            "kind": "DisruptionFreeze",
            "metadata": metadata(name, generation=1),
            "spec": spec,
            "status": status or {},
        }
        self.cache.freezes.on_event(name, decode_object(json.dumps(body).encode()))

    async def look(self) -> int | None:
        """Both controllers look; whole seconds until the calendar is read next."""
        pause = await self.calendars.reconcile(CHANGED)
        await self.conditions.reconcile(())
        return None if pause is None else round(pause)

    @property
    def freeze(self) -> DisruptionFreeze:
        (model,) = self.view.disruption_freezes()
        return model

    def until(self) -> datetime | None:
        """Until when it holds now."""
        return freeze_of(self.freeze).ends(self.now)

    def condition(self) -> tuple[str, str]:
        entries = {entry.type: entry for entry in self.freeze.status.conditions}
        entry = entries.get("CalendarRead")
        return (entry.status, entry.message) if entry is not None else ("", "")


def _merged(before: Any, change: Any) -> Any:
    """A merge patch: nulls remove, lists replace."""
    if not isinstance(change, dict):
        return change
    base = before if isinstance(before, dict) else {}
    merged = {**base, **{key: _merged(base.get(key), value) for key, value in change.items()}}
    return {key: value for key, value in merged.items() if value is not None}


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    world = World(monkeypatch)
    world.put({"calendar": {"url": URL}})
    return world


async def test_a_calendar_is_read_again_and_again_and_its_times_hold(world: World) -> None:
    world.events = (Event(NOW + HOUR, NOW + 3 * HOUR),)
    assert world.until() == NEVER, "nothing is known yet"
    assert await world.look() == 3600.0
    assert (world.until(), world.condition()) == (None, ("True", ""))
    await world.look()
    assert world.reads == [URL], "the write of the status is no reason to read it again"
    world.now += HOUR
    assert world.until() == NOW + 3 * HOUR
    world.events = ()
    assert await world.look() == 3600.0
    assert (world.until(), len(world.reads)) == (None, 2)


async def test_what_is_read_of_a_calendar_is_a_change_for_the_controller_of_the_status(world: World) -> None:
    world.events = (Event(NOW - HOUR, NOW + HOUR),)
    with world.cache.subscribe(DisruptionFreezeController.topics) as changes:
        await world.calendars.reconcile(CHANGED)
        assert changes.take() == list(CHANGED)
        await world.conditions.reconcile(CHANGED)
        assert changes.take() == [], "its own writes are none"
    assert (world.condition(), world.freeze.status.active) == (("True", ""), True)


async def test_the_last_times_hold_while_it_cannot_be_read_and_after_a_restart(world: World) -> None:
    world.events = (Event(NOW + HOUR, NOW + 30 * HOUR),)
    await world.look()
    world.now += HOUR
    world.failure = "example.com answers 503"
    world.restart()
    assert await world.look() == RETRY.total_seconds()
    assert world.until() == NOW + 30 * HOUR
    status, message = world.condition()
    assert status == "False"
    assert message.startswith("example.com answers 503. Its last times hold until 2027-01-01 12:00:00 UTC")
    writes = world.writes
    world.now += RETRY
    await world.look()
    assert (world.writes, len(world.reads)) == (writes, 3), "the same failure is not written again"
    world.now += RETRY
    world.failure = ""
    await world.look()
    assert world.condition() == ("True", "")
    assert world.freeze.status.calendar is not None
    assert world.freeze.status.calendar.failure == ""


async def test_a_restart_does_not_read_a_calendar_that_is_known(world: World) -> None:
    world.events = (Event(NOW - HOUR, NOW + 3 * HOUR),)
    await world.look()
    world.now += HOUR / 2
    world.restart()
    assert await world.calendars.reconcile(world.calendars.initial()) == pytest.approx(1800, abs=1)
    assert (len(world.reads), world.until()) == (1, NOW + 3 * HOUR)


async def test_one_that_was_never_read_freezes_and_is_not_asked_too_often(world: World) -> None:
    world.failure = "example.com answers 404"
    assert await world.look() == RETRY.total_seconds()
    world.now += RETRY / 2
    await world.look()
    assert (len(world.reads), world.until()) == (1, NEVER)
    frozen = "The NodePools that it selects are frozen until it can be read"
    assert world.condition() == ("False", f"example.com answers 404. {frozen}")
    world.put({"calendar": {"url": "https://example.com/b.ics"}}, world.freeze.to_dict()["status"])
    await world.look()
    assert world.reads == [URL, "https://example.com/b.ics"], "another calendar does not wait for the retry"


async def test_a_changed_url_is_read_at_once_and_freezes_until_then(world: World) -> None:
    await world.look()
    world.put({"calendar": {"url": "https://example.com/b.ics"}}, world.freeze.to_dict()["status"])
    assert world.until() == NEVER
    await world.look()
    assert (world.until(), len(world.reads)) == (None, 2)


async def test_a_freeze_without_a_calendar_reads_none_and_forgets_the_former(world: World) -> None:
    await world.look()
    world.put({}, world.freeze.to_dict()["status"])
    assert await world.look() is None
    assert len(world.reads) == 1
    assert world.condition() == ("", "")
    assert world.freeze.status.calendar is None


async def test_a_calendar_in_a_time_zone_that_does_not_exist_is_not_read(world: World) -> None:
    world.put({"calendar": {"url": URL, "timezone": "Berlin"}})
    assert await world.look() is None
    assert (world.reads, world.until()) == ([], NEVER)
