"""ACT-07, AWS-146, AWS-147: nodes leave whose instances fail a status check, on an API server in memory."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from typing import Any, cast

import pytest
from prometheus_client import REGISTRY

from activities.kubernetes.resources import NODECLAIMS, NODES
from tenon.apis import labels
from tenon.apis.nodeclaim import REBOOTING
from tenon.ec2.instances.status import InstanceStatus
from tenon.kube.decode import decode_node, decode_nodeclaim
from tenon.kube.timestamps import format_instant
from tenon.messages.node import Removal
from tenon.node.leave_text import recorded
from tests.activities.node.fake_kube import START, Clock, FakeKube, Recorder
from tests.worker.cache.objects import claim, metadata
from tests.worker.fake_temporal import Cache
from worker.controllers.interruption.instance_status import POLL_SECONDS, InstanceStatusController
from worker.controllers.interruption.scheduled_changes import ScheduledChangeLimit

pytestmark = pytest.mark.asyncio(loop_scope="function")

LONG_AGO = START - timedelta(minutes=5)


class World:
    """Nodes, EC2's answer about them, and the controller."""

    def __init__(self) -> None:
        self.cache, self.kube, self.recorder = Cache(), FakeKube(Clock()), Recorder()
        self.statuses: list[InstanceStatus] = []
        self.limit = ScheduledChangeLimit(self.cache)
        self.controller = InstanceStatusController(
            cast("Any", self.kube), self.recorder, self.cache, "c", lambda: self.statuses, self.limit, lambda: START
        )

    def node(
        self, number: int, pool: str = "pool", *, joined: bool = True, ready: str = "True", meta: Any = None
    ) -> str:
        """A node, in the API server and in the cache; its instance id. Without ``joined`` it has no Node yet.

        ``meta``: further metadata of its NodeClaim.
        """
        name = f"{number:017x}"
        own = {"labels": {labels.NODEPOOL: pool} if pool else {}, "finalizers": [labels.TERMINATION_FINALIZER]}
        meta = {**own, **(meta or {})}
        record = claim(name, node_name=name, meta=meta)
        self.kube.add(NODECLAIMS, dict(record.body))
        self.cache.publish(record)
        if joined:
            conditions = [{"type": "Ready", "status": ready, "lastTransitionTime": format_instant(START)}]
            body = {"metadata": metadata(name), "spec": {"providerID": record.provider_id}}
            body["status"] = {"conditions": conditions}
            self.kube.add(NODES, body)
            self.cache.publish(decode_node(json.dumps(body).encode()))
        return f"i-{name}"

    def reboots(self, instance: str, status: str, *, since: datetime, is_asked: bool = True) -> None:
        """Give the NodeClaim the condition Rebooting. With ``is_asked``, EC2 was asked to reboot the instance."""
        name = instance.removeprefix("i-")
        body = self.kube.objects["nodeclaims", "", name]
        rebooting = {"type": REBOOTING, "status": status, "lastTransitionTime": format_instant(since)}
        body["status"]["conditions"] = [rebooting]
        body["metadata"]["annotations"] = {labels.REBOOT_PRE_BOOT_ID: "b1"} if is_asked else {}
        body["metadata"]["resourceVersion"] = metadata(name)["resourceVersion"]
        self.cache.publish(decode_nodeclaim(json.dumps(body).encode()))

    async def impair(self, *instances: str) -> None:
        """Let the system status check of these instances fail for long, and look."""
        self.statuses = [InstanceStatus(instance, system_impaired_since=LONG_AGO) for instance in instances]
        await self.controller.reconcile(())

    def ended(self) -> set[str]:
        """The instances whose NodeClaim was deleted."""
        claims = (body for (plural, _, _), body in self.kube.objects.items() if plural == "nodeclaims")
        return {f"i-{claim['metadata']['name']}" for claim in claims if claim["metadata"].get("deletionTimestamp")}

    async def claim_of(self, instance_id: str) -> dict[str, Any]:
        claim = await self.kube.get(NODECLAIMS, instance_id.removeprefix("i-"))
        assert claim is not None
        return dict(claim["metadata"])


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
    claim_of = await world.claim_of(sick)
    assert claim_of["deletionTimestamp"]
    assert claim_of["annotations"][labels.TERMINATION_TIMESTAMP] == format_instant(START)
    (why,) = recorded(claim_of["annotations"])
    text = f"The instance fails EC2's {check} status check"
    assert why == Removal(reason=f"{check}_status", detail=text, actor="controller interruption.instancestatus")
    tainted = await world.kube.get(NODES, sick.removeprefix("i-")) or {}
    assert {"key": "karpenter.sh/disrupted", "effect": "NoSchedule"} in tainted["spec"]["taints"]
    assert "deletionTimestamp" not in await world.claim_of(well)
    kinds = {(kind, reason, check in message) for kind, _, reason, message in world.recorder.events}
    assert {("NodeClaim", "InstanceUnhealthy", True), ("Node", "InstanceUnhealthy", True)} <= kinds
    assert world.recorder.reasons().count("TerminatingOnInterruption") == 2
    assert counted(f"{check}_status") == before + 1
    written = len(world.kube.calls)
    await world.controller.reconcile(())
    assert len(world.kube.calls) == written, "a node that leaves is left alone"


