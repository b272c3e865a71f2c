"""The lower bound: below every plan there is, equal to the optimum where that is known."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.requirements import Requirements
from tenon.kube.taints import Toleration
from tenon.resources import CPU, MEMORY, add, fits
from tenon.scheduling.bound.lower_bound import lower_bound
from tenon.scheduling.engine import solve
from tenon.scheduling.model import InstanceType, Plan, Problem
from tenon.scheduling.offerings.type_table import TypeTable
from tests.tenon.scheduling.builders import (
    DEDICATED,
    ZONES,
    asking,
    catalog,
    entry,
    need,
    node,
    pod,
    pool,
    problem,
    replicas,
)
from tests.tenon.scheduling.random_problems import problems

BARE: dict[str, Any] = {"zones": ZONES[:1], "capacity": {"pods": "10"}}


def bare(name: str, cpu: int, gib: int, price: float, **more: Any) -> dict[str, Any]:
    """An entry whose whole capacity is for pods."""
    return {**entry(name, cpu, gib, price, **{**BARE, **more}), "overhead": {}}


def on_demand(*entries: dict[str, Any], **more: Any) -> Any:
    return pool("default", need(labels.CAPACITY_TYPE, "In", "on-demand"), types=catalog(*entries), **more)


def cost(plan: Plan, node_charge: float = 0.0) -> float:
    return sum(claim.price + node_charge for claim in plan.claims)


# --- never above a plan ---------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(problems(), st.sampled_from([0.0, 0.02, 1.0]))
def test_no_plan_of_the_engine_costs_less(batch: Problem, node_charge: float) -> None:
    plan = solve(batch)
    bound = lower_bound(batch, left_out=plan.unschedulable, node_charge=node_charge)
    assert 0 <= bound <= cost(plan, node_charge) + 1e-12


def partitions(items: list[Pod]) -> Iterator[list[list[Pod]]]:
    """All ways to put pods together."""
    if not items:
        yield []
        return
    first, rest = items[0], items[1:]
    for parts in partitions(rest):
        yield [[first], *parts]
        for position in range(len(parts)):
            yield [*parts[:position], [first, *parts[position]], *parts[position + 1 :]]


def optimum(pods: list[Pod], types: list[InstanceType], zone_of: dict[str, str], node_charge: float) -> float:
    """The least that nodes for the pods cost, found by trying everything; a pod may be bound to a zone."""
    best = float("inf")
    for parts in partitions(pods):
        total = 0.0
        for part in parts:
            requests = add(*(p.requests for p in part))
            zones = {zone_of[p.name] for p in part if p.name in zone_of}
            total += node_charge + min(
                (
                    o.price
                    for t in types
                    if fits(requests, t.allocatable)
                    for o in t.offerings
                    if o.capacity_type == "on-demand" and zones <= {o.zone}
                ),
                default=float("inf"),
            )
        best = min(best, total)
    return best


@settings(max_examples=80, deadline=None)
@given(st.data())
def test_no_plan_at_all_costs_less(data: st.DataObject) -> None:
    entries = [
        entry(f"m5.{n}", cpu, gib, price, zones=ZONES[: data.draw(st.integers(1, 2))], capacity={"pods": most})
        for n in range(data.draw(st.integers(1, 3)))
        for cpu, gib in [data.draw(st.sampled_from([(2, 4), (4, 8), (4, 32), (16, 16)]))]
        for price in [data.draw(st.sampled_from([0.0, 0.1, 0.25, 1.0]))]
        for most in [data.draw(st.sampled_from(["2", "10"]))]
    ]
    types = catalog(*entries)
    zone_of: dict[str, str] = {}
    pods = []
    for n in range(data.draw(st.integers(1, 5))):
        cpu, memory = data.draw(st.sampled_from(["300m", "1", "1900m"])), data.draw(st.sampled_from(["1Gi", "3Gi"]))
        terms: tuple[Requirements, ...] = ()
        if data.draw(st.booleans()):
            zone_of[f"p-{n}"] = data.draw(st.sampled_from(ZONES[:1]))
            terms = (Requirements.of(need(labels.ZONE, "In", zone_of[f"p-{n}"])),)
        pods.append(pod(f"p-{n}", cpu, memory, *terms))
    charge = data.draw(st.sampled_from([0.0, 0.02]))
    bound = lower_bound(problem(pods, on_demand(*entries)), node_charge=charge)
    assert 0 <= bound <= optimum(pods, types, zone_of, charge) + 1e-12


# --- equal to optima that are known ---------------------------------------------------------------------------------


def test_nodes_that_fill_up_exactly() -> None:
    # 30 CPU and 30 GiB: seven and a half of the larger type, which is the cheaper one for a CPU
    batch = problem(replicas(30), on_demand(bare("c5.xlarge", 4, 8, 0.16), bare("c5.large", 2, 4, 0.1)))
    assert lower_bound(batch) == pytest.approx(7.5 * 0.16)


def test_equal_pods_are_counted_whole() -> None:
    """BEN-05: of 4,000 pods of 1 CPU 399 fit on a node of 399.9, and not 399.9 of them."""
    batch = problem(replicas(8), on_demand(entry("m5.xlarge", 4, 16, 0.2)))  # 3.9 CPU for pods
    assert lower_bound(batch) == pytest.approx(8 / 3 * 0.2)


def test_each_kind_of_pod_goes_where_its_share_is_cheapest() -> None:
    wide = on_demand(bare("c5.2xlarge", 8, 8, 0.3), bare("r5.2xlarge", 8, 64, 0.5))
    batch = problem([*replicas(8, "1", "1Gi", "c"), *replicas(8, "1", "8Gi", "r")], wide)
    assert lower_bound(batch) == pytest.approx(0.3 + 0.5)


def test_the_most_pods_that_a_node_may_run_count_too() -> None:
    batch = problem(replicas(40, "1m", "1Mi"), on_demand(bare("m5.large", 64, 64, 1.0)))
    assert lower_bound(batch) == pytest.approx(4.0)


def test_the_cheapest_pool_and_offering_that_the_pod_may_use() -> None:
    types = catalog(bare("m5.large", 2, 8, 1.0))  # 0.4 on spot
    spot, dear = (
        pool("spot", types=types, taints=(DEDICATED,)),
        pool("od", need(labels.CAPACITY_TYPE, "In", "on-demand"), types=types),
    )
    tolerant = replicas(2, "1", "4Gi", "t", tolerations=(Toleration("dedicated", "Equal", "x"),))
    assert lower_bound(problem(tolerant, spot, dear)) == pytest.approx(0.4)
    assert lower_bound(problem(replicas(2, "1", "4Gi"), spot, dear)) == pytest.approx(1.0)
    shortage = [asking(f"p-{n}", need(labels.CAPACITY_TYPE, "In", "spot")) for n in range(2)]
    assert lower_bound(problem(shortage, pool(types=types))) == pytest.approx(0.4)


def test_daemonsets_take_their_room_where_they_surely_run() -> None:
    types = [bare("m5.xlarge", 4, 16, 1.0)]
    agent = pod("agent", "1", "0")
    elsewhere = asking("elsewhere", need(labels.ZONE, "In", ZONES[1]))
    assert lower_bound(
        problem(replicas(6, "1", "1Gi"), on_demand(*types), daemons=[agent, elsewhere])
    ) == pytest.approx(2.0)


def test_room_that_there_is_costs_nothing() -> None:
    nodes = [node("n-1", "4"), node("n-2", "4", taints=(DEDICATED,))]  # the tainted one is of no use
    batch = problem(replicas(10), on_demand(bare("m5.xlarge", 4, 16, 1.0)), nodes=nodes)
    assert lower_bound(batch) == pytest.approx(6 / 4)
    assert lower_bound(problem(replicas(4), on_demand(bare("m5.xlarge", 4, 16, 1.0)), nodes=nodes)) == 0.0


def test_a_reservation_is_cheap_only_as_far_as_it_goes() -> None:
    """SCH-094: places in a reservation are counted."""
    item = bare("m5.xlarge", 4, 16, 1.0)
    item["offerings"].append(
        {"zone": ZONES[0], "capacityType": "reserved", "price": 0.0, "reservationId": "cr-1", "reservationCapacity": 2}
    )
    assert lower_bound(problem(replicas(20), pool(types=catalog(item)))) == pytest.approx((20 / 4 - 2) * 0.4)


def test_the_charge_for_nodes() -> None:
    small, large = bare("m5.large", 2, 8, 0.1), bare("m5.2xlarge", 8, 32, 0.5)
    assert lower_bound(problem(replicas(8), on_demand(small, large))) == pytest.approx(0.4)
    assert lower_bound(problem(replicas(8), on_demand(small, large)), node_charge=0.1) == pytest.approx(0.6)


# --- which pods count -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [40, 53, 60, 61, 62])
@pytest.mark.parametrize("count", [3, 7])
def test_it_bounds_amounts_that_no_machine_integer_sums_up(bits: int, count: int) -> None:
    """A node may hold 2^63 - 1 of something, which is seldom but no mistake."""
    types = on_demand(bare("m5.24xlarge", 96, 384, 1.0, capacity={"x/y": str(2**63 - 1), "pods": "50"}))
    batch = problem([pod(f"p-{n}", "100m", extra={"x/y": 2**bits}) for n in range(count)], types)
    plan = solve(batch)
    assert not plan.unschedulable
    assert 0 < lower_bound(batch) <= cost(plan)


def test_pods_that_nothing_takes_are_left_out() -> None:
    types = on_demand(bare("m5.xlarge", 4, 16, 1.0))
    hopeless = [pod("huge", "5"), pod("gpu", extra={"nvidia.com/gpu": 1}), pod("refused", unsupported="a rule")]
    assert lower_bound(problem([*replicas(4), *hopeless], types)) == pytest.approx(1.0)
    assert lower_bound(problem(hopeless, types)) == 0.0
    assert lower_bound(problem(replicas(4), types), left_out={"default/p-0", "default/p-1"}) == pytest.approx(0.5)
    assert lower_bound(problem([Pod("default", "idle", "uid", {})], types)) == 0.0
    assert lower_bound(problem([], types)) == lower_bound(problem(replicas(1))) == 0.0


def test_twenty_thousand_unlike_pods() -> None:
    """What is merged to keep the program small is rounded down, so the bound loses a little and never gains."""
    chance = random.Random(1)
    requests = [(chance.randrange(50, 4000), chance.randrange(64, 8192)) for _ in range(20_000)]
    pods = [pod(f"p-{n}", f"{cpu}m", f"{memory}Mi") for n, (cpu, memory) in enumerate(requests)]
    many = on_demand(bare("m5.24xlarge", 96, 192, 1.0, capacity={"pods": "1000"}))
    exact = max(sum(p.requests[CPU] for p in pods) / 96_000, sum(p.requests[MEMORY] for p in pods) / (192 * 2**30))
    assert 0.85 * exact < lower_bound(problem(pods, many)) <= exact


def test_the_order_of_the_input_does_not_matter() -> None:
    pods = [*replicas(7, "1", "3Gi", "a"), *replicas(5, "2", "1Gi", "b"), *replicas(3, "300m", "6Gi", "c")]
    entries = [bare("c5.xlarge", 4, 8, 0.17), bare("m5.xlarge", 4, 16, 0.19), bare("r5.xlarge", 4, 32, 0.25)]
    bounds = {
        lower_bound(problem(pod, on_demand(*types)))
        for pod in (pods, pods[::-1])
        for types in itertools.permutations(entries)
    }
    assert max(bounds) - min(bounds) < 1e-9


def test_pools_with_one_list_of_instance_types_index_it_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three hundred NodePools of one class would spend most of a simulation on equal indexes."""
    built: list[object] = []
    begin = TypeTable.__init__

    def counting(self: TypeTable, *arguments: Any) -> None:
        built.append(self)
        begin(self, *arguments)

    monkeypatch.setattr(TypeTable, "__init__", counting)
    first = pool("first")
    lower_bound(problem([pod()], first, *(replace(first, name=f"pool-{number}") for number in range(5))))
    assert len(built) == 1
