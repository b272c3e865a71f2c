"""Reads EC2's status checks and scheduled events of instances."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import TYPE_CHECKING

from activities.ec2.client import Ec2
from activities.ec2.errors import translated
from tenon.ec2.instances.status import EVENT_CODES, InstanceStatus

if TYPE_CHECKING:
    from types_boto3_ec2.type_defs import FilterTypeDef, InstanceStatusSummaryTypeDef, InstanceStatusTypeDef

_WITH_EVENT: FilterTypeDef = {"Name": "event.code", "Values": list(EVENT_CODES)}
_SELECTIONS: tuple[FilterTypeDef, ...] = (
    {"Name": "system-status.status", "Values": ["impaired"]},
    {"Name": "instance-status.status", "Values": ["impaired"]},
    _WITH_EVENT,
)
"""One call for each, because EC2 wants all filters of a call to match. Healthy instances are in no answer."""


def failing(clients: Ec2) -> list[InstanceStatus]:
    """The running instances of the region that fail a check or have a scheduled event.

    Raises:
        EC2Error: the call failed.
    """
    statuses: dict[str, InstanceStatus] = {}
    paginator = clients.ec2.get_paginator("describe_instance_status")
    for selection in _SELECTIONS:
        with translated("DescribeInstanceStatus"):
            for page in paginator.paginate(Filters=[selection]):
                statuses.update({status["InstanceId"]: _status(status) for status in page["InstanceStatuses"]})
    return list(statuses.values())


def scheduled(clients: Ec2) -> frozenset[str]:
    """The running instances of the region that have a scheduled event which is not over.

    Raises:
        EC2Error: the call failed.
    """
    statuses: list[InstanceStatus] = []
    with translated("DescribeInstanceStatus"):
        for page in clients.ec2.get_paginator("describe_instance_status").paginate(Filters=[_WITH_EVENT]):
            statuses += [_status(status) for status in page["InstanceStatuses"]]
    return frozenset(status.instance_id for status in statuses if status.scheduled)


def _status(raw: InstanceStatusTypeDef) -> InstanceStatus:
    return InstanceStatus(
        instance_id=raw["InstanceId"],
        instance_impaired_since=_since(raw.get("InstanceStatus")),
        system_impaired_since=_since(raw.get("SystemStatus")),
        events=tuple(event.get("Description", "") for event in raw.get("Events", [])),
    )


def _since(check: InstanceStatusSummaryTypeDef | None) -> datetime | None:
    """Since when a check fails, or None if it does not."""
    if check is None or check.get("Status") != "impaired":
        return None
    since: Iterable[datetime] = (
        detail["ImpairedSince"] for detail in check.get("Details", []) if "ImpairedSince" in detail
    )
    return min(since, default=None)
