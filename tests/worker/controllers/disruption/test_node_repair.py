"""LEGACY_NODE_REPAIR: unhealthy nodes lose their NodeClaim when their time is over, unless too many are unhealthy."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from activities.kubernetes.errors import ApiUnreachableError
from activities.kubernetes.resources import NODECLAIMS, NODES
from tenon.apis import labels
from tenon.kube.decode import decode_node, decode_nodeclaim
from tenon.messages.node import Removal
from tenon.node.leave_text import recorded
from tests.activities.node.fake_kube import START, Clock, FakeKube, Recorder, stamp
from tests.worker.background import in_background
from tests.worker.cache.objects import claim, metadata
from tests.worker.fake_temporal import Cache
from worker.controllers.disruption.legacy_node_repair import BLOCKED_RETRY, FAILED_RETRY, LegacyNodeRepairController

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

HALF_AN_HOUR = 1800.0
FORCE_AT = "karpenter.sh/nodeclaim-termination-timestamp"


class World:
    """An API server with nodes, and a cache that sees what it stores. Time passes as on the loop."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.kube = FakeKube(Clock())
        self.recorder = Recorder()
        self.loop = asyncio.get_running_loop()
        self.began = self.loop.time()

    def now(self) -> datetime:
        return START + timedelta(seconds=self.loop.time() - self.began)

    def node(
        self,
        name: str,
        ready: str = "True",
        *,
        pool: str = "pool",
        observations: bool = True,
        hold: bool = False,
        warm: str = "",
        **other: str,
    ) -> None:
        """A node as API server and cache have it; ``other`` are its further conditions.

        ``hold``: its NodeClaim has the annotation do-not-disrupt. ``warm``: the state of a warm node.
        """
        provider = f"aws:///us-west-2a/i-{name}"
        at = stamp(self.now())
        conditions = [
            {"type": type_, "status": status, "lastTransitionTime": at}
            for type_, status in {"Ready": ready, **other}.items()
        ]
        body = {
            "metadata": metadata(name),
            "spec": {"providerID": provider},
            "status": {"conditions": conditions},
        }
        self.kube.objects.pop(("nodes", "", name), None)
        self.kube.add(NODES, body)
        if not observations:
            return
        meta: dict[str, Any] = {"labels": {labels.NODEPOOL: pool} if pool else {}, "finalizers": ["tenon"]}
        meta["labels"] |= {labels.CAPACITY_TYPE: "spot"}
        meta["annotations"] = {labels.DO_NOT_DISRUPT: "true"} if hold else {labels.WARM: warm} if warm else {}
        record = claim(name, node_name=name, meta=meta, status={"imageID": "ami-1"})
        if ("nodeclaims", "", name) not in self.kube.objects:
            self.kube.add(NODECLAIMS, dict(record.body))
            self.cache.publish(record)
        self.cache.publish(decode_node(json.dumps(body).encode()))

    def make_ordinary(self, name: str) -> None:
        """Make a warm node an ordinary one."""
        body = self.claim(name)
        body["metadata"]["annotations"] = {}
        body["metadata"]["resourceVersion"] = metadata(name)["resourceVersion"]
        self.cache.publish(decode_nodeclaim(json.dumps(body).encode()))

    def delete(self, name: str, **annotations: str) -> None:
        """Let the node leave for another reason, with these annotations on its NodeClaim."""
        body = self.claim(name)
        body["metadata"] |= {"deletionTimestamp": stamp(self.now()), "annotations": annotations}
        body["metadata"]["resourceVersion"] = metadata(name)["resourceVersion"]
        self.cache.publish(decode_nodeclaim(json.dumps(body).encode()))

    def claim(self, name: str) -> dict[str, Any]:
        return self.kube.objects["nodeclaims", "", name]

    def repaired(self) -> list[str]:
        claims = [obj for (plural, _, _), obj in self.kube.objects.items() if plural == "nodeclaims"]
        return sorted(claim["metadata"]["name"] for claim in claims if claim["metadata"].get("deletionTimestamp"))


@contextlib.asynccontextmanager
async def watched() -> AsyncIterator[World]:
    world = World()
    kube, recorder = cast("Any", world.kube), world.recorder
    async with in_background(LegacyNodeRepairController(kube, recorder, world.cache, "c", world.now).run()):
        await asyncio.sleep(0)
        yield world


def counted(name: str, **expectation: str) -> float:
    return REGISTRY.get_sample_value(name, expectation) or 0.0


async def test_a_claim_that_lost_its_finalizer_gets_it_before_it_is_deleted() -> None:
    """Otherwise it would be gone at once, and its node would not drain."""
    async with watched() as world:
        for name in "abcde":
            world.node(name)
        world.claim("a")["metadata"]["finalizers"] = []
        world.node("a", "Unknown")
        await asyncio.sleep(HALF_AN_HOUR + 1)
        assert world.repaired() == ["a"]
        assert world.claim("a")["metadata"]["finalizers"] == [labels.TERMINATION_FINALIZER]


