"""A fleet passes to another version of the code and back, as a plain Deployment does it: one worker after the other."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from temporalio.client import Client, WorkflowHistory

import tenon
from sandbox.cluster import Sandbox
from tenon.messages.node import Keep, Poke
from tests.e2e.conftest import MakePool
from tests.e2e.histories import fault_of
from tests.e2e.pools import SMALL, Pool, condition
from tests.e2e.worker_process import WorkerProcess
from tests.workflows.waiting import until
from workflows import names
from workflows.nodeclaim import NodeClaimWorkflow

FLEET = 12
PACKAGES = ("activities", "cli", "sandbox", "tenon", "worker", "workflows")
ORIGINAL = "after = Stage.DETACHING if waits_for_volumes else Stage.TERMINATING"
CHANGED = "after = Stage.DETACHING"
EXTRA_STEP = "await volume detachment"


def other_version(folder: Path) -> Path:
    """The code of today, but for a step more between draining and termination."""
    root = Path(tenon.__file__).parent.parent
    for package in PACKAGES:
        shutil.copytree(root / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
    stages = folder / "tenon" / "node" / "leaving_stages.py"
    text = stages.read_text()
    assert text.count(ORIGINAL) == 1
    stages.write_text(text.replace(ORIGINAL, CHANGED))
    return folder


@contextmanager
def changed(worker: WorkerProcess, code: Path) -> Iterator[None]:
    """Run the worker with another version of the code, and with its own again afterwards, whatever failed here."""
    stopped = [worker.stop()]
    try:
        worker.start(code)
        yield
    finally:
        if worker.running:
            stopped.append(worker.stop())
        worker.start()
    assert stopped == [0, 0], f"see {worker.log}"


async def histories(client: Client, sandbox: Sandbox, pool: Pool) -> AsyncIterator[WorkflowHistory]:
    """Every run of every workflow of the pool's nodes."""
    async for execution in client.list_workflows(f"{names.POOL.name} = '{pool.name}' AND WorkflowType = 'NodeClaim'"):
        yield await client.get_workflow_handle(execution.id, run_id=execution.run_id).fetch_history()


async def stir(client: Client, sandbox: Sandbox, fleet: list[str], survivors: list[str]) -> None:
    """What a fleet meets every day: all are poked, some are kept."""
    until_then = datetime.now(UTC) + timedelta(days=3)
    for claim in fleet:
        handle = client.get_workflow_handle(names.nodeclaim_id(sandbox.cluster_name, claim))
        await handle.signal(NodeClaimWorkflow.poke, Poke(node_ready=True))
        if claim in survivors:
            await handle.signal(NodeClaimWorkflow.keep, Keep(until=until_then))


async def taken_away(client: Client, sandbox: Sandbox, pool: Pool, claims: list[str]) -> None:
    """Drain nodes to their end; their pods need others."""
    for claim in claims:
        await client.get_workflow_handle(names.nodeclaim_id(sandbox.cluster_name, claim)).signal("drain")
    await asyncio.gather(*(pool.gone(claim, within=120) for claim in claims))
    await pool.running(FLEET, within=120)


async def test_twelve_live_nodes_pass_to_changed_commands_and_back_without_a_failed_task(
    make_pool: MakePool, worker: WorkerProcess, client: Client, sandbox: Sandbox, tmp_path: Path
) -> None:
    """Nodes at rest are only their state and a timer, so either version goes on with what the other left."""
    pool = await make_pool(consolidate_after="Never", requirements=SMALL)
    await pool.deploy(FLEET)
    await pool.running(FLEET, within=120)
    fleet = [claim["metadata"]["name"] for claim in await pool.claims()]
    assert len(fleet) == FLEET

    async def all_rest() -> bool:
        """Whether each node has its run at rest, which begins a minute after the node became live."""
        handles = [client.get_workflow_handle(names.nodeclaim_id(sandbox.cluster_name, claim)) for claim in fleet]
        lives = [(await handle.describe()).raw_description.workflow_execution_info for handle in handles]
        return all(life.execution.run_id != life.first_run_id for life in lives)

    await until(all_rest, within=180.0)
    other = other_version(tmp_path / "other")
    remainder = list(fleet)

    async def two_leave(*, extra: bool) -> None:
        leaving = [remainder.pop(0), remainder.pop(0)]
        await stir(client, sandbox, leaving + remainder, survivors=remainder[-5:])
        await taken_away(client, sandbox, pool, leaving)
        for claim in leaving:
            handle = client.get_workflow_handle(names.nodeclaim_id(sandbox.cluster_name, claim))
            steps = [
                event.activity_task_scheduled_event_attributes.activity_type.name
                for event in (await handle.fetch_history()).events
            ]
            assert (EXTRA_STEP in steps) is extra, "the node did not leave as this version would have it"

    with changed(worker, other):
        await two_leave(extra=True)
    await two_leave(extra=False)
    names_now = {claim["metadata"]["name"] for claim in await pool.claims()}
    assert set(remainder) <= names_now, "a node that nobody asked to leave is gone"

    async def all_ready() -> bool:
        return all(condition(claim, "Ready").get("status") == "True" for claim in await pool.claims())

    await until(all_ready)
    runs, faults = 0, list[str]()
    async for history in histories(client, sandbox, pool):
        runs += 1
        faults += [fault for event in history.events if (fault := fault_of(event))]
    assert runs >= 2 * FLEET  # each life: the run that began it, and the one at rest
    assert faults == []
