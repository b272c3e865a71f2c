"""What pods request after VPA's admission webhook has set it (SCH-105, N15-305)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.kube.records import ValueRecord
from tenon.kube.vertical_pod_autoscalers import (
    VerticalPodAutoscaler,
    deciding_vpa,
    decode_pod_with_containers,
    decode_vpa,
    predicted_requests,
)

MIB = 2**20
OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "u", "controller": True}


def vpa(
    name: str = "db",
    *,
    mode: str | None = "Recreate",
    policies: list[dict[str, Any]] | None = None,
    target: dict[str, str] | None = None,
    created: str = "2026-01-01T00:00:00Z",
    **metadata: Any,
) -> ValueRecord[VerticalPodAutoscaler | None]:
    body = {
        "metadata": {"name": name, "namespace": "shop", "creationTimestamp": created, **metadata},
        "spec": {
            "targetRef": {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db"},
            "updatePolicy": {} if mode is None else {"updateMode": mode},
            "resourcePolicy": {"containerPolicies": policies or []},
        },
        "status": {
            "recommendation": {
                "containerRecommendations": [
                    {
                        "containerName": "main",
                        "target": target or {"cpu": "2", "memory": "300Mi"},
                        "lowerBound": {"cpu": "1"},
                        "upperBound": {"cpu": "9"},
                    }
                ]
            }
        },
    }
    return decode_vpa(json.dumps(body).encode())


def containers(*, limits: dict[str, str] | None = None, init: list[dict[str, Any]] | None = None, **more: Any) -> bytes:
    """A pod of two containers: main, which the VPA recommends something for, and side."""
    main = {"name": "main", "resources": {"requests": {"cpu": "500m", "memory": "100Mi"}, "limits": limits or {}}}
    side = {"name": "side", "resources": {"requests": {"cpu": "100m", "memory": "50Mi"}}}
    body = {
        "metadata": {"name": "db-0", "namespace": "shop", "uid": "p", "ownerReferences": [OWNER]},
        "spec": {"containers": [main, side], "initContainers": init or [], **more},
    }
    return decode_pod_with_containers(json.dumps(body).encode()).containers


def predicted(record: ValueRecord[VerticalPodAutoscaler | None], pod: bytes | None = None) -> tuple[int, int]:
    """CPU in millicores and memory in MiB."""
    assert record.value is not None
    requests = predicted_requests(pod or containers(), record.value)
    return requests["cpu"], requests["memory"] // MIB


def test_n15_305_the_target_takes_the_place_of_the_requests_of_its_container() -> None:
    assert predicted(vpa()) == (2100, 350)


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        ({"containerName": "main", "maxAllowed": {"cpu": "1500m"}}, (1600, 350)),
        ({"containerName": "main", "minAllowed": {"cpu": "3", "memory": "1Gi"}}, (3100, 1074)),
        ({"containerName": "*", "maxAllowed": {"memory": "200Mi"}}, (2100, 250)),
        ({"containerName": "main", "controlledResources": ["memory"]}, (600, 350)),
        ({"containerName": "main", "controlledResources": []}, (600, 150)),
        ({"containerName": "main", "mode": "Off"}, (600, 150)),
        ({"containerName": "other", "mode": "Off"}, (2100, 350)),
    ],
    ids=str,
)
def test_n15_305_container_policies_bound_the_target(policy: dict[str, Any], expected: tuple[int, int]) -> None:
    assert predicted(vpa(policies=[policy])) == expected


def test_n15_305_a_policy_of_the_container_goes_before_that_of_all() -> None:
    policies: list[dict[str, Any]] = [
        {"containerName": "*", "mode": "Off"},
        {"containerName": "main", "maxAllowed": {"cpu": "1"}},
    ]
    assert predicted(vpa(policies=policies)) == (1100, 350)


@pytest.mark.parametrize(("values", "cpu"), [("RequestsOnly", 1100), ("RequestsAndLimits", 2100), (None, 2100)])
def test_n15_305_requests_stay_within_limits_that_stay(values: str | None, cpu: int) -> None:
    policy = {"containerName": "main"} | ({"controlledValues": values} if values else {})
    assert predicted(vpa(policies=[policy]), containers(limits={"cpu": "1"}))[0] == cpu


def test_n15_305_init_containers_and_overhead_count_as_they_are() -> None:
    init = [{"name": "main", "resources": {"requests": {"cpu": "5"}}}]
    assert predicted(vpa(), containers(init=init, overhead={"memory": "10Mi"})) == (5000, 360)


@pytest.mark.parametrize(
    ("mode", "changes_running_pods"),
    [("Off", None), ("Initial", False), ("Recreate", True), ("Auto", True), ("InPlaceOrRecreate", True), (None, True)],
)
def test_n15_305_the_mode_says_which_pods_a_vpa_changes(mode: str | None, changes_running_pods: bool | None) -> None:
    value = vpa(mode=mode).value
    assert (value.changes_running_pods if value is not None else None) is changes_running_pods


def test_n15_305_a_vpa_that_is_being_deleted_or_knows_nothing_changes_no_pod() -> None:
    assert vpa(deletionTimestamp="2026-01-02T00:00:00Z").value is None
    assert decode_vpa(b'{"metadata": {"name": "db"}, "spec": {"targetRef": {"kind": "A", "name": "b"}}}').value is None


def test_n15_305_of_several_vpas_the_oldest_decides_then_the_first_by_name() -> None:
    old, same, young = vpa("z", created="2026-01-01T00:00:00Z"), vpa("a"), vpa("b", created="2026-01-02T00:00:00Z")
    off = vpa("0", mode="Off", created="2025-01-01T00:00:00Z")
    assert deciding_vpa([young, old, off]) is old.value
    assert deciding_vpa([old, same]) is same.value
    assert deciding_vpa([off]) is None


def test_n15_305_pods_of_one_template_share_their_containers_and_others_have_none() -> None:
    assert containers() is containers()
    bare = {"metadata": {"name": "p", "uid": "p"}, "spec": {"containers": [{"name": "main"}]}}
    assert decode_pod_with_containers(json.dumps(bare).encode()).containers == b""


@given(target=st.integers(0, 10_000), least=st.integers(0, 10_000), most=st.integers(0, 10_000))
def test_n15_305_a_prediction_is_never_above_the_most_that_is_allowed(target: int, least: int, most: int) -> None:
    bounds = {"minAllowed": {"cpu": f"{least}m"}, "maxAllowed": {"cpu": f"{most}m"}}
    record = vpa(target={"cpu": f"{target}m"}, policies=[{"containerName": "main", **bounds}])
    cpu = predicted(record)[0] - 100
    assert cpu == min(max(target, least), most)
