"""The conditions Drifted and Consolidatable, kept by looking at the cache; the API server is played from memory."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
from collections.abc import AsyncIterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest

from activities.ec2.errors import EC2Error
from activities.kubernetes.errors import ApiUnreachableError, ConflictError
from activities.kubernetes.resources import NODECLAIMS, Resource
from tenon.apis import labels
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.hashing import ec2nodeclass_hashes, nodepool_hashes
from tenon.apis.nodepool import NodePool
from tenon.kube.decode import decode_nodeclaim, decode_object
from tenon.kube.timestamps import format_instant
from tenon.scheduling.model import InstanceType
from tests.activities.provisioning.fake_view import READY, FakeTypes
from tests.tenon.apis.case import EC2NODECLASS, NODEPOOL, edited, taint, term
from tests.worker.background import in_background
from tests.worker.cache.objects import metadata, node, running
from tests.worker.fake_temporal import MOMENT, Cache
from worker.cache.planning_view import PlanningView
from worker.controllers.disruption import nodeclaim_conditions
from worker.controllers.disruption.nodeclaim_conditions import (
    MAX_CONSOLIDATABLE,
    MAX_DRIFTED,
    MAX_LOOKS,
    RETRY,
    TYPES_AGE,
    TYPES_RETRY,
    NodeClaimDisruptionController,
)

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

TURN = 3 * MOMENT
"""More than a change needs to be seen and written."""


class ApiServer:
    """Merges patches of NodeClaims into the cache, as a watch would; while ``away`` it answers nothing."""

    def __init__(self, cache: Cache) -> None:
        self.cache = cache
        self.away = False
        self.patches: list[str] = []
        self.bodies: dict[str, dict[str, Any]] = {}

    def put(self, body: dict[str, Any]) -> None:
        name = body["metadata"]["name"]
        body["metadata"]["resourceVersion"] = metadata(name)["resourceVersion"]
        self.bodies[name] = body
        self.cache.claims.on_event(name, decode_nodeclaim(json.dumps(body).encode()))

    async def get(self, resource: Resource, name: str) -> dict[str, Any] | None:
        assert resource is NODECLAIMS
        return copy.deepcopy(self.bodies.get(name))

    async def patch(
        self, resource: Resource, name: str, patch: dict[str, Any], *, subresource: str = ""
    ) -> dict[str, Any]:
        assert (resource, subresource) == (NODECLAIMS, "status")
        if self.away:
            raise ApiUnreachableError("https://x", "refused")
        self.patches.append(name)
        body = copy.deepcopy(self.bodies[name])
        if patch["metadata"]["resourceVersion"] != body["metadata"]["resourceVersion"]:
            raise ConflictError(409, "Conflict", "the object has been modified")
        body["status"] |= patch["status"]
        self.put(body)
        return body

    def condition(self, name: str, type_: str) -> dict[str, Any]:
        conditions = self.bodies[name]["status"]["conditions"]
        return next((condition for condition in conditions if condition["type"] == type_), {})


class Types(FakeTypes):
    """Instance types that EC2 may refuse to describe."""

    def __init__(self) -> None:
        super().__init__()
        self.failing = False
        self.reads = 0

    def instance_types(
        self, node_class: EC2NodeClass, unavailable: Any, *, unpriced: bool = False, dedicated: bool = False
    ) -> Sequence[InstanceType]:
        self.reads += 1
        if self.failing:
            raise EC2Error("Unavailable", "EC2 is away", retryable=True)
        return super().instance_types(node_class, unavailable, unpriced=unpriced, dedicated=dedicated)


class World:
    """A pool and its class of the name ``default``."""

    def __init__(self) -> None:
        self.cache = Cache()
        self.server = ApiServer(self.cache)
        self.types = Types()
        self._generation = 0
        self.edits: dict[str, Any] = {"disruption/consolidateAfter": "30s"}
        self.image = "ami-1"

    def put_pool(self, edits: dict[str, Any] | None = None) -> NodePool:
        self._generation += 1
        self.edits |= edits or {}
        body = {**edited(NODEPOOL, self.edits), "metadata": metadata("default", generation=self._generation)}
        self.cache.pools.on_event("default", decode_object(json.dumps(body).encode()))
        return NodePool.model_validate(body)

    def put_class(self, image: str = "ami-1", **condition: Any) -> EC2NodeClass:
        body = copy.deepcopy(EC2NODECLASS) | {"metadata": metadata("default", generation=1)}
        body["status"] = {
            "subnets": [{"id": "subnet-a", "zone": "us-west-2a"}],
            "amis": [{"id": image, "requirements": [term(labels.ARCH, "In", "amd64")]}],
            "conditions": [{**READY, "observedGeneration": 1, **condition}],
        }
        self.cache.nodeclasses.on_event("default", decode_object(json.dumps(body).encode()))
        return EC2NodeClass.model_validate(body)

    def put_claim(self, name: str = "claim", *, initialized: datetime | None = None, **status: Any) -> None:
        """A launched NodeClaim of the pool as it is now; its Node is named n-NAME."""
        pool = self.put_pool()
        made_from = self.put_class()
        conditions = [{"type": "Launched", "status": "True", "reason": "Launched", "lastTransitionTime": stamp()}]
        if initialized is not None:
            since = stamp(initialized)
            conditions.append(
                {"type": "Initialized", "status": "True", "reason": "Initialized", "lastTransitionTime": since}
            )
        meta = metadata(
            name,
            labels={
                labels.NODEPOOL: "default",
                labels.INSTANCE_TYPE: "m5.large",
                labels.ZONE: "us-west-2a",
                labels.CAPACITY_TYPE: "on-demand",
                labels.ARCH: "amd64",
            },
            annotations={**nodepool_hashes(pool), **ec2nodeclass_hashes(made_from), labels.SUBNET_ID: "subnet-a"},
        )
        reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
        self.server.put(
            {
                "metadata": meta,
                "spec": {"nodeClassRef": reference, "requirements": [], "expireAfter": "720h"},
                "status": {
                    "providerID": f"aws:///us-west-2a/i-n-{name}",
                    "imageID": "ami-1",
                    "conditions": conditions,
                    **status,
                },
            }
        )
        self.cache.publish(node(f"n-{name}"))


def stamp(instant: datetime | None = None) -> str:
    return format_instant(instant or datetime.now(UTC))


@contextlib.asynccontextmanager
async def keeping(world: World) -> AsyncIterator[World]:
    """The controller, after its first look."""
    view = PlanningView(world.cache)
    controller = NodeClaimDisruptionController(cast("Any", world.server), world.cache, view, world.types, "c")
    async with in_background(controller.run()):
        await asyncio.sleep(TURN)
        yield world


async def test_dis70_nc05_a_changed_template_is_drift_until_it_is_changed_back() -> None:
    world = World()
    world.put_claim()
    async with keeping(world):
        assert world.server.patches == []
        world.put_pool({"template/spec/taints": [taint("new")]})
        await asyncio.sleep(TURN)
        condition = world.server.condition("claim", "Drifted")
        assert (condition["status"], condition["reason"]) == ("True", "NodePoolDrifted")
        assert "spec.template.spec.taints of NodePool default" in condition["message"]
        since = condition["lastTransitionTime"]
        world.put_pool({"template/spec/expireAfter": "1h"})
        await asyncio.sleep(TURN)
        condition = world.server.condition("claim", "Drifted")
        assert "expireAfter" in condition["message"]
        assert condition["lastTransitionTime"] == since, "the node drifted then, and keeps its place in the order"
        world.put_pool({"template/spec/taints": [], "template/spec/expireAfter": "720h"})
        await asyncio.sleep(TURN)
        assert world.server.condition("claim", "Drifted") == {}
        assert len(world.server.patches) == 3


async def test_dis74_a_new_image_of_the_class_is_drift() -> None:
    world = World()
    world.put_claim()
    async with keeping(world):
        world.put_class("ami-2")
        await asyncio.sleep(TURN)
        assert world.server.condition("claim", "Drifted")["reason"] == "AMIDrift"


async def test_dis74_what_cannot_be_compared_leaves_the_condition_as_it_is() -> None:
    world = World()
    world.put_claim()
    async with keeping(world):
        world.put_class("ami-2")
        await asyncio.sleep(TURN)
        world.put_class("ami-1", status="False")
        await asyncio.sleep(TURN)
        assert world.server.condition("claim", "Drifted")["status"] == "True"
        world.put_class("ami-1")
        await asyncio.sleep(TURN)
        assert world.server.condition("claim", "Drifted") == {}


async def test_dis74_while_ec2_is_away_the_instance_types_are_those_that_were_read() -> None:
    world = World()
    world.put_claim()
    async with keeping(world):
        world.types.failing = True
        world.put_class("ami-2")
        await asyncio.sleep(TURN)
        assert world.server.condition("claim", "Drifted")["reason"] == "AMIDrift"


async def test_dis74_instance_types_that_ec2_did_not_give_are_read_again_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise drift of instance types stays unknown for minutes after the start of a worker."""
    world, loop, start = World(), asyncio.get_running_loop(), datetime.now(UTC)
    monkeypatch.setattr(nodeclaim_conditions, "utc_now", lambda: start + timedelta(seconds=loop.time()))
    world.put_claim()
    world.types.failing = True
    async with keeping(world):
        reads = world.types.reads
        for _ in range(3):
            world.cache.publish(node("n-claim"))
            world.put_class()
            await asyncio.sleep(TURN)
        assert world.types.reads == reads, "not at each change"
        world.types.failing = False
        await asyncio.sleep(TYPES_RETRY.total_seconds() + 60)
        assert world.types.reads == reads + 1
        await asyncio.sleep(60)
        assert world.types.reads == reads + 1, "an answer counts for minutes"


