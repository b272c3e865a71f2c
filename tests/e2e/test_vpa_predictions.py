"""A pod that VPA will make larger gets a node that holds it then (gate VPAPredictions; SCH-105, N15-305)."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODES, VPAS
from sandbox.cluster import Sandbox
from tenon.resources import parse_resources
from tests.e2e.conftest import MakePool
from tests.e2e.pools import NAMESPACE
from tests.e2e.worker import Worker
from tests.e2e.worker_process import WorkerProcess
from tests.workflows.waiting import until

RIGHTS = Path(__file__).parents[2] / "deploy" / "rbac-gates" / "VPAPredictions.yaml"
DEFINITION = Path(__file__).with_name("verticalpodautoscalers.yaml")


@contextmanager
def gated(sandbox: Sandbox, worker: Worker) -> Iterator[None]:
    """A worker with the gate and its right, in place of the other one, in a cluster with VPA's definition."""
    other = WorkerProcess(sandbox, "vpa-predictions", FEATURE_GATES="VPAPredictions=true")
    with ExitStack() as stack:  # whatever fails, the usual worker is started again: all later tests need it
        stopped = [worker.stop()]
        stack.callback(worker.start)
        sandbox.kubectl("apply", "-f", str(RIGHTS), "-f", str(DEFINITION))
        stack.callback(sandbox.kubectl, "delete", "-f", str(RIGHTS), "-f", str(DEFINITION))
        sandbox.kubectl("wait", "--for=condition=Established", "crd/verticalpodautoscalers.autoscaling.k8s.io")
        stack.callback(lambda: stopped.append(other.stop()))
        other.start()
        yield
    assert stopped == [0, 0], f"see {worker.log} and {other.log}"


async def test_n15_305_a_node_holds_what_its_pod_becomes(
    make_pool: MakePool, kube: Kube, sandbox: Sandbox, worker: Worker
) -> None:
    """The pod requests 1 CPU when it is created, and VPA recommends 6."""
    if not isinstance(worker, WorkerProcess):
        pytest.skip("the worker of this run is a pod, whose gates the chart sets")
    pool = await make_pool(consolidate_after="Never")
    with gated(sandbox, worker):
        target = {"containerName": "main", "target": {"cpu": "6"}}
        spec = {
            "targetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": f"{pool.name}-web"},
            "updatePolicy": {"updateMode": "Recreate"},
            "resourcePolicy": {"containerPolicies": [{"containerName": "*", "maxAllowed": {"cpu": "5"}}]},
        }
        await kube.create(VPAS, {"metadata": {"name": "web"}, "spec": spec}, NAMESPACE)
        status = {"status": {"recommendation": {"containerRecommendations": [target]}}}
        await kube.patch(VPAS, "web", status, namespace=NAMESPACE, subresource="status")

        async def stored() -> bool:
            vpa = await kube.get(VPAS, "web", NAMESPACE)
            return bool(vpa and vpa.get("status"))

        await until(stored)
        await pool.deploy(1)
        (pod,) = await pool.running(1)
        node = await kube.get(NODES, pod["spec"]["nodeName"])
        assert node is not None
        assert parse_resources(node["status"]["allocatable"])["cpu"] >= 5000
