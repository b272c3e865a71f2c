"""NodePool, NodeClaim and EC2NodeClass of v1beta1 as those of v1 (V1B-01 to V1B-17)."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tenon.apis import labels
from tenon.apis.conditions import READY
from tenon.apis.ec2nodeclass import EC2NodeClass
from tenon.apis.legacy.conversion import Converted
from tenon.apis.legacy.v1beta1 import convert_nodeclaim, convert_nodeclass, convert_nodepool
from tests.tenon.apis.case import REMOVED, is_false, taint, term
from tests.tenon.apis.legacy.sound import manifest, problems, sound
from tests.tenon.apis.legacy.v1beta1_manifests import CLASS, NODE

PLACE = "template/spec/"


def pool(edits: dict[str, Any] | None = None, **metadata: Any) -> Converted:
    return convert_nodepool(
        manifest("karpenter.sh/v1beta1", "NodePool", {"template": {"spec": NODE}}, edits, **metadata)
    )


def pool_spec(edits: dict[str, Any] | None = None) -> Any:
    return sound(pool(edits))[0]["spec"]


def claim(edits: dict[str, Any] | None = None, **metadata: Any) -> Any:
    return manifest("karpenter.sh/v1beta1", "NodeClaim", NODE, edits, **metadata)


def node_class(edits: dict[str, Any] | None = None, **metadata: Any) -> Converted:
    return convert_nodeclass(manifest("karpenter.k8s.aws/v1beta1", "EC2NodeClass", CLASS, edits, **metadata))


def class_spec(edits: dict[str, Any] | None = None) -> Any:
    return sound(node_class(edits))[0]["spec"]


@pytest.mark.parametrize(
    ("value", "policy", "after", "expiry"),
    [
        ({}, "WhenEmptyOrUnderutilized", "0s", "720h"),
        ({"consolidationPolicy": "WhenUnderutilized"}, "WhenEmptyOrUnderutilized", "0s", "720h"),
        (
            {"consolidationPolicy": "WhenUnderutilized", "consolidateAfter": "Never"},
            "WhenEmptyOrUnderutilized",
            "Never",
            "720h",
        ),
        ({"consolidateAfter": "30s"}, "WhenEmptyOrUnderutilized", "30s", "720h"),
        ({"consolidationPolicy": "WhenEmpty", "consolidateAfter": "30s"}, "WhenEmpty", "30s", "720h"),
        ({"expireAfter": "Never"}, "WhenEmptyOrUnderutilized", "0s", "Never"),
        ({"expireAfter": "1h30m"}, "WhenEmptyOrUnderutilized", "0s", "1h30m"),
    ],
    ids=str,
)
def test_v1b01_v1b02_disruption(value: dict[str, str], policy: str, after: str, expiry: str) -> None:
    spec = pool_spec({"disruption": value})
    assert spec["disruption"] == {"consolidationPolicy": policy, "consolidateAfter": after}
    assert spec["template"]["spec"]["expireAfter"] == expiry


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({"consolidationPolicy": "WhenEmpty"}, "spec.disruption.consolidateAfter: is required"),
        ({"consolidationPolicy": "WhenUnderutilized", "consolidateAfter": "30s"}, "consolidateAfter: is not taken"),
        ({"consolidationPolicy": "WhenEmptyOrUnderutilized"}, "spec.disruption.consolidationPolicy"),
        ({"expireAfter": "soon"}, "spec.disruption.expireAfter"),
    ],
    ids=str,
)
def test_v1b01_disruption_that_was_refused(value: dict[str, str], why: str) -> None:
    problem, *_ = problems(pool({"disruption": value}))
    assert why in problem


def test_v1b03_budgets_stay() -> None:
    budgets = [{"nodes": "20%"}, {"nodes": "0", "schedule": "0 9 * * 1-5", "duration": "8h"}]
    assert pool_spec({"disruption": {"budgets": budgets}})["disruption"]["budgets"] == budgets


def test_v1b04_kubelet_settings_wait_for_the_class() -> None:
    kubelet = {"maxPods": 20, "evictionHard": {"memory.available": "5%"}}
    converted = pool({f"{PLACE}kubelet": {**kubelet, "containerRuntime": "containerd"}})
    (result,) = sound(converted)
    assert "kubelet" not in result["spec"]["template"]["spec"]
    assert json.loads(result["metadata"]["annotations"][labels.V1BETA1_KUBELET]) == kubelet
    assert any("EC2NodeClass" in note for note in converted.notes)
    assert any("containerRuntime" in note for note in converted.notes)


@pytest.mark.parametrize(
    "reference", [{"name": "foo"}, {"apiVersion": "karpenter.k8s.aws/v1beta1", "kind": "EC2NodeClass", "name": "foo"}]
)
def test_v1b05_the_class_is_referred_to_by_group(reference: dict[str, str]) -> None:
    (result,) = sound(pool({f"{PLACE}nodeClassRef": reference}))
    assert result["spec"]["template"]["spec"]["nodeClassRef"] == {
        "group": "karpenter.k8s.aws",
        "kind": "EC2NodeClass",
        "name": "foo",
    }
    document = json.loads(result["metadata"]["annotations"]["compatibility.karpenter.sh/v1beta1-nodeclass-reference"])
    assert document["name"] == "foo"


def test_v1b05_a_reference_without_name_is_refused() -> None:
    assert "nodeClassRef.name: is required" in problems(pool({f"{PLACE}nodeClassRef": {}}))[0]


def test_what_stays_as_it_is_stays() -> None:
    edits = {
        f"{PLACE}taints": [taint("a")],
        f"{PLACE}startupTaints": [taint("b", "NoExecute")],
        f"{PLACE}requirements": [term("karpenter.k8s.aws/instance-cpu", "Gt", "2"), term("team", "NotIn", "x")],
        "template/metadata": {"labels": {"team": "a"}, "annotations": {"owner": "b"}},
        "limits": {"cpu": "1000m", "memory": "1024Mi"},
        "weight": 10,
    }
    spec = pool_spec(edits)
    for path in (f"{PLACE}taints", f"{PLACE}startupTaints", f"{PLACE}requirements", "template/metadata"):
        value = spec
        for part in path.split("/"):
            value = value[part]
        assert value == edits[path]
    assert (spec["limits"], spec["weight"]) == (edits["limits"], 10)


def test_v1b06_there_was_no_grace_period() -> None:
    spec = pool_spec({f"{PLACE}terminationGracePeriod": "1h"})
    assert "terminationGracePeriod" not in spec["template"]["spec"]


def test_v1b10_the_hash_of_another_version_goes() -> None:
    annotations = {"karpenter.sh/nodepool-hash": "1", "karpenter.sh/nodepool-hash-version": "v2", "mine": "x"}
    (result,) = sound(pool(annotations=annotations))
    assert {"mine"} == {key for key in result["metadata"]["annotations"] if "compatibility" not in key}


def test_v1b07_a_nodeclaim_takes_the_expiry_of_its_pool() -> None:
    owned = claim(labels={"karpenter.sh/nodepool": "a"})
    assert sound(convert_nodeclaim(owned, {"a": "5h"}))[0]["spec"]["expireAfter"] == "5h"
    assert sound(convert_nodeclaim(owned, {"b": "5h"}))[0]["spec"]["expireAfter"] == "720h"
    assert sound(convert_nodeclaim(claim()))[0]["spec"]["expireAfter"] == "720h"


def test_v1b08_conditions_that_are_no_more_go() -> None:
    conditions = [
        {"type": kind, "status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z"}
        for kind in ("Launched", "Initialized", "Empty", "Drifted", "Expired")
    ]
    old = {**claim(), "status": {"providerID": "aws:///z/i-1", "conditions": conditions}}
    (result,) = sound(convert_nodeclaim(old))
    assert [c["type"] for c in result["status"]["conditions"]] == ["Launched", "Initialized", "Drifted"]
    assert result["status"]["providerID"] == "aws:///z/i-1"


def test_conditions_that_are_no_conditions_are_left_to_the_checks_of_v1() -> None:
    old = {**claim(), "status": {"conditions": [{"type": []}, 5]}}
    (manifest,) = convert_nodeclaim(old).manifests
    assert manifest["status"]["conditions"] == [{"type": []}, 5]


def test_v1b14_the_hop_limit_that_was_meant_is_written_out() -> None:
    assert class_spec({"metadataOptions": {"httpTokens": "required"}})["metadataOptions"] == {
        "httpTokens": "required",
        "httpPutResponseHopLimit": 2,
    }
    assert class_spec({"metadataOptions": {"httpPutResponseHopLimit": 5}})["metadataOptions"] == {
        "httpPutResponseHopLimit": 5
    }
    assert "metadataOptions" not in class_spec()


@pytest.mark.parametrize(
    ("family", "alias"),
    [
        ("AL2", "al2@latest"),
        ("AL2023", "al2023@latest"),
        ("Bottlerocket", "bottlerocket@latest"),
        ("Windows2019", "windows2019@latest"),
        ("Windows2022", "windows2022@latest"),
    ],
)
def test_v1b15_a_family_without_images_is_an_alias(family: str, alias: str) -> None:
    spec = class_spec({"amiFamily": family})
    assert spec["amiSelectorTerms"] == [{"alias": alias}]
    assert "amiFamily" not in spec


def test_v1b15_the_version_that_an_alias_had_is_kept() -> None:
    version = {"compatibility.karpenter.k8s.aws/v1-alias-version": "v20240807"}
    spec = sound(node_class(annotations=version))[0]["spec"]
    assert spec["amiSelectorTerms"] == [{"alias": "al2@v20240807"}]


def test_v1b14_a_family_with_images_stays() -> None:
    terms = [{"name": "my-ami", "owner": "self"}, {"id": "ami-1"}]
    spec = class_spec({"amiSelectorTerms": terms})
    assert (spec["amiFamily"], spec["amiSelectorTerms"]) == ("AL2", terms)


def test_v1b14_custom_needs_images_and_other_families_are_refused() -> None:
    assert problems(node_class({"amiFamily": "Custom"})) == ["spec.amiSelectorTerms: is required with amiFamily Custom"]
    assert "spec.amiFamily" in problems(node_class({"amiFamily": "Debian"}))[0]
    assert "spec.amiFamily: is required" in problems(node_class({"amiFamily": REMOVED}))[0]


def test_v1b12_custom_images_must_carry_the_taint_of_nodes_that_start() -> None:
    converted = node_class({"amiFamily": "Custom", "amiSelectorTerms": [{"id": "ami-1"}]})
    sound(converted)
    assert any("karpenter.sh/unregistered:NoExecute" in note for note in converted.notes)


def test_v1b16_ubuntu_with_images_is_set_up_as_al2() -> None:
    converted = node_class({"amiFamily": "Ubuntu", "amiSelectorTerms": [{"id": "ami-1"}]})
    (result,) = sound(converted)
    assert result["spec"]["amiFamily"] == "AL2"
    (volume,) = result["spec"]["blockDeviceMappings"]
    assert (volume["deviceName"], volume["ebs"]["volumeSize"]) == ("/dev/sda1", "20Gi")
    assert (volume["ebs"]["volumeType"], volume["ebs"]["encrypted"]) == ("gp3", True)
    marks = result["metadata"]["annotations"]["compatibility.karpenter.k8s.aws/v1beta1-ubuntu"]
    assert marks == "amiFamily,blockDeviceMappings"
    assert any("Ubuntu" in note for note in converted.notes)


def test_v1b16_ubuntu_without_images_is_not_launched_from() -> None:
    volumes = [{"deviceName": "/dev/sda1", "ebs": {"volumeSize": "50Gi"}}]
    (result,) = sound(node_class({"amiFamily": "Ubuntu", "blockDeviceMappings": volumes}))
    assert result["spec"]["blockDeviceMappings"] == volumes
    marks = result["metadata"]["annotations"]["compatibility.karpenter.k8s.aws/v1beta1-ubuntu"]
    assert marks == "amiFamily,incompatible"
    assert is_false(EC2NodeClass.model_validate(result).status.conditions, READY)


def test_fields_of_the_class_and_its_status_stay() -> None:
    edits: dict[str, Any] = {
        "blockDeviceMappings": [
            {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi", "volumeType": "gp3", "encrypted": True}}
        ],
        "detailedMonitoring": True,
        "tags": {"Env": "prd", "karpenter.sh/discovery": "foo"},
        "userData": "#!/bin/sh",
        "associatePublicIPAddress": False,
        "context": "c",
        "instanceStorePolicy": "RAID0",
    }
    status = {"subnets": [{"id": "subnet-1", "zone": "ap-northeast-1c"}], "instanceProfile": "p"}
    old = manifest("karpenter.k8s.aws/v1beta1", "EC2NodeClass", CLASS, edits)
    (result,) = sound(convert_nodeclass({**old, "status": status}))
    assert {name: result["spec"].get(name) for name in edits} == edits
    assert (result["spec"]["role"], result["status"]) == ("r", status)
