"""The cluster process: the cache, and `leader` while it holds the Lease. A Lease makes one replica at a time active.

The Lease saves work, but correctness does not depend on it. Two active processes would find the same claims in the
cluster and the same labels on them, and write nothing twice.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from functools import partial

from temporalio.client import Client

from activities import metrics
from activities.ec2.instance_statuses import scheduled
from activities.ec2.queue import MessageQueue
from activities.kubernetes.client import Kube
from activities.kubernetes.events import EventRecorder
from worker.cache.cluster import ClusterCache
from worker.controllers.interruption.confirmation import InstanceReader
from worker.controllers.interruption.notices import InterruptionController
from worker.controllers.interruption.scheduled_changes import ScheduledChangeLimit
from worker.controllers.node.startup_cordon import StartupCordonController
from worker.own_namespace import own_namespace
from worker.runtime.assembly import Clients, connect, connect_for_leases, warm_up
from worker.runtime.election.leader_conflict import LeaderConflict
from worker.runtime.election.lease import IDENTITY_PREFIX, LeaseElection
from worker.runtime.election.temporal_isolation import TemporalIsolation
from worker.runtime.leader import leader
from worker.runtime.memory import freeze_cache_records
from worker.runtime.outage import watch_api_server
from worker.runtime.process import Readiness, run, until_stopped
from worker.runtime.provisioner_reports import InterruptedOfferings
from worker.runtime.telemetry.tracing import tracing_wanted
from worker.runtime.temporal.temporal_client import watch_temporal
from worker.runtime.temporal.temporal_connection import Connection, connected
from worker.settings import Settings
from worker.webhook.definitions import reconcile_definitions

TURN = 0.001
"""Seconds after which a planning thread yields the interpreter. The event loop waits for that after each system call.
With this value it answers twice as many requests as with Python's own 5 ms.
"""


async def main(settings: Settings, readiness: Readiness, stop: asyncio.Event) -> None:
    """Watch the cluster, and make decisions for it while holding the Lease."""
    sys.setswitchinterval(TURN)
    connecting = asyncio.create_task(Connection.open_when_up(readiness, tracing=tracing_wanted()), name="temporal")
    clients = await connect(settings, "cluster")
    election = await connect_for_leases()
    cache = ClusterCache(
        clients.kube,
        silence_limit=settings.watch_silence_limit.total_seconds(),
        gates=settings.feature_gates,
        default_spread=settings.default_spread(),
        namespace=own_namespace(),
    )
    conflict = LeaderConflict(
        election,
        EventRecorder(election),
        namespace=settings.namespace(),
        name=settings.leader_election_name,
        namespaces=settings.namespaces_of_rivals(),
        gate=clients.gate,
    )
    warming = asyncio.create_task(warm_up(clients), name="warm up")
    readiness.checks.append(
        lambda: f"the cluster cache still reads {', '.join(waits)}" if (waits := cache.unsynced_resources) else ""
    )
    readiness.checks.append(conflict.why_unknown)
    readiness.why = ""
    isolation = TemporalIsolation()
    limit = ScheduledChangeLimit(cache)

    async def health(temporal: Connection) -> None:
        await watch_temporal(temporal, readiness, note=isolation.note)

    async def lead_when_elected(temporal: Connection) -> None:
        await _lead_when_elected(settings, temporal, clients, cache, conflict, isolation, election, limit)

    try:
        await until_stopped(
            stop,
            [
                asyncio.create_task(connected(connecting, health), name="temporal health"),
                asyncio.create_task(connected(connecting, Connection.run), name="temporal certificates"),
                asyncio.create_task(watch_api_server(election, readiness), name="api server health"),
                asyncio.create_task(cache.run(), name="cache"),
                asyncio.create_task(freeze_cache_records(cache.wait_synced), name="garbage"),
                asyncio.create_task(conflict.run(), name="leader conflict"),
                # Needs neither Temporal nor the lead: startup cordons must go if another controller leads.
                asyncio.create_task(
                    StartupCordonController(clients.kube.without_gate(), cache).run(), name="startup cordon"
                ),
                # Needs neither as well: see worker/controllers/interruption/notices.py.
                *_read_interruptions(settings, connecting, clients, cache, conflict, limit),
                asyncio.create_task(connected(connecting, lead_when_elected), name="lead when elected"),
            ],
        )
    finally:
        readiness.why = "stopping"
        warming.cancel()
        connecting.cancel()
        await asyncio.gather(warming, connecting, return_exceptions=True)
        await clients.close()
        await election.close()


def _read_interruptions(
    settings: Settings,
    connecting: asyncio.Task[Connection],
    clients: Clients,
    cache: ClusterCache,
    conflict: LeaderConflict,
    limit: ScheduledChangeLimit,
) -> list[asyncio.Task[None]]:
    """Start to read the interruption queue, if there is one, while no other controller leads."""
    if not settings.interruption_queue:
        return []
    queue = MessageQueue(clients.aws.sqs, settings.interruption_queue)
    offerings = InterruptedOfferings()
    reader = InstanceReader(clients.ec2.states, partial(scheduled, clients.aws))

    async def read() -> None:
        await InterruptionController(
            clients.kube,
            clients.recorder,
            cache,
            queue,
            settings.cluster_name,
            offerings.mark_unavailable,
            reader,
            limit,
        ).run()

    async def report(client: Client) -> None:
        await offerings.report(client, settings.cluster_name)

    return [
        asyncio.create_task(conflict.serve(read), name="interruption"),
        asyncio.create_task(connected(connecting, lambda reports: reports.serve(report)), name="interrupted offerings"),
    ]


async def _lead_when_elected(
    settings: Settings,
    temporal: Connection,
    clients: Clients,
    cache: ClusterCache,
    conflict: LeaderConflict,
    isolation: TemporalIsolation,
    kube: Kube,
    limit: ScheduledChangeLimit,
) -> None:
    """``kube`` is used only for the Lease, so that nothing else delays a renewal."""

    async def lead() -> None:
        definitions = asyncio.create_task(reconcile_definitions(clients.kube, settings), name="definitions")
        try:
            with limit.leading():
                await leader.lead(settings, temporal, clients, cache, limit)
        finally:
            definitions.cancel()
            await asyncio.gather(definitions, return_exceptions=True)

    if settings.disable_leader_election:
        metrics.LEADER_STATUS.labels(settings.leader_election_name).set(1)
        await conflict.serve(lead)
        return
    election = LeaseElection(
        kube,
        name=settings.leader_election_name,
        namespace=settings.namespace(),
        identity=f"{IDENTITY_PREFIX}{socket.gethostname()}_{os.getpid()}",
        stand_by=lambda leading: conflict.stand_by(leading) or isolation.stand_by(leading),
    )
    await election.run(lead)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        run("cluster", main)
