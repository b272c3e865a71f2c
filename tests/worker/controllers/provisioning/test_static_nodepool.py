"""The controller of static NodePools before an API server that is played: stale caches, refusals, restarts."""

from __future__ import annotations

import asyncio
import copy
import itertools
import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
from prometheus_client import REGISTRY

from activities.provisioning.launch_refusals import LaunchRefusals
from tenon.apis import labels
from tenon.ec2.refusals.backoff import Backoff
from tenon.kube.decode import decode_object
from tenon.kube.offerings import OfferingKey
from tenon.messages.explanation import Explanation
from tenon.messages.node import Removal
from tenon.node.leave_text import recorded
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.static_capacity import MAX_CHANGES
from tests.tenon.apis.case import NODEPOOL, edited, term
from tests.tenon.apis.sample_overlay import BASE
from tests.worker.cache.objects import claim, metadata, node, running
from tests.worker.fake_temporal import Cache
from tests.worker.static_nodepool_server import MOMENT, ApiServer, CountingCache, keeping, served, settle
from worker.controllers.provisioning.launch_backoff import PAUSES
from worker.controllers.provisioning.static_nodepool import RESYNC

ONLY_M5_LARGE: dict[str, Any] = {
    "template/spec/requirements": [
        {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m5.large"]},
        {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
    ]
}

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


@pytest.fixture(autouse=True)
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's clock, which is played, does not wait for a thread."""

    async def at_once(work: Callable[..., Any], *arguments: Any) -> Any:
        return work(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", at_once)


async def test_sch100_replicas_are_kept_and_followed() -> None:
    server = served(2)
    async with keeping(server):
        assert len(server.standing()) == 2
        for body in server.claims.values():
            explanation = Explanation.of(body["metadata"]["annotations"][labels.EXPLANATION])
            assert explanation.purpose == "one of 2 replicas of static NodePool fixed"
        server.put_pool(3)
        await settle()
        assert len(server.standing()) == 3
        server.put_pool(1)
        await settle()
        assert (len(server.standing()), len(server.created), len(server.deleted)) == (1, 3, 2)


async def test_a_claim_that_lost_its_finalizer_gets_it_before_it_is_deleted() -> None:
    """Otherwise it would be gone at once, and its node would not drain."""
    server = served(1)
    async with keeping(server):
        (name,) = server.standing()
        server.claims[name]["metadata"]["finalizers"] = []
        server.put_pool(0)
        await settle()
        assert server.deleted == [name]
        assert server.claims[name]["metadata"]["finalizers"] == [labels.TERMINATION_FINALIZER]
        (why,) = recorded(server.claims[name]["metadata"]["annotations"])
        detail = "NodePool fixed has more nodes than its replicas"
        assert why == Removal(reason="overprovisioned", detail=detail, actor="controller static")


async def test_met08_nodes_of_which_there_are_too_many_are_counted_as_overprovisioned() -> None:
    def counted() -> float:
        events = {"reason": "overprovisioned", "nodepool": "fixed", "capacity_type": "spot"}
        events |= {"consolidation_policy": "", "termination_mode": "graceful"}
        return REGISTRY.get_sample_value("karpenter_nodeclaims_disrupted_total", events) or 0.0

    server, before = served(2), counted()
    async with keeping(server):
        for name in server.standing():
            server.claims[name]["metadata"]["labels"][labels.CAPACITY_TYPE] = "spot"
            server.publish(name)
        server.put_pool(0)
        await settle()
        assert (server.standing(), counted() - before) == ([], 2)


async def test_nc07_another_controllers_claims_are_no_replicas_of_a_pool() -> None:
    """Whatever pool their labels name: neither counted nor taken away."""
    server = served(1)
    async with keeping(server):
        (mine,) = server.standing()
        for number in range(3):
            name = f"auto-{number}"
            body = copy.deepcopy(server.claims[mine])
            body["metadata"] |= metadata(name)
            body["spec"]["nodeClassRef"] = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}
            server.claims[name] = body
            server.publish(name)
        server.put_pool(2)
        await settle()
        assert (len(server.created), server.deleted) == (2, [])
        server.put_pool(1)
        await settle()
        assert len(server.deleted) == 1
        assert set(server.deleted) <= set(server.created)


async def test_no06_a_replica_is_planned_without_an_overlay_that_conflicts_in_another_pool() -> None:
    """Its launch sees that conflict too, and would find no type that has what the plan counted on."""
    server = served(1, **ONLY_M5_LARGE)

    def add(name: str, requirement: dict[str, Any], **changes: Any) -> None:
        overlay = {**edited(BASE, {"requirements": [requirement], **changes}), "metadata": metadata(name)}
        server.cache.overlays.on_event(name, decode_object(json.dumps(overlay).encode()))

    add("a", term(labels.INSTANCE_TYPE, "In", "m5.large"), priceAdjustment="-50%", capacity={"example.com/slots": "1"})
    add("b", term(labels.NODEPOOL, "In", "default"), priceAdjustment="+10%")
    pool = {**NODEPOOL, "metadata": metadata("default", generation=1)}
    server.cache.pools.on_event("default", decode_object(json.dumps(pool).encode()))
    overlay_annotations = {labels.PRICE_OVERLAY_APPLIED, labels.CAPACITY_OVERLAY_APPLIED}
    async with keeping(server):
        (first,) = server.created
        assert not overlay_annotations & server.claims[first]["metadata"]["annotations"].keys()
        server.cache.pools.on_event("default", None)
        server.put_pool(2, **ONLY_M5_LARGE)
        await settle()
        (second,) = set(server.created) - {first}
        assert overlay_annotations <= server.claims[second]["metadata"]["annotations"].keys(), "nothing conflicts"


async def test_a_cache_that_hears_nothing_makes_nothing_twice() -> None:
    """Names and numbers come from the API server itself."""
    server = served(2)
    server.watching = False
    async with keeping(server):
        for _ in range(5):
            await settle(RESYNC)
        assert len(server.claims) == 2
        server.put_pool(1)
        await settle()
        await settle(RESYNC)
        assert len(server.standing()) == 1
        assert len(server.deleted) == 1


async def test_a_new_leader_makes_nothing_twice() -> None:
    server = served(3)
    async with keeping(server):
        pass
    async with keeping(server):
        await settle(3 * RESYNC)
        assert len(server.created) == 3


async def test_two_leaders_for_a_moment_make_nothing_twice() -> None:
    """The older one has seen more names come and go, and both decide from the same list."""
    server = served(2)
    async with keeping(server):
        for name in server.standing():
            server.launch(name)
        first, _ = server.standing()
        await server.delete(None, first, uid=server.claims[first]["metadata"]["uid"])
        await settle()
        server.end(first)
        for name in server.standing():
            server.launch(name)
        server.slow = 0.3
        async with keeping(server):
            await settle()
            assert len(server.created) == 3
            lost, _ = server.standing()
            await server.delete(None, lost, uid=server.claims[lost]["metadata"]["uid"])
            await settle(RESYNC)
            assert len(server.created) == 4
            assert server.deleted == [first, lost]


async def test_the_ordinal_is_moved_on_though_others_write_to_the_pool() -> None:
    """Its status changes with every claim; a name that was given out does not return after a change of leaders."""
    server = served(3)
    server.on_create = lambda: server.pools["fixed"]["metadata"].update(resourceVersion=f"status-{len(server.created)}")
    async with keeping(server):
        assert server.pools["fixed"]["metadata"]["annotations"][labels.NEXT_ORDINAL] == "3"
        for name in server.standing():
            server.launch(name)
    server.put_pool(0)
    async with keeping(server):
        for name in list(server.claims):
            server.end(name)
    server.put_pool(3)
    async with keeping(server):
        assert len(set(server.created)) == 6


async def test_a_node_that_leaves_is_replaced_before_it_is_gone() -> None:
    """DIS-83; what was launched and then deleted by somebody says nothing of EC2, so nothing waits."""
    server = served(1)
    async with keeping(server):
        (first,) = server.standing()
        server.launch(first)
        await settle()
        await server.delete(None, first, uid=server.claims[first]["metadata"]["uid"])
        await settle()
        (second,) = server.standing()
        assert second != first
        assert first in server.claims


async def test_sch100_the_node_whose_pods_mind_least_goes_first() -> None:
    server = served(3)
    async with keeping(server):
        busy, hold, dear = server.standing()
        for name in (busy, hold, dear):
            server.launch(name)
        pods = server.cache.pods
        protected = {"annotations": {labels.DO_NOT_DISRUPT: "true"}}
        costly = {"annotations": {labels.POD_DELETION_COST: str(2**28)}}
        for record in (running("a", busy), running("b", hold, meta=protected), running("c", dear, meta=costly)):
            pods.on_event(record.key, record)
        await settle()
        server.put_pool(2)
        await settle()
        server.put_pool(1)
        await settle()
        assert server.deleted == [busy, dear]
        assert server.standing() == [hold]


@pytest.mark.parametrize("where", ["claim", "node"])
async def test_sch100_what_protected_a_node_before_v1_still_does(where: str) -> None:
    """LEG-01: karpenter.sh/do-not-consolidate."""
    server = served(2)
    async with keeping(server):
        first, second = server.standing()
        for name in (first, second):
            server.launch(name)
        mark = {labels.DO_NOT_CONSOLIDATE: "true"}
        if where == "claim":
            server.claims[first]["metadata"].setdefault("annotations", {}).update(mark)
        else:
            server.cache.publish(node(first, meta={"annotations": mark}))
        server.put_pool(1)
        await settle()
        assert server.deleted == [second]


async def test_a_pass_over_all_pools_calls_no_api_and_counts_no_pods() -> None:
    """A round follows nearly every change, on the loop that renews the Lease: the claims are gone through once."""
    cache = CountingCache()
    server = ApiServer(cache)
    for number in range(200):
        body = edited(NODEPOOL, {"replicas": 2})
        body["metadata"] = metadata(f"pool-{number}", generation=1)
        cache.pools.on_event(body["metadata"]["name"], decode_object(json.dumps(body).encode()))
        for ordinal in range(2):
            meta = {"labels": {labels.NODEPOOL: f"pool-{number}"}}
            cache.publish(claim(f"c-{number}-{ordinal}", node_name=f"n-{number}-{ordinal}", meta=meta))
    async with keeping(server):
        assert server.looks == 0
        assert cache.nodes_asked == len(cache.claims)
        assert (cache.counted.walks, cache.pods_asked) == (1, 0)


async def test_a_pool_that_must_wait_asks_the_api_server_for_nothing() -> None:
    """However much else changes in the cluster meanwhile."""
    server = served(2)
    async with keeping(server):
        for name in server.standing():
            server.end(name)
        await settle()
        for reason in ("refused by EC2", "class gone"):
            if reason == "class gone":
                server.cache.nodeclasses.on_event("default", None)
                server.put_pool(3)
                await settle()
            before = server.looks
            for number in range(20):
                server.cache.publish(node(f"other-{number}"))
                await settle()
            assert server.looks == before, reason


async def test_a_pool_without_available_types_is_checked_less_and_less_often(caplog: pytest.LogCaptureFixture) -> None:
    term = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["none.large"]}
    server = served(2, **{"template/spec/requirements": [term]})
    async with keeping(server):
        before = server.looks
        for number in range(20):
            server.cache.publish(node(f"other-{number}"))
            await settle()
        assert server.looks == before
        server.put_pool(2)
        await settle()
        assert len(server.standing()) == 2, "a changed pool is served at once"
    assert "no node can be created for it" in str([record.__dict__.get("error") for record in caplog.records])


async def test_a_watch_of_nodepools_that_lags_takes_no_pause_away() -> None:
    """The cache has an older version of the pool than the API server."""
    server = served(1)
    server.put_pool(2, events=False)
    async with keeping(server):
        for _ in range(40):
            for name in server.standing():
                server.end(name)
            await settle(2)
    assert len(set(server.created)) == len(server.created)
    assert 2 <= len(server.created) <= 2 + len(PAUSES)


async def test_after_a_refusal_one_is_tried_and_the_others_follow_it() -> None:
    server = served(5)
    async with keeping(server):
        for name in server.standing():
            server.end(name)
        await settle(2 * RESYNC + MOMENT)
        (probe,) = server.standing()
        await settle(2 * RESYNC)
        assert server.standing() == [probe]
        server.launch(probe)
        await settle()
        assert len(server.standing()) == 5
        assert len(server.created) == 10


async def test_refusals_that_come_one_after_the_other_are_one_round() -> None:
    """One pause follows them, not a longer one for each."""
    server = served(4)
    async with keeping(server):
        for name in server.standing():
            server.end(name)
            await settle(2)
        await settle(PAUSES[0])
        assert len(server.created) == 5


async def test_a_pool_that_is_scaled_far_up_is_read_again_on_the_way() -> None:
    """5,000 were a mistake: what is bought of it before the correction is heard is one part."""
    server = served(5000)
    server.watching = False
    server.on_create = lambda: server.put_pool(10, events=False) if len(server.created) == 20 else None
    async with keeping(server):
        await settle()
        assert len(server.created) == MAX_CHANGES
        await settle(RESYNC)
        assert len(server.standing()) == 10


async def test_all_parts_follow_each_other() -> None:
    server = served(2 * MAX_CHANGES + 1)
    server.watching = False
    async with keeping(server):
        await settle(3 * MOMENT)
        assert len(server.standing()) == 2 * MAX_CHANGES + 1


async def test_where_nothing_can_be_launched_retries_become_less_frequent() -> None:
    """SCH-100: a claim that EC2 refuses is gone at once; making it again in a circle would help nobody."""
    server = served(1)
    loop = asyncio.get_running_loop()
    tries: list[float] = []
    async with keeping(server):
        while len(tries) < 4:
            await settle()
            for name in server.standing():
                tries.append(loop.time())
                server.end(name)
        gaps = [after - before for before, after in itertools.pairwise(tries)]
        assert all(gap >= pause for gap, pause in zip(gaps, PAUSES, strict=False))
        assert len(set(server.created)) == len(server.created)
        server.put_pool(2)
        await settle()
        assert len(server.standing()) == 2, "a changed pool is served at once"


async def test_a_pool_whose_class_is_not_ready_is_reported_and_waits(caplog: pytest.LogCaptureFixture) -> None:
    server = served(1)
    async with keeping(server):
        server.cache.nodeclasses.on_event("default", None)
        server.put_pool(2)
        await settle()
        assert len(server.standing()) == 1
        server.put_pool(0)
        await settle()
        assert server.standing() == [], "taking away needs no class"
    assert "EC2NodeClass default does not exist" in str([record.__dict__.get("error") for record in caplog.records])


async def test_the_controller_survives_an_outage_of_the_api_server() -> None:
    server = served(1)
    async with keeping(server):
        server.away = True
        server.put_pool(2)
        await settle()
        server.away = False
        await settle(RESYNC + MOMENT)
        assert len(server.standing()) == 2


async def test_sch100_a_limit_on_nodes_is_kept_and_reported(caplog: pytest.LogCaptureFixture) -> None:
    server = served(3, limits={"nodes": "2"})
    async with keeping(server):
        assert len(server.standing()) == 2
    assert "limits.nodes prevents 1" in str([record.__dict__.get("error") for record in caplog.records])


async def test_wsh36_replicas_are_made_as_far_as_the_limit_on_costs_allows() -> None:
    """Each that is made counts for the next."""
    server = served(7, **ONLY_M5_LARGE)
    server.pools["fixed"]["metadata"]["annotations"][labels.MAX_HOURLY_COST] = "0.35"
    server.tell_pool()
    async with keeping(server):
        await settle(RESYNC * 3)
        assert len(server.created) == 3, "m5.large costs $0.096"
        for body in server.claims.values():
            assert body["metadata"]["annotations"][labels.LARGEST_CAPACITY].count("hourly-cost") == 1
        server.pools["fixed"]["metadata"]["annotations"][labels.MAX_HOURLY_COST] = "1"
        server.put_pool(7, **ONLY_M5_LARGE)
        await settle(RESYNC * 3)
        assert len(server.created) == 7


async def test_an_offering_that_ec2_refused_is_avoided_unless_nothing_else_can_be_bought() -> None:
    """Under a limit on costs, a NodeClaim of spot nodes only would be refused again and again."""
    key = OfferingKey("on-demand", "m5.large", "us-west-2a")
    refusals = LaunchRefusals()
    refusals.replace_unavailable({key: Backoff(datetime.max.replace(tzinfo=UTC))})
    for names in (["m5.large", "m5.xlarge"], ["m5.large"]):
        term = {"key": labels.INSTANCE_TYPE, "operator": "In", "values": names}
        server = served(1, **{"template/spec/requirements": [term]})
        async with keeping(server, refusals=refusals):
            (name,) = server.standing()
            terms = {term["key"]: term for term in server.claims[name]["spec"]["requirements"]}
            assert terms[labels.INSTANCE_TYPE]["values"] == names[-1:]


async def test_wsh36_static_nodepools_share_the_limit_of_all_though_the_cache_lags() -> None:
    """They are served at the same time, and each counts what the others have just bought."""
    server = ApiServer(Cache())
    server.lag = MOMENT
    for name in ("a", "b", "c"):
        server.put_pool(4, name=name, **ONLY_M5_LARGE)
    async with keeping(server, PlanPolicy(max_hourly_cost=0.6)):
        await settle(RESYNC * 3)
        assert len(server.created) == 6, "m5.large costs $0.096"


async def test_wsh36_nothing_is_bought_while_the_cache_lacks_what_was_bought_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def refresh(*_: Any) -> None:
        raise TimeoutError

    server = ApiServer(Cache())
    server.watching = False
    monkeypatch.setattr(server.cache, "refresh", refresh)
    for name in ("a", "b", "c"):
        server.put_pool(4, name=name, **ONLY_M5_LARGE)
    async with keeping(server, PlanPolicy(max_hourly_cost=0.6)):
        await settle(RESYNC * 3)
        assert len(server.created) == 4, "the first NodePool bought them"
        server.watching = True
        for name in server.created:
            server.publish(name)
        await settle(RESYNC * 3)
        assert len(server.created) == 6