@pytest.mark.parametrize("before", ["", format_instant(START + timedelta(hours=1))], ids=["no-limit", "later"])
async def test_aws146_a_failing_check_ends_the_grace_of_a_node_that_leaves_already(before: str) -> None:
    """A PodDisruptionBudget may hold its pods for ever, and they run no more."""
    world = World()
    annotations = {labels.TERMINATION_TIMESTAMP: before} if before else {}
    meta = {"deletionTimestamp": format_instant(LONG_AGO), "annotations": annotations}
    sick, _ = world.node(1, ready="Unknown", meta=meta), world.node(2)
    await world.impair(sick)
    claim_of = await world.claim_of(sick)
    assert claim_of["annotations"][labels.TERMINATION_TIMESTAMP] == format_instant(START)
    assert [why.reason for why in recorded(claim_of["annotations"])] == ["deleted", "system_status"]
    assert set(world.recorder.reasons()) == {"InstanceUnhealthy"}
    written, events = len(world.kube.calls), len(world.recorder.events)
    await world.impair(sick)
    assert (len(world.kube.calls), len(world.recorder.events)) == (written, events), "its grace is over"


async def test_aws147_a_scheduled_event_leaves_its_grace_to_a_node_that_leaves_already() -> None:
    world = World()
    leaves = world.node(1, meta={"deletionTimestamp": format_instant(LONG_AGO)})
    world.statuses = [InstanceStatus(leaves, events=("degraded hardware",))]
    await world.controller.reconcile(())
    assert (world.kube.calls, world.recorder.events) == ([], [])


async def test_aws146_sch104_a_zone_whose_status_checks_fail_forces_no_node_that_leaves() -> None:
    world = World()
    meta = {"deletionTimestamp": format_instant(LONG_AGO)}
    fleet = [world.node(number, meta=meta if number == 0 else None) for number in range(5)]
    await world.impair(*fleet[:3])
    assert labels.TERMINATION_TIMESTAMP not in (await world.claim_of(fleet[0])).get("annotations", {})
    assert set(world.recorder.reasons()) == {"NodeRepairBlocked"}


async def test_aws147_a_scheduled_event_ends_the_node_with_its_grace() -> None:
    world = World()
    stops = world.node(1)
    world.statuses = [InstanceStatus(stops, events=("degraded hardware",))]
    await world.controller.reconcile(())
    claim_of = await world.claim_of(stops)
    assert claim_of["deletionTimestamp"]
    assert labels.TERMINATION_TIMESTAMP not in claim_of["annotations"]
    assert [why.reason for why in recorded(claim_of["annotations"])] == ["event_status"]
    assert set(world.recorder.reasons()) == {"TerminatingOnInterruption"}


