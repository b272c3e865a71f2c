"""What an EC2NodeClass's status says."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tenon.apis.conditions import get_condition
from tenon.apis.ec2nodeclass import EC2NodeClass, EC2NodeClassStatus, SecurityGroup, Subnet
from tenon.ec2.families.amis import Image
from tenon.ec2.nodeclass.status import (
    CheckResult,
    ResolvedNodeClass,
    ami,
    check_gpu_sharing,
    new_status,
    not_ready,
    readiness_unknown,
)
from tests.ec2.samples import CLUSTER, node_class

NOW = datetime(2026, 11, 21, tzinfo=UTC)
ALL = ResolvedNodeClass(
    subnets=[Subnet(id="subnet-1", zone="us-west-2a")],
    security_groups=[SecurityGroup(id="sg-1")],
    images=[ami(Image("ami-1", "name", ({"key": "kubernetes.io/arch", "operator": "In", "values": ["amd64"]},)))],
    instance_profile="profile",
)


def reasons(status: EC2NodeClassStatus) -> dict[str, str]:
    return {condition.type: condition.reason for condition in status.conditions if condition.status == "False"}


def resolved(status: EC2NodeClassStatus, **metadata: Any) -> EC2NodeClass:
    result = node_class()
    return result.model_copy(
        update={"status": status, "metadata": result.metadata.model_copy(update=metadata)}, deep=True
    )


def test_everything_found_is_ready() -> None:
    """EC-S1..S6."""
    status = new_status(node_class(), ALL, CLUSTER, NOW)
    assert reasons(status) == {}
    ready = get_condition(status.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.observed_generation) == ("True", 3)
    assert status.to_dict()["amis"][0]["id"] == "ami-1"
    assert not_ready(resolved(status)) == ""


@pytest.mark.parametrize(
    ("missing", "condition", "reason"),
    [
        ({"subnets": []}, "SubnetsReady", "SubnetsNotFound"),
        ({"security_groups": []}, "SecurityGroupsReady", "SecurityGroupsNotFound"),
        ({"images": []}, "AMIsReady", "AMINotFound"),
        ({"images": [], "images_result": CheckResult("UnsupportedAlias", "no AL2")}, "AMIsReady", "UnsupportedAlias"),
        (
            {"profile_result": CheckResult("InstanceProfileNotFound", "no role")},
            "InstanceProfileReady",
            "InstanceProfileNotFound",
        ),
    ],
)
def test_missing_parts(missing: dict[str, Any], condition: str, reason: str) -> None:
    """EC-S7: the condition's reason, and a class that nothing is launched with."""
    status = new_status(node_class(), replace(ALL, **missing), CLUSTER, NOW)
    assert reasons(status) == {condition: reason, "Ready": "UnhealthyDependents"}
    assert condition in not_ready(resolved(status))


@pytest.mark.parametrize(
    ("spec", "cluster", "reason"),
    [
        ({}, replace(CLUSTER, service_cidr=""), "ClusterCIDRResolutionFailed"),
        ({"userData": "#" * 17000}, CLUSTER, "UserDataSizeLimitExceeded"),
        ({"userData": "echo", "amiSelectorTerms": [{"alias": "bottlerocket@latest"}]}, CLUSTER, "UserDataInvalid"),
    ],
)
def test_user_data_is_validated(spec: dict[str, Any], cluster: Any, reason: str) -> None:
    """EC-S7, EC-10."""
    assert reasons(new_status(node_class(**spec), ALL, cluster, NOW))["ValidationSucceeded"] == reason


@pytest.mark.parametrize("family", ["al2@latest", "bottlerocket@latest", "windows2022@latest"])
def test_ecs7_kubelet_settings_that_only_al2023_takes_make_other_families_unready(family: str) -> None:
    """EC-13: each setting is named; those that every family takes are not."""
    kubelet = {"maxPods": 20, "topologyManagerPolicy": "restricted"}
    status = new_status(node_class(amiSelectorTerms=[{"alias": family}], kubelet=kubelet), ALL, CLUSTER, NOW)
    condition = get_condition(status.conditions, "ValidationSucceeded")
    assert condition is not None
    assert (condition.status, condition.reason) == ("False", "UnsupportedKubeletConfiguration")
    assert condition.message.startswith("spec.kubelet.topologyManagerPolicy: is passed on to AL2023 nodes only")
    assert "maxPods" not in condition.message
    on_al2023 = node_class(amiSelectorTerms=[{"alias": "al2023@latest"}], kubelet=kubelet)
    assert reasons(new_status(on_al2023, ALL, CLUSTER, NOW)) == {}


@pytest.mark.parametrize("family", ["al2@latest", "bottlerocket@latest", "windows2022@latest", "al2023@latest"])
def test_n15_346_several_dns_addresses_are_for_al2023_nodes(family: str) -> None:
    kubelet = {"clusterDNS": ["10.100.0.10", "10.100.0.11"]}
    status = new_status(node_class(amiSelectorTerms=[{"alias": family}], kubelet=kubelet), ALL, CLUSTER, NOW)
    refused = None if family == "al2023@latest" else "UnsupportedKubeletConfiguration"
    assert reasons(status).get("ValidationSucceeded") == refused


