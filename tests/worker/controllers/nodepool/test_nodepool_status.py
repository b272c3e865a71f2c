"""The status of NodePools, kept by looking at the cache."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY

from activities.disruption.slowed_pools import SlowedPools
from activities.provisioning.launch_refusals import LaunchRefusals
from tenon.ec2.refusals.backoff import Backoff
from tenon.kube.decode import decode_object
from tenon.kube.offerings import OfferingKey
from tenon.kube.timestamps import format_instant
from tenon.messages.disruption import PoolSavings
from tenon.node.launch_breaker import refused
from tenon.provisioning.capacity_shortage import LASTS, TriedLaunch
from tenon.resources import Resources
from tests.tenon.schedule.schedules import NIGHTS, POOL, schedule_body
from tests.worker.cache.objects import claim, metadata
from tests.worker.fake_temporal import MOMENT
from tests.worker.nodepool_cluster import keeping, measured_breaker, pool, put
from worker.cache.changes import Topic
from worker.cache.planning_view import PlanningView
from worker.controllers.nodepool.prices import PoolPrices

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


async def test_nc07_another_controllers_pool_and_claims_are_not_written() -> None:
    """Neither conditions nor counts nor digests, and no series of metrics is theirs."""
    auto_mode = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}
    theirs = pool("auto", {"template/spec/nodeClassRef": auto_mode, "limits": {"cpu": "7"}})
    async with keeping(theirs) as (cache, server, events):
        cache.publish(claim("auto-a", nodeClassRef=auto_mode, meta={"labels": {"karpenter.sh/nodepool": "auto"}}))
        put(cache, pool("ours"))
        await asyncio.sleep(MOMENT)
        assert {name for name, _ in server.patches} == {"ours"}
        assert events.reasons() == []
    labels = {"resource_type": "cpu", "nodepool": "auto"}
    assert REGISTRY.get_sample_value("karpenter_nodepools_limit", labels) is None


async def test_a_pool_that_ec2_refuses_says_so_and_stays_ready() -> None:
    """In a condition, an event and a metric; the condition stays, as True, when it is over."""
    changed: list[str] = []
    refusals = LaunchRefusals(changed.append, lambda: NOW)
    breaker = refused(None, "refused", "Unauthorized", "you may not", NOW)
    async with keeping(pool("refused"), pool("other"), refusals=refusals) as (cache, server, events):
        assert server.condition("refused", "NodeLaunchHealthy") == {}, "nothing is said before it is known"
        refusals.update([breaker])
        assert changed == ["refused"]
        cache.changes.publish(Topic.POOL, "refused")
        await asyncio.sleep(MOMENT)
        condition = server.condition("refused", "NodeLaunchHealthy")
        assert (condition["status"], condition["reason"]) == ("False", "Unauthorized")
        assert "you may not" in condition["message"]
        assert server.condition("refused", "Ready")["status"] == "True"
        assert server.condition("other", "NodeLaunchHealthy") == {}
        assert events.reasons().count("LaunchesHeldBack") == 1
        assert measured_breaker("refused") == 1
        before = PlanningView(cache).fingerprint()

        refusals.update([])
        cache.changes.publish(Topic.POOL, "refused")
        await asyncio.sleep(MOMENT)
        assert server.condition("refused", "NodeLaunchHealthy")["status"] == "True"
        assert measured_breaker("refused") == 0
        assert PlanningView(cache).fingerprint() != before, "pods that waited for the pool are planned again"


async def test_all_pools_of_a_class_that_ec2_refuses_say_so() -> None:
    refusals = LaunchRefusals(now=lambda: NOW)
    other_class = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "other"}
    pools = [pool("one"), pool("two"), pool("other", {"template/spec/nodeClassRef": other_class})]
    async with keeping(*pools, refusals=refusals) as (cache, server, _):
        refusals.update([refused(None, "", "InvalidAMIID", "gone", NOW, node_class="default")])
        cache.changes.publish(Topic.POOL, "one")
        await asyncio.sleep(MOMENT)
        for name in ("one", "two"):
            condition = server.condition(name, "NodeLaunchHealthy")
            assert (condition["status"], condition["reason"]) == ("False", "InvalidAMIID")
            assert "EC2 refuses what EC2NodeClass default asks for" in condition["message"]
            assert measured_breaker(name) == 1
        assert server.condition("other", "NodeLaunchHealthy") == {}
        assert measured_breaker("other") == 0


async def test_a_pool_in_a_capacity_shortage_says_so_until_a_nodeclaim_launches() -> None:
    """In a condition and an event; the pool stays ready."""
    changed: list[str] = []
    now = datetime.now(UTC)
    refusals = LaunchRefusals(changed.append, lambda: now)
    offering = OfferingKey("on-demand", "m5.large", "us-west-2a")
    tried = TriedLaunch("short", offering, ("m5.large",))
    async with keeping(pool("short"), pool("other"), refusals=refusals) as (cache, server, events):
        refusals.update([])
        refusals.replace_unavailable({offering: Backoff(now + timedelta(minutes=3))})
        refusals.no_capacity([tried])
        refusals.no_capacity([tried])
        assert changed == ["short", "short"]
        cache.changes.publish(Topic.POOL, "short")
        await asyncio.sleep(MOMENT)
        condition = server.condition("short", "CapacityAvailable")
        assert (condition["status"], condition["reason"]) == ("False", "InsufficientCapacity")
        assert "no on-demand capacity for 1 offering tried (m5.large first)" in condition["message"]
        assert server.condition("short", "Ready")["status"] == "True"
        assert server.condition("other", "CapacityAvailable") == {}
        text = [event for event in events.events if event[2] == "InsufficientCapacity"]
        assert text == [("NodePool", "short", "InsufficientCapacity", condition["message"])]

        launch_time = format_instant(datetime.now(UTC))  # not before the condition, whose time has whole seconds
        launched = {"type": "Launched", "status": "True", "lastTransitionTime": launch_time}
        names = {"labels": {"karpenter.sh/nodepool": "short"}}
        cache.publish(claim("short-a", node_name="", meta=names, status={"conditions": [launched]}))
        await asyncio.sleep(MOMENT)
        assert server.condition("short", "CapacityAvailable")["status"] == "True"
        assert refusals.shortage("short") is None


def in_a_shortage(name: str, since: datetime) -> dict[str, Any]:
    """A NodePool that an earlier leader found in a capacity shortage."""
    times = {"lastTransitionTime": format_instant(since)}
    scarce = {
        "type": "CapacityAvailable",
        "status": "False",
        "reason": "InsufficientCapacity",
        "message": "m5",
        **times,
    }
    return {**pool(name), "status": {"conditions": [scarce]}}


async def test_a_shortage_that_an_earlier_leader_saw_lasts_until_none_was_refused_for_a_while() -> None:
    """A new leader knows no refusal of before, and its own come up to a few minutes apart."""
    now = began = datetime.now(UTC).replace(microsecond=0)
    refusals = LaunchRefusals(now=lambda: now)
    async with keeping(in_a_shortage("short", began - timedelta(hours=1)), refusals=refusals) as (
        cache,
        server,
        events,
    ):
        refusals.update([])
        for status, passed in (("False", LASTS), ("Unknown", LASTS + timedelta(seconds=1))):
            now = began + passed
            cache.changes.publish(Topic.POOL, "short")
            await asyncio.sleep(MOMENT)
            assert server.condition("short", "CapacityAvailable")["status"] == status
        assert "InsufficientCapacity" not in events.reasons()


async def test_a_shortage_that_an_earlier_leader_saw_goes_on_with_one_more_refusal() -> None:
    now = began = datetime.now(UTC).replace(microsecond=0)
    refusals = LaunchRefusals(now=lambda: now)
    since = began - timedelta(hours=1)
    async with keeping(in_a_shortage("short", since), refusals=refusals) as (cache, server, _):
        refusals.update([])
        now = began + LASTS
        offering = OfferingKey("on-demand", "m5.large", "us-west-2a")
        refusals.replace_unavailable({offering: Backoff(now + timedelta(minutes=3))})
        for _ in range(2):
            refusals.no_capacity([TriedLaunch("short", offering, ("m5.large",))])
            now += LASTS
            cache.changes.publish(Topic.POOL, "short")
            await asyncio.sleep(MOMENT)
            condition = server.condition("short", "CapacityAvailable")
            assert (condition["status"], condition["lastTransitionTime"]) == ("False", format_instant(since))


async def test_a_nodeclaim_that_launched_between_two_leaders_ends_a_shortage() -> None:
    began = datetime.now(UTC).replace(microsecond=0)
    refusals = LaunchRefusals(now=lambda: began)
    times = {"lastTransitionTime": format_instant(began - timedelta(minutes=1))}
    launched = {"conditions": [{"type": "Launched", "status": "True", **times}]}
    names = {"labels": {"karpenter.sh/nodepool": "short"}}
    bought = claim("short-a", node_name="", meta=names, status=launched)
    refusals.update([])
    scarce = in_a_shortage("short", began - timedelta(hours=1))
    async with keeping(scarce, claims=[bought], refusals=refusals) as (_, server, _events):
        assert server.condition("short", "CapacityAvailable")["status"] == "True"


async def test_wsh01_a_pool_that_is_slowed_down_says_so_until_its_consolidation_pays() -> None:
    changed: list[str] = []
    slowed = SlowedPools(changed.append)
    poor = PoolSavings(short=2, predicted=0.2, reached=0.05, at=datetime.now(UTC))
    async with keeping(pool("slow"), pool("other"), slowed=slowed) as (cache, server, events):
        slowed.update({"slow": poor})
        assert changed == ["slow"]
        cache.changes.publish(Topic.POOL, "slow")
        await asyncio.sleep(MOMENT)
        condition = server.condition("slow", "ConsolidationSlowed")
        assert (condition["status"], condition["reason"]) == ("True", "WaitsAfterCommand")
        assert "saved $0.0500 an hour instead of $0.2000" in condition["message"]
        assert server.condition("slow", "Ready")["status"] == "True"
        assert server.condition("other", "ConsolidationSlowed") == {}
        text = [event for event in events.events if event[2] == "ConsolidationSlowed"]
        assert text == [("NodePool", "slow", "ConsolidationSlowed", condition["message"])]

        slowed.update({"slow": poor})
        slowed.update({})
        assert changed == ["slow", "slow"]
        cache.changes.publish(Topic.POOL, "slow")
        await asyncio.sleep(MOMENT)
        assert server.condition("slow", "ConsolidationSlowed") == {}


async def test_a_pool_that_a_schedule_has_off_says_until_when_in_a_condition_and_once_in_an_event() -> None:
    async with keeping(pool(POOL), pool("other")) as (cache, server, events):
        cache.clock = datetime(2026, 6, 10, 16, 57, tzinfo=UTC).timestamp

        async def condition_of(end: str, generation: int) -> dict[str, Any]:
            body = {**schedule_body(NIGHTS | {"to": end}), "metadata": metadata("hours", generation=generation)}
            cache.schedules.on_event("hours", decode_object(json.dumps(body).encode()))
            await asyncio.sleep(2 * MOMENT)
            return server.condition(POOL, "ScheduledOff")

        async def condition_at(time: datetime) -> dict[str, Any]:
            cache.clock = time.timestamp
            cache.changes.publish(Topic.POOL, POOL)  # as the controller of schedules does at that time
            await asyncio.sleep(2 * MOMENT)
            return server.condition(POOL, "ScheduledOff")

        condition = await condition_of("09:00", 1)
        assert (condition["status"], condition["reason"]) == ("True", "OffSoon")
        assert condition["message"].endswith("it opens on Thu 2026-06-11 at 08:55 Europe/Berlin")
        assert "ScheduledOff" not in events.reasons()
        condition = await condition_at(datetime(2026, 6, 10, 17, tzinfo=UTC))
        opening = "It is off until Thu 2026-06-11 at 08:55 Europe/Berlin by NodeSchedule hours/nights"
        assert (condition["reason"], condition["message"]) == ("Off", opening)
        condition = await condition_of("08:00", 2)
        assert "at 07:55" in condition["message"], "it is kept current"
        text = [event for event in events.events if event[2] == "ScheduledOff"]
        assert text == [("NodePool", POOL, "ScheduledOff", f"{opening}; its nodes leave")]
        assert server.condition(POOL, "Ready")["status"] == "True"
        assert server.condition("other", "ScheduledOff") == {}
        assert await condition_at(datetime(2026, 6, 11, 6, tzinfo=UTC)) == {}


async def test_a_status_that_is_true_is_not_written_again() -> None:
    """Each write wakes everybody who watches NodePools, this controller first of all."""
    async with keeping(pool("default")) as (cache, server, _):
        assert server.condition("default", "Ready")["status"] == "True"
        await asyncio.sleep(10 * MOMENT)
        written = len(server.patches)
        cache.publish(claim("a", node_name=""))
        await asyncio.sleep(200 * MOMENT)
        assert len(server.patches) == written


async def test_all_pools_are_counted_together_and_once_a_second_however_much_changes() -> None:
    """Each walk over 5,000 nodes holds up the leader's event loop."""
    async with keeping(pool("a"), pool("b"), pool("c")) as (cache, _, _):
        walks: list[float] = []
        clock, counted = asyncio.get_running_loop().time, cache.pool_usages

        def counting(**how: bool) -> Mapping[str, Resources]:
            walks.append(clock())
            return counted(**how)

        cache.pool_usages = counting  # type: ignore[method-assign]
        began = clock()
        while clock() < began + 10:
            cache.publish(claim(f"a-{clock()}", node_name=""))
            await asyncio.sleep(0.1)
        assert 5 <= len(walks) <= 12


