"""The bridge between cluster and workflows, with a Temporal that only remembers what it was asked."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from temporalio.client import Client

from tenon.apis.labels import TERMINATION_FINALIZER
from tenon.kube.claim_record import ClaimRecord
from tenon.messages.node import Poke, Removal
from tenon.node.leave_text import with_removal
from tenon.node.state import NodeClaimInput
from tests.activities.node.fake_kube import START, stamp
from tests.worker.background import in_background
from tests.worker.cache.objects import claim, node
from tests.worker.fake_temporal import LEAVING, MOMENT, NOT_FOUND, UNAVAILABLE, Cache, FakeTemporal
from worker.controllers.node.nodeclaim_workflows import (
    RESEND_SWEEPS,
    SWEEP,
    SWEEP_SOON,
    TIMEOUT,
    NodeClaimWorkflowController,
)
from worker.controllers.node.vanished_claims import LATELY
from worker.controllers.workflow_start import ANSWER_WITHIN
from workflows import names

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

QUEUE = names.leader_queue("c", "a")


@contextlib.asynccontextmanager
async def bridged(cache: Cache, temporal: FakeTemporal) -> AsyncIterator[None]:
    """A running bridge that has done its first sweep."""
    bridge = NodeClaimWorkflowController(cast("Client", temporal), cache, "c", QUEUE)
    async with in_background(bridge.run()):
        await asyncio.sleep(MOMENT)
        yield


def starting(name: str, **meta: Any) -> ClaimRecord:
    """A launched claim without a Node."""
    return claim(name, node_name=name, meta=meta)


def condition(name: str, *true: str) -> ClaimRecord:
    """A launched claim with these conditions."""
    return claim(name, node_name=name, status={"conditions": [{"type": kind, "status": "True"} for kind in true]})


async def test_nc07_a_foreign_claim_gets_no_workflow() -> None:
    cache, temporal = Cache(), FakeTemporal()
    auto_mode = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}
    cache.publish(
        claim("auto", node_name="auto", nodeClassRef=auto_mode), node("auto", meta={"deletionTimestamp": "x"})
    )
    async with bridged(cache, temporal):
        cache.claims.on_event("auto", None)
        await asyncio.sleep(MOMENT)
    assert temporal.started("auto") == 0
    assert temporal.pokes("auto") == []


async def test_a_call_that_is_not_answered_holds_up_no_other_object() -> None:
    """A hundred deletions would otherwise wait for one; each object's own pokes still come in order."""
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(*(starting(name) for name in ("a", "b", "c")))
    async with bridged(cache, temporal):
        temporal.silent.add(names.nodeclaim_id("c", "a"))
        cache.publish(starting("a", deletionTimestamp="2026-01-01T00:00:00Z"))
        await asyncio.sleep(MOMENT)
        cache.publish(starting("b", deletionTimestamp="2026-01-01T00:00:00Z"))
        await asyncio.sleep(2 * TIMEOUT)
        assert [poke.claim_deleting for poke in temporal.pokes("b")] == [True]
        assert temporal.pokes("a") == []
        temporal.silent.clear()
        await asyncio.sleep(ANSWER_WITHIN.total_seconds() + 2 * SWEEP_SOON)
        assert [poke.claim_deleting for poke in temporal.pokes("a")] == [True]


async def test_dis66_a_disruption_taint_that_stays_is_signaled_at_each_sweep_only() -> None:
    """Between two sweeps it is the taint of a node that is deleted in the next moment."""
    cache, temporal = Cache(), FakeTemporal()
    tainted: dict[str, Any] = {"taints": [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]}
    cache.publish(condition("a", "Registered", "Initialized"), node("a"))
    async with bridged(cache, temporal):
        cache.publish(node("a", **tainted))
        await asyncio.sleep(MOMENT)
        assert temporal.pokes("a") == []
        await asyncio.sleep(SWEEP)
        assert [poke.disrupted for poke in temporal.pokes("a")] == [True]
        cache.publish(node("a", meta={"labels": {"a": "b"}}, **tainted))
        await asyncio.sleep(MOMENT)
        assert len(temporal.pokes("a")) == 1
        await asyncio.sleep(SWEEP)
        assert len(temporal.pokes("a")) == 2
        cache.publish(node("a"))
        await asyncio.sleep(SWEEP)
        assert len(temporal.pokes("a")) == 2


