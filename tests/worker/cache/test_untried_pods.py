"""Pods that kube-scheduler has not tried yet wait for capacity as soon as it refuses a replica of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.kube.records import PodRecord
from tests.worker.cache.cluster_state import state
from tests.worker.cache.objects import owned_by, pod, running, waiting
from worker.cache.changes import Topic
from worker.cache.state import ClusterState

OWNED = owned_by("ReplicaSet")


def pending(cluster: ClusterState) -> list[str]:
    return [record.pod.name for record in cluster.pending()]


def test_a_refused_replica_speaks_for_those_that_were_not_tried() -> None:
    cluster = state(pods=[pod("a", meta=OWNED), pod("b", meta=OWNED)])
    assert pending(cluster) == []
    with cluster.subscribe([Topic.PENDING]) as news:
        cluster.pods.on_event("ns/c", waiting("c", meta=OWNED))
        assert {key for _, key in news.take()} == {"ns/a", "ns/b", "ns/c"}
    assert pending(cluster) == ["a", "b", "c"]
    cluster.pods.on_event("ns/d", pod("d", meta=OWNED))
    assert pending(cluster) == ["a", "b", "c", "d"]


def test_they_stop_waiting_when_the_refused_replica_has_a_node() -> None:
    cluster = state(pods=[pod("a", meta=OWNED), waiting("b", meta=OWNED)])
    cluster.pods.on_event("ns/b", running("b", "n", meta=OWNED))
    assert pending(cluster) == []


@pytest.mark.parametrize(
    "other",
    [
        pod("b"),
        pod("b", meta=owned_by("ReplicaSet", "another")),
        pod("b", meta=OWNED, cpu="2"),
        pod("b", meta=OWNED, nodeSelector={"a": "b"}),
        pod("b", meta=OWNED, priority=1),
        pod("b", meta=OWNED, schedulingGates=[{"name": "g"}]),
        pod("b", meta=OWNED, volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]),
        pod("b", meta={**OWNED, "labels": {"a": "b"}}),
        pod("b", meta={**OWNED, "deletionTimestamp": "2026-01-01T00:00:00Z"}),
        pod("b", meta=OWNED, status={"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Other"}]}),
        running("b", "n", meta=OWNED),
    ],
)
def test_a_pod_that_differs_is_judged_by_kube_scheduler_alone(other: Any) -> None:
    assert pending(state(pods=[waiting("a", meta=OWNED), other])) == ["a"]


@pytest.mark.parametrize("kind", ["StatefulSet", "DaemonSet"])
def test_pods_of_other_controllers_are_not_interchangeable(kind: str) -> None:
    cluster = state(pods=[waiting("a", meta=owned_by(kind)), pod("b", meta=owned_by(kind))])
    assert "b" not in pending(cluster)


@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcd"),
            st.sampled_from(["untried", "refused", "running", "gone"]),
            st.sampled_from(["one", "two"]),
            st.sampled_from(["1", "2"]),
        ),
        max_size=30,
    )
)
def test_the_index_agrees_with_the_pods_that_exist(changes: list[tuple[str, str, str, str]]) -> None:
    cluster = ClusterState()
    present_items: dict[str, tuple[str, str, str]] = {}
    pod_record: PodRecord | None
    for name, kind, owner, cpu in changes:
        meta = owned_by("ReplicaSet", owner)
        match kind:
            case "untried":
                pod_record = pod(name, meta=meta, cpu=cpu)
            case "refused":
                pod_record = waiting(name, meta=meta, cpu=cpu)
            case "running":
                pod_record = running(name, "n", meta=meta, cpu=cpu)
            case _:
                pod_record = None
        cluster.pods.on_event(f"ns/{name}", pod_record)
        present_items[name] = (kind, owner, cpu)
        refused = {(owner, cpu) for kind, owner, cpu in present_items.values() if kind == "refused"}
        expected = [
            name
            for name, (kind, owner, cpu) in sorted(present_items.items())
            if kind == "refused" or (kind == "untried" and (owner, cpu) in refused)
        ]
        assert pending(cluster) == expected
