"""Detects another controller that manages this cluster's nodes: a Karpenter, or a Tenon in another namespace.

While another one is active, Tenon stands by. Two controllers over the same NodeClaims would buy every node twice and
each terminate what the other bought. Karpenter does not check for Tenon, so Tenon checks for Karpenter: it reads its
Lease every two seconds and measures only with this process's own clock.

A Lease counts only if its holder may be a controller of nodes (`worker/runtime/election/lease_holders.py`). Tenon
reports the other Leases of this name and does not stand by for them.

A Lease is active while its holder or its renewTime change within the duration that its holder states. A Lease that has
not changed for longer is expired. At most a minute counts, whatever duration is written into it. A released Lease
counts as active for another 15 seconds, because at each restart of a Karpenter one replica releases what another
acquires two seconds later. If the Leases cannot be read, the last result holds, and before the first result Tenon
stands by.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Coroutine, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from activities import loggers, metrics
from activities.clock import utc_now
from activities.gate import Gate
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ForbiddenError
from activities.kubernetes.events import EventPublisher
from activities.kubernetes.resources import LEASES
from tenon.apis.json_object import JsonObject
from tenon.kube.event_reasons import EventReason
from tenon.kube.timestamps import parse_instant
from worker.log_rate_limit import LogRateLimiter
from worker.runtime.cancellation import interrupted
from worker.runtime.election.lease import LEASE_NAME, duration, is_tenons, released_by_tenon
from worker.runtime.election.lease_holders import Key, LeaseHolders

log = loggers.LEADER_ELECTION

PERIOD = 2.0
DURATION = 15.0
"""Seconds that a Lease lasts if its holder does not state a duration, or after it was released."""
LONG_AGO = timedelta(minutes=15)
"""A Lease that was released this long before it is first seen counts as free immediately, so that the remains of an
uninstalled Karpenter do not delay a start. AWS rejects requests whose clock is off by more than five minutes, so two
clocks differ by at most ten.
"""
BLIND_SECONDS = 30.0
"""Seconds after which a process that cannot read the Leases closes its gate. It may be cut off from the API server
while another controller is not, and what waits for its turn at EC2 would still be sent.
"""
MAX_HOLDER = 300
"""The maximum length of a holder's identity in events and logs. An API server allows any length."""


@dataclass(frozen=True)
class ForeignLease:
    """Another controller's Lease that is being renewed, or was just released."""

    namespace: str
    name: str
    holder: str
    """The current or last known holder. Empty if none has been seen."""
    lease: JsonObject = field(compare=False, repr=False)

    @property
    def is_tenon(self) -> bool:
        """Whether another Tenon holds it, rather than a Karpenter."""
        return is_tenons(self.holder)

    def __str__(self) -> str:
        if not self.holder:
            return f"another controller has just released the Lease {self.namespace}/{self.name}"
        holder_name = "another Tenon" if self.is_tenon else "Karpenter"
        return f"{holder_name} ({self.holder}) leads by the Lease {self.namespace}/{self.name}"


@dataclass(frozen=True)
class _Observation:
    """The observed state of one Lease."""

    renewal: tuple[str, str]
    """The holder, and the renewTime that it wrote last."""
    since: float
    """When this renewal was first seen, by this process's clock."""
    holder: str
    lasts: bool
    """Whether the Lease counted as active."""


