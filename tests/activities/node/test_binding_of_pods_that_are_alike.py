"""Of pods that are alike, the step "bind pods" reads one, if no other controller may have made the rest."""

from __future__ import annotations

from typing import Any

import pytest

from activities.node.binding import bind
from tests.activities.node.joining import WANTED, at_once, planned
from tests.activities.node.world import World, pod

WEB = {"kind": "ReplicaSet", "name": "web-1", "uid": "web-1", "controller": True}


def waiting(name: str, *, owner: dict[str, Any] = WEB, namespace: str = "default", **spec: Any) -> dict[str, Any]:
    """A pod that waits for a node."""
    body = pod(name, on="", **spec)
    body["metadata"] |= {"ownerReferences": [owner], "namespace": namespace}
    return body


def grouped(world: World, groups: str, *pods: dict[str, Any]) -> World:
    """Planned pods of these groups."""
    world.put_pods(*pods)
    names = [(pod["metadata"]["namespace"], pod["metadata"]["name"]) for pod in pods]
    planned(world, *(f"{namespace}/{name}=uid-{name}" for namespace, name in names))
    world.claim["metadata"]["annotations"]["tenon.sh/planned-pod-groups"] = groups
    return world


def alike(world: World, groups: str, names: str) -> World:
    """Pods of one ReplicaSet, of these groups."""
    return grouped(world, groups, *(waiting(f"web-1-{name}") for name in names))


def read(world: World) -> list[str]:
    return [name for kind, name in world.kube.gets if kind == "pods"]


async def test_pods_that_are_alike_are_bound_after_one_of_them_was_read() -> None:
    world = alike(World().put_live(), "0,0,1,1,0", "abcde")
    assert (await bind(world.kube, WANTED, at_once)).bound == 5
    assert set(read(world)) == {"web-1-a", "web-1-c"}
    bound = [world.kube.objects[("pods", "default", f"web-1-{name}")]["spec"]["nodeName"] for name in "abcde"]
    assert bound == ["node-1"] * 5


async def test_pods_of_an_indexed_job_with_a_long_name_are_alike() -> None:
    """A pod's name ends with its index. A long name of the Job is cut to make room for it."""
    job = {"kind": "Job", "name": "j" * 63, "uid": "j", "controller": True}
    names = [f"{'j' * (57 - len(str(number)))}-{number}-abcde" for number in (9, 10, 100_000)]
    world = grouped(World().put_live(), "0,0,0", *(waiting(name, owner=job) for name in names))
    assert (await bind(world.kube, WANTED, at_once)).bound == 3
    assert set(read(world)) == {names[0]}


@pytest.mark.parametrize(
    "forged",
    [
        waiting("other-1-b", schedulerName="mine"),
        waiting("web-2-b", nodeSelector={"team": "red"}),
        waiting("web-1-b", namespace="kube-system", nodeSelector={"team": "red"}),
    ],
    ids=lambda forged: str(forged["metadata"]["name"]) + " in " + str(forged["metadata"]["namespace"]),
)
async def test_who_edits_a_claim_cannot_have_a_pod_bound_by_the_rules_of_another(forged: dict[str, Any]) -> None:
    world = grouped(World().put_live(), "0,0", waiting("web-1-a"), forged)
    result = await bind(world.kube, WANTED, at_once)
    assert (result.bound, result.for_scheduler) == (1, 1)
    metadata = forged["metadata"]
    assert not world.kube.objects["pods", metadata["namespace"], metadata["name"]]["spec"].get("nodeName")


@pytest.mark.parametrize(("other", "bound"), [("web-1-b", 2), ("web-2-b", 1), ("web-admin-b", 1)])
async def test_pods_of_a_deployment_are_alike_within_one_of_its_replicasets(other: str, bound: int) -> None:
    first, second = waiting("web-1-a"), waiting(other, schedulerName="default-scheduler" if bound == 2 else "mine")
    for body in (first, second):
        body["metadata"]["labels"]["pod-template-hash"] = "1"
    world = grouped(World().put_live(), "0,0", first, second)
    assert (await bind(world.kube, WANTED, at_once)).bound == bound
    assert (other in read(world)) is (bound == 1)


@pytest.mark.parametrize(
    "owner",
    [{**WEB, "controller": False}, {**WEB, "kind": "Workflow"}],
    ids=["owned but not controlled", "of several templates"],
)
async def test_pods_that_no_template_explains_are_all_read(owner: dict[str, Any]) -> None:
    pods = waiting("web-1-a", owner=owner), waiting("web-1-b", owner=owner, schedulerName="mine")
    world = grouped(World().put_live(), "0,0", *pods)
    assert (await bind(world.kube, WANTED, at_once)).bound == 1
    assert set(read(world)) == {"web-1-a", "web-1-b"}


async def test_pods_that_are_alike_are_bound_only_as_far_as_there_is_room() -> None:
    world = World().put_live()
    world.node["status"]["allocatable"] |= {"cpu": "1200m"}
    alike(world, "0,0,0", "abc")
    result = await bind(world.kube, WANTED, at_once)
    assert (result.bound, result.for_scheduler) == (2, 1)


@pytest.mark.parametrize("groups", ["0,0", "0,0,0,0", ",,", ""])
async def test_groups_that_do_not_match_the_planned_pods_are_ignored(groups: str) -> None:
    """Users can edit annotations."""
    world = alike(World().put_live(), groups, "abc")
    assert (await bind(world.kube, WANTED, at_once)).bound == 3
    assert {"web-1-a", "web-1-b", "web-1-c"} <= set(read(world))


async def test_when_the_first_of_pods_that_are_alike_has_a_node_the_others_are_read() -> None:
    """It says nothing about the others. None of those that left is bound."""
    world = alike(World().put_live(), "0,0,0,0", "abcd")
    world.kube.objects[("pods", "default", "web-1-a")]["spec"]["nodeName"] = "node-2"
    world.kube.objects[("pods", "default", "web-1-c")]["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    result = await bind(world.kube, WANTED, at_once)
    assert (result.bound, result.for_scheduler) == (2, 0)
    assert [call for call in world.kube.calls if call[0] == "bind"] == [
        ("bind", "web-1-b", "node-1"),
        ("bind", "web-1-d", "node-1"),
    ]


async def test_a_pod_that_is_gone_is_not_bound_although_one_that_is_alike_waits() -> None:
    """The API server refuses it. Its replacement has another name, and belongs to kube-scheduler."""
    world = alike(World().put_live(), "0,0,0", "abc")
    del world.kube.objects[("pods", "default", "web-1-b")]
    result = await bind(world.kube, WANTED, at_once)
    assert (result.bound, result.planned, result.for_scheduler) == (2, 3, 1)
