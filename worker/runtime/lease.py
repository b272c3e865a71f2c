"""One active replica at a time, agreed upon by a Kubernetes Lease.

A holder renews its Lease every two seconds and must stop when it could not for ten; others take over once they have
seen it unchanged for fifteen. Each side measures with its own clock only, so clocks need not agree. The Lease saves
work and is no lock: for a moment two replicas may both believe in themselves, and all they do must bear that.

Its name is Karpenter's, so that of a Karpenter and a Tenon in one namespace only one leads. While Tenon holds it, a
label and the holder's name say whose it is; once released, an annotation says that Tenon did it.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from activities.kubernetes.client import Kube, Object
from activities.kubernetes.errors import ApiError, Conflict
from activities.kubernetes.resources import LEASES

log = logging.getLogger(__name__)

LEASE_NAME = "karpenter-leader-election"
IDENTITY_PREFIX = "tenon/"
"""How the identities of Tenon's replicas begin. Karpenter's begin with a host's name, which has no slash."""
EARLIER_IDENTITY = re.compile(r".+_[0-9]+")
"""The identities of Tenon's first releases: a host's name and a process. After Karpenter's ``_`` comes a UUID."""
LABEL, LABEL_VALUE = "app.kubernetes.io/managed-by", "tenon"
RELEASED = "tenon.sh/released-at"
"""On a Lease that Tenon released: the ``renewTime`` that it wrote then. The next holder of the Lease overwrites it."""


LONGEST_DURATION = 60.0
"""Seconds that a Lease lasts at most, whatever its holder says: who renews one does so every few seconds."""


def duration(spec: Object, default: float) -> float:
    """Seconds that a Lease lasts after it was renewed."""
    return min(float(spec.get("leaseDurationSeconds") or default), LONGEST_DURATION)


def is_tenons(identity: str) -> bool:
    """Whether this is the identity of a replica of Tenon."""
    return identity.startswith(IDENTITY_PREFIX) or EARLIER_IDENTITY.fullmatch(identity) is not None


def released_by_tenon(lease: Object) -> bool:
    """Whether nobody has held the Lease since Tenon released it."""
    mark, spec = (lease["metadata"].get("annotations") or {}).get(RELEASED), _spec(lease)
    return bool(mark) and not spec.get("holderIdentity") and mark == spec.get("renewTime")


@dataclass(frozen=True)
class LeaseTimes:
    """Seconds: how long a Lease lasts unrenewed, when its holder gives up, how often either looks."""

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
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """``stand_by`` says, given whether this replica leads, that it must not: it then gives up or never takes."""
        self._kube = kube
        self._namespace = namespace
        self._identity = identity
        self._name = name
        self._times = times
        self._stand_by = stand_by
        self._now = now
        self._observed: tuple[str, float] | None = None
        self._complaint = ""
        self._renewed_at = 0.0
        self.leading = False

    async def run(self, lead: Callable[[], Awaitable[Any]]) -> None:
        """Awaits the Lease, runs ``lead`` while holding it, and so on for ever.

        Losing the Lease cancels ``lead``. When ``lead`` ends, fails or all of this is cancelled, the Lease is released
        so that another replica need not wait for it to run out; what ``lead`` raised is raised again. A ``lead`` that
        was cancelled from within, as a Temporal worker does to its surroundings when it cannot begin, is begun anew.
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
            for end in ends:  # what goes wrong while a lost leadership is wound up must not end the standing by
                if isinstance(end, Exception):
                    log.warning("Leading did not end cleanly: %r", end, exc_info=end)
            await asyncio.sleep(self._times.retry)  # another replica goes first

    async def acquire(self) -> None:
        """Waits until this identity holds the Lease."""
        held = await self._try_for_a_while()
        while not held:
            await asyncio.sleep(self._times.retry)
            held = await self._try_for_a_while()
        log.info("This replica (%s) now leads by the Lease %s/%s", self._identity, self._namespace, self._name)

    async def release(self) -> None:
        """Gives the Lease up if it is still ours; a failure is logged, for the Lease runs out by itself."""
        try:
            async with asyncio.timeout(self._times.renew_deadline / 2):
                lease = await self._kube.get(LEASES, self._name, self._namespace)
                if lease is not None and _spec(lease).get("holderIdentity") == self._identity:
                    stamp = self._stamp()
                    released = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": stamp}
                    await self._update(lease, released, label=None, released_at=stamp)
        except (ApiError, TimeoutError) as error:
            log.warning("The Lease %s/%s could not be released: %r", self._namespace, self._name, error)

    @asynccontextmanager
    async def _held(self) -> AsyncIterator[None]:
        self.leading = True
        try:
            yield
        finally:
            self.leading = False
            await self.release()

    async def _renew(self) -> None:
        """Returns when the Lease is lost: to another, or for want of an answer within the deadline."""
        clock = asyncio.get_running_loop().time
        deadline = self._renewed_at + self._times.renew_deadline
        held: bool | None = True
        while held is not False and clock() < deadline:
            await asyncio.sleep(self._times.retry)
            try:
                async with asyncio.timeout_at(deadline):
                    held = await self._try()
            except TimeoutError:
                held = None
            deadline = self._renewed_at + self._times.renew_deadline
        log.warning("The Lease %s/%s is lost: this replica stops leading", self._namespace, self._name)

    async def _try_for_a_while(self) -> bool | None:
        """One attempt, given up when an API server that hangs would keep it from taking over one that serves again."""
        try:
            async with asyncio.timeout(self._times.renew_deadline):
                return await self._try()
        except TimeoutError:
            return None

    async def _try(self) -> bool | None:
        """One attempt to take or renew the Lease: whether it is ours now, None when that is unknown."""
        if self._stand_by(self.leading):
            return False
        asked = asyncio.get_running_loop().time()  # others count from the write, which a slow answer only follows
        try:
            held = await self._take()
        except Conflict:
            return None  # somebody wrote meanwhile; the next look tells who
        except ApiError as error:
            if str(error) != self._complaint:
                log.warning("The Lease %s/%s cannot be read or written: %s", self._namespace, self._name, error)
            self._complaint = str(error)
            return None
        if self._complaint:
            log.info("The Lease %s/%s can be read and written again", self._namespace, self._name)
        self._complaint = ""
        if held:
            self._renewed_at = asked
        return held

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
        if holder and holder != self._identity and not self._run_out(lease):
            return False
        if holder != self._identity:
            mine |= {"acquireTime": mine["renewTime"], "leaseTransitions": int(spec.get("leaseTransitions") or 0) + 1}
        return await self._update(lease, mine, label=LABEL_VALUE)

    def _run_out(self, lease: Object) -> bool:
        """Whether the Lease has not changed for as long as its holder said, by this process's own clock."""
        clock = asyncio.get_running_loop().time()
        version = lease["metadata"]["resourceVersion"]
        if self._observed is None or self._observed[0] != version:
            self._observed = (version, clock)
        return clock >= self._observed[1] + duration(_spec(lease), self._times.duration)

    async def _update(self, lease: Object, spec: Object, *, label: str | None, released_at: str | None = None) -> bool:
        """Writes on top of the version that was read, never on another."""
        metadata = {
            "resourceVersion": lease["metadata"]["resourceVersion"],
            "labels": {LABEL: label},
            "annotations": {RELEASED: released_at},
        }
        patch = {"metadata": metadata, "spec": spec}
        return await self._kube.patch(LEASES, self._name, patch, namespace=self._namespace) is not None

    def _stamp(self) -> str:
        return self._now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def _spec(lease: Object) -> dict[str, Any]:
    return lease.get("spec") or {}
