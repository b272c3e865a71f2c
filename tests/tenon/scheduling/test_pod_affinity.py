"""Pod affinity and anti-affinity (SCH-063..067)."""

from __future__ import annotations

from dataclasses import replace

from tenon.apis import labels
from tenon.kube.pod_rules import PodRules, PodTerm
from tenon.kube.requirements import Requirements
from tenon.kube.selectors import LabelSelector
from tenon.scheduling.engine import solve
from tests.tenon.scheduling.between_pods import DB, WEB, away, chosen, domains, near, on_each, web
from tests.tenon.scheduling.builders import ZONES, asking, need, node, pod, pool, problem, replicas

A, B, C = ZONES
HOST = labels.HOSTNAME


def test_sch063_qrk19_a_group_that_wants_itself_gets_one_zone() -> None:
    plan = solve(problem(web(300, near()), pool()))
    assert len(domains(plan)) == 1
    assert set(domains(plan)) <= set(ZONES)
    assert len(plan.claims) > 1


def test_sch063_a_group_that_wants_itself_gets_one_node() -> None:
    plan = solve(problem([*web(20, near(HOST)), *replicas(40, prefix="plain")], pool()))
    assert on_each(plan) == [20]
    assert not plan.unschedulable


def test_sch063_what_does_not_fit_on_the_one_node_is_left_over_and_says_so() -> None:
    plan = solve(problem(web(4, near(HOST), cpu="40"), pool()))
    assert on_each(plan) == [2]
    assert "needs a node with a matching pod, and no such node has room" in str(plan.unschedulable["default/web-3"])


def test_sch063_pods_go_where_the_pods_that_they_ask_for_run() -> None:
    present_items = node(
        "n", labels={labels.ZONE: B}, cpu="2", used={"cpu": 2000}, pods=replicas(1, prefix="db", labels=DB)
    )
    plan = solve(problem(web(3, near(app="db")), pool(), nodes=[present_items]))
    assert domains(plan) == {B: 3}


def test_sch063_pods_go_where_the_pods_that_they_ask_for_are_planned() -> None:
    for key in (labels.ZONE, HOST):
        plan = solve(problem([*web(2, near(key, "db")), *replicas(1, prefix="db", labels=DB)], pool()))
        assert not plan.unschedulable
        assert len(plan.claims) == 1


def test_sch063_a_chain_of_groups_is_planned_in_one_batch() -> None:
    chain = [
        pod("a", "2", labels={"app": "a"}, rules=near(app="b")),
        pod("b", "1", labels={"app": "b"}, rules=near(HOST, "c")),
        pod("c", "500m", labels={"app": "c"}),
    ]
    plan = solve(problem(chain, pool()))
    assert not plan.unschedulable
    assert len(domains(plan, prefix="")) == 1


def test_sch063_no_matching_pod_is_reported() -> None:
    plan = solve(problem(web(1, near(HOST, "db")), pool()))
    assert "finds no matching pod" in str(plan.unschedulable["default/web-0"])
    plan = solve(problem(web(1, near(app="db")), pool()))
    assert "pod affinity over topology.kubernetes.io/zone rules out us-west-2a" in str(
        plan.unschedulable["default/web-0"]
    )


def test_sch063_a_group_does_not_start_again_if_it_is_already_elsewhere() -> None:
    present_items = node("n", labels={labels.ZONE: B}, cpu="1", used={"cpu": 1000}, pods=web(1, PodRules(), "run"))
    pinned = [asking("web-0", need(labels.ZONE, "In", A), labels=WEB, rules=near())]
    assert solve(problem(pinned, pool(), nodes=[present_items])).unschedulable


def test_sch063_sch067_one_pod_must_meet_all_terms() -> None:
    """kube-scheduler counts a pod for affinity only where it meets every term, in each term's topology."""
    pod_rules = PodRules(affinity=(PodTerm(labels.ZONE, chosen(app="db")), PodTerm(HOST, chosen(tier="data"))))
    pair = pod("db", labels={"app": "db", "tier": "data"})
    halves = (pod("db", labels=DB), pod("other", labels={"tier": "data"}))
    plan = solve(problem(web(1, pod_rules), pool(), nodes=[node("n", cpu="8", pods=halves)]))
    (apart,) = map(str, plan.unschedulable.values())
    assert "its pod affinity over kubernetes.io/hostname finds no matching pod" in apart
    plan = solve(problem(web(1, pod_rules), pool(), nodes=[node("m", cpu="8"), node("n", cpu="8", pods=(pair,))]))
    assert list(plan.placements) == ["n"]


