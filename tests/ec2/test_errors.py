"""What EC2's error codes mean."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError
from prometheus_client import REGISTRY

from activities.ec2.errors import EC2Error, ThrottledError, translated
from tenon.ec2.refusals import errors
from tenon.ec2.refusals.backoff import Backoff
from tenon.ec2.refusals.errors import reason_for, unavailable_offerings
from tenon.ec2.refusals.scopes import SPOT_ROLE_MISSING, SUBNET_FULL
from tenon.ec2.refusals.unavailable import refused_now
from tenon.kube.offerings import OfferingKey

SOLD = ("reserved", "spot", "on-demand")
TRIED = [("m5.large", "us-west-2a"), ("m5.large", "us-west-2b"), ("c5.large", "us-west-2a")]


def refused(code: str, **override: str) -> dict[str, Any]:
    return {"ErrorCode": code, "LaunchTemplateAndOverrides": {"Overrides": override}}


def keys(*failures: dict[str, Any]) -> list[OfferingKey]:
    result = unavailable_offerings(failures, "spot", TRIED)
    return [offering.key for offering in result]


@pytest.mark.parametrize(
    "code",
    [
        "InsufficientInstanceCapacity",
        "UnfulfillableCapacity",
        "Unsupported",
        "InvalidFleetConfiguration",
        "ReservationCapacityExceeded",
        "SpotMaxPriceTooLow",
    ],
)
def test_n15_406_capacity_codes_rule_out_their_offering(code: str) -> None:
    """AWS-040, AWS-041."""
    failure = refused(code, InstanceType="m5.large", AvailabilityZone="us-west-2a")
    assert keys(failure, failure) == [OfferingKey("spot", "m5.large", "us-west-2a")]


@pytest.mark.parametrize(
    ("strategy", "message", "ruled_out"),
    [
        ("spread", "the limit of 7 instances for placement group pg-1", {(offers, "") for offers in SOLD}),
        ("spread", "no capacity for this type", {("spot", "m5.large")}),
        ("cluster", "Placement group pg-1 is in use in another zone", {("spot", "m5.large")}),
    ],
    ids=["full", "no capacity", "another strategy"],
)
def test_aws041_aws044_a_refusal_in_a_placement_group_is_about_the_group(
    strategy: str, message: str, ruled_out: set[tuple[str, str]]
) -> None:
    failure = refused("InsufficientInstanceCapacity", InstanceType="m5.large", AvailabilityZone="us-west-2a")
    result = unavailable_offerings([failure | {"ErrorMessage": message}], "spot", TRIED, None, "pg-1", strategy)
    assert {item.key for item in result} == {
        OfferingKey(*key, "us-west-2a", "placement-group", "pg-1") for key in ruled_out
    }


@pytest.mark.parametrize(
    ("code", "scope"),
    [
        ("ReservationCapacityExceeded", "full-reservation"),
        ("InsufficientInstanceCapacity", "reservation"),
        ("InvalidCapacityReservationState.Unavailable", "reservation"),
    ],
)
def test_n15_404_n15_405_n15_406_a_refused_reserved_launch_is_about_its_reservation(code: str, scope: str) -> None:
    """One that is full counts as full, not as unavailable, so that a node in it may still give its place back."""
    place = ("m5.large", "us-west-2a")
    failure = refused(code, InstanceType=place[0], AvailabilityZone=place[1])
    (result,) = unavailable_offerings([failure], "reserved", [place], {place: "cr-1"})
    assert result.key == OfferingKey("reserved", "", "us-west-2a", scope, "cr-1")  # type: ignore[arg-type]


def test_n15_405_a_full_reservation_counts_as_full_until_its_places_are_counted_again() -> None:
    full = OfferingKey.of_full_reservation("reserved", "us-west-2a", "cr-1")
    now = datetime(2026, 11, 21, 12, tzinfo=UTC)
    assert refused_now(full, now) == Backoff(now + timedelta(minutes=1))
    reserved = OfferingKey.refusable("reserved", "m5.large", "us-west-2a", "cr-1")
    assert refused_now(reserved, now) == Backoff(now + timedelta(minutes=3), now, 1)


def test_other_codes_rule_out_nothing() -> None:
    """A mistake in the class must not be taken for lack of capacity."""
    assert keys(refused("InvalidParameterValue", InstanceType="m5.large", AvailabilityZone="us-west-2a")) == []


def test_an_error_without_a_zone_rules_out_the_type_everywhere() -> None:
    assert {key.zone for key in keys(refused("Unsupported", InstanceType="m5.large"))} == {
        "us-west-2a",
        "us-west-2b",
    }


@pytest.mark.parametrize(
    ("override", "full"),
    [
        ({"SubnetId": "subnet-x", "InstanceType": "m5.large", "AvailabilityZone": "us-west-2a"}, {"subnet-x"}),
        ({"InstanceType": "m5.large", "AvailabilityZone": "us-west-2b"}, {"subnet-b"}),
        ({"AvailabilityZone": "us-west-2a"}, {"subnet-a"}),
        ({}, {"subnet-a", "subnet-b"}),
    ],
)
def test_aws043_a_subnet_without_addresses_rules_out_no_offering(override: dict[str, str], full: set[str]) -> None:
    tried = {(name, zone): f"subnet-{zone[-1]}" for name, zone in TRIED}
    failure = refused(SUBNET_FULL, **override)
    assert keys(failure) == []
    assert errors.full_subnets([failure, refused("Unsupported", InstanceType="m5.large")], tried) == full


def test_a_missing_spot_role_rules_out_all_of_spot() -> None:
    """AWS-042: also the types that were not tried; one key says so."""
    assert keys(refused(SPOT_ROLE_MISSING)) == [OfferingKey("spot", "", "")]


USER = "User: arn:aws:sts::123456789012:assumed-role/tenon/pod is not authorized to perform: "


@pytest.mark.parametrize(
    ("operation", "code", "message", "says"),
    [
        (
            "DescribeSubnets",
            "UnauthorizedOperation",
            f"You are not authorized to perform this operation. {USER}ec2:DescribeSubnets because no identity-based "
            "policy allows the ec2:DescribeSubnets action",
            "AWS refused ec2:DescribeSubnets (UnauthorizedOperation): allow ec2:DescribeSubnets in the IAM policy of "
            "Tenon's role",
        ),
        (
            "CreateLaunchTemplate",
            "UnauthorizedOperation",
            "You are not authorized to perform this operation. Encoded authorization failure message: 4fGhJ",
            "AWS refused ec2:CreateLaunchTemplate (UnauthorizedOperation): allow ec2:CreateLaunchTemplate in the IAM "
            "policy of Tenon's role",
        ),
        (
            "AddRoleToInstanceProfile",
            "AccessDenied",
            f"{USER}iam:PassRole on resource: arn:aws:iam::123456789012:role/nodes/Role because no identity-based "
            "policy allows the iam:PassRole action",
            "AWS refused iam:AddRoleToInstanceProfile (AccessDenied): allow iam:PassRole on "
            "arn:aws:iam::123456789012:role/nodes/Role in the IAM policy of Tenon's role",
        ),
        (
            "GetParameter",
            "AccessDeniedException",
            f"{USER}ssm:GetParameter on resource: arn:aws:ssm:us-west-2::parameter/x with an explicit deny in a "
            "service control policy",
            "AWS refused ssm:GetParameter (AccessDeniedException): a service control policy denies ssm:GetParameter on "
            "arn:aws:ssm:us-west-2::parameter/x explicitly, remove that",
        ),
        (
            "AssumeRoleWithWebIdentity",
            "AccessDenied",
            "Not authorized to perform sts:AssumeRoleWithWebIdentity",
            "AWS refused sts:AssumeRoleWithWebIdentity (AccessDenied): let the trust policy of Tenon's role name the "
            "ServiceAccount of its Pods",
        ),
        (
            "DescribeImages",
            "AuthFailure",
            "AWS was not able to validate the provided access credentials",
            "AWS refused ec2:DescribeImages (AuthFailure): check the AWS credentials of Tenon's Pods",
        ),
        (
            "DescribeImages",
            "RequestExpired",
            "Request has expired.",
            "AWS refused ec2:DescribeImages (RequestExpired): check the AWS credentials of Tenon's Pods, and the clock "
            "of their node",
        ),
        (
            "DescribeImages",
            "InvalidAMIID.Malformed",
            'Invalid id: "ami-x"',
            'AWS refused ec2:DescribeImages (InvalidAMIID.Malformed: Invalid id: "ami-x")',
        ),
    ],
)
def test_a_refused_call_says_what_allows_it(operation: str, code: str, message: str, says: str) -> None:
    """AWS-048: the same text each time, without the encoded part that AWS changes with each call."""
    assert errors.refusal(operation, code, message) == says


def test_aws048_no_error_has_encoded_text_and_the_log_has_it_for_debugging(caplog: pytest.LogCaptureFixture) -> None:
    """It differs in each answer, so a condition or an event with it would change at every retry."""
    text = "You are not authorized to perform this operation. Encoded authorization failure message: kJ9_x-2"
    with caplog.at_level("DEBUG"), pytest.raises(EC2Error) as caught, translated("TerminateInstances"):
        raise ClientError({"Error": {"Code": "UnauthorizedOperation", "Message": text}}, "TerminateInstances")
    error = caught.value
    assert str(error) == ("UnauthorizedOperation: TerminateInstances: You are not authorized to perform this operation")
    assert "kJ9" not in error.message + error.explained
    (line,) = [record for record in caplog.records if "decode-authorization-message" in record.message]
    assert line.levelname == "DEBUG"
    assert (line.__dict__["call"], line.__dict__["encoded-message"]) == ("TerminateInstances", "kJ9_x-2")


def test_an_error_knows_the_call_that_was_refused_which_may_be_one_for_credentials() -> None:
    with pytest.raises(EC2Error) as caught, translated("DescribeSubnets"):
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "no"}}, "AssumeRoleWithWebIdentity")
    assert caught.value.unauthorized
    assert caught.value.explained.startswith("AWS refused sts:AssumeRoleWithWebIdentity")


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        ("UnauthorizedOperation", "", "Unauthorized"),
        (SPOT_ROLE_MISSING, "", "SpotSLRCreationFailed"),
        (
            "InvalidParameterValue",
            "Value (x) for parameter iamInstanceProfile.name is invalid",
            "InstanceProfileNameInvalid",
        ),
        ("InvalidParameterValue", "User data is limited to 16384 bytes", "UserDataSizeLimitExceeded"),
        ("InvalidParameterValue", "something else", "LaunchFailed"),
        ("InvalidParameter", "sg-1 and subnet-1 belong to different networks", "SecurityGroupSubnetVPCMismatch"),
        ("InvalidLaunchTemplateName.NotFoundException", "", "LaunchTemplateNotFound"),
        ("InvalidAMIID.NotFound", "", "AMINotFound"),
        ("InvalidAMIID.Malformed", "", "InvalidAMIID"),
        ("RequestLimitExceeded", "", "RequestLimitExceeded"),
        ("PendingVerification", "", "AccountPendingVerification"),
        ("VcpuLimitExceeded", "", "VCPULimitExceeded"),
        ("MaxSpotInstanceCountExceeded", "", "SpotQuotaExceeded"),
        ("MaxFleetCountExceeded", "", "FleetQuotaExceeded"),
        ("InsufficientFreeAddressesInSubnet", "", "InsufficientFreeAddressesInSubnet"),
        ("FreeTierRestrictionError", "", "FreeTierIneligible"),
        ("InvalidSubnetID.NotFound", "", "SubnetResolutionFailed"),
        ("InvalidInstanceType", "", "InstanceTypeResolutionFailed"),
        ("AuthFailure", "Not authorized for images: [ami-1]", "AMIAuthorizationFailure"),
        ("AuthFailure", "AWS was not able to validate the provided access credentials", "Unauthorized"),
        ("InternalError", "", "InternalError"),
        ("NeverHeardOf", "", "LaunchFailed"),
    ],
)
def test_reasons(code: str, message: str, reason: str) -> None:
    """AWS-049."""
    assert reason_for(code, message) == reason


@pytest.mark.parametrize(
    ("code", "status", "kind", "retryable"),
    [
        ("RequestLimitExceeded", 503, ThrottledError, True),
        ("Throttling", 400, ThrottledError, True),
        ("ThrottlingException", 400, ThrottledError, True),
        ("TooManyRequestsException", 429, ThrottledError, True),
        ("InternalError", 500, EC2Error, True),
        ("Anything", 502, EC2Error, True),
        ("UnauthorizedOperation", 403, EC2Error, False),
        ("InsufficientInstanceCapacity", 500, EC2Error, False),
    ],
)
def test_translation(code: str, status: int, kind: type[EC2Error], retryable: bool) -> None:
    """AWS-048: every failure of botocore becomes one kind that says whether to try again."""
    answer: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    with pytest.raises(kind) as caught, translated("CreateFleet"):
        raise ClientError(answer, "CreateFleet")
    assert caught.value.retryable is retryable
    assert str(caught.value) == f"{code}: CreateFleet: no"


@pytest.mark.parametrize(("answer", "error"), [({"Code": "InvalidParameter"}, "InvalidParameter"), ({}, "unknown")])
def test_n15_534_met39_a_failed_call_is_counted_with_its_code(answer: dict[str, str], error: str) -> None:
    labels = {"controller": "", "method": "DescribeHosts", "provider": "aws", "error": error}
    before = REGISTRY.get_sample_value("karpenter_cloudprovider_errors_total", labels) or 0.0
    with pytest.raises(EC2Error), translated("DescribeHosts"):
        raise ClientError({"Error": answer}, "DescribeHosts")  # type: ignore[typeddict-item]
    assert REGISTRY.get_sample_value("karpenter_cloudprovider_errors_total", labels) == before + 1


def test_no_connection_is_retryable() -> None:
    with pytest.raises(EC2Error) as caught, translated("CreateFleet"):
        raise EndpointConnectionError(endpoint_url="http://nowhere")
    assert caught.value.retryable


def test_a_defect_is_not_taken_for_missing_credentials() -> None:
    """Only an error about a file can be that of a ServiceAccount's token."""
    with pytest.raises(BrokenPipeError), translated("CreateFleet"):
        raise BrokenPipeError