async def test_aws146_sch104_a_zone_whose_status_checks_fail_ends_no_node() -> None:
    """Two of six nodes may be unhealthy, three are too many. Those of another pool are counted by themselves."""
    world = World()
    fleet = [world.node(number) for number in range(6)]
    others = [world.node(number, "other") for number in range(10, 15)]
    await world.impair(*fleet[:3], others[0])
    assert world.ended() == {others[0]}
    blocked = {event for event in world.recorder.events if event[2] == "NodeRepairBlocked"}
    names = {instance.removeprefix("i-") for instance in fleet[:3]}
    assert {event[:2] for event in blocked} == {(kind, name) for kind in ("Node", "NodeClaim") for name in names}
    assert {event[3] for event in blocked} == {"More than 20% of the nodes of NodePool pool are unhealthy"}
    assert not any(world.kube.objects["nodes", "", name]["spec"].get("taints") for name in names)
    await world.impair(*fleet[:2])
    assert world.ended() == {others[0], *fleet[:2]}, "looked at again within a minute"


async def test_aws146_sch104_nodes_that_leave_are_unhealthy_until_they_are_gone() -> None:
    """Otherwise a zone whose instances fail one after the other would end a fifth of the fleet a minute."""
    world = World()
    fleet = [world.node(number) for number in range(5)]
    await world.impair(fleet[0])
    await world.impair(*fleet[:2])
    assert world.ended() == {fleet[0]}


@pytest.mark.parametrize("other", ["fails for a moment", "is not ready", "has no Node"])
async def test_aws146_sch104_every_unhealthy_node_counts(other: str) -> None:
    """Also one whose check fails for less than two minutes, whose Node has a bad condition, or that has not joined."""
    world = World()
    sick = world.node(1)
    for number in range(2, 5):
        world.node(number)
    second = world.node(5, joined=other != "has no Node", ready="Unknown" if other == "is not ready" else "True")
    world.statuses = [InstanceStatus(sick, system_impaired_since=LONG_AGO)]
    if other != "is not ready":
        world.statuses.append(InstanceStatus(second, instance_impaired_since=START))
    await world.controller.reconcile(())
    assert world.ended() == set()
    assert "NodeRepairBlocked" in world.recorder.reasons()


async def test_aws146_sch104_for_a_stand_alone_claim_the_whole_cluster_counts() -> None:
    world = World()
    alone = world.node(0, "")
    fleet = [world.node(number) for number in range(1, 10)]
    await world.impair(alone, *fleet[:2])
    assert world.ended() == set(fleet[:2])
    assert any("the cluster" in event[3] for event in world.recorder.events if event[2] == "NodeRepairBlocked")
    await world.impair(alone, fleet[0])
    assert alone in world.ended()


async def test_aws147_sch104_scheduled_events_of_a_whole_fleet_end_a_fifth_of_it_at_a_time() -> None:
    """EC2 announces them days before. Each node leaves with its grace, and another one when it is gone."""
    world = World()
    fleet = [world.node(number) for number in range(10)]
    world.statuses = [InstanceStatus(item, events=("maintenance",)) for item in fleet]
    ended: set[str] = set()
    for _ in range(5):
        await world.controller.reconcile(())
        leaving = world.ended() - ended
        assert len(leaving) == 2
        await world.controller.reconcile(())
        assert world.ended() - ended == leaving, "no other one leaves before one of them is gone"
        ended |= leaving
        for instance in leaving:
            world.cache.claims.on_event(instance.removeprefix("i-"), None)
            world.cache.nodes.on_event(instance.removeprefix("i-"), None)
        world.statuses = [status for status in world.statuses if status.instance_id not in leaving]
        for number in range(2):
            world.node(20 + len(ended) + number)  # the replacements
    assert len(ended) == 10
    assert "ScheduledChangeDelayed" in world.recorder.reasons()
    events = next(event[3] for event in world.recorder.events if event[2] == "ScheduledChangeDelayed")
    assert events.startswith("20% of the nodes of NodePool pool leave now (2)")


