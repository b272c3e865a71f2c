"""Says what AWS's error codes rule out: an offering, a type, a quota, a call, or a right that a person must grant.

What each code is about is in `tenon/ec2/refusals/scopes.py`. Activities turn a refused call into one of these classes,
and the workflow decides what follows.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from datetime import datetime
from typing import Any

from tenon.apis import labels
from tenon.ec2.refusals.scopes import (
    IMAGE_NOT_SHARED,
    LAUNCH_FAILED,
    OTHER_VPC,
    PROFILE_INVALID,
    RESERVATION_FULL,
    SPOT_ROLE_MISSING,
    SUBNET_FULL,
    USER_DATA_TOO_LARGE,
    Scope,
    codes_of,
    refusal_of,
    scope_of,
)
from tenon.ec2.refusals.vcpu_quotas import quota_of
from tenon.ec2.types.placement_groups import SPREAD
from tenon.kube.offerings import OfferingKey
from tenon.kube.timestamps import next_attempt, time_text
from tenon.messages.offerings import OfferingRef
from tenon.sentences import lasting

INSUFFICIENT_CAPACITY = codes_of(Scope.OFFERING)
"""Error codes of a fleet override that rule out this offering for now."""
UNTRIED = "UnfulfillableCapacity"
"""EC2 tries few offerings for a fleet, and answers this for the others, whatever refused the few."""
THROTTLED = codes_of(Scope.REQUEST_RATE)
RETRYABLE = codes_of(Scope.OUTAGE)
"""Faults of the service itself: the same call may succeed later."""
BUSY = THROTTLED | RETRYABLE
"""Codes that say nothing about the request, even if EC2 puts them into the answer of a fleet request."""
UNAUTHORIZED = codes_of(Scope.RIGHT)
"""The credentials are valid, but no policy allows the call, or one denies it."""
TYPE_REFUSED = UNAUTHORIZED | codes_of(Scope.TYPE)
"""Codes that rule out an instance type if EC2 refused only this one of several types with them: see `refused_type`."""
_NAMES_TYPE = frozenset({"FreeTierRestrictionError", "InvalidInstanceType", "InvalidInstanceType.NotFound"})
"""Those of them that no EC2NodeClass can cause."""
BAD_CREDENTIALS = codes_of(Scope.CREDENTIALS) | {"AuthFailure"}
_OF_CLOCK = frozenset({"RequestExpired", "InvalidSecurity.RequestHasExpired"})
"""Those of them that a request also gets which a wrong clock has dated."""

_ABOUT_GROUP = "placement group"
"""Part of EC2's messages that say that a placement group, not the type, is what has no room."""
PLACEMENT_GROUP_UNKNOWN = frozenset({"InvalidPlacementGroup.Unknown", "InvalidPlacementGroupId.Unknown"})
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
TEMPLATE_NOT_FOUND = codes_of(Scope.TEMPLATE)
TEMPLATE_EXISTS = frozenset({"InvalidLaunchTemplateName.AlreadyExistsException"})
ALREADY_EXISTS = frozenset({"EntityAlreadyExists"})
TOKEN_USED = frozenset({"IdempotentParameterMismatch", "IdempotentInstanceTerminated"})
"""EC2 knows the token of the request from an earlier one, which it accepted."""

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
    "ListServiceQuotas": "servicequotas",
    "DescribeSavingsPlanRates": "savingsplans",
    "DescribeSavingsPlans": "savingsplans",
    "ReceiveMessage": "sqs",
}
_NOT_AUTHORIZED = re.compile(r"not authorized to perform: ([\w-]+:\w+)(?: on resource: (\S+))?")
_INSTANCE = ":instance/"
"""Part of the ARN of an instance that a policy does not let Tenon launch."""
_ENCODED = re.compile(r"[.:]?\s*Encoded authorization failure message: (\S+)")
_DENIED = re.compile(r"with an explicit deny in (an? [\w -]*?(?:policy|boundary))")


def reason_for(code: str, message: str = "") -> str:
    """Return the reason that a NodeClaim shows for an EC2 error code; LaunchFailed if the code is not known."""
    meaning = refusal_of(code)
    if meaning is None:
        return LAUNCH_FAILED
    if meaning.scope is Scope.VALUE:
        return _value_reason(message.lower()) or meaning.reason
    return meaning.reason


def _value_reason(message: str) -> str:
    """EC2 uses these codes for every wrong value, so only the message says which value is wrong; empty if unknown."""
    if "not authorized for images" in message:
        return IMAGE_NOT_SHARED
    if "iaminstanceprofile" in message or "instance profile" in message:
        return PROFILE_INVALID
    if "different networks" in message:
        return OTHER_VPC
    if "user data" in message:
        return USER_DATA_TOO_LARGE
    return ""


