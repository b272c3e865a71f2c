"""Many nodes are wanted that EC2 does not have: few calls and NodeClaims, and nobody else notices.

An ordinary run is small, because each node costs a second of the machine. ``TENON_DRILL_NODES=600
TENON_DRILL_STORM=1800`` is the storm of six hundred nodes and half an hour, which
`tests/activities/provisioning/test_storm.py` shows on the planner alone, in virtual time.
"""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from statistics import median

import pytest

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEPOOLS
from sandbox.ec2.client import Ec2Admin
from tenon.apis import labels
from tenon.apis.nodepool import CAPACITY_AVAILABLE
from tenon.provisioning.launch_budget import START
from tests.e2e.conftest import MakePool, Run
from tests.e2e.pools import SMALL, Pool, condition
from tests.e2e.worker_process import WorkerProcess
from tests.faults.blocked import blocked_rows
from tests.faults.fleets import fleets
from tests.machine_speed import slowness
from tests.workflows.waiting import until

WANTED = int(os.environ.get("TENON_DRILL_NODES", "60"))
STORM_SECONDS = float(os.environ.get("TENON_DRILL_STORM", "120"))
GPU, OTHER_GPU = "g4dn.xlarge", "g5.xlarge"
MAX_CALLS = 60
BACK_WITHIN = 180.0
MAX_MEMORY = 350 * 2**20
"""Bytes of the larger of the worker's two processes."""
ROUNDS = 3
SLOWER = 1.1
"""How much longer a pod of another NodePool may wait for its node during the storm."""
NOISE = 0.75
"""Seconds by which two measurements of the same differ on a machine that is busy with other tests."""


@dataclass
class Look:
    """What the storm cost at its worst."""

    alive: int = 0
    memory: int = 0


async def gpu_pool(make_pool: MakePool, kube: Kube, *types: str, capacity_types: tuple[str, ...]) -> Pool:
    """A NodePool of these types only."""
    pool: Pool = await make_pool(capacity_types=capacity_types, consolidate_after="Never")
    body = await pool.read()
    terms = [term for term in body["spec"]["template"]["spec"]["requirements"] if "category" not in term["key"]]
    terms.append({"key": labels.INSTANCE_TYPE, "operator": "In", "values": [*types]})
    await kube.patch(NODEPOOLS, pool.name, {"spec": {"template": {"spec": {"requirements": terms}}}})
    return pool


@asynccontextmanager
async def looking(pool: Pool, worker: WorkerProcess) -> AsyncIterator[Look]:
    """Look at the NodeClaims without an instance and at the worker's memory, again and again."""
    look = Look()

    async def watch() -> None:
        while True:
            claims = await pool.claims()
            look.alive = max(look.alive, sum(not claim.get("status", {}).get("providerID") for claim in claims))
            look.memory = max(look.memory, *(await asyncio.to_thread(worker.memory)).values())
            await asyncio.sleep(0.3)

    watching = asyncio.create_task(watch())
    try:
        yield look
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def pod_to_node(pool: Pool, app: str) -> float:
    """The seconds until a new pod runs on a node of its own."""
    began = time.monotonic()
    await pool.deploy(1, app, cpu="1500m")
    await pool.running(1, app, within=120)
    return time.monotonic() - began


async def launched(pool: Pool) -> int:
    return sum(bool(claim.get("status", {}).get("providerID")) for claim in await pool.claims())


