"""What an operator injects into calls (errors, latency, rate limits), and the record of calls."""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from threading import Lock
from typing import Any, ClassVar

from pydantic import ConfigDict

CALL_LIMIT = 20_000
"""Maximum number of recorded calls. The oldest are dropped."""


@dataclass
class Fault:
    """An error, a delay, or both, for the next ``count`` calls of an action (None: until cleared).

    With ``after_effect`` the action is carried out and only its answer is replaced, as when a connection breaks after
    EC2 acted. Without ``code`` the call is only delayed. With a ``chance`` below 1 only that share of calls is
    affected, chosen by ``seed``. ``label`` is a name to clear the fault by. With a ``value`` only calls that have this
    value in one of their parameters are affected, such as a tag, a launch template or a subnet.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    action: str = "*"
    code: str = ""
    status: int = 400
    message: str = ""
    count: int | None = 1
    latency_seconds: float = 0.0
    after_effect: bool = False
    chance: float = 1.0
    seed: int = 0
    label: str = ""
    value: str = ""

    def __post_init__(self) -> None:
        self._random = random.Random(self.seed)
        if not 0 <= self.chance <= 1:
            raise ValueError(f"chance {self.chance} is out of bounds: give 0 to 1")
        if not 100 <= self.status <= 599:
            raise ValueError(f"status {self.status} is not an HTTP status: give 400 to 599")
        if not 0 <= self.latency_seconds <= 600:
            raise ValueError(f"latency_seconds {self.latency_seconds} is out of bounds: give 0 to 600")
        if self.count is not None and self.count < 1:
            raise ValueError(f"count {self.count} is out of bounds: give 1 or more, or null for no limit")

    def meets(self, action: str, parameters: Mapping[str, str]) -> bool:
        """Whether the fault applies to the next call, of this action. Draws a random number if ``chance`` is
        below 1. A dry run has no effect, so a fault that follows an effect is kept for a call with one.
        """
        if self.after_effect and parameters.get("DryRun") == "true":
            return False
        if self.value and self.value not in parameters.values():
            return False
        return self.action in ("*", action) and (self.chance >= 1 or self._random.random() < self.chance)


class FaultTable:
    """The pending faults, in the order in which they were injected."""

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._lock = Lock()

    def add(self, fault: Fault) -> None:
        with self._lock:
            self._faults.append(fault)

    def clear(self, action: str = "", label: str = "") -> None:
        """Remove all faults, or those of one action or label."""
        with self._lock:
            self._faults = [
                fault
                for fault in self._faults
                if (action and fault.action != action) or (label and fault.label != label)
            ]

    def listing(self) -> list[dict[str, Any]]:
        with self._lock:
            return [asdict(fault) for fault in self._faults]

    def next(self, action: str, parameters: Mapping[str, str]) -> Fault | None:
        """The fault that applies to this call. Uses up one of its count. A call has at most one fault."""
        with self._lock:
            for fault in self._faults:
                if fault.meets(action, parameters):
                    if fault.count is not None:
                        fault.count -= 1
                        if fault.count == 0:
                            self._faults.remove(fault)
                    return fault
        return None


class Throttle:
    """A token bucket for each action with a limit, and a shared one for all others if ``*`` has a limit."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._limits: dict[str, tuple[float, float]] = {}
        self._buckets: dict[str, tuple[float, float]] = {}
        self._lock = Lock()

    def limit(self, action: str, rate: float, burst: float) -> None:
        """Allow ``burst`` calls at once and ``rate`` calls per second after that."""
        if rate < 0 or burst < 1:
            raise ValueError(f"A limit of {rate} calls a second with a burst of {burst} lets nothing through")
        with self._lock:
            self._limits[action] = (rate, burst)
            self._buckets[action] = (burst, self._clock())

    def clear(self) -> None:
        with self._lock:
            self._limits.clear()
            self._buckets.clear()

    def allows(self, action: str) -> bool:
        """Take a token for a call. Returns False if there is none."""
        with self._lock:
            limit = action if action in self._limits else "*"
            if limit not in self._limits:
                return True
            rate, burst = self._limits[limit]
            tokens, since = self._buckets[limit]
            now = self._clock()
            tokens = min(burst, tokens + (now - since) * rate)
            allowed = tokens >= 1
            self._buckets[limit] = (tokens - 1 if allowed else tokens, now)
            return allowed


class CallLog:
    """The calls received, for assertions in tests."""

    def __init__(self) -> None:
        self._calls: deque[dict[str, Any]] = deque(maxlen=CALL_LIMIT)

    def add(self, service: str, action: str, parameters: dict[str, str], status: int, error: str) -> None:
        """Record a call. ``parameters`` are those of the form; user data is left out."""
        shown = {name: value[:500] for name, value in parameters.items() if "UserData" not in name}
        entry = {"service": service, "action": action, "parameters": shown, "status": status, "error": error}
        self._calls.append({"time": time.time(), **entry})

    def listing(self, action: str = "") -> list[dict[str, Any]]:
        return [call for call in list(self._calls) if not action or call["action"] == action]

    def clear(self) -> None:
        self._calls.clear()
