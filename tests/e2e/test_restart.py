"""A worker that is killed in the middle of a launch."""

from __future__ import annotations

from tests.e2e.conftest import MakePool
from tests.e2e.pools import ROOMY, condition
from tests.e2e.worker import Worker
from tests.workflows.waiting import until


async def test_a_worker_killed_while_a_node_boots_goes_on_with_the_same_instance(
    make_pool: MakePool, worker: Worker
) -> None:
    """Nothing is lost and nothing bought twice when both processes die between launch and registration."""
    pool = await make_pool(consolidate_after="1s", requirements=ROOMY)
    await pool.deploy(2)

    async def launched() -> bool:
        return any(condition(claim, "Launched").get("status") == "True" for claim in await pool.claims())

    await until(launched)
    assert worker.crash() != 0  # the parent process must see that the worker died
    worker.start()
    await pool.running(2)
    (claim,) = await pool.settled(1)
    name = claim["metadata"]["name"]
    (instance,) = pool.instances()
    assert instance["state"] == "running"
    assert claim["status"]["providerID"].endswith(instance["id"])

    await pool.scale(0)
    await pool.gone(name)
    assert [i["id"] for i in pool.instances()] == [instance["id"]]
