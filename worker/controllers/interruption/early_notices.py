"""Remembers notices about instances that no NodeClaim names yet, until one does.

EC2 may take a spot instance back before its launch is recorded on the NodeClaim. The message would be gone by then, and
the node would be found only after minutes, by its registration timeout or a sweep. Only this process remembers it.
Messages about instances of other clusters come here too, so the number and the time are limited.
"""

from __future__ import annotations

from collections import OrderedDict
from datetime import datetime, timedelta

from tenon.ec2.instances.interruption import Notice, NoticeKind

KEPT_FOR = timedelta(minutes=15)
"""As long as a node may take to register."""
MAX_KEPT = 10_000


class EarlyNotices:
    """The notices, by instance."""

    def __init__(self) -> None:
        self._notices: OrderedDict[str, tuple[Notice, datetime]] = OrderedDict()

    def __len__(self) -> int:
        """The number of instances."""
        return len(self._notices)

    def __contains__(self, instance_id: str) -> bool:
        """Whether there is a notice about the instance."""
        return instance_id in self._notices

    def keep(self, notice: Notice, instance_id: str, now: datetime) -> None:
        """Remember a notice. A spot interruption is not replaced by a later notice: it says more."""
        before = self._notices.pop(instance_id, None)
        if before is not None and before[0].kind is NoticeKind.SPOT_INTERRUPTED:
            notice = before[0]
        self._notices[instance_id] = (notice, now + KEPT_FOR)
        while len(self._notices) > MAX_KEPT or next(iter(self._notices.values()))[1] < now:
            self._notices.popitem(last=False)

    def take(self, instance_id: str, now: datetime) -> Notice | None:
        """Return the notice about an instance and forget it."""
        notice, until = self._notices.pop(instance_id, (None, now))
        return notice if until >= now else None
