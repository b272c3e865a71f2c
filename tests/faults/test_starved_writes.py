"""A leader whose writes of the cluster's objects wait for minutes goes on to lead."""

from __future__ import annotations

import asyncio
from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import LEASES
from sandbox.cluster import Sandbox
from tests.e2e.worker_process import WorkerProcess
from tests.faults.replicas import LEASE, LEASE_NAMESPACE, holder, led_by_another
from tests.workflows.waiting import until

RENEWALS = 12
FEW = {"KUBE_CLIENT_QPS": "0.02", "KUBE_CLIENT_BURST": "40"}
"""Each process has 40 requests, which suffice to begin, and then one in 50 seconds."""


async def test_the_lease_is_renewed_while_requests_of_all_kinds_wait(
    sandbox: Sandbox, kube: Kube, worker: WorkerProcess
) -> None:
    """3,000 writes at 200 a second hold the next request up for 15 seconds, longer than a Lease may go unrenewed."""
    stopped = await asyncio.to_thread(worker.stop)
    starved = WorkerProcess(sandbox, "starved-worker", replica=1, **FEW)
    before = await holder(kube)
    try:
        assert stopped == 0, f"see {worker.log}"
        await asyncio.to_thread(starved.start)
        await led_by_another(kube, before)
        holders: set[str] = set()
        renewals: dict[str, set[str]] = {}  # their times, by when the Lease was acquired

        async def renewed() -> bool:
            result = await lease(kube)
            if not result.get("holderIdentity"):
                return False
            holders.add(result["holderIdentity"])
            assert len(holders) == 1, "another process leads"
            times = renewals.setdefault(result["acquireTime"], set())
            # A process that gets no core for ten seconds loses it without a fault. If renewals waited with the other
            # requests, each would be late.
            assert len(renewals) <= 2, "the Lease was lost twice"
            times.add(result["renewTime"])
            return len(times) > RENEWALS

        await until(renewed)
        assert starved.running
    finally:
        if starved.running:
            await asyncio.to_thread(starved.stop)
        await asyncio.to_thread(worker.start)


async def lease(kube: Kube) -> dict[str, Any]:
    """What the Lease says."""
    lease = await kube.get(LEASES, LEASE, LEASE_NAMESPACE)
    assert lease is not None
    return dict(lease["spec"])
