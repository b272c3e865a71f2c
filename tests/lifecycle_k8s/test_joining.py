"""From a Node that joined to one that carries its pods: register, initialize, bind."""

from __future__ import annotations

import pytest

from activities.kubernetes.binding import bind, still_wait
from activities.kubernetes.initialization import initialize
from activities.kubernetes.registration import register
from activities.kubernetes.resources import NODECLAIMS, NODES
from tenon.lifecycle.messages import NodeInput
from tests.lifecycle_k8s.world import PROVIDER_ID, REF, UNREGISTERED, World, claim, node, pod

WANTED = NodeInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1")
STARTUP = {"key": "cni", "effect": "NoSchedule"}


def joined(*taints: dict, **spec: object) -> World:
    world = World()
    world.kube.add(NODECLAIMS, claim(**spec))
    world.kube.add(NODES, node(*taints))
    return world


async def test_registration_hands_the_claim_over_to_the_node() -> None:
    """LIF-03, FIN-01, TNT-02: labels, annotations, taints, owner, finalizer in one write; the claim learns the name."""
    own = {"key": "team", "value": "a", "effect": "NoSchedule"}
    world = joined(UNREGISTERED, {"key": "x", "effect": "NoExecute", "timeAdded": "t"}, taints=[own])
    answer = await register(world.kube, world.recorder, WANTED, world.clock)
    assert answer.node_name == "node-1"
    metadata = world.node["metadata"]
    assert metadata["labels"]["karpenter.sh/registered"] == "true"
    assert metadata["labels"]["team"] == "a"
    assert metadata["annotations"] == {"karpenter.sh/nodepool-hash": "7"}, "the plan is the claim's own affair"
    assert metadata["ownerReferences"][0]["uid"] == REF.uid
    assert metadata["finalizers"] == ["karpenter.sh/termination"]
    assert world.node["spec"]["taints"] == [{"key": "x", "effect": "NoExecute", "timeAdded": "t"}, own]
    assert world.claim["status"]["nodeName"] == "node-1"
    assert world.status_of("Registered")[0] == "True"
    assert world.recorder.events == []


async def test_registration_twice_writes_once_and_brings_no_startup_taint_back() -> None:
    world = joined(UNREGISTERED, startupTaints=[STARTUP])
    await register(world.kube, world.recorder, WANTED, world.clock)
    assert world.node["spec"]["taints"] == [STARTUP]
    world.node["spec"]["taints"] = []  # its agent has removed it
    writes = len(world.kube.calls)
    assert (await register(world.kube, world.recorder, WANTED, world.clock)).node_name == "node-1"
    assert world.node["spec"]["taints"] == []
    assert len(world.kube.calls) == writes


async def test_a_node_without_the_unregistered_taint_is_registered_and_reported() -> None:
    """TNT-02, EVT-05."""
    world = joined()
    assert (await register(world.kube, world.recorder, WANTED, world.clock)).node_name == "node-1"
    assert world.recorder.reasons() == ["UnregisteredTaintMissing"]


async def test_the_provider_id_decides_not_the_name() -> None:
    world = joined(UNREGISTERED)
    world.node["spec"]["providerID"] = "aws:///us-west-2a/i-other"
    real = node(UNREGISTERED)
    real["metadata"]["name"] = "node-2"
    world.kube.add(NODES, real)
    assert (await register(world.kube, world.recorder, WANTED, world.clock)).node_name == "node-2"
    assert "karpenter.sh/registered" not in world.node["metadata"]["labels"]


@pytest.mark.parametrize(("nodes", "reason"), [(0, "NodeNotFound"), (2, "MultipleNodesFound")])
async def test_registration_waits_with_a_reason(nodes: int, reason: str) -> None:
    """LIF-03."""
    world = World()
    world.kube.add(NODECLAIMS, claim())
    for number in range(nodes):
        body = node(UNREGISTERED)
        body["metadata"]["name"] = f"twin-{number}"
        world.kube.add(NODES, body)
    answer = await register(world.kube, world.recorder, WANTED, world.clock)
    assert (answer.node_name, answer.reason) == ("", reason)
    assert world.status_of("Registered") == ("Unknown", reason)


