"""WSH-13, WSH-30: a NodePool's share of spot capacity and its balance of zones, as EC2 launches the nodes."""

from __future__ import annotations

from collections import Counter

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import NODEPOOLS
from tenon.apis import labels
from tests.e2e.conftest import MakePool
from tests.e2e.pools import SMALL


async def test_wsh13_half_of_the_nodes_are_spot_and_the_zones_are_balanced(make_pool: MakePool, kube: Kube) -> None:
    """The second batch counts the nodes of the first."""
    pool = await make_pool(requirements=SMALL, consolidate_after="Never")
    goals = {labels.SPOT_SHARE: "50%", labels.ZONE_BALANCE: "20%"}
    await kube.patch(NODEPOOLS, pool.name, {"metadata": {"annotations": goals}})
    await pool.deploy(3)
    await pool.running(3)
    await pool.deploy(3, app="more")
    await pool.running(6)
    claims = await pool.claims()
    assert len(claims) == 6
    capacity_types = Counter(claim["metadata"]["labels"][labels.CAPACITY_TYPE] for claim in claims)
    assert capacity_types == {labels.SPOT: 3, labels.ON_DEMAND: 3}
    zones = Counter(claim["metadata"]["labels"][labels.ZONE] for claim in claims)
    assert len(zones) > 1
    assert max(zones.values()) - min(zones.values()) <= 1
    explained = [claim["metadata"]["annotations"][labels.EXPLANATION] for claim in claims]
    assert sum(f"{labels.SPOT_SHARE} 50%: on-demand, which costs $" in text for text in explained) == 3
    assert all(f"{labels.ZONE_BALANCE}: the NodePool has the fewest vCPUs in" in text for text in explained)
