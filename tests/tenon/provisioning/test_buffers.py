"""How many pods a CapacityBuffer stands for, and what they are like (CB-04, CB-07)."""

from __future__ import annotations

from typing import Any

import pytest

from tenon.apis.capacitybuffer import CapacityBuffer
from tenon.kube.pod_decode import pod_of
from tenon.provisioning.buffers import buffer_pod, buffer_size, unit_requests
from tests.tenon.apis.case import edited
from tests.tenon.apis.sample_buffer import BASE

UNIT = {"cpu": 500, "memory": 2**30, "pods": 1}


def size(spec: dict[str, Any], scaled: int | None) -> int:
    """The size of a buffer; ``scaled`` are the replicas of the workload that it follows."""
    source = (
        {"podTemplateRef": {"name": "x"}} if scaled is None else {"scalableRef": {"kind": "Deployment", "name": "x"}}
    )
    manifest = {**edited(BASE, {}), "spec": {**source, **spec}}
    return buffer_size(CapacityBuffer.model_validate(manifest).spec, UNIT, scaled)


@pytest.mark.parametrize(
    ("scaled", "spec", "count"),
    [
        (None, {"replicas": 3}, 3),
        (None, {"replicas": 0}, 0),
        (10, {"percentage": 25}, 3),
        (10, {"percentage": 20}, 2),
        (10, {"percentage": 200}, 20),
        (1, {"percentage": 1}, 1),
        (0, {"percentage": 50}, 1),
        (10, {"percentage": 20, "replicas": 5}, 5),
        (10, {"percentage": 80, "replicas": 5}, 8),
        (None, {"replicas": 9, "limits": {"cpu": "2"}}, 4),
        (None, {"replicas": 9, "limits": {"cpu": "2", "memory": "3Gi"}}, 3),
        (None, {"replicas": 2, "limits": {"cpu": "2"}}, 2),
        (None, {"limits": {"cpu": "2"}}, 4),
        (None, {"limits": {"pods": "7"}}, 7),
        (None, {"limits": {"nvidia.com/gpu": "7"}}, 0),
        (None, {"replicas": 2, "limits": {"nvidia.com/gpu": "7"}}, 2),
        (10, {}, 0),
    ],
    ids=str,
)
def test_cb04_the_larger_of_number_and_share_within_limits(
    scaled: int | None, spec: dict[str, Any], count: int
) -> None:
    assert size(spec, scaled) == count


def test_what_a_unit_asks_for_counts_limits_where_requests_are_missing() -> None:
    containers = [
        {"name": "a", "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "250m"}}},
        {"name": "b"},
    ]
    assert unit_requests({"spec": {"containers": containers}}) == {"cpu": 250, "memory": 2**30, "pods": 1}


@pytest.mark.parametrize(
    ("pod_level", "container", "cpu", "memory"),
    [
        ({"limits": {"cpu": "4"}}, {"requests": {"cpu": "1"}}, 1000, 0),
        ({"limits": {"cpu": "4"}}, {"limits": {"cpu": "2"}}, 2000, 0),
        ({"limits": {"cpu": "4", "memory": "1Gi"}}, {"requests": {"cpu": "1"}}, 1000, 2**30),
        ({"limits": {"cpu": "4", "memory": None}}, {}, 4000, 0),
        ({"limits": {"cpu": "4"}, "requests": {"cpu": "3"}}, {"requests": {"cpu": "1"}}, 3000, 0),
        ({"limits": {"cpu": "4"}, "requests": {"cpu": None}}, {"requests": {"cpu": "1"}}, 1000, 0),
    ],
    ids=str,
)
def test_sch076_a_limit_of_the_pod_is_no_request_where_containers_request(
    pod_level: dict[str, Any], container: dict[str, Any], cpu: int, memory: int
) -> None:
    """The API server defaults the pod-level request to that of the containers, and only without one to the limit."""
    template = {"spec": {"resources": pod_level, "containers": [{"name": "main", "resources": container}]}}
    for resource in (unit_requests(template), pod_of(buffer_pod("spare", "team", template, 0)).pod.requests):
        assert (resource.get("cpu", 0), resource.get("memory", 0)) == (cpu, memory)


def test_cb07_the_pods_are_marked_last_in_rank_and_without_volumes_to_be_made() -> None:
    template = {
        "metadata": {"labels": {"app": "a"}, "annotations": {"x": "y"}},
        "spec": {
            "nodeName": "n1",
            "priorityClassName": "high",
            "nodeSelector": {"a": "b"},
            "containers": [{"name": "main"}],
            "volumes": [
                {"name": "a", "persistentVolumeClaim": {"claimName": "c"}},
                {"name": "b", "ephemeral": {"volumeClaimTemplate": {}}},
                {"name": "c", "emptyDir": {}},
            ],
        },
    }
    pod = buffer_pod("spare", "team", template, 4)
    assert pod["metadata"] == {
        "name": "capacity-buffer-spare-4",
        "namespace": "team",
        "labels": {"app": "a"},
        "annotations": {
            "x": "y",
            "karpenter.sh/capacity-buffer-fake-pod": "true",
            "karpenter.sh/capacity-buffer-name": "spare",
            "karpenter.sh/capacity-buffer-namespace": "team",
        },
    }
    assert pod["spec"] == {
        "nodeSelector": {"a": "b"},
        "containers": [{"name": "main"}],
        "volumes": [{"name": "c", "emptyDir": {}}],
        "priority": -2147483648,
    }
