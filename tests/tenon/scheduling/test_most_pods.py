"""Where limits bind, a plan places as many pods as any plan can: compared with an integer program."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import highspy
import pytest

from tenon.kube.pod import Pod
from tenon.kube.requirements import Requirement, Requirements
from tenon.scheduling import most_pods
from tenon.scheduling.column_generation.columns import Columns
from tenon.scheduling.engine import solve, solve_by_first_fit
from tenon.scheduling.first_fit_baseline import Order
from tenon.scheduling.model import InstanceType, Plan, Problem
from tenon.scheduling.most_pods import solve_for_most_pods
from tests.tenon.scheduling.builders import ON_DEMAND, catalog, entry, need, pod, pool, price, problem, replicas

SEEDS = range(40)
NODES = 8
"""The most nodes of one pool that the integer program considers."""
TYPES = catalog(
    entry("c5.large", 2, 4, 0.085),
    entry("c5.xlarge", 4, 8, 0.17),
    entry("m5.large", 2, 8, 0.096),
    entry("m5.2xlarge", 8, 32, 0.384),
    entry("r5.xlarge", 4, 32, 0.252),
)
BURSTABLE = catalog(
    entry("t3.nano", 2, 0.5, 0.0052),
    entry("t3.micro", 2, 1, 0.0104),
    entry("t3.small", 2, 2, 0.0208),
    entry("t3.medium", 2, 4, 0.0416),
    entry("t3.large", 2, 8, 0.0832),
    entry("t3.xlarge", 4, 16, 0.1664),
    entry("t3.2xlarge", 8, 32, 0.3328),
)
SIZE = "karpenter.k8s.aws/instance-size"
LARGE_AND_SMALL = [*replicas(4, "1500m", "1Gi", prefix="large"), *replicas(20, "300m", "256Mi", prefix="small")]
WITH_PRIORITIES = [
    *replicas(20, "1500m", "2Gi", prefix="low"),
    *replicas(10, "500m", "1Gi", prefix="high", priority=10),
]
WITH_SIZES = [
    *(
        pod(f"sized-{number}", "1", "1Gi", *(Requirements.of(need(SIZE, "In", size)) for size in ("xlarge", "small")))
        for number in range(6)
    ),
    *replicas(11, "1", "256Mi", prefix="any"),
]


def generated(seed: int) -> Problem:
    """A few kinds of pods, and one or two pools whose limits hold less than all of them."""
    rng = random.Random(seed)
    pods: list[Pod] = []
    for kind in range(rng.randint(2, 4)):
        cpu, memory = rng.choice(["250m", "500m", "900m", "1500m", "3"]), rng.choice(["256Mi", "1Gi", "3Gi", "6Gi"])
        pods += replicas(rng.randint(3, 10), cpu, memory, prefix=f"k{kind}")
    limits = [
        rng.choice([{"cpu": "6"}, {"cpu": "10"}, {"memory": "20Gi"}, {"nodes": 2}, {"cpu": "8", "memory": "24Gi"}])
        for _ in range(rng.randint(1, 2))
    ]
    pools = [
        pool(f"pool-{number}", ON_DEMAND, types=TYPES, limits=limit, weight=rng.choice([0, 10]))
        for number, limit in enumerate(limits)
    ]
    return problem(pods, *pools)


def most(problem: Problem) -> int:
    """The most pods that any plan places, as an integer program. The pods have no rules of their own."""
    model = highspy.Highs()  # type: ignore[no-untyped-call]
    model.silent()
    kinds = list(Counter(tuple(sorted(pod.requests.items())) for pod in problem.pods).items())
    placed = []
    total = [highspy.highs_linear_expression() for _ in kinds]
    for scheduling_pool in problem.pools:
        used = {name: highspy.highs_linear_expression() for name in scheduling_pool.limits or {}}
        for _ in range(NODES):
            instance_types = [model.addBinary() for _ in scheduling_pool.instance_types]
            on_node = [model.addIntegral(lb=0, ub=count) for _, count in kinds]
            model.addConstr(sum(instance_types) <= 1)
            for name in ("cpu", "memory", "pods"):
                requests = sum(
                    dict(kind).get(name, 0) * count_on_node
                    for (kind, _), count_on_node in zip(kinds, on_node, strict=True)
                )
                room = sum(
                    t.allocatable[name] * instance_type
                    for t, instance_type in zip(scheduling_pool.instance_types, instance_types, strict=True)
                )
                model.addConstr(_scaled(name, requests) <= _scaled(name, room))
            for name, spent in used.items():
                of_type = (
                    _uses(t, name) * instance_type
                    for t, instance_type in zip(scheduling_pool.instance_types, instance_types, strict=True)
                )
                used[name] = spent + sum(of_type)
            total = [before + count_on_node for before, count_on_node in zip(total, on_node, strict=True)]
            placed += on_node
        for name, limit in (scheduling_pool.limits or {}).items():
            model.addConstr(_scaled(name, used[name]) <= _scaled(name, limit))
    for (_, count), present in zip(kinds, total, strict=True):
        model.addConstr(present <= count)
    model.maximize(sum(placed))
    return round(model.getObjectiveValue())


def _scaled(name: str, amount: Any) -> Any:
    """Memory in GiB, because the solver's tolerances are absolute."""
    return amount * (2.0**-30 if name == "memory" else 1.0)


