"""Instances that EC2 ends before their Nodes join: the reason is shown, and launches slow down that share the cause."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast
from unittest import mock

import pytest

from activities.ec2.errors import EC2Error
from activities.kubernetes.resources import NODECLAIMS
from activities.node.boot_failures import BootFailures
from activities.node.launch_breakers import LaunchBreakers
from tenon.apis import labels
from tenon.kube.offerings import OfferingKey
from tenon.messages.provisioning import LaunchBreaker, LaunchReport
from tenon.node.launch_breaker import (
    BOOTS_BEFORE,
    BOOTS_REMEMBERED_FOR,
    FIRST_BOOT_PAUSE,
    MAX_BOOT_PAUSE,
    merged,
    sentence,
)
from tests.activities.node.world import REF, Ec2, World, claim, condition

ENDED_KIND = frozenset({"ami-arm64", "m6g.large"})
"""The image and the instance type of the claim's instance."""
KMS = ("Client.InternalError", "Client.InternalError: Client error on launch")


def booting(ended: tuple[str, str] | None = KMS) -> tuple[World, LaunchBreakers, BootFailures]:
    """A claim of NodePool web whose instance has ended for this reason."""
    world, raw = World(), claim()
    raw["status"] = {"conditions": [], "imageID": "ami-arm64"}
    raw["metadata"]["labels"] |= {labels.NODEPOOL: "web", labels.INSTANCE_TYPE: "m6g.large"}
    world.kube.add(NODECLAIMS, raw)
    ec2 = Ec2()
    ec2.ended = ended
    breakers = LaunchBreakers(world.clock, wait_seconds=0.0)
    return world, breakers, BootFailures(world.kube, world.recorder, cast("Any", ec2), breakers, world.clock)


async def test_the_claim_says_why_ec2_ended_its_instance() -> None:
    world, _, boots = booting()
    await boots.look(REF, "i-1")
    assert world.status_of("Registered") == ("False", "InstanceEnded")
    (event,) = [event for event in world.recorder.events if event[2] == "InstanceEnded"]
    assert event[3] == "EC2 ended i-1 before its Node joined: Client.InternalError: Client error on launch"


async def test_after_two_such_ends_launches_of_the_class_pause_for_longer_each_time() -> None:
    """The launches themselves succeed, so a success of CreateFleet must not end the pause."""
    world, breakers, boots = booting()
    bought = 0
    began = world.clock()
    while world.clock() - began < timedelta(minutes=20):
        if await breakers.admit("web", "c", node_class="default", sends=True) is None:
            breakers.launched("web", node_class="default")
            breakers.leave("c")
            bought += 1
            world.clock.instant += timedelta(seconds=4)
            await boots.look(REF, f"i-{bought}")
        world.clock.instant += timedelta(seconds=1)
    assert BOOTS_BEFORE < bought <= 9
    (breaker,) = breakers.report().breakers
    assert breaker.next_probe_at - world.clock() <= MAX_BOOT_PAUSE
    assert "instances of EC2NodeClass default end while they boot: Client.InternalError: EC2 ended" in sentence(breaker)


async def ended_twice(code: str = KMS[0]) -> tuple[LaunchBreakers, World]:
    world, breakers, boots = booting((code, "as EC2 puts it"))
    for number in range(BOOTS_BEFORE):
        await boots.look(REF, f"i-{number}")
    return breakers, world


async def held(breakers: LaunchBreakers, pool: str, node_class: str) -> bool:
    return await breakers.admit(pool, "c", ["m5.large"], node_class=node_class) is not None


async def test_a_volume_that_cannot_be_used_pauses_the_nodepools_of_its_class_only() -> None:
    breakers, _ = await ended_twice()
    assert await held(breakers, "web", "default")
    assert await held(breakers, "batch", "default")
    assert not await held(breakers, "web", "mended")


async def test_an_account_without_room_for_volumes_pauses_all_classes() -> None:
    breakers, world = await ended_twice("Client.VolumeLimitExceeded")
    assert await held(breakers, "web", "default")
    assert await held(breakers, "other", "other")
    (breaker,) = breakers.report().breakers
    assert "because instances of this account end while they boot" in sentence(breaker)
    breakers.registered("other", {"m5.large"}, world.clock())
    assert await held(breakers, "web", "default"), "it was launched before the pause was over"
    breakers.registered("other", {"m5.large"}, world.clock() + FIRST_BOOT_PAUSE)
    assert not await held(breakers, "web", "default")


