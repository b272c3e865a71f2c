"""What the steps of a node's life ask of the API server: nothing of all Nodes, all pods, or for each node apart."""

from __future__ import annotations

from activities.kubernetes.drain import drain
from activities.kubernetes.registration import register
from activities.kubernetes.resources import NODECLAIMS, NODES
from tenon.lifecycle.messages.node import DrainInput, NodeInput
from tests.lifecycle_k8s.world import PROVIDER_ID, REF, UNREGISTERED, World, claim, node, pod

POD_FIELD = "spec.nodeName=node-1"


async def test_a_node_that_the_poke_named_is_registered_without_any_list() -> None:
    world = World()
    world.kube.add(NODECLAIMS, claim())
    world.kube.add(NODES, node(UNREGISTERED))
    wanted = NodeInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1")
    assert (await register(world.kube, world.recorder, wanted, world.clock)).node_name == "node-1"
    assert world.kube.listed == []


async def test_a_drain_polls_the_cache_of_the_api_server_and_ends_by_its_storage() -> None:
    world = World().put_live().put_pods(pod("web-0", terminationGracePeriodSeconds=20))
    asked = DrainInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1", budget_seconds=600)
    result = await drain(world.kube, world.recorder, asked, world.clock, world.heartbeat, world.clock.sleep)
    assert result.drained
    lists = [(field, version) for plural, field, version in world.kube.listed if plural == "pods"]
    assert set(lists[:-1]) == {(POD_FIELD, "0")}
    assert lists[-1] == (POD_FIELD, "")
    assert len(lists) < 12, "pauses grow while nothing changes"


async def test_a_pod_that_only_the_storage_knows_is_drained() -> None:
    """The cache of the API server may be moments behind: the instance must not end under a pod."""
    world = World().put_live()
    seen = world.kube.list
    behind = [True, True]

    async def list_(resource: object, **query: object) -> object:
        answer = await seen(resource, **query)
        return [] if query.get("resource_version") == "0" and behind and behind.pop() else answer

    world.put_pods(pod("web-0", terminationGracePeriodSeconds=1))
    world.kube.list = list_
    asked = DrainInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1", budget_seconds=600)
    result = await drain(world.kube, world.recorder, asked, world.clock, world.heartbeat, world.clock.sleep)
    assert (result.drained, result.evicted) == (True, 1)
