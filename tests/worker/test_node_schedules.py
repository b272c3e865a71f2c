"""The controller of NodeSchedules with the planner, on a real cache and a clock that tests move."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from zoneinfo import ZoneInfo

import pytest
from prometheus_client import REGISTRY

from activities.kubernetes.resources import NODECLAIMS, NODESCHEDULES, Resource
from activities.provisioning.batching import Batcher
from activities.provisioning.buffers import BufferRoom
from activities.provisioning.planner import Planner
from cli.schedule_view.week import weeks_of
from tenon.apis import labels
from tenon.apis.nodeschedule import NodeSchedule
from tenon.kube.decode import decode_nodeclaim, decode_object
from tenon.kube.timestamps import format_instant
from tenon.messages.node import Removal
from tenon.messages.provisioning import PlanInput
from tenon.node.leave_text import recorded
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.schedule.week import Running
from tests.activities.node.fake_kube import Clock, FakeKube, Recorder
from tests.activities.provisioning.fake_view import READY, FakeTypes
from tests.tenon.apis.case import EC2NODECLASS, NODEPOOL
from tests.tenon.schedule.schedules import HOURS, NIGHTS, POOL
from tests.worker.cache.objects import metadata, node, waiting
from tests.worker.fake_temporal import Cache
from worker.cache.changes import Topic
from worker.cache.planning_view import PlanningView
from worker.controllers.nodepool import schedules
from worker.controllers.nodepool.schedules import NodeScheduleController
from worker.controllers.provisioning.capacity_buffer import CapacityBufferController

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

BERLIN = ZoneInfo("Europe/Berlin")
BOOT = timedelta(seconds=90)
DRAIN = timedelta(seconds=40)
MINUTE = timedelta(minutes=1)


def berlin(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=BERLIN).astimezone(UTC)


class Server(FakeKube):
    """An API server whose watches tell the cache at once."""

    def __init__(self, cache: Whole) -> None:
        clock = Clock()
        super().__init__(clock)
        self.cache = cache

    async def create(self, resource: Resource, body: dict[str, Any], namespace: str = "") -> dict[str, Any]:
        return self.add(resource, body)

    async def list(self, resource: Resource, *, label_selector: str = "", **_: Any) -> list[dict[str, Any]]:
        """All, or the NodeClaims of one batch, or of later ones."""
        bodies = await super().list(resource)
        label, is_later, number = re.fullmatch(r"([^=>]*)(>?)=?(.*)", label_selector).groups()  # type: ignore[union-attr]
        if label != labels.BATCH:
            return bodies
        batches = [(int(body["metadata"]["labels"].get(label) or 0), body) for body in bodies]
        return [body for batch, body in batches if (batch > int(number) if is_later else batch == int(number))]

    def _store(self, resource: Resource, obj: dict[str, Any]) -> None:
        super()._store(resource, obj)
        name, raw = obj["metadata"]["name"], json.dumps(obj).encode()
        if resource is NODECLAIMS:
            self.cache.claims.on_event(name, decode_nodeclaim(raw))
        elif resource is NODESCHEDULES:
            self.cache.schedules.on_event(name, decode_object(raw))


class Whole(Cache):
    """A cache whose watches are never behind, on the clock of the test."""

    def __init__(self, now: datetime) -> None:
        super().__init__()
        self.instant = now
        self.clock = self._time

    def _time(self) -> float:
        return self.instant.timestamp()

    @property
    def synced(self) -> bool:
        return True

    def silent_for(self, resource: Resource) -> float:
        return 0.0


@dataclass
class Life:
    """A node, from its purchase until its instance ends."""

    began: datetime
    ready: datetime | None = None
    leaves: datetime | None = None
    ended: datetime | None = None


class World:
    """The controllers and the planner, one step after the other, with an EC2 and kubelets that take their time."""

    def __init__(self, now: datetime) -> None:
        self.cache = Whole(now)
        self.server = Server(self.cache)
        self.recorder = Recorder()
        ready = {**EC2NODECLASS, "metadata": metadata("default"), "status": {"conditions": [READY]}}
        self.cache.nodeclasses.on_event("default", decode_object(json.dumps(ready).encode()))
        self.put_pool()
        self.view = PlanningView(self.cache)
        room, kube, recorder = BufferRoom(awaited=True), cast("Any", self.server), cast("Any", self.recorder)
        self.batcher = Batcher(self.view, lambda: self.cache.instant, room)
        self.planner = Planner(
            self.view, FakeTypes(), kube, recorder, self.batcher, lambda: self.cache.instant, buffers=room
        )
        self.buffers = CapacityBufferController(
            kube, self.cache, self.view, room, PlanPolicy(), self.batcher.reserved, FakeTypes()
        )
        self.schedules = NodeScheduleController(
            kube, recorder, self.cache, self.view, room.rooms, capacity_buffers=False
        )
        self.changes = self.cache.changes.subscribe([Topic.POOL])
        self.lives: dict[str, Life] = {}
        self.batch = 0

    def put_pool(self, **spec: Any) -> None:
        pool = {**NODEPOOL, "metadata": metadata(POOL, generation=1)}
        pool["spec"] = {**pool["spec"], **spec}
        self.cache.pools.on_event(POOL, decode_object(json.dumps(pool).encode()))

    def put_schedule(self, *entries: dict[str, Any], **spec: Any) -> None:
        spec = {"timeZone": "Europe/Berlin", "nodePools": [POOL], "entries": list(entries), **spec}
        self.server.add(NODESCHEDULES, {"metadata": {"name": "hours", "generation": 1}, "spec": spec})

    @property
    def status(self) -> dict[str, Any]:
        status: dict[str, Any] = self.server.objects["nodeschedules", "", "hours"]["status"]
        return status

    def applied(self) -> tuple[str, str]:
        (condition,) = (entry for entry in self.status["conditions"] if entry["type"] == "Applied")
        return condition["status"], condition["message"]

    async def look(self) -> None:
        """Everything that decides has its turn, and the rest of the world goes on."""
        self.server.clock.instant = self.cache.instant
        await self.schedules.reconcile(())
        await self.buffers.reconcile([(Topic.POOL, POOL)])
        self.batch += 1
        await self.planner.plan(PlanInput(cluster="c", batch=self.batch))
        self._machines()

    def _machines(self) -> None:
        now = self.cache.instant
        for name in self.server.names(NODECLAIMS):
            life, body = self.lives.setdefault(name, Life(now)), self.server.objects["nodeclaims", "", name]
            if body["metadata"].get("deletionTimestamp"):
                life.leaves = life.leaves or now
            if life.ready is None and now >= life.began + BOOT:
                life.ready = now
                self._joins(name, body)
            if life.leaves is not None and now >= life.leaves + DRAIN:
                life.ended = now
                del self.server.objects["nodeclaims", "", name]
                self.cache.claims.on_event(name, None)
                self.cache.nodes.on_event(name, None)

    def _joins(self, name: str, body: dict[str, Any]) -> None:
        since = {"status": "True", "lastTransitionTime": format_instant(self.cache.instant)}
        conditions = [{"type": kind, **since} for kind in ("Launched", "Registered", "Initialized")]
        created = format_instant(self.lives[name].began)
        status = {"providerID": f"aws:///us-west-2a/i-{name}", "conditions": conditions}
        self.server._store(
            NODECLAIMS, {**body, "metadata": {**body["metadata"], "creationTimestamp": created}, "status": status}
        )
        entries = {**body["metadata"]["labels"], labels.INITIALIZED: "true", labels.HOSTNAME: name}
        self.cache.nodes.on_event(name, node(name, cpu="4", meta={"labels": entries}))

    def ready_nodes(self) -> int:
        return sum(life.ready is not None and life.leaves is None for life in self.lives.values())


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The loop's clock, which is played, does not wait for a thread."""

    async def call(work: Callable[..., Any], *arguments: Any) -> Any:
        return work(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", call)
    return iter(())


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    result = World(berlin("2026-06-10T12:00"))
    monkeypatch.setattr(schedules, "utc_now", lambda: result.cache.instant)
    return result


async def stepped(world: World, until: datetime, step: timedelta = MINUTE) -> None:
    while world.cache.instant < until:
        world.cache.instant += step
        await world.look()


async def test_a_floor_is_bought_once_and_kept(world: World) -> None:
    world.put_schedule(HOURS)
    await stepped(world, berlin("2026-06-10T12:30"))
    assert (len(world.lives), world.ready_nodes()) == (2, 2)
    assert world.applied() == ("True", "")


async def test_a_floor_of_spare_cpu_is_bought(world: World) -> None:
    world.put_schedule(HOURS | {"floor": {"spare": {"cpu": "6"}}})
    await stepped(world, berlin("2026-06-10T12:10"))
    assert sum(len(item) for item in world.buffers._room.rooms()) > 0
    assert not world.buffers._room.lacking()


async def test_a_floor_without_room_says_so(world: World) -> None:
    world.put_pool(limits={"nodes": 1})
    world.put_schedule(HOURS)
    await stepped(world, berlin("2026-06-10T12:10"))
    status, message = world.applied()
    assert status == "False"
    assert message.startswith(f"NodePool {POOL} lacks room for its floor: ")
    assert len(world.lives) == 1


async def test_a_nodepool_that_is_off_loses_its_nodes_and_says_why(world: World) -> None:
    world.put_schedule(HOURS, NIGHTS)
    await stepped(world, berlin("2026-06-10T19:00"))
    assert world.ready_nodes() == 0
    (first, *_) = world.server.names(NODECLAIMS)
    (why,) = recorded(world.server.objects["nodeclaims", "", first]["metadata"]["annotations"])
    detail = f"NodePool {POOL}: it is off until Thu 2026-06-11 at 08:57 Europe/Berlin by NodeSchedule hours/nights"
    assert why == Removal(reason="scheduled_off", detail=detail, actor="controller nodeschedule")
    assert ("NodePool", POOL, "ScheduledOff") in [event[:3] for event in world.recorder.events]
    assert REGISTRY.get_sample_value("tenon_nodepools_off", {"nodepool": POOL}) == 1.0
    assert world.status["nodePools"][0]["holds"] == "off"
    await stepped(world, berlin("2026-06-10T19:05"))
    assert world.server.names(NODECLAIMS) == []


async def test_kept_nodes_stay_for_their_time_and_all_stay_while_the_nodepool_is_frozen(world: World) -> None:
    world.put_schedule(HOURS, NIGHTS)
    await stepped(world, berlin("2026-06-10T18:50"))
    kept_claim, other_claim = world.server.names(NODECLAIMS)
    until = format_instant(berlin("2026-06-10T21:00"))
    await world.server.patch(NODECLAIMS, kept_claim, {"metadata": {"annotations": {labels.KEEP_UNTIL: until}}})
    freeze = {
        "metadata": metadata("release", generation=1),
        "spec": {"endTime": format_instant(berlin("2026-06-10T20:00"))},
    }
    world.cache.freezes.on_event("release", decode_object(json.dumps(freeze).encode()))
    await stepped(world, berlin("2026-06-10T19:59"))
    assert world.server.names(NODECLAIMS) == [kept_claim, other_claim]
    await stepped(world, berlin("2026-06-10T20:59"))
    assert world.server.names(NODECLAIMS) == [kept_claim]
    await stepped(world, berlin("2026-06-10T21:05"))
    assert world.server.names(NODECLAIMS) == []


async def test_a_pod_that_waits_at_night_hears_when_its_nodepool_opens_and_gets_its_node_then(world: World) -> None:
    world.put_schedule(NIGHTS)
    await stepped(world, berlin("2026-06-10T23:00"))
    world.cache.pods.on_event("ns/p", waiting())
    await stepped(world, berlin("2026-06-10T23:03"))
    reasons = [event[3] for event in world.recorder.events if event[1] == "p"]
    assert any("off until Thu 2026-06-11 at 08:55 Europe/Berlin" in reason for reason in reasons), reasons
    assert world.lives == {}
    await stepped(world, berlin("2026-06-11T08:37"), timedelta(minutes=17))
    await stepped(world, berlin("2026-06-11T08:54"))
    assert world.lives == {}
    await stepped(world, berlin("2026-06-11T08:58"))
    assert world.ready_nodes() == 1


async def test_those_who_plan_are_woken_when_time_changes_what_holds(world: World) -> None:
    world.put_schedule(HOURS, NIGHTS, bootTime="5m")
    pause = await world.schedules.reconcile(())
    assert pause == 3600.0
    world.changes.take()
    world.cache.instant = berlin("2026-06-10T18:50")
    assert await world.schedules.reconcile(()) == 300.0
    assert world.changes.take() == []
    before = world.view.fingerprint()
    world.cache.instant = berlin("2026-06-10T18:55")
    await world.schedules.reconcile(())
    assert world.changes.take() == [(Topic.POOL, POOL)]
    assert world.view.fingerprint() != before


async def test_what_cannot_hold_is_said(world: World) -> None:
    world.put_schedule(
        HOURS | {"replicas": 3, "headroom": [{"name": "web", "replicas": 1}]}, nodePools=[POOL, "missing"]
    )
    await world.look()
    assert world.applied() == (
        "False",
        f"NodePool {POOL} has no spec.replicas, so replicas have no effect: state a floor instead; "
        "NodePool missing does not exist: create it, or remove it from nodePools; "
        "headroom needs CapacityBuffers: start the worker with FEATURE_GATES=CapacityBuffer=true",
    )


async def test_a_schedule_that_is_not_valid_stops_no_other(world: World) -> None:
    world.put_schedule(HOURS)
    spec = {"timeZone": "Berlin", "nodePools": [POOL], "entries": [NIGHTS]}
    world.server.add(NODESCHEDULES, {"metadata": {"name": "broken", "generation": 1}, "spec": spec})
    await world.look()
    conditions = world.server.objects["nodeschedules", "", "broken"]["status"]["conditions"]
    (validation,) = (entry for entry in conditions if entry["type"] == "ValidationSucceeded")
    assert "'Berlin' is not an IANA time zone" in validation["message"]
    assert world.view.schedules.now().pools[POOL].floor_nodes == 2


async def test_without_schedules_there_is_nothing_to_do(world: World) -> None:
    assert await world.schedules.reconcile(()) is None
    assert world.view.floors() == {}


@pytest.mark.parametrize("monday", ["2026-03-23", "2026-10-19"])
async def test_a_week_of_working_hours_costs_what_the_preview_says_also_when_the_clock_changes(
    monkeypatch: pytest.MonkeyPatch, monday: str
) -> None:
    """Nodes are Ready before 09:00 local time and gone after 19:00, through the night in which the clock changes."""
    world = World(berlin(f"{monday}T00:00"))
    monkeypatch.setattr(schedules, "utc_now", lambda: world.cache.instant)
    world.put_schedule(HOURS, NIGHTS)
    model = NodeSchedule.model_validate(world.server.objects["nodeschedules", "", "hours"])
    (week,) = weeks_of([model], world.cache.instant, {POOL: Running(2, 2.0)})
    assert week.estimate is not None
    paid = timedelta()
    end = berlin(f"{monday}T00:00").astimezone(BERLIN) + timedelta(days=7)
    while world.cache.instant < end:
        world.cache.instant += MINUTE
        await world.look()
        paid += MINUTE * len(world.server.names(NODECLAIMS))
        local = world.cache.instant.astimezone(BERLIN)
        if (local.hour, local.minute) == (9, 0):
            assert world.ready_nodes() == 2, local
        if (local.hour, local.minute) == (19, 3):
            assert world.server.names(NODECLAIMS) == [], local
    assert paid / timedelta(hours=1) == pytest.approx(week.estimate.scheduled, rel=0.05)
    assert len(world.lives) == 14, "no node is bought that the next look removes"
