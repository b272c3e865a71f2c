"""The Temporal Schedules of NodeSchedules, on a real Temporal server."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
import pytest_asyncio
from temporalio.client import Client, ScheduleActionExecutionStartWorkflow
from temporalio.service import RPCError
from temporalio.testing import WorkflowEnvironment
from temporalio.worker import Worker

from activities.kubernetes.resources import NODESCHEDULES
from tenon.messages.node_schedule import NodeScheduleResult, ScheduledPool
from tests.tenon.schedule.schedules import NIGHTS, POOL
from tests.worker.schedule_world import BERLIN, World
from tests.workflows.waiting import until
from worker.controllers.nodepool.temporal_schedules import ScheduleApplier, TemporalScheduleController
from worker.runtime.leader.plan_activities import PlanActivities
from worker.runtime.temporal.temporal_schedules import ensure_schedule
from workflows import names
from workflows.node_schedule import NodeScheduleWorkflow

pytestmark = pytest.mark.integration

ALWAYS: dict[str, Any] = {"from": "00:00", "to": "00:00", "closed": True}


def hours_from(now: datetime) -> dict[str, Any]:
    """An entry that changes nothing for hours, so that only what a test does starts runs."""
    local = now.astimezone(BERLIN)
    return NIGHTS | {"from": f"{local + timedelta(hours=4):%H:%M}", "to": f"{local + timedelta(hours=9):%H:%M}"}


class Case:
    """A NodeSchedule in a world whose clock is that of the test's machine, and its Temporal Schedule."""

    def __init__(self, client: Client, cluster: str) -> None:
        self.client = client
        self.cluster = cluster
        now = datetime.now(UTC)
        self.hours = hours_from(now)
        self.world = World(now)
        self.world.put_schedule(self.hours)
        self.controller = TemporalScheduleController(
            client, cast("Any", self.world.server), self.world.cache, self.world.view, cluster, ensure_schedule
        )

    @property
    def handle(self) -> Any:
        return self.client.get_schedule_handle(names.node_schedule_id(self.cluster, "hours"))

    async def look(self) -> None:
        await self.controller.reconcile(())

    async def next_times(self) -> list[datetime]:
        return list((await self.handle.describe()).info.next_action_times)


@pytest_asyncio.fixture
async def case(temporal: WorkflowEnvironment, cluster: str) -> AsyncIterator[Case]:
    result = Case(temporal.client, cluster)
    await result.look()
    yield result
    result.world.cache.schedules.on_event("hours", None)
    await result.look()


async def test_its_next_runs_are_the_times_at_which_something_changes(case: Case) -> None:
    next_change = case.world.view.schedules.now().next_change
    assert next_change is not None
    assert (await case.next_times())[0] == next_change.astimezone(UTC)
    case.world.put_schedule(case.hours | {"to": hours_from(case.world.cache.instant + timedelta(hours=1))["to"]})
    before = await case.next_times()
    await case.look()
    assert await case.next_times() != before


async def test_a_pause_suspends_the_nodeschedule_until_it_is_resumed_and_keeps_the_times(case: Case) -> None:
    await case.handle.pause(note="a release")
    await case.look()
    assert case.world.status["paused"] is True
    assert case.world.view.schedules.now().pools == {}
    await case.look()
    description = await case.handle.describe()
    assert (description.schedule.state.paused, description.schedule.state.note) == (True, "a release")
    assert description.schedule.spec.calendars
    await case.handle.unpause()
    await case.look()
    assert case.world.status["paused"] is False
    assert POOL in case.world.view.schedules.now().pools


async def test_a_nodeschedule_that_is_gone_leaves_no_temporal_schedule_even_if_no_leader_saw_it_go(case: Case) -> None:
    case.world.cache.schedules.on_event("hours", None)
    del case.world.server.objects[NODESCHEDULES.plural, "", "hours"]
    later = Case(case.client, case.cluster)
    later.world.cache.schedules.on_event("hours", None)
    await later.look()
    with pytest.raises(RPCError):
        await case.handle.describe()


@asynccontextmanager
async def working(case: Case) -> AsyncIterator[None]:
    """Workers that carry out what the Temporal Schedule starts."""
    applier = ScheduleApplier(case.world.cache, case.world.view)
    activities = PlanActivities(None, None, None, None, None, None, applier, None, None)  # type: ignore[arg-type]
    async with (
        Worker(case.client, task_queue=names.task_queue(case.cluster), workflows=[NodeScheduleWorkflow]),
        Worker(case.client, task_queue=names.plan_queue(case.cluster), activities=[activities.apply_schedule]),
    ):
        yield


async def run_results(case: Case, count: int) -> list[NodeScheduleResult]:
    """The results of the runs, the newest last, once there are so many."""

    async def done() -> bool:
        info = (await case.handle.describe()).info
        return len(info.recent_actions) == count and not info.running_actions

    await until(done)
    results = []
    for run_action in (await case.handle.describe()).info.recent_actions:
        assert isinstance(run_action.action, ScheduleActionExecutionStartWorkflow)
        run = case.client.get_workflow_handle(run_action.action.workflow_id, result_type=NodeScheduleResult)
        results.append(await run.result())
    return results


async def test_a_run_says_what_holds_as_soon_as_the_nodeschedule_exists(case: Case) -> None:
    async with working(case):
        (result,) = await run_results(case, 1)
    (pool,) = result.pools
    demand = case.world.view.schedules.now().pools[POOL]
    assert pool == ScheduledPool(name=POOL, holds="off" if demand.off else pool.holds, until=pool.until, nodes=0)
    assert pool.until.endswith("Europe/Berlin")


async def test_a_run_says_what_holds_after_the_nodeschedule_changed_or_was_suspended(case: Case) -> None:
    """Also if no time comes at which something changes, as for a NodePool that is always off."""
    async with working(case):
        await run_results(case, 1)
        case.world.put_schedule(ALWAYS)
        await case.look()
        await case.look()
        (pool,) = (await run_results(case, 2))[-1].pools
        assert (pool.holds, await case.next_times()) == ("off", [])
        case.world.put_schedule(ALWAYS, suspend=True)
        await case.look()
        assert (await run_results(case, 3))[-1] == NodeScheduleResult(exists=False)
        await case.look()
        assert len((await case.handle.describe()).info.recent_actions) == 3


def test_a_run_of_a_nodeschedule_that_is_gone_says_so() -> None:
    world = World(datetime.now(UTC) + timedelta(hours=1))
    assert ScheduleApplier(world.cache, world.view).apply("none") == NodeScheduleResult(exists=False)
