"""A NodeClaim whose launch waits because EC2 throttles a call says so while it waits (AWS-048)."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Collection, Iterable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from activities.ec2.rate_limits import Throttling
from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS
from activities.node import throttled_launches
from activities.node.launching import Launching
from activities.node.throttled_launches import PREPARING, SENDING, ThrottledLaunches
from tenon.messages.launch import LaunchInput, LaunchRequest, LaunchResult, PrepareLaunchInput
from tests.activities.node.fake_kube import START, stamp
from tests.activities.node.seller import Seller, node_class
from tests.activities.node.world import REF, World, claim
from tests.workflows.waiting import until

REQUEST = LaunchRequest(client_token="t", capacity_type="on-demand", templates=[], tags={})


def unlaunched() -> World:
    world = World()
    raw = claim(nodeClassRef={"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"})
    raw["status"] = {}
    raw["metadata"] |= {"creationTimestamp": stamp(START)}
    world.kube.add(NODECLAIMS, raw)
    world.kube.add(EC2NODECLASSES, node_class())
    return world


def says(world: World) -> str:
    """What the claim's condition Launched says."""
    conditions = world.claim["status"].get("conditions") or []
    return next((condition["message"] for condition in conditions if condition["type"] == "Launched"), "")


async def shown_for(world: World, seconds: float, throttling: Callable[[Collection[str]], Throttling | None]) -> int:
    """Let a launch wait for so long, and return how often its claim was written."""
    over = asyncio.Event()

    async def sleep(pause: float) -> None:
        await world.clock.sleep(pause)
        if world.clock() >= START + timedelta(seconds=seconds):
            over.set()
        await asyncio.sleep(0)

    throttled = ThrottledLaunches(world.kube, cast("Any", SimpleNamespace(throttling=throttling)), world.clock, sleep)
    async with throttled.shown(REF, SENDING):
        await over.wait()
    return sum(call[0] == "patch" for call in world.kube.calls)


async def test_aws048_a_claim_says_which_call_is_throttled_how_long_and_when_the_next_try_is() -> None:
    world = unlaunched()
    await shown_for(world, 6, lambda _: Throttling("CreateFleet", lasted=4.0, next_try=8.0))
    assert world.status_of("Launched") == ("Unknown", "RequestLimitExceeded")
    assert says(world) == (
        "EC2 has throttled CreateFleet for 4s, since 2026-03-01 12:00:01 UTC: the launch waits; "
        "next attempt at 2026-03-01 12:00:13 UTC"
    )


async def test_aws048_a_claim_is_written_once_a_minute_while_its_launch_is_throttled() -> None:
    world = unlaunched()
    assert await shown_for(world, 170, lambda _: Throttling("CreateFleet", 4.0, 8.0)) == 3


async def test_a_claim_that_another_attempt_launched_does_not_say_that_its_launch_waits() -> None:
    """A worker whose heartbeats got lost may still wait for EC2."""
    world = World()
    world.kube.add(NODECLAIMS, claim())
    assert await shown_for(world, 70, lambda _: Throttling("CreateFleet", 4.0, 8.0)) == 0
    assert world.status_of("Launched")[0] == "True"


async def test_a_launch_that_is_slow_for_another_reason_writes_nothing() -> None:
    names: list[Collection[str]] = []

    def throttling(calls: Collection[str]) -> None:
        names.append(calls)

    world = unlaunched()
    assert await shown_for(world, 60, throttling) == 0
    assert set(names) == {SENDING}


class Waiting(Seller):
    """Its calls come back only when the claim says what is throttled."""

    def __init__(self) -> None:
        super().__init__()
        self.shown = threading.Event()
        self.calls: list[str] = []

    def throttling(self, calls: Iterable[str]) -> Throttling | None:
        self.calls = list(calls)
        return Throttling(self.calls[0], 4.0, 8.0)

    def prepare_launch(self, *value: Any) -> LaunchRequest:
        assert self.shown.wait(20.0), "the claim does not say what is throttled"
        return super().prepare_launch(*value)

    def launch(self, request: LaunchRequest) -> LaunchResult:
        assert self.shown.wait(20.0), "the claim does not say what is throttled"
        return super().launch(request)


@pytest.mark.parametrize("step", ["prepare", "launch"])
async def test_aws048_both_steps_of_a_launch_show_throttling(step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a launch that succeeds afterwards clears it."""
    monkeypatch.setattr(throttled_launches, "CHECKS_EVERY", 0.01)
    ec2, world = Waiting(), unlaunched()
    launching = Launching(world.kube, world.recorder, cast("Any", ec2), world.clock, tries=lambda: 1)

    async def shown() -> bool:
        return "EC2 has throttled" in says(world)

    async def watch() -> None:
        await until(shown)
        ec2.shown.set()

    async with asyncio.TaskGroup() as group:
        group.create_task(watch())
        if step == "prepare":
            await launching.prepare(PrepareLaunchInput(claim=REF))
            assert (ec2.calls, says(world)[:34]) == (list(PREPARING), "EC2 has throttled CreateLaunchTemp")
        else:
            await launching.launch(LaunchInput(claim=REF, request=REQUEST))
            assert ec2.calls == list(SENDING)
            assert world.status_of("Launched")[0] == "True"
            assert says(world) == ""
