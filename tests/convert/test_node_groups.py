"""``tenon convert --from-node-groups``: what it reads of files and of an account, and what it prints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import boto3
import pytest
import yaml
from typer.testing import CliRunner

from cli.converting.node_groups import Described, NodeGroupError, faults_of, read_account, read_descriptions
from cli.main import app
from tenon.manifests.faults import ManifestError
from tests.moto_account import moto_account

REGION = "us-west-2"
GROUP = {
    "nodegroupName": "web",
    "clusterName": "prod",
    "capacityType": "SPOT",
    "scalingConfig": {"minSize": 0, "maxSize": 4},
    "instanceTypes": ["m5.large"],
    "subnets": ["subnet-0a1b2c3d"],
    "amiType": "AL2023_x86_64_STANDARD",
    "releaseVersion": "1.33.1-20250715",
    "nodeRole": "arn:aws:iam::123456789012:role/nodes",
    "launchTemplate": {"id": "lt-1", "version": "1"},
}
CLUSTER = {"cluster": {"name": "prod", "resourcesVpcConfig": {"clusterSecurityGroupId": "sg-0a1b2c3d"}}}
VERSIONS = {
    "LaunchTemplateVersions": [
        {"LaunchTemplateId": "lt-1", "VersionNumber": 1, "LaunchTemplateData": {"Monitoring": {"Enabled": True}}}
    ]
}


def described(*texts: str) -> tuple[Described, list[str]]:
    faults: list[ManifestError] = []
    result = read_descriptions([(f"file{number}.json", text) for number, text in enumerate(texts)], faults)
    return result, [str(fault) for fault in faults]


def test_a_group_its_cluster_and_its_template_may_be_in_several_files_or_in_one() -> None:
    documents = [json.dumps(document, indent=2) for document in ({"nodegroup": GROUP}, CLUSTER, VERSIONS)]
    for texts in (documents, ["\n".join(documents)]):
        result, faults = described(*texts)
        assert faults == []
        (group,) = result.converted([])
        assert group.node_class["spec"]["securityGroupSelectorTerms"] == [{"id": "sg-0a1b2c3d"}]
        assert group.node_class["spec"]["detailedMonitoring"] is True


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("nodegroup: web", "is not JSON"),
        ('{"nodegroups": ["web"]}', "lists only names of node groups"),
        ('{"items": []}', "holds no node group"),
        ("[1]", "holds no node group"),
    ],
)
def test_other_files_are_refused_with_the_command_that_makes_the_right_one(text: str, fault: str) -> None:
    result, (sentence,) = described(text)
    assert fault in sentence
    assert "aws eks describe-nodegroup" in sentence
    assert result.converted([]) == []


@pytest.mark.parametrize("numbers", [(3, 5), (5, 3)])
def test_the_latest_version_of_a_template_is_the_greatest_that_was_read(numbers: tuple[int, int]) -> None:
    documents: list[dict[str, Any]] = [
        {
            "LaunchTemplateVersions": [
                {"LaunchTemplateId": "lt-1", "VersionNumber": n, "LaunchTemplateData": {"ImageId": f"ami-{n}"}}
            ]
        }
        for n in numbers
    ]
    documents += [
        {"nodegroup": {**GROUP, "nodegroupName": version, "launchTemplate": {"id": "lt-1", "version": version}}}
        for version in ("$Latest", "3")
    ]
    result, _ = described(*map(json.dumps, documents))
    images = [group.node_class["spec"]["amiSelectorTerms"] for group in result.converted([])]
    assert images == [[{"id": "ami-5"}], [{"id": "ami-3"}]]


@pytest.mark.parametrize(
    "document",
    [
        {"nodegroup": {**GROUP, "taints": [{"effect": "NO_SCHEDULE"}]}},
        {"nodegroup": {**GROUP, "scalingConfig": {"minSize": "x"}}},
        {"nodegroup": {**GROUP, "scalingConfig": {"minSize": float("inf")}}},
        {"nodegroup": {**GROUP, "labels": ["x"]}},
        {"nodegroup": {**GROUP, "instanceTypes": [{}]}},
        {"AutoScalingGroups": [1]},
        {"AutoScalingGroups": [{"AutoScalingGroupName": "a", "Tags": [{"Value": "x"}]}]},
        {"LaunchTemplateVersions": [1]},
        {"cluster": {"resourcesVpcConfig": ["x"]}},
    ],
)
def test_a_malformed_description_is_a_fault_and_the_others_are_converted(document: dict[str, Any]) -> None:
    faults: list[ManifestError] = []
    texts = [(f"{number}.json", json.dumps(body)) for number, body in enumerate((document, {"nodegroup": GROUP}))]
    groups = read_descriptions(texts, faults).converted(faults)
    assert [group.name for group in groups] == ["web"]
    (fault,) = faults
    assert "is not as AWS describes it" in str(fault)


def test_a_disk_without_a_device_is_a_fault_of_the_group(tmp_path: Path) -> None:
    disks = {"BlockDeviceMappings": [{"Ebs": {"VolumeSize": 3}}]}
    versions = [{"LaunchTemplateId": "lt-1", "VersionNumber": 1, "LaunchTemplateData": disks}]
    file = tmp_path / "web.json"
    file.write_text(json.dumps({"nodegroup": GROUP}) + json.dumps({"LaunchTemplateVersions": versions}))
    refused = CliRunner().invoke(app, ["convert", "--from-node-groups", "-f", str(file)])
    assert refused.exit_code == 2
    assert "node group web: is not as AWS describes it (no 'DeviceName')" in refused.stderr


def test_groups_whose_names_become_the_same_are_named() -> None:
    groups = [{"nodegroup": {**GROUP, "nodegroupName": name}} for name in ("Web_a", "batch", "web-a")]
    result, _ = described(*map(json.dumps, groups))
    (sentence,) = faults_of(result.converted([]))
    assert "node group web-a: NodePool web-a: node group Web_a has the same name" in sentence


def test_the_command_prints_manifests_with_comments_or_a_list(tmp_path: Path) -> None:
    file = tmp_path / "web.json"
    file.write_text(json.dumps({"nodegroup": GROUP}))
    printed = CliRunner().invoke(app, ["convert", "--from-node-groups", "-f", str(file)])
    assert printed.exit_code == 0, printed.output
    assert "# - launch template lt-1 was not read" in printed.stdout
    kinds = [body["kind"] for body in yaml.safe_load_all(printed.stdout)]
    assert kinds == ["EC2NodeClass", "NodePool"]
    listed = CliRunner().invoke(app, ["convert", "--from-node-groups", "-f", str(file), "-o", "json"])
    assert [item["kind"] for item in json.loads(listed.stdout)["items"]] == kinds
    assert "note: node group web: launch template lt-1 was not read" in listed.stderr


def test_options_that_do_not_go_together_are_refused(tmp_path: Path) -> None:
    for arguments in (["--from-node-groups"], ["--cluster", "prod"]):
        refused = CliRunner().invoke(app, ["convert", *arguments])
        assert refused.exit_code == 2
        assert "tenon convert: " in refused.stderr
    into_folder = ["convert", "--from-node-groups", "-f", "x", "--output-dir", str(tmp_path)]
    assert "redirect the output" in CliRunner().invoke(app, into_folder).stderr


@pytest.fixture
def account() -> Any:
    with moto_account():
        yield boto3.Session(region_name=REGION)


def test_an_account_has_managed_groups_and_auto_scaling_groups_of_the_cluster(account: Any) -> None:
    ec2, eks, scaling = (account.client(name) for name in ("ec2", "eks", "autoscaling"))
    subnet = ec2.describe_subnets()["Subnets"][0]["SubnetId"]
    data = {"InstanceType": "c5.large", "ImageId": ec2.describe_images()["Images"][0]["ImageId"]}
    template = ec2.create_launch_template(LaunchTemplateName="web", LaunchTemplateData=data)
    template_id = template["LaunchTemplate"]["LaunchTemplateId"]
    role = "arn:aws:iam::123456789012:role/nodes"
    eks.create_cluster(name="prod", roleArn=role, resourcesVpcConfig={"subnetIds": [subnet]})
    eks.create_nodegroup(
        clusterName="prod",
        nodegroupName="web",
        nodeRole=role,
        subnets=[subnet],
        scalingConfig={"minSize": 1, "maxSize": 3, "desiredSize": 1},
        launchTemplate={"id": template_id, "version": "1"},
    )
    for name, tag in (("own", "kubernetes.io/cluster/prod"), ("other", "kubernetes.io/cluster/test")):
        scaling.create_auto_scaling_group(
            AutoScalingGroupName=name,
            MinSize=0,
            MaxSize=2,
            VPCZoneIdentifier=subnet,
            LaunchTemplate={"LaunchTemplateName": "web", "Version": "$Latest"},
            Tags=[{"Key": tag, "Value": "owned", "PropagateAtLaunch": True}],
        )
    groups = {group.name: group for group in read_account("prod", REGION).converted([])}
    assert set(groups) == {"web", "own"}
    for group in groups.values():
        requirements = group.node_pool["spec"]["template"]["spec"]["requirements"]
        assert {"key": "node.kubernetes.io/instance-type", "operator": "In", "values": ["c5.large"]} in requirements
    assert groups["web"].node_pool["spec"]["limits"] == {"nodes": "3"}


def test_a_cluster_that_does_not_exist_is_named(account: Any) -> None:
    assert account
    with pytest.raises(NodeGroupError, match="prod"):
        read_account("prod", REGION)
