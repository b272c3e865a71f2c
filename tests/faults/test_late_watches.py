"""Watches of pods that are five seconds late, as on an API server in a burst: no kubelet may refuse a pod."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from sandbox.certificates import write_private
from sandbox.cluster import Sandbox
from sandbox.faults.apiproxy import ApiProxy
from tests.e2e.conftest import MakePool
from tests.e2e.pools import ROOMY
from tests.e2e.worker_process import WorkerProcess

LATE_SECONDS = 5.0
SCHEDULER = "kube-scheduler"
PODS = 36


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
    worker: WorkerProcess, make_pool: MakePool, api: ApiProxy, late_scheduler: ApiProxy
) -> None:
    api.delay_watches("pods", LATE_SECONDS)
    pool = await make_pool(requirements=ROOMY)
    await pool.deploy(PODS, app="burst")
    await pool.running(PODS)
