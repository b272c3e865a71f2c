"""How much of one workload a single node may carry (`Problem.most_pods_share`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.kube.pod_rules import PodRules, SpreadRule
from tenon.kube.selectors import LabelSelector
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Plan, Problem
from tests.tenon.scheduling.builders import AMD64, ON_DEMAND, catalog, entry, node, pod, pool, problem, replicas
from tests.tenon.scheduling.random_problems import problems


def most_together(plan: Plan, prefix: str) -> int:
    return max(sum(1 for pod in claim.pods if pod.name.startswith(prefix)) for claim in plan.claims)


@pytest.mark.parametrize(("share", "most"), [(1.0, 7), (0.5, 4), (0.3, 3), (0.01, 1)])
def test_a_node_carries_at_most_its_share_of_equal_pods(share: float, most: int) -> None:
    large = catalog(entry("m5.8xlarge", 32, 128, 1.536))
    plan = solve(problem(replicas(7), pool(types=large), most_pods_share=share))
    assert plan.unschedulable == {}
    assert most_together(plan, "p-") == most


def test_the_share_is_of_each_kind_of_pods_on_its_own() -> None:
    pods = [*replicas(10, "1", "1Gi", "web"), *replicas(4, "500m", "1Gi", "api")]
    plan = solve(problem(pods, pool("default", ON_DEMAND, AMD64), most_pods_share=0.5))
    assert plan.unschedulable == {}
    assert (most_together(plan, "web"), most_together(plan, "api")) == (5, 2)
    assert len(plan.claims) == 2


@pytest.mark.parametrize(("count", "share"), [(8, 0.25), (20, 0.2), (40, 0.3)])
def test_pods_of_one_kind_in_several_zones_are_one_kind(count: int, share: float) -> None:
    """A node may get pods that were narrowed to a zone and pods whose spread was given up: the share is of both."""
    spread = SpreadRule(labels.ZONE, 1, LabelSelector((("app", "In", ("a",)),)), hard=False)
    pods = replicas(count, "500m", "512Mi", labels={"app": "a"}, rules=PodRules(spreads=(spread,)))
    plan = solve(problem(pods, pool("default", ON_DEMAND, AMD64), most_pods_share=share))
    assert plan.unschedulable == {}
    assert most_together(plan, "p-") <= ceil(round(share * count, 9))


def test_a_single_pod_is_never_kept_out() -> None:
    plan = solve(problem([pod()], pool(), most_pods_share=0.1))
    assert len(plan.claims) == 1


def test_pods_of_different_classes_are_still_one_workload() -> None:
    """The pods of a StatefulSet each have a volume of their own."""
    large = catalog(entry("m5.8xlarge", 32, 128, 1.536))
    pods = [
        replace(replica, workload="StatefulSet/db", attachments=(("ebs", replica.name),)) for replica in replicas(6)
    ]
    plan = solve(problem(pods, pool(types=large), most_pods_share=0.5))
    assert sorted(len(claim.pods) for claim in plan.claims) == [3, 3]


@pytest.mark.parametrize(("first", "second"), [(10, 10), (4, 40)])
def test_equal_pods_of_two_workloads_are_two_workloads(first: int, second: int) -> None:
    pods = [
        *(replace(replica, workload="Deployment/a") for replica in replicas(first, prefix="a")),
        *(replace(replica, workload="Deployment/b") for replica in replicas(second, prefix="b")),
    ]
    plan = solve(problem(pods, pool("default", ON_DEMAND, AMD64), most_pods_share=0.5))
    assert plan.unschedulable == {}
    assert most_together(plan, "a-") <= first / 2
    assert most_together(plan, "b-") <= second / 2


def test_one_name_in_two_namespaces_is_two_workloads() -> None:
    pods = [replace(replica, workload="Deployment/a") for replica in replicas(4)]
    others = [replace(pod, namespace="other", name=f"o{pod.name}", uid=f"o{pod.uid}") for pod in pods]
    huge = catalog(entry("m5.8xlarge", 32, 128, 1.536))
    plan = solve(problem([*pods, *others], pool(types=huge), most_pods_share=0.5))
    assert [(count_of(c.pods, "default"), count_of(c.pods, "other")) for c in plan.claims] == [(2, 2), (2, 2)]


def count_of(pods: tuple[Pod, ...], namespace: str) -> int:
    return sum(pod.namespace == namespace for pod in pods)


def test_nodes_that_there_are_carry_no_more_either() -> None:
    pods = [replace(replica, workload="Deployment/a") for replica in replicas(10)]
    plan = solve(problem(pods, pool(), nodes=[node(cpu="64")], most_pods_share=0.2))
    assert len(plan.placements["n"]) == 2
    assert sum(len(claim.pods) for claim in plan.claims) == 8


def test_what_runs_there_already_counts() -> None:
    """Of the six replicas three may be on a node: those that run there are two of them."""
    running, pods = replicas(2, prefix="old", workload="Deployment/a"), replicas(4, workload="Deployment/a")
    plan = solve(problem(pods, pool(), nodes=[node(cpu="64", pods=running)], most_pods_share=0.5))
    assert len(plan.placements["n"]) == 1


def test_pods_that_only_a_node_that_is_there_can_take_go_there() -> None:
    """kube-scheduler would bind them there in any case."""
    pods = [replace(replica, workload="Deployment/a") for replica in replicas(4)]
    plan = solve(problem(pods, nodes=[node(cpu="64")], most_pods_share=0.25))
    assert len(plan.placements["n"]) == 4
    assert plan.unschedulable == {}


def kind(pod: Pod) -> tuple[object, ...]:
    return (pod.requests, pod.required_terms, pod.tolerations, pod.host_ports)


@settings(max_examples=80, deadline=None)
@given(problems(), st.sampled_from([0.1, 0.25, 0.34, 0.5, 0.9]))
def test_no_node_carries_more_and_no_pod_is_left_out_for_it(batch: Problem, share: float) -> None:
    unlimited = replace(batch, pools=[replace(pool, limits=None) for pool in batch.pools])
    plan = solve(replace(unlimited, most_pods_share=share))
    # kinds are told apart by all that the engine compares
    size = Counter(map(repr, map(kind, batch.pods)))
    for claim in plan.claims:
        for name, count in Counter(map(repr, map(kind, claim.pods))).items():
            assert count <= max(1, ceil(round(share * size[name], 9)))
    assert sorted(plan.unschedulable) == sorted(solve(unlimited).unschedulable)
