"""Entries to record, which differ in what a test looks at."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tenon.messages.explanation import Explanation
from tenon.record.entries import LaunchEntry, RecordedNode, RefusalEntry, RemovalEntry

AT = datetime(2026, 11, 27, 6, 15, tzinfo=UTC)


def launch(number: int = 1, *, at: datetime = AT, cluster: str = "prod", why: str = "") -> LaunchEntry:
    """The launch of one node."""
    return LaunchEntry(
        id=f"launch/{cluster}/default-{number}/i-{number}",
        at=at,
        cluster=cluster,
        workflow=f"nodeclaim/{cluster}/default-{number}",
        facts=facts(number),
        why=Explanation.of(why),
    )


def removal(number: int = 1, *, at: datetime = AT, cluster: str = "prod", reason: str = "Expired") -> RemovalEntry:
    """The end of one node."""
    return RemovalEntry(
        id=f"removal/{cluster}/default-{number}/uid-{number}",
        at=at,
        cluster=cluster,
        facts=facts(number),
        reason=reason,
        actor="ann with tenon node",
        detail="the disk is broken",
        launched_at=at - timedelta(hours=2),
        terminated_at=at,
        cost=0.192,
    )


def refusal(number: int = 1, *, at: datetime = AT) -> RefusalEntry:
    """EC2 had no capacity for one node."""
    return RefusalEntry(
        id=f"refusal/prod/default-{number}/run/1/InsufficientCapacity",
        at=at,
        cluster="prod",
        claim=f"default-{number}",
        pool="default",
        code="InsufficientCapacity",
        message="no capacity for m5.large",
    )


def facts(number: int) -> RecordedNode:
    """Which node it is about."""
    return RecordedNode(
        claim=f"default-{number}",
        pool="default",
        node=f"ip-10-0-0-{number}",
        instance=f"i-{number}",
        instance_type="m5.large",
        price=0.096,
    )
