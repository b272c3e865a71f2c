"""Watches of pods that are five seconds late, as on an API server in a burst: no kubelet may refuse a pod."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEPOOLS
from sandbox.cluster import Sandbox
from sandbox.faults.apiproxy import ApiProxy
from sandbox.faults.scheduler_proxy import scheduler_behind
from tests.e2e.conftest import MakePool
from tests.e2e.pools import ROOMY, WITHIN
from tests.e2e.worker_process import WorkerProcess
from tests.workflows.waiting import until

LATE_SECONDS = 5.0
PODS = 36
FIT = 12
"""How many of them fit on the four nodes of the limit."""


@pytest.fixture
def late_scheduler(sandbox: Sandbox) -> Iterator[ApiProxy]:
    """A kube-scheduler whose watch of pods is late."""
    with ApiProxy.start(sandbox) as proxy, scheduler_behind(sandbox, proxy):
        proxy.delay_watches("pods", LATE_SECONDS)
        yield proxy


async def test_no_kubelet_refuses_a_pod_while_watches_of_pods_are_late(
    worker: WorkerProcess, make_pool: MakePool, kube: Kube, api: ApiProxy, late_scheduler: ApiProxy
) -> None:
    """Pods that the limit keeps waiting would get the room of bound pods that kube-scheduler does not know yet."""
    pool = await make_pool(requirements=ROOMY)
    await kube.patch(NODEPOOLS, pool.name, {"spec": {"limits": {"cpu": "16"}}})
    api.delay_watches("pods", LATE_SECONDS)
    await pool.deploy(PODS, app="burst")

    async def full() -> bool:
        running = [pod for pod in await pool.pods() if pod["status"]["phase"] == "Running"]
        return len(running) == FIT and not any(node["spec"].get("unschedulable") for node in await pool.nodes())

    await until(full, within=WITHIN)
    refused = [pod for pod in await pool.pods() if pod["status"]["phase"] == "Failed"]
    assert refused == []
