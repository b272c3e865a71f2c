"""Days and weeks of a node's life in seconds: a real Temporal server skips the waits, activities are played.

A played drain knows the time that the workflow lives in from the instant at which the server scheduled it.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from temporalio import activity
from temporalio.api.enums.v1 import EventType
from temporalio.client import Client
from temporalio.testing import WorkflowEnvironment

from tenon.messages.base import ActivityName
from tenon.messages.launch import (
    LaunchInput,
    LaunchResult,
    LaunchWait,
    PrepareLaunchInput,
    PrepareLaunchResult,
)
from tenon.messages.node import Disrupt, Keep, Poke
from tenon.node import leaving_stages
from tenon.node.expiration import EXPIRY_WAITS
from tenon.node.launch_retry import should_give_up
from tenon.node.state import NodeState, Stage
from tenon.node.timeline import why_blocked
from tests.workflows.fake_activities import FakeWorld
from tests.workflows.guarded_node import BUDGET, Guarded, state_of
from tests.workflows.node_workflow import Handle, at, called, called_times, live, newest, node, waits_for_budgets
from tests.workflows.waiting import until
from workflows.nodeclaim import NodeClaimWorkflow

pytestmark = pytest.mark.integration

DAY = timedelta(days=1)
TIMER_STARTED = EventType.EVENT_TYPE_TIMER_STARTED
SIGNALS, AT_ONCE = 2000, 200
"""Enough for a run to continue as new, and how many of them a server on a busy machine answers in time."""


def line(state: NodeState, text: str) -> datetime:
    """When the timeline says this."""
    return next(entry.at for entry in state.timeline if text in entry.text)


async def recorded(handle: Handle, instant: datetime) -> bool:
    state = await state_of(handle)
    return state.keep_until == instant and state.keep_recorded


async def test_a_node_expires_after_thirty_days_and_not_before(temporal: WorkflowEnvironment, cluster: str) -> None:
    """DIS-80: at creation + expireAfter, to the second."""
    world = FakeWorld(expire_after_seconds=30 * DAY.total_seconds())
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        assert await temporal.fast_forward(handle, 29 * DAY)
        assert await at(newest(temporal.client, cluster), Stage.LIVE)
        await temporal.fast_forward(newest(temporal.client, cluster), 2 * DAY)
        life = await handle.result()
    assert life.reason == "expired"
    timeline = next(entry.at for entry in life.timeline if entry.text.startswith("leaving: Expired"))
    assert world.view.created_at is not None
    late = timeline - (world.view.created_at + 30 * DAY)
    assert timedelta() <= late < timedelta(minutes=1)


async def test_wsh28_an_expired_node_waits_for_the_budgets_until_a_command_comes(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """It asks every ten minutes, which leaves no history behind, and is no node that a person must look at."""
    world = FakeWorld(expire_after_seconds=DAY.total_seconds())
    world.expired_waits = True
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await temporal.fast_forward(handle, DAY)
        await until(lambda: called(world, "check expiration"))
        await temporal.fast_forward(newest(temporal.client, cluster), timedelta(minutes=11))
        await until(lambda: called_times(world, "check expiration", 2))
        waits = newest(temporal.client, cluster)
        await until(lambda: waits_for_budgets(waits))
        assert (await state_of(waits)).blocked is None
        assert (await waits.describe()).history_length < 20
        answer = await waits.execute_update(NodeClaimWorkflow.disrupt, Disrupt(command="e1", reason="expired"))
        assert answer.accepted
        life = await handle.result()
    assert life.reason == "expired"
    assert [line.text for line in life.timeline].count(EXPIRY_WAITS) == 1


async def test_wsh28_a_node_leaves_once_its_pool_no_longer_makes_it_wait(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    world = FakeWorld(expire_after_seconds=DAY.total_seconds())
    world.expired_waits = True
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await temporal.fast_forward(handle, DAY)
        await until(lambda: called(world, "check expiration"))
        world.expired_waits = False
        await temporal.fast_forward(newest(temporal.client, cluster), timedelta(minutes=11))
        life = await handle.result()
    assert life.reason == "expired"


async def test_a_kept_node_outlives_its_expiry_until_the_wish_is_over(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """A keep beyond the expiry counts instead of it; a second one replaces the first, earlier or later."""
    world = FakeWorld(expire_after_seconds=30 * DAY.total_seconds())
    began = datetime.now(UTC)

    async def kept(instant: datetime) -> bool:
        return await recorded(newest(temporal.client, cluster), instant)

    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        for days in (60, 45):
            await handle.signal(NodeClaimWorkflow.keep, Keep(until=began + days * DAY))
            await until(partial(kept, began + days * DAY))
        assert await temporal.fast_forward(newest(temporal.client, cluster), 44 * DAY)
        assert await at(newest(temporal.client, cluster), Stage.LIVE)
        await temporal.fast_forward(newest(temporal.client, cluster), 2 * DAY)
        life = await handle.result()
    assert life.reason == "expired"
    timeline = next(entry.at for entry in life.timeline if entry.text.startswith("leaving: Expired"))
    assert timedelta() <= timeline - (began + 45 * DAY) < timedelta(minutes=1)


def rarely(monkeypatch: pytest.MonkeyPatch, pause: timedelta) -> None:
    """Blocked nodes are tried again so rarely that weeks take few tries: each wait that is skipped costs a second."""
    monkeypatch.setattr(leaving_stages, "BLOCKED_RETRY", pause)
    monkeypatch.setattr(leaving_stages, "MAX_BLOCKED_RETRY", pause)


async def test_two_days_of_grace_for_a_drain_that_a_budget_blocks(
    temporal: WorkflowEnvironment, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRM-06: the budget holds for 48 hours, is named all the while, and then the node goes all the same."""
    rarely(monkeypatch, timedelta(hours=7))
    world = Guarded(grace=2 * DAY)
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.signal(NodeClaimWorkflow.drain)
        await until(lambda: at(newest(temporal.client, cluster), Stage.DRAINING))
        assert await temporal.fast_forward(newest(temporal.client, cluster), 1.9 * DAY)
        blocked = await state_of(newest(temporal.client, cluster))
        assert (blocked.stage, why_blocked(blocked)) == (Stage.DRAINING, BUDGET)
        await temporal.fast_forward(newest(temporal.client, cluster), DAY)
        life = await handle.result()
    assert life.reason == "drain"
    assert blocked.force_at is not None
    lateness = world.tries[-1] - blocked.force_at
    assert timedelta(minutes=-2) <= lateness <= timedelta(minutes=5)
    assert life.pods_evicted == 1


