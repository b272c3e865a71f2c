"""From a Node that joined to one that its pods may use: register, initialize."""

from __future__ import annotations

from typing import Any, cast

import pytest

from activities.ec2.errors import EC2Error
from activities.kubernetes.resources import NODECLAIMS, NODES
from activities.node.nodeclaim_lifecycle import NodeActivities
from activities.node.registration import register
from tenon.messages.launch import Instance
from tests.activities.node.joining import WANTED, initialize, joined
from tests.activities.node.world import REF, UNREGISTERED, Ec2, World, claim, node

STARTUP = {"key": "cni", "effect": "NoSchedule"}


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
    subjects = [("NodeClaim", REF.name), ("Node", "node-1")]
    assert [event[:3] for event in world.recorder.events] == [
        (*about, "UnregisteredTaintMissing") for about in subjects
    ]


async def test_aws112_a_partition_that_was_not_known_at_the_launch_is_read_back() -> None:
    """EC2 chose it, and showed the instance too late. Without a placement group EC2 is not asked."""

    class Ec2InPartition(Ec2):
        def describe_instance(self, instance_id: str) -> Instance:
            return super().describe_instance(instance_id).model_copy(update={"partition": 3})

    label = "karpenter.k8s.aws/placement-group-partition"
    for group, expected in (({"karpenter.k8s.aws/placement-group-id": "pg-1"}, "3"), ({}, None)):
        world = joined(UNREGISTERED)
        world.claim["metadata"]["labels"] |= group
        activities = NodeActivities(world.kube, world.recorder, cast("Any", Ec2InPartition()))
        assert (await activities.register(WANTED)).node_name == "node-1"
        assert world.node["metadata"]["labels"].get(label) == expected
        assert world.claim["metadata"]["labels"].get(label) == expected


async def test_aws112_a_node_does_not_join_without_its_partition_while_ec2_is_busy() -> None:
    """A Node has a label for life, or lacks it. If EC2 refuses the call, the node joins without it."""

    class Ec2WithoutAnswer(Ec2):
        error = EC2Error("RequestLimitExceeded", "slow down", retryable=True)

        def describe_instance(self, instance_id: str) -> Instance:
            raise self.error

    world = joined(UNREGISTERED)
    world.claim["metadata"]["labels"]["karpenter.k8s.aws/placement-group-id"] = "pg-1"
    ec2 = Ec2WithoutAnswer()
    activities = NodeActivities(world.kube, world.recorder, cast("Any", ec2))
    with pytest.raises(EC2Error):
        await activities.register(WANTED)
    assert "karpenter.sh/registered" not in world.node["metadata"]["labels"]
    ec2.error = EC2Error("UnauthorizedOperation", "You are not authorized", operation="DescribeInstances")
    assert (await activities.register(WANTED)).node_name == "node-1"


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


async def test_a_taint_that_comes_back_before_the_label_is_written_delays_initialization() -> None:
    """kube-controller-manager may take off the taint not-ready and set it once more, because it sees an older Node."""
    world = joined()
    back = {"key": "node.kubernetes.io/not-ready", "effect": "NoExecute"}
    world.kube.before_patch.append(lambda: world.kube.add(NODES, node(back)) and None)
    answer = await initialize(world.kube, WANTED, world.clock)
    assert (answer.initialized, answer.reason) == (False, "KnownEphemeralTaintsExist")
    assert "karpenter.sh/initialized" not in world.node["metadata"]["labels"]
    assert world.status_of("Initialized") == ("Unknown", "KnownEphemeralTaintsExist")


@pytest.mark.parametrize(("memory", "status"), [("8Gi", "True"), ("7Gi", "False")])
async def test_lif07_initialization_compares_the_node_with_its_claim(memory: str, status: str) -> None:
    """In the same write; a node with less is initialized all the same."""
    world = joined(resources={"requests": {"memory": "1Gi"}})
    world.claim["status"]["capacity"] = {"memory": "8Gi", "vpc.amazonaws.com/pod-eni": "9"}
    world.node["status"]["capacity"] = {"memory": memory}
    writes = len(world.kube.calls)
    assert (await initialize(world.kube, WANTED, world.clock)).initialized
    assert [call[:2] for call in world.kube.calls[writes:]] == [("patch", "nodes"), ("patch", "nodeclaims")]
    assert world.status_of("ConsistentStateFound")[0] == status
    assert world.status_of("Initialized")[0] == "True"


async def test_initialization_without_a_node_says_so() -> None:
    world = World()
    world.kube.add(NODECLAIMS, claim())
    assert (await initialize(world.kube, WANTED, world.clock)).reason == "NodeNotFound"
