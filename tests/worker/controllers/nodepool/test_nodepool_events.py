"""What is wrong with a NodePool is told once, and stops no other NodePool."""

from __future__ import annotations

import asyncio

import pytest

from tests.worker.cache.objects import claim
from tests.worker.fake_temporal import MOMENT
from tests.worker.nodepool_cluster import keeping, pool, put

pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


async def test_a_pool_that_cannot_be_read_does_not_stop_the_others() -> None:
    unreadable = pool("a", {"template/spec/requirements": "nonsense"})
    async with keeping(unreadable, pool("b")) as (_, server, events):
        assert server.condition("b", "Ready")["status"] == "True"
        assert ("NodePool", "a", "NodePoolValidationFailed") in [event[:3] for event in events.events]


async def test_an_invalid_pool_is_reported_once_and_recovers() -> None:
    schedule = {"disruption/budgets": [{"nodes": "1", "schedule": "61 * * * *", "duration": "1h"}]}
    async with keeping(pool("a", schedule)) as (cache, server, events):
        await asyncio.sleep(200 * MOMENT)
        assert events.reasons() == ["NodePoolValidationFailed"]
        assert server.condition("a", "ValidationSucceeded")["status"] == "False"
        mended = pool("a")
        put(cache, {**mended, "status": server.status("a")})
        await asyncio.sleep(3 * MOMENT)
        assert server.condition("a", "Ready")["status"] == "True"


async def test_pools_that_take_the_same_pods_are_reported_once_and_stay_ready() -> None:
    """Informative: a condition and one event on each, naming the other; weights settle it."""
    async with keeping(pool("a"), pool("b")) as (cache, server, events):
        await asyncio.sleep(200 * MOMENT)
        assert events.reasons() == ["SamePodsSameWeight", "SamePodsSameWeight"]
        assert "NodePool b" in server.condition("a", "Overlapping")["message"]
        assert "NodePool a" in server.condition("b", "Overlapping")["message"]
        assert server.condition("a", "Ready")["status"] == "True"
        heavier = {**pool("b", {"weight": 10}), "status": server.status("b")}
        heavier["metadata"]["generation"] = 2
        put(cache, heavier)
        await asyncio.sleep(3 * MOMENT)
        assert server.condition("a", "Overlapping") == server.condition("b", "Overlapping") == {}


async def test_unknown_values_next_to_known_ones_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    """NP-V8: the pool goes on with the values that there are."""
    term = {"key": "karpenter.sh/capacity-type", "operator": "In", "values": ["spot", "free"]}
    async with keeping(pool("a", {"template/spec/requirements": [term]})) as (cache, server, _):
        cache.publish(claim("x", node_name="", meta={"labels": {"karpenter.sh/nodepool": "a"}}))
        await asyncio.sleep(200 * MOMENT)
        assert server.condition("a", "Ready")["status"] == "True"
    (line,) = [record for record in caplog.records if record.message == "A NodePool names unknown values"]
    assert "unknown values free are ignored" in line.__dict__["error"]
