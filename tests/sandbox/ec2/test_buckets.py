"""The account's request limits, as EC2 documents them."""

from __future__ import annotations

import pytest
from botocore.exceptions import ClientError

from sandbox.ec2.buckets import Buckets
from tests.sandbox.ec2.conftest import Aws, Clock


def taken(buckets: Buckets, action: str, parameters: dict[str, str] | None = None, *, tries: int = 2000) -> int:
    """How many calls a bucket lets through at once."""
    for done in range(tries):
        if buckets.refused_by(action, parameters or {}):
            return done
    return tries


def instances(count: int) -> dict[str, str]:
    return {f"InstanceId.{number}": f"i-{number}" for number in range(1, count + 1)}


@pytest.mark.parametrize(
    ("action", "parameters", "burst", "refill"),
    [
        ("CreateFleet", {}, 50, 5),
        ("CreateLaunchTemplate", {}, 50, 5),
        ("TerminateInstances", {}, 50, 5),
        ("CreateTags", {}, 100, 10),
        ("DescribeInstances", {"Filter.1.Name": "instance-id"}, 100, 20),
        ("DescribeInstances", {"MaxResults": "1000"}, 100, 20),
        ("DescribeInstances", {}, 50, 10),
        ("DescribeInstances", {"InstanceId.1": "i-1"}, 50, 10),
        ("DescribeSubnets", {}, 100, 20),
    ],
)
def test_a_bucket_has_the_size_that_ec2_documents(
    action: str, parameters: dict[str, str], burst: int, refill: int
) -> None:
    clock = Clock()
    buckets = Buckets(clock)
    assert taken(buckets, action, parameters) == burst
    clock.pass_(1)
    assert taken(buckets, action, parameters) == refill
    clock.pass_(1_000)
    assert taken(buckets, action, parameters) == burst


def test_actions_have_buckets_of_their_own() -> None:
    buckets = Buckets(Clock())
    taken(buckets, "CreateFleet")
    assert not buckets.refused_by("CreateLaunchTemplate", {})


def test_launches_and_terminations_take_a_token_for_each_instance() -> None:
    buckets = Buckets(Clock())
    group = {"TargetCapacitySpecification.TotalTargetCapacity": "300"}
    assert taken(buckets, "CreateFleet", group) == 3
    assert taken(buckets, "TerminateInstances", instances(400)) == 2
    assert buckets.listing()["refused"] == {
        "RunInstances resource tokens": 1,
        "TerminateInstances resource tokens": 1,
    }


def test_a_refused_call_takes_nothing_from_its_other_buckets() -> None:
    buckets = Buckets(Clock())
    for _ in range(60):
        buckets.refused_by("CreateFleet", {"TargetCapacitySpecification.TotalTargetCapacity": "1001"})
    assert taken(buckets, "CreateFleet") == 50


@pytest.mark.integration
def test_the_limits_hold_unless_they_are_turned_off(aws: Aws) -> None:
    aws.server.world.buckets = Buckets(Clock())
    for _ in range(50):
        aws.ec2.describe_security_groups()
    with pytest.raises(ClientError) as refused:
        aws.ec2.describe_security_groups()
    assert refused.value.response["Error"]["Code"] == "RequestLimitExceeded"
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    bucket = "DescribeSecurityGroups without filter or pages"
    assert aws.admin.buckets() == {"enforced": True, "refused": {bucket: 1}}
    aws.admin.enforce_buckets(False)
    for _ in range(60):
        aws.ec2.describe_security_groups()
    aws.admin.enforce_buckets()
    assert aws.admin.buckets() == {"enforced": True, "refused": {}}
