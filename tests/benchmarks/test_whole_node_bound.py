"""The bound over whole nodes: no plan costs less, and it is not below the bound with divisible nodes."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.families import problem_for
from benchmarks.judges import catalogue_of
from benchmarks.loads.chosen_nodes import ChosenNode, claims_of_node
from benchmarks.loads.purchases import UnknownRulesError, purchases_of
from benchmarks.loads.whole_node_bound import WholeNodeBound, whole_node_bound
from benchmarks.loads.whole_node_plan import plan_on_nodes
from benchmarks.random_cases import Case
from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.scheduling.bound.lower_bound import lower_bound_of_sizing
from tenon.scheduling.bound.sizing_rules import sizing_cost
from tenon.scheduling.catalog import parse_catalog
from tenon.scheduling.engine import solve
from tenon.scheduling.model import Plan, PlannedClaim, Problem
from tenon.simulation.document import LowerBounds, plan_document
from tests.oracle.judging import judge
from tests.tenon.scheduling.between_pods import away, spread, web
from tests.tenon.scheduling.builders import ON_DEMAND, ZONES, catalog, entry, node, pool, problem, replicas
from tests.tenon.scheduling.random_problems import problems

SECONDS = 20.0
"""A bound that is reached in less time holds too, so a slow machine fails no test."""
NEARLY = 1e-5


def bare(name: str, cpu: int, gib: int, price: float, **more: Any) -> dict[str, Any]:
    """An entry whose whole capacity is for pods."""
    return {**entry(name, cpu, gib, price, **more), "overhead": {}}


def bound(batch: Problem, plan: Plan) -> WholeNodeBound:
    return whole_node_bound(purchases_of(batch, plan)[0], sizing_cost(batch, plan), SECONDS)


def test_nodes_are_whole() -> None:
    """Three pods need one m5.xlarge or two m5.large. Divided, they need three quarters of the m5.xlarge."""
    types = catalog(bare("m5.large", 2, 8, 0.1), bare("m5.xlarge", 4, 16, 0.19))
    batch = problem(replicas(3, "1", "1Gi"), pool("default", ON_DEMAND, types=types))
    plan = solve(batch)
    assert lower_bound_of_sizing(batch, plan) == pytest.approx(0.75 * 0.21)
    assert bound(batch, plan).cost == pytest.approx(0.21, rel=NEARLY)


def test_pods_are_whole() -> None:
    """A node holds one pod of 1,500m, although two pods request no more CPU than one and a half nodes have."""
    batch = problem(replicas(4, "1500m", "1Gi"), pool("default", ON_DEMAND, types=catalog(bare("m5.large", 2, 8, 0.1))))
    assert bound(batch, solve(batch)).cost == pytest.approx(4 * 0.12, rel=NEARLY)


def test_each_zone_of_a_spread_needs_a_node() -> None:
    types = catalog(bare("m5.large", 2, 8, 0.1), bare("m5.2xlarge", 8, 32, 0.3))
    batch = problem(web(6, spread(labels.ZONE), cpu="1"), pool("default", ON_DEMAND, types=types))
    assert bound(batch, solve(batch)).cost == pytest.approx(3 * 0.12, rel=NEARLY)


def test_no_zone_has_more_pods_than_the_skew_allows() -> None:
    """Two pods are in two zones, although none has to be in a certain one."""
    types = catalog(bare("m5.large", 2, 8, 0.1))
    batch = problem(web(2, spread(labels.ZONE), cpu="1"), pool("default", ON_DEMAND, types=types))
    assert lower_bound_of_sizing(batch, solve(batch)) == pytest.approx(0.12)
    assert bound(batch, solve(batch)).cost == pytest.approx(2 * 0.12, rel=NEARLY)


def test_nodes_stay_within_the_limits() -> None:
    """The m5.4xlarge, which costs least for its room, is beyond the limit."""
    types = catalog(bare("m5.xlarge", 4, 16, 0.2), bare("m5.4xlarge", 16, 64, 0.4))
    batch = problem(replicas(8, "1", "1Gi"), pool("default", ON_DEMAND, types=types, limits={"cpu": "12"}))
    assert bound(batch, solve(batch)).cost == pytest.approx(2 * 0.22, rel=NEARLY)


def test_nodepools_of_higher_weight_hold_as_many_pods_as_in_the_plan() -> None:
    dear, cheap = catalog(bare("m5.large", 2, 8, 0.4)), catalog(bare("c5.large", 2, 8, 0.1))
    batch = problem(
        replicas(4, "1", "1Gi"),
        pool("heavy", ON_DEMAND, types=dear, weight=10, limits={"cpu": "2"}),
        pool("light", ON_DEMAND, types=cheap),
    )
    assert bound(batch, solve(batch)).cost == pytest.approx(0.42 + 0.12, rel=NEARLY)


def test_existing_nodes_are_refused() -> None:
    batch = problem(replicas(4), pool("default", ON_DEMAND), nodes=[node("n-1")])
    with pytest.raises(UnknownRulesError, match="existing nodes"):
        purchases_of(batch, solve(batch))


def test_the_digest_changes_with_the_pods_that_have_a_place() -> None:
    batch = problem(replicas(4), pool("default", ON_DEMAND))
    more = problem(replicas(5), pool("default", ON_DEMAND))
    digests = {purchases_of(load, solve(load))[0].digest for load in (batch, more)}
    assert len(digests) == 2
    assert purchases_of(batch, solve(batch))[0].digest in digests


@st.composite
def with_rules(draw: st.DrawFn) -> Problem:
    """Random problems without existing nodes, with pods that spread or keep each other away."""
    batch = draw(problems())
    rules = draw(
        st.sampled_from(
            [spread(labels.ZONE), spread(labels.ZONE, 2), spread(labels.HOSTNAME, 2), away(labels.HOSTNAME)]
        )
    )
    added = web(draw(st.integers(0, 9)), rules, cpu=draw(st.sampled_from(["250m", "2", "7"])))
    return replace(batch, pods=[*batch.pods, *added], nodes=())


@settings(max_examples=40, deadline=None)
@given(with_rules())
def test_no_plan_costs_less_than_the_bound(batch: Problem) -> None:
    plan = solve(batch)
    reached = bound(batch, plan)
    assert reached.cost <= sizing_cost(batch, plan) + 1e-9
    if "ended" not in reached.method:
        assert reached.cost >= lower_bound_of_sizing(batch, plan) * (1 - NEARLY)


ENTRIES = [bare("m5.large", 2, 8, 0.1), bare("m5.xlarge", 4, 16, 0.17), bare("r5.large", 2, 16, 0.13)]


def manifests(draw: Random) -> list[Any]:
    """A NodePool, with a limit or without, and up to three Deployments with five pods in all."""
    spec: dict[str, Any] = {
        "template": {
            "spec": {
                "requirements": [{"key": labels.CAPACITY_TYPE, "operator": "In", "values": [labels.ON_DEMAND]}],
                "nodeClassRef": {"group": "karpenter.k8s.aws", "kind": "EC2NodeClass", "name": "default"},
            }
        }
    }
    if draw.random() < 0.4:
        spec["limits"] = {"cpu": draw.choice(("6", "10", "16"))}
    documents = [{"apiVersion": "karpenter.sh/v1", "kind": "NodePool", "metadata": {"name": "default"}, "spec": spec}]
    for number, count in enumerate(draw.choice(((5,), (3, 2), (4, 1), (2, 2, 1), (3, 1, 1)))):
        entries = {"app": f"app-{number}"}
        requests = {"cpu": draw.choice(("500m", "900m", "1500m")), "memory": draw.choice(("1Gi", "3Gi", "9Gi"))}
        pod_spec: dict[str, Any] = {"containers": [{"name": "main", "resources": {"requests": requests}}]}
        if draw.random() < 0.4:
            pod_spec["topologySpreadConstraints"] = [
                {
                    "maxSkew": 1,
                    "topologyKey": labels.ZONE,
                    "whenUnsatisfiable": "DoNotSchedule",
                    "labelSelector": {"matchLabels": entries},
                }
            ]
        body = {"replicas": count, "selector": {"matchLabels": entries}}
        body["template"] = {"metadata": {"labels": entries}, "spec": pod_spec}
        documents.append(
            {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": f"app-{number}"}, "spec": body}
        )
    return documents


def divisions(pods: Sequence[Pod]) -> Iterator[list[list[Pod]]]:
    """Every way to divide pods among nodes."""
    if not pods:
        yield []
        return
    first, *others = pods
    for nodes in divisions(others):
        yield [[first], *nodes]
        for number in range(len(nodes)):
            yield [*nodes[:number], [first, *nodes[number]], *nodes[number + 1 :]]


def cheapest(batch: Problem, plan: Plan) -> Plan | None:
    """Return the cheapest plan for the plan's pods that the oracle accepts, of all divisions and zones."""
    pods = [pod for pod in batch.pods if pod.key not in plan.unschedulable]
    claims: dict[tuple[tuple[str, ...], str], tuple[PlannedClaim, ...] | None] = {}
    limit = (batch.pools[0].limits or {}).get("cpu", 1_000_000)

    def claims_of(on_node: Sequence[Pod], zone: str) -> tuple[PlannedClaim, ...] | None:
        key = (tuple(pod.key for pod in on_node), zone)
        if key not in claims:
            claims[key] = claims_of_node(batch, ChosenNode(tuple(on_node), zone))
        return claims[key]

    candidates = []
    for division in divisions(pods):
        for zones in product(ZONES, repeat=len(division)):
            bought = [claims_of(on_node, zone) for on_node, zone in zip(division, zones, strict=True)]
            nodes = tuple(claim for own in bought for claim in own or ())
            if all(bought) and sum(claim.largest["cpu"] for claim in nodes) <= limit and is_even(division, zones):
                candidates.append(Plan(nodes, {}, plan.unschedulable))
    candidates.sort(key=lambda candidate: sizing_cost(batch, candidate))
    return next((candidate for candidate in candidates if not judged(batch, candidate)), None)


