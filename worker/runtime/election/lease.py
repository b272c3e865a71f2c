"""Leader election with a Kubernetes Lease, so that one replica at a time is active.

A holder renews its Lease every two seconds and must stop if it could not do so for ten. Others take over when they have
seen the Lease unchanged for fifteen. Each side measures only with its own clock, so clocks need not agree. The Lease
saves work but is not a lock: for a moment two replicas may both lead, and everything that they do must tolerate that.

The Lease has Karpenter's name, so that only one of a Karpenter and a Tenon in one namespace leads. While Tenon holds
it, a label and the holder's name show that. After a release, an annotation shows that Tenon released it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from activities import loggers, metrics
from activities.clock import utc_now
from activities.kubernetes.client import Kube
from activities.kubernetes.errors import ApiError, ConflictError
from activities.kubernetes.resources import LEASES
from tenon.apis.json_object import JsonObject
from tenon.kube import object_json

log = loggers.LEADER_ELECTION

LEASE_NAME = "karpenter-leader-election"
IDENTITY_PREFIX = "tenon/"
"""The prefix of the identities of Tenon's replicas. Karpenter's start with a host name, which has no slash."""
LABEL, LABEL_VALUE = "app.kubernetes.io/managed-by", "tenon"
RELEASED = "tenon.sh/released-at"
"""Annotation on a Lease that Tenon released: the ``renewTime`` that it wrote then. The next holder overwrites
renewTime.
"""


MAX_DURATION = 60.0
"""Maximum duration of a Lease in seconds, whatever its holder states. A live holder renews every few seconds."""


def duration(spec: JsonObject, default: float) -> float:
    """Seconds that a Lease lasts after a renewal."""
    return min(float(spec.get("leaseDurationSeconds") or default), MAX_DURATION)


def is_tenons(identity: str) -> bool:
    """Whether this is the identity of a replica of Tenon."""
    return identity.startswith(IDENTITY_PREFIX)


def released_by_tenon(lease: JsonObject) -> bool:
    """Whether Tenon released the Lease and no other holder has acquired it since."""
    mark, spec = object_json.annotations(lease).get(RELEASED), _spec(lease)
    return bool(mark) and not spec.get("holderIdentity") and mark == spec.get("renewTime")


@dataclass(frozen=True)
class LeaseTimes:
    """In seconds: how long a Lease lasts without renewal, when its holder gives up, and how often both check."""

    duration: float = 15.0
    renew_deadline: float = 10.0
    retry: float = 2.0


DEFAULT_TIMES = LeaseTimes()


class LeaseElection:
    """Takes part in the election for one Lease under a unique ``identity``."""

    def __init__(
        self,
        kube: Kube,
        *,
        namespace: str,
        identity: str,
        name: str = LEASE_NAME,
        times: LeaseTimes = DEFAULT_TIMES,
        stand_by: Callable[[bool], bool] = lambda _leading: False,
        now: Callable[[], datetime] = utc_now,
    ) -> None:
        """``stand_by`` gets whether this replica leads. If it returns True, the replica gives up the Lease or does not
        take it.
        """
        self._kube = kube
        self._namespace = namespace
        self._identity = identity
        self._name = name
        self._key = f"{namespace}/{name}"
        self._times = times
        self._stand_by = stand_by
        self._now = now
        self._observed: tuple[str, float] | None = None
        self._complaint = ""
        self._renewed_at = 0.0
        self._status = metrics.LEADER_STATUS.labels(name)
        self._lead(False)

    async def run(self, lead: Callable[[], Awaitable[Any]]) -> None:
        """Wait for the Lease, run ``lead`` while holding it, and repeat.

        Losing the Lease cancels ``lead``. When ``lead`` ends or fails, or this method is cancelled, the Lease is
        released, so that another replica need not wait for it to expire. Exceptions of ``lead`` are raised again. If
        ``lead`` was cancelled from within, as a Temporal worker does to its caller when it cannot start, it is started
        again.
        """
        while True:
            await self.acquire()
            async with self._held():
                work = asyncio.ensure_future(lead())
                renewal = asyncio.create_task(self._renew(), name=f"renew lease {self._name}")
                try:
                    ended, _ = await asyncio.wait({work, renewal}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    renewal.cancel()
                    work.cancel()
                    ends = await asyncio.gather(work, renewal, return_exceptions=True)
            if work in ended and not work.cancelled():
                await work
                return
            for end in ends:  # an error while shutting down after a lost Lease must not end this loop
                if isinstance(end, Exception):
                    log.warning(
                        "The work of the leader did not end cleanly",
                        exc_info=end,
                        extra={"lease": self._key, "error": repr(end)},
                    )
            await asyncio.sleep(self._times.retry)  # let another replica go first

    async def acquire(self) -> None:
        """Wait until this identity holds the Lease."""
        is_held = await self._try_with_timeout()
        while not is_held:
            await asyncio.sleep(self._times.retry)
            is_held = await self._try_with_timeout()
        log.info("This replica leads", extra={"lease": self._key, "identity": self._identity})

    async def release(self) -> None:
        """Release the Lease if this identity still holds it. A failure is only logged, because the Lease expires by
        itself.
        """
        try:
            async with asyncio.timeout(self._times.renew_deadline / 2):
                lease = await self._kube.get(LEASES, self._name, self._namespace)
                if lease is not None and _spec(lease).get("holderIdentity") == self._identity:
                    stamp = self._stamp()
                    released = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": stamp}
                    await self._update(lease, released, label=None, released_at=stamp)
        except (ApiError, TimeoutError) as error:
            log.warning("This replica failed to release the Lease", extra={"lease": self._key, "error": repr(error)})

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[None]:
        self._lead(True)
        try:
            yield
        finally:
            self._lead(False)
            await self.release()

    def _lead(self, leads: bool) -> None:
        self.leading = leads
        self._status.set(leads)

    async def _renew(self) -> None:
        """Renew until the Lease is lost to another holder, or until no answer came within the deadline."""
        clock = asyncio.get_running_loop().time
        deadline = self._renewed_at + self._times.renew_deadline
        is_held: bool | None = True
        while is_held is not False and clock() < deadline:
            await asyncio.sleep(self._times.retry)
            try:
                async with asyncio.timeout_at(deadline):
                    is_held = await self._try()
            except TimeoutError:
                is_held = None
            deadline = self._renewed_at + self._times.renew_deadline
        log.warning("This replica lost the Lease and stops leading", extra={"lease": self._key})

    async def _try_with_timeout(self) -> bool | None:
        """Make one attempt, with a timeout, so that a hanging API server cannot block a takeover after it recovers."""
        try:
            async with asyncio.timeout(self._times.renew_deadline):
                return await self._try()
        except TimeoutError:
            return None

    async def _try(self) -> bool | None:
        """Make one attempt to take or renew the Lease. Returns whether it is ours now, or None if that is unknown."""
        if self._stand_by(self.leading):
            return False
        started_at = asyncio.get_running_loop().time()  # other replicas count from the write, not from the answer
        try:
            is_held = await self._take()
        except ConflictError:
            return None  # another client wrote; the next attempt reads the new holder
        except ApiError as error:
            if str(error) != self._complaint:
                log.warning(
                    "This replica failed to read or write the Lease and retries",
                    extra={"lease": self._key, "error": str(error)},
                )
            self._complaint = str(error)
            return None
        if self._complaint:
            log.info("This replica can read and write the Lease again", extra={"lease": self._key})
        self._complaint = ""
        if is_held:
            self._renewed_at = started_at
        return is_held

    async def _take(self) -> bool:
        lease = await self._kube.get(LEASES, self._name, self._namespace)
        mine = {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._times.duration)),
            "renewTime": self._stamp(),
        }
        if lease is None:
            fresh = {**mine, "acquireTime": mine["renewTime"], "leaseTransitions": 0}
            metadata = {"name": self._name, "namespace": self._namespace, "labels": {LABEL: LABEL_VALUE}}
            body = {"metadata": metadata, "spec": fresh}
            await self._kube.create(LEASES, body, self._namespace)
            return True
        spec = _spec(lease)
        holder = spec.get("holderIdentity") or ""
        if holder and holder != self._identity and not self._is_expired(lease):
            return False
        if holder != self._identity:
            mine |= {"acquireTime": mine["renewTime"], "leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1}
        return await self._update(lease, mine, label=LABEL_VALUE)

    def _is_expired(self, lease: JsonObject) -> bool:
        """Whether the Lease has not changed for the duration that its holder stated, by this process's own clock."""
        clock = asyncio.get_running_loop().time()
        version = lease["metadata"]["resourceVersion"]
        if self._observed is None or self._observed[0] != version:
            self._observed = (version, clock)
        return clock >= self._observed[1] + duration(_spec(lease), self._times.duration)

    async def _update(
        self, lease: JsonObject, spec: JsonObject, *, label: str | None, released_at: str | None = None
    ) -> bool:
        """Update exactly the version that was read."""
        metadata = {
            "resourceVersion": lease["metadata"]["resourceVersion"],
            "labels": {LABEL: label},
            "annotations": {RELEASED: released_at},
        }
        patch = {"metadata": metadata, "spec": spec}
        return await self._kube.patch(LEASES, self._name, patch, namespace=self._namespace) is not None

    def _stamp(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _spec(lease: JsonObject) -> dict[str, Any]:
    return lease.get("spec") or {}
