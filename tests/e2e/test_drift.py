"""Drift as a user sees it on NodeClaims."""

from __future__ import annotations

from typing import Any

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import EC2NODECLASSES, NODEPOOLS
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.account import aws
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL, Pool, condition
from tests.workflows.waiting import until

OLDER, NEWER = "al2023@v20261001", "al2023@v20261101"


async def _drifted(pool: Pool, reason: str) -> dict[str, Any]:
    """Wait until the pool's only NodeClaim drifted for this reason; an empty reason is no drift. The condition."""
    result: dict[str, Any] = {}

    async def seen() -> bool:
        result.clear()
        result.update(condition(await pool.claim(), "Drifted"))
        return str(result.get("reason", "")) == reason

    await until(seen)
    return result


async def test_dis74_dis70_dis30_a_node_drifts_with_its_class_and_its_pool_and_back(
    make_pool: MakePool, sandbox: Sandbox, kube: Kube
) -> None:
    """DIS-77: a budget of 0 keeps the node, so that each reason can be seen on it."""
    pool = await make_pool(requirements=SMALL, budgets=[{"nodes": "0"}], amiSelectorTerms=[{"alias": OLDER}])
    await pool.deploy(1)
    await pool.running(1)
    (claim,) = await pool.settled(1)
    (instance,) = pool.instances(claim["metadata"]["name"])
    described = aws(sandbox, "ec2").describe_instances(InstanceIds=[instance["id"]])["Reservations"][0]["Instances"][0]
    annotations = claim["metadata"]["annotations"]
    assert annotations[labels.SUBNET_ID] == described["SubnetId"]
    assert annotations[labels.SECURITY_GROUP_IDS] == ",".join(g["GroupId"] for g in described["SecurityGroups"])

    async def consolidatable() -> bool:
        return condition(await pool.claim(), "Consolidatable").get("status") == "True"

    await until(consolidatable)
    assert condition(await pool.claim(), "Drifted") == {}, "a new node is as its pool and class describe it"

    await kube.patch(EC2NODECLASSES, pool.name, {"spec": {"amiSelectorTerms": [{"alias": NEWER}]}})
    result = await _drifted(pool, "AMIDrift")
    assert result["status"] == "True"
    assert described["ImageId"] in result["message"]
    await kube.patch(EC2NODECLASSES, pool.name, {"spec": {"amiSelectorTerms": [{"alias": OLDER}]}})
    await _drifted(pool, "")

    await kube.patch(EC2NODECLASSES, pool.name, {"spec": {"userData": "echo changed"}})
    await _drifted(pool, "NodeClassDrift")
    await kube.patch(EC2NODECLASSES, pool.name, {"spec": {"userData": None}})
    await _drifted(pool, "")

    template = {"spec": {"template": {"metadata": {"annotations": {"example.com/team": "a"}}}}}
    await kube.patch(NODEPOOLS, pool.name, template)
    result = await _drifted(pool, "NodePoolDrifted")
    assert "spec.template.metadata.annotations (example.com/team)" in result["message"]
