"""Asks ARC which zones the cluster is shifted away from (AWS-016, ACT-15). No new node is launched there meanwhile."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from activities import loggers
from activities.ec2.client import Ec2
from activities.ec2.cluster import arn_of
from activities.ec2.errors import EC2Error, translated
from tenon.ec2.zonal_shifts import shifted_zones

log = loggers.INSTANCE_TYPES

POLL_SECONDS = 30.0
"""How old the answer of ARC may be (ACT-15)."""


class ZonalShifts:
    """The zonal shifts and autoshifts that ARC applies to one cluster. Thread-safe."""

    def __init__(self, clients: Ec2, cluster: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._clients = clients
        self._cluster = cluster
        self._clock = clock
        self._lock = threading.Lock()
        self._arn = ""
        self._away: frozenset[str] = frozenset()
        self._read_again_at = float("-inf")

    def away(self) -> frozenset[str]:
        """The IDs of the zones that no node may be launched in. If ARC does not answer, the last known ones."""
        with self._lock:
            now = self._clock()
            if now >= self._read_again_at:
                self._read_again_at = now + POLL_SECONDS
                try:
                    self._away = self._read()
                except EC2Error as error:
                    log.warning(
                        "The worker failed to ask ARC for zonal shifts and keeps the last known ones",
                        extra={"zones": sorted(self._away), "error": str(error)},
                    )
            return self._away

    def forget(self) -> None:
        """Ask again when the zones are needed next."""
        with self._lock:
            self._read_again_at = float("-inf")

    def _read(self) -> frozenset[str]:
        self._arn = self._arn or arn_of(self._clients, self._cluster)
        with translated("GetManagedResource"):
            return shifted_zones(self._clients.zonal_shift.get_managed_resource(resourceIdentifier=self._arn))
