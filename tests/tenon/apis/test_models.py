"""The models: defaults (NP-12, NP-14 to NP-18, NC-01, EC-20), tolerance, and reading back."""

from __future__ import annotations

import pytest

from tenon.apis.base import kubernetes_name
from tenon.apis.ec2nodeclass import EC2NodeClass, EC2NodeClassSpec
from tenon.apis.kubelet import KubeletConfiguration
from tenon.apis.nodeclaim import NodeClaim, NodeClaimStatus
from tenon.apis.nodepool import NodePool
from tests.tenon.apis.case import EC2NODECLASS, NODECLAIM, NODEPOOL, edited

CLASS_FIELDS = """
subnetSelectorTerms securityGroupSelectorTerms capacityReservationSelectorTerms placementGroupSelector
associatePublicIPAddress ipPrefixCount amiSelectorTerms amiFamily userData role instanceProfile tags kubelet
blockDeviceMappings instanceStorePolicy networkInterfaces detailedMonitoring metadataOptions connectionTracking context
cpuOptions enclaveOptions
"""
CLAIM_STATUS_FIELDS = "nodeName providerID imageID capacity allocatable lastPodEventTime conditions"


def test_nodepool_defaults() -> None:
    spec = NodePool.model_validate(NODEPOOL).spec
    assert spec.template.spec.expire_after.text == "720h"
    assert spec.template.spec.termination_grace_period is None
    assert spec.disruption.to_dict() == {
        "consolidationPolicy": "WhenEmptyOrUnderutilized",
        "consolidateAfter": "0s",
        "budgets": [{"nodes": "10%"}],
    }
    assert (spec.weight, spec.replicas, spec.limits) == (None, None, {})


def test_defaults_are_not_shared_between_objects() -> None:
    first, second = (NodePool.model_validate(NODEPOOL) for _ in range(2))
    first.spec.disruption.budgets.clear()
    first.metadata.labels["a"] = "b"
    assert len(second.spec.disruption.budgets) == 1
    assert second.metadata.labels == {}


def test_nodeclaim_defaults() -> None:
    assert NodeClaim.model_validate(NODECLAIM).spec.expire_after.text == "720h"


def test_ec2nodeclass_defaults() -> None:
    spec = EC2NodeClass.model_validate(EC2NODECLASS).spec
    assert spec.metadata_options.to_dict() == {
        "httpEndpoint": "enabled",
        "httpProtocolIPv6": "disabled",
        "httpPutResponseHopLimit": 1,
        "httpTokens": "required",
    }
    assert spec.resolved_family == "AL2023"
    assert spec.alias is not None
    assert spec.alias.version == "latest"


@pytest.mark.parametrize(
    ("edits", "family"),
    [
        ({"amiSelectorTerms": [{"alias": "bottlerocket@v1"}]}, "Bottlerocket"),
        ({"amiSelectorTerms": [{"alias": "windows2025@latest"}]}, "Windows2025"),
        ({"amiFamily": "Custom"}, "Custom"),
        ({"amiSelectorTerms": [{"id": "ami-1"}], "amiFamily": "AL2"}, "AL2"),
    ],
)
def test_family_is_the_given_one_else_that_of_the_alias(edits: dict[str, object], family: str) -> None:
    assert EC2NodeClass.model_validate(edited(EC2NODECLASS, edits)).spec.resolved_family == family


def test_unknown_metadata_reads_back_and_unknown_spec_is_dropped() -> None:
    manifest = edited(NODEPOOL, {"colour": "blue"})
    manifest["metadata"] |= {"managedFields": [{"manager": "kubectl"}], "creationTimestamp": "2026-01-01T00:00:00Z"}
    written = NodePool.model_validate(manifest).to_dict()
    assert written["metadata"]["managedFields"] == [{"manager": "kubectl"}]
    assert written["metadata"]["creationTimestamp"] == "2026-01-01T00:00:00Z"
    assert "colour" not in written["spec"]


def test_nulls_are_as_good_as_absent() -> None:
    manifest = edited(NODEPOOL, {"disruption": None, "template/spec/taints": None, "weight": None})
    manifest["metadata"]["creationTimestamp"] = None
    manifest["status"] = None
    assert NodePool.model_validate(manifest) == NodePool.model_validate(NODEPOOL)


@pytest.mark.parametrize(
    ("model", "manifest"), [(NodePool, NODEPOOL), (NodeClaim, NODECLAIM), (EC2NodeClass, EC2NODECLASS)]
)
def test_what_is_written_reads_back_equal(
    model: type[NodePool | NodeClaim | EC2NodeClass], manifest: dict[str, object]
) -> None:
    parsed = model.model_validate(manifest)
    assert model.model_validate(parsed.to_dict()) == parsed
    assert model.model_validate_json(parsed.model_dump_json(by_alias=True)) == parsed


def test_whole_numbers_are_taken_as_quantities() -> None:
    assert NodePool.model_validate(edited(NODEPOOL, {"limits": {"cpu": 1000}})).spec.limits == {"cpu": "1000"}


def test_kubelet_keeps_what_it_does_not_know() -> None:
    kubelet = KubeletConfiguration.model_validate({"maxPods": 9, "shutdownGracePeriod": "30s"})
    assert kubelet.passed_on == {"shutdownGracePeriod": "30s"}
    assert kubelet.to_dict()["shutdownGracePeriod"] == "30s"


@pytest.mark.parametrize(
    ("field", "name"),
    [
        ("provider_id", "providerID"),
        ("image_id", "imageID"),
        ("node_class_ref", "nodeClassRef"),
        ("cluster_dns", "clusterDNS"),
        ("cpu_cfs_quota", "cpuCFSQuota"),
        ("image_gc_high_threshold_percent", "imageGCHighThresholdPercent"),
        ("associate_public_ip_address", "associatePublicIPAddress"),
        ("http_protocol_ipv6", "httpProtocolIPv6"),
        ("kms_key_id", "kmsKeyID"),
        ("ip_prefix_count", "ipPrefixCount"),
    ],
)
def test_names_are_those_of_the_manifests(field: str, name: str) -> None:
    assert kubernetes_name(field) == name


def test_fields_are_exactly_those_of_v1() -> None:
    """EC-01 to EC-23 and NC-03: a renamed attribute would silently rename a field of the API."""
    assert {kubernetes_name(name) for name in EC2NodeClassSpec.model_fields} == set(CLASS_FIELDS.split())
    assert {kubernetes_name(name) for name in NodeClaimStatus.model_fields} == set(CLAIM_STATUS_FIELDS.split())
