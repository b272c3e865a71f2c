"""Savings Plans and Reserved Instances: used first, never beyond what is left of them, never counted twice."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.kube.offerings import OfferingKey
from tenon.scheduling.bound.lower_bound import lower_bounds
from tenon.scheduling.column_generation.columns import Columns
from tenon.scheduling.engine import solve
from tenon.scheduling.explanation.type_choice import TypeChoiceExplainer
from tenon.scheduling.model import Commitment, InstanceType, Plan, Pool
from tenon.scheduling.reservations import with_places_taken
from tenon.scheduling.within_costs import solve_within_costs
from tests.tenon.scheduling.builders import ZONES, asking, catalog, entry, need, pool, problem, replicas

PLAN = "Savings Plan sp-1"
TYPES = catalog(
    entry("m5.large", 2, 8, 0.096),
    entry("m5.xlarge", 4, 16, 0.192),
    entry("c5.large", 2, 4, 0.085),
    entry("r5.large", 2, 16, 0.126),
)


def savings_plan(amount: int, name: str = PLAN) -> Commitment:
    """It covers the m5 family, at 60 % of its prices."""
    return Commitment(name, amount, {"m5.large": 57600, "m5.xlarge": 115200})


def committed(*commitments: Commitment, name: str = "default", **more: Any) -> Pool:
    return replace(pool(name, *more.pop("needs", ()), types=more.pop("types", TYPES), **more), commitments=commitments)


def used(plan: Plan, commitments: tuple[Commitment, ...], types: list[InstanceType] = TYPES) -> dict[str, int]:
    """The most that the plan may use of each commitment, whatever EC2 launches."""
    assert types
    by_name = {commitment.name: commitment for commitment in commitments}
    amounts = dict.fromkeys(by_name, 0)
    for claim in plan.claims:
        if claim.commitment:
            units = by_name[claim.commitment].units
            amounts[claim.commitment] += max(units[name] for name in claim.instance_types)
            assert claim.committed >= max(units[name] for name in claim.instance_types)
    return amounts


def test_a_covered_type_comes_before_spot_and_says_why() -> None:
    pools = [committed(savings_plan(1_000_000))]
    batch = problem(replicas(1), *pools)
    (claim,) = solve(batch).claims
    assert claim.offering == OfferingKey(labels.ON_DEMAND, "m5.large", ZONES[0])
    assert claim.requirements[labels.CAPACITY_TYPE].values == (labels.ON_DEMAND,)
    assert claim.commitment == PLAN
    assert claim.price < 1e-6
    why = TypeChoiceExplainer(batch).why(claim)
    assert "m5.large in us-west-2a (on-demand): Savings Plan sp-1 covers it, and is paid for until it is used up" in why


def test_nodes_beyond_what_is_left_are_bought_as_without_it() -> None:
    plan = solve(problem(replicas(6, "1500m"), committed(savings_plan(2 * 57600))))
    assert not plan.unschedulable
    covered = [claim for claim in plan.claims if claim.commitment]
    bought = [claim for claim in plan.claims if not claim.commitment]
    assert used(plan, (savings_plan(2 * 57600),)) == {PLAN: 2 * 57600}
    assert covered
    assert {claim.offering.capacity_type for claim in bought} == {labels.SPOT}


def test_a_node_that_would_be_covered_in_part_is_not() -> None:
    (claim,) = solve(problem(replicas(1), committed(savings_plan(57599)))).claims
    assert (claim.commitment, claim.offering.capacity_type) == ("", labels.SPOT)


def test_reserved_instances_of_a_zone_are_used_there() -> None:
    zonal = Commitment("Reserved Instances of c5.large in us-west-2b", 1, {"c5.large": 1}, ZONES[1])
    plan = solve(problem(replicas(2, "1500m"), committed(zonal)))
    (covered,) = [claim for claim in plan.claims if claim.commitment]
    assert covered.offering == OfferingKey(labels.ON_DEMAND, "c5.large", ZONES[1])
    assert covered.requirements[labels.ZONE].values == (ZONES[1],)


def test_a_pool_of_spot_nodes_uses_none() -> None:
    spot = need(labels.CAPACITY_TYPE, "In", labels.SPOT)
    (claim,) = solve(problem(replicas(1), committed(savings_plan(10**6), needs=[spot]))).claims
    assert (claim.commitment, claim.offering.capacity_type) == ("", labels.SPOT)


def test_pools_share_what_is_left() -> None:
    teams = [asking(f"{team}-{n}", need("team", "In", team), cpu="1500m") for team in "ab" for n in range(3)]
    plan_ = savings_plan(3 * 57600)
    pools = [committed(plan_, name=team, needs=[need("team", "In", team)]) for team in "ab"]
    plan = solve(problem(teams, *pools))
    assert used(plan, (plan_,))[PLAN] == 3 * 57600
    assert not plan.unschedulable


def test_a_later_plan_has_what_the_earlier_one_left() -> None:
    pools = [committed(savings_plan(2 * 57600))]
    first = solve(problem(replicas(1, "1500m"), *pools))
    second = solve(problem(replicas(3, "1500m", prefix="q"), *with_places_taken(pools, first.claims)))
    total_use = used(first, (savings_plan(0),))[PLAN] + used(second, (savings_plan(0),))[PLAN]
    assert total_use == 2 * 57600


def test_the_limit_of_a_pool_counts_covered_nodes() -> None:
    plan = solve(problem(replicas(4, "1500m"), committed(savings_plan(10**6), limits={"cpu": "4"})))
    cpus = {"m5.large": 2, "m5.xlarge": 4}
    assert sum(max(cpus[name] for name in claim.instance_types) for claim in plan.claims) <= 4
    assert plan.unschedulable


def test_the_lower_bound_is_not_above_a_covered_plan() -> None:
    batch = problem(replicas(4, "1500m"), committed(savings_plan(10**7)))
    plan = solve(batch)
    (bound,) = lower_bounds(batch, (0.0,), left_out=plan.unschedulable)
    assert bound <= sum(claim.price for claim in plan.claims) + 1e-9


@settings(max_examples=80, deadline=None)
@given(
    lefts=st.lists(st.integers(0, 400_000), min_size=1, max_size=2),
    zonal=st.integers(0, 2),
    pods=st.lists(st.tuples(st.sampled_from(["300m", "1500m", "3"]), st.integers(1, 8)), min_size=1, max_size=3),
    limit=st.sampled_from([None, {"cpu": "12"}, {"nodes": 3}]),
    pools=st.integers(1, 2),
    columns=st.booleans(),
)
def test_no_commitment_is_used_beyond_what_is_left(
    lefts: list[int],
    zonal: int,
    pods: list[tuple[str, int]],
    limit: dict[str, Any] | None,
    pools: int,
    columns: bool,
) -> None:
    commitments = (
        Commitment("zonal", zonal, {"m5.large": 1}, ZONES[2]),
        *(savings_plan(amount, f"sp-{n}") for n, amount in enumerate(lefts)),
    )
    load = [replica for n, (cpu, count) in enumerate(pods) for replica in replicas(count, cpu, prefix=f"g{n}")]
    batch = problem(load, *(committed(*commitments, name=f"pool-{n}", limits=limit) for n in range(pools)))
    plan = solve_within_costs(batch, lambda part: solve(part, columns=Columns() if columns else None))
    amounts = used(plan, commitments)
    assert all(amounts[commitment.name] <= commitment.remaining for commitment in commitments)
    planned = sorted([p.key for claim in plan.claims for p in claim.pods] + list(plan.unschedulable))
    assert planned == sorted(p.key for p in load)
    if limit is None:
        assert not plan.unschedulable
    for claim in plan.claims:
        if claim.commitment:
            assert claim.offering.capacity_type == labels.ON_DEMAND
            assert all(
                name in next(c for c in commitments if c.name == claim.commitment).units
                for name in claim.instance_types
            )