async def test_dis70_a_claim_that_is_not_launched_has_not_drifted() -> None:
    """Karpenter removes the condition, too."""
    drifted = {"type": "Drifted", "status": "True", "reason": "AMIDrift", "lastTransitionTime": stamp()}
    world = World()
    world.put_claim(conditions=[drifted])
    async with keeping(world):
        assert world.server.condition("claim", "Drifted") == {}
        world.put_pool({"template/spec/taints": [taint("new")]})
        await asyncio.sleep(TURN)
        assert world.server.condition("claim", "Drifted") == {}


async def test_dis30_nc05_a_node_is_consolidatable_after_its_time_without_a_pod_event() -> None:
    world = World()
    world.put_claim(initialized=datetime.now(UTC) - timedelta(seconds=20))
    async with keeping(world):
        assert world.server.condition("claim", "Consolidatable") == {}
        assert world.server.patches == []
        world.put_pool({"disruption/consolidateAfter": "15s"})
        await asyncio.sleep(TURN)
        assert world.server.condition("claim", "Consolidatable")["status"] == "True"
        pod = running("a", "n-claim", since=stamp())
        world.cache.pods.on_event(pod.key, pod)
        await asyncio.sleep(TURN)
        assert world.server.condition("claim", "Consolidatable") == {}
        assert world.server.condition("claim", "Launched")["status"] == "True"
        world.put_pool({"disruption/consolidateAfter": "0s"})
        await asyncio.sleep(TURN)
        assert world.server.condition("claim", "Consolidatable")["status"] == "True"
        world.put_pool({"disruption/consolidateAfter": "Never"})
        await asyncio.sleep(TURN)
        assert world.server.condition("claim", "Consolidatable") == {}