def _uses(instance_type: InstanceType, name: str) -> int:
    return 1 if name == "nodes" else instance_type.capacity[name]


@cache
def plan_of(seed: int) -> Plan:
    return solve_for_most_pods(generated(seed))


def placed_by(plan: Plan, problem: Problem) -> int:
    return len(problem.pods) - len(plan.unschedulable)


def test_plans_place_as_many_pods_as_an_integer_program() -> None:
    short = {
        seed: (placed_by(plan_of(seed), problem), best)
        for seed in SEEDS
        if placed_by(plan_of(seed), problem := generated(seed)) != (best := most(problem))
    }
    assert not short


def test_plans_place_no_fewer_pods_than_first_fit() -> None:
    for seed in SEEDS:
        problem = generated(seed)
        first_fits = [solve_by_first_fit(problem, order) for order in Order]
        assert placed_by(plan_of(seed), problem) >= max(placed_by(first_fit, problem) for first_fit in first_fits)


@pytest.mark.parametrize(
    ("pods", "limits", "unplaced"),
    [
        pytest.param(LARGE_AND_SMALL, {"cpu": "4"}, 11, id="t3.xlarge holds 13 small ones"),
        pytest.param(LARGE_AND_SMALL, {"cpu": "8"}, 3, id="t3.2xlarge holds all small ones and a large one"),
        pytest.param(WITH_PRIORITIES, {"nodes": 2}, 14, id="two of t3.2xlarge hold 5 high ones and 3 low ones each"),
        pytest.param(WITH_SIZES, {"nodes": 2}, 6, id="two of t3.2xlarge hold all that may be there"),
    ],
)
def test_burstable_nodes_hold_more_pods_than_the_program_counts(
    pods: list[Pod], limits: dict[str, Any], unplaced: int
) -> None:
    """The linear program knows only the CPU baseline of burstable types, and the first of several node affinity terms.
    So its number of pods without a place is no bound, and the search must not end there.
    """
    plan = solve_for_most_pods(problem(pods, pool(types=BURSTABLE, limits=limits)))
    assert len(plan.unschedulable) <= unplaced


def unplaced_names(plan: Plan) -> set[str]:
    return {key.partition("/")[2] for key in (*plan.unschedulable, *plan.unreached)}


def test_a_daemonset_that_pods_can_avoid_does_not_end_the_search_for_places() -> None:
    """Nodes of team b have no DaemonSet, and hold more."""
    own = pool("default", ON_DEMAND, need("team", "Exists"), types=BURSTABLE, limits={"cpu": "12"})
    daemon = pod("agent", "3", "1Gi", Requirements.of(need("team", "In", "a")))
    team = Requirements.of(need("team", "In", "b"))
    pods = [
        pod(f"p-{cpu}-{number}", cpu, "1Gi", team)
        for cpu, count in (("900m", 11), ("500m", 4), ("2500m", 8))
        for number in range(count)
    ]
    plan = solve_for_most_pods(replace(problem(pods, own), daemons=[daemon]))
    assert len(unplaced_names(plan)) <= 9


@pytest.mark.parametrize(
    ("limits", "high", "low", "most_high"),
    [
        ({"nodes": "2"}, [(8, "900m", "1Gi"), (4, "900m", "256Mi")], [(4, "2500m", "256Mi"), (3, "200m", "256Mi")], 0),
        ({"cpu": "8"}, [(9, "2500m", "256Mi"), (2, "500m", "256Mi")], [(3, "2500m", "1Gi"), (5, "300m", "3Gi")], 7),
    ],
)
def test_the_search_does_not_end_while_a_pod_of_high_priority_waits(
    limits: dict[str, str], high: list[tuple[int, str, str]], low: list[tuple[int, str, str]], most_high: int
) -> None:
    pods = [
        replica
        for priority, kinds in ((10, high), (0, low))
        for number, (count, cpu, memory) in enumerate(kinds)
        for replica in replicas(count, cpu, memory, prefix=f"{priority}-{number}", priority=priority)
    ]
    plan = solve_for_most_pods(problem(pods, pool("default", ON_DEMAND, types=BURSTABLE, limits=limits)))
    assert sum(name.startswith("10-") for name in unplaced_names(plan)) <= most_high


def test_nodes_that_are_chosen_by_their_sizes_leave_no_pod_of_high_priority_waiting() -> None:
    pods = [
        replica
        for priority, count, cpu in ((0, 7, "900m"), (0, 4, "1100m"), (10, 7, "1000m"), (10, 4, "1200m"))
        for replica in replicas(count, cpu, "512Mi", prefix=f"{priority}-{cpu}", priority=priority)
    ]
    own = pool("default", ON_DEMAND, types=[*TYPES, *BURSTABLE], limits={"cpu": "16"})
    plan = solve_for_most_pods(problem(pods, own))
    assert len(unplaced_names(plan)) <= 7
    assert not [name for name in unplaced_names(plan) if name.startswith("10-")]