async def test_lif03_a_claim_without_a_node_is_signaled_three_six_and_twelve_minutes_after_its_launch() -> None:
    """Nothing in the cluster changes then, and each signal makes Tenon read the console once."""
    clock = asyncio.get_running_loop().time
    began, start = clock(), datetime(2026, 3, 1, tzinfo=UTC)

    def now() -> datetime:
        return start + timedelta(seconds=clock() - began)

    cache, temporal = Cache(), FakeTemporal()
    launched = {"type": "Launched", "status": "True", "lastTransitionTime": start.isoformat()}
    cache.publish(*(claim(name, node_name="", status={"conditions": [launched]}) for name in ("alone", "joins")))
    bridge = NodeClaimWorkflowController(cast("Client", temporal), cache, "c", QUEUE, now=now)
    async with in_background(bridge.run()):
        await asyncio.sleep(170)
        assert temporal.pokes("alone") == []
        cache.publish(claim("joins", node_name="joins", status={"conditions": [launched]}), node("joins"))
        await asyncio.sleep(20)
        assert [poke.minutes_late for poke in temporal.pokes("alone")] == [3]
        await asyncio.sleep(350)
        assert [poke.minutes_late for poke in temporal.pokes("alone")] == [3, 6]
        await asyncio.sleep(190)
        repeated = 6  # the sweep after ten minutes sends everything again
        assert [poke.minutes_late for poke in temporal.pokes("alone")] == [3, 6, repeated, 12]
    assert {poke.reason for poke in temporal.pokes("joins")} == {"joined"}


async def test_each_claim_gets_one_workflow_and_the_cluster_its_two() -> None:
    """Claims that are there already and claims that come."""
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(starting("a"))
    async with bridged(cache, temporal):
        cache.publish(starting("b"))
        await asyncio.sleep(MOMENT)
        cache.publish(starting("a"), starting("b"))
        await asyncio.sleep(MOMENT)
        assert (temporal.started("a"), temporal.started("b")) == (1, 1)
    ids = [workflow_id for workflow_id, _ in temporal.starts]
    assert ids[:2] == [names.provisioner_id("c"), names.disruption_id("c")]
    value = dict(temporal.starts)[names.nodeclaim_id("c", "a")]
    assert isinstance(value, NodeClaimInput)
    assert (value.claim.name, value.claim.uid, value.pool) == ("a", "uid-a", "pool")
    assert temporal.options[names.nodeclaim_id("c", "a")]["task_queue"] == "tenon-c"


async def test_lif03_of_two_nodes_with_one_provider_id_none_is_named() -> None:
    """Until one of them is gone: then the other is the claim's."""
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(starting("a"))
    async with bridged(cache, temporal):
        cache.publish(node("a"), node("twin", providerID="aws:///us-west-2a/i-a"))
        await asyncio.sleep(MOMENT)
        assert temporal.pokes("a") == [Poke(reason="joined")]
        cache.nodes.on_event("twin", None)
        await asyncio.sleep(MOMENT)
        assert temporal.pokes("a")[1:] == [Poke(node_name="a", reason="joined")]


async def test_a_level_is_poked_once_however_often_it_is_seen() -> None:
    """A node's status changes every few seconds; its workflow's history must not grow with it."""
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(starting("a"))
    async with bridged(cache, temporal):
        assert temporal.pokes("a") == []
        cache.publish(node("a"))
        for _ in range(5):
            cache.publish(starting("a"))
            await asyncio.sleep(MOMENT)
        assert temporal.pokes("a") == [Poke(node_name="a", reason="joined")]
        cache.publish(condition("a", "Registered"))
        await asyncio.sleep(MOMENT)
        assert [poke.reason for poke in temporal.pokes("a")] == ["joined", "ready"]
        cache.publish(condition("a", "Registered", "Initialized"))
        await asyncio.sleep(MOMENT)
        assert len(temporal.pokes("a")) == 2


