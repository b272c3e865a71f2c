"""What EC2NodeClasses are told about zonal shifts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tenon.apis.ec2nodeclass import EC2NodeClass
from tests.activities.node.fake_kube import Recorder
from tests.ec2.samples import node_class
from worker.controllers.nodeclass.zonal_shift import ZonalShiftController

pytestmark = pytest.mark.asyncio(loop_scope="function")


class World:
    """Two classes, of which one has a subnet in the zone ``usw2-az1``."""

    def __init__(self) -> None:
        self.away: frozenset[str] = frozenset()
        self.refusal = ""
        elsewhere = {"subnets": [{"id": "subnet-c", "zone": "us-west-2c", "zoneID": "usw2-az3"}]}
        self.classes: dict[str, EC2NodeClass] = {"here": node_class(), "elsewhere": node_class(elsewhere)}
        self.nodeclasses = [SimpleNamespace(name=name, uid=name) for name in self.classes]

    def shifted_zones(self) -> frozenset[str]:
        return self.away

    def refused_zones(self) -> str:
        return self.refusal

    def node_class(self, name: str) -> EC2NodeClass:
        return self.classes[name]


async def test_evt07_a_shift_is_reported_when_it_begins_and_ends() -> None:
    world, recorder = World(), Recorder()
    cache = cast("Any", world)
    controller = ZonalShiftController(recorder, cache, cache, world)
    await controller.reconcile(())
    for away in (frozenset({"usw2-az1"}), frozenset({"usw2-az1"}), frozenset[str]()):
        world.away = away
        await controller.reconcile(())
    assert [(name, reason) for _, name, reason, _ in recorder.events] == [
        ("here", "ZonalShiftActive"),
        ("here", "ZonalShiftCleared"),
    ]
    assert "us-west-2b" in recorder.events[0][3]


async def test_aws016_classes_say_that_aws_refuses_to_tell_the_zones() -> None:
    """Every class: without an answer each zone may be one that fails."""
    world, recorder = World(), Recorder()
    cache = cast("Any", world)
    controller = ZonalShiftController(recorder, cache, cache, world)
    world.refusal = "AWS refused arc-zonal-shift:GetManagedResource"
    await controller.reconcile(())
    assert {(name, reason) for _, name, reason, _ in recorder.events} == {
        ("here", "ZonalShiftUnknown"),
        ("elsewhere", "ZonalShiftUnknown"),
    }
    assert world.refusal in recorder.events[0][3]