def test_sch063_terms_about_different_namespaces_are_met_by_pods_in_all_of_them() -> None:
    """Terms of which one is about all namespaces and one about two leave the two, of which one must have the pod."""
    pod_rules = PodRules(
        affinity=(
            PodTerm(labels.ZONE, chosen(app="db"), namespace_selector=LabelSelector()),
            PodTerm(labels.ZONE, chosen(app="db"), namespaces=("default", "other")),
        )
    )
    for namespace, result in (("other", True), ("third", False)):
        present_items = node(
            "n", cpu="1", used={"cpu": 1000}, pods=(replace(pod("db", labels=DB), namespace=namespace),)
        )
        assert bool(solve(problem(web(1, pod_rules), pool(), nodes=[present_items])).claims) is result


def test_sch064_each_zone_takes_one_and_each_claim_is_settled() -> None:
    plan = solve(problem(web(4, away()), pool()))
    assert domains(plan) == {A: 1, B: 1, C: 1}
    (reason,) = map(str, plan.unschedulable.values())
    assert "pod anti-affinity over topology.kubernetes.io/zone rules out us-west-2a, us-west-2b, us-west-2c" in reason


def test_sch064_each_node_takes_one_and_plain_pods_fill_it() -> None:
    plan = solve(problem([*web(10, away(HOST)), *replicas(10, prefix="plain", cpu="500m")], pool()))
    assert on_each(plan) == [1] * 10
    assert not plan.unschedulable
    assert len(plan.claims) == 10


def test_sch065_running_pods_repel_new_ones() -> None:
    hermit = pod("run", labels={"app": "hermit"}, rules=away())
    present_items = node("n", cpu="8", pods=(hermit,))
    plan = solve(problem(web(6, PodRules()), pool(), nodes=[present_items]))
    assert (plan.placements, A in "|".join(domains(plan))) == ({}, False)
    hosts = node("n", cpu="8", pods=(replace(hermit, rules=away(HOST)),))
    assert solve(problem(web(6, PodRules()), pool(), nodes=[hosts])).placements == {}


def test_sch065_planned_pods_repel_each_other_in_either_order() -> None:
    for cpu in ("500m", "3"):
        hermit = pod("hermit", cpu, labels={"app": "hermit"}, rules=away(HOST))
        plan = solve(problem([hermit, *web(4, PodRules())], pool()))
        (alone,) = [claim for claim in plan.claims if hermit in claim.pods]
        assert alone.pods == (hermit,)


def test_sch065_a_node_in_flight_blocks_every_zone_that_it_may_get() -> None:
    requirements = Requirements.of(need(labels.ZONE, "In", A, B))
    starting = replace(
        node("n", cpu="1", used={"cpu": 1000}, pods=web(1, away(), "run")),
        labels={},
        requirements=requirements,
        initialized=False,
    )
    assert domains(solve(problem(web(2, away()), pool(), nodes=[starting]))) == {C: 1}


def test_sch066_namespaces() -> None:
    other = replace(pod("run", labels=WEB), namespace="other")
    present_items = node("n", cpu="1", used={"cpu": 1000}, pods=(other,))
    entries = {"default": {}, "other": {"env": "prod"}}
    anything = LabelSelector()
    prod = LabelSelector((("env", "In", ("prod",)),))
    for rules, sees in [
        (away(), False),
        (away(namespaces=("other",)), True),
        (away(namespace_selector=anything), True),
        (away(namespace_selector=prod), True),
        (away(namespace_selector=LabelSelector((("env", "In", ("test",)),))), False),
    ]:
        pinned = [asking("db", need(labels.ZONE, "In", A), labels=DB, rules=rules)]
        plan = solve(problem(pinned, pool(), nodes=[present_items], namespaces=entries))
        assert bool(plan.unschedulable) is sees, rules


def test_sch066_labels_of_namespaces_that_are_not_known_are_not_guessed() -> None:
    rules = away(namespace_selector=LabelSelector((("env", "In", ("prod",)),)))
    (reason,) = map(str, solve(problem(web(1, rules), pool())).unschedulable.values())
    assert "labels of namespaces are not known" in reason


def test_a_group_that_wants_itself_on_one_node_takes_a_node_that_is_there() -> None:
    plan = solve(problem(web(3, near(HOST)), pool(), nodes=[node("n"), node("m")]))
    assert [len(placed) for placed in plan.placements.values()] == [3]
