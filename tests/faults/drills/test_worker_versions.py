"""With worker versioning, live nodes pass to a version with another order of steps, and back.

An ordinary run has few nodes, because each costs a second of the machine. ``TENON_DRILL_NODES=96`` has a hundred.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from temporalio.client import Client

from activities.kubernetes.resources import PDBS
from sandbox.cluster import Sandbox
from tenon.messages.node import Poke
from tests.e2e.conftest import MakePool
from tests.e2e.histories import fault_of
from tests.e2e.other_worker import without
from tests.e2e.pools import NAMESPACE, SMALL, Pool
from tests.e2e.worker_process import WorkerProcess
from tests.faults.drills.test_rolling import EXTRA_STEP, other_version
from tests.workflows.waiting import until
from worker.runtime.temporal.worker_versions import LEAVE_WITHIN
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow

FLEET, GUARDED, MORE = int(os.environ.get("TENON_DRILL_NODES", "20")), 4, 3
RAMP = "10s"


@contextlib.contextmanager
def versioned(sandbox: Sandbox, build_id: str, replica: int) -> Iterator[WorkerProcess]:
    """A worker of this version that was not started yet."""
    worker = WorkerProcess(
        sandbox,
        f"version-{build_id}",
        replica=replica,
        WORKER_VERSIONING="Automatic",
        WORKER_VERSION_RAMP=RAMP,
        TEMPORAL_WORKER_BUILD_ID=build_id,
    )
    worker.stops_within = LEAVE_WITHIN.total_seconds() + 40.0  # it waits until its runs have gone
    try:
        yield worker
    finally:
        if worker.running:
            worker.crash()


async def answer_seconds(client: Client, sandbox: Sandbox, claims: list[str]) -> float:
    """Seconds until the last of these nodes has processed a signal."""
    began = time.monotonic()

    async def processed(claim: str) -> None:
        handle = client.get_workflow_handle(names.nodeclaim_id(sandbox.cluster_name, claim))
        await handle.signal(NodeClaimWorkflow.poke, Poke(node_ready=True))

        async def has_no_task() -> bool:
            return not (await handle.describe()).raw_description.HasField("pending_workflow_task")

        await until(has_no_task)

    await asyncio.gather(*(processed(claim) for claim in claims))
    return time.monotonic() - began


async def steps_of(client: Client, sandbox: Sandbox, claim: str) -> set[str]:
    """The activities of the node's newest run."""
    handle = client.get_workflow_handle(names.nodeclaim_id(sandbox.cluster_name, claim))
    return {
        event.activity_task_scheduled_event_attributes.activity_type.name
        for event in (await handle.fetch_history()).events
    }


async def faults(client: Client, pool: Pool) -> tuple[int, list[str]]:
    """How many runs the pool's nodes and the cluster had, and what failed in them."""
    runs, result = 0, list[str]()
    query = f"{names.POOL.name} = '{pool.name}' OR WorkflowType IN ('Provisioner', 'Disruption', 'NodeClass')"
    async for execution in client.list_workflows(query):
        runs += 1
        history = await client.get_workflow_handle(execution.id, run_id=execution.run_id).fetch_history()
        result += [f"{execution.workflow_type}: {fault}" for event in history.events if (fault := fault_of(event))]
    return runs, result


@pytest.mark.timeout(900)
async def test_nodes_pass_to_another_version_and_back_and_none_fails_or_waits(
    make_pool: MakePool, worker: WorkerProcess, client: Client, sandbox: Sandbox, tmp_path: Path
) -> None:
    """Nodes launch, rest, drain, and wait behind a PodDisruptionBudget while the versions change."""
    pool = await make_pool(consolidate_after="Never", requirements=SMALL)
    code = other_version(tmp_path / "b")
    pods = FLEET
    with (
        versioned(sandbox, "a", 1) as first,
        versioned(sandbox, "b", 2) as second,
        contextlib.ExitStack() as replaced,
    ):
        first.start()
        replaced.enter_context(without(worker))
        await asyncio.gather(pool.deploy(FLEET, "web"), pool.deploy(GUARDED, "guarded"))
        await asyncio.gather(pool.running(FLEET, "web", within=400), pool.running(GUARDED, "guarded", within=400))
        budget = await pool.protect("guarded")
        guarded = [await pool.claim_of(pod) for pod in await pool.pods("guarded")]
        others = sorted({claim["metadata"]["name"] for claim in await pool.claims()} - set(guarded))
        for earlier, later, folder, extra in ((first, second, code, True), (second, first, None, False)):
            for claim in guarded[:2]:
                handle = client.get_workflow_handle(names.nodeclaim_id(sandbox.cluster_name, claim))
                await handle.signal("drain")
            guarded = guarded[2:]
            pods += MORE
            await pool.scale(pods, "web")  # launches are under way
            began = time.monotonic()
            await asyncio.to_thread(later.start, folder)
            ready = time.monotonic() - began
            before = await answer_seconds(client, sandbox, others)
            began = time.monotonic()
            assert await asyncio.to_thread(earlier.stop) == 0
            remaining = time.monotonic() - began
            after = await answer_seconds(client, sandbox, others)
            await pool.running(pods, "web", within=300)
            leaving, others = others[:2], others[2:]
            for claim in leaving:
                await client.get_workflow_handle(names.nodeclaim_id(sandbox.cluster_name, claim)).signal("drain")
            await asyncio.gather(*(pool.gone(claim, within=120) for claim in leaving))
            for claim in leaving:
                assert (EXTRA_STEP in await steps_of(client, sandbox, claim)) is extra
            await pool.running(pods, "web", within=120)
            # The figures of docs/operations.md.
            print(
                f"ready {ready:.0f} s, left {remaining:.0f} s, "
                f"{len(others)} nodes answer in {before:.1f} and {after:.1f} s"
            )
        await pool.kube.delete(PDBS, budget, namespace=NAMESPACE)
        await pool.running(GUARDED, "guarded", within=300)
        replaced.close()
        assert await asyncio.to_thread(first.stop) == 0
    runs, result = await faults(client, pool)
    print(f"{runs} runs, faults: {result}")
    assert runs > FLEET
    assert result == []