class LeaderConflict:
    """Knows whether another controller leads. ``namespace`` and ``name`` identify Tenon's own Lease."""

    def __init__(
        self,
        kube: Kube,
        recorder: EventPublisher,
        *,
        namespace: str,
        name: str = LEASE_NAME,
        namespaces: Collection[str] = (),
        gate: Gate | None = None,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """``namespaces``: in these, and in Tenon's own, every Lease counts, of any holder.

        ``gate`` is the process's, which this object opens and closes.
        """
        self._now = now
        self._kube = kube
        self._recorder = recorder
        self._own = (namespace, name)
        self._names = sorted({LEASE_NAME, name})
        self._holders = LeaseHolders(kube, {namespace, *namespaces})
        self._observations: dict[tuple[str, str], _Observation] = {}
        self._blind = False
        self._log_limiter = LogRateLimiter()
        self.unseen = "Tenon has not checked yet whether another controller, such as Karpenter, leads"
        """Why this is unknown. Empty after the first check that succeeded."""
        self._gate = gate or Gate()
        self._gate.close(self.unseen)
        self._seen_at = float("-inf")
        """When the Leases were last read."""
        self._free = asyncio.Event()
        self._other_leader = asyncio.Event()
        self.rival: ForeignLease | None = None

    def why_unknown(self) -> str:
        """Why it is not known whether another controller leads, so that nothing may be changed. Empty if it is."""
        return self.unseen or (self._gate.why if self.rival is None else "")

    def stand_by(self, leading: bool) -> bool:
        """Whether Tenon must not act now.

        Two Tenons that started at the same moment would both give way forever. If both already lead, the one whose
        namespace and name sort first continues.
        """
        if leading and self.rival is not None and self.rival.is_tenon:
            return (self.rival.namespace, self.rival.name) < self._own
        return bool(self.unseen) or self.rival is not None

    async def run(self) -> None:
        """Check until cancelled."""
        while True:
            await self.check()
            await asyncio.sleep(PERIOD)

    async def check(self) -> None:
        """Check the Leases once. A failure keeps the previous result."""
        try:
            async with asyncio.timeout(PERIOD * 5):
                leases_list = [
                    lease
                    for name in self._names
                    for lease in await self._kube.list(LEASES, field_selector=f"metadata.name={name}")
                ]
                leases = {
                    (listed_lease["metadata"].get("namespace", ""), listed_lease["metadata"]["name"]): listed_lease
                    for listed_lease in leases_list
                }
                controllers = await self._holders.controllers(leases)
        except (ApiError, TimeoutError) as error:
            why = str(error) or "no answer in time"
            if isinstance(error, ForbiddenError):
                names = ", ".join(self._names)
                why += f" (ClusterRole tenon must allow list of leases with resourceNames [{names}])"
            self._blind = True
            clock = asyncio.get_running_loop().time()
            if not self._gate.why and clock >= self._seen_at + BLIND_SECONDS:
                self._gate.close(
                    f"the Leases of other controllers could not be read for {clock - self._seen_at:.0f} s, and one of "
                    f"them may lead: {why}"
                )
            if self.unseen:
                self.unseen = (
                    f"Tenon cannot check whether another controller leads, because it cannot list Leases: {why}"
                )
            if self._log_limiter.count(why) is not None:
                log.warning("The worker failed to list the Leases of other controllers", extra={"error": why})
            return
        await self._record(leases, controllers)

    async def serve(self, work: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Run ``work`` while no other controller leads, and cancel it when one appears. Returns when ``work`` ends by
        itself.
        """
        again = True
        while again:
            await self._free.wait()
            again = await interrupted(work(), self._other_leader.wait(), name="another leader")

    async def _record(self, leases: dict[Key, JsonObject], controllers: Collection[Key]) -> None:
        clock = asyncio.get_running_loop().time()
        before, self._observations, self._seen_at = self._observations, {}, clock
        rivals: list[ForeignLease] = []
        ignored: list[ForeignLease] = []
        for key, lease in leases.items():
            observed = self._observe(key, lease, before.get(key), clock)
            self._observations[key] = observed
            if observed.lasts:
                (rivals if key in controllers else ignored).append(
                    ForeignLease(*key, holder=observed.holder, lease=lease)
                )
        self._blind = False
        # Prefer a Karpenter over another Tenon, because the other Tenon gives way to it as well.
        await self._become(min(rivals, key=lambda rival: (rival.is_tenon, rival.namespace, rival.name), default=None))
        await self._report(ignored)

    async def _report(self, ignored: Sequence[ForeignLease]) -> None:
        """Say about each Lease that does not count that Tenon goes on, and what to do if it should count."""
        metrics.IGNORED_LEASES.set(len(ignored))
        for ignored_lease in ignored:
            key = f"{ignored_lease.namespace}/{ignored_lease.name}"
            if self._log_limiter.count(key) is None:
                continue
            log.warning(
                "The holder of a Lease is no controller of nodes, and Tenon does not stand by for it",
                extra={"lease": key, "holder": ignored_lease.holder},
            )
            why = (
                f"{ignored_lease.holder or 'its holder'} is no Pod of namespace {ignored_lease.namespace} whose "
                "ServiceAccount may write NodeClaims: Tenon does not stand by. If a Karpenter holds this Lease, add "
                "the namespace to STAND_BY_NAMESPACES of Tenon"
            )
            await self._recorder.publish(ignored_lease.lease, EventReason.LEASE_IGNORED, why)

    def _observe(self, key: Key, lease: JsonObject, before: _Observation | None, clock: float) -> _Observation:
        """Compare one Lease with its previous observation."""
        spec = lease.get("spec") or {}
        holds = str(spec.get("holderIdentity") or "")[:MAX_HOLDER]
        renewal = (holds, str(spec.get("renewTime") or ""))
        holder = holds or (before.holder if before is not None else "")
        if key == self._own and (is_tenons(holder) or released_by_tenon(lease)):
            return _Observation(renewal, clock, holder, lasts=False)
        if before is None:
            since = float("-inf") if not holds and self._long_ago(spec.get("renewTime")) else clock
        elif before.renewal != renewal or (before.lasts and self._blind):
            since = clock  # another holder could not renew either while the API server was unavailable
        else:
            since = before.since
        stated_duration = duration(spec, DURATION)
        return _Observation(
            renewal, since, holder, lasts=clock < since + (stated_duration if holds else max(stated_duration, DURATION))
        )

    def _long_ago(self, stamp: Any) -> bool:
        renewed_at = parse_instant(stamp)
        return renewed_at is not None and self._now() - renewed_at > LONG_AGO

    async def _become(self, rival: ForeignLease | None) -> None:
        if rival is None:
            self._gate.open()
        else:
            self._gate.close(f"{rival}, and Tenon stands by")
        changed = bool(self.unseen) or rival != self.rival
        previous, self.rival, self.unseen = self.rival, rival, ""
        if not changed:
            return
        metrics.STANDING_BY.set(1 if rival else 0)
        if rival is None:
            if previous is not None:
                log.info(
                    "The Lease of another controller expired, and Tenon starts",
                    extra={"lease": f"{previous.namespace}/{previous.name}"},
                )
            self._other_leader.clear()
            self._free.set()
            return
        self._free.clear()
        self._other_leader.set()
        when = f"starts by itself {DURATION:.0f} s after that Lease was last renewed or released"
        log.warning(
            "Another controller leads, and Tenon stands by",
            extra={"lease": f"{rival.namespace}/{rival.name}", "holder": rival.holder},
        )
        await self._recorder.publish(rival.lease, EventReason.STANDING_BY, f"{rival}: Tenon stands by, and {when}")