async def test_nodes_and_resources_follow_the_claims_of_the_pool() -> None:
    """``kubectl get nodepools`` shows how many nodes there are."""
    async with keeping(pool("pool")) as (cache, server, _):
        assert server.status("pool")["nodes"] == 0
        cache.publish(claim("a", node_name="", status={"capacity": {"cpu": "4"}}))
        await asyncio.sleep(3 * MOMENT)
        assert server.status("pool")["nodes"] == 1


async def test_a_pool_that_cannot_be_written_does_not_stop_the_others() -> None:
    async with keeping(pool("a"), pool("b"), broken="a") as (_, server, _):
        assert server.condition("b", "Ready")["status"] == "True"


async def test_a_pool_that_fails_does_not_end_the_controller(caplog: pytest.LogCaptureFixture) -> None:
    """An error that nobody foresaw would otherwise end the whole process, again and again."""
    async with keeping(pool("a"), pool("b")) as (cache, server, _):
        real, server.patch = server.patch, _unforeseen  # type: ignore[method-assign]
        cache.publish(claim("x", node_name="", meta={"labels": {"karpenter.sh/nodepool": "a"}}))
        await asyncio.sleep(3 * MOMENT)
        server.patch = real  # type: ignore[method-assign]
        cache.publish(claim("y", node_name="", meta={"labels": {"karpenter.sh/nodepool": "b"}}))
        await asyncio.sleep(3 * MOMENT)
        assert (server.status("a")["nodes"], server.status("b")["nodes"]) == (1, 1)
    (line,) = [record for record in caplog.records if record.exc_info]
    assert line.getMessage() == "The controller failed to reconcile for an unexpected reason and retries"
    assert line.__dict__["nodepool"] == "a"