def granted() -> set[str]:
    """The actions of the shipped policy."""
    statements = json.loads(Path("deploy/iam/controller-policy.json").read_text())["Statement"]
    actions = [statement["Action"] for statement in statements]
    return {action for item in actions for action in ([item] if isinstance(item, str) else item)}


@pytest.mark.parametrize("action", sorted((granted() | {"iam:GetRole"}) - {"iam:PassRole"}))
def test_aws162_a_refused_call_is_named_with_its_service(action: str) -> None:
    """Also where AWS's message names no right, as that of a service control policy."""
    says = errors.refusal(action.partition(":")[2], "AccessDeniedException", "Access denied.")
    assert says == f"AWS refused {action} (AccessDeniedException): allow {action} in the IAM policy of Tenon's role"


def test_a_refused_batch_is_named_by_the_right_that_exists() -> None:
    says = errors.refusal("DeleteMessageBatch", "AccessDenied", "Access denied.")
    assert says.startswith("AWS refused sqs:DeleteMessage (AccessDenied): allow sqs:DeleteMessage in ")


@pytest.mark.parametrize(
    "code",
    [
        "InvalidCapacityReservationId.NotFound",
        "InvalidInstanceID.NotFound",
        "InvalidLaunchTemplateName.NotFoundException",
        "InvalidLaunchTemplateId.NotFound",
        "QueueDoesNotExist",
        "AWS.SimpleQueueService.NonExistentQueue",
        "NoSuchEntity",
        "ParameterNotFound",
        "ParameterVersionNotFound",
    ],
)
def test_not_found_codes(code: str) -> None:
    """AWS-046."""
    assert EC2Error(code, "").not_found
