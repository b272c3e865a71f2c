"""ACT-07, AWS-146, AWS-147: nodes leave whose instances fail a status check, on an API server in memory."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from activities.kubernetes.resources import NODECLAIMS, NODES
from tenon.apis import labels
from tenon.ec2.instance_status import InstanceStatus
from tenon.kube.timestamps import format_instant
from tests.cache.objects import claim, metadata, node
from tests.lifecycle_k8s.fake_kube import START, Clock, FakeKube, Recorder
from tests.worker.fake_temporal import Cache
from worker.controllers.instance_status import POLL_SECONDS, InstanceStatusController

pytestmark = pytest.mark.asyncio(loop_scope="function")

LONG_AGO = START - timedelta(minutes=5)


class World:
    """Nodes, EC2's answer about them, and the controller."""

    def __init__(self) -> None:
        self.cache, self.kube, self.recorder = Cache(), FakeKube(Clock()), Recorder()
        self.statuses: list[InstanceStatus] = []
        self.controller = InstanceStatusController(
            cast("Any", self.kube), self.recorder, self.cache, "c", lambda: self.statuses, lambda: START
        )

    def node(self, number: int) -> str:
        """A node, in the API server and in the cache; its instance id."""
        name = f"{number:017x}"
        meta = {"labels": {labels.NODEPOOL: "pool"}, "finalizers": [labels.TERMINATION_FINALIZER]}
        record = claim(name, node_name=name, meta=meta)
        self.kube.add(NODECLAIMS, dict(record.body))
        self.kube.add(NODES, {"metadata": metadata(name), "spec": {"providerID": record.provider_id}})
        self.cache.publish(record)
        self.cache.publish(node(name))
        return f"i-{name}"

    async def claim_of(self, instance_id: str) -> dict[str, Any]:
        found = await self.kube.get(NODECLAIMS, instance_id.removeprefix("i-"))
        assert found is not None
        return dict(found["metadata"])


def counted(category: str) -> float:
    name = "karpenter_interruption_instance_status_unhealthy_total"
    return REGISTRY.get_sample_value(name, {"category": category}) or 0.0


@pytest.mark.parametrize("check", ["system", "instance"])
async def test_aws146_a_failing_check_ends_the_node_without_grace(check: str) -> None:
    world = World()
    sick, well = world.node(1), world.node(2)
    failing: dict[str, Any] = {f"{check}_impaired_since": LONG_AGO}
    world.statuses = [InstanceStatus(sick, **failing)]
    before = counted(f"{check}_status")
    assert await world.controller.reconcile(()) == POLL_SECONDS
    found = await world.claim_of(sick)
    assert found["deletionTimestamp"]
    assert found["annotations"][labels.TERMINATION_TIMESTAMP] == format_instant(START)
    tainted = await world.kube.get(NODES, sick.removeprefix("i-")) or {}
    assert {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"} in tainted["spec"]["taints"]
    assert "deletionTimestamp" not in await world.claim_of(well)
    told = {(kind, reason, check in message) for kind, _, reason, message in world.recorder.events}
    assert {("NodeClaim", "InstanceUnhealthy", True), ("Node", "InstanceUnhealthy", True)} <= told
    assert world.recorder.reasons().count("TerminatingOnInterruption") == 2
    assert counted(f"{check}_status") == before + 1
    written = len(world.kube.calls)
    await world.controller.reconcile(())
    assert len(world.kube.calls) == written, "a node that leaves is left alone"


async def test_aws147_a_scheduled_event_ends_the_node_with_its_grace() -> None:
    world = World()
    stops = world.node(1)
    world.statuses = [InstanceStatus(stops, events=("degraded hardware",))]
    await world.controller.reconcile(())
    found = await world.claim_of(stops)
    assert found["deletionTimestamp"]
    assert labels.TERMINATION_TIMESTAMP not in found.get("annotations", {})
    assert set(world.recorder.reasons()) == {"TerminatingOnInterruption"}


async def test_instances_of_others_are_left_alone() -> None:
    world = World()
    world.statuses = [InstanceStatus("i-0123456789abcdef0", system_impaired_since=LONG_AGO)]
    await world.controller.reconcile(())
    assert world.kube.calls == []
