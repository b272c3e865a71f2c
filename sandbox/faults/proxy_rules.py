"""The rules of the API server's proxy, which requests it stalls, holds or fails, and the record of requests."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from dataclasses import asdict, dataclass, field
from typing import Any, TypeVar

CALL_LIMIT = 50_000
"""Maximum number of recorded requests. The oldest are dropped."""


@dataclass
class Rule:
    """Selects requests, and how many of them (None: until cleared). An empty method or path matches all.

    The method of a watch is ``WATCH``. The path is a regular expression that is searched for.
    """

    method: str = ""
    path: str = ""
    count: int | None = 1
    after_effect: bool = False

    def __post_init__(self) -> None:
        try:
            self.pattern = re.compile(self.path)
        except re.error as error:
            raise ValueError(f"path {self.path!r} is not a regular expression: {error}") from error
        if self.count is not None and self.count < 1:
            raise ValueError(f"count {self.count} is out of bounds: give 1 or more, or null for no limit")

    def fits(self, method: str, path: str) -> bool:
        """Whether the rule matches a request."""
        return self.method.upper() in ("", "*", method) and self.pattern.search(path) is not None


@dataclass
class Hold(Rule):
    """Makes a request wait before it reaches the server, or its answer wait after it took effect."""


@dataclass
class ProxyFault(Rule):
    """Answers a request with an error, delays it, or both. A status of 0 only delays it."""

    status: int = 0
    reason: str = ""
    message: str = ""
    latency_seconds: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.status and not 400 <= self.status <= 599:
            raise ValueError(f"status {self.status} is not an error: give 400 to 599, or 0 for latency alone")
        if not 0 <= self.latency_seconds <= 600:
            raise ValueError(f"latency_seconds {self.latency_seconds} is out of bounds: give 0 to 600")

    def body(self) -> dict[str, Any]:
        """The error as a Kubernetes Status."""
        message = self.message or f"{self.reason or self.status}, as injected into the proxy"
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        return {**status, "message": message, "reason": self.reason, "code": self.status}


AnyRule = TypeVar("AnyRule", bound=Rule)


@dataclass
class ProxyRules:
    """All active rules. Use it on one event loop."""

    holds: list[Hold] = field(default_factory=list)
    faults: list[ProxyFault] = field(default_factory=list)
    stalled: set[str] = field(default_factory=set)
    """Plurals whose watches are stalled. An empty string means all."""
    delays: dict[str, float] = field(default_factory=dict)
    """Plural -> the seconds by which its watches are late."""
    calls: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=CALL_LIMIT))
    held_count: int = 0
    _released: asyncio.Event = field(default_factory=asyncio.Event)

    def next_hold(self, method: str, path: str) -> Hold | None:
        """The hold that matches this request. Uses up one of its count."""
        return _take(self.holds, method, path)

    def next_fault(self, method: str, path: str) -> ProxyFault | None:
        """The fault that matches this request. Uses up one of its count."""
        return _take(self.faults, method, path)

    async def wait(self) -> None:
        """Hold the calling request until the next release."""
        self.held_count += 1
        try:
            await self._released.wait()
        finally:
            self.held_count -= 1

    def stalls(self, plural: str) -> bool:
        """Whether the watches of a resource are stalled."""
        return bool({"", plural} & self.stalled)

    async def flow(self, plural: str) -> None:
        """Wait while the watches of a resource are stalled."""
        while self.stalls(plural):
            await self._released.wait()

    def release(self) -> None:
        """Release everything that is held or stalled, and end all holds and stalls."""
        self.holds.clear()
        self.stalled.clear()
        self._released.set()  # requests that wait now continue; later ones wait for the next release
        self._released = asyncio.Event()

    def clear(self) -> None:
        """Release everything and end the faults and delays."""
        self.faults.clear()
        self.delays.clear()
        self.release()

    def record(self, method: str, path: str, query: str, agent: str) -> dict[str, Any]:
        """Record a request. Its status is filled in when it is answered."""
        call: dict[str, Any] = {"method": method, "path": path, "query": query, "status": None, "user_agent": agent}
        self.calls.append(call)
        return call

    def listing(self) -> dict[str, Any]:
        """The active rules, for display."""
        return {
            "held": self.held_count,
            "stalled": sorted(self.stalled),
            "delays": dict(self.delays),
            "holds": [asdict(hold) for hold in self.holds],
            "faults": [asdict(fault) for fault in self.faults],
        }


def _take(rules: list[AnyRule], method: str, path: str) -> AnyRule | None:
    for rule in rules:
        if rule.fits(method, path):
            if rule.count is not None:
                rule.count -= 1
                if rule.count == 0:
                    rules.remove(rule)
            return rule
    return None


def plural_of(path: str) -> str:
    """The resource that a collection's path names, such as ``pods``."""
    return path.rstrip("/").rpartition("/")[2]
