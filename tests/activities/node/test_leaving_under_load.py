"""The steps of a node that leaves while hundreds of others leave: each request waits long for its turn."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Any, cast

import pytest
from temporalio.testing import ActivityEnvironment

from activities.kubernetes import rate_limit
from activities.kubernetes.rate_limit import RequestClass
from activities.node.nodeclaim_lifecycle import NodeActivities
from activities.node.reboot_activities import RebootActivities
from tenon.messages.base import ActivityName, Message
from tenon.messages.node import Removal
from tenon.messages.node_steps import CordonInput, DetachInput, DrainInput, NodeInput, ReleaseInput, TerminateInput
from tenon.messages.reboot import RebootDrainInput
from tests.activities.node.world import PROVIDER_ID, REF, World, pod
from workflows.options import OPTIONS

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

NODE = NodeInput(claim=REF, provider_id=PROVIDER_ID, node_name="node-1").model_dump()
STEPS: dict[ActivityName, Message] = {
    ActivityName.CORDON: CordonInput(**NODE, removal=Removal(reason="drain")),
    ActivityName.DRAIN: DrainInput(**NODE),
    ActivityName.DRAIN_FOR_REBOOT: RebootDrainInput(**NODE, budget_seconds=0.0),
    ActivityName.DETACH_VOLUMES: DetachInput(**NODE),
    ActivityName.TERMINATE: TerminateInput(claim=REF, shown=True, release=ReleaseInput(**NODE)),
    ActivityName.RELEASE: ReleaseInput(**NODE),
}


class Ended:
    """An EC2 where the instance has ended."""

    def why_ended(self, instance_id: str) -> None:
        return None

    def terminate_instances(self, instance_ids: Sequence[str]) -> Mapping[str, None]:
        return dict.fromkeys(instance_ids)

    def states(self, instance_ids: Sequence[str]) -> Mapping[str, str]:
        return dict.fromkeys(instance_ids, "terminated")


class Slow:
    """A Kubernetes client whose requests each take ``seconds``. It lists their classes."""

    def __init__(self, kube: Any, seconds: float) -> None:
        self._kube = kube
        self._seconds = seconds
        self.classes: list[RequestClass] = []

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._kube, name)

        async def slowly(*arguments: Any, **options: Any) -> Any:
            self.classes.append(rate_limit._current.get())
            await asyncio.sleep(self._seconds)
            return await call(*arguments, **options)

        return slowly


async def run(step: ActivityName, seconds: float) -> tuple[list[RequestClass], list[float]]:
    """The classes of the requests of a step, and when it began, sent heartbeats and ended."""
    world = World().put_live().put_pods(pod("web", terminationGracePeriodSeconds=0))
    kube = Slow(world.kube, seconds)
    parts = (
        NodeActivities(cast("Any", kube), world.recorder, cast("Any", Ended())),
        RebootActivities(cast("Any", kube), world.recorder, cast("Any", Ended())),
    )
    (activity,) = [definition for part in parts for definition in part.all() if _name(definition) == step]
    environment, loop = ActivityEnvironment(), asyncio.get_running_loop()
    environment.info = dataclasses.replace(environment.info, heartbeat_timeout=OPTIONS[step].heartbeat)
    times = [loop.time()]
    environment.on_heartbeat = lambda *_: times.append(loop.time())
    await environment.run(activity, STEPS[step])
    return kube.classes, [*times, loop.time()]


def _name(activity: Callable[..., Any]) -> str:
    return str(getattr(activity, "__temporal_activity_definition").name)


@pytest.mark.parametrize("step", [step for step in STEPS if OPTIONS[step].heartbeat is not None])
async def test_a_step_whose_requests_wait_long_sends_heartbeats(step: ActivityName) -> None:
    """Otherwise Temporal takes each attempt for lost, and starts another that runs at the same time."""
    timeout = OPTIONS[step].heartbeat
    assert timeout is not None
    _, times = await run(step, 1.5 * timeout.total_seconds())
    assert max(after - before for before, after in pairwise(times)) < timeout.total_seconds()
    assert len(times) > 3


@pytest.mark.parametrize("step", STEPS)
async def test_only_drains_wait_behind_the_evictions_of_other_nodes(step: ActivityName) -> None:
    classes, _ = await run(step, 0.01)
    drains = step in (ActivityName.DRAIN, ActivityName.DRAIN_FOR_REBOOT)
    assert set(classes) == {RequestClass.EVICT if drains else RequestClass.LEAVE}