def throttled_text(call: str, since: datetime, now: datetime, next_try: datetime) -> str:
    """Say which call EC2 throttles, for how long, and when it is tried next."""
    return (
        f"EC2 has throttled {call} for {lasting(now - since)}, since {time_text(since)}: the launch waits; "
        f"{next_attempt(next_try)}"
    )


def without_encoded_text(message: str) -> str:
    """Return EC2's message without its encoded part, which differs for each call: a retry is no news."""
    return _ENCODED.sub("", message)


def encoded_text(message: str) -> str:
    """Return the encoded part of EC2's message; empty if it has none. AWS decodes it for those who may ask."""
    encoded = _ENCODED.search(message)
    return encoded[1] if encoded else ""


def refusal(operation: str, code: str, message: str) -> str:
    """Say which call AWS refused, and what allows it.

    The text is the same for each repetition of the call, so that a condition that shows it does not change.
    """
    operation = operation.removesuffix("Batch")  # a batch call has no right of its own
    action = f"{_SERVICES.get(operation, 'iam' if 'InstanceProfile' in operation else 'ec2')}:{operation}"
    if code in BAD_CREDENTIALS:
        clock = ", and the clock of their node" if code in _OF_CLOCK else ""
        return f"AWS refused {action} ({code}): check the AWS credentials of Tenon's Pods{clock}"
    if code not in UNAUTHORIZED:
        return f"AWS refused {action} ({code}: {message})"
    if operation.startswith("AssumeRole"):
        return (
            f"AWS refused {action} ({code}): let the trust policy of Tenon's role name the ServiceAccount of its Pods"
        )
    action_match = _NOT_AUTHORIZED.search(message)
    right, resource = (action_match[1], action_match[2]) if action_match else (action, None)
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


def of_tried(fleet_errors: Iterable[Mapping[str, Any]], capacity_type: str) -> list[Mapping[str, Any]]:
    """Return the ``Errors`` of a fleet without those of offerings that EC2 did not try.

    `UNTRIED` means a lack of capacity only if the offerings that EC2 tried lack it too. Of a reservation that EC2 did
    not try, it says nothing.
    """
    return _by_trial(fleet_errors, capacity_type)[0]