async def test_n15_144_ctl08_a_node_that_stays_unhealthy_loses_its_claim_by_force() -> None:
    """SCH-104, MET-09, N15-146, N15-530: and not before its time. It is counted with the mode of its NodeClaim."""
    of_node = {"nodepool": "repaired", "capacity_type": "spot"}
    async with watched() as world:
        for name in "abcde":
            world.node(name, pool="repaired")
        world.node("a", "Unknown", pool="repaired")
        await asyncio.sleep(HALF_AN_HOUR - 1)
        assert world.repaired() == []
        await asyncio.sleep(2)
        assert world.repaired() == ["a"]
        written = world.claim("a")["metadata"]["annotations"][FORCE_AT]
        assert START + timedelta(minutes=30) <= datetime.fromisoformat(written) <= world.now()
        (why,) = recorded(world.claim("a")["metadata"]["annotations"])
        assert why == Removal(reason="Unhealthy", detail="Ready is Unknown for 30m", actor="controller node.health")
        image = {**of_node, "image_id": "ami-1", "condition": "ready", "termination_mode": "forceful"}
        assert counted("karpenter_nodeclaims_unhealthy_disrupted_total", **image) == 1
        modes = {"consolidation_policy": "", "termination_mode": "graceful", "reason": "unhealthy"}
        assert counted("karpenter_nodeclaims_disrupted_total", **of_node, **modes) == 1
        await asyncio.sleep(3600)
        assert counted("karpenter_nodeclaims_unhealthy_disrupted_total", **image) == 1, "a slow end counts once"


@pytest.mark.parametrize("before", ["", stamp(START + timedelta(days=1))], ids=["no-limit", "later"])
async def test_sch104_a_node_that_leaves_already_and_stays_unhealthy_leaves_by_force(before: str) -> None:
    """A PodDisruptionBudget may hold its pods for ever. What deleted its NodeClaim has counted it."""
    image = {"nodepool": "leaves", "capacity_type": "spot", "image_id": "ami-1", "condition": "ready"}
    image["termination_mode"] = "forceful"
    async with watched() as world:
        for name in "abcde":
            world.node(name, pool="leaves")
        world.node("a", "Unknown", pool="leaves")
        world.delete("a", **({FORCE_AT: before} if before else {}))
        await asyncio.sleep(HALF_AN_HOUR - 1)
        assert world.claim("a")["metadata"]["annotations"].get(FORCE_AT, "") == before
        await asyncio.sleep(2)
        annotations = world.claim("a")["metadata"]["annotations"]
        assert START + timedelta(minutes=30) <= datetime.fromisoformat(annotations[FORCE_AT]) <= world.now()
        assert [why.reason for why in recorded(annotations)] == ["deleted", "Unhealthy"]
        assert counted("karpenter_nodeclaims_unhealthy_disrupted_total", **image) == 0
        writes = len(world.kube.calls)
        await asyncio.sleep(3600)
        assert len(world.kube.calls) == writes, "its grace is over"


async def test_dis84_do_not_disrupt_does_not_stop_repair() -> None:
    async with watched() as world:
        for name in "abcde":
            world.node(name, "Unknown" if name == "a" else "True", hold=True)
        await asyncio.sleep(HALF_AN_HOUR + 1)
        assert world.repaired() == ["a"]


@pytest.mark.parametrize("kind", ["Node", "NodeClaim"])
async def test_n15_021_an_operator_keeps_repair_away_from_a_node(kind: str) -> None:
    """N15-021, N15-644: while somebody examines it, and no longer."""
    async with watched() as world:
        for name in "abcde":
            world.node(name, "Unknown" if name == "a" else "True")
        hold = world.kube.objects[{"Node": "nodes", "NodeClaim": "nodeclaims"}[kind], "", "a"]
        hold["metadata"].setdefault("annotations", {})["karpenter.sh/do-not-repair"] = "true"
        await asyncio.sleep(HALF_AN_HOUR + 1)
        assert world.repaired() == []
        events = {event[:2]: event[3] for event in world.recorder.events if event[2] == "NodeRepairBlocked"}
        assert events.keys() == {("Node", "a"), ("NodeClaim", "a")}
        assert set(events.values()) == {
            f"The {kind} has the annotation karpenter.sh/do-not-repair: remove it so that the node is replaced"
        }
        hold["metadata"]["annotations"]["karpenter.sh/do-not-repair"] = "false"
        await asyncio.sleep(BLOCKED_RETRY.total_seconds() + 1)
        assert world.repaired() == ["a"]


