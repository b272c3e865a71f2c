"""What the record of a pod says, which the cache, binding and draining all read."""

from __future__ import annotations

from typing import Any

import pytest

from tenon.kube import host_ports, node_affinity
from tenon.kube.planned_pods import PlannedPod
from tenon.kube.pod_decode import pod_of
from tenon.kube.requirements import Requirements
from tenon.node.binding import choose, refusal

DAEMONSET = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": "agent", "uid": "d"}
STATEFULSET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s"}
REPLICASET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "r"}
NODE = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "n"}
CONTROLS = {"controller": True}


def pod(*owners: dict[str, Any], **fields: Any) -> dict[str, Any]:
    metadata = {"name": "p", "namespace": "ns", "uid": "u", "ownerReferences": list(owners)}
    body: dict[str, Any] = {"metadata": metadata, "spec": {}, "status": {"phase": "Running"}}
    return body | fields


def resized(requests: dict[str, str], *, conditions: tuple[Any, ...] = (), **status: Any) -> dict[str, Any]:
    """A pod of one container that requests this and whose status says that."""
    return pod(
        spec={"containers": [{"name": "c", "resources": {"requests": requests}}]},
        status={"phase": "Running", "conditions": list(conditions), "containerStatuses": [{"name": "c", **status}]},
    )


def resized_as_a_whole(requests: dict[str, str], **status: Any) -> dict[str, Any]:
    """A pod that requests this for all its containers together and whose status says that."""
    containers = [{"name": "c", "resources": {"requests": {"cpu": "500m"}}}]
    return pod(spec={"containers": containers, "resources": {"requests": requests}}, status=status)


def counted(body: dict[str, Any]) -> dict[str, int]:
    """The request of the pod."""
    return pod_of(body).pod.requests


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        ({"allocatedResources": {"cpu": "3"}}, 3000),
        ({"allocatedResources": {"cpu": "500m"}}, 1000),
        ({"resources": {"requests": {"cpu": "3"}}}, 3000),
        ({"allocatedResources": {"cpu": "2"}, "resources": {"requests": {"cpu": "3"}}}, 3000),
        ({"allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}}, 1000),
        ({"resources": {"limits": {"cpu": "9"}}}, 1000),
        ({}, 1000),
    ],
)
def test_sch076_a_resize_in_place_counts_the_larger_of_request_and_status(status: dict[str, Any], cpu: int) -> None:
    """As kube-scheduler: a container that shrinks still holds what the kubelet gave it."""
    assert counted(resized({"cpu": "1"}, **status)) == {"cpu": cpu, "pods": 1}


def test_sch076_a_resize_that_the_node_can_never_make_counts_what_the_container_has() -> None:
    refused = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    waiting = refused | {"reason": "Deferred"}
    hold = {"allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}}
    assert counted(resized({"cpu": "8"}, conditions=(refused,), **hold))["cpu"] == 1000
    assert counted(resized({"cpu": "8"}, conditions=(waiting,), **hold))["cpu"] == 8000


@pytest.mark.parametrize(
    ("status", "cpu"),
    [
        ({}, 2000),
        ({"resources": {"requests": {"cpu": "3"}}}, 3000),
        ({"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "4", "example.com/gpu": "1"}}, 4000),
        ({"resources": {"requests": {"cpu": "1"}}, "allocatedResources": {"cpu": "1"}}, 2000),
    ],
)
def test_sch076_a_resize_of_the_whole_pod_counts_the_larger_too(status: dict[str, Any], cpu: int) -> None:
    """Its containers' extended resources are in its status too, and count as the containers request them."""
    assert counted(resized_as_a_whole({"cpu": "2"}, **status)) == {"cpu": cpu, "pods": 1}


def test_sch076_a_resize_of_the_whole_pod_that_the_node_can_never_make_counts_what_it_has() -> None:
    refused = {"type": "PodResizePending", "status": "True", "reason": "Infeasible"}
    waiting = refused | {"reason": "Deferred"}
    hold = {"allocatedResources": {"cpu": "1"}, "resources": {"requests": {"cpu": "1"}}}
    assert counted(resized_as_a_whole({"cpu": "8"}, conditions=[refused], **hold))["cpu"] == 1000
    assert counted(resized_as_a_whole({"cpu": "8"}, conditions=[waiting], **hold))["cpu"] == 8000


def test_sch076_a_pod_that_shrinks_in_place_leaves_no_room_for_another_yet() -> None:
    """Binding counted its request alone, and the kubelet then refused the pod that was bound next to it."""
    shrinking = resized({"cpu": "1"}, allocatedResources={"cpu": "2"})
    node = {
        "metadata": {"name": "n", "labels": {}},
        "spec": {},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "4"}},
    }
    waiting = {
        "metadata": {"name": "w", "namespace": "ns", "uid": "w"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "1"}}}]},
    }
    choice = choose([PlannedPod("ns", "w", "w")], {"ns/w": pod_of(waiting)}, node, [pod_of(shrinking)])
    assert choice.bind == ()
    assert "0 free" in choice.other_pods["ns/w"]