def test_n15_345_user_data_of_custom_nodes_is_the_users_so_no_setting_is_refused() -> None:
    kubelet = {"clusterDNS": ["10.100.0.10", "10.100.0.11"], "topologyManagerPolicy": "restricted"}
    custom = node_class(amiFamily="Custom", amiSelectorTerms=[{"id": "ami-1"}], kubelet=kubelet)
    assert reasons(new_status(custom, ALL, CLUSTER, NOW)) == {}


@pytest.mark.parametrize(
    ("mode", "shares", "reason"),
    [
        ("", False, None),
        ("disabled", False, None),
        ("memory", True, None),
        ("unlimited", True, None),
        ("4", True, None),
        ("0", False, "NVIDIAConsumableCapacityInvalid"),
        ("half", False, "NVIDIAConsumableCapacityInvalid"),
    ],
)
def test_n15_451_n15_452_the_sharing_of_gpus_is_checked_and_needs_its_gate(
    mode: str, shares: bool, reason: str | None
) -> None:
    written = node_class()
    annotations = {"karpenter.k8s.aws/nvidia-consumable-capacity": mode}
    written = written.model_copy(update={"metadata": written.metadata.model_copy(update={"annotations": annotations})})
    assert reasons(new_status(written, ALL, CLUSTER, NOW)).get("ValidationSucceeded") == reason
    assert check_gpu_sharing(written, allowed=False).reason == ("DRADisabled" if shares else "")
    assert check_gpu_sharing(written, allowed=True).reason == ""


def test_n15_341_a_setting_that_no_kubelet_has_is_said_before_what_the_family_does_not_take() -> None:
    kubelet = {"topologyManagerPolcy": "restricted", "podPidsLimit": 100}
    written = node_class(amiSelectorTerms=[{"alias": "al2@latest"}], kubelet=kubelet)
    validation = get_condition(new_status(written, ALL, CLUSTER, NOW).conditions, "ValidationSucceeded")
    assert validation is not None
    assert (validation.status, validation.reason) == ("False", "InvalidKubeletConfiguration")
    assert validation.message.startswith(
        "spec.kubelet.topologyManagerPolcy: is not a setting of the kubelet of Kubernetes"
    )
    assert "did you mean topologyManagerPolicy?; spec.kubelet" in validation.message
    assert "spec.kubelet.podPidsLimit: is passed on to AL2023 nodes only, not to AL2" in validation.message


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        (
            {"kubelet": {"imageGCHighThresholdPercent": 50, "imageGCLowThresholdPercent": 60}},
            "InvalidKubeletConfiguration",
        ),
        (
            {"kubelet": {"podsPerCore": 5}, "amiSelectorTerms": [{"alias": "bottlerocket@latest"}]},
            "UnsupportedKubeletConfiguration",
        ),
        ({"tags": {"karpenter.sh/nodepool": "mine"}}, "TagValidationFailed"),
        ({"tags": {"": "empty"}}, "TagValidationFailed"),
        ({"role": "Role", "instanceProfile": "profile"}, "ValidationFailed"),
    ],
)
def test_ecs7_a_broken_rule_has_the_reason_of_its_part(spec: dict[str, Any], reason: str) -> None:
    """The API server refuses these since it has the CRD; a class may be older than that."""
    assert reasons(new_status(node_class(**spec), ALL, CLUSTER, NOW))["ValidationSucceeded"] == reason


@pytest.mark.parametrize(("length", "status"), [(63, "True"), (64, "False")])
def test_a_class_whose_name_no_node_can_carry_as_a_label_says_so(length: int, status: str) -> None:
    names = node_class()
    names = names.model_copy(update={"metadata": names.metadata.model_copy(update={"name": "a" * length})})
    condition = get_condition(new_status(names, ALL, CLUSTER, NOW).conditions, "ValidationSucceeded")
    assert condition is not None
    assert condition.status == status
    assert ("metadata.name: has 64 characters" in condition.message) is (status == "False")


def test_ecs6_the_condition_about_reservations_comes_and_goes_with_the_gate() -> None:
    """A class whose terms find nothing is Ready (EC-03)."""
    selecting = node_class(capacityReservationSelectorTerms=[{"id": "cr-1"}])
    on = new_status(selecting, ALL, CLUSTER, NOW)
    condition = get_condition(on.conditions, "CapacityReservationsReady")
    assert condition is not None
    assert (condition.status, reasons(on)) == ("True", {})
    off = new_status(resolved(on), replace(ALL, reservations_result=None), CLUSTER, NOW)
    assert get_condition(off.conditions, "CapacityReservationsReady") is None
    assert reasons(off) == {}


def test_transition_times_stay_while_nothing_changes() -> None:
    first = resolved(new_status(node_class(), ALL, CLUSTER, NOW))
    again = new_status(first, ALL, CLUSTER, NOW + timedelta(hours=1))
    assert {condition.last_transition_time for condition in again.conditions} == {NOW}


def test_why_a_class_is_not_ready() -> None:
    """A class that is unresolved or outdated is not launched from yet; one that is going, never again."""
    status = new_status(node_class(), ALL, CLUSTER, NOW)
    outdated = resolved(status, generation=4)
    assert "not been resolved" in readiness_unknown(node_class())
    assert "changed" in readiness_unknown(outdated)
    assert (not_ready(node_class()), not_ready(outdated), readiness_unknown(resolved(status))) == ("", "", "")
    assert "deleted" in not_ready(resolved(status, deletion_timestamp=NOW))
