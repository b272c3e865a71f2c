"""The metrics of NodePools, also of those that are gone."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest
from prometheus_client import REGISTRY

from activities.provisioning.launch_refusals import LaunchRefusals
from tenon.apis import labels
from tenon.node.launch_breaker import refused
from tenon.provisioning.planning_policy import PlanPolicy
from tests.worker.cache.objects import claim
from tests.worker.fake_temporal import MOMENT, Cache
from tests.worker.nodepool_cluster import keeping, measured_breaker, pool, put
from worker.controllers.nodepool.prices import PoolPrices

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
pytestmark = [pytest.mark.asyncio(loop_scope="function"), pytest.mark.looptime]


@pytest.mark.parametrize("measured", [True, False])
async def test_set14_metrics_of_pools_are_kept_unless_they_are_not_wanted(measured: bool) -> None:
    name = f"measured-{measured}".lower()
    async with keeping(pool(name, {"limits": {"cpu": "10"}}), measured=measured):
        sample_value = REGISTRY.get_sample_value(
            "karpenter_nodepools_limit", {"resource_type": "cpu", "nodepool": name}
        )
    assert sample_value == (10.0 if measured else None)


async def test_met37_the_state_counts_as_synced_only_once_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = asyncio.Event()

    async def wait(_: Cache) -> None:
        await whole.wait()

    monkeypatch.setattr(Cache, "wait_synced", wait)
    async with keeping():
        await asyncio.sleep(3 * MOMENT)
        assert REGISTRY.get_sample_value("karpenter_cluster_state_synced") == 0
        assert (REGISTRY.get_sample_value("karpenter_cluster_state_unsynced_time_seconds") or 0) >= 2.0
        whole.set()
        await asyncio.sleep(MOMENT)
        assert REGISTRY.get_sample_value("karpenter_cluster_state_unsynced_time_seconds") == 0
        assert REGISTRY.get_sample_value("karpenter_cluster_state_synced") == 1


async def test_met18_a_pool_that_is_gone_and_a_removed_limit_drop_to_zero() -> None:
    """A series cannot be taken back where several processes share their metrics."""

    def told(kind: str, resource: str) -> float | None:
        labels = {"resource_type": resource, "nodepool": "going"}
        return REGISTRY.get_sample_value(f"karpenter_nodepools_{kind}", labels)

    async with keeping(pool("going", {"limits": {"cpu": "10", "memory": "1Gi"}})) as (cache, _, _):
        cache.publish(claim("a", node_name="", meta={"labels": {"karpenter.sh/nodepool": "going"}}))
        await asyncio.sleep(MOMENT)
        assert (told("limit", "cpu"), told("limit", "memory"), told("usage", "nodes")) == (10.0, 2.0**30, 1.0)
        put(cache, {**pool("going", {"limits": {"cpu": "10"}}), "metadata": {"name": "going", "generation": 2}})
        await asyncio.sleep(MOMENT)
        assert (told("limit", "cpu"), told("limit", "memory")) == (10.0, 0.0)
        cache.pools.on_event("going", None)
        await asyncio.sleep(MOMENT)
        assert (told("limit", "cpu"), told("usage", "nodes")) == (0.0, 0.0)


async def test_a_deleted_pool_no_longer_counts_as_held_back() -> None:
    """An alert on the metric would otherwise fire for ever."""
    refusals = LaunchRefusals(now=lambda: NOW)
    refusals.update([refused(None, "deleted", "Unauthorized", "you may not", NOW)])
    async with keeping(pool("deleted"), refusals=refusals) as (cache, _, _):
        assert measured_breaker("deleted") == 1
        cache.pools.on_event("deleted", None)
        await asyncio.sleep(MOMENT)
        assert measured_breaker("deleted") == 0


async def test_what_ended_while_another_replica_led_drops_to_zero() -> None:
    def limit(name: str, resource: str) -> float | None:
        return REGISTRY.get_sample_value("karpenter_nodepools_limit", {"resource_type": resource, "nodepool": name})

    refusals = LaunchRefusals(now=lambda: NOW)
    refusals.update([refused(None, "left", "Unauthorized", "you may not", NOW)])
    limits = {"limits": {"cpu": "10", "memory": "1Gi"}}
    async with keeping(pool("left", limits), pool("stays", limits), refusals=refusals):
        assert (limit("left", "cpu"), limit("stays", "memory"), measured_breaker("left")) == (10.0, 2.0**30, 1)
    async with keeping(pool("stays", {"limits": {"cpu": "10"}})):
        assert (limit("left", "cpu"), measured_breaker("left")) == (0.0, 0)
        assert (limit("stays", "cpu"), limit("stays", "memory")) == (10.0, 0.0)


async def test_wsh36_limits_on_costs_and_their_use_are_measured_in_dollars() -> None:
    def sample(kind: str, resource: str, name: str) -> float | None:
        labels_of_series = {"resource_type": f"tenon.sh/{resource}", "nodepool": name}
        return REGISTRY.get_sample_value(f"karpenter_nodepools_{kind}", labels_of_series)

    costly, free = pool("costly"), pool("free")
    costly["metadata"]["annotations"] = {labels.MAX_HOURLY_COST: "2.5"}
    of_pool = {"labels": {labels.NODEPOOL: "costly"}}
    starting = {**of_pool, "annotations": {labels.LARGEST_CAPACITY: '{"tenon.sh/hourly-cost": "250000"}'}}
    claims = [
        claim("a", meta={**of_pool, "annotations": {labels.LAUNCH_PRICE: "0.5"}}),
        claim("b", node_name="", meta=starting),
        claim(
            "c", node_name="m", meta={"labels": {labels.NODEPOOL: "free"}, "annotations": {labels.LAUNCH_PRICE: "1"}}
        ),
    ]
    async with keeping(costly, free, claims=claims, policy=PlanPolicy(max_hourly_cost=100)):
        assert (sample("limit", "hourly-cost", "costly"), sample("usage", "hourly-cost", "costly")) == (2.5, 0.75)
        assert (sample("limit", "hourly-cost", "free"), sample("usage", "hourly-cost", "free")) == (None, None)
        for name in ("costly", "free"):
            assert sample("limit", "total-hourly-cost", name) == 100
            assert sample("usage", "total-hourly-cost", name) == 1.75
    prices = PoolPrices()
    prices.update({"costly": 0.75})
    async with keeping(costly, free, claims=claims, prices=prices):
        assert sample("usage", "hourly-cost", "costly") == 1.0, "at today's prices, once they are known"
