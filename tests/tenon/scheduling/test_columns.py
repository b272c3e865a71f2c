"""Column generation: never dearer than the plan without it, for no fewer pods, and often cheaper."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.pod_rules import PodRules, SpreadRule
from tenon.kube.selectors import LabelSelector
from tenon.resources import CPU, MEMORY, PODS, add, fits
from tenon.scheduling.bound import lower_bound_of_sizing
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Plan, Problem
from tenon.scheduling.sizing_rules import sizing_cost
from tests.tenon.scheduling.between_pods import away, web
from tests.tenon.scheduling.builders import AMD64, CATALOG, ON_DEMAND, ZONES, pool, price, problem, replicas
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
    before, after = solve(batch), solve(batch, columns=True)
    assert (-placed(after, batch), round(price(after), 9)) <= (-placed(before, batch), round(price(before), 9))


@pytest.mark.parametrize("requests", [{}, {CPU: 500}, {MEMORY: 2**30}], ids=["nothing", "only CPU", "only memory"])
def test_pods_need_not_request_cpu_and_memory(requests: dict[str, int]) -> None:
    """Such pods alone on the nodes of a NodePool once stopped the whole plan."""
    apart = [replace(item, requests=requests | {PODS: 1}) for item in web(3, away(labels.HOSTNAME), "bare")]
    batch = problem(apart, pool("default", ON_DEMAND, AMD64))
    plan = solve(batch, columns=True)
    assert not plan.unschedulable
    assert len(plan.claims) == 3


def test_plans_of_many_kinds_cost_less() -> None:
    gains = []
    for seed in range(4):
        batch = drawn(seed)
        before, after = solve(batch), solve(batch, columns=True)
        assert not after.unschedulable
        assert sizing_cost(batch, after) <= sizing_cost(batch, before) + 1e-9
        assert price(after) <= price(before) + 1e-9
        assert sizing_cost(batch, after) <= 1.06 * lower_bound_of_sizing(batch, after)
        gains.append(sizing_cost(batch, before) / sizing_cost(batch, after))
    assert max(gains) > 1.01


def test_every_listed_type_holds_the_pods() -> None:
    for claim in solve(drawn(1), columns=True).claims:
        requests = add(*(pod.requests for pod in claim.pods))
        assert all(fits(requests, ROOMS[name]) for name in claim.instance_types)


def test_equal_problems_have_equal_plans() -> None:
    batch = drawn(2)
    shuffled = list(batch.pods)
    random.Random(3).shuffle(shuffled)
    assert solve(batch, columns=True) == solve(replace(batch, pods=shuffled), columns=True)


def test_pods_stay_in_their_domains() -> None:
    """A spread over zones holds as before, and pods that keep each other away stay apart."""
    even = PodRules(spreads=(SpreadRule(labels.ZONE, 1, LabelSelector((("app", "In", ("even",)),))),))
    spread = [replace(item, rules=even, labels={"app": "even"}) for item in replicas(20, "1500m", "3Gi", prefix="even")]
    apart = web(6, away(labels.HOSTNAME), "apart", cpu="700m", memory="5Gi")
    batch = problem([*drawn(4).pods, *spread, *apart], pool("default", ON_DEMAND, AMD64))
    plan = solve(batch, columns=True)
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


def test_limits_hold() -> None:
    batch = drawn(5)
    limited = replace(batch, pools=[pool("default", ON_DEMAND, AMD64, limits={"cpu": "120"})])
    plan = solve(limited, columns=True)
    capacity = {instance_type.name: instance_type.capacity[CPU] for instance_type in CATALOG}
    assert sum(max(capacity[name] for name in claim.instance_types) for claim in plan.claims) <= 120_000
    assert placed(plan, limited) >= placed(solve(limited), limited)


def test_spot_nodes_stay_as_flexible_as_before() -> None:
    batch = replace(drawn(6), pools=[pool("default", AMD64)])
    fewest = min(len(claim.instance_types) for claim in solve(batch).claims)
    assert all(len(claim.instance_types) >= min(15, fewest) for claim in solve(batch, columns=True).claims)


def test_pods_that_fit_nowhere_and_existing_nodes_are_as_before() -> None:
    before, after = solve(mixed()), solve(mixed(), columns=True)
    assert after.unschedulable == before.unschedulable
    assert after.placements == before.placements
