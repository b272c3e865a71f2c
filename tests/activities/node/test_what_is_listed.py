"""What the steps of a node's life ask of the API server: nothing of all Nodes, all pods, or for each node apart."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS, NODES
from activities.node.drain import drain
from activities.node.launching import Launching
from activities.node.nodeclaim_lifecycle import NodeActivities
from activities.node.registration import register
from tenon.messages.base import ClaimRef
from tenon.messages.launch import PrepareLaunchInput
from tenon.messages.node_steps import DrainInput, NodeInput
from tests.activities.node.joining import initialize
from tests.activities.node.seller import Seller, node_class
from tests.activities.node.world import PROVIDER_ID, REF, UNREGISTERED, World, claim, node, pod

STARTING = {"key": "node.cilium.io/agent-not-ready", "effect": "NoExecute"}

POD_FIELD = "spec.nodeName=node-1"


async def test_a_node_that_the_poke_named_is_registered_without_any_list() -> None:
    world = World()
    world.kube.add(NODECLAIMS, claim())
    world.kube.add(NODES, node(UNREGISTERED))
    node_input = NodeInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1")
    assert (await register(world.kube, world.recorder, node_input, world.clock)).node_name == "node-1"
    assert world.kube.listed == []


async def test_a_registration_reads_the_claim_and_its_node_once() -> None:
    world = World()
    world.kube.add(NODECLAIMS, claim())
    world.kube.add(NODES, node(UNREGISTERED))
    activities = NodeActivities(world.kube, world.recorder, cast("Any", Seller()))
    node_input = NodeInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1")
    assert (await activities.register(node_input)).node_name == "node-1"
    assert world.kube.gets == [("nodeclaims", REF.name), ("nodes", "node-1")]


async def test_a_step_that_waits_reads_the_claim_once_and_writes_why() -> None:
    world = World()
    world.kube.add(NODECLAIMS, claim(startupTaints=[STARTING]))
    world.kube.add(NODES, node(STARTING, **{"karpenter.sh/registered": "true"}))
    node_input = NodeInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1")
    assert not (await initialize(world.kube, node_input, world.clock)).initialized
    assert world.kube.gets == [("nodeclaims", REF.name), ("nodes", "node-1")]
    (why,) = [condition for condition in world.claim["status"]["conditions"] if condition["type"] == "Initialized"]
    assert (why["status"], why["reason"]) == ("Unknown", "StartupTaintsExist")


async def test_launches_at_the_same_time_share_reads_of_their_class() -> None:
    world, launching = World(), []
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    for number in range(20):
        item = claim(nodeClassRef=reference)
        item["metadata"] |= {"name": f"web-{number}", "uid": f"uid-{number}"}
        item["status"] = {}
        world.kube.add(NODECLAIMS, item)
        launching.append(ClaimRef(cluster="sandbox", name=f"web-{number}", uid=f"uid-{number}"))
    world.kube.add(EC2NODECLASSES, node_class())
    launches = Launching(world.kube, world.recorder, cast("Any", Seller()), world.clock)
    prepares = [launches.prepare(PrepareLaunchInput(claim=ref, attempt=1)) for ref in launching]
    assert all(prepare.request is not None for prepare in await asyncio.gather(*prepares))
    assert len([plural for plural, _ in world.kube.gets if plural == "ec2nodeclasses"]) <= 2


async def test_a_drain_polls_the_cache_of_the_api_server_and_ends_by_its_storage() -> None:
    world = World().put_live().put_pods(pod("web-0", terminationGracePeriodSeconds=20))
    drain_input = DrainInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1", budget_seconds=600)
    result = await drain(world.kube, world.recorder, drain_input, world.clock, world.clock.sleep)
    assert result.drained
    lists = [(field, version) for plural, field, version in world.kube.listed if plural == "pods"]
    assert set(lists[:-1]) == {(POD_FIELD, "0")}
    assert lists[-1] == (POD_FIELD, "")
    assert len(lists) < 12, "pauses grow while nothing changes"


async def test_a_pod_that_only_the_storage_knows_is_drained() -> None:
    """The cache of the API server may be moments behind: the instance must not end under a pod."""
    world = World().put_live()
    observations = world.kube.list
    behind = [True, True]

    async def list_(resource: object, **query: object) -> object:
        answer = await observations(resource, **query)
        return [] if query.get("resource_version") == "0" and behind and behind.pop() else answer

    world.put_pods(pod("web-0", terminationGracePeriodSeconds=1))
    world.kube.list = list_
    drain_input = DrainInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1", budget_seconds=600)
    result = await drain(world.kube, world.recorder, drain_input, world.clock, world.clock.sleep)
    assert (result.drained, result.evicted) == (True, 1)
