"""The codes with which EC2 refuses a launch: what each one is about, and the reason that a NodeClaim shows for it.

This table is the only place that says what a code means. What is not in it holds back the NodePool as `LaunchFailed`.
`tests/ec2/test_refusal_codes.py` compares it with the codes that AWS publishes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

LAUNCH_FAILED = "LaunchFailed"
"""The reason of a refusal that has none of its own."""
THROTTLED_REASON = "RequestLimitExceeded"
"""The reason while EC2 throttles a call of a launch."""
PROFILE_INVALID = "InstanceProfileNameInvalid"
"""The reason if EC2 does not know the instance profile, or not yet."""
PROFILE_APPEARS_WITHIN = timedelta(minutes=1)
"""How long EC2 may refuse an instance profile until its EC2NodeClass counts as faulty: IAM tells EC2 of a new profile
only after seconds."""
TEMPLATE_MISSING = "LaunchTemplateNotFound"
"""The reason if somebody deleted the launch template. The next attempt creates it again."""
IMAGE_NOT_SHARED = "AMIAuthorizationFailure"
OTHER_VPC = "SecurityGroupSubnetVPCMismatch"
USER_DATA_TOO_LARGE = "UserDataSizeLimitExceeded"
_SUBNET_UNKNOWN = "SubnetResolutionFailed"
_TYPE_UNKNOWN = "InstanceTypeResolutionFailed"

SPOT_ROLE_MISSING = "AuthFailure.ServiceLinkedRoleCreationNotPermitted"
"""The account lacks EC2's service-linked role for spot."""
SUBNET_FULL = "InsufficientFreeAddressesInSubnet"
"""The subnet has no address left. That says nothing about the type, or about another subnet of the zone."""
RESERVATION_FULL = "ReservationCapacityExceeded"
"""The reservation has no place left, which says nothing about its health."""


class Scope(StrEnum):
    """What EC2 refuses with a code, and so which other launches it would refuse too."""

    REQUEST_RATE = "request rate"
    """The call came too soon after others. It says nothing about the launch."""
    OUTAGE = "outage"
    """EC2 itself failed. The same call may succeed later."""
    OFFERING = "offering"
    """The instance type in the zone, for this capacity type."""
    RESERVATION = "capacity reservation"
    SUBNET = "subnet"
    QUOTA = "quota"
    """All types that share a vCPU quota, for this capacity type."""
    CAPACITY_TYPE = "capacity type"
    TYPE = "instance type"
    """The type in all zones if EC2 tried other types of the request and refused none of them so. If it refused several,
    the cause is more likely what all of them have in common: a policy of the organization denies types, a Marketplace
    product does not support all of them, and an account has not opted in to some. If it tried no other type, the
    EC2NodeClass may be the cause.
    """
    TEMPLATE = "launch template"
    """It is gone. The next attempt creates it again."""
    IMAGE = "image"
    """An image of the EC2NodeClass, or a volume for it. The class may have others for other instance types."""
    NODE_CLASS = "EC2NodeClass"
    """What all instances of the class have in common."""
    RIGHT = "right"
    """What a policy does not allow. The message may name a type, or something that the EC2NodeClass selects."""
    VALUE = "value"
    """A wrong value. Only the message says which, and so whether the EC2NodeClass has it."""
    REQUEST = "request"
    """What this NodePool asks for, in a way that Tenon does not know better. Another NodePool's request may pass."""
    CREDENTIALS = "credentials"
    """All of AWS, for Tenon."""
    ACCOUNT = "account"
    """All launches of the account. Each NodePool meets that by itself."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a code means for launches."""

    scope: Scope
    reason: str = LAUNCH_FAILED
    """What the condition Launched of the NodeClaim says."""


_UNAUTHORIZED = Refusal(Scope.RIGHT, "Unauthorized")
_THROTTLED = Refusal(Scope.REQUEST_RATE, THROTTLED_REASON)
_TEMPLATE_GONE = Refusal(Scope.TEMPLATE, TEMPLATE_MISSING)

