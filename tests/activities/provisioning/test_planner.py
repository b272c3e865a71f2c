"""One batch on a cluster in memory: what is written, what a retry and a second planner do, and what a plan answers."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from prometheus_client import REGISTRY
from temporalio.exceptions import ApplicationError

from tenon.apis import labels
from tenon.messages.explanation import Explanation
from tenon.messages.provisioning import AwaitBatchInput, PlanInput
from tests.activities.provisioning.fake_view import node_pool
from tests.activities.provisioning.setting import BATCH, Setting
from tests.tenon.scheduling.builders import asking, need, node, pod


async def test_pending_pods_become_a_claim_that_names_them() -> None:
    at = Setting(pod("a"), pod("b"))
    result = await at.planner.plan(BATCH)
    (body,) = at.kube.objects.values()
    assert result.claims == [body["metadata"]["name"]]
    assert (result.pods, result.unschedulable, result.placed_on_existing) == (2, 0, 0)
    assert result.price > 0
    assert body["metadata"]["labels"][labels.BATCH] == "41"
    assert body["metadata"]["annotations"][labels.PLANNED_PODS] == "default/a=uid-a,default/b=uid-b"
    assert body["metadata"]["ownerReferences"][0]["uid"] == "uid-default"


async def test_a_claim_says_why_it_is_bought() -> None:
    """The pods, the cheapest types, why the first of them was chosen, and the price."""
    at = Setting(*(pod(f"p{number}") for number in range(7)))
    result = await at.planner.plan(BATCH)
    (body,) = at.kube.objects.values()
    why = Explanation.of(body["metadata"]["annotations"][labels.EXPLANATION])
    assert why.purpose == why.pods == "7 pods: default/p0, default/p1, default/p2, default/p3, default/p4 and 2 more"
    cheapest = why.types.removeprefix("cheapest available types that fit: ").split(", ")[0]
    assert why.choice.startswith(f"{cheapest} in us-west-2")
    assert ": the cheapest of " in why.choice
    assert why.price.startswith(f"planned price: ${result.price:.4f} an hour ({cheapest}, us-west-2")


async def test_the_same_batch_gives_the_same_names() -> None:
    """Two processes that plan one batch at the same time write the same objects, not twice as many."""
    first, second = Setting(pod("a")), Setting(pod("a"))
    assert (await first.planner.plan(BATCH)).claims == (await second.planner.plan(BATCH)).claims


async def test_a_retry_finds_what_was_written_and_writes_nothing() -> None:
    """A worker that dies after the writes and before the answer must not buy twice."""
    at = Setting(pod("a"), follows=False)
    first = await at.planner.plan(BATCH)
    at.restart()
    at.view.add(pod("late"))
    again = await at.planner.plan(BATCH)
    assert again.claims == first.claims
    assert len(at.kube.objects) == 1


async def test_a_lost_race_for_a_batch_writes_nothing_even_if_the_first_claim_is_the_same() -> None:
    """Plans that begin alike may differ further on: the retry finds what the winner wrote."""
    at = Setting(pod("a"))
    first = await at.planner.plan(BATCH)
    (body,) = at.kube.objects.values()
    other = Setting(pod("a"), pod("b", cpu="30"))
    other.kube.objects[first.claims[0]] = body
    listed, other.kube.list = other.kube.list, _nothing_yet  # type: ignore[method-assign]
    with pytest.raises(ApplicationError, match="another planner works on this batch"):
        await other.planner.plan(BATCH)
    other.kube.list = listed  # type: ignore[method-assign]
    assert list(other.kube.objects) == first.claims
    assert (await other.planner.plan(BATCH)).claims == first.claims


async def test_a_plan_waits_for_one_that_was_given_up_and_still_writes() -> None:
    """An ended provisioner does not stop its plan: the next provisioner's must see what that one bought."""
    at = Setting(pod("a"))
    task = asyncio.create_task(at.planner.plan(BATCH))
    after = asyncio.create_task(at.planner.plan(BATCH.model_copy(update={"batch": BATCH.batch + 1})))
    first, second = await asyncio.gather(task, after)
    assert len(first.claims) == 1
    assert second.claims == []
    assert len(at.kube.objects) == 1


async def test_half_a_batch_written_leaves_the_other_half_for_the_next() -> None:
    """The API server fails between two writes: no pod is lost, none is bought for twice."""
    pools = [node_pool("left"), node_pool("right")]
    at = Setting(
        asking("l", need(labels.NODEPOOL, "In", "left")),
        asking("r", need(labels.NODEPOOL, "In", "right")),
    )
    at.view.pools = pools
    at.kube.refuse_after = 1
    begun = await at.planner.plan(BATCH)
    assert len(begun.claims) == 1
    at.kube.refuse_after = None
    at.restart()
    assert (await at.planner.plan(BATCH)).claims == begun.claims
    rest = await at.planner.plan(BATCH.model_copy(update={"batch": 42}))
    assert rest.pods == 1
    assert at.pools_used() == {"left", "right"}
    assert len(at.kube.objects) == 2


