"""Certificates for Temporal that are renewed in their files while a worker runs: a real server behind real TLS."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from sandbox.certificates import Authority, Pair
from sandbox.faults.wire import Wire
from sandbox.ports import free_ports
from tests.worker.dev_server import DevServer
from tests.worker.outage_workflow import OutageWorkflow
from tests.workflows.waiting import until
from worker.runtime.process import Readiness
from worker.runtime.temporal.temporal_client import watch_temporal
from worker.runtime.temporal.temporal_connection import Connection

pytestmark = pytest.mark.integration

LOOK = 0.2


@activity.defn(name="add")
async def add(number: int) -> int:
    return number + 1


class Pki:
    """The files of a worker, and a front of the server that trusts one authority at a time."""

    def __init__(self, folder: Path, server: DevServer) -> None:
        self.folder = folder
        self.server = server
        (self.port,) = free_ports(1)

    def environment(self) -> dict[str, str]:
        return {
            "TEMPORAL_ADDRESS": f"127.0.0.1:{self.port}",
            "TEMPORAL_TLS": "true",
            "TEMPORAL_TLS_SERVER_CA_CERT_PATH": str(self.folder / "ca.crt"),
            "TEMPORAL_TLS_CLIENT_CERT_PATH": str(self.folder / "worker.crt"),
            "TEMPORAL_TLS_CLIENT_KEY_PATH": str(self.folder / "worker.key"),
        }

    def renew(self, authority: Authority, pair: Pair | None = None) -> None:
        """As the kubelet writes the files of a Secret that was renewed."""
        (self.folder / "ca.crt").write_bytes(authority.certificate)
        (pair or authority.client("worker")).write(self.folder, "worker")

    def front(self, authority: Authority) -> AbstractAsyncContextManager[Wire]:
        """Temporal as it serves with this authority's certificates, and lets in only whom it knows."""
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.certificate.decode())
        context.verify_mode = ssl.CERT_REQUIRED
        context.set_alpn_protocols(["h2"])
        context.load_cert_chain(*authority.server(["localhost"], ["127.0.0.1"]).write(self.folder, "server"))
        return Wire.to(self.server.address, tls=context, port=self.port)


@pytest_asyncio.fixture
async def pki(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pki]:
    server = DevServer(tmp_path)
    await server.start()
    await server.connect()
    pki = Pki(tmp_path, server)
    for name, value in pki.environment().items():
        monkeypatch.setenv(name, value)
    try:
        yield pki
    finally:
        await server.stop()


@asynccontextmanager
async def running(*work: Any) -> AsyncIterator[None]:
    tasks = [asyncio.create_task(item) for item in work]
    try:
        yield
        assert not any(task.done() for task in tasks), tasks
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def is_ready(readiness: Readiness) -> None:
    async def ready() -> bool:
        return readiness() == ""

    await until(ready)


async def is_unready(readiness: Readiness) -> None:
    async def unready() -> bool:
        return readiness() != ""

    await until(unready)


async def test_a_worker_takes_renewed_certificates_up_without_a_restart(pki: Pki) -> None:
    """It was unready for ever once those that it had read were refused; its workflows and activities went nowhere."""
    old, new = Authority(), Authority()
    pki.renew(old)
    readiness = Readiness()
    readiness.why = ""
    async with pki.front(old):
        connection = await Connection.open()
        worker = Worker(connection.client, task_queue="q", workflows=[OutageWorkflow], activities=[add])
        await worker.__aenter__()
        handle = await connection.client.start_workflow(OutageWorkflow.run, 1, id="w", task_queue="q")
        assert await handle.execute_update(OutageWorkflow.reached) == 2
    async with (
        pki.front(new),
        running(connection.run(LOOK), connection.follow(worker), watch_temporal(connection, readiness, period=LOOK)),
    ):
        await is_unready(readiness)
        first = connection.client
        pki.renew(new)
        await is_ready(readiness)
        assert connection.client is not first
        handle = connection.client.get_workflow_handle_for(OutageWorkflow.run, "w")
        await handle.signal(OutageWorkflow.go_on)
        assert await handle.result() == 3
        await worker.__aexit__(None)


async def test_certificates_that_do_not_match_leave_the_connection_unchanged(
    pki: Pki, caplog: pytest.LogCaptureFixture
) -> None:
    """The files are replaced one by one, and a bad one is possible: each is tried, and reported once a minute."""
    authority, other = Authority(), Authority()
    pki.renew(authority)
    async with pki.front(authority):
        connection = await Connection.open()
        first = connection.client
        await connection.check()
        assert connection.client is first
        pki.renew(authority, other.client("worker"))
        (pki.folder / "worker.key").unlink()
        for _ in range(2):
            await connection.check()
        (pki.folder / "worker.key").write_text("no key")
        await connection.check()
        assert connection.client is first
        assert await first.service_client.check_health()
        pki.renew(authority)
        await connection.check()
        assert connection.client is not first
        assert await connection.client.service_client.check_health()
    records = [
        record.getMessage() for record in caplog.records if "the worker keeps the old ones" in record.getMessage()
    ]
    assert len(records) == 2, records


async def test_what_serves_a_client_begins_again_with_the_next_one(pki: Pki) -> None:
    """The leader's bridge and its questions go over the new connection."""
    authority = Authority()
    pki.renew(authority)
    served: list[Client] = []

    async def serve(client: Client) -> None:
        served.append(client)
        await asyncio.Event().wait()

    async with pki.front(authority):
        connection = await Connection.open()
        async with running(connection.serve(serve)):
            await until(lambda: _holds(len(served) == 1))
            pki.renew(authority)
            await connection.check()
            await until(lambda: _holds(len(served) == 2))
    assert served[1] is connection.client is not served[0]


async def _holds(condition: bool) -> bool:
    return condition
