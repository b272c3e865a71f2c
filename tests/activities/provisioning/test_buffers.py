"""CapacityBuffers in the live planner: what is asked for, bought once, and kept (CB-06 to CB-09)."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from activities.disruption.disrupting import Disruptor
from activities.disruption.situation_reader import SituationReader
from activities.kubernetes.client import Kube
from activities.metrics import QUEUE_DEPTH
from activities.provisioning.batching import FIRST_RETRY, Batcher
from activities.provisioning.buffers import BufferRoom
from activities.provisioning.planner import BatchPlanner
from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.pool_reasons import NoPlace
from tenon.messages.disruption import AwaitDisruptionInput
from tenon.messages.provisioning import AwaitBatchInput, PlanInput
from tenon.provisioning.buffer_status import BufferSimulation
from tenon.scheduling.model import Plan
from tests.activities.disruption.disruption_setting import managed
from tests.activities.node.fake_kube import Recorder
from tests.activities.provisioning.batch_window import KARPENTERS_WINDOW
from tests.activities.provisioning.fake_view import START, FakeClaims, FakeTypes, FakeView, loop_clock, node_pool
from tests.tenon.scheduling.builders import node, pod, replicas

BUFFER = "default/spare"
QUESTION = AwaitBatchInput(cluster="c", wait_seconds=600.0)


def standing(count: int, cpu: str = "1") -> list[Pod]:
    return [replace(replica, buffer=BUFFER) for replica in replicas(count, cpu, prefix="capacity-buffer-spare")]


def depth() -> float:
    """The metric of how many pods wait for a plan."""
    return float(QUEUE_DEPTH.labels("provisioner")._value.get())


class Setting:
    """A planner on a cluster in memory that a buffer of two pods is in; nothing was simulated yet."""

    def __init__(self, *pods: Pod, room: int = 2) -> None:
        self.view = FakeView()
        self.view.pods = list(pods)
        self.kube = FakeClaims(self.view)
        self.recorder = Recorder()
        self.now = START
        self.room = BufferRoom(awaited=True)
        self.room.keep(standing(room))
        self.batcher = Batcher(self.view, lambda: self.now, self.room, window=KARPENTERS_WINDOW)
        self.batch = 40
        self.planner = BatchPlanner(
            self.view,
            FakeTypes(),
            cast("Kube", self.kube),
            self.recorder,
            self.batcher,
            lambda: self.now,
        )

    def looked(self, *lacking: Pod, on: str = "") -> None:
        """The controller has looked for room: these pods have none, the others have it on a node that is ready."""
        others = tuple(pod for pod in self.room.pods() if pod not in lacking)
        self.room.simulated(
            Plan(
                placements={on: others} if on else {},
                unschedulable=dict.fromkeys((p.key for p in lacking), NoPlace.of("full")),
            ),
            {on},
        )

    async def plan(self) -> dict[str, Any]:
        """The NodeClaims that one more batch writes."""
        self.batch += 1
        before = set(self.kube.objects)
        await self.planner.plan(PlanInput(cluster="c", batch=self.batch))
        return {name: body for name, body in self.kube.objects.items() if name not in before}


async def test_cb09_a_buffer_without_room_ends_the_wait_and_gets_a_node_that_names_no_pod() -> None:
    at = Setting()
    at.looked(*at.room.pods())
    assert {item.buffer for item in at.batcher.undecided()} == {BUFFER}
    (claim,) = (await at.plan()).values()
    annotations = claim["metadata"]["annotations"]
    assert annotations[labels.PLANNED_PODS] == ""
    assert annotations[labels.PLANNED_REQUESTS] == '{"cpu":"2","memory":"2Gi","pods":"2"}', "so its room is known"
    assert at.recorder.events == [], "nobody waits for pods that are not there"
    assert at.batcher.undecided() == []
    assert at.room.rooms() == {BUFFER: BufferSimulation(starting=2)}
    assert at.room.hosts() == {claim["metadata"]["name"]}


async def test_cb07_buffers_join_the_batch_of_pods_and_are_not_counted_as_pods() -> None:
    at = Setting(pod("a"))
    at.looked(on="n")
    result = await at.planner.plan(PlanInput(cluster="c", batch=41))
    (claim,) = at.kube.objects.values()
    assert (result.pods, result.placed_on_existing, result.unschedulable) == (1, 0, 0)
    assert claim["metadata"]["annotations"][labels.PLANNED_PODS] == "default/a=uid-a"
    assert claim["spec"]["resources"]["requests"]["cpu"] == "3"


async def test_cb07_room_of_a_buffer_is_free_to_take() -> None:
    """Its pods are placed again in each plan and never nominated: pods that wait get the room first."""
    at = Setting(pod("a"))
    at.view.existing = [node(cpu="2")]
    at.looked(on="n")
    assert len(await at.plan()) == 1, "for one of the buffer's pods"
    assert [item.name for item in at.batcher.reserved()["n"]] == ["a"]
    assert at.room.rooms() == {BUFFER: BufferSimulation(ready=1, starting=1)}


async def test_nothing_is_bought_twice_while_a_claim_starts() -> None:
    """What looks for room may be behind; a plan sees the NodeClaims of earlier plans."""
    at = Setting()
    at.looked(*at.room.pods())
    (name,) = await at.plan()
    at.view.existing = [node(name, cpu="2", initialized=False)]
    for _ in range(3):
        at.looked(*at.room.pods())
        at.now += 2 * FIRST_RETRY
        assert await at.plan() == {}
    assert at.room.rooms() == {BUFFER: BufferSimulation(starting=2)}


async def test_a_buffer_that_begins_while_a_plan_runs_needs_a_plan() -> None:
    """The plan does not know its pods, so it says nothing about them."""
    at = Setting()
    at.looked(*at.room.pods())
    more_pods = [*at.room.pods(), replace(pod("floor", cpu="1"), buffer="floor")]

    def begins(_: object) -> None:
        at.room.keep(more_pods)

    at.kube.answer = begins
    (first,) = await at.plan()
    assert [item.buffer for item in at.batcher.undecided()] == ["floor"]
    at.view.existing = [node(first, cpu="2", initialized=False)]
    (second,) = await at.plan()
    assert at.batcher.undecided() == []
    assert at.room.hosts() == {first, second}


async def test_a_buffer_that_nothing_can_serve_is_asked_for_less_and_less_often() -> None:
    at = Setting()
    at.view.pools = []
    at.looked(*at.room.pods())
    assert await at.plan() == {}
    assert at.batcher.undecided() == []
    assert at.room.rooms()[BUFFER].refused
    at.now += FIRST_RETRY
    assert len(at.batcher.undecided()) == 2
    assert at.recorder.events == []
    at.view.pools = [node_pool()]
    assert len(await at.plan()) == 1


async def test_a_buffer_that_is_gone_asks_for_nothing_and_keeps_nothing() -> None:
    at = Setting()
    at.looked(at.room.pods()[0], on="n")
    at.room.keep([])
    assert (at.batcher.undecided(), at.room.hosts(), at.room.rooms()) == ([], frozenset(), {})


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_cb09_a_buffer_wakes_the_wait_for_pods() -> None:
    at = Setting()
    at.batcher = Batcher(at.view, loop_clock(), at.room, window=KARPENTERS_WINDOW)
    waiting = asyncio.create_task(at.batcher.await_batch(QUESTION))
    await asyncio.sleep(30)
    assert not waiting.done()
    at.looked(*at.room.pods())
    at.view.publish()
    assert (await waiting).pods == 2
    assert depth() == 0


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_pods_of_buffers_are_not_counted_among_those_that_wait() -> None:
    """An alert on the queue's depth must not fire for a buffer that is at its limit."""
    at = Setting(pod("a"), room=50)
    at.batcher = Batcher(at.view, loop_clock(), at.room, window=KARPENTERS_WINDOW)
    at.looked(*at.room.pods())
    assert (await at.batcher.await_batch(QUESTION)).pods == 1
    assert depth() == 1


