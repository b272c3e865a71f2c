"""How often a cluster is looked at that changes all the time; the loop's clock jumps instead of passing."""

from __future__ import annotations

import asyncio

import pytest

from activities.cluster_view.pacing import MAX_PAUSE, NEGLIGIBLE, SHARE, Pace
from activities.disruption.disrupting import POLL_SECONDS
from tests.activities.disruption.disruption_setting import QUESTION, Setting, managed

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


async def pause_after(took: float, *, least: float = 0.0, at_most: float = 60.0) -> float:
    """The seconds until the next pass, after one that took so many seconds of a core."""
    times = [0.0, took]
    pace = Pace(least, lambda: times.pop(0))
    with pace.measure():
        pass
    began = asyncio.get_running_loop().time()
    await pace.wait(at_most)
    return asyncio.get_running_loop().time() - began


async def test_expensive_passes_are_delayed_and_cheap_ones_are_not() -> None:
    assert await pause_after(NEGLIGIBLE) == pytest.approx(0.0)
    assert await pause_after(0.02) == pytest.approx(0.02 / SHARE)
    assert await pause_after(3.0) == pytest.approx(MAX_PAUSE)
    assert await pause_after(3.0, at_most=0.3) == pytest.approx(0.3)
    assert await pause_after(0.0, least=1.0) == pytest.approx(1.0)


async def test_an_evaluator_may_have_a_share_and_a_longest_pause_of_its_own() -> None:
    times = [0.0, 0.02, 0.02, 3.0]
    pace = Pace(computed=lambda: times.pop(0), share=0.01, longest=5.0)
    for pause in (2.0, 5.0):
        with pace.measure():
            pass
        began = asyncio.get_running_loop().time()
        await pace.wait(60.0)
        assert asyncio.get_running_loop().time() - began == pytest.approx(pause)


async def test_disruption_looks_once_a_second_at_a_cluster_that_changes_all_the_time() -> None:
    """17 Nodes and 200 pods a second change in a large cluster: without a pause it computes for nothing else."""
    at = Setting(managed("busy", empty=False))
    looks = []
    nodes = at.view.managed_nodes

    def counted() -> object:
        looks.append(at.seconds())
        return nodes()

    at.view.managed_nodes = counted  # type: ignore[method-assign, assignment]
    for number in range(1000):
        asyncio.get_running_loop().call_later(number * 0.01, at.view.publish)
    await at.disruptor.await_candidates(QUESTION.model_copy(update={"wait_seconds": 10.0}))
    assert len(looks) <= 10.0 / POLL_SECONDS + 2
