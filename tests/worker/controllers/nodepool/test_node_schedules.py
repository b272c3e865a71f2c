"""The controller of NodeSchedules with the planner, on a real cache and a clock that tests move."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from activities.kubernetes.resources import NODECLAIMS, NODESCHEDULES, Resource
from activities.provisioning.launch_refusals import LaunchRefusals
from cli.schedule_view.week import weeks_of
from tenon.apis import labels
from tenon.apis.nodeschedule import NodeSchedule
from tenon.kube.decode import decode_object
from tenon.kube.timestamps import format_instant
from tenon.messages.node import Removal
from tenon.node.leave_text import recorded
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.schedule.week import PoolNow
from tests.activities.provisioning.fake_view import FakeTypes
from tests.tenon.schedule.schedules import HOURS, NIGHTS, POOL
from tests.worker.cache.objects import metadata, waiting
from tests.worker.schedule_world import BERLIN, MINUTE, World, berlin
from worker.cache.changes import Topic
from worker.controllers.nodepool import schedules
from worker.controllers.provisioning.purchase_turns import PurchaseTurns
from worker.controllers.provisioning.static_nodepool import StaticNodePoolController

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


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


async def test_how_long_nodes_took_is_known_within_a_minute_although_nothing_else_changes(world: World) -> None:
    world.put_schedule(HOURS)
    await stepped(world, berlin("2026-06-10T12:03"))
    assert world.ready_nodes() == 2
    pause = await world.schedules.reconcile(())
    assert pause is not None
    assert pause <= 60.0
    await stepped(world, world.cache.instant + timedelta(seconds=pause), timedelta(seconds=pause))
    assert world.status["nodePools"][0]["bootTime"] == "150s"


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
    assert REGISTRY.get_sample_value("tenon_nodepools_off", {"nodepool": POOL}) == 1.0
    assert world.status["nodePools"][0]["holds"] == "off"
    await stepped(world, berlin("2026-06-10T19:05"))
    assert world.server.names(NODECLAIMS) == []


async def test_a_nodepool_that_came_back_while_another_replica_led_is_not_off(world: World) -> None:
    def off() -> float | None:
        return REGISTRY.get_sample_value("tenon_nodepools_off", {"nodepool": POOL})

    world.put_schedule(HOURS, NIGHTS)
    await stepped(world, berlin("2026-06-10T19:00"))
    assert off() == 1.0
    await World(berlin("2026-06-10T20:00")).look()
    assert off() == 0.0


async def keep(world: World, name: str) -> None:
    """Keep a node until 21:00."""
    until = format_instant(berlin("2026-06-10T21:00"))
    await world.server.patch(NODECLAIMS, name, {"metadata": {"annotations": {labels.KEEP_UNTIL: until}}})


async def keep_and_freeze(world: World, kept_claim: str) -> None:
    """Keep one node until 21:00, and freeze its NodePool until 20:00."""
    await keep(world, kept_claim)
    freeze_pool(world)


def freeze_pool(world: World) -> None:
    """Freeze all NodePools until 20:00."""
    freeze = {
        "metadata": metadata("release", generation=1),
        "spec": {"endTime": format_instant(berlin("2026-06-10T20:00"))},
    }
    world.cache.freezes.on_event("release", decode_object(json.dumps(freeze).encode()))


async def test_kept_nodes_stay_for_their_time_and_all_stay_while_the_nodepool_is_frozen(world: World) -> None:
    world.put_schedule(HOURS, NIGHTS)
    await stepped(world, berlin("2026-06-10T18:50"))
    kept_claim, other_claim = world.server.names(NODECLAIMS)
    await keep_and_freeze(world, kept_claim)
    await stepped(world, berlin("2026-06-10T19:59"))
    assert world.server.names(NODECLAIMS) == [kept_claim, other_claim]
    await stepped(world, berlin("2026-06-10T20:59"))
    assert world.server.names(NODECLAIMS) == [kept_claim]
    await stepped(world, berlin("2026-06-10T21:05"))
    assert world.server.names(NODECLAIMS) == []


async def freeze_all(world: World, _: str) -> None:
    freeze_pool(world)


async def open_again(world: World, _: str) -> None:
    world.put_schedule(HOURS)


@pytest.mark.parametrize("stop", [freeze_all, keep, open_again])
async def test_what_stops_a_nodepool_from_being_emptied_holds_for_nodes_whose_turn_has_not_come(
    world: World, monkeypatch: pytest.MonkeyPatch, stop: Callable[[World, str], Awaitable[None]]
) -> None:
    """A thousand deletions take a while."""
    world.put_schedule(HOURS, NIGHTS)
    await stepped(world, berlin("2026-06-10T18:54"))
    _, other_claim = world.server.names(NODECLAIMS)
    delete = world.server.delete

    async def delete_and_stop(resource: Resource, name: str, **options: Any) -> bool:
        await stop(world, other_claim)
        return await delete(resource, name, **options)

    monkeypatch.setattr(schedules, "CONCURRENCY", 1)
    monkeypatch.setattr(world.server, "delete", delete_and_stop)
    await stepped(world, berlin("2026-06-10T19:30"))
    assert other_claim in world.server.names(NODECLAIMS)
    assert "deletionTimestamp" not in world.server.objects["nodeclaims", "", other_claim]["metadata"]


async def test_nodes_of_a_static_nodepool_stay_as_long_and_come_back_when_it_opens(world: World) -> None:
    world.put_pool(replicas=1)
    world.put_schedule(HOURS | {"floor": None, "replicas": 3}, NIGHTS, bootTime="5m")
    static = StaticNodePoolController(
        cast("Any", world.server),
        world.cache,
        world.view,
        FakeTypes(),
        PlanPolicy(),
        PurchaseTurns(world.view),
        LaunchRefusals(),
    )

    async def until(clock: str) -> list[str]:
        while world.cache.instant < berlin(clock):
            world.cache.instant += MINUTE
            await static.reconcile(())
            await world.look()
        return world.server.names(NODECLAIMS)

    kept_claim, *others = await until("2026-06-10T18:50")
    assert len(others) == 2
    await keep_and_freeze(world, kept_claim)
    assert await until("2026-06-10T19:59") == [kept_claim, *others]
    assert await until("2026-06-10T20:59") == [kept_claim]
    assert await until("2026-06-10T21:05") == []
    assert await until("2026-06-11T08:54") == []
    assert len(await until("2026-06-11T08:57")) == 3


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
    (week,) = weeks_of([model], world.cache.instant, {POOL: PoolNow(2, 2.0)})
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
