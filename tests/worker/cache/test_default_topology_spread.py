"""SCH-062: pods in the cache have the default spread of kube-scheduler's configuration, as Services and owners say."""

from __future__ import annotations

import json
from typing import Any, cast

from tenon.kube.pod import Pod
from tenon.kube.records import PodRecord
from tenon.kube.scheduler_config import scheduler_config
from tenon.kube.selector_decode import decode_service, decode_workload
from tenon.kube.selectors import LabelSelector
from tests.worker.cache import objects
from worker.cache.changes import Topic
from worker.cache.cluster import ClusterCache

SPREAD = scheduler_config(
    {
        "podTopologySpread": {
            "defaultConstraints": [
                {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone", "whenUnsatisfiable": "DoNotSchedule"}
            ]
        }
    }
)
OWNED = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True}


def cache() -> ClusterCache:
    return ClusterCache(cast("Any", None), default_spread=SPREAD)


def waiting(**metadata: Any) -> PodRecord:
    return objects.waiting("web-a", meta={"namespace": "default", "labels": {"app": "web"}, **metadata})


def pod(state: ClusterCache, **metadata: Any) -> Pod:
    record = waiting(**metadata)
    state.pods.on_event(record.key, record)
    return state.scheduling_pod(record)


def service(state: ClusterCache, selector: dict[str, str] | None, version: str = "1") -> None:
    body = {
        "metadata": {"name": "web", "namespace": "default", "resourceVersion": version},
        "spec": {"selector": selector},
    }
    state.spreading.services.on_event("default/web", decode_service(json.dumps(body).encode()))


def replicaset(state: ClusterCache, selector: dict[str, str]) -> None:
    body = {"metadata": {"name": "web-1", "namespace": "default"}, "spec": {"selector": {"matchLabels": selector}}}
    state.spreading.owners["replicasets"].on_event("default/web-1", decode_workload(json.dumps(body).encode()))


def chosen(pod: Pod) -> list[LabelSelector | None]:
    return [spread.selector for spread in pod.rules.spreads]


def test_services_and_workloads_are_read_with_a_configuration_only() -> None:
    read = set(cache().unsynced_resources) - set(ClusterCache(cast("Any", None)).unsynced_resources)
    assert read == {"services", "replicationcontrollers", "replicasets", "statefulsets"}


def test_a_pod_is_spread_as_soon_as_something_chooses_it_and_no_longer() -> None:
    state = cache()
    assert chosen(pod(state)) == []
    service(state, {"app": "web"})
    assert chosen(pod(state)) == [LabelSelector((("app", "In", ("web",)),))]
    service(state, {"app": "other"}, "2")
    assert chosen(pod(state)) == []


def test_the_selector_of_the_owner_is_asked_for_besides() -> None:
    state = cache()
    service(state, {"app": "web"})
    replicaset(state, {"app": "web", "hash": "x"})
    label_selector = LabelSelector((("app", "In", ("web",)), ("hash", "In", ("x",))))
    assert chosen(pod(state, ownerReferences=[OWNED])) == [label_selector]
    assert chosen(pod(state, ownerReferences=[{**OWNED, "controller": False}])) == chosen(pod(state))


def test_what_is_deduced_is_kept_for_a_pod_with_an_ephemeral_volume() -> None:
    """It is another pod after its eviction, with a new volume, and both are asked for in turn."""
    state = cache()
    service(state, {"app": "web"})
    record = objects.running(
        "web-a",
        "n1",
        volumes=objects.ephemeral(storageClassName="waits"),
        meta={"namespace": "default", "labels": {"app": "web"}},
    )
    state.pods.on_event(record.key, record)
    running, recreated = state.scheduling_pod(record), state.recreated_pod(record)
    assert running is not recreated
    assert state.scheduling_pod(record) is running
    assert state.recreated_pod(record) is recreated


def test_what_is_deduced_is_kept_until_a_selector_changes() -> None:
    """Who waits hears of it: the pod may have a place now."""
    state = cache()
    service(state, {"app": "web"})
    record = waiting()
    state.pods.on_event(record.key, record)
    before = state.scheduling_pod(record)
    assert state.scheduling_pod(record) is before
    with state.subscribe([Topic.PENDING]) as news:
        service(state, {"app": "web"}, "2")
        assert (news.take(), state.scheduling_pod(record)) == ([], before)
        service(state, None, "3")
        assert news.take() == [(Topic.PENDING, record.key)]
    assert chosen(state.scheduling_pod(record)) == []
