"""Which workload a pod belongs to, by its name alone and by its owners."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenon.kube.pod_decode import decode_pod
from tenon.kube.pod_workload import workload_of


@pytest.mark.parametrize(
    ("pod", "workload"),
    [
        ("shop/web-5d7c9-x2k4p", "shop/web-5d7c9"),
        ("shop/db-0", "shop/db"),
        ("shop/backup-28471-9xk2l", "shop/backup-28471"),
        ("shop/migrate", "shop/migrate"),
    ],
)
def test_the_pods_of_a_controller_share_all_but_the_last_part_of_their_names(pod: str, workload: str) -> None:
    assert workload_of(pod) == workload


OF_REPLICA_SET: dict[str, Any] = {
    "labels": {"pod-template-hash": "5d7c9"},
    "ownerReferences": [{"kind": "ReplicaSet", "name": "web-5d7c9", "uid": "u", "controller": True}],
}


@pytest.mark.parametrize(("metadata", "workload"), [(OF_REPLICA_SET, "Deployment/web"), ({}, "web-5d7c9-x2k4p")])
def test_a_pod_itself_says_its_controller_and_one_without_is_its_own_workload(
    metadata: dict[str, Any], workload: str
) -> None:
    pod = {"metadata": {"namespace": "shop", "name": "web-5d7c9-x2k4p", **metadata}, "spec": {}}
    assert decode_pod(json.dumps(pod).encode()).pod.workload_or_name == workload
