"""The startup cordon keeps a new node free for the pods that it was bought for."""

from __future__ import annotations

import pytest

from activities.node.binding import bind
from activities.node.registration import register
from activities.node.startup_cordon import remove_startup_cordon_by_name
from tests.activities.node.joining import WANTED, at_once, initialize, joined, planned
from tests.activities.node.world import UNREGISTERED, pod

CORDON = {"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": "t"}


async def test_a_node_bought_for_pods_has_a_startup_cordon_until_they_are_bound() -> None:
    """Nobody else's pod takes their room, not even before kube-scheduler has seen them, and no mark stays behind."""
    world = joined(UNREGISTERED).put_pods(pod("a", on=""))
    planned(world, "default/a=uid-a")
    await register(world.kube, world.recorder, WANTED, world.clock)
    assert world.node["spec"]["unschedulable"] is True
    world.node["spec"]["taints"].append(CORDON)  # as the node lifecycle controller does
    assert (await initialize(world.kube, WANTED, world.clock)).initialized
    observations: list[tuple[bool, str]] = []

    async def moment() -> None:
        placed = world.kube.objects[("pods", "default", "a")]["spec"].get("nodeName", "")
        observations.append((world.node["spec"]["unschedulable"], placed))

    assert (await bind(world.kube, WANTED, moment)).bound == 1
    assert observations == [(True, "node-1")], "closed until kube-scheduler has had its moment with what was bound"
    assert not world.node["spec"].get("unschedulable")
    assert world.node["spec"]["taints"] == []
    assert "tenon.sh/closed" not in world.node["metadata"]["annotations"]


async def test_a_node_bought_for_no_pod_is_open_from_the_start() -> None:
    world = joined(UNREGISTERED)
    await register(world.kube, world.recorder, WANTED, world.clock)
    assert not world.node["spec"].get("unschedulable")


@pytest.mark.parametrize(
    ("effect", "cordoned"), [("NoSchedule", False), ("NoExecute", False), ("PreferNoSchedule", True)]
)
async def test_a_node_whose_startup_taints_keep_pods_away_has_no_startup_cordon(effect: str, cordoned: bool) -> None:
    """The pod that removes the taint may tolerate it, but no cordon."""
    world = joined(UNREGISTERED, startupTaints=[{"key": "agent", "effect": effect}])
    planned(world, "default/a=uid-a")
    await register(world.kube, world.recorder, WANTED, world.clock)
    assert bool(world.node["spec"].get("unschedulable")) is cordoned


async def test_a_cordon_of_somebody_else_is_neither_used_nor_taken_off() -> None:
    world = joined(UNREGISTERED).put_pods(pod("a", on=""))
    planned(world, "default/a=uid-a")
    world.node["spec"]["unschedulable"] = True
    await register(world.kube, world.recorder, WANTED, world.clock)
    await initialize(world.kube, WANTED, world.clock)
    assert (await bind(world.kube, WANTED, at_once)).bound == 0
    assert world.node["spec"]["unschedulable"] is True


async def test_a_startup_cordon_goes_if_the_node_does_not_get_ready() -> None:
    """What the node lacks may be a thing that only kube-scheduler's pods bring."""
    world = joined(UNREGISTERED)
    planned(world, "default/a=uid-a")
    await register(world.kube, world.recorder, WANTED, world.clock)
    world.node["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    await initialize(world.kube, WANTED, world.clock)
    assert world.node["spec"]["unschedulable"] is True
    await world.clock.sleep(60)
    await initialize(world.kube, WANTED, world.clock)
    assert not world.node["spec"].get("unschedulable")


async def test_a_node_whose_workflow_ended_before_its_pods_were_bound_is_opened() -> None:
    world = joined(UNREGISTERED)
    planned(world, "default/a=uid-a")
    await register(world.kube, world.recorder, WANTED, world.clock)
    assert await remove_startup_cordon_by_name(world.kube, "node-1")
    assert not world.node["spec"].get("unschedulable")
    assert not await remove_startup_cordon_by_name(world.kube, "node-1")
    assert not await remove_startup_cordon_by_name(world.kube, "gone")


async def test_a_pod_that_a_webhook_keeps_from_binding_delays_neither_node_nor_pods() -> None:
    world = joined(UNREGISTERED).put_pods(pod("a", on=""), pod("b", on=""))
    planned(world, "default/a=uid-a", "default/b=uid-b")
    await register(world.kube, world.recorder, WANTED, world.clock)
    await initialize(world.kube, WANTED, world.clock)
    world.kube.forbidden = {"a"}
    result = await bind(world.kube, WANTED, at_once)
    assert (result.bound, result.for_scheduler) == (1, 1)
    assert not world.node["spec"].get("unschedulable")


async def test_a_claim_whose_planned_pods_cannot_be_read_closes_no_node() -> None:
    world = joined(UNREGISTERED)
    planned(world, "none")
    await register(world.kube, world.recorder, WANTED, world.clock)
    assert not world.node["spec"].get("unschedulable")


async def test_a_person_may_remove_a_startup_cordon_and_cordon_the_node_afterwards() -> None:
    """The cordon is no longer Tenon's then: only its mark goes."""
    world = joined(UNREGISTERED)
    planned(world, "default/a=uid-a")
    await register(world.kube, world.recorder, WANTED, world.clock)
    world.node["spec"]["unschedulable"] = False
    assert await remove_startup_cordon_by_name(world.kube, "node-1")
    assert "tenon.sh/closed" not in world.node["metadata"]["annotations"]
    world.node["spec"]["unschedulable"] = True
    assert not await remove_startup_cordon_by_name(world.kube, "node-1")
    assert world.node["spec"]["unschedulable"] is True


async def test_a_node_that_leaves_keeps_its_startup_cordon() -> None:
    world = joined(UNREGISTERED)
    planned(world, "default/a=uid-a")
    await register(world.kube, world.recorder, WANTED, world.clock)
    world.claim["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    await bind(world.kube, WANTED, at_once)
    assert world.node["spec"]["unschedulable"] is True