async def test_an_account_without_room_pauses_even_if_every_second_instance_joins() -> None:
    """A volume that another instance has left makes room for one."""
    world, breakers, boots = booting(("Client.VolumeLimitExceeded", "no more volumes"))
    for number in range(BOOTS_BEFORE):
        await boots.look(REF, f"i-{number}")
        breakers.registered("default", ENDED_KIND, world.clock())
    assert await held(breakers, "web", "default")


async def test_nodes_with_another_image_of_the_class_end_no_pause() -> None:
    """The image for arm64 shuts down at its boot. That for amd64, which another NodePool of the class uses, is fine."""
    world, breakers, boots = booting()
    for number in range(20):
        await boots.look(REF, f"i-{number}")
        breakers.registered("default", {"ami-amd64", "m5.large"}, world.clock() + MAX_BOOT_PAUSE)
    (breaker,) = breakers.report().breakers
    assert breaker.next_probe_at == world.clock() + MAX_BOOT_PAUSE
    assert await held(breakers, "web", "default")


async def test_a_node_of_the_same_type_with_a_mended_image_ends_the_pause() -> None:
    breakers, world = await ended_twice()
    breakers.registered("default", {"ami-mended", "m6g.large"}, world.clock() + FIRST_BOOT_PAUSE)
    assert not await held(breakers, "web", "default")


async def test_a_node_that_was_launched_before_the_pause_was_over_does_not_end_it() -> None:
    breakers, world = await ended_twice()
    breakers.registered("default", ENDED_KIND, world.clock() + FIRST_BOOT_PAUSE - timedelta(seconds=2))
    breakers.registered("default", ENDED_KIND, None)
    assert await held(breakers, "web", "default")


async def test_capacity_that_is_gone_at_the_boot_rules_out_the_offering_only() -> None:
    world, breakers, boots = booting(("Server.InsufficientInstanceCapacity", "no capacity"))
    offering = {labels.CAPACITY_TYPE: "spot", labels.INSTANCE_TYPE: "m5.large", labels.ZONE: "us-west-2a"}
    world.claim["metadata"]["labels"] |= offering
    for number in range(BOOTS_BEFORE):
        await boots.look(REF, f"i-{number}")
    assert OfferingKey("spot", "m5.large", "us-west-2a") in breakers.unavailable()
    assert OfferingKey("spot", "m5.large", "us-west-2b") not in breakers.unavailable()
    assert breakers.report().breakers == []


async def test_a_failure_of_ec2_rules_out_the_offering_and_pauses_the_class() -> None:
    """If EBS fails in a zone, Tenon would otherwise buy one type after the other."""
    world, breakers, boots = booting(("Server.InternalError", "internal error"))
    world.claim["metadata"]["labels"] |= {labels.CAPACITY_TYPE: "spot", labels.ZONE: "us-west-2a"}
    for number, kind in enumerate(("m5.large", "m6g.large")):
        world.claim["metadata"]["labels"][labels.INSTANCE_TYPE] = kind
        assert not await held(breakers, "web", "default")
        await boots.look(REF, f"i-{number}")
        assert OfferingKey("spot", kind, "us-west-2a") in breakers.unavailable()
        breakers.registered("default", ENDED_KIND | {"us-west-2b"}, world.clock() + FIRST_BOOT_PAUSE)
    assert await held(breakers, "batch", "default"), "Nodes in other zones say nothing"
    assert not await held(breakers, "batch", "other")
    breakers.registered("default", ENDED_KIND | {"us-west-2a"}, world.clock() + FIRST_BOOT_PAUSE)
    assert not await held(breakers, "batch", "default")


async def test_a_node_that_joins_ends_the_pause() -> None:
    breakers, world = await ended_twice()
    breakers.registered("mended", ENDED_KIND, world.clock() + FIRST_BOOT_PAUSE)
    assert await held(breakers, "web", "default"), "a Node of another class says nothing"
    breakers.registered("default", ENDED_KIND, world.clock() + FIRST_BOOT_PAUSE)
    assert not await held(breakers, "web", "default")
    assert breakers.report() == LaunchReport(closed=["EC2NodeClass/default"])


