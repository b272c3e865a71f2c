"""Whether rules over domains let in all pods of a plan that was made in several steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tenon.apis import labels
from tenon.kube.pod import Pod
from tenon.scheduling.admission import admits, depends_on_domains
from tenon.scheduling.model import Node
from tests.tenon.scheduling.between_pods import DB, WEB, away, near, spread, web
from tests.tenon.scheduling.builders import ON_DEMAND, ZONES, need, node, pod, pool, problem, replicas

A, B, C = ZONES


def in_zones(counts: Mapping[str, int], **more: str) -> list[Node]:
    """A node in each of these zones with so many running pods of app web."""
    return [
        node(zone, labels={labels.ZONE: zone, **more}, pods=replicas(count, prefix=f"running-{zone}", labels=WEB))
        for zone, count in counts.items()
    ]


def admitted(nodes: Sequence[Node], placements: Mapping[str, Sequence[Pod]]) -> bool:
    return admits(problem([], pool("default", ON_DEMAND), nodes=nodes), placements)


@pytest.mark.parametrize(("running", "expected"), [({A: 5, B: 3, C: 4}, True), ({A: 5, B: 3, C: 1}, False)])
def test_sch053_a_pod_is_let_in_only_where_the_skew_allows_it(running: dict[str, int], expected: bool) -> None:
    assert admitted(in_zones(running), {B: web(1, spread())}) is expected


def test_sch051_a_zone_counts_that_has_no_node_if_its_nodes_would_hold_a_pod() -> None:
    nodes = in_zones({A: 1, B: 1})
    arriving = {B: web(1, spread())}
    assert not admitted(nodes, arriving)
    only_there = pool("default", ON_DEMAND, need(labels.ZONE, "In", A, B))
    assert admits(problem([], only_there, nodes=nodes), arriving)


def test_sch053_pods_that_a_spread_counts_may_come_before_or_after_those_that_have_it() -> None:
    others = replicas(4, prefix="other", labels=WEB)
    pods = web(1, spread())
    assert admitted(in_zones({A: 3, B: 3, C: 2}), {B: pods, C: others})
    assert admitted(in_zones({A: 3, B: 3, C: 3}), {B: [*pods, *others]})
    assert not admitted(in_zones({A: 5, B: 3, C: 1}), {A: others, B: pods})


def test_sch053_pods_with_a_spread_let_in_each_other() -> None:
    pods = web(6, spread())
    assert admitted(in_zones({A: 0, B: 0, C: 0}), {A: pods[:2], B: pods[2:4], C: pods[4:]})
    assert not admitted(in_zones({A: 0, B: 0, C: 0}), {A: pods[:3], B: pods[3:5], C: pods[5:]})


def test_sch056_a_spread_that_is_a_preference_keeps_no_pod_out() -> None:
    pods = web(1, spread(hard=False))
    assert admitted(in_zones({A: 5, B: 3, C: 1}), {A: pods})
    assert not depends_on_domains(pods[0])


def test_sch063_a_pod_needs_the_pods_of_its_affinity_in_its_zone() -> None:
    pods = [pod("db", labels=DB, rules=near(app="web"))]
    nodes = in_zones({A: 1, B: 0})
    assert admitted(nodes, {A: pods})
    assert not admitted(nodes, {B: pods})
    assert admitted(nodes, {B: [*pods, *replicas(1, labels=WEB)]})


def test_only_hard_rules_over_more_than_a_node_depend_on_domains() -> None:
    assert depends_on_domains(web(1, spread())[0])
    assert depends_on_domains(web(1, near())[0])
    for rules in (spread(labels.HOSTNAME), near(labels.HOSTNAME), away()):
        assert not depends_on_domains(web(1, rules)[0])
