"""Read, compute, write: what a caller has just read is not read again, and never overwritten when it is stale."""

from __future__ import annotations

from typing import Any

from activities.kubernetes.changes import change
from activities.kubernetes.resources import NODES
from tests.activities.node.world import World


def marked(node: Any) -> dict[str, Any]:
    taints = node["spec"]["taints"]
    return {"spec": {"taints": [*taints, {"key": "mark", "effect": "NoSchedule"}]}}


async def test_what_was_just_read_is_not_read_again() -> None:
    world = World().put_live()
    node = await world.kube.get(NODES, "node-1")
    world.kube.gets.clear()
    await change(world.kube, NODES, "node-1", marked, uid=node["metadata"]["uid"], read_object=node)
    assert world.kube.gets == []
    assert [taint["key"] for taint in world.node["spec"]["taints"]] == ["mark"]


async def test_what_changed_since_it_was_read_is_read_again() -> None:
    world = World().put_live()
    node = await world.kube.get(NODES, "node-1")
    await world.kube.patch(NODES, "node-1", {"spec": {"taints": [{"key": "other", "effect": "NoSchedule"}]}})
    changed = await change(world.kube, NODES, "node-1", marked, uid=node["metadata"]["uid"], read_object=node)
    assert changed is not None
    assert [taint["key"] for taint in world.node["spec"]["taints"]] == ["other", "mark"]