REFUSALS: Mapping[str, Refusal] = {
    "RequestLimitExceeded": _THROTTLED,
    "Throttling": _THROTTLED,
    "ThrottlingException": _THROTTLED,
    "TooManyRequestsException": _THROTTLED,
    "InternalError": Refusal(Scope.OUTAGE, "InternalError"),
    "InternalFailure": Refusal(Scope.OUTAGE),
    "InternalServerError": Refusal(Scope.OUTAGE),
    "RequestTimeout": Refusal(Scope.OUTAGE),
    "RetryableError": Refusal(Scope.OUTAGE),
    "ServerInternal": Refusal(Scope.OUTAGE),
    "ServiceUnavailable": Refusal(Scope.OUTAGE),
    "Unavailable": Refusal(Scope.OUTAGE),
    "InsufficientCapacity": Refusal(Scope.OFFERING),
    "InsufficientCapacityOnHost": Refusal(Scope.OFFERING),
    "InsufficientHostCapacity": Refusal(Scope.OFFERING),
    "InsufficientInstanceCapacity": Refusal(Scope.OFFERING),
    "InsufficientReservedInstanceCapacity": Refusal(Scope.OFFERING),
    "InsufficientReservedInstancesCapacity": Refusal(Scope.OFFERING),
    "InsufficientVolumeCapacity": Refusal(Scope.OFFERING),
    "InvalidFleetConfiguration": Refusal(Scope.OFFERING),  # "not supported in your requested Availability Zone"
    "MaxFleetCountExceeded": Refusal(Scope.OFFERING, "FleetQuotaExceeded"),
    RESERVATION_FULL: Refusal(Scope.OFFERING),  # a launch into a reservation says more: see `unavailable_offerings`
    "SpotMaxPriceTooLow": Refusal(Scope.OFFERING),
    "UnfulfillableCapacity": Refusal(Scope.OFFERING),
    "Unsupported": Refusal(Scope.OFFERING),
    "VolumeTypeNotAvailableInZone": Refusal(Scope.OFFERING),  # other zones have it
    "InvalidLaunchTargets": Refusal(Scope.RESERVATION),
    SUBNET_FULL: Refusal(Scope.SUBNET, "InsufficientFreeAddressesInSubnet"),
    "InstanceLimitExceeded": Refusal(Scope.QUOTA, "VCPULimitExceeded"),
    "MaxSpotInstanceCountExceeded": Refusal(Scope.QUOTA, "SpotQuotaExceeded"),
    "VcpuLimitExceeded": Refusal(Scope.QUOTA, "VCPULimitExceeded"),
    SPOT_ROLE_MISSING: Refusal(Scope.CAPACITY_TYPE, "SpotSLRCreationFailed"),
    "AttachmentLimitExceeded": Refusal(Scope.TYPE),
    "FreeTierRestrictionError": Refusal(Scope.TYPE, "FreeTierIneligible"),
    "InvalidInstanceType": Refusal(Scope.TYPE, _TYPE_UNKNOWN),
    "InvalidInstanceType.NotFound": Refusal(Scope.TYPE, _TYPE_UNKNOWN),
    "InvalidInterface.IpAddressLimitExceeded": Refusal(Scope.TYPE),
    "InvalidParameterCombination": Refusal(Scope.TYPE),
    "OptInRequired": Refusal(Scope.TYPE),
    "PrivateIpAddressLimitExceeded": Refusal(Scope.TYPE),
    "UnsupportedOperation": Refusal(Scope.TYPE),
    "InvalidLaunchTemplateId.NotFound": _TEMPLATE_GONE,
    "InvalidLaunchTemplateName.NotFoundException": _TEMPLATE_GONE,
    "BootForVolumeTypeUnsupported": Refusal(Scope.IMAGE),
    "CustomerKeyHasBeenRevoked": Refusal(Scope.IMAGE),
    "EncryptedVolumesNotSupported": Refusal(Scope.IMAGE),
    "InvalidAMIID.Malformed": Refusal(Scope.IMAGE, "InvalidAMIID"),
    "InvalidAMIID.NotFound": Refusal(Scope.IMAGE, "AMINotFound"),
    "InvalidAMIID.Unavailable": Refusal(Scope.IMAGE, "AMINotFound"),
    "InvalidManifest": Refusal(Scope.IMAGE),
    "InvalidProductInfo": Refusal(Scope.IMAGE),
    "NonEBSInstance": Refusal(Scope.IMAGE),
    "UnknownVolumeType": Refusal(Scope.IMAGE),
    "VolumeIOPSLimit": Refusal(Scope.IMAGE),
    "InvalidPlacementGroup.Unknown": Refusal(Scope.NODE_CLASS),
    "InvalidPlacementGroupId.Malformed": Refusal(Scope.NODE_CLASS),
    "InvalidPlacementGroupId.Unknown": Refusal(Scope.NODE_CLASS),
    "InvalidUserData.Malformed": Refusal(Scope.NODE_CLASS, USER_DATA_TOO_LARGE),
    "SecurityGroupLimitExceeded": Refusal(Scope.NODE_CLASS),
    "SecurityGroupsPerInstanceLimitExceeded": Refusal(Scope.NODE_CLASS),
    "SecurityGroupsPerInterfaceLimitExceeded": Refusal(Scope.NODE_CLASS),
    "TagLimitExceeded": Refusal(Scope.NODE_CLASS),
    "TagPolicyViolation": Refusal(Scope.NODE_CLASS),
    "AccessDenied": _UNAUTHORIZED,
    "AccessDeniedException": _UNAUTHORIZED,
    "UnauthorizedOperation": _UNAUTHORIZED,
    "AuthFailure": Refusal(Scope.VALUE, "Unauthorized"),  # credentials, or an image that is not shared
    "ClientInvalidParameterValue": Refusal(Scope.VALUE),
    "InvalidParameter": Refusal(Scope.VALUE),
    "InvalidParameterValue": Refusal(Scope.VALUE),
    "InvalidAvailabilityZone": Refusal(Scope.REQUEST),
    "InvalidCharacter": Refusal(Scope.REQUEST),
    "InvalidClientToken": Refusal(Scope.REQUEST),
    "InvalidInput": Refusal(Scope.REQUEST),
    "InvalidParameterDependency": Refusal(Scope.REQUEST),
    "InvalidRequest": Refusal(Scope.REQUEST),
    "InvalidTenancy": Refusal(Scope.REQUEST),
    "InvalidZone.NotFound": Refusal(Scope.REQUEST),
    "MissingInput": Refusal(Scope.REQUEST),
    "MissingParameter": Refusal(Scope.REQUEST),
    "OperationNotPermitted": Refusal(Scope.REQUEST),
    "RequestResourceCountExceeded": Refusal(Scope.REQUEST),
    "ResourceCountExceeded": Refusal(Scope.REQUEST),
    "UnknownParameter": Refusal(Scope.REQUEST),
    "UnsupportedTenancy": Refusal(Scope.REQUEST),
    "ValidationError": Refusal(Scope.REQUEST),
    "VPCIdNotSpecified": Refusal(Scope.REQUEST),
    "VPCResourceNotSpecified": Refusal(Scope.REQUEST),
    "ExpiredToken": Refusal(Scope.CREDENTIALS),
    "ExpiredTokenException": Refusal(Scope.CREDENTIALS),
    "IncompleteSignature": Refusal(Scope.CREDENTIALS),
    "InvalidClientTokenId": Refusal(Scope.CREDENTIALS),
    "InvalidIdentityToken": Refusal(Scope.CREDENTIALS),
    "InvalidSecurity.RequestHasExpired": Refusal(Scope.CREDENTIALS),
    "MissingAuthenticationToken": Refusal(Scope.CREDENTIALS),
    "RequestExpired": Refusal(Scope.CREDENTIALS),
    "SignatureDoesNotMatch": Refusal(Scope.CREDENTIALS),
    "UnrecognizedClientException": Refusal(Scope.CREDENTIALS),
    "AccountDisabled": Refusal(Scope.ACCOUNT),
    "Blocked": Refusal(Scope.ACCOUNT),
    "MaxIOPSLimitExceeded": Refusal(Scope.ACCOUNT),
    "MaxTemplateLimitExceeded": Refusal(Scope.ACCOUNT),
    "MaxTemplateVersionLimitExceeded": Refusal(Scope.ACCOUNT),
    "NetworkInterfaceLimitExceeded": Refusal(Scope.ACCOUNT),
    "PendingVerification": Refusal(Scope.ACCOUNT, "AccountPendingVerification"),
    "ResourceLimitExceeded": Refusal(Scope.ACCOUNT),
    "VolumeLimitExceeded": Refusal(Scope.ACCOUNT),
}

