"""Classifies AWS's error codes: no capacity, already gone, a missing right, or a mistake that a person must fix.

The sets are data. Activities turn a refused call into one of these classes, and the workflow decides what follows.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from tenon.apis import labels
from tenon.ec2.placement_groups import SPREAD
from tenon.kube.offerings import OfferingKey
from tenon.lifecycle.messages.launch import OfferingRef

INSUFFICIENT_CAPACITY = frozenset(
    {
        "InsufficientInstanceCapacity",
        "UnfulfillableCapacity",
        "Unsupported",
        "ReservationCapacityExceeded",
    }
)
"""Error codes of a fleet override that rule out this offering for now.

Karpenter also counts VcpuLimitExceeded and MaxFleetCountExceeded here. Tenon treats them as refusals, because they are
account quotas that the next instance type would exceed as well.
"""

RESERVATION_CODES = ("InvalidCapacityReservation", "CapacityReservation", "ReservationCapacityExceeded")
"""Beginnings of the codes that say that a capacity reservation has no place for the launch, or has ended."""
_ABOUT_GROUP = "placement group"
"""Part of EC2's messages that say that a placement group, not the type, is what has no room."""
PLACEMENT_GROUP_UNKNOWN = frozenset({"InvalidPlacementGroup.Unknown", "InvalidPlacementGroupId.Unknown"})
SUBNET_FULL = "InsufficientFreeAddressesInSubnet"
"""The subnet has no address left. That says nothing about the type, or about another subnet of the zone."""

SPOT_ROLE_MISSING = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
"""The account lacks EC2's service-linked role for spot."""
SPOT_QUOTA = "MaxSpotInstanceCountExceeded"
NO_SPOT = frozenset({SPOT_ROLE_MISSING, SPOT_QUOTA})
"""Codes that rule out all spot capacity, whatever the type and zone."""

NOT_FOUND = frozenset(
    {
        "InvalidCapacityReservationId.NotFound",
        "InvalidInstanceID.NotFound",
        "InvalidLaunchTemplateName.NotFoundException",
        "InvalidLaunchTemplateId.NotFound",
        "QueueDoesNotExist",
        "AWS.SimpleQueueService.NonExistentQueue",
        "NoSuchEntity",
        "ParameterNotFound",
        "ParameterVersionNotFound",
    }
)
TEMPLATE_NOT_FOUND = frozenset({"InvalidLaunchTemplateName.NotFoundException", "InvalidLaunchTemplateId.NotFound"})
TEMPLATE_EXISTS = frozenset({"InvalidLaunchTemplateName.AlreadyExistsException"})
ALREADY_EXISTS = frozenset({"EntityAlreadyExists"})
THROTTLED = frozenset({"RequestLimitExceeded", "Throttling", "ThrottlingException", "TooManyRequestsException"})
RETRYABLE = frozenset(
    {"InternalError", "InternalFailure", "ServiceUnavailable", "Unavailable", "RequestTimeout", "InternalServerError"}
)
"""Faults of the service itself: the same call may succeed later."""
BUSY = THROTTLED | RETRYABLE
"""Codes that say nothing about the request, even if EC2 puts them into the answer of a fleet request."""

UNAUTHORIZED = frozenset({"UnauthorizedOperation", "AccessDenied", "AccessDeniedException"})
"""The credentials are valid, but no policy allows the call, or one denies it."""
BAD_CREDENTIALS = frozenset(
    {
        "AuthFailure",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "InvalidClientTokenId",
        "InvalidIdentityToken",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    }
)
_SERVICES = {
    "AssumeRole": "sts",
    "AssumeRoleWithWebIdentity": "sts",
    "DeleteMessage": "sqs",
    "DescribeAccessEntry": "eks",
    "DescribeCluster": "eks",
    "GetManagedResource": "arc-zonal-shift",
    "GetParameter": "ssm",
    "GetProducts": "pricing",
    "GetQueueUrl": "sqs",
    "GetRole": "iam",
    "ReceiveMessage": "sqs",
}
_NOT_AUTHORIZED = re.compile(r"not authorized to perform: ([\w-]+:\w+)(?: on resource: (\S+))?")
_DENIED = re.compile(r"with an explicit deny in (an? [\w -]*?(?:policy|boundary))")

_REASONS: Mapping[str, str] = {
    SPOT_ROLE_MISSING: "SpotSLRCreationFailed",
    **dict.fromkeys(UNAUTHORIZED, "Unauthorized"),
    "AuthFailure": "AMIAuthorizationFailure",
    "InvalidIamInstanceProfile.NotFound": "InstanceProfileNameInvalid",
    "InvalidUserData.Malformed": "UserDataSizeLimitExceeded",
    "InvalidAMIID.Malformed": "InvalidAMIID",
    "InvalidAMIID.NotFound": "AMINotFound",
    "InvalidAMIID.Unavailable": "AMINotFound",
    "InternalError": "InternalError",
    "FreeTierRestrictionError": "FreeTierIneligible",
    "MaxFleetCountExceeded": "FleetQuotaExceeded",
    "PendingVerification": "AccountPendingVerification",
    "MaxSpotInstanceCountExceeded": "SpotQuotaExceeded",
    "VcpuLimitExceeded": "VCPULimitExceeded",
    SUBNET_FULL: "InsufficientFreeAddressesInSubnet",
    "InvalidSubnetID.NotFound": "SubnetResolutionFailed",
    "InvalidInstanceType": "InstanceTypeResolutionFailed",
    "InvalidInstanceType.NotFound": "InstanceTypeResolutionFailed",
    **dict.fromkeys(TEMPLATE_NOT_FOUND, "LaunchTemplateNotFound"),
    **dict.fromkeys(THROTTLED, "RequestLimitExceeded"),
}


