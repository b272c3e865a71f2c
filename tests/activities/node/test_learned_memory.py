"""What an initialized node teaches its EC2NodeClass (AWS-061, ACT-10)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from activities.kubernetes.errors import ApiUnreachableError
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS, NODES
from activities.node.learned_memory import LearnedMemory
from tenon.apis import labels
from tenon.messages.node_steps import NodeInput
from tests.activities.node.joining import initialize
from tests.activities.node.world import PROVIDER_ID, REF, World, claim, node

GI = 2**30
WANTED = NodeInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1")


def world_with(memory: str = "7900000Ki") -> World:
    world = World()
    body = claim()
    body["status"]["imageID"] = "ami-1"
    body["metadata"]["labels"][labels.INSTANCE_TYPE] = "m5.large"
    world.kube.add(NODECLAIMS, body)
    joined = node(**{labels.INSTANCE_TYPE: "c5.4xlarge"})  # what a kubelet says of its type does not count
    joined["status"]["capacity"] = {"memory": memory}
    world.kube.add(NODES, joined)
    world.kube.add(EC2NODECLASSES, {"metadata": {"name": "default"}, "status": {"amis": [{"id": "ami-1"}]}})
    return world


def learned(world: World) -> Any:
    annotations = world.kube.objects[("ec2nodeclasses", "", "default")]["metadata"].get("annotations") or {}
    return json.loads(annotations.get(labels.LEARNED_MEMORY, "null"))


async def test_an_initialized_node_teaches_its_class_once() -> None:
    world = world_with()
    memory = LearnedMemory(world.kube)
    assert (await initialize(world.kube, WANTED, world.clock, memory.learn)).initialized
    assert learned(world) == {"ami-1": {"m5.large": 7900000}}
    writes = len(world.kube.calls)
    await initialize(world.kube, WANTED, world.clock, memory.learn)
    await initialize(world.kube, WANTED, world.clock, LearnedMemory(world.kube).learn)  # another replica
    assert [call for call in world.kube.calls[writes:] if call[1] == "ec2nodeclasses"] == []


async def test_a_figure_that_somebody_removed_comes_back_with_a_later_node() -> None:
    """A replaced class has no annotations either. Plans count with less until then."""
    world = world_with()
    passed = 0.0
    memory = LearnedMemory(world.kube, lambda: passed)
    await initialize(world.kube, WANTED, world.clock, memory.learn)
    world.kube.objects[("ec2nodeclasses", "", "default")]["metadata"]["annotations"] = {}
    await initialize(world.kube, WANTED, world.clock, memory.learn)
    assert learned(world) is None
    passed = 600.0
    await initialize(world.kube, WANTED, world.clock, memory.learn)
    assert learned(world) == {"ami-1": {"m5.large": 7900000}}


@pytest.mark.parametrize("missing", ["image", "type", "capacity", "class"])
async def test_a_node_that_says_too_little_teaches_nothing(missing: str) -> None:
    world = world_with()
    match missing:
        case "image":
            del world.claim["status"]["imageID"]
        case "type":
            del world.claim["metadata"]["labels"][labels.INSTANCE_TYPE]
        case "capacity":
            del world.node["status"]["capacity"]
        case "class":
            del world.kube.objects[("ec2nodeclasses", "", "default")]
    assert (await initialize(world.kube, WANTED, world.clock, LearnedMemory(world.kube).learn)).initialized
    assert missing == "class" or learned(world) is None


async def test_a_class_that_cannot_be_written_delays_no_node(monkeypatch: pytest.MonkeyPatch) -> None:
    world = world_with()

    async def unreachable(*_: object, **__: object) -> None:
        raise ApiUnreachableError("PATCH", "no connection")

    memory = LearnedMemory(world.kube)
    monkeypatch.setattr(memory, "_write", unreachable)
    assert (await initialize(world.kube, WANTED, world.clock, memory.learn)).initialized
    assert learned(world) is None


@pytest.mark.parametrize(("reported", "figures"), [("14Gi", {"ami-1": {str(17 * GI): 14 * GI}}), ("18Gi", None)])
async def test_aws061_a_node_with_less_storage_than_planned_teaches_its_class(reported: str, figures: Any) -> None:
    world = world_with()
    world.claim["status"]["allocatable"] = {"ephemeral-storage": "17Gi"}
    world.node["status"]["allocatable"]["ephemeral-storage"] = reported
    await initialize(world.kube, WANTED, world.clock, LearnedMemory(world.kube).learn)
    annotations = world.kube.objects[("ec2nodeclasses", "", "default")]["metadata"]["annotations"]
    assert json.loads(annotations.get(labels.LEARNED_STORAGE, "null")) == figures
    assert learned(world) == {"ami-1": {"m5.large": 7900000}}, "memory is learned as before"


@pytest.mark.parametrize(
    ("reported", "figures"),
    [
        ({"cpu": "1900m", "pods": "29"}, {"cpu": [1930, 1900]}),
        ({"cpu": "1930m", "pods": "17"}, {"pods": [29, 17]}),
        ({"cpu": "1930m", "pods": "29", "hugepages-2Mi": "1Gi"}, {"hugepages-2Mi": [0, GI]}),
        ({"cpu": "2", "pods": "110", "hugepages-2Mi": "0"}, None),
    ],
)
async def test_aws061_a_node_with_other_amounts_than_planned_teaches_its_class_once(
    reported: dict[str, str], figures: Any
) -> None:
    world = world_with()
    world.claim["status"]["allocatable"] = {"cpu": "1930m", "pods": "29"}
    world.node["status"]["allocatable"] |= reported
    memory = LearnedMemory(world.kube)
    await initialize(world.kube, WANTED, world.clock, memory.learn)
    annotations = world.kube.objects[("ec2nodeclasses", "", "default")]["metadata"]["annotations"]
    expected = None if figures is None else {"ami-1": {"m5.large": figures}}
    assert json.loads(annotations.get(labels.LEARNED_AMOUNTS, "null")) == expected
    writes = len(world.kube.calls)
    await initialize(world.kube, WANTED, world.clock, memory.learn)
    assert [call for call in world.kube.calls[writes:] if call[1] == "ec2nodeclasses"] == []
