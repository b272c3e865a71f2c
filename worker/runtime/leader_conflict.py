"""Who else runs this cluster's nodes: a Karpenter, or a Tenon in another namespace. While one does, Tenon stands by.

Two controllers over the same NodeClaims would buy every node twice and each end what the other bought. Karpenter takes
no notice of Tenon, so Tenon does of Karpenter: its Lease is looked at every two seconds, by this process's own clock
only. A Lease is being renewed while its holder or its renewTime change within the time that its holder said. Unchanged
for longer it is no rival's any more, and at the latest after a minute: anybody who may create a Lease may write years
into it. One that was released is the rival's for another 15 seconds, for at each restart of a Karpenter one replica
releases what another takes two seconds later. What cannot be seen is not taken for "nobody": the last answer holds, and
before the first one Tenon stands by.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from activities import metrics
from activities.kubernetes.client import Kube, Object
from activities.kubernetes.errors import ApiError, Forbidden
from activities.kubernetes.events import EventRecorder
from activities.kubernetes.resources import LEASES
from worker.runtime.cancellation import interrupted
from worker.runtime.lease import LEASE_NAME, duration, is_tenons, released_by_tenon
from worker.runtime.log_rate_limit import LogRateLimiter

log = logging.getLogger(__name__)

PERIOD = 2.0
DURATION = 15.0
"""Seconds that a Lease lasts whose holder does not say, or that was released."""
LONG_AGO = timedelta(minutes=15)
"""A Lease that was released so long before it is first seen is nobody's at once, so that what an uninstalled Karpenter
left behind delays no start. AWS refuses who is five minutes off, so clocks are not further apart than ten."""
STANDING_BY = "StandingBy"


@dataclass(frozen=True)
class Rival:
    """Somebody else's Lease that is being renewed, or was released a moment ago."""

    namespace: str
    name: str
    holder: str
    """Who holds it or was last seen to hold it; empty when nobody has been seen."""
    lease: Object = field(compare=False, repr=False)

    @property
    def is_tenon(self) -> bool:
        """Whether another Tenon holds it, and no Karpenter."""
        return is_tenons(self.holder)

    def __str__(self) -> str:
        if not self.holder:
            return f"another controller has only just released the Lease {self.namespace}/{self.name}"
        who = "another Tenon" if self.is_tenon else "Karpenter"
        return f"{who} ({self.holder}) leads by the Lease {self.namespace}/{self.name}"


@dataclass(frozen=True)
class _Seen:
    """What a look found of one Lease."""

    renewal: tuple[str, str]
    """Who holds it, and the time that its holder wrote at the last renewal."""
    since: float
    """Since when it has this renewal, by this process's clock."""
    holder: str
    lasts: bool
    """Whether it counted as a rival's."""


class LeaderConflict:
    """Knows whether somebody else leads. ``namespace`` and ``name`` are those of Tenon's own Lease."""

    def __init__(
        self,
        kube: Kube,
        recorder: EventRecorder,
        *,
        namespace: str,
        name: str = LEASE_NAME,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._now = now
        self._kube = kube
        self._recorder = recorder
        self._own = (namespace, name)
        self._names = sorted({LEASE_NAME, name})
        self._seen: dict[tuple[str, str], _Seen] = {}
        self._blind = False
        self._log_limiter = LogRateLimiter()
        self.unseen = "it is not known yet whether another controller, such as Karpenter, leads"
        """Why Tenon cannot tell; empty since the first look that succeeded."""
        self._free = asyncio.Event()
        self._taken = asyncio.Event()
        self.rival: Rival | None = None

    def stand_by(self, leading: bool) -> bool:
        """Whether Tenon must not act now.

        Two Tenons that began in the same moment would both give way for ever: of two that lead already, the one with
        the first name goes on.
        """
        if leading and self.rival is not None and self.rival.is_tenon:
            return (self.rival.namespace, self.rival.name) < self._own
        return bool(self.unseen) or self.rival is not None

    async def run(self) -> None:
        """Look until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(PERIOD)

    async def look(self) -> None:
        """One look at the Leases; a failure leaves what was known."""
        try:
            async with asyncio.timeout(PERIOD * 5):
                found = [
                    lease
                    for name in self._names
                    for lease in await self._kube.list(LEASES, field_selector=f"metadata.name={name}")
                ]
        except (ApiError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            if isinstance(error, Forbidden):
                names = ", ".join(self._names)
                why += f" (ClusterRole tenon must allow list of leases with resourceNames [{names}])"
            self._blind = True
            if self.unseen:
                self.unseen = f"whether another controller leads cannot be seen, for Leases cannot be listed: {why}"
            if self._log_limiter.count(why) is not None:
                log.warning("The Leases of other controllers cannot be listed: %s", why)
            return
        await self._note(found)

    async def serve(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Run ``work`` whenever nobody else leads, and cancel it when somebody comes; ends when it ends by itself."""
        again = True
        while again:
            await self._free.wait()
            again = await interrupted(work(), self._taken.wait(), name="another leader")

    async def _note(self, leases: list[Object]) -> None:
        clock = asyncio.get_running_loop().time()
        before, self._seen = self._seen, {}
        rivals = []
        for lease in leases:
            key = (lease["metadata"].get("namespace", ""), lease["metadata"]["name"])
            seen = self._look_at(key, lease, before.get(key), clock)
            self._seen[key] = seen
            if seen.lasts:
                rivals.append(Rival(*key, holder=seen.holder, lease=lease))
        self._blind = False
        # A Karpenter before another Tenon, which gives way to it as well.
        await self._become(min(rivals, key=lambda each: (each.is_tenon, each.namespace, each.name), default=None))

    def _look_at(self, key: tuple[str, str], lease: Object, before: _Seen | None, clock: float) -> _Seen:
        """One Lease, and what was last seen of it."""
        spec = lease.get("spec") or {}
        holds = str(spec.get("holderIdentity") or "")
        renewal = (holds, str(spec.get("renewTime") or ""))
        holder = holds or (before.holder if before is not None else "")
        if key == self._own and (is_tenons(holder) or released_by_tenon(lease)):
            return _Seen(renewal, clock, holder, lasts=False)
        if before is None:
            since = float("-inf") if not holds and self._long_ago(spec.get("renewTime")) else clock
        elif before.renewal != renewal or (before.lasts and self._blind):
            since = clock  # a rival could not renew either while the API server was away
        else:
            since = before.since
        said = duration(spec, DURATION)
        return _Seen(renewal, since, holder, lasts=clock < since + (said if holds else max(said, DURATION)))

    def _long_ago(self, stamp: Any) -> bool:
        try:
            return self._now() - datetime.fromisoformat(str(stamp)) > LONG_AGO
        except (ValueError, TypeError):  # never written, or without a zone: nobody knows
            return False

    async def _become(self, rival: Rival | None) -> None:
        changed = bool(self.unseen) or rival != self.rival
        gone, self.rival, self.unseen = self.rival, rival, ""
        if not changed:
            return
        metrics.STANDING_BY.set(1 if rival else 0)
        if rival is None:
            if gone is not None:
                log.info("The Lease %s/%s has not been renewed for its time: Tenon begins", gone.namespace, gone.name)
            self._taken.clear()
            self._free.set()
            return
        self._free.clear()
        self._taken.set()
        when = f"begins by itself {DURATION:.0f} s after that Lease was last renewed or released"
        text = f"{rival}: Tenon stands by, and {when}"
        log.warning(text)
        await self._recorder.publish(rival.lease, STANDING_BY, text)
