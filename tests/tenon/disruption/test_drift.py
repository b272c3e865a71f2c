"""Which change of a NodePool, an EC2NodeClass or the account makes a node drift, and for which reason."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

import pytest

from tenon.apis import labels
from tenon.apis.base import kubernetes_name
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.hashing import ec2nodeclass_hashes, nodepool_hashes
from tenon.apis.nodepool import NodePool, TemplateSpec
from tenon.disruption.rules.drifted import TYPE_GRACE, DesiredNode, DriftCheck, DriftReason
from tenon.ec2.types.bootable_types import without_images
from tenon.kube.claim_record import ClaimRecord
from tenon.scheduling.model import InstanceType
from tests.tenon.apis.case import EC2NODECLASS, REMOVED, taint, term
from tests.tenon.disruption.drifting import CREATED, FOUND, NOW, READY, launched, node_class, pool, verdict
from tests.tenon.scheduling.builders import CATALOG, catalog, entry


def reason(
    claim: ClaimRecord,
    of: NodePool | None = None,
    current: EC2NodeClass | None = None,
    types: Sequence[InstanceType] | None = CATALOG,
    now: datetime = NOW,
) -> str:
    drift = verdict(claim, of, current, types, now).drift
    return str(drift.reason) if drift is not None else ""


def test_a_node_that_is_as_its_pool_and_class_describe_has_not_drifted() -> None:
    assert verdict(launched()) == DriftCheck()


CHANGES: Sequence[tuple[dict[str, Any], str]] = [
    ({"template/metadata/labels": {"team": "b"}}, "spec.template.metadata.labels (team)"),
    ({"template/metadata/labels": {"team": "a", "tier": "x"}}, "spec.template.metadata.labels (tier)"),
    ({"template/metadata/labels": {}}, "spec.template of"),
    ({"template/metadata/annotations": {"note": "y"}}, "spec.template.metadata.annotations (note)"),
    ({"template/spec/taints": []}, "spec.template.spec.taints"),
    ({"template/spec/taints": [taint("dedicated", "NoExecute")]}, "spec.template.spec.taints"),
    ({"template/spec/startupTaints": []}, "spec.template.spec.startupTaints"),
    ({"template/spec/expireAfter": "1h"}, "spec.template.spec.expireAfter"),
    ({"template/spec/expireAfter": "Never"}, "spec.template.spec.expireAfter"),
    ({"template/spec/terminationGracePeriod": "2h"}, "spec.template.spec.terminationGracePeriod"),
    ({"template/spec/terminationGracePeriod": REMOVED}, "spec.template.spec.terminationGracePeriod"),
    ({"template/spec/nodeClassRef/name": "other"}, "spec.template.spec.nodeClassRef"),
]
"""Changes of the template, and the beginning of what is said about each."""


def test_the_changes_have_each_field_of_the_template() -> None:
    """A new field has to be named in the condition Drifted too. Requirements are compared with the node's labels."""
    fields = {f"spec.template.spec.{kubernetes_name(name)}" for name in TemplateSpec.model_fields}
    assert fields - {names for _, names in CHANGES} == {"spec.template.spec.requirements"}


@pytest.mark.parametrize(("edits", "names"), CHANGES, ids=str)
def test_dis70_dis79_each_field_of_the_template_is_drift_and_is_named(edits: dict[str, Any], names: str) -> None:
    drift = verdict(launched(), pool(edits)).drift
    assert drift is not None
    assert drift.reason == "NodePoolDrifted"
    assert drift.message.startswith(names)
    assert drift.message.count("spec.template") == 1, "only what changed is named"
    assert reason(launched(pool(edits)), pool(edits)) == "", "a new node is as the pool describes"


@pytest.mark.parametrize(
    "edits",
    [
        {"weight": 5},
        {"limits": {"cpu": "5"}},
        {"disruption/consolidateAfter": "5m"},
        {"disruption/budgets": [{"nodes": "0"}]},
        {"template/spec/expireAfter": "43200m"},
    ],
    ids=str,
)
def test_dis79_weight_limits_and_the_disruption_block_are_not_drift(edits: dict[str, Any]) -> None:
    assert verdict(launched(), pool(edits)) == DriftCheck()


