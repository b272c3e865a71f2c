"""A worker that is killed in the middle of a launch, and one that loses only its parent process."""

from __future__ import annotations

import psutil
import pytest

from tests.e2e.conftest import MakePool
from tests.e2e.pools import ROOMY, WITHIN, condition
from tests.e2e.worker import Worker
from tests.e2e.worker_process import WorkerProcess
from tests.workflows.waiting import until


async def test_a_worker_killed_while_a_node_boots_goes_on_with_the_same_instance(
    make_pool: MakePool, worker: Worker
) -> None:
    """Nothing is lost and nothing bought twice when both processes die between launch and registration.

    A pod that comes meanwhile fits on the node that boots.
    """
    pool = await make_pool(consolidate_after="1s", requirements=ROOMY)
    await pool.deploy(1)

    async def launched() -> bool:
        return any(condition(claim, "Launched").get("status") == "True" for claim in await pool.claims())

    await until(launched)
    assert worker.crash() != 0  # the parent process must see that the worker died
    await pool.scale(2)
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


def test_processes_whose_parent_is_killed_end_and_leave_its_ports(worker: Worker) -> None:
    if not isinstance(worker, WorkerProcess):
        pytest.skip("a container ends with its first process")
    parent, *children = worker.processes()
    parent.kill()
    assert psutil.wait_procs(children, WITHIN)[1] == []
    worker.start()
