"""A whole drain of a group: an API server in memory and a simulated account; ticks are controllers and kubelets."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from activities.kubernetes.client import EvictionAnswer
from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import LEASES, NODES, PODS
from cli.drain_node_group import app
from cli.node_groups.group import ScalingGroup
from cli.node_groups.nodes import read_nodes, read_waiting
from cli.node_groups.passes import GroupDrain
from cli.node_groups.preconditions import DrainError, count_unjoined, shows_that_it_leads
from cli.switching.leases import LeaseWatch
from tests.activities.node.fake_kube import Clock, FakeKube
from tests.cli.test_scaling_group import REGION, account

__all__ = ["account"]

UNSCHEDULABLE = {
    "phase": "Pending",
    "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}],
}
pytestmark = pytest.mark.asyncio(loop_scope="function")


class Api(FakeKube):
    """It also selects by name, and fails for a while to list Nodes."""

    failures = 0

    async def list(self, resource: Any, **query: Any) -> list[dict[str, Any]]:
        if resource is NODES and self.failures:
            self.failures -= 1
            raise ApiError(500, "InternalError", "etcd has no leader")
        if (selector := query.get("field_selector", "")).startswith("metadata.name="):
            name = selector.partition("=")[2]
            return [obj for obj in await super().list(resource) if obj["metadata"]["name"] == name]
        return await super().list(resource, **query)


@dataclass
class World:
    """The group web of three instances, with a Node each, and Tenon, which renews its Lease."""

    group: ScalingGroup
    clock: Clock = field(default_factory=Clock)
    tenon_lives: bool = True

    def __post_init__(self) -> None:
        self.kube = Api(self.clock)
        for number, instance in enumerate(self.group.instances):
            self.kube.add(NODES, {"metadata": {"name": f"n{number}"}, "spec": {"providerID": f"aws:///a/{instance}"}})
        self.leases = LeaseWatch(self.kube, clock=self.seconds)  # type: ignore[arg-type]
        self.renew()
        self.clock.on_tick.append(self.tick)

    def seconds(self) -> float:
        return self.clock.instant.timestamp()

    def tick(self) -> None:
        if self.tenon_lives:
            self.renew()

    def renew(self) -> None:
        spec = {"holderIdentity": "tenon/1", "renewTime": str(self.clock.instant), "leaseDurationSeconds": 15}
        self.kube.add(LEASES, {"metadata": {"name": "karpenter-leader-election", "namespace": "tenon"}, "spec": spec})

    def add_pod(self, name: str, node: str, **status: Any) -> None:
        owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "web-uid", "controller": True}
        spec = {
            "containers": [{"name": "web"}],
            "terminationGracePeriodSeconds": 1,
            **({"nodeName": node} if node else {}),
        }
        self.kube.add(PODS, {"metadata": {"name": name, "ownerReferences": [owner]}, "spec": spec, "status": status})

    async def drain(self, *, remain: int = 0, patience: float = 60) -> bool:
        assert await shows_that_it_leads(self.leases, self.clock.sleep)
        kube: Any = self.kube
        earlier = {pod.uid for pod in await read_waiting(kube)}
        return await GroupDrain(
            kube, self.group, self.leases, remain, 1, patience, earlier, clock=self.seconds, sleep=self.clock.sleep
        ).run()

    def evicted(self) -> list[str]:
        return [call[1] for call in self.kube.calls if call[0] == "evict"]


@pytest.fixture
def world(account: Any) -> World:
    assert account
    return World(ScalingGroup.of("web", "", REGION))


def when(condition: Callable[[], bool], action: Callable[[], None]) -> Callable[[], None]:
    """What a tick does once, as soon as the condition holds."""
    pending = [action]

    def tick() -> None:
        if pending and condition():
            pending.pop()()

    return tick


async def test_the_pods_leave_node_by_node_and_the_group_ends(world: World) -> None:
    world.group.lower_minimum(0)
    for number in range(3):
        world.add_pod(f"p{number}", f"n{number}")
    assert await world.drain()
    assert sorted(world.evicted()) == ["p0", "p1", "p2"]
    world.group.refresh()
    assert (world.group.desired, world.group.instances) == (0, [])


async def test_a_drain_names_the_process_that_it_found_suspended(
    world: World, account: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """The user may have suspended it, or an earlier run that was stopped: nothing in the account tells them apart."""
    scaling = account.client("autoscaling")
    scaling.suspend_processes(AutoScalingGroupName="web", ScalingProcesses=["AZRebalance"])
    group = ScalingGroup.of("web", "", REGION)
    world.group = group
    group.lower_minimum(0)
    assert await world.drain()
    printed = capsys.readouterr().out
    assert "AZRebalance stays suspended, as it was" in printed
    assert "aws autoscaling resume-processes --auto-scaling-group-name web" in printed


async def test_a_dead_tenon_does_not_lead_although_its_lease_names_it(world: World) -> None:
    world.tenon_lives = False
    assert not await shows_that_it_leads(world.leases, world.clock.sleep)


async def test_nothing_leaves_once_tenon_has_died(world: World, capsys: pytest.CaptureFixture[str]) -> None:
    world.group.lower_minimum(0)
    for number in range(3):
        world.add_pod(f"p{number}", f"n{number}")

    def die() -> None:
        world.tenon_lives = False

    world.kube.answers = {f"default/p{number}": EvictionAnswer("blocked", "budget") for number in range(3)}
    world.clock.on_tick.append(when(lambda: world.clock.slept > 3, die))
    world.clock.on_tick.append(when(lambda: world.clock.slept > 20, world.kube.answers.clear))
    assert not await world.drain(patience=120)
    assert "Tenon does not lead" in capsys.readouterr().err
    assert world.kube.names(PODS) == ["p0", "p1", "p2"], "none was evicted after the Lease had expired"


async def test_no_other_node_is_drained_while_evicted_pods_find_no_node(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.group.lower_minimum(0)
    for number in range(3):
        world.add_pod(f"p{number}", f"n{number}")
    world.add_pod("waited-before", "", **UNSCHEDULABLE)
    world.clock.on_tick.append(when(lambda: "p0" in world.evicted(), lambda: world.add_pod("new", "", **UNSCHEDULABLE)))
    assert not await world.drain()
    assert world.evicted() == ["p0"]
    assert len(world.group.instances) == 3, "its node stays, too"
    sentence = capsys.readouterr().err
    assert "Pod default/new waits for a node" in sentence
    assert "waited-before" not in sentence
    del world.kube.objects[("pods", "default", "new")]
    assert await world.drain()


async def test_pods_of_a_node_that_stays_do_not_count_as_movement(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.group.lower_minimum(1)
    world.add_pod("p1", "n1")
    world.add_pod("p2", "n2")
    world.kube.answers = {f"default/p{number}": EvictionAnswer("blocked", "budget") for number in (1, 2)}
    world.clock.on_tick.append(lambda: world.add_pod(f"job-{world.clock.slept}", "n0"))
    assert not await world.drain(remain=1)
    sentence = capsys.readouterr().err
    assert "Left: n1 (1 pod), n2 (1 pod)." in sentence
    assert "AZRebalance of Auto Scaling group web suspended" in sentence


async def test_a_drain_goes_on_after_a_failure_of_the_api_server(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.group.lower_minimum(0)
    world.kube.failures = 3
    assert await world.drain()
    assert "Waiting: etcd has no leader" in capsys.readouterr().out


async def test_an_instance_that_has_not_joined_yet_is_waited_for(
    world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    world.group.lower_minimum(0)
    late = world.kube.objects.pop(("nodes", "", "n2"))

    def join() -> None:
        world.kube.add(NODES, late)

    world.clock.on_tick.append(when(lambda: len(world.kube.names(NODES)) == 2 and world.clock.slept > 10, join))
    assert await world.drain()
    assert f"Instance {late['spec']['providerID'][-19:]} is no Node of the cluster yet" in capsys.readouterr().out
    world.group.refresh()
    assert world.group.instances == []


async def test_a_group_of_another_cluster_is_refused(world: World) -> None:
    nodes = await read_nodes(world.kube, world.group.instances)  # type: ignore[arg-type]
    assert count_unjoined(world.group, nodes[1:]) == 1
    with pytest.raises(DrainError, match="None of the 3 instances of group web is a Node"):
        count_unjoined(world.group, [])


@pytest.mark.parametrize(("lease", "status"), [("own", 0), ("karpenter-leader-election", 2)])
async def test_tenon_leads_by_the_lease_that_is_named(
    world: World, lease: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Renewed(Api):
        async def list(self, resource: Any, **query: Any) -> list[dict[str, Any]]:
            world.clock.instant += timedelta(seconds=2)
            spec = {"holderIdentity": "tenon/1", "renewTime": str(world.clock.instant)}
            self.add(LEASES, {"metadata": {"name": "own", "namespace": "tenon"}, "spec": spec})
            return await super().list(resource, **query)

        async def close(self) -> None:
            """Nothing is open."""

    kube = Renewed(world.clock)
    kube.objects |= {key: body for key, body in world.kube.objects.items() if key[0] != LEASES.plural}

    async def connected() -> Renewed:
        return kube

    monkeypatch.setattr("cli.drain_node_group.connected", connected)
    monkeypatch.setattr("cli.node_groups.preconditions.LEASE_SECONDS", 0)
    arguments = ["web", "--region", REGION, "--lease", lease, "--dry-run"]
    result = await asyncio.to_thread(CliRunner().invoke, app, arguments)
    assert result.exit_code == status, result.output
    if status:
        assert result.stderr == (
            "Tenon does not lead, so nothing would buy nodes for the pods: start it first, "
            "or name its Lease with --lease if that is not karpenter-leader-election.\n"
        )
