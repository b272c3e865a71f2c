"""Watches of pods that are five seconds late, as on an API server in a burst: no kubelet may refuse a pod."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEPOOLS
from sandbox.certificates import write_private
from sandbox.cluster import Sandbox
from sandbox.faults.apiproxy import ApiProxy
from tests.e2e.conftest import MakePool
from tests.e2e.pools import ROOMY, WITHIN
from tests.e2e.worker_process import WorkerProcess
from tests.workflows.waiting import until

LATE_SECONDS = 5.0
SCHEDULER = "kube-scheduler"
PODS = 36
FIT = 12
"""How many of them fit on the four nodes of the limit."""


@pytest.fixture
def late_scheduler(sandbox: Sandbox) -> Iterator[ApiProxy]:
    """A kube-scheduler whose watch of pods is late. Proxies pass on tokens only, so it gets one."""
    sandbox.kubectl("create", "serviceaccount", "late-scheduler", "--namespace=kube-system")
    account = "--serviceaccount=kube-system:late-scheduler"
    sandbox.kubectl("create", "clusterrolebinding", "late-scheduler", "--clusterrole=cluster-admin", account)
    token = sandbox.kubectl("create", "token", "late-scheduler", "--namespace=kube-system", "--duration=1h").strip()
    path = sandbox.layout.component_kubeconfig(SCHEDULER)
    before = path.read_bytes()
    with ApiProxy.start(sandbox) as proxy:
        document = yaml.safe_load(before)
        document["clusters"][0]["cluster"]["server"] = proxy.endpoint
        document["users"][0]["user"] = {"token": token}
        write_private(path, yaml.safe_dump(document).encode())
        sandbox.stop_component(SCHEDULER)
        sandbox.start_component(SCHEDULER)
        proxy.delay_watches("pods", LATE_SECONDS)
        try:
            yield proxy
        finally:
            write_private(path, before)
            sandbox.stop_component(SCHEDULER)
            sandbox.start_component(SCHEDULER)
            sandbox.kubectl("delete", "clusterrolebinding", "late-scheduler")
            sandbox.kubectl("delete", "serviceaccount", "late-scheduler", "--namespace=kube-system")


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