async def test_ends_that_are_long_ago_are_forgotten() -> None:
    world, breakers, boots = booting()
    await boots.look(REF, "i-1")
    assert len(breakers.report().breakers) == 1
    world.clock.instant += BOOTS_REMEMBERED_FOR + timedelta(seconds=1)
    assert breakers.report().breakers == []
    await boots.look(REF, "i-2")
    assert not await held(breakers, "web", "default")


async def test_ends_in_front_of_two_processes_add_up() -> None:
    """Each sees one end. What they report to the provisioner makes both pause, until a Node joins in front of one."""
    world, item, boots = booting()
    _, other, boots_of_other = booting()
    stored: dict[str, LaunchBreaker] = {}

    def exchange() -> None:
        for process in (item, other):
            report = process.report()
            stored.update(before := merged(stored, report, world.clock()))
            for key in stored.keys() - before.keys():
                del stored[key]
            process.acknowledge(report)
        for process in (item, other):
            process.learn(LaunchReport(breakers=list(stored.values())))

    await boots.look(REF, "i-1")
    await boots_of_other.look(REF, "i-2")
    assert not await held(item, "web", "default")
    exchange()
    assert await held(item, "web", "default")
    assert await held(other, "web", "default")
    other.registered("default", ENDED_KIND, world.clock() + FIRST_BOOT_PAUSE)
    exchange()
    assert not await held(item, "web", "default")
    exchange()
    assert stored == {}


async def test_a_process_that_saw_no_end_learns_of_the_pause_and_of_its_end() -> None:
    breakers, world = await ended_twice()
    report = breakers.report()
    other = LaunchBreakers(world.clock, wait_seconds=0.0)
    other.learn(report)
    assert await held(other, "web", "default")
    assert other.report() == LaunchReport(), "it does not report again what it only heard"
    other.learn(LaunchReport())
    assert not await held(other, "web", "default")


async def test_one_end_is_counted_once_however_often_the_step_is_repeated() -> None:
    _, breakers, boots = booting()
    for _ in range(5):
        await boots.look(REF, "i-1")
    assert not await held(breakers, "web", "default")


@pytest.mark.parametrize(
    "ended", [None, ("Client.UserInitiatedShutdown", "asked"), ("Server.SpotInstanceTermination", "taken back")]
)
async def test_an_instance_that_was_ended_on_request_or_taken_back_says_nothing(
    ended: tuple[str, str] | None,
) -> None:
    world, breakers, boots = booting(ended)
    for number in range(3):
        await boots.look(REF, f"i-{number}")
    assert breakers.report().breakers == []
    assert world.recorder.events == []


async def test_an_instance_that_ends_after_its_node_joined_slows_no_purchase() -> None:
    """It did boot. The NodePool's next instances are no worse for it."""
    world, breakers, boots = booting()
    world.claim["status"]["conditions"] = [condition("Launched"), condition("Registered")]
    for number in range(BOOTS_BEFORE):
        await boots.look(REF, f"i-{number}")
    assert breakers.report().breakers == []
    assert world.status_of("Registered")[0] == "True"


async def test_an_ec2_that_does_not_say_why_an_instance_ended_holds_no_end_up() -> None:
    """The next attempt of the step asks again."""
    world, breakers, boots = booting()
    ec2 = cast("Any", boots)._ec2
    with mock.patch.object(ec2, "why_ended", side_effect=EC2Error("RequestLimitExceeded", "slow down")):
        await boots.look(REF, "i-1")
    assert (breakers.report().breakers, world.recorder.events) == ([], [])
    await boots.look(REF, "i-1")
    assert "InstanceEnded" in world.recorder.reasons()


async def test_an_end_without_a_message_is_named_by_its_code() -> None:
    world, _, boots = booting(("Server.InternalError", ""))
    await boots.look(REF, "i-1")
    assert world.recorder.events[-1][3] == "EC2 ended i-1 before its Node joined: Server.InternalError"
