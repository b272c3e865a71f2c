"""The controller of CapacityBuffers with the planner, on a real cache; the API server is simulated."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from typing import Any, cast

import pytest

from activities import metrics
from activities.kubernetes.errors import ApiError, ForbiddenError
from activities.kubernetes.resources import CAPACITYBUFFERS, DEPLOYMENTS, NODECLAIMS, PODTEMPLATES, Resource
from activities.provisioning.batching import Batcher
from activities.provisioning.buffers import BufferRoom
from activities.provisioning.planner import BatchPlanner
from tenon.apis import labels
from tenon.apis.warm import STARTING, STOPPED
from tenon.kube.decode import decode_generation, decode_namespaced, decode_nodeclaim, decode_object
from tenon.messages.provisioning import PlanInput
from tenon.provisioning.planning_policy import PlanPolicy
from tests.activities.node.fake_kube import Clock, FakeKube, Recorder
from tests.activities.provisioning.batch_window import KARPENTERS_WINDOW
from tests.activities.provisioning.fake_view import READY, FakeTypes, loop_clock
from tests.tenon.apis.case import EC2NODECLASS, NODEPOOL
from tests.worker.background import in_background
from tests.worker.cache.objects import claim, metadata, node, running
from tests.worker.fake_temporal import Cache
from worker.cache.changes import Topic
from worker.cache.planning_view import PlanningView
from worker.controllers.provisioning.capacity_buffer import RECHECK, RECHECK_SOON, CapacityBufferController

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


@pytest.fixture(autouse=True)
def in_the_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Computes in the loop: its clock goes on while a thread works."""

    async def call(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    monkeypatch.setattr(asyncio, "to_thread", call)


MOMENT = 2.0
"""More than the controller lets changes settle."""
TEMPLATE = {"spec": {"containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}]}}


class Whole(Cache):
    """A cache whose watches are never behind."""

    @property
    def synced(self) -> bool:
        return True

    def silent_for(self, resource: Resource) -> float:
        return 0.0


class Server(FakeKube):
    """An API server whose watch of buffers and NodeClaims tells the cache at once."""

    def __init__(self, cache: Cache) -> None:
        super().__init__(Clock())
        self.cache = cache
        self.fault: ApiError | None = None
        self.generation = 0
        """Of the PodTemplate."""
        self.spared: set[str] = set()
        """What can be read for all of the fault."""

    async def get(
        self, resource: Resource, name: str, namespace: str = "", *, not_older_than: str = ""
    ) -> dict[str, Any] | None:
        if self.fault is not None and name not in self.spared:
            raise self.fault
        return await super().get(resource, name, namespace, not_older_than=not_older_than)

    async def list(
        self,
        resource: Resource,
        *,
        namespace: str = "",
        label_selector: str = "",
        field_selector: str = "",
        limit: int = 500,
        resource_version: str = "",
    ) -> list[dict[str, Any]]:
        assert label_selector, "all NodeClaims would be read"
        result = await super().list(
            resource,
            namespace=namespace,
            field_selector=field_selector,
            limit=limit,
            resource_version=resource_version,
        )
        batches = {id(claim): int(claim["metadata"]["labels"].get(labels.BATCH) or 0) for claim in result}
        if "=" in label_selector:
            return [claim for claim in result if batches[id(claim)] == int(label_selector.partition("=")[2])]
        return [claim for claim in result if batches[id(claim)] > int(label_selector.partition(">")[2])]

    async def create(self, resource: Resource, body: dict[str, Any], namespace: str = "") -> dict[str, Any]:
        return self.add(resource, body)

    def _store(self, resource: Resource, obj: dict[str, Any]) -> None:
        super()._store(resource, obj)
        raw = json.dumps(obj).encode()
        if resource is CAPACITYBUFFERS:
            self.cache.buffers.on_event(f"default/{obj['metadata']['name']}", decode_namespaced(raw))
        elif resource.kind in self.cache.buffer_targets:
            record = decode_generation(raw)
            self.cache.buffer_targets[resource.kind].on_event(record.key, record)
        elif resource is NODECLAIMS:
            self.cache.claims.on_event(obj["metadata"]["name"], decode_nodeclaim(raw))

    def template(self, cpu: str = "1") -> None:
        """The PodTemplate that buffers here refer to."""
        spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
        self.generation += 1
        metadata = {"name": "small", "generation": self.generation}
        self.add(PODTEMPLATES, {"metadata": metadata, "template": {"spec": spec}})

    def buffer(self, generation: int = 1, **spec: Any) -> None:
        """The one buffer."""
        spec = {"podTemplateRef": {"name": "small"}, "replicas": 2, **spec}
        self.add(CAPACITYBUFFERS, {"metadata": {"name": "spare", "generation": generation}, "spec": spec})

    @property
    def status(self) -> dict[str, Any]:
        """What the buffer says of itself."""
        status: dict[str, Any] = self.objects["capacitybuffers", "default", "spare"].get("status") or {}
        return status

    def reason(self, kind: str) -> str:
        conditions = self.status.get("conditions") or []
        return str(next((condition["reason"] for condition in conditions if condition["type"] == kind), ""))


class World:
    """A controller at work next to a planner."""

    def __init__(self) -> None:
        self.cache = Whole()
        self.server = Server(self.cache)
        ready = {**EC2NODECLASS, "metadata": metadata("default"), "status": {"conditions": [READY]}}
        self.cache.nodeclasses.on_event("default", decode_object(json.dumps(ready).encode()))
        pool = {**NODEPOOL, "metadata": metadata("default", generation=1)}
        self.cache.pools.on_event("default", decode_object(json.dumps(pool).encode()))
        view = PlanningView(self.cache)
        self.room = BufferRoom(awaited=True)
        self.batcher = Batcher(view, loop_clock(), self.room, window=KARPENTERS_WINDOW)
        kube, recorder = cast("Any", self.server), cast("Any", Recorder())
        self.planner = BatchPlanner(view, FakeTypes(), kube, recorder, self.batcher, loop_clock())
        self.controller = CapacityBufferController(
            kube, self.cache, view, self.room, PlanPolicy(), self.batcher.reserved, FakeTypes()
        )
        self.batch = 0

    async def plan(self) -> list[str]:
        self.batch += 1
        return (await self.planner.plan(PlanInput(cluster="c", batch=self.batch))).claims

    def joins(self, claim: str, cpu: str, *, initialized: bool = True) -> None:
        """The claim's Node is there."""
        result = self.cache.claims.get(claim)
        assert result is not None
        status = {"providerID": f"aws:///us-west-2a/i-{claim}", "allocatable": {"cpu": cpu, "pods": "10"}}
        body = {**result.body, "metadata": {**result.body["metadata"], "resourceVersion": "x"}, "status": status}
        self.cache.claims.on_event(claim, decode_nodeclaim(json.dumps(body).encode()))
        entries = {**result.labels, **({labels.INITIALIZED: "true"} if initialized else {})}
        self.cache.nodes.on_event(claim, node(claim, cpu=cpu, meta={"labels": entries}))


@contextlib.asynccontextmanager
async def keeping(**spec: Any) -> AsyncIterator[World]:
    """A controller that has looked at a buffer of two pods of 1 CPU."""
    world = World()
    world.server.template()
    world.server.buffer(**spec)
    async with in_background(world.controller.run()):
        await asyncio.sleep(MOMENT)
        yield world


async def test_a_buffer_is_resolved_bought_for_once_filled_used_and_refilled() -> None:
    """CB-05 to CB-09: from its creation until a pod has taken half of its room."""
    async with keeping() as at:
        assert at.server.status["replicas"] == 2
        assert (at.server.reason("ReadyForProvisioning"), at.server.reason("Provisioning")) == (
            "Resolved",
            "RequiresNewCapacity",
        )
        assert len(at.batcher.undecided()) == 2
        (claim,) = await at.plan()
        await asyncio.sleep(MOMENT)
        assert not at.room.lacking()
        assert at.room.hosts() == {claim}
        assert await at.plan() == []
        assert at.server.reason("Provisioning") == "RequiresNewCapacity", "the node only starts"

        at.joins(claim, "2", initialized=False)
        await asyncio.sleep(MOMENT)
        assert at.server.reason("Provisioning") == "RequiresNewCapacity"
        at.joins(claim, "2")
        await asyncio.sleep(MOMENT)
        assert at.server.reason("Provisioning") == "FitsExistingCapacity"
        assert at.batcher.undecided() == []

        at.cache.pods.on_event("ns/real", running("real", claim))
        await asyncio.sleep(MOMENT)
        assert len(at.room.lacking()) == 1
        (second,) = await at.plan()
        await asyncio.sleep(MOMENT)
        assert at.room.hosts() == {claim, second}


async def test_the_reason_of_a_plan_stays_in_the_status_until_a_plan_knows_better() -> None:
    """CB-06: a look between plans buys nothing, and must not say that no NodePool is ready."""
    async with keeping() as at:
        pool = {**NODEPOOL, "metadata": metadata("default", generation=2)}
        pool["spec"] = {**pool["spec"], "limits": {"cpu": "1"}}
        at.cache.pools.on_event("default", decode_object(json.dumps(pool).encode()))
        assert await at.plan() == []
        await asyncio.sleep(2 * RECHECK)
        (message,) = [
            condition["message"] for condition in at.server.status["conditions"] if condition["type"] == "Provisioning"
        ]
        assert "limit leaves no room" in message
        assert "no NodePool is ready" not in message


async def test_waiters_are_notified_of_the_reason_of_a_plan_within_a_recheck() -> None:
    """A NodeSchedule states it as the obstacle of its floor."""
    async with keeping() as at:
        pool = {**NODEPOOL, "metadata": metadata("default", generation=2)}
        pool["spec"] = {**pool["spec"], "limits": {"cpu": "1"}}
        at.cache.pools.on_event("default", decode_object(json.dumps(pool).encode()))
        await asyncio.sleep(2 * RECHECK)
        with at.cache.subscribe([Topic.BUFFER_ROOM]) as changes:
            assert await at.plan() == []
            await asyncio.sleep(RECHECK + MOMENT)
            assert changes.take() == [(Topic.BUFFER_ROOM, "")]
            await asyncio.sleep(2 * RECHECK)
            assert changes.take() == []


async def test_waiters_are_notified_when_a_buffer_loses_its_room() -> None:
    """The batcher's long poll hears it from the cache, as of pods."""
    async with keeping(replicas=0) as at:
        assert at.server.reason("Provisioning") == "BufferEmpty"
        hears = asyncio.create_task(PlanningView(at.cache).changed(600))
        await asyncio.sleep(0)
        at.server.buffer(generation=2)
        await hears
        await asyncio.sleep(MOMENT)
        assert len(at.batcher.undecided()) == 2


async def test_a_buffer_keeps_its_room_on_a_warm_node_that_starts_for_it() -> None:
    """Otherwise the next plan would look for room again, and the status would change to and fro."""
    async with keeping() as at:
        for state, lacking in ((STOPPED, 2), (STARTING, 0)):
            meta = {"labels": {labels.NODEPOOL: "default"}, "annotations": {labels.WARM: state}}
            at.cache.publish(claim("w", node_name="w", initialized="2026-01-01T00:00:00Z", meta=meta))
            initialized = {"labels": {labels.NODEPOOL: "default", labels.INITIALIZED: "true"}}
            taints = [{"key": labels.WARM, "effect": "NoSchedule"}]
            at.cache.publish(node("w", meta=initialized, taints=taints))
            await asyncio.sleep(MOMENT)
            assert len(at.room.lacking()) == lacking, state
        assert at.server.reason("ReadyForProvisioning") == "Resolved"
        assert at.room.rooms()["default/spare"].starting == 2


async def test_n15_301_a_workload_is_followed_at_once_as_it_scales() -> None:
    """CB-02, CB-04: a share of its replicas, from its creation on. Its status changes nothing."""
    world = {"podTemplateRef": None, "replicas": None, "scalableRef": {"kind": "Deployment", "name": "web"}}

    def web(generation: int, replicas: int, status: int = 0) -> dict[str, Any]:
        metadata = {"name": "web", "generation": generation}
        spec = {"replicas": replicas, "template": TEMPLATE}
        return {"metadata": metadata, "spec": spec, "status": {"readyReplicas": status}}

    async with keeping(**world, percentage=50) as at:
        await asyncio.sleep(RECHECK_SOON + MOMENT)
        assert at.server.reason("ReadyForProvisioning") == "ScalableRefNotFound"
        assert at.batcher.undecided() == []
        at.server.add(DEPLOYMENTS, web(1, 4))
        await asyncio.sleep(MOMENT)
        assert (at.server.status["replicas"], len(at.room.pods())) == (2, 2)
        before = [pod.uid for pod in at.room.pods()]
        at.server.add(DEPLOYMENTS, web(2, 6))
        await asyncio.sleep(MOMENT)
        assert [pod.uid for pod in at.room.pods()][:2] == before
        assert at.server.status["replicas"] == 3
        reads = len(at.server.gets)
        at.server.add(DEPLOYMENTS, web(2, 6, status=1))
        at.server.add(DEPLOYMENTS, {**web(1, 1), "metadata": {"name": "other"}})
        await asyncio.sleep(MOMENT)
        assert len(at.server.gets) == reads


async def test_n15_302_a_buffer_that_is_deleted_or_resolves_no_more_lets_its_nodes_go_at_once() -> None:
    """Disruption hears of it and looks again, also in a cluster where nothing else happens."""
    async with keeping() as at:
        (claim,) = await at.plan()
        assert at.room.hosts() == {claim}
        hears = asyncio.create_task(PlanningView(at.cache).nodes_changed(600))
        await asyncio.sleep(0)
        template = decode_generation(json.dumps({"metadata": {"name": "small", "namespace": "default"}}).encode())
        del at.server.objects["podtemplates", "default", "small"]
        at.cache.buffer_targets["PodTemplate"].on_event(template.key, None)
        await hears
        assert at.room.hosts() == frozenset()
        at.server.template()
        await asyncio.sleep(MOMENT)
        assert len(at.room.pods()) == 2
        at.cache.buffers.on_event("default/spare", None)
        await asyncio.sleep(MOMENT)
        assert at.room.pods() == []


@pytest.mark.parametrize(
    ("reference", "supported"),
    [
        ({"kind": "Deployment", "apiGroup": ""}, True),
        ({"kind": "Deployment", "apiGroup": "apps"}, True),
        ({"kind": "Deployment"}, True),
        ({"kind": "Deployment", "apiGroup": "example.com"}, False),
        ({"kind": "Rollout", "apiGroup": "argoproj.io"}, False),
    ],
    ids=str,
)
async def test_n15_304_an_empty_api_group_is_that_of_apps(reference: dict[str, str], supported: bool) -> None:
    spec = {"podTemplateRef": None, "replicas": 1, "scalableRef": {**reference, "name": "web"}}
    async with keeping(**spec) as at:
        at.server.add(DEPLOYMENTS, {"metadata": {"name": "web"}, "spec": {"replicas": 4, "template": TEMPLATE}})
        await asyncio.sleep(RECHECK_SOON + MOMENT)
        reason = at.server.reason("ReadyForProvisioning")
        assert reason == ("Resolved" if supported else "ResolutionFailed")
        if not supported:
            refusal = f"{reference['kind']}.{reference['apiGroup']} web is not a supported workload"
            assert refusal in str(at.server.status["conditions"])


async def test_n15_051_changes_of_conditions_are_counted() -> None:
    counted = metrics.BUFFER_TRANSITIONS.labels("Provisioning", "False", "BufferEmpty")._value
    before = counted.get()
    async with keeping(replicas=0):
        await asyncio.sleep(RECHECK + MOMENT)
        assert counted.get() == before + 1, "a second look changes nothing"


async def test_n15_303_a_buffer_that_no_node_will_ever_hold_says_so() -> None:
    """Kueue gives up on such a buffer. One that only a limit keeps from its room may have it later."""
    async with keeping() as at:
        at.server.template(cpu="5000")
        await asyncio.sleep(MOMENT)
        assert await at.plan() == []
        await asyncio.sleep(RECHECK + MOMENT)
        assert at.server.reason("Provisioning") == "Infeasible"
        (message,) = [
            condition["message"] for condition in at.server.status["conditions"] if condition["type"] == "Provisioning"
        ]
        assert message.startswith("no NodePool can ever launch a node for its pods: ")
        at.server.template()
        await asyncio.sleep(MOMENT)
        await at.plan()
        await asyncio.sleep(RECHECK + MOMENT)
        assert at.server.reason("Provisioning") == "RequiresNewCapacity"


async def test_n15_303_a_limit_or_a_class_that_is_not_ready_makes_no_buffer_infeasible() -> None:
    async with keeping() as at:
        pool = {**NODEPOOL, "metadata": metadata("default", generation=2)}
        pool["spec"] = {**pool["spec"], "limits": {"cpu": "1"}}
        at.cache.pools.on_event("default", decode_object(json.dumps(pool).encode()))
        assert await at.plan() == []
        await asyncio.sleep(RECHECK + MOMENT)
        assert at.server.reason("Provisioning") == "RequiresNewCapacity"
        at.server.template(cpu="5000")
        later = {**NODEPOOL, "metadata": metadata("later", generation=1)}
        later["spec"] = json.loads(json.dumps(NODEPOOL["spec"]))
        later["spec"]["template"]["spec"]["nodeClassRef"]["name"] = "not-there-yet"
        at.cache.pools.on_event("later", decode_object(json.dumps(later).encode()))
        await asyncio.sleep(MOMENT)
        assert await at.plan() == []
        await asyncio.sleep(RECHECK + MOMENT)
        assert at.server.reason("Provisioning") == "RequiresNewCapacity"


async def test_pods_of_another_template_are_other_pods() -> None:
    """An answer to the old ones says nothing of the new ones."""
    async with keeping() as at:
        before = {pod.uid for pod in at.room.pods()}
        at.server.template(cpu="2")
        await asyncio.sleep(RECHECK + MOMENT)
        assert not before & {pod.uid for pod in at.room.pods()}
        assert {pod.requests["cpu"] for pod in at.room.pods()} == {2000}


@pytest.mark.parametrize("status", [401, 503])
async def test_an_api_server_that_is_away_takes_no_buffer_away(status: int) -> None:
    """Nor does a new leader, that has never read them, take their nodes for empty."""
    async with keeping() as at:
        at.server.fault = ApiError(status, "", "away, or it does not accept the token any more")
        await asyncio.sleep(RECHECK + MOMENT)
        assert len(at.room.pods()) == 2
        fresh = World()
        fresh.server.buffer()
        fresh.server.fault = at.server.fault
        task = asyncio.create_task(fresh.controller.run())
        await asyncio.sleep(RECHECK)
        assert not fresh.room.known
        fresh.server.fault = ForbiddenError(403, "Forbidden", "podtemplates is forbidden")
        await asyncio.sleep(RECHECK + MOMENT)
        assert fresh.room.known, "that is an answer"
        assert fresh.server.reason("ReadyForProvisioning") == "ResolutionFailed"
        task.cancel()


async def test_one_buffer_that_cannot_be_resolved_stands_in_no_others_way() -> None:
    """Whether it is malformed, or what it refers to cannot be read for now."""
    at = World()
    at.server.template()
    at.server.buffer()
    spec = {"containers": [{"name": "main", "resources": {"requests": {"cpu": "many"}}}]}
    at.server.add(PODTEMPLATES, {"metadata": {"name": "odd"}, "template": {"spec": spec}})
    for name in ("odd", "away"):
        odd = {"podTemplateRef": {"name": name}, "replicas": 1}
        at.server.add(CAPACITYBUFFERS, {"metadata": {"name": name, "generation": 1}, "spec": odd})
    at.server.fault = ApiError(503, "ServiceUnavailable", "away")
    at.server.spared = {"small", "odd"}
    task = asyncio.create_task(at.controller.run())
    await asyncio.sleep(MOMENT)
    assert {pod.buffer for pod in at.batcher.undecided()} == {"default/spare"}
    condition = at.server.objects["capacitybuffers", "default", "odd"]["status"]["conditions"][0]
    assert (condition["reason"], "many" in condition["message"]) == ("ResolutionFailed", True)
    assert not at.room.known, "the room of the one that could not be asked for is not known"
    at.server.fault = None
    await asyncio.sleep(RECHECK + MOMENT)
    assert at.room.known
    task.cancel()


async def test_cb01_buffers_of_another_strategy_are_somebody_elses() -> None:
    async with keeping(provisioningStrategy="example.com/mine") as at:
        assert (at.server.status, at.room.pods(), at.room.known) == ({}, [], True)
        assert at.server.gets == []


async def test_a_status_that_is_true_is_not_written_again() -> None:
    async with keeping() as at:
        written = len(at.server.calls)
        await asyncio.sleep(4 * RECHECK)
        assert len(at.server.calls) == written


async def test_a_buffer_like_something_that_is_not_followed_says_so() -> None:
    """Another autoscaler that serves the same CRD may follow it: the object is no fault, and nothing is kept for it."""
    for kind in ("Job", "PodTemplate"):
        async with keeping(podTemplateRef=None, scalableRef={"apiGroup": "batch", "kind": kind, "name": "small"}) as at:
            assert at.server.reason("ReadyForProvisioning") == "ResolutionFailed"
            assert at.batcher.undecided() == []


async def test_a_schedule_sets_the_replicas_while_it_holds() -> None:
    """Instead of the buffer's own replicas or percentage; the buffer's limits still hold."""
    entry = {"from": "00:00", "to": "00:00", "headroom": [{"name": "spare", "replicas": 5}]}
    spec = {"timeZone": "UTC", "entries": [entry]}
    schedule = {"metadata": metadata("hours", generation=1), "spec": spec}
    async with keeping(limits={"cpu": "4"}) as at:
        assert at.server.status["replicas"] == 2
        at.cache.schedules.on_event("hours", decode_object(json.dumps(schedule).encode()))
        at.cache.changes.publish(Topic.BUFFER, "default/spare")
        await asyncio.sleep(MOMENT)
        assert at.server.status["replicas"] == 4
        at.cache.schedules.on_event("hours", None)
        at.cache.changes.publish(Topic.BUFFER, "default/spare")
        await asyncio.sleep(MOMENT)
        assert at.server.status["replicas"] == 2
