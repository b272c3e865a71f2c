"""Limits on what nodes cost an hour: of a NodePool, and of all NodePools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.apis.hourly_cost import MICRO_DOLLARS, read_max_hourly_cost
from tenon.apis.nodepool import NodePool
from tenon.apis.validation import check_nodepool
from tenon.kube.pod import Pod
from tenon.provisioning.cost_limits import BoughtOffering, costs_of
from tenon.provisioning.planning_policy import PlanPolicy
from tenon.provisioning.problem import problem_of
from tenon.provisioning.solving import solve_with_buffers
from tenon.provisioning.static_node import affordable_nodes, static_node
from tenon.scheduling.after_plan import pools_after
from tenon.scheduling.model import InstanceType, Plan, PlannedClaim, Problem
from tenon.scheduling.offerings.hourly_cost import HOURLY_COST, TOTAL_HOURLY_COST
from tests.activities.provisioning.fake_view import FakeView, node_pool
from tests.tenon.scheduling.builders import CATALOG, ON_DEMAND, asking, catalog, entry, need, pod, replicas

TYPES = {kind.name: kind for kind in CATALOG}
ONLY_LARGE = catalog(entry("m5.large", 2, 8, 0.1))


def limited(name: str = "default", cost: str | None = None, *requirements: dict[str, Any]) -> NodePool:
    """A NodePool with a limit on costs."""
    edits = {"template/spec/requirements": list(requirements)} if requirements else {}
    return node_pool(name, edits, annotations={} if cost is None else {labels.MAX_HOURLY_COST: cost})


def capacity_types(*values: str) -> dict[str, Any]:
    return {"key": labels.CAPACITY_TYPE, "operator": "In", "values": list(values)}


def posed(
    pods: Sequence[Pod],
    *pools: NodePool,
    types: Sequence[InstanceType] = CATALOG,
    bought: Sequence[BoughtOffering] = (),
    total: float = 0.0,
) -> Problem:
    view = FakeView()
    view.pools, view.bought = list(pools), list(bought)
    return problem_of(view, pods, [(pool, types) for pool in pools], PlanPolicy(max_hourly_cost=total))


def planned(pods: Sequence[Pod], *pools: NodePool, **more: Any) -> Plan:
    return solve_with_buffers(posed(pods, *pools, **more))


def at_most(claim: PlannedClaim) -> int:
    """What EC2 may ask for the node of a claim at most, in micro-dollars an hour."""
    capacity_type = claim.requirements.get(labels.CAPACITY_TYPE)
    return max(
        round(offering.price * MICRO_DOLLARS)
        for name in claim.instance_types
        for offering in TYPES[name].offerings
        if capacity_type.has(offering.capacity_type)
    )


@pytest.mark.parametrize(
    ("text", "amount"), [("40", 40_000_000), ("$2.5", 2_500_000), ("0", 0), ("0.000001", 1), ("1000000", 10**12)]
)
def test_a_limit_is_dollars(text: str, amount: int) -> None:
    assert read_max_hourly_cost(text) == amount


@pytest.mark.parametrize("text", ["", "forty", "-1", "1e9", "40 USD", "1000000.1", "1.0000001", "٤٠", "40\n", "9" * 99])
def test_a_limit_that_cannot_be_read_is_a_problem_of_the_nodepool(text: str) -> None:
    (fault,) = check_nodepool(limited(cost=text))
    assert fault.path == f"metadata.annotations[{labels.MAX_HOURLY_COST}]"
    assert "is not an amount: write dollars an hour from 0 to 1000000, such as 40 or 2.5" in fault.sentence


def test_one_that_cannot_be_read_allows_nothing() -> None:
    assert not planned([pod()], limited(cost="forty")).claims


def test_without_a_limit_nothing_changes() -> None:
    problem = posed([pod()], limited())
    assert problem.pools[0].limits is None
    assert [kind is own for kind, own in zip(problem.pools[0].instance_types, CATALOG, strict=True)]


def test_nodes_are_bought_until_the_limit_and_the_pods_hear_of_it() -> None:
    pods = replicas(5, "1500m")
    plan = planned(pods, limited("default", "0.30", capacity_types("on-demand")), types=ONLY_LARGE)
    assert len(plan.claims) == 3
    assert set(map(str, plan.unschedulable.values())) == {
        "NodePool default: its limit leaves no room for another node (tenon.sh/max-hourly-cost $0.30); "
        "$0.0000 an hour is left, and the smallest node for the pod may cost $0.1000"
    }


def test_spot_nodes_count_at_spot_prices() -> None:
    plan = planned(replicas(20, "1500m"), limited(cost="0.30"), types=ONLY_LARGE)
    assert {claim.offering.capacity_type for claim in plan.claims} == {labels.SPOT}
    assert len(plan.claims) == 7, "each costs $0.04"
    for claim in plan.claims:
        assert not claim.requirements[labels.CAPACITY_TYPE].has(labels.ON_DEMAND), "it would cost more than it counts"


@pytest.mark.parametrize("limit", ["own", "total"])
def test_nodes_stay_open_if_the_limit_allows_whatever_ec2_launches(limit: str) -> None:
    """EC2 may launch an on-demand node at once where it lacks spot capacity, as without a limit."""
    cost = "1000" if limit == "own" else None
    plan = planned(replicas(3, "1500m"), limited(cost=cost), total=0.0 if limit == "own" else 1000.0)
    usual = planned(replicas(3, "1500m"), limited())
    assert [replace(claim, largest={}) for claim in plan.claims] == [
        replace(claim, largest={}) for claim in usual.claims
    ]
    name = HOURLY_COST if limit == "own" else TOTAL_HOURLY_COST
    for claim in plan.claims:
        assert claim.requirements.get(labels.CAPACITY_TYPE).has(labels.ON_DEMAND)
        assert claim.largest[name] == at_most(claim)


def test_a_static_node_stays_open_if_the_limit_allows_all_that_are_missing() -> None:
    pool = node_pool("fixed", {"replicas": 3, "template/spec/requirements": [capacity_types("spot", "on-demand")]})

    def allows_on_demand(total: float) -> bool:
        node = partial(static_node, pool, ONLY_LARGE, (), {}, PlanPolicy(max_hourly_cost=total), ())
        bought, _, count = affordable_nodes(node, 3, limits_cost=True)
        assert count == 3
        return bought.requirements.get(labels.CAPACITY_TYPE).has(labels.ON_DEMAND)

    assert allows_on_demand(0.31)
    assert not allows_on_demand(0.29), "three on-demand nodes cost $0.30"


def test_on_demand_nodes_are_bought_where_there_is_no_spot_capacity() -> None:
    without_spot = entry("m5.large", 2, 8, 0.1)
    for offering in without_spot["offerings"]:
        offering["available"] = offering["capacityType"] != labels.SPOT
    plan = planned(replicas(5, "1500m"), limited(cost="0.30"), types=catalog(without_spot))
    assert [claim.offering.capacity_type for claim in plan.claims] == [labels.ON_DEMAND] * 3


def test_pods_that_need_on_demand_nodes_are_told_what_those_cost() -> None:
    plan = planned([asking("p", ON_DEMAND, cpu="1500m")], limited(cost="0.09"), types=ONLY_LARGE)
    assert str(plan.unschedulable["default/p"]).endswith(
        "$0.0900 an hour is left, and the smallest node for the pod may cost $0.1000"
    )


def test_nodes_that_run_and_claims_in_flight_count_at_their_price() -> None:
    running = BoughtOffering("default", "m5.large", "us-west-2a", labels.ON_DEMAND, launch_price=9.0)
    starting = BoughtOffering("default", at_most=100_000)
    pool = limited("default", "0.30", capacity_types("on-demand"))
    plan = planned(replicas(5, "1500m"), pool, types=ONLY_LARGE, bought=[running, starting])
    assert len(plan.claims) == 1


def test_a_node_whose_type_is_not_sold_any_more_counts_at_its_launch_price() -> None:
    old_node = BoughtOffering("default", "m1.large", "us-west-2a", labels.ON_DEMAND, launch_price=0.2)
    pool = limited("default", "0.30", capacity_types("on-demand"))
    assert len(planned(replicas(5, "1500m"), pool, types=ONLY_LARGE, bought=[old_node]).claims) == 1


@pytest.mark.parametrize(
    ("bought", "cost"),
    [
        (BoughtOffering("adopted", "m5.large", "us-west-2a", labels.ON_DEMAND), 100_000),
        (BoughtOffering("adopted", "m5.large", "another-zone", labels.ON_DEMAND), 100_000),
        (BoughtOffering("adopted", "m5.large", "", ""), 100_000),
        (BoughtOffering("default", "m5.large", "another-zone", labels.SPOT), 40_000),
        (BoughtOffering("adopted", "m5.large", "us-west-2a", labels.ON_DEMAND, launch_price=0.3), 300_000),
        (BoughtOffering("adopted", "m5.large", "us-west-2a", labels.RESERVED), 0),
        (BoughtOffering("adopted", "m5.large", "us-west-2a", labels.RESERVED, launch_price=0.1), 0),
        (BoughtOffering("adopted", "m1.large", "us-west-2a", labels.ON_DEMAND), 0),
    ],
)
def test_a_node_without_a_launch_price_counts_as_other_nodepools_sell_its_type(
    bought: BoughtOffering, cost: int
) -> None:
    """Nodes that Karpenter launched have no launch price."""
    assert costs_of([bought], [(limited(), ONLY_LARGE)]) == {bought.pool: cost}


def test_nodes_of_a_nodepool_that_cannot_be_used_take_up_the_limit_of_all() -> None:
    old_node = BoughtOffering("adopted", "m5.large", "us-west-2a", labels.ON_DEMAND)
    pool = limited("default", None, capacity_types("on-demand"))
    assert len(planned(replicas(5, "1500m"), pool, types=ONLY_LARGE, bought=[old_node] * 3, total=0.5).claims) == 2


def test_the_limit_of_all_nodepools_is_shared() -> None:
    pools = [limited(name, None, capacity_types("on-demand")) for name in ("a", "b")]
    picky = [
        asking(f"{name}-{number}", need(labels.NODEPOOL, "In", name), cpu="1500m")
        for name in ("a", "b")
        for number in range(4)
    ]
    elsewhere = BoughtOffering("unusable", "m5.large", "us-west-2a", labels.ON_DEMAND, launch_price=0.2)
    plan = planned(picky, *pools, types=ONLY_LARGE, bought=[elsewhere], total=0.5)
    assert len(plan.claims) == 3
    (why,) = {str(reason).partition(": ")[2] for reason in plan.unschedulable.values()}
    assert why == (
        "its limit leaves no room for another node (MAX_HOURLY_COST $0.50); $0.0000 an hour is left for all NodePools, "
        "and the smallest node for the pod may cost $0.1000"
    )


def test_what_a_plan_buys_counts_for_the_probes_of_other_nodepools() -> None:
    """Both are written at once."""
    pools = [limited(name, None, capacity_types("on-demand")) for name in ("a", "b")]
    picky = [asking("p", need(labels.NODEPOOL, "In", "a"), cpu="1500m")]
    value = posed(picky, *pools, types=ONLY_LARGE, total=0.5)
    after = pools_after(value.pools, solve_with_buffers(value).claims)
    assert [pool.usage[TOTAL_HOURLY_COST] for pool in after] == [100_000, 100_000]
    assert [pool.usage.get("nodes", 0) for pool in after] == [1, 0]


def test_a_limit_of_cpu_binds_spot_and_on_demand_nodes_together() -> None:
    pool = node_pool("default", {"limits": {"cpu": "8"}}, annotations={labels.MAX_HOURLY_COST: "100"})
    plan = planned(replicas(20, "1500m"), pool)
    assert sum(max(TYPES[name].capacity["cpu"] for name in claim.instance_types) for claim in plan.claims) <= 8000
    assert plan.claims


def test_a_plan_within_the_limit_is_the_usual_one() -> None:
    """Packing node by node within limits would cost more."""
    pods = [*replicas(30, "1500m"), *replicas(40, "700m", "3Gi", prefix="q")]
    usual = planned(pods, limited())
    spot = sum(claim.price for claim in usual.claims)
    for cost in (spot * 1.02, spot * 2, 1000):
        plan = planned(pods, limited(cost=f"{cost:.4f}"))
        assert [claim.offering for claim in plan.claims] == [claim.offering for claim in usual.claims]
        assert [claim.pods for claim in plan.claims] == [claim.pods for claim in usual.claims]
        assert sum(map(at_most, plan.claims)) <= cost * MICRO_DOLLARS + 1


def test_the_search_for_most_pods_counts_real_prices() -> None:
    """It also plans with types that cost what they use up, not what EC2 asks."""
    sizes = (("250m", "512Mi"), ("1", "2Gi"), ("3", "4Gi"), ("500m", "3Gi"))
    pods = [
        small_pod
        for number, (cpu, memory) in enumerate(sizes)
        for small_pod in replicas(60, cpu, memory, prefix=f"q{number}")
    ]
    for cost in (0.5, 1.5, 3.0):
        plan = planned(pods, limited(cost=str(cost)))
        assert plan.claims
        assert plan.unschedulable
        assert sum(map(at_most, plan.claims)) <= cost * MICRO_DOLLARS + 1


@settings(max_examples=120, deadline=None)
@given(
    cpus=st.lists(st.sampled_from([250, 1000, 1500, 3000, 7000]), min_size=1, max_size=30),
    own=st.lists(st.one_of(st.none(), st.floats(0, 2)), min_size=1, max_size=3),
    total=st.one_of(st.just(0.0), st.floats(0.01, 2)),
    spent=st.floats(0, 1),
)
def test_whatever_ec2_launches_costs_at_most_the_limits(
    cpus: list[int], own: list[float | None], total: float, spent: float
) -> None:
    pools = [limited(f"pool-{number}", None if cost is None else f"{cost:.6f}") for number, cost in enumerate(own)]
    bought = [BoughtOffering("pool-0", launch_price=spent)]
    pods = [pod(f"p-{number}", f"{cpu}m") for number, cpu in enumerate(cpus)]
    problem = posed(pods, *pools, bought=bought, total=total)
    plan = solve_with_buffers(problem)
    costs: dict[str, int] = {}
    for claim in plan.claims:
        costs[claim.pool] = costs.get(claim.pool, 0) + at_most(claim)
    paid = round(spent * MICRO_DOLLARS) + 1
    for pool in problem.pools:
        limit = (pool.limits or {}).get(HOURLY_COST)
        if limit is not None and costs.get(pool.name):
            assert costs[pool.name] + (paid - 1 if pool.name == "pool-0" else 0) <= limit + 1
    if costs and total:
        assert sum(costs.values()) + paid - 1 <= round(total * MICRO_DOLLARS) + 1
    for claim in plan.claims:
        for name in (HOURLY_COST, TOTAL_HOURLY_COST):
            assert claim.largest.get(name, at_most(claim)) >= at_most(claim) - 1
