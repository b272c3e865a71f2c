"""A disruption command completes once when a process dies in the middle of it, and is undone without capacity."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio

from sandbox.ec2.client import Ec2Admin
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL
from tests.e2e.worker_process import WorkerProcess
from tests.faults.command_moments import (
    AT_ONCE,
    MOMENTS,
    WAITS,
    CommandsAtMoments,
    Outcomes,
    disrupt,
    drift,
    one_node,
    outcome,
    seen_of,
    undone,
)
from tests.faults.conftest import Observe


@pytest_asyncio.fixture(scope="module", loop_scope="session", params=["io", "cluster"])
async def killed(
    request: pytest.FixtureRequest, at_moments: CommandsAtMoments, worker: WorkerProcess
) -> AsyncIterator[Outcomes]:
    """What became of the command of each moment after a process was killed."""
    async with at_moments(MOMENTS, ()) as value:
        await value.stage.waits(WAITS)
        await asyncio.to_thread(worker.kill, request.param)
        await value.stage.release()
        await asyncio.to_thread(worker.start)
        yield await value.outcomes(value.completed)


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_command_whose_process_is_killed_completes_once(killed: Outcomes, moment: str) -> None:
    """One replacement was bought and took over."""
    assert outcome(killed, moment) == (2, 2)


async def test_dis_65_without_capacity_for_the_replacement_the_node_stays_and_is_freed(
    make_pool: MakePool, observe: Observe, ec2: Ec2Admin
) -> None:
    """The pod never moves."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    async with observe(pool) as observed:
        name = await one_node(pool, False)
        (pod,) = await pool.running(1)
        ec2.capacity(0)
        await drift(pool)
        await pool.seen(name, "DisruptionWaitingReadiness")  # the command may be over a moment later
        await undone(pool, name)
        ec2.clear_capacity()
        assert [item["metadata"]["uid"] for item in await pool.running(1)] == [pod["metadata"]["uid"]]
        assert seen_of(observed, pool) == (2, 1)
        await pool.scale(0)
        await disrupt(pool, AT_ONCE)