async def test_dis30_a_pod_event_that_another_process_recorded_counts() -> None:
    world = World()
    world.put_claim(initialized=datetime.now(UTC) - timedelta(hours=1), lastPodEventTime=stamp())
    world.put_claim("quiet", initialized=datetime.now(UTC) - timedelta(hours=1))
    async with keeping(world):
        assert world.server.condition("claim", "Consolidatable") == {}
        assert world.server.condition("quiet", "Consolidatable")["status"] == "True"


async def test_dis30_a_time_that_passes_needs_no_change_to_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World()
    world.put_claim(initialized=datetime.now(UTC))
    async with keeping(world):
        assert world.server.condition("claim", "Consolidatable") == {}
        later = timedelta(seconds=31)
        monkeypatch.setattr(
            "worker.controllers.disruption.nodeclaim_conditions.utc_now", lambda: datetime.now(UTC) + later
        )
        await asyncio.sleep(31)
        assert world.server.condition("claim", "Consolidatable")["status"] == "True"


async def test_dis30_a_pod_event_is_recorded_together_with_the_condition_that_it_ends() -> None:
    """One write instead of two, of which a busy cluster has many a second."""
    world = World()
    world.put_claim(initialized=datetime.now(UTC) - timedelta(hours=1))
    async with keeping(world):
        assert world.server.condition("claim", "Consolidatable")["status"] == "True"
        assert "lastPodEventTime" not in world.server.bodies["claim"]["status"]
        pod = running("a", "n-claim", since=(since := stamp()))
        world.cache.pods.on_event(pod.key, pod)
        await asyncio.sleep(TURN)
        assert world.server.condition("claim", "Consolidatable") == {}
        assert world.server.bodies["claim"]["status"]["lastPodEventTime"] == since
        assert len(world.server.patches) == 2