async def test_a_deletion_is_poked() -> None:
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(starting("a"))
    async with bridged(cache, temporal):
        cache.publish(starting("a", deletionTimestamp="2026-01-02T00:00:00Z"))
        await asyncio.sleep(MOMENT)
        assert [poke.claim_deleting for poke in temporal.pokes("a")] == [True]


async def test_a_claim_of_the_same_name_is_another_life() -> None:
    """A name may be used again; the UID says that it is another node."""
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(starting("a"))
    async with bridged(cache, temporal):
        cache.claims.on_event("a", None)
        await asyncio.sleep(MOMENT)
        cache.publish(starting("a", uid="uid-second"))
        await asyncio.sleep(MOMENT)
    uids = [value.claim.uid for _, value in temporal.starts if isinstance(value, NodeClaimInput)]
    assert uids == ["uid-a", "uid-second"]


async def test_a_workflow_that_is_gone_is_started_again() -> None:
    """Somebody terminated it: at the next news of its claim, at the latest with the next sweep."""
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(starting("a"))
    temporal.fails[f"signal {names.nodeclaim_id('c', 'a')}"] = [NOT_FOUND]
    async with bridged(cache, temporal):
        cache.publish(node("a"), starting("a"))
        await asyncio.sleep(MOMENT)
        cache.publish(starting("a"))
        await asyncio.sleep(MOMENT)
        assert temporal.started("a") == 2


async def test_a_poke_that_temporal_did_not_take_is_sent_again() -> None:
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(starting("a"), node("a"))
    temporal.fails[f"signal {names.nodeclaim_id('c', 'a')}"] = [UNAVAILABLE]
    async with bridged(cache, temporal):
        assert temporal.pokes("a") == []
        await asyncio.sleep(SWEEP + MOMENT)
        assert [poke.reason for poke in temporal.pokes("a")] == ["joined"]


async def test_one_object_that_cannot_be_served_does_not_stop_the_others() -> None:
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(starting("a"), starting("b"), starting("z"))
    temporal.fails[f"start {names.nodeclaim_id('c', 'b')}"] = [UNAVAILABLE]
    temporal.fails[f"start {names.provisioner_id('c')}"] = [UNAVAILABLE]
    async with bridged(cache, temporal):
        assert [temporal.started(name) for name in "abz"] == [1, 0, 1]
        await asyncio.sleep(SWEEP + MOMENT)
        assert temporal.started("b") == 1
        assert names.provisioner_id("c") in dict(temporal.starts)


async def test_a_workflow_that_an_operator_ended_is_started_again_within_a_minute() -> None:
    """Terminated unseen: the sweep finds that it is not open any more. One that is open is left alone."""
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(starting("a"), starting("b"), node("a"))
    async with bridged(cache, temporal):
        del temporal.open[names.nodeclaim_id("c", "a")]
        await asyncio.sleep(SWEEP + MOMENT)
        assert (temporal.started("a"), temporal.started("b")) == (2, 1)
        assert [poke.reason for poke in temporal.pokes("a")] == ["joined", "joined"]


async def test_a_workflow_that_an_operator_reset_gets_its_signals_again() -> None:
    """Another run than the one that was poked knows nothing of the poke."""
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(starting("a", deletionTimestamp="2026-11-21T12:00:00Z", finalizers=[TERMINATION_FINALIZER]))
    async with bridged(cache, temporal):
        await asyncio.sleep(SWEEP + MOMENT)
        assert len(temporal.pokes("a")) == 2  # the run that was poked first was not known by its id then
        temporal.open[names.nodeclaim_id("c", "a")] = "run-after-reset"
        await asyncio.sleep(SWEEP)
        assert len(temporal.pokes("a")) == 3
        await asyncio.sleep(2 * SWEEP)
        assert len(temporal.pokes("a")) == 3
        assert temporal.started("a") == 1


