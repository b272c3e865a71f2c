"""DisruptionFreezes, and `tenon pause` and `tenon resume`, on a cluster with a worker."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web

from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.resources import DISRUPTIONFREEZES
from tests.calendar_server import calendar_text, serving_calendars
from tests.e2e.conftest import MakePool, Run
from tests.e2e.pools import SMALL, Pool, condition
from tests.e2e.worker import Worker
from tests.e2e.worker_pods import WorkerPods
from tests.workflows.waiting import until


@pytest_asyncio.fixture(loop_scope="session")
async def thawed(kube: Kube) -> AsyncIterator[None]:
    """No freeze stays behind, which would keep the nodes of later tests."""
    yield
    for freeze in await kube.list(DISRUPTIONFREEZES):
        await kube.delete(DISRUPTIONFREEZES, freeze["metadata"]["name"])


async def paused(pool: Pool, tenon: Run, kube: Kube) -> str:
    """Pause a NodePool whose only node has a pod; the name of its NodeClaim."""
    await pool.deploy(1)
    await pool.running(1)
    (claim,) = await pool.settled(1)
    done = tenon("pause", pool.name, "--for", "1h", "--reason", "2.0 ships")
    assert done.returncode == 0, done.stderr
    assert f"DisruptionFreeze pause-{pool.name}" in done.stdout

    async def holds() -> bool:
        freeze = await kube.get(DISRUPTIONFREEZES, f"pause-{pool.name}")
        return ((freeze or {}).get("status") or {}).get("active") is True

    await until(holds)
    return str(claim["metadata"]["name"])


async def test_a_paused_nodepool_keeps_its_empty_node_until_it_is_resumed(
    make_pool: MakePool, tenon: Run, kube: Kube, thawed: None
) -> None:
    pool = await make_pool(consolidate_after="1s", requirements=SMALL)
    claim = await paused(pool, tenon, kube)
    (pause,) = json.loads(tenon("pause", "--list", "-o", "json").stdout)
    assert (pause["nodePools"], pause["reason"]) == ([pool.name], "2.0 ships")
    assert pause["by"].endswith("with tenon pause")
    await pool.scale(0)

    async def could_leave() -> bool:
        return condition(await pool.claim(), "Consolidatable").get("status") == "True"

    await until(could_leave)
    explained = tenon("explain", "node", claim)
    assert explained.returncode == 0, explained.stderr
    assert f"NodePool {pool.name} is frozen by DisruptionFreeze pause-{pool.name} of " in explained.stdout
    assert "(2.0 ships) until " in explained.stdout
    assert [nodeclaim["metadata"]["name"] for nodeclaim in await pool.claims()] == [claim]
    resumed = tenon("resume", pool.name)
    assert resumed.stdout == f"Lifted: pause-{pool.name}.\n"
    await pool.gone(claim)
    again = tenon("resume", pool.name)
    assert again.returncode == 2
    assert "has no pause of its own" in again.stderr


async def test_an_operator_drains_a_node_of_a_paused_nodepool(
    make_pool: MakePool, tenon: Run, kube: Kube, thawed: None
) -> None:
    pool = await make_pool(consolidate_after="Never", requirements=SMALL)
    claim = await paused(pool, tenon, kube)
    done = tenon("node", "drain", claim, "--reason", "kernel")
    assert done.returncode == 0, done.stderr
    await pool.gone(claim)
    await pool.running(1)


async def test_a_nodepool_that_does_not_exist_cannot_be_paused(tenon: Run) -> None:
    done = tenon("pause", "no-such-pool")
    assert (done.returncode, done.stderr) == (2, "There is no NodePool no-such-pool.\n")
    assert tenon("pause", "--for", "soon").returncode == 2


async def test_a_nodepool_is_frozen_by_a_calendar_also_while_that_cannot_be_read(
    make_pool: MakePool, worker: Worker, tenon: Run, kube: Kube, thawed: None
) -> None:
    """It leaves after the freeze forgets its calendar. The times are in the status."""
    if isinstance(worker, WorkerPods):
        pytest.skip("a pod cannot reach a server on the loopback of the machine")
    freeze = calendar_text((utc_now() - timedelta(hours=1), utc_now() + timedelta(hours=5)))
    has_read = False

    async def serve(_: web.Request) -> web.Response:
        return web.Response(status=503) if has_read else web.Response(text=freeze)

    pool = await make_pool(consolidate_after="1s", requirements=SMALL)
    await pool.deploy(1)
    await pool.running(1)
    (claim,) = await pool.settled(1)
    name = f"calendar-{pool.name}"

    async def status() -> dict[str, Any]:
        return dict((await kube.get(DISRUPTIONFREEZES, name) or {}).get("status") or {})

    async def calendar_read() -> str:
        return next(
            (entry["status"] for entry in (await status()).get("conditions", ()) if entry["type"] == "CalendarRead"), ""
        )

    async with serving_calendars(serve) as address:
        spec: dict[str, Any] = {"nodePools": [pool.name], "calendar": {"url": f"{address}/a.ics"}}
        await kube.create(DISRUPTIONFREEZES, {"metadata": {"name": name}, "spec": spec})

        async def is_read() -> bool:
            return await calendar_read() == "True" and (await status()).get("active") is True

        await until(is_read)
        has_read = True
        assert len((await status())["calendar"]["events"]) == 1
        await kube.patch(DISRUPTIONFREEZES, name, {"spec": {"calendar": {"url": f"{address}/b.ics"}}})

        async def is_unreadable() -> bool:
            return await calendar_read() == "False"

        await until(is_unreadable)
        assert (await status())["active"] is True, "b.ics was never read"
        await kube.patch(DISRUPTIONFREEZES, name, {"spec": {"calendar": {"url": f"{address}/a.ics"}}})
    await pool.scale(0)

    async def could_leave() -> bool:
        return condition(await pool.claim(), "Consolidatable").get("status") == "True"

    await until(could_leave)
    explained = tenon("explain", "node", claim["metadata"]["name"])
    assert f"NodePool {pool.name} is frozen by DisruptionFreeze {name} until " in explained.stdout
    assert [nodeclaim["metadata"]["name"] for nodeclaim in await pool.claims()] == [claim["metadata"]["name"]]
    assert await kube.delete(DISRUPTIONFREEZES, name)
    await pool.gone(claim["metadata"]["name"])
