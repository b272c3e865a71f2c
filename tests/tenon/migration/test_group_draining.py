"""Which nodes of a node group leave now."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.kube.pod_decode import pod_of
from tenon.migration.group_draining import AtOnceError, GroupNode, displaced, moves, number_at_once


def node(name: str, *, cordoned: bool = True, pods: int = 1, runs_tenon: bool = False) -> GroupNode:
    return GroupNode(name, f"i-{name}", cordoned, pods, runs_tenon)


def test_every_node_is_cordoned_before_the_first_pod_moves() -> None:
    result = moves([node("a", cordoned=False), node("b", cordoned=False, pods=0), node("c")], remain=0, at_once=1)
    assert (result.cordon, result.drain, result.terminate) == (["a", "b"], [], [])


def test_empty_nodes_end_and_so_many_others_are_drained() -> None:
    nodes = [node("a", pods=3), node("b", pods=1), node("c", pods=2), node("d", pods=0)]
    result = moves(nodes, remain=0, at_once=2)
    assert (result.drain, result.terminate) == (["b", "c"], ["d"])


def test_the_nodes_that_run_tenon_are_those_that_stay() -> None:
    nodes = [node("a", cordoned=False), node("b", cordoned=False), node("c", cordoned=False, runs_tenon=True)]
    assert moves(nodes, remain=1, at_once=1).staying == ["c"]
    assert moves([nodes[2]], remain=1, at_once=1).is_over


def test_nodes_stay_although_a_run_that_was_stopped_cordoned_them_all() -> None:
    nodes = [node("a"), node("b"), node("c", runs_tenon=True)]
    assert moves(nodes, remain=2, at_once=3).staying == ["a", "c"]
    assert moves([*nodes, node("d", cordoned=False)], remain=2, at_once=3).staying == ["c", "d"]


@pytest.mark.parametrize(("text", "number"), [("1", 1), ("3", 3), ("10%", 1), ("25%", 3), ("100%", 10)])
def test_a_share_is_at_least_one_node(text: str, number: int) -> None:
    assert number_at_once(text, 10) == number


@pytest.mark.parametrize("text", ["0", "0%", "-1", "a", "1.5"])
def test_what_is_no_number_of_nodes_is_refused(text: str) -> None:
    with pytest.raises(AtOnceError, match="neither"):
        number_at_once(text, 10)


@given(
    pods=st.lists(st.integers(0, 3), max_size=8),
    cordoned=st.sets(st.integers(0, 7)),
    tenon=st.sets(st.integers(0, 7)),
    remain=st.integers(0, 3),
    at_once=st.integers(1, 3),
)
def test_it_ends_with_the_nodes_that_stay_and_never_drains_more_at_once(
    pods: list[int], cordoned: set[int], tenon: set[int], remain: int, at_once: int
) -> None:
    """Each pass does what was decided: cordons, evicts one pod of each node, ends empty nodes."""
    nodes = {
        str(n): node(str(n), cordoned=n in cordoned, pods=count, runs_tenon=n in tenon) for n, count in enumerate(pods)
    }
    stayed = None
    for _ in range(100):
        result = moves(list(nodes.values()), remain=remain, at_once=at_once)
        assert stayed is None or list(result.staying) == stayed, "which nodes stay does not change on the way"
        stayed = list(result.staying)
        assert len(result.drain) <= at_once
        if result.is_over:
            break
        for name in result.cordon:
            nodes[name] = replace(nodes[name], cordoned=True)
        for name in result.drain:
            nodes[name] = replace(nodes[name], pods=nodes[name].pods - 1)
        for name in result.terminate:
            del nodes[name]
    assert len(nodes) == min(remain, len(pods))


WAITS = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]}
BOUND = {"phase": "Running", "conditions": [{"type": "PodScheduled", "status": "True"}]}


@pytest.mark.parametrize(
    ("owner", "status", "counts"),
    [
        ("web", WAITS, True),
        ("web", {"phase": "Pending"}, True),
        ("web", {"phase": "Failed"}, False),
        ("web", BOUND, False),
        ("batch", WAITS, False),
    ],
)
def test_a_pod_waits_because_of_the_drain_if_its_controller_had_pods_there(
    owner: str, status: dict[str, Any], counts: bool
) -> None:
    reference = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": owner, "uid": owner, "controller": True}
    metadata = {"name": "a", "namespace": "shop", "uid": "1", "ownerReferences": [reference]}
    pod = pod_of({"metadata": metadata, "spec": {"containers": []}, "status": status})
    assert displaced([pod], {"web"}, set()) == (["shop/a"] if counts else [])
    assert displaced([pod], {"web"}, {"1"}) == []