async def test_sch104_nodes_that_a_message_lets_go_use_up_the_limit() -> None:
    """The cache does not show yet that they are deleted."""
    world = World()
    fleet = [world.node(number) for number in range(10)]
    world.limit.count(lambda _: False)
    for instance in fleet[:2]:
        claim_of_message = world.cache.claim_of_instance(instance)
        assert claim_of_message is not None
        assert not world.limit.admit(claim_of_message)
    world.statuses = [InstanceStatus(item, events=("maintenance",)) for item in fleet[2:]]
    await world.controller.reconcile(())
    assert world.ended() == set()


async def test_instances_of_others_are_left_alone() -> None:
    world = World()
    world.statuses = [InstanceStatus("i-0123456789abcdef0", system_impaired_since=LONG_AGO)]
    await world.controller.reconcile(())
    assert world.kube.calls == []


async def test_aws146_n15_162_a_reboot_that_tenon_asked_for_has_its_time_to_recover() -> None:
    """EC2's instance check fails while the machine boots, and for a while after its Node is Ready."""
    world = World()
    node = world.node(1)
    world.statuses = [InstanceStatus(node, instance_impaired_since=LONG_AGO, system_impaired_since=LONG_AGO)]
    world.reboots(node, "True", since=LONG_AGO)
    await world.controller.reconcile(())
    assert world.ended() == set()
    world.reboots(node, "False", since=START - timedelta(seconds=119))
    await world.controller.reconcile(())
    assert world.ended() == set(), "the check lags behind the Node"
    world.reboots(node, "False", since=START - timedelta(seconds=120))
    await world.controller.reconcile(())
    assert world.ended() == {node}


async def test_aws146_a_failing_node_leaves_while_the_drain_before_its_reboot_goes_on() -> None:
    """That drain may have no limit, and EC2 was not asked to reboot yet."""
    world = World()
    node = world.node(1)
    world.reboots(node, "True", since=LONG_AGO, is_asked=False)
    await world.impair(node)
    assert world.ended() == {node}


async def test_aws147_a_scheduled_event_of_an_instance_that_reboots_ends_its_node() -> None:
    world = World()
    node = world.node(1)
    world.statuses = [InstanceStatus(node, instance_impaired_since=LONG_AGO, events=("retirement",))]
    world.reboots(node, "True", since=LONG_AGO)
    await world.controller.reconcile(())
    assert [why.reason for why in recorded((await world.claim_of(node))["annotations"])] == ["event_status"]


@pytest.mark.parametrize("before", [None, "2027-01-01T00:00:00Z"])
async def test_aws146_a_refused_deletion_leaves_the_grace_period_as_it_was(before: str | None) -> None:
    """The check recovers, and the node leaves weeks later for another reason, with its grace."""
    world = World()
    sick = world.node(1, meta={"annotations": {labels.TERMINATION_TIMESTAMP: before} if before else {}})
    world.kube.undeletable = {sick.removeprefix("i-")}
    await world.impair(sick)
    claim_of = await world.claim_of(sick)
    assert "deletionTimestamp" not in claim_of
    assert recorded(claim_of["annotations"]) == ()
    assert claim_of["annotations"].get(labels.TERMINATION_TIMESTAMP) == before


async def test_aws146_sch104_a_stopped_warm_node_is_unhealthy_only_if_its_check_fails() -> None:
    """Its Node is not Ready because Tenon stopped its instance."""
    world = World()
    sick, *_ = [world.node(number) for number in range(4)]
    warm = world.node(4, ready="Unknown", meta={"annotations": {labels.WARM: "stopped"}})
    world.statuses = [
        InstanceStatus(sick, system_impaired_since=LONG_AGO),
        InstanceStatus(warm, system_impaired_since=START),
    ]
    await world.controller.reconcile(())
    assert world.ended() == set()
    await world.impair(sick)
    assert world.ended() == {sick}
