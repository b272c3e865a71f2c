"""Who leaves a warm node alone: a stopped instance is neither broken nor lost, and no command saves its price."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

import pytest

from activities.ec2.stops import StopOutcome, StopReply
from activities.kubernetes.resources import NODECLAIMS, NODES
from tenon.apis import labels
from tenon.apis.reasons import Reason
from tenon.disruption.nodes import ManagedNode
from tenon.disruption.rules.blockers import is_free
from tenon.disruption.rules.pool_budgets import members_of
from tenon.fleet.disruption_state import DisruptionState, disruption_of
from tenon.kube.decode import decode_nodeclaim, decode_object
from tenon.kube.records import NodeCondition, PodRecord
from tenon.kube.timestamps import format_instant
from tenon.node.leave_text import recorded
from tenon.provisioning.planning_policy import PlanPolicy
from tests.activities.node.fake_kube import Clock, FakeKube, Recorder
from tests.activities.provisioning.fake_view import READY, FakeTypes
from tests.tenon.apis.case import EC2NODECLASS, NODEPOOL
from tests.tenon.disruption.clusters import NOW, Cluster, situation
from tests.tenon.schedule.schedules import schedule_body
from tests.worker.background import in_background
from tests.worker.cache.objects import claim, metadata, node, owned_by, running
from tests.worker.fake_temporal import Cache
from worker.cache.managed_nodes import ManagedNodes
from worker.cache.planning_view import PlanningView
from worker.controllers.node.not_ready_nodes import NotReadyNodeController
from worker.controllers.provisioning.purchase_turns import PurchaseTurns
from worker.controllers.provisioning.warm_nodes import MAX_REFUSALS, WarmNodeController

INITIALIZED: dict[str, Any] = {"conditions": [{"type": "Initialized", "status": "True"}]}


class RefusingEc2:
    """EC2, without the right to stop or start instances."""

    def __init__(self) -> None:
        self.asked_at: list[float] = []

    def stop(self, instance_id: str) -> StopReply:
        self.asked_at.append(asyncio.get_running_loop().time())
        return StopReply(StopOutcome.REFUSED, "no right to stop it")

    def start(self, instance_id: str) -> StopReply:
        return StopReply(StopOutcome.REFUSED, "no right to start it")


class KeptWarm:
    """A NodePool that keeps one warm node, its controller, and an API server whose changes the cache hears."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, state: str, count: str = "1", cost: float = 0.0) -> None:
        self.cache, self.kube, self.recorder, self.ec2 = Cache(), FakeKube(Clock()), Recorder(), RefusingEc2()
        self.count = count
        self.put_pool(generation=1)
        node_class = {**EC2NODECLASS, "metadata": metadata("default"), "status": {"conditions": [READY]}}
        self.cache.nodeclasses.on_event("default", decode_object(json.dumps(node_class).encode()))
        status = {"providerID": "aws:///us-west-2a/i-a", "nodeName": "a", **INITIALIZED}
        meta = {
            "annotations": {labels.WARM: state, labels.WARM_SINCE: format_instant(NOW)},
            "labels": {labels.NODEPOOL: "pool"},
            "finalizers": [labels.TERMINATION_FINALIZER],
        }
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
        body = {"metadata": metadata("a", **meta), "spec": {"nodeClassRef": reference}, "status": status}
        self.kube.add(NODECLAIMS, body)
        monkeypatch.setattr(self.kube, "delete", self.delete)
        key, effect = labels.WARM_TAINT
        self.cache.publish(node("a", taints=[{"key": key, "effect": effect}]))
        self.tell()
        view = PlanningView(self.cache)
        self.turns = PurchaseTurns(view)
        self.controller = WarmNodeController(
            cast("Any", self.kube),
            self.recorder,
            self.cache,
            view,
            FakeTypes(),
            self.ec2,
            PlanPolicy(max_hourly_cost=cost),
            self.turns,
            now=lambda: NOW,
        )

    def put_pool(self, generation: int) -> None:
        """Let the cache hear of the NodePool."""
        pool = {**NODEPOOL, "metadata": metadata("pool", generation=generation, annotations={labels.WARM: self.count})}
        self.cache.pools.on_event("pool", decode_object(json.dumps(pool).encode()))

    def correct(self, count: str) -> None:
        """Let the cache hear that its owner wants another number of warm nodes."""
        self.count = count
        self.put_pool(generation=1)

    def creations(self) -> int:
        """How many NodeClaims were created."""
        return sum(call[0] == "create" for call in self.kube.calls)

    def tell(self) -> None:
        """Let the cache hear of the NodeClaim."""
        self.cache.publish(decode_nodeclaim(json.dumps(self.body()).encode()))

    def body(self, name: str = "a") -> dict[str, Any]:
        return self.kube.objects["nodeclaims", "", name]

    def deleted(self) -> bool:
        return "deletionTimestamp" in self.body()["metadata"]

    async def delete(self, *arguments: Any, **options: Any) -> bool:
        """Delete as the API server does, and let the cache hear of it."""
        is_deleted = await FakeKube.delete(self.kube, *arguments, **options)
        self.tell()
        return is_deleted