async def test_a_node_that_starts_is_poked_again_with_each_sweep() -> None:
    """Pods wait for it: what one look did not find must not wait ten minutes for the next."""
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(starting("a"), node("a"))
    async with bridged(cache, temporal):
        await asyncio.sleep(3 * SWEEP + MOMENT)
        assert [poke.reason for poke in temporal.pokes("a")] == ["joined"] * 4


async def test_a_leaving_node_is_poked_again_at_intervals() -> None:
    """A poke that was lost for no visible reason is made good, but a long wait costs few events."""
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(starting("a", deletionTimestamp="2026-11-21T12:00:00Z", finalizers=[TERMINATION_FINALIZER]))
    async with bridged(cache, temporal):
        await asyncio.sleep(RESEND_SWEEPS * SWEEP * 3 + MOMENT)
        assert 3 <= len(temporal.pokes("a")) <= 5


async def test_a_claim_whose_life_has_ended_is_not_started_again() -> None:
    """Only somebody else's finalizer keeps it: a new workflow would have nothing to do, again and again."""
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(starting("a", deletionTimestamp="2026-11-21T12:00:00Z", finalizers=["example.com/audit"]))
    temporal.fails[f"signal {names.nodeclaim_id('c', 'a')}"] = [NOT_FOUND] * 9
    async with bridged(cache, temporal):
        await asyncio.sleep(SWEEP + MOMENT)
        assert temporal.started("a") == 0


async def test_a_workflow_that_the_garbage_collection_started_again_is_poked() -> None:
    """Its earlier run had completed. Otherwise `kubectl delete nodeclaim` ends nothing until another replica leads."""
    cache, temporal = Cache(), FakeTemporal()
    nodeclaim_id = names.nodeclaim_id("c", "a")
    temporal.completed[nodeclaim_id] = "uid-a"
    cache.publish(starting("a", uid="uid-a"))
    async with bridged(cache, temporal):
        assert temporal.started("a") == 0
        temporal.open[nodeclaim_id] = "run-of-the-sweep"
        await asyncio.sleep(SWEEP)
        cache.publish(starting("a", uid="uid-a", **LEAVING))
        await asyncio.sleep(MOMENT)
        assert [poke.claim_deleting for poke in temporal.pokes("a")][-1:] == [True]


async def test_a_life_that_ended_a_moment_ago_gets_no_second_one() -> None:
    """Its Node goes, the workflow has ended, and that the claim has gone too is not yet seen here."""
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(starting("a", **LEAVING), node("a"))
    async with bridged(cache, temporal):
        temporal.fails[f"signal {names.nodeclaim_id('c', 'a')}"] = [NOT_FOUND] * 9
        del temporal.open[names.nodeclaim_id("c", "a")]
        cache.nodes.on_event("a", None)
        cache.publish(starting("a", **LEAVING))
        await asyncio.sleep(MOMENT)
        cache.claims.on_event("a", None)
        await asyncio.sleep(SWEEP + MOMENT)
        assert temporal.started("a") == 1


async def test_a_life_that_ended_stays_ended_however_late_the_cache_is() -> None:
    """Of a hundred nodes that leave at once the cache may show some for many seconds after they ended."""
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(starting("a", **LEAVING), node("a"))
    async with bridged(cache, temporal):
        workflow_id = names.nodeclaim_id("c", "a")
        del temporal.open[workflow_id]
        temporal.completed[workflow_id] = "uid-a"
        temporal.fails[f"signal {workflow_id}"] = [NOT_FOUND] * 9
        cache.nodes.on_event("a", None)
        await asyncio.sleep(3 * SWEEP + MOMENT)
        assert temporal.started("a") == 1


