"""The life of instances, and finding them."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.sandbox.ec2.conftest import Aws

pytestmark = pytest.mark.integration


def found(aws: Aws, **filters: str) -> list[str]:
    expectation = [{"Name": name.replace("_", "-"), "Values": [value]} for name, value in filters.items()]
    pages = aws.ec2.get_paginator("describe_instances").paginate(Filters=expectation)
    return [
        instance["InstanceId"] for page in pages for group in page["Reservations"] for instance in group["Instances"]
    ]


def free(aws: Aws) -> int:
    subnets = aws.ec2.describe_subnets(SubnetIds=[aws.subnets["us-west-2a"]])["Subnets"]
    return int(subnets[0]["AvailableIpAddressCount"])


def state(aws: Aws, instance_id: str) -> str:
    return str(aws.describe(instance_id)["State"]["Name"])


def test_an_instance_lives_through_its_states_and_is_gone_after_a_while(aws: Aws) -> None:
    addresses = free(aws)
    launch = aws.launch()
    assert state(aws, launch) == "pending"
    assert free(aws) == addresses - 1
    aws.clock.pass_(2)
    assert state(aws, launch) == "running"
    changes = aws.ec2.terminate_instances(InstanceIds=[launch])["TerminatingInstances"]
    assert changes[0]["PreviousState"]["Name"] == "running"
    assert state(aws, launch) == "shutting-down"
    aws.clock.pass_(3)
    assert state(aws, launch) == "terminated"
    assert free(aws) == addresses
    assert aws.ec2.describe_network_interfaces()["NetworkInterfaces"] == []
    assert aws.ec2.describe_volumes(Filters=[{"Name": "attachment.instance-id", "Values": [launch]}])["Volumes"] == []
    aws.clock.pass_(601)
    with pytest.raises(ClientError, match=r"InvalidInstanceID\.NotFound"):
        aws.describe(launch)


def test_terminating_twice_changes_nothing(aws: Aws) -> None:
    launch = aws.launch()
    aws.ec2.terminate_instances(InstanceIds=[launch])
    aws.clock.pass_(3)
    again = aws.ec2.terminate_instances(InstanceIds=[launch])["TerminatingInstances"][0]
    assert (again["PreviousState"]["Name"], again["CurrentState"]["Name"]) == ("terminated", "terminated")


def test_terminating_an_unknown_instance_is_not_found_and_harms_no_other(aws: Aws) -> None:
    launch = aws.launch()
    with pytest.raises(ClientError, match=r"InvalidInstanceID\.NotFound"):
        aws.ec2.terminate_instances(InstanceIds=[launch, "i-0123456789abcdef0"])
    assert state(aws, launch) == "pending"


def test_an_address_is_not_given_to_another_instance_at_once(aws: Aws) -> None:
    """The address is the node's name, and the old Node may still be leaving."""
    launch = aws.launch()
    address = aws.describe(launch)["PrivateIpAddress"]
    aws.ec2.terminate_instances(InstanceIds=[launch])
    aws.clock.pass_(5)
    assert aws.describe(aws.launch())["PrivateIpAddress"] != address


def test_a_full_subnet_reuses_freed_addresses(aws: Aws) -> None:
    subnet = aws.ec2.describe_subnets(SubnetIds=[aws.subnets["us-west-2d"]])["Subnets"][0]
    aws.ec2.delete_subnet(SubnetId=subnet["SubnetId"])
    small = aws.ec2.create_subnet(VpcId=subnet["VpcId"], CidrBlock="10.0.192.0/28", AvailabilityZone="us-west-2d")[
        "Subnet"
    ]["SubnetId"]
    override = {"InstanceType": "m7g.large", "SubnetId": small}
    full = aws.fleet(override, count=11)["Instances"][0]["InstanceIds"]
    assert aws.fleet(override)["Errors"][0]["ErrorCode"] == "InsufficientFreeAddressesInSubnet"
    aws.ec2.terminate_instances(InstanceIds=full[:1])
    aws.clock.pass_(3)
    assert aws.fleet(override)["Instances"]


