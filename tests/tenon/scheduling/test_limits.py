"""A NodePool's limits hold whichever listed type each claim turns into (SCH-092, QRK-18)."""

from __future__ import annotations

import pytest

from tenon.scheduling.engine import solve
from tests.tenon.scheduling.builders import CATALOG, catalog, entry, pod, pool, problem, replicas

CAPACITY = {t.name: t.capacity for t in CATALOG}


def test_qrk18_the_nodes_limit_counts_down_within_a_batch() -> None:
    only_small = catalog(entry("m5.large", 2, 8, 0.1))
    plan = solve(problem(replicas(5), pool(types=only_small, limits={"nodes": 3}, usage={"nodes": 1})))
    assert len(plan.claims) == 2
    assert len(plan.unschedulable) == 3
    assert "nodes 3" in str(plan.unschedulable["default/p-4"])


@pytest.mark.parametrize("limit", [10, 40, 100, 333])
def test_sch092_the_largest_listed_types_stay_within_the_limit(limit: int) -> None:
    plan = solve(problem(replicas(60, "2"), pool(limits={"cpu": str(limit), "memory": "1Ti"})))
    for name, most in (("cpu", limit * 1000), ("memory", 2**40)):
        peak = sum(max(CAPACITY[t][name] for t in claim.instance_types) for claim in plan.claims)
        assert peak <= most
    assert plan.claims


def test_sch092_usage_counts_against_the_limit() -> None:
    plan = solve(problem([pod()], pool(limits={"cpu": "10"}, usage={"cpu": "9"})))
    assert plan.claims == ()
    assert "limit" in str(plan.unschedulable["default/p"])


def test_sch093_what_limits_keep_out_goes_to_the_next_pool() -> None:
    first = pool("first", weight=5, limits={"nodes": 1}, types=catalog(entry("m5.large", 2, 8, 0.1)))
    plan = solve(problem(replicas(3), first, pool("second")))
    assert sorted((claim.pool, len(claim.pods)) for claim in plan.claims) == [("first", 1), ("second", 2)]
    assert plan.unschedulable == {}


def test_a_limit_of_no_devices_leaves_the_other_types() -> None:
    device = entry("p9.large", 2, 8, 0.01, capacity={"nvidia.com/gpu": "1"})
    (claim,) = solve(
        problem([pod()], pool(types=catalog(device, entry("m5.large", 2, 8, 0.1)), limits={"nvidia.com/gpu": 0}))
    ).claims
    assert claim.instance_types == ("m5.large",)


def test_wide_limits_do_not_shorten_the_list() -> None:
    (claim,) = solve(problem([pod()], pool(limits={"cpu": "10000"}))).claims
    (free,) = solve(problem([pod()], pool())).claims
    assert claim.instance_types == free.instance_types
