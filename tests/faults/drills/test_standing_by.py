"""OPS-04: a Karpenter that begins to lead in the middle of a burst of launches."""

from __future__ import annotations

import asyncio

import pytest

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import LEASES
from sandbox.cluster import Sandbox
from sandbox.ec2.client import Ec2Admin
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL
from tests.e2e.upstream import LEASE, LEASE_NAMESPACE, Karpenter
from tests.e2e.worker_process import WorkerProcess
from tests.faults.conftest import Observe
from tests.faults.fleets import fleets
from tests.workflows.waiting import until

PODS = 70
SENT_BEFORE = 28
"""More than the burst of 25 that EC2's limit allows a process, so that the other launches wait in its limiter."""
STOPPED = 5
"""Calls that came to their turn during the stand-by. EC2's limit gives a process about 2.5 turns a second."""


@pytest.mark.alone  # a client of EC2 waits 30 seconds for an answer, and then cannot record what was bought
async def test_ops04_nothing_is_bought_any_more_once_tenon_stands_by(
    worker: WorkerProcess, make_pool: MakePool, observe: Observe, kube: Kube, ec2: Ec2Admin, sandbox: Sandbox
) -> None:
    """The launches that wait in the limiter are not sent, and each pod gets one node once Tenon leads again."""
    pool = await make_pool(requirements=SMALL)
    karpenter = Karpenter(kube, sandbox, pool)
    before = await asyncio.to_thread(worker.metric, "tenon_stopped_calls_total", service="ec2")

    async def launching() -> bool:
        return ec2.held() >= SENT_BEFORE

    async def stands_by() -> bool:
        return await asyncio.to_thread(worker.metric, "tenon_standing_by") > 0

    async def stopped() -> bool:
        calls = await asyncio.to_thread(worker.metric, "tenon_stopped_calls_total", service="ec2")
        return calls >= before + STOPPED

    async def recorded() -> bool:
        launched = [claim for claim in await pool.claims() if (claim.get("status") or {}).get("providerID")]
        return len(launched) == len(pool.instances()) >= requests

    async def run() -> bool:
        return [pod["status"]["phase"] for pod in await pool.pods()] == ["Running"] * PODS

    async with observe(pool) as observations:
        ec2.hold("CreateFleet", count=None)  # so that the calls are counted as they arrive
        await asyncio.gather(*(pool.pod(f"p{number}", cpu=f"{1000 + number}m") for number in range(PODS)))
        await until(launching, within=180)
        async with karpenter.leads():
            await until(stands_by)  # says the slower of both processes
            requests = ec2.held()
            assert requests < PODS
            await until(stopped)
            assert ec2.held() == requests, "no call that came to its turn after that was sent"
            ec2.release()
            await until(recorded)  # Karpenter would launch a NodeClaim without a provider ID again
            assert len(fleets(ec2, pool)) == requests
        await kube.delete(LEASES, LEASE, namespace=LEASE_NAMESPACE)  # released; other tests make one of their own
        await until(run, within=400)
        for number in range(PODS):
            await pool.delete_pod(f"p{number}")
        await observations.nothing_left(pool)
