"""No activity of a node's life does anything to another controller's NodeClaim, its Node or its instance (NC-07)."""

from __future__ import annotations

import copy
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from temporalio.exceptions import ApplicationError

from activities.kubernetes import nodeclaims
from activities.kubernetes.resources import NODECLAIMS, NODES
from activities.node import cordon
from activities.node.nodeclaim_lifecycle import NodeActivities
from tenon.messages.base import ErrorType
from tenon.messages.launch import LaunchInput, LaunchRequest, PrepareLaunchInput
from tenon.messages.node import Removal
from tenon.messages.node_steps import CordonInput, InitializeInput, KeepInput, NodeInput, ReleaseInput, TerminateInput
from tests.activities.node.fake_kube import START
from tests.activities.node.world import PROVIDER_ID, REF, World, claim, condition, node

AUTO_MODE = {"group": "eks.amazonaws.com", "kind": "NodeClass", "name": "default"}
REQUEST = LaunchRequest(client_token="t", capacity_type="spot", templates=[], tags={})
GIVEN: dict[str, Any] = {"claim": REF, "provider_id": PROVIDER_ID, "node_name": "node-1"}

STEPS: dict[str, Callable[[NodeActivities], Awaitable[Any]]] = {
    "prepare launch": lambda node: node.prepare_launch(PrepareLaunchInput(claim=REF)),
    "launch": lambda node: node.launch(LaunchInput(claim=REF, request=REQUEST)),
    "register": lambda node: node.register(NodeInput(**GIVEN)),
    "initialize": lambda node: node.initialize(InitializeInput(**GIVEN, binds=True)),
    "bind": lambda node: node.bind(NodeInput(**GIVEN)),
    "keep": lambda node: node.keep(KeepInput(claim=REF, until=START)),
    "cordon": lambda node: node.cordon(CordonInput(**GIVEN, removal=Removal(reason="expired"))),
    "terminate": lambda node: node.terminate(TerminateInput(claim=REF, instance_id="i-1")),
    "terminate what the tag names": lambda node: node.terminate(TerminateInput(claim=REF)),
    "release": lambda node: node.release(ReleaseInput(**GIVEN)),
}


class NoCalls:
    """An EC2 that must not be asked."""

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"EC2 was asked: {name}")


def foreign() -> World:
    world, theirs = World(), claim(nodeClassRef=AUTO_MODE)
    theirs["status"]["conditions"] += [condition("Registered"), condition("Initialized")]
    world.kube.add(NODECLAIMS, theirs)
    world.kube.add(NODES, node())
    return world


@pytest.mark.parametrize("step", STEPS)
async def test_nc07_each_step_refuses_and_changes_nothing(step: str) -> None:
    world = foreign()
    before = copy.deepcopy(world.kube.objects)
    life = NodeActivities(cast("Any", world.kube), world.recorder, cast("Any", NoCalls()))
    with pytest.raises(ApplicationError) as refused:
        await STEPS[step](life)
    assert (refused.value.type, refused.value.non_retryable) == (ErrorType.NOT_MANAGED, True)
    assert world.kube.objects == before


async def test_nc07_the_marks_of_another_controllers_cordon_stay() -> None:
    world = foreign()
    with pytest.raises(ApplicationError):
        await cordon.withdraw(cast("Any", world.kube), REF, "node-1")
    with pytest.raises(ApplicationError):
        await nodeclaims.mark_instance_terminating(cast("Any", world.kube), REF, world.clock)
