"""The node group that `tenon drain-node-group` shrinks, on a simulated account."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import boto3
import pytest

from cli.node_groups.group import GroupError, ScalingGroup
from tests.moto_account import moto_account

REGION = "us-west-2"


@pytest.fixture
def account() -> Iterator[Any]:
    with moto_account():
        session = boto3.Session(region_name=REGION)
        ec2 = session.client("ec2")
        image = ec2.describe_images()["Images"][0]["ImageId"]
        ec2.create_launch_template(
            LaunchTemplateName="web", LaunchTemplateData={"ImageId": image, "InstanceType": "m5.large"}
        )
        session.client("autoscaling").create_auto_scaling_group(
            AutoScalingGroupName="web",
            MinSize=2,
            MaxSize=4,
            DesiredCapacity=3,
            AvailabilityZones=["us-west-2a"],
            LaunchTemplate={"LaunchTemplateName": "web", "Version": "$Latest"},
        )
        yield session


def test_an_instance_ends_and_no_other_takes_its_place(account: Any) -> None:
    group = ScalingGroup.of("web", "", REGION)
    assert (group.minimum, group.desired, len(group.instances)) == (2, 3, 3)
    group.lower_minimum(0)
    first = group.instances[0]
    group.terminate(first)
    group.refresh()
    assert (group.minimum, group.desired) == (0, 2)
    assert first not in group.instances
    ec2 = account.client("ec2")
    reservations = ec2.describe_instances(Filters=[{"Name": "instance-id", "Values": [first]}])["Reservations"]
    states = {instance["State"]["Name"] for reservation in reservations for instance in reservation["Instances"]}
    assert states <= {"shutting-down", "terminated"}, "EC2 may not show it any more"


def test_zones_are_evened_out_again_only_when_the_drain_is_over(account: Any) -> None:
    def suspended() -> list[str]:
        groups = account.client("autoscaling").describe_auto_scaling_groups(AutoScalingGroupNames=["web"])
        return [item["ProcessName"] for item in groups["AutoScalingGroups"][0]["SuspendedProcesses"]]

    group = ScalingGroup.of("web", "", REGION)
    group.lower_minimum(1)
    assert suspended() == ["AZRebalance"]
    assert group.minimum == 1
    group.refresh()
    assert group.finish()
    assert suspended() == []


def test_a_process_that_was_suspended_before_the_drain_stays_so(account: Any) -> None:
    scaling = account.client("autoscaling")
    scaling.suspend_processes(AutoScalingGroupName="web", ScalingProcesses=["AZRebalance", "ReplaceUnhealthy"])

    def suspended() -> set[str]:
        groups = scaling.describe_auto_scaling_groups(AutoScalingGroupNames=["web"])
        return {item["ProcessName"] for item in groups["AutoScalingGroups"][0]["SuspendedProcesses"]}

    group = ScalingGroup.of("web", "", REGION)
    group.lower_minimum(1)
    group.refresh()
    assert not group.finish()
    assert suspended() == {"AZRebalance", "ReplaceUnhealthy"}


def test_a_minimum_that_is_low_enough_stays(account: Any) -> None:
    assert account
    group = ScalingGroup.of("web", "", REGION)
    group.lower_minimum(3)
    group.refresh()
    assert group.minimum == 2


def test_a_managed_group_has_its_minimum_lowered_at_eks_too(account: Any) -> None:
    eks, role = account.client("eks"), "arn:aws:iam::123456789012:role/nodes"
    subnet = account.client("ec2").describe_subnets()["Subnets"][0]["SubnetId"]
    eks.create_cluster(name="prod", roleArn=role, resourcesVpcConfig={"subnetIds": [subnet]})
    sizes = {"minSize": 2, "maxSize": 3, "desiredSize": 2}
    eks.create_nodegroup(
        clusterName="prod", nodegroupName="managed", nodeRole=role, subnets=[subnet], scalingConfig=sizes
    )

    def described() -> dict[str, Any]:
        group: dict[str, Any] = eks.describe_nodegroup(clusterName="prod", nodegroupName="managed")["nodegroup"]
        return group

    account.client("autoscaling").create_auto_scaling_group(
        AutoScalingGroupName=described()["resources"]["autoScalingGroups"][0]["name"],  # which EKS would have made
        MinSize=2,
        MaxSize=3,
        DesiredCapacity=2,
        AvailabilityZones=["us-west-2a"],
        LaunchTemplate={"LaunchTemplateName": "web", "Version": "$Latest"},
    )
    group = ScalingGroup.of("managed", "prod", REGION)
    assert len(group.instances) == 2
    group.lower_minimum(0)
    assert described()["scalingConfig"]["minSize"] == 0
    assert described()["scalingConfig"]["maxSize"] == 3
    group.refresh()
    assert group.minimum == 0


def test_a_group_that_does_not_exist_is_named(account: Any) -> None:
    assert account
    with pytest.raises(GroupError, match="called batch"):
        ScalingGroup.of("batch", "", REGION)


def test_a_cluster_that_does_not_exist_is_no_reason_to_take_an_auto_scaling_group(account: Any) -> None:
    with pytest.raises(GroupError, match="EKS has no cluster 'prodd'"):
        ScalingGroup.of("web", "prodd", REGION)
    subnet = account.client("ec2").describe_subnets()["Subnets"][0]["SubnetId"]
    role = "arn:aws:iam::123456789012:role/nodes"
    account.client("eks").create_cluster(name="prod", roleArn=role, resourcesVpcConfig={"subnetIds": [subnet]})
    assert ScalingGroup.of("web", "prod", REGION).cluster == ""
