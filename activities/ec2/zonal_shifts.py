"""Asks ARC which zones the cluster is shifted away from (AWS-016, ACT-15). No new node is launched there meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from activities import loggers
from activities.ec2.client import Ec2
from activities.ec2.cluster import arn_of
from activities.ec2.errors import EC2Error, translated
from tenon.ec2.instances.zonal_shifts import shifted_zones, without_zones
from tenon.scheduling.model import InstanceType

log = loggers.INSTANCE_TYPES

POLL_SECONDS = 30.0
"""How old the answer of ARC may be (ACT-15)."""
FIRST_RETRY_SECONDS = 2.0
"""Seconds until ARC is asked again if it does not answer. They double up to POLL_SECONDS, because callers wait."""
MAX_MARKED = 20_000
"""How many types are remembered with the offerings that a shift leaves them."""


class ZonalShifts:
    """The zonal shifts and autoshifts that ARC applies to one cluster. Thread-safe."""

    def __init__(self, clients: Ec2, cluster: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clients = clients
        self._cluster = cluster
        self._clock = clock
        self._lock = threading.Lock()
        self._request_lock = threading.Lock()
        """Held by the thread that asks ARC. Every launch and every plan needs the zones, so none waits for another's
        question if an earlier answer is known."""
        self._arn = ""
        self._has_asked = False
        """Whether ARC was asked once. Until then, every caller waits for the answer."""
        self._retry_after = FIRST_RETRY_SECONDS
        """How soon ARC is asked again if it does not answer."""
        self._away: frozenset[str] = frozenset()
        self._refusal = ""
        self._read_again_at = float("-inf")
        self._marked: dict[int, tuple[InstanceType, InstanceType]] = {}
        """By the id of a type: the type, and how it is sold while `_marked_for` are the zones."""
        self._marked_for = self._away

    def away(self) -> frozenset[str]:
        """The IDs of the zones that no node may be launched in. If ARC does not answer, the last known ones."""
        if self._is_due() and self._request_lock.acquire(blocking=not self._has_asked):
            try:
                if self._is_due():  # otherwise another thread has asked meanwhile
                    self._ask()
            finally:
                self._request_lock.release()
        with self._lock:
            return self._away

    def refusal(self) -> str:
        """Why AWS refused the last question about the zones, and what to do; empty if it answered or was busy."""
        with self._lock:
            return self._refusal

    def without(self, instance_types: list[InstanceType]) -> list[InstanceType]:
        """The types without the offerings in the shifted zones.

        A type gives the same object each time, because the scheduling engine remembers what it computed for it.
        """
        away = self.away()
        if not away:
            return instance_types
        with self._lock:
            if self._marked_for != away or len(self._marked) > MAX_MARKED:
                self._marked, self._marked_for = {}, away
            new = [instance_type for instance_type in instance_types if id(instance_type) not in self._marked]
            self._marked |= {
                id(instance_type): (instance_type, marked)
                for instance_type, marked in zip(new, without_zones(new, away), strict=True)
            }
            return [self._marked[id(instance_type)][1] for instance_type in instance_types]

    def forget(self) -> None:
        """Ask again when the zones are needed next."""
        with self._lock:
            self._read_again_at = float("-inf")

    def _is_due(self) -> bool:
        with self._lock:
            return self._clock() >= self._read_again_at

    def _ask(self) -> None:
        read_again_at, refusal = self._clock() + POLL_SECONDS, ""
        try:
            away = self._read()
            self._retry_after = POLL_SECONDS
        except EC2Error as error:
            away = self._away
            if error.retryable:
                read_again_at = self._clock() + self._retry_after
                self._retry_after = min(2 * self._retry_after, POLL_SECONDS)
            else:
                refusal = error.explained
            log.warning(
                "The worker failed to ask ARC for zonal shifts and keeps the last known ones",
                extra={"zones": sorted(away), "error": str(error)},
            )
        with self._lock:
            self._away, self._refusal = away, refusal
            self._read_again_at, self._has_asked = read_again_at, True

    def _read(self) -> frozenset[str]:
        self._arn = self._arn or arn_of(self._clients, self._cluster)
        with translated("GetManagedResource"):
            return shifted_zones(self._clients.zonal_shift.get_managed_resource(resourceIdentifier=self._arn))
