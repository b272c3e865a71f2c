"""NodeOverlays as users apply them: what is bought, what the NodeClaim bears, and what an overlay says of itself."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEOVERLAYS, NODES
from sandbox.cluster import Sandbox
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.pools import Pool, condition
from tests.tenon.apis.case import term
from tests.workflows.waiting import until

ON_DEMAND = term(labels.CAPACITY_TYPE, "In", "on-demand")
SLOTS = "example.com/slots"


def kind(*names: str) -> dict[str, Any]:
    return term(labels.INSTANCE_TYPE, "In", *names)


class Overlays:
    """Overlays on one pool's types."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self.overlay_names: list[str] = []

    async def apply(self, pool: Pool, suffix: str, *requirements: dict[str, Any], **spec: Any) -> str:
        name = f"{pool.name}-{suffix}"
        of_pool = term(labels.NODEPOOL, "In", pool.name)
        body = {"metadata": {"name": name}, "spec": {"requirements": [of_pool, *requirements], **spec}}
        self.overlay_names.append(name)
        await self._kube.create(NODEOVERLAYS, body)
        return name

    async def says(self, name: str, kind: str, status: str) -> dict[str, Any]:
        """Wait until a condition has this status; the condition."""
        result: dict[str, Any] = {}

        async def so() -> bool:
            result.update(condition(await self._kube.get(NODEOVERLAYS, name), kind))
            return result.get("status") == status

        await until(so)
        return result

    async def delete(self, name: str) -> None:
        await self._kube.delete(NODEOVERLAYS, name)


@pytest_asyncio.fixture(loop_scope="session")
async def overlays(kube: Kube) -> AsyncIterator[Overlays]:
    applied = Overlays(kube)
    yield applied
    for name in applied.overlay_names:
        await applied.delete(name)


async def test_an_overlay_makes_another_type_the_cheapest_and_a_rival_is_reported(
    make_pool: MakePool, overlays: Overlays, sandbox: Sandbox
) -> None:
    """NO-02, NO-06, NO-08, NO-10, CRD-04, GAT-04: c5.large is the cheaper by EC2's list, m5.large by the overlay."""
    pool = await make_pool(consolidate_after="Never", requirements=[kind("c5.large", "m5.large"), ON_DEMAND])
    first = await overlays.apply(pool, "z", kind("m5.large"), price="0.01")
    await overlays.says(first, "Ready", "True")
    await pool.deploy(1)
    await pool.running(1)
    (claim,) = await pool.settled(1)
    (instance,) = pool.instances()
    assert instance["type"] == "m5.large"
    annotations = claim["metadata"]["annotations"]
    assert annotations["karpenter.sh/price-overlay-applied"] == "true"
    assert "karpenter.sh/capacity-overlay-applied" not in annotations
    calls = [call for call in sandbox.ec2().calls("CreateFleet") if claim["metadata"]["name"] in str(call)]
    assert "prioritized" in str(calls[-1])
    assert "0.01" in str(calls[-1])

    rival = await overlays.apply(pool, "a", kind("m5.large", "c5.large"), priceAdjustment="+10%")
    says = await overlays.says(rival, "ValidationSucceeded", "False")
    assert says["reason"] == "Conflict"
    assert first in says["message"]
    await overlays.says(rival, "Ready", "False")
    await overlays.delete(first)
    await overlays.says(rival, "ValidationSucceeded", "True")


async def test_a_resource_that_an_overlay_adds_is_bought_and_awaited_on_the_node(
    make_pool: MakePool, overlays: Overlays, kube: Kube
) -> None:
    """NO-04, NO-07, NO-08: planned by the overlay, launched, and initialized once the node itself has it."""
    pool = await make_pool(consolidate_after="Never", requirements=[kind("c5.large", "m5.large"), ON_DEMAND])
    await overlays.says(await overlays.apply(pool, "c", kind("m5.large"), capacity={SLOTS: "4"}), "Ready", "True")
    needs = {"requests": {"cpu": "1", SLOTS: "2"}, "limits": {SLOTS: "2"}}
    await pool.deploy(1, containers=[{"name": "main", "image": "pause", "resources": needs}])

    async def awaited() -> bool:
        claims = await pool.claims()
        return [condition(claim, "Initialized").get("reason") for claim in claims] == ["ResourceNotRegistered"]

    await until(awaited)
    claim = await pool.claim()
    assert claim["metadata"]["labels"][labels.INSTANCE_TYPE] == "m5.large"
    assert claim["metadata"]["annotations"]["karpenter.sh/capacity-overlay-applied"] == "true"
    assert claim["status"]["capacity"][SLOTS] == "4"
    published = {"status": {"capacity": {SLOTS: "4"}, "allocatable": {SLOTS: "4"}}}
    await kube.patch(NODES, claim["status"]["nodeName"], published, subresource="status")
    await pool.running(1)
    await pool.settled(1)
