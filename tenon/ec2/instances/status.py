"""What EC2's status checks and scheduled events of instances mean for their nodes (AWS-146, AWS-147)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from tenon.ec2.instances.interruption import NoticeKind
from tenon.kube.claim_record import ClaimRecord

TOLERATED = timedelta(seconds=120)
"""How long a check may fail before the node leaves. EC2 repeats a check every minute."""
EVENT_CODES = ("instance-reboot", "instance-retirement", "instance-stop", "system-maintenance", "system-reboot")
"""The scheduled events that interrupt an instance."""
_OVER = ("[Canceled]", "[Completed]")
"""How EC2 marks the description of an event that is over. It lists such an event for up to a week."""


@dataclass(frozen=True, slots=True)
class InstanceStatus:
    """EC2's answer about one instance. A time is None if the check does not fail."""

    instance_id: str
    instance_impaired_since: datetime | None = None
    system_impaired_since: datetime | None = None
    events: tuple[str, ...] = ()
    """The descriptions of its scheduled events."""

    @property
    def scheduled(self) -> bool:
        """Whether the instance has a scheduled event that is not over."""
        return any(not description.startswith(_OVER) for description in self.events)


def impaired(statuses: Iterable[InstanceStatus]) -> frozenset[str]:
    """Return the instances that fail a check, however short."""
    return frozenset(
        status.instance_id
        for status in statuses
        if status.system_impaired_since is not None or status.instance_impaired_since is not None
    )


def unhealthy(statuses: Iterable[InstanceStatus], now: datetime) -> dict[str, NoticeKind]:
    """Return the instances whose nodes must leave, and why. A failing check counts before a scheduled event."""
    kinds: dict[str, NoticeKind] = {}
    for status in statuses:
        if _failed(status.system_impaired_since, now):
            kinds[status.instance_id] = NoticeKind.SYSTEM_STATUS
        elif _failed(status.instance_impaired_since, now):
            kinds[status.instance_id] = NoticeKind.INSTANCE_STATUS
        elif status.scheduled:
            kinds[status.instance_id] = NoticeKind.EVENT_STATUS
    return kinds


def without_reboot(status: InstanceStatus, claim: ClaimRecord) -> InstanceStatus:
    """Return the status without the failing checks that the reboot of the claim's instance explains.

    A check fails while the machine boots, and for a minute or two after its Node is Ready. The reboot has a limit of
    its own. The drain before it may have none, so until EC2 is asked, a check counts.
    """
    reboots = claim.rebooting and bool(claim.pre_boot_id)

    def counts_from(since: datetime | None) -> datetime | None:
        return None if since is None or reboots else max(since, claim.rebooted_at or since)

    return replace(
        status,
        instance_impaired_since=counts_from(status.instance_impaired_since),
        system_impaired_since=counts_from(status.system_impaired_since),
    )


def _failed(since: datetime | None, now: datetime) -> bool:
    return since is not None and now - since >= TOLERATED
