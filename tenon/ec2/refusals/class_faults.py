"""Says which of EC2's refusals are about what an EC2NodeClass asks for: an image, a profile, a group, a subnet.

Every NodePool of that class would be refused the same, and NodePools of other classes are not concerned. So their pods
need not wait for a person who mends the class.
"""

from __future__ import annotations

import re
from enum import StrEnum

from tenon.ec2.refusals.errors import (
    IMAGE_NOT_SHARED,
    OTHER_VPC,
    PROFILE_INVALID,
    TEMPLATE_NOT_FOUND,
    UNAUTHORIZED,
    USER_DATA_TOO_LARGE,
    reason_for,
)


class ClassFault(StrEnum):
    """Which part of an EC2NodeClass a refusal is about."""

    NONE = ""
    """None: the refusal has another cause, or one that is not known."""
    WHOLE = "whole"
    """What all its instances have in common."""
    IMAGE = "image"
    """An image or a volume of it. The class may have others for other instance types."""


_WHOLE = re.compile(
    r"Invalid(IamInstanceProfile|UserData|Group|SecurityGroup|SecurityGroupID|SecurityGroupId|SubnetID|KeyPair"
    r"|LaunchTemplate\w*|TagKey|NetworkInterface\w*)\b|SecurityGroupsPerInstanceLimitExceeded"
)
_IMAGE = re.compile(r"Invalid(AMI\w*|BlockDeviceMapping|Snapshot\w*|Volume\w*|K[Mm][Ss]Key)\b|K[Mm][Ss]Key\w*Fault")
"""Beginnings of EC2's codes."""
_REASONS = frozenset({PROFILE_INVALID, OTHER_VPC, USER_DATA_TOO_LARGE})
"""What `reason_for` says of codes that EC2 uses for every wrong value."""
_RESOURCE = re.compile(r"not authorized to perform: (?P<right>[\w-]+:\w+) on resource: \S*?:(?P<kind>[\w-]+)/")


def class_fault(code: str, message: str, operation: str = "") -> ClassFault:
    """Return which part of the EC2NodeClass EC2 refused. ``operation``: the call, if it is not CreateFleet."""
    if code in UNAUTHORIZED:
        return _denied(message)
    reason = reason_for(code, message)
    if reason == IMAGE_NOT_SHARED or _IMAGE.match(code):
        return ClassFault.IMAGE
    if code in ("InvalidParameter", "InvalidParameterValue") and "snapshot" in message.lower():
        return ClassFault.IMAGE
    if code in TEMPLATE_NOT_FOUND:
        return ClassFault.NONE
    about_template = operation == "CreateLaunchTemplate"
    return ClassFault.WHOLE if about_template or reason in _REASONS or _WHOLE.match(code) else ClassFault.NONE


def _denied(message: str) -> ClassFault:
    """A missing right on a resource that the class names."""
    resource = _RESOURCE.search(message)
    if resource is None:
        return ClassFault.NONE
    if resource["kind"] in ("image", "snapshot", "volume", "key"):
        return ClassFault.IMAGE
    passed = resource["right"] == "iam:PassRole" or resource["kind"] in ("subnet", "security-group", "launch-template")
    return ClassFault.WHOLE if passed else ClassFault.NONE