async def test_dis30_a_recorded_pod_event_is_never_replaced_by_an_earlier_one() -> None:
    """A cache that has just started sees when pods came, but not those that left before."""
    noted = stamp(datetime.now(UTC) - timedelta(hours=1))
    world = World()
    world.put_claim(initialized=datetime.now(UTC) - timedelta(hours=9), lastPodEventTime=noted)
    pod = running("a", "n-claim", since=stamp(datetime.now(UTC) - timedelta(hours=2)))
    world.cache.pods.on_event(pod.key, pod)
    async with keeping(world):
        assert world.server.condition("claim", "Consolidatable")["status"] == "True"
        assert world.server.bodies["claim"]["status"]["lastPodEventTime"] == noted


async def test_dis30_pod_events_cause_no_pass_before_a_node_may_be_consolidatable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """They never hasten it, and hundreds arrive in a second. What could have drifted does not depend on pods."""
    looks: list[str] = []
    for look in ("_evaluate", "_evaluate_pods_of"):
        monkeypatch.setattr(NodeClaimDisruptionController, look, _counted(look, looks))
    world = World()
    world.put_claim(initialized=datetime.now(UTC) - timedelta(seconds=20))
    async with keeping(world):
        assert looks == ["_evaluate"]
        for number in range(5):
            pod = running(f"pod-{number}", "n-claim", since=stamp())
            world.cache.pods.on_event(pod.key, pod)
            await asyncio.sleep(TURN)
        assert looks == ["_evaluate"]
        world.put_pool({"disruption/consolidateAfter": "0s"})
        await asyncio.sleep(TURN)
        assert world.server.condition("claim", "Consolidatable")["status"] == "True"
        assert "_evaluate_pods_of" not in looks
        world.put_pool({"disruption/consolidateAfter": "1h"})
        await asyncio.sleep(TURN)
        assert world.server.condition("claim", "Consolidatable") == {}


def _counted(name: str, looks: list[str]) -> Any:
    look = getattr(NodeClaimDisruptionController, name)

    def counted(self: Any, *value: Any) -> Any:
        looks.append(name)
        return look(self, *value)

    return counted


async def test_a_leaving_claim_and_one_without_a_pool_are_left_alone() -> None:
    world = World()
    world.put_claim()
    world.put_claim("alone")
    body = world.server.bodies["claim"]
    body["metadata"] |= {"deletionTimestamp": stamp(), "finalizers": [labels.TERMINATION_FINALIZER]}
    world.server.put(body)
    alone = world.server.bodies["alone"]
    del alone["metadata"]["labels"][labels.NODEPOOL]
    world.server.put(alone)
    async with keeping(world):
        world.put_pool({"template/spec/taints": [taint("new")]})
        await asyncio.sleep(TURN)
        assert world.server.patches == []


async def test_a_change_of_a_large_pool_is_written_in_portions() -> None:
    """Others write through the same limit on requests."""
    world = World()
    count = MAX_DRIFTED * 3
    for number in range(count):
        world.put_claim(f"claim-{number}")
    async with keeping(world):
        world.put_pool({"template/spec/taints": [taint("new")]})
        await asyncio.sleep(2 * MOMENT)
        assert 0 < len(world.server.patches) <= 2 * MAX_DRIFTED
        await asyncio.sleep(10 * MOMENT)
        assert sorted(world.server.patches) == sorted(f"claim-{number}" for number in range(count))


async def test_dis30_few_claims_become_consolidatable_at_once() -> None:
    world = World()
    for number in range(MAX_CONSOLIDATABLE * 4):
        world.put_claim(f"claim-{number}", initialized=datetime.now(UTC) - timedelta(hours=1))
    async with keeping(world):
        assert 0 < len(world.server.patches) < MAX_CONSOLIDATABLE * 4
        await asyncio.sleep(10 * MOMENT)
        assert len(world.server.patches) == MAX_CONSOLIDATABLE * 4


