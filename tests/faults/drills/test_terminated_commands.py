"""A disruption command that an operator terminates, or whose candidate gets a pod, completes once or is undone once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest
import pytest_asyncio
from temporalio.client import Client

from activities.kubernetes.resources import NODECLAIMS
from sandbox.cluster import Sandbox
from tests.faults.command_moments import (
    ARRIVALS,
    CHEAPER,
    CHECKED,
    CONSOLIDATIONS,
    LATE,
    MOMENTS,
    NEVER,
    WAITS,
    CommandsAtMoments,
    Outcomes,
    disrupt,
    moment_of,
    outcome,
    undone,
)
from workflows import names


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def met(at_moments: CommandsAtMoments, client: Client, sandbox: Sandbox) -> AsyncIterator[Outcomes]:
    """What became of the commands that were terminated, and of those on whose candidate a pod arrived (`LATE`).

    Both faults meet at the same time, because the nodes of a terminated command are free only after three minutes.
    """
    late = [LATE + moment for moment in ARRIVALS]
    async with at_moments(
        [*MOMENTS, *late], {CHECKED, *(key for key in late if moment_of(key) in CONSOLIDATIONS)}
    ) as value:
        stage = value.stage

        async def arrives(key: str) -> None:
            """A pod that tolerates the taint."""
            pool = stage.pools[key]
            claim = await pool.kube.get(NODECLAIMS, value.old[key])
            assert claim is not None
            node = claim["status"]["nodeName"]
            await pool.pod("late", cpu="100m", nodeName=node, tolerations=[{"operator": "Exists"}])

        async def rejected(key: str) -> None:
            """The command ends at its validation, and the node gets no other one."""
            pool = stage.pools[key]
            await pool.seen(value.old[key], "ConsolidationRejected", f"{pool.name}-late came after the decision")
            await disrupt(pool, NEVER)

        await stage.waits(LATE + WAITS)
        await asyncio.gather(*map(arrives, late))
        rejection = asyncio.create_task(rejected(LATE + WAITS))
        await stage.waits(WAITS)
        for moment in MOMENTS:
            command = names.command_id(sandbox.cluster_name, await stage.command_of(moment))
            await client.get_workflow_handle(command).terminate("by a test")
        await rejection
        await disrupt(stage.pools[CHECKED], NEVER)  # or emptiness would take the replacement that nothing uses
        await disrupt(stage.pools[LATE + CHEAPER], NEVER)
        await stage.release()

        async def end(key: str) -> None:
            pool, old, moment = stage.pools[key], value.old[key], moment_of(key)
            if key == CHECKED:
                await undone(pool, old, nodes=2)
            elif key == moment:
                await value.completed(key)
            elif moment in CONSOLIDATIONS:
                await undone(pool, old)
                await pool.running(2)
            else:
                await value.completed(key)
                assert await pool.events(f"{pool.name}-late", "Evicted") == [], "a drain leaves it alone"
            if key != moment:
                await pool.delete_pod("late")

        yield await value.outcomes(end)


@pytest.mark.parametrize("moment", MOMENTS)
async def test_a_command_that_is_terminated_completes_once_or_is_undone_once(met: Outcomes, moment: str) -> None:
    """One that is terminated before its last step leaves its replacement unused.

    Where a terminated command has left its node in place, the next command uses the replacement or buys it.
    """
    assert outcome(met, moment) == (2, 2)


@pytest.mark.parametrize("moment", ARRIVALS)
async def test_a_pod_that_arrives_on_a_candidate_undoes_a_consolidation_only(met: Outcomes, moment: str) -> None:
    """A consolidation ends at its validation or is undone, and its replacement goes again. A drifted node leaves."""
    assert outcome(met, LATE + moment) == (ARRIVALS[moment], ARRIVALS[moment])
