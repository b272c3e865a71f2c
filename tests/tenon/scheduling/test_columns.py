"""Column generation: never dearer than the plan without it, for no fewer pods, and often cheaper."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given, settings

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.pod_rules import PodRules, SpreadRule
from tenon.kube.requirements import Requirements
from tenon.kube.selectors import LabelSelector
from tenon.kube.taints import Taint, Toleration
from tenon.resources import CPU, MEMORY, PODS, add, fits
from tenon.scheduling import engine
from tenon.scheduling.bound.lower_bound import lower_bound_of_sizing
from tenon.scheduling.bound.sizing_rules import sizing_cost
from tenon.scheduling.column_generation import columns
from tenon.scheduling.column_generation.columns import Columns
from tenon.scheduling.engine import solve
from tenon.scheduling.limited import limited_packing
from tenon.scheduling.model import Plan, Problem
from tests.tenon.scheduling.between_pods import away, web
from tests.tenon.scheduling.builders import AMD64, CATALOG, ON_DEMAND, ZONES, need, pool, price, problem, replicas
from tests.tenon.scheduling.mixed_problem import mixed
from tests.tenon.scheduling.random_problems import problems

ROOMS = {instance_type.name: instance_type.allocatable for instance_type in CATALOG}


def placed(plan: Plan, batch: Problem) -> int:
    return len(batch.pods) - len(plan.unschedulable)


def drawn(seed: int, kinds: int = 12) -> Problem:
    """A few hundred pods of different kinds."""
    chance = random.Random(seed)
    pods: list[Pod] = []
    for kind in range(kinds):
        cpu, gib = chance.choice([100, 250, 500, 1000, 2000, 4000]), chance.choice([0.5, 1, 2, 4, 8])
        memory = f"{round(cpu * gib * 1.024)}Mi"
        pods += replicas(chance.randint(1, 40), f"{cpu}m", memory, prefix=f"kind{kind}")
    return problem(pods, pool("default", ON_DEMAND, AMD64))


@settings(max_examples=60, deadline=None)
@given(problems())
def test_no_plan_is_dearer_or_places_fewer_pods(batch: Problem) -> None:
    before, after = solve(batch), solve(batch, columns=Columns())
    assert (-placed(after, batch), round(price(after), 9)) <= (-placed(before, batch), round(price(before), 9))


@pytest.mark.parametrize("requests", [{}, {CPU: 500}, {MEMORY: 2**30}], ids=["nothing", "only CPU", "only memory"])
def test_pods_need_not_request_cpu_and_memory(requests: dict[str, int]) -> None:
    """Such pods alone on the nodes of a NodePool once stopped the whole plan."""
    apart = [replace(item, requests=requests | {PODS: 1}) for item in web(3, away(labels.HOSTNAME), "bare")]
    batch = problem(apart, pool("default", ON_DEMAND, AMD64))
    plan = solve(batch, columns=Columns())
    assert not plan.unschedulable
    assert len(plan.claims) == 3


def test_plans_of_many_kinds_cost_less() -> None:
    gains = []
    for seed in range(4):
        batch = drawn(seed)
        before, after = solve(batch), solve(batch, columns=Columns())
        assert not after.unschedulable
        assert sizing_cost(batch, after) <= sizing_cost(batch, before) + 1e-9
        assert price(after) <= price(before) + 1e-9
        assert sizing_cost(batch, after) <= 1.06 * lower_bound_of_sizing(batch, after)
        gains.append(sizing_cost(batch, before) / sizing_cost(batch, after))
    assert max(gains) > 1.01


def test_every_listed_type_holds_the_pods() -> None:
    for claim in solve(drawn(1), columns=Columns()).claims:
        requests = add(*(pod.requests for pod in claim.pods))
        assert all(fits(requests, ROOMS[name]) for name in claim.instance_types)


def test_equal_problems_have_equal_plans() -> None:
    batch = drawn(2)
    shuffled = list(batch.pods)
    random.Random(3).shuffle(shuffled)
    assert solve(batch, columns=Columns()) == solve(replace(batch, pods=shuffled), columns=Columns())


def test_pods_stay_in_their_domains() -> None:
    """A spread over zones holds as before, and pods that keep each other away stay apart."""
    even = PodRules(spreads=(SpreadRule(labels.ZONE, 1, LabelSelector((("app", "In", ("even",)),))),))
    spread = [replace(item, rules=even, labels={"app": "even"}) for item in replicas(20, "1500m", "3Gi", prefix="even")]
    apart = web(6, away(labels.HOSTNAME), "apart", cpu="700m", memory="5Gi")
    batch = problem([*drawn(4).pods, *spread, *apart], pool("default", ON_DEMAND, AMD64))
    plan = solve(batch, columns=Columns())
    assert not plan.unschedulable
    by_zone = dict.fromkeys(ZONES, 0)
    for claim in plan.claims:
        names = [pod.name for pod in claim.pods]
        assert sum(name.startswith("apart") for name in names) <= 1
        count = sum(name.startswith("even") for name in names)
        if count:
            (zone,) = claim.requirements[labels.ZONE].values
            by_zone[zone] += count
    assert max(by_zone.values()) - min(by_zone.values()) <= 1


CAPACITY = {instance_type.name: instance_type.capacity for instance_type in CATALOG}


def used(plan: Plan, name: str) -> dict[str, int]:
    """The most that the new nodes of each NodePool use of a resource, whichever of their types they become."""
    amounts = Counter[str]()
    for claim in plan.claims:
        amounts[claim.pool] += max(CAPACITY[kind][name] for kind in claim.instance_types)
    return amounts


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_limits_are_rows_of_the_program(share: float) -> None:
    """Where limits bind, more pods have a place than without columns, and the limits hold."""
    more = 0
    for seed in range(4):
        batch = drawn(seed, kinds=6)
        cpu = round(share * sum(item.requests[CPU] for item in batch.pods))
        limits = {"cpu": f"{cpu}m", "memory": f"{cpu // 200}Gi"}
        limited = replace(batch, pools=[pool("default", ON_DEMAND, AMD64, limits=limits)])
        before, after = solve(limited), solve(limited, columns=Columns())
        assert used(after, CPU)["default"] <= cpu
        assert used(after, MEMORY)["default"] <= cpu // 200 * 2**30
        assert placed(after, limited) >= placed(before, limited)
        assert not after.unschedulable.keys() & {pod.key for claim in after.claims for pod in claim.pods}
        assert sum(len(claim.pods) for claim in after.claims) == placed(after, limited)
        more += placed(after, limited) - placed(before, limited)
    assert more > 0


def test_no_pod_leaves_a_nodepool_of_higher_weight_for_a_cheaper_one() -> None:
    """One node of the second NodePool would hold all pods and cost less than nodes of both."""
    pods = [*replicas(8, "100m", "400Mi", prefix="small"), *replicas(2, "3", "2Gi", prefix="large")]
    first = pool("first", ON_DEMAND, AMD64, limits={"cpu": "4"}, weight=10)
    batch = problem(pods, first, pool("second", ON_DEMAND, AMD64, limits={"cpu": "8"}))
    before, after = solve(batch), solve(batch, columns=Columns())
    assert placed(after, batch) == placed(before, batch) == len(pods)

    def in_first(plan: Plan) -> int:
        return sum(len(claim.pods) for claim in plan.claims if claim.pool == "first")

    assert in_first(after) >= in_first(before) > 0
    assert sizing_cost(batch, after) <= sizing_cost(batch, before)


def test_nodepools_of_equal_weight_share_pods_as_it_costs_least() -> None:
    """Between NodePools of one weight, pods go where all nodes together cost least."""
    pods = replicas(30, "900m", "2Gi")
    pools = [pool(name, ON_DEMAND, AMD64, limits={"cpu": "20"}) for name in ("first", "second")]
    batch = problem(pods, *pools)
    before, after = solve(batch), solve(batch, columns=Columns())
    assert (-placed(after, batch), sizing_cost(batch, after)) <= (-placed(before, batch), sizing_cost(batch, before))
    assert all(amount <= 20_000 for amount in used(after, CPU).values())


def test_a_limit_of_one_nodepool_leaves_large_ones_without_limits_packed_by_columns(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Together they have more nodes than are packed at once."""
    only_batch = (Requirements.of(need(labels.NODEPOOL, "In", "batch")),)
    own = [
        replace(item, required_terms=only_batch, tolerations=(Toleration(operator="Exists"),))
        for item in replicas(8, "3")
    ]
    limited = pool("batch", ON_DEMAND, AMD64, taints=(Taint("dedicated", "NoSchedule"),), limits={"cpu": "48"})
    alone = drawn(0)
    expected = price(solve(alone, columns=Columns()))
    assert expected < price(solve(alone))
    monkeypatch.setattr(limited_packing, "MAX_NODES", 3)
    monkeypatch.setattr(engine, "MAX_NODES", 3)
    batch = problem([*alone.pods, *own], *alone.pools, limited)
    plan = solve(batch, columns=Columns())
    assert not plan.unschedulable
    assert sum(claim.price for claim in plan.claims if claim.pool == "default") == pytest.approx(expected)


@pytest.mark.parametrize("limits", [None, {"cpu": "40"}], ids=["plain", "limits"])
def test_a_solver_that_fails_leaves_the_plan_of_before(
    limits: dict[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch = replace(drawn(1), pools=[pool("default", ON_DEMAND, AMD64, limits=limits)])
    monkeypatch.setitem(columns.SOLVER_OPTIONS, "simplex_iteration_limit", 0)
    generation = Columns()
    assert solve(batch, columns=generation) == solve(batch)
    (failure,) = set(generation.failures)  # the bound of places says the same
    assert "Iteration limit" in failure


def test_spot_nodes_stay_as_flexible_as_before() -> None:
    batch = replace(drawn(6), pools=[pool("default", AMD64)])
    fewest = min(len(claim.instance_types) for claim in solve(batch).claims)
    assert all(len(claim.instance_types) >= min(15, fewest) for claim in solve(batch, columns=Columns()).claims)


def test_pods_that_fit_nowhere_and_existing_nodes_are_as_before() -> None:
    before, after = solve(mixed()), solve(mixed(), columns=Columns())
    assert after.unschedulable == before.unschedulable
    assert after.placements == before.placements