async def test_registration_of_a_vanished_claim_touches_no_node() -> None:
    world = World()
    world.kube.add(NODES, node(UNREGISTERED))
    assert (await register(world.kube, world.recorder, WANTED, world.clock)).reason == "NodeClaimGone"
    assert world.kube.calls == []


async def test_initialization_waits_and_then_labels() -> None:
    """LIF-04, LBL-04."""
    world = joined(STARTUP, startupTaints=[STARTUP])
    answer = await initialize(world.kube, WANTED, world.clock)
    assert (answer.initialized, answer.reason) == (False, "StartupTaintsExist")
    assert world.status_of("Initialized") == ("Unknown", "StartupTaintsExist")
    assert "cni:NoSchedule" in answer.message
    world.node["spec"]["taints"] = []
    assert (await initialize(world.kube, WANTED, world.clock)).initialized
    assert world.node["metadata"]["labels"]["karpenter.sh/initialized"] == "true"
    assert world.status_of("Initialized")[0] == "True"


async def test_initialization_without_a_node_says_so() -> None:
    world = World()
    world.kube.add(NODECLAIMS, claim())
    assert (await initialize(world.kube, WANTED, world.clock)).reason == "NodeNotFound"


def planned(world: World, *entries: str) -> World:
    world.claim["metadata"]["annotations"]["tenon.sh/planned-pods"] = ",".join(entries)
    return world


async def test_planned_pods_are_bound_once() -> None:
    """Rule: only pods planned for this claim; a repetition answers the same and binds nothing again."""
    world = World().put_live().put_pods(pod("a", on=""), pod("b", on=""), pod("stranger", on=""))
    planned(world, "default/a=uid-a", "default/b=uid-b")
    for _ in range(2):
        result = await bind(world.kube, WANTED)
        assert (result.bound, result.planned, result.left) == (2, 2, 0)
    assert [call for call in world.kube.calls if call[0] == "bind"] == [
        ("bind", "a", "node-1"),
        ("bind", "b", "node-1"),
    ]
    stranger = world.kube.objects[("pods", "default", "stranger")]
    assert "nodeName" not in stranger["spec"]


async def test_planned_pods_are_waited_for_only_while_one_has_no_node() -> None:
    """kube-scheduler is given a moment before Tenon binds, unless there is nothing left to bind."""
    world = World().put_live().put_pods(pod("a", on=""), pod("b"))
    planned(world, "default/a=uid-a", "default/b=uid-b")
    assert await still_wait(world.kube, WANTED)
    planned(world, "default/b=uid-b", "default/gone=x")
    assert not await still_wait(world.kube, WANTED)


async def test_a_conflict_leaves_the_pod_to_the_scheduler() -> None:
    world = World().put_live().put_pods(pod("a", on=""), pod("b", on=""))
    planned(world, "default/a=uid-a", "default/b=uid-b", "default/new=old-uid", "default/gone=x")
    world.put_pods(pod("new", on=""))
    world.kube.unbindable = {"a"}
    result = await bind(world.kube, WANTED)
    assert (result.bound, result.planned, result.left) == (1, 4, 1)
    assert ("bind", "new", "node-1") not in world.kube.calls, "a pod recreated under the name was not planned"


async def test_pods_that_came_meanwhile_take_their_room() -> None:
    """The fit is judged on a fresh list: 4 cores less 8 pods of 500m leave nothing."""
    world = World().put_live().put_pods(pod("a", on=""), *(pod(f"other-{n}") for n in range(8)))
    planned(world, "default/a=uid-a")
    result = await bind(world.kube, WANTED)
    assert (result.bound, result.left) == (0, 1)


async def test_nothing_is_bound_before_initialized_or_while_leaving() -> None:
    world = World().put_live().put_pods(pod("a", on=""))
    planned(world, "default/a=uid-a")
    del world.node["metadata"]["labels"]["karpenter.sh/initialized"]
    assert (await bind(world.kube, WANTED)).bound == 0
    world.node["metadata"]["labels"]["karpenter.sh/initialized"] = "true"
    world.claim["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    assert (await bind(world.kube, WANTED)).bound == 0
    assert world.kube.calls == []
