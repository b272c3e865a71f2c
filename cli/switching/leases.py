"""Watches the Leases of controllers: who may lead, and who leads. Only this machine's own clock counts."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from activities.kubernetes.client import Kube
from activities.kubernetes.resources import LEASES
from tenon.apis.json_object import JsonObject
from worker.runtime.election.lease import LEASE_NAME, duration, is_tenons

DEFAULT_SECONDS = 15.0


@dataclass(frozen=True, slots=True)
class Holder:
    """Who holds a Lease."""

    namespace: str
    identity: str
    renews: bool
    """It renewed the Lease between two looks."""

    @property
    def is_tenon(self) -> bool:
        """Whether it is a replica of Tenon."""
        return is_tenons(self.identity)


@dataclass(slots=True)
class LeaseWatch:
    """Looks at the Leases again and again. A Lease that does not change for as long as it lasts is not held."""

    kube: Kube
    name: str = LEASE_NAME
    clock: Callable[[], float] = time.monotonic
    _renewals: dict[str, tuple[str, str, float, bool]] = field(default_factory=dict)
    """Namespace -> holder, renewTime, when that was first seen, and whether it has changed under this holder."""

    async def holders(self) -> list[Holder]:
        """Return who holds a Lease that has not expired."""
        leases = await self.kube.list(LEASES, field_selector=f"metadata.name={self.name}")
        now = self.clock()
        holders = []
        for lease in leases:
            spec = lease.get("spec") or {}
            if identity := str(spec.get("holderIdentity") or ""):
                renews, since = self._observe(lease["metadata"]["namespace"], identity, spec, now)
                if now - since < duration(spec, DEFAULT_SECONDS):
                    holders.append(Holder(lease["metadata"]["namespace"], identity, renews))
        return holders

    def _observe(self, namespace: str, identity: str, spec: JsonObject, now: float) -> tuple[bool, float]:
        renewed = str(spec.get("renewTime") or "")
        before = self._renewals.get(namespace)
        if before is None or before[0] != identity:
            # A holder that changed while we watched is alive: it has just taken the Lease.
            record = (identity, renewed, now, before is not None)
        elif before[1] != renewed:
            record = (identity, renewed, now, True)
        else:
            record = before
        self._renewals[namespace] = record
        return record[3], record[2]
