"""Expressions in the kubelet settings of an EC2NodeClass, from the manifest to the Node (EC-15, GAT-07)."""

from __future__ import annotations

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EC2NODECLASSES
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL, condition
from tests.workflows.waiting import until


async def test_ec15_a_node_keeps_what_the_expressions_come_to_for_its_type(make_pool: MakePool, kube: Kube) -> None:
    """And what stops having a value stops the class, with the type for which it has none."""
    computed = {"maxPods": "vcpus * 5", "kubeReserved": {"cpu": "vcpus * 52"}}
    pool = await make_pool(consolidate_after="Never", requirements=SMALL, kubelet=computed)
    await pool.deploy(1)
    await pool.running(1)
    (claim,) = await pool.settled(1)
    (node,) = await pool.nodes()
    for status in (claim["status"], node["status"]):
        assert status["capacity"]["pods"] == "10"
        assert status["allocatable"]["cpu"] == "1890m"

    await kube.patch(EC2NODECLASSES, pool.name, {"spec": {"kubelet": {"maxPods": "100 / (vcpus - 2)"}}})

    async def stopped() -> bool:
        text = condition(await kube.get(EC2NODECLASSES, pool.name), "ValidationSucceeded")
        return text.get("reason") == "KubeletExpressionEvaluationFailed" and "divide by zero" in text["message"]

    await until(stopped)
