"""When a leader announces itself to the workflows that ask the planner, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import cast

import pytest
from temporalio.client import Client

from tests.worker.background import in_background
from tests.worker.fake_temporal import NOT_FOUND, UNAVAILABLE, FakeTemporal
from worker.runtime.leader.leader_announcements import PERIOD, Announcements
from workflows import names

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]

QUEUE = names.leader_queue("c", "a")
PROVISIONER, DISRUPTION = names.provisioner_id("c"), names.disruption_id("c")


@contextlib.asynccontextmanager
async def announced(temporal: FakeTemporal) -> AsyncIterator[Announcements]:
    announcements = Announcements(cast("Client", temporal), "c", QUEUE)
    async with in_background(announcements.run()):
        yield announcements


def heard(temporal: FakeTemporal, workflow_id: str) -> int:
    """How often this leader announced itself to a workflow, each time with its queue."""
    names = [(name, args) for told_id, name, args in temporal.signals if told_id == workflow_id]
    assert names == [("planner_started", (QUEUE,))] * len(names)
    return len(names)


async def test_a_new_leader_announces_itself_at_once_and_is_silent_while_it_is_asked() -> None:
    """Each message is billed: an hour of questions costs none."""
    temporal = FakeTemporal()
    async with announced(temporal) as announcements:
        await asyncio.sleep(PERIOD / 2)
        assert (heard(temporal, PROVISIONER), heard(temporal, DISRUPTION)) == (1, 1)
        with announcements.question_of(PROVISIONER), announcements.question_of(DISRUPTION):
            await asyncio.sleep(3600)
        for _ in range(100):  # between a batch and its plan there is a moment without a question
            with announcements.question_of(PROVISIONER), announcements.question_of(DISRUPTION):
                await asyncio.sleep(6 * PERIOD + 1)
            await asyncio.sleep(3 * PERIOD)
        assert (heard(temporal, PROVISIONER), heard(temporal, DISRUPTION)) == (1, 1)


async def test_a_workflow_whose_question_is_lost_gets_the_announcement_again() -> None:
    """A dead replica's poll took it, or an operator reset the workflow to before it knew this leader."""
    temporal = FakeTemporal()
    async with announced(temporal) as announcements:
        with announcements.question_of(PROVISIONER), announcements.question_of(DISRUPTION):
            await asyncio.sleep(100)
        with announcements.question_of(DISRUPTION):
            await asyncio.sleep(10 * PERIOD)
        assert (heard(temporal, PROVISIONER), heard(temporal, DISRUPTION)) == (1, 0)


async def test_a_workflow_that_sends_no_question_gets_announcements_less_and_less_often() -> None:
    """No replica runs workflows, say: a history takes only so many signals."""
    temporal = FakeTemporal()
    announcements = Announcements(cast("Client", temporal), "c", QUEUE)
    for _ in range(int(24 * 3600 / PERIOD)):
        await announcements.check()
    assert 200 < heard(temporal, PROVISIONER) < 400


@pytest.mark.parametrize("failure", [UNAVAILABLE, NOT_FOUND])
async def test_an_announcement_that_is_lost_is_repeated(failure: Exception) -> None:
    """Temporal was away, or the workflow did not exist yet and was started by a leader before this one."""
    temporal = FakeTemporal()
    temporal.fails[f"signal {PROVISIONER}"] = [failure]
    async with announced(temporal):
        await asyncio.sleep(6 * PERIOD + 1)
        assert heard(temporal, PROVISIONER) == 1


async def test_a_leader_that_stood_still_does_not_announce_itself_at_its_first_look() -> None:
    """It may have lost its Lease meanwhile, and another leads."""
    temporal = FakeTemporal()
    announcements = Announcements(cast("Client", temporal), "c", QUEUE)
    await announcements.check()
    with announcements.question_of(PROVISIONER):
        await announcements.check()
    await asyncio.sleep(3600)
    await announcements.check()
    assert heard(temporal, PROVISIONER) == 1
