"""A Deployment is scaled in: with the gate PodDeletionCostManagement, its pods go from the node that should leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from activities.kubernetes.client import Kube
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.pools import Object, Pool
from tests.e2e.worker import Worker
from tests.e2e.worker_process import WorkerProcess
from tests.workflows.waiting import until

RIGHTS = Path(__file__).parents[2] / "deploy" / "rbac-gates" / "PodDeletionCostManagement.yaml"
GATE = "PodDeletionCostManagement=true"
TYPE = [
    {"key": labels.INSTANCE_TYPE, "operator": "In", "values": ["m5.xlarge"]},
    {"key": labels.CAPACITY_TYPE, "operator": "In", "values": ["on-demand"]},
]


@contextmanager
def gated(sandbox: Sandbox, worker: Worker) -> Iterator[WorkerProcess]:
    """A worker with the gate and its right, in place of the other one."""
    other = WorkerProcess(sandbox, "pod-deletion-costs", FEATURE_GATES=GATE)
    with ExitStack() as stack:  # whatever fails, the usual worker is started again: all later tests need it
        sandbox.kubectl("apply", "-f", str(RIGHTS))
        stack.callback(sandbox.kubectl, "delete", "-f", str(RIGHTS))
        stopped = [worker.stop()]
        stack.callback(worker.start)
        stack.callback(lambda: stopped.append(other.stop()))
        other.start()
        yield other
    assert stopped == [0, 0], f"see {worker.log} and {other.log}"


def cost(pod: Object) -> int:
    return int((pod["metadata"].get("annotations") or {}).get(labels.POD_DELETION_COST, 0))


async def ranked(pool: Pool) -> list[Object]:
    """Wait until every pod has a cost; the pods, those of the node that should be emptied first in front."""
    pods: list[Object] = []

    async def all_have_costs() -> bool:
        pods[:] = sorted(await pool.pods("web"), key=cost)
        return all(cost(pod) < 0 for pod in pods)

    await until(all_have_costs)
    return pods


async def test_n15_213_a_scale_in_empties_the_node_that_should_leave(
    make_pool: MakePool, kube: Kube, sandbox: Sandbox, worker: Worker
) -> None:
    """By itself, a ReplicaSet takes pods of the node that has most of them, and no node becomes empty."""
    if not isinstance(worker, WorkerProcess):
        pytest.skip("the worker of this run is a pod, whose gates the chart sets")
    pool = await make_pool(consolidate_after="1h", requirements=TYPE)
    await pool.deploy(4)
    await pool.running(4)
    with gated(sandbox, worker) as other:
        pods = await ranked(pool)
        nodes = Counter(pod["spec"]["nodeName"] for pod in pods)
        assert len(nodes) == 2, "three of the pods fit on a node"
        first = pods[0]["spec"]["nodeName"]
        assert {cost(pod) for pod in pods if pod["spec"]["nodeName"] == first} == {-2}
        await pool.scale(4 - nodes[first])
        remaining_pods = await pool.running(4 - nodes[first])
        assert first not in {pod["spec"]["nodeName"] for pod in remaining_pods}
        assert other.metric("karpenter_pod_deletion_cost_pod_annotation_writes_total", result="updated") >= 4
