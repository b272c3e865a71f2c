"""Instances that EC2 ends before their Nodes join: the reason is shown, and purchases slow down."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, cast

import pytest

from activities.boot_failures import BootFailures
from activities.kubernetes.resources import NODECLAIMS
from activities.launch_breakers import LaunchBreakers
from tenon.lifecycle.breaker import BOOTS_BEFORE, MAX_BOOT_PAUSE, sentence
from tenon.lifecycle.messages.provisioning import LaunchReport
from tests.lifecycle_k8s.world import REF, Ec2, World, claim

KMS = ("Client.InternalError", "Client.InternalError: Client error on launch")


def booting(ended: tuple[str, str] | None = KMS) -> tuple[World, LaunchBreakers, BootFailures]:
    """A claim of NodePool web whose instance has ended for this reason."""
    world, raw = World(), claim()
    raw["status"] = {"conditions": []}
    raw["metadata"].setdefault("labels", {})["karpenter.sh/nodepool"] = "web"
    world.kube.add(NODECLAIMS, raw)
    ec2 = Ec2()
    ec2.ended = ended
    breakers = LaunchBreakers(world.clock, wait_seconds=0.0)
    return world, breakers, BootFailures(world.kube, world.recorder, cast("Any", ec2), breakers, world.clock)


async def test_the_claim_says_why_ec2_ended_its_instance() -> None:
    world, _, boots = booting()
    await boots.look(REF, "i-1")
    assert world.status_of("Registered") == ("False", "InstanceEnded")
    (event,) = [each for each in world.recorder.events if each[2] == "InstanceEnded"]
    assert event[3] == "EC2 ended i-1 before its Node joined: Client.InternalError: Client error on launch"


async def test_after_two_such_ends_the_nodepool_buys_with_growing_pauses() -> None:
    """The launches themselves succeed, so a success of CreateFleet must not end the pause."""
    world, breakers, boots = booting()
    bought = 0
    began = world.clock()
    while world.clock() - began < timedelta(minutes=20):
        if await breakers.admit("web", "c", sends=True) is None:
            breakers.launched("web")
            breakers.leave("c")
            bought += 1
            world.clock.instant += timedelta(seconds=4)
            await boots.look(REF, f"i-{bought}")
        world.clock.instant += timedelta(seconds=1)
    assert BOOTS_BEFORE < bought <= 9
    (breaker,) = breakers.report().breakers
    assert breaker.next_probe_at - world.clock() <= MAX_BOOT_PAUSE
    assert "its instances end while they boot: Client.InternalError: EC2 ended" in sentence(breaker)


async def test_a_node_that_joins_ends_the_pause() -> None:
    _, breakers, boots = booting()
    for number in range(BOOTS_BEFORE):
        await boots.look(REF, f"i-{number}")
    assert await breakers.admit("web", "c") is not None
    breakers.registered("web")
    assert await breakers.admit("web", "c") is None
    assert breakers.report() == LaunchReport(closed=["web"])


async def test_one_end_is_counted_once_however_often_the_step_is_repeated() -> None:
    _, breakers, boots = booting()
    for _ in range(5):
        await boots.look(REF, "i-1")
    assert breakers.report().breakers == []


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
