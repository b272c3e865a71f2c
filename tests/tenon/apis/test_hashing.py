"""Static drift digests: what changes them and what must not (NP-S6, EC-S10, DIS-70, DIS-71, DIS-79)."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.hashing import (
    EC2NODECLASS_VERSION,
    NODEPOOL_VERSION,
    ec2nodeclass_hash,
    ec2nodeclass_hashes,
    migrated_hashes,
    nodepool_hash,
    nodepool_hashes,
)
from tenon.apis.nodepool import NodePool
from tests.tenon.apis.case import EC2NODECLASS, NODEPOOL, edited, taint, term


def pool_hash(edits: dict[str, Any] | None = None) -> str:
    return nodepool_hash(NodePool.model_validate(edited(NODEPOOL, edits or {})))


def class_hash(edits: dict[str, Any] | None = None, ca_bundle: str = "") -> str:
    return ec2nodeclass_hash(EC2NodeClass.model_validate(edited(EC2NODECLASS, edits or {})), ca_bundle)


def test_the_digest_is_the_same_tomorrow() -> None:
    """A change of these texts is drift of every node in the world: raise the version instead."""
    assert pool_hash() == "6f927a5139893fd21cee"
    assert class_hash() == "75a2eb1690eb0bace4c6"


@pytest.mark.parametrize(
    "edits",
    [
        {"template/metadata/labels": {"a": "b"}},
        {"template/metadata/annotations": {"a": "b"}},
        {"template/spec/taints": [taint("a")]},
        {"template/spec/startupTaints": [taint("a")]},
        {"template/spec/expireAfter": "1h"},
        {"template/spec/expireAfter": "Never"},
        {"template/spec/terminationGracePeriod": "1h"},
        {"template/spec/terminationGracePeriod": "0s"},
        {"template/spec/nodeClassRef/name": "other"},
    ],
    ids=str,
)
def test_pool_drifts(edits: dict[str, Any]) -> None:
    assert pool_hash(edits) != pool_hash()


@pytest.mark.parametrize(
    "edits",
    [
        {"template/spec/requirements": [term("a", "Exists")]},
        {"weight": 5},
        {"limits": {"cpu": "5"}},
        {"disruption/consolidateAfter": "5m"},
        {"template/spec/taints": [], "template/metadata/labels": {}},
        {"template/spec/expireAfter": "43200m"},
        {"template/metadata": {}},
    ],
    ids=str,
)
def test_pool_does_not_drift(edits: dict[str, Any]) -> None:
    assert pool_hash(edits) == pool_hash()


def test_taints_and_startup_taints_are_distinguished() -> None:
    assert pool_hash({"template/spec/taints": [taint("a")]}) != pool_hash({"template/spec/startupTaints": [taint("a")]})


@given(st.permutations([taint("a"), taint("b"), taint("b", "NoExecute"), {**taint("c"), "value": "d"}]))
def test_order_of_lists_does_not_matter(taints: list[dict[str, str]]) -> None:
    assert pool_hash({"template/spec/taints": taints}) == pool_hash({"template/spec/taints": sorted(taints, key=str)})


@given(st.dictionaries(st.text("ab", min_size=1, max_size=3), st.text("xy", max_size=2), max_size=3),
       st.dictionaries(st.text("ab", min_size=1, max_size=3), st.text("xy", max_size=2), max_size=3))  # fmt: skip
def test_class_tags_agree_exactly_when_the_digests_do(remaining: dict[str, str], right: dict[str, str]) -> None:
    """A tag of no value is a tag."""
    assert (class_hash({"tags": remaining}) == class_hash({"tags": right})) == (remaining == right)


@pytest.mark.parametrize(
    "edits",
    [
        {"role": "other"},
        {"userData": "echo"},
        {"tags": {"a": "b"}},
        {"kubelet": {"maxPods": 5}},
        {"kubelet": {"shutdownGracePeriod": "5s"}},
        {"blockDeviceMappings": [{"ebs": {"volumeSize": "5Gi"}}]},
        {"instanceStorePolicy": "RAID0"},
        {"associatePublicIPAddress": False},
        {"metadataOptions": {"httpTokens": "optional"}},
        {"detailedMonitoring": True},
        {"amiSelectorTerms": [{"alias": "bottlerocket@latest"}]},
        {"amiFamily": "Custom"},
        {"connectionTracking": {"udpTimeout": 30}},
        {"context": "c"},
    ],
    ids=str,
)
def test_class_drifts(edits: dict[str, Any]) -> None:
    assert class_hash(edits) != class_hash()


@pytest.mark.parametrize(
    "edits",
    [
        {"subnetSelectorTerms": [{"id": "subnet-1"}]},
        {"securityGroupSelectorTerms": [{"id": "sg-1"}]},
        {"capacityReservationSelectorTerms": [{"id": "cr-1"}]},
        {"placementGroupSelector": {"id": "pg-1"}},
        {"amiSelectorTerms": [{"alias": "al2023@v20260101"}]},
        {"amiSelectorTerms": [{"id": "ami-1"}], "amiFamily": "AL2023"},
        {"amiFamily": "AL2023"},
        {"ipPrefixCount": 3},
        {"kubelet": {}},
        {"metadataOptions": {}},
    ],
    ids=str,
)
def test_class_does_not_drift(edits: dict[str, Any]) -> None:
    assert class_hash(edits) == class_hash()


def test_n15_454_how_a_class_shares_gpus_is_no_drift() -> None:
    annotations = {"karpenter.k8s.aws/nvidia-consumable-capacity": "memory"}
    written = EC2NodeClass.model_validate({**EC2NODECLASS, "metadata": {"name": "a", "annotations": annotations}})
    assert ec2nodeclass_hash(written, "") == class_hash()


def test_a_new_ca_bundle_is_drift() -> None:
    """EC-S10: kubelets that trust an old authority must be replaced."""
    assert class_hash(ca_bundle="x") != class_hash()
    written = EC2NodeClass.model_validate(EC2NODECLASS)
    assert ec2nodeclass_hashes(written, "x")["karpenter.k8s.aws/ec2nodeclass-hash"] == class_hash(ca_bundle="x")


def test_ecs10_what_an_earlier_release_hashed_without_the_ca_bundle_does_not_drift() -> None:
    """An upgrade of Tenon must not replace nodes: another version of the hash is not compared but written again."""
    written = EC2NodeClass.model_validate(EC2NODECLASS)
    hashes = ec2nodeclass_hashes(written, "x")
    earlier = {
        "karpenter.k8s.aws/ec2nodeclass-hash": class_hash(),
        "karpenter.k8s.aws/ec2nodeclass-hash-version": "tenon-v1",
    }
    assert migrated_hashes(earlier, hashes, drifted=False) == hashes


UPSTREAM = {"karpenter.sh/nodepool-hash": "7192598826009892108", "karpenter.sh/nodepool-hash-version": "v3"}


def test_dis75_what_another_controller_hashed_is_hashed_again() -> None:
    """ANN-03: the claim counts as made from what is there now; once taken over, nothing is left to write."""
    ours = nodepool_hashes(NodePool.model_validate(NODEPOOL))
    assert migrated_hashes(UPSTREAM, ours, drifted=False) == ours
    assert migrated_hashes({}, ours, drifted=False) == ours, "a claim that nobody hashed"
    assert migrated_hashes({**UPSTREAM, **ours}, ours, drifted=False) == {}
    changed = {**ours, "karpenter.sh/nodepool-hash": "made from an older template"}
    assert migrated_hashes(changed, ours, drifted=False) == {}, "that is drift, and no take-over"


def test_dis75_a_claim_that_drifted_already_keeps_its_digest() -> None:
    ours = nodepool_hashes(NodePool.model_validate(NODEPOOL))
    assert migrated_hashes(UPSTREAM, ours, drifted=True) == {"karpenter.sh/nodepool-hash-version": NODEPOOL_VERSION}


def test_qrk15_no_version_of_tenons_is_one_of_karpenters() -> None:
    """NP-S6, EC-S10: versions that differ are what keeps nodes from drifting in either direction."""
    theirs = {f"v{number}" for number in range(1, 100)}
    assert theirs.isdisjoint({NODEPOOL_VERSION, EC2NODECLASS_VERSION})
    result = ec2nodeclass_hashes(EC2NodeClass.model_validate(EC2NODECLASS))
    assert result["karpenter.k8s.aws/ec2nodeclass-hash-version"] == EC2NODECLASS_VERSION