def test_no_plan_has_fewer_unplaced_pods_than_the_bound() -> None:
    """The search ends at the bound, so that a bound that is too high would cost pods their place."""
    exact = 0
    for seed in SEEDS:
        columns, batch = Columns(), generated(seed)
        plan = solve(batch, columns=columns)
        if plan.unschedulable:
            least = columns.least_unplaced
            assert least is not None
            assert least <= len(batch.pods) - most(batch)
            exact += least == len(batch.pods) - most(batch)
    assert exact > len(SEEDS) // 2


@pytest.mark.parametrize("cores", ["4", "5"])  # of 5 cores, two and a half nodes would hold a pod more
def test_a_plan_with_as_many_pods_as_any_is_made_once(cores: str, monkeypatch: pytest.MonkeyPatch) -> None:
    solves: list[Problem] = []

    def counting(problem: Problem, *rest: Any, **more: Any) -> Plan:
        solves.append(problem)
        return solve(problem, *rest, **more)

    monkeypatch.setattr(most_pods, "solve", counting)
    plan = solve_for_most_pods(problem(replicas(9, "900m", "1Gi"), pool(types=TYPES, limits={"cpu": cores})))
    assert len(plan.unschedulable) == 5
    assert len(solves) == 1


def test_sizes_that_use_up_a_limit_are_chosen_together() -> None:
    """Nodes that are bought one after another are three, and hold as many pods."""
    assert len(plan_of(5).unschedulable) == 12
    assert len(plan_of(5).claims) == 2


def test_pods_of_high_priority_come_before_more_pods_of_low_priority() -> None:
    large, small = replicas(1, "1500m", prefix="large", priority=10), replicas(6, "250m", prefix="small")
    one_node = pool(types=catalog(entry("m5.large", 2, 8, 0.1)), limits={"nodes": 1})
    plan = solve_for_most_pods(problem([*small, *large], one_node))
    (claim,) = plan.claims
    assert sum(item in claim.pods for item in large) == 1
    assert len(claim.pods) == 2


def test_a_nodepool_without_room_is_planned_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pods may wait for a full NodePool for hours, and each search would hold up the plans of other NodePools."""
    solves: list[Problem] = []

    def counting(problem: Problem, *rest: Any, **more: Any) -> Plan:
        solves.append(problem)
        return solve(problem, *rest, **more)

    monkeypatch.setattr(most_pods, "solve", counting)
    red = Requirement.new("team", "In", ["red"])
    full = pool("full", red, types=TYPES, limits={"cpu": "4"}, usage={"cpu": "4"})
    other = pool("other", types=TYPES)
    waiting = [pod(f"waits-{number}", "500m", "1Gi", Requirements.of(red)) for number in range(20)]
    plan = solve_for_most_pods(problem([*waiting, *replicas(3)], full, other))
    assert set(plan.unschedulable) == {item.key for item in waiting}
    assert len(solves) == 1


def test_many_small_pods_come_before_a_large_one_of_the_same_priority() -> None:
    large, small = replicas(1, "1500m", prefix="large"), replicas(6, "250m", prefix="small")
    one_node = pool(types=catalog(entry("m5.large", 2, 8, 0.1)), limits={"nodes": 1})
    plan = solve_for_most_pods(problem([*small, *large], one_node))
    assert list(plan.unschedulable) == ["default/large-0"]
    assert "nodes 1" in str(plan.unschedulable["default/large-0"])


def test_a_costlier_type_that_uses_less_of_the_limit_is_bought_to_place_more_pods() -> None:
    """Memory decides how many of these pods a node holds, so 4 CPUs of r5 hold more of them than 4 CPUs of c5."""
    types = catalog(entry("c5.xlarge", 4, 8, 0.17), entry("r5.xlarge", 4, 32, 0.6))
    plan = solve_for_most_pods(problem(replicas(8, "400m", "3Gi"), pool(types=types, limits={"cpu": "4"})))
    (claim,) = plan.claims
    assert claim.instance_types == ("r5.xlarge",)
    assert claim.price == min(offering.price for offering in types[1].offerings)
    assert plan.unschedulable == {}


def test_the_price_decides_among_plans_that_place_as_many_pods() -> None:
    value = problem(replicas(5, "1", "1Gi"), pool(types=TYPES, limits={"cpu": "4"}))
    plan = solve_for_most_pods(value)
    assert placed_by(plan, value) == most(value) == 3
    cheapest = min(
        price(solve_for_most_pods(replace(value, pods=value.pods[:3], pools=[pool(types=[item], limits={"cpu": "4"})])))
        for item in TYPES
        if item.capacity["cpu"] == 4000
    )
    assert price(plan) == pytest.approx(cheapest)
