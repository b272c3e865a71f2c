"""The workflow of a NodeRollout on a real Temporal server that skips time, with a leader that has a simulated fleet."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from functools import partial

import pytest
from temporalio.client import Client, WorkflowUpdateFailedError
from temporalio.testing import WorkflowEnvironment

import workflows.rollout
from tenon.messages.rollout import RolloutOperator
from tests.workflows.rollout_world import ANN, Handle, World, changed, rollout
from tests.workflows.waiting import until
from worker.runtime.temporal.temporal_plugin import TenonPlugin
from workflows.rollout import RolloutWorkflow

pytestmark = pytest.mark.integration

HANGS_AFTER = 600.0
"""Seconds that only bound a test that would otherwise hang: a slow machine takes a second to skip a minute."""


async def skip(temporal: WorkflowEnvironment, handle: Handle, world: World, phase: str) -> None:
    """Let time pass until the phase is reached."""
    async with asyncio.timeout(HANGS_AFTER):
        while not await world.reached(phase):
            await temporal.fast_forward(handle, timedelta(minutes=1))


async def test_a_bad_version_touches_one_wave_and_is_rolled_back(temporal: WorkflowEnvironment, cluster: str) -> None:
    world = World(onFailure="Rollback")
    world.bad = "new"
    async with rollout(temporal, cluster, world) as handle:
        await changed(handle, world)
        await skip(temporal, handle, world, "RolledBack")
        (progress,) = await handle.query(RolloutWorkflow.progress)
        assert world.versions() == {"old": 60}
        assert [wave.outcome for wave in progress.history] == ["failed: pods ready: web-1 of NodePool | web"]
        looks = len(world.looks)
        await temporal.fast_forward(handle, timedelta(days=3))
        assert len(world.looks) <= looks + 3, "what waits for nothing is looked at once a day"
        assert world.events == ["RolloutWaveBegan", "RolloutRollingBack", "RolloutRolledBack"]


async def test_a_good_version_reaches_all_nodes(temporal: WorkflowEnvironment, cluster: str) -> None:
    world = World()
    async with rollout(temporal, cluster, world) as handle:
        await changed(handle, world)
        await skip(temporal, handle, world, "Settled")
        assert world.versions() == {"new": 60}


async def test_an_approval_may_take_three_days(temporal: WorkflowEnvironment, cluster: str) -> None:
    world = World(gates={"approval": [2]})
    async with rollout(temporal, cluster, world) as handle:
        await changed(handle, world)

        async def waits() -> bool:
            return "waits for an approval" in world.status.message

        async with asyncio.timeout(HANGS_AFTER):
            while not await waits():
                await temporal.fast_forward(handle, timedelta(minutes=1))
        looks = len(world.looks)
        await temporal.fast_forward(handle, timedelta(days=3))
        assert len(world.looks) <= looks + 3
        assert world.versions() == {"new": 1, "old": 59}
        answer = await handle.execute_update(RolloutWorkflow.approve, ANN)
        assert answer.accepted
        await skip(temporal, handle, world, "Settled")
        assert world.versions() == {"new": 60}


async def test_requests_are_answered_and_refused_in_a_sentence(temporal: WorkflowEnvironment, cluster: str) -> None:
    world = World()
    async with rollout(temporal, cluster, world) as handle:
        with pytest.raises(WorkflowUpdateFailedError) as empty:
            await handle.execute_update("start")
        assert str(empty.value.cause).startswith('Update start needs an input. For example: {"pool": "web"')
        with pytest.raises(WorkflowUpdateFailedError) as unsigned:
            await handle.execute_update("start", {"pool": "web", "by": ""})
        assert str(unsigned.value.cause).startswith("Say who asks, for example {")
        refusal = await handle.execute_update(RolloutWorkflow.pause, ANN)
        assert (refusal.accepted, "only one in progress can pause" in refusal.message) == (False, True)
        other = await handle.execute_update(RolloutWorkflow.pause, RolloutOperator(pool="batch", by="ann"))
        assert other.message == "NodeRollout careful does not select NodePool batch"
        await changed(handle, world)
        paused = await handle.execute_update(RolloutWorkflow.pause, ANN)
        assert (paused.accepted, paused.message) == (True, "paused (ann, a test)")
        await until(partial(world.reached, "Paused"))
        await handle.execute_update(RolloutWorkflow.rollback, ANN)
        await until(partial(world.reached, "RolledBack"))
        assert world.versions() == {"old": 60}
        assert world.events[-2:] == ["RolloutRollingBack", "RolloutRolledBack"], (
            "an operator's request has its event too"
        )


async def test_a_request_that_meets_the_end_of_a_run_has_its_event(
    temporal: WorkflowEnvironment, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next run takes the state that it begins with for one whose events are published."""
    monkeypatch.setattr(workflows.rollout, "MAX_HISTORY", 1)
    world = World()
    # Without Temporal's sandbox, as in production, the run has the constant of this process's module.
    client = Client(temporal.client.service_client, namespace=temporal.client.namespace, plugins=[TenonPlugin()])
    async with rollout(temporal, cluster, world, client) as handle:
        await changed(handle, world)
        await handle.execute_update(RolloutWorkflow.rollback, ANN)
        await until(partial(world.reached, "RolledBack"))
        assert world.events[-2:] == ["RolloutRollingBack", "RolloutRolledBack"]
