"""How many pods of one kind a single new node may carry (`Problem.most_pods_share`)."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Plan, Pod, Problem
from tenon.scheduling.pod_rules import LabelSelector, PodRules, SpreadRule
from tests.scheduling.builders import AMD64, ON_DEMAND, catalog, entry, node, pod, pool, problem, replicas
from tests.scheduling.test_engine_properties import problems


def most_together(plan: Plan, prefix: str) -> int:
    return max(sum(1 for one in claim.pods if one.name.startswith(prefix)) for claim in plan.claims)


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


def test_nodes_that_there_are_may_be_filled() -> None:
    plan = solve(problem(replicas(4, "500m"), pool(), nodes=[node()], most_pods_share=0.25))
    assert len(plan.placements["n"]) == 4


def kind(one: Pod) -> tuple[object, ...]:
    return (one.requests, one.required_terms, one.tolerations, one.host_ports)


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
