"""NodeSchedules as users apply them: a floor, a time off, and what waits for its end."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODECLAIMS, NODESCHEDULES
from tenon.node.leave_text import recorded
from tests.e2e.conftest import MakePool, Run
from tests.e2e.pools import SMALL, WITHIN, Pool, condition
from tests.machine_speed import slowness
from tests.workflows.waiting import until

ALWAYS = {"from": "00:00", "to": "00:00"}


@pytest_asyncio.fixture(loop_scope="session")
async def unscheduled(kube: Kube) -> AsyncIterator[None]:
    """No schedule stays behind."""
    yield
    for schedule in await kube.list(NODESCHEDULES):
        await kube.delete(NODESCHEDULES, schedule["metadata"]["name"])


def clock(at: datetime) -> str:
    """A time of UTC as an entry of a schedule has it."""
    return at.strftime("%H:%M")


async def apply(pool: Pool, *entries: dict[str, Any]) -> None:
    """Create or replace the schedule of a NodePool."""
    spec = {"timeZone": "UTC", "nodePools": [pool.name], "bootTime": "1s", "entries": list(entries)}
    if await pool.kube.patch(NODESCHEDULES, pool.name, {"spec": spec}) is None:
        await pool.kube.create(NODESCHEDULES, {"metadata": {"name": pool.name}, "spec": spec})


async def holding(pool: Pool, words: str) -> dict[str, Any]:
    """Wait until the status says what holds for the NodePool; the schedule."""
    schedule: dict[str, Any] = {}

    async def holds() -> bool:
        schedule.update(await pool.kube.get(NODESCHEDULES, pool.name) or {})
        rows = (schedule.get("status") or {}).get("nodePools") or []
        return [row["holds"] for row in rows] == [words]

    await until(holds)
    return schedule


async def said(pool: Pool, words: str) -> None:
    """Wait until the condition of the NodePool has these words; without words, until it is gone."""

    async def says() -> bool:
        message = str(condition(await pool.read(), "ScheduledOff").get("message", ""))
        return words in message if words else not message

    await until(says)


async def test_a_floor_is_kept_until_the_nodepool_is_off_and_pods_wait_for_its_end(
    make_pool: MakePool, kube: Kube, tenon: Run, unscheduled: None
) -> None:
    pool = await make_pool(consolidate_after="1s", requirements=SMALL)
    await apply(pool, ALWAYS | {"name": "day", "floor": {"nodes": 2}})
    claims = await pool.settled(2)
    schedule = await holding(pool, "at least 2 nodes")
    assert condition(schedule, "Applied")["status"] == "True"
    first = str(claims[0]["metadata"]["name"])
    explained = tenon("explain", "node", first)
    assert "the floor of a NodeSchedule" in explained.stdout, explained.stdout

    await apply(pool, ALWAYS | {"name": "night", "closed": True})
    for claim in claims:
        await pool.gone(claim["metadata"]["name"])
    await holding(pool, "off")
    message = f"It is off for more than a week by NodeSchedule {pool.name}/night"
    await said(pool, message)
    explained = tenon("explain", "nodepool", pool.name)
    assert f"Schedule      Off, by NodeSchedule {pool.name}/night" in explained.stdout, explained.stdout
    await pool.seen(pool.name, "ScheduledOff", message)
    assert [event["count"] for event in await pool.events(pool.name, "ScheduledOff")] == [1]
    why = tenon("why", first)
    assert "NodeSchedule" in why.stdout, why.stdout

    await pool.pod("early")
    await pool.seen(f"{pool.name}-early", "FailedScheduling", "it is off for more than a week by NodeSchedule")
    assert await pool.claims() == []

    minutes = 2 + math.ceil(slowness())  # a busy machine takes longer until the NodePool says when it opens
    now = datetime.now(UTC)
    opening = (now + timedelta(minutes=minutes)).replace(second=0, microsecond=0)
    await apply(pool, {"name": "night", "from": clock(now - timedelta(hours=1)), "to": clock(opening), "closed": True})
    await said(pool, f" UTC by NodeSchedule {pool.name}/night")  # a boot time before the opening
    await pool.running(1, within=60 * minutes + WITHIN)
    await said(pool, "")
    assert datetime.now(UTC) >= opening, "the pod ran before its NodePool opened"


async def test_the_nodes_of_a_nodepool_that_is_off_say_so_in_their_history(
    make_pool: MakePool, kube: Kube, unscheduled: None
) -> None:
    """A pod that must not be disrupted keeps its node until it ends, and the NodeClaim says why it leaves."""
    pool = await make_pool(consolidate_after="Never", requirements=SMALL)
    await pool.pod("busy", annotations={"karpenter.sh/do-not-disrupt": "true"})
    (claim,) = await pool.settled(1)
    name = str(claim["metadata"]["name"])
    await apply(pool, ALWAYS | {"name": "night", "closed": True})

    async def leaves() -> bool:
        body = await kube.get(NODECLAIMS, name)
        removals = recorded((body or {})["metadata"].get("annotations") or {})
        return [removal.reason for removal in removals] == ["scheduled_off"]

    await until(leaves)
    assert [pod["metadata"]["name"] for pod in await pool.pods()] == [f"{pool.name}-busy"]
    await pool.delete_pod("busy")
    await pool.gone(name)
