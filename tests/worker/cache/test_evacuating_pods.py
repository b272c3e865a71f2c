"""Pods of nodes that are on their way out: who must move, and where a plan has put them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tenon.kube.timestamps import clock_instant, format_instant
from tests.worker.cache.objects import budget, claim, node, owned_by, running, waiting
from worker.cache.capacity import scheduling_nodes
from worker.cache.cluster import ClusterCache
from worker.cache.planned_places import planned_places
from worker.cache.planning_view import PlanningView
from worker.cache.state import ClusterState

NOW = 1_800_000_000.0
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
WEB = {"labels": {"app": "web"}}
PLANNED = {"annotations": {"tenon.sh/planned-pods": "ns/web=uid-web"}}


def state(**tables: list[Any]) -> ClusterState:
    cluster_state = ClusterState(clock=lambda: NOW)
    for name, records in tables.items():
        table = cluster_state.moving.pdbs if name == "pdbs" else getattr(cluster_state, name)
        for record in records:
            table.on_event(record.key, record)
    return cluster_state


def moving(cluster_state: ClusterState) -> list[str]:
    return [pod.pod.name for pod in cluster_state.moving_pods()]


@pytest.mark.parametrize(
    ("nodes", "claims"),
    [
        ([node(meta=LEAVING)], []),
        ([node()], [claim(meta=LEAVING)]),
    ],
)
def test_pods_of_a_node_on_its_way_out_must_move_sch_005(nodes: list[Any], claims: list[Any]) -> None:
    cluster_state = state(nodes=[*nodes, node("stays")], claims=claims, pods=[running("a", "n"), running("b", "stays")])
    assert moving(cluster_state) == ["a"]


def test_a_node_that_is_kept_after_all_keeps_its_pods_sch_005() -> None:
    cluster_state = state(nodes=[node()], pods=[running("a", "n")])
    assert moving(cluster_state) == []
    cluster_state.nodes.on_event("n", node(meta=LEAVING))
    assert moving(cluster_state) == ["a"]
    cluster_state.nodes.on_event("n", node())
    assert moving(cluster_state) == []


@pytest.mark.parametrize(
    "pod",
    [
        running("p", "n", meta=owned_by("DaemonSet")),
        running("p", "n", meta={"annotations": {"kubernetes.io/config.mirror": "x"}}),
        running("p", "n", status={"phase": "Succeeded"}),
        running("p", "n", meta={**LEAVING, **owned_by("ReplicaSet")}),
        running("p", "n", meta={"annotations": {"karpenter.sh/do-not-disrupt": "true"}}),
        running("p", "n", meta={"annotations": {"karpenter.sh/do-not-evict": "true"}}),
    ],
    ids=["daemon", "mirror", "ended", "ending", "do-not-disrupt", "do-not-evict"],
)
def test_pods_that_belong_to_their_node_or_may_not_move_stay_sch_005(pod: Any) -> None:
    assert moving(state(nodes=[node(meta=LEAVING)], pods=[pod])) == []


@pytest.mark.parametrize(
    ("value", "started_ago", "moves"),
    [
        ("12h", timedelta(minutes=1), False),
        ("12h", None, False),
        ("12h", timedelta(hours=12), True),
        ("soon", timedelta(minutes=1), True),
    ],
    ids=["protected", "not-started", "over", "invalid"],
)
def test_a_pod_that_is_protected_for_a_time_stays_until_it_is_over_sch_005(
    value: str, started_ago: timedelta | None, *, moves: bool
) -> None:
    """Its next node would stand empty for that time."""
    started = format_instant(clock_instant(NOW) - started_ago) if started_ago is not None else None
    meta = {"annotations": {"karpenter.sh/do-not-disrupt": value}}
    pod = running("p", "n", meta=meta, status={"startTime": started})
    assert moving(state(nodes=[node(meta=LEAVING)], pods=[pod])) == (["p"] if moves else [])


@pytest.mark.parametrize("value", ["", "true", "12h"])
def test_an_ending_pod_of_a_stateful_set_is_made_again_sch_005(value: str) -> None:
    """An annotation protects it no longer."""
    annotations = {"annotations": {"karpenter.sh/do-not-disrupt": value}} if value else {}
    pod = running("db-0", "n", meta={**LEAVING, **owned_by("StatefulSet"), **annotations})
    assert moving(state(nodes=[node(meta=LEAVING)], pods=[pod])) == ["db-0"]


@pytest.mark.parametrize(
    ("value", "stays"),
    [
        (budget(maxUnavailable=0), True),
        (budget(maxUnavailable="0%"), True),
        (budget(minAvailable="100%"), True),
        (budget(maxUnavailable=1), False),
        (budget(minAvailable=2), False),
        (budget(maxUnavailable=0, app="other"), False),
        (budget(maxUnavailable=0, app=None), False),
        (budget(maxUnavailable=0, app=None, selector={}), True),
        (budget(maxUnavailable=0, meta={"namespace": "elsewhere"}), False),
    ],
)
def test_only_a_budget_that_never_lets_a_pod_go_keeps_it_sch_005(value: Any, stays: bool) -> None:
    cluster_state = state(nodes=[node(meta=LEAVING)], pods=[running("web", "n", meta=WEB)], pdbs=[value])
    assert moving(cluster_state) == ([] if stays else ["web"])
    cluster_state.moving.pdbs.on_event(value.key, None)
    assert moving(cluster_state) == ["web"]


def test_pods_of_several_budgets_never_go_and_those_that_no_budget_protects_do_sch_005() -> None:
    """The eviction API refuses the first, and evicts the others."""
    never = budget(maxUnavailable=0)
    pods = [
        running("web", "n", meta=WEB),
        running("starting", "n", meta=WEB, status={"phase": "Pending"}),
        running("db-0", "n", meta={**LEAVING, **owned_by("StatefulSet"), **WEB}),
    ]
    cluster_state = state(nodes=[node(meta=LEAVING)], pods=pods, pdbs=[never])
    assert moving(cluster_state) == ["db-0", "starting"]
    cluster_state.moving.pdbs.on_event(never.key, budget(maxUnavailable=0, unhealthyPodEvictionPolicy="AlwaysAllow"))
    assert moving(cluster_state) == ["db-0", "starting", "web"], "it is not ready"
    for item in (budget("one", maxUnavailable=1), budget("two", maxUnavailable=1)):
        cluster_state.moving.pdbs.on_event(item.key, item)
    assert moving(cluster_state) == ["db-0", "starting"]


def test_dis39_what_lets_pods_be_evicted_is_counted() -> None:
    """Passes for moves that found nothing rest until then."""
    cluster_state = state(pdbs=[budget(maxUnavailable=1, disruptions_allowed=0)])
    view = PlanningView(cluster_state)  # type: ignore[arg-type]

    def counted(table: Any, key: str, record: Any) -> int:
        before = view.evictions_allowed()
        table.on_event(key, record)
        return view.evictions_allowed() - before

    pdbs = [budget(maxUnavailable=2, disruptions_allowed=allowed) for allowed in (0, 1, 2, 0)]
    assert [counted(cluster_state.moving.pdbs, pdb.key, pdb) for pdb in pdbs] == [0, 1, 0, 0]
    assert counted(cluster_state.moving.pdbs, pdbs[0].key, None) == 1

    hold, free, ended = (
        running("p", "n", meta={"resourceVersion": str(number), "annotations": annotations}, status={"phase": phase})
        for number, (annotations, phase) in enumerate(
            [({"karpenter.sh/do-not-disrupt": "true"}, "Running"), ({}, "Running"), ({}, "Succeeded")]
        )
    )
    pods = [hold, free, hold, ended, None, free, None, hold, None]
    assert [counted(cluster_state.pods, hold.key, pod) for pod in pods] == [0] * len(pods), (
        "they concern only their node"
    )
    cluster_state = state(claims=[claim("c", node_name="n"), claim("d", node_name="m")], nodes=[node(), node("m")])
    view = PlanningView(cluster_state)  # type: ignore[arg-type]
    observations = []
    for pod in pods:
        cluster_state.pods.on_event(hold.key, pod)
        observations.append(view.pods_released().get("c", 0))
    assert observations == [0, 1, 1, 2, 2, 2, 2, 2, 3]
    assert "d" not in view.pods_released()
    cluster_state.nodes.on_event("n", None)
    assert not cluster_state.pods_released


def test_dis39_what_the_pods_of_each_node_request_is_known_by_nodeclaim() -> None:
    pods = [running("a", "n", cpu="1"), running("b", "n", cpu="500m")]
    cluster_state = state(claims=[claim("c", node_name="n"), claim("d", node_name="")], nodes=[node()], pods=pods)
    view = PlanningView(cluster_state)  # type: ignore[arg-type]
    assert view.requests_on_nodes() == {"c": {"cpu": 1500, "pods": 2}}


def test_a_claim_answers_for_a_pod_until_its_old_node_lets_it_go_sch_005() -> None:
    """A drain may be held up for hours; the new node must neither be bought again nor count as empty."""
    new = claim(
        "new",
        node_name="m",
        meta={**PLANNED, "labels": {"karpenter.sh/nodepool": "pool"}},
        initialized="2026-01-01T00:00:00Z",
    )
    cluster_state = state(nodes=[node(meta=LEAVING), node("m")], claims=[new], pods=[running("web", "n")])
    assert planned_places(cluster_state, NOW) == {"uid-web": "new"}
    pods = {node.name: [pod.name for pod in node.pods] for node in scheduling_nodes(cluster_state, NOW)}
    assert pods == {"m": ["web"]}, "it counts where it will be, and nowhere else"
    cluster_state.nodes.on_event("n", node())
    assert planned_places(cluster_state, NOW) == {}, "it stays after all"


def test_a_leaving_claim_covers_no_pods_sch_005() -> None:
    """Its own pods, which it was bought for once, must move too."""
    old = claim(meta={**PLANNED, "labels": {"karpenter.sh/nodepool": "pool"}})
    cluster_state = state(nodes=[node(meta=LEAVING)], claims=[old], pods=[running("web", "n")])
    assert planned_places(cluster_state, NOW) == {}
    assert moving(cluster_state) == ["web"]


def test_the_successor_of_an_evicted_pod_finds_its_room_sch_005() -> None:
    """The claim is not launched yet: a second one for the successor would be one too many."""
    annotations = {**PLANNED["annotations"], "tenon.sh/planned-requests": '{"cpu":"1","pods":"1"}'}
    new = claim("new", node_name="", meta={"annotations": annotations})
    cluster_state = state(nodes=[node(meta=LEAVING)], claims=[new], pods=[running("web", "n")])
    assert {node.name: node.used for node in scheduling_nodes(cluster_state, NOW)} == {"new": {"cpu": 1000, "pods": 1}}
    evicted = running("web", "n", meta={**LEAVING, **owned_by("ReplicaSet")})
    cluster_state.pods.on_event(evicted.key, evicted)
    (scheduling_node,) = scheduling_nodes(cluster_state, NOW)
    assert (scheduling_node.name, scheduling_node.used, scheduling_node.allocatable, scheduling_node.closed) == (
        "new",
        {},
        {"cpu": 1000, "pods": 1},
        False,
    )


def test_pods_that_must_move_are_planned_with_those_that_wait_sch_005() -> None:
    cache = ClusterCache(None, clock=lambda: NOW)  # type: ignore[arg-type]
    leaving = node(meta=LEAVING)
    cache.nodes.on_event(leaving.key, leaving)
    for record in (running("web", "n"), waiting("new")):
        cache.pods.on_event(record.key, record)
    assert [(pod.name, pod.node_name) for pod in cache.pending_pods()] == [("new", ""), ("web", "n")]