def test_a_pass_does_not_overwrite_why_a_plan_could_not_buy() -> None:
    """It buys nothing, so to it no NodePool is ready: the user would hear that and look in the wrong place."""
    room = BufferRoom(awaited=True)
    pods = standing(2)
    room.keep(pods)
    none = Plan(unschedulable=dict.fromkeys((pod.key for pod in pods), NoPlace.of("no NodePool is ready")))
    room.simulated(none, (), bought=False)
    assert room.rooms() == {BUFFER: BufferSimulation()}, "no plan has tried yet"
    room.simulated(Plan(unschedulable={pod.key: NoPlace.of("its limit leaves no room") for pod in pods}), ())
    room.simulated(none, (), bought=False)
    assert room.rooms() == {BUFFER: BufferSimulation(refused="its limit leaves no room")}
    assert room.lacking() == pods
    room.simulated(Plan(placements={"n": tuple(pods)}), {"n"}, bought=False)
    assert room.rooms() == {BUFFER: BufferSimulation(ready=2)}


@pytest.mark.asyncio(loop_scope="function")
@pytest.mark.looptime
async def test_cb08_a_node_that_a_buffer_is_on_is_not_empty() -> None:
    """And none is while it is not known where buffers are: a new leader must not take their nodes away."""
    view = FakeView()
    view.pools = [node_pool(edits={"disruption/consolidateAfter": "60s", "disruption/budgets": [{"nodes": "100%"}]})]
    view.managed = [managed("hosting", node="n1"), managed("starting"), managed("idle")]
    room = BufferRoom(awaited=True)
    room.keep(standing(2))
    now = loop_clock()
    disruptor = Disruptor(view, now, SituationReader(view, now, buffers=room))
    question = AwaitDisruptionInput(cluster="c", wait_seconds=600.0)
    assert (await disruptor.await_candidates(question)).commands == []
    first, second = room.pods()
    room.simulated(Plan(placements={"n1": (first,), "starting": (second,)}), {"n1"})
    (command,) = (await disruptor.await_candidates(question)).commands
    assert [candidate.claim for candidate in command.candidates] == ["idle"]
    room.keep([])
    (command,) = (await disruptor.await_candidates(question)).commands
    assert len(command.candidates) == 3
