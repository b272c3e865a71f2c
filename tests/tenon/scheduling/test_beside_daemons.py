"""DaemonSets' pods come with a new node, so affinity and anti-affinity count them there (SCH-063..065)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.pod_rules import PodRules
from tenon.kube.requirements import Requirement, Requirements
from tenon.kube.taints import Taint, Toleration
from tenon.scheduling.engine import solve
from tests.tenon.scheduling.between_pods import away, near, on_each, spread, web
from tests.tenon.scheduling.builders import ZONES, need, node, pod, pool, problem, replicas

A, B, C = ZONES
HOST = labels.HOSTNAME
KEYS = pytest.mark.parametrize("key", [HOST, labels.ZONE])


def cache(*needs: Requirement, rules: PodRules | None = None, **more: object) -> Pod:
    """The pod of a DaemonSet with the label app=cache."""
    terms = (Requirements.of(*needs),) if needs else ()
    return pod("cache", "100m", "128Mi", *terms, labels={"app": "cache"}, rules=rules or PodRules(), **more)


@KEYS
def test_sch063_affinity_to_the_pods_of_a_daemon_set_buys_a_node(key: str) -> None:
    plan = solve(problem(web(3, near(key, "cache")), pool(), daemons=[cache()]))
    assert not plan.unschedulable
    assert on_each(plan) == [3]


@KEYS
def test_sch063_affinity_buys_only_nodes_on_which_the_daemon_set_runs(key: str) -> None:
    only_m5 = cache(need("karpenter.k8s.aws/instance-family", "In", "m5"))
    plan = solve(problem(web(3, near(key, "cache")), pool(), daemons=[only_m5]))
    assert not plan.unschedulable
    assert all(name.startswith("m5.") for claim in plan.claims for name in claim.instance_types)
    only_b = cache(need(labels.ZONE, "In", B))
    plan = solve(problem(web(3, near(key, "cache")), pool(), daemons=[only_b]))
    assert not plan.unschedulable
    assert {claim.requirements.get(labels.ZONE).values for claim in plan.claims} == {(B,)}


@KEYS
def test_sch063_a_daemon_set_that_does_not_tolerate_the_pool_is_no_help(key: str) -> None:
    tainted = pool(taints=(Taint("x", "", "NoSchedule"),))
    pods = web(1, near(key, "cache"), tolerations=(Toleration("x", "Exists", "", ""),))
    plan = solve(problem(pods, tainted, daemons=[cache()]))
    assert not plan.claims
    assert "matching pod" in str(plan.unschedulable["default/web-0"])


@KEYS
def test_sch063_an_existing_node_without_the_pod_of_the_daemon_set_is_passed_by(key: str) -> None:
    plan = solve(problem(web(1, near(key, "cache")), pool(), nodes=[node()], daemons=[cache()]))
    assert not plan.placements
    assert on_each(plan) == [1]


def test_sch063_several_rules_hold_next_to_a_daemon_set() -> None:
    rules = replace(spread(), affinity=near(HOST, "cache").affinity)
    plan = solve(problem(web(3, rules), pool(), daemons=[cache()]))
    assert sorted(claim.requirements.get(labels.ZONE).values for claim in plan.claims) == [(A,), (B,), (C,)]


@KEYS
def test_sch064_anti_affinity_to_the_pods_of_a_daemon_set_on_every_node_buys_nothing(key: str) -> None:
    plan = solve(problem(web(2, away(key, "cache")), pool(), daemons=[cache()]))
    assert not plan.claims
    assert set(map(str, plan.unschedulable.values())) == {
        "NodePool default: pod anti-affinity keeps the pod off its nodes, because DaemonSet default/cache runs there"
    }


@KEYS
def test_sch065_anti_affinity_of_a_daemon_set_keeps_pods_off_its_nodes(key: str) -> None:
    plan = solve(problem(web(2, PodRules()), pool(), daemons=[cache(rules=away(key, "web"))]))
    assert not plan.claims
    assert all("because DaemonSet default/cache runs there" in str(reason) for reason in plan.unschedulable.values())


def test_sch065_a_daemon_set_that_keeps_away_from_its_own_pods_keeps_no_others_off() -> None:
    plan = solve(problem(web(2, PodRules()), pool(), daemons=[cache(rules=away(HOST, "cache"))]))
    assert not plan.unschedulable


@KEYS
def test_sch064_pods_get_the_nodes_on_which_the_daemon_set_does_not_run(key: str) -> None:
    only_m5 = cache(need("karpenter.k8s.aws/instance-family", "In", "m5", "c5", "c6g"))
    plan = solve(problem([*web(2, away(key, "cache")), *replicas(4, "1", "2Gi")], pool(), daemons=[only_m5]))
    assert not plan.unschedulable
    beside = [claim for claim in plan.claims if any(p.name.startswith("web") for p in claim.pods)]
    assert all(name.startswith("r5.") for claim in beside for name in claim.instance_types)
    only_a = cache(need(labels.ZONE, "In", A))
    plan = solve(problem(web(2, away(key, "cache")), pool(), daemons=[only_a]))
    assert not plan.unschedulable
    assert all(A not in claim.requirements.get(labels.ZONE).values for claim in plan.claims)


def test_sch064_pods_get_the_pool_that_the_daemon_set_does_not_tolerate() -> None:
    clean = pool("clean", taints=(Taint("x", "", "NoSchedule"),))
    pods = web(2, away(HOST, "cache"), tolerations=(Toleration("x", "Exists", "", ""),))
    plan = solve(problem(pods, pool("any", weight=10), clean, daemons=[cache()]))
    assert {claim.pool for claim in plan.claims} == {"clean"}


def test_sch064_a_preferred_anti_affinity_to_a_daemon_set_is_given_up() -> None:
    term = away(HOST, "cache").anti_affinity[0]
    plan = solve(problem(web(2, PodRules(preferred_anti_affinity=((1, term),))), pool(), daemons=[cache()]))
    assert not plan.unschedulable
