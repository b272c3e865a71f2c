"""Plans count with the memory that nodes reported (AWS-061, ACT-10)."""

from __future__ import annotations

from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EC2NODECLASSES
from tenon.apis import labels
from tenon.ec2.types.learned_memory import read_figures
from tenon.resources import MEMORY, to_units
from tests.e2e.conftest import MakePool
from tests.workflows.waiting import until

TYPE = [{"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["m5.large"]}]
MI = 2**20


def memory(of: dict[str, Any], kind: str) -> int:
    """Bytes of an object's capacity or of what is allocatable."""
    return to_units(MEMORY, of["status"][kind]["memory"])


async def test_aws061_act10_a_second_batch_plans_with_what_the_first_node_reported(
    make_pool: MakePool, kube: Kube
) -> None:
    """The kubelet reports more than the overhead percentage leaves. A pod that needs it waits for no other type."""
    pool = await make_pool(requirements=TYPE)
    await pool.deploy(1, "first")
    await pool.running(1, "first")
    (first,) = await pool.settled(1)
    (node,) = await pool.nodes()
    nominated, reported = memory(first, "capacity"), memory(node, "capacity")
    assert nominated < reported

    async def learned() -> bool:
        node_class = await kube.get(EC2NODECLASSES, pool.name) or {}
        annotations = node_class["metadata"].get("annotations") or {}
        assert labels.LEARNED_AMOUNTS not in annotations, "the kubelet reports the CPU and pods that were planned"
        figures = read_figures(annotations)
        return figures.get(first["status"]["imageID"], {}).get("m5.large") == reported // 1024

    await until(learned)
    expectation = memory(node, "allocatable") - 8 * MI
    assert expectation > memory(first, "allocatable")
    requests = {"cpu": "1", "memory": str(expectation)}
    await pool.deploy(1, "large", containers=[{"name": "main", "image": "pause", "resources": {"requests": requests}}])
    await pool.running(1, "large")
    claims = await pool.settled(2)
    (second,) = [claim for claim in claims if claim["metadata"]["name"] != first["metadata"]["name"]]
    assert memory(second, "capacity") == reported