async def _unforeseen(*_: object, **__: object) -> None:
    raise LookupError("nobody foresaw this")


@pytest.mark.parametrize("pruned", [set(), {"pricePerHour"}], ids=["Tenon's CRD", "Karpenter's CRD"])
async def test_the_price_of_a_pools_nodes_is_written_once_for_each_visible_change(pruned: set[str]) -> None:
    """Karpenter's CRD does not have the field, and drops it."""
    prices = PoolPrices()
    async with keeping(pool("web"), pool("empty"), prices=prices) as (cache, server, _):
        server.pruned = pruned

        async def writes_with(price: float) -> int:
            before = len(server.patches)
            prices.update({"web": price})
            for _ in range(3):
                cache.changes.publish(Topic.POOL, "web")
                await asyncio.sleep(MOMENT)
            return len(server.patches) - before

        assert "pricePerHour" not in server.status("web"), "nothing is said before it is known"
        assert await writes_with(1.0) == 2
        assert await writes_with(1.005) == 0
        assert await writes_with(1.02) == 1
        texts = {name: server.status(name).get("pricePerHour") for name in ("web", "empty")}
        assert texts == ({"web": None, "empty": None} if pruned else {"web": "1.0200", "empty": "0.0000"})


async def test_a_price_that_the_api_server_refused_is_written_later() -> None:
    prices = PoolPrices()
    async with keeping(pool("web"), prices=prices) as (cache, server, _):
        server.broken = {"web"}
        prices.update({"web": 1.0})
        cache.changes.publish(Topic.POOL, "web")
        await asyncio.sleep(MOMENT)
        server.broken = set()
        cache.changes.publish(Topic.POOL, "web")
        await asyncio.sleep(MOMENT)
        assert server.status("web")["pricePerHour"] == "1.0000"
