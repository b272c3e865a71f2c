"""Keeps an outage from filling the log: one line a minute for each failure.

No information is lost: Temporal shows the number of attempts and the last error of each pending activity.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Hashable

from activities.ec2.errors import EC2Error
from activities.kubernetes.errors import ApiError

SILENCE_SECONDS = 60.0


class LogRateLimiter:
    """Allows one log line a minute for each failure."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._last_lines: dict[Hashable, tuple[float, int]] = {}

    def count(self, message_key: Hashable) -> int | None:
        """How many lines were withheld since the last one; None if this one is withheld too."""
        instant = self._clock()
        last, withheld = self._last_lines.get(message_key, (float("-inf"), 0))
        if instant < last + SILENCE_SECONDS:
            self._last_lines[message_key] = (last, withheld + 1)
            return None
        self._last_lines = {
            key: entry for key, entry in self._last_lines.items() if instant < entry[0] + 2 * SILENCE_SECONDS
        }
        self._last_lines[message_key] = (instant, 0)
        return withheld


class ActivityFailureFilter(logging.Filter):
    """Passes one record a minute for each activity and type of error, with the number of those that it withheld."""

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
        if isinstance(error, ApiError | EC2Error):  # its message needs no traceback
            record.exc_info = None
            record.error = str(error)
        return withheld is not None
