"""Sets how often the resources of an EC2NodeClass are looked up in AWS, and caches the results in between."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Generic, TypeVar

Found = TypeVar("Found")


@dataclass(frozen=True, slots=True)
class Refresh:
    """The settings AMI_, SUBNET_ and SECURITY_GROUP_REFRESH_INTERVAL."""

    images: timedelta = timedelta(minutes=10)
    subnets: timedelta = timedelta(minutes=10)
    security_groups: timedelta = timedelta(minutes=10)

    @property
    def period(self) -> timedelta:
        """How often a node class is resolved: the shortest of the intervals."""
        return min(self.images, self.subnets, self.security_groups)

    def kept(self, interval: timedelta) -> float:
        """Cache TTL in seconds; 0 if every resolve queries EC2 anyway."""
        return interval.total_seconds() if interval > self.period else 0.0


DEFAULT = Refresh()


class TtlCache(Generic[Found]):
    """Caches answers by request for a limited time. Empty answers are not cached. Thread-safe."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._entries: dict[str, tuple[float, list[Found]]] = {}

    def get(self, cache_key: str, ask: Callable[[], list[Found]]) -> list[Found]:
        """The cached answer for the key ``cache_key``. If there is none or it has expired, the answer of ``ask``."""
        now = self._clock()
        with self._lock:
            self._entries = {key: cached for key, cached in self._entries.items() if cached[0] > now}
            if cache_key in self._entries:
                return self._entries[cache_key][1]
        resources = ask()
        if resources and self._seconds:
            with self._lock:
                self._entries[cache_key] = (now + self._seconds, resources)
        return resources
