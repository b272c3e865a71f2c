"""What pods are told: every one has its turn."""

from __future__ import annotations

import asyncio
from collections import Counter
from datetime import timedelta

import pytest

from tests.activities.provisioning.setting import BATCH, Setting
from tests.tenon.scheduling.builders import pod


async def test_every_pod_hears_why_it_waits() -> None:
    """A plan waits for the first events only; the names that come late in the alphabet hear as well."""
    at = Setting(*(pod(f"p{number}", cpu="5000") for number in range(200)))
    assert (await at.planner.plan(BATCH)).unschedulable == 200
    assert len(at.recorder.events) == 50
    await at.events_written()
    heard = Counter(name for _, name, reason, _ in at.recorder.events if reason == "FailedScheduling")
    assert heard == Counter(f"p{number}" for number in range(200))


async def test_pods_that_never_heard_anything_come_first() -> None:
    at = Setting(*(pod(f"a{number}", cpu="5000") for number in range(60)))
    await at.planner.plan(BATCH)
    await at.events_written()
    at.recorder.events.clear()
    at.view.add(*(pod(f"z{number}", cpu="5000") for number in range(10)))
    at.now += timedelta(minutes=6)
    await at.planner.plan(BATCH.model_copy(update={"batch": 42}))
    assert {name for _, name, _, _ in at.recorder.events[:10]} == {f"z{number}" for number in range(10)}


async def test_the_events_of_a_leader_that_ends_are_given_up() -> None:
    """The next leader has its own, and stale ones must not replace them."""
    at = Setting(*(pod(f"p{number}", cpu="5000") for number in range(200)))
    await at.planner.plan(BATCH)
    at.planner.close()
    with pytest.raises(asyncio.CancelledError):
        await at.events_written()
    assert len(at.recorder.events) == 50
