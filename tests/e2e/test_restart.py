"""A worker that is killed in the middle of a launch."""

from __future__ import annotations

from temporalio.client import Client

from sandbox.cluster import Sandbox
from tests.e2e.conftest import MakePool
from tests.e2e.pools import condition
from tests.e2e.worker_process import WorkerProcess
from tests.workflows.waiting import until


async def test_a_worker_killed_while_a_node_boots_goes_on_with_the_same_instance(
    make_pool: MakePool, worker: WorkerProcess, sandbox: Sandbox, client: Client
) -> None:
    """Nothing is lost and nothing bought twice when both processes die between launch and registration."""
    pool = await make_pool(consolidate_after="1s")
    await pool.deploy(2)

    async def launched() -> bool:
        return any(condition(claim, "Launched").get("status") == "True" for claim in await pool.claims())

    await until(launched)
    assert worker.crash() != 0  # whoever started the processes must see that the worker died
    worker.start()
    await pool.running(2, within=90)
    (claim,) = await pool.settled(1)
    name = claim["metadata"]["name"]
    (instance,) = pool.instances()
    assert instance["state"] == "running"
    assert claim["status"]["providerID"].endswith(instance["id"])

    await pool.scale(0)
    await pool.gone(name)
    assert [i["id"] for i in pool.instances()] == [instance["id"]]


async def test_a_worker_killed_while_a_launch_is_sent_buys_once(
    make_pool: MakePool, worker: WorkerProcess, sandbox: Sandbox
) -> None:
    """AWS: an answer of CreateFleet that nobody heard is asked for again with the same token."""
    pool = await make_pool(consolidate_after="1s")
    ec2 = sandbox.ec2()
    ec2.fault("CreateFleet", "InternalError", status=500, count=1, after_effect=True, latency_seconds=0.5)
    await pool.pod("one")

    async def bought() -> bool:
        return bool(pool.instances())

    await until(bought)
    await pool.running(1)
    (claim,) = await pool.settled(1)
    (instance,) = pool.instances()
    assert claim["status"]["providerID"].endswith(instance["id"])
