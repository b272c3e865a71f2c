"""How large nodes are chosen (QRK-23): cheap, few, and never dearer than plain first-fit."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.kube.pod_rules import PodRules, PodTerm
from tenon.kube.requirements import Requirement, Requirements
from tenon.kube.selectors import LabelSelector
from tenon.resources import CPU
from tenon.scheduling.bound.lower_bound import lower_bound
from tenon.scheduling.engine import solve
from tenon.scheduling.model import NODE_CHARGE
from tenon.scheduling.offerings.template import SPOT_FLEXIBILITY, Template
from tenon.scheduling.offerings.type_table import TypeTable
from tenon.scheduling.packing import first_fit, sizing
from tenon.scheduling.pods.pod_classes import group, resource_names
from tests.tenon.scheduling.between_pods import away, on_each, web
from tests.tenon.scheduling.builders import (
    AMD64,
    CATALOG,
    ON_DEMAND,
    ZONES,
    asking,
    catalog,
    entry,
    need,
    ordinary_entries,
    pod,
    pool,
    price,
    problem,
    replicas,
)

CPUS = {instance_type.name: instance_type.capacity[CPU] // 1000 for instance_type in CATALOG}


def test_qrk23_many_equal_pods_share_a_few_nodes_of_the_right_size() -> None:
    plan = solve(problem(replicas(100, "1", "1Gi"), pool("default", ON_DEMAND, AMD64)))
    assert len(plan.claims) <= 8
    assert price(plan) <= 104 * 0.0425 + 0.1


def test_qrk23_the_last_node_is_no_larger_than_its_pods_need() -> None:
    plan = solve(problem(replicas(34, "1", "1Gi"), pool("default", ON_DEMAND, AMD64)))
    assert price(plan) <= 40 * 0.0425 + 1e-9


def test_unlike_pods_share_nodes() -> None:
    pods = [*replicas(20, "3500m", "2Gi", "cpu"), *replicas(20, "100m", "14Gi", "memory")]
    plan = solve(problem(pods, pool("default", ON_DEMAND, AMD64)))
    apart = [solve(problem(part, pool("default", ON_DEMAND, AMD64))) for part in (pods[:20], pods[20:])]
    assert price(plan) < sum(map(price, apart))


def test_burstable_types_do_not_win_by_their_credits() -> None:
    cheap = [entry(f"t3.{size}", 2, gib, 0.0104 * gib) for size, gib in (("small", 2), ("medium", 4), ("large", 8))]
    types = catalog(*ordinary_entries(), *cheap)
    plan = solve(problem(replicas(60, "1", "1Gi"), pool("default", ON_DEMAND, AMD64, types=types)))
    assert len(plan.claims) <= 8


def test_one_node_may_be_burstable() -> None:
    types = catalog(*ordinary_entries(), entry("t3.small", 2, 2, 0.0208))
    (claim,) = solve(problem(replicas(1, "1", "1Gi"), pool("default", ON_DEMAND, AMD64, types=types))).claims
    assert claim.instance_types[0] == "t3.small"


def test_a_pool_of_burstable_types_alone_still_works() -> None:
    plan = solve(problem(replicas(4, "1", "1Gi"), pool(types=catalog(entry("t3.large", 2, 8, 0.08)))))
    assert len(plan.claims) == 4


def test_spot_claims_stay_flexible_where_they_can() -> None:
    plan = solve(problem(replicas(300, "1", "2Gi"), pool("default", AMD64)))
    assert {claim.offering.capacity_type for claim in plan.claims} == {labels.SPOT}
    assert min(len(claim.instance_types) for claim in plan.claims) >= SPOT_FLEXIBILITY


def test_no_plan_costs_more_than_plain_first_fit() -> None:
    for count in (1, 7, 33, 95, 250):
        pods = [*replicas(count, "900m", "3Gi", "a"), *replicas(count // 2, "2500m", "1Gi", "b")]
        names = resource_names(pods)
        expectation = pool("default", ON_DEMAND, AMD64)
        template = Template(expectation, [], TypeTable(expectation.instance_types, names))
        load = [(c, len(c.pods)) for c in group(pods, names)]
        plain = first_fit.first_fit(template, load, template.table.every)
        best = sizing.pack(template, load)
        assert best.price() <= plain.price()
        assert not best.unplaced


def test_large_batches_of_equal_pods_are_placed_in_bulk() -> None:
    plan = solve(problem(replicas(20_000, "500m", "1Gi"), pool()))
    assert sum(len(claim.pods) for claim in plan.claims) == 20_000


def test_a_mixed_load_costs_hardly_more_than_it_must() -> None:
    kinds = [("250m", "1Gi"), ("1", "512Mi"), ("1500m", "4Gi"), ("100m", "2Gi"), ("500m", "256Mi")]
    pods = [replica for n, (cpu, memory) in enumerate(kinds) for replica in replicas(300, cpu, memory, f"kind{n}")]
    batch = problem(pods, pool("default", ON_DEMAND, AMD64))
    plan = solve(batch)
    assert plan.unschedulable == {}
    assert price(plan) <= 1.03 * lower_bound(batch, node_charge=NODE_CHARGE)


def test_pods_short_of_memory_and_pods_short_of_cpu_get_nodes_of_their_own() -> None:
    """No single family suits both: the mix asks for 5 GiB a CPU, and m5 and r5 have 4 and 8."""
    pods = [*replicas(120, "1", "7Gi", "memory"), *replicas(120, "1", "3Gi", "cpu")]
    batch = problem(pods, pool("default", ON_DEMAND, AMD64))
    plan = solve(batch)
    families = {claim.instance_types[0].partition(".")[0] for claim in plan.claims}
    assert families == {"m5", "r5"}
    assert price(plan) <= 1.06 * lower_bound(batch, node_charge=NODE_CHARGE)


def test_pods_that_fit_on_unusual_types_alone_do_not_spoil_the_nodes_of_the_others() -> None:
    """One pod asks for GPUs, one for more memory than other types have: no type is for both, nor cheap for the rest."""
    unusual = [
        entry("p5.48xlarge", 64, 256, 9.0, capacity={"nvidia.com/gpu": "8"}),
        entry("x2.32xlarge", 64, 4000, 27.0),
    ]
    kinds = [("250m", "1Gi"), ("1", "512Mi"), ("1500m", "4Gi"), ("100m", "2Gi"), ("2", "12Gi")]
    usual = [replica for n, (cpu, memory) in enumerate(kinds) for replica in replicas(80, cpu, memory, f"kind{n}")]
    odd = [pod("gpu", "4", "16Gi", extra={"nvidia.com/gpu": 8}), pod("memory", "4", "3500Gi")]
    types = pool("default", ON_DEMAND, AMD64, types=catalog(*ordinary_entries(), *unusual))
    batch = problem([*odd, *usual], types)
    plan = solve(batch)
    assert plan.unschedulable == {}
    assert {claim.instance_types[0] for claim in plan.claims if any(item in claim.pods for item in odd)} == {
        "p5.48xlarge",
        "x2.32xlarge",
    }
    assert sum(claim.price > 8 for claim in plan.claims) == 2
    assert price(plan) < price(solve(problem(usual, types))) + 9.0 + 27.0
    assert price(plan) <= 1.08 * lower_bound(batch, node_charge=NODE_CHARGE)


def test_pods_that_keep_each_other_away_share_the_others_evenly() -> None:
    pods = [*web(20, away(labels.HOSTNAME), cpu="500m"), *replicas(60, "1", "2Gi", "plain")]
    plan = solve(problem(pods, pool("default", ON_DEMAND, AMD64)))
    assert on_each(plan) == [1] * 20
    assert price(plan) <= 3.6  # first-fit fills large nodes first and pays 4.5


def test_pods_bound_to_zones_take_pods_that_go_anywhere_along() -> None:
    bound_to = [asking(f"bound-{zone}", need(labels.ZONE, "In", zone)) for zone in ZONES]
    plan = solve(problem([*bound_to, *replicas(6, "1", "1Gi")], pool("default", ON_DEMAND, AMD64)))
    assert len(plan.claims) == 3


def test_limits_hold_for_a_load_that_is_dealt() -> None:
    pods = [*replicas(60, "1", "2Gi", "a"), *replicas(60, "500m", "4Gi", "b")]
    plan = solve(problem(pods, pool("default", ON_DEMAND, AMD64, limits={"cpu": "120"})))
    assert plan.unschedulable == {}
    assert sum(max(CPUS[name] for name in claim.instance_types) for claim in plan.claims) <= 120


def test_the_charge_for_a_node_decides_between_many_small_and_few_large() -> None:
    sizes = [entry("m5.large", 2, 8, 0.1), entry("m5.4xlarge", 16, 64, 1.1)]
    batch = problem(replicas(28, "500m", "1Gi"), pool("default", ON_DEMAND, types=catalog(*sizes)))
    assert len(solve(replace(batch, node_charge=0.0)).claims) > len(solve(replace(batch, node_charge=1.0)).claims)


def test_t1_micro_is_sized_by_its_baseline() -> None:
    types = catalog(*ordinary_entries(), entry("t1.micro", 2, 2, 0.02))
    plan = solve(problem(replicas(60, "1", "1Gi"), pool("default", ON_DEMAND, AMD64, types=types)))
    assert len(plan.claims) <= 8


def test_pods_that_keep_each_other_away_are_placed_before_others_of_their_size() -> None:
    pods = [*web(4, away(labels.HOSTNAME), cpu="900m"), *replicas(4, "900m", "1Gi", "plain")]
    plan = solve(problem(pods, pool("default", ON_DEMAND, types=catalog(entry("m5.large", 2, 8, 0.1)))))
    assert [len(claim.pods) for claim in plan.claims] == [2, 2, 2, 2]


def test_a_pool_of_few_types_on_spot_uses_the_larger_ones_too() -> None:
    types = catalog(entry("m5.large", 2, 8, 0.096), entry("m5.2xlarge", 8, 32, 0.384))
    plan = solve(problem(replicas(7, "1", "1Gi"), pool(types=types)))
    assert [claim.offering.instance_type for claim in plan.claims] == ["m5.2xlarge"]
    assert plan.claims[0].offering.capacity_type == labels.SPOT


kinds = st.tuples(
    st.sampled_from(["0", "100m", "900m", "3", "17"]),
    st.sampled_from(["0", "200Mi", "3Gi", "30Gi"]),
    st.sampled_from([(), (need(labels.ZONE, "In", ZONES[0]),), (AMD64,), (need(labels.ARCH, "In", "arm64"),)]),
    st.sampled_from([1, 2, 9, 40, 150]),
)


@settings(max_examples=80, deadline=None)
@given(
    st.lists(kinds, min_size=1, max_size=5),
    st.sampled_from([(), (ON_DEMAND,), (AMD64,)]),
    st.sampled_from([None, {"cpu": "60"}, {"cpu": "400", "memory": "700Gi"}, {"nodes": 3}]),
    st.sampled_from([0.0, 0.02, 1.0]),
)
def test_no_packing_costs_more_than_plain_first_fit(
    selection: list[tuple[str, str, tuple[Requirement, ...], int]],
    needs: tuple[Requirement, ...],
    limits: dict[str, Any] | None,
    charge: float,
) -> None:
    pods = [
        replace(replica, required_terms=(Requirements.of(*expectation),) if expectation else ())
        for n, (cpu, memory, expectation, count) in enumerate(selection)
        for replica in replicas(count, cpu, memory, f"k{n}")
    ]
    names = resource_names(pods)
    wanted_pool = pool("default", *needs, limits=limits)
    template = Template(wanted_pool, [], TypeTable(wanted_pool.instance_types, names), node_charge=charge)
    load = [(c, len(c.pods)) for c in group(pods, names)]
    plain = first_fit.first_fit(template, load, template.table.every)
    best = sizing.pack(template, load)
    assert best.price() <= plain.price()
    assert best.cost() <= plain.cost()
    placed = [pair for node in best.bins for pair in node.load]
    assert sum(count for _, count in [*placed, *best.unplaced]) == len(pods)


def test_a_pod_that_fits_no_type_makes_no_other_dearer() -> None:
    """One impossible request once kept the whole load from being dealt, at five times the price."""
    pods = [*replicas(150, "500m", "1Gi", "small"), *replicas(60, "2", "6Gi", "middle")]
    alone = solve(problem(pods, pool("default", ON_DEMAND, AMD64)))
    hopeless = [*replicas(1, "1000", "1Gi", "huge"), *replicas(1, "1", "100Ti", "heavy")]
    together = solve(problem([*pods, *hopeless], pool("default", ON_DEMAND, AMD64)))
    assert len(together.unschedulable) == 2
    assert price(together) == price(alone)


def test_a_limit_that_does_not_bind_makes_few_nodes_all_the_same() -> None:
    """Under limits first-fit closes each node at its cheapest size, and is no measure for the price of others."""
    apart = {"rules": PodRules(anti_affinity=(PodTerm(labels.HOSTNAME, LabelSelector((("app", "In", ("a",)),))),))}
    pods = [
        replica
        for number in range(6)
        for replica in replicas(20, "900m", "1Gi", f"w{number}", labels={"app": "a" if number == 0 else f"b{number}"})
    ]
    pods += replicas(10, "900m", "1Gi", "apart", labels={"app": "a"}, **apart)
    free = solve(problem(pods, pool("default", ON_DEMAND, AMD64)))
    limited = solve(problem(pods, pool("default", ON_DEMAND, AMD64, limits={"cpu": "2000"})))
    assert not limited.unschedulable
    assert price(limited) + 0.02 * len(limited.claims) <= 1.2 * (price(free) + 0.02 * len(free.claims))