def _by_trial(
    fleet_errors: Iterable[Mapping[str, Any]], capacity_type: str
) -> tuple[list[Mapping[str, Any]], list[Mapping[str, Any]]]:
    """The errors that `of_tried` keeps, and those that it leaves out."""
    failures = list(fleet_errors)
    tried = [error for error in failures if error.get("ErrorCode") != UNTRIED]
    lack_capacity = all(error.get("ErrorCode") in INSUFFICIENT_CAPACITY for error in tried)
    if not tried or (lack_capacity and capacity_type != labels.RESERVED):
        return failures, []
    return tried, [error for error in failures if error.get("ErrorCode") == UNTRIED]


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
    A missing spot role gives one key without type and zone, a quota that is used up gives one key for all types that
    share it, and a refused type gives one key for all its zones. A reservation that is full counts as full only, until
    its places are counted again (N15-405). Any other refusal of a reserved launch rules the reservation out, and no
    other one (N15-404). Other errors rule out pairs. An error without a type or zone is about every pair that matches
    the rest of it. If these pairs have several quotas, it rules out only the pairs. Errors that `of_tried` leaves out
    rule out nothing.

    What EC2 refuses in a ``placement_group`` is ruled out for this group only. A spread group takes seven instances in
    a zone, so an error about the group itself rules out the zone for the group, whatever the type and capacity type.
    """
    pairs = sorted(set(tried))
    refused: set[tuple[str, str]] = set()
    full: set[str] = set()
    keys: set[OfferingKey] = set()
    failures = list(fleet_errors)
    denied = refused_type(failures, pairs, capacity_type)
    for error in of_tried(failures, capacity_type):
        code = error.get("ErrorCode", "")
        if code == SPOT_ROLE_MISSING:
            return [OfferingRef.of(OfferingKey(capacity_type, "", ""))]
        scope = scope_of(code)
        named_pairs = _meant(error, pairs)
        quotas = {quota_of(name, capacity_type) for name, _ in named_pairs}
        if scope is Scope.QUOTA and len(quotas) == 1 and capacity_type != labels.RESERVED:
            keys.add(OfferingKey.of_quota(capacity_type, quotas.pop()))
        elif denied and code in TYPE_REFUSED and capacity_type != labels.RESERVED:
            keys.add(OfferingKey(capacity_type, denied, ""))
        elif reservations and code == RESERVATION_FULL:
            keys |= {
                OfferingKey.of_full_reservation(capacity_type, zone, reservations.get((name, zone), ""))
                for name, zone in named_pairs
            }
        elif (
            scope in (Scope.OFFERING, Scope.QUOTA)
            or (denied and code in TYPE_REFUSED)
            or (reservations and scope is Scope.RESERVATION)
        ):
            refused |= named_pairs
            if strategy == SPREAD and _ABOUT_GROUP in error.get("ErrorMessage", "").lower():
                full |= {zone for _, zone in named_pairs}
    keys |= {
        OfferingKey.refusable(capacity_type, name, zone, (reservations or {}).get((name, zone), ""), placement_group)
        for name, zone in refused
        if zone not in full
    }
    keys |= {
        OfferingKey.refusable(launched_as, "", zone, placement_group=placement_group)
        for zone in full
        for launched_as in (labels.RESERVED, labels.SPOT, labels.ON_DEMAND)
    }
    return [OfferingRef.of(key) for key in sorted(keys)]


def refused_type(
    fleet_errors: Iterable[Mapping[str, Any]], tried: Iterable[tuple[str, str]], capacity_type: str
) -> str:
    """Return the one instance type that EC2 refused as such, with one of `TYPE_REFUSED`; empty if there is none.

    If EC2 tried no other type, the EC2NodeClass may be the cause, unless EC2 names the type or the launch of it.
    """
    pairs = set(tried)
    tried_failures, untried_failures = _by_trial(fleet_errors, capacity_type)
    names = _refused_types(tried_failures, pairs)
    if len(names) != 1:
        return ""
    untried_pairs = {pair for error in untried_failures for pair in _meant(error, pairs)}
    tried_types = {name for name, _ in pairs - untried_pairs}
    untried_types = {name for name, _ in untried_pairs} - tried_types
    is_named = any(map(_names_type, tried_failures))
    return names.pop() if len(tried_types) > 1 or (is_named and not untried_types) else ""


def refused_before_others(
    fleet_errors: Iterable[Mapping[str, Any]], tried: Iterable[tuple[str, str]], capacity_type: str
) -> list[OfferingRef]:
    """Return the types that EC2 refused as such without trying all others, sorted. Empty if EC2 tried every type.

    A policy may deny the cheapest types. If the next request had them again, EC2 would never try the types that the
    policy allows. Reservations are left to the breaker, because a request has only a few of them. So is what the
    EC2NodeClass may be the cause of: other classes may get these types.
    """
    pairs = set(tried)
    tried_failures, untried_failures = _by_trial(fleet_errors, capacity_type)
    names = _refused_types(filter(_names_type, tried_failures), pairs)
    untried_types = {name for error in untried_failures for name, _ in _meant(error, pairs)}
    if capacity_type == labels.RESERVED or untried_types <= names:
        return []
    return [OfferingRef.of(OfferingKey(capacity_type, name, "")) for name in sorted(names)]


def _names_type(error: Mapping[str, Any]) -> bool:
    """Whether EC2 names the type or the launch of it, so that no EC2NodeClass can be the cause."""
    return error.get("ErrorCode") in _NAMES_TYPE or _INSTANCE in error.get("ErrorMessage", "")


def _refused_types(fleet_errors: Iterable[Mapping[str, Any]], pairs: Collection[tuple[str, str]]) -> set[str]:
    """The instance types that EC2 refused with one of `TYPE_REFUSED`.

    A missing right that names something other than instances, such as an image or CreateFleet itself, is not about a
    type.
    """
    names: set[str] = set()
    for error in fleet_errors:
        code, message = error.get("ErrorCode", ""), error.get("ErrorMessage", "")
        if code not in TYPE_REFUSED:
            continue
        action = _NOT_AUTHORIZED.search(message) if code in UNAUTHORIZED else None
        if action and not (action[1] == "ec2:RunInstances" and (action[2] is None or _INSTANCE in action[2])):
            return set()
        names |= {name for name, _ in _meant(error, pairs)}
    return names


def _meant(error: Mapping[str, Any], pairs: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """The pairs that an error is about."""
    override = error.get("LaunchTemplateAndOverrides", {}).get("Overrides", {})
    wanted_type, wanted_zone = override.get("InstanceType", ""), override.get("AvailabilityZone", "")
    return {(name, zone) for name, zone in pairs if wanted_type in ("", name) and wanted_zone in ("", zone)}
