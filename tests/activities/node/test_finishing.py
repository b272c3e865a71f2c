"""An activity whose worker shuts down records what EC2 has sold."""

from __future__ import annotations

import asyncio

import pytest
from temporalio.activity import ActivityCancellationDetails
from temporalio.testing import ActivityEnvironment

from activities.node.finishing import finished


async def canceled(details: ActivityCancellationDetails) -> list[str]:
    """What the work has done after its activity was canceled, and EC2 then answered."""
    answer, done = asyncio.Event(), list[str]()

    async def work() -> None:
        try:
            await answer.wait()
            done.append("recorded")
        except asyncio.CancelledError:
            done.append("canceled")
            raise

    async def activity() -> None:
        await finished(work())

    environment = ActivityEnvironment()
    running = asyncio.ensure_future(environment.run(activity))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    environment.cancel(details)
    with pytest.raises(asyncio.CancelledError):
        await running
    answer.set()
    for _ in range(3):
        await asyncio.sleep(0)
    return done


async def test_ops04_a_launch_that_was_sent_is_recorded_although_its_worker_shuts_down() -> None:
    assert await canceled(ActivityCancellationDetails(worker_shutdown=True)) == ["recorded"]


async def test_a_launch_that_its_workflow_cancels_ends() -> None:
    assert await canceled(ActivityCancellationDetails(cancel_requested=True)) == ["canceled"]
