"""OPS-04: a Lease of Karpenter's name that somebody wrote and nobody renews."""

from __future__ import annotations

import asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import LEASES
from tests.e2e.conftest import MakePool
from tests.e2e.pools import NAMESPACE, SMALL
from tests.e2e.worker_process import WorkerProcess
from tests.faults.conftest import Observe
from tests.workflows.waiting import until
from worker.runtime.lease import LEASE_NAME

MAX_DURATION = 2147483647
"""Seconds: the most that a Lease can say, 68 years."""


async def test_ops04_a_lease_that_says_68_years_does_not_stop_tenon(
    worker: WorkerProcess, make_pool: MakePool, observe: Observe, kube: Kube
) -> None:
    """A user who may create Leases in one namespace could stop the provisioning of the whole cluster."""
    pool = await make_pool(requirements=SMALL)

    async def stands_by() -> bool:
        return await asyncio.to_thread(worker.metric, "tenon_standing_by") > 0

    async with observe(pool) as seen:
        spec = {"holderIdentity": "karpenter-7d_1f", "leaseDurationSeconds": MAX_DURATION}
        body = {"metadata": {"name": LEASE_NAME, "namespace": NAMESPACE}, "spec": spec}
        await kube.create(LEASES, body, NAMESPACE)
        try:
            await until(stands_by)
            await pool.deploy(1)
            await seen.whole(pool)
            await pool.scale(0)
            await seen.nothing_left(pool)
        finally:
            await kube.delete(LEASES, LEASE_NAME, namespace=NAMESPACE)
