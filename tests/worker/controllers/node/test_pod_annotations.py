"""Owners of pods hear of annotations that cannot be read before their pods are evicted (EVT-06, N15-212)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tenon.kube.records import PodRecord
from tests.activities.node.fake_kube import Recorder
from tests.worker.background import in_background
from tests.worker.cache.objects import claim, node, running
from tests.worker.fake_temporal import MOMENT, Cache
from worker.controllers.node.pod_annotations import AT_ONCE, PodAnnotationsController

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

COST, DELETION_COST = "karpenter.sh/disruption-cost", "controller.kubernetes.io/pod-deletion-cost"
NUMBER = "counts as 0: it must be a whole number from -2147483648 to 2147483647"


def pod(name: str, annotations: dict[str, str], *, node_name: str = "n", **status: Any) -> PodRecord:
    return running(name, node_name, meta={"annotations": annotations}, status=status)


async def told(*pods: PodRecord, later: PodRecord | None = None, managed: bool = False) -> Sequence[tuple[str, ...]]:
    cache, recorder = Cache(), Recorder()
    cache.publish(claim(), node(), node("of-another"))
    for record in pods:
        cache.pods.on_event(record.key, record)
    controller = PodAnnotationsController(recorder, cache, deletion_costs_managed=managed)
    async with in_background(controller.run()):
        await asyncio.sleep(MOMENT)
        if later is not None:
            assert recorder.events == []
            cache.pods.on_event(later.key, later)
            await asyncio.sleep(2 * controller.interval)
    return recorder.events


@pytest.mark.parametrize("value", ["much", "1.5", "1_000", "4294967296", ""])
async def test_n15_212_a_cost_that_is_no_whole_number_is_said_on_its_pod(value: str) -> None:
    """It counts as 0, and pod-deletion-cost does not take its place."""
    events = await told(pod("a", {COST: value, DELETION_COST: "wrong"}), pod("b", {COST: "-7", DELETION_COST: "x"}))
    assert events == [("Pod", "a", "InvalidDisruptionCost", f"annotation {COST}={value} {NUMBER}")]


@pytest.mark.parametrize("managed", [False, True])
async def test_n15_025_a_deletion_cost_is_judged_while_it_counts(managed: bool) -> None:
    event = ("Pod", "a", "InvalidDisruptionCost", f"annotation {DELETION_COST}=1.5 {NUMBER}")
    assert await told(pod("a", {DELETION_COST: "1.5"}), managed=managed) == ([] if managed else [event])


async def test_evt06_a_protection_that_protects_nothing_is_said_when_the_pod_comes() -> None:
    text = "annotation karpenter.sh/do-not-disrupt=yes is ignored: it must be true or a duration like 30m"
    late = pod("late", {"karpenter.sh/do-not-disrupt": "yes"})
    assert await told(pod("a", {"karpenter.sh/do-not-disrupt": "30m"}), later=late) == [
        ("Pod", "late", "InvalidDoNotDisruptAnnotation", text)
    ]


@pytest.mark.parametrize("managed", [False, True])
async def test_n15_212_a_wrong_cost_is_said_when_a_running_pod_gets_it(managed: bool) -> None:
    pods = pod("a", {COST: "5"}), pod("b", {})
    event = ("Pod", "a", "InvalidDisruptionCost", f"annotation {COST}=high {NUMBER}")
    assert await told(*pods, later=pod("a", {COST: "high"}), managed=managed) == [event]
    event = ("Pod", "b", "InvalidDisruptionCost", f"annotation {DELETION_COST}=high {NUMBER}")
    assert await told(*pods, later=pod("b", {DELETION_COST: "high"}), managed=managed) == ([] if managed else [event])


async def test_evt06_pods_that_ended_and_pods_of_other_nodes_are_left_alone() -> None:
    wrong = {COST: "much"}
    assert await told(pod("a", wrong, phase="Succeeded"), pod("b", wrong, node_name="of-another")) == []


async def test_evt06_a_start_looks_at_the_nodes_of_a_large_cluster_in_turns() -> None:
    cache, recorder = Cache(), Recorder()
    names = [f"n-{number:03}" for number in range(AT_ONCE + 1)]
    for name in names:
        cache.publish(claim(f"claim-{name}", node_name=name), node(name))
        record = pod(f"pod-{name}", {COST: "much"}, node_name=name)
        cache.pods.on_event(record.key, record)
    controller = PodAnnotationsController(recorder, cache)
    async with in_background(controller.run()):
        await asyncio.sleep(MOMENT)
        assert len(recorder.events) == AT_ONCE
        await asyncio.sleep(2 * controller.interval)
    assert sorted(event[1] for event in recorder.events) == [f"pod-{name}" for name in names]