@pytest.mark.parametrize(
    ("requirements", "drifts"),
    [
        ([term(labels.ZONE, "In", "us-west-2a", "us-west-2b")], False),
        ([term(labels.ZONE, "In", "us-west-2b")], True),
        ([term(labels.ZONE, "NotIn", "us-west-2a")], True),
        ([term("failure-domain.beta.kubernetes.io/zone", "In", "us-west-2b")], True),
        ([term(labels.CAPACITY_TYPE, "In", "spot")], True),
        ([term(labels.CAPACITY_TYPE, "In", "spot", "on-demand")], False),
        ([term(labels.INSTANCE_TYPE, "In", "m5.large", min_values=1)], False),
        ([term("karpenter.k8s.aws/instance-cpu", "Gt", "3")], True),
        ([term("karpenter.k8s.aws/instance-cpu", "Lt", "3")], False),
        ([term("karpenter.k8s.aws/instance-gpu-count", "DoesNotExist")], False),
        ([term("karpenter.k8s.aws/instance-gpu-count", "Exists")], True),
        ([term("team", "In", "a")], False),
        ([term("team", "DoesNotExist")], True),
        ([term("unheard.of", "NotIn", "x")], False),
    ],
    ids=str,
)
def test_dis72_requirements_that_no_longer_allow_the_labels(requirements: list[Any], drifts: bool) -> None:
    result = reason(
        launched(labels={"karpenter.k8s.aws/instance-cpu": "2"}), pool({"template/spec/requirements": requirements})
    )
    assert result == ("RequirementsDrifted" if drifts else "")


def test_dis72_the_message_names_the_requirement_and_the_label() -> None:
    drift = verdict(launched(), pool({"template/spec/requirements": [term(labels.ZONE, "In", "us-west-2b")]})).drift
    assert drift is not None
    assert drift.message == (
        "NodePool default requires topology.kubernetes.io/zone In [us-west-2b], and the NodeClaim has us-west-2a"
    )


def test_dis72_sch026_a_node_with_one_of_the_listed_values_drifts_when_the_pool_no_longer_lists_it() -> None:
    several = pool({"template/spec/requirements": [term("example.com/lane", "In", "1", "2")]})
    claim = launched(several, labels={"example.com/lane": "1"}, requirements=[term("example.com/lane", "In", "1")])
    assert reason(claim, several) == ""
    assert reason(claim, pool({"template/spec/requirements": [term("example.com/lane", "Exists")]})) == ""
    assert reason(claim, pool({"template/spec/requirements": [term("example.com/lane", "In", "2", "3")]})) != ""


def test_dis72_a_label_of_several_values_that_no_launch_decides_is_not_drift() -> None:
    """EC2 does not always name the zone ID: to replace the node would change nothing, for ever."""
    several = pool({"template/spec/requirements": [term(labels.ZONE_ID, "In", "usw2-az1", "usw2-az2")]})
    claim = launched(several, requirements=[term(labels.ZONE_ID, "In", "usw2-az1", "usw2-az2")])
    assert reason(claim, several) == ""
    assert reason(claim, pool({"template/spec/requirements": [term(labels.ZONE_ID, "In", "usw2-az3")]})) != ""
    assert reason(launched(), several) == "RequirementsDrifted"


@pytest.mark.parametrize(
    "edits",
    [
        {"role": "other"},
        {"userData": "echo"},
        {"tags": {"a": "b"}},
        {"kubelet": {"maxPods": 5}},
        {"blockDeviceMappings": [{"ebs": {"volumeSize": "5Gi"}}]},
        {"instanceStorePolicy": "RAID0"},
        {"associatePublicIPAddress": False},
        {"metadataOptions": {"httpTokens": "optional"}},
        {"detailedMonitoring": True},
        {"amiFamily": "Custom"},
        {"context": "c"},
        {"connectionTracking": {"udpTimeout": 30}},
        {"cpuOptions": {"nestedVirtualization": "enabled"}},
        {"enclaveOptions": {"enabled": True}},
        {"networkInterfaces": [{"networkCardIndex": 0, "deviceIndex": 0, "interfaceType": "interface"}]},
        {"role": REMOVED, "instanceProfile": "mine"},
    ],
    ids=str,
)
def test_dis71_dis79_most_fields_of_the_class_are_drift(edits: dict[str, Any]) -> None:
    assert reason(launched(), current=node_class(edits)) == "NodeClassDrift"
    assert reason(launched(None, node_class(edits)), current=node_class(edits)) == ""