async def test_two_replicas_that_plan_one_batch_for_other_pods_do_not_mix() -> None:
    """The second stops at the first claim it finds, before it has written any."""
    others = [asking("l", need(labels.NODEPOOL, "In", "left")), asking("r", need(labels.NODEPOOL, "In", "right"))]
    first = Setting(pod("a"))
    await first.planner.plan(BATCH)
    second = Setting(pod("b"), *others)
    second.view.pools = [node_pool(), node_pool("left"), node_pool("right")]
    racing = second.kube
    listed, racing.list = racing.list, _nothing_yet  # type: ignore[method-assign]
    racing.objects = dict(first.kube.objects)
    with pytest.raises(ApplicationError, match="another planner"):
        await second.planner.plan(BATCH)
    racing.list = listed  # type: ignore[method-assign]
    assert racing.objects == first.kube.objects
    assert (await second.planner.plan(BATCH)).claims == list(first.kube.objects)


async def _nothing_yet(*_: object, **__: object) -> list[dict[str, Any]]:
    return []


async def test_decided_pods_are_not_planned_again() -> None:
    at = Setting(pod("a"))
    await at.planner.plan(BATCH)
    again = await at.planner.plan(PlanInput(cluster="c", batch=42))
    assert (again.pods, again.claims) == (0, [])


async def test_pods_on_existing_nodes_wait_for_kube_scheduler() -> None:
    """SCH-018: nominated for 20 s."""
    at = Setting(pod("a"))
    at.view.existing = [node("n1")]
    result = await at.planner.plan(BATCH)
    assert (result.claims, result.placed_on_existing) == ([], 1)
    at.now += timedelta(seconds=19)
    assert at.batcher.undecided() == []
    at.now += timedelta(seconds=2)
    assert len(at.batcher.undecided()) == 1


async def test_a_plan_names_the_pods_without_a_node_also_those_of_earlier_plans() -> None:
    """The page of the provisioner shows them. A pod that is gone is not named."""
    at = Setting(pod("huge", cpu="9000"), pod("vast", cpu="8000"))
    first = await at.planner.plan(BATCH)
    assert [(group.pods, group.has_place) for group in first.pending] == [
        (["default/vast"], False),
        (["default/huge"], False),
    ]
    at.view.pods = [pod("huge", cpu="9000"), pod("small")]
    second = await at.planner.plan(PlanInput(cluster="c", batch=42))
    lost, bought = second.pending
    assert lost.pods == ["default/huge"]
    assert "NodePool default: needs 9000 CPU" in lost.why
    (name,) = second.claims
    assert (bought.pods, bought.has_place, bought.claim) == (["default/small"], True, name)
    assert bought.why.startswith(f"{name} (")
    assert bought.why.endswith(") was created for it")


AT_ONCE = AwaitBatchInput(cluster="c", wait_seconds=0.0)


def counted(name: str) -> float | None:
    labels = {"controller": "provisioner"} if name == "unschedulable" else {}
    return REGISTRY.get_sample_value(f"karpenter_scheduler_{name}_pods_count", labels)


async def test_met04_a_pod_without_a_place_counts_until_it_is_gone() -> None:
    """Plans for other pods do not name it, and without another pod no plan follows."""
    huge = pod("huge", cpu="5000")
    at = Setting(huge)
    await at.planner.plan(BATCH)
    assert counted("unschedulable") == 1
    at.view.add(pod("small"))
    await at.planner.plan(PlanInput(cluster="c", batch=42))
    await at.batcher.await_batch(AT_ONCE)
    assert counted("unschedulable") == 1
    at.view.pods.remove(huge)
    await at.batcher.await_batch(AT_ONCE)
    assert counted("unschedulable") == 0


async def test_met04_a_new_leader_counts_none_of_an_earlier_time() -> None:
    at = Setting(pod("huge", cpu="5000"))
    await at.planner.plan(BATCH)
    at.view.pods.clear()
    at.restart()
    await at.batcher.await_batch(AT_ONCE)
    assert counted("unschedulable") == 0


async def test_met03_a_pod_that_is_left_out_counts_until_it_is_gone() -> None:
    at = Setting(replace(pod("broken"), unsupported="its claim is missing"))
    await at.planner.plan(BATCH)
    assert counted("ignored") == 1
    at.view.pods.clear()
    await at.batcher.await_batch(AT_ONCE)
    assert counted("ignored") == 0
