"""The request limits of one AWS account, with EC2's documented sizes: token buckets that all its clusters share.

Each action has its own bucket, whose size depends on the kind of the action. Launches and terminations also take a
token for each instance. A call that finds one of its buckets empty takes nothing from the others.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from threading import Lock
from typing import Any


@dataclass(frozen=True)
class Size:
    """The tokens that a full bucket holds, and the tokens added per second."""

    burst: float
    refill: float


CHANGES = Size(50, 5)
READS = Size(100, 20)
WHOLE_READS = Size(50, 10)
"""Bucket for reads with neither a filter nor a page size. Instance IDs do not count as a filter."""
WHOLE = frozenset({"DescribeInstances", "DescribeInstanceStatus", "DescribeVolumes", "DescribeSecurityGroups"})
"""Actions that have a smaller bucket for such reads."""
SIZES: Mapping[str, Size] = {
    "CreateTags": Size(100, 10),
    "DeleteTags": Size(100, 10),
    "CreateLaunchTemplateVersion": Size(100, 5),
    "ModifyLaunchTemplate": Size(100, 5),
    "ModifyInstanceMetadataOptions": Size(100, 5),
    "CreateNetworkInterface": Size(100, 5),
    "AssignPrivateIpAddresses": Size(100, 5),
    "DescribeCapacityBlockOfferings": Size(10, 0.15),
}
"""Actions whose bucket size differs from that of their kind."""
LAUNCHED = "RunInstances resource tokens"
ENDED = "TerminateInstances resource tokens"
RESOURCES: Mapping[str, Size] = {LAUNCHED: Size(1000, 2), ENDED: Size(1000, 20)}
READING = ("Describe", "Get", "List")
_INSTANCE_ID = re.compile(r"InstanceId\.\d+")


class Buckets:
    """The buckets of an account. ``clock`` returns seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = Lock()
        self._levels: dict[str, tuple[float, float]] = {}
        self._refused: Counter[str] = Counter()
        self.enforced = True

    def refused_by(self, action: str, parameters: Mapping[str, str]) -> str:
        """Take the tokens of a call. Returns the name of the first bucket that lacks them, or an empty string."""
        if not self.enforced:
            return ""
        with self._lock:
            now = self._clock()
            names = [
                (name, size, tokens, self._level(name, size, now)) for name, size, tokens in costs(action, parameters)
            ]
            for name, _, tokens, level in names:
                if level < tokens:
                    self._refused[name] += 1
                    return name
            for name, _, tokens, level in names:
                self._levels[name] = level - tokens, now
        return ""

    def enforce(self, expectation: bool) -> None:
        """Turn the limits on, with full buckets, or off."""
        self.fill()
        self.enforced = expectation

    def fill(self) -> None:
        """Fill every bucket and clear the counts of refused calls."""
        with self._lock:
            self._levels.clear()
            self._refused.clear()

    def listing(self) -> dict[str, Any]:
        """Whether the limits are enforced, and how many calls each bucket refused."""
        with self._lock:
            return {"enforced": self.enforced, "refused": dict(self._refused)}

    def _level(self, name: str, size: Size, now: float) -> float:
        level, since = self._levels.get(name, (size.burst, now))
        return min(size.burst, level + (now - since) * size.refill)


def costs(action: str, parameters: Mapping[str, str]) -> Iterable[tuple[str, Size, float]]:
    """The buckets that an EC2 call uses, with their sizes and the tokens that it takes from each."""
    if action.startswith(READING):
        if action in WHOLE and not _narrowed(parameters):
            yield f"{action} without filter or pages", WHOLE_READS, 1
        else:
            yield action, SIZES.get(action, READS), 1
        return
    yield action, SIZES.get(action, CHANGES), 1
    if action == "CreateFleet":
        yield LAUNCHED, RESOURCES[LAUNCHED], float(parameters.get("TargetCapacitySpecification.TotalTargetCapacity", 1))
    elif action == "RunInstances":
        yield LAUNCHED, RESOURCES[LAUNCHED], float(parameters.get("MaxCount", 1))
    elif action == "TerminateInstances":
        yield ENDED, RESOURCES[ENDED], sum(1 for name in parameters if _INSTANCE_ID.fullmatch(name))


def _narrowed(parameters: Mapping[str, str]) -> bool:
    return any(name.startswith("Filter.") or name in ("MaxResults", "NextToken") for name in parameters)