def is_even(division: Sequence[Sequence[Pod]], zones: Sequence[str]) -> bool:
    """Whether the pods of each app that spreads are in all zones, give or take one."""
    counts: dict[str, Counter[str]] = {}
    for on_node, zone in zip(division, zones, strict=True):
        for pod in on_node:
            if pod.rules.spreads:
                counts.setdefault(pod.labels["app"], Counter(dict.fromkeys(ZONES, 0)))[zone] += 1
    return all(max(count.values()) - min(count.values()) <= 1 for count in counts.values())


DRAWN: dict[int, tuple[list[Any], Problem]] = {}


def judged(batch: Problem, plan: Plan) -> bool:
    """Whether the oracle finds anything wrong with a plan."""
    documents, _ = DRAWN[id(batch)]
    document = plan_document(plan, problem=batch, solve_seconds=0.0, lower_bounds=LowerBounds())
    case = Case(0, documents, {"instanceTypes": ENTRIES})
    return any(True for _ in judge(documents, catalogue_of(case), json.loads(json.dumps(document))))


@pytest.mark.parametrize("number", range(12))
def test_the_bound_is_the_cost_of_the_best_plan_that_the_oracle_accepts(number: int) -> None:
    documents = manifests(Random(f"few pods {number}"))
    batch = problem_for(documents, parse_catalog({"instanceTypes": ENTRIES}))
    DRAWN[id(batch)] = documents, batch
    plan = solve(batch)
    best = cheapest(batch, plan)
    assert best is not None
    least = min(sizing_cost(batch, best), sizing_cost(batch, plan))
    assert bound(batch, plan).cost <= least + 1e-9
    assert bound(batch, plan).cost == pytest.approx(least, rel=NEARLY)


def test_pods_on_the_nodes_of_the_bound_are_a_plan() -> None:
    types = catalog(bare("m5.large", 2, 8, 0.1), bare("m5.2xlarge", 8, 32, 0.3))
    batch = problem(web(7, spread(labels.ZONE), cpu="1"), pool("default", ON_DEMAND, types=types))
    plan = solve(batch)
    purchases, members = purchases_of(batch, plan)
    reached = whole_node_bound(purchases, sizing_cost(batch, plan), SECONDS)
    assert reached.nodes is not None
    other = plan_on_nodes(batch, plan, purchases, members, reached.nodes, SECONDS)
    assert other is not None
    assert sizing_cost(batch, other) == pytest.approx(reached.cost, rel=NEARLY)
    assert sorted(pod.key for claim in other.claims for pod in claim.pods) == sorted(pod.key for pod in batch.pods)