FAMILIES: Mapping[str, Refusal] = {
    "CapacityReservation": Refusal(Scope.RESERVATION),
    "InvalidCapacityReservation": Refusal(Scope.RESERVATION),
    "InvalidAMI": Refusal(Scope.IMAGE),
    "InvalidBlockDeviceMapping": Refusal(Scope.IMAGE),
    "InvalidKMSKey": Refusal(Scope.IMAGE),
    "InvalidKmsKey": Refusal(Scope.IMAGE),
    "InvalidSnapshot": Refusal(Scope.IMAGE),
    "InvalidVolume": Refusal(Scope.IMAGE),
    "KMSKey": Refusal(Scope.IMAGE),
    "KmsKey": Refusal(Scope.IMAGE),
    "InvalidGroup": Refusal(Scope.NODE_CLASS),
    "InvalidIamInstanceProfile": Refusal(Scope.NODE_CLASS, PROFILE_INVALID),
    "InvalidKeyPair": Refusal(Scope.NODE_CLASS),
    "InvalidLaunchTemplate": Refusal(Scope.NODE_CLASS),
    "InvalidNetworkInterface": Refusal(Scope.NODE_CLASS),
    "InvalidSecurityGroup": Refusal(Scope.NODE_CLASS),
    "InvalidSubnet": Refusal(Scope.NODE_CLASS, _SUBNET_UNKNOWN),
    "InvalidTagKey": Refusal(Scope.NODE_CLASS),
    "InvalidUserData": Refusal(Scope.NODE_CLASS),
}
"""By the beginning of a code: what all codes mean that begin so and have no line of their own. EC2 has more than those
that AWS publishes.
"""


def refusal_of(code: str) -> Refusal | None:
    """Return what a code means for launches; None if it is not known."""
    own = REFUSALS.get(code)
    return own or next((refusal for beginning, refusal in FAMILIES.items() if code.startswith(beginning)), None)


def scope_of(code: str) -> Scope | None:
    """Return what EC2 refuses with this code; None if that is not known."""
    refusal = refusal_of(code)
    return refusal.scope if refusal else None


def codes_of(*scopes: Scope) -> frozenset[str]:
    """Return the codes with a line of their own that have one of these scopes."""
    return frozenset(code for code, refusal in REFUSALS.items() if refusal.scope in scopes)