@pytest.mark.timeout(900 + STORM_SECONDS + 10 * BACK_WITHIN)
async def test_a_storm_of_missing_capacity_is_calm_and_ends_within_minutes(
    make_pool: MakePool, kube: Kube, ec2: Ec2Admin, worker: WorkerProcess, tenon: Run
) -> None:
    """Each pod needs a node with a GPU of its own, and EC2 has none of either type."""
    scarce = await gpu_pool(make_pool, kube, GPU, OTHER_GPU, capacity_types=("spot", "on-demand"))
    other: Pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    usual = [await pod_to_node(other, f"before-{number}") for number in range(ROUNDS)]
    for kind in (GPU, OTHER_GPU):
        ec2.capacity(0, type=kind)
    async with looking(scarce, worker) as look:
        began = time.monotonic()
        await scarce.deploy(WANTED, "gpu", cpu="3")
        await asyncio.sleep(STORM_SECONDS / 2)
        during = [await pod_to_node(other, f"during-{number}") for number in range(ROUNDS)]
        refusals: list[int] = []

        async def listed() -> bool:
            """The list needs answers of Temporal in time."""
            rows = await blocked_rows(tenon) or ()
            offerings = [offering for row in rows for offering in row.get("offerings", ())]
            refusals[:] = [offering["refusalsInARow"] for offering in offerings if offering["instanceType"] == GPU]
            return bool(refusals)

        await until(listed)
        assert max(refusals) >= 2
        assert condition(await scarce.read(), CAPACITY_AVAILABLE)["reason"] == "InsufficientCapacity"
        await asyncio.sleep(max(0.0, began + STORM_SECONDS - time.monotonic()))
        calls = len(fleets(ec2, scarce))
    figures = {
        "nodes": WANTED,
        "seconds": round(time.monotonic() - began),
        "calls": calls,
        "alive": look.alive,
        "memory-mib": look.memory // 2**20,
        "usual": round(median(usual), 2),
        "during": round(median(during), 2),
    }
    back = time.monotonic()
    ec2.clear_capacity()

    async def all_launched() -> bool:
        return await launched(scarce) == WANTED

    await until(all_launched, within=10 * BACK_WITHIN)
    figures["back"] = round(time.monotonic() - back)
    print(json.dumps(figures))
    assert calls <= MAX_CALLS
    assert look.alive <= START
    assert look.memory <= MAX_MEMORY
    assert median(during) <= SLOWER * median(usual) + NOISE * slowness()
    assert figures["back"] <= BACK_WITHIN * slowness()
    apps = [f"{when}-{number}" for when in ("before", "during") for number in range(ROUNDS)]
    await asyncio.gather(scarce.scale(0, "gpu"), *(other.scale(0, app) for app in apps))


@pytest.mark.parametrize("capacity_type", ["on-demand", "spot"])
async def test_a_quota_that_is_used_up_is_asked_for_by_one_nodeclaim_at_a_time(
    make_pool: MakePool, kube: Kube, ec2: Ec2Admin, worker: WorkerProcess, capacity_type: str
) -> None:
    """The quota of G and VT leaves the same capacity type of other families on."""
    scarce = await gpu_pool(make_pool, kube, GPU, capacity_types=(capacity_type,))
    other: Pool = await make_pool(requirements=SMALL, capacity_types=[capacity_type])
    ec2.quota(GPU, 0, capacity_type=capacity_type)
    try:
        async with looking(scarce, worker) as look:
            await scarce.deploy(30, "gpu", cpu="3")
            await asyncio.sleep(45)
            await pod_to_node(other, "web")
            assert {instance["capacity_type"] for instance in other.instances()} == {capacity_type}
        assert look.alive <= START
        assert len(fleets(ec2, scarce)) <= 5
        assert await launched(scarce) == 0
    finally:
        ec2.clear_quotas()

    async def all_launched() -> bool:
        return await launched(scarce) == 30

    await until(all_launched, within=2 * BACK_WITHIN)
    await asyncio.gather(scarce.scale(0, "gpu"), other.scale(0, "web"))


async def test_a_key_that_nobody_may_use_costs_few_instances(
    make_pool: MakePool, kube: Kube, ec2: Ec2Admin, worker: WorkerProcess, reader: WorkerProcess
) -> None:
    """EC2 accepts the launches, and ends the instances when it cannot decrypt their volumes."""
    locked = await gpu_pool(make_pool, kube, GPU, capacity_types=("on-demand",))
    ec2.boot(dies=True, type=GPU)
    async with looking(locked, worker) as look:
        await locked.deploy(60, "gpu", cpu="3")

        async def paused() -> bool:
            state = condition(await locked.read(), "NodeLaunchHealthy")
            return state.get("status") == "False"

        await until(paused, within=240)
        await asyncio.sleep(20)
    bought = sum(instance["tags"].get(labels.NODEPOOL) == locked.name for instance in ec2.instances())
    print(json.dumps({"alive": look.alive, "bought": bought}))
    assert look.alive <= START
    assert bought <= 2 * START, "some were under way before the first one ended"
    ec2.clear_boot()
    await locked.scale(0, "gpu")
