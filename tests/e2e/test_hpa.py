"""A HorizontalPodAutoscaler and Tenon together: load makes pods, pods make nodes; and back."""

from __future__ import annotations

import asyncio
from typing import Any

from activities.kubernetes.resources import Resource
from sandbox.cluster import Sandbox
from tests.e2e.conftest import MakePool
from tests.e2e.pools import KEY, NAMESPACE, SMALL, WITHIN
from tests.workflows.waiting import until

AUTOSCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", True, "HorizontalPodAutoscaler")


def autoscaler(deployment: str, pool: str) -> dict[str, Any]:
    """Half of what pods request is to be used; what went up comes down as soon as it may."""
    utilization = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}
    return {
        "metadata": {"name": deployment, "labels": {KEY: pool}},
        "spec": {
            "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": deployment},
            "minReplicas": 1,
            "maxReplicas": 5,
            "metrics": [{"type": "Resource", "resource": utilization}],
            "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
        },
    }


async def test_load_makes_pods_and_nodes_and_takes_them_away(make_pool: MakePool, sandbox: Sandbox) -> None:
    """LIF-01..04, DIS-20..23: 1.5 CPUs of load at half a CPU a pod are three pods, here on a node each; then one."""
    pool = await make_pool(consolidate_after="1s", requirements=SMALL)
    await pool.deploy(1)
    deployment = f"{pool.name}-web"
    await asyncio.to_thread(sandbox.load, deployment, "1500m")
    await pool.kube.create(AUTOSCALERS, autoscaler(deployment, pool.name), NAMESPACE)
    try:
        pods = await pool.running(3, within=2 * WITHIN)
        claims = await pool.settled(3)
        assert len({pod["spec"]["nodeName"] for pod in pods}) == 3
        await _measured(pool.kube, deployment, 50)

        await asyncio.to_thread(sandbox.load, deployment, "0")
        (remainder,) = await pool.running(1, within=2 * WITHIN)
        claim_after = await pool.claim_of(remainder)
        for claim in claims:
            if claim["metadata"]["name"] != claim_after:
                await pool.gone(claim["metadata"]["name"])
        assert [claim["metadata"]["name"] for claim in await pool.claims()] == [claim_after]
        assert sorted(i["state"] for i in pool.instances()) == ["running", "terminated", "terminated"]
    finally:
        await pool.kube.delete(AUTOSCALERS, deployment, namespace=NAMESPACE)


async def _measured(kube: Any, name: str, percent: int) -> None:
    """Wait until the autoscaler has measured this utilization, and wants no other number of pods."""

    async def told() -> bool:
        autoscaler = await kube.get(AUTOSCALERS, name, NAMESPACE)
        status = autoscaler["status"]
        values = [m["resource"]["current"].get("averageUtilization") for m in status.get("currentMetrics") or ()]
        return values == [percent] and status["desiredReplicas"] == status["currentReplicas"]

    await until(told, within=WITHIN)
