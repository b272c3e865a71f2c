"""A plan never buys twice because the cache is behind the API server."""

from __future__ import annotations

import pytest
from temporalio.exceptions import ApplicationError

from tenon.apis import labels
from tenon.messages.provisioning import PlanInput
from tests.activities.provisioning.setting import BATCH, Setting
from tests.tenon.scheduling.builders import pod


async def test_a_plan_on_a_cache_behind_the_last_one_catches_up_first() -> None:
    """A plan on a stale cache would buy for the same pods again."""
    at = Setting(pod("a"), follows=False)
    last = await at.planner.plan(BATCH)
    at.restart()
    at.view.on_catch_up = lambda: at.view.claim(last.claims[0], "uid-a")
    after = await at.planner.plan(PlanInput(cluster="c", batch=42))
    assert (after.pods, after.claims) == (0, [])
    assert [set(names) for names in at.view.behind] == [set(last.claims)]
    assert len(at.kube.objects) == 1


async def test_claims_without_an_event_are_still_found() -> None:
    """The last plan may have been another replica's, ended by a kill before it could answer."""
    at = Setting(pod("a"), follows=False)
    lost = await at.planner.plan(BATCH)
    at.restart()
    at.view.known_batch = 40
    at.view.on_catch_up = lambda: at.view.claim(lost.claims[0], "uid-a")
    after = await at.planner.plan(PlanInput(cluster="c", batch=42))
    assert after.claims == []
    assert len(at.kube.objects) == 1
    assert at.kube.requests[-1] == 39, "no more is read than what may be missing"


async def test_a_cache_that_cannot_be_reread_makes_the_plan_retry() -> None:
    def silent() -> None:
        raise TimeoutError

    at = Setting(pod("a"), follows=False)
    await at.planner.plan(BATCH)
    at.restart()
    at.view.on_catch_up = silent
    with pytest.raises(ApplicationError, match="behind") as refused:
        await at.planner.plan(PlanInput(cluster="c", batch=42))
    assert (refused.value.type, refused.value.non_retryable) == ("CacheBehind", False)
    assert len(at.kube.objects) == 1


async def test_a_claim_that_is_gone_after_the_cache_was_reread_delays_nothing() -> None:
    """Plans go on; what the claim was for is bought again."""
    at = Setting(pod("a"), follows=False)
    await at.planner.plan(BATCH)
    at.restart()
    assert (await at.planner.plan(PlanInput(cluster="c", batch=42))).pods == 1


async def test_nothing_is_bought_for_pods_that_a_quiet_watch_shows_as_pending() -> None:
    """They were bound meanwhile; the first pass is a guess, the second is the truth."""
    at = Setting(pod("a"), pod("b", cpu="8"))

    def read_anew() -> bool:
        at.view.pods = [pod for pod in at.view.pods if pod.name == "b"]
        return True

    at.view.on_confirm = read_anew
    result = await at.planner.plan(BATCH)
    (body,) = at.kube.objects.values()
    assert result.pods == 1
    assert body["metadata"]["annotations"][labels.PLANNED_PODS] == "default/b=uid-b"


async def test_pods_are_not_read_again_for_a_plan_that_buys_nothing() -> None:
    at = Setting(pod("huge", cpu="5000"))
    requests: list[bool] = []
    at.view.on_confirm = lambda: requests.append(True) or False  # type: ignore[func-returns-value]
    await at.planner.plan(BATCH)
    assert requests == []


async def test_an_unsynced_cache_is_refused_for_a_retry() -> None:
    """A plan on half a picture would buy nodes that exist."""
    at = Setting(pod("a"))
    at.view.wait_complete = False
    with pytest.raises(ApplicationError) as refused:
        await at.planner.plan(BATCH)
    assert (refused.value.type, refused.value.non_retryable) == ("CacheBehind", False)
    assert at.kube.objects == {}
