"""Steps that do what usually follows, because each activity is billed. If that fails, a step of its own retries it."""

from __future__ import annotations

from typing import Any, cast

import pytest

from activities.kubernetes.errors import ApiError
from activities.kubernetes.resources import NODECLAIMS
from activities.node import binding, drain, nodeclaim_lifecycle, release
from activities.node.nodeclaim_lifecycle import NodeActivities
from activities.node.registration import register
from tenon.messages.node import Removal
from tenon.messages.node_steps import CordonInput, DrainInput, InitializeInput, NodeInput, ReleaseInput, TerminateInput
from tests.activities.node.fake_kube import START
from tests.activities.node.joining import WANTED, joined, planned
from tests.activities.node.world import PROVIDER_ID, REF, UNREGISTERED, World, pod

NODE: dict[str, Any] = NodeInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1").model_dump()


class Ended:
    """An EC2 that has ended the instance."""

    def why_ended(self, instance_id: str) -> None:
        return None

    def terminate_instances(self, instance_ids: list[str]) -> dict[str, str]:
        return dict.fromkeys(instance_ids, "terminated")


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """kube-scheduler needs no moment, and the wall clock is that of the world."""
    monkeypatch.setattr(nodeclaim_lifecycle, "SCHEDULER_SECONDS", 0.0)
    monkeypatch.setattr(nodeclaim_lifecycle, "utc_now", lambda: START)


def activities(world: World) -> NodeActivities:
    return NodeActivities(world.kube, world.recorder, cast("Any", Ended()))


def refuse(monkeypatch: pytest.MonkeyPatch, module: Any, name: str) -> None:
    async def refused(*_: Any, **__: Any) -> None:
        raise ApiError(500, "InternalError", "the API server is ill")

    monkeypatch.setattr(module, name, refused)


def waiting() -> World:
    world = World().put_live().put_pods(pod("a", on=""))
    planned(world, "default/a=uid-a")
    return world


async def test_a_node_that_is_initialized_binds_its_pods() -> None:
    result = await activities(waiting()).initialize(InitializeInput(**NODE, binds=True))
    assert result.binding is not None
    assert (result.initialized, result.binding.bound) == (True, 1)


async def test_a_node_that_binds_its_pods_is_read_once_for_both_steps() -> None:
    """The second read of the Node is the one that shows whether watches have it."""
    world = joined(UNREGISTERED).put_pods(pod("a", on=""))
    planned(world, "default/a=uid-a")
    await register(world.kube, world.recorder, WANTED, world.clock)
    world.kube.gets.clear()
    result = await activities(world).initialize(InitializeInput(**WANTED.model_dump(), binds=True))
    assert result.binding is not None
    assert result.binding.bound == 1
    assert [kind for kind, _ in world.kube.gets if kind != "pods"] == ["nodeclaims", "nodes", "nodes"]


async def test_a_node_without_planned_pods_is_only_initialized() -> None:
    result = await activities(waiting()).initialize(InitializeInput(**NODE))
    assert (result.initialized, result.binding) == (True, None)


async def test_a_node_stays_initialized_if_its_pods_cannot_be_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, binding, "bind")
    result = await activities(waiting()).initialize(InitializeInput(**NODE, binds=True))
    assert (result.initialized, result.binding) == (True, None)


def cordon_input() -> CordonInput:
    return CordonInput(**NODE, removal=Removal(reason="expired"), drain=DrainInput(**NODE))


async def test_a_node_without_pods_is_drained_when_it_is_cordoned() -> None:
    world = World().put_live().put_pods(pod("log", owner="DaemonSet", tolerations=[{"operator": "Exists"}]))
    result = await activities(world).cordon(cordon_input())
    assert result.drained is not None
    assert result.drained.drained
    assert world.status_of("Drained")[0] == "True"


async def test_a_node_with_pods_is_drained_by_a_step_of_its_own() -> None:
    world = World().put_live().put_pods(pod("web"))
    result = await activities(world).cordon(cordon_input())
    assert (result.pods, result.drained) == (1, None)
    assert "Evicted" not in world.recorder.reasons()


async def test_a_node_stays_cordoned_if_its_drain_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, drain, "drain")
    result = await activities(World().put_live()).cordon(cordon_input())
    assert (result.cordoned, result.drained) == (True, None)


def terminate_input() -> TerminateInput:
    return TerminateInput(claim=REF, instance_id="i-1", shown=True, release=ReleaseInput(**NODE))


async def test_the_objects_of_a_terminated_instance_are_released() -> None:
    world = World().put_live()
    result = await activities(world).terminate(terminate_input())
    assert result.terminated
    assert result.released is not None
    assert (NODECLAIMS.plural, "", REF.name) not in world.kube.objects


async def test_a_terminated_instance_stays_so_if_its_objects_cannot_be_released(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refuse(monkeypatch, release, "release")
    result = await activities(World().put_live()).terminate(terminate_input())
    assert (result.terminated, result.released) == (True, None)
