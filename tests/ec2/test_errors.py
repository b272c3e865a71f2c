"""What EC2's error codes mean."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from activities.ec2.errors import EC2Error, ThrottledError, translated
from tenon.ec2 import errors
from tenon.ec2.errors import reason_for, unavailable_offerings
from tenon.kube.offerings import OfferingKey

TRIED = [("m5.large", "us-west-2a"), ("m5.large", "us-west-2b"), ("c5.large", "us-west-2a")]


def refused(code: str, **override: str) -> dict[str, Any]:
    return {"ErrorCode": code, "LaunchTemplateAndOverrides": {"Overrides": override}}


def keys(*failures: dict[str, Any]) -> list[OfferingKey]:
    found = unavailable_offerings(failures, "spot", TRIED)
    return [offering.key for offering in found]


@pytest.mark.parametrize("code", sorted(errors.INSUFFICIENT_CAPACITY))
def test_capacity_codes_rule_out_their_offering(code: str) -> None:
    """AWS-040, AWS-041."""
    failure = refused(code, InstanceType="m5.large", AvailabilityZone="us-west-2a")
    assert keys(failure, failure) == [OfferingKey("spot", "m5.large", "us-west-2a")]


def test_other_codes_rule_out_nothing() -> None:
    """A mistake in the class must not be taken for lack of capacity."""
    assert keys(refused("InvalidParameterValue", InstanceType="m5.large", AvailabilityZone="us-west-2a")) == []


def test_an_error_without_a_zone_rules_out_the_type_everywhere() -> None:
    assert {zone for _, _, zone in keys(refused("Unsupported", InstanceType="m5.large"))} == {
        "us-west-2a",
        "us-west-2b",
    }


def test_a_missing_spot_role_rules_out_all_of_spot() -> None:
    """AWS-042: also the types that were not tried; one key says so."""
    assert keys(refused(errors.SPOT_ROLE_MISSING)) == [OfferingKey("spot", "", "")]


@pytest.mark.parametrize(
    ("code", "message", "reason"),
    [
        ("UnauthorizedOperation", "", "Unauthorized"),
        (errors.SPOT_ROLE_MISSING, "", "SpotSLRCreationFailed"),
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
        ("InternalError", 500, EC2Error, True),
        ("Anything", 502, EC2Error, True),
        ("UnauthorizedOperation", 403, EC2Error, False),
    ],
)
def test_translation(code: str, status: int, kind: type[EC2Error], retryable: bool) -> None:
    """AWS-048: every failure of botocore becomes one kind that says whether to try again."""
    answer: Any = {"Error": {"Code": code, "Message": "no"}, "ResponseMetadata": {"HTTPStatusCode": status}}
    with pytest.raises(kind) as caught, translated("CreateFleet"):
        raise ClientError(answer, "CreateFleet")
    assert caught.value.retryable is retryable
    assert str(caught.value) == f"{code}: CreateFleet: no"


def test_no_connection_is_retryable() -> None:
    with pytest.raises(EC2Error) as caught, translated("CreateFleet"):
        raise EndpointConnectionError(endpoint_url="http://nowhere")
    assert caught.value.retryable


@pytest.mark.parametrize("code", sorted(errors.NOT_FOUND))
def test_not_found_codes(code: str) -> None:
    """AWS-046."""
    assert EC2Error(code, "").not_found