@pytest.mark.parametrize(
    "edits",
    [
        {"subnetSelectorTerms": [{"id": "subnet-1"}]},
        {"securityGroupSelectorTerms": [{"id": "sg-1"}]},
        {"amiSelectorTerms": [{"alias": "al2023@v20260101"}]},
        {"capacityReservationSelectorTerms": [{"id": "cr-1"}]},
        {"ipPrefixCount": 3},
        {"kubelet": {}},
    ],
    ids=str,
)
def test_dis79_selectors_that_find_the_same_are_not_drift(edits: dict[str, Any]) -> None:
    assert verdict(launched(), current=node_class(edits)) == DriftCheck()


@pytest.mark.parametrize(
    ("status", "expected", "names"),
    [
        ({"amis": [{"id": "ami-new", "requirements": [term(labels.ARCH, "In", "amd64")]}]}, "AMIDrift", "ami-new"),
        ({"amis": list(reversed(FOUND["amis"]))}, "", ""),
        ({"amis": [{"id": "ami-newer", "requirements": [term(labels.ARCH, "In", "amd64")]}, *FOUND["amis"]]},
         "AMIDrift", "selects image ami-newer for m5.large, and the instance runs ami-amd64"),
        ({"subnets": [{"id": "subnet-b", "zone": "us-west-2b"}]}, "SubnetDrift", "subnet-a"),
        ({"subnets": [{"id": "subnet-c", "zone": "us-west-2a"}]}, "SubnetDrift", "subnet-a"),
        ({"securityGroups": [{"id": "sg-1"}]}, "SecurityGroupDrift", "sg-2 is not selected"),
        ({"securityGroups": [{"id": "sg-2"}, {"id": "sg-1"}]}, "", ""),
        ({"securityGroups": [*FOUND["securityGroups"], {"id": "sg-3"}]}, "SecurityGroupDrift", "sg-3 is missing"),
    ],
    ids=str,
)  # fmt: skip
def test_dis74_what_the_class_selects_now_is_compared_with_the_instance(
    status: dict[str, Any], expected: str, names: str
) -> None:
    drift = verdict(launched(), current=node_class(**status)).drift
    assert (str(drift.reason) if drift else "") == expected
    assert names in (drift.message if drift else "")


def test_dis74_what_was_not_recorded_of_an_instance_is_unknown_and_not_drift() -> None:
    """Older releases and Karpenter recorded neither subnet nor security groups."""
    claim = launched(annotations={labels.SUBNET_ID: None, labels.SECURITY_GROUP_IDS: None})
    current = node_class(securityGroups=[{"id": "sg-9"}], subnets=[{"id": "subnet-c", "zone": "us-west-2a"}])
    assert verdict(claim, current=current) == DriftCheck(
        unknown=frozenset({DriftReason.SUBNET, DriftReason.SECURITY_GROUP})
    )


def test_dis74_an_instance_in_a_zone_without_a_subnet_drifts_whatever_was_recorded() -> None:
    claim = launched(annotations={labels.SUBNET_ID: None})
    assert reason(claim, current=node_class(subnets=[{"id": "subnet-b", "zone": "us-west-2b"}])) == "SubnetDrift"


@pytest.mark.parametrize(
    "conditions",
    [[], [{**READY, "status": "False"}], [{**READY, "status": "Unknown"}], [{**READY, "observedGeneration": 0}]],
    ids=["unresolved", "not ready", "unknown", "of an earlier generation"],
)
def test_dis74_a_class_that_is_not_resolved_says_nothing_of_instances(conditions: list[Any]) -> None:
    """Its status may hold what an earlier spec selected, or nothing at all."""
    current = node_class(subnets=[], securityGroups=[], amis=[], conditions=conditions)
    drift_check = verdict(launched(), current=current, types=[])
    assert drift_check.drift is None
    assert drift_check.unknown == {
        "AMIDrift",
        "SubnetDrift",
        "SecurityGroupDrift",
        "PlacementGroupDrift",
        "CapacityReservationDrift",
        "InstanceTypeNotFound",
    }


RESERVED = {labels.CAPACITY_TYPE: "reserved", labels.RESERVATION_ID: "cr-1"}
RESERVATION = {
    "id": "cr-1",
    "availabilityZone": "us-west-2a",
    "instanceType": "m5.large",
    "instanceMatchCriteria": "open",
    "ownerID": "123456789012",
}
RESOLVED = [READY, {**READY, "type": "CapacityReservationsReady"}]


