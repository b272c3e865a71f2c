"""Who else runs this cluster's nodes: a Karpenter, or a Tenon in another namespace. While one does, Tenon stands by.

Two controllers over the same NodeClaims would buy every node twice and each end what the other bought. Karpenter takes
no notice of Tenon, so Tenon does of Karpenter: its Lease is looked at every two seconds, by this process's own clock
only. A Lease that changed within the time its holder said is being renewed; released or unchanged for longer it is no
rival's any more. What cannot be seen is not taken for "nobody": the last answer holds, and before the first one Tenon
stands by.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from activities import metrics
from activities.kubernetes.client import Kube, Object
from activities.kubernetes.errors import ApiError
from activities.kubernetes.events import EventRecorder
from activities.kubernetes.resources import LEASES
from worker.lease import IDENTITY_PREFIX, LEASE_NAME
from worker.repeats import Sparingly

log = logging.getLogger("worker.rivals")

PERIOD = 2.0
DURATION = 15.0
"""Seconds that a Lease lasts whose holder does not say."""
STANDING_BY = "StandingBy"


@dataclass(frozen=True)
class Rival:
    """Somebody else's Lease that is being renewed."""

    namespace: str
    name: str
    holder: str
    lease: Object = field(compare=False, repr=False)

    @property
    def is_tenon(self) -> bool:
        """Whether another Tenon holds it, and no Karpenter."""
        return self.holder.startswith(IDENTITY_PREFIX)

    def __str__(self) -> str:
        who = "another Tenon" if self.is_tenon else "Karpenter"
        return f"{who} ({self.holder}) leads by the Lease {self.namespace}/{self.name}"


class Rivals:
    """Knows whether somebody else leads. ``namespace`` and ``name`` are those of Tenon's own Lease."""

    def __init__(self, kube: Kube, recorder: EventRecorder, *, namespace: str, name: str = LEASE_NAME) -> None:
        self._kube = kube
        self._recorder = recorder
        self._own = (namespace, name)
        self._names = sorted({LEASE_NAME, name})
        self._seen: dict[tuple[str, str], tuple[str, float]] = {}
        self._sparingly = Sparingly()
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
            if self.unseen:
                self.unseen = f"whether another controller leads cannot be seen, for Leases cannot be listed: {why}"
            if self._sparingly.count(why) is not None:
                log.warning("The Leases of other controllers cannot be listed: %s", why)
            return
        await self._note(found)

    async def serve(self, work: Callable[[], Awaitable[Any]]) -> None:
        """Run ``work`` whenever nobody else leads, and cancel it when somebody comes; ends when it ends by itself."""
        while True:
            await self._free.wait()
            serving = asyncio.ensure_future(work())
            taken = asyncio.create_task(self._taken.wait(), name="another leader")
            try:
                await asyncio.wait({serving, taken}, return_when=asyncio.FIRST_COMPLETED)
                ended = serving.done()
            finally:
                taken.cancel()
                serving.cancel()
                ends = await asyncio.gather(serving, taken, return_exceptions=True)
            if ended:
                await serving
                return
            if isinstance(ends[0], Exception):
                log.warning("What gave way to another leader did not end cleanly: %r", ends[0], exc_info=ends[0])

    async def _note(self, leases: list[Object]) -> None:
        clock = asyncio.get_running_loop().time()
        before, self._seen = self._seen, {}
        rivals = []
        for lease in leases:
            metadata, spec = lease["metadata"], lease.get("spec") or {}
            key = (metadata.get("namespace", ""), metadata["name"])
            version, since = before.get(key, ("", clock))
            self._seen[key] = (metadata["resourceVersion"], since if version == metadata["resourceVersion"] else clock)
            lasts = float(spec.get("leaseDurationSeconds") or DURATION)
            rival = Rival(*key, holder=spec.get("holderIdentity") or "", lease=lease)
            ours = key == self._own and rival.is_tenon
            if rival.holder and not ours and clock < self._seen[key][1] + lasts:
                rivals.append(rival)
        # A Karpenter before another Tenon, which gives way to it as well.
        await self._become(min(rivals, key=lambda each: (each.is_tenon, each.namespace, each.name), default=None))

    async def _become(self, rival: Rival | None) -> None:
        changed = bool(self.unseen) or rival != self.rival
        gone, self.rival, self.unseen = self.rival, rival, ""
        if not changed:
            return
        metrics.STANDING_BY.set(1 if rival else 0)
        if rival is None:
            if gone is not None:
                log.info("The Lease %s/%s has run out or was released: Tenon begins", gone.namespace, gone.name)
            self._taken.clear()
            self._free.set()
            return
        self._free.clear()
        self._taken.set()
        text = f"{rival}: Tenon stands by, and begins by itself once that Lease is released or has run out"
        log.warning(text)
        await self._recorder.publish(rival.lease, STANDING_BY, text)
