"""OPS-04: Leases of Karpenter's name that no Karpenter holds."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EVENTS, LEASES, NAMESPACES
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL
from tests.e2e.worker_process import WorkerProcess
from tests.faults.conftest import Observe
from tests.workflows.waiting import until
from worker.runtime.election.lease import LEASE_NAME

MAX_DURATION = 2147483647
"""Seconds: the most that a Lease can say, 68 years."""
TENANT = "tenant"


async def test_ops04_a_lease_of_68_years_that_is_not_renewed_stops_tenon_a_minute_at_most(
    worker: WorkerProcess, make_pool: MakePool, observe: Observe, kube: Kube
) -> None:
    """In a namespace where every Lease counts, Tenon stands by for it and goes on by itself."""
    pool = await make_pool(requirements=SMALL)

    async def stands_by() -> bool:
        return await asyncio.to_thread(worker.metric, "tenon_standing_by") > 0

    async with observe(pool) as observations:
        spec = {"holderIdentity": "karpenter-7d_1f", "leaseDurationSeconds": MAX_DURATION}
        body = {"metadata": {"name": LEASE_NAME, "namespace": "kube-system"}, "spec": spec}
        await kube.create(LEASES, body, "kube-system")
        try:
            await until(stands_by)
            await pool.deploy(1)
            await observations.whole(pool)
            await pool.scale(0)
            await observations.nothing_left(pool)
        finally:
            await kube.delete(LEASES, LEASE_NAME, namespace="kube-system")


async def test_ops04_a_lease_that_a_tenant_renews_never_makes_tenon_stand_by(
    worker: WorkerProcess, make_pool: MakePool, observe: Observe, kube: Kube
) -> None:
    """Kubernetes' role `edit` may write Leases in a namespace. A pod gets its node while the tenant renews one."""
    pool = await make_pool(requirements=SMALL)
    renewals = 0

    async def renew() -> None:
        nonlocal renewals
        while True:
            spec = {
                "holderIdentity": "karpenter-7d_1f",
                "leaseDurationSeconds": 60,
                "renewTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
            }
            if await kube.patch(LEASES, LEASE_NAME, {"spec": spec}, namespace=TENANT) is None:
                await kube.create(LEASES, {"metadata": {"name": LEASE_NAME}, "spec": spec}, TENANT)
            renewals += 1
            await asyncio.sleep(1)

    async def reported() -> bool:
        return "LeaseIgnored" in await reasons()

    async def reasons() -> set[str]:
        events = await kube.list(EVENTS, namespace=TENANT, field_selector=f"involvedObject.name={LEASE_NAME}")
        return {event["reason"] for event in events}

    await kube.create(NAMESPACES, {"metadata": {"name": TENANT}})
    renewing = asyncio.create_task(renew())
    try:
        await until(reported)
        assert await asyncio.to_thread(worker.metric, "tenon_ignored_leases") == 1
        async with observe(pool) as observations:
            await pool.deploy(1)
            await observations.whole(pool)
            await pool.scale(0)
            await observations.nothing_left(pool)
        assert not renewing.done()
        assert renewals > 5
        assert await reasons() == {"LeaseIgnored"}, "no process of Tenon stood by at any time"
    finally:
        renewing.cancel()
        await asyncio.gather(renewing, return_exceptions=True)
        await kube.delete(NAMESPACES, TENANT)