@pytest.fixture
def no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The loop's clock, which is played, does not wait for a thread."""

    async def at_once(work: Callable[..., Any], *arguments: Any) -> Any:
        return work(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", at_once)


@pytest.mark.usefixtures("no_threads")
@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_an_instance_that_ec2_never_stops_is_told_of_and_deleted_and_not_bought_again_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It costs its full price as long as it runs."""
    warm = KeptWarm(monkeypatch, "filling")
    async with in_background(warm.controller.run()):
        await asyncio.sleep(800)
        assert not warm.deleted()
        assert len(warm.ec2.asked_at) == MAX_REFUSALS - 1
        await asyncio.sleep(1000)
        assert warm.deleted()
        assert len(warm.ec2.asked_at) == MAX_REFUSALS
        assert warm.creations() == 0
        warm.put_pool(generation=2)
        await asyncio.sleep(60)
        assert warm.creations() == 1, "the NodePool was corrected"
    event_kinds = {event[:3] for event in warm.recorder.events}
    assert event_kinds == {("NodePool", "pool", "WarmNodesLacking")}
    assert "no right to stop it" in warm.recorder.events[0][3]
    (why,) = recorded(warm.body()["metadata"]["annotations"])
    assert why.reason == "warm_stop_failed"


@pytest.mark.usefixtures("no_threads")
@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_a_refused_start_is_told_to_the_owner_of_the_nodepool_too(monkeypatch: pytest.MonkeyPatch) -> None:
    warm = KeptWarm(monkeypatch, "starting", count="0")
    async with in_background(warm.controller.run()):
        await asyncio.sleep(60)
    assert warm.deleted()
    assert [event[2] for event in warm.recorder.events] == ["WarmNodesLacking", "WarmNodeNotStarted"]


@pytest.mark.usefixtures("no_threads")
@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
@pytest.mark.parametrize(("cost", "waits"), [(100.0, True), (0.0, False)])
async def test_wsh36_a_warm_node_is_bought_in_turn_with_static_nodes(
    monkeypatch: pytest.MonkeyPatch, cost: float, waits: bool
) -> None:
    """Under a limit on costs, what static NodePools buy must count first."""
    warm = KeptWarm(monkeypatch, "filling", count="2", cost=cost)

    async with in_background(warm.controller.run()):
        async with warm.turns.next(limits_cost=True):
            await asyncio.sleep(2)
            assert warm.creations() == (0 if waits else 1)
        await asyncio.sleep(2)
        assert warm.creations() == 1


@pytest.mark.usefixtures("no_threads")
@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_a_number_that_is_corrected_between_two_purchases_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each purchase waits until the cache has it, so twenty of them take a while."""
    warm = KeptWarm(monkeypatch, "filling", count="20")
    async with in_background(warm.controller.run()):
        await asyncio.sleep(1)
        assert warm.creations() == 1
        warm.correct("2")
        await asyncio.sleep(60)
    assert warm.creations() == 1


@pytest.mark.usefixtures("no_threads")
@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_no_warm_node_is_bought_if_its_class_is_deleted_while_it_waits_for_its_turn(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The controller continues, and its log says why it buys none."""
    warm = KeptWarm(monkeypatch, "stopped", count="2", cost=100.0)
    async with in_background(warm.controller.run()):
        async with warm.turns.next(limits_cost=True):
            await asyncio.sleep(60)
            warm.cache.nodeclasses.on_event("default", None)
        await asyncio.sleep(1)
        assert warm.creations() == 0
        assert "A NodePool lacks warm nodes" in caplog.messages
        assert "Traceback" not in caplog.text


class CorrectingEc2(RefusingEc2):
    """EC2, which is asked about an instance while the user corrects the NodePool."""

    def __init__(self, correct: Callable[[], None]) -> None:
        super().__init__()
        self.correct = correct

    def stop(self, instance_id: str) -> StopReply:
        self.correct()
        return super().stop(instance_id)


@pytest.mark.usefixtures("no_threads")
@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_a_number_that_is_corrected_while_ec2_is_asked_is_the_one_that_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    warm = KeptWarm(monkeypatch, "filling", count="20")
    warm.controller._instances = warm.ec2 = CorrectingEc2(lambda: warm.correct("1"))
    async with in_background(warm.controller.run()):
        await asyncio.sleep(60)
    assert warm.ec2.asked_at
    assert warm.creations() == 0


@pytest.mark.usefixtures("no_threads")
@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_a_number_that_is_corrected_between_two_deletions_ends_them(monkeypatch: pytest.MonkeyPatch) -> None:
    warm = KeptWarm(monkeypatch, "stopped", count="0")
    other = copy.deepcopy(warm.body())
    other["metadata"] |= {"name": "b", "uid": "uid-b"}
    warm.kube.add(NODECLAIMS, other)

    async def correct_and_delete(*arguments: Any, **options: Any) -> bool:
        warm.correct("1")
        return await warm.delete(*arguments, **options)

    monkeypatch.setattr(warm.kube, "delete", correct_and_delete)
    async with in_background(warm.controller.run()):
        await asyncio.sleep(60)
    leaving = [name for name in ("a", "b") if "deletionTimestamp" in warm.body(name)["metadata"]]
    assert len(leaving) == 1
    assert warm.creations() == 0


class StoppingEc2(RefusingEc2):
    """EC2, which stops each instance at once."""

    def stop(self, instance_id: str) -> StopReply:
        self.asked_at.append(asyncio.get_running_loop().time())
        return StopReply(StopOutcome.ACCEPTED)


def runs(name: str, minutes_ago: int = 0, **meta: Any) -> PodRecord:
    """A pod that was bound to the warm node, which it tolerates."""
    since = format_instant(NOW - timedelta(minutes=minutes_ago))
    return running(name, "a", since=since, meta=meta, tolerations=[{"operator": "Exists"}])


@pytest.mark.usefixtures("no_threads")
@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_a_warm_node_is_stopped_only_when_pods_that_came_to_it_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of DaemonSets come back with the node."""
    warm = KeptWarm(monkeypatch, "filling")
    warm.controller._instances = warm.ec2 = StoppingEc2()
    for pod in (runs("agent", 60, **owned_by("DaemonSet")), runs("job", 1)):
        warm.cache.pods.on_event(pod.key, pod)
    async with in_background(warm.controller.run()):
        await asyncio.sleep(300)
        assert (warm.ec2.asked_at, warm.deleted()) == ([], False)
        warm.cache.pods.on_event("ns/job", None)
        await asyncio.sleep(60)
    assert len(warm.ec2.asked_at) == 1
    assert warm.body()["metadata"]["annotations"][labels.WARM] == "stopped"


@pytest.mark.usefixtures("no_threads")
@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_a_warm_node_on_which_a_pod_stays_becomes_an_ordinary_node(monkeypatch: pytest.MonkeyPatch) -> None:
    warm = KeptWarm(monkeypatch, "filling", count="0x")
    warm.kube.add(
        NODES, {"metadata": metadata("a"), "spec": {"taints": [{"key": labels.WARM, "effect": "NoSchedule"}]}}
    )
    warm.controller._instances = warm.ec2 = StoppingEc2()
    pod = runs("web", 11)
    warm.cache.pods.on_event(pod.key, pod)
    async with in_background(warm.controller.run()):
        await asyncio.sleep(20)
        warm.cache.publish(node("a"))  # the cache hears that the taint is gone
        await asyncio.sleep(20)
    assert warm.ec2.asked_at == []
    assert labels.WARM not in warm.body()["metadata"]["annotations"]
    assert not warm.deleted()
    assert [event[2] for event in warm.recorder.events] == ["WarmNodeUsed"]


@pytest.mark.usefixtures("no_threads")
@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_a_warm_node_is_not_too_many_because_a_schedule_has_its_nodepool_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The controller of NodeSchedules removes it, unless the NodePool is frozen or the node is kept."""
    warm = KeptWarm(monkeypatch, "stopped")
    off = {"from": "00:00", "to": "00:00", "closed": True}
    body = schedule_body(off, nodePools=["pool"]) | {"metadata": metadata("off")}
    warm.cache.schedules.on_event("off", decode_object(json.dumps(body).encode()))
    async with in_background(warm.controller.run()):
        await asyncio.sleep(60)
    assert not warm.deleted()


STATES = ["filling", "stopped", "starting"]


def stopped(cache: Cache, state: str) -> None:
    """A node whose kubelet has been silent for long."""
    silent = NodeCondition("Ready", "Unknown", since=0.0)
    cache.publish(
        claim("a", node_name="a", status=INITIALIZED, meta={"annotations": {labels.WARM: state}}),
        dataclasses.replace(node("a"), ready=False, unhealthy=(silent,)),
    )


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
@pytest.mark.parametrize("state", STATES)
async def test_no_sweep_asks_for_the_instance_of_a_warm_node(state: str) -> None:
    cache, sweeps = Cache(), list[None]()

    async def sweep() -> None:
        sweeps.append(None)

    stopped(cache, state)
    async with in_background(NotReadyNodeController(cache, sweep).run()):
        await asyncio.sleep(3600)
    assert sweeps == []


@pytest.mark.parametrize("state", STATES)
def test_a_warm_node_is_not_unhealthy_and_uses_no_budget_up(state: str) -> None:
    cache = Cache()
    stopped(cache, state)
    (managed,) = ManagedNodes(cache).now()
    assert (managed.warm, managed.ready, managed.unhealthy) == (True, True, ())


def warm_among(**options: Any) -> tuple[ManagedNode, Any]:
    state = situation(Cluster.model_validate({"nodes": {"empty": {"type": "m5.large", **options}}}))
    nodes = [dataclasses.replace(item, warm=True) for item in state.nodes]
    return nodes[0], dataclasses.replace(state, nodes=nodes)


@pytest.mark.parametrize("reason", [Reason.EMPTY, Reason.UNDERUTILIZED])
def test_consolidation_keeps_warm_nodes(reason: Reason) -> None:
    warm, state = warm_among()
    assert not is_free(warm, state, reason)


def test_drift_takes_warm_nodes() -> None:
    warm, state = warm_among(drifted="AMIDrift")
    assert is_free(warm, state, Reason.DRIFTED)
    assert members_of(state)[warm.pool].not_ready == 0


@pytest.mark.parametrize("state", STATES)
def test_the_list_of_nodes_says_that_a_node_is_warm(state: str) -> None:
    cache = Cache()
    stopped(cache, state)
    (record,) = cache.claims
    row = disruption_of(record, cache.node_of(record), [], None, NOW)
    assert row.state is DisruptionState.WARM
    assert row.why