async def test_a_leader_that_begins_starts_no_life_that_has_ended() -> None:
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(starting("a", **LEAVING), starting("b"))
    temporal.completed = {names.nodeclaim_id("c", "a"): "uid-a", names.nodeclaim_id("c", "b"): "uid-b"}
    async with bridged(cache, temporal):
        await asyncio.sleep(MOMENT)
        assert (temporal.started("a"), temporal.started("b")) == (0, 0)
        assert temporal.pokes("a") == []


async def test_a_claim_gets_a_life_although_one_of_its_name_has_ended() -> None:
    """People give NodeClaims names of their own, and use them again."""
    cache, temporal = Cache(), FakeTemporal()
    temporal.completed[names.nodeclaim_id("c", "a")] = "uid-of-an-earlier-one"
    cache.publish(starting("a"))
    async with bridged(cache, temporal):
        assert temporal.started("a") == 1


async def test_the_workflow_of_a_leaving_node_that_was_terminated_is_restarted_soon() -> None:
    """The poke about its deletion finds no workflow."""
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(starting("a"), node("a"))
    async with bridged(cache, temporal):
        temporal.fails[f"signal {names.nodeclaim_id('c', 'a')}"] = [NOT_FOUND]
        del temporal.open[names.nodeclaim_id("c", "a")]
        cache.publish(starting("a", **LEAVING))
        await asyncio.sleep(SWEEP_SOON + MOMENT)
        assert temporal.started("a") == 2


async def test_after_an_outage_of_temporal_the_next_sweep_comes_soon(caplog: pytest.LogCaptureFixture) -> None:
    """A pod does not wait a whole minute for its node because Temporal was away when the claim came."""
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(*(starting(name) for name in "abcdef"))
    for name in "abcdef":
        temporal.fails[f"start {names.nodeclaim_id('c', name)}"] = [UNAVAILABLE]
    async with bridged(cache, temporal):
        assert temporal.started("a") == 0
        await asyncio.sleep(SWEEP_SOON + MOMENT)
        assert [temporal.started(name) for name in "abcdef"] == [1] * 6
    assert len([line for line in caplog.messages if line == "The controller failed to reconcile and retries"]) == 1


async def test_the_singletons_begin_with_the_queue_of_this_leader() -> None:
    """Someone ended them by hand: the next run asks this leader at once."""
    cache, temporal = Cache(), FakeTemporal()
    async with bridged(cache, temporal):
        value = dict(temporal.starts)
        assert value[names.provisioner_id("c")].plan_queue == QUEUE
        assert value[names.disruption_id("c")].plan_queue == QUEUE


async def test_a_claim_that_vanishes_without_a_deletion_ends_its_workflow() -> None:
    """A finalizer stripped by hand must not leave an instance that nobody ends."""
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(starting("a"))
    async with bridged(cache, temporal):
        cache.claims.on_event("a", None)
        await asyncio.sleep(MOMENT)
        assert temporal.pokes("a") == [Poke(claim_deleting=True, claim_gone=True, reason="gone")]


async def test_evt04_the_poke_of_a_deleted_claim_says_why_it_was_deleted() -> None:
    cache, temporal = Cache(), FakeTemporal()
    repaired = Removal(reason="unhealthy", detail="Ready is False for 30m", actor="controller node.health")
    meta: dict[str, Any] = {"annotations": with_removal({}, repaired, deleting=False)}
    cache.publish(starting("a", **meta), starting("b"))
    async with bridged(cache, temporal):
        cache.publish(starting("a", **meta, deletionTimestamp=stamp(START)))
        cache.publish(starting("b", deletionTimestamp=stamp(START)))
        await asyncio.sleep(MOMENT)
        assert temporal.pokes("a") == [Poke(claim_deleting=True, removals=(repaired,), reason="deleted")]
        assert temporal.pokes("b") == [Poke(claim_deleting=True, reason="deleted")]