async def test_unchanged_claims_are_not_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """With 5,000 nodes each look counts. Status writes of pools and classes concern no claim."""
    world = World()
    for number in range(5):
        world.put_claim(f"claim-{number}")
    looks: list[str] = []
    look = NodeClaimDisruptionController._evaluate

    def counted(self: Any, name: str, now: datetime) -> Any:
        looks.append(name)
        return look(self, name, now)

    monkeypatch.setattr(NodeClaimDisruptionController, "_evaluate", counted)
    async with keeping(world):
        assert len(looks) == 5
        for _ in range(5):
            record = world.cache.pools.get("default")
            assert record is not None
            body = {**record.body, "metadata": {**record.metadata, "resourceVersion": metadata("x")["resourceVersion"]}}
            body["status"] = {"nodes": len(looks)}
            world.cache.pools.on_event("default", decode_object(json.dumps(body).encode()))
            world.put_class()
            await asyncio.sleep(TURN)
        assert len(looks) == 5
        reads = world.types.reads
        await asyncio.sleep(120)
        assert (len(looks), world.types.reads) == (5, reads)
    assert MAX_LOOKS > 5
    assert timedelta(minutes=1) < TYPES_AGE


async def test_a_failed_write_is_repeated(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert timedelta(seconds=5) < RETRY, "no rush on a server that is in trouble"
    monkeypatch.setattr("worker.controllers.disruption.nodeclaim_conditions.RETRY", timedelta())
    world = World()
    world.put_claim()
    async with keeping(world):
        world.server.away = True
        world.put_pool({"template/spec/taints": [taint("new")]})
        await asyncio.sleep(TURN)
        world.server.away = False
        assert world.server.patches == []
        await asyncio.sleep(TURN)
        assert world.server.condition("claim", "Drifted")["reason"] == "NodePoolDrifted"
    assert [record.getMessage() for record in caplog.records].count(
        "The controller failed to reconcile and retries"
    ) == 1


@pytest.mark.parametrize("pods", [False, True], ids=["the claim", "its pods"])
async def test_a_claim_that_cannot_be_judged_does_not_stop_the_others(
    caplog: pytest.LogCaptureFixture, *, pods: bool
) -> None:
    world = World()
    long_ago = datetime(2026, 1, 1, tzinfo=UTC)
    for name in "abc":
        world.put_claim(name, initialized=datetime.max.replace(tzinfo=UTC) if name == "a" and not pods else long_ago)
    async with keeping(world):
        if pods:
            world.put_claim("a", initialized=datetime.max.replace(tzinfo=UTC))
            await asyncio.sleep(TURN)
            for name in "ab":
                record = running(name, f"n-{name}", since=stamp())
                world.cache.pods.on_event(record.key, record)
            await asyncio.sleep(TURN)
            assert not world.server.condition("b", "Consolidatable")
        else:
            assert world.server.condition("b", "Consolidatable")["status"] == "True"
            assert world.server.condition("c", "Consolidatable")["status"] == "True"
        failures = [record for record in caplog.records if record.exc_info]
        assert {record.__dict__["nodeclaim"] for record in failures} == {"a"}
        world.put_claim("a", initialized=long_ago)
        world.put_pool({"template/spec/taints": [taint("new")]})
        await asyncio.sleep(TURN)
        assert world.server.condition("a", "Drifted")["status"] == "True"


async def test_dis75_a_claim_marked_as_drifted_by_karpenter_stays_so_until_rehashed() -> None:
    """Otherwise it would get the current hash, and the change that it drifted for would never reach its node."""
    world = World()
    world.put_claim()
    body = world.server.bodies["claim"]
    body["metadata"]["annotations"][labels.NODEPOOL_HASH_VERSION] = "v3"
    body["status"]["conditions"].append(
        {"type": "Drifted", "status": "True", "reason": "NodePoolDrifted", "lastTransitionTime": stamp()}
    )
    world.server.put(body)
    async with keeping(world):
        assert world.server.condition("claim", "Drifted")["status"] == "True"
        assert world.server.patches == []


async def test_a_claim_that_changed_meanwhile_is_read_again() -> None:
    """Conditions are replaced as a whole: what another writer added must not be lost."""
    world = World()
    world.put_claim()
    async with keeping(world):
        body = copy.deepcopy(world.server.bodies["claim"])
        registered = {"type": "Registered", "status": "True", "reason": "Registered", "lastTransitionTime": stamp()}
        body["status"]["conditions"].append(registered)
        body["metadata"]["resourceVersion"] = metadata("x")["resourceVersion"]
        world.server.bodies["claim"] = body  # the watch has not delivered it yet
        world.put_pool({"template/spec/taints": [taint("new")]})
        await asyncio.sleep(TURN)
        assert world.server.condition("claim", "Drifted")["status"] == "True"
        assert world.server.condition("claim", "Registered")["status"] == "True"