@pytest.mark.parametrize(
    ("changed", "status", "expected"),
    [
        (RESERVED, {"capacityReservations": [RESERVATION], "conditions": RESOLVED}, ""),
        (RESERVED, {"conditions": RESOLVED}, "CapacityReservationDrift"),
        (RESERVED, {"capacityReservations": [{**RESERVATION, "id": "cr-2"}], "conditions": RESOLVED},
         "CapacityReservationDrift"),
        ({}, {"conditions": RESOLVED}, ""),
        (RESERVED, {}, ""),
    ],
    ids=["selected", "gone", "another", "not reserved", "gate off"],
)  # fmt: skip
def test_dis74_a_reservation_that_ended_or_is_not_selected_is_drift(
    changed: dict[str, str], status: dict[str, Any], expected: str
) -> None:
    drift_check = verdict(launched(labels=changed), current=node_class(**status))
    assert (str(drift_check.drift.reason) if drift_check.drift else "") == expected


GROUP = {"id": "pg-1", "name": "rack", "strategy": "spread"}


@pytest.mark.parametrize(
    ("changed", "status", "expected"),
    [
        ({}, {"placementGroup": GROUP}, "PlacementGroupDrift"),
        ({labels.PLACEMENT_GROUP_ID: "pg-1"}, {"placementGroup": GROUP}, ""),
        ({labels.PLACEMENT_GROUP_ID: "pg-2"}, {"placementGroup": GROUP}, "PlacementGroupDrift"),
        ({labels.PLACEMENT_GROUP_ID: "pg-1"}, {}, "PlacementGroupDrift"),
    ],
    ids=["new", "same", "another", "no more"],
)
def test_dis74_another_placement_group_is_drift(changed: dict[str, str], status: dict[str, Any], expected: str) -> None:
    drift_check = verdict(launched(labels=changed), current=node_class(**status))
    assert (str(drift_check.drift.reason) if drift_check.drift else "") == expected


def test_aws126_an_instance_outside_its_reservation_drifts_if_reserved_is_required() -> None:
    required = [term(labels.CAPACITY_TYPE, "In", "reserved")]
    claim = launched(labels={labels.CAPACITY_TYPE: "on-demand"})
    demoted = ClaimRecord.of({**claim.body, "spec": {**claim.spec, "requirements": required}})
    drift = verdict(demoted, current=node_class(conditions=RESOLVED)).drift
    assert drift is not None
    assert (drift.reason, "left its capacity reservation" in drift.message) == ("CapacityReservationDrift", True)
    assert verdict(claim, current=node_class(conditions=RESOLVED)).drift is None


@pytest.mark.parametrize(
    ("types", "changed", "expected"),
    [
        ([], {}, ""),
        (catalog(entry("c5.large", 2, 4, 0.1)), {}, "instance type m5.large"),
        (catalog(entry("m5.large", 2, 8, 0.1, zones=["us-west-2b"])), {}, "instance type m5.large in zone us-west-2a"),
        (catalog(entry("m5.large", 2, 8, 0.1)), {labels.CAPACITY_TYPE: "spot"}, ""),
        (catalog(entry("m5.large", 2, 8, 0.1)), {labels.CAPACITY_TYPE: "reserved"}, ""),
        (CATALOG, {labels.INSTANCE_TYPE: "x9.large"}, "instance type x9.large"),
    ],
    ids=["no types are known", "type", "zone", "spot", "reserved", "unknown type"],
)
def test_dis73_a_type_that_the_class_no_longer_offers(
    types: list[InstanceType], changed: dict[str, str], expected: str
) -> None:
    drift = verdict(launched(labels=changed), types=types).drift
    assert (str(drift.reason) if drift else "") == ("InstanceTypeNotFound" if expected else "")
    assert (drift.message if drift else "").endswith(expected)


def test_dis73_a_type_that_no_image_boots_any_more_is_no_drift() -> None:
    """Plans buy none of it, and a node that runs has the image that it needs."""
    arm_only = [image for image in node_class().status.amis if image.id == "ami-arm64"]
    current = node_class(amis=[image.to_dict() for image in arm_only])
    assert verdict(launched(), current=current, types=without_images(CATALOG, arm_only)).drift is None


def test_dis73_a_young_claim_is_looked_at_again_after_an_hour() -> None:
    instance_types = catalog(entry("c5.large", 2, 4, 0.1))
    young = verdict(launched(), types=instance_types, now=CREATED + TYPE_GRACE - timedelta(seconds=1))
    assert (young.drift, young.check_again) == (None, CREATED + timedelta(hours=1))
    assert reason(launched(), types=instance_types, now=CREATED + TYPE_GRACE) == "InstanceTypeNotFound"


