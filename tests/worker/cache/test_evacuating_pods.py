"""Pods of nodes that are on their way out: who must move, and where a plan has put them."""

from __future__ import annotations

from typing import Any

import pytest

from tests.worker.cache.objects import budget, claim, node, owned_by, running, waiting
from worker.cache.capacity import scheduling_nodes
from worker.cache.cluster import ClusterCache
from worker.cache.planning_view import PlanningView
from worker.cache.state import ClusterState

NOW = 1_800_000_000.0
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
WEB = {"labels": {"app": "web"}}
PLANNED = {"annotations": {"tenon.sh/planned-pods": "ns/web=uid-web"}}


def state(**tables: list[Any]) -> ClusterState:
    found = ClusterState(clock=lambda: NOW)
    for name, records in tables.items():
        table = found.moving.pdbs if name == "pdbs" else getattr(found, name)
        for record in records:
            table.on_event(record.key, record)
    return found


def moving(found: ClusterState) -> list[str]:
    return [pod.pod.name for pod in found.moving_pods()]


@pytest.mark.parametrize(
    ("nodes", "claims"),
    [
        ([node(meta=LEAVING)], []),
        ([node()], [claim(meta=LEAVING)]),
    ],
)
def test_pods_of_a_node_on_its_way_out_must_move_sch_005(nodes: list[Any], claims: list[Any]) -> None:
    found = state(nodes=[*nodes, node("stays")], claims=claims, pods=[running("a", "n"), running("b", "stays")])
    assert moving(found) == ["a"]


def test_a_node_that_is_kept_after_all_keeps_its_pods_sch_005() -> None:
    found = state(nodes=[node()], pods=[running("a", "n")])
    assert moving(found) == []
    found.nodes.on_event("n", node(meta=LEAVING))
    assert moving(found) == ["a"]
    found.nodes.on_event("n", node())
    assert moving(found) == []


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


def test_an_ending_pod_of_a_stateful_set_is_made_again_sch_005() -> None:
    pod = running("db-0", "n", meta={**LEAVING, **owned_by("StatefulSet")})
    assert moving(state(nodes=[node(meta=LEAVING)], pods=[pod])) == ["db-0"]