def test_terminated_capacity_returns_to_its_pool(aws: Aws) -> None:
    aws.admin.capacity(1)
    launch = aws.launch()
    assert aws.fleet()["Instances"] == []
    aws.ec2.terminate_instances(InstanceIds=[launch])
    aws.clock.pass_(3)
    assert aws.fleet()["Instances"]


def test_filters_find_by_lifecycle_state_and_tag(aws: Aws) -> None:
    def tags(value: str) -> list[dict[str, Any]]:
        return [{"ResourceType": "instance", "Tags": [{"Key": "karpenter.sh/nodeclaim", "Value": value}]}]

    bought = aws.launch(TagSpecifications=tags("claim-a"))
    spot = aws.launch(TagSpecifications=tags("claim-b"), spot=True)
    assert found(aws, instance_lifecycle="spot") == [spot]
    assert found(aws, **{"tag:karpenter.sh/nodeclaim": "claim-a"}) == [bought]
    assert found(aws, **{"tag:karpenter.sh/nodeclaim": "claim-?"}) == [bought, spot]
    assert found(aws, tag_key="karpenter.sh/nodeclaim") == [bought, spot]
    aws.ec2.terminate_instances(InstanceIds=[spot])
    assert found(aws, instance_state_name="pending") == [bought]
    assert aws.describe(spot)["SpotInstanceRequestId"].startswith("sir-")


@pytest.mark.parametrize("call", ["describe_instances", "describe_subnets", "describe_security_groups"])
def test_an_unknown_filter_is_the_callers_mistake(aws: Aws, call: str) -> None:
    aws.launch()
    with pytest.raises(ClientError, match="InvalidParameterValue"):
        getattr(aws.ec2, call)(Filters=[{"Name": "no-such-filter", "Values": ["x"]}])
    assert aws.admin.health()["internal_errors"] == 0


def test_pages_hold_every_instance_once(aws: Aws) -> None:
    launched = set(aws.fleet(count=12)["Instances"][0]["InstanceIds"])
    pages = list(aws.ec2.get_paginator("describe_instances").paginate(PaginationConfig={"PageSize": 5}))
    ids = [
        instance["InstanceId"] for page in pages for group in page["Reservations"] for instance in group["Instances"]
    ]
    assert len(pages) == 3
    assert sorted(ids) == sorted(launched)
    with pytest.raises(ClientError, match="pagination token"):
        aws.ec2.describe_instances(NextToken="nonsense")


def test_tagging_an_unknown_instance_is_not_found(aws: Aws) -> None:
    with pytest.raises(ClientError, match=r"InvalidInstanceID\.NotFound"):
        aws.ec2.create_tags(Resources=["i-0123456789abcdef0"], Tags=[{"Key": "Name", "Value": "x"}])
    launch = aws.launch()
    aws.ec2.create_tags(Resources=[launch], Tags=[{"Key": "Name", "Value": "x"}])
    assert {"Key": "Name", "Value": "x"} in aws.describe(launch)["Tags"]
    with pytest.raises(ClientError, match="reserved"):
        aws.ec2.create_tags(Resources=[launch], Tags=[{"Key": "aws:mine", "Value": "x"}])


def test_run_instances_live_like_the_others(aws: Aws) -> None:
    answer = aws.ec2.run_instances(
        ImageId=aws.image(), InstanceType="m7g.large", MinCount=1, MaxCount=1, SubnetId=aws.subnets["us-west-2b"]
    )
    instance_id = answer["Instances"][0]["InstanceId"]
    aws.clock.pass_(2)
    assert state(aws, instance_id) == "running"
    assert aws.describe(instance_id)["Placement"]["AvailabilityZone"] == "us-west-2b"
