"""The hashes by which NodePools and NodeClaims drift are written, also where another controller wrote them."""

from __future__ import annotations

import asyncio

import pytest

from tests.worker.cache.objects import claim
from tests.worker.fake_temporal import MOMENT
from tests.worker.nodepool_cluster import keeping, pool, put

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


async def test_dis75_claims_of_a_pool_that_another_controller_hashed_are_hashed_again() -> None:
    """QRK-15: with the pool itself, claims first."""
    theirs = {"karpenter.sh/nodepool-hash": "7", "karpenter.sh/nodepool-hash-version": "v3"}
    adopted = pool("pool")
    adopted["metadata"]["annotations"] = theirs
    async with keeping() as (cache, server, _):
        cache.publish(claim("a", node_name=""))
        put(cache, adopted)
        await asyncio.sleep(3 * MOMENT)
        written = [name for name, subresource in server.patches if not subresource]
        assert written.index("a") < written.index("pool")
        ours = cache.pools.get("pool")
        assert ours is not None
        assert ours.annotations["karpenter.sh/nodepool-hash-version"] == "tenon-v1"


async def test_dis75_a_claim_of_another_controller_that_is_seen_late_is_hashed_again() -> None:
    """The cache may be behind what Karpenter wrote last; with a version of its own the claim could never drift."""
    async with keeping(pool("pool")) as (cache, server, _):
        theirs = {"karpenter.sh/nodepool-hash": "7", "karpenter.sh/nodepool-hash-version": "v3"}
        cache.publish(claim("late", node_name="", meta={"annotations": theirs}))
        cache.publish(claim("unhashed", node_name=""))
        await asyncio.sleep(3 * MOMENT)
        written = [name for name, subresource in server.patches if not subresource]
        assert "late" in written
        assert "unhashed" not in written