async def test_a_workflow_is_not_poked_about_the_deletion_that_it_requested_itself() -> None:
    """Each poke is billed. A reset may have made it forget, so a sweep pokes it all the same."""
    cache, temporal = Cache(), FakeTemporal()
    own = Removal(reason="expired", actor="the node's workflow", by_workflow=True)
    meta: dict[str, Any] = {"annotations": with_removal({}, own, deleting=False), "finalizers": [TERMINATION_FINALIZER]}
    cache.publish(starting("a", **meta))
    async with bridged(cache, temporal):
        await asyncio.sleep(SWEEP + MOMENT)
        cache.publish(starting("a", **meta, deletionTimestamp=stamp(START)))
        await asyncio.sleep(5 * SWEEP)
        assert temporal.pokes("a") == []
        temporal.open[names.nodeclaim_id("c", "a")] = "run-after-reset"
        await asyncio.sleep(2 * SWEEP)
        assert temporal.pokes("a") == [Poke(claim_deleting=True, removals=(own,), reason="deleted")]


async def test_no_node_leaves_if_many_claims_vanish_at_once(caplog: pytest.LogCaptureFixture) -> None:
    """As when etcd is restored from a backup. The sweep asks a person about them."""
    cache, temporal = Cache(), FakeTemporal()
    fleet = [f"n-{number}" for number in range(30)]
    cache.publish(*(starting(name) for name in fleet))
    async with bridged(cache, temporal):
        await cache.claims.on_replace({"n-0": starting("n-0")})
        await asyncio.sleep(2 * SWEEP)
        assert [name for name in fleet if temporal.pokes(name)] == []
    line = "Many NodeClaims vanished without a deletion, so their nodes stay until a sweep decides"
    assert [
        (vars(record)["vanished-count"], vars(record)["nodeclaim-count"])
        for record in caplog.records
        if record.getMessage() == line
    ] == [(29, 1)]


async def test_claims_that_vanish_one_after_the_other_are_many_too() -> None:
    """Of thirty, six are not more than a fifth; the seventh is left to the sweep, and counts for ten minutes."""
    cache, temporal = Cache(), FakeTemporal()
    fleet = [f"n-{number:02}" for number in range(30)]
    cache.publish(*(starting(name) for name in fleet))
    async with bridged(cache, temporal):
        for name in fleet[:8]:
            cache.claims.on_event(name, None)
            await asyncio.sleep(MOMENT)
        assert [name for name in fleet if temporal.pokes(name)] == fleet[:6]
        await asyncio.sleep(LATELY)
        cache.claims.on_event(fleet[8], None)
        await asyncio.sleep(MOMENT)
        assert [name for name in fleet if temporal.pokes(name)] == [*fleet[:6], fleet[8]]


async def test_however_many_claims_are_deleted_their_nodes_leave() -> None:
    """As with `kubectl delete nodeclaims --all`, also if Temporal was away and took no news of the deletions."""
    cache, temporal = Cache(), FakeTemporal()
    fleet = [f"n-{number}" for number in range(30)]
    cache.publish(*(starting(name) for name in fleet))
    async with bridged(cache, temporal):
        for name in fleet:
            temporal.fails[f"signal {names.nodeclaim_id('c', name)}"] = [UNAVAILABLE]
        cache.publish(*(starting(name, **LEAVING) for name in fleet))
        await asyncio.sleep(MOMENT)
        assert [name for name in fleet if temporal.pokes(name)] == []
        await cache.claims.on_replace({})
        await asyncio.sleep(MOMENT)
        assert all(poke.claim_deleting for name in fleet for poke in temporal.pokes(name))
        assert [name for name in fleet if temporal.pokes(name)] == fleet


async def test_a_claim_that_was_seen_leaving_is_not_reported_again_when_it_is_gone() -> None:
    """The end of an ordinary life costs no message."""
    cache, temporal = Cache(), FakeTemporal()
    cache.publish(starting("a", deletionTimestamp="2026-11-21T12:00:00Z"))
    async with bridged(cache, temporal):
        pokes = temporal.pokes("a")
        cache.claims.on_event("a", None)
        await asyncio.sleep(MOMENT)
        assert [poke.claim_deleting for poke in pokes] == [True]
        assert temporal.pokes("a") == pokes
