"""The end of a removal: the finalizers of Node and NodeClaim are removed, and other controllers' finalizers stay."""

from __future__ import annotations

from activities.kubernetes.nodeclaims import read_claim
from activities.kubernetes.resources import NODECLAIMS, NODES
from activities.node.cordon import cordon
from activities.node.drain import drain
from activities.node.release import release
from tenon.messages.node import Removal
from tenon.messages.node_steps import CordonInput, DrainInput, ReleaseInput, ReleaseResult
from tests.activities.node.world import PROVIDER_ID, REF, UNREGISTERED, World, claim, node


async def delete(world: World, reason: str = "") -> None:
    """Cordon the node, which requests the deletion of Node and NodeClaim."""
    removal = Removal(reason=reason, detail="so it goes", actor="a test")
    cordon_input = CordonInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1", removal=removal)
    await cordon(world.kube, world.recorder, cordon_input, world.clock)


async def released(world: World, release_input: ReleaseInput) -> ReleaseResult:
    claim = await read_claim(world.kube, release_input.claim)
    return await release(world.kube, release_input, world.recorder, claim)


async def test_release_lets_both_go_and_is_quiet_afterwards() -> None:
    """TRM-08, FIN-01."""
    world = World().put_live()
    await delete(world)
    release_input = ReleaseInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1")
    await released(world, release_input)
    assert world.kube.objects == {}
    await released(world, release_input)


async def test_release_names_who_still_holds_node_and_claim() -> None:
    """FIN-01: a finalizer of somebody else keeps the object; event and answer say whose, and the way out."""
    world = World().put_live()
    world.claim["metadata"]["finalizers"] += ["example.com/audit", "foregroundDeletion"]
    world.node["metadata"]["finalizers"].append("example.com/cni")
    release_input = ReleaseInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1", pool="web")
    answer = await released(world, release_input)
    assert answer.held_by == [
        "finalizer example.com/cni keeps Node node-1: its owner must remove it, "
        """or: kubectl patch node node-1 --type=merge -p '{"metadata": {"finalizers": null}}'""",
        "finalizer example.com/audit keeps NodeClaim web-1: its owner must remove it, "
        "or: kubectl patch nodeclaim web-1 --type=merge -p "
        """'{"metadata": {"finalizers": ["foregroundDeletion"]}}'""",
    ]
    assert [event[:3] for event in world.recorder.events] == [
        ("Node", "node-1", "HeldByFinalizer"),
        ("NodeClaim", "web-1", "HeldByFinalizer"),
    ]
    assert "Tenon has removed its own finalizer; finalizer example.com/cni keeps" in world.recorder.events[0][3]
    again = await released(world, release_input)
    assert again.held_by == answer.held_by, "a repetition answers the same"


async def test_release_without_other_finalizers_is_silent() -> None:
    world = World().put_live()
    world.claim["metadata"]["finalizers"].append("foregroundDeletion")
    release_input = ReleaseInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1")
    assert (await released(world, release_input)).held_by == []
    assert world.recorder.events == []


async def test_release_deletes_a_node_that_joined_too_late() -> None:
    world = World()
    world.kube.add(NODECLAIMS, claim())
    world.kube.add(NODES, node(UNREGISTERED))
    await released(world, ReleaseInput(claim=REF, provider_id=PROVIDER_ID))
    assert world.kube.objects == {}


async def test_release_spares_other_objects_of_the_same_names() -> None:
    """A new Node under the old name has another provider ID, a new claim another UID; foreign finalizers stay."""
    world = World().put_live()
    world.node["spec"]["providerID"] = "aws:///us-west-2a/i-2"
    world.claim["metadata"]["uid"] = "newer"
    await released(world, ReleaseInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1"))
    assert world.kube.calls == []
    world = World().put_live()
    world.claim["metadata"]["finalizers"].append("example.com/audit")
    await released(world, ReleaseInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1"))
    assert world.kube.names(NODES) == []
    assert world.claim["metadata"]["finalizers"] == ["example.com/audit"]


async def test_the_steps_of_a_removal_read_node_and_claim_once_each() -> None:
    """The API server's limit on Tenon's requests decides how many nodes leave in a minute."""
    world = World().put_live()
    await world.kube.delete(NODECLAIMS, REF.name)
    one_read_each = [("nodeclaims", REF.name), ("nodes", "node-1")]
    world.kube.gets.clear()
    await delete(world, reason="deleted")
    assert world.kube.gets == one_read_each
    world.kube.gets.clear()
    drain_input = DrainInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1")
    await drain(world.kube, world.recorder, drain_input, world.clock)
    assert world.kube.gets == one_read_each
    world.kube.gets.clear()
    await released(world, ReleaseInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1"))
    assert world.kube.gets == one_read_each
    assert world.kube.objects == {}
