"""Which pods wait for a decision, and when a batch is complete; the loop's clock jumps instead of passing."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest

from activities.metrics import QUEUE_DEPTH
from activities.provisioning.batching import Batcher, BatchWindow
from tenon.messages.base import ActivityName
from tenon.messages.provisioning import AwaitBatchInput, BatchSummary
from tests.activities.provisioning.batch_window import KARPENTERS_WINDOW
from tests.activities.provisioning.fake_view import START, FakeView, loop_clock, node_pool
from tests.tenon.scheduling.builders import node, pod
from worker.settings.model import Settings
from workflows.options import OPTIONS

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

QUESTION = AwaitBatchInput(cluster="c", wait_seconds=600.0)


class Setting:
    """A view, its batcher, and the seconds since the test began."""

    def __init__(self, window: BatchWindow = KARPENTERS_WINDOW) -> None:
        self.view = FakeView()
        self.view.existing = [node("node-1"), node("node-2")]
        self.now = loop_clock()
        self.batcher = Batcher(self.view, self.now, window=window)

    def seconds(self) -> float:
        return (self.now() - START).total_seconds()

    def names(self) -> list[str]:
        return [result.name for result in self.batcher.undecided()]

    def later(self, seconds: float, *names: str) -> None:
        pods = [pod(name) for name in names]
        asyncio.get_running_loop().call_later(seconds, lambda: self.view.add(*pods))


async def test_a_batch_closes_when_no_new_pod_came_for_the_idle_time() -> None:
    """CTL-01: the window opens with the first pod and each new pod prolongs it by the idle time."""
    at = Setting()
    at.later(5.0, "a")
    at.later(5.6, "b")
    summary = await at.batcher.await_batch(QUESTION)
    assert summary.pods == 2
    assert summary.opened_at is not None
    assert (summary.opened_at - START).total_seconds() == pytest.approx(5.0)
    assert at.seconds() == pytest.approx(6.6)


async def test_a_stream_of_pods_is_cut_at_the_longest_window() -> None:
    at = Setting()
    for number in range(60):
        at.later(number * 0.5, f"p{number}")
    summary = await at.batcher.await_batch(QUESTION)
    assert at.seconds() == pytest.approx(10.0)
    assert summary.pods == pytest.approx(20, abs=1)


async def test_other_changes_do_not_prolong_the_window() -> None:
    """A busy cluster without new pods must not hold a batch up."""
    at = Setting()
    at.view.add(pod("a"))
    for number in range(30):
        asyncio.get_running_loop().call_later(number * 0.3, at.view.publish)
    await at.batcher.await_batch(QUESTION)
    assert at.seconds() == pytest.approx(1.0)


async def test_a_quiet_wait_ends_with_nothing() -> None:
    at = Setting()
    assert await at.batcher.await_batch(QUESTION) == BatchSummary()
    assert at.seconds() == pytest.approx(600.0)


async def test_no_batch_opens_before_the_cache_is_whole() -> None:
    """Half a picture of the cluster would buy nodes that exist."""
    at = Setting()
    at.view.wait_complete = False
    at.view.add(pod("a"))

    def whole() -> None:
        at.view.wait_complete = True
        at.view.publish()

    asyncio.get_running_loop().call_later(7.0, whole)
    await at.batcher.await_batch(QUESTION)
    assert at.seconds() == pytest.approx(8.0)


async def test_pods_that_vanish_within_the_window_leave_an_empty_batch() -> None:
    at = Setting()
    at.view.add(pod("a"))
    asyncio.get_running_loop().call_later(0.5, at.view.pods.clear)
    assert (await at.batcher.await_batch(QUESTION)).pods == 0


async def test_pods_of_a_starting_claim_are_decided_until_the_claim_leaves() -> None:
    at = Setting()
    at.view.add(pod("a"), pod("b"))
    at.view.claim("default-x", "uid-a")
    assert at.names() == ["b"]
    at.view.claim("default-x", "uid-a", leaving=True)
    assert at.names() == ["a", "b"]
    at.view.claim("default-x", "uid-a")
    at.view.without("default-x")
    assert at.names() == ["a", "b"]


async def test_a_failed_claim_opens_the_next_batch_at_once() -> None:
    """A launch without capacity must not cost its pods more than the batch window."""
    at = Setting()
    at.view.add(pod("a"))
    at.view.claim("default-x", "uid-a")
    at.batcher.record_bought(["uid-a"])
    asyncio.get_running_loop().call_later(40.0, at.view.without, "default-x")
    assert (await at.batcher.await_batch(QUESTION)).pods == 1
    assert at.seconds() == pytest.approx(41.0)


async def test_waiting_for_a_starting_node_is_no_polling() -> None:
    """While nodes start, thousands of pods are decided: looking at them all again and again would eat the worker."""
    at = Setting()
    at.view.add(pod("a"))
    at.view.claim("default-x", "uid-a")
    at.batcher.record_bought(["uid-a"])
    await at.batcher.await_batch(QUESTION)
    assert at.view.waits <= 600 / 60 + 2


async def test_an_initialized_claim_answers_for_its_pods_a_little_longer() -> None:
    """SCH-018: kube-scheduler has 20 s to bind; a pod that it left pending is then planned afresh."""
    at = Setting()
    at.view.add(pod("a"))
    at.view.claim("default-x", "uid-a", initialized_at=START)
    await asyncio.sleep(19.0)
    assert at.names() == []
    await asyncio.sleep(2.0)
    assert at.names() == ["a"]


@pytest.mark.parametrize(("taint", "covered"), [("", 20.0), ("node.cilium.io/agent-not-ready", 300.0)])
async def test_sch018_a_pod_that_lost_its_room_opens_a_batch_when_its_claim_covers_it_no_longer(
    taint: str, covered: float
) -> None:
    """Nothing changes in the cluster at that moment, so the wait must end by itself."""
    at = Setting()
    at.view.add(pod("a"))
    at.view.claim("default-x", "uid-a")
    at.view.tainted["default-x"] = taint
    at.batcher.record_bought(["uid-a"])
    initialized_at = START + timedelta(seconds=30.0)
    asyncio.get_running_loop().call_later(
        30.0, lambda: at.view.claim("default-x", "uid-a", initialized_at=initialized_at)
    )
    assert (await at.batcher.await_batch(QUESTION)).pods == 1
    assert at.seconds() == pytest.approx(30.0 + covered + 1.0, abs=0.2)


async def test_nominated_pods_are_asked_again_after_twenty_seconds() -> None:
    """SCH-018."""
    at = Setting()
    at.view.add(pod("a"))
    at.batcher.record_nominated({"node-1": [pod("a")]})
    assert at.batcher.reserved() == {"node-1": [pod("a")]}
    assert (await at.batcher.await_batch(QUESTION)).pods == 1
    assert at.seconds() == pytest.approx(21.0)


async def test_a_promise_outlasts_the_longest_batch_that_renews_it() -> None:
    """DIS-10: or the node would count as empty between two plans."""
    at = Setting(BatchWindow(60.0, 60.0))
    at.view.add(pod("a"))
    at.batcher.record_nominated({"node-1": [pod("a")]})
    await at.batcher.await_batch(QUESTION)
    assert at.seconds() == pytest.approx(80.0)
    assert at.batcher.nominated_nodes() == {"node-1"}
    await asyncio.sleep(29.0)
    assert at.batcher.nominated_nodes() == {"node-1"}
    await asyncio.sleep(2.0)
    assert at.batcher.nominated_nodes() == set(), "nobody plans: it may go"


async def test_a_new_answer_ends_a_promise() -> None:
    at = Setting()
    at.view.add(pod("a"), pod("b"))
    at.batcher.record_nominated({"node-1": [pod("a"), pod("b")], "node-3": []})
    at.batcher.record_nominated({"node-2": [pod("a")]})
    at.batcher.record_bought(["uid-b"])
    assert at.batcher.nominated_nodes() == {"node-2"}


async def test_bought_pods_are_left_alone_until_the_cache_shows_their_claim() -> None:
    at = Setting()
    at.view.add(pod("a"))
    at.batcher.record_bought(["uid-a"])
    assert at.names() == []
    await asyncio.sleep(2.1)
    assert at.names() == ["a"]


async def test_unschedulable_pods_come_back_later_and_later() -> None:
    at = Setting()
    at.view.add(pod("a"))
    pauses = []
    for _ in range(8):
        at.batcher.record_unschedulable([pod("a")], at.view.fingerprint())
        before = at.seconds()
        await at.batcher.await_batch(QUESTION)
        pauses.append(at.seconds() - before - 1.0)
    assert pauses == pytest.approx([10, 20, 40, 60, 60, 60, 60, 60], abs=0.1)


async def test_unschedulable_pods_come_back_when_an_offering_may_be_bought_again() -> None:
    """What EC2 refused is avoided for minutes; a pod that only it would hold is asked for when that time is over."""
    at = Setting()
    at.view.add(pod("a"))
    for _ in range(6):
        at.batcher.record_unschedulable([pod("a")], at.view.fingerprint(), START + timedelta(seconds=25))
    assert (await at.batcher.await_batch(QUESTION)).pods == 1
    assert at.seconds() == pytest.approx(26.0)
    at.batcher.record_unschedulable([pod("a")], at.view.fingerprint(), at.now() + timedelta(seconds=1))
    await at.batcher.await_batch(QUESTION)
    assert at.seconds() == pytest.approx(26.0 + 10.0 + 1.0), "many refusals must not make it plan without pause"


async def test_unschedulable_pods_come_back_at_once_when_pools_change() -> None:
    """An operator who mends a NodePool does not wait for a back-off."""
    at = Setting()
    at.view.add(pod("a"))
    for _ in range(6):
        at.batcher.record_unschedulable([pod("a")], at.view.fingerprint())

    def mended() -> None:
        at.view.pools = [node_pool(generation=2)]
        at.view.publish()

    asyncio.get_running_loop().call_later(30.0, mended)
    assert (await at.batcher.await_batch(QUESTION)).pods == 1
    assert at.seconds() == pytest.approx(31.0)


async def test_unschedulable_pods_come_back_at_once_when_their_volumes_change() -> None:
    """A claim that is made at last, or bound, is news of its pods alone."""
    at = Setting()
    lost = pod("a", unsupported="its volume claim default/a does not exist: create it")
    at.view.add(lost, pod("b"))
    for _ in range(6):
        at.batcher.record_unschedulable([lost, pod("b")], at.view.fingerprint())

    def mended() -> None:
        at.view.pods = [pod("a"), pod("b")]
        at.view.publish()

    asyncio.get_running_loop().call_later(30.0, mended)
    assert (await at.batcher.await_batch(QUESTION)).pods == 1
    assert at.seconds() == pytest.approx(31.0)
    assert at.names() == ["a"]


async def test_a_change_during_the_solve_is_not_missed() -> None:
    """The verdict speaks of the pools as they were read, not as they are when it is written down."""
    at = Setting()
    at.view.add(pod("a"))
    read = at.view.fingerprint()
    at.view.pools = [node_pool(generation=2)]
    at.batcher.record_unschedulable([pod("a")], read)
    assert at.names() == ["a"]


async def test_what_was_said_of_a_pod_is_forgotten_once_it_no_longer_waits() -> None:
    at = Setting()
    at.view.add(pod("a"))
    at.batcher.record_unschedulable([pod("a")], at.view.fingerprint())
    at.view.pods.clear()
    assert at.names() == []
    at.view.add(pod("a"))
    assert at.names() == ["a"]


async def test_set01_set02_the_window_is_that_of_the_process_which_collects() -> None:
    """The workflow that asks is begun once. A worker that is begun with other settings acts on them."""
    at = Setting(BatchWindow(idle=3.0, longest=2.0))
    at.view.add(pod("a"))
    await at.batcher.await_batch(QUESTION)
    assert at.now() - START == timedelta(seconds=2.0)
    again = Batcher(at.view, at.now, window=BatchWindow(idle=30.0, longest=60.0))
    await again.await_batch(QUESTION)
    assert at.now() - START == timedelta(seconds=32.0)


@pytest.mark.parametrize("arrival", [0, 349, 351, 599])
async def test_set01_the_longest_batch_closes_before_its_activity_times_out(arrival: float) -> None:
    """A batch that Temporal cuts off would start again from its beginning."""
    longest = Settings(
        cluster_name="c", batch_max_duration=timedelta(minutes=5), batch_idle_duration=timedelta(minutes=5)
    )
    at = Setting(BatchWindow(longest.batch_idle_duration.total_seconds(), longest.batch_max_duration.total_seconds()))
    at.later(arrival, "a")
    timeout = OPTIONS[ActivityName.AWAIT_BATCH].try_for.total_seconds()
    pods, begun = 0, 0.0
    while not pods:
        pods = (await at.batcher.await_batch(QUESTION)).pods
        assert at.seconds() - begun < timeout
        begun = at.seconds()
    assert at.seconds() == pytest.approx(arrival + 300)


async def test_met02_the_queue_is_empty_while_no_pod_waits_for_a_decision() -> None:
    """A plan of pods that are gone, or that were planned before, decides nothing."""
    at = Setting()
    at.view.add(pod("a"))
    await at.batcher.await_batch(QUESTION)
    depth = QUEUE_DEPTH.labels("provisioner")._value
    assert depth.get() == 1
    at.view.pods.clear()
    await at.batcher.await_batch(QUESTION)
    assert depth.get() == 0


async def test_a_pod_that_waits_for_weeks_is_still_asked_for() -> None:
    """Pauses stop growing before no number holds them."""
    view, now = FakeView(), START
    batcher = Batcher(view, lambda: now, window=KARPENTERS_WINDOW)
    view.pods = [pod("never"), pod("leaves", node_name="n")]
    view.existing = [node("n2")]
    for _ in range(200):
        assert len(batcher.undecided()) == 2
        batcher.record_unschedulable(view.pods[:1], view.fingerprint())
        batcher.record_nominated({"n2": view.pods[1:]})
        now += timedelta(minutes=6)
