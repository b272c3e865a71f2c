"""Says which of EC2's refusals are about what an EC2NodeClass asks for: an image, a profile, a group, a subnet.

Every NodePool of that class would be refused the same, and NodePools of other classes are not concerned. So their pods
need not wait for a person who corrects the class.
"""

from __future__ import annotations

import re
from enum import StrEnum

from tenon.ec2.refusals.errors import BAD_CREDENTIALS, reason_for
from tenon.ec2.refusals.scopes import IMAGE_NOT_SHARED, OTHER_VPC, PROFILE_INVALID, USER_DATA_TOO_LARGE, Scope, scope_of


class ClassFault(StrEnum):
    """Which part of an EC2NodeClass a refusal is about."""

    NONE = ""
    """None: the refusal has another cause, or one that is not known."""
    WHOLE = "whole"
    """What all its instances have in common."""
    IMAGE = "image"
    """An image or a volume of it. The class may have others for other instance types."""


_OF_SCOPE = {Scope.IMAGE: ClassFault.IMAGE, Scope.NODE_CLASS: ClassFault.WHOLE}
_NEVER_OF_CLASS = frozenset({Scope.TEMPLATE, Scope.CREDENTIALS, Scope.ACCOUNT})
_OF_REASON = {
    IMAGE_NOT_SHARED: ClassFault.IMAGE,
    **dict.fromkeys((PROFILE_INVALID, OTHER_VPC, USER_DATA_TOO_LARGE), ClassFault.WHOLE),
}
"""What `reason_for` says of codes that EC2 uses for every wrong value."""
_RESOURCE = re.compile(r"not authorized to perform: (?P<right>[\w-]+:\w+) on resource: \S*?:(?P<kind>[\w-]+)/")


def class_fault(code: str, message: str, operation: str = "") -> ClassFault:
    """Return which part of the EC2NodeClass EC2 refused. ``operation``: the call, if it is not CreateFleet."""
    scope = scope_of(code)
    if scope is Scope.RIGHT:
        return _denied(message)
    if scope in _OF_SCOPE:
        return _OF_SCOPE[scope]
    if scope is Scope.VALUE:
        fault = _OF_REASON.get(reason_for(code, message), ClassFault.NONE)
        if fault or "snapshot" in message.lower():
            return fault or ClassFault.IMAGE
    is_elsewhere = scope in _NEVER_OF_CLASS or code in BAD_CREDENTIALS
    made_of_class = operation == "CreateLaunchTemplate" and not is_elsewhere
    return ClassFault.WHOLE if made_of_class else ClassFault.NONE


def _denied(message: str) -> ClassFault:
    """A missing right on a resource that the class names."""
    resource = _RESOURCE.search(message)
    if resource is None:
        return ClassFault.NONE
    if resource["kind"] in ("image", "snapshot", "volume", "key"):
        return ClassFault.IMAGE
    passed = resource["right"] == "iam:PassRole" or resource["kind"] in ("subnet", "security-group", "launch-template")
    return ClassFault.WHOLE if passed else ClassFault.NONE