@pytest.mark.parametrize(
    ("owners", "daemon", "mirror"),
    [
        ([DAEMONSET | CONTROLS], True, False),
        ([DAEMONSET], True, False),
        ([REPLICASET | CONTROLS, DAEMONSET], False, False),
        ([DAEMONSET, REPLICASET | CONTROLS], False, False),
        ([REPLICASET, DAEMONSET | CONTROLS], True, False),
        ([NODE | CONTROLS], False, True),
        ([NODE], False, True),
        ([REPLICASET | CONTROLS, NODE], False, False),
        ([REPLICASET | CONTROLS], False, False),
        ([REPLICASET], False, False),
        ([], False, False),
    ],
)
def test_sch001_the_controller_says_what_kind_of_pod_it_is(
    owners: list[dict[str, Any]], daemon: bool, mirror: bool
) -> None:
    """Only its controller replaces a pod: one of a ReplicaSet needs another node, whatever other owners it has."""
    record = pod_of(pod(*owners))
    assert (record.daemon, record.mirror) == (daemon, mirror)
    assert record.reschedulable == (not daemon and not mirror)


@pytest.mark.parametrize(
    ("owners", "counts"),
    [
        ([STATEFULSET | CONTROLS], True),
        ([STATEFULSET], True),
        ([REPLICASET | CONTROLS, STATEFULSET], False),
        ([], False),
    ],
)
def test_a_terminating_pod_needs_a_node_only_in_a_statefulset(owners: list[dict[str, Any]], counts: bool) -> None:
    body = pod(*owners)
    body["metadata"]["deletionTimestamp"] = "2026-03-01T12:00:00Z"
    assert pod_of(body).reschedulable is counts


@pytest.mark.parametrize(
    ("term", "accepted"),
    [
        ({"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "zone", "operator": "NotIn", "values": ["a"]}]}, False),
        ({"matchExpressions": [{"key": "disk", "operator": "NotIn", "values": ["a"]}]}, True),
        ({"matchExpressions": [{"key": "zone", "operator": "Exists"}]}, True),
        ({"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}, False),
        ({"matchExpressions": [{"key": "disk", "operator": "DoesNotExist"}]}, True),
        ({"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["3"]}]}, True),
        ({"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}]}, False),
        ({"matchExpressions": [{"key": "cores", "operator": "Lt", "values": ["5"]}]}, True),
        ({"matchExpressions": [{"key": "disk", "operator": "Lt", "values": ["5"]}]}, False),
        ({"matchExpressions": [{"key": "zone", "operator": "Lt", "values": ["5"]}]}, False),
        ({"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["many"]}]}, False),
        ({"matchExpressions": [{"key": "cores", "operator": "Near", "values": ["4"]}]}, False),
        ({"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n"]}]}, False),
        ({}, False),
    ],
)
def test_a_required_term_means_to_binding_what_it_means_to_the_plan(term: dict[str, Any], accepted: bool) -> None:
    """Binding leaves a pod whose terms the plan cannot read to kube-scheduler."""
    labels = {"zone": "a", "cores": "4"}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    record = pod_of(pod(spec={"affinity": {"nodeAffinity": required}}))
    assert (refusal(record, {"metadata": {"name": "n", "labels": labels}}) == "") is accepted
    terms = record.pod.required_terms
    if not record.pod.unsupported:
        assert node_affinity.accepts_node(terms, labels) is accepted
        assert any(Requirements.from_labels(labels).allow(term) for term in terms) is accepted


def test_sch075_a_port_of_a_sidecar_or_of_the_nodes_own_network_is_taken() -> None:
    """Draining and binding read hostPort alone, and took a port without an address family for another one."""
    sidecar = {"name": "s", "restartPolicy": "Always", "ports": [{"containerPort": 9, "hostPort": 9, "hostIP": "::"}]}
    body = pod(spec={"initContainers": [sidecar], "containers": [{"name": "c"}]})
    occupancy = pod_of(body).pod.host_ports
    assert occupancy == (("::", 9, "TCP"),)
    assert host_ports.first_conflict([("10.0.0.1", 9, "TCP")], occupancy) == ("10.0.0.1", 9, "TCP")
    assert host_ports.first_conflict([("10.0.0.1", 9, "UDP")], occupancy) is None
    own = pod(spec={"hostNetwork": True, "containers": [{"name": "c", "ports": [{"containerPort": 80}]}]})
    assert pod_of(own).pod.host_ports == (("0.0.0.0", 80, "TCP"),)


def test_the_claims_of_a_pod_have_one_name_each() -> None:
    names = {"name": "data", "persistentVolumeClaim": {"claimName": "x"}}
    scratch = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {}}}}
    body = pod(spec={"volumes": [names, {"name": "tmp", "emptyDir": {}}, scratch]})
    assert [use.pvc for use in pod_of(body).volumes] == ["ns/x", "ns/p-scratch"]
