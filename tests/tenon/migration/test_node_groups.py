"""Node groups as NodePools and EC2NodeClasses."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from tenon.manifests.checking import check
from tenon.migration.node_group_manifests import Account, ConvertedGroup, object_name
from tenon.migration.node_groups import family_of, of_auto_scaling, of_managed

ROLE = "arn:aws:iam::123456789012:role/eks/prod-nodes"


def managed(**changes: Any) -> dict[str, Any]:
    return {
        "nodegroupName": "web",
        "clusterName": "prod",
        "releaseVersion": "1.33.1-20250715",
        "capacityType": "ON_DEMAND",
        "scalingConfig": {"minSize": 0, "maxSize": 10, "desiredSize": 4},
        "instanceTypes": ["m5.large"],
        "subnets": ["subnet-0a1b2c3d"],
        "amiType": "AL2023_x86_64_STANDARD",
        "nodeRole": ROLE,
        **changes,
    }


def converted(group: dict[str, Any], **account: Any) -> ConvertedGroup:
    """The group's manifests, which `tenon validate` accepts."""
    convert = of_auto_scaling if "AutoScalingGroupName" in group else of_managed
    result = convert(group, Account(cluster="prod", **account))
    texts = [("group", json.dumps(body)) for body in (result.node_class, result.node_pool)]
    assert check(texts).faults == []
    return result


def requirement(result: ConvertedGroup, key: str) -> list[str] | None:
    requirements = result.node_pool["spec"]["template"]["spec"]["requirements"]
    return next((item["values"] for item in requirements if item["key"] == key), None)


@pytest.mark.parametrize(
    ("ami_type", "device"),
    [
        ("AL2023_x86_64_STANDARD", "/dev/xvda"),
        ("AL2_x86_64", "/dev/xvda"),
        ("BOTTLEROCKET_ARM_64", "/dev/xvdb"),
        ("WINDOWS_CORE_2022_x86_64", "/dev/sda1"),
        ("CUSTOM", "/dev/xvda"),
    ],
)
def test_the_disk_of_a_group_is_the_device_that_its_family_gives_to_pods(ami_type: str, device: str) -> None:
    spec = converted(managed(amiType=ami_type, diskSize=50)).node_class["spec"]
    volume = {"volumeSize": "50Gi", "volumeType": "gp3"}
    assert spec["blockDeviceMappings"] == [{"deviceName": device, "ebs": volume}]


def test_a_managed_group_keeps_types_labels_taints_sizes_and_network() -> None:
    taint = {"key": "web", "value": "true", "effect": "NO_EXECUTE"}
    group = managed(labels={"team": "web", "eks.amazonaws.com/nodegroup": "web"}, taints=[taint], diskSize=50)
    result = converted(group, security_group="sg-0a1b2c3d")
    template = result.node_pool["spec"]["template"]
    assert template["metadata"]["labels"] == {"team": "web"}
    assert template["spec"]["taints"] == [{"key": "web", "value": "true", "effect": "NoExecute"}]
    assert result.node_pool["spec"]["limits"] == {"nodes": "10"}
    assert requirement(result, "node.kubernetes.io/instance-type") == ["m5.large"]
    assert requirement(result, "karpenter.sh/capacity-type") == ["on-demand"]
    spec = result.node_class["spec"]
    assert spec["role"] == "prod-nodes"
    assert spec["amiSelectorTerms"] == [{"alias": "al2023@v20250715"}], "no node drifts because of the move"
    assert spec["subnetSelectorTerms"] == [{"id": "subnet-0a1b2c3d"}]
    assert spec["securityGroupSelectorTerms"] == [{"id": "sg-0a1b2c3d"}]
    assert spec["blockDeviceMappings"][0]["ebs"]["volumeSize"] == "50Gi"


def test_a_minimum_is_a_static_pool_if_it_is_the_maximum_too_else_a_note() -> None:
    static = converted(managed(scalingConfig={"minSize": 3, "maxSize": 3}))
    assert static.node_pool["spec"]["replicas"] == 3
    assert any("StaticCapacity" in note for note in static.notes)
    floor = converted(managed(scalingConfig={"minSize": 2, "maxSize": 5}))
    assert "replicas" not in floor.node_pool["spec"]
    assert any("minimum of 2" in note for note in floor.notes)


