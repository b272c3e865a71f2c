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


@pytest.fixture(autouse=True)
def _new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A controller remembers for the life of its process."""
    monkeypatch.setattr(ZonalShiftController, "_reported", {})


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


async def test_evt07_a_leader_that_leads_again_repeats_no_report_and_says_what_ended() -> None:
    world, recorder = World(), Recorder()
    cache = cast("Any", world)
    world.away = frozenset({"usw2-az1"})
    await ZonalShiftController(recorder, cache, cache, world).reconcile(())
    await ZonalShiftController(recorder, cache, cache, world).reconcile(())
    assert recorder.reasons() == ["ZonalShiftActive"]
    world.away = frozenset()
    await ZonalShiftController(recorder, cache, cache, world).reconcile(())
    assert recorder.reasons() == ["ZonalShiftActive", "ZonalShiftCleared"]


async def test_evt07_a_class_that_comes_during_a_shift_has_the_event() -> None:
    """So has one that is resolved only then, and one that is created again under the same name."""
    world, recorder = World(), Recorder()
    cache = cast("Any", world)
    controller = ZonalShiftController(recorder, cache, cache, world)
    world.away = frozenset({"usw2-az1"})
    world.classes["here"], resolved = node_class({"subnets": []}), world.classes["here"]
    await controller.reconcile(())
    assert recorder.events == []
    world.classes["here"] = resolved
    await controller.reconcile(())
    world.nodeclasses[0] = SimpleNamespace(name="here", uid="another")
    await controller.reconcile(())
    assert [event[:3] for event in recorder.events] == [("EC2NodeClass", "here", "ZonalShiftActive")] * 2
    assert recorder.uids["EC2NodeClass", "here"] == "another"
    world.away = frozenset()
    await controller.reconcile(())
    assert recorder.reasons()[2:] == ["ZonalShiftCleared"]


async def test_evt07_a_class_that_leaves_the_zone_has_no_further_event() -> None:
    world, recorder = World(), Recorder()
    cache = cast("Any", world)
    controller = ZonalShiftController(recorder, cache, cache, world)
    world.away = frozenset({"usw2-az1"})
    await controller.reconcile(())
    world.classes["here"] = world.classes["elsewhere"]
    world.away = frozenset()
    await controller.reconcile(())
    assert recorder.reasons() == ["ZonalShiftActive"]


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
