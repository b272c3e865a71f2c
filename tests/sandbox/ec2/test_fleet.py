"""CreateFleet as EC2 answers it: what the launch activity of a NodeClaim relies on."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.sandbox.ec2.conftest import TEMPLATE, Aws

pytestmark = pytest.mark.integration


def failures(answer: Any) -> list[tuple[str, str]]:
    return [
        (error["ErrorCode"], error["LaunchTemplateAndOverrides"]["Overrides"]["InstanceType"])
        for error in answer["Errors"]
    ]


def test_the_cheapest_type_is_bought_whatever_the_order_of_the_overrides(aws: Aws) -> None:
    answer = aws.fleet({"InstanceType": "m7g.2xlarge"}, {"InstanceType": "c7g.large"}, {"InstanceType": "m7g.large"})
    assert [(instance["InstanceType"], instance["Lifecycle"]) for instance in answer["Instances"]] == [
        ("c7g.large", "on-demand")
    ]
    assert answer["Errors"] == []


def test_priority_outranks_price_when_prioritized(aws: Aws) -> None:
    answer = aws.fleet(
        {"InstanceType": "c7g.large", "Priority": 2.0},
        {"InstanceType": "m7g.2xlarge", "Priority": 1.0},
        OnDemandOptions={"AllocationStrategy": "prioritized"},
    )
    assert answer["Instances"][0]["InstanceType"] == "m7g.2xlarge"


def test_insufficient_capacity_is_reported_for_each_pool_before_the_next_is_used(aws: Aws) -> None:
    """AWS-040: the codes that mark an offering unavailable come in ``Errors``, the call itself succeeds."""
    aws.admin.capacity(0, type="c7g.large")
    answer = aws.fleet({"InstanceType": "c7g.large"}, {"InstanceType": "m7g.large"})
    assert answer["Instances"][0]["InstanceType"] == "m7g.large"
    assert failures(answer) == [("InsufficientInstanceCapacity", "c7g.large")]
    assert answer["Errors"][0]["LaunchTemplateAndOverrides"]["Overrides"]["AvailabilityZone"] == "us-west-2a"


def test_a_fleet_without_any_capacity_answers_with_errors_alone(aws: Aws) -> None:
    aws.admin.capacity(0, capacity_type="spot")
    answer = aws.fleet({"InstanceType": "c7g.large"}, {"InstanceType": "m7g.large"}, spot=True)
    assert answer["Instances"] == []
    assert len(failures(answer)) == 2
    assert aws.fleet({"InstanceType": "c7g.large"})["Instances"], "on-demand is another pool"


def test_a_quota_limits_the_families_that_share_it_for_one_capacity_type(aws: Aws) -> None:
    aws.admin.quota("m7g.large", 3)
    assert aws.fleet({"InstanceType": "c7g.large"})["Instances"]
    answer = aws.fleet({"InstanceType": "c7g.large"}, {"InstanceType": "g5g.xlarge"})
    assert failures(answer) == [("VcpuLimitExceeded", "c7g.large")]
    assert answer["Instances"][0]["InstanceType"] == "g5g.xlarge"
    assert aws.fleet({"InstanceType": "c7g.large"}, spot=True)["Instances"]
    aws.admin.quota("g5.xlarge", 0, capacity_type="spot")
    answer = aws.fleet({"InstanceType": "g5g.xlarge"}, spot=True)
    assert failures(answer) == [("MaxSpotInstanceCountExceeded", "g5g.xlarge")]


def test_scarce_capacity_is_shared_out_and_grouped_by_override(aws: Aws) -> None:
    aws.admin.capacity(2, type="c7g.large", zone="us-west-2a")
    answer = aws.fleet({"InstanceType": "c7g.large"}, {"InstanceType": "m7g.large"}, count=5)
    assert [(instance["InstanceType"], len(instance["InstanceIds"])) for instance in answer["Instances"]] == [
        ("c7g.large", 2),
        ("m7g.large", 3),
    ]


def test_spot_prefers_a_pool_that_can_serve_the_whole_request(aws: Aws) -> None:
    aws.admin.capacity(1, type="c7g.large")
    wish: dict[str, Any] = {"SpotOptions": {"AllocationStrategy": "price-capacity-optimized"}}
    answer = aws.fleet({"InstanceType": "c7g.large"}, {"InstanceType": "m7g.large"}, count=2, spot=True, **wish)
    assert [(instance["InstanceType"], len(instance["InstanceIds"])) for instance in answer["Instances"]] == [
        ("m7g.large", 2)
    ]


def test_a_token_used_twice_gives_the_same_instances(aws: Aws) -> None:
    first = aws.fleet(ClientToken="one")
    second = aws.fleet(ClientToken="one")
    assert second["FleetId"] == first["FleetId"]
    assert second["Instances"] == first["Instances"]
    assert len(aws.admin.instances()) == 1


def test_a_token_with_other_parameters_is_refused(aws: Aws) -> None:
    aws.fleet(ClientToken="one")
    with pytest.raises(ClientError, match="IdempotentParameterMismatch"):
        aws.fleet(count=2, ClientToken="one")
    assert len(aws.admin.instances()) == 1


def test_the_launch_template_reaches_the_instance(aws: Aws) -> None:
    aws.ec2.delete_launch_template(LaunchTemplateName=TEMPLATE)
    aws.template(
        IamInstanceProfile={"Name": "KarpenterNodeRole-sandbox"},
        MetadataOptions={"HttpTokens": "required", "HttpPutResponseHopLimit": 1},
        BlockDeviceMappings=[{"DeviceName": "/dev/xvda", "Ebs": {"VolumeSize": 42, "VolumeType": "gp3"}}],
        Monitoring={"Enabled": True},
    )
    description = aws.describe(aws.launch())
    assert description["PrivateDnsName"] == "ip-10-0-0-4.us-west-2.compute.internal"
    assert description["Architecture"] == "arm64"
    assert [group["GroupId"] for group in description["SecurityGroups"]] == [aws.group]
    assert [group["GroupId"] for group in description["NetworkInterfaces"][0]["Groups"]] == [aws.group]
    assert description["IamInstanceProfile"]["Arn"].endswith("instance-profile/KarpenterNodeRole-sandbox")
    assert description["MetadataOptions"]["HttpTokens"] == "required"
    assert description["Monitoring"]["State"] == "enabled"
    volume = aws.ec2.describe_volumes(VolumeIds=[description["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]])["Volumes"][
        0
    ]
    assert (volume["Size"], volume["VolumeType"]) == (42, "gp3")


def test_an_interface_has_ipv6_addresses_or_prefixes(aws: Aws) -> None:
    """As EC2 refused it to users of Karpenter (pull request 9201)."""
    interface = {"DeviceIndex": 0, "Groups": [aws.group], "Ipv6AddressCount": 1, "Ipv6PrefixCount": 1}
    aws.template("both", NetworkInterfaces=[interface])
    specification = {"LaunchTemplateName": "both", "Version": "$Latest"}
    rows = [{"SubnetId": aws.subnets["us-west-2a"], "InstanceType": "m7g.large"}]
    answer = aws.fleet(LaunchTemplateConfigs=[{"LaunchTemplateSpecification": specification, "Overrides": rows}])
    assert failures(answer) == [("InvalidParameterValue", "m7g.large")]


def test_tags_reach_instances_volumes_and_fleets_next_to_the_system_tags(aws: Aws) -> None:
    def tags(kind: str) -> dict[str, Any]:
        return {"ResourceType": kind, "Tags": [{"Key": "kind", "Value": kind}]}

    answer = aws.fleet(TagSpecifications=[tags("instance"), tags("volume"), tags("fleet")])
    description = aws.describe(answer["Instances"][0]["InstanceIds"][0])
    values = {tag["Key"]: tag["Value"] for tag in description["Tags"]}
    assert values["kind"] == "instance"
    assert values["aws:ec2:fleet-id"] == answer["FleetId"]
    assert values["aws:ec2launchtemplate:version"] == "1"
    volume = aws.ec2.describe_volumes(VolumeIds=[description["BlockDeviceMappings"][0]["Ebs"]["VolumeId"]])["Volumes"][
        0
    ]
    assert volume["Tags"] == [{"Key": "kind", "Value": "volume"}]
    fleets = aws.ec2.describe_fleets(FleetIds=[answer["FleetId"]])["Fleets"]
    assert fleets[0]["Tags"] == [{"Key": "kind", "Value": "fleet"}]


@pytest.mark.parametrize(
    ("override", "code"),
    [
        ({"InstanceType": "zz9.large"}, "InvalidParameterValue"),
        ({"InstanceType": "m5.large"}, "InvalidParameterValue"),  # x86 type, arm64 image
        ({"InstanceType": "m7g.large", "SubnetId": "subnet-0123456789abcdef0"}, "InvalidSubnetID.NotFound"),
        ({"InstanceType": "mac2.metal"}, "InvalidFleetConfiguration"),  # no price
        ({"InstanceType": "m7g.large", "ImageId": "ami-0123456789abcdef0"}, "InvalidAMIID.NotFound"),
    ],
)
def test_an_offer_that_makes_no_sense_fails_alone(aws: Aws, override: dict[str, Any], code: str) -> None:
    answer = aws.fleet(override, {"InstanceType": "m7g.4xlarge"})
    assert [error["ErrorCode"] for error in answer["Errors"]] == [code]
    assert answer["Instances"][0]["InstanceType"] == "m7g.4xlarge"


def test_aws077_a_network_card_has_only_as_many_places_as_ec2_says(aws: Aws) -> None:
    """An m7g.large has three."""
    for device, launched in ((2, 1), (3, 0)):
        interfaces = [{"DeviceIndex": 0, "Groups": [aws.group]}, {"DeviceIndex": device, "Groups": [aws.group]}]
        aws.template(f"device-{device}", NetworkInterfaces=interfaces)
        configs = [
            {
                "LaunchTemplateSpecification": {"LaunchTemplateName": f"device-{device}", "Version": "$Latest"},
                "Overrides": [{"InstanceType": "m7g.large", "SubnetId": aws.subnets["us-west-2a"]}],
            }
        ]
        answer = aws.fleet(LaunchTemplateConfigs=configs)
        assert len(answer["Instances"]) == launched
    (error,) = answer["Errors"]
    assert error["ErrorCode"] == "InvalidParameterValue"
    assert "'3' for the device index" in error["ErrorMessage"]


def test_an_unknown_instance_profile_is_refused(aws: Aws) -> None:
    aws.template("other", IamInstanceProfile={"Name": "nobody"})
    configs = [
        {
            "LaunchTemplateSpecification": {"LaunchTemplateName": "other", "Version": "$Latest"},
            "Overrides": [{"InstanceType": "m7g.large", "SubnetId": aws.subnets["us-west-2a"]}],
        }
    ]
    answer = aws.fleet(LaunchTemplateConfigs=configs)
    assert answer["Instances"] == []
    assert "Invalid IAM Instance Profile name" in answer["Errors"][0]["ErrorMessage"]


def test_an_unknown_launch_template_fails_the_call(aws: Aws) -> None:
    aws.ec2.delete_launch_template(LaunchTemplateName=TEMPLATE)
    with pytest.raises(ClientError, match=r"InvalidLaunchTemplateName\.NotFoundException"):
        aws.fleet()


def test_dry_run_launches_nothing(aws: Aws) -> None:
    with pytest.raises(ClientError, match="DryRunOperation"):
        aws.fleet(DryRun=True)
    assert aws.admin.instances() == []


def test_a_full_subnet_is_said_so(aws: Aws) -> None:
    """AWS-043: the subnet is out of addresses, not the type out of capacity."""
    vpc = next(
        subnet["VpcId"]
        for subnet in aws.ec2.describe_subnets()["Subnets"]
        if subnet["SubnetId"] in aws.subnets.values()
    )
    aws.ec2.delete_subnet(SubnetId=aws.subnets["us-west-2d"])
    small = aws.ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.192.0/28", AvailabilityZone="us-west-2d")["Subnet"]
    answer = aws.fleet({"InstanceType": "m7g.large", "SubnetId": small["SubnetId"]}, count=12)
    assert [error["ErrorCode"] for error in answer["Errors"]] == ["InsufficientFreeAddressesInSubnet"]
