"""Existing and in-flight nodes are used before anything is bought (SCH-013, SCH-090)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tenon.apis import labels
from tenon.kube.requirements import Requirement, Requirements
from tenon.kube.taints import Taint
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Plan
from tests.tenon.scheduling.builders import DEDICATED, ZONES, asking, need, node, pod, pool, problem, replicas


def placed(plan: Plan) -> dict[str, list[str]]:
    return {name: [p.name for p in pods] for name, pods in plan.placements.items()}


def test_sch013_existing_nodes_are_filled_first_and_initialized_ones_before_others() -> None:
    nodes = [node("b"), node("a", initialized=False), node("c")]
    plan = solve(problem(replicas(9), pool(), nodes=nodes))
    assert {name: len(pods) for name, pods in plan.placements.items()} == {"b": 4, "c": 4, "a": 1}
    assert plan.claims == ()


def test_what_runs_on_a_node_takes_its_room() -> None:
    plan = solve(problem(replicas(4), pool(), nodes=[node("n", used={"cpu": 3000, "pods": 3})]))
    assert [len(pods) for pods in plan.placements.values()] == [1]
    assert sum(len(claim.pods) for claim in plan.claims) == 3


def test_sch078_a_node_with_too_much_on_it_takes_nothing() -> None:
    plan = solve(problem([pod()], nodes=[node("n", used={"memory": 2**40})]))
    assert plan.placements == {}


@pytest.mark.parametrize(
    ("requirement", "suits"),
    [
        (need(labels.ZONE, "In", ZONES[0]), True),
        (need(labels.ZONE, "In", ZONES[1]), False),
        (need(labels.ZONE, "NotIn", ZONES[1]), True),
        (need("team", "DoesNotExist"), True),
        (need("team", "Exists"), False),
        (need("team", "NotIn", "a"), True),
        (need("size", "Gt", "3"), True),
        (need("size", "Lt", "3"), False),
        (need("failure-domain.beta.kubernetes.io/zone", "In", ZONES[0]), True),
    ],
)
def test_a_node_is_judged_by_its_labels(requirement: Requirement, suits: bool) -> None:
    plan = solve(problem([asking("p", requirement)], nodes=[node("n", labels={"size": "4"})]))
    assert bool(plan.placements) is suits


@pytest.mark.parametrize(
    ("requirement", "suits"),
    [
        (need(labels.ZONE, "In", *ZONES), True),
        (need(labels.ZONE, "In", ZONES[1]), False),
        (need("size", "Gt", "3"), True),
        (need("size", "Gt", "5"), False),
        (need("karpenter.k8s.aws/instance-family", "NotIn", "m5"), False),
        (need("team", "NotIn", "a"), True),
    ],
)
def test_sch090_an_in_flight_node_must_suit_whatever_it_becomes(requirement: Requirement, suits: bool) -> None:
    requirements = Requirements.of(need("size", "Gt", "4"), need(labels.ZONE, "In", ZONES[0], ZONES[2]))
    in_flight = replace(node("n"), labels={}, requirements=requirements, initialized=False)
    assert bool(solve(problem([asking("p", requirement)], nodes=[in_flight])).placements) is suits


@pytest.mark.parametrize(
    ("taint", "initialized", "suits"),
    [
        (DEDICATED, True, False),
        (DEDICATED, False, True),
        (Taint("node.kubernetes.io/not-ready", "NoSchedule"), False, True),
        (Taint("node.kubernetes.io/not-ready", "NoSchedule"), True, False),
        (Taint(*labels.UNREGISTERED_TAINT), False, True),
        (Taint("readiness.k8s.io/network", "NoSchedule"), False, True),
        (Taint("other", "NoSchedule"), False, False),
        (Taint("other", "PreferNoSchedule"), True, True),
    ],
)
def test_sch090_a_starting_node_sheds_startup_and_ephemeral_taints(
    taint: Taint, initialized: bool, suits: bool
) -> None:
    present_items = node("n", labels={labels.NODEPOOL: "default"}, taints=(taint,), initialized=initialized)
    plan = solve(problem([pod()], pool(startup_taints=(DEDICATED,)), nodes=[present_items]))
    assert bool(plan.placements) is suits


def test_sch075_host_ports_in_use_keep_a_pod_away() -> None:
    nodes = [node("a", host_ports=(("", 80, "TCP"),)), node("b"), node("c")]
    pods = replicas(3, "100m", host_ports=(("10.0.0.1", 80, "TCP"),))
    plan = solve(problem(pods, pool(), nodes=nodes))
    assert placed(plan) == {"b": ["p-0"], "c": ["p-1"]}
    assert [len(claim.pods) for claim in plan.claims] == [1]
