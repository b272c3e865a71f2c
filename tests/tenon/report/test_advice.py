"""Advice, rule by rule: the sentence, the figures, and when there is nothing to say."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis import labels
from tenon.kube.timestamps import format_instant
from tenon.money import sum_text
from tenon.report.advice.base import Advice, Question
from tenon.report.advice.rules import RULES, advice_on
from tenon.report.live import LiveCluster
from tenon.report.obstacles import Judge
from tests.tenon.report.clusters import NOW, PRICES, Cluster

HOUR = timedelta(hours=1)
PINNED = {labels.DO_NOT_DISRUPT: "true"}
OFF = {"consolidationPolicy": "WhenEmpty"}
NEVER = {"consolidateAfter": "Never"}


def advice(cluster: Cluster, rule: str = "") -> list[Advice]:
    """Return the advice of a rule, or of all."""
    return [item for item in advice_on(Question(cluster.live())) if not rule or item.rule == rule]


def the_only(cluster: Cluster, rule: str) -> Advice:
    (item,) = advice(cluster)
    assert item.rule == rule
    return item


def test_a_cluster_in_order_gets_no_advice() -> None:
    cluster = Cluster()
    for _ in range(3):
        cluster.pods("shop/api", 6, cluster.node("web"))
    assert advice(cluster) == []
    assert advice(Cluster()) == []


# Pods that may not be evicted


def test_annotated_pods_pin_nodes_with_their_cost_and_use() -> None:
    cluster = Cluster()
    for count in (5, 5, 4):
        cluster.pods("shop/cache", count, cluster.node("web"), "200m", "1Gi", annotations=PINNED)
    cluster.pods("shop/api", 1, cluster.node("web"))
    item = the_only(cluster, "pinned-by-annotation")
    cost = 3 * 24 * 0.192
    assert item.sentence == (
        "14 pods with karpenter.sh/do-not-disrupt pin 3 nodes ($13.82 a day); "
        "the nodes use 24% of CPU and 33% of memory"
    )
    assert item.dollars_a_day == pytest.approx(cost)
    assert item.nodes == ["ip-10-0-0-1", "ip-10-0-0-2", "ip-10-0-0-3"]
    assert len(item.pods) == 14
    assert item.figures == {"pods": 14, "nodes": 3, "cpuShare": 0.2381, "memoryShare": 0.3333}


def test_the_old_name_of_the_annotation_is_named_as_it_is_written() -> None:
    cluster = Cluster()
    cluster.pods("shop/cache", 1, cluster.node("web"), annotations={labels.DO_NOT_EVICT: "true"})
    assert the_only(cluster, "pinned-by-annotation").sentence.startswith(
        "1 pod with karpenter.sh/do-not-evict pins 1 node"
    )


def test_a_budget_without_evictions_keeps_nodes() -> None:
    cluster = Cluster()
    cluster.budget("shop/api")
    for _ in range(2):
        cluster.pods("shop/api", 1, cluster.node("web"))
    item = the_only(cluster, "pinned-by-budget")
    assert item.sentence.startswith(
        "PodDisruptionBudget shop/api allows no eviction: consolidation may not empty 2 nodes ($9.22 a day); they use "
    )
    assert item.action.startswith("Let PodDisruptionBudget shop/api allow an eviction")
    assert item.pods == ["shop/api-1", "shop/api-2"]


def test_two_budgets_for_one_pod_are_both_named() -> None:
    cluster = Cluster()
    cluster.pods("shop/api", 1, cluster.node("web"))
    cluster.budget("shop/api", allowed=1)
    cluster.budgets.append(replace(cluster.budgets[0], name="shop/other"))
    item = the_only(cluster, "pinned-by-budget")
    assert item.sentence.startswith(
        "shop/api-1 may not be evicted: PodDisruptionBudgets shop/api, shop/other all select it: consolidation"
    )


def test_annotations_and_budgets_on_one_node_are_advised_together() -> None:
    cluster = Cluster()
    node = cluster.node("web")
    cluster.pods("shop/cache", 2, node, annotations=PINNED)
    cluster.pods("shop/api", 1, node)
    cluster.budget("shop/api")
    item = the_only(cluster, "pinned-by-annotation-and-budget")
    assert item.sentence.startswith(
        "2 pods with karpenter.sh/do-not-disrupt pin 1 node ($4.61 a day), together with PodDisruptionBudget shop/api;"
    )
    assert len(item.pods) == 3


@pytest.mark.parametrize(
    "spec",
    [
        {"disruption": OFF},
        {"disruption": NEVER},
        {"replicas": 1},
    ],
)
def test_pods_are_not_blamed_where_the_node_pool_keeps_nodes_anyway(spec: dict[str, Any]) -> None:
    cluster = Cluster()
    cluster.pool("web", **spec)
    cluster.pods("shop/cache", 6, cluster.node("web"), annotations=PINNED)
    assert advice(cluster) == []


def test_a_pod_that_is_protected_for_a_time_is_no_advice() -> None:
    cluster = Cluster()
    cluster.pods("shop/cache", 1, cluster.node("web"), annotations={labels.DO_NOT_DISRUPT: "4h"})
    assert advice(cluster) == []


def test_nothing_is_said_of_a_node_that_leaves_or_is_about_to() -> None:
    cluster = Cluster()
    command = {"annotations": {labels.DISRUPTED_BY: "underutilized-1"}}
    cluster.pods("shop/cache", 1, cluster.node("web", meta=command), annotations=PINNED)
    cluster.pods("shop/cache", 1, cluster.node("web", stages=2), annotations=PINNED)
    assert advice(cluster) == []


def test_a_drain_waits_for_a_budget() -> None:
    cluster = Cluster()
    leaving = {"deletionTimestamp": format_instant(NOW - HOUR), "finalizers": [labels.TERMINATION_FINALIZER]}
    taints = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
    cluster.budget("shop/api")
    for _ in range(2):
        cluster.pods("shop/api", 1, cluster.node("web", meta=leaving, taints=taints))
    item = the_only(cluster, "drain-waits-for-budget")
    assert item.sentence == (
        "PodDisruptionBudget shop/api allows no eviction: 2 nodes ($9.22 a day) wait for it to drain"
    )
    assert "tenon node force-drain" in item.action


def test_a_drain_waits_for_annotated_pods() -> None:
    cluster = Cluster()
    leaving = {"deletionTimestamp": format_instant(NOW - HOUR), "finalizers": [labels.TERMINATION_FINALIZER]}
    taints = [{"key": "karpenter.sh/disrupted", "effect": "NoSchedule"}]
    node = cluster.node("web", meta=leaving, taints=taints)
    cluster.pods("shop/cache", 2, node, annotations=PINNED)
    item = the_only(cluster, "drain-waits-for-annotation")
    assert item.sentence == "1 node ($4.61 a day) waits to drain for 2 pods with karpenter.sh/do-not-disrupt"
    cluster.budget("shop/cache")
    item = the_only(cluster, "drain-waits-for-annotation")
    assert item.sentence.endswith("karpenter.sh/do-not-disrupt and for PodDisruptionBudget shop/cache")


# Nodes that are protected, hardly used, or not ready


def test_a_protected_node_is_named_with_its_annotation() -> None:
    cluster = Cluster()
    cluster.pods("shop/api", 2, cluster.node("web", node_annotations=PINNED))
    item = the_only(cluster, "protected-node")
    assert item.sentence == (
        '1 node ($4.61 a day) stays because of the "karpenter.sh/do-not-disrupt" annotation of its Node; '
        "it uses 26% of CPU and 14% of memory"
    )


def test_a_node_that_an_operator_keeps_for_a_time_is_no_advice() -> None:
    cluster = Cluster()
    kept_meta = {"annotations": {labels.KEEP_UNTIL: format_instant(NOW + HOUR)}}
    cluster.pods("shop/api", 1, cluster.node("web", meta=kept_meta))
    assert advice(cluster) == []


def test_hardly_used_nodes_of_a_pool_without_consolidation() -> None:
    cluster = Cluster()
    cluster.pool("gpu", disruption=OFF)
    for _ in range(3):
        cluster.pods("ml/notebook", 1, cluster.node("gpu", "g5.xlarge", devices={"nvidia.com/gpu": "1"}), "300m")
    busy = cluster.node("gpu", "g5.xlarge")
    cluster.pods("ml/train", 3, busy, "1")
    item = the_only(cluster, "consolidation-is-off")
    assert item.sentence == (
        "NodePool gpu has 3 nodes ($72.43 a day) with less than 20% of CPU and memory requested "
        "(together 8% of CPU and 7% of memory), and consolidation is off (consolidationPolicy WhenEmpty)"
    )
    assert item.dollars_a_day == pytest.approx(3 * 24 * PRICES.on_demand["g5.xlarge"])
    assert busy not in item.nodes


def test_a_gpu_in_use_is_no_waste_although_its_cpu_is_idle() -> None:
    cluster = Cluster()
    cluster.pool("gpu", disruption=OFF)
    node = cluster.node("gpu", "g5.xlarge", devices={"nvidia.com/gpu": "1"})
    cluster.pods("ml/train", 1, node, "100m", "1Gi", devices={"nvidia.com/gpu": "1"})
    assert advice(cluster) == []


@pytest.mark.parametrize(
    ("spec", "is_pinned"),
    [
        ({"disruption": {"consolidationPolicy": "WhenEmptyOrUnderutilized"}}, False),
        ({"replicas": 1}, False),
        ({"disruption": OFF}, True),
    ],
)
def test_consolidation_is_not_recommended_where_it_would_move_nothing(spec: dict[str, Any], is_pinned: bool) -> None:
    cluster = Cluster()
    cluster.pool("web", **spec)
    cluster.pods("shop/api", 1, cluster.node("web"), "100m", annotations=PINNED if is_pinned else None)
    assert advice(cluster) == []


def test_budgets_that_never_allow_anything() -> None:
    cluster = Cluster()
    cluster.pool("web", disruption={"budgets": [{"nodes": "0"}]})
    cluster.pool("night", disruption={"budgets": [{"nodes": "0", "schedule": "0 9 * * *", "duration": "8h"}]})
    for pool in ("web", "night"):
        cluster.pods("shop/api", 2, cluster.node(pool))
    item = the_only(cluster, "budget-allows-nothing")
    assert item.sentence == (
        "The budgets of NodePool web allow no consolidation at any time: 1 node ($4.61 a day) stays whatever it costs"
    )


def test_nodes_that_are_not_ready_for_some_time() -> None:
    cluster = Cluster()
    cluster.pods("shop/api", 2, cluster.node("web", is_ready=False, not_ready_for=2 * HOUR))
    cluster.node("web", is_ready=False, not_ready_for=timedelta(minutes=5))
    (item,) = advice(cluster, "not-ready")
    assert item.sentence == "1 node ($4.61 a day) has not been ready for 2h or more, with 2 pods"


@pytest.mark.parametrize("state", ["filling", "stopped", "starting"])
@pytest.mark.parametrize("spec", [{}, {"disruption": NEVER}, {"disruption": {"budgets": [{"nodes": "0"}]}}])
def test_a_warm_node_is_no_advice(state: str, spec: dict[str, Any]) -> None:
    cluster = Cluster()
    cluster.pool("web", **spec)
    warm = {"annotations": {labels.WARM: state}}
    cluster.node("web", meta=warm, is_ready=state == "filling", not_ready_for=2 * HOUR)
    assert advice(cluster) == []


# Expiries and requests


def test_nodes_that_expire_within_the_same_hour() -> None:
    cluster = Cluster()
    for minutes in (0, 10, 20, 30, 59):
        age = 100 * HOUR - timedelta(minutes=minutes)
        cluster.pods("shop/api", 6, cluster.node("web", age=age, expireAfter="168h"))
    cluster.pods("shop/api", 6, cluster.node("web", age=90 * HOUR, expireAfter="168h"))
    item = the_only(cluster, "expire-together")
    assert item.sentence == (
        "5 nodes ($23.04 a day) of NodePool web expire within the same hour, from 2026-03-12 08:00:00 UTC, "
        "and expiration asks no disruption budget"
    )


@pytest.mark.parametrize("annotated", [True, False])
def test_four_nodes_or_nodes_within_budgets_are_no_burst(annotated: bool) -> None:
    cluster = Cluster()
    cluster.pool("web", annotations={labels.EXPIRE_WITHIN_BUDGETS: "true"} if annotated else {})
    for _ in range(9 if annotated else 4):
        cluster.pods("shop/api", 6, cluster.node("web", age=100 * HOUR, expireAfter="168h"))
    assert advice(cluster) == []


def test_pods_without_requests_are_counted_by_namespace() -> None:
    cluster = Cluster()
    node = cluster.node("web")
    cluster.pods("shop/api", 5, node, "700m")
    cluster.pods("shop/tool", 2, node, "", "")
    cluster.pods("test/tool", 3, node, "", "")
    cluster.pods("kube-system/agent", 1, node, "", "", kind="DaemonSet")
    item = the_only(cluster, "pods-without-requests")
    assert item.sentence == "5 pods request neither CPU nor memory, so plans take them for nothing: test (3), shop (2)"
    assert item.dollars_a_day is None


def test_the_most_expensive_advice_comes_first() -> None:
    cluster = Cluster()
    cluster.pods("shop/cache", 1, cluster.node("web"), annotations=PINNED)
    cluster.pods("shop/tool", 1, cluster.node("web", "m5.2xlarge", node_annotations=PINNED), "", "")
    assert [item.rule for item in advice(cluster)] == [
        "protected-node",
        "pinned-by-annotation",
        "pods-without-requests",
    ]


def test_a_node_pool_that_cannot_be_read_gets_no_advice() -> None:
    cluster = Cluster()
    cluster.pool("web", disruption={"consolidationPolicy": "Sometimes"})
    cluster.pods("shop/cache", 1, cluster.node("web"), annotations=PINNED)
    assert advice(cluster) == []


def test_rules_have_names_of_their_own() -> None:
    assert len({rule.__name__ for rule in RULES}) == len(RULES)
    assert [sum_text(amount) for amount in (0.4, 41.234, 1234.5)] == ["$0.40", "$41.23", "$1,234"]


# Advice and the table of blockers


@dataclass(frozen=True)
class NodeSpec:
    """A node of a random cluster."""

    pool: str
    annotation: str
    has_budget: bool
    is_protected: bool
    is_leaving: bool
    in_command: bool
    cpu: str


NODE_SPECS = st.builds(
    NodeSpec,
    pool=st.sampled_from(["on", "empty-only", "never", "static"]),
    annotation=st.sampled_from(["", "", "true", "4h", "odd"]),
    has_budget=st.booleans(),
    is_protected=st.booleans(),
    is_leaving=st.sampled_from([False, False, True]),
    in_command=st.sampled_from([False, False, True]),
    cpu=st.sampled_from(["", "100m", "2"]),
)


def random_cluster(
    specs: Sequence[NodeSpec],
    *,
    keep_annotations: bool = True,
    keep_budgets: bool = True,
    keep_protection: bool = True,
    consolidates: bool = False,
) -> LiveCluster:
    """Return a cluster of these nodes, or what remains of it once an advice is followed."""
    cluster = Cluster()
    cluster.pool("on")
    cluster.pool("empty-only", disruption={} if consolidates else OFF)
    cluster.pool("never", disruption={} if consolidates else NEVER)
    cluster.pool("static", replicas=3)
    for number, spec in enumerate(specs):
        meta: dict[str, object] = {}
        if spec.is_leaving:
            meta = {"deletionTimestamp": format_instant(NOW - HOUR), "finalizers": [labels.TERMINATION_FINALIZER]}
        elif spec.in_command:
            meta = {"annotations": {labels.DISRUPTED_BY: "c-1"}}
        protection = PINNED if spec.is_protected and keep_protection else {}
        node = cluster.node(spec.pool, meta=meta, node_annotations=protection)
        if spec.cpu:
            annotations = {labels.DO_NOT_DISRUPT: spec.annotation} if spec.annotation and keep_annotations else {}
            cluster.pods(f"ns{number}/app", 1, node, spec.cpu, annotations=annotations)
            if spec.has_budget:
                cluster.budget(f"ns{number}/app", allowed=0 if keep_budgets else 1)
    return cluster.live()


FOLLOWED: dict[str, Callable[[Sequence[NodeSpec]], LiveCluster]] = {
    "pinned-by-annotation": lambda specs: random_cluster(specs, keep_annotations=False),
    "pinned-by-budget": lambda specs: random_cluster(specs, keep_budgets=False),
    "pinned-by-annotation-and-budget": lambda specs: random_cluster(specs, keep_annotations=False, keep_budgets=False),
    "protected-node": lambda specs: random_cluster(specs, keep_protection=False),
    "consolidation-is-off": lambda specs: random_cluster(specs, consolidates=True),
}
"""By rule, the cluster once its advice is followed."""


def kept_names(cluster: LiveCluster) -> Iterator[str]:
    """Yield the nodes that something lasting keeps, by the table of blockers."""
    for obstacles in Judge(cluster).all():
        if obstacles.names:
            yield obstacles.live.name


@given(st.lists(NODE_SPECS, max_size=8))
def test_what_is_advised_frees_the_nodes_by_the_table_of_blockers(specs: list[NodeSpec]) -> None:
    cluster = random_cluster(specs)
    kept_nodes = set(kept_names(cluster))
    for item in advice_on(Question(cluster)):
        if item.rule in FOLLOWED:
            assert set(item.nodes) <= kept_nodes, f"{item.rule}: nothing keeps these nodes"
            assert not set(item.nodes) & set(kept_names(FOLLOWED[item.rule](specs))), item.sentence
