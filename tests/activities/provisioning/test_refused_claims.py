"""NodeClaims that the API server does not take: the others are bought, and people are told why."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from temporalio.exceptions import ApplicationError

from activities.kubernetes.errors import ApiError, ApiUnreachableError, ForbiddenError
from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.provisioning.claims import claim_name
from tests.activities.provisioning.fake_view import node_pool
from tests.activities.provisioning.setting import BATCH, Setting
from tests.tenon.scheduling.builders import asking, need, pod

WHY = 'ValidatingAdmissionPolicy "no-gold" denied request: gold is closed'
POOLS = ("gold", "iron", "zinc")
Answer = Callable[[dict[str, Any]], ApiError | None]


def at_pools(*pods: Pod) -> Setting:
    """A planner with three pools; each pod is of the pool that it is named after."""
    pools = pods or tuple(of_pool(name) for name in POOLS)
    at = Setting(*pools)
    at.view.pools = [node_pool(name) for name in POOLS]
    return at


def of_pool(pool: str, suffix: str = "") -> Pod:
    return asking(f"{pool}{suffix}", need(labels.NODEPOOL, "In", pool))


def refusing(error: ApiError, *pools: str) -> Answer:
    """Answers for the NodeClaims of these pools with an error."""
    return lambda body: error if body["metadata"]["labels"][labels.NODEPOOL] in pools else None


@pytest.mark.parametrize("pool", POOLS)
@pytest.mark.parametrize("status", [400, 403, 422])
async def test_a_refused_claim_does_not_stop_the_others_of_its_batch(pool: str, status: int) -> None:
    """Whichever comes first in the plan."""
    at = at_pools()
    at.kube.answer = refusing(ApiError(status, "Refused", WHY), pool)
    result = await at.planner.plan(BATCH)
    assert at.pools_used() == set(POOLS) - {pool}
    assert (len(result.claims), result.refused, result.unschedulable) == (2, 1, 1)
    messages = {(kind, name, reason): message for kind, name, reason, message in at.recorder.events}
    assert f"NodePool {pool}" in messages["Pod", pool, "FailedScheduling"]
    assert WHY in messages["Pod", pool, "FailedScheduling"]
    assert WHY in messages["NodePool", pool, "FailedCreate"]
    assert len([name for name in at.kube.tries if name.startswith(pool)]) == 1, "it is not repeated"


async def test_only_claims_that_were_written_are_logged_as_created(caplog: pytest.LogCaptureFixture) -> None:
    """With the name under which each was written."""
    caplog.set_level(logging.INFO, logger="controller.provisioner")
    at = at_pools()
    occupancy = claim_name("zinc", BATCH.batch, 2)
    at.kube.objects[occupancy] = {"metadata": {"name": occupancy, "labels": {}, "annotations": {}}}
    at.kube.answer = refusing(ForbiddenError(403, "Forbidden", WHY), "gold")
    result = await at.planner.plan(BATCH)
    created = [vars(record) for record in caplog.records if record.message == "The provisioner created a NodeClaim"]
    assert sorted(fields["nodeclaim"] for fields in created) == sorted(result.claims)
    assert {(fields["nodepool"], fields["pod-count"]) for fields in created} == {("iron", 1), ("zinc", 1)}


async def test_pods_of_a_refused_claim_wait_longer_and_longer() -> None:
    at = at_pools()
    at.kube.answer = refusing(ForbiddenError(403, "Forbidden", WHY), "gold")
    for batch, pause in enumerate((10, 20, 40)):
        await at.planner.plan(BATCH.model_copy(update={"batch": BATCH.batch + batch}))
        at.now += timedelta(seconds=pause - 1)
        assert at.batcher.undecided() == []
        at.now += timedelta(seconds=2)
        assert [result.name for result in at.batcher.undecided()] == ["gold"]


async def test_a_changed_pool_is_asked_again_at_once() -> None:
    at = at_pools()
    at.kube.answer = refusing(ForbiddenError(403, "Forbidden", WHY), "gold")
    await at.planner.plan(BATCH)
    assert at.batcher.undecided() == []
    at.view.pools = [node_pool("gold", generation=2), *at.view.pools[1:]]
    assert [result.name for result in at.batcher.undecided()] == ["gold"]


async def test_a_pool_that_is_changed_while_its_claims_are_refused_is_asked_again_at_once() -> None:
    """The API server refused what the plan made of the pool before."""
    at = at_pools()

    def refuses(body: dict[str, Any]) -> ApiError | None:
        if body["metadata"]["labels"][labels.NODEPOOL] != "gold":
            return None
        at.view.pools = [node_pool("gold", generation=2), *at.view.pools[1:]]
        return ForbiddenError(403, "Forbidden", WHY)

    at.kube.answer = refuses
    await at.planner.plan(BATCH)
    assert [result.name for result in at.batcher.undecided()] == ["gold"]


async def test_what_fails_by_chance_is_repeated_in_the_same_plan() -> None:
    at = at_pools()
    failures = [ApiError(500, "InternalError", "etcd changed its leader") for _ in range(2)]
    at.kube.answer = lambda _: failures.pop() if failures else None
    assert len((await at.planner.plan(BATCH)).claims) == 3


async def test_what_fails_by_chance_again_and_again_is_of_the_next_batch() -> None:
    at = at_pools()
    at.kube.answer = refusing(ApiError(500, "InternalError", "the webhook timed out"), "gold")
    result = await at.planner.plan(BATCH)
    assert (len(result.claims), result.refused) == (2, 0)
    assert [result.name for result in at.batcher.undecided()] == ["gold"]
    at.kube.answer = lambda _: None
    after = await at.planner.plan(BATCH.model_copy(update={"batch": 42}))
    assert (after.pods, len(after.claims)) == (1, 1)
    assert len(at.kube.objects) == 3


async def test_an_api_server_that_is_away_leaves_the_batch_for_a_retry() -> None:
    at = at_pools()
    at.kube.answer = lambda _: ApiUnreachableError("https://api", "connection refused")
    with pytest.raises(ApiUnreachableError):
        await at.planner.plan(BATCH)
    assert len(at.kube.tries) == 3, "the others would fail in the same way"
    assert {name for _, name, reason, _ in at.recorder.events if reason == "FailedScheduling"} == set(POOLS)
    assert all("connection refused" in message for *_, message in at.recorder.events)
    at.kube.answer = lambda _: None
    assert len((await at.planner.plan(BATCH)).claims) == 3


async def test_an_answer_that_is_lost_buys_nothing_twice() -> None:
    """The first claim was written although the request failed: the retry of the batch finds it."""
    at = at_pools()
    lost = [ApiError(504, "Timeout", "no answer")]

    def after_effect(body: dict[str, Any]) -> ApiError | None:
        if not lost:
            return None
        at.kube.objects[body["metadata"]["name"]] = body
        return lost.pop()

    at.kube.answer = after_effect
    with pytest.raises(ApplicationError, match="another planner"):
        await at.planner.plan(BATCH)
    again = await at.planner.plan(BATCH)
    assert again.claims == list(at.kube.objects)
    assert len(again.claims) == 1


@pytest.mark.parametrize("ordinal", [0, 1, 2])
async def test_a_name_that_another_object_has_is_passed_over(ordinal: int) -> None:
    at = at_pools()
    occupancy = claim_name(POOLS[ordinal], BATCH.batch, ordinal)
    foreign = {"metadata": {"name": occupancy, "labels": {}, "annotations": {}}}
    at.kube.objects[occupancy] = foreign
    result = await at.planner.plan(BATCH)
    assert len(result.claims) == 3
    assert result.claims[ordinal] == claim_name(POOLS[ordinal], BATCH.batch, ordinal, 1)
    assert at.kube.objects[occupancy] is foreign
    at.restart()
    assert (await at.planner.plan(BATCH)).claims == sorted(result.claims), "a retry finds them by their label"


async def test_two_planners_of_a_batch_notice_each_other_across_different_pools() -> None:
    """One sees gold's pod only, the other iron's; gold is refused to the first, so no name is the same."""
    first = at_pools(of_pool("gold"), of_pool("zinc"))
    first.kube.answer = refusing(ForbiddenError(403, "Forbidden", WHY), "gold")
    await first.planner.plan(BATCH)
    second = at_pools(of_pool("iron"), of_pool("zinc"))
    second.kube.objects = first.kube.objects
    listed = second.kube.list
    calls: list[str] = []

    async def late(*value: Any, **more: Any) -> list[dict[str, Any]]:
        """The first list, by which a written batch is found, comes too early."""
        calls.append("list")
        return await listed(*value, **more) if len(calls) > 1 else []

    second.kube.list = late  # type: ignore[method-assign]
    with pytest.raises(ApplicationError, match="another planner works on this batch"):
        await second.planner.plan(BATCH)
    assert first.pools_used() == {"zinc"}
    assert len(second.kube.objects) == 1, "it took back what it had written"


async def test_pods_that_shared_a_node_with_the_cause_are_planned_without_it() -> None:
    """A policy refuses what one pod asks for; the others were to be on its node, and would be again and again."""
    at = Setting(pod("a"), pod("b"), asking("cause", need("team", "In", "gold")))
    at.view.pools = [node_pool(edits={"template/spec/requirements": [{"key": "team", "operator": "Exists"}]})]
    error = ForbiddenError(403, "Forbidden", WHY)
    at.kube.answer = lambda body: error if body["metadata"]["labels"].get("team") == "gold" else None
    assert (await at.planner.plan(BATCH)).claims == []
    for batch in range(1, 30):
        at.now += timedelta(seconds=1)
        if at.batcher.undecided():
            await at.planner.plan(BATCH.model_copy(update={"batch": BATCH.batch + batch}))
    (body,) = at.kube.objects.values()
    assert body["metadata"]["annotations"][labels.PLANNED_PODS] == "default/a=uid-a,default/b=uid-b"