async def test_sch104_a_node_that_recovers_or_that_the_cache_is_wrong_about_stays() -> None:
    async with watched() as world:
        for name in "abcdefghij":
            world.node(name)
        world.node("a", "False")
        world.node("b", StorageReady="False")
        await asyncio.sleep(HALF_AN_HOUR / 2)
        world.node("a")
        world.node("b", observations=False)  # the watch does not deliver it
        await asyncio.sleep(HALF_AN_HOUR)
        assert world.repaired() == []
        assert not any(FORCE_AT in world.claim(name)["metadata"].get("annotations", {}) for name in "ab")


async def test_sch104_evt04_too_many_unhealthy_nodes_of_a_pool_are_all_left_alone() -> None:
    """Those of another pool are not; when the pool is better, the rest is repaired within the retry."""
    async with watched() as world:
        for name in "abcde":
            world.node(name)
            world.node(f"other-{name}", pool="other")
        for name in ("a", "b", "other-a"):
            world.node(name, "Unknown")
        await asyncio.sleep(HALF_AN_HOUR + 1)
        assert world.repaired() == ["other-a"]
        events = {event[:2] for event in world.recorder.events if event[2] == "NodeRepairBlocked"}
        assert events == {(kind, name) for kind in ("Node", "NodeClaim") for name in "ab"}
        assert {event[3] for event in world.recorder.events} == {
            "More than 20% of the nodes of NodePool pool are unhealthy"
        }
        world.node("b")
        await asyncio.sleep(BLOCKED_RETRY.total_seconds() + 1)
        assert world.repaired() == ["a", "other-a"]


async def test_sch104_for_a_stand_alone_claim_the_whole_cluster_counts() -> None:
    async with watched() as world:
        for name in "abcdefghij":
            world.node(name)
        world.node("alone", pool="")
        for name in ("a", "b", "c"):
            world.node(name, "Unknown")
        await asyncio.sleep(60)
        world.node("alone", "Unknown", pool="")
        await asyncio.sleep(HALF_AN_HOUR + 1)
        assert world.repaired() == []
        assert any("the cluster" in event[3] for event in world.recorder.events if event[1] == "alone")
        world.node("a")
        await asyncio.sleep(BLOCKED_RETRY.total_seconds() + 1)
        assert world.repaired() == ["alone", "b", "c"]


async def test_a_repair_that_the_api_server_did_not_answer_is_tried_again() -> None:
    async with watched() as world:
        world.node("a", "False")
        get, fails = world.kube.get, [True]

        async def answered(*value: Any, **options: Any) -> Any:
            if fails:
                fails.pop()
                raise ApiUnreachableError("https://x", "refused")
            return await get(*value, **options)

        world.kube.get = answered  # type: ignore[method-assign]
        await asyncio.sleep(HALF_AN_HOUR + 1)
        assert world.repaired() == []
        await asyncio.sleep(FAILED_RETRY.total_seconds() + 1)
        assert world.repaired() == ["a"]


async def test_a_new_leader_counts_from_the_condition_and_not_from_its_own_start() -> None:
    world = World()
    world.node("a", "False")
    await asyncio.sleep(HALF_AN_HOUR - 10)
    controller = LegacyNodeRepairController(cast("Any", world.kube), world.recorder, world.cache, "c", world.now)
    task = asyncio.create_task(controller.run())
    await asyncio.sleep(11)
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert world.repaired() == ["a"]


async def test_a_refused_repair_leaves_the_grace_period_as_it_was() -> None:
    """The node recovers, and leaves weeks later for another reason, with its grace."""
    async with watched() as world:
        for name in "abcde":
            world.node(name)
        world.kube.undeletable = {"a"}
        world.node("a", "Unknown")
        await asyncio.sleep(HALF_AN_HOUR + 1)
        assert ("delete", "nodeclaims", "a", "None") in world.kube.calls
        assert FORCE_AT not in world.claim("a")["metadata"]["annotations"]


@pytest.mark.parametrize("state", ["stopped", "starting"])
async def test_n15_144_a_warm_node_is_repaired_only_once_it_is_an_ordinary_node(state: str) -> None:
    """Its Node is not Ready because Tenon stopped its instance, and it has no change when the mark goes."""
    async with watched() as world:
        for name in "abcd":
            world.node(name)
        world.node("e", "Unknown", warm=state)
        await asyncio.sleep(2 * HALF_AN_HOUR)
        assert world.repaired() == []
        world.make_ordinary("e")
        await asyncio.sleep(BLOCKED_RETRY.total_seconds() + 1)
        assert world.repaired() == ["e"]


async def test_sch104_stopped_warm_nodes_are_not_among_too_many_unhealthy_nodes() -> None:
    async with watched() as world:
        for name in "abc":
            world.node(name, "Unknown", warm="stopped")
        world.node("d", "Unknown")
        for name in "efgh":
            world.node(name)
        await asyncio.sleep(HALF_AN_HOUR + 1)
        assert world.repaired() == ["d"]