def reason_for(code: str, message: str = "") -> str:
    """Return the reason that a NodeClaim shows for an EC2 error code; LaunchFailed if the code is not known."""
    if code in ("InvalidParameter", "InvalidParameterValue"):
        return _invalid_value_reason(message.lower())
    return _REASONS.get(code, "LaunchFailed")


def _invalid_value_reason(message: str) -> str:
    """EC2 uses these codes for every wrong value, so only the message says which value is wrong."""
    if "iaminstanceprofile" in message or "instance profile" in message:
        return "InstanceProfileNameInvalid"
    if "different networks" in message:
        return "SecurityGroupSubnetVPCMismatch"
    if "user data" in message:
        return "UserDataSizeLimitExceeded"
    return "LaunchFailed"


def refusal(operation: str, code: str, message: str) -> str:
    """Say which call AWS refused, and what allows it.

    The text is the same for each repetition of the call, so that a condition that shows it does not change.
    """
    operation = operation.removesuffix("Batch")  # a batch call has no right of its own
    action = f"{_SERVICES.get(operation, 'iam' if 'InstanceProfile' in operation else 'ec2')}:{operation}"
    if code in BAD_CREDENTIALS:
        return f"AWS refused {action} ({code}): check the AWS credentials of Tenon's Pods"
    if code not in UNAUTHORIZED:
        return f"AWS refused {action} ({code}: {message})"
    if operation.startswith("AssumeRole"):
        return (
            f"AWS refused {action} ({code}): let the trust policy of Tenon's role name the ServiceAccount of its Pods"
        )
    named = _NOT_AUTHORIZED.search(message)
    right, resource = (named[1], named[2]) if named else (action, None)
    where = f"{right} on {resource}" if resource else right
    if denied := _DENIED.search(message):
        return f"AWS refused {action} ({code}): {denied[1]} denies {where} explicitly, remove that"
    return f"AWS refused {action} ({code}): allow {where} in the IAM policy of Tenon's role"


def full_subnets(fleet_errors: Iterable[Mapping[str, Any]], tried: Mapping[tuple[str, str], str]) -> set[str]:
    """Return the subnets that the ``Errors`` of a fleet call full.

    ``tried`` maps the (instance type, zone) pairs of the request to their subnets. An error without a type or zone is
    about every subnet that matches the rest of it.
    """
    full: set[str] = set()
    for error in fleet_errors:
        if error.get("ErrorCode") != SUBNET_FULL:
            continue
        override = error.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
        wanted_type, wanted_zone = override.get("InstanceType", ""), override.get("AvailabilityZone", "")
        full |= (
            {override["SubnetId"]}
            if override.get("SubnetId")
            else {
                subnet
                for (name, zone), subnet in tried.items()
                if wanted_type in ("", name) and wanted_zone in ("", zone)
            }
        )
    return full


def unavailable_offerings(
    fleet_errors: Iterable[Mapping[str, Any]],
    capacity_type: str,
    tried: Iterable[tuple[str, str]],
    reservations: Mapping[tuple[str, str], str] | None = None,
    placement_group: str = "",
    strategy: str = "",
) -> list[OfferingRef]:
    """Return the offerings that the ``Errors`` of a fleet rule out, sorted.

    ``tried`` are the (instance type, zone) pairs of the request, and ``reservations`` are those that they launch into.
    An error that rules out all spot capacity gives one key without type and zone. An error without a type or zone rules
    out every pair that matches the rest of it.

    What EC2 refuses in a ``placement_group`` is ruled out for this group only. A spread group takes seven instances in
    a zone, so an error about the group itself rules out the zone for the group, whatever the type and capacity type.
    """
    pairs = sorted(set(tried))
    refused: set[tuple[str, str]] = set()
    full: set[str] = set()
    for error in fleet_errors:
        code = error.get("ErrorCode", "")
        if code in NO_SPOT:
            return [OfferingRef(capacity_type=capacity_type, instance_type="", zone="")]
        if code in INSUFFICIENT_CAPACITY or (reservations and code.startswith(RESERVATION_CODES)):
            override = error.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
            wanted_type, wanted_zone = override.get("InstanceType", ""), override.get("AvailabilityZone", "")
            meant = {(name, zone) for name, zone in pairs if wanted_type in ("", name) and wanted_zone in ("", zone)}
            refused |= meant
            if strategy == SPREAD and _ABOUT_GROUP in error.get("ErrorMessage", "").lower():
                full |= {zone for _, zone in meant}
    found = {
        OfferingKey.refusable(capacity_type, name, zone, (reservations or {}).get((name, zone), ""), placement_group)
        for name, zone in refused
        if zone not in full
    }
    found |= {
        OfferingKey.refusable(sold, "", zone, placement_group=placement_group)
        for zone in full
        for sold in (labels.RESERVED, labels.SPOT, labels.ON_DEMAND)
    }
    return [OfferingRef(capacity_type=key[0], instance_type=key[1], zone=key[2]) for key in sorted(found)]
