"""Each call to EC2 of a launch may wait long for its turn, and the activity sends heartbeats meanwhile."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, cast

from temporalio.testing import ActivityEnvironment

from activities.kubernetes.resources import EC2NODECLASSES, NODECLAIMS
from activities.node.launching import Launching
from tenon.messages.launch import LaunchInput, LaunchRequest, PrepareLaunchInput
from tests.activities.node.fake_kube import stamp
from tests.activities.node.seller import Seller, node_class
from tests.activities.node.world import REF, World, claim

REQUEST = LaunchRequest(client_token="t", capacity_type="on-demand", templates=[], tags={})


class Throttled(Seller):
    """Each call waits for a heartbeat of the activity."""

    def __init__(self, *, knows: bool = True) -> None:
        super().__init__()
        self.knows = knows
        self.beat = threading.Event()
        self.waited: list[str] = []

    def _wait(self, call: str) -> None:
        self.beat.clear()
        self.waited.append(call)
        assert self.beat.wait(20.0), f"no heartbeat while {call} waits"

    def instance_state(self, instance_id: str) -> str | None:
        self._wait("instance_state")
        return "running" if self.knows else None

    def states(self, instance_ids: list[str]) -> dict[str, str]:
        self._wait("states")
        return {}

    def price(self, *value: str) -> float:
        self._wait("price")
        return super().price(*value)

    def describe_instance(self, instance_id: str) -> Any:
        if threading.current_thread() is not threading.main_thread():
            self._wait("describe_instance")
        return super().describe_instance(instance_id) if self.knows else None

    def name_instance(self, *value: Any) -> bool:
        self._wait("name_instance")
        return super().name_instance(*value)

    def instance_types(self, *value: Any, **options: Any) -> Any:
        self._wait("instance_types")
        return super().instance_types(*value, **options)

    def prepare_launch(self, *value: Any) -> LaunchRequest:
        self._wait("prepare_launch")
        return REQUEST

    def find_instance(self, claim_name: str) -> Any:
        self._wait("find_instance")
        return None


async def run(world: World, ec2: Throttled, step: Callable[[Launching], Any]) -> Any:
    environment = ActivityEnvironment()
    environment.info = dataclasses.replace(environment.info, heartbeat_timeout=timedelta(seconds=0.02))
    environment.on_heartbeat = lambda *_: ec2.beat.set()
    launching = Launching(world.kube, world.recorder, cast("Any", ec2), world.clock, tries=lambda: 1)

    async def work() -> Any:
        return await step(launching)

    async with asyncio.timeout(60):
        return await environment.run(work)


def unlaunched() -> World:
    world = World()
    reference = {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"}
    raw = claim(nodeClassRef=reference)
    raw["status"] = {}
    raw["metadata"] |= {"creationTimestamp": stamp(world.clock())}
    world.kube.add(NODECLAIMS, raw)
    world.kube.add(EC2NODECLASSES, node_class())
    return world


async def test_a_node_that_runs_already_is_found_and_tagged_with_heartbeats() -> None:
    ec2 = Throttled()
    await run(World().put_live(), ec2, lambda part: part.prepare(PrepareLaunchInput(claim=REF)))
    assert ec2.waited == ["instance_state", "describe_instance", "name_instance"]


async def test_a_ready_node_without_a_known_instance_is_described_with_heartbeats() -> None:
    ec2, world = Throttled(knows=False), World().put_live()
    world.clock.instant += timedelta(hours=1)
    await run(world, ec2, lambda part: part.prepare(PrepareLaunchInput(claim=REF)))
    assert ec2.waited == ["instance_state", "describe_instance", "price", "name_instance"]


async def test_unknown_instances_are_counted_with_heartbeats() -> None:
    ec2, world = Throttled(knows=False), World().put_live()
    world.node["status"]["conditions"][0]["status"] = "False"
    world.clock.instant += timedelta(hours=1)
    await run(world, ec2, lambda part: part.prepare(PrepareLaunchInput(claim=REF)))
    assert ec2.waited == ["instance_state", "instance_state", "states"]


async def test_a_launch_is_prepared_with_heartbeats() -> None:
    ec2 = Throttled()
    await run(unlaunched(), ec2, lambda part: part.prepare(PrepareLaunchInput(claim=REF, attempt=2)))
    assert ec2.waited == ["find_instance", "instance_types", "prepare_launch"]


async def test_a_launch_is_sent_and_recorded_with_heartbeats() -> None:
    ec2 = Throttled()
    await run(unlaunched(), ec2, lambda part: part.launch(LaunchInput(claim=REF, request=REQUEST)))
    assert ec2.waited == ["describe_instance", "instance_types"]
