"""The io process: workflows, EC2 and Kubernetes writes. Every replica runs one."""

from __future__ import annotations

import asyncio
import logging

from worker.apiserver import watch_api_server
from worker.assembly import connect, io_worker, warm_up
from worker.process import Readiness, run, until_stopped
from worker.settings import Settings
from worker.telemetry import tracing_wanted
from worker.temporal import connect as connect_temporal
from worker.temporal import ensure_search_attributes, watch_temporal

log = logging.getLogger("worker.io")


async def main(settings: Settings, readiness: Readiness, stop: asyncio.Event) -> None:
    """Serve the io task queue until told to stop."""
    client = await connect_temporal(tracing=tracing_wanted())
    await ensure_search_attributes(client)
    clients = await connect(settings)
    warming = asyncio.create_task(warm_up(clients), name="warm up")
    try:
        async with io_worker(client, settings, clients):
            log.info("serving workflows and activities", extra={"cluster": settings.cluster_name})
            readiness.why = ""
            await until_stopped(
                stop,
                [
                    asyncio.create_task(watch_temporal(client, readiness), name="temporal health"),
                    asyncio.create_task(watch_api_server(clients.kube, readiness), name="api server health"),
                ],
            )
            readiness.why = "stopping"
    finally:
        warming.cancel()
        await asyncio.gather(warming, return_exceptions=True)
        await clients.close()


if __name__ == "__main__":
    run("io", main)