@pytest.mark.parametrize(
    ("ami_type", "family", "architecture"),
    [
        ("AL2_x86_64", "AL2", "amd64"),
        ("AL2023_ARM_64_STANDARD", "AL2023", "arm64"),
        ("AL2023_x86_64_NVIDIA", "AL2023", "amd64"),
        ("BOTTLEROCKET_ARM_64", "Bottlerocket", "arm64"),
        ("WINDOWS_CORE_2019_x86_64", "Windows2019", "amd64"),
        ("CUSTOM", "", ""),
    ],
)
def test_the_ami_type_says_family_and_architecture(ami_type: str, family: str, architecture: str) -> None:
    assert family_of(ami_type) == (family, architecture)


def test_releases_become_versions_of_aliases() -> None:
    rocket = converted(managed(amiType="BOTTLEROCKET_x86_64", releaseVersion="1.20.3-5d9ac849"))
    assert rocket.node_class["spec"]["amiSelectorTerms"] == [{"alias": "bottlerocket@v1.20.3"}]
    windows = converted(managed(amiType="WINDOWS_FULL_2022_x86_64", releaseVersion="1.33-2025.07.09"))
    assert windows.node_class["spec"]["amiSelectorTerms"] == [{"alias": "windows2022@latest"}]
    assert requirement(windows, "kubernetes.io/os") == ["windows"]
    odd = converted(managed(releaseVersion="ami-0123"))
    assert odd.node_class["spec"]["amiSelectorTerms"] == [{"alias": "al2023@latest"}]
    assert any("drift" in note for note in odd.notes)