async def test_a_drain_blocked_for_twenty_days_keeps_its_history_small(
    temporal: WorkflowEnvironment, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TRM-05: the run is folded up though nothing ends; the next one knows all, and goes once the budget gives way."""
    rarely(monkeypatch, 2 * DAY)
    world = Guarded()
    async with node(temporal, cluster, world, skip_time=False):
        handle = await live(temporal.client, cluster)
        await handle.signal(NodeClaimWorkflow.drain)
        assert await temporal.fast_forward(newest(temporal.client, cluster), 10 * DAY)
        before = await newest(temporal.client, cluster).describe()
        for _ in range(SIGNALS // AT_ONCE):
            run = newest(temporal.client, cluster)
            await asyncio.gather(*(run.signal(NodeClaimWorkflow.poke, Poke(reason="flaps")) for _ in range(AT_ONCE)))
        await until(lambda: another_run_waits(temporal.client, cluster, before.run_id))
        assert await temporal.fast_forward(newest(temporal.client, cluster), 10 * DAY)
        after = await newest(temporal.client, cluster).describe()
        state = await state_of(newest(temporal.client, cluster))
        assert after.history_length < 300
        assert (state.stage, why_blocked(state)) == (Stage.DRAINING, BUDGET)
        assert state.drain_rounds == len(world.tries) >= 10
        assert line(state, "leaving: Drain") < line(state, BUDGET)
        world.relaxed = True
        await temporal.fast_forward(newest(temporal.client, cluster), 3 * DAY)
        life = await handle.result()
    assert life.reason == "drain"
    assert world.tries[-1] - world.tries[0] >= 20 * DAY


async def another_run_waits(client: Client, cluster: str, run_id: str) -> bool:
    """Whether another run waits for days for its next drain, and has handled all signals.

    The server skips ten days at once if the run has no timer: before its first workflow task, which comes a second
    after its start, and when the timer of its first wait ends, which are the few seconds that the earlier run had left.
    On a busy machine the second run may have so many of the signals that it continues as new too.
    """
    run = await newest(client, cluster).describe()
    if run.run_id == run_id or run.raw_description.HasField("pending_workflow_task"):
        return False
    history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
    timers = [event.timer_started_event_attributes for event in history.events if event.event_type == TIMER_STARTED]
    return bool(timers) and timers[-1].start_to_fire_timeout.ToTimedelta() > DAY


async def test_a_node_that_never_joins_is_given_up_after_a_quarter_of_an_hour(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """LIF-05: fifteen minutes from the launch, to the second."""
    world = FakeWorld()
    async with node(temporal, cluster, world) as handle:
        life = await handle.result()
    assert life.reason == "registration_timeout"
    launched = next(entry.at for entry in life.timeline if entry.text.startswith("launched"))
    timeline = next(entry.at for entry in life.timeline if entry.text.startswith("leaving: RegistrationTimeout"))
    assert timedelta(minutes=15) <= timeline - launched < timedelta(minutes=16)


class NeverLaunches(FakeWorld):
    """EC2 refuses every launch, until preparing finds that the claim's time is over."""

    def __init__(self) -> None:
        super().__init__()
        self.since: datetime | None = None

    @activity.defn(name=ActivityName.PREPARE_LAUNCH)
    async def prepare(self, prepare_launch_input: PrepareLaunchInput) -> PrepareLaunchResult:
        now = activity.info().scheduled_time
        self.since = self.since or now
        if should_give_up(self.since, now, has_answer=True):
            return PrepareLaunchResult(view=self.view, reason="launch_timeout", message="you may not")
        return await super().prepare(prepare_launch_input)

    @activity.defn(name=ActivityName.LAUNCH)
    async def launch(self, launch_input: LaunchInput) -> LaunchResult:
        self._called(ActivityName.LAUNCH, launch_input)
        return LaunchResult(waits=LaunchWait(reason="Unauthorized", message="you may not"))


async def test_a_launch_that_ec2_refuses_is_given_up_after_five_minutes(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """LIF-05: the claim ends with the reason launch_timeout, after it asked some twenty times and not hundreds."""
    world = NeverLaunches()
    async with node(temporal, cluster, world) as handle:
        life = await handle.result()
    assert life.reason == "launch_timeout"
    assert 10 < world.calls.count(ActivityName.LAUNCH.value) < 25
    assert not life.instance_id


async def test_a_node_that_never_gets_ready_is_given_up_after_an_hour(
    temporal: WorkflowEnvironment, cluster: str
) -> None:
    """QRK-10, mended: it is said why it waits, that it is blocked, and in the end it leaves for that reason."""
    why = "Node ip-10-0-0-1 is not Ready: container runtime network not ready"
    world = FakeWorld(initialization_timeout_seconds=3600.0)
    world.never_ready = why
    async with node(temporal, cluster, world, skip_time=False) as handle:
        await until(lambda: at(handle, Stage.REGISTERING))
        await handle.signal(NodeClaimWorkflow.poke, Poke(node_name="ip-10-0-0-1"))
        await until(lambda: at(handle, Stage.INITIALIZING))
        await temporal.fast_forward(handle, timedelta(minutes=20))
        assert why in why_blocked(await state_of(handle))
        await temporal.fast_forward(handle, timedelta(minutes=50))
        life = await handle.result()
    assert life.reason == "initialization_timeout"
    registered = next(entry.at for entry in life.timeline if "registered node" in entry.text)
    timeline = next(entry.at for entry in life.timeline if "leaving: InitializationTimeout" in entry.text)
    assert timedelta(hours=1) <= timeline - registered <= timedelta(hours=1, minutes=1)
