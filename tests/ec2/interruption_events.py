"""Events of AWS as its documentation shows them, and bodies that are no such event."""

from __future__ import annotations

import json
from typing import Any

ID = "i-1234567890abcdef0"


def event(source: str, detail_type: str, detail: Any, **more: Any) -> dict[str, Any]:
    return {
        "version": "0",
        "id": "12345678-1234-1234-1234-123456789012",
        "detail-type": detail_type,
        "source": source,
        "account": "123456789012",
        "time": "2026-03-01T12:00:00Z",
        "region": "us-east-2",
        "resources": [f"arn:aws:ec2:us-east-2a:instance/{ID}"],
        "detail": detail,
        **more,
    }


def of_instance(detail_type: str, **detail: str) -> dict[str, Any]:
    return event("aws.ec2", detail_type, {"instance-id": ID, **detail})


SPOT = of_instance("EC2 Spot Instance Interruption Warning", **{"instance-action": "terminate"})
REBALANCE = of_instance("EC2 Instance Rebalance Recommendation")
_TAKEN_BACK = {
    "instance-action": "terminate",
    "instance-termination-time": "2026-03-01T12:02:00Z",
    "azId": "use2-az1",
}
RESERVATION = of_instance("EC2 Capacity Reservation Instance Interruption Warning", **_TAKEN_BACK)
INTERRUPTIBLE = of_instance("EC2 Interruptible Capacity Reservation Instance Interruption Warning", **_TAKEN_BACK)
"""The same event under the name that other pages of AWS's documentation give it."""
HEALTH = event(
    "aws.health",
    "AWS Health Event",
    {
        "eventArn": "arn:aws:health:us-west-2::event/EC2/AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED/x",
        "service": "EC2",
        "eventTypeCode": "AWS_EC2_PERSISTENT_INSTANCE_RETIREMENT_SCHEDULED",
        "eventTypeCategory": "scheduledChange",
        "startTime": "Thu, 27 Aug 2026 13:19:03 GMT",
        "statusCode": "upcoming",
        "eventDescription": [{"language": "en_US", "latestDescription": "A description of the event"}],
        "affectedEntities": [
            {"entityValue": ID, "lastUpdatedTime": "Thu, 26 Aug 2026 19:01:34 GMT", "status": "PENDING"},
            {"entityValue": "i-1234567890abcdef1"},
            {"entityValue": "vol-1234567890abcdef0"},
            {"entityValue": ID},
        ],
        "page": "1",
        "totalPages": "1",
    },
)


def state(name: str) -> dict[str, Any]:
    return of_instance("EC2 Instance State-change Notification", state=name)


HOSTILE = [
    "",
    "null",
    "[]",
    "{}",
    "{",
    '"text"',
    "\ud800",
    "[" * 100_000,
    '{"detail":' * 50_000,
    json.dumps({**SPOT, "detail": None}),
    json.dumps({**SPOT, "detail": []}),
    json.dumps({**SPOT, "detail": {}}),
    json.dumps({**SPOT, "detail": {"instance-id": ["i-1234567890abcdef0"]}}),
    json.dumps({**SPOT, "detail": {"instance-id": "i-1234567890abcdef0/../../secrets"}}),
    json.dumps({**SPOT, "detail": {"instance-id": "I" * 100_000}}),
    json.dumps({**SPOT, "source": {"aws": "ec2"}}),
    json.dumps({**state("stopping"), "detail": {"instance-id": ID}}),
    json.dumps({**HEALTH, "detail": {**HEALTH["detail"], "affectedEntities": ID}}),
    json.dumps({**HEALTH, "detail": {**HEALTH["detail"], "affectedEntities": [ID]}}),
]