def test_dis75_hashes_of_another_version_are_not_compared() -> None:
    """Neither those of Karpenter nor those of another release of Tenon."""
    theirs = {
        labels.NODEPOOL_HASH: "1",
        labels.NODEPOOL_HASH_VERSION: "v3",
        labels.EC2NODECLASS_HASH: "2",
        labels.EC2NODECLASS_HASH_VERSION: "v4",
    }
    changed = pool({"template/metadata/labels": {"team": "b"}}), node_class({"role": "other"})
    assert verdict(launched(annotations=theirs), *changed) == DriftCheck(
        unknown=frozenset({DriftReason.NODEPOOL, DriftReason.NODECLASS})
    ), "a claim that Karpenter marked keeps its condition until it is hashed again"
    unhashed = dict.fromkeys(theirs)
    assert reason(launched(annotations=unhashed), *changed) == ""


def test_ecs10_a_new_ca_bundle_is_drift_of_the_class() -> None:
    made_with = launched(annotations=ec2nodeclass_hashes(node_class(), "old"))
    assert DesiredNode(pool(), node_class(), ca_bundle="old").check(made_with, NOW).drift is None
    drift = DesiredNode(pool(), node_class(), ca_bundle="new").check(made_with, NOW).drift
    assert drift is not None
    assert drift.reason == DriftReason.NODECLASS
    assert "CA bundle" in drift.message


def test_ecs10_an_upgrade_of_tenon_to_hashes_with_the_ca_bundle_is_no_drift() -> None:
    earlier = {**ec2nodeclass_hashes(node_class()), labels.EC2NODECLASS_HASH_VERSION: "tenon-v1"}
    assert DesiredNode(pool(), node_class(), ca_bundle="new").check(launched(annotations=earlier), NOW).drift is None


def test_a_pool_without_its_class_drifts_by_its_own_fields_only() -> None:
    for missing in (None, EC2NodeClass.model_validate(
        {**EC2NODECLASS, "metadata": {"name": "default", "deletionTimestamp": "2026-03-01T12:00:00Z"}}
    )):  # fmt: skip
        assert DesiredNode(pool(), missing).check(launched(), NOW).drift is None
        drift = DesiredNode(pool({"template/spec/taints": []}), missing).check(launched(), NOW).drift
        assert drift is not None
        assert drift.reason is DriftReason.NODEPOOL


def test_dis70_static_drift_comes_before_requirements_and_these_before_the_class() -> None:
    zone = {"template/spec/requirements": [term(labels.ZONE, "In", "us-west-2b")]}
    current = node_class({"role": "other"}, amis=[])
    assert reason(launched(), pool({**zone, "template/spec/taints": []}), current) == "NodePoolDrifted"
    assert reason(launched(), pool(zone), current) == "RequirementsDrifted"
    assert reason(launched(), pool(), current) == "NodeClassDrift"


KUBELET = {labels.V1BETA1_KUBELET: '{"maxPods": 7}'}


def test_v1b04_kubelet_settings_of_a_pool_are_drift_when_they_change() -> None:
    claim = launched(pool(annotations=KUBELET))
    assert reason(claim, pool(annotations=KUBELET)) == ""
    assert reason(claim, pool(annotations={labels.V1BETA1_KUBELET: '{"maxPods": 8}'})) == "NodeClassDrift"
    assert reason(claim, pool()) == "NodeClassDrift"


def test_v1b04_kubelet_settings_that_move_into_the_class_are_not_drift() -> None:
    claim = launched(pool(annotations=KUBELET))
    assert reason(claim, pool(), node_class({"kubelet": {"maxPods": 7}})) == ""
    assert reason(claim, pool(), node_class({"kubelet": {"maxPods": 8}})) == "NodeClassDrift"
    assert reason(claim, pool(), node_class({"kubelet": {"maxPods": 7}, "role": "other"})) == "NodeClassDrift"
    assert reason(launched(), pool(), node_class({"kubelet": {"maxPods": 7}})) == "NodeClassDrift"


def test_a_pool_hash_of_the_claim_is_that_of_the_pool_it_was_made_from() -> None:
    assert nodepool_hashes(pool()).items() <= launched().annotations.items()