@pytest.mark.parametrize(
    ("given", "stays"),
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
def test_only_a_budget_that_never_lets_a_pod_go_keeps_it_sch_005(given: Any, stays: bool) -> None:
    found = state(nodes=[node(meta=LEAVING)], pods=[running("web", "n", meta=WEB)], pdbs=[given])
    assert moving(found) == ([] if stays else ["web"])
    found.moving.pdbs.on_event(given.key, None)
    assert moving(found) == ["web"]


def test_pods_of_several_budgets_never_go_and_those_that_no_budget_protects_do_sch_005() -> None:
    """The eviction API refuses the first, and evicts the others."""
    never = budget(maxUnavailable=0)
    pods = [
        running("web", "n", meta=WEB),
        running("starting", "n", meta=WEB, status={"phase": "Pending"}),
        running("db-0", "n", meta={**LEAVING, **owned_by("StatefulSet"), **WEB}),
    ]
    found = state(nodes=[node(meta=LEAVING)], pods=pods, pdbs=[never])
    assert moving(found) == ["db-0", "starting"]
    found.moving.pdbs.on_event(never.key, budget(maxUnavailable=0, unhealthyPodEvictionPolicy="AlwaysAllow"))
    assert moving(found) == ["db-0", "starting", "web"], "it is not ready"
    for one in (budget("one", maxUnavailable=1), budget("two", maxUnavailable=1)):
        found.moving.pdbs.on_event(one.key, one)
    assert moving(found) == ["db-0", "starting"]


def test_dis39_what_lets_pods_be_evicted_is_counted() -> None:
    """Looks for moves that found nothing rest until then."""
    found = state(pdbs=[budget(maxUnavailable=1, disruptions_allowed=0)])
    view = PlanningView(found)  # type: ignore[arg-type]

    def counted(table: Any, key: str, record: Any) -> int:
        before = view.evictions_allowed()
        table.on_event(key, record)
        return view.evictions_allowed() - before

    pdbs = [budget(maxUnavailable=2, disruptions_allowed=allowed) for allowed in (0, 1, 2, 0)]
    assert [counted(found.moving.pdbs, pdb.key, pdb) for pdb in pdbs] == [0, 1, 0, 0]
    assert counted(found.moving.pdbs, pdbs[0].key, None) == 1

    held, free, ended = (
        running("p", "n", meta={"resourceVersion": str(number), "annotations": annotations}, status={"phase": phase})
        for number, (annotations, phase) in enumerate(
            [({"karpenter.sh/do-not-disrupt": "true"}, "Running"), ({}, "Running"), ({}, "Succeeded")]
        )
    )
    pods = [held, free, held, ended, None, free, None, held, None]
    assert [counted(found.pods, held.key, pod) for pod in pods] == [0] * len(pods), "they concern only their node"
    found = state(claims=[claim("c", node_name="n"), claim("d", node_name="m")], nodes=[node(), node("m")])
    view = PlanningView(found)  # type: ignore[arg-type]
    seen = []
    for pod in pods:
        found.pods.on_event(held.key, pod)
        seen.append(view.pods_released().get("c", 0))
    assert seen == [0, 1, 1, 2, 2, 2, 2, 2, 3]
    assert "d" not in view.pods_released()
    found.nodes.on_event("n", None)
    assert not found.pods_released


def test_dis39_what_the_pods_of_each_node_request_is_known_by_nodeclaim() -> None:
    pods = [running("a", "n", cpu="1"), running("b", "n", cpu="500m")]
    found = state(claims=[claim("c", node_name="n"), claim("d", node_name="")], nodes=[node()], pods=pods)
    view = PlanningView(found)  # type: ignore[arg-type]
    assert view.requests_on_nodes() == {"c": {"cpu": 1500, "pods": 2}}


def test_a_claim_answers_for_a_pod_until_its_old_node_lets_it_go_sch_005() -> None:
    """A drain may be held up for hours; the new node must neither be bought again nor count as empty."""
    new = claim(
        "new",
        node_name="m",
        meta={**PLANNED, "labels": {"karpenter.sh/nodepool": "pool"}},
        initialized="2026-01-01T00:00:00Z",
    )
    found = state(nodes=[node(meta=LEAVING), node("m")], claims=[new], pods=[running("web", "n")])
    assert found.planned(NOW) == {"uid-web": "new"}
    pods = {one.name: [pod.name for pod in one.pods] for one in scheduling_nodes(found, NOW)}
    assert pods == {"m": ["web"]}, "it counts where it will be, and nowhere else"
    found.nodes.on_event("n", node())
    assert found.planned(NOW) == {}, "it stays after all"


def test_a_leaving_claim_covers_no_pods_sch_005() -> None:
    """Its own pods, which it was bought for once, must move too."""
    old = claim(meta={**PLANNED, "labels": {"karpenter.sh/nodepool": "pool"}})
    found = state(nodes=[node(meta=LEAVING)], claims=[old], pods=[running("web", "n")])
    assert found.planned(NOW) == {}
    assert moving(found) == ["web"]


def test_the_successor_of_an_evicted_pod_finds_its_room_sch_005() -> None:
    """The claim is not launched yet: a second one for the successor would be one too many."""
    annotations = {**PLANNED["annotations"], "tenon.sh/planned-requests": '{"cpu":"1","pods":"1"}'}
    new = claim("new", node_name="", meta={"annotations": annotations})
    found = state(nodes=[node(meta=LEAVING)], claims=[new], pods=[running("web", "n")])
    assert {one.name: one.used for one in scheduling_nodes(found, NOW)} == {"new": {"cpu": 1000, "pods": 1}}
    evicted = running("web", "n", meta={**LEAVING, **owned_by("ReplicaSet")})
    found.pods.on_event(evicted.key, evicted)
    (seen,) = scheduling_nodes(found, NOW)
    assert (seen.name, seen.used, seen.allocatable, seen.closed) == ("new", {}, {"cpu": 1000, "pods": 1}, False)


def test_pods_that_must_move_are_planned_with_those_that_wait_sch_005() -> None:
    cache = ClusterCache(None, clock=lambda: NOW)  # type: ignore[arg-type]
    leaving = node(meta=LEAVING)
    cache.nodes.on_event(leaving.key, leaving)
    for record in (running("web", "n"), waiting("new")):
        cache.pods.on_event(record.key, record)
    assert [(pod.name, pod.node_name) for pod in cache.pending_pods()] == [("new", ""), ("web", "n")]
