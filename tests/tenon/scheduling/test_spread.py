"""Topology spread constraints (SCH-050..061)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.loads.cases import Load, instance_types, read_best_plans
from tenon.apis import labels
from tenon.kube.pod_rules import PodRules, SpreadRule
from tenon.kube.selectors import LabelSelector
from tenon.kube.taints import Taint
from tenon.scheduling.bound.sizing_rules import sizing_cost
from tenon.scheduling.column_generation.columns import Columns
from tenon.scheduling.engine import solve
from tests.tenon.scheduling.between_pods import DB, WEB, chosen, domains, on_each, spread, web
from tests.tenon.scheduling.builders import (
    CATALOG,
    ON_DEMAND,
    ZONES,
    asking,
    catalog,
    entry,
    need,
    node,
    ordinary_entries,
    pod,
    pool,
    problem,
    replicas,
)

A, B, C = ZONES
GPU = "nvidia.com/gpu"
WITH_GPU = catalog(*ordinary_entries(), entry("g5.xlarge", 4, 16, 1.0, zones=[A, B], capacity={GPU: "1"}))
"""The ordinary types in three zones, and one with a GPU in two of them."""


def test_sch053_zones_differ_by_at_most_the_skew_and_each_claim_is_settled() -> None:
    plan = solve(problem(web(8, spread()), pool()))
    assert sorted(domains(plan).values()) == [2, 3, 3]
    assert set(domains(plan)) == set(ZONES)


def test_sch051_a_zone_without_nodes_whose_types_hold_no_pod_of_the_group_does_not_count() -> None:
    plan = solve(problem(web(5, spread(), extra={GPU: 1}), pool(types=WITH_GPU)))
    assert not plan.unschedulable
    assert sorted(domains(plan).items()) in ([(A, 2), (B, 3)], [(A, 3), (B, 2)])


def test_sch051_a_zone_with_a_node_counts_although_its_types_hold_no_pod_of_the_group() -> None:
    present_items = node("n", labels={labels.ZONE: C})
    plan = solve(problem(web(5, spread(), extra={GPU: 1}), pool(types=WITH_GPU), nodes=[present_items]))
    assert domains(plan) == {A: 1, B: 1}
    assert len(plan.unschedulable) == 3


def test_sch051_a_zone_that_only_a_placed_pod_of_the_group_could_use_does_not_count() -> None:
    pods = [*web(4, spread(), extra={GPU: 1}), *web(1, spread(), "small")]
    plan = solve(problem(pods, pool(types=WITH_GPU)))
    assert not plan.unschedulable
    assert domains(plan).total() == 4


def test_sch054_min_domains_still_asks_for_a_zone_that_the_pods_cannot_reach() -> None:
    plan = solve(problem(web(5, spread(min_domains=3), extra={GPU: 1}), pool(types=WITH_GPU)))
    assert domains(plan) == {A: 1, B: 1}
    plan = solve(problem(web(5, spread(min_domains=2), extra={GPU: 1}), pool(types=WITH_GPU)))
    assert not plan.unschedulable


@pytest.mark.parametrize("rules", [spread(honor_affinity=False), spread(honor_taints=True)])
def test_sch057_sch058_policies_do_not_make_an_unreachable_zone_count(rules: PodRules) -> None:
    plan = solve(problem(web(4, rules, extra={GPU: 1}), pool(types=WITH_GPU)))
    assert domains(plan) == {A: 2, B: 2}


def test_sch052_running_pods_count_and_those_that_are_not_selected_do_not() -> None:
    present_items = node("n", cpu="2", used={"cpu": 2000}, pods=(*web(2, PodRules(), "run"), *replicas(5, labels=DB)))
    plan = solve(problem(web(4, spread()), pool(), nodes=[present_items]))
    assert domains(plan) == {B: 2, C: 2}


def test_sch052_pods_on_a_leaving_node_count_and_the_node_takes_none() -> None:
    leaving = node("n", closed=True, pods=web(1, PodRules(), "run"))
    plan = solve(problem(web(2, spread()), pool(), nodes=[leaving]))
    assert (domains(plan), plan.placements) == ({B: 1, C: 1}, {})


def test_sch054_hostname_spread_counts_each_node_alone() -> None:
    plan = solve(problem(web(5, spread(labels.HOSTNAME, 2)), pool()))
    assert on_each(plan) == [2, 2, 1]


def test_sch054_hostname_spread_sees_what_runs_on_a_node() -> None:
    present_items = node("n", pods=web(1, PodRules(), "run"))
    plan = solve(problem(web(2, spread(labels.HOSTNAME, 2)), pool(), nodes=[present_items]))
    assert [len(placed) for placed in plan.placements.values()] == [1]
    assert on_each(plan) == [1]


def test_sch054_min_domains_holds_pods_back_while_there_are_too_few_zones() -> None:
    two_zones = pool("default", need(labels.ZONE, "In", A, B))
    plan = solve(problem(web(4, spread(min_domains=3)), two_zones))
    assert domains(plan) == {A: 1, B: 1}
    reason = str(plan.unschedulable["default/web-3"])
    assert "topology spread over topology.kubernetes.io/zone (maxSkew 1, minDomains 3) rules out" in reason
    assert "us-west-2a, us-west-2b" in reason


def test_qrk04_pods_that_want_different_numbers_of_domains_keep_their_own() -> None:
    two_zones = pool("default", need(labels.ZONE, "In", A, B))
    plan = solve(problem([*web(2, spread(min_domains=3)), *web(4, spread(), "webb")], two_zones))
    assert sum(domains(plan).values()) == 6


@pytest.mark.parametrize(
    ("key", "values"),
    [(labels.CAPACITY_TYPE, {"on-demand", "spot"}), (labels.ARCH, {"amd64", "arm64"}), ("rack", {"r1", "r2"})],
)
def test_sch060_other_keys_spread_too(key: str, values: set[str]) -> None:
    plan = solve(problem(web(4, spread(key)), pool("default", need("rack", "In", "r1", "r2"))))
    assert domains(plan, key) == dict.fromkeys(values, 2)


def test_sch060_a_key_that_no_node_gets_is_named() -> None:
    plan = solve(problem(web(1, spread("rack")), pool()))
    assert "need label rack, and no node that it may use is known to get it" in str(plan.unschedulable["default/web-0"])


def test_sch059_match_label_keys_count_each_revision_alone() -> None:
    rules = spread(match_label_keys=("rev",))
    old = web(3, rules, "old", labels={**WEB, "rev": "1"})
    new = web(1, rules, "new", labels={**WEB, "rev": "2"})
    present_items = node("n", cpu="2", used={"cpu": 2000}, pods=[replace(p, name=f"r-{p.name}") for p in old[:1]])
    plan = solve(problem([*old[:2], *new], pool(), nodes=[present_items]))
    assert domains(plan, prefix="old") == {B: 1, C: 1}
    assert sum(domains(plan, prefix="new").values()) == 1


@pytest.mark.parametrize(("honor", "placed"), [(True, 4), (False, 1)])
def test_sch057_the_taints_policy_decides_whether_a_tainted_node_counts(honor: bool, placed: int) -> None:
    tainted = node("n", labels={labels.ZONE: "us-west-2d"}, taints=(Taint("t", "NoSchedule"),))
    only_a = pool("default", need(labels.ZONE, "In", A))
    plan = solve(problem(web(4, spread(honor_taints=honor)), only_a, nodes=[tainted]))
    assert sum(domains(plan).values()) == placed


@pytest.mark.parametrize(("honor", "placed"), [(True, 4), (False, 1)])
def test_sch058_the_affinity_policy_decides_whether_other_zones_count(honor: bool, placed: int) -> None:
    elsewhere = node("n", labels={labels.ZONE: B}, cpu="1", used={"cpu": 1000})
    pods = [
        asking(f"web-{n}", need(labels.ZONE, "In", A), labels=WEB, rules=spread(honor_affinity=honor)) for n in range(4)
    ]
    plan = solve(problem(pods, pool(), nodes=[elsewhere]))
    assert sum(domains(plan).values()) == placed


def test_sch051_zones_that_the_pods_may_not_use_do_not_count() -> None:
    pods = [asking(f"web-{n}", need(labels.ZONE, "In", A, B), labels=WEB, rules=spread()) for n in range(6)]
    assert domains(solve(problem(pods, pool()))) == {A: 3, B: 3}


def test_sch051_two_pools_make_one_universe() -> None:
    pools = [pool("one", need(labels.ZONE, "In", A)), pool("two", need(labels.ZONE, "In", B, C))]
    assert domains(solve(problem(web(6, spread()), *pools))) == {A: 2, B: 2, C: 2}


def test_a_spread_over_other_pods_only_avoids_crowded_zones() -> None:
    crowd = node("n", cpu="2", used={"cpu": 2000}, pods=web(3, PodRules(), "run"))
    others = replicas(4, prefix="db", labels=DB, rules=spread(skew=1))
    plan = solve(problem(others, pool(), nodes=[crowd]))
    assert A not in domains(plan, prefix="db")
    assert sum(domains(plan, prefix="db").values()) == 4


@pytest.mark.parametrize(("other_is_hard", "counted"), [(True, False), (False, True)])
def test_sch052_a_node_counts_where_it_has_the_labels_of_all_hard_constraints(
    other_is_hard: bool, counted: bool
) -> None:
    rack = SpreadRule("rack", 5, chosen(app="web"), other_is_hard)
    rules = PodRules(spreads=(*spread().spreads, rack))
    without = node("n", cpu="2", used={"cpu": 2000}, pods=web(2, PodRules(), "run"))
    plan = solve(problem(web(2, rules), pool("default", need("rack", "In", "r1")), nodes=[without]))
    assert (A not in domains(plan)) is counted


def test_sch051_a_pool_without_the_label_of_another_constraint_gives_no_domain() -> None:
    rules = PodRules(spreads=(*spread().spreads, SpreadRule("rack", 9, chosen(app="web"))))
    racked = pool("racked", need("rack", "In", "r1"), need(labels.ZONE, "In", A, B))
    plan = solve(problem(web(4, rules), racked, pool("plain", need(labels.ZONE, "In", C))))
    assert domains(plan) == {A: 2, B: 2}


def test_several_constraints_hold_at_once_sch_067() -> None:
    rules = PodRules(spreads=(*spread().spreads, *spread(labels.HOSTNAME).spreads))
    plan = solve(problem(web(6, rules), pool()))
    assert domains(plan) == {A: 2, B: 2, C: 2}
    assert on_each(plan) == [1] * 6


def test_a_selector_with_expressions_and_one_that_selects_nothing() -> None:
    label_selector = LabelSelector((("app", "Exists", ()), ("tier", "NotIn", ("back",))))
    plan = solve(problem(web(3, spread(selector=label_selector)), pool()))
    assert sorted(domains(plan).values()) == [1, 1, 1]
    nothing = PodRules(spreads=(SpreadRule(labels.ZONE, 1, None),))
    assert not solve(problem(web(9, nothing), pool())).unschedulable


def test_sch053_an_empty_selector_counts_nothing_but_asks_for_the_label() -> None:
    """kube-scheduler counts no pod for it, although an empty selector of pod affinity matches every pod."""
    full = node("n", cpu="1", used={"cpu": 1000}, labels={labels.ZONE: A})
    in_b = pool("default", need(labels.ZONE, "In", B), ON_DEMAND)
    assert domains(solve(problem(web(9, spread(selector=LabelSelector())), in_b, nodes=[full]))) == {B: 9}
    by_host = web(9, spread(labels.HOSTNAME, selector=LabelSelector()), cpu="100m")
    assert on_each(solve(problem(by_host, in_b))) == [9]
    assert solve(problem(web(1, spread("rack", selector=LabelSelector())), in_b)).unschedulable


def test_sch053_sch059_an_empty_selector_counts_by_the_labels_that_join_it() -> None:
    rules = spread(labels.HOSTNAME, selector=LabelSelector(), match_label_keys=("rev",))
    assert on_each(solve(problem(web(3, rules, labels={**WEB, "rev": "1"}, cpu="100m"), pool()))) == [1, 1, 1]
    assert on_each(solve(problem(web(3, rules, cpu="100m"), pool()))) == [3]


def test_pods_of_another_namespace_do_not_count() -> None:
    other = [replace(p, namespace="other") for p in web(3, PodRules(), "run")]
    plan = solve(problem(web(3, spread()), pool(), nodes=[node("n", cpu="1", used={"cpu": 1000}, pods=other)]))
    assert domains(plan) == {A: 1, B: 1, C: 1}


def test_where_a_limit_ends_the_zones_are_still_even() -> None:
    plan = solve(problem(web(30, spread(), cpu="3"), pool("default", ON_DEMAND, limits={"cpu": "20"})))
    counts = domains(plan)
    assert sum(counts.values()) >= 5
    assert max(counts.values()) - min(counts.get(zone, 0) for zone in ZONES) <= 1
    assert len(plan.unschedulable) == 30 - sum(counts.values())


def test_plain_pods_share_the_nodes_and_sizes_are_chosen_again() -> None:
    plan = solve(problem([*web(30, spread()), *replicas(30, prefix="plain")], pool("default", ON_DEMAND)))
    assert domains(plan) == {A: 10, B: 10, C: 10}
    assert not plan.unschedulable
    assert len(plan.claims) <= 8


def test_a_pool_in_a_further_zone_counts_as_soon_as_one_of_its_nodes_is_planned() -> None:
    """A node that is bought for others stands in its zone, though the spread pods may not use its pool."""
    tainted = pool("far", need(labels.ZONE, "In", C), taints=(Taint("t", "NoSchedule"),))
    ordinary = pool("near", need(labels.ZONE, "In", A, B))
    far = asking("far", need(labels.ZONE, "In", C), tolerations=())
    alone = solve(problem(web(4, spread()), tainted, ordinary))
    assert domains(alone) == {A: 2, B: 2}
    assert far.key in solve(problem([far], tainted, ordinary)).unschedulable


def test_the_plan_does_not_depend_on_chance_qrk05() -> None:
    pods = [*web(7, spread()), *web(5, spread(labels.HOSTNAME), "webb"), pod("x", labels=DB)]
    plan = solve(problem(pods, pool(types=CATALOG)))
    assert repr(solve(problem(pods[::-1], pool(types=CATALOG[::-1])))) == repr(plan)
    assert chosen(app="web").matches(WEB)


def test_a_spread_over_too_many_labels_is_refused_and_spoils_nothing() -> None:
    """SCH-050: eight values of each of six labels are 262,144 places to compare for each pod; the others go on."""
    keys = [f"example.com/k{number}" for number in range(6)]
    values = [f"v{number}" for number in range(8)]
    wide = PodRules(spreads=tuple(SpreadRule(key, 1, chosen(app="web")) for key in keys))
    plan = solve(problem([*web(3, wide), pod("plain")], pool("default", *(need(key, "In", *values) for key in keys))))
    assert [p.name for claim in plan.claims for p in claim.pods] == ["plain"]
    assert set(plan.unschedulable) == {f"default/web-{number}" for number in range(3)}
    assert "more than 5000 combinations of example.com/k0 and example.com/k1" in str(
        plan.unschedulable["default/web-0"]
    )


def test_sch055_groups_begin_with_different_zones_if_that_costs_less() -> None:
    """Where all groups begin with the same zone, the plan of this load has 14 nodes and costs 1.096 of the best."""
    load = Load("spread", 1)
    batch = load.problem(instance_types())
    plan = solve(batch, columns=Columns())
    assert not plan.unschedulable
    assert sizing_cost(batch, plan) < 1.02 * read_best_plans()[load.name].cost
