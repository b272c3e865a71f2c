"""Keeps an outage from filling the log: one line a minute for each thing that fails.

Nothing that matters is lost by it: Temporal shows of each pending activity how often it was tried and its last error.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable

from activities.ec2.errors import EC2Error
from activities.kubernetes.errors import ApiError

SILENCE_SECONDS = 60.0


class LogRateLimiter:
    """Says which repetitions of a thing are told: one a minute."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[Hashable, tuple[float, int]] = {}

    def count(self, thing: Hashable) -> int | None:
        """None when this repetition is to be kept quiet, else how many were kept quiet before it."""
        instant = self._clock()
        told, withheld = self._told.get(thing, (float("-inf"), 0))
        if instant < told + SILENCE_SECONDS:
            self._told[thing] = (told, withheld + 1)
            return None
        self._told = {key: entry for key, entry in self._told.items() if instant < entry[0] + 2 * SILENCE_SECONDS}
        self._told[thing] = (instant, 0)
        return withheld


class OnceAMinute(logging.Filter):
    """Lets one record a minute pass for each activity and type of error; it tells how many it held back before."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self._log_limiter = LogRateLimiter(clock)

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return True
        activity = getattr(record, "temporal_activity", None) or {}
        withheld = self._log_limiter.count(
            (activity.get("activity_type", ""), type(error).__name__, getattr(error, "type", ""))
        )
        if withheld:
            record.withheld = withheld
        if isinstance(error, ApiError | EC2Error):  # its sentence says all
            record.exc_info = None
            record.error = str(error)
        return withheld is not None
