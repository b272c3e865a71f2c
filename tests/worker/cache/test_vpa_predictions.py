"""Pods with the requests that their VPA gives them, in the cache (SCH-105, N15-305)."""

from __future__ import annotations

import json
from typing import Any

from tenon.kube.vertical_pod_autoscalers import decode_pod_with_containers, decode_vpa
from tests.worker.cache.objects import UNSCHEDULABLE, claim, daemonset, metadata, node
from tests.worker.fake_temporal import Cache
from worker.cache.planning_view import PlanningView

OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "u", "controller": True}
LEAVING = {"deletionTimestamp": "2026-01-01T00:00:00Z"}


def add_pod(cache: Cache, name: str, node_name: str = "", cpu: str = "1", owner: dict[str, Any] = OWNER) -> None:
    meta = metadata(name, namespace="shop", labels={"pod-template-hash": "1"}, ownerReferences=[owner])
    spec = {"nodeName": node_name, "containers": [{"name": "main", "resources": {"requests": {"cpu": cpu}}}]}
    status = {"phase": "Running"} if node_name else {"phase": "Pending", "conditions": [UNSCHEDULABLE]}
    record = decode_pod_with_containers(json.dumps({"metadata": meta, "spec": spec, "status": status}).encode())
    cache.pods.on_event(record.key, record)


def add_vpa(
    cache: Cache, cpu: str, *, mode: str = "Recreate", namespace: str = "shop", target: str = "Deployment/web"
) -> None:
    recommendation = {"containerRecommendations": [{"containerName": "main", "target": {"cpu": cpu}}]}
    spec: dict[str, Any] = {
        "targetRef": dict(zip(("kind", "name"), target.split("/"), strict=True)),
        "updatePolicy": {"updateMode": mode},
    }
    body = {
        "metadata": metadata("web", namespace=namespace),
        "spec": spec,
        "status": {"recommendation": recommendation},
    }
    record = decode_vpa(json.dumps(body).encode())
    cache.predictions.vpas.on_event(record.key, record)


def cluster(leaves: bool = False) -> Cache:
    cache = Cache()
    cache.publish(claim(initialized="2026-01-01T00:00:00Z"), node(meta=LEAVING if leaves else None))
    add_pod(cache, "runs", "n")
    return cache


def cpus(cache: Cache) -> tuple[int, int]:
    """What the pod on the node will request elsewhere, as disruption sees it in a snapshot; and its cost in changes."""
    details = PlanningView(cache).snapshot().node_details({})
    return details["claim"].pods[0].requests["cpu"], cache.predictions.changes


def test_n15_305_disruption_moves_a_pod_with_the_requests_that_it_comes_back_with() -> None:
    cache = cluster()
    assert cpus(cache)[0] == 1000
    for target, expected in (("3", 3000), ("200m", 200)):
        add_vpa(cache, target)
        assert cpus(cache)[0] == expected
    assert cache.used("n")["cpu"] == 1000, "until then it uses what it requests"
    cache.predictions.vpas.on_event("shop/web", None)
    assert cpus(cache)[0] == 1000


def test_n15_305_a_vpa_of_another_namespace_or_with_mode_off_changes_nothing() -> None:
    cache = cluster()
    add_vpa(cache, "3", namespace="other")
    add_vpa(cache, "3", mode="Off")
    assert cpus(cache) == (1000, 2)


def test_n15_305_pods_that_must_leave_are_planned_as_they_come_back() -> None:
    cache = cluster(leaves=True)
    add_vpa(cache, "200m", mode="Initial")
    (pod,) = cache.pending_pods()
    assert pod.requests["cpu"] == 200


def test_n15_305_a_waiting_pod_gets_room_for_what_it_becomes_and_for_what_it_is() -> None:
    cache = Cache()
    add_pod(cache, "waits")
    for mode, target, expected in (
        ("Recreate", "3", 3000),
        ("Recreate", "200m", 1000),
        ("InPlaceOrRecreate", "3", 3000),
        ("Initial", "3", 1000),
    ):
        add_vpa(cache, target, mode=mode)
        (pod,) = cache.pending_pods()
        assert pod.requests["cpu"] == expected, (mode, target)


def test_n15_305_a_daemonset_takes_the_room_on_a_new_node_that_its_vpa_gives_it() -> None:
    cache = Cache()
    daemons = daemonset("agent", cpu="100m")
    cache.daemonsets.on_event(daemons.key, daemons)
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": daemons.uid, "controller": True}
    add_pod(cache, "agent-1", "n", cpu="100m", owner=owner)
    assert cache.daemons()[0].requests["cpu"] == 100
    add_vpa(cache, "700m", target="DaemonSet/agent")
    assert cache.daemons()[0].requests["cpu"] == 700
