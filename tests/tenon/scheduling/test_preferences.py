"""Preferences are rules until they stand in the way (SCH-015, SCH-040..045, SCH-056)."""

from __future__ import annotations

from dataclasses import replace

from tenon.apis import labels
from tenon.kube.pod_rules import PodRules, PodTerm
from tenon.kube.requirements import Requirements
from tenon.kube.taints import Taint
from tenon.scheduling.engine import solve
from tests.tenon.scheduling.between_pods import away, chosen, domains, on_each, spread, web
from tests.tenon.scheduling.builders import ZONES, asking, need, node, pod, pool, problem

A, B, C = ZONES
HOST = labels.HOSTNAME
WEB_TERM = PodTerm(HOST, chosen(app="web"))


def nodes(*preferred: tuple[int, Requirements]) -> PodRules:
    return PodRules(preferred_nodes=preferred)


def in_zone(zone: str) -> Requirements:
    return Requirements.of(need(labels.ZONE, "In", zone))


def test_sch029_the_heaviest_preferred_term_is_followed() -> None:
    plan = solve(problem(web(3, nodes((1, in_zone(A)), (9, in_zone(C)), (5, in_zone(B)))), pool()))
    assert domains(plan) == {C: 3}


def test_sch043_a_term_that_cannot_be_met_gives_way_to_the_next() -> None:
    plan = solve(problem(web(3, nodes((9, in_zone("mars")), (5, in_zone(B)))), pool()))
    assert domains(plan) == {B: 3}
    assert not solve(problem(web(3, nodes((9, in_zone("mars")))), pool())).unschedulable


def test_sch040_required_alternatives_come_before_preferences() -> None:
    pods = [replace(asking("web-0"), required_terms=(in_zone("mars"), in_zone(B)), rules=nodes((1, in_zone(A))))]
    assert domains(solve(problem(pods, pool()))) == {B: 1}


def test_sch041_preferred_affinity_is_followed_and_given_up() -> None:
    term = PodTerm(labels.ZONE, chosen(app="db"))
    present_items = node(
        "n", labels={labels.ZONE: C}, cpu="1", used={"cpu": 1000}, pods=(pod("db", labels={"app": "db"}),)
    )
    rules = PodRules(preferred_affinity=((1, term),))
    assert domains(solve(problem(web(2, rules), pool(), nodes=[present_items]))) == {C: 2}
    assert not solve(problem(web(2, rules), pool())).unschedulable


def test_sch042_preferred_anti_affinity_opens_nodes_while_it_may() -> None:
    rules = PodRules(preferred_anti_affinity=((1, WEB_TERM),))
    assert on_each(solve(problem(web(3, rules), pool()))) == [1, 1, 1]
    limited = solve(problem(web(3, rules), pool("default", limits={"nodes": 2})))
    assert sum(on_each(limited)) == 3
    assert not limited.unschedulable


def test_sch044_sch056_schedule_anyway_spreads_first_and_then_goes_anywhere() -> None:
    soft = spread(hard=False)
    assert sorted(domains(solve(problem(web(6, soft), pool()))).values()) == [2, 2, 2]
    only_some = [asking(f"web-{n}", need(labels.ZONE, "In", A), labels={"app": "web"}, rules=soft) for n in range(4)]
    elsewhere = node("n", labels={labels.ZONE: B}, cpu="1", used={"cpu": 1000})
    ignoring = [replace(p, rules=spread(hard=False, honor_affinity=False)) for p in only_some]
    assert not solve(problem(ignoring, pool(), nodes=[elsewhere])).unschedulable


def test_sch045_prefer_no_schedule_is_tolerated_last() -> None:
    soft = pool("a", taints=(Taint("t", "PreferNoSchedule"),), weight=10)
    plan = solve(problem([pod()], soft, pool("b")))
    assert [claim.pool for claim in plan.claims] == ["b"]
    assert [claim.pool for claim in solve(problem([pod()], soft)).claims] == ["a"]


def test_sch015_ignore_drops_preferences_and_keeps_rules() -> None:
    rules = replace(away(HOST), preferred_nodes=((1, in_zone(A)),), spreads=spread(hard=False).spreads)
    plan = solve(problem(web(3, rules), pool(), ignore_preferences=True))
    assert on_each(plan) == [1, 1, 1]
    assert all(len(claim.requirements.get(labels.ZONE).values) != 1 for claim in plan.claims)


def test_qrk06_a_pod_that_fits_nowhere_does_not_cost_others_their_preferences() -> None:
    huge = pod("web-huge", "500", labels={"app": "web"}, rules=nodes((1, in_zone(A))))
    plan = solve(problem([huge, *web(2, nodes((1, in_zone(B))))], pool()))
    assert list(plan.unschedulable) == ["default/web-huge"]
    assert domains(plan) == {B: 2}


FAMILY = "karpenter.k8s.aws/instance-family"


def test_sch031_best_effort_lowers_min_values_to_what_is_reachable() -> None:
    few = pool("default", need(FAMILY, "Exists", least=4))
    large = [pod(cpu="8", memory="300Gi")]
    assert solve(problem(large, few)).unschedulable
    (claim,) = solve(problem(large, few, min_values_best_effort=True)).claims
    families = {name.partition(".")[0] for name in claim.instance_types}
    assert (claim.requirements[FAMILY].min_values, claim.min_values_relaxed) == (len(families), True)
    (claim,) = solve(problem([pod()], few, min_values_best_effort=True)).claims
    assert (claim.requirements[FAMILY].min_values, claim.min_values_relaxed) == (4, False)


def test_sch026_sch030_a_label_that_must_exist_gets_a_value() -> None:
    open_pool = pool("default", need("rack", "Exists"), need("slot", "Gt", "5"), need("team", "NotIn", "a"))
    pods = [asking("p", need("rack", "NotIn", "0"), cpu="90"), pod("q", "90")]
    plan = solve(problem(pods, open_pool))
    values = [claim.requirements["rack"].values for claim in plan.claims]
    assert all(len(value) == 1 and value[0].isdecimal() for value in values)
    assert len(set(values)) == 2
    assert all(int(claim.requirements["slot"].values[0]) > 5 for claim in plan.claims)
    assert all(claim.requirements["team"].complement for claim in plan.claims)
    assert repr(solve(problem([asking("p", need("rack", "NotIn", "0"), cpu="90"), pod("q", "90")], open_pool))) == repr(
        plan
    )
    selection = solve(problem([asking("p", need("rack", "In", "r9"))], open_pool))
    assert selection.claims[0].requirements["rack"].values == ("r9",)