def test_a_launch_template_says_image_disks_groups_and_user_data() -> None:
    data = {
        "ImageId": "ami-0123456789abcdef0",
        "InstanceType": "c5.xlarge",
        "SecurityGroupIds": ["sg-0a1b2c3d"],
        "UserData": base64.b64encode(b"#!/bin/bash\necho hello\n").decode(),
        "BlockDeviceMappings": [
            {"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 100, "VolumeType": "gp3", "Encrypted": True}}
        ],
        "MetadataOptions": {"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        "KeyName": "me",
    }
    group = managed(
        amiType="CUSTOM", instanceTypes=[], releaseVersion="", launchTemplate={"id": "lt-1", "version": "3"}
    )
    result = converted(group, templates={"lt-1:3": data})
    spec = result.node_class["spec"]
    assert (spec["amiFamily"], spec["amiSelectorTerms"]) == ("Custom", [{"id": "ami-0123456789abcdef0"}])
    assert spec["securityGroupSelectorTerms"] == [{"id": "sg-0a1b2c3d"}]
    assert spec["userData"] == "#!/bin/bash\necho hello\n"
    assert spec["blockDeviceMappings"] == [
        {"deviceName": "/dev/xvda", "ebs": {"volumeSize": "100Gi", "volumeType": "gp3", "encrypted": True}}
    ]
    assert spec["metadataOptions"] == {"httpTokens": "required", "httpPutResponseHopLimit": 1}
    assert requirement(result, "node.kubernetes.io/instance-type") == ["c5.xlarge"]
    assert any("SSH key me" in note for note in result.notes)


def test_a_launch_template_that_was_not_read_is_a_note_and_not_a_guess_in_silence() -> None:
    result = converted(managed(launchTemplate={"name": "web", "version": "1"}))
    assert any("launch template web was not read" in note for note in result.notes)


def test_an_auto_scaling_group_says_labels_and_taints_in_its_tags() -> None:
    group = {
        "AutoScalingGroupName": "Batch_Workers",
        "MinSize": 0,
        "MaxSize": 8,
        "VPCZoneIdentifier": "subnet-0a1b2c3d,subnet-0d4e5f6a",
        "MixedInstancesPolicy": {
            "LaunchTemplate": {
                "LaunchTemplateSpecification": {"LaunchTemplateId": "lt-1", "Version": "1"},
                "Overrides": [{"InstanceType": "m5.large"}, {"InstanceType": "m5a.large"}],
            },
            "InstancesDistribution": {"OnDemandBaseCapacity": 1, "OnDemandPercentageAboveBaseCapacity": 20},
        },
        "Tags": [
            {"Key": "k8s.io/cluster-autoscaler/node-template/label/team", "Value": "batch"},
            {"Key": "k8s.io/cluster-autoscaler/node-template/taint/batch", "Value": "yes:NoSchedule"},
            {"Key": "kubernetes.io/cluster/prod", "Value": "owned"},
            {"Key": "cost", "Value": "42"},
        ],
    }
    data = {"IamInstanceProfile": {"Name": "batch-nodes"}, "ImageId": "ami-0123456789abcdef0"}
    result = converted(group, templates={"lt-1:1": data})
    assert result.node_pool["metadata"]["name"] == "batch-workers"
    template = result.node_pool["spec"]["template"]
    assert template["metadata"]["labels"] == {"team": "batch"}
    assert template["spec"]["taints"] == [{"key": "batch", "value": "yes", "effect": "NoSchedule"}]
    assert requirement(result, "karpenter.sh/capacity-type") == ["spot", "on-demand"]
    assert any("20 %" in note for note in result.notes)
    spec = result.node_class["spec"]
    assert spec["instanceProfile"] == "batch-nodes"
    assert "role" not in spec
    assert spec["tags"] == {"cost": "42"}
    assert [term["id"] for term in spec["subnetSelectorTerms"]] == ["subnet-0a1b2c3d", "subnet-0d4e5f6a"]


def test_a_label_that_no_nodepool_may_set_is_left_out_and_named() -> None:
    result = converted(managed(labels={"karpenter.sh/own": "x"}))
    assert "metadata" not in result.node_pool["spec"]["template"]
    assert any("karpenter.sh/own" in note for note in result.notes)


@pytest.mark.parametrize(("name", "expected"), [("Web_Nodes", "web-nodes"), ("--", "node-group"), ("a" * 80, "a" * 63)])
def test_every_group_has_a_name_that_kubernetes_accepts(name: str, expected: str) -> None:
    assert object_name(name) == expected


@pytest.mark.parametrize(
    ("role", "suggested"),
    [
        ("prod-nodes", "KarpenterNodeRole-prod"),
        ("KarpenterNodeRole-other", "KarpenterNodeRole-prod"),
        ("KarpenterNodeRole-prod", None),
        ("WindowsNodeRole-prod", None),
    ],
)
def test_a_role_that_the_workers_policy_does_not_let_it_pass_is_a_note(role: str, suggested: str | None) -> None:
    """The policy is deploy/iam/controller-policy.json. The role stays, because its nodes join today."""
    result = converted(managed(nodeRole=f"arn:aws:iam::123456789012:role/eks/{role}"))
    assert result.node_class["spec"]["role"] == role
    notes = [note for note in result.notes if "PassNodeRole" in note]
    assert len(notes) == (1 if suggested else 0)
    assert all(role in note and f"use the role {suggested}" in note for note in notes)


def test_windows_nodes_are_pointed_to_the_role_that_lets_them_join() -> None:
    result = converted(managed(amiType="WINDOWS_CORE_2022_x86_64"))
    assert any("use the role WindowsNodeRole-prod" in note for note in result.notes)


def test_an_instance_profile_hides_its_role_so_a_note_names_the_right_to_pass_it() -> None:
    group = {"AutoScalingGroupName": "batch", "LaunchTemplate": {"LaunchTemplateId": "lt-1", "Version": "1"}}
    data = {"IamInstanceProfile": {"Arn": "arn:aws:iam::123456789012:instance-profile/batch-nodes"}}
    result = converted(group, templates={"lt-1:1": data})
    assert result.node_class["spec"]["instanceProfile"] == "batch-nodes"
    (note,) = [note for note in result.notes if "PassNodeRole" in note]
    assert "instance profile batch-nodes" in note
    assert "KarpenterNodeRole-prod" in note
