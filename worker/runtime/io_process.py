"""The io process: workflows, EC2 and Kubernetes writes, conversions of older objects. Every replica runs one.

While another controller leads, it takes no tasks from Temporal. Timers of open workflows may fire in that time, but
nothing acts on them until Tenon leads again.
"""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from functools import partial

from temporalio.client import Client

from activities import loggers
from activities.clock import utc_now
from activities.kubernetes.events import EventRecorder
from activities.node.launch_breakers import LaunchBreakers
from worker.runtime.assembly import connect, connect_for_leases, io_workers, warm_up
from worker.runtime.election.leader_conflict import LeaderConflict
from worker.runtime.launch_reports import report_launches
from worker.runtime.outage import watch_api_server
from worker.runtime.process import Readiness, run, until_stopped
from worker.runtime.telemetry.tracing import tracing_wanted
from worker.runtime.temporal.search_attributes import ensure_search_attributes
from worker.runtime.temporal.temporal_client import watch_temporal
from worker.runtime.temporal.temporal_connection import Connection, connected
from worker.runtime.temporal.worker_versions import WorkerVersions, is_newest_revision
from worker.settings import Settings
from worker.webhook.serving import conversions_served

log = loggers.PROCESS


async def main(settings: Settings, readiness: Readiness, stop: asyncio.Event) -> None:
    """Serve the io task queue and conversions until ``stop`` is set."""
    with conversions_served(settings):
        await _serve(settings, readiness, stop)


async def _serve(settings: Settings, readiness: Readiness, stop: asyncio.Event) -> None:
    async def open_connection() -> Connection:
        opened = await Connection.open_when_up(readiness, tracing=tracing_wanted())
        await ensure_search_attributes(opened.client)
        return opened

    connecting = asyncio.create_task(open_connection(), name="temporal")
    clients = await connect(settings, "io")
    leases = await connect_for_leases()
    conflict = LeaderConflict(
        leases,
        EventRecorder(leases),
        namespace=settings.namespace(),
        name=settings.leader_election_name,
        namespaces=settings.namespaces_of_rivals(),
        gate=clients.gate,
    )
    versions = WorkerVersions(settings, partial(is_newest_revision, leases))
    stopped = asyncio.Event()
    warming = asyncio.create_task(warm_up(clients), name="warm up")

    breakers = LaunchBreakers(utc_now)

    async def report(client: Client) -> None:
        await report_launches(client, settings.cluster_name, breakers)

    async def health(temporal: Connection) -> None:
        await watch_temporal(temporal, readiness)

    async def leave() -> None:
        """Stop once no run waits for this version of the worker."""
        await stop.wait()
        readiness.why = "stopping"
        await versions.leave()
        stopped.set()
        await asyncio.Event().wait()

    async def serve(temporal: Connection) -> None:
        workers = io_workers(temporal.client, settings, clients, breakers)
        async with AsyncExitStack() as running:
            for worker in workers:
                await running.enter_async_context(worker)
            log.info("The worker serves workflows and activities", extra={"cluster": settings.cluster_name})
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(temporal.follow(*workers), name="new connections")
                    group.create_task(temporal.serve(report), name="launch reports")
                    group.create_task(temporal.serve(versions.run), name="worker versions")
            finally:
                # All at once. One after the other, the last would take tasks until the others have ended theirs.
                await asyncio.gather(*(worker.shutdown() for worker in workers))

    readiness.checks.append(conflict.why_unknown)
    readiness.checks.append(lambda: "" if conflict.rival else versions.why_not_ready())
    readiness.why = ""
    try:
        await until_stopped(
            stopped,
            [
                asyncio.create_task(leave(), name="leave"),
                asyncio.create_task(connected(connecting, health), name="temporal health"),
                asyncio.create_task(connected(connecting, Connection.run), name="temporal certificates"),
                asyncio.create_task(watch_api_server(leases, readiness), name="api server health"),
                asyncio.create_task(conflict.run(), name="leader conflict"),
                asyncio.create_task(
                    connected(connecting, lambda connected_client: conflict.serve(partial(serve, connected_client))),
                    name="serve",
                ),
            ],
        )
    finally:
        warming.cancel()
        connecting.cancel()
        await asyncio.gather(warming, connecting, return_exceptions=True)
        await clients.close()
        await leases.close()


if __name__ == "__main__":
    run("io", main)
