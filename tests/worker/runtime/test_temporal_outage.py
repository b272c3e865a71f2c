"""Temporal stopped and started again on its database, as the worker's parts live through it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from temporalio import activity
from temporalio.worker import Worker

from tests.worker.dev_server import Connected, DevServer
from tests.worker.outage_workflow import OutageWorkflow
from tests.workflows.waiting import until
from worker.runtime.process import Readiness
from worker.runtime.temporal.temporal_client import TemporalError, connect, watch_temporal
from worker.runtime.temporal.temporal_connection import Connection, connected

pytestmark = pytest.mark.integration


@pytest_asyncio.fixture
async def server(tmp_path: Path) -> AsyncIterator[DevServer]:
    dev_server = DevServer(tmp_path)
    await dev_server.start()
    try:
        yield dev_server
    finally:
        await dev_server.stop()


@activity.defn(name="add")
async def add(number: int) -> int:
    return number + 1


async def test_an_outage_is_lived_through_and_work_goes_on_where_it_was(
    server: DevServer, caplog: pytest.LogCaptureFixture
) -> None:
    """OPS: unready with a sentence, told once, ready again by itself; a workflow that was open ends once."""
    caplog.set_level("INFO", "worker.temporal")
    client = await server.connect()
    readiness = Readiness()
    readiness.why = ""
    watching = asyncio.create_task(watch_temporal(Connected(client), readiness, period=0.2))
    try:
        async with Worker(client, task_queue="q", workflows=[OutageWorkflow], activities=[add]):
            handle = await client.start_workflow(OutageWorkflow.run, 1, id="w", task_queue="q")
            assert await handle.execute_update(OutageWorkflow.reached) == 2
            assert readiness() == ""

            await server.stop()
            await until(lambda: _holds(readiness() != ""))
            assert readiness().startswith(f"Temporal at {server.address} has not answered since ")
            assert "tonic" not in readiness()

            await server.start()
            await until(lambda: _holds(readiness() == ""))
            await handle.signal(OutageWorkflow.go_on)
            assert await handle.result() == 3
        assert not watching.done()
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
    records = [record for record in caplog.records if record.name == "worker.temporal"]
    assert [record.message for record in records] == ["A service does not answer", "A service answers again"]
    assert "decides nothing new" in vars(records[0])["consequence"]
    assert vars(records[1])["service"] == vars(records[0])["service"] == f"Temporal at {server.address}"


async def test_a_leader_gives_way_while_temporal_is_away(server: DevServer) -> None:
    """One that lost its Lease in the same outage must get back to standing by, whatever long polls it serves."""
    event = asyncio.Event()

    @activity.defn(name="add")
    async def long_poll(number: int) -> int:
        event.set()
        await asyncio.Event().wait()
        return number

    client = await server.connect()
    worker = Worker(client, task_queue="q", workflows=[OutageWorkflow], activities=[long_poll])
    async with worker:
        await client.start_workflow(OutageWorkflow.run, 1, id="w", task_queue="q")
        await event.wait()
        await server.stop()
        async with asyncio.timeout(60):
            await worker.shutdown()


async def _holds(condition: bool) -> bool:
    return condition


@pytest.mark.parametrize("address", ["127.0.0.1:1", "nowhere.invalid:7233"])
async def test_a_server_that_is_away_at_the_start_is_reported_in_one_sentence(
    address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TEMPORAL_ADDRESS", address)
    with pytest.raises(TemporalError) as refused:
        await connect()
    sentence = str(refused.value)
    assert sentence.startswith(f"Temporal at {address} cannot be reached (")
    assert sentence.endswith("): check TEMPORAL_ADDRESS and that the server is up.")
    assert not any(noise in sentence for noise in ("tonic", "Error(", "Os {", "\n"))


async def test_a_worker_that_starts_while_temporal_is_away_waits_and_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """OPS: it serves what needs no Temporal meanwhile, and begins the rest by itself when Temporal answers."""
    caplog.set_level("INFO", "worker.temporal")
    away = DevServer(tmp_path)
    monkeypatch.setenv("TEMPORAL_ADDRESS", away.address)
    readiness = Readiness()
    readiness.why = ""
    begun: list[str] = []

    async def work(temporal: Connection) -> None:
        begun.append(temporal.client.namespace)

    opening = asyncio.create_task(Connection.open_when_up(readiness, pause=0.1))
    first, second = (asyncio.create_task(connected(opening, work)) for _ in range(2))
    try:
        await until(lambda: _holds(readiness() != ""))
        assert readiness().startswith(f"Temporal at {away.address} has not answered since ")
        assert "check TEMPORAL_ADDRESS and that the server is up" in readiness()
        second.cancel()
        await asyncio.gather(second, return_exceptions=True)
        assert not opening.done(), "what ends ends for itself"
        await away.start()
        await first
        assert (begun, readiness()) == (["default"], "")
        messages = [record.message for record in caplog.records if record.name == "worker.temporal"]
        assert messages == ["A service does not answer", "A service answers again"]
    finally:
        opening.cancel()
        await asyncio.gather(opening, first, second, return_exceptions=True)
        await away.stop()
